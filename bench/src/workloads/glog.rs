//! `glog`: twelve threads write one log file as fast as they can.
//!
//! The clock stops when the last byte has been handed to the kernel. All
//! subjects write over the same pages of the same file, see [`crate::warm`].

use std::io::Write;
use std::sync::Barrier;
use std::time::Instant;

use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload, runs};
use crate::lines::{LineCount, count_file};
use crate::subjects::foreign::{Language, report_missing};
use crate::subjects::{self, Ended, Full, Subject, Target, Visitor};
use crate::{BenchError, Result, usage, warm};

const THREADS: u64 = 12;
const LINE_BYTES: u64 = 133;
const FULL_LINES: u64 = 11_800_000;
const QUICK_LINES: u64 = 590_400;

/// Stands in every line of the workload and in nothing else a logger writes.
const MARKER: &str = "order ";

/// The floor writes chunks of this size.
const CHUNK_BYTES: usize = 1 << 20;

/// A logger whose lines vary in length may need a tenth more room.
const SPARE_SHARE: u64 = 10;

/// Lines and message length of the run that finds out how long a logger's own
/// part of a line is.
const PROBE_LINES: u64 = THREADS * 10;
const PROBE_MESSAGE_BYTES: u64 = 10;

const RIVALS: [&str; 6] = [
    "write",
    "mutex-bufwriter",
    "spdlog-rs-sync",
    "spdlog-rs-async",
    "tracing-bufwriter",
    "tracing-appender",
];
const OURS: [&str; 3] = ["logdrive", "logdrive-args", "logdrive-agent"];
/// Subjects that make a file of their own, and the floor for that.
const NEW_FILES: [&str; 6] = [
    "write-new",
    "glog",
    "spdlog-sync",
    "spdlog-async",
    "logdrive-cpp",
    "logdrive-cpp-glog",
];
/// The same in Go.
const GO: [&str; 3] = ["zap-buffered", "zerolog-buffered", "logdrive-go"];

const METRICS: &[Metric] = &[
    Metric::new("wall_s", "s", 3),
    Metric::new("cpu_s", "s", 2),
    Metric::new("peak_rss_mib", "MiB", 1),
    Metric::new("lost_lines", "lines", 0),
];

/// The workload.
pub struct Glog;

impl Workload for Glog {
    fn about(&self) -> About {
        About::new("glog", METRICS)
            .with_floor("wall_s", "write")
            .with_shared_log("glog.log")
    }

    fn title(&self, scale: Scale) -> String {
        let lines = lines_at(scale);
        format!(
            "{THREADS} threads write {lines} lines of {LINE_BYTES} bytes, {} MB",
            lines * LINE_BYTES / 1_000_000
        )
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let cpp = NEW_FILES
            .iter()
            .filter(|name| **name == "write-new" || Language::Cpp.is_built(name));
        let go = GO.iter().filter(|name| Language::Go.is_built(name));
        let case = |subject: &&'static str| {
            Case::new(subject)
                .param("threads", THREADS)
                .param("lines", lines_at(scale))
        };
        RIVALS
            .iter()
            .chain(&OURS)
            .chain(cpp)
            .chain(go)
            .map(case)
            .collect()
    }

    fn prepare(&self, scale: Scale, cases: &mut Vec<Case>, run: Measure<'_>) -> Result<()> {
        report_missing(&NEW_FILES[1..]);
        for case in cases.iter_mut() {
            let probe = case.clone().setting("lines", PROBE_LINES);
            self.before_each()?;
            let samples = run(&probe.setting("message_bytes", PROBE_MESSAGE_BYTES))?;
            let line_bytes = samples.value("line_bytes").unwrap_or(0.0) as u64;
            let bytes = message_bytes(case.subject, line_bytes)?;
            *case = case.clone().setting("message_bytes", bytes);
        }
        eprintln!("  writing the file once to warm the page cache");
        let bytes = lines_at(scale) * LINE_BYTES;
        warm::blank(&self.shared_log()?, bytes + bytes / SPARE_SHARE)
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        if NEW_FILES.contains(&job.subject.as_str()) || GO.contains(&job.subject.as_str()) {
            return measure_new_file(job);
        }
        let path = self.shared_log()?;
        let load = Load::of(job);
        let samples = match job.subject.as_str() {
            "write" => write_floor(&path, &load)?,
            name => subjects::visit(name, &Target::in_place(&path, Full::Block), &load)?,
        };
        let count = count_file(&path, MARKER.as_bytes())?;
        report_strays(&job.subject, count);
        let expected = load.lines_a_thread * THREADS;
        Ok(samples
            .with("lost_lines", expected.saturating_sub(count.marked) as f64)
            .with("line_bytes", count.bytes as f64 / count.lines.max(1) as f64))
    }
}

