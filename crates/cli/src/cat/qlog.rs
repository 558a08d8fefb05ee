//! Records of quic-go's tracer as a qlog trace.

use super::print::Printer;
use crate::error::CliError;
use crate::output::titled_note;
use crate::paint::Style;
use logdrive_reader::{QlogWriter, ReadError, Sink, SourceRecord};
use std::io::Write;

/// Prints the events of one connection.
pub(super) struct QlogPrinter<'a> {
    printer: &'a mut Printer,
    writer: QlogWriter,
}

impl<'a> QlogPrinter<'a> {
    pub(super) fn new(printer: &'a mut Printer) -> Self {
        let writer = QlogWriter::new();
        Self { printer, writer }
    }

    /// Says what is not in the trace.
    pub(super) fn finish(self) {
        let others: Vec<&str> = self.writer.others().collect();
        if self.writer.is_empty() {
            let text = "no record is an event of quic-go's tracer (clients/go/quicgo)";
            titled_note(self.printer.stderr, Style::Warning, "warning", text);
        } else if !others.is_empty() {
            let text = format_args!(
                "a trace has one connection; others are left out, choose one with --field: {}",
                others.join("; ")
            );
            titled_note(self.printer.stderr, Style::Warning, "warning", text);
        }
    }
}

impl Sink for QlogPrinter<'_> {
    type Error = CliError;

    fn take(&mut self, record: &SourceRecord<'_>) -> Result<(), CliError> {
        if !record.goes_on {
            self.writer.write(&mut self.printer.output.bytes, record.bytes);
        }
        Ok(self.printer.output.flush_if_full()?)
    }

    fn before_wait(&mut self) -> Result<(), CliError> {
        Ok(self.printer.output.flush()?)
    }

    fn failed(&mut self, error: ReadError) -> Result<(), CliError> {
        self.printer.fail(&error.into())
    }
}
