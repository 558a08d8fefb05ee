//! `agent`: what an agent costs the programs that it serves and the machine, and how soon live control holds.
//!
//! Each row is one thing that is asked for. Where it is asked in comparison, both are measured in turn within the row,
//! and `compared` is their difference or their quotient, as `asked` says. `wrong` counts what must not be: lines that are
//! lost, or stand before an earlier one; of these there are `late` ones, by `latest_us` at most.

mod calls;
mod control;
mod idle;
mod many;

pub use many::serve_role;

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

    fn title(&self, scale: Scale) -> String {
        format!(
            "programs through an agent and with a drain of their own; live control; {} quiet programs",
            idle::programs(scale)
        )
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        ROWS.iter()
            .map(|(subject, asked, unit)| {
                Case::new(subject)
                    .param("asked", *asked)
                    .param("unit", *unit)
                    .setting("quick", scale == Scale::Quick)
            })
            .collect()
    }

    fn prepare(&self, _: Scale, _: &mut Vec<Case>, _: Measure<'_>) -> Result<()> {
        command::path().map(drop)
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let scale = if job.is_set("quick") {
            Scale::Quick
        } else {
            Scale::Full
        };
        match job.subject.as_str() {
            "call-p50" => calls::call("mean20_p50_ns", scale),
            "call-p99" => calls::call("call_p99_ns", scale),
            "w1" => calls::w1(scale),
            "eight-processes" => many::eight_processes(scale),
            "idle-cpu" => idle::processor(scale),
            "idle-memory" => idle::memory(scale),
            subject => control::measure(subject, scale),
        }
    }
}

/// A figure by itself.
fn alone(measured: f64) -> Samples {
    Samples::default().with("measured", measured)
}

/// The middle of some values.
fn median(mut values: Vec<f64>) -> Result<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len() / 2).copied();
    middle.ok_or_else(|| BenchError::subject("agent", "nothing was measured"))
}
