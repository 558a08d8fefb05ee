//! The producing end of a ring: reserve and commit, and what happens when the ring is full.
//!
//! A producer keeps private copies of its own position and of a `limit`. As long as a record ends below the
//! limit, nothing shared is read; the limit covers a full ring, the reserved eighth and the half-ring watermark at
//! once. Everything else is in the cold half of this file.
#![allow(unsafe_code)]

use crate::drop_reason::{DropReason, FullPolicy};
use crate::header::RingState;
use crate::limits::{BLOCK_RECHECK_MS, RECORD_BYTES_SURE, WAIT_MS_MAX};
use crate::record_writer::RecordWriter;
use crate::ring::Ring;
use crate::sync::{AtomicU64, Ordering, fence, is_kept, labelled};
use crate::sys;
use core::cell::Cell;
use std::sync::Arc;

/// The writing end of one ring, owned by one thread.
#[derive(Debug)]
#[repr(C)]
pub struct Producer {
    pub(crate) hot: Hot,
    ring: Option<Arc<Ring>>,
}

/// Words that the hot path reads: kept together so that it is one cache line of the thread's own. In this order,
/// because front ends in other languages write through it as well, see [`crate::local::thread_state`].
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Hot {
    /// A cell, as the other words that change: a handler that interrupts a call refers to the producer, too.
    pub(crate) position: Cell<u64>,
    /// Atomic because the end of a session sets it to 0 from another thread, to send the owner to its slow path.
    pub(crate) limit: AtomicU64,
    pub(crate) mask: u64,
    pub(crate) data: *mut u8,
    pub(crate) header: *const crate::header::RingHeader,
}

/// Distance ahead of a record at which its successors' cache lines are asked for.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const PREFETCH_BYTES: u64 = 1024;

/// Decision of the slow path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// There is room: write.
    Granted,
    /// There is room, and earlier drops have not been reported: write a gap record first.
    GapDue,
    /// There is no room; the drop is counted.
    Dropped,
}

impl Hot {
    /// A producer without a ring: everything takes the slow path.
    #[cfg(not(loom))]
    const fn detached() -> Self {
        Self {
            position: Cell::new(u64::MAX / 2),
            limit: AtomicU64::new(0),
            mask: 0,
            data: core::ptr::null_mut(),
            header: core::ptr::null(),
        }
    }

    /// Returns whether a record of this length can be written without asking anybody.
    #[inline(always)]
    pub(crate) fn fits(&self, length: usize) -> bool {
        // A longer record may be too long for this ring, and is worth the slow path. A constant for most calls.
        // Relaxed: only the owner raises it; a zero from elsewhere may be seen late.
        length <= RECORD_BYTES_SURE
            && self.position.get().wrapping_add(length as u64) <= self.limit.load(Ordering::Relaxed)
    }

    /// Space of the next record.
    ///
    /// # Safety
    /// A ring must be attached, and `length` bytes must have been admitted.
    #[inline(always)]
    pub(crate) unsafe fn space(&self, length: usize) -> RecordWriter<'_> {
        self.prefetch();
        // SAFETY: the data area is mapped twice in a row, so `length` bytes from any offset below the capacity are
        // ours to write: the admission says that the consumer has released them.
        unsafe { RecordWriter::raw(self.data.add((self.position.get() & self.mask) as usize), length) }
    }

    /// Asks for the cache line that some of the next records will need. The drain has read it since we wrote it last,
    /// so it has to come back from the other core; without this, back-to-back calls wait for it (21 ns a call instead
    /// of 17 on a Sapphire Rapids VM).
    #[inline(always)]
    fn prefetch(&self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            let ahead = self
                .data
                .wrapping_add((self.position.get().wrapping_add(PREFETCH_BYTES) & self.mask) as usize);
            // SAFETY: a prefetch is a hint that never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(ahead.cast()) };
        }
    }

    /// Makes the record visible. From here on it survives SIGKILL.
    ///
    /// # Safety
    /// A ring must be attached, and `length` bytes must have been written.
    #[inline(always)]
    pub(crate) unsafe fn commit<const COUNTED: bool>(&self, length: usize) {
        self.position.set(self.position.get().wrapping_add(length as u64));
        // SAFETY: `header` points into the ring's mapping, which lives as long as the producer.
        let header = unsafe { &*self.header };
        // SYNC(commit): the record's bytes are visible before the position that covers them.
        header
            .committed
            .store(self.position.get(), labelled("commit.store", Ordering::Release));
        if COUNTED {
            // Relaxed, and not one atomic step: a statistic with one writer.
            let records = header.records.load(Ordering::Relaxed);
            header.records.store(records.wrapping_add(1), Ordering::Relaxed);
        }
    }
}

