//! Every bound of a process's connection to its agent, each with the reason for the number.

/// How long a start waits for an agent to accept, in milliseconds: on one machine that takes microseconds.
pub(super) const CONNECT_MS: u64 = 100;

/// How long it waits for its session, in milliseconds: the agent makes memory for it, among other things to do.
pub(super) const WELCOME_MS: u64 = 400;

/// How long an adoption waits for its answer, in milliseconds; nobody waits for it but the thread of the connection.
pub(super) const WELCOME_BACK_MS: u64 = 5_000;

/// Rings to begin with: for the first thread, and for the next one.
pub(super) const RINGS_AT_START: u32 = 2;

/// Rings that are shown with one message.
pub(super) const RINGS_SHOWN: usize = 100;

/// First and longest pause between two tries to reach an agent, in milliseconds.
pub(super) const RETRY_MS: (u64, u64) = (10, 1_000);

/// How often the thread of the connection looks around without being called, in milliseconds.
pub(super) const KEEP_MS: u64 = 1_000;

/// How often a caller who waits for the agent looks whether anything moves, in milliseconds.
pub(super) const LOOK_MS: u64 = 50;

/// Waiting ends when nothing has moved for this long, in milliseconds.
pub(super) const NO_PROGRESS_MS: u64 = logdrive_drain::limits::NO_PROGRESS_MS;

/// Output buffers of each sink for whoever recovers a session that was written to files: one is filled, one is written.
pub(super) const SPILLED_BUFFERS: usize = 2;

/// How long a wish for rings is not said again, in milliseconds: while it is on its way, and after it was refused.
pub(super) const RINGS_AGAIN_MS: (u64, u64) = (1_000, 10_000);
