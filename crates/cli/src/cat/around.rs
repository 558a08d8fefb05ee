//! Records around those that pass: some before and some behind each, and a line between groups that are apart.

use super::print::Printer;
use crate::error::CliError;
use crate::limits::AROUND_BYTES_MAX;
use logdrive_reader::{LineFilter, ReadError, Sink, SourceRecord};
use std::collections::VecDeque;

/// A record that is kept until one behind it passes.
struct Kept {
    name: String,
    bytes: Vec<u8>,
}

/// Sink that takes all records, and prints those that pass with those around them.
pub(super) struct Around<'a> {
    filter: LineFilter,
    before: usize,
    behind: usize,
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    /// Records that are still printed behind the last one that passed.
    left: usize,
    /// Records were left out behind the last one that was printed.
    has_gap: bool,
    has_printed: bool,
    /// The record that was taken last was printed.
    is_printing: bool,
    inner: &'a mut Printer,
}

impl<'a> Around<'a> {
    pub(super) fn new(filter: LineFilter, before: usize, behind: usize, inner: &'a mut Printer) -> Self {
        Self {
            filter,
            before,
            behind,
            kept: VecDeque::new(),
            kept_bytes: 0,
            left: 0,
            has_gap: false,
            has_printed: false,
            is_printing: false,
            inner,
        }
    }

    fn keep(&mut self, record: &SourceRecord<'_>) {
        self.kept_bytes += record.bytes.len();
        self.kept.push_back(Kept {
            name: record.name.to_owned(),
            bytes: record.bytes.to_vec(),
        });
        while self.kept.len() > self.before || self.kept_bytes > AROUND_BYTES_MAX {
            let Some(gone) = self.kept.pop_front() else {
                return;
            };
            self.kept_bytes -= gone.bytes.len();
            self.has_gap = true;
        }
    }
}

impl Sink for Around<'_> {
    type Error = CliError;

    fn take(&mut self, record: &SourceRecord<'_>) -> Result<(), CliError> {
        if record.goes_on {
            if self.is_printing {
                return self.inner.take(record);
            }
            if let Some(last) = self.kept.back_mut() {
                self.kept_bytes += record.bytes.len();
                last.bytes.extend_from_slice(record.bytes);
            }
            return Ok(());
        }
        let passes = self.filter.passes(record.bytes);
        self.is_printing = passes || self.left > 0;
        if !self.is_printing {
            self.keep(record);
            return Ok(());
        }
        self.left = if passes { self.behind } else { self.left - 1 };
        if std::mem::take(&mut self.has_gap) && self.has_printed {
            self.inner.print_gap()?;
        }
        for kept in std::mem::take(&mut self.kept) {
            self.inner.print(&kept.name, &kept.bytes, false)?;
        }
        self.kept_bytes = 0;
        self.has_printed = true;
        self.inner.take(record)
    }

    fn before_wait(&mut self) -> Result<(), CliError> {
        self.inner.before_wait()
    }

    fn failed(&mut self, error: ReadError) -> Result<(), CliError> {
        self.inner.failed(error)
    }
}