impl Producer {
    /// A producer without a ring.
    #[cfg(not(loom))]
    pub(crate) const fn detached() -> Self {
        Self {
            hot: Hot::detached(),
            ring: None,
        }
    }

    /// Takes a free ring for the calling thread.
    pub fn attach(ring: Arc<Ring>, thread_name: &str) -> Self {
        ring.header().label(sys::thread_id(), thread_name);
        Self::of_labelled(ring)
    }

    /// Takes a free ring for a thread in the place of the one that it has. Allocates nothing.
    #[cfg(not(loom))]
    pub(crate) fn attach_as(ring: Arc<Ring>, before: &Ring) -> Self {
        ring.header().label_as(before.header());
        Self::of_labelled(ring)
    }

    fn of_labelled(ring: Arc<Ring>) -> Self {
        ring.header().store_state(RingState::Attached);
        // Relaxed: the previous producer of the ring has ended before it was handed to us (SYNC(state)).
        let position = ring.header().committed.load(Ordering::Relaxed);
        let hot = Hot {
            position: Cell::new(position),
            limit: AtomicU64::new(position),
            mask: ring.capacity_bytes() as u64 - 1,
            #[cfg(not(loom))]
            data: ring.data(),
            #[cfg(loom)]
            data: core::ptr::null_mut(),
            header: ring.header(),
        };
        Self {
            hot,
            ring: Some(ring),
        }
    }

    /// Address of a producer's ring.
    ///
    /// # Safety
    /// The place must hold a producer.
    pub(crate) unsafe fn ring_of(place: *const Self) -> *const Option<Arc<Ring>> {
        // SAFETY: an address inside of the place.
        unsafe { &raw const (*place).ring }
    }

    /// The ring, unless the producer is detached.
    pub(crate) fn ring(&self) -> Option<&Arc<Ring>> {
        self.ring.as_ref()
    }

    /// Copies a whole record in, or counts the drop. The length must be a multiple of 8.
    pub fn push(&mut self, record: &[u8], urgent: bool, policy: FullPolicy) -> Admission {
        if !self.hot.fits(record.len()) {
            let admission = self.admit(record.len(), urgent, policy, &|| true);
            if admission != Admission::Granted {
                return admission;
            }
        }
        #[cfg(not(loom))]
        // SAFETY: attached, and `record.len()` bytes were admitted.
        unsafe {
            self.hot.space(record.len()).bytes(record);
        }
        #[cfg(loom)]
        if let Some(ring) = &self.ring {
            ring.model_write(self.hot.position.get(), record);
        }
        // SAFETY: attached, and the bytes have just been written.
        unsafe { self.hot.commit::<true>(record.len()) };
        Admission::Granted
    }

