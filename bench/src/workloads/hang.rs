//! `hang`: producers log at a steady rate while the log's `write` hangs.
//!
//! With `inject=pipe` the log file is a FIFO. Its reader stops reading for some
//! seconds and then goes on; once the kernel's 64 KiB are full, every `write`
//! hangs until then. With `inject=fuse` the log is a file in a file system of
//! our own that stops answering. With `inject=storage` it is the logger's own
//! storage layer that hangs in every write; only Logdrive has such a seam.
//!
//! The subject `none` logs nothing: its calls only read the clock, in the same
//! rhythm. Its worst call is what the machine itself does to a thread.

mod pipe;
mod producers;
pub mod slow_disk;
pub mod slow_fs;

use std::path::Path;
use std::time::{Duration, Instant};

use self::pipe::Fifo;
use self::producers::{CALLS_A_TICK, Phases, Produced, Production, THREADS};
use self::slow_disk::SlowDisk;
use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload, runs};
use crate::lines::count_file;
use crate::subjects::foreign::{Language, report_missing};
use crate::subjects::{self, Full, Target};
use crate::{BenchError, Result, usage};

/// Stands in every line of the workload and in nothing else a logger writes.
const MARKER: &str = "producer";

const FULL_MS: Phases = Phases {
    before_ms: 1_000,
    hang_ms: 4_000,
    after_ms: 2_000,
};
const QUICK_MS: Phases = Phases {
    before_ms: 300,
    hang_ms: 1_000,
    after_ms: 500,
};

/// Subject that makes no call at all.
const NONE: &str = "none";

/// Subject and policy.
const RIVALS: [(&str, &str); 5] = [
    ("spdlog-rs-sync", "block"),
    ("spdlog-rs-async", "block"),
    ("spdlog-rs-async", "drop"),
    ("tracing-bufwriter", "block"),
    ("tracing-appender", "drop"),
];
/// Programs in C++, which make their calls and time them themselves.
const CPP: [(&str, &str); 5] = [
    ("glog", "block"),
    ("spdlog-sync", "block"),
    ("spdlog-async", "block"),
    ("logdrive-cpp", "drop"),
    ("logdrive-cpp-glog", "drop"),
];
const OURS: [(&str, &str); 2] = [("logdrive", "drop"), ("logdrive", "wait")];
/// Never drops what it has committed, so that the hang fills the rings and it
/// is the callers' policy that counts; else, the sink drops before that.
const HOLDING: [(&str, &str); 2] = [("logdrive-hold", "drop"), ("logdrive-hold", "wait")];

const METRICS: &[Metric] = &[
    Metric::new("first_call_ms", "ms", 3),
    Metric::new("p50_call_us", "us", 2),
    Metric::new("p99_call_us", "us", 2),
    Metric::new("p999_call_us", "us", 1),
    Metric::new("worst_call_ms", "ms", 3),
    Metric::new("worst_at_ms", "ms", 0),
    Metric::new("calls_over_1_ms", "calls", 0),
    Metric::new("peak_rss_mib", "MiB", 1),
    Metric::new("dropped_counted", "lines", 0),
    Metric::new("lost_uncounted", "lines", 0),
    Metric::new("kept_share", "of what was offered", 3),
];

/// The workload.
pub struct Hang;

impl Workload for Hang {
    fn about(&self) -> About {
        About::new("hang", METRICS)
    }

    fn title(&self, scale: Scale) -> String {
        let calls_per_s = THREADS * CALLS_A_TICK * 1_000;
        format!(
            "{THREADS} threads log {calls_per_s} lines/s while the log's write hangs for {} ms",
            scale.pick(FULL_MS, QUICK_MS).hang_ms
        )
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let phases = scale.pick(FULL_MS, QUICK_MS);
        let through = |inject, pairs: &'static [(&'static str, &'static str)]| {
            let pairs = pairs.iter();
            pairs.map(move |(subject, policy)| (*subject, *policy, inject))
        };
        std::iter::once((NONE, NONE, NONE))
            .chain(through("pipe", &RIVALS))
            .chain(through("pipe", &OURS))
            .chain(through("fuse", &RIVALS))
            .chain(through("fuse", &OURS))
            .chain(through("fuse", &HOLDING))
            .chain(through("storage", &OURS))
            .chain(through("fuse", &CPP).filter(|(subject, ..)| Language::Cpp.is_built(subject)))
            .map(|(subject, policy, inject)| with_phases(Case::new(subject), policy, inject, phases))
            .collect()
    }

    /// Tries the file system once; without it, its rows are left out.
    fn prepare(&self, _: Scale, cases: &mut Vec<Case>, run: Measure<'_>) -> Result<()> {
        report_missing(&CPP.map(|(subject, _)| subject));
        let by_fuse = |case: &Case| case.params["inject"] == "fuse";
        let nothing = Phases {
            before_ms: 0,
            hang_ms: 0,
            after_ms: 0,
        };
        let trial = with_phases(Case::new(NONE), NONE, "fuse", nothing);
        if cases.iter().any(by_fuse) && run(&trial).is_err() {
            eprintln!("  left out: the rows with inject=fuse, for what is said above");
            cases.retain(|case| !by_fuse(case));
        }
        Ok(())
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let phases = Phases {
            before_ms: job.number("before_ms"),
            hang_ms: job.number("hang_ms"),
            after_ms: job.number("after_ms"),
        };
        if Language::Cpp.is_built(&job.subject) {
            return measure_cpp(job, phases);
        }
        let start = Instant::now();
        let production = Production { start, phases };
        let (produced, received) = match job.text("inject") {
            "storage" => through_storage(job, production)?,
            "pipe" => through_pipe(job, production)?,
            "fuse" => on_slow_disk(phases, |path, production| visit(job, path, production))?,
            _ => (visit(job, Path::new(""), production)?, 0),
        };
        let samples = of_times(&produced);
        if job.subject == NONE {
            return Ok(samples);
        }
        let counted = produced.ended.dropped_counted;
        let lost = produced.calls.saturating_sub(received + counted);
        Ok(samples
            .with("dropped_counted", counted as f64)
            .with("lost_uncounted", lost as f64)
            .with("kept_share", received as f64 / produced.calls.max(1) as f64))
    }
}

