//! Every bound of a configuration, each with the reason for the number.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Sinks: each has a thread of its own, and a record's sinks are checked one by one.
pub const SINKS_MAX: usize = 16;

/// Routes: all are checked for every callsite that registers.
pub const ROUTES_MAX: usize = 256;

/// Limits of users, limits of applications, recorders and level rules, of each at most so many: they are checked for
/// every process that joins.
pub const RULES_MAX: usize = 256;

/// Bytes of a name or a pattern. An application's name has 63 at most, a user's 32.
pub const NAME_BYTES_MAX: usize = 64;

/// Bytes of a module prefix or of a file in a callsite's place.
pub const MODULE_BYTES_MAX: usize = 256;

/// Bytes of the directives of a level rule: what an environment variable takes with ease.
pub const RULES_BYTES_MAX: usize = 4096;

/// Directives of a level rule: a session has 256 rules, and some are left for tools.
pub const LEVEL_RULES_MAX: usize = 128;

/// Callsites that one recorder may be triggered by.
pub const TRIGGERS_MAX: usize = 64;

/// Bytes of the path of a Unix socket: `sockaddr_un` has 108, the last of which is 0.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Connections at once. Each takes a descriptor, and a session some more.
pub const CONNECTIONS: RangeInclusive<u64> = 1..=65_536;

/// Time that a connection may be silent: below, a busy machine's processes are cut off; above, an hour is for ever.
pub const IDLE_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Processes at once.
pub const PROCESSES: RangeInclusive<u64> = 1..=65_536;

/// Rings of one process, as a session can have.
pub const RINGS_OF_PROCESS: RangeInclusive<u64> = 1..=4096;

/// Rings of many processes. Each takes a descriptor.
pub const RINGS: RangeInclusive<u64> = 1..=1 << 20;

/// Bytes of shared memory: the smallest session is a ring of 64 KiB with its tables.
pub const MEMORY_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 46;

/// Records a second.
pub const RECORDS_PER_SECOND: RangeInclusive<u64> = 1..=1_000_000_000;

/// Bytes of log lines a day.
pub const DISK_BYTES_PER_DAY: RangeInclusive<u64> = 64 << 10..=1 << 50;

/// Bytes that a flight recorder keeps of one process: less than a ring holds nothing that the ring does not.
pub const RECORDER_BYTES: RangeInclusive<u64> = 1 << 20..=64 << 30;

/// The time that a dump goes back.
pub const RECORDER_BEFORE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);

/// Bytes of the path of a directory: room is left for the names of the files in it.
pub const DIRECTORY_BYTES_MAX: usize = 3072;
