//! The command line of `logdrive send`.

use crate::collect;
use crate::config::units::{duration_text, read_duration};
use crate::members::WEIGHT_MAX;
use clap::{Args, ValueEnum};
use logdrive_drain::schema::limits::{CONNECT_TIMEOUT, HEALTH_EVERY, RESPONSE_TIMEOUT, ZSTD_LEVEL};
use logdrive_engines::{EngineAddress, EngineError};
use logdrive_ship::upstream::{MemberOptions, Policy};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

const SEND_EXAMPLES: &str = "\
Examples:
  logdrive send app.log --to unix:///run/logdrive/collect.sock
                                              what is in the file, and end
  logdrive send --follow app.log --to tls://logs.example.org:7140 \\
      --tls-ca authority.pem --tls-cert client.pem --tls-key client.key
                                              and what comes, through rotations, until told to end
  logdrive send --follow /var/log/nginx '/srv/*/*.log' --to unix:///run/logdrive/collect.sock
                                              the logs of a directory, and those that match a
                                              pattern, also when they come later
  logdrive send --config send.toml --follow app.log
                                              as a file says; --print-config shows all keys. After a
                                              change of its addresses, HUP has it read again
  logdrive send app.log --to quic://one.example.org:7140 --backup tls://two.example.org:7140 \\
      --health-every 5s --tls-ca authority.pem --tls-cert client.pem --tls-key client.key
                                              over QUIC, and to another one while the first is away
  logdrive send --follow app.log --to kafka://127.0.0.1:9092/logs
                                              to an engine, without a collector: its state has what
                                              the engine has acknowledged
  make 2>&1 | logdrive send - --app make --to unix:///run/logdrive/collect.sock
  logdrive send - --spool /var/spool/logdrive --to tls://logs.example.org:7140 \\
      --tls-ca authority.pem
                                              keeps what comes on disk while the collector is away

Of each log it remembers how far the collectors have acknowledged it (--state), so that it goes on
there after any end, and each line is in the collector's log once. Other collectors get the log
from its start. Files are recognised by their content: a log may be renamed, copied and truncated,
or compressed (.gz, .zst). Lines of standard input that were not acknowledged are lost with a killed
sender, unless they are in a spool.

Signals: HUP reads --config again, for other addresses, and for another first one with the policy
manual; without --config it ends as INT and TERM do: what was read is sent, and its acknowledgement
waited for.
Exit status: 0 all was acknowledged, 1 something was not or was skipped, 2 the command is wrong.";

/// Form in which lines are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub(crate) enum Look {
    /// Typed records: time, level, thread, target, message and fields of usual forms, a stack trace with its record
    #[default]
    Records,
    /// Lines of text as they are; the collector makes records of them
    Text,
    /// Lines as they are, which are JSON objects
    Json,
}

/// Send logs, or standard input, to a collector
///
/// Each record becomes one there, a stack trace with its record, with this host, the program's name and a session as fields. Logs are followed
/// through rotation with --follow. While the collector is away a file waits where it is, and standard input in the spool.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = SEND_EXAMPLES)]
pub(crate) struct SendArgs {
    /// Logs: files, directories, or patterns such as '/var/log/*.log'; - for standard input. Rotated files are sent where
    /// they are named, too, and those that come later
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) files: Vec<PathBuf>,
    /// Where the collector listens; with several, whichever can be reached, each as often as its weight says: ADDRESS, or
    /// ADDRESS,weight=N. Or an engine, such as kafka://HOST:9092/TOPIC or otlp://HOST:4317, which then gets the records
    /// without a collector
    #[arg(short, long, value_name = "ADDRESS", value_parser = destination)]
    pub(crate) to: Vec<DestinationArg>,
    /// Where another collector listens, for when none of the others can be used; may be given several times
    #[arg(long, value_name = "ADDRESS", value_parser = record_member)]
    pub(crate) backup: Vec<MemberOptions>,
    /// Which one is used where there are several: round_robin, weighted_random, consistent_hash (by the session) or manual
    /// (the first); it stays as long as it takes records [default: round_robin]
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    pub(crate) policy: Option<Policy>,
    /// Interval of health checks, such as 5s: an unhealthy collector is not tried, and records go back from a backup
    /// to one that is healthy again [default: no checks]
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
    /// Go on with what is written to the logs, through rotation, and with logs that come
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// How long a rotated file has to be quiet before it is taken for complete [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| crate::config::units::read_duration(text))]
    pub(crate) rotate_wait: Option<Duration>,
    /// The program's name in the records [default: the file's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Form in which lines are sent [default: records]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<Look>,
    /// Remember there how far the log was acknowledged; a directory for several logs [default: in the user's state
    /// directory]
    #[arg(long, value_name = "PATH")]
    pub(crate) state: Option<PathBuf>,
    /// Keep what nobody takes in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) spool: Option<PathBuf>,
    /// Compress batches with zstd of this level, 1 to 19
    #[arg(long, value_name = "LEVEL", value_parser = zstd_level)]
    pub(crate) zstd: Option<i32>,
    /// Time to wait at the end for the collector's acknowledgement [default: 30s]
    #[arg(long, alias = "patience", value_name = "TIME", value_parser = |text: &str| crate::config::units::read_duration(text))]
    pub(crate) end_timeout: Option<Duration>,
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

fn zstd_level(text: &str) -> Result<i32, String> {
    let level = text.parse().ok().filter(|level| ZSTD_LEVEL.contains(level));
    let level = level.and_then(|level| i32::try_from(level).ok());
    level.ok_or_else(|| format!("allowed: {} to {}", ZSTD_LEVEL.start(), ZSTD_LEVEL.end()))
}

/// Destination of records: a collector, or an engine.
#[derive(Debug, Clone)]
pub(crate) enum DestinationArg {
    Collector(Box<MemberOptions>),
    Engine(EngineAddress),
}

impl SendArgs {
    /// The engine, where records go to one.
    pub(super) fn engine(&self) -> Option<&EngineAddress> {
        self.to.iter().find_map(|to| match to {
            DestinationArg::Engine(engine) => Some(engine),
            DestinationArg::Collector(_) => None,
        })
    }

    /// The collectors that records go to.
    pub(super) fn collectors(&self) -> Vec<MemberOptions> {
        let collectors = self.to.iter().filter_map(|to| match to {
            DestinationArg::Engine(_) => None,
            DestinationArg::Collector(member) => Some((**member).clone()),
        });
        collectors.collect()
    }
}

/// Reads the address of a collector with its weight, or that of an engine.
fn destination(text: &str) -> Result<DestinationArg, String> {
    match EngineAddress::is_one(text) {
        true => text
            .parse()
            .map(DestinationArg::Engine)
            .map_err(|error: EngineError| error.to_string()),
        false => record_member(text).map(|member| DestinationArg::Collector(Box::new(member))),
    }
}

/// Reads an address with its weight.
fn record_member(text: &str) -> Result<MemberOptions, String> {
    let (address, weight) = match text.rsplit_once(",weight=") {
        Some((address, weight)) => (address, Some(weight)),
        None => (text, None),
    };
    let mut member = MemberOptions::new(collect::address(address)?);
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
