//! Every bound of the ring and session formats, each with the reason for the number.

/// Smallest ring: two pages of records, so that a record of an eighth is still useful.
pub const RING_BYTES_MIN: usize = 64 * 1024;

/// Largest ring: positions are 64 bits, this bounds a mistaken or hostile header.
pub const RING_BYTES_MAX: usize = 1 << 30;

/// Default ring: 7,000 lines of 150 bytes, which is a drain pause of some 100 µs at full speed.
pub const RING_BYTES_DEFAULT: usize = 1 << 20;

/// Rings of one session. A program with more threads that log at once shares nothing: its further threads
/// count their calls as dropped.
pub const RINGS_MAX: usize = 4096;

/// Callsites of one session; large programs have some ten thousand log statements.
pub const CALLSITES_MAX: usize = 64 * 1024;

/// Bytes of the callsite table: the most callsites at 256 bytes each.
pub const TABLE_BYTES_MAX: usize = 16 << 20;

/// The callsite table and the control words are reserved in steps of this many bytes.
pub const RESERVE_STEP_BYTES: usize = 64 * 1024;

/// Bytes of a thread's name in its ring header; the kernel's own limit is 16.
pub const THREAD_NAME_BYTES: usize = 32;

/// Bytes of the application's name in the session header.
pub const APP_NAME_BYTES: usize = 64;

/// A record may take this part of a ring at most, so that a few large ones never fill it.
pub const RECORD_PART_OF_RING: usize = 8;

/// How long a producer with policy `wait` parks, once per overload episode, in milliseconds.
pub const WAIT_MS_MAX: u32 = 10;

/// How long a producer with policy `block` parks before it looks again whether the session still lives.
pub const BLOCK_RECHECK_MS: u32 = 100;

/// Rings of ended threads that may wait for the drain before a new thread waits for one of them.
pub const ENDED_RINGS_MAX: usize = 64;

/// How often a new thread looks for a ring of an ended one before it gets a new ring: 10 ms in all, as a full ring.
pub const FREE_RING_LOOKS: u32 = 50;

/// Pause between two such looks, in microseconds.
pub const FREE_RING_LOOK_US: u64 = 200;
