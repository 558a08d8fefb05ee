//! The scorecard: one table of every figure that we stand for, over a floor that does the same bare work in the same run.
//!
//! The rows name figures of the workloads ([`rows`]). A run measures the cases that the rows need, workload by workload, in
//! turn as a run of the workload does, and divides round by round; the median of that counts. A full run is kept like that
//! of a workload, adds a line to `bench/history.jsonl`, and draws `bench/history.svg` again.

mod history;
pub mod rows;

use std::io::{IsTerminal, Write};

use console::Style;
use serde_json::json;

use self::rows::{Better, Figure, Floor, ROWS, Row};
use crate::harness::case::{Case, Workload};
use crate::harness::machine::MachineFacts;
use crate::harness::report::{CaseResult, Summary};
use crate::harness::{Args, Scale, child, rounds, runs, table};
use crate::{BenchError, Result, workloads};

/// Name on the command line and in every result.
pub const NAME: &str = "scorecard";

/// Cases of a workload that ran.
struct Measured {
    workload: &'static str,
    results: Vec<CaseResult>,
}

/// Outcome of a row.
struct Score {
    row: &'static Row,
    ours: f64,
    ratio: Summary,
    /// Best peer that ran, and our figure over its own.
    peer: Option<(&'static str, Summary)>,
}

/// Runs the rows that `args` names, or all, prints and keeps them.
///
/// # Errors
/// Fails when a row is not known, a workload cannot be prepared, or a measurement failed; what was measured is printed all
/// the same.
pub fn run(args: &Args) -> Result<()> {
    let rows = selected(args)?;
    let mut measured = Vec::new();
    let mut failures = 0;
    for workload in workloads::ALL {
        let (results, failed) = measure(*workload, &rows, args)?;
        failures += failed;
        measured.push(Measured {
            workload: workload.name(),
            results,
        });
    }
    let scores: Vec<Score> = rows.iter().filter_map(|row| score(row, &measured)).collect();
    let lines: Vec<String> = scores.iter().flat_map(json_lines).collect();
    print(args, &scores, &lines)?;
    if args.scale() == Scale::Full && args.only.is_empty() {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let facts = MachineFacts::collect(format!("cargo xtask bench {}", words.join(" ")));
        let path = runs::keep(&runs::runs_dir(), NAME, &facts, &lines)?;
        let medians = scores.iter().map(|score| (score.row.name, score.ratio.median));
        history::add(&facts, medians)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        eprintln!("kept as bench/runs/{name} and in bench/history.jsonl; bench/history.svg is drawn again");
    }
    match failures {
        0 => Ok(()),
        _ => Err(BenchError::new(format!(
            "{failures} of the measurements failed, see above"
        ))),
    }
}

/// Names of all rows.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

fn selected(args: &Args) -> Result<Vec<&'static Row>> {
    if let Some(unknown) = args
        .only
        .iter()
        .find(|name| !names().any(|known| known == **name))
    {
        let known: Vec<&str> = names().collect();
        let known = known.join(", ");
        return Err(BenchError::new(format!(
            "{NAME} has no row '{unknown}'; it has {known}"
        )));
    }
    let wanted = |row: &&Row| args.only.is_empty() || args.only.iter().any(|name| name == row.name);
    Ok(ROWS.iter().filter(wanted).collect())
}

/// Measures the cases of a workload that the rows need, with the number of measurements that failed.
fn measure(workload: &dyn Workload, rows: &[&Row], args: &Args) -> Result<(Vec<CaseResult>, usize)> {
    let figures: Vec<Figure> = rows.iter().flat_map(|row| row.figures()).collect();
    let mut cases = workload.cases(args.scale());
    let is_needed = |case: &Case| {
        let all = workload.cases(args.scale());
        let mut needed = figures.iter().filter(|figure| figure.workload == workload.name());
        needed.any(|figure| all.iter().find(|case| is_of(figure, case)) == Some(case))
    };
    cases.retain(is_needed);
    if cases.is_empty() {
        return Ok((Vec::new(), 0));
    }
    eprintln!("{}: {}", workload.name(), workload.title(args.scale()));
    let spawn = |case: &Case| child::spawn(workload.name(), case);
    workload.prepare(args.scale(), &mut cases, &spawn)?;
    let measured = rounds::measure_rounds(workload, &cases, args.rounds)?;
    workload.clean_up()?;
    Ok(measured)
}

