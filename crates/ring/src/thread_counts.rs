//! What a thread counts for itself: the calls that sampling leaves out, and drops by callsite.
//!
//! A call that is left out must cost a few nanoseconds, so nothing shared is written for it. Each thread has a small
//! table of counters, found by the address of the callsite's control entry, and tells the session of them when a call
//! passes, after 256 calls, and when it ends; and whoever wants to know them all can tell for all threads.
//!
//! Both sides may tell of the same counter. What was reported is exchanged as a whole, so the parts always add up to what
//! was counted; one part may be negative, and one that is reported while the counter changes hands may go to the wrong
//! callsite. A signal handler that interrupts a count may cost one.
#![allow(unsafe_code)]

use crate::clock::counter_ticks;
use crate::control::ControlEntry;
use crate::counts::CallsiteCounts;
use crate::limits::{THREAD_COUNTS_SLOTS, UNREPORTED_CALLS_MAX};
use crate::local;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Finds the counts that belong to a control entry.
pub type CountsOf = fn(&'static ControlEntry) -> Option<&'static CallsiteCounts>;

/// A count of the thread's own, and how much of it has been reported.
#[derive(Debug)]
struct Count {
    so_far: AtomicU32,
    reported: AtomicU32,
}

impl Count {
    const fn new() -> Self {
        Self {
            so_far: AtomicU32::new(0),
            reported: AtomicU32::new(0),
        }
    }

    /// Counts one; `true` when it is time to tell.
    #[inline]
    fn add_one(&self) -> bool {
        // Relaxed, and not one atomic step: only this thread counts.
        let so_far = self.so_far.load(Ordering::Relaxed).wrapping_add(1);
        self.so_far.store(so_far, Ordering::Relaxed);
        so_far.is_multiple_of(UNREPORTED_CALLS_MAX)
    }

    /// What has not been reported, which is reported herewith. It may be negative where another thread has reported more.
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

    /// What is unreported belongs to somebody else.
    fn forget(&self) {
        self.reported
            .store(self.so_far.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The counters of one callsite in one thread: a cache line.
#[repr(C, align(64))]
#[derive(Debug)]
struct Slot {
    /// Whose they are; null for nobody's.
    entry: AtomicPtr<ControlEntry>,
    /// Where they are reported; null for nowhere.
    counts: AtomicPtr<CallsiteCounts>,
    sampled_out: Count,
    /// Calls may be left out without a thought until so many have been.
    stop: AtomicU32,
    /// Calls to leave out after that before one passes.
    left: AtomicU32,
    /// Of how many calls one passes; as it was when the numbers above were set.
    calls: AtomicU32,
    dropped: Count,
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
    fn is_of(&self, entry: &ControlEntry) -> bool {
        // Relaxed: written by this thread only.
        core::ptr::eq(self.entry.load(Ordering::Relaxed), entry)
    }

    #[inline(always)]
    fn count_sampled_out(&self) {
        if self.sampled_out.add_one() {
            self.report();
        }
    }

    /// Tells the session what it does not know yet.
    #[inline]
    fn report(&self) {
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
    fn take_over(&self, entry: &'static ControlEntry, counts: Option<&'static CallsiteCounts>) {
        self.report();
        let counts = counts.map_or(core::ptr::null(), core::ptr::from_ref);
        // Relaxed: another thread that tells meanwhile takes the old counts or the new ones, which both live for ever.
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
fn own<'a>() -> &'a ThreadCounts {
    // SAFETY: the place lives as long as the thread, without a destructor, and no caller below keeps the reference.
    unsafe { &*address() }
}

/// Where the calling thread's counters are.
#[inline(always)]
pub(crate) fn address() -> *const ThreadCounts {
    THREAD_COUNTS.with(core::ptr::from_ref)
}

impl ThreadCounts {
    #[inline(always)]
    fn slot(&self, entry: &ControlEntry) -> &Slot {
        // Callsites that were registered one behind the other have places one behind the other.
        let number = core::ptr::from_ref(entry).addr() / size_of::<ControlEntry>();
        &self.slots[number % THREAD_COUNTS_SLOTS]
    }

    /// The counters of a callsite that has none in this thread; `None` in a thread that is ending, or within a log
    /// call, where no lock may be taken.
    #[cold]
    #[inline(never)]
    fn make(&self, entry: &'static ControlEntry, counts_of: CountsOf) -> Option<&Slot> {
        if local::is_busy() || !local::list_thread() {
            return None;
        }
        let slot = self.slot(entry);
        slot.take_over(entry, counts_of(entry));
        Some(slot)
    }

    /// A number below `end`, evenly spread.
    fn random_below(&self, end: u32) -> u32 {
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

    /// Tells all counters. Other threads may do so for a thread that lives.
    pub(crate) fn report(&self) {
        self.slots.iter().for_each(Slot::report);
    }

    /// The thread ends: it is reported, and nothing is counted here any more.
    pub(crate) fn close(&self) {
        self.report();
        for slot in &self.slots {
            slot.entry.store(core::ptr::null_mut(), Ordering::Relaxed);
        }
    }

    /// In the child of a `fork`: what was counted is the parent's, and so is where it is reported.
    pub(crate) fn forget(&self) {
        for slot in &self.slots {
            slot.sampled_out.forget();
            slot.dropped.forget();
            slot.entry.store(core::ptr::null_mut(), Ordering::Relaxed);
            slot.counts.store(core::ptr::null_mut(), Ordering::Relaxed);
        }
    }
}

/// Whether a call passes that is one of so many. The first call of the process does, then one of so many in each
/// thread, beginning at a random place, so that kept calls times their number are what was called, on an average, also
/// where many threads make few calls each.
#[inline]
pub fn pass_every(entry: &'static ControlEntry, counts_of: CountsOf) -> bool {
    !leave_out_of_many(entry) && pass_with_thought(entry, counts_of)
}

/// Leaves a call out that is one of so many, where that needs no thought: the usual case, in a few instructions.
#[inline(always)]
pub fn leave_out_of_many(entry: &'static ControlEntry) -> bool {
    let slot = own().slot(entry);
    // Relaxed: the thread's own, here and below.
    let so_far = slot.sampled_out.so_far.load(Ordering::Relaxed);
    let until_stop = slot.stop.load(Ordering::Relaxed).wrapping_sub(so_far);
    let calls = u64::from(slot.calls.load(Ordering::Relaxed));
    let is_left_out = slot.is_of(entry) && calls == entry.parameter() && until_stop.cast_signed() > 0;
    if is_left_out {
        let so_far = so_far.wrapping_add(1);
        slot.sampled_out.so_far.store(so_far, Ordering::Relaxed);
    }
    is_left_out
}

/// Leaves a call out of which so many may pass in a second, where that needs no thought.
#[inline(always)]
pub fn leave_out_of_second(entry: &'static ControlEntry) -> bool {
    let slot = own().slot(entry);
    // Relaxed: as above.
    let so_far = slot.sampled_out.so_far.load(Ordering::Relaxed).wrapping_add(1);
    let is_left_out =
        !entry.has_budget() && slot.is_of(entry) && !so_far.is_multiple_of(UNREPORTED_CALLS_MAX);
    if is_left_out {
        slot.sampled_out.so_far.store(so_far, Ordering::Relaxed);
    }
    is_left_out
}

#[cold]
#[inline(never)]
fn pass_with_thought(entry: &'static ControlEntry, counts_of: CountsOf) -> bool {
    let thread_counts = own();
    let calls = u32::try_from(entry.parameter()).unwrap_or(u32::MAX);
    let slot = Some(thread_counts.slot(entry)).filter(|slot| slot.is_of(entry));
    let Some(slot) = slot.or_else(|| thread_counts.make(entry, counts_of)) else {
        let passes = entry.take_budget() || thread_counts.random_below(calls) == 0;
        return passes || count_elsewhere(entry, counts_of);
    };
    slot.report();
    let left = if slot.calls.load(Ordering::Relaxed) != calls {
        slot.calls.store(calls, Ordering::Relaxed);
        if entry.take_budget() {
            0
        } else {
            thread_counts.random_below(calls)
        }
    } else {
        slot.left.load(Ordering::Relaxed)
    };
    let passes = left == 0;
    // This call is the one that passes, or the first of those that are left out.
    let left = if passes { calls.saturating_sub(1) } else { left };
    let so_far = slot.sampled_out.so_far.load(Ordering::Relaxed);
    let next = left.min(UNREPORTED_CALLS_MAX);
    slot.stop.store(so_far.wrapping_add(next), Ordering::Relaxed);
    slot.left.store(left - next, Ordering::Relaxed);
    if !passes {
        slot.sampled_out
            .so_far
            .store(so_far.wrapping_add(1), Ordering::Relaxed);
    }
    passes
}

/// Whether a call passes of which so many may in a second.
#[inline]
pub fn pass_budget(entry: &'static ControlEntry, counts_of: CountsOf) -> bool {
    let passes = entry.take_budget();
    if passes {
        report_of(entry);
    } else {
        count_sampled_out(entry, counts_of);
    }
    passes
}

/// Counts a call that sampling leaves out.
#[inline]
pub fn count_sampled_out(entry: &'static ControlEntry, counts_of: CountsOf) {
    let slot = own().slot(entry);
    if slot.is_of(entry) {
        return slot.count_sampled_out();
    }
    match own().make(entry, counts_of) {
        Some(slot) => slot.count_sampled_out(),
        None => {
            count_elsewhere(entry, counts_of);
        }
    }
}

/// Without counters of the thread's own. `false`, for a call that does not pass.
#[cold]
fn count_elsewhere(entry: &'static ControlEntry, counts_of: CountsOf) -> bool {
    if let Some(counts) = counts_of(entry) {
        counts.add_sampled_out(1);
    }
    false
}

/// Counts a drop of a callsite.
pub fn count_dropped(entry: &'static ControlEntry, counts_of: CountsOf) {
    let slot = own().slot(entry);
    let slot = if slot.is_of(entry) {
        Some(slot)
    } else {
        own().make(entry, counts_of)
    };
    match slot {
        Some(slot) if slot.dropped.add_one() => slot.report(),
        Some(_) => {}
        None => {
            if let Some(counts) = counts_of(entry) {
                counts.add_dropped(1);
            }
        }
    }
}

/// Tells what the calling thread has counted for a callsite.
#[inline]
pub fn report_of(entry: &'static ControlEntry) {
    let slot = own().slot(entry);
    if slot.is_of(entry) {
        slot.report();
    }
}

/// Tells what all threads have counted.
pub fn report_all() {
    local::for_each_thread_counts(ThreadCounts::report);
}
