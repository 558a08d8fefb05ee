//! The drain's view of one ring: a private window of bytes that were copied out once and are parsed only here.

use crate::limits::{SPARE_WINDOWS_MAX, WINDOW_BYTES};
use logdrive_ring::{Consumer, Ring, RingError};
use logdrive_wire::{RecordHeader, WireError, record::HEADER_BYTES};
use std::sync::Arc;

/// The header of the record at a reader's front, with times beyond all others where there is none.
pub(crate) const NO_RECORD: u64 = u64::MAX;

/// Reads one ring.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) consumer: Consumer,
    window: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that were taken since the last release.
    taken: usize,
    /// The record at the front; only valid when `time_ticks` is not [`NO_RECORD`].
    pub(crate) head: RecordHeader,
    /// Whether the ring holds more than the window shows.
    pub(crate) has_more: bool,
    pub(crate) thread_id: u64,
    pub(crate) thread_name: String,
    pub(crate) quarantined: bool,
}

/// Why a ring cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Ring(#[from] RingError),
    #[error("ring {ring} at position {position}: {cause}")]
    Record { ring: u32, position: u64, cause: WireError },
}

impl Reader {
    pub(crate) fn new(consumer: Consumer) -> Self {
        let ring = consumer.ring();
        Self {
            thread_id: ring.header().thread_id(),
            thread_name: ring.header().thread_name(),
            consumer,
            window: Vec::new(),
            start: 0,
            end: 0,
            taken: 0,
            head: NOTHING,
            has_more: false,
            quarantined: false,
        }
    }

    pub(crate) fn ring(&self) -> &Arc<Ring> {
        self.consumer.ring()
    }

    /// Looks at the ring once and copies what fits. Returns the bytes now in the window.
    pub(crate) fn fill(&mut self, spare: &mut Vec<Vec<u8>>) -> Result<usize, ReadError> {
        let pending = self.consumer.pending_bytes()?;
        let held = self.end - self.start;
        let skip = self.taken + held;
        let fresh = pending.saturating_sub(skip);
        if fresh == 0 {
            self.has_more = false;
            return Ok(held);
        }
        if held == 0 {
            self.refresh_thread();
        }
        if self.window.is_empty() {
            self.window = spare.pop().unwrap_or_else(|| vec![0; WINDOW_BYTES]);
        }
        if self.start > 0 {
            self.window.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = held;
        }
        let length = fresh.min(WINDOW_BYTES - held);
        self.has_more = length < fresh;
        if let Some(space) = self.window.get_mut(held..held + length) {
            self.consumer.copy_out(skip, space);
            self.end = held + length;
        }
        self.look()?;
        Ok(self.end - self.start)
    }

    /// Another thread may have taken the ring over while it was empty.
    fn refresh_thread(&mut self) {
        let header = self.consumer.ring().header();
        let id = header.thread_id();
        if id != self.thread_id {
            self.thread_id = id;
            self.thread_name = header.thread_name();
        }
    }

    /// Reads the header at the front.
    fn look(&mut self) -> Result<(), ReadError> {
        let front = self.window.get(self.start..self.end).unwrap_or(&[]);
        if front.is_empty() {
            self.head = NOTHING;
            return Ok(());
        }
        let whole = |header: &RecordHeader| header.length_bytes as usize <= front.len();
        let cut = self.has_more && front.len() < HEADER_BYTES;
        self.head = match RecordHeader::decode(front) {
            Ok(header) if whole(&header) => header,
            // The window ends inside of this record; the next fill brings the rest.
            Ok(_) if self.has_more => NOTHING,
            Err(_) if cut => NOTHING,
            Ok(header) => {
                let needed = header.length_bytes as usize;
                return Err(self.broken(WireError::Truncated { offset: 0, needed, left: front.len() }));
            }
            Err(cause) => return Err(self.broken(cause)),
        };
        Ok(())
    }

    fn broken(&self, cause: WireError) -> ReadError {
        let position = self.consumer.position() + self.taken as u64;
        ReadError::Record { ring: self.ring().index(), position, cause }
    }

    /// The bytes behind the header of the record at the front.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        let length = self.head.length_bytes as usize;
        self.window.get(self.start + HEADER_BYTES..self.start + length).unwrap_or(&[])
    }

    /// Goes on to the next record.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<(), ReadError> {
        let length = self.head.length_bytes as usize;
        self.start += length;
        self.taken += length;
        self.look()
    }

    /// Time of the last record that is wholly in the window, where the ring holds more than the window shows:
    /// nothing later may be merged before the rest has been seen.
    pub(crate) fn horizon(&self) -> u64 {
        let mut at = self.start;
        let mut last = self.head.time_ticks;
        while let Some(front) = self.window.get(at..self.end) {
            match RecordHeader::decode(front) {
                Ok(header) if header.length_bytes as usize <= front.len() => {
                    last = header.time_ticks;
                    at += header.length_bytes as usize;
                }
                _ => break,
            }
        }
        last
    }

    /// Whether records were taken that are not released.
    pub(crate) fn has_taken(&self) -> bool {
        self.taken > 0
    }

    /// Notes for the epoch what was taken.
    pub(crate) fn note(&self, epoch: u64, committed_epoch: u64) {
        self.consumer.note_drained(self.taken, epoch, committed_epoch);
    }

    /// Gives what was taken back to the producer.
    pub(crate) fn release(&mut self) {
        self.consumer.release(self.taken);
        self.taken = 0;
    }

    /// Gives an empty window to rings that have records.
    pub(crate) fn park(&mut self, spare: &mut Vec<Vec<u8>>) {
        if self.start == self.end && !self.window.is_empty() {
            let window = std::mem::take(&mut self.window);
            if spare.len() < SPARE_WINDOWS_MAX {
                spare.push(window);
            }
            self.start = 0;
            self.end = 0;
        }
    }

    /// Stops reading for good.
    pub(crate) fn quarantine(&mut self) {
        self.consumer.quarantine();
        self.quarantined = true;
        self.head = NOTHING;
        self.start = self.end;
        self.has_more = false;
    }
}

const NOTHING: RecordHeader = RecordHeader { length_bytes: 0, callsite_id: 0, time_ticks: NO_RECORD };
