//! Every bound of the ring and session formats, each with the reason for the number.

/// Smallest ring: an eighth of it is a useful record, and its header begins at a multiple of any page size that a
/// kernel has today.
pub const RING_BYTES_MIN: usize = 64 * 1024;

/// Largest ring: positions are 64 bits, this bounds a mistaken or hostile header.
pub(crate) const RING_BYTES_MAX: usize = 1 << 30;

/// Default ring: 7,000 lines of 150 bytes, which is a drain pause of some 100 µs at full speed.
pub const RING_BYTES_DEFAULT: usize = 1 << 20;

/// File systems up to this size share it between many rings and few output buffers, which are smaller then: a container
/// has 64 MiB for all of its processes.
pub(crate) const SMALL_FILE_SYSTEM_BYTES: u64 = 256 << 20;

/// Room that rings leave in their file system, for output buffers and callsites; a quarter of it where it is small.
pub(crate) const RING_MARGIN_BYTES: u64 = 16 << 20;

/// A thread's first ring: enough for a thread that logs now and then. One that fills is replaced by a larger one.
pub(crate) const FIRST_RING_BYTES: usize = RING_BYTES_MIN;

/// While the rings of a session take no more than this, a busy thread gets its largest ring at once, and pays for the pages of
/// one. It is a fifth of what a program with a thousand threads may take.
pub(crate) const ROOMY_RINGS_BYTES: usize = 32 << 20;

/// Elsewhere a ring is replaced by one that is so many times as large: a busy thread has its largest ring after two of them.
pub(crate) const RING_GROWTH: usize = 4;

/// Bytes of a larger ring that its drain touches at a time while nothing comes: a quarter of a millisecond.
pub(crate) const TOUCHED_BYTES: usize = 1 << 20;

/// The same for each system call, and for each pass of a drain that has work: some 15 microseconds.
pub(crate) const TOUCHED_PIECE_BYTES: usize = 64 * 1024;

/// Rings that are prepared for each thread without their memory, so that replacing one allocates nothing.
pub(crate) const PREPARED_RINGS: usize = 2;

/// Bytes of the path of a ring's file, which is made on the stack: that of a signal handler may have 8 KiB.
pub(crate) const PATH_BYTES: usize = 1024;

/// Rings of one session. A program with more threads that log at once shares nothing: its further threads
/// count their calls as dropped.
pub const RINGS_MAX: usize = 4096;

/// Callsites of one session; large programs have some ten thousand log statements.
pub const CALLSITES_MAX: usize = 64 * 1024;

/// Bytes of the callsite table: the most callsites at 256 bytes each.
pub(crate) const TABLE_BYTES_MAX: usize = 16 << 20;

/// Bytes of a callsite, as in the limits of the record format.
pub(crate) const CALLSITE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a damaged callsite table that are read in vain at most, in the search for its whole entries: some 50 ms.
pub(crate) const RESYNC_BYTES_MAX: usize = 64 << 20;

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

/// Pauses of the end of a session for calls that are under way: a quarter of a second in all, in which the thread of a call
/// gets a core on any machine that the end itself has one on. Counted, so that a stall of the machine takes one of them.
pub(crate) const CALL_PAUSES_MAX: u32 = 1_000;

/// Length of such a pause, in microseconds.
pub(crate) const CALL_PAUSE_US: u64 = 250;

/// Rings of ended threads that may wait for the drain before a new thread waits for one of them.
pub(crate) const ENDED_RINGS_MAX: usize = 64;

/// Attempts of a new thread to get the ring of an ended one before it gets a new ring: 10 ms in all, as a full ring.
pub(crate) const FREE_RING_ATTEMPTS: u32 = 50;

/// Pause between two such attempts, in microseconds.
pub(crate) const FREE_RING_PAUSE_US: u64 = 200;

/// Time after which a ring is made again where there was no room for one, in milliseconds.
pub(crate) const RING_ROOM_RETRY_MS: u64 = 500;

/// Time in which a ring is not replaced after a call could not do so, in nanoseconds: longer than that call, so that its
/// policy decides.
pub(crate) const KEEP_RING_NS: u64 = 10_000_000;

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
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const AGENT_RINGS_SPARE: usize = 2;

/// Rings of a process with an agent that have the largest size from the start: a program with few threads does without
/// replacements, for which no thread can make the ring itself.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const AGENT_LARGEST_RINGS: usize = 4;

/// Rings of the largest size that no thread has, above which it asks for no more: older ones may have lower numbers than
/// the rings of new threads.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const AGENT_LARGEST_SPARE: usize = 8;

/// Rings that it requests at a time: programs start their threads in groups.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const AGENT_RINGS_ASKED: u32 = 4;

/// Time that a thread without a ring waits for its agent, in milliseconds; as a full ring with policy `wait`, twice.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const AGENT_RING_WAIT_MS: u64 = 20;

/// Time that a thread whose small ring is full waits for its agent, in milliseconds; as a full ring with policy `wait`.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const AGENT_LARGER_WAIT_MS: u64 = 10;

/// Time in which no thread waits after one has waited in vain, in milliseconds.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const AGENT_RING_STALL_MS: u64 = 1_000;

/// Bytes that a flight recorder may keep: more than any machine gives one process's log, and a bound on a mistaken or
/// hostile file.
pub const KEEP_BYTES_MAX: usize = 16 << 30;

/// Sessions of an application that are kept because something in them cannot be read: enough to look into it.
pub(crate) const SET_ASIDE_MAX: usize = 8;

/// Bytes that they take together; the newest one may be larger.
pub(crate) const SET_ASIDE_BYTES_MAX: u64 = 256 << 20;
