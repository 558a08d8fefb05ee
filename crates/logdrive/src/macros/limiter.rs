//! The counters behind `every_n!`, `every_ms!` and `once!`: one static for each statement, no lock.

use core::sync::atomic::{AtomicU64, Ordering};

/// State of a limiter, of which a statement uses one method.
#[derive(Debug)]
pub struct Limiter {
    /// Calls so far, or the time from which on the next one passes.
    next: AtomicU64,
    suppressed: AtomicU64,
}

impl Limiter {
    /// A state before the first call.
    #[expect(
        clippy::new_without_default,
        reason = "only the expansion makes one, in a static"
    )]
    pub const fn new() -> Self {
        Self {
            next: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        }
    }

    /// Passes the first call and then one in so many; returns how many were left out before it. A period of 0 is taken for
    /// 1.
    #[inline]
    pub fn every_n(&self, period: u64) -> Option<u64> {
        let period = period.max(1);
        // Relaxed: the count orders nothing else.
        let before = self.next.fetch_add(1, Ordering::Relaxed);
        if !before.is_multiple_of(period) {
            return None;
        }
        Some(if before == 0 { 0 } else { period - 1 })
    }

    /// Passes the first call and then at most one in so many milliseconds; returns how many were left out before it.
    #[inline]
    pub fn every_ms(&self, period_ms: u64, now_ms: u64) -> Option<u64> {
        // Relaxed, all: of the threads that see the time has come, the exchange lets one pass; nothing else is ordered.
        let next_ms = self.next.load(Ordering::Relaxed);
        let later_ms = now_ms.saturating_add(period_ms);
        let exchange =
            || (self.next).compare_exchange(next_ms, later_ms, Ordering::Relaxed, Ordering::Relaxed);
        if now_ms >= next_ms && exchange().is_ok() {
            // Each call that was left out is in exactly one count, this one or the next.
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Passes the first call.
    #[inline]
    pub fn once(&self) -> bool {
        // Relaxed: the swap lets one thread pass, and nothing else is ordered; the load spares later calls the swap.
        self.next.load(Ordering::Relaxed) == 0 && self.next.swap(1, Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_n_passes_and_the_first_does() {
        let every = Limiter::new();
        let passed: Vec<_> = (0..7).map(|_| every.every_n(3)).collect();
        assert_eq!(passed, [Some(0), None, None, Some(2), None, None, Some(2)]);
        assert_eq!(Limiter::new().every_n(0), Some(0));
    }

    #[test]
    fn one_passes_in_each_period() {
        let every = Limiter::new();
        let passed: Vec<_> = [0, 1, 9, 10, 11, 35]
            .map(|now_ms| every.every_ms(10, now_ms))
            .into();
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1)]);
        assert_eq!(Limiter::new().every_ms(u64::MAX, 5), Some(0));
    }

    #[test]
    fn threads_together_pass_once_and_lose_no_count() {
        let (every, once) = (Limiter::new(), Limiter::new());
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        every.every_ms(1000, 5);
                        // Relaxed: the scope's end orders it.
                        passed.fetch_add(u64::from(once.once()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(every.every_ms(1000, 2000), Some(3999));
        // Relaxed: read after the scope.
        assert_eq!(passed.load(Ordering::Relaxed), 1);
    }
}
