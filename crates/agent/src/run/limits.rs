//! The bounds of running a command, each with the reason for the number.

/// When a command has ended and others hold its output open: no more is waited for after so many milliseconds without
/// any.
pub const QUIET_MS: u64 = 1_000;

/// And for so many milliseconds in all, unless told otherwise: a service that was left behind may print for ever.
pub const WAIT_OUTPUT_MS: u64 = 10_000;

/// Bytes of standard input that are passed on to a terminal at a time: what a terminal takes as one line.
pub const INPUT_BYTES: usize = 4096;

/// How often a process in the background looks, in milliseconds, whether it may read from its terminal again.
pub const BACKGROUND_LOOK_MS: u64 = 500;

/// How often, in milliseconds, it is looked whether processes that the command left behind still log.
pub const SETTLING_TURN_MS: u64 = 5;