fn is_of(figure: &Figure, case: &Case) -> bool {
    let has = |(name, value): &(&str, &str)| {
        let found = case.params.get(*name);
        found.is_some_and(|found| match found.as_str() {
            Some(text) => text == *value,
            None => found.to_string().as_str() == *value,
        })
    };
    case.subject == figure.subject && figure.params.iter().all(has)
}

/// Values of a figure by round; empty where it was not measured.
fn values(figure: &Figure, measured: &[Measured]) -> Vec<f64> {
    let of_workload = measured.iter().find(|of| of.workload == figure.workload);
    let mut results = of_workload.into_iter().flat_map(|of| &of.results);
    let found = results.find(|result| is_of(figure, &result.case));
    found.map_or_else(Vec::new, |result| result.values(figure.metric))
}

/// The row's ratios; `None` where ours or the floor was not measured.
fn score(row: &'static Row, measured: &[Measured]) -> Option<Score> {
    let ours = values(&row.ours, measured);
    let best = |values: &[f64]| match row.better {
        Better::Lower => values.iter().copied().reduce(f64::min),
        Better::Higher => values.iter().copied().reduce(f64::max),
    };
    let floors: Vec<f64> = match row.floor {
        Floor::Fixed(value) => vec![value; ours.len()],
        Floor::Measured(figures) => {
            let all: Vec<Vec<f64>> = figures.iter().map(|figure| values(figure, measured)).collect();
            let of_round = |round: usize| {
                let found: Vec<f64> = all.iter().filter_map(|of| of.get(round).copied()).collect();
                best(&found)
            };
            (0..ours.len()).filter_map(of_round).collect()
        }
    };
    let ratio = ratios(&ours, &floors)?;
    let peers = row.peers.iter().filter_map(|figure| {
        let theirs = values(figure, measured);
        Some((
            figure.subject,
            Summary::of(&theirs)?.median,
            ratios(&ours, &theirs)?,
        ))
    });
    let is_better = |one: f64, other: f64| match row.better {
        Better::Lower => one < other,
        Better::Higher => one > other,
    };
    let peer = peers.reduce(|one, other| if is_better(other.1, one.1) { other } else { one });
    Some(Score {
        row,
        ours: Summary::of(&ours)?.median,
        ratio,
        peer: peer.map(|(subject, _, ratio)| (subject, ratio)),
    })
}

/// Ratios round by round.
fn ratios(ours: &[f64], theirs: &[f64]) -> Option<Summary> {
    let rounds = ours.iter().zip(theirs).filter(|(_, theirs)| **theirs != 0.0);
    let ratios: Vec<f64> = rounds.map(|(ours, theirs)| ours / theirs).collect();
    Summary::of(&ratios)
}

fn floor_name(row: &Row) -> String {
    match row.floor {
        Floor::Fixed(value) => value.to_string(),
        Floor::Measured(figures) => {
            let names: Vec<&str> = figures.iter().map(|figure| figure.subject).collect();
            names.join(" or ")
        }
    }
}

fn json_lines(score: &Score) -> Vec<String> {
    let row = score.row;
    let line = |metric: &str, over: &str, ratio: &Summary| {
        let params = json!({
            "of": row.ours.subject, "metric": row.ours.metric, "over": over, "goal": row.goal,
            "is_met": row.is_met(score.ratio.median),
        });
        let mut line = json!({
            "workload": NAME, "subject": row.name, "params": params, "metric": metric, "unit": "times",
        });
        if let (Some(line), Ok(serde_json::Value::Object(summary))) =
            (line.as_object_mut(), serde_json::to_value(ratio))
        {
            line.extend(summary);
        }
        line.to_string()
    };
    let peer = score
        .peer
        .as_ref()
        .map(|(peer, ratio)| line("ratio_to_peer", peer, ratio));
    std::iter::once(line("ratio", &floor_name(row), &score.ratio))
        .chain(peer)
        .collect()
}

