//! A look ahead of a delivery: counts the records of its log by the heads of their blocks, so that those of files that are
//! removed before they are read can be told.

use crate::error::EngineError;
use crate::limits::FILE_STARTS_MAX;
use crate::source::{CommittedEnd, SegmentSource};
use crate::state::{DeliveryState, FileStart, LogPosition};
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval at which the backlog is measured.
const BACKLOG_INTERVAL: Duration = Duration::from_secs(1);

/// A look ahead.
#[derive(Debug)]
pub(crate) struct Scout {
    source: SegmentSource,
    /// Number behind the last record that was counted.
    number: u64,
    /// Numbers of the first records of files.
    starts: Vec<FileStart>,
    /// File of the last record that was counted.
    last: Option<LogPosition>,
    looked: Option<Instant>,
}

impl Scout {
    pub(crate) fn new(log: &Path, written: Option<CommittedEnd>, state: &DeliveryState) -> Self {
        Self {
            source: SegmentSource::new(log, state.delivered, written),
            number: state.number,
            starts: state.starts.clone(),
            last: state.delivered,
            looked: None,
        }
    }

    /// Number behind the last record that was counted.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Counts what came since the last look, at most once in an interval. `known` is the state as it was read or written last.
    /// Returns whether another file was found.
    pub(crate) fn look(&mut self, known: &DeliveryState) -> Result<bool, EngineError> {
        if self.looked.is_some_and(|at| at.elapsed() < BACKLOG_INTERVAL) {
            return Ok(false);
        }
        self.looked = Some(Instant::now());
        let mut files: Vec<(LogPosition, u64)> = Vec::new();
        let found = self.source.next_block(|file, records| {
            match files.last_mut().filter(|(last, _)| last.is_same_file(&file)) {
                Some((_, counted)) => *counted += records as u64,
                None => files.push((file, records as u64)),
            }
            false
        });
        if self.source.take_torn() {
            // Up to here records were counted once, of which nothing is known but their number.
            self.number = self.number.max(known.counted);
        }
        let mut has_more = false;
        for (file, counted) in files {
            if self.last.is_none_or(|last| !last.is_same_file(&file)) {
                self.begin_file(file);
                self.last = Some(file);
                has_more = true;
            }
            self.number += counted;
        }
        self.source.take_damages();
        found.map(|_| has_more)
    }

    fn begin_file(&mut self, position: LogPosition) {
        if let Some(start) = self.start_of(position) {
            // Counted by an earlier delivery, with files before it that are gone.
            self.number = start;
            return;
        }
        if self.starts.len() >= FILE_STARTS_MAX {
            self.starts.remove(0);
        }
        self.starts.push(FileStart::new(position, self.number));
    }

    /// Number of the first record of a file.
    pub(crate) fn start_of(&self, position: LogPosition) -> Option<u64> {
        let found = self.starts.iter().rev().find(|start| start.is_of(position));
        found.map(|start| start.number)
    }

    /// Numbers of the first records of files that may still be there.
    pub(crate) fn starts(&mut self, delivered: u64) -> Vec<FileStart> {
        // The last one before what is delivered is of the file that is being read.
        let behind = self.starts.partition_point(|start| start.number <= delivered);
        self.starts.drain(..behind.saturating_sub(1));
        self.starts.clone()
    }
}
