//! Colours: when they are wanted, and which mean what.

use clap::ValueEnum;
use logdrive_drain::console::Console;
use logdrive_wire::Level;
use std::fmt;

/// Value of `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also into pipes and files
    Always,
    /// Never
    Never,
}

impl ColorChoice {
    /// Colours for standard output.
    pub(crate) fn for_stdout(self) -> Paint {
        self.with(Console::stdout())
    }

    /// Colours for standard error.
    pub(crate) fn for_stderr(self) -> Paint {
        self.with(Console::stderr())
    }

    fn with(self, console: Console) -> Paint {
        Paint {
            on: match self {
                Self::Auto => console.colour_wanted(),
                Self::Always => true,
                Self::Never => false,
            },
        }
    }
}

/// Meaning of a piece of output, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// As it is.
    Plain,
    /// Beside the point: times, places, punctuation.
    Dim,
    /// A level.
    Level(Level),
    /// The key of a field.
    Key,
    /// A column's heading, a session's name.
    Title,
    /// All is well.
    Good,
    /// Worth a look.
    Warning,
    /// Wrong.
    Bad,
    /// The name of a file.
    File,
    /// Text that was searched for.
    Found,
}

/// The sequence that ends all colours.
pub(crate) const RESET: &str = "\x1b[0m";

impl Style {
    /// The style of a number that is worth a look when there is one.
    pub(crate) const fn warning_if(is_warning: bool) -> Self {
        if is_warning { Self::Warning } else { Self::Plain }
    }

    /// The sequence that begins it; empty for plain text. Levels are as the layouts paint them.
    pub(crate) const fn sequence(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "\x1b[2m",
            Self::Level(Level::Trace) | Self::File => "\x1b[35m",
            Self::Level(Level::Debug) => "\x1b[34m",
            Self::Level(Level::Info) | Self::Good => "\x1b[32m",
            Self::Level(Level::Warn) | Self::Warning => "\x1b[33m",
            Self::Level(Level::Error) => "\x1b[31m",
            Self::Level(Level::Fatal) | Self::Bad => "\x1b[1;31m",
            Self::Key => "\x1b[36m",
            Self::Title => "\x1b[1m",
            Self::Found => "\x1b[1;7m",
        }
    }
}

/// Paints, or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint {
    /// Whether there are colours.
    pub(crate) on: bool,
}

impl Paint {
    /// Something to print, in its colour.
    pub(crate) fn the<T: fmt::Display>(self, style: Style, what: T) -> Painted<T> {
        Painted {
            paint: self,
            style,
            what,
        }
    }
}

/// See [`Paint::the`].
#[derive(Debug)]
pub(crate) struct Painted<T> {
    paint: Paint,
    style: Style,
    what: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.paint.on || self.style == Style::Plain {
            return self.what.fmt(f);
        }
        f.write_str(self.style.sequence())?;
        self.what.fmt(f)?;
        f.write_str(RESET)
    }
}
