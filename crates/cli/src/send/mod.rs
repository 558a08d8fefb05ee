//! `logdrive send`: sends the lines of a file, or of standard input, to a collector, each once.

mod config;
mod follow;
mod state;

use crate::collect::record_address;
use crate::config::units::{duration_text, read_duration};
use crate::error::CliError;
use crate::members::WEIGHT_MAX;
use crate::paint::{ColorChoice, Style};
use crate::signals::Signals;
use clap::{Args, ValueEnum};
use config::{Aim, SendConfig};
use follow::{Follow, Input};
use logdrive_agent::config::limits::{CONNECT_TIMEOUT, HEALTH_EVERY, RESPONSE_TIMEOUT};
use logdrive_ship::forward::{
    ForwardOptions, ForwardState, ForwardWatch, Forwarder, SpoolOptions, new_session,
};
use logdrive_ship::hello::Format;
use logdrive_ship::upstream::{MemberOptions, Policy};
use logdrive_ship::{Options, TlsFiles};
use nix::sys::signal::Signal;
use state::State;
use std::io::{self, IsTerminal, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SEND_EXAMPLES: &str = "\
Examples:
  logdrive send app.log --to unix:///run/logdrive/collect.sock
                                              what is in the file, and end
  logdrive send --follow app.log --to tls://logs.example.org:7140 \\
      --tls-ca authority.pem --tls-cert client.pem --tls-key client.key
                                              and what comes, through rotations, until told to end
  logdrive send --config send.toml --follow app.log
                                              as a file says; --print-config shows all keys. After a
                                              change of its addresses, HUP has it read again
  logdrive send app.log --to quic://one.example.org:7140 --backup tls://two.example.org:7140 \\
      --health-every 5s --tls-ca authority.pem --tls-cert client.pem --tls-key client.key
                                              over QUIC, and to another one while the first is away
  make 2>&1 | logdrive send - --app make --to unix:///run/logdrive/collect.sock
  logdrive send - --spool /var/spool/logdrive --to tls://logs.example.org:7140 \\
      --tls-ca authority.pem
                                              keeps what comes on disk while the collector is away

Of a file it remembers how far the collector has acknowledged it (--state), so that it goes on
there after any end, and each line is in the collector's log once. Lines of standard input that were
not acknowledged are lost with a killed sender, unless they are in a spool.

Signals: HUP reads --config again, for other addresses, and for another first one with the policy
manual; without --config it ends as INT and TERM do: what was read is sent, and its acknowledgement
waited for.
Exit status: 0 all was acknowledged, 1 something was not, 2 the command line is wrong.";

/// How lines look.
#[derive(Debug, Clone, Copy, ValueEnum, Default)]
pub(crate) enum Look {
    /// Lines of text
    #[default]
    Text,
    /// JSON objects, one a line
    Json,
}

/// Send a log file, or standard input, to a collector
///
/// Each line becomes a record there, with this host, the program's name and a session as fields. Files are followed
/// through rotation with --follow. While the collector is away a file waits where it is, and standard input in the spool.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = SEND_EXAMPLES)]
pub(crate) struct SendArgs {
    /// The file, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    /// Where the collector listens; with several, whichever can be reached, each as often as its weight says: ADDRESS, or
    /// ADDRESS,weight=N
    #[arg(short, long, value_name = "ADDRESS", value_parser = record_member)]
    pub(crate) to: Vec<MemberOptions>,
    /// Where another collector listens, for when none of the others can be used; may be given several times
    #[arg(long, value_name = "ADDRESS", value_parser = record_member)]
    pub(crate) backup: Vec<MemberOptions>,
    /// Which one is used where there are several: round_robin, weighted_random, consistent_hash (by the session) or manual
    /// (the first); it stays as long as it takes records [default: round_robin]
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    pub(crate) policy: Option<Policy>,
    /// How often to look whether each is well, such as 5s: one that is ill is not tried, and what goes to a backup goes back
    /// to one that is well again [default: never]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| within(text, &HEALTH_EVERY))]
    pub(crate) health_every: Option<Duration>,
    /// How long a connection may take to be made [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| within(text, &CONNECT_TIMEOUT))]
    pub(crate) connect_timeout: Option<Duration>,
    /// How long an acknowledgement may take before another connection is made [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| within(text, &RESPONSE_TIMEOUT))]
    pub(crate) response_timeout: Option<Duration>,
    /// A configuration file in TOML; the command line comes before it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print a commented configuration with all defaults, and end
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Go on with what is written to the file, and with the next file when it is rotated
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// The program's name in the records [default: the file's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// How lines look [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<Look>,
    /// Remember there how far the file was acknowledged [default: in the user's state directory]
    #[arg(long, value_name = "PATH")]
    pub(crate) state: Option<PathBuf>,
    /// Keep what nobody takes in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) spool: Option<PathBuf>,
    /// Compress batches with zstd of this level, 1 to 19
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=19))]
    pub(crate) zstd: Option<i32>,
    /// How long to wait at the end for the collector's word [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| crate::config::units::read_duration(text))]
    pub(crate) patience: Option<Duration>,
    /// Print the numbers at the end as JSON, and no live line
    #[arg(long)]
    pub(crate) json: bool,

    /// Certificates of the authority that the collector's comes from
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Our own certificate
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Encryption")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Encryption")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name that the collector's certificate must bear [default: the host of the address]
    #[arg(long, value_name = "NAME", help_heading = "Encryption")]
    pub(crate) tls_name: Option<String>,
    /// Let plain TCP leave this machine
    #[arg(long, help_heading = "Encryption")]
    pub(crate) insecure: bool,
}

