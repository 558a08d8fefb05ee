//! `agent`: what an agent costs the programs that it serves and the machine, and how soon live control holds.
//!
//! Each row is one thing that is asked for. Where it is asked in comparison, both are measured in turn within the row,
//! and `compared` is their difference or their quotient, as `asked` says. `wrong` counts what must not be: lines that are
//! lost, or stand before an earlier one; of these there are `late` ones, by `latest_us` at most.

mod calls;
mod control;
mod idle;
mod many;

pub use many::{LOAD, QUIET, play_load, play_quiet};

use crate::harness::report::Summary;
use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload};
use crate::{BenchError, Result, command};

const METRICS: &[Metric] = &[
    Metric::new("measured", "as the row's unit", 3),
    Metric::new("base", "as the row's unit", 3),
    Metric::new("compared", "difference or quotient", 3),
    Metric::new("wrong", "lines", 0),
    Metric::new("late", "lines", 0),
    Metric::new("latest_us", "us", 1),
];

/// Rows: subject, how much, in which unit.
const ROWS: [(&str, &str, &str); 11] = [
    ("call-p50", "at most base + 1", "ns"),
    ("call-p99", "at most 1.10 x base", "ns"),
    ("w1", "at most 1.30 x base", "s"),
    ("eight-processes", "at least 0.80 x base", "M records/s"),
    ("level-change", "at most 10", "ms"),
    ("rule-change", "at most 10", "ms"),
    ("disabled", "at most 1", "ns"),
    ("sampled-out", "at most 5", "ns"),
    ("sampled-out-second", "at most 5", "ns"),
    ("idle-cpu", "below 1", "% of a core"),
    ("idle-memory", "below 32", "MiB"),
];

/// The workload.
pub struct Agent;

impl Workload for Agent {
    fn about(&self) -> About {
        About::new("agent", METRICS)
    }

    fn title(&self, _: Scale) -> String {
        format!(
            "programs through an agent and with a drain of their own; live control; {} quiet programs",
            idle::PROGRAMS
        )
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let case = |(subject, asked, unit): &(&'static str, &str, &str)| {
            let case = Case::new(subject).param("asked", *asked).param("unit", *unit);
            case.setting("quick", scale == Scale::Quick)
        };
        ROWS.iter().map(case).collect()
    }

    fn prepare(&self, _: Scale, _: &mut Vec<Case>, _: Measure<'_>) -> Result<()> {
        command::path().map(drop)
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let scale = match job.is_set("quick") {
            true => Scale::Quick,
            false => Scale::Full,
        };
        match job.subject.as_str() {
            "call-p50" => calls::call("mean20_p50_ns", scale),
            "call-p99" => calls::call("call_p99_ns", scale),
            "w1" => calls::w1(scale),
            "eight-processes" => many::eight_processes(scale),
            "idle-cpu" => idle::processor(scale),
            "idle-memory" => idle::memory(),
            subject => control::measure(subject, scale),
        }
    }
}

/// A figure by itself.
fn alone(measured: f64) -> Samples {
    Samples::default().with("measured", measured)
}

/// The medians of some values and of those that they are compared with, and their quotient.
fn quotient(measured: &[f64], base: &[f64]) -> Result<Samples> {
    compared(measured, base, |measured, base| measured / base)
}

/// The medians of some values and of those that they are compared with, and what `compare` makes of both.
fn compared(measured: &[f64], base: &[f64], compare: fn(f64, f64) -> f64) -> Result<Samples> {
    let median = |values| {
        let summary = Summary::of(values);
        summary.map_or_else(
            || Err(BenchError::subject("agent", "nothing was measured")),
            |of| Ok(of.median),
        )
    };
    let (measured, base) = (median(measured)?, median(base)?);
    let samples = alone(measured).with("base", base);
    Ok(samples.with("compared", compare(measured, base)))
}
