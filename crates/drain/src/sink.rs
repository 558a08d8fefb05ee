//! One sink: its start, the drain's buffer for it, its I/O thread, and the sink that keeps lines in memory.

pub(crate) mod account;
pub(crate) mod buffer;
pub(crate) mod callback;
pub(crate) mod delivery;
pub(crate) mod drop_reason;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod spare;
pub(crate) mod start;
pub(crate) mod targets;
pub(crate) mod writer;
