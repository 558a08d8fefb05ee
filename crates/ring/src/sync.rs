//! The atomics that the ring is built from: those of the processor, or loom's when the model checker runs.
//!
//! The ends of the pairs that loom proves carry a name here. A normal build does not see it; under loom, one end may be
//! weakened by its name, and then a test has to fail: `tests/loom.rs` tries them all.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The variable that names the end to weaken.
#[cfg(loom)]
pub const WEAKENED: &str = "LOGDRIVE_WEAKENED";

/// The ends that can be weakened, each named by its label and by what it does.
///
/// `SYNC(space)` is not among them: beside the fences of `SYNC(park)`, it only keeps the consumer's `waiting = 0` before
/// the producer's next `waiting = 1`, and the stores to one word never change places in loom.
#[cfg(loom)]
pub const ENDS: [&str; 9] = [
    "commit.store",
    "commit.load",
    "release.store",
    "release.load",
    "settle.store",
    "park.producer",
    "park.consumer",
    "state.store",
    "state.load",
];

/// Returns whether an end does its part: always, but for the weakened one of a loom run.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn is_kept(_end: &str) -> bool {
    true
}

/// Returns whether an end does its part: always, but for the weakened one of a loom run.
#[cfg(loom)]
pub(crate) fn is_kept(end: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    assert!(ENDS.contains(&end), "`{end}` is not in the list of ends");
    let chosen = CHOSEN.get_or_init(|| std::env::var(WEAKENED).ok());
    chosen.as_deref() != Some(end)
}

/// The ordering at one end, or `Relaxed` where that end is weakened.
#[inline(always)]
pub(crate) fn labelled(name: &str, ordering: Ordering) -> Ordering {
    if is_kept(name) {
        ordering
    } else {
        Ordering::Relaxed
    }
}