fn within(text: &str, range: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let found = read_duration(text)?;
    match range.contains(&found) {
        true => Ok(found),
        false => Err(format!(
            "allowed: {} to {}",
            duration_text(*range.start()),
            duration_text(*range.end())
        )),
    }
}

/// Reads an address with its weight.
fn record_member(text: &str) -> Result<MemberOptions, String> {
    let (address, weight) = match text.rsplit_once(",weight=") {
        Some((address, weight)) => (address, Some(weight)),
        None => (text, None),
    };
    let mut member = MemberOptions::new(record_address(address)?);
    if let Some(weight) = weight {
        let found = weight
            .parse()
            .ok()
            .filter(|found| (1..=WEIGHT_MAX).contains(found));
        member.weight =
            found.ok_or_else(|| format!("`{weight}` is no weight: allowed are 1 to {WEIGHT_MAX}"))?;
    }
    Ok(member)
}

fn policy(text: &str) -> Result<Policy, String> {
    let found = Policy::NAMES.iter().find(|(name, _)| *name == text);
    let names = Policy::NAMES.map(|(name, _)| name).join(", ");
    found
        .map(|(_, policy)| *policy)
        .ok_or_else(|| format!("allowed: {names}"))
}

/// Lines of one batch, in bytes: two batches fit into a ring, and a frame.
const BATCH_BYTES: usize = 256 * 1024;
/// How often the state is written and signals are looked at.
const TURN: Duration = Duration::from_millis(100);

