//! The rivals that need libraries of their own, built for the workloads that measure them.

use crate::paint;
use crate::shell::{self, CMAKE, CXX, Call, Outcome, first_missing};

/// The workloads that have such rivals.
const WORKLOADS: [&str; 3] = ["uds", "net", "scorecard"];

/// Builds `bench/rivals` in `target/rivals`, for a workload that measures them: ZeroMQ and nng, which are compiled with it,
/// tonic and s2n-quic. A machine that lacks a tool or the network measures without them, and says so; a smoke test
/// (`--quick`) takes what is built already.
pub(crate) fn build(args: &[String]) -> Outcome {
    let root = shell::root()?;
    let wanted = args.iter().any(|arg| WORKLOADS.contains(&arg.as_str()));
    let quick = args.iter().any(|arg| arg == "--quick" || arg == "--list");
    if !wanted || quick {
        return Ok(());
    }
    if let Some(tool) = first_missing(&[&CMAKE, &CXX]) {
        eprintln!("{}: rivals: {}", paint::faint("left out"), tool.missing());
        return Ok(());
    }
    // Standard output belongs to the bench, whose lines a program may read.
    let built = Call::cargo()
        .words("build --release --manifest-path bench/rivals/Cargo.toml --target-dir target/rivals")
        .dir(&root)
        .stdout();
    if built.is_err() {
        eprintln!(
            "{}: rivals: bench/rivals does not build here; what stands above says why",
            paint::faint("left out")
        );
    }
    Ok(())
}
