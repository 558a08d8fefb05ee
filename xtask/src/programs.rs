//! Release builds of the programs that benches and trials run.

use crate::shell::{Call, Outcome, root};
use std::io::IsTerminal;

/// Builds the release programs of the workshop and the command `logdrive`. Always all of them in one call: cargo unifies
/// features over the packages of a call, so that another choice would build most crates a second time. Standard output
/// belongs to the program that is run next, and someone at a terminal sees the progress, which takes minutes at first.
pub(crate) fn build_all(more: &[&str]) -> Outcome {
    build("--package logdrive-cli --package logdrive-bench --bins", more)
}

/// Builds release programs of the given packages, then with `more` arguments.
pub(crate) fn build(packages: &str, more: &[&str]) -> Outcome {
    let quiet = (!std::io::stderr().is_terminal()).then_some("--quiet");
    Call::cargo()
        .arg("build")
        .args(quiet)
        .arg("--release")
        .words(packages)
        .args(more)
        .dir(&root()?)
        .run()
}
