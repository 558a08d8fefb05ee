//! Pauses between attempts to reach a server again: longer after each failure, up to a bound, and never the same for all
//! clients of a server that comes back.

use logdrive_ship::limits::RETRY_MS;
use std::time::{Duration, Instant};

/// Pause before the next attempt.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Attempts in a row that failed.
    failures: u32,
    /// Time before which none is made.
    not_before: Option<Instant>,
    random: fastrand::Rng,
}

impl Backoff {
    /// Time that is left of the pause.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.not_before
            .map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
    }

    /// Notes that an attempt failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        let (first_ms, longest_ms) = RETRY_MS;
        let doubled_ms = first_ms.saturating_mul(1 << self.failures.min(16));
        let pause_ms = doubled_ms.min(longest_ms);
        // Half of it by chance, so that clients which lost their server together do not come back together.
        let pause_ms = pause_ms / 2 + self.random.u64(..=pause_ms / 2);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + Duration::from_millis(pause_ms));
    }

    /// Notes that an attempt succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
        self.not_before = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ_between_clients() {
        let now = Instant::now();
        let pauses = |seed: u64| -> Vec<Duration> {
            let mut backoff = Backoff {
                random: fastrand::Rng::with_seed(seed),
                ..Backoff::default()
            };
            assert_eq!(
                backoff.left(now),
                Duration::ZERO,
                "the first attempt waits for nothing"
            );
            let next = |_| {
                backoff.failed(now);
                backoff.left(now)
            };
            (0..12).map(next).collect()
        };
        let (first, longest) = RETRY_MS;
        for (index, pause) in pauses(7).iter().enumerate() {
            let most = Duration::from_millis((first << index).min(longest));
            assert!(*pause >= most / 2 && *pause <= most, "{index}: {pause:?}");
        }
        assert_ne!(pauses(7), pauses(8));
    }

    #[test]
    fn a_success_begins_again() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        (0..9).for_each(|_| backoff.failed(now));
        backoff.succeeded();
        assert_eq!(backoff.left(now), Duration::ZERO);
        backoff.failed(now);
        assert!(backoff.left(now) <= Duration::from_millis(RETRY_MS.0));
    }
}
