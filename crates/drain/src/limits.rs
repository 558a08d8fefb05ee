//! Every bound of the drain and the sinks, each with the reason for the number.

use std::time::Duration;

/// Bytes of one output buffer. One `write` of this size costs the kernel as much as its bytes; smaller ones cost more.
pub const BUFFER_BYTES: usize = 1 << 20;

/// Output buffers of one sink: one is filled, one is written, the rest absorbs a pause of the disk.
pub const BUFFERS_PER_SINK: usize = 8;

/// With one buffer, nothing could be filled while it is written.
pub const BUFFERS_PER_SINK_MIN: usize = 2;

/// Empty buffers of a sink that have their memory: the next one, and the last one behind it, which is for urgent lines.
pub const READY_BUFFERS: usize = 2;

/// Time after which memory for further buffers is tried again where there was no room for it.
pub const ROOM_RETRY: Duration = Duration::from_secs(1);

/// The drain's private window on a ring that has few records. A thousand threads have as many windows at once.
pub const FIRST_WINDOW_BYTES: usize = 4096;

/// The same at most: two records of the largest size.
pub const WINDOW_BYTES: usize = 128 * 1024;

/// Bytes copied out of a ring at a time: they are still in the first-level cache when they are parsed.
pub const COPY_BYTES: usize = 16 * 1024;

/// Bytes in a ring that may wait to be put in order, at least: a quarter of the smallest.
pub const PRESSURE_BYTES_MIN: usize = 16 * 1024;

/// Windows kept for rings that become busy again: as many as there are rings in some programs at work. What was
/// touched of one is mostly [`COPY_BYTES`].
pub const SPARE_WINDOWS_MAX: usize = 64;

/// Shortest pause between two passes, in nanoseconds: the producers' cache lines are left alone that long.
pub const PAUSE_NS_MIN: u64 = 50_000;

/// Longest pause while records come: an error is in the file that soon.
pub const PAUSE_BUSY_NS_MAX: u64 = 2_000_000;

/// Longest pause, when nothing happens: a hundred wake-ups a second cost about a quarter percent of a core.
pub const PAUSE_NS_MAX: u64 = 10_000_000;

/// So many sessions make the longest pause longer by as much again, because a pass checks each of them.
pub const PAUSE_SESSIONS: u64 = 16;

/// The most that it is multiplied by: twice, for a line of a program that was quiet waits as long.
pub const PAUSE_TIMES_MAX: u64 = 2;

/// Notices that wait for the drain; more than these in one pause say nothing new.
pub const NOTICES_MAX: usize = 64;

/// Bytes of one notice.
pub const NOTICE_BYTES_MAX: usize = 1024;

/// Waiting for a sink that makes no progress ends after this; what it holds stays in the session, for `recover`.
pub const NO_PROGRESS: Duration = Duration::from_secs(5);

/// Time that a start waits for the hello of a collector that dead processes have records for: a program must start, and
/// what is left stays where it is.
pub const ANSWER_MS: u64 = 1_000;

/// Times that a buffer is written at once to a new file where the file was deleted under it; then as after any other
/// failure, with pauses.
pub const DELETED_TRIES_MAX: u32 = 4;

/// Time that a start waits for the recovery of dead processes before it goes on beside it, in milliseconds: mostly all is
/// recovered by then.
pub const RECOVERY_WAIT_MS: u64 = 30;

/// Time that a recovery waits for the locks of the logs of a process that is still there, with another program or at its end: the
/// kernel frees them within milliseconds.
pub const LOCK_WAIT: Duration = Duration::from_millis(500);

/// Time between two looks at them.
pub const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Time that a start waits for its log files to open once their threads are at it, in milliseconds: a disk that answers
/// takes less than one. Those that take longer are opened while the program runs.
pub const OPEN_WAIT_MS: u64 = 60;

/// Time that a start waits for the threads of its sinks to be at work, in seconds: on a machine that is not overloaded
/// they are at once.
pub const THREAD_WAIT_S: u64 = 2;

