//! Waiting for a condition, with a deadline in place of a pause.

use std::time::{Duration, Instant};

/// Time after which a condition will not come true any more, on any machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until `look` returns something, and returns it. Panics after [`DEADLINE`].
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_for_within(DEADLINE, what, look)
}

/// Waits until a condition is true. Panics after [`DEADLINE`].
#[track_caller]
pub fn wait_until(what: &str, is_true: impl FnMut() -> bool) {
    wait_until_within(DEADLINE, what, is_true);
}

/// As [`wait_until`], for what takes longer than [`DEADLINE`].
#[track_caller]
pub fn wait_until_within(limit: Duration, what: &str, mut is_true: impl FnMut() -> bool) {
    wait_for_within(limit, what, || is_true().then_some(()));
}

#[track_caller]
fn wait_for_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
