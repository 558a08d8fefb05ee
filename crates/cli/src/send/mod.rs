//! `logdrive send`: sends the lines of a file, or of standard input, to a collector, each once.

mod args;
mod config;

pub(crate) use args::{Look, SendArgs};

use crate::error::CliError;
use crate::output::titled_note;
use crate::paint::{ColorChoice, Style};
use crate::signals::Signals;
use config::SendConfig;
use logdrive_collector::send::{LogInput, LogSender, SendControl, SendState, default_state_path};
use logdrive_ship::Options;
use logdrive_ship::forward::{ForwardOptions, ForwardState, ForwardWatch, new_session};
use logdrive_ship::hello::Format;
use signal_hook::consts::SIGHUP;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Sends until the end of the input, or until it is told to end. `false` when something was not acknowledged.
pub(crate) fn run(args: &SendArgs, color: ColorChoice) -> Result<bool, CliError> {
    let Some(config) = config::configuration(args, color)? else {
        return Ok(false);
    };
    let signals = Signals::of_service()?;
    let is_stdin = args.file.as_os_str() == "-";
    let state_path = match (&args.state, is_stdin) {
        (_, true) => None,
        (Some(path), false) => Some(path.clone()),
        (None, false) => Some(default_state_path(&args.file)?),
    };
    let state = match &state_path {
        Some(path) => SendState::load(path)?,
        None => None,
    };
    let forward = forward_options(args, &config, state.as_ref())?;
    let input = match is_stdin {
        true => LogInput::stdin(),
        false => {
            let position = state.as_ref().map(|state| state.position);
            LogInput::file(&args.file, position, args.follow)?
        }
    };
    let mut sender = LogSender::start(input, state, state_path, &options(args, &config), &forward)?;
    let mut control = Control {
        signals,
        args,
        color,
        is_live: !args.json && io::stderr().is_terminal(),
        failure: String::new(),
        watch: sender.watch(),
    };
    sender.run(&mut control)?;
    let end = sender.finish(config.end_timeout.unwrap_or(Duration::from_secs(30)))?;
    report(args, &end, forward.next)
}

/// Options of the forwarder: a file goes on under the numbers of its state.
fn forward_options(
    args: &SendArgs,
    config: &SendConfig,
    state: Option<&SendState>,
) -> Result<ForwardOptions, CliError> {
    let mut forward = match state {
        Some(state) => ForwardOptions::new(state.session, state.epoch),
        None => {
            let session = new_session().map_err(|cause| CliError::Random { cause })?;
            ForwardOptions::new(session, unix_ns())
        }
    };
    forward.next = state.map_or(0, |state| state.number);
    forward.format = match config.format.unwrap_or_default() {
        Look::Text => Format::Text,
        Look::Json => Format::Json,
    };
    let ship = &config.ship;
    forward.zstd_level = ship.zstd_level;
    forward.members.clone_from(&ship.to);
    forward.group.clone_from(&ship.group);
    // Of a file nothing is kept twice.
    let is_stdin = args.file.as_os_str() == "-";
    forward.spool = ship.spool.clone().filter(|_| is_stdin);
    Ok(forward)
}

fn options(args: &SendArgs, config: &SendConfig) -> Options {
    let file_name = args
        .file
        .file_stem()
        .and_then(|name| name.to_str())
        .unwrap_or("stdin");
    let app = match (&config.app, file_name) {
        (Some(app), _) => app.clone(),
        (None, "-") => "stdin".to_owned(),
        (None, name) => name.to_owned(),
    };
    Options {
        app,
        ..config.ship.transport.clone()
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Signals and screen of the command while it sends.
struct Control<'a> {
    signals: Signals,
    /// The command line, which comes before the file.
    args: &'a SendArgs,
    color: ColorChoice,
    /// Whether there is a line on the terminal that shows the progress.
    is_live: bool,
    /// Failure that was reported last; empty for none.
    failure: String,
    watch: ForwardWatch,
}

impl SendControl for Control<'_> {
    /// Reads the configuration again where that is asked for.
    fn stops(&mut self, timeout: Duration) -> bool {
        match self.signals.wait(timeout) {
            None => false,
            Some(SIGHUP) if self.args.config.is_some() => {
                self.reload();
                false
            }
            Some(_) => true,
        }
    }

    fn progress(&mut self, state: &ForwardState) {
        // If it cannot be shown, the exit status reports it.
        let show = |text: &str| drop(write!(io::stderr(), "\r\x1b[K{text}"));
        if state.failure != self.failure {
            self.failure.clone_from(&state.failure);
            if self.is_live {
                show("");
            }
            let (style, title, text) = match state.failure.as_str() {
                "" => (Style::Good, "note", "the collector takes records again"),
                failure => (Style::Warning, "waits", failure),
            };
            titled_note(self.color.for_stderr(), style, title, text);
        }
        if self.is_live {
            show(&format!(
                "{} acknowledged, {} on their way, {} in the spool ",
                state.acknowledged,
                state.pushed.saturating_sub(state.acknowledged),
                crate::config::units::size_text(state.spool_bytes)
            ));
        }
    }
}

impl Control<'_> {
    fn reload(&self) {
        let (style, text) = match config::configuration(self.args, self.color) {
            Ok(Some(found)) => {
                let places: Vec<String> = found.ship.to.iter().map(|one| one.address.to_string()).collect();
                self.watch.set_members(found.ship.to);
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
        titled_note(self.color.for_stderr(), style, "note", text);
    }
}

fn report(args: &SendArgs, end: &ForwardState, first: u64) -> Result<bool, CliError> {
    let acknowledged = end.acknowledged.saturating_sub(first);
    let missing = end.pushed.saturating_sub(acknowledged);
    let mut out = io::stdout();
    if args.json {
        let object = serde_json::json!({
            "records": end.pushed,
            "acknowledged": acknowledged,
            "missing": missing,
            "resent_batches": end.resent_batches,
            "connections": end.connections,
            "spool_bytes": end.spool_bytes,
            "failure": end.failure,
        });
        writeln!(out, "{object}")?;
    } else {
        writeln!(out, "{acknowledged} of {} records acknowledged (C3)", end.pushed)?;
        if missing > 0 {
            let kept = match (end.spool_bytes > 0, args.file == Path::new("-")) {
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
    }
    Ok(missing == 0)
}
