//! Every bound of the ring and session formats, each with the reason for the number.

/// Smallest ring: an eighth of it is a useful record, and its header begins at a multiple of any page size that a
/// kernel has today.
pub const RING_BYTES_MIN: usize = 64 * 1024;

/// Largest ring: positions are 64 bits, this bounds a mistaken or hostile header.
pub(crate) const RING_BYTES_MAX: usize = 1 << 30;

/// Default ring: 7,000 lines of 150 bytes, which is a drain pause of some 100 µs at full speed.
pub const RING_BYTES_DEFAULT: usize = 1 << 20;

/// Rings of one session. A program with more threads that log at once shares nothing: its further threads
/// count their calls as dropped.
pub const RINGS_MAX: usize = 4096;

/// Callsites of one session; large programs have some ten thousand log statements.
pub const CALLSITES_MAX: usize = 64 * 1024;

/// Bytes of the callsite table: the most callsites at 256 bytes each.
pub(crate) const TABLE_BYTES_MAX: usize = 16 << 20;

/// The callsite table and the control words are reserved in steps of this many bytes.
pub(crate) const RESERVE_STEP_BYTES: usize = 64 * 1024;

/// Bytes of a thread's name in its ring header; the kernel's own limit is 16.
pub const THREAD_NAME_BYTES: usize = 32;

/// Bytes of the application's name in the session header.
pub(crate) const APP_NAME_BYTES: usize = 64;

/// A record may take this part of a ring at most, so that a few large ones never fill it.
pub(crate) const RECORD_PART_OF_RING: usize = 8;

/// Bytes of the longest record of any ring, as in the limits of the record format.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a record that every ring takes: longer ones are compared with the ring that they go to.
pub const RECORD_BYTES_SURE: usize = RING_BYTES_MIN / RECORD_PART_OF_RING;

/// Time that a producer with policy `wait` parks, once per overload episode, in milliseconds.
pub(crate) const WAIT_MS_MAX: u32 = 10;

/// Time that a producer with policy `block` parks before it checks again that the session still has a drain.
pub(crate) const BLOCK_RECHECK_MS: u32 = 100;

/// Rings of ended threads that may wait for the drain before a new thread waits for one of them.
pub(crate) const ENDED_RINGS_MAX: usize = 64;

/// Attempts of a new thread to get the ring of an ended one before it gets a new ring: 10 ms in all, as a full ring.
pub(crate) const FREE_RING_ATTEMPTS: u32 = 50;

/// Pause between two such attempts, in microseconds.
pub(crate) const FREE_RING_PAUSE_US: u64 = 200;

/// Rules of one session: more than a person oversees, and few enough to search for every new callsite.
pub(crate) const RULES_MAX: usize = 256;

/// Bytes of the file that holds rules: its header, and two tables of rules, of which one is in force.
pub(crate) const RULES_FILE_BYTES: usize = 64 * 1024;

/// Bytes of a name in a rule: a module, target, file or field, as in the limits of the record format.
pub const RULE_NAME_BYTES_MAX: usize = 1024;

/// Number of times that a reader of the rules begins again because they were changed meanwhile.
pub(crate) const RULE_READS_MAX: usize = 100;

/// Time that a tool waits for another one that changes the rules of the same session, in milliseconds. Each takes
/// some milliseconds for the largest program.
pub(crate) const RULES_WAIT_MS_MAX: u64 = 2_000;

/// Number of times that a control word is made again because rules or filter changed meanwhile: each round needs
/// another change within microseconds, and the last change settles the word.
pub(crate) const SETTLE_ROUNDS_MAX: usize = 100;

/// Sampled callsites that a thread has counts of its own for. Further ones push each other out, at some ten
/// nanoseconds a time.
pub(crate) const THREAD_COUNTS_SLOTS: usize = 64;

/// Calls that a thread counts for itself before it adds them to the session's.
pub(crate) const UNREPORTED_CALLS_MAX: u32 = 256;

/// Free rings below which a process asks its agent for more.
pub(crate) const AGENT_RINGS_SPARE: usize = 2;

/// Rings that it requests at a time: programs start their threads in groups.
pub(crate) const AGENT_RINGS_ASKED: u32 = 4;

/// Time that a thread without a ring waits for its agent, in milliseconds; as a full ring with policy `wait`, twice.
pub(crate) const AGENT_RING_WAIT_MS: u64 = 20;

/// Time in which no thread waits after one has waited in vain, in milliseconds.
pub(crate) const AGENT_RING_STALL_MS: u64 = 1_000;

/// Bytes that a flight recorder may keep: more than any machine gives one process's log, and a bound on a mistaken or
/// hostile file.
pub const KEEP_BYTES_MAX: usize = 16 << 30;
