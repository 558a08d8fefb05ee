//! The benchmark program: `cargo xtask bench` calls it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use logdrive_bench::harness::{Args, Scale, rounds};
use logdrive_bench::{BenchError, Result, role, scorecard, workloads};

fn main() -> ExitCode {
    match role::play().unwrap_or_else(|| run(&Args::parse())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if args.list {
        list();
        return Ok(());
    }
    args.check()?;
    workloads::search::choose(args);
    if args.workloads.iter().any(|name| name == scorecard::NAME) {
        return match args.workloads.len() {
            1 => scorecard::run(args),
            _ => Err(BenchError::new(
                "the scorecard runs alone: `cargo xtask bench scorecard`",
            )),
        };
    }
    // All names are looked up before the first workload spends minutes.
    let chosen = args.workloads.iter().map(|name| workloads::find(name));
    for workload in chosen.collect::<Result<Vec<_>>>()? {
        rounds::run(workload, args)?;
    }
    Ok(())
}

fn list() {
    for workload in workloads::ALL {
        let cases = workload.cases(Scale::Full);
        let mut subjects: Vec<_> = cases.iter().map(|case| case.subject).collect();
        subjects.sort_unstable();
        subjects.dedup();
        println!("{:<10} {}", workload.name(), subjects.join(", "));
    }
    let rows: Vec<&str> = scorecard::names().collect();
    println!("{:<10} {}", scorecard::NAME, rows.join(", "));
}