/// A subject that writes a file from its beginning, with pages that the kernel has to find. It finds those of a file that
/// was removed just now: others may have to come from the host of a virtual machine, which takes ten times as long.
fn measure_new_file(job: &Job) -> Result<Samples> {
    let path = runs::scratch_dir()?.join(format!("glog-new-{}.log", std::process::id()));
    let expected = job.number("lines") / THREADS * THREADS;
    let bytes = expected * LINE_BYTES;
    warm::blank(&path, bytes + bytes / SPARE_SHARE)?;
    std::fs::remove_file(&path).map_err(BenchError::io("remove", &path))?;
    let setting = |key| (key, job.number(key).to_string());
    let settings = [
        ("full", "block".to_owned()),
        setting("lines"),
        setting("message_bytes"),
    ];
    let samples = match job.subject.as_str() {
        "write-new" => {
            std::fs::File::create(&path).map_err(BenchError::io("make", &path))?;
            write_floor(&path, &Load::of(job))?
        }
        name if GO.contains(&name) => Language::Go.measure(name, "glog", &path, &settings)?,
        name => Language::Cpp.measure(name, "glog", &path, &settings)?,
    };
    let count = count_file(&path, MARKER.as_bytes())?;
    // Its pages are the next subject's.
    std::fs::remove_file(&path).map_err(BenchError::io("remove", &path))?;
    let line_bytes = count.bytes as f64 / count.marked.max(1) as f64;
    Ok(samples
        .with("lost_lines", expected.saturating_sub(count.marked) as f64)
        .with("line_bytes", line_bytes.floor()))
}

fn lines_at(scale: Scale) -> u64 {
    let lines = scale.pick(FULL_LINES, QUICK_LINES);
    lines - lines % THREADS
}

/// A message of the given length that begins with the marker.
fn message(bytes: u64) -> String {
    let text = "filled by the matching engine, quantity and price agreed. ";
    let length = usize::try_from(bytes).unwrap_or(0);
    MARKER.chars().chain(text.chars().cycle()).take(length).collect()
}

/// Length of a message for a line of the agreed length, if one of the
/// probe's length gave a line of `line_bytes`.
fn message_bytes(subject: &str, line_bytes: u64) -> Result<u64> {
    if subject.ends_with("-args") {
        // Their message is made of values and cannot be made longer.
        if line_bytes != LINE_BYTES {
            eprintln!("  {subject}: its lines have {line_bytes} bytes, not {LINE_BYTES}");
        }
        return Ok(PROBE_MESSAGE_BYTES);
    }
    let bytes = (LINE_BYTES + PROBE_MESSAGE_BYTES).checked_sub(line_bytes);
    bytes
        .filter(|bytes| *bytes >= PROBE_MESSAGE_BYTES)
        .ok_or_else(|| {
            let problem = format_args!("its own part of a line is too long: {line_bytes} bytes in all");
            BenchError::subject(subject, problem)
        })
}

/// Lines that are not of the workload are a logger's own, or torn ones.
fn report_strays(subject: &str, count: LineCount) {
    let LineCount { lines, marked, .. } = count;
    if lines != marked {
        eprintln!("  {subject}: {lines} line ends but {marked} lines of the workload");
    }
}

