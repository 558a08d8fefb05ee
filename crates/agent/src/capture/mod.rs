//! Capture: what a program prints becomes records.
//!
//! Bytes of a pipe ([`stream`]) are split into lines ([`lines`]), searched for a level ([`level`]) or for fields
//! ([`json`]), and written into a ring as records ([`line_writer`]). Splitting and looking have no I/O and no clock in
//! them.

pub mod ansi;
pub mod json;
pub mod level;
pub mod limits;
pub mod line_writer;
pub mod lines;
pub mod stream;