fn with_phases(case: Case, policy: &str, inject: &str, phases: Phases) -> Case {
    case.param("policy", policy)
        .param("inject", inject)
        .setting("before_ms", phases.before_ms)
        .setting("hang_ms", phases.hang_ms)
        .setting("after_ms", phases.after_ms)
}

fn of_times(produced: &Produced) -> Samples {
    let times = &produced.times;
    Samples::default()
        .with("first_call_ms", times.first_ms())
        .with("p50_call_us", times.quantile_ms(0.5) * 1e3)
        .with("p99_call_us", times.quantile_ms(0.99) * 1e3)
        .with("p999_call_us", times.quantile_ms(0.999) * 1e3)
        .with("worst_call_ms", times.quantile_ms(1.0))
        .with("worst_at_ms", times.worst_at_ms as f64)
        .with("calls_over_1_ms", times.over(Duration::from_millis(1)) as f64)
        .with("peak_rss_mib", usage::peak_rss_mib())
}

/// Runs the producers with the job's logger, which writes to `path`.
fn visit(job: &Job, path: &Path, production: Production) -> Result<Produced> {
    if job.subject == NONE {
        return subjects::visit("clock", &Target::new(path, Full::Drop), production);
    }
    let full = Full::from_name(job.text("policy"))?;
    let hang = (job.text("inject") == "storage").then(|| production.hang());
    let target = Target {
        hang,
        ..Target::new(path, full)
    };
    subjects::visit(&job.subject, &target, production)
}

/// Runs the producers against a FIFO; returns also the lines that came out.
fn through_pipe(job: &Job, production: Production) -> Result<(Produced, u64)> {
    let fifo = Fifo::make(runs::scratch_dir()?)?;
    let path = fifo.path.clone();
    let hang = production.hang();
    let reader = std::thread::spawn(move || pipe::read_with_a_hang(&path, hang));
    let produced = visit(job, &fifo.path, production)?;
    fifo.end_reader()?;
    let received = reader.join().expect("the reader does not panic");
    Ok((produced, received.map_err(BenchError::io("read", &fifo.path))?))
}

/// Runs the producers against a file whose writes hang; returns also the lines
/// in it.
fn through_storage(job: &Job, production: Production) -> Result<(Produced, u64)> {
    let path = runs::scratch_file("hang")?;
    let produced = visit(job, &path, production)?;
    let count = count_file(&path, MARKER.as_bytes())?;
    std::fs::remove_file(&path).map_err(BenchError::io("remove", &path))?;
    Ok((produced, count.marked))
}

/// Runs producers that write to a path in a file system that stops answering; returns also the lines that it has kept.
fn on_slow_disk<T>(phases: Phases, produce: impl FnOnce(&Path, Production) -> Result<T>) -> Result<(T, u64)> {
    let mut disk = SlowDisk::mount(&std::env::current_exe()?, &runs::scratch_dir()?)?;
    // Mounting has taken its time.
    let start = Instant::now();
    let production = Production { start, phases };
    let (path, kept) = (disk.dir().join("hang.log"), disk.store().join("hang.log"));
    let (begin, end) = production.hang();
    let switch = std::thread::spawn(move || {
        std::thread::sleep(begin.saturating_duration_since(Instant::now()));
        disk.hang();
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        disk.go();
        disk
    });
    let produced = produce(&path, production);
    // Its end unmounts it, so that it has to outlive both the producers and the count.
    let _disk = switch.join().expect("the switch of the disk does not panic");
    let produced = produced?;
    // The subject that logs nothing makes no file.
    let marked = match kept.exists() {
        true => count_file(&kept, MARKER.as_bytes())?.marked,
        false => 0,
    };
    Ok((produced, marked))
}

/// A program in C++ against a file system that stops answering.
fn measure_cpp(job: &Job, phases: Phases) -> Result<Samples> {
    let settings = [
        ("full", job.text("policy").to_owned()),
        ("before_ms", phases.before_ms.to_string()),
        ("hang_ms", phases.hang_ms.to_string()),
        ("after_ms", phases.after_ms.to_string()),
    ];
    let measure = |path: &Path, _| Language::Cpp.measure(&job.subject, "hang", path, &settings);
    let (samples, received) = on_slow_disk(phases, measure)?;
    let value = |metric| samples.value(metric).unwrap_or(0.0);
    let lost = (value("calls") - received as f64 - value("dropped_counted")).max(0.0);
    Ok(samples.with("lost_uncounted", lost))
}
