//! The consuming end of a ring: peek and release. It trusts nothing that it reads.

use crate::header::RingState;
use crate::ring::Ring;
use crate::sync::{Ordering, fence, is_kept, labelled};
use crate::{RingError, sys};
use std::sync::Arc;

/// The reading end of one ring.
#[derive(Debug)]
pub struct Consumer {
    ring: Arc<Ring>,
    consumed: u64,
}

impl Consumer {
    /// Reads on where the ring's `consumed` stands.
    pub fn new(ring: Arc<Ring>) -> Self {
        // Relaxed: only consumers write it, and there is one at a time.
        let consumed = ring.header().consumed.load(Ordering::Relaxed);
        Self { ring, consumed }
    }

    /// Reads on behind what the given epoch covers, see `spec/session.md`: after a kill the position in the
    /// ring's cells can be ahead of `consumed`.
    pub fn resume(ring: Arc<Ring>, epoch: u64) -> Self {
        let mut consumer = Self::new(ring);
        let mut consumed = consumer.consumed;
        let is_ahead = |[position]: &[u64; 1]| {
            let is_ahead = *position >= consumed;
            consumed = consumed.max(*position);
            is_ahead
        };
        consumer.ring.header().drained.newest(epoch, is_ahead);
        consumer.consumed = consumed;
        consumer
    }

    /// As [`Consumer::resume`], for a new drain: notes for an epoch that was never published are
    /// struck out, because the next epoch will have the same number.
    pub fn adopt(ring: Arc<Ring>, epoch: u64) -> Self {
        ring.header().drained.strike_after(epoch);
        Self::resume(ring, epoch)
    }

    /// Makes the position that was found the ring's own, so that no epoch is needed to find it again. For a drain that
    /// takes the ring over from another one, before it notes epochs of its own.
    pub fn settle(&self) {
        let header = self.ring.header();
        // SYNC(release): as for `release`.
        header
            .consumed
            .store(self.consumed, labelled("settle.store", Ordering::Release));
        // SYNC(cell): a reader after our death finds the position before it finds the cells empty.
        fence(Ordering::Release);
        header.drained.strike_after(0);
    }

    /// Ring that is read.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Position up to which the ring has been read.
    pub fn position(&self) -> u64 {
        self.consumed
    }

    /// Bytes that are committed and not read. Reads the producer's position once.
    ///
    /// # Errors
    /// When the position breaks the ring's rules; the caller quarantines the ring.
    pub fn pending_bytes(&self) -> Result<usize, RingError> {
        // SYNC(commit): the bytes below the position are visible.
        let committed = self
            .ring
            .header()
            .committed
            .load(labelled("commit.load", Ordering::Acquire));
        let pending = committed.wrapping_sub(self.consumed);
        if pending > self.ring.capacity_bytes() as u64 || !pending.is_multiple_of(8) {
            return Err(RingError::Damaged {
                what: "ring",
                field: "committed position",
                found: committed,
                expected: "a multiple of 8, at most one ring ahead of the consumed position",
            });
        }
        Ok(pending as usize)
    }

    /// Copies bytes from `skip` bytes behind the consumed position; together at most the capacity.
    pub fn copy_out(&self, skip: usize, out: &mut [u8]) {
        self.ring.copy_out(self.consumed.wrapping_add(skip as u64), out);
    }

    /// Writes over bytes from `skip` bytes behind the consumed position: for a recoverer that mends the ring of a dead
    /// process, whose session it has locked.
    #[cfg(not(loom))]
    pub fn mend(&self, skip: usize, bytes: &[u8]) {
        crate::ring::write_at(&self.ring, self.consumed.wrapping_add(skip as u64), bytes);
    }

    /// Stores that so many bytes are committed and not read: as [`Consumer::mend`].
    pub fn mend_pending(&self, bytes: usize) {
        let committed = self.consumed.wrapping_add(bytes as u64);
        // Relaxed: the process is dead.
        self.ring.header().committed.store(committed, Ordering::Relaxed);
    }

    /// Position of the newest cell up to an epoch. `None` where no cell is whole.
    pub fn noted_position(&self, epoch: u64) -> Option<u64> {
        let [position] = self.ring.header().drained.newest(epoch, |_| true)?;
        Some(position)
    }

    /// Takes the position of the newest cell up to an epoch for the ring's own, where that one is damaged: as
    /// [`Consumer::mend`]. `false` where no cell is whole.
    pub fn mend_position(&mut self, epoch: u64) -> bool {
        let Some(position) = self.noted_position(epoch) else {
            return false;
        };
        // Relaxed: the process is dead.
        self.ring.header().consumed.store(position, Ordering::Relaxed);
        self.consumed = position;
        true
    }

    /// Notes in the ring that `length` bytes will be done with when `epoch` is committed.
    pub fn note_drained(&self, length: usize, epoch: u64, committed_epoch: u64) {
        let position = self.consumed.wrapping_add(length as u64);
        self.ring
            .header()
            .drained
            .note([position], epoch, committed_epoch);
    }

    /// Gives `length` bytes back to the producer and wakes it when it waits for half of the ring.
    pub fn release(&mut self, length: usize) {
        self.consumed = self.consumed.wrapping_add(length as u64);
        let header = self.ring.header();
        // SYNC(release): we have finished with the bytes.
        header
            .consumed
            .store(self.consumed, labelled("release.store", Ordering::Release));
        // SYNC(park)
        if is_kept("park.consumer") {
            fence(Ordering::SeqCst);
        }
        // Relaxed: ordered by the fence; a stale 0 is excluded by the producer's own fence.
        if header.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Relaxed: the producer has stopped at this position, so it is exact while it waits.
        let used = header
            .committed
            .load(Ordering::Relaxed)
            .wrapping_sub(self.consumed);
        if used <= self.ring.capacity_bytes() as u64 / 2 {
            // Relaxed: the sequence below carries the order.
            header.waiting.store(0, Ordering::Relaxed);
            // SYNC(space)
            header.space_sequence.fetch_add(1, Ordering::Release);
            sys::futex_wake(&header.space_sequence);
        }
    }

    /// Takes the ring out of service after it broke a rule. Its records cannot be distinguished from damage.
    pub fn quarantine(&self) {
        self.ring.header().store_state(RingState::Quarantined);
    }

    /// Returns whether the ring's thread has ended and everything is read, so that the ring can go to another thread.
    pub fn is_finished(&self) -> bool {
        self.ring.header().state() == RingState::Ended && matches!(self.pending_bytes(), Ok(0))
    }
}
