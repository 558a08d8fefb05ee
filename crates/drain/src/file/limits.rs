//! Every maximum of the file sink, with the reason for its number.

use std::time::Duration;

/// Longest file name of a log: leaves room in the 255 bytes of common file systems for the time,
/// the number and the endings that rotation and compression add (43 bytes at most).
pub(crate) const NAME_BYTES_MAX: usize = 200;

/// Digits of a rotation's number, at least: names sort in its order within one second up to the millionth.
pub(crate) const SEQUENCE_DIGITS_MIN: usize = 6;

/// Rotations of one log that find a name: thirty years of one each second.
pub(crate) const SEQUENCE_MAX: u32 = 999_999_999;

/// Highest number in a rotated name of the earlier form, which counted within one second.
pub(crate) const NUMBER_MAX_EARLIER: u32 = 9_999;

/// Rotated files that one pass of the housekeeping checks. What is left over is seen by the next
/// pass, and the newest files of a part are never older than the newest of the whole, so that a
/// partial list removes nothing which a full one would keep.
pub(crate) const LISTED_MAX: usize = 65_536;

/// Files of one path with an owner each: the path itself, then `NAME.PID.log`, `NAME.PID-2.log`...
pub(crate) const BESIDE_MAX: u32 = 8;

/// Notices kept until they are taken; the oldest are dropped first, because the newest show the state.
pub(crate) const NOTICES_MAX: usize = 32;

/// Longest text form of [`FileOptions`](super::FileOptions): two paths of 4 KiB and a header, all
/// escaped to four times their size, stay below it.
pub(crate) const OPTIONS_TEXT_BYTES_MAX: usize = 64 * 1024;

/// Most bytes of the header at the start of a file.
pub(crate) const HEADER_BYTES_MAX: usize = 4 * 1024;

/// Most bytes of a path: `PATH_MAX` of Linux.
pub(crate) const PATH_BYTES_MAX: usize = 4 * 1024;

/// Interrupted system calls repeated in a row before the interruption counts as the failure.
pub(crate) const INTERRUPTED_MAX: u32 = 1_000;

/// Number of times that a race with another process for a file name is repeated before it is an error.
pub(crate) const OPEN_RACES_MAX: u32 = 16;

/// Files behind rotations that keep a descriptor until they are synced. Older ones are opened anew: by then the
/// system has mostly written them.
pub(crate) const LEFT_OPEN_MAX: usize = 16;

/// Files behind rotations that wait for a sync; the oldest is synced when another one comes.
pub(crate) const LEFT_FILES_MAX: usize = 4_096;

/// Ranges in doubt that one failed sync names.
pub(crate) const RANGES_MAX: usize = 256;

/// Interval in which the path is compared with the open file, to notice a rotation from outside.
pub(crate) const CHECK_INTERVAL_NS: u64 = 1_000_000_000;

/// Pause after a rotation that failed; meanwhile the old file is written on.
pub(crate) const ROTATION_RETRY_NS: u64 = 10_000_000_000;

/// Time that one write waits for a pipe or a terminal that is full before it gives the thread back.
pub(crate) const POLL_MAX: Duration = Duration::from_millis(100);

/// Block of the compression: large enough to keep system calls rare, small enough to stop soon.
pub(crate) const COPY_BLOCK_BYTES: usize = 128 * 1024;

/// Level of zstd of segments in a cold directory: they are written once, by a thread of low priority, and read seldom.
pub(crate) const COLD_LEVEL: i32 = 19;

/// Block of the comparison that recovery makes with what a file already holds.
pub(crate) const COMPARE_BLOCK_BYTES: usize = 64 * 1024;

/// Bytes that a pipe takes in one piece without mixing them with the writes of others (`PIPE_BUF`).
pub(crate) const PIPE_PIECE_BYTES: usize = 4096;

/// Bytes at the end of a truncated file that count as the start of a chunk; fewer may be the same by chance.
pub(crate) const MATCHED_BYTES_MIN: usize = 16;

/// Age at which rotated files go to a cold directory, where nothing else is said: people read those of the last day.
pub(super) const COLD_AFTER: Duration = Duration::from_secs(86_400);
