//! The C ABI of Logdrive, declared in `clients/cpp/include/logdrive/logdrive.h`.
//!
//! It starts and ends the logger, flushes, recovers and counts; and it gives a front end in another language what it
//! needs to write records into the ring of its thread by itself: callsites, the thread's place, and a way on where the
//! ring has no room. `abi` holds everything that C calls; the rest is safe code below it.
//!
//! No panic leaves this crate: a call that panics returns an error.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![deny(unsafe_code)]

pub mod abi;
mod control;
mod error;
mod options;
mod program_calls;
mod rescue;
mod shared;

pub use abi::{LogdriveSinkStats, LogdriveStats};
pub use control::Logger;
pub use error::Code;
pub use options::Options;