    /// The slow path of a reservation: loads the consumer's position, parks where the policy says so, and
    /// sets a new limit. `alive` returns whether the session still has a drain. A detached producer drops without a
    /// count.
    #[cold]
    pub(crate) fn admit(
        &self,
        length: usize,
        urgent: bool,
        policy: FullPolicy,
        alive: &dyn Fn() -> bool,
    ) -> Admission {
        let Some(ring) = self.ring.as_deref() else {
            return Admission::Dropped;
        };
        if ring.header().state() == RingState::Quarantined {
            // It has no reader any more, so there will never be room.
            ring.header().count_drop(DropReason::Other);
            return Admission::Dropped;
        }
        let mut end = End {
            ring,
            position: self.hot.position.get(),
        };
        if length > ring.record_bytes_max() {
            ring.header().count_drop(DropReason::TooLarge);
            // As below.
            self.hot.limit.store(0, Ordering::Relaxed);
            return Admission::Dropped;
        }
        let mut room = end.has_room(length, urgent);
        let overloaded = ring.is_overloaded();
        if overloaded && end.free_bytes() >= ring.capacity_bytes() as u64 / 2 {
            ring.set_overloaded(false);
        } else if overloaded && !urgent {
            room = false;
        }
        if !room && !end.wait_for_room(length, urgent, policy, alive) {
            ring.header().count_drop(DropReason::Full);
            // The next call comes here again, for any length, and reports the gap.
            // Relaxed: our own word.
            self.hot.limit.store(0, Ordering::Relaxed);
            return Admission::Dropped;
        }
        // Relaxed: our own word; a thread that resets it raises a generation, which we check afterwards.
        self.hot.limit.store(end.new_limit(), Ordering::Relaxed);
        if ring.has_unreported() {
            Admission::GapDue
        } else {
            Admission::Granted
        }
    }

    /// Returns whether the ring has little room for a record, and a larger one may be had.
    #[cfg(not(loom))]
    pub(crate) fn wants_larger(&self, length: usize, urgent: bool) -> bool {
        let Some(ring) = self.ring.as_deref() else {
            return false;
        };
        let position = self.hot.position.get();
        let end = End { ring, position };
        // Less than half of it is free: the drain would be woken, which costs a system call each time.
        let has_room = length <= ring.record_bytes_max()
            && end.has_room(length, urgent)
            && end.free_bytes() >= ring.capacity_bytes() as u64 / 2;
        let is_busy = ring.growth().is_early() && position >= ring.capacity_bytes() as u64;
        (is_busy || !has_room) && ring.growth().is_due() && ring.header().state() != RingState::Quarantined
    }

    /// The ring is not to be replaced for a moment.
    #[cfg(not(loom))]
    pub(crate) fn keep_ring(&self) {
        if let Some(ring) = self.ring.as_deref().filter(|ring| ring.growth().is_due()) {
            ring.growth()
                .set_at(crate::clock::monotonic_ns() + crate::limits::KEEP_RING_NS);
        }
    }

    /// Counts a drop that happened without a check of the ring.
    pub(crate) fn count_drop(&self, reason: DropReason) -> bool {
        self.ring
            .as_ref()
            .inspect(|ring| ring.header().count_drop(reason))
            .is_some()
    }

