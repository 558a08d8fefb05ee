//! Capture: what a program prints becomes records.
//!
//! Bytes of a pipe ([`stream`]) are split into lines ([`lines`]), looked at for a level ([`level`]) or for fields
//! ([`json`]), and written into a ring as records ([`recorder`]). Splitting and looking have no I/O and no clock in
//! them.

pub mod ansi;
pub mod json;
pub mod level;
pub mod limits;
pub mod lines;
pub mod recorder;
pub mod stream;