/// Time that a recovery has for all sessions that are left when its program ends, in milliseconds; the others are left to
/// the next start.
pub const RECOVERY_END_MS: u64 = 1_000;

/// Time that a recovery without any progress has before the next session gets its turn: longer than it gives a sink, so
/// that only one that hangs itself is left behind, such as in a log that does not open.
pub const RECOVERY_HANGS: Duration = Duration::from_secs(8);

/// Time that the line about sessions which are dropped has to get into the session of the program that starts. It takes one
/// pass of the drain; without it they stay.
pub const HELD_TOLD: Duration = Duration::from_secs(10);

/// Sessions of dead processes of one application that are kept where they cannot be recovered, unless it is set: a program
/// of many processes that are killed together beside a full disk leaves one of each.
pub const HELD_SESSIONS: u64 = 64;

/// Bytes that they take together, unless it is set: a program that is killed again and again beside a full disk must not
/// fill the memory of the machine.
pub const HELD_BYTES: u64 = 256 << 20;

/// Places of a damaged ring that are looked at in the search for its next record, each with some records behind it: those
/// of the largest ring once, which takes a second.
pub const RING_SEARCH_STEPS: usize = 1 << 27;

/// Interval in which a thread that waits for a recovery looks whether it moves, in milliseconds.
pub const RECOVERY_LOOK_MS: u64 = 10;

/// First and longest pause between tries of a write that failed.
pub const RETRY_MS: (u64, u64) = (50, 1_000);

/// Interval in which drops of idle rings are reported, and files are checked for rotation.
pub const HOUSEKEEPING_NS: u64 = 1_000_000_000;

/// Rings kept ready for threads that start.
pub const SPARE_RINGS: usize = 4;

/// Interval of the drain's work for live control: its counts for each callsite are reported that soon, and budgets are
/// refilled so evenly.
pub const CONTROL_TICK_NS: u64 = 10_000_000;

/// Lines a second that say which callsites have left records out by sampling; the rest is one line together.
pub const SAMPLED_LINES_MAX: usize = 16;

/// Lines a second of one session that say that a record's callsite is unknown; the rest is one line together.
pub const UNKNOWN_LINES_MAX: u64 = 16;

/// Lines that say which rules were set or ended by one change; the rest is one line together.
pub const CHANGE_LINES_MAX: usize = 16;

/// Records of a flight recorder that are laid out between two passes of the drain: half a millisecond, in which no ring
/// fills that is not small.
pub const DUMP_SLICE_RECORDS: u64 = 2_000;

/// Attempts to make room for a record that is to be kept while the memory is being written: the slices of a chunk
/// full of the smallest records, and some.
pub const KEEP_ROOM_TRIES: usize = 16;

/// Interval in which the log reports records that a quota of bytes leaves out.
pub const QUOTA_REPORT_NS: u64 = 60_000_000_000;

/// Quotas of processes that have all ended, whose bytes of the day are remembered: with the longest names, some hundred
/// kilobytes.
pub const QUOTAS_UNUSED_MAX: usize = 4096;

/// Time between two dumps that records trigger, unless it is set.
pub const DUMP_PAUSE: Duration = Duration::from_secs(10);

/// Intervals in which a sink that sends checks what is acknowledged: at first, and while nothing moves.
pub const SHIP_LOOK_MS: (u64, u64) = (1, 50);

/// The same while it is closed.
pub const CLOSING_LOOK_MS: u64 = 2;

/// Bytes of one batch that is sent to a collector: a quarter of what a frame may have, so that acknowledgements come
/// while others are on their way.
pub const SHIP_BATCH_BYTES: usize = 256 * 1024;

/// Bytes that wait to be sent: as many as all output buffers of a sink may have, so that the buffers are the bound.
pub const SHIP_QUEUE_BYTES: usize = 18 << 20;

/// Addresses of a collector.
pub const SHIP_ADDRESSES_MAX: usize = 16;

/// Time after which a block of a segment is written at the earliest, unless its buffer is full or someone asks: each block
/// has its callsites in it.
pub(crate) const SEGMENT_FLUSH_EVERY: Duration = Duration::from_secs(1);