    /// Counts a record whose values were cut to the limit.
    pub(crate) fn count_cut(&self) {
        if let Some(ring) = &self.ring {
            // Relaxed: a statistic with one writer.
            ring.header().cut.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forgets the ring without telling anybody: after `fork` it is the parent's. Where a call of this thread is under way,
    /// its memory is replaced by memory of the child's own, into which the call may end. Allocates nothing.
    ///
    /// # Safety
    /// As for [`Producer::replace`]. There is no other thread.
    #[cfg(not(loom))]
    pub(crate) unsafe fn abandon(place: *mut Self, is_interrupted: bool) {
        // SAFETY: an address inside of the place, which no other thread can reach.
        let ring = unsafe { core::ptr::replace(&raw mut (*place).ring, None) };
        let is_private = match &ring {
            Some(ring) if is_interrupted => ring.make_private(),
            _ => false,
        };
        // The count of its owners is the child's copy; the ring is never unmapped here.
        core::mem::forget(ring);
        if is_private {
            // Relaxed: our own word. The next call finds no room, and then no ring.
            // SAFETY: as above; the limit is an atomic.
            unsafe { &(*place).hot.limit }.store(0, Ordering::Relaxed);
        } else {
            // SAFETY: the caller's.
            core::mem::forget(unsafe { Self::replace(place, Self::detached()) });
        }
    }

    /// Puts another producer in a place; gives the one that was there. Word by word, because another thread may reset
    /// the limit meanwhile.
    ///
    /// # Safety
    /// The place must hold a producer. No other thread writes to it but to `limit`, and none reads more of it than
    /// that and, in a handler that interrupts this, `ring`.
    #[cfg(not(loom))]
    pub(crate) unsafe fn replace(place: *mut Self, new: Self) -> Self {
        let new = core::mem::ManuallyDrop::new(new);
        // SAFETY: the place is valid; `new` is not dropped, so that its ring has one owner. No reference to the whole
        // place is made, only to its atomic.
        unsafe {
            let hot = &raw mut (*place).hot;
            let limit = &(*hot).limit;
            Self {
                hot: Hot {
                    position: Cell::new((*hot).position.replace(new.hot.position.get())),
                    // Relaxed: a thread that resets it from elsewhere raises a generation first, which the owner checks.
                    limit: AtomicU64::new(
                        limit.swap(new.hot.limit.load(Ordering::Relaxed), Ordering::Relaxed),
                    ),
                    mask: core::ptr::replace(&raw mut (*hot).mask, new.hot.mask),
                    data: core::ptr::replace(&raw mut (*hot).data, new.hot.data),
                    header: core::ptr::replace(&raw mut (*hot).header, new.hot.header),
                },
                ring: core::ptr::replace(&raw mut (*place).ring, core::ptr::read(&raw const new.ring)),
            }
        }
    }
}

/// The producer's end during one slow call.
struct End<'a> {
    ring: &'a Ring,
    position: u64,
}

impl End<'_> {
    /// Parks as the policy allows; whether there is room afterwards.
    fn wait_for_room(
        &mut self,
        length: usize,
        urgent: bool,
        policy: FullPolicy,
        alive: &dyn Fn() -> bool,
    ) -> bool {
        match policy {
            FullPolicy::Drop => false,
            FullPolicy::Wait => {
                if self.ring.is_overloaded() {
                    return false;
                }
                self.park(length, urgent, WAIT_MS_MAX);
                let room = self.has_room(length, urgent);
                self.ring.set_overloaded(!room);
                room
            }
            FullPolicy::Block => {
                while !self.has_room(length, urgent) {
                    if !alive() || self.ring.header().state() == RingState::Quarantined {
                        return false;
                    }
                    self.park(length, urgent, BLOCK_RECHECK_MS);
                }
                true
            }
        }
    }

    /// Sleeps until the consumer has freed half of the ring, or the time is over.
    fn park(&self, length: usize, urgent: bool, timeout_ms: u32) {
        let header = self.ring.header();
        // SYNC(space): a sequence read before the load of `consumed` cannot miss the wake that follows it.
        let sequence = header.space_sequence.load(Ordering::Acquire);
        // Relaxed: ordered by the fence below.
        header.waiting.store(1, Ordering::Relaxed);
        // SYNC(park): either the consumer sees `waiting`, or we see what it released.
        if is_kept("park.producer") {
            fence(Ordering::SeqCst);
        }
        if self.has_room(length, urgent) {
            return;
        }
        self.ring.wake_drain();
        sys::futex_wait(
            &header.space_sequence,
            sequence,
            u64::from(timeout_ms) * 1_000_000,
        );
    }

    fn free_bytes(&self) -> u64 {
        // SYNC(release): the consumer has finished with the bytes before its position passes them.
        let consumed = self
            .ring
            .header()
            .consumed
            .load(labelled("release.load", Ordering::Acquire));
        let used = self.position.wrapping_sub(consumed);
        // A position that runs ahead of ours is a broken consumer; it frees nothing.
        (self.ring.capacity_bytes() as u64).saturating_sub(used)
    }

    fn has_room(&self, length: usize, urgent: bool) -> bool {
        let reserve = if urgent {
            0
        } else {
            self.ring.capacity_bytes() as u64 / 8
        };
        self.free_bytes() >= length as u64 + reserve
    }

    /// Up to here the hot path runs on its own: half a ring at most, and never into the reserved eighth. An
    /// urgent record that was admitted inside of that eighth ends above the limit, so the next call asks again.
    fn new_limit(&self) -> u64 {
        let capacity = self.ring.capacity_bytes() as u64;
        let free = self.free_bytes();
        if free < capacity / 2 {
            self.ring.wake_drain();
        }
        self.position
            .wrapping_add(free.saturating_sub(capacity / 8).min(capacity / 2))
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if let Some(ring) = &self.ring {
            ring.header().store_state(RingState::Ended);
            ring.let_go();
            ring.wake_drain();
        }
    }
}
