//! Counts of a drain that other threads read.

use std::sync::atomic::AtomicU64;

/// Counts of a drain, for statistics.
#[derive(Debug, Default)]
pub(crate) struct DrainCounts {
    /// Disabled calls of the process before this session began.
    disabled_before: u64,
    /// Records taken from rings and given to the sinks.
    pub(crate) drained: AtomicU64,
    /// Records with a time before that of an earlier line: their thread was stopped inside of the call.
    pub(crate) late: AtomicU64,
    /// Records whose bytes did not fit their callsite.
    pub(crate) malformed: AtomicU64,
    /// Rings that broke a rule of the format.
    pub(crate) quarantined: AtomicU64,
}

impl DrainCounts {
    /// Counts of a session that begins now.
    pub(crate) fn start() -> Self {
        Self {
            disabled_before: logdrive_ring::local::disabled_calls(),
            ..Self::default()
        }
    }

    /// Returns the calls that their level switched off since the session began.
    pub(crate) fn disabled_calls(&self) -> u64 {
        logdrive_ring::local::disabled_calls().saturating_sub(self.disabled_before)
    }
}
