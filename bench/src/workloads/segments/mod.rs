//! `segments`: logs as segments beside the same logs as text that is compressed.
//!
//! `calls` is one thread that makes the four-field call: bytes a record in the file, and processor time of all other threads a
//! record, which is the way from the ring to the disk. `w1` is twelve threads with a line of text. All other data are
//! lines that `logdrive import` stores: four kinds that are made here, and every file `*.log` of the directory that
//! `LOGDRIVE_BENCH_LOGS` names. Subjects with -19 take the first 16 MiB of them.

mod lines;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::Instant;

use logdrive::{File, Full, Layout};
use logdrive_reader::LineHeads;
use logdrive_store::SegmentWriter;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload, runs};
use crate::{BenchError, Result, usage};

const W1_THREADS: u64 = 12;
const W1_LINES: (u64, u64) = (11_800_000, 590_400);
const CALLS: (u64, u64) = (4_000_000, 400_000);
const DATA_BYTES: (u64, u64) = (64 << 20, 4 << 20);
/// Bytes of data for what takes a second for some megabytes.
const SLOW_BYTES: u64 = 16 << 20;
/// Directory with logs of other programs.
const LOGS: &str = "LOGDRIVE_BENCH_LOGS";

const METRICS: &[Metric] = &[
    Metric::new("segment-bytes", "B/record", 2),
    Metric::new("segment-cpu", "ns/record", 1),
    Metric::new("w1-segments", "s", 3),
    Metric::new("times_smaller", "times", 2),
    Metric::new("import_mb_s", "MB/s", 1),
];

/// The workload.
pub struct Segments;

impl Workload for Segments {
    fn about(&self) -> About {
        About::new("segments", METRICS).with_floor("times_smaller", "zstd-3")
    }

    fn title(&self, scale: Scale) -> String {
        let megabytes = scale.pick(DATA_BYTES.0, DATA_BYTES.1) >> 20;
        format!("segments beside compressed text; logs of {megabytes} MiB of each kind, and those of {LOGS}")
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let mut cases = Vec::new();
        let of = |subject, data: &str| Case::new(subject).param("data", data);
        for subject in ["logdrive", "text"] {
            cases.push(of(subject, "calls").setting("calls", scale.pick(CALLS.0, CALLS.1)));
            cases.push(of(subject, "w1").setting("calls", scale.pick(W1_LINES.0, W1_LINES.1)));
        }
        let names = lines::KINDS.iter().map(|kind| (*kind).to_owned());
        for name in names.chain(foreign().into_iter().map(|(name, _)| name)) {
            for subject in ["zstd-3", "logdrive", "gzip", "zstd-19", "logdrive-19"] {
                cases.push(of(subject, &name));
            }
        }
        cases
    }

    fn prepare(&self, scale: Scale, cases: &mut Vec<Case>, _: Measure<'_>) -> Result<()> {
        for kind in lines::KINDS {
            if cases
                .iter()
                .any(|case| case.params.get("data") == Some(&(*kind).into()))
            {
                let path = path_of(kind)?;
                let text = lines::of_kind(kind, scale.pick(DATA_BYTES.0, DATA_BYTES.1));
                std::fs::write(&path, text).map_err(BenchError::io("write", &path))?;
            }
        }
        Ok(())
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        match job.text("data") {
            "calls" => calls(job),
            "w1" => twelve_threads(job),
            name => store_lines(&job.subject, name),
        }
    }
}

/// Logs of other programs: the name and path of each.
fn foreign() -> Vec<(String, PathBuf)> {
    let Some(directory) = std::env::var_os(LOGS) else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let logs = entries.filter_map(|entry| {
        let path = entry.path();
        let is_log = path.extension().is_some_and(|ending| ending == "log");
        Some((path.file_stem().filter(|_| is_log)?.to_str()?.to_owned(), path))
    });
    let mut logs: Vec<_> = logs.collect();
    logs.sort();
    logs
}

fn path_of(name: &str) -> Result<PathBuf> {
    match foreign().into_iter().find(|(known, _)| known == name) {
        Some((_, path)) => Ok(path),
        None => Ok(runs::scratch_dir()?.join(format!("segments-{name}.txt"))),
    }
}

/// A logger whose only sink is a new file.
fn start(job: &Job, path: &Path) -> Result<logdrive::Guard> {
    if path.exists() {
        std::fs::remove_file(path).map_err(BenchError::io("remove", path))?;
    }
    let layout = match job.subject.as_str() {
        "logdrive" => Layout::segments(),
        _ => Layout::text(),
    };
    let started = logdrive::builder("segments")
        .use_env(false)
        .file(File::new(path).layout(layout))
        .full(Full::Block)
        .init();
    started.map_err(|error| BenchError::subject(&job.subject, error))
}

