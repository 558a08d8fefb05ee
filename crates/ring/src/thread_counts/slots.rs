//! The counters that each thread has for itself, in a thread-local without a destructor, and their report to the
//! session.
#![allow(unsafe_code)]

use crate::clock::counter_ticks;
use crate::control::ControlEntry;
use crate::counts::CallsiteCounts;
use crate::limits::{THREAD_COUNTS_SLOTS, UNREPORTED_CALLS_MAX};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A count of the thread's own, and how much of it has been reported.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) so_far: AtomicU32,
    reported: AtomicU32,
}

impl Count {
    const fn new() -> Self {
        Self {
            so_far: AtomicU32::new(0),
            reported: AtomicU32::new(0),
        }
    }

    /// Counts one; `true` when it is time to report.
    #[inline]
    pub(super) fn add_one(&self) -> bool {
        // Relaxed, and not one atomic step: only this thread counts.
        let so_far = self.so_far.load(Ordering::Relaxed).wrapping_add(1);
        self.so_far.store(so_far, Ordering::Relaxed);
        so_far.is_multiple_of(UNREPORTED_CALLS_MAX)
    }

    /// Takes what has not been reported. It may be negative where another thread has reported more.
    #[inline]
    fn take_unreported(&self) -> u64 {
        // Relaxed: each exchange takes the place of another, so that all parts together are what was counted.
        let so_far = self.so_far.load(Ordering::Relaxed);
        if so_far == self.reported.load(Ordering::Relaxed) {
            return 0;
        }
        let reported = self.reported.swap(so_far, Ordering::Relaxed);
        i64::from(so_far.wrapping_sub(reported).cast_signed()).cast_unsigned()
    }

    /// Forgets what is unreported: it belongs to another session.
    fn forget(&self) {
        self.reported
            .store(self.so_far.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The counters of one callsite in one thread: a cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Slot {
    /// Control entry of the callsite; null for none.
    entry: AtomicPtr<ControlEntry>,
    /// Counts that they are reported to; null for none.
    counts: AtomicPtr<CallsiteCounts>,
    pub(super) sampled_out: Count,
    /// Calls may be left out without a thought until so many have been.
    pub(super) stop: AtomicU32,
    /// Calls to leave out after that before one passes.
    pub(super) left: AtomicU32,
    /// Of how many calls one passes; as it was when the numbers above were set.
    pub(super) calls: AtomicU32,
    pub(super) dropped: Count,
}

const _: () = assert!(size_of::<Slot>() == 64);

impl Slot {
    const fn new() -> Self {
        Self {
            entry: AtomicPtr::new(core::ptr::null_mut()),
            counts: AtomicPtr::new(core::ptr::null_mut()),
            sampled_out: Count::new(),
            stop: AtomicU32::new(0),
            left: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            dropped: Count::new(),
        }
    }

    #[inline(always)]
    pub(super) fn is_of(&self, entry: &ControlEntry) -> bool {
        // Relaxed: written by this thread only.
        core::ptr::eq(self.entry.load(Ordering::Relaxed), entry)
    }

    #[inline(always)]
    pub(super) fn count_sampled_out(&self) {
        if self.sampled_out.add_one() {
            self.report();
        }
    }

    /// Reports to the session what it does not know yet.
    #[inline]
    pub(super) fn report(&self) {
        let (sampled_out, dropped) = (self.sampled_out.take_unreported(), self.dropped.take_unreported());
        if sampled_out | dropped != 0 {
            self.add(sampled_out, dropped);
        }
    }

    #[cold]
    fn add(&self, sampled_out: u64, dropped: u64) {
        // Relaxed: counts are reached through no other memory.
        // SAFETY: null, or the address of counts that live for ever: `take_over` stores nothing else.
        let Some(counts) = (unsafe { self.counts.load(Ordering::Relaxed).as_ref() }) else {
            return;
        };
        if sampled_out != 0 {
            counts.add_sampled_out(sampled_out);
        }
        if dropped != 0 {
            counts.add_dropped(dropped);
        }
    }

    /// From now on these are the counters of another callsite.
    pub(super) fn take_over(&self, entry: &'static ControlEntry, counts: Option<&'static CallsiteCounts>) {
        self.report();
        let counts = counts.map_or(core::ptr::null(), core::ptr::from_ref);
        // Relaxed: another thread that reports meanwhile takes the old counts or the new ones, which both live for ever.
        self.counts.store(counts.cast_mut(), Ordering::Relaxed);
        // No rule says so many: the numbers are set anew.
        self.calls.store(0, Ordering::Relaxed);
        self.entry
            .store(core::ptr::from_ref(entry).cast_mut(), Ordering::Relaxed);
    }
}

/// The counters of one thread.
#[derive(Debug)]
pub(crate) struct ThreadCounts {
    slots: [Slot; THREAD_COUNTS_SLOTS],
    /// The state of the thread's random numbers; 0 before the first.
    random: AtomicU64,
}

thread_local! {
    static THREAD_COUNTS: ThreadCounts = const {
        ThreadCounts {
            slots: [const { Slot::new() }; THREAD_COUNTS_SLOTS],
            random: AtomicU64::new(0),
        }
    };
}

/// The calling thread's counters.
#[inline(always)]
pub(super) fn own<'a>() -> &'a ThreadCounts {
    // SAFETY: the place lives as long as the thread, without a destructor, and no caller below keeps the reference.
    unsafe { &*address() }
}

/// Address of the calling thread's counters.
#[inline(always)]
pub(crate) fn address() -> *const ThreadCounts {
    THREAD_COUNTS.with(core::ptr::from_ref)
}

impl ThreadCounts {
    #[inline(always)]
    pub(super) fn slot(&self, entry: &ControlEntry) -> &Slot {
        // Callsites that were registered one behind the other have places one behind the other.
        let number = core::ptr::from_ref(entry).addr() / size_of::<ControlEntry>();
        &self.slots[number % THREAD_COUNTS_SLOTS]
    }

    /// A number below `end`, evenly spread.
    pub(super) fn random_below(&self, end: u32) -> u32 {
        // Relaxed: the thread's own. xorshift64*: fast, and even enough to spread the first calls of threads.
        let mut state = self.random.load(Ordering::Relaxed);
        if state == 0 {
            state = counter_ticks() ^ (core::ptr::from_ref(self).addr() as u64) << 17 | 1;
        }
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.store(state, Ordering::Relaxed);
        let high = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((high * u64::from(end)) >> 32) as u32
    }

    /// Reports all counters. Other threads may do so for a thread that lives.
    pub(crate) fn report(&self) {
        self.slots.iter().for_each(Slot::report);
    }

    /// Reports what is left at the end of the thread; nothing is counted here any more.
    pub(crate) fn close(&self) {
        self.report();
        for slot in &self.slots {
            slot.entry.store(core::ptr::null_mut(), Ordering::Relaxed);
        }
    }

    /// Forgets, in the child of a `fork`, what was counted: it is the parent's, and so are the counts that it goes to.
    pub(crate) fn forget(&self) {
        for slot in &self.slots {
            slot.sampled_out.forget();
            slot.dropped.forget();
            slot.entry.store(core::ptr::null_mut(), Ordering::Relaxed);
            slot.counts.store(core::ptr::null_mut(), Ordering::Relaxed);
        }
    }
}
