//! Runs the rounds of a workload and prints what they gave.

use std::io::{IsTerminal, Write};

use super::args::RunArgs;
use super::case::{Case, Samples, Workload};
use super::machine::MachineFacts;
use super::report::{CaseResult, json_lines};
use super::{Scale, child, runs, table};
use crate::{BenchError, Result};

/// Measures `workload` as `args` asks, prints the results, and keeps them if
/// the run is a full one.
///
/// A case that fails is reported on standard error and left out; the rest is
/// measured all the same, and then this returns [`BenchError::Incomplete`].
pub fn run(workload: &dyn Workload, args: &RunArgs) -> Result<()> {
    let mut cases = selected(workload, args)?;
    let spawn = |case: &Case| child::spawn(workload.name(), case);
    eprintln!("{}: {}", workload.name(), workload.title(args.scale));
    workload.prepare(args.scale, &mut cases, &spawn)?;
    let (results, failures) = measure_rounds(workload, &cases, args.rounds)?;
    workload.clean_up()?;

    let lines = json_lines(workload.name(), workload.metrics(), &results);
    print_results(workload, args, &results, &lines)?;
    if args.scale == Scale::Full && !lines.is_empty() {
        let facts = MachineFacts::collect(args.command.clone());
        let path = runs::keep(&runs::runs_dir(), workload.name(), &facts, &lines)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        eprintln!("kept as bench/runs/{name}");
    }
    if failures > 0 {
        return Err(BenchError::Incomplete(failures));
    }
    Ok(())
}

fn selected(workload: &dyn Workload, args: &RunArgs) -> Result<Vec<Case>> {
    let mut cases = workload.cases(args.scale);
    if let Some(unknown) = args
        .only
        .iter()
        .find(|name| !cases.iter().any(|case| case.subject == *name))
    {
        let mut known: Vec<&str> = cases.iter().map(|case| case.subject).collect();
        known.dedup();
        return Err(BenchError::Usage(format!(
            "{} has no subject '{unknown}'; it has {}",
            workload.name(),
            known.join(", ")
        )));
    }
    if !args.only.is_empty() {
        cases.retain(|case| args.only.iter().any(|name| name == case.subject));
    }
    Ok(cases)
}

fn measure_rounds(
    workload: &dyn Workload,
    cases: &[Case],
    rounds: usize,
) -> Result<(Vec<CaseResult>, usize)> {
    let mut runs: Vec<Vec<Samples>> = vec![Vec::new(); cases.len()];
    let mut failures = 0;
    for round in 0..rounds {
        for index in rotated(cases.len(), round, rounds) {
            let case = &cases[index];
            workload.before_each()?;
            match child::spawn(workload.name(), case) {
                Ok(samples) => {
                    report_progress(workload, case, round, rounds, &samples);
                    runs[index].push(samples);
                }
                Err(error) => {
                    eprintln!("{}", error.full_message());
                    failures += 1;
                }
            }
        }
    }
    let results = cases
        .iter()
        .zip(runs)
        .filter(|(_, runs)| !runs.is_empty())
        .map(|(case, runs)| CaseResult {
            case: case.clone(),
            runs,
        })
        .collect();
    Ok((results, failures))
}

/// The order of a round: the list, begun further on by an even share of its
/// length, so that over the rounds a case stands early, midway and late.
fn rotated(length: usize, round: usize, rounds: usize) -> impl Iterator<Item = usize> {
    let start = length * round / rounds.max(1);
    (0..length).map(move |offset| (start + offset) % length)
}

fn report_progress(workload: &dyn Workload, case: &Case, round: usize, rounds: usize, samples: &Samples) {
    let figures: Vec<String> = workload
        .metrics()
        .iter()
        .filter_map(|metric| {
            let decimals = metric.decimals;
            samples
                .value(metric.name)
                .map(|value| format!("{} {value:.decimals$}", metric.name))
        })
        .collect();
    eprintln!(
        "  {}/{rounds} {} {}: {}",
        round + 1,
        case.subject,
        case.params_text(|_| true),
        figures.join(", ")
    );
}

fn print_results(
    workload: &dyn Workload,
    args: &RunArgs,
    results: &[CaseResult],
    lines: &[String],
) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let text = if args.json {
        lines.join("\n")
    } else {
        let colours = std::io::stdout().is_terminal() && console::colors_enabled();
        format!(
            "\n{}: {} ({} rounds, medians)\n{}",
            workload.name(),
            workload.title(args.scale),
            args.rounds,
            table::render(workload, results, colours)
        )
    };
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(BenchError::io("write to", std::path::Path::new("stdout")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_case_once_in_another_order() {
        let orders: Vec<Vec<usize>> = (0..3).map(|round| rotated(5, round, 3).collect()).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert_eq!(orders[0], [0, 1, 2, 3, 4]);
        assert_eq!(orders[1], [1, 2, 3, 4, 0]);
        assert_eq!(orders[2], [3, 4, 0, 1, 2]);
    }
}
