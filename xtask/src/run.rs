//! Commands that build one program of the bench crate and run it: demo, bench and crash. Their
//! arguments, outputs and exit codes pass through untouched, so `bench NAME --json` can be piped.

use crate::args::Args;
use crate::shell::{Call, Failure, Outcome};
use std::io::IsTerminal;

/// Cycles of `crash` when none are given: what a person waits for.
const CRASH_CYCLES: u64 = 100;

/// Runs the main job on real input.
pub(crate) fn demo(args: &[String]) -> Outcome {
    bench_program("demo", args).run()
}

/// Runs one workload; without a name, the bench program lists what it has.
pub(crate) fn bench(args: &[String]) -> Outcome {
    crate::cpp::build_subjects(args)?;
    crate::go::build_subjects(args)?;
    bench_program("logdrive-bench", args).run()
}

/// Kills and recovers a logging program many times; with `--agent`, programs and the agent that drains them.
pub(crate) fn crash(args: &[String]) -> Outcome {
    let mut own = Args::new(args);
    let agent = own.switch("--agent");
    let cycles = own.number("--cycles")?.unwrap_or(CRASH_CYCLES);
    if cycles == 0 {
        return Err(Failure::usage("`--cycles` wants at least 1"));
    }
    let mut passed = vec!["--cycles".to_owned(), cycles.to_string()];
    if agent {
        passed.push("--agent".to_owned());
    }
    if let Some(seed) = own.number("--seed")? {
        passed.extend(["--seed".to_owned(), seed.to_string()]);
    }
    passed.extend(own.passed_on());
    own.end()?;
    bench_program("crash", &passed).run()
}

/// A release build of one of the bench crate's programs. Someone at a terminal sees the build's
/// progress, which takes minutes the first time; a script gets a quiet stderr.
fn bench_program(bin: &str, args: &[String]) -> Call {
    let call = Call::cargo().arg("run");
    let call = if std::io::stderr().is_terminal() {
        call
    } else {
        call.arg("--quiet")
    };
    call.args(["--release", "--package", "logdrive-bench", "--bin", bin, "--"])
        .args(args)
}
