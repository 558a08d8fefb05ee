//! The workshop's part for C++: the loggers that benches measure, built where a compiler is present.

use crate::paint;
use crate::shell::{self, CMAKE, CXX, Call, Outcome, first_missing};
use std::path::Path;

/// The workloads that have subjects in C++.
const WORKLOADS: [&str; 4] = ["glog", "callsite", "hang", "scorecard"];

/// Builds the subjects in C++ in `target/cpp-bench`, for a workload that has any. A machine without the tools measures
/// without them, and says so.
pub(crate) fn build_subjects(args: &[String]) -> Outcome {
    let root = shell::root()?;
    let wanted = args.iter().any(|arg| WORKLOADS.contains(&arg.as_str()));
    if !wanted || !root.join("bench/cpp").is_dir() {
        return Ok(());
    }
    if let Some(tool) = first_missing(&[&CMAKE, &CXX]) {
        eprintln!(
            "{}: the subjects in C++: {}",
            paint::faint("left out"),
            tool.missing()
        );
        return Ok(());
    }
    build(&root, &[])
}

/// Builds the programs of `bench/cpp`, or those that `more` names.
pub(crate) fn build(root: &Path, more: &[&str]) -> Outcome {
    // Standard output belongs to the bench, whose lines a program may read.
    let configure = "-S bench/cpp -B target/cpp-bench -DCMAKE_BUILD_TYPE=Release --log-level=WARNING";
    let configured = Call::new("cmake").words(configure).dir(root).stdout()?;
    let built = Call::new("cmake")
        .words("--build target/cpp-bench --parallel")
        .args(more)
        .dir(root)
        .stdout()?;
    eprint!("{configured}{built}");
    Ok(())
}
