//! `hang`: producers log at a steady rate while the log's `write` hangs.
//!
//! With `inject=pipe` the log file is a FIFO. Its reader stops reading for some
//! seconds and then goes on; once the kernel's 64 KiB are full, every `write`
//! hangs until then. With `inject=storage` the log is a file, and the logger's
//! own storage layer hangs in every write; only Logdrive has such a seam.
//! Calls are made by the clock: one that is late because an earlier one hung is
//! made at once, so that all subjects are given the same calls.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;

use crate::harness::{Case, Job, Metric, Ratio, Samples, Scale, Workload, runs};
use crate::lines::count_file;
use crate::subjects::{self, Ended, Full, Subject, Target, Visitor};
use crate::{BenchError, Result, usage};

const THREADS: u64 = 4;
const CALLS_A_TICK: u64 = 10;
const TICK: Duration = Duration::from_millis(1);

/// Longer than what the kernel and a logger's own line prefix need, so that
/// the hang fills every queue that is bounded.
const MESSAGE_BYTES: usize = 100;

/// Stands in every line of the workload and in nothing else a logger writes.
const MARKER: &str = "producer";

/// Ends the reader; written by the workload after the logger has ended.
const END_MARK: &str = "end of the hang workload\n";

/// The reader takes at most this much at a time: what a FIFO holds.
const READ_CHUNK_BYTES: usize = 64 * 1024;

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

/// Subject and policy.
const RIVALS: [(&str, &str); 5] = [
    ("spdlog-rs-sync", "block"),
    ("spdlog-rs-async", "block"),
    ("spdlog-rs-async", "drop"),
    ("tracing-bufwriter", "block"),
    ("tracing-appender", "drop"),
];
const OURS: [(&str, &str); 2] = [("logdrive", "drop"), ("logdrive", "wait")];

const METRICS: &[Metric] = &[
    Metric::new("worst_call_ms", "ms", 3),
    Metric::new("peak_rss_mib", "MiB", 1),
    Metric::new("dropped_counted", "lines", 0),
    Metric::new("lost_uncounted", "lines", 0),
];

/// The workload.
pub struct Hang;

impl Workload for Hang {
    fn name(&self) -> &'static str {
        "hang"
    }

    fn title(&self, scale: Scale) -> String {
        let calls_per_s = THREADS * CALLS_A_TICK * 1_000;
        format!(
            "{THREADS} threads log {calls_per_s} lines/s while the log's write hangs for {} ms",
            scale.pick(FULL_MS, QUICK_MS).hang_ms
        )
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn ratio(&self) -> Option<Ratio> {
        None
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let phases = scale.pick(FULL_MS, QUICK_MS);
        RIVALS
            .iter()
            .chain(&OURS)
            .map(|(subject, policy)| (subject, policy, "pipe"))
            .chain(OURS.iter().map(|(subject, policy)| (subject, policy, "storage")))
            .map(|(subject, policy, inject)| {
                Case::new(subject)
                    .param("policy", *policy)
                    .param("inject", inject)
                    .setting("before_ms", phases.before_ms)
                    .setting("hang_ms", phases.hang_ms)
                    .setting("after_ms", phases.after_ms)
            })
            .collect()
    }

    fn prepare(
        &self,
        _scale: Scale,
        _cases: &mut Vec<Case>,
        _run: &dyn Fn(&Case) -> Result<Samples>,
    ) -> Result<()> {
        Ok(())
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let phases = Phases {
            before_ms: job.number("before_ms"),
            hang_ms: job.number("hang_ms"),
            after_ms: job.number("after_ms"),
        };
        let full = Full::from_name(job.text("policy"))?;
        let start = Instant::now();
        let production = Production { start, phases };
        let (produced, received) = match job.text("inject") {
            "storage" => through_storage(&job.subject, full, production)?,
            _ => through_pipe(&job.subject, full, production)?,
        };
        let counted = produced.ended.dropped_counted;
        let lost = produced.calls.saturating_sub(received + counted);
        Ok(Samples::default()
            .with("worst_call_ms", produced.worst_call.as_secs_f64() * 1e3)
            .with("peak_rss_mib", usage::peak_rss_mib())
            .with("dropped_counted", counted as f64)
            .with("lost_uncounted", lost as f64))
    }
}

/// Runs the producers against a FIFO; returns also the lines that came out.
fn through_pipe(subject: &str, full: Full, production: Production) -> Result<(Produced, u64)> {
    let fifo = Fifo::make(runs::scratch_dir()?)?;
    let target = Target::new(&fifo.path, full);
    let path = fifo.path.clone();
    let hang = production.hang();
    let reader = std::thread::spawn(move || read_with_a_hang(&path, hang));
    let produced = subjects::visit(subject, &target, production)?;
    fifo.end_reader()?;
    let received = reader
        .join()
        .map_err(|_| BenchError::subject(subject, "the reader panicked"))?
        .map_err(BenchError::io("read", &fifo.path))?;
    Ok((produced, received))
}