struct Load {
    lines_a_thread: u64,
    message: String,
    four_values: bool,
}

struct Stopwatch {
    start: Instant,
    cpu_s: f64,
}

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch {
            cpu_s: usage::cpu_s(),
            start: Instant::now(),
        }
    }

    fn stop(&self) -> Samples {
        let (wall_s, cpu_s) = (self.start.elapsed().as_secs_f64(), usage::cpu_s() - self.cpu_s);
        Samples::default()
            .with("wall_s", wall_s)
            .with("cpu_s", cpu_s)
            .with("peak_rss_mib", usage::peak_rss_mib())
    }
}

impl Visitor for &Load {
    type Output = Samples;

    fn visit<S: Subject>(self, subject: S) -> Result<Samples> {
        let ready = Barrier::new(usize::try_from(THREADS).unwrap_or(1) + 1);
        let stopwatch = std::thread::scope(|scope| -> Result<Stopwatch> {
            for number in 0..THREADS {
                let (subject, ready) = (&subject, &ready);
                std::thread::Builder::new()
                    .name(format!("w{number:02}"))
                    .spawn_scoped(scope, move || {
                        ready.wait();
                        self.log_lines(subject, number);
                    })?;
            }
            ready.wait();
            Ok(Stopwatch::start())
        })?;
        let Ended { dropped_counted } = subject.finish()?;
        let samples = stopwatch.stop();
        if dropped_counted > 0 {
            eprintln!("  the logger says that it dropped {dropped_counted} lines");
        }
        Ok(samples)
    }
}

impl Load {
    fn of(job: &Job) -> Load {
        Load {
            lines_a_thread: job.number("lines") / THREADS,
            message: message(job.number("message_bytes")),
            four_values: job.subject.ends_with("-args"),
        }
    }

    fn log_lines<S: Subject>(&self, subject: &S, number: u64) {
        if !self.four_values {
            for _ in 0..self.lines_a_thread {
                subject.line(&self.message);
            }
            return;
        }
        for index in 0..self.lines_a_thread {
            let order = 10_000 + (number + index) % 90_000;
            let price = 100.0 + (index % 1_000) as f64 * 0.25;
            let quantity = i32::try_from(index % 900).unwrap_or(0) + 100;
            subject.four(order, price, quantity, "cust-042");
        }
    }
}

/// The same bytes with nothing but `write` in large chunks.
fn write_floor(path: &std::path::Path, load: &Load) -> Result<Samples> {
    let line = format!("{}\n", load.message);
    let total_bytes = line.len() as u64 * load.lines_a_thread * THREADS;
    let period = line.len() * (CHUNK_BYTES / line.len() + 2);
    let endless: Vec<u8> = line.bytes().cycle().take(period).collect();
    let mut file = warm::open_in_place(path)?;
    let stopwatch = Stopwatch::start();
    let mut written = 0;
    while written < total_bytes {
        let start = usize::try_from(written % line.len() as u64).unwrap_or(0);
        let length = CHUNK_BYTES.min(usize::try_from(total_bytes - written).unwrap_or(CHUNK_BYTES));
        file.write_all(&endless[start..start + length])
            .map_err(BenchError::io("write", path))?;
        written += length as u64;
    }
    Ok(stopwatch.stop())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_asked_length_and_begins_with_the_marker() {
        for bytes in [10, 64, 132, 200] {
            let text = message(bytes);
            assert_eq!(text.len() as u64, bytes);
            assert!(text.starts_with(MARKER));
        }
    }

    #[test]
    fn the_floor_writes_whole_lines_across_chunks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("floor.log");
        let load = Load {
            lines_a_thread: 2_000,
            message: message(132),
            four_values: false,
        };
        write_floor(&path, &load).unwrap();
        let count = count_file(&path, MARKER.as_bytes()).unwrap();
        assert_eq!(count.lines, 24_000);
        assert_eq!(count.marked, 24_000);
        assert_eq!(count.bytes, 24_000 * 133);
    }
}
