//! `quic`: a transfer over QUIC whose every event is logged.
//!
//! The rate is taken until the last byte has arrived. A logger that still
//! holds events then finishes outside of the clock; what it lost is counted
//! in its file.

use std::path::Path;

use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload};
use crate::lines::count_file;
use crate::quic::{Transfer, transfer};
use crate::subjects::count_only::CountOnly;
use crate::subjects::tracing_fmt::TracingFmt;
use crate::subjects::{Full, Subject, Target, go};
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
        let go = GO.iter().filter(|_| go::is_built());
        RIVALS
            .iter()
            .chain(&OURS)
            .map(|(subject, level)| {
                Case::new(subject)
                    .param("stack", "quinn")
                    .param("streams", 1)
                    .param("level", *level)
                    .setting("bytes", scale.pick(FULL_BYTES, QUICK_BYTES))
            })
            .chain(go.map(|(subject, level, connections, part)| {
                Case::new(subject)
                    .param("stack", QUIC_GO)
                    .param("streams", 1)
                    .param("level", *level)
                    .param("connections", *connections)
                    .setting("bytes", scale.pick(FULL_BYTES, QUICK_BYTES) / part)
            }))
            .collect()
    }

    fn prepare(&self, scale: Scale, _: &mut Vec<Case>, run: Measure<'_>) -> Result<()> {
        eprintln!("  one transfer that does not count, to warm the machine and the log file");
        let warm = Case::new("tracing-subscriber").setting("bytes", scale.pick(FULL_BYTES, QUICK_BYTES));
        self.before_each()?;
        let events = run(&warm)?.value("events_per_s").unwrap_or(0.0);
        if events < 1.0 {
            return Err(BenchError::Transfer(
                "quinn emits no events; is its feature `log` on?".to_string(),
            ));
        }
        Ok(())
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let path = self.shared_log()?;
        if job.text("stack") == QUIC_GO {
            let path = path.with_file_name(format!("quic-go-{}.log", std::process::id()));
            let settings = ["bytes", "connections"].map(|key| (key, job.number(key).to_string()));
            let samples = go::measure(&job.subject, "quic", &path, &settings);
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

/// A transfer under a logger, and what became of the events.
#[derive(Clone, Copy, Debug)]
pub struct LoggedTransfer {
    /// The transfer itself.
    pub transfer: Transfer,
    /// The events that were emitted; `None` where nobody listened.
    pub events: Option<u64>,
    /// The events that are not in the log.
    pub lost_events: u64,
    /// The size of the log.
    pub log_bytes: u64,
}

/// Told how many bytes have arrived, see [`transfer`].
pub type Progress = Box<dyn FnMut(u64) + Send>;

/// Runs the transfer with the logger called `name` writing to `path`.
pub fn run_subject(name: &str, path: &Path, total_bytes: u64, progress: Progress) -> Result<LoggedTransfer> {
    match name {
        "none" => Ok(LoggedTransfer {
            transfer: transfer(total_bytes, progress)?,
            events: None,
            lost_events: 0,
            log_bytes: 0,
        }),
        "count" => {
            let counter = CountOnly::install()?;
            let transfer = transfer(total_bytes, progress)?;
            Ok(LoggedTransfer {
                transfer,
                events: Some(counter.events()),
                lost_events: 0,
                log_bytes: 0,
            })
        }
        "tracing-subscriber" => run_fmt(
            TracingFmt::buffered_counted(&target(path))?,
            path,
            total_bytes,
            progress,
        ),
        "tracing-appender" => run_fmt(
            TracingFmt::appender_counted(&target(path))?,
            path,
            total_bytes,
            progress,
        ),
        name if name.starts_with("logdrive") => run_logdrive(name, path, total_bytes, progress),
        other => Err(BenchError::Usage(format!(
            "there is no logger '{other}' for this transfer in this build"
        ))),
    }
}

fn target(path: &Path) -> Target {
    Target::in_place(path, Full::Block)
}

fn run_fmt(logger: TracingFmt, path: &Path, total_bytes: u64, progress: Progress) -> Result<LoggedTransfer> {
    let transfer = transfer(total_bytes, progress)?;
    let events = logger.events();
    logger.finish()?;
    let count = count_file(path, b"\n")?;
    Ok(LoggedTransfer {
        transfer,
        events: Some(events),
        lost_events: events.saturating_sub(count.lines),
        log_bytes: count.bytes,
    })
}

/// Stands in every line that quinn's events make, by the name of its modules,
/// and in no line of Logdrive about itself.
pub const EVENT_MARKER: &[u8] = b"quinn";

fn run_logdrive(name: &str, path: &Path, total_bytes: u64, progress: Progress) -> Result<LoggedTransfer> {
    use crate::subjects::logdrive as ours;

    let to_file = name != "logdrive-discard";
    let builder = if to_file {
        ours::to_file(&target(path))?
    } else {
        ours::to_nowhere(Full::Block)
    };
    let level = if name == "logdrive-debug" {
        "debug"
    } else {
        "trace"
    };
    let guard = ours::start(builder.filter(level))?;
    ours::install_subscriber()?;
    let transfer = transfer(total_bytes, progress)?;
    let stats = ours::stop(guard)?;
    let events = stats.committed + stats.dropped_calls();
    let (kept, log_bytes) = if to_file {
        let count = count_file(path, EVENT_MARKER)?;
        (count.marked, count.bytes)
    } else {
        let dropped: u64 = stats.sinks.iter().map(::logdrive::SinkStats::dropped).sum();
        (stats.committed - dropped, 0)
    };
    Ok(LoggedTransfer {
        transfer,
        events: Some(events),
        lost_events: events.saturating_sub(kept),
        log_bytes,
    })
}