/// Sends until the end of the input, or until it is told to end. `false` when something was not acknowledged.
pub(crate) fn run(args: &SendArgs, color: ColorChoice) -> Result<bool, CliError> {
    let named = args;
    let Some(SendConfig { args, aim }) = config::configuration(named, color)? else {
        return Ok(false);
    };
    let args = &args;
    let signals = Signals::hold()?;
    let is_stdin = args.file.as_os_str() == "-";
    let state_path = match (&args.state, is_stdin) {
        (_, true) => None,
        (Some(path), false) => Some(path.clone()),
        (None, false) => Some(state::default_path(&args.file)?),
    };
    let mut state = match &state_path {
        Some(path) => State::load(path)?,
        None => None,
    };
    let forward = forward_options(args, &aim, state.as_ref())?;
    let forwarder = Forwarder::start(&[], &options(args, &aim), &forward)?;
    let mut input = match is_stdin {
        true => Input::stdin(),
        false => Input::File(Box::new(Follow::open(&args.file, state.as_ref(), args.follow)?)),
    };
    let mut keeper = Keeper {
        path: state_path,
        state: state.take().unwrap_or(State {
            session: forward.session,
            epoch: forward.epoch,
            number: forward.next,
            ..State::default()
        }),
        marks: std::collections::VecDeque::new(),
    };
    if let (Some(path), 0) = (&keeper.path, keeper.state.mark.ino) {
        // Before anything is sent: whoever comes after us has to send it under the same numbers.
        keeper.state.mark = input.mark();
        keeper.state.save(path)?;
    }
    let orders = Orders {
        signals,
        named,
        color,
        watch: forwarder.watch(),
    };
    pump(args, &orders, &forwarder, &mut input, &mut keeper)?;
    let patience = args.patience.unwrap_or(Duration::from_secs(30));
    let end = forwarder.stop(patience);
    keeper.note(end.acknowledged)?;
    report(args, &end, forward.next)
}

/// What is forwarded, and how: a file goes on under the numbers of its state.
fn forward_options(args: &SendArgs, aim: &Aim, state: Option<&State>) -> Result<ForwardOptions, CliError> {
    let mut forward = match state {
        Some(state) => ForwardOptions::new(state.session, state.epoch),
        None => {
            let session = new_session().map_err(|cause| CliError::Random { cause })?;
            ForwardOptions::new(session, unix_ns())
        }
    };
    forward.next = state.map_or(0, |state| state.number);
    forward.format = match args.format.unwrap_or_default() {
        Look::Text => Format::Text,
        Look::Json => Format::Json,
    };
    forward.zstd_level = args.zstd;
    forward.members.clone_from(&aim.members);
    forward.group.clone_from(&aim.group);
    // Of a file nothing is kept twice.
    let is_stdin = args.file.as_os_str() == "-";
    forward.spool = args.spool.as_ref().filter(|_| is_stdin).map(SpoolOptions::new);
    Ok(forward)
}

fn options(args: &SendArgs, aim: &Aim) -> Options {
    let file_name = args
        .file
        .file_stem()
        .and_then(|name| name.to_str())
        .unwrap_or("stdin");
    let app = match (&args.app, file_name) {
        (Some(app), _) => app.clone(),
        (None, "-") => "stdin".to_owned(),
        (None, name) => name.to_owned(),
    };
    Options {
        app,
        connect_timeout: aim.connect_timeout,
        response_timeout: aim.response_timeout,
        idle_timeout: aim.idle_timeout,
        insecure: args.insecure,
        tls: TlsFiles {
            authorities: args.tls_ca.clone(),
            certificate: args.tls_cert.clone(),
            key: args.tls_key.clone(),
            name: args.tls_name.clone(),
            anyone: false,
        },
        ..Options::default()
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// What is acknowledged, and where in the file that is.
struct Keeper {
    path: Option<PathBuf>,
    state: State,
    /// Where batches end: number, then device, inode and offset.
    marks: std::collections::VecDeque<(u64, follow::Mark)>,
}

impl Keeper {
    fn note(&mut self, acknowledged: u64) -> Result<(), CliError> {
        let mut changed = false;
        while let Some((number, mark)) = self.marks.pop_front_if(|(number, _)| *number <= acknowledged) {
            self.state.number = number;
            self.state.mark = mark;
            changed = true;
        }
        match (&self.path, changed) {
            (Some(path), true) => self.state.save(path),
            _ => Ok(()),
        }
    }
}

/// What whoever runs it wants while it runs.
struct Orders<'a> {
    signals: Signals,
    /// The command line, which comes before the file.
    named: &'a SendArgs,
    color: ColorChoice,
    watch: ForwardWatch,
}

impl Orders<'_> {
    /// Whether it is to end. Reads the configuration again where that is wanted.
    fn end(&self, patience: Duration) -> bool {
        match self.signals.wait(patience) {
            None => false,
            Some(Signal::SIGHUP) if self.named.config.is_some() => {
                self.reload();
                false
            }
            Some(_) => true,
        }
    }

    fn reload(&self) {
        let paint = self.color.for_stderr();
        // Where it cannot be said, records still go where they went.
        let _ = match config::configuration(self.named, self.color) {
            Ok(Some(found)) => {
                let places: Vec<String> = found
                    .aim
                    .members
                    .iter()
                    .map(|one| one.address.to_string())
                    .collect();
                self.watch.set_members(found.aim.members);
                let title = paint.the(Style::Good, "note:");
                writeln!(
                    io::stderr(),
                    "{title} records go to {} from now on",
                    places.join(", ")
                )
            }
            // What is wrong has been told, with its line.
            Ok(None) => writeln!(
                io::stderr(),
                "{} the file is not used: records go where they went",
                paint.the(Style::Doubt, "note:")
            ),
            Err(error) => writeln!(
                io::stderr(),
                "{} {error}; records go where they went",
                paint.the(Style::Doubt, "note:")
            ),
        };
    }
}