fn print(args: &Args, scores: &[Score], lines: &[String]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", lines.join("\n"))?;
        return Ok(out.flush()?);
    }
    let colours = out.is_terminal() && console::colors_enabled();
    let heads = ["row", "floor", "best peer", "ours", "x floor", "goal", "x peer"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(scores.iter().map(cells));
    let is_met = |score: &&Score| score.row.is_met(score.ratio.median);
    let styles = scores.iter().map(|score| match is_met(&score) {
        true => Style::new().green(),
        false => Style::new().yellow(),
    });
    let styles = std::iter::once(Style::new().bold()).chain(styles);
    writeln!(out, "\n{NAME}: ratios of {} rounds, medians", args.rounds)?;
    for (line, style) in table::aligned(&rows, 3).iter().zip(styles) {
        writeln!(out, "{}", style.force_styling(colours).apply_to(line))?;
    }
    let notes = scores.iter().filter(|score| !score.row.leaves_out.is_empty());
    for score in notes {
        writeln!(out, "{}: {}", score.row.name, score.row.leaves_out)?;
    }
    let met = scores.iter().filter(is_met).count();
    writeln!(out, "{met} of {} goals met", scores.len())?;
    Ok(out.flush()?)
}

fn cells(score: &Score) -> Vec<String> {
    let row = score.row;
    let (peer, over_peer) = match &score.peer {
        Some((peer, ratio)) => ((*peer).to_owned(), with_digits(ratio.median)),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let (ours, ratio) = (with_digits(score.ours), with_digits(score.ratio.median));
    vec![
        row.name.to_owned(),
        floor_name(row),
        peer,
        ours,
        ratio,
        row.goal.to_string(),
        over_peer,
    ]
}

/// A figure of any size, with the digits that a measurement has.
fn with_digits(value: f64) -> String {
    match value.abs() {
        0.0..0.1 => format!("{value:.4}"),
        0.1..100.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::case::Samples;
    use std::collections::BTreeSet;

    fn result(subject: &'static str, metric: &str, values: &[f64]) -> CaseResult {
        CaseResult {
            case: Case::new(subject).param("threads", 1),
            runs: values
                .iter()
                .map(|value| Samples::default().with(metric, *value))
                .collect(),
        }
    }

    #[test]
    fn a_ratio_is_taken_round_by_round_and_the_best_peer_is_named() {
        let row = ROWS.iter().find(|row| row.name == "call").unwrap();
        let metric = "mean20_p50_ns";
        let measured = [Measured {
            workload: "callsite",
            results: vec![
                result("stores", metric, &[10.0, 20.0, 30.0]),
                result("logdrive", metric, &[11.0, 24.0, 30.0]),
                result("tracing-bufwriter", metric, &[110.0, 220.0, 330.0]),
                result("spdlog-rs-sync", metric, &[500.0, 500.0, 500.0]),
            ],
        }];
        let score = score(row, &measured).unwrap();
        assert_eq!(score.ratio.median, 1.1);
        let (peer, ratio) = score.peer.as_ref().unwrap();
        assert_eq!(
            (*peer, ratio.median.to_string().as_str()),
            ("tracing-bufwriter", "0.1")
        );
        let lines = json_lines(&score);
        assert!(lines[0].contains(r#""subject":"call""#) && lines[0].contains(r#""is_met":false"#));
        assert!(lines[1].contains(r#""metric":"ratio_to_peer""#));
    }

    #[test]
    fn a_row_without_its_floor_is_left_out() {
        let row = ROWS.iter().find(|row| row.name == "call").unwrap();
        let measured = [Measured {
            workload: "callsite",
            results: vec![result("logdrive", "mean20_p50_ns", &[11.0])],
        }];
        assert!(score(row, &measured).is_none());
    }

    /// Subjects of other languages are there only where they are built.
    #[test]
    fn rows_name_cases_and_metrics_that_workloads_have() {
        let built = [
            "cpp",
            "go",
            "glog",
            "spdlog",
            "zap",
            "zerolog",
            "slog",
            "tracer",
            "none",
            "text-file",
        ];
        let ends = ["zeromq", "nng", "tonic", "s2n-quic"];
        for figure in ROWS.iter().flat_map(Row::figures) {
            let workload = workloads::find(figure.workload).unwrap();
            let metrics: BTreeSet<&str> = workload
                .about()
                .metrics
                .iter()
                .map(|metric| metric.name)
                .collect();
            assert!(metrics.contains(figure.metric), "{figure:?}");
            let may_lack = built
                .iter()
                .chain(&ends)
                .any(|part| figure.subject.contains(part));
            let stack_may_lack = figure.params.contains(&("stack", "quic-go"));
            let cases = workload.cases(Scale::Full);
            let is_there = cases.iter().any(|case| is_of(&figure, case));
            assert!(is_there || may_lack || stack_may_lack, "{figure:?}");
        }
    }
}
