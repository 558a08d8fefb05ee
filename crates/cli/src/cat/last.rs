//! The last records of all that pass.

use super::merge::Sink;
use super::print::Printer;
use super::source::{Entry, Source};
use crate::error::CliError;
use crate::limits::LAST_RECORD_BYTES_MAX;
use std::collections::VecDeque;

/// Keeps the last so many records, and prints them in the end.
pub(super) struct Last<'a> {
    count: usize,
    kept: VecDeque<Kept>,
    printer: &'a mut Printer,
}

/// A record with all its pieces, and whose it is.
#[derive(Default)]
struct Kept {
    name: String,
    bytes: Vec<u8>,
}

impl<'a> Last<'a> {
    pub(super) fn new(count: usize, printer: &'a mut Printer) -> Self {
        Self {
            count,
            kept: VecDeque::new(),
            printer,
        }
    }

    pub(super) fn print(self) -> Result<(), CliError> {
        for kept in self.kept {
            self.printer.print(&kept.name, &kept.bytes, false)?;
        }
        Ok(())
    }
}

impl Sink for Last<'_> {
    fn take(&mut self, source: &Source, entry: Entry) -> Result<(), CliError> {
        if entry.goes_on
            && let Some(kept) = self.kept.back_mut()
        {
            if kept.bytes.len() < LAST_RECORD_BYTES_MAX {
                kept.bytes.extend_from_slice(source.bytes(entry));
            }
            return Ok(());
        }
        // The memory of the oldest record serves the newest.
        let mut kept = match self.kept.len() < self.count {
            true => Kept::default(),
            false => self.kept.pop_front().unwrap_or_default(),
        };
        kept.name.clear();
        kept.name.push_str(&source.name);
        kept.bytes.clear();
        kept.bytes.extend_from_slice(source.bytes(entry));
        self.kept.push_back(kept);
        Ok(())
    }

    fn before_wait(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    fn failed(&mut self, error: CliError) -> Result<(), CliError> {
        self.printer.failed(error)
    }
}
