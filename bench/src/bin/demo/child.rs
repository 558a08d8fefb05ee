//! A run of the demo in a process of its own: the process itself, and the
//! parent that watches it.
//!
//! The child prints one message a line: `progress BYTES`, `session PATH` and,
//! at its end, `outcome JSON`.

use std::path::PathBuf;
use std::process::Command;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use logdrive_bench::logged::{LoggedTransfer, Progress, run_subject};
use logdrive_bench::{BenchError, Result};
use logdrive_testkit::{Process, report};

/// The first word on the command line of a child.
pub(crate) const CHILD: &str = "--child";

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

/// A message of a child.
#[derive(Debug)]
pub(crate) enum Message {
    /// Bytes that have arrived so far.
    Progress(u64),
    /// Path of the child's Logdrive session.
    Session(PathBuf),
    /// The end.
    Outcome(LoggedTransfer),
}

impl Request {
    /// Reads what [`start`] put on the command line after [`CHILD`].
    pub(crate) fn read(words: &[String]) -> Result<Request> {
        let [logger, log, bytes] = words else {
            return Err(BenchError::new(
                "a logger, a log and a number of bytes are wanted",
            ));
        };
        let bytes = bytes.parse().map_err(|error| BenchError::subject(bytes, error))?;
        Ok(Request {
            logger: logger.clone(),
            log: log.into(),
            bytes,
        })
    }
}

/// Runs a transfer to its end in the child.
pub(crate) fn serve(request: &Request) -> Result<()> {
    let outcome = run_subject(&request.logger, &request.log, request.bytes, progress())?;
    report(&format!("outcome {}", serde_json::to_string(&outcome)?));
    Ok(())
}

/// Callback of a transfer that prints how far it is.
pub(crate) fn progress() -> Progress {
    Box::new(|bytes| report(&format!("progress {bytes}")))
}

/// A child at work.
pub(crate) struct Running {
    /// Its process.
    pub(crate) process: Process,
    bar: ProgressBar,
}

/// Starts a child with a progress bar.
pub(crate) fn start(title: &str, request: &Request) -> Result<Running> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([CHILD, &request.logger])
        .arg(&request.log)
        .arg(request.bytes.to_string());
    let (process, bar) = (Process::spawn(&mut command), progress_bar(title, request.bytes));
    Ok(Running { process, bar })
}

impl Running {
    /// The next message, or `None` at the child's end; moves the bar.
    pub(crate) fn next_message(&mut self) -> Option<Message> {
        loop {
            let message = parse(&self.process.next_line()?);
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
pub(crate) fn run_to_the_end(title: &str, request: &Request) -> Result<LoggedTransfer> {
    let mut running = start(title, request)?;
    let mut outcome = None;
    while let Some(message) = running.next_message() {
        if let Message::Outcome(said) = message {
            outcome = Some(said);
        }
    }
    running.clear_bar();
    let status = running.process.wait();
    outcome.filter(|_| status.success()).ok_or_else(|| {
        BenchError::subject(
            title,
            format_args!("its process ended with {status} and without a result"),
        )
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
    use std::path::Path;

    #[test]
    fn messages_are_read_and_other_output_is_ignored() {
        assert!(matches!(parse("progress 42"), Some(Message::Progress(42))));
        assert!(matches!(parse("session /x y"), Some(Message::Session(path)) if path == Path::new("/x y")));
        assert!(parse("a logger prints").is_none());
        let transfer = r#"{"bytes":1,"elapsed":{"secs":0,"nanos":5}}"#;
        let json =
            format!(r#"outcome {{"transfer":{transfer},"events":null,"lost_events":0,"log_bytes":0}}"#);
        assert!(matches!(parse(&json), Some(Message::Outcome(outcome)) if outcome.transfer.bytes == 1));
    }
}
