//! `fprintf`: formatting in Go, and what ten debug lines a request cost a server of HTTP.
//!
//! All of it happens in a program in Go. The same line is written again and again, through `fmt.Fprintf`, through typed
//! appends and through loggers, until all is with the kernel; then a server answers requests that write ten lines each,
//! with its load on the same two cores.

use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload, runs};
use crate::subjects::foreign::Language;
use crate::{BenchError, Result};

const SUBJECTS: [&str; 9] = [
    "none",
    "fprintf",
    "append-pool",
    "logdrive-go",
    "logdrive-go-slog",
    "slog",
    "zap-buffered",
    "zerolog-buffered",
    "phuslu-async",
];

const METRICS: &[Metric] = &[
    Metric::new("ops_per_ms", "calls/ms", 0),
    Metric::new("bytes_per_op", "bytes per call", 0),
    Metric::new("allocs_per_op", "allocations per call", 0),
    Metric::new("http_qps", "requests/s", 0),
    Metric::new("http_p50_ms", "ms", 2),
    Metric::new("http_p99_ms", "ms", 2),
];

/// The workload.
pub struct Fprintf;

impl Workload for Fprintf {
    fn about(&self) -> About {
        About::new("fprintf", METRICS).with_floor("http_qps", "none")
    }

    fn title(&self, scale: Scale) -> String {
        format!(
            "{} lines with four values, then {} s of HTTP with ten lines a request, in Go",
            lines_at(scale),
            f64::from(http_ms(scale)) / 1e3
        )
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let case = |subject: &&'static str| {
            Case::new(subject)
                .setting("lines", lines_at(scale))
                .setting("http_ms", http_ms(scale))
        };
        SUBJECTS.iter().map(case).collect()
    }

    fn prepare(&self, _: Scale, _: &mut Vec<Case>, _: Measure<'_>) -> Result<()> {
        if Language::Go.is_built("none") {
            return Ok(());
        }
        Err(BenchError::new(
            "all of `fprintf` is in Go: install Go, and run it as `cargo xtask bench fprintf`, which builds it",
        ))
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let path = runs::scratch_file("fprintf")?;
        let settings = ["lines", "http_ms"].map(|key| (key, job.number(key).to_string()));
        let samples = Language::Go.measure(&job.subject, "fprintf", &path, &settings);
        // The floor writes no file.
        let _ = std::fs::remove_file(&path);
        samples
    }
}

fn lines_at(scale: Scale) -> u32 {
    scale.pick(3_000_000, 200_000)
}

fn http_ms(scale: Scale) -> u32 {
    scale.pick(3_000, 300)
}
