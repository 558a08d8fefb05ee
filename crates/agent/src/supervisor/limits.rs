//! The bounds of running a command, each with the reason for the number.

/// Timeout for output that others hold open when the command has ended: it ends after so many milliseconds without
/// any.
pub const QUIET_MS: u64 = 1_000;

/// And for so many milliseconds in all, unless configured otherwise: a service that was left behind may print for ever.
pub const WAIT_OUTPUT_MS: u64 = 10_000;

/// Bytes of standard input that are passed on to a terminal at a time: what a terminal takes as one line.
pub const INPUT_BYTES: usize = 4096;

/// Interval in milliseconds at which a process in the background checks whether it may read from its terminal again.
pub const BACKGROUND_CHECK_MS: u64 = 500;

/// Interval in milliseconds at which the agent checks whether processes that the command left behind still log.
pub const ENDING_TURN_MS: u64 = 5;
