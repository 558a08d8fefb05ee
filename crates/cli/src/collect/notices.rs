//! Notices of a collector that runs: connections that were refused, by reason, and records that senders report as lost. A
//! flood of them is one line in ten seconds.

use logdrive_collector::StoreCounts;
use logdrive_ship::Stats;
use logdrive_ship::hello::Reason;
use std::time::{Duration, Instant};

/// Time between two notices of the same kind.
const INTERVAL: Duration = Duration::from_secs(10);

/// One count, and up to where it was told.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    count: u64,
    at: Option<Instant>,
}

impl Told {
    /// Returns what has come since the last time, if it is to be told now.
    fn rise(&mut self, count: u64, now: Instant) -> Option<u64> {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < INTERVAL;
        if count <= self.count || self.at.is_some_and(is_recent) {
            return None;
        }
        self.at = Some(now);
        Some(count - std::mem::replace(&mut self.count, count))
    }
}

/// State of all notices.
#[derive(Debug, Default)]
pub(super) struct Notices {
    lost: Told,
    ended: [Told; Reason::COUNT],
}

/// Returns whether a connection that ends for this reason was refused, or broke a rule.
pub(super) fn is_refusal(reason: usize) -> bool {
    // The cause of lost connections is unknown: they were cut, or the process was killed.
    let fine = [Reason::Done, Reason::Ending, Reason::Lost];
    !fine.iter().any(|fine| *fine as usize == reason)
}

impl Notices {
    /// Returns what is to be told now.
    pub(super) fn due(&mut self, stats: &Stats, counts: &StoreCounts, now: Instant) -> Vec<String> {
        let mut due = Vec::new();
        if let Some(lost) = self.lost.rise(counts.lost, now) {
            due.push(format!("senders have lost {lost} records, by their own count"));
        }
        let all = self
            .ended
            .iter_mut()
            .zip(stats.ended)
            .zip(Reason::NAMES)
            .enumerate();
        for (reason, ((told, count), name)) in all {
            if is_refusal(reason)
                && let Some(count) = told.rise(count, now)
            {
                let noun = if count == 1 { "connection" } else { "connections" };
                due.push(format!("{count} {noun} ended: {name}"));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_at_once_and_then_in_intervals() {
        let (mut notices, began) = (Notices::default(), Instant::now());
        let mut stats = Stats {
            connections: 0,
            accepted: 9,
            bytes: 0,
            ended: [0; Reason::COUNT],
        };
        let mut counts = StoreCounts::default();
        assert!(notices.due(&stats, &counts, began).is_empty());
        stats.ended[Reason::Done as usize] = 7;
        stats.ended[Reason::Forbidden as usize] = 1;
        counts.lost = 5;
        let due = notices.due(&stats, &counts, began);
        let lost = "senders have lost 5 records, by their own count";
        assert_eq!(due, [lost, "1 connection ended: forbidden"]);
        stats.ended[Reason::Forbidden as usize] = 1_001;
        assert!(notices.due(&stats, &counts, began + INTERVAL / 2).is_empty());
        let due = notices.due(&stats, &counts, began + INTERVAL);
        assert_eq!(due, ["1000 connections ended: forbidden"]);
    }
}
