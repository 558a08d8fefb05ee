//! The configuration of `logdrive send`: a file in TOML, and the command line before it.

use super::{Look, SendArgs};
use crate::collect::values::{
    Wrong, flag, is_off, members, number, parsed, read_keys, text, time, time_within, word,
};
use crate::config::problem::Problem;
use crate::error::CliError;
use crate::paint::ColorChoice;
use logdrive_agent::config::limits::{
    BREAKER_OPEN, CONNECT_TIMEOUT, HEALTH_EVERY, RESPONSE_TIMEOUT, SHIP_IDLE_TIMEOUT,
};
use logdrive_ship::Options;
use logdrive_ship::forward::ForwardOptions;
use logdrive_ship::upstream::{GroupOptions, HealthOptions, MemberOptions, Policy};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// The commented default.
const COMMENTED: &str = "\
# Configuration of `logdrive send`. A key with # before it shows its default; the command line comes before the file.

# Where the collector listens; with several, whichever can be reached. One may be a table with a weight:
# { address = \"quic://two.example.org:7140\", weight = 3 }
to = [\"tls://logs.example.org:7140\"]

# Others, for when none of those can be used.
#backup = []

# Which one is used where there are several: round_robin, weighted_random, consistent_hash (by the session) or manual (the
# first of `to`). It stays as long as it takes records. HUP has a sender read `to` and `backup` again: with manual, whoever
# stands first then is used from then on.
#policy = \"round_robin\"

# After so many failures in a row one is left alone for a time; then so many may try at once, and so many have to succeed.
# Off, it is tried again and again, with growing pauses.
#breaker_failures = \"off\"
#breaker_open = \"5s\"
#breaker_probes = 1
#breaker_successes = 1

# How often to look whether each is well, and how many looks in a row say that one is ill, or well again. One that is ill is
# not tried, and what goes to a backup goes back to one that is well again.
#health_every = \"off\"
#health_failures = 2
#health_successes = 2

# How long a connection may take to be made, an acknowledgement to come, and a connection be silent before it is asked
# whether anybody is there (after a third of that time).
#connect_timeout = \"5s\"
#response_timeout = \"10s\"
#idle_timeout = \"30s\"

# The program's name in the records. Default: the file's name.
#app = \"stdin\"

# How lines look: text, or json.
#format = \"text\"

# Keep what nobody takes in this directory, for standard input. Files wait where they are.
#spool = \"/var/spool/logdrive/send\"

# Compress batches with zstd of this level, 1 to 19. Default: not at all.
#zstd = 1

# How long to wait at the end for the collector's word.
#patience = \"30s\"

# Files in PEM for tls:// and quic://: the authority that the collector's certificate comes from, and our own certificate and key.
#tls_authorities = \"/etc/logdrive/authority.pem\"
#tls_certificate = \"/etc/logdrive/client.pem\"
#tls_key = \"/etc/logdrive/client.key\"

# The name that the collector's certificate must bear. Default: the host of the address.
#tls_name = \"logs.example.org\"

# Let plain TCP leave this machine.
#insecure = false
";

const KEYS: [&str; 23] = [
    "to",
    "backup",
    "policy",
    "breaker_failures",
    "breaker_open",
    "breaker_probes",
    "breaker_successes",
    "health_every",
    "health_failures",
    "health_successes",
    "connect_timeout",
    "response_timeout",
    "idle_timeout",
    "app",
    "format",
    "spool",
    "zstd",
    "patience",
    "tls_authorities",
    "tls_certificate",
    "tls_key",
    "tls_name",
    "insecure",
];

/// What is asked for, with the command line before the file.
#[derive(Debug, Clone)]
pub(super) struct SendConfig {
    /// The arguments, with what the file says where they say nothing.
    pub(super) args: SendArgs,
    /// Where it goes.
    pub(super) aim: Aim,
}

/// Where records go, which of several is used, and how long anything may take.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Aim {
    pub(super) members: Vec<MemberOptions>,
    pub(super) group: GroupOptions,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) idle_timeout: Duration,
}

impl Default for Aim {
    fn default() -> Self {
        let options = Options::default();
        Self {
            members: Vec::new(),
            group: ForwardOptions::new(0, 0).group,
            connect_timeout: options.connect_timeout,
            response_timeout: options.response_timeout,
            idle_timeout: options.idle_timeout,
        }
    }
}