fn pump(
    args: &SendArgs,
    orders: &Orders<'_>,
    forwarder: &Forwarder,
    input: &mut Input,
    keeper: &mut Keeper,
) -> Result<(), CliError> {
    let mut lines = Vec::new();
    let mut noted = Instant::now();
    let mut failure = String::new();
    let is_live = !args.json && io::stderr().is_terminal();
    loop {
        let ends = orders.end(Duration::ZERO);
        lines.clear();
        let count = input.read(&mut lines, BATCH_BYTES, ends)?;
        if count > 0 {
            let mut batch = std::mem::take(&mut lines);
            let first = loop {
                match forwarder.push(count, batch, TURN) {
                    Ok(first) => break Some(first),
                    Err(refusal) => batch = refusal.0,
                }
                keeper.note(forwarder.state().acknowledged)?;
                if forwarder.state().is_over || orders.end(Duration::ZERO) {
                    break None;
                }
            };
            let Some(first) = first else { return Ok(()) };
            keeper.marks.push_back((first + u64::from(count), input.mark()));
        }
        if noted.elapsed() >= TURN || count == 0 {
            noted = Instant::now();
            let state = forwarder.state();
            keeper.note(state.acknowledged)?;
            tell(orders.color, is_live, &state, &mut failure);
            if state.is_over {
                return Ok(());
            }
        }
        if ends || (count == 0 && !input.goes_on()) {
            return Ok(());
        }
        if count == 0 && orders.end(input.pause()) {
            return Ok(());
        }
    }
}

fn tell(color: ColorChoice, is_live: bool, state: &ForwardState, failure: &mut String) {
    let paint = color.for_stderr();
    if state.failure != *failure {
        failure.clone_from(&state.failure);
        let front = if is_live { "\r\x1b[K" } else { "" };
        // Where it cannot be said, the exit status says it.
        let _ = match failure.is_empty() {
            true => writeln!(
                io::stderr(),
                "{front}{} the collector takes records again",
                paint.the(Style::Good, "note:")
            ),
            false => writeln!(
                io::stderr(),
                "{front}{} {failure}",
                paint.the(Style::Doubt, "waits:")
            ),
        };
    }
    if is_live {
        let waiting = state.pushed.saturating_sub(state.acknowledged);
        // As above.
        let _ = write!(
            io::stderr(),
            "\r\x1b[K{} acknowledged, {waiting} on their way, {} in the spool ",
            state.acknowledged,
            crate::config::units::size_text(state.spool_bytes)
        );
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
