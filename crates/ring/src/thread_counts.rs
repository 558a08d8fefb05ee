//! Counts that a thread keeps for itself: the calls that sampling leaves out, and drops by callsite.
//!
//! A call that is left out must cost a few nanoseconds, so nothing shared is written for it. Each thread has a small
//! table of counters, found by the address of the callsite's control entry, and reports them to the session when a call
//! passes, after 256 calls, and when it ends; and any thread can report for all threads.
//!
//! Both sides may report the same counter. What was reported is exchanged as a whole, so the parts always add up to what
//! was counted; one part may be negative, and one that is reported while the counter changes hands may go to the wrong
//! callsite. A signal handler that interrupts a count may cost one.

pub(crate) mod slots;

use crate::control::ControlEntry;
use crate::counts::CallsiteCounts;
use crate::limits::UNREPORTED_CALLS_MAX;
use crate::local;
use core::sync::atomic::Ordering;
use slots::{Slot, ThreadCounts, own};

/// Finds the counts that belong to a control entry.
pub(crate) type CountsOf = fn(&'static ControlEntry) -> Option<&'static CallsiteCounts>;

/// Decides whether a call passes that is one of so many. The first call of the process does, then one of so many in each
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

/// The counters of a callsite that has none in this thread; `None` in a thread that is ending, or within a log call,
/// where no lock may be taken.
#[cold]
#[inline(never)]
fn make_slot<'a>(
    counts: &'a ThreadCounts,
    entry: &'static ControlEntry,
    counts_of: CountsOf,
) -> Option<&'a Slot> {
    if local::is_busy() || !local::list_thread() {
        return None;
    }
    let slot = counts.slot(entry);
    slot.take_over(entry, counts_of(entry));
    Some(slot)
}

#[cold]
#[inline(never)]
fn pass_with_thought(entry: &'static ControlEntry, counts_of: CountsOf) -> bool {
    let thread_counts = own();
    let calls = u32::try_from(entry.parameter()).unwrap_or(u32::MAX);
    let slot = Some(thread_counts.slot(entry)).filter(|slot| slot.is_of(entry));
    let Some(slot) = slot.or_else(|| make_slot(thread_counts, entry, counts_of)) else {
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

/// Decides whether a call passes of which so many may in a second.
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
    match make_slot(own(), entry, counts_of) {
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
        make_slot(own(), entry, counts_of)
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

/// Reports what the calling thread has counted for a callsite.
#[inline]
pub fn report_of(entry: &'static ControlEntry) {
    let slot = own().slot(entry);
    if slot.is_of(entry) {
        slot.report();
    }
}

/// Reports what all threads have counted.
pub fn report_all() {
    local::for_each_thread_counts(ThreadCounts::report);
}