/// What is asked for. `None` when the file is wrong, or something was only to be printed, which has been done.
pub(super) fn configuration(args: &SendArgs, color: ColorChoice) -> Result<Option<SendConfig>, CliError> {
    if args.print_config {
        io::stdout().write_all(COMMENTED.as_bytes())?;
        std::process::exit(0);
    }
    let mut given = Given::default();
    if let Some(path) = &args.config {
        match parsed(path, color, parse)? {
            Some(found) => given = found,
            None => return Ok(None),
        }
    }
    let all = given.behind(args.clone());
    match all.aim.members.is_empty() {
        true => Err(CliError::NowhereToSend),
        false => Ok(Some(all)),
    }
}

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq)]
struct Given {
    to: Vec<MemberOptions>,
    backup: Vec<MemberOptions>,
    policy: Option<Policy>,
    /// Without members and policy.
    aim: Aim,
    health_every: Option<Duration>,
    health: HealthOptions,
    app: Option<String>,
    is_json: Option<bool>,
    spool: Option<PathBuf>,
    zstd: Option<i32>,
    patience: Option<Duration>,
    tls_ca: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tls_name: Option<String>,
    insecure: bool,
}

type Value<'a> = Spanned<DeValue<'a>>;

fn count(value: &Value<'_>) -> Result<u32, Wrong> {
    Ok(number(value, 1..=100, "1 to 100")? as u32)
}

impl Given {
    fn set(&mut self, key: &str, value: &Value<'_>) -> Result<(), Wrong> {
        match key {
            "to" => self.to = members(value, false)?,
            "backup" => self.backup = members(value, true)?,
            "policy" => {
                let allowed = "\"round_robin\", \"weighted_random\", \"consistent_hash\" or \"manual\"";
                self.policy = Some(word(value, &Policy::NAMES, allowed)?);
            }
            "app" => self.app = Some(text(value)?),
            "format" => {
                let words = [("text", false), ("json", true)];
                self.is_json = Some(word(value, &words, "\"text\" or \"json\"")?);
            }
            "spool" => self.spool = Some(text(value)?.into()),
            "zstd" => self.zstd = i32::try_from(number(value, 1..=19, "1 to 19")?).ok(),
            "patience" => self.patience = Some(time(value)?),
            "tls_authorities" => self.tls_ca = Some(text(value)?.into()),
            "tls_certificate" => self.tls_cert = Some(text(value)?.into()),
            "tls_key" => self.tls_key = Some(text(value)?.into()),
            "tls_name" => self.tls_name = Some(text(value)?),
            "insecure" => self.insecure = flag(value)?,
            _ => self.set_aim(key, value)?,
        }
        Ok(())
    }

    fn set_aim(&mut self, key: &str, value: &Value<'_>) -> Result<(), Wrong> {
        let Aim { group, .. } = &mut self.aim;
        let breaker = &mut group.breaker;
        match key {
            "breaker_failures" if is_off(value) => breaker.failures = u32::MAX,
            "breaker_failures" => {
                breaker.failures = number(value, 1..=1_000, "1 to 1000, or \"off\"")? as u32;
            }
            "breaker_open" => {
                breaker.open = time_within(value, &BREAKER_OPEN, "a time from \"10ms\" to \"1h\"")?;
            }
            "breaker_probes" => breaker.probes = count(value)?,
            "breaker_successes" => breaker.successes = count(value)?,
            "health_every" if is_off(value) => self.health_every = None,
            "health_every" => {
                let allowed = "a time from \"100ms\" to \"1h\", or \"off\"";
                self.health_every = Some(time_within(value, &HEALTH_EVERY, allowed)?);
            }
            "health_failures" => self.health.failures = count(value)?,
            "health_successes" => self.health.successes = count(value)?,
            "connect_timeout" => {
                let allowed = "a time from \"10ms\" to \"2m\"";
                self.aim.connect_timeout = time_within(value, &CONNECT_TIMEOUT, allowed)?;
            }
            "response_timeout" => {
                let allowed = "a time from \"100ms\" to \"10m\"";
                self.aim.response_timeout = time_within(value, &RESPONSE_TIMEOUT, allowed)?;
            }
            _ => {
                let allowed = "a time from \"1s\" to \"1h\"";
                self.aim.idle_timeout = time_within(value, &SHIP_IDLE_TIMEOUT, allowed)?;
            }
        }
        Ok(())
    }

