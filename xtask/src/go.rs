//! The workshop's part for Go: its tests, in every module, and the loggers that benches measure, where Go is present.

use crate::paint;
use crate::shell::{self, CXX, Call, GO, Outcome};
use crate::steps::{End, StepOutcome};
use std::path::Path;

/// The workloads that have subjects in Go.
const WORKLOADS: [&str; 5] = ["glog", "callsite", "quic", "fprintf", "scorecard"];

/// The modules, each with its own `go.mod`: what users import, the tracer of quic-go, and the benches with all rivals.
const MODULES: [&str; 3] = ["clients/go", "clients/go/quicgo", "clients/go/bench"];

/// Looks at the modules and runs their tests, with the program that drains what they log.
pub(crate) fn test(root: &Path) -> StepOutcome {
    if !GO.present() {
        return Ok(End::LeftOut(format!("Go: {}", GO.missing())));
    }
    Call::cargo()
        .words("build --package logdrive-cli")
        .dir(root)
        .run()?;
    for module in MODULES {
        let dir = root.join(module);
        Call::new("go").words("vet ./...").dir(&dir).run()?;
        Call::new("go").words("test ./...").dir(&dir).run()?;
    }
    let dir = root.join(MODULES[0]);
    Call::new("go")
        .words("test -run XXX -fuzz FuzzEncode -fuzztime 5s .")
        .dir(&dir)
        .run()?;
    // The race detector is linked by a C compiler.
    if CXX.present() {
        Call::new("go").words("test -race ./...").dir(&dir).run()?;
    }
    Ok(End::Passed)
}

/// Ends programs in Go in every way, so many times, and looks at their logs.
pub(crate) fn crash(root: &Path, cycles: &str) -> StepOutcome {
    if !GO.present() {
        return Ok(End::LeftOut(format!("Go: {}", GO.missing())));
    }
    crate::programs::build_all(&[])?;
    Call::new("go")
        .words("test -count=1 -timeout 30m -run TestACrashLosesNothing . -crash-cycles")
        .arg(cycles)
        .dir(&root.join(MODULES[0]))
        .run()?;
    Ok(End::Passed)
}

/// Builds the subjects in Go in `target/go-bench`, and the program that drains, for a workload that has any. A machine
/// without Go measures without them, and says so.
pub(crate) fn build_subjects(args: &[String]) -> Outcome {
    let root = shell::root()?;
    if !args.iter().any(|arg| WORKLOADS.contains(&arg.as_str())) {
        return Ok(());
    }
    if !GO.present() {
        eprintln!(
            "{}: the subjects in Go: {}",
            paint::faint("left out"),
            GO.missing()
        );
        return Ok(());
    }
    // Standard output belongs to the bench, whose lines a program may read.
    crate::programs::build_all(&[])?;
    let program = root.join("target/go-bench/bench");
    let built = Call::new("go")
        .words("build -o")
        .arg(program.to_string_lossy())
        .arg(".")
        .dir(&root.join("clients/go/bench"))
        .stdout()?;
    eprint!("{built}");
    Ok(())
}
