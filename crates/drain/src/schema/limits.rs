//! Bounds of the options of sinks, each with the reason for the number.

use std::ops::RangeInclusive;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Longest path of a directory or a file: `PATH_MAX` of Linux, less what rotation adds.
pub const PATH_BYTES_MAX: usize = 4000;

/// Longest name of a file in a path, as the file sink has it.
pub const FILE_NAME_BYTES_MAX: usize = 200;

/// Bytes of a name: an application's has 63 at most, a user's 32.
pub const NAME_BYTES_MAX: usize = 64;

/// Output buffers of a sink, 1 MiB each: with one, nothing could be filled while it is written; a session has 256, which
/// are 16 for each of 16 sinks.
pub const BUFFERS: RangeInclusive<u64> = 2..=16;

/// Time that lines may wait, from the moment that they are logged: the drain itself pauses up to 10 ms.
pub const FLUSH_EVERY: RangeInclusive<Duration> = Duration::from_millis(1)..=HOUR;

/// Time that an ordinary end of a program may take for its log: whoever waits for the program has little more patience.
pub const SHUTDOWN_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=HOUR;

/// Pause between two `fdatasync`; more often, the disk does nothing else.
pub const SYNC_EVERY: RangeInclusive<Duration> = Duration::from_millis(10)..=DAY;

/// Bytes before a file is rotated: a smaller file would be rotated for each output buffer.
pub const ROTATE_BYTES: RangeInclusive<u64> = 64 << 10..=16 << 40;

/// Time before a file is rotated: names have seconds, and a file for each second is useless.
pub const ROTATE_EVERY: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(366 * 86_400);

/// Rotated files of one log: as many as one pass of the housekeeping lists.
pub const KEEP_FILES: RangeInclusive<u64> = 1..=65_536;

/// Age of rotated files.
pub const KEEP_AGE: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(100 * 366 * 86_400);

/// Bytes of rotated files.
pub const KEEP_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 50;

/// Levels of zstd for what is sent: beyond 19 it takes memory that no log is worth.
pub const ZSTD_LEVEL: RangeInclusive<u64> = 1..=19;

/// Bytes of a spool: a segment is 8 MiB.
pub const SPOOL_BYTES: RangeInclusive<u64> = 16 << 20..=1 << 46;

/// Failures in a row that open a circuit breaker.
pub const BREAKER_FAILURES: RangeInclusive<u64> = 1..=1_000;

/// Time that a circuit breaker stays open: shorter is none, and after an hour an operator knows of the failure.
pub const BREAKER_OPEN: RangeInclusive<Duration> = Duration::from_millis(10)..=HOUR;

/// Results in a row that change the state of a circuit breaker or of a health check.
pub const BREAKER_COUNT: RangeInclusive<u64> = 1..=100;

/// Pause between two health checks of a collector: each is a connection with a handshake.
pub const HEALTH_EVERY: RangeInclusive<Duration> = Duration::from_millis(100)..=HOUR;

/// Time that a connection may take to be made: longer than the kernel tries by itself it never does.
pub const CONNECT_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(120);

/// Time that an acknowledgement may take: below, a collector that writes to a busy disk is cut off.
pub const RESPONSE_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(600);

/// Time that a connection to a collector may be silent.
pub const IDLE_TIMEOUT: RangeInclusive<Duration> = SECOND..=HOUR;

/// Bytes of the ring of one thread: a session's smallest, and a length that fits into its header.
pub const RING_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 30;

/// Bytes of a flight recorder: less holds no second of a busy program.
pub const RECORDER_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 40;

/// Times of a flight recorder: before a trigger, and between two of them.
pub const RECORDER_TIME: RangeInclusive<Duration> = Duration::ZERO..=DAY;

/// Sessions of dead processes that are kept where they cannot be recovered: the newest always is.
pub const HELD_SESSIONS: RangeInclusive<u64> = 1..=65_536;

/// Bytes that they take together: a session with one ring has some hundred kilobytes.
pub const HELD_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 40;
