//! The configuration of `logdrive send`: a file in TOML, and the command line before it.

use super::{Look, SendArgs};
use crate::collect::values::{Wrong, addresses, flag, number, parsed, read_keys, text, time, word};
use crate::config::problem::Problem;
use crate::error::CliError;
use crate::paint::ColorChoice;
use logdrive_transport::Address;
use logdrive_transport::upstream::Policy;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// The commented default.
const COMMENTED: &str = "\
# Configuration of `logdrive send`. A key with # before it shows its default; the command line comes before the file.

# Where the collector listens; with several, whichever can be reached.
to = [\"tls://logs.example.org:7140\"]

# Others, for when none of those can be used.
#backup = []

# Which one is used where there are several: round_robin, weighted_random, consistent_hash (by the session) or manual (the
# first). It stays as long as it takes records.
#policy = \"round_robin\"

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

# Files in PEM for tls://: the authority that the collector's certificate comes from, and our own certificate and key.
#tls_authorities = \"/etc/logdrive/authority.pem\"
#tls_certificate = \"/etc/logdrive/client.pem\"
#tls_key = \"/etc/logdrive/client.key\"

# The name that the collector's certificate must bear. Default: the host of the address.
#tls_name = \"logs.example.org\"

# Let plain TCP leave this machine.
#insecure = false
";

const KEYS: [&str; 13] = [
    "to",
    "backup",
    "policy",
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

/// The arguments with what the file says where they say nothing. `None` when the file is wrong, or something was only to be
/// printed, which has been done.
pub(super) fn configuration(args: &SendArgs, color: ColorChoice) -> Result<Option<SendArgs>, CliError> {
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
    match all.to.is_empty() {
        true => Err(CliError::NowhereToSend),
        false => Ok(Some(all)),
    }
}

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq)]
struct Given {
    to: Vec<Address>,
    backup: Vec<Address>,
    policy: Option<Policy>,
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

impl Given {
    fn set(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        match key {
            "to" => self.to = addresses(value)?,
            "backup" => self.backup = addresses(value)?,
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
            _ => self.insecure = flag(value)?,
        }
        Ok(())
    }

    /// The arguments come first.
    fn behind(self, mut args: SendArgs) -> SendArgs {
        if args.to.is_empty() {
            args.to = self.to;
        }
        if args.backup.is_empty() {
            args.backup = self.backup;
        }
        let look = |is_json| if is_json { Look::Json } else { Look::Text };
        args.policy = args.policy.or(self.policy);
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
        args
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
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_what_is_allowed() {
        let wrong = "to = \"x\"\npolicy = \"best\"\nzstd = 20\nspol = \"x\"\n";
        let problems = parse(wrong).expect_err("all wrong");
        assert_eq!(problems.len(), 4);
        let shown =
            crate::config::problem::report(&problems, "s.toml", wrong, crate::paint::Paint { on: false });
        for (line, words) in [
            (1, "a list of addresses"),
            (2, "round_robin"),
            (3, "1 to 19"),
            (4, "spool was probably"),
        ] {
            assert!(
                shown.contains(&format!("s.toml:{line}:")) && shown.contains(words),
                "{shown}"
            );
        }
    }
}
