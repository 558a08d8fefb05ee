//! What a delivery tells of itself: counts, messages for the operator, and whether it is to end.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Messages for the operator that wait.
const NOTICES_MAX: usize = 100;

/// Counts of a delivery since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Records that the engine has.
    pub records: u64,
    /// Requests, or what an engine has in their place, that it took.
    pub batches: u64,
    /// Times that a batch was handed over again.
    pub retries: u64,
    /// Records that the engine never takes, which are in the file of dead letters.
    pub dead_letters: u64,
    /// Records that were removed before the engine had them.
    pub lost: u64,
    /// Bytes of the log that could not be read.
    pub damaged_bytes: u64,
    /// Records in the log that the engine does not have.
    pub lag_records: u64,
    /// Bytes of the log that it does not have.
    pub lag_bytes: u64,
    /// Age of the oldest record that it does not have.
    pub lag_time: Duration,
    /// Last error in words; empty while all is well.
    pub error: String,
}

#[derive(Debug, Default)]
pub(crate) struct DeliveryReport {
    pub(crate) counts: DeliveryCounts,
    pub(crate) notices: Vec<String>,
    /// Time up to which the thread goes on; `None` for ever.
    pub(crate) ends_at: Option<Instant>,
    /// Set when everything is delivered at the end.
    pub(crate) is_idle: bool,
}

/// Report that the thread of a delivery shares with those who ask for it.
#[derive(Debug, Default)]
pub(crate) struct SharedReport {
    report: Mutex<DeliveryReport>,
    changed: Condvar,
}

impl SharedReport {
    pub(crate) fn lock(&self) -> MutexGuard<'_, DeliveryReport> {
        // Numbers and texts are whole.
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, and less where the end comes before.
    pub(crate) fn wait(&self, time: Duration) {
        let report = self.lock();
        let time = match report.ends_at {
            Some(end) => end.saturating_duration_since(Instant::now()).min(time),
            None => time,
        };
        let was_ending = report.ends_at.is_some();
        let woken = |report: &mut DeliveryReport| report.ends_at.is_some() == was_ending;
        // As above.
        drop(self.changed.wait_timeout_while(report, time, woken));
    }

    /// Lets the thread go on for so long at most.
    pub(crate) fn end_within(&self, timeout: Duration) {
        self.lock().ends_at = Some(Instant::now() + timeout);
        self.changed.notify_all();
    }

    /// Whether the thread is to end though something is left.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().ends_at.is_some_and(|end| Instant::now() >= end)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.lock().ends_at.is_some()
    }

    pub(crate) fn notice(&self, text: String) {
        let mut report = self.lock();
        if report.notices.len() < NOTICES_MAX {
            report.notices.push(text);
        }
    }

    pub(crate) fn fail(&self, text: &str) {
        let mut report = self.lock();
        if report.counts.error != text {
            text.clone_into(&mut report.counts.error);
            if report.notices.len() < NOTICES_MAX {
                report.notices.push(text.to_owned());
            }
        }
    }
}
