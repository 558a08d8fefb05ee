//! Why a call's record was not kept, and what a call does when its ring is full.

/// Why a call was dropped. The code is the index of its counter in shared memory.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The ring was full, and the policy did not wait, or had waited.
    Full = 0,
    /// The record is larger than an eighth of the ring.
    TooLarge = 1,
    /// A signal handler logged while its thread was inside of a log call.
    Reentrant = 2,
    /// No ring could be made for the thread: too many threads, or no shared memory left.
    NoRing = 3,
    /// The call came before the start or after the end of logging.
    Closed = 4,
    /// The call came from one of our own threads.
    Backend = 5,
    /// The callsite table is full.
    NoCallsite = 6,
    /// Reserved.
    Other = 7,
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = 8;

    /// All reasons in the order of their codes.
    pub const ALL: [DropReason; Self::COUNT] = [
        Self::Full,
        Self::TooLarge,
        Self::Reentrant,
        Self::NoRing,
        Self::Closed,
        Self::Backend,
        Self::NoCallsite,
        Self::Other,
    ];

    /// Short name and text of each reason, in the order of their codes.
    const WORDS: [(&'static str, &'static str); Self::COUNT] = [
        ("full", "ring full"),
        ("too_large", "record too large"),
        ("reentrant", "log call interrupted by a signal handler that logs"),
        ("no_ring", "no ring for the thread"),
        ("closed", "logging not running"),
        ("backend", "logged by the backend itself"),
        ("no_callsite", "callsite table full"),
        ("other", "other"),
    ];

    /// Text of the reason in the log.
    pub const fn text(self) -> &'static str {
        Self::WORDS[self as usize].1
    }

    /// Short name for machines.
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

/// Policy of a call when its ring is full.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FullPolicy {
    /// Count the drop and return.
    Drop = 0,
    /// Park until half of the ring is free, at most 10 ms once per overload episode; then drop until half is free.
    #[default]
    Wait = 1,
    /// Park until there is room, without bound. For batch jobs and benchmarks.
    Block = 2,
}