fn thread_cpu_ns() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_err(std::io::Error::from)?;
    Ok(time.num_nanoseconds() as f64)
}

fn end(guard: logdrive::Guard, path: &Path) -> Result<u64> {
    logdrive::flush();
    drop(guard);
    let bytes = std::fs::metadata(path)
        .map_err(BenchError::io("inspect", path))?
        .len();
    std::fs::remove_file(path).map_err(BenchError::io("remove", path))?;
    Ok(bytes)
}

/// The four-field call, by one thread.
fn calls(job: &Job) -> Result<Samples> {
    let path = runs::scratch_dir()?.join("segments-calls");
    let guard = start(job, &path)?;
    let count = job.number("calls");
    let before = usage::cpu_s() * 1e9 - thread_cpu_ns()?;
    for index in 0..count {
        let order = 10_000 + index % 90_000;
        let price = 100.0 + (index % 1_000) as f64 * 0.25;
        let quantity = i32::try_from(index % 900).unwrap_or(0) + 100;
        let customer = ["cust-042", "cust-1042", "acme-ltd-77"][index as usize % 3];
        logdrive::info!(order, price, quantity, customer, "order filled");
    }
    logdrive::flush();
    let cpu_ns = usage::cpu_s() * 1e9 - thread_cpu_ns()? - before;
    let bytes = end(guard, &path)?;
    Ok(Samples::default()
        .with("segment-bytes", bytes as f64 / count as f64)
        .with("segment-cpu", cpu_ns / count as f64))
}

/// Twelve threads that log a line of text each, as in the workload `glog`.
fn twelve_threads(job: &Job) -> Result<Samples> {
    let path = runs::scratch_dir()?.join("segments-w1");
    let guard = start(job, &path)?;
    let count = job.number("calls") / W1_THREADS;
    let message = "order filled by the matching engine, quantity and price agreed. ";
    let ready = Barrier::new(W1_THREADS as usize + 1);
    let start = std::thread::scope(|scope| {
        for _ in 0..W1_THREADS {
            scope.spawn(|| {
                ready.wait();
                for _ in 0..count {
                    logdrive::info!("{}", message);
                }
            });
        }
        ready.wait();
        Instant::now()
    });
    let bytes = end(guard, &path)?;
    Ok(Samples::default()
        .with("w1-segments", start.elapsed().as_secs_f64())
        .with("segment-bytes", bytes as f64 / (count * W1_THREADS) as f64))
}

/// Lines of text, stored by a subject in memory.
fn store_lines(subject: &str, name: &str) -> Result<Samples> {
    let path = path_of(name)?;
    let mut text = Vec::new();
    let file = std::fs::File::open(&path).map_err(BenchError::io("open", &path))?;
    let most = if subject.ends_with("-19") {
        SLOW_BYTES
    } else {
        u64::MAX
    };
    file.take(most)
        .read_to_end(&mut text)
        .map_err(BenchError::io("read", &path))?;
    let start = Instant::now();
    let stored = match subject {
        "zstd-3" => zstd::encode_all(&text[..], 3)?.len(),
        "zstd-19" => zstd::encode_all(&text[..], 19)?.len(),
        "gzip" => gzip(&text)?,
        "logdrive" => segment(&text, None)?,
        "logdrive-19" => segment(&text, Some(19))?,
        other => return Err(BenchError::new(format!("there is no subject '{other}'"))),
    };
    let samples = Samples::default().with("times_smaller", text.len() as f64 / stored as f64);
    Ok(samples.with(
        "import_mb_s",
        text.len() as f64 / 1e6 / start.elapsed().as_secs_f64(),
    ))
}

fn gzip(text: &[u8]) -> Result<usize> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text)?;
    Ok(encoder.finish()?.len())
}

/// Stores lines as `logdrive import` does.
fn segment(text: &[u8], level: Option<i32>) -> Result<usize> {
    let mut heads = LineHeads::default();
    let mut writer = SegmentWriter::new(Vec::new()).fill_blocks();
    if let Some(level) = level {
        writer = writer.level(level);
    }
    let mut rest = text;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = heads.of(rest.get(..end).unwrap_or(rest));
        writer.line(line.level, line.unix_ns, line.bytes)?;
        rest = rest.get(end + 1..).unwrap_or(&[]);
    }
    writer.flush()?;
    Ok(writer.file_mut().len())
}
