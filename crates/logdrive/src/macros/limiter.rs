//! The counters behind `every_n!`, `every_ms!` and `once!`: one static for each statement, no lock.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Passes the first call and then one in so many.
#[derive(Debug)]
pub struct EveryN {
    calls: AtomicU64,
}

impl EveryN {
    /// A state before the first call.
    #[expect(
        clippy::new_without_default,
        reason = "only the expansion makes one, in a static"
    )]
    pub const fn new() -> Self {
        Self {
            calls: AtomicU64::new(0),
        }
    }

    /// Returns true if this call passes, and then how many were left out before it. A period of 0 is taken for 1.
    #[inline]
    pub fn pass(&self, period: u64) -> Option<u64> {
        let period = period.max(1);
        // Relaxed: the count orders nothing else.
        let before = self.calls.fetch_add(1, Ordering::Relaxed);
        if !before.is_multiple_of(period) {
            return None;
        }
        Some(if before == 0 { 0 } else { period - 1 })
    }
}

/// Passes the first call and then at most one in so many milliseconds.
#[derive(Debug)]
pub struct EveryMs {
    next_ms: AtomicU64,
    suppressed: AtomicU64,
}

impl EveryMs {
    /// A state before the first call.
    #[expect(
        clippy::new_without_default,
        reason = "only the expansion makes one, in a static"
    )]
    pub const fn new() -> Self {
        Self {
            next_ms: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        }
    }

    /// Returns true if a call at `now_ms` passes, and then how many were left out before it.
    #[inline]
    pub fn pass(&self, period_ms: u64, now_ms: u64) -> Option<u64> {
        // Relaxed: of the threads that see the time has come, the exchange lets one pass; nothing else is ordered.
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let is_due = now_ms >= next_ms
            && self
                .next_ms
                .compare_exchange(
                    next_ms,
                    now_ms.saturating_add(period_ms),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok();
        if is_due {
            // Relaxed: each call that was left out is in exactly one count, this one or the next.
            Some(self.suppressed.swap(0, Ordering::Relaxed))
        } else {
            // Relaxed: as above.
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

/// State of a limiter that passes the first call.
#[derive(Debug)]
pub struct Once {
    has_passed: AtomicBool,
}

impl Once {
    /// A state before the first call.
    #[expect(
        clippy::new_without_default,
        reason = "only the expansion makes one, in a static"
    )]
    pub const fn new() -> Self {
        Self {
            has_passed: AtomicBool::new(false),
        }
    }

    /// Returns true if this is the first call.
    #[inline]
    pub fn pass(&self) -> bool {
        // Relaxed: the swap lets one thread pass, and nothing else is ordered; the load spares later calls the swap.
        !self.has_passed.load(Ordering::Relaxed) && !self.has_passed.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_n_passes_and_the_first_does() {
        let every = EveryN::new();
        let passed: Vec<_> = (0..7).map(|_| every.pass(3)).collect();
        assert_eq!(passed, [Some(0), None, None, Some(2), None, None, Some(2)]);
        assert_eq!(EveryN::new().pass(0), Some(0));
    }

    #[test]
    fn one_passes_in_each_period() {
        let every = EveryMs::new();
        let passed: Vec<_> = [0, 1, 9, 10, 11, 35].map(|now_ms| every.pass(10, now_ms)).into();
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1)]);
        assert_eq!(EveryMs::new().pass(u64::MAX, 5), Some(0));
    }

    #[test]
    fn threads_together_pass_once_and_lose_no_count() {
        let (every, once) = (EveryMs::new(), Once::new());
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        every.pass(1000, 5);
                        // Relaxed: the scope's end orders it.
                        passed.fetch_add(u64::from(once.pass()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(every.pass(1000, 2000), Some(3999));
        // Relaxed: read after the scope.
        assert_eq!(passed.load(Ordering::Relaxed), 1);
    }
}
