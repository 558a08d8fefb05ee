//! Printing of records as they come from live sessions, and of the last ones of a log file.

use super::print::{PrintOptions, Printer};
use crate::error::CliError;
use crate::filter_args::FilterArgs;
use crate::format_args::Format;
use crate::output::Output;
use crate::paint::ColorChoice;
use jiff::tz::TimeZone;
use logdrive_reader::{Filter, Shape};
use std::io::IsTerminal;
use std::path::Path;

/// Filters and prints lines.
pub(crate) struct Lines {
    pub(crate) filter: Filter,
    format: Format,
    printer: Printer,
}

impl Lines {
    pub(crate) fn new(
        args: &FilterArgs,
        since_ns: Option<u64>,
        format: Format,
        color: ColorChoice,
        zone: Option<TimeZone>,
    ) -> Result<Self, CliError> {
        let paint = color.for_stdout();
        let options = PrintOptions {
            shape: Shape::AsIs,
            paint,
            safe: paint.on || std::io::stdout().is_terminal(),
            with_name: false,
            marked: args.marked(),
            zone,
        };
        Ok(Self {
            filter: args.filter(since_ns, None),
            format,
            printer: Printer::new(options, Output::stdout()?, color.for_stderr()),
        })
    }

    /// Prints a line, as it stands but for colours.
    #[inline]
    pub(crate) fn print(&mut self, line: &[u8]) -> Result<(), CliError> {
        self.printer.print("", line, false)
    }

    /// Prints lines that go on with the record that was printed last.
    pub(crate) fn print_further(&mut self, lines: &[u8]) -> Result<(), CliError> {
        self.printer.print("", lines, true)
    }

    /// Prints records of this file from now on.
    pub(crate) fn set_file(&mut self, path: &Path) {
        self.printer.formatter.set_file(path);
    }

    /// Prints a record of a log file, as it stands or in the form that was asked for.
    pub(crate) fn print_record(&mut self, record: &[u8], is_as_it_stands: bool) -> Result<(), CliError> {
        match is_as_it_stands {
            true => self.print(record),
            false => self.print_past(record, None),
        }
    }

    /// Writes all that was printed.
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        self.printer.finish()
    }

    /// Prints a record of a log file in the format that was asked for, with the process that wrote it, if any is given.
    pub(crate) fn print_past(&mut self, record: &[u8], process: Option<(&str, u32)>) -> Result<(), CliError> {
        let shape = self.format.shape();
        let line = self.printer.formatter.convert(record, shape, process);
        self.print(&line)
    }
}
