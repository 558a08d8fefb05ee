//! The `logdrive` command.
#![forbid(unsafe_code)]
fn main() {}
