//! Every bound of a process's connection to its agent, each with the reason for the number.

/// Time that a process waits for another agent to accept, in milliseconds: on one machine that takes microseconds.
pub(super) const CONNECT_MS: u64 = 100;

/// Part of the time of a start that is for the agent to accept; the rest is for the session, for which the agent makes memory,
/// among other things to do.
pub(super) const CONNECT_PART: u32 = 5;

/// Time that an adoption waits for its answer, in milliseconds; only the thread of the connection waits for it.
pub(super) const WELCOME_BACK_MS: u64 = 5_000;

/// Rings to begin with: for the first thread, and for the next one.
pub(super) const RINGS_AT_START: u32 = 2;

/// Rings that are shown with one message.
pub(super) const RINGS_SHOWN: usize = 100;

/// First and longest pause between two tries to reach an agent, in milliseconds.
pub(super) const RETRY_MS: (u64, u64) = (10, 1_000);

/// Interval in which the thread of the connection reports counts and rings, in milliseconds.
pub(super) const REPORT_MS: u64 = 1_000;

/// Interval in which a caller that waits for the agent checks for progress, in milliseconds.
pub(super) const PROGRESS_MS: u64 = 50;

/// Waiting ends when nothing has moved for this long, in milliseconds.
pub(super) const NO_PROGRESS_MS: u64 = logdrive_drain::limits::NO_PROGRESS.as_millis() as u64;

/// Output buffers of each sink for the recovery of a session that was written to files: one is filled, one is written.
pub(super) const SPILLED_BUFFERS: usize = 2;

/// Time that a request for rings is not repeated, in milliseconds: while it is on its way, and after it was refused.
pub(super) const RINGS_REQUEST_MS: (u64, u64) = (1_000, 10_000);
