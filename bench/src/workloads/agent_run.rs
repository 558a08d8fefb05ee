//! `run`: a program prints lines as fast as it can, into a file, into `logdrive run`, and on a slow terminal.
//!
//! The program is this one in another role ([`print()`]): it formats lines of 100 bytes one by one and prints them
//! through a buffer of the usual size, as ordinary programs do. The clock stops when the last byte of the log has been
//! handed to the kernel. Files are written over in place, see [`crate::warm`]; `logdrive run` writes longer lines, as
//! it adds time, level and name.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use logdrive_agent::supervisor::{CommandOptions, DestinationOptions, ExitReason, run};
use logdrive_drain::file::FileOptions;
use logdrive_drain::layout::{LayoutOptions, Style};
use logdrive_drain::{BackendOptions, Overflow, SinkOptions, Stopped, Target};

use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload};
use crate::lines::count_file;
use crate::subjects::in_place::InPlace;
use crate::{BenchError, Result, role, usage, warm};

const LINE_BYTES: u64 = 100;
const FULL_LINES: u64 = 10_000_000;
const QUICK_LINES: u64 = 1_000_000;

/// A terminal takes as many bytes in some seconds as a file in some milliseconds.
const TERMINAL_PART: u64 = 100;
const TERMINAL_BYTES_PER_S: u64 = 2_000_000;

/// Longest line that a layout makes of one of ours, in hundredths of it.
const LONGEST_LINE: u64 = 220;

/// Stands in every line of the program and in nothing else.
const MARKER: &str = "looked at";

/// Text behind the number, which has ten places and a space.
const TEXT: &str = "a request was taken, looked at, found to be in order, and answered within its time limit";
const _: () = assert!(TEXT.len() + 12 == LINE_BYTES as usize);

/// The role of the program that prints: the number of lines.
pub const PRINT: &str = "--role-print-lines";
/// The role of `logdrive run`: the layout, the subject, the file, and the number of lines that are printed.
pub const RUN: &str = "--role-run";

const METRICS: &[Metric] = &[
    Metric::new("printed_mb_s", "MB/s", 1),
    Metric::new("wall_s", "s", 3),
    Metric::new("cpu_s", "s", 2),
    Metric::new("lost_lines", "lines", 0),
];

/// The workload.
pub struct Run;

impl Workload for Run {
    fn about(&self) -> About {
        About::new("run", METRICS)
            .with_floor("printed_mb_s", "file")
            .with_shared_log("run.log")
    }

    fn title(&self, scale: Scale) -> String {
        let lines = lines_at(scale);
        let megabytes = lines * LINE_BYTES / 1_000_000;
        format!("a program prints {lines} lines of {LINE_BYTES} bytes, {megabytes} MB")
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        [
            ("file", "none"),
            ("cat", "none"),
            ("logdrive", "text"),
            ("logdrive", "json"),
            ("logdrive", "plain"),
            ("logdrive-pty", "text"),
            ("terminal", "none"),
        ]
        .into_iter()
        .map(|(subject, format)| {
            Case::new(subject)
                .param("format", format)
                .setting("lines", lines_at(scale))
        })
        .collect()
    }

    fn prepare(&self, scale: Scale, _: &mut Vec<Case>, _: Measure<'_>) -> Result<()> {
        eprintln!("  writing the file once to warm the page cache");
        warm::blank(&self.shared_log()?, lines_at(scale) * LONGEST_LINE)
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let path = self.shared_log()?;
        let lines = match job.subject.as_str() {
            "terminal" => job.number("lines") / TERMINAL_PART,
            _ => job.number("lines"),
        };
        let start = Instant::now();
        match job.subject.as_str() {
            "file" => into_file(lines, &path)?,
            "cat" => through_cat(lines, &path)?,
            "logdrive" | "logdrive-pty" => into_logdrive(job, lines, &path)?,
            "terminal" => on_terminal(lines)?,
            other => return Err(BenchError::new(format!("there is no subject '{other}'"))),
        }
        let wall_s = start.elapsed().as_secs_f64();
        let kept = match job.subject.as_str() {
            "terminal" => lines,
            _ => count_file(&path, MARKER.as_bytes())?.marked,
        };
        Ok(Samples::default()
            .with("printed_mb_s", (lines * LINE_BYTES) as f64 / 1e6 / wall_s)
            .with("wall_s", wall_s)
            .with("cpu_s", usage::children_cpu_s())
            .with("lost_lines", lines.saturating_sub(kept) as f64))
    }
}

