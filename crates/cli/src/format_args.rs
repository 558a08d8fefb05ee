//! The form in which records are printed: one set of words for all commands that print them.

use clap::{Args, ValueEnum};
use logdrive_reader::Shape;

/// Form of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object a line
    Json,
    /// `key=value` pairs
    Logfmt,
}

impl Format {
    /// The form as the reader names it.
    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::Text => Shape::Text,
            Self::Json => Shape::Json,
            Self::Logfmt => Shape::Logfmt,
        }
    }
}

/// Arguments that say in which form records are printed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FormatArgs {
    /// Form in which records are printed, whatever the input: text, json, logfmt
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    format: Option<Format>,
    /// Print JSON lines: short for --format json
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    json: bool,
}

impl FormatArgs {
    /// The form that was asked for.
    pub(crate) fn chosen(self) -> Option<Format> {
        if self.json {
            Some(Format::Json)
        } else {
            self.format
        }
    }
}
