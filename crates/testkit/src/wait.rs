//! Waiting for a condition, with a deadline in place of a pause.

use std::time::{Duration, Instant};

/// Time after which a condition will not come true any more, on any machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until `look` returns something, and returns it. Panics after [`DEADLINE`].
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Waits until a condition is true. Panics after [`DEADLINE`].
#[track_caller]
pub fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    wait_for(what, || is_true().then_some(()));
}
