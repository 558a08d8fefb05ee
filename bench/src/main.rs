//! The benchmark program: `cargo xtask bench` calls it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use logdrive_bench::harness::{Args, Scale, args, child, rounds};
use logdrive_bench::{BenchError, Result, subjects, workloads};

fn main() -> ExitCode {
    let roles = [
        logdrive_bench::ends::serve_role,
        workloads::agent_run::serve_role,
        workloads::agent::serve_role,
        subjects::agent::serve_role,
    ];
    if let Some(status) = roles.iter().find_map(|serve| serve()) {
        return status;
    }
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{}", error.full_message());
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    match Args::from_env()? {
        Args::Help => print!("{}", args::USAGE),
        Args::List => list(),
        Args::Child { workload, job } => {
            return Ok(child::serve(find(&workload)?, &job));
        }
        Args::Run(run) => {
            // All names are looked up before the first workload spends minutes.
            let chosen = run
                .workloads
                .iter()
                .map(|name| find(name))
                .collect::<Result<Vec<_>>>()?;
            for workload in chosen {
                rounds::run(workload, &run)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> Result<&'static dyn logdrive_bench::harness::Workload> {
    workloads::ALL
        .iter()
        .copied()
        .find(|workload| workload.name() == name)
        .ok_or_else(|| {
            let known: Vec<_> = workloads::ALL.iter().map(|w| w.name()).collect();
            BenchError::Usage(format!(
                "there is no workload '{name}'; there are {}",
                known.join(", ")
            ))
        })
}

fn list() {
    for workload in workloads::ALL {
        let mut subjects: Vec<_> = workload
            .cases(Scale::Full)
            .iter()
            .map(|case| case.subject)
            .collect();
        subjects.sort_unstable();
        subjects.dedup();
        println!("{:<10} {}", workload.name(), subjects.join(", "));
    }
}
