//! The drain's view of one ring: a private window of bytes that were copied out once and are parsed only here.

use crate::layout::{Record, Thread};
use crate::limits::{COPY_BYTES, FIRST_WINDOW_BYTES, SPARE_WINDOWS_MAX, WINDOW_BYTES};
use logdrive_ring::{Calibration, Consumer, Ring, RingError};
use logdrive_wire::record::{HEADER_BYTES, is_length};
use logdrive_wire::{RecordHeader, WireError};
use std::sync::Arc;

/// The header of the record at a reader's front, with times beyond all others where there is none.
pub(crate) const NO_RECORD: u64 = u64::MAX;

/// Reads one ring.
#[derive(Debug)]
pub(crate) struct RingReader {
    pub(crate) consumer: Consumer,
    /// The number of the input whose ring it is.
    pub(crate) input: usize,
    window: Vec<u8>,
    start: usize,
    end: usize,
    /// Times beyond this are taken for it: a clock that is wrong must not hold its ring back.
    latest_ticks: u64,
    /// Bytes that were taken since the last release.
    taken: usize,
    /// Bytes behind the consumed position that this pass may take: what was committed when it began.
    observed: usize,
    /// End of the ring, once its process has ended or has said goodbye.
    last: Option<u64>,
    /// The record at the front; only valid when `time_ticks` is not [`NO_RECORD`].
    pub(crate) head: RecordHeader,
    /// The time of the newest record that was parsed.
    newest_ticks: u64,
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
    Record {
        ring: u32,
        position: u64,
        cause: WireError,
    },
}

impl RingReader {
    pub(crate) fn new(consumer: Consumer, input: usize) -> Self {
        let ring = consumer.ring();
        Self {
            thread_id: ring.thread_id(),
            thread_name: ring.thread_name(),
            consumer,
            input,
            window: Vec::new(),
            start: 0,
            end: 0,
            latest_ticks: NO_RECORD - 1,
            taken: 0,
            observed: 0,
            last: None,
            newest_ticks: 0,
            head: NOTHING,
            quarantined: false,
        }
    }

    pub(crate) fn ring(&self) -> &Arc<Ring> {
        self.consumer.ring()
    }

    /// Looks at the producer's position once: this pass takes what is committed now. Returns the bytes to take.
    pub(crate) fn observe(
        &mut self,
        spare: &mut Vec<Vec<u8>>,
        latest_ticks: u64,
    ) -> Result<usize, ReadError> {
        self.latest_ticks = latest_ticks;
        self.observed = self.pending_bytes()?;
        let left = self.observed.saturating_sub(self.taken);
        if left > 0 && self.window.is_empty() {
            self.refresh_thread();
            self.window = spare.pop().unwrap_or_else(|| vec![0; FIRST_WINDOW_BYTES]);
        }
        if self.head.time_ticks == NO_RECORD {
            if left > 0 {
                self.look()?;
            }
        } else if self.last.is_some() {
            self.head.time_ticks = self.head.time_ticks.min(latest_ticks);
        }
        Ok(left)
    }

    /// Notes the end of the ring at its present position: records that are committed later are not taken, and the
    /// merge does not wait for them, so that a process that writes after its goodbye does not delay others.
    pub(crate) fn finish(&mut self) {
        // A ring that breaks a rule here does so at the next look, too.
        let pending = self.consumer.pending_bytes().unwrap_or(0);
        self.last = Some(self.consumer.position().wrapping_add(pending as u64));
    }

    /// Bytes that are committed and not released, as far as they are to be taken.
    fn pending_bytes(&self) -> Result<usize, RingError> {
        let pending = self.consumer.pending_bytes()?;
        Ok(match self.last {
            Some(last) => pending.min(last.wrapping_sub(self.consumer.position()) as usize),
            None => pending,
        })
    }

    /// When its thread wrote last, as far as it was read; 0 for never.
    pub(crate) fn newest_ticks(&self) -> u64 {
        self.newest_ticks
    }

    /// Returns whether there is something left to take.
    pub(crate) fn has_more(&self) -> bool {
        !self.quarantined && (self.head.time_ticks != NO_RECORD || self.pending_bytes().unwrap_or(0) > 0)
    }

    /// Copies more of what was observed behind what the window holds; `false` when there is no more.
    fn refill(&mut self) -> bool {
        let held = self.end - self.start;
        let skip = self.taken + held;
        let length = self
            .observed
            .saturating_sub(skip)
            .min(COPY_BYTES)
            .min(WINDOW_BYTES - held);
        if length == 0 || self.window.is_empty() {
            return false;
        }
        self.window.copy_within(self.start..self.end, 0);
        self.start = 0;
        self.end = held + length;
        if self.window.len() < self.end {
            self.window.resize(self.end.next_power_of_two(), 0);
        }
        if let Some(space) = self.window.get_mut(held..held + length) {
            self.consumer.copy_out(skip, space);
        }
        true
    }

    /// Another thread may have taken the ring over while it was empty.
    fn refresh_thread(&mut self) {
        let ring = self.consumer.ring();
        let id = ring.thread_id();
        if id != self.thread_id {
            self.thread_id = id;
            self.thread_name = ring.thread_name();
        }
    }

