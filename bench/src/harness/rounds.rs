//! Runs the rounds of a workload and prints what they gave.

use std::io::{IsTerminal, Write};

use super::args::Args;
use super::case::{Case, Metric, Samples, Workload};
use super::machine::MachineFacts;
use super::report::{CaseResult, json_lines};
use super::{child, runs, table};
use crate::{BenchError, Result};

/// Measures `workload` as `args` asks, prints the results, and keeps them if
/// the run is a full one.
///
/// A case that fails is reported on standard error and left out; the rest is
/// measured all the same, and then this returns an error.
pub fn run(workload: &dyn Workload, args: &Args) -> Result<()> {
    let mut cases = selected(workload, args)?;
    let spawn = |case: &Case| child::spawn(workload.name(), case);
    eprintln!("{}: {}", workload.name(), workload.title(args.scale()));
    workload.prepare(args.scale(), &mut cases, &spawn)?;
    let (results, failures) = measure_rounds(workload, &cases, args.rounds)?;
    workload.clean_up()?;

    let lines = json_lines(workload.name(), workload.about().metrics, &results);
    print_results(workload, args, &results, &lines)?;
    if !args.quick && !lines.is_empty() {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let facts = MachineFacts::collect(format!("cargo xtask bench {}", words.join(" ")));
        let path = runs::keep(&runs::runs_dir(), workload.name(), &facts, &lines)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        eprintln!("kept as bench/runs/{name}");
    }
    if failures > 0 {
        return Err(BenchError::new(format!(
            "{failures} of the measurements failed, see above"
        )));
    }
    Ok(())
}

fn selected(workload: &dyn Workload, args: &Args) -> Result<Vec<Case>> {
    let mut cases = workload.cases(args.scale());
    let mut known: Vec<&str> = cases.iter().map(|case| case.subject).collect();
    known.dedup();
    if let Some(unknown) = args.only.iter().find(|name| !known.contains(&name.as_str())) {
        let (name, known) = (workload.name(), known.join(", "));
        return Err(BenchError::new(format!(
            "{name} has no subject '{unknown}'; it has {known}"
        )));
    }
    cases.retain(|case| args.only.is_empty() || args.only.iter().any(|name| name == case.subject));
    Ok(cases)
}

/// Measures each case once in every round, each time in another order, and returns the results of those that succeeded
/// with the number of failures, which are reported on standard error.
pub fn measure_rounds(
    workload: &dyn Workload,
    cases: &[Case],
    rounds: usize,
) -> Result<(Vec<CaseResult>, usize)> {
    let unmeasured = |case: &Case| CaseResult {
        case: case.clone(),
        runs: Vec::new(),
    };
    let mut results: Vec<CaseResult> = cases.iter().map(unmeasured).collect();
    let mut failures = 0;
    for round in 0..rounds {
        for index in rotated(cases.len(), round, rounds) {
            let case = &cases[index];
            workload.before_each()?;
            match child::spawn(workload.name(), case) {
                Ok(samples) => {
                    report_progress(workload, case, round, rounds, &samples);
                    results[index].runs.push(samples);
                }
                Err(error) => {
                    eprintln!("{error}");
                    failures += 1;
                }
            }
        }
    }
    results.retain(|result| !result.runs.is_empty());
    Ok((results, failures))
}

/// The order of a round: the list, begun further on by an even share of its
/// length, so that over the rounds a case stands early, midway and late.
fn rotated(length: usize, round: usize, rounds: usize) -> impl Iterator<Item = usize> {
    let start = length * round / rounds.max(1);
    (0..length).map(move |offset| (start + offset) % length)
}

fn report_progress(workload: &dyn Workload, case: &Case, round: usize, rounds: usize, samples: &Samples) {
    let figure = |metric: &Metric| {
        let (name, value, decimals) = (metric.name, samples.value(metric.name)?, metric.decimals);
        Some(format!("{name} {value:.decimals$}"))
    };
    let figures: Vec<String> = workload.about().metrics.iter().filter_map(figure).collect();
    let (round, params, figures) = (round + 1, case.params_text(|_| true), figures.join(", "));
    eprintln!("  {round}/{rounds} {} {params}: {figures}", case.subject);
}

fn print_results(
    workload: &dyn Workload,
    args: &Args,
    results: &[CaseResult],
    lines: &[String],
) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", lines.join("\n"))?;
    } else {
        let colours = out.is_terminal() && console::colors_enabled();
        let (name, title) = (workload.name(), workload.title(args.scale()));
        let table = table::render(workload, results, colours);
        writeln!(
            out,
            "\n{name}: {title} ({} rounds, medians)\n{table}",
            args.rounds
        )?;
    }
    Ok(out.flush()?)
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
