//! `run`: a program prints lines as fast as it can, into a file, into `logdrive run`, and on a slow terminal.
//!
//! The program is this one in another role ([`serve_role`]): it formats lines of 100 bytes one by one and prints them
//! through a buffer of the usual size, as ordinary programs do. The clock stops when the last byte of the log has been
//! handed to the kernel. Files are written over in place, see [`crate::warm`]; `logdrive run` writes longer lines, as
//! it adds time, level and name.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use logdrive_agent::supervisor::{CommandOptions, DestinationOptions, ExitReason, run};
use logdrive_drain::file::FileOptions;
use logdrive_drain::layout::{LayoutOptions, Style};
use logdrive_drain::{BackendOptions, Overflow, SinkOptions, Stopped, Target};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload};
use crate::lines::count_file;
use crate::subjects::in_place::InPlace;
use crate::{BenchError, Result, warm};

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

/// First words of the command line of the roles.
const PRINT: &str = "--role-print-lines";
const KEEP: &str = "--role-keep-lines";

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
        format!(
            "a program prints {lines} lines of {LINE_BYTES} bytes, {} MB",
            lines * LINE_BYTES / 1_000_000
        )
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
            other => return Err(BenchError::Usage(format!("there is no subject '{other}'"))),
        }
        let wall_s = start.elapsed().as_secs_f64();
        let kept = match job.subject.as_str() {
            "terminal" => lines,
            _ => count_file(&path, MARKER.as_bytes())?.marked,
        };
        Ok(Samples::default()
            .with("printed_mb_s", (lines * LINE_BYTES) as f64 / 1e6 / wall_s)
            .with("wall_s", wall_s)
            .with("cpu_s", cpu_of_children_s())
            .with("lost_lines", lines.saturating_sub(kept) as f64))
    }
}

fn lines_at(scale: Scale) -> u64 {
    scale.pick(FULL_LINES, QUICK_LINES)
}

fn cpu_of_children_s() -> f64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |usage| {
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        micros as f64 / 1e6
    })
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(BenchError::io("find", Path::new("this program")))
}

/// The program that prints.
fn printer(lines: u64) -> Result<Command> {
    let mut command = Command::new(this_program()?);
    command.args([PRINT, &lines.to_string()]).stdin(Stdio::null());
    Ok(command)
}

fn succeed(subject: &str, status: io::Result<ExitStatus>) -> Result<()> {
    match status.map_err(BenchError::io("run", Path::new(subject)))? {
        status if status.success() => Ok(()),
        status => Err(BenchError::subject(subject, status)),
    }
}

fn into_file(lines: u64, path: &Path) -> Result<()> {
    let file = warm::open_in_place(path)?;
    succeed("file", printer(lines)?.stdout(file).status())
}

fn through_cat(lines: u64, path: &Path) -> Result<()> {
    let file = warm::open_in_place(path)?;
    let (read, write) = io::pipe().map_err(BenchError::io("make", Path::new("a pipe")))?;
    let mut cat = Command::new("cat");
    let started = cat.stdin(read).stdout(file).spawn();
    // The command holds its end of the pipe until it is dropped.
    drop(cat);
    let mut cat = started.map_err(BenchError::io("start", Path::new("cat")))?;
    succeed("cat", printer(lines)?.stdout(write).status())?;
    succeed("cat", cat.wait())
}

/// `logdrive run` in a process of its own.
fn into_logdrive(job: &Job, lines: u64, path: &Path) -> Result<()> {
    let mut keeper = Command::new(this_program()?);
    keeper
        .args([KEEP, job.text("format"), &job.subject])
        .arg(path)
        .arg(lines.to_string())
        .stdin(Stdio::null());
    succeed(&job.subject, keeper.status())
}

/// A terminal whose reader takes two megabytes a second.
fn on_terminal(lines: u64) -> Result<()> {
    let opened = nix::pty::openpty(None, None);
    let pair = opened.map_err(|errno| BenchError::io("open", Path::new("a terminal"))(errno.into()))?;
    let mut command = printer(lines)?;
    let started = command.stdout(pair.slave).spawn();
    drop(command);
    let mut child = started.map_err(BenchError::io("start", Path::new("the program")))?;
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

/// Takes another role than that of the benchmark, if the command line says so: the program that prints, or
/// `logdrive run` around it. Called first in `main`.
#[must_use]
pub fn serve_role() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let role = words.next()?;
    let outcome = match role.to_str()? {
        PRINT => print(number(words.next())?),
        KEEP => keep(&words.collect::<Vec<_>>()),
        _ => return None,
    };
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{role:?}: {error}");
            ExitCode::FAILURE
        }
    })
}

fn number(word: Option<OsString>) -> Option<u64> {
    word?.to_str()?.parse().ok()
}

fn print(lines: u64) -> io::Result<()> {
    // Not through `io::stdout`, which looks for line ends.
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut out = BufWriter::new(stdout);
    for number in 0..lines {
        writeln!(out, "{number:>10} {TEXT}")?;
    }
    out.flush()
}

/// `logdrive run` as the command does it, but for the file that is written over in place.
fn keep(words: &[OsString]) -> io::Result<()> {
    let [format, subject, path, lines] = words else {
        return Err(io::Error::other("format, subject, file and lines are wanted"));
    };
    let mut sink = SinkOptions::new(Target::File(FileOptions::new(path)));
    sink.layout = match format.to_str() {
        Some("json") => Style::Json.into(),
        Some("plain") => LayoutOptions::from(Style::Pattern("{message}{fields}".to_owned())),
        _ => Style::Text.into(),
    };
    sink.overflow = Overflow::Hold;
    let mut backend = BackendOptions::new("bench-run");
    backend.sinks = vec![sink];
    let file = warm::open_in_place(Path::new(path)).map_err(io::Error::other)?;
    backend.storage = Arc::new(InPlace::new(&file)?);
    let program = std::env::current_exe()?;
    let args = vec![PRINT.into(), lines.clone()];
    let mut options = CommandOptions::new(program, args, DestinationOptions::PrivateAgent(backend));
    options.name = "print".to_owned();
    options.pty = subject == "logdrive-pty";
    let ended = run(&options).map_err(io::Error::other)?;
    if (ended.how, ended.stopped) == (ExitReason::Exited(0), Stopped::Complete) {
        return Ok(());
    }
    Err(io::Error::other(format!("{:?} {:?}", ended.how, ended.stopped)))
}
