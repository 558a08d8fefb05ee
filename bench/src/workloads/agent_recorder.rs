//! `recorder`: debug records are kept in memory for a while, then an error has them written.
//!
//! Threads log at a steady rate, in bursts of a millisecond; nothing of it is for the log file, all of it for the flight
//! recorder. Then an error occurs: what is kept is written, and the time until it is with the kernel is measured.
//! `rate=0` logs as fast as the ring takes it.

use std::path::Path;
use std::time::{Duration, Instant};

use logdrive::{File, Full, Keep, Level};

use crate::harness::{About, Case, Job, Metric, Samples, Scale, Workload, runs};
use crate::usage::{cpu_s, peak_rss_mib};
use crate::{BenchError, Result};

const KEEP_MIB: u64 = 64;
const RATE: u64 = 5_000_000;
const FULL_MS: u64 = 60_000;
const QUICK_MS: u64 = 5_000;

const METRICS: &[Metric] = &[
    Metric::new("records_per_s", "records/s", 0),
    Metric::new("dropped", "records", 0),
    Metric::new("stall_ms", "ms", 1),
    Metric::new("cpu_per_s", "cores", 2),
    Metric::new("log_bytes", "bytes", 0),
    Metric::new("peak_rss_mib", "MiB", 1),
    Metric::new("dump_ms", "ms", 1),
    Metric::new("dump_records", "records", 0),
    Metric::new("dump_mib", "MiB", 1),
    Metric::new("dump_lost", "records", 0),
];

/// The workload.
pub struct Recorder;

impl Workload for Recorder {
    fn about(&self) -> About {
        About::new("recorder", METRICS)
    }

    fn title(&self, scale: Scale) -> String {
        format!(
            "debug records into a flight recorder of {KEEP_MIB} MiB for {} s, then an error",
            scale.pick(FULL_MS, QUICK_MS) / 1_000
        )
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        [(1, RATE), (3, RATE), (1, 0)]
            .into_iter()
            .map(|(threads, rate)| {
                Case::new("logdrive")
                    .param("threads", threads)
                    .param("rate", rate)
                    .setting("keep_mib", KEEP_MIB)
                    .setting("ms", scale.pick(FULL_MS, QUICK_MS))
            })
            .collect()
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let path = runs::scratch_file("recorder")?;
        let samples = measure(job, &path);
        // Where nothing was written there is nothing to remove.
        let _ = std::fs::remove_file(&path);
        samples
    }
}

fn measure(job: &Job, path: &Path) -> Result<Samples> {
    let failed = |cause: String| BenchError::subject("logdrive", cause);
    let guard = logdrive::builder("recorder")
        .use_env(false)
        .filter("trace")
        .full(Full::Wait)
        .file(File::new(path).min_level(Level::Info))
        .keep(Keep::bytes(job.number("keep_mib") << 20))
        .init()
        .map_err(|error| failed(error.to_string()))?;
    let threads = job.number("threads").max(1);
    let (start, cpu_before_s) = (Instant::now(), cpu_s());
    let until = start + Duration::from_millis(job.number("ms"));
    let stall = std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| produce(job.number("rate") / threads, until));
        }
        worst_stall(until)
    });
    logdrive::flush();
    let (took_s, took_cpu_s) = (start.elapsed().as_secs_f64(), cpu_s() - cpu_before_s);
    let before = logdrive::stats().ok_or_else(|| failed("it has ended".to_owned()))?;
    let bytes = || std::fs::metadata(path).map_or(0, |found| found.len());
    let log_bytes = bytes();
    let dump_start = Instant::now();
    logdrive::error!("this is what it was kept for");
    logdrive::flush();
    let dump_ms = dump_start.elapsed().as_secs_f64() * 1e3;
    let dump_bytes = bytes() - log_bytes;
    let held = before.keep.held();
    let Some((_, stats)) = guard.stop() else {
        return Err(failed("it has ended".to_owned()));
    };
    let sink = &stats.sinks[0];
    if stats.committed != sink.counts.written_records + sink.dropped() {
        return Err(failed(format!("the sums do not hold: {stats:?}")));
    }
    Ok(Samples::default()
        .with("records_per_s", before.keep.kept as f64 / took_s)
        .with("dropped", stats.dropped_calls() as f64)
        .with("stall_ms", stall.as_secs_f64() * 1e3)
        .with("cpu_per_s", took_cpu_s / took_s)
        .with("log_bytes", log_bytes as f64)
        .with("peak_rss_mib", peak_rss_mib())
        .with("dump_ms", dump_ms)
        .with("dump_records", stats.keep.written as f64)
        .with("dump_mib", dump_bytes as f64 / f64::from(1 << 20))
        .with("dump_lost", held.saturating_sub(stats.keep.written) as f64))
}

/// By how much a thread that sleeps a millisecond at a time was late, at most: so long at least the machine can keep any
/// thread waiting, that of the recorder, too. A call waits 10 ms for room, then it drops.
fn worst_stall(until: Instant) -> Duration {
    let nap = Duration::from_millis(1);
    let mut worst = Duration::ZERO;
    loop {
        let before = Instant::now();
        if before >= until {
            return worst;
        }
        std::thread::sleep(nap);
        worst = worst.max(before.elapsed().saturating_sub(nap));
    }
}

/// Logs records of the size that programs log, so many a second; 0 for as many as go.
fn produce(rate: u64, until: Instant) {
    let start = Instant::now();
    let mut number = 0_u64;
    while Instant::now() < until {
        let due = match rate {
            0 => number + 1_000,
            _ => (start.elapsed().as_nanos() as u64 / 1_000) * rate / 1_000_000,
        };
        while number < due {
            let price = number as f64;
            logdrive::debug!(number, price, "order of {}", "acme-ltd");
            number += 1;
        }
        if rate != 0 {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}
