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
        let mut newest = 0;
        for cell in &consumer.ring.header().drained {
            // Relaxed: the writer is dead or is ourselves.
            let cell_epoch = cell.epoch.load(Ordering::Relaxed);
            let position = cell.position.load(Ordering::Relaxed);
            if cell_epoch > newest && cell_epoch <= epoch && position >= consumer.consumed {
                newest = cell_epoch;
                consumer.consumed = position;
            }
        }
        consumer
    }

    /// As [`Consumer::resume`], for whoever drains from now on: notes for an epoch that was never published are
    /// struck out, because the next epoch will have the same number.
    pub fn adopt(ring: Arc<Ring>, epoch: u64) -> Self {
        for cell in &ring.header().drained {
            // Relaxed: the writer is dead, and we are the only drain.
            if cell.epoch.load(Ordering::Relaxed) > epoch {
                cell.epoch.store(0, Ordering::Relaxed);
            }
        }
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
        for cell in &header.drained {
            cell.epoch.store(0, Ordering::Relaxed);
        }
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

    /// Notes in the ring that `length` bytes will be done with when `epoch` is committed.
    pub fn note_drained(&self, length: usize, epoch: u64, committed_epoch: u64) {
        let cells = &self.ring.header().drained;
        // The cell that the committed epoch relies on must stay; the other one is free.
        // Relaxed: these cells are ours; readers come after our death, or after the epoch is published.
        let valid = |cell: &crate::header::DrainedCell| {
            let cell_epoch = cell.epoch.load(Ordering::Relaxed);
            if cell_epoch <= committed_epoch {
                cell_epoch
            } else {
                0
            }
        };
        let cell = if valid(&cells[0]) > valid(&cells[1]) {
            &cells[1]
        } else {
            &cells[0]
        };
        // The epoch goes first to "none", so that no torn pair of epoch and position can be taken for a whole.
        cell.epoch.store(0, Ordering::Relaxed);
        // SYNC(cell): a reader after our death sees the stores in this order.
        fence(Ordering::Release);
        cell.position
            .store(self.consumed.wrapping_add(length as u64), Ordering::Relaxed);
        // SYNC(cell)
        fence(Ordering::Release);
        cell.epoch.store(epoch, Ordering::Relaxed);
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

    /// Takes the ring out of service after it broke a rule. What it still holds cannot be told from rubbish.
    pub fn quarantine(&self) {
        self.ring.header().store_state(RingState::Quarantined);
    }

    /// Returns whether the ring's thread has ended and everything is read, so that the ring can go to another thread.
    pub fn is_finished(&self) -> bool {
        self.ring.header().state() == RingState::Ended && matches!(self.pending_bytes(), Ok(0))
    }
}
