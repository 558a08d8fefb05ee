//! Parts that tests of all crates share: child processes with a role to play, waiting with a deadline, random numbers with
//! a seed that is printed, servers with their clients, and the vectors of the format. Everything panics where a test has to fail.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod namespaces;
mod process;
mod random;
#[cfg(feature = "servers")]
mod servers;
mod vectors;
mod wait;

pub use namespaces::in_namespaces;
pub use process::{Process, end_of_input, report, role, this_test, this_test_as, wait_for_input};
pub use random::Random;
#[cfg(feature = "servers")]
pub use servers::Servers;
pub use vectors::{each_case, hex, number, vectors};
pub use wait::{DEADLINE, wait_for, wait_until, wait_until_within};

/// Makes a directory that is removed when the value is dropped.
#[track_caller]
pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory for temporary files")
}
