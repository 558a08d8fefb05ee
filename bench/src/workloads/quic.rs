//! `quic`: a transfer over QUIC whose every event is logged.
//!
//! The rate is taken until the last byte has arrived. A logger that still
//! holds events then finishes outside of the clock; what it lost is counted
//! in its file.

use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload};
use crate::logged::run_subject;
use crate::subjects::foreign::Language;
use crate::{BenchError, Result};

const FULL_BYTES: u64 = 1_000_000_000;
const QUICK_BYTES: u64 = 60_000_000;

/// The stack of the subjects in Go.
const QUIC_GO: &str = "quic-go";

const RIVALS: [(&str, &str); 4] = [
    ("none", "off"),
    ("count", "trace"),
    ("tracing-subscriber", "trace"),
    ("tracing-appender", "trace"),
];
const OURS: [(&str, &str); 3] = [
    ("logdrive", "trace"),
    ("logdrive-discard", "trace"),
    ("logdrive-debug", "debug"),
];

/// Subjects with quic-go, their level, how many connections share the bytes, and the part of the bytes that they send in
/// a time that a person waits: what is as slow as a terminal sends less.
const GO: [(&str, &str, u64, u64); 9] = [
    ("none", "off", 1, 1),
    ("empty-tracer", "debug", 1, 1),
    ("empty-tracer-one-end", "debug", 1, 1),
    ("logdrive", "debug", 1, 1),
    ("logdrive-one-end", "debug", 1, 1),
    ("none", "off", 16, 1),
    ("logdrive-sampled", "debug", 16, 1),
    ("text-file", "debug", 1, 4),
    ("slow-terminal", "debug", 1, 32),
];

const METRICS: &[Metric] = &[
    Metric::new("mb_per_s", "MB/s", 1),
    Metric::new("events_per_s", "events/s", 0),
    Metric::new("lost_events", "events", 0),
    Metric::new("log_bytes", "bytes", 0),
];

/// The workload.
pub struct QuicTransfer;

impl Workload for QuicTransfer {
    fn about(&self) -> About {
        About::new("quic", METRICS)
            .with_floor("mb_per_s", "none")
            .with_shared_log("quic.log")
    }

    fn title(&self, scale: Scale) -> String {
        format!(
            "a QUIC transfer of {} MB, the stack's own events logged",
            scale.pick(FULL_BYTES, QUICK_BYTES) / 1_000_000
        )
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let case = |stack: &str, subject: &'static str, level: &str, part: u64| {
            Case::new(subject)
                .param("stack", stack)
                .param("streams", 1)
                .param("level", level)
                .setting("bytes", scale.pick(FULL_BYTES, QUICK_BYTES) / part)
        };
        let ours = RIVALS.iter().chain(&OURS);
        let ours = ours.map(|(subject, level)| case("quinn", subject, level, 1));
        let go = GO.iter().filter(|(subject, ..)| Language::Go.is_built(subject));
        let go = go.map(|(subject, level, connections, part)| {
            case(QUIC_GO, subject, level, *part).param("connections", *connections)
        });
        ours.chain(go).collect()
    }

    fn prepare(&self, scale: Scale, _: &mut Vec<Case>, run: Measure<'_>) -> Result<()> {
        eprintln!("  one transfer that does not count, to warm the machine and the log file");
        let warm = Case::new("tracing-subscriber").setting("bytes", scale.pick(FULL_BYTES, QUICK_BYTES));
        self.before_each()?;
        let events = run(&warm)?.value("events_per_s").unwrap_or(0.0);
        if events < 1.0 {
            return Err(BenchError::new("quinn emits no events; is its feature `log` on?"));
        }
        Ok(())
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let path = self.shared_log()?;
        if job.text("stack") == QUIC_GO {
            let path = path.with_file_name(format!("quic-go-{}.log", std::process::id()));
            let settings = ["bytes", "connections"].map(|key| (key, job.number(key).to_string()));
            let samples = Language::Go.measure(&job.subject, "quic", &path, &settings);
            // The floor writes no file.
            let _ = std::fs::remove_file(&path);
            return samples;
        }
        let total_bytes = job.number("bytes");
        let run = run_subject(&job.subject, &path, total_bytes, Box::new(|_| {}))?;
        let seconds = run.transfer.elapsed.as_secs_f64();
        let samples = Samples::default().with("mb_per_s", run.transfer.mb_per_s());
        Ok(match run.events {
            None => samples,
            Some(events) => samples
                .with("events_per_s", events as f64 / seconds)
                .with("lost_events", run.lost_events as f64)
                .with("log_bytes", run.log_bytes as f64),
        })
    }
}
