//! Capture: what a program prints becomes records.
//!
//! Bytes of a pipe ([`stream`]) are split into lines ([`lines`]), searched for a level
//! ([`logdrive_reader::foreign::level`]) or for fields ([`structured`]), joined where they belong together
//! ([`logdrive_reader::foreign::LineJoiner`]), and written into a ring as records ([`line_writer`]). Splitting and looking
//! have no I/O and no clock in them.

pub mod limits;
pub mod line_writer;
pub mod lines;
pub mod stream;
pub mod structured;