/// Runs the producers against a file whose writes hang; returns also the lines
/// in it.
fn through_storage(subject: &str, full: Full, production: Production) -> Result<(Produced, u64)> {
    let path = runs::scratch_dir()?.join(format!("hang-{}.log", std::process::id()));
    let target = Target {
        hang: Some(production.hang()),
        ..Target::new(&path, full)
    };
    let produced = subjects::visit(subject, &target, production)?;
    let count = count_file(&path, MARKER.as_bytes())?;
    std::fs::remove_file(&path).map_err(BenchError::io("remove", &path))?;
    Ok((produced, count.marked))
}

/// How long the reader reads, stops, and reads again while calls are made.
#[derive(Clone, Copy)]
struct Phases {
    before_ms: u64,
    hang_ms: u64,
    after_ms: u64,
}

impl Phases {
    fn ticks(self) -> u64 {
        self.before_ms + self.hang_ms + self.after_ms
    }
}

struct Production {
    start: Instant,
    phases: Phases,
}

struct Produced {
    calls: u64,
    worst_call: Duration,
    ended: Ended,
}

impl Visitor for Production {
    type Output = Produced;

    fn visit<S: Subject>(self, subject: S) -> Result<Produced> {
        let worst: Vec<Duration> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let (subject, this) = (&subject, &self);
                    scope.spawn(move || this.produce(subject, number))
                })
                .collect();
            threads
                .into_iter()
                .filter_map(|thread| thread.join().ok())
                .collect()
        });
        let ended = subject.finish()?;
        Ok(Produced {
            calls: THREADS * self.phases.ticks() * CALLS_A_TICK,
            worst_call: worst.into_iter().max().unwrap_or_default(),
            ended,
        })
    }
}

impl Production {
    /// When writes hang, from and to.
    fn hang(&self) -> (Instant, Instant) {
        let begin = self.start + Duration::from_millis(self.phases.before_ms);
        (begin, begin + Duration::from_millis(self.phases.hang_ms))
    }

    /// Makes ten calls a millisecond and returns the longest one's time.
    fn produce<S: Subject>(&self, subject: &S, number: u64) -> Duration {
        let mut text = format!("{MARKER} {number} ");
        let fill = "says something about its work and goes on. ";
        let missing = MESSAGE_BYTES.saturating_sub(text.len());
        text.extend(fill.chars().cycle().take(missing));
        let mut worst = Duration::ZERO;
        for tick in 0..self.phases.ticks() {
            let due = self.start + TICK * u32::try_from(tick).unwrap_or(u32::MAX);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            for _ in 0..CALLS_A_TICK {
                let before = Instant::now();
                subject.line(&text);
                worst = worst.max(before.elapsed());
            }
        }
        worst
    }
}

/// A FIFO that is removed at the end.
struct Fifo {
    path: PathBuf,
}

impl Fifo {
    fn make(dir: PathBuf) -> Result<Fifo> {
        let path = dir.join(format!("hang-{}.fifo", std::process::id()));
        nix::unistd::mkfifo(&path, Mode::from_bits_truncate(0o640))
            .map_err(|error| BenchError::io("make the FIFO", &path)(error.into()))?;
        Ok(Fifo { path })
    }

    fn end_reader(&self) -> Result<()> {
        File::options()
            .write(true)
            .open(&self.path)
            .and_then(|mut file| file.write_all(END_MARK.as_bytes()))
            .map_err(BenchError::io("write to", &self.path))
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        // A FIFO that stays behind in the scratch directory does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Reads the log until the end mark, with a pause, and counts the lines of
/// the workload.
fn read_with_a_hang(path: &Path, hang: (Instant, Instant)) -> io::Result<u64> {
    // Opened for writing too, so that it never sees an end of file while a
    // logger opens its file again.
    let mut fifo = File::options().read(true).write(true).open(path)?;
    let (hang_begins, hang_ends) = hang;
    let mut hung = false;
    let mut counter = MarkCounter::default();
    let mut buffer = vec![0; READ_CHUNK_BYTES];
    while !counter.ended {
        if !hung && Instant::now() >= hang_begins {
            std::thread::sleep(hang_ends.saturating_duration_since(Instant::now()));
            hung = true;
        }
        let read = fifo.read(&mut buffer)?;
        counter.take(&buffer[..read]);
    }
    Ok(counter.lines)
}

/// Counts the lines with the marker in a stream of pieces.
#[derive(Default)]
struct MarkCounter {
    /// The begin of a line whose end has not come yet.
    partial: Vec<u8>,
    lines: u64,
    ended: bool,
}

impl MarkCounter {
    fn take(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.partial.extend_from_slice(&rest[..=end]);
            rest = &rest[end + 1..];
            if self.partial == END_MARK.as_bytes() {
                self.ended = true;
            } else if memchr::memmem::find(&self.partial, MARKER.as_bytes()).is_some() {
                self.lines += 1;
            }
            self.partial.clear();
        }
        self.partial.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_pieces_are_counted_up_to_the_end_mark() {
        let mut counter = MarkCounter::default();
        counter.take(b"x producer 1\nnotice\nx prod");
        assert_eq!((counter.lines, counter.ended), (1, false));
        counter.take(b"ucer 2\nend of the hang ");
        assert_eq!((counter.lines, counter.ended), (2, false));
        counter.take(b"workload\n");
        assert_eq!((counter.lines, counter.ended), (2, true));
    }
}