fn lines_at(scale: Scale) -> u64 {
    scale.pick(FULL_LINES, QUICK_LINES)
}

fn succeed(subject: &str, status: io::Result<ExitStatus>) -> Result<()> {
    match status? {
        status if status.success() => Ok(()),
        status => Err(BenchError::subject(subject, status)),
    }
}

/// The program that prints.
fn printer(lines: u64) -> Result<Command> {
    let mut command = role::command(PRINT, &[&lines.to_string()])?;
    command.stdin(Stdio::null());
    Ok(command)
}

fn into_file(lines: u64, path: &Path) -> Result<()> {
    let file = warm::open_in_place(path)?;
    succeed("file", printer(lines)?.stdout(file).status())
}

fn through_cat(lines: u64, path: &Path) -> Result<()> {
    let file = warm::open_in_place(path)?;
    let (read, write) = io::pipe()?;
    // The command, which holds its end of the pipe until it is dropped, ends with this statement.
    let mut cat = Command::new("cat").stdin(read).stdout(file).spawn()?;
    succeed("cat", printer(lines)?.stdout(write).status())?;
    succeed("cat", cat.wait())
}

/// `logdrive run` in a process of its own.
fn into_logdrive(job: &Job, lines: u64, path: &Path) -> Result<()> {
    let words: [&str; 4] = [
        job.text("format"),
        &job.subject,
        &path.to_string_lossy(),
        &lines.to_string(),
    ];
    let status = role::command(RUN, &words)?.stdin(Stdio::null()).status();
    succeed(&job.subject, status)
}

/// A terminal whose reader takes two megabytes a second.
fn on_terminal(lines: u64) -> Result<()> {
    let pair = nix::pty::openpty(None, None).map_err(io::Error::from)?;
    // The command, which holds the other side of the terminal until it is dropped, ends with this statement.
    let mut child = printer(lines)?.stdout(pair.slave).spawn()?;
    let mut terminal = File::from(pair.master);
    let mut bytes = [0; 4096];
    let mut taken = 0;
    let start = Instant::now();
    // The end of the program is an error of the terminal's other side.
    while let Ok(count @ 1..) = terminal.read(&mut bytes) {
        taken += count as u64;
        let due = start + Duration::from_micros(taken * 1_000_000 / TERMINAL_BYTES_PER_S);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    succeed("terminal", child.wait())
}

/// Plays the program that prints lines.
pub fn print(words: &[String]) -> Result<()> {
    let lines = words.first().and_then(|word| word.parse().ok());
    let lines: u64 = lines.ok_or_else(|| BenchError::new("a number of lines is wanted"))?;
    // Not through `io::stdout`, which looks for line ends.
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut out = BufWriter::new(stdout);
    for number in 0..lines {
        writeln!(out, "{number:>10} {TEXT}")?;
    }
    Ok(out.flush()?)
}

/// Plays `logdrive run` as the command does it, but for the file that is written over in place.
pub fn run_around(words: &[String]) -> Result<()> {
    let [format, subject, path, lines] = words else {
        return Err(BenchError::new("format, subject, file and lines are wanted"));
    };
    let mut sink = SinkOptions::new(Target::File(FileOptions::new(path)));
    sink.layout = match format.as_str() {
        "json" => Style::Json.into(),
        "plain" => LayoutOptions::from(Style::Pattern("{message}{fields}".to_owned())),
        _ => Style::Text.into(),
    };
    sink.overflow = Overflow::Hold;
    let mut backend = BackendOptions::new("bench-run");
    backend.sinks = vec![sink];
    let file = warm::open_in_place(Path::new(path))?;
    backend.storage = Arc::new(InPlace::new(&file)?);
    let program = std::env::current_exe()?;
    let args = vec![PRINT.into(), lines.into()];
    let mut options = CommandOptions::new(program, args, DestinationOptions::PrivateAgent(backend));
    options.name = "print".to_owned();
    options.pty = subject == "logdrive-pty";
    let ended = run(&options).map_err(|error| BenchError::subject(subject, error))?;
    if (ended.how, ended.stopped) == (ExitReason::Exited(0), Stopped::Complete) {
        return Ok(());
    }
    Err(BenchError::new(format!("{:?} {:?}", ended.how, ended.stopped)))
}