    /// The arguments come first.
    fn behind(self, mut args: SendArgs) -> SendConfig {
        let mut aim = self.aim;
        let named = |given: &[MemberOptions], is_backup: bool, file: Vec<MemberOptions>| {
            if given.is_empty() {
                return file;
            }
            let given = given.iter().cloned();
            given
                .map(|member| MemberOptions { is_backup, ..member })
                .collect()
        };
        aim.members = named(&args.to, false, self.to);
        aim.members.extend(named(&args.backup, true, self.backup));
        aim.group.policy = args.policy.or(self.policy).unwrap_or_default();
        aim.group.health = args
            .health_every
            .or(self.health_every)
            .map(|every| HealthOptions { every, ..self.health });
        aim.connect_timeout = args.connect_timeout.unwrap_or(aim.connect_timeout);
        aim.response_timeout = args.response_timeout.unwrap_or(aim.response_timeout);
        let look = |is_json| if is_json { Look::Json } else { Look::Text };
        args.app = args.app.or(self.app);
        args.format = args.format.or(self.is_json.map(look));
        args.spool = args.spool.or(self.spool);
        args.zstd = args.zstd.or(self.zstd);
        args.patience = args.patience.or(self.patience);
        args.tls_ca = args.tls_ca.or(self.tls_ca);
        args.tls_cert = args.tls_cert.or(self.tls_cert);
        args.tls_key = args.tls_key.or(self.tls_key);
        args.tls_name = args.tls_name.or(self.tls_name);
        args.insecure |= self.insecure;
        SendConfig { args, aim }
    }
}

fn parse(text: &str) -> Result<Given, Vec<Problem>> {
    let mut given = Given::default();
    read_keys(text, &KEYS, |key, value| given.set(key, value))?;
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_commented_default_can_be_put_in() {
        let plain = parse(COMMENTED).expect("sound");
        assert_eq!(plain.to.len(), 1);
        let full: String = COMMENTED
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(key) if !key.starts_with(' ') => format!("{key}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let full = parse(&full).expect("sound");
        assert_eq!(
            (full.policy, full.is_json),
            (Some(Policy::RoundRobin), Some(false))
        );
        assert!(KEYS.iter().all(|key| COMMENTED.contains(&format!("{key} = "))));
        assert_eq!((full.aim, full.health_every), (Aim::default(), None));
        assert_eq!(full.health, HealthOptions::default());
    }

    #[test]
    fn weights_breaker_looks_and_times_are_taken() {
        let text = "backup = [\"unix:///b\"]\nbreaker_failures = 3\nbreaker_open = \"1s\"\nhealth_every = \"2s\"\n\
                    health_failures = 4\nconnect_timeout = \"300ms\"\n[[to]]\naddress = \"unix:///a\"\nweight = 5\n";
        let given = parse(text).expect("sound");
        let config = given.clone().behind(SendArgs::default());
        let roles: Vec<(u32, bool)> = config
            .aim
            .members
            .iter()
            .map(|member| (member.weight, member.is_backup))
            .collect();
        assert_eq!(roles, [(5, false), (1, true)]);
        let breaker = config.aim.group.breaker;
        assert_eq!((breaker.failures, breaker.open), (3, Duration::from_secs(1)));
        let health = config.aim.group.health.expect("on");
        assert_eq!(
            (health.every, health.failures, health.successes),
            (Duration::from_secs(2), 4, 2)
        );
        assert_eq!(config.aim.connect_timeout, Duration::from_millis(300));
        let named = SendArgs {
            to: vec![MemberOptions::new("unix:///c".parse().expect("an address"))],
            connect_timeout: Some(Duration::from_secs(9)),
            ..SendArgs::default()
        };
        let config = given.behind(named);
        assert_eq!(config.aim.members[0].address.to_string(), "unix:///c");
        assert_eq!(
            config.aim.members.len(),
            2,
            "the backup is still that of the file"
        );
        assert_eq!(config.aim.connect_timeout, Duration::from_secs(9));
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_what_is_allowed() {
        let wrong = "to = \"x\"\npolicy = \"best\"\nzstd = 20\nspol = \"x\"\nbreaker_open = \"1ms\"\nhealth_every = 5\n\
                     breaker_failures = 0\nbackup = [\"udp://127.0.0.1:1\"]\n";
        let problems = parse(wrong).expect_err("all wrong");
        assert_eq!(problems.len(), 8);
        let shown =
            crate::config::problem::report(&problems, "s.toml", wrong, crate::paint::Paint { on: false });
        for (line, words) in [
            (1, "a list of addresses"),
            (2, "round_robin"),
            (3, "1 to 19"),
            (4, "spool was probably"),
            (5, "1ms is out of bounds"),
            (6, "from \"100ms\" to \"1h\", or \"off\""),
            (7, "1 to 1000, or \"off\""),
            (8, "carries messages only"),
        ] {
            assert!(
                shown.contains(&format!("s.toml:{line}:")) && shown.contains(words),
                "{shown}"
            );
        }
    }
}
