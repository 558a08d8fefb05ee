//! Clock for whatever need not be exact: it costs a fraction of the exact one.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time since the machine started, a few milliseconds late.
pub fn coarse_now() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}
