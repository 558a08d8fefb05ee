//! Commands that build one program of the bench crate and run it: demo, bench and crash. Their
//! arguments, outputs and exit codes pass through untouched, so `bench NAME --json` can be piped.

use crate::args::{Args, Form};
use crate::programs;
use crate::shell::{Call, Failure, Outcome};

/// Cycles of `crash` when none are given: what a person waits for.
const CRASH_CYCLES: u64 = 100;

/// Runs the main job on real input. The demo is built without the workloads and their rivals, so that someone who sees
/// the project for the first time waits half as long.
pub(crate) fn demo(args: &[String]) -> Outcome {
    programs::build("--package logdrive-bench --no-default-features --bin demo", &[])?;
    start("demo", args)
}

/// Runs one workload; without a name, the bench program lists what it has.
pub(crate) fn bench(args: &[String]) -> Outcome {
    if args.first().is_some_and(|name| name == "ship") {
        return bench_ship(args.get(1..).unwrap_or_default());
    }
    crate::cpp::build_subjects(args)?;
    crate::rivals::build(args)?;
    crate::go::build_subjects(args)?;
    run_program("logdrive-bench", args)
}

/// Measures what it costs to ship, with the command itself as the collector.
fn bench_ship(args: &[String]) -> Outcome {
    programs::build_all(&["--example", "ship_speed"])?;
    let root = crate::shell::root()?;
    let program = crate::shell::target_dir(&root)?.join("release/examples/ship_speed");
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
    let form = Form {
        switches: &["agent", "collector"],
        options: &["cycles", "seed", "mode"],
        passes_on: true,
        ..Form::default()
    };
    let own = Args::read(args, &form)?;
    let cycles = own.number("cycles")?.unwrap_or(CRASH_CYCLES);
    if cycles == 0 {
        return Err(Failure::usage("`--cycles` wants at least 1"));
    }
    if own.switch("collector") {
        return crash_collector(cycles);
    }
    let mut passed = vec!["--cycles".to_owned(), cycles.to_string()];
    if own.switch("agent") {
        passed.push("--agent".to_owned());
    }
    if let Some(mode) = own.value("mode") {
        passed.extend(["--mode".to_owned(), mode.to_owned()]);
    }
    if let Some(seed) = own.number("seed")? {
        passed.extend(["--seed".to_owned(), seed.to_string()]);
    }
    passed.extend(own.passed_on);
    run_program("crash", &passed)
}

/// Builds a program of the bench crate and runs it.
fn run_program(name: &str, args: &[String]) -> Outcome {
    programs::build_all(&[])?;
    start(name, args)
}

fn start(name: &str, args: &[String]) -> Outcome {
    let target = crate::shell::target_dir(&crate::shell::root()?)?;
    Call::new(target.join("release").join(name)).args(args).run()
}
