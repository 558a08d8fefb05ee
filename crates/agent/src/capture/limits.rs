//! The bounds of capturing, each with the reason for the number.

use logdrive_wire::limits::RECORD_BYTES_MAX;

/// Bytes of a line that one record takes; a longer line goes in pieces. What is left of the largest record is for its
/// header, the length of the text, and the fields `part`, `last` and `partial`.
pub const PIECE_BYTES_MAX: usize = RECORD_BYTES_MAX - 64;

/// Bytes asked for in one read: few system calls, and the block is still in a near cache when it is split. While a pipe
/// is read the command cannot write to it, so that a larger read makes the command wait.
pub const READ_BYTES: usize = 32 * 1024;

/// Bytes that are left to gather in a busy pipe between two rows of reads, so that wake-ups are few; with twice as
/// many, a gigabyte of lines took a fifth longer, because those who write the log had nothing to do meanwhile.
pub const GATHER_BYTES: usize = 128 * 1024;

/// Bytes of a pipe, if the system grants them: the child goes on printing while its reader sleeps. More than this takes
/// a privilege.
pub const PIPE_BYTES: usize = 1 << 20;

/// Bytes a microsecond from which on output is left to gather: at this rate, 20 MB/s, a pause collects some pages.
pub const BUSY_BYTES_PER_US: u64 = 20;

/// Longest pause, in microseconds, in which output is left to gather so that few reads take it.
pub const GATHER_US_MAX: u64 = 500;

/// Shortest such pause: below this the wake-up costs more than it saves.
pub const GATHER_US_MIN: u64 = 50;

/// A line that has not ended, or an error to which a stack trace may belong, becomes a record after so long a pause, in
/// milliseconds: a prompt is seen soon, and a line
/// that a program prints in pieces stays one.
pub const PARTIAL_MS: u64 = 200;

/// Interval in milliseconds at which a reader whose output never pauses checks whether its command has ended.
pub const EVENT_CHECK_MS: u64 = 100;
