//! A run of the demo in a process of its own: the process itself, and the
//! parent that watches it.
//!
//! The child prints one message a line: `progress BYTES`, `session PATH` and,
//! at its end, `outcome JSON`.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lexopt::ValueExt;
use logdrive_bench::workloads::quic::{Progress, run_subject};
use logdrive_bench::{BenchError, Result};
use serde::{Deserialize, Serialize};

/// Arguments of a child.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The logger, by its name in the `quic` workload.
    pub(crate) logger: String,
    /// The log file.
    pub(crate) log: PathBuf,
    /// Number of bytes to send.
    pub(crate) bytes: u64,
}

/// Result of a child that came to its end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Bytes that arrived.
    pub(crate) bytes: u64,
    /// From the first write to the last byte.
    pub(crate) seconds: f64,
    /// Events of quinn; `None` where nobody listened.
    pub(crate) events: Option<u64>,
    /// Events that are not in the log.
    pub(crate) lost_events: u64,
    /// Size of the log.
    pub(crate) log_bytes: u64,
}

/// A message of a child.
#[derive(Debug)]
pub(crate) enum Message {
    /// Bytes that have arrived so far.
    Progress(u64),
    /// Path of the child's Logdrive session.
    Session(PathBuf),
    /// The end.
    Outcome(Outcome),
}

impl Request {
    /// Reads what [`start`] put on the command line after `--child`.
    pub(crate) fn read(parser: &mut lexopt::Parser) -> Result<Request> {
        let wrong = |error: lexopt::Error| BenchError::Usage(error.to_string());
        let logger = parser.value().and_then(|word| word.string()).map_err(wrong)?;
        let log = parser.value().map_err(wrong)?;
        let bytes = parser.value().and_then(|word| word.parse()).map_err(wrong)?;
        Ok(Request {
            logger,
            log: log.into(),
            bytes,
        })
    }
}

/// Runs a transfer to its end in the child.
pub(crate) fn serve(request: &Request) -> Result<()> {
    let run = run_subject(&request.logger, &request.log, request.bytes, progress())?;
    let outcome = Outcome {
        bytes: run.transfer.bytes,
        seconds: run.transfer.elapsed.as_secs_f64(),
        events: run.events,
        lost_events: run.lost_events,
        log_bytes: run.log_bytes,
    };
    let json = serde_json::to_string(&outcome)
        .map_err(|error| BenchError::Usage(format!("the outcome has no JSON: {error}")))?;
    say(&format!("outcome {json}"));
    Ok(())
}

/// Callback of a transfer that prints how far it is.
pub(crate) fn progress() -> Progress {
    Box::new(|bytes| say(&format!("progress {bytes}")))
}

/// Prints a message at once. A parent that is gone needs none.
pub(crate) fn say(message: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}

/// A child at work.
pub(crate) struct Running {
    /// Its process.
    pub(crate) process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    bar: ProgressBar,
}

/// Starts a child with a progress bar.
pub(crate) fn start(title: &str, request: &Request) -> Result<Running> {
    let program = std::env::current_exe().map_err(BenchError::io("find", Path::new("this program")))?;
    let mut process = Command::new(&program)
        .arg("--child")
        .arg(&request.logger)
        .arg(&request.log)
        .arg(request.bytes.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(BenchError::io("start", &program))?;
    let output = process.stdout.take().expect("the pipe was asked for");
    Ok(Running {
        process,
        lines: BufReader::new(output).lines(),
        bar: progress_bar(title, request.bytes),
    })
}

impl Running {
    /// The next message, or `None` at the child's end; moves the bar.
    pub(crate) fn next_message(&mut self) -> Option<Message> {
        loop {
            let line = self.lines.next()?.ok()?;
            let message = parse(&line);
            if let Some(Message::Progress(bytes)) = message {
                self.bar.set_position(bytes);
            }
            if message.is_some() {
                return message;
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn clear_bar(&self) {
        self.bar.finish_and_clear();
    }
}

/// Runs a child until it says its outcome.
pub(crate) fn run_to_the_end(title: &str, request: &Request) -> Result<Outcome> {
    let mut running = start(title, request)?;
    let mut outcome = None;
    while let Some(message) = running.next_message() {
        if let Message::Outcome(said) = message {
            outcome = Some(said);
        }
    }
    running.clear_bar();
    let status = running
        .process
        .wait()
        .map_err(BenchError::io("wait for", Path::new("the transfer")))?;
    outcome
        .filter(|_| status.success())
        .ok_or_else(|| BenchError::Child {
            workload: "demo".to_string(),
            subject: title.to_string(),
            status: status.to_string(),
        })
}

fn parse(line: &str) -> Option<Message> {
    let (kind, rest) = line.split_once(' ')?;
    match kind {
        "progress" => rest.parse().ok().map(Message::Progress),
        "session" => Some(Message::Session(rest.into())),
        "outcome" => serde_json::from_str(rest).ok().map(Message::Outcome),
        _ => None,
    }
}

fn progress_bar(title: &str, bytes: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{prefix:<22} [{bar:40}] {percent:>3} % {decimal_bytes_per_sec}")
            .expect("the template is valid")
            .progress_chars("=> ");
    // Standard error, and only where it is a terminal.
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    bar.set_style(style);
    bar.set_prefix(title.to_string());
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_other_output_is_ignored() {
        assert!(matches!(parse("progress 42"), Some(Message::Progress(42))));
        assert!(matches!(parse("session /x y"), Some(Message::Session(path)) if path == Path::new("/x y")));
        assert!(parse("a logger prints").is_none());
        let json = r#"outcome {"bytes":1,"seconds":0.5,"events":null,"lost_events":0,"log_bytes":0}"#;
        assert!(matches!(parse(json), Some(Message::Outcome(outcome)) if outcome.bytes == 1));
    }
}
