//! One sink: the drain's buffer for it, its I/O thread, and the sink that keeps lines in memory.

pub(crate) mod buffer;
pub(crate) mod memory;
pub(crate) mod writer;
