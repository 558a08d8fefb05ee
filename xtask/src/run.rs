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
    if args.first().is_some_and(|name| name == "ship") {
        return bench_ship(args.get(1..).unwrap_or_default());
    }
    crate::cpp::build_subjects(args)?;
    crate::rivals::build(args)?;
    crate::go::build_subjects(args)?;
    bench_program("logdrive-bench", args).run()
}

/// What it costs to ship: needs the command itself, as the collector.
fn bench_ship(args: &[String]) -> Outcome {
    let root = crate::shell::root()?;
    Call::cargo()
        .words("build --quiet --release --package logdrive-cli --bin logdrive --example ship_speed")
        .dir(&root)
        .run()?;
    let program = crate::suite::target_dir(&root)?.join("release/examples/ship_speed");
    Call::new(&program).args(args).run()
}

/// Collectors, senders, shipping programs and connections that are killed or cut again and again, under load.
fn crash_collector(cycles: u64) -> Outcome {
    Call::cargo()
        .words("test --release --package logdrive-cli --test collect --test ship --test cut -- --nocapture")
        .env("LOGDRIVE_TEST_CYCLES", &cycles.to_string())
        .dir(&crate::shell::root()?)
        .run()
}

/// Kills and recovers a logging program many times; with `--agent`, programs and the agent that drains them.
pub(crate) fn crash(args: &[String]) -> Outcome {
    let mut own = Args::new(args);
    let agent = own.switch("--agent");
    let collector = own.switch("--collector");
    let cycles = own.number("--cycles")?.unwrap_or(CRASH_CYCLES);
    if cycles == 0 {
        return Err(Failure::usage("`--cycles` wants at least 1"));
    }
    if collector {
        own.end()?;
        return crash_collector(cycles);
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
