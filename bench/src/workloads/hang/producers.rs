//! The producers: threads that make calls by the clock, and time each of them.
//!
//! A call that is late because an earlier one hung is made at once, so that all subjects are given the same calls.

use std::time::{Duration, Instant};

use super::MARKER;
use crate::Result;
use crate::subjects::{Ended, Subject, Visitor};

/// Threads that log.
pub(super) const THREADS: u64 = 4;
/// Calls that each of them makes in a row.
pub(super) const CALLS_A_TICK: u64 = 10;
/// From one such row to the next.
const TICK: Duration = Duration::from_millis(1);

/// Longer than what the kernel and a logger's own line prefix need, so that
/// the hang fills every queue that is bounded.
const MESSAGE_BYTES: usize = 100;

/// Times for which calls are made before, while and after writes hang.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phases {
    pub(super) before_ms: u64,
    pub(super) hang_ms: u64,
    pub(super) after_ms: u64,
}

impl Phases {
    fn ticks(self) -> u64 {
        self.before_ms + self.hang_ms + self.after_ms
    }
}

/// Task of the producers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Production {
    pub(super) start: Instant,
    pub(super) phases: Phases,
}

/// Result of the producers.
#[derive(Debug)]
pub(super) struct Produced {
    pub(super) calls: u64,
    pub(super) times: CallTimes,
    pub(super) ended: Ended,
}

impl Production {
    /// When writes hang, from and to.
    pub(super) fn hang(&self) -> (Instant, Instant) {
        let begin = self.start + Duration::from_millis(self.phases.before_ms);
        (begin, begin + Duration::from_millis(self.phases.hang_ms))
    }

    /// Makes a thread's calls and returns how long each took, in nanoseconds.
    fn produce<S: Subject>(&self, subject: &S, number: u64) -> Vec<u64> {
        let mut text = format!("{MARKER} {number} ");
        let fill = "says something about its work and goes on. ";
        let missing = MESSAGE_BYTES.saturating_sub(text.len());
        text.extend(fill.chars().cycle().take(missing));
        let calls = self.phases.ticks() * CALLS_A_TICK;
        // Written once, so that no call pays for a page of this.
        let mut times_ns = vec![1; usize::try_from(calls).unwrap_or(0)];
        for (tick, row) in (0..).zip(times_ns.chunks_mut(CALLS_A_TICK as usize)) {
            let due = self.start + TICK * tick;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            for time_ns in row {
                let before = Instant::now();
                subject.line(&text);
                *time_ns = u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX);
            }
        }
        times_ns
    }
}

impl Visitor for Production {
    type Output = Produced;

    fn visit<S: Subject>(self, subject: S) -> Result<Produced> {
        let times: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let (subject, this) = (&subject, &self);
                    scope.spawn(move || this.produce(subject, number))
                })
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.filter_map(std::thread::Result::ok).collect()
        });
        let ended = subject.finish()?;
        Ok(Produced {
            calls: THREADS * self.phases.ticks() * CALLS_A_TICK,
            times: CallTimes::of(times),
            ended,
        })
    }
}

/// Durations of the calls of all threads. The first call of each thread counts apart: there, a logger may make ready
/// what the others use, whatever the disk does.
#[derive(Debug)]
pub(super) struct CallTimes {
    first_ns: u64,
    sorted_ns: Vec<u64>,
    /// When the longest of them was due, from the start.
    pub(super) worst_at_ms: u64,
}

impl CallTimes {
    fn of(threads: Vec<Vec<u64>>) -> CallTimes {
        let first_ns = threads.iter().filter_map(|times| times.first()).max();
        let others = threads
            .iter()
            .flat_map(|times| (0u64..).zip(times.iter().copied()).skip(1));
        let worst = others.clone().max_by_key(|(_, time_ns)| *time_ns);
        let mut sorted_ns: Vec<u64> = others.map(|(_, time_ns)| time_ns).collect();
        sorted_ns.sort_unstable();
        CallTimes {
            first_ns: first_ns.copied().unwrap_or(0),
            worst_at_ms: worst.map_or(0, |(index, _)| index / CALLS_A_TICK),
            sorted_ns,
        }
    }

    /// The longest of the threads' first calls, in milliseconds.
    pub(super) fn first_ms(&self) -> f64 {
        self.first_ns as f64 / 1e6
    }

    /// The time that this part of the calls did not exceed, in milliseconds.
    pub(super) fn quantile_ms(&self, part: f64) -> f64 {
        let last = self.sorted_ns.len().saturating_sub(1);
        let index = (part * last as f64).ceil() as usize;
        self.sorted_ns.get(index).map_or(0.0, |ns| *ns as f64 / 1e6)
    }

    /// Number of calls that took longer.
    pub(super) fn over(&self, limit: Duration) -> usize {
        let limit_ns = limit.as_nanos();
        let within = self.sorted_ns.partition_point(|ns| u128::from(*ns) <= limit_ns);
        self.sorted_ns.len() - within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_call_is_found_with_its_moment() {
        let mut quiet = vec![1_000; 30];
        quiet[7] = 2_000_000;
        let mut hung = vec![1_000; 30];
        hung[0] = 9_000_000;
        hung[25] = 3_000_000;
        let times = CallTimes::of(vec![quiet, hung]);
        assert_eq!(times.worst_at_ms, 2);
        assert_eq!(times.first_ms(), 9.0);
        assert_eq!(times.quantile_ms(0.5), 0.001);
        assert_eq!(times.quantile_ms(1.0), 3.0);
        assert_eq!(times.over(Duration::from_millis(1)), 2);
        assert_eq!(times.over(Duration::from_millis(2)), 1);
    }
}
