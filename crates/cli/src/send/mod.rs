//! `logdrive send`: sends the lines of logs, or of standard input, to a collector, each once.

mod args;
mod config;
mod engine;
mod group;

pub(crate) use args::{Look, SendArgs};

use crate::error::CliError;
use crate::output::titled_note;
use crate::paint::{ColorChoice, Style};
use crate::signals::Signals;
use group::{GroupProgress, SenderGroup};
use logdrive_ship::hello::Format;
use signal_hook::consts::SIGHUP;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval at which the command handles signals and shows its progress.
const TURN: Duration = Duration::from_millis(100);

/// Interval at which patterns and directories are read again, for logs that have come.
const FIND_INTERVAL: Duration = Duration::from_secs(2);

/// Sends until the end of the input, or until it is told to end. `false` when something was not acknowledged, or skipped.
pub(crate) fn run(args: &SendArgs, color: ColorChoice) -> Result<bool, CliError> {
    let Some(config) = config::configuration(args, color)? else {
        return Ok(false);
    };
    let signals = Signals::of_service()?;
    let mut group = SenderGroup::new(args, config);
    let is_stdin = matches!(args.files.as_slice(), [file] if file.as_os_str() == "-");
    match is_stdin {
        true => group.start_stdin()?,
        false => tell(color, &group.start_logs()?),
    }
    let mut screen = Screen {
        color,
        is_live: !args.json && io::stderr().is_terminal(),
        failure: String::new(),
    };
    let finds_more = args.follow && group.names_several();
    let (mut found, mut is_stopping) = (Instant::now(), false);
    while !group.is_over() {
        match signals.wait(TURN) {
            None => {}
            Some(SIGHUP) if args.config.is_some() => reload(args, color, &mut group),
            Some(_) => {
                is_stopping = true;
                group.stop();
            }
        }
        screen.show(&group.progress());
        if finds_more && !is_stopping && found.elapsed() >= FIND_INTERVAL {
            found = Instant::now();
            // Nothing matches where the last log has gone; those that are sent go on.
            tell(color, &group.start_logs().unwrap_or_default());
        }
    }
    let mut errors = group.join();
    let end = group.progress();
    if let ([_], 1) = (errors.as_slice(), end.logs) {
        return Err(errors.remove(0).into());
    }
    let errors: Vec<CliError> = errors.into_iter().map(CliError::from).collect();
    tell(color, &errors);
    Ok(report(args.json, is_stdin, &end)? && errors.is_empty())
}

/// Reports logs that cannot be sent, while others are.
fn tell(color: ColorChoice, errors: &[CliError]) {
    for error in errors {
        titled_note(color.for_stderr(), Style::Warning, "skipped", error.to_string());
    }
}

impl Look {
    fn format(self) -> Format {
        match self {
            Self::Records => Format::Records,
            Self::Text => Format::Text,
            Self::Json => Format::Json,
        }
    }
}

/// What the command shows while it sends.
struct Screen {
    color: ColorChoice,
    /// Whether there is a line on the terminal that shows the progress.
    is_live: bool,
    /// Failure that was reported last; empty for none.
    failure: String,
}

impl Screen {
    fn show(&mut self, progress: &GroupProgress) {
        // If it cannot be shown, the exit status reports it.
        let show = |text: &str| drop(write!(io::stderr(), "\r\x1b[K{text}"));
        if progress.failure != self.failure {
            self.failure.clone_from(&progress.failure);
            if self.is_live {
                show("");
            }
            let (style, title, text) = match progress.failure.as_str() {
                "" => (Style::Good, "note", "the collector takes records again"),
                failure => (Style::Warning, "waits", failure),
            };
            titled_note(self.color.for_stderr(), style, title, text);
        }
        if self.is_live {
            show(&format!(
                "{} acknowledged, {} on their way, {} in the spool ",
                progress.acknowledged,
                progress.missing(),
                crate::config::units::size_text(progress.spool_bytes)
            ));
        }
    }
}

fn reload(args: &SendArgs, color: ColorChoice, group: &mut SenderGroup<'_>) {
    let (style, text) = match config::configuration(args, color) {
        Ok(Some(found)) => {
            let places: Vec<String> = found.ship.to.iter().map(|one| one.address.to_string()).collect();
            group.set_members(found.ship.to);
            (
                Style::Good,
                format!("records go to {} from now on", places.join(", ")),
            )
        }
        // The error has been reported, with its line.
        Ok(None) => (
            Style::Warning,
            "the file is not used: records go where they went".to_owned(),
        ),
        Err(error) => (Style::Warning, format!("{error}; records go where they went")),
    };
    titled_note(color.for_stderr(), style, "note", text);
}

/// Prints the numbers. `false` when a record is missing, or a file was skipped.
fn report(is_json: bool, is_stdin: bool, end: &GroupProgress) -> Result<bool, CliError> {
    let missing = end.missing();
    let skips = end.skips;
    let mut out = io::stdout();
    if is_json {
        let object = serde_json::json!({
            "logs": end.logs,
            "records": end.pushed,
            "acknowledged": end.acknowledged,
            "missing": missing,
            "resent_batches": end.resent_batches,
            "connections": end.connections,
            "spool_bytes": end.spool_bytes,
            "failure": end.failure,
            "skipped": {
                "logs": end.skipped_logs,
                "unreadable": skips.unreadable,
                "removed": skips.removed,
                "truncated": skips.truncated,
                "too_many": skips.too_many,
            },
        });
        writeln!(out, "{object}")?;
    } else {
        writeln!(
            out,
            "{} of {} records acknowledged (C3)",
            end.acknowledged, end.pushed
        )?;
        if missing > 0 {
            let kept = match (end.spool_bytes > 0, is_stdin) {
                (true, _) => "they are in the spool: start again to send them",
                (false, false) => "they are in the file: start again to send them",
                (false, true) => "they are lost",
            };
            writeln!(
                io::stderr(),
                "{missing} were not acknowledged: {kept}. {}",
                end.failure
            )?;
        }
        let reasons = [
            (end.skipped_logs, "logs could not be sent"),
            (skips.unreadable, "files could not be read"),
            (skips.removed, "files were removed before their end was read"),
            (
                skips.truncated,
                "files were truncated without a copy: their last lines may be missing",
            ),
            (skips.too_many, "rotated files were too many"),
        ];
        for (count, reason) in reasons.iter().filter(|(count, _)| *count > 0) {
            writeln!(io::stderr(), "skipped: {count} {reason}")?;
        }
    }
    Ok(missing == 0 && end.skipped() == 0)
}
