//! The last records of a merge.

use crate::error::ReadError;
use crate::limits::LAST_RECORD_BYTES_MAX;
use crate::merge::Sink;
use crate::source::SourceRecord;
use std::collections::VecDeque;

/// Sink that keeps the last so many records, and gives them to another sink in the end.
#[derive(Debug)]
pub struct Last<'a, S> {
    count: usize,
    kept: VecDeque<Kept>,
    inner: &'a mut S,
}

/// A record with all its pieces, and the name of its log.
#[derive(Debug, Default)]
struct Kept {
    name: String,
    unix_ns: u64,
    bytes: Vec<u8>,
    is_shaped: bool,
}

impl<'a, S: Sink> Last<'a, S> {
    /// Returns a sink that keeps `count` records. Failures are passed on at once.
    pub fn new(count: usize, inner: &'a mut S) -> Self {
        Self {
            count,
            kept: VecDeque::new(),
            inner,
        }
    }

    /// Gives away what was kept.
    ///
    /// # Errors
    /// Those of the other sink.
    pub fn finish(self) -> Result<(), S::Error> {
        for kept in self.kept {
            self.inner.take(&SourceRecord {
                name: &kept.name,
                unix_ns: kept.unix_ns,
                bytes: &kept.bytes,
                goes_on: false,
                is_shaped: kept.is_shaped,
            })?;
        }
        Ok(())
    }
}

impl<S: Sink> Sink for Last<'_, S> {
    type Error = S::Error;

    fn take(&mut self, record: &SourceRecord<'_>) -> Result<(), S::Error> {
        if record.goes_on
            && let Some(kept) = self.kept.back_mut()
        {
            if kept.bytes.len() < LAST_RECORD_BYTES_MAX {
                kept.bytes.extend_from_slice(record.bytes);
            }
            return Ok(());
        }
        // The memory of the oldest record serves the newest.
        let mut kept = match self.kept.len() < self.count {
            true => Kept::default(),
            false => self.kept.pop_front().unwrap_or_default(),
        };
        kept.name.clear();
        kept.name.push_str(record.name);
        kept.unix_ns = record.unix_ns;
        kept.bytes.clear();
        kept.is_shaped = record.is_shaped;
        kept.bytes.extend_from_slice(record.bytes);
        self.kept.push_back(kept);
        Ok(())
    }

    fn before_wait(&mut self) -> Result<(), S::Error> {
        Ok(())
    }

    fn failed(&mut self, error: ReadError) -> Result<(), S::Error> {
        self.inner.failed(error)
    }
}