    /// Reads the header at the front, and copies more in where the record is not whole.
    #[inline(never)]
    pub(crate) fn look(&mut self) -> Result<(), ReadError> {
        loop {
            let front = self.window.get(self.start..self.end).unwrap_or(&[]);
            if let Some(bytes) = front.first_chunk::<HEADER_BYTES>() {
                let header = RecordHeader::decode(bytes).map_err(|cause| self.broken(cause))?;
                if header.length_bytes as usize <= front.len() {
                    let time_ticks = header.time_ticks.min(self.latest_ticks);
                    self.newest_ticks = time_ticks;
                    self.head = RecordHeader { time_ticks, ..header };
                    return Ok(());
                }
            }
            if !self.refill() {
                break;
            }
        }
        let left = self.end - self.start;
        if left > 0 {
            // Producers commit whole records: this one claims more than there is.
            return Err(self.broken(WireError::Truncated {
                offset: 0,
                needed: left + 1,
                left,
            }));
        }
        self.head = NOTHING;
        Ok(())
    }

    fn broken(&self, cause: WireError) -> ReadError {
        let position = self.consumer.position().wrapping_add(self.taken as u64);
        ReadError::Record {
            ring: self.ring().index(),
            position,
            cause,
        }
    }

    /// The bytes behind the header of the record at the front.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        let length = self.head.length_bytes as usize;
        self.window
            .get(self.start + HEADER_BYTES..self.start + length)
            .unwrap_or(&[])
    }

    /// The record at the front, for a layout.
    #[inline]
    pub(crate) fn line(&self, calibration: &Calibration) -> Record<'_> {
        Record {
            unix_ns: calibration.unix_ns(self.head.time_ticks),
            thread: Thread {
                name: &self.thread_name,
                id: self.thread_id,
            },
            payload: self.payload(),
        }
    }

    /// The most records that this pass may still take.
    pub(crate) fn records_at_most(&self) -> u64 {
        (self.observed.saturating_sub(self.taken) / HEADER_BYTES) as u64
    }

    /// Goes on to the next record.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<(), ReadError> {
        if self.advance_in_window() {
            return Ok(());
        }
        self.look()
    }

    /// Goes on to the next record, where the window holds it. Where not, [`look`](Self::look) is to be asked.
    #[inline(always)]
    pub(crate) fn advance_in_window(&mut self) -> bool {
        let length = self.head.length_bytes as usize;
        self.start += length;
        self.taken += length;
        let front = self.window.get(self.start..self.end).unwrap_or(&[]);
        let Some(bytes) = front.first_chunk::<HEADER_BYTES>() else {
            return false;
        };
        let header = RecordHeader::decode_unchecked(bytes);
        if header.length_bytes as usize > front.len() || !is_length(header.length_bytes) {
            return false;
        }
        let time_ticks = header.time_ticks.min(self.latest_ticks);
        self.newest_ticks = time_ticks;
        self.head = RecordHeader { time_ticks, ..header };
        true
    }

    /// Returns whether the record at the front is one of this callsite, and not beyond this time.
    #[inline]
    pub(crate) fn is_before(&self, callsite_id: u32, until_ticks: u64) -> bool {
        self.head.callsite_id == callsite_id && self.head.time_ticks <= until_ticks
    }

    /// Takes records that are like the one at the front: of its callsite, up to a time. As long as `put` takes their
    /// payloads and times, and until the ring has [enough to give back](Self::has_enough). The number of records goes
    /// into `count`, also where an error follows on them.
    #[inline(always)]
    pub(crate) fn take_shared_prefix(
        &mut self,
        until_ticks: u64,
        count: &mut u64,
        mut put: impl FnMut(&Thread<'_>, &[u8], u64) -> bool,
    ) -> Result<(), ReadError> {
        let callsite_id = self.head.callsite_id;
        let latest_ticks = self.latest_ticks;
        loop {
            let thread = Thread {
                name: &self.thread_name,
                id: self.thread_id,
            };
            let mut rest = self.window.get(self.start..self.end).unwrap_or(&[]);
            let before = rest.len();
            let mut records = 0;
            while let Some((payload, time_ticks, behind)) = record_of(rest, callsite_id)
                && let time_ticks = time_ticks.min(latest_ticks)
                && time_ticks <= until_ticks
                && put(&thread, payload, time_ticks)
            {
                rest = behind;
                records += 1;
            }
            *count += records;
            let length = before - rest.len();
            self.start += length;
            self.taken += length;
            self.look()?;
            if length == 0 || self.has_enough() || !self.is_before(callsite_id, until_ticks) {
                return Ok(());
            }
        }
    }

    /// Returns whether so much was taken that its producer is better given room now than at the end of the pass: a
    /// quarter of the ring.
    pub(crate) fn has_enough(&self) -> bool {
        self.taken >= self.ring().capacity_bytes() / 4
    }

    /// Returns whether its process writes nothing more.
    pub(crate) fn is_finishing(&self) -> bool {
        self.last.is_some()
    }

    /// Returns whether records were taken that are not released.
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
        self.observed -= self.taken.min(self.observed);
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
    }
}

/// The payload of the first record, if it is of this callsite, its time, and what is behind the record. `None` where
/// anything is not as it should be: the caller then takes the careful path.
#[inline(always)]
fn record_of(bytes: &[u8], callsite_id: u32) -> Option<(&[u8], u64, &[u8])> {
    let header = RecordHeader::decode_unchecked(bytes.first_chunk()?);
    if header.callsite_id != callsite_id || !is_length(header.length_bytes) {
        return None;
    }
    let (record, behind) = bytes.split_at_checked(header.length_bytes as usize)?;
    Some((record.get(HEADER_BYTES..)?, header.time_ticks, behind))
}

const NOTHING: RecordHeader = RecordHeader {
    length_bytes: 0,
    callsite_id: 0,
    time_ticks: NO_RECORD,
};
