//! The configuration of `logdrive send`: a file in TOML, and the command line before it.

use super::{Look, SendArgs};
use crate::config::init::flat_text;
use crate::config::load::load_flat;
use crate::config::parse::parse_flat;
use crate::config::problem::Problem;
use crate::config::sections::{Argument, BARE, Section, put_arguments};
use crate::error::CliError;
use crate::paint::ColorChoice;
use logdrive_drain::schema::{FILE, Kind, Row, Setting, Value, Words};
use logdrive_drain::ship::{MemberOptions, ShipOptions};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::time::Duration;

/// First words of the commented default.
const ABOUT: &str = "Configuration of `logdrive send`. A key with # before it shows its default, or an example; the command line comes \
     before the file. HUP has a sender read `to` and `backup` again.";

logdrive_drain::words!(Look {
    Records = "records": "typed records: time, level, thread, target, message and fields of usual forms",
    Text = "text": "lines of text as they are",
    Json = "json": "lines as they are, which are JSON objects",
});

/// Time that a rotated file may have to be quiet: none, up to a day.
const ROTATE_WAIT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);

/// Time that a sender may wait at its end: none, up to a year.
const END_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(366 * 86_400);

logdrive_drain::options! {
    /// Options of a run, with the command line before the file.
    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct SendConfig {
        /// The program's name in the records.
        pub(super) app: Option<String> => Row::of(Kind::Text(logdrive_ship::limits::NAME_BYTES_MAX)).unset("the file's name", "\"stdin\"").scope(FILE),
        /// Form in which lines are sent.
        pub(super) format: Option<Look> => Row::of(Kind::Word).words(Look::WORDS).unset("records", "\"records\"").scope(FILE),
        /// Time that a rotated file has to be quiet before it is taken for complete.
        pub(super) rotate_wait: Option<Duration> => Row::of(Kind::Time(ROTATE_WAIT)).unset("5 s", "\"5s\"").scope(FILE),
        /// Time to wait at the end for the acknowledgement of the collector.
        pub(super) end_timeout: Option<Duration> => Row::of(Kind::Time(END_TIMEOUT)).unset("30 s", "\"30s\"").scope(FILE),
    }
    and {
        /// Collectors, and the way to reach them.
        pub(super) ship: ShipOptions,
    }
    before { ship }
}

impl Default for SendConfig {
    fn default() -> Self {
        Self {
            app: None,
            format: None,
            rotate_wait: None,
            end_timeout: None,
            ship: ShipOptions::new(Vec::new()),
        }
    }
}

/// The one table of the file.
static SEND: Section = Section {
    options: || Box::new(SendConfig::default()),
    ..BARE
};

/// Returns the options of a run. `None` when the file is wrong, which has been said.
pub(super) fn configuration(args: &SendArgs, color: ColorChoice) -> Result<Option<SendConfig>, CliError> {
    if args.print_config {
        io::stdout().write_all(flat_text(ABOUT, &SEND).as_bytes())?;
        std::process::exit(0);
    }
    let found = match &args.config {
        Some(path) => load_flat(path, color, |text| parse(text, args))?,
        None => parse("", args).ok(),
    };
    match found {
        Some(config) if config.ship.to.is_empty() && args.engine().is_none() => Err(CliError::NowhereToSend),
        Some(config) if args.engine().is_some() && !is_only_engine(&config, args) => {
            Err(CliError::EngineAlone)
        }
        found => Ok(found),
    }
}

/// Whether nothing is given that an engine, which takes the records itself, has no use for.
fn is_only_engine(config: &SendConfig, args: &SendArgs) -> bool {
    args.to.len() == 1 && config.ship.to.is_empty() && config.ship.spool.is_none()
}

/// Reads a file, with the arguments before what it says.
fn parse(text: &str, args: &SendArgs) -> Result<SendConfig, Vec<Problem>> {
    let mut config = SendConfig::default();
    // Some options mean something beside others alone: those of health checks beside their period, which may be an argument.
    put_arguments(&mut config, arguments(args));
    parse_flat(text, &SEND, config, |reader, config| {
        put_arguments(config, arguments(args));
        let to = &mut config.ship.to;
        let named = args.collectors();
        for (name, given, is_backup) in [("to", &named, false), ("backup", &args.backup, true)] {
            let of_file = reader.addresses(name, is_backup);
            match given.is_empty() {
                // An engine is named in the place of the file's collectors.
                true if args.engine().is_some() => {}
                true => to.extend(of_file),
                false => to.extend(
                    given
                        .iter()
                        .cloned()
                        .map(|member| MemberOptions { is_backup, ..member }),
                ),
            }
        }
        // Main ones first: with the policy manual, the first one is used.
        to.sort_by_key(|member| member.is_backup);
    })
}

/// The arguments that are options.
fn arguments(args: &SendArgs) -> [Argument; 15] {
    [
        ("policy", args.policy.to_value()),
        ("health_every", args.health_every.to_value()),
        ("connect_timeout", args.connect_timeout.to_value()),
        ("response_timeout", args.response_timeout.to_value()),
        ("zstd", args.zstd.to_value()),
        ("spool", args.spool.to_value()),
        ("insecure", args.insecure.then_some(Value::Flag(true))),
        ("tls_authorities", args.tls_ca.to_value()),
        ("tls_certificate", args.tls_cert.to_value()),
        ("tls_key", args.tls_key.to_value()),
        ("tls_name", args.tls_name.to_value()),
        ("app", args.app.to_value()),
        ("format", args.format.to_value()),
        ("rotate_wait", args.rotate_wait.to_value()),
        ("end_timeout", args.end_timeout.to_value()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uncommented(text: &str) -> String {
        let lines = text.lines().map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => format!("{key}\n"),
            _ => format!("{line}\n"),
        });
        lines.collect()
    }

    #[test]
    fn every_key_of_the_commented_default_can_be_put_in() {
        let text = flat_text(ABOUT, &SEND);
        let plain = parse(&text, &SendArgs::default()).expect("sound");
        assert_eq!((plain.app, plain.format, plain.end_timeout), (None, None, None));
        let full = parse(&uncommented(&text), &SendArgs::default()).expect("sound");
        assert_eq!(full.format, Some(Look::Records));
        let (plain, mut full) = (plain.ship, full.ship);
        assert_eq!(plain.to.len(), 1);
        assert_eq!((full.to.len(), full.group.clone()), (2, plain.group.clone()));
        assert!(full.spool.is_some() && full.transport.tls.authorities.is_some());
        full.transport.tls = plain.transport.tls.clone();
        assert_eq!(full.transport, plain.transport);
    }

    #[test]
    fn weights_breaker_health_checks_and_times_are_taken() {
        let text = "backup = [\"unix:///b\"]\nbreaker_failures = 3\nbreaker_open = \"1s\"\nhealth_every = \"2s\"\n\
                    health_failures = 4\nconnect_timeout = \"300ms\"\n[[to]]\naddress = \"unix:///a\"\nweight = 5\n";
        let config = parse(text, &SendArgs::default()).expect("sound");
        let roles: Vec<(u32, bool)> = config
            .ship
            .to
            .iter()
            .map(|member| (member.weight, member.is_backup))
            .collect();
        assert_eq!(roles, [(5, false), (1, true)]);
        let breaker = config.ship.group.breaker;
        assert_eq!((breaker.failures, breaker.open), (3, Duration::from_secs(1)));
        let health = config.ship.group.health.expect("on");
        assert_eq!(
            (health.every, health.failures, health.successes),
            (Duration::from_secs(2), 4, 2)
        );
        assert_eq!(config.ship.transport.timeouts.connect, Duration::from_millis(300));
        let named = SendArgs {
            to: vec![super::super::args::DestinationArg::Collector(Box::new(
                MemberOptions::new("unix:///c".parse().expect("an address")),
            ))],
            connect_timeout: Some(Duration::from_secs(9)),
            ..SendArgs::default()
        };
        let config = parse(text, &named).expect("sound");
        assert_eq!(config.ship.to[0].address.to_string(), "unix:///c");
        assert_eq!(config.ship.to.len(), 2, "the backup is still that of the file");
        assert_eq!(config.ship.transport.timeouts.connect, Duration::from_secs(9));
    }

    #[test]
    fn arguments_complete_the_options_that_mean_something_beside_them() {
        let args = SendArgs {
            health_every: Some(Duration::from_secs(7)),
            spool: Some("/spool".into()),
            ..SendArgs::default()
        };
        let text = "to = [\"unix:///a\"]\nhealth_failures = 4\nspool_bytes = \"32 MiB\"\n";
        for more in ["", "health_every = \"2s\"\nspool = \"/other\"\n"] {
            let ship = parse(&format!("{text}{more}"), &args).expect("sound").ship;
            let health = ship.group.health.expect("on");
            assert_eq!((health.every, health.failures), (Duration::from_secs(7), 4));
            let spool = ship.spool.expect("one");
            assert_eq!(
                (spool.directory.to_str(), spool.bytes_max),
                (Some("/spool"), 32 << 20)
            );
        }
    }

    #[test]
    fn every_argument_is_an_option_of_its_type() {
        let text = "to = [\"unix:///a\"]\n";
        let args = SendArgs {
            policy: Some(logdrive_drain::ship::Policy::Manual),
            health_every: Some(Duration::from_secs(7)),
            connect_timeout: Some(Duration::from_secs(2)),
            response_timeout: Some(Duration::from_secs(3)),
            zstd: Some(5),
            spool: Some("/spool".into()),
            insecure: true,
            tls_ca: Some("/a".into()),
            tls_cert: Some("/b".into()),
            tls_key: Some("/c".into()),
            tls_name: Some("d".into()),
            app: Some("e".into()),
            format: Some(Look::Json),
            end_timeout: Some(Duration::from_secs(4)),
            ..SendArgs::default()
        };
        let config = parse(text, &args).expect("sound");
        for (name, value) in arguments(&args) {
            assert_eq!(crate::config::sections::value_of(&config, name), value, "{name}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_what_is_allowed() {
        let wrong = "to = \"x\"\npolicy = \"best\"\nzstd = 20\nspol = \"x\"\nbreaker_open = \"1ms\"\nhealth_every = 5\n\
                     breaker_failures = 0\nbackup = [\"ftp://127.0.0.1:1\"]\n";
        let problems = parse(wrong, &SendArgs::default()).expect_err("all wrong");
        assert_eq!(problems.len(), 8);
        let shown =
            crate::config::problem::report(&problems, "s.toml", wrong, crate::paint::Paint { on: false });
        for (line, words) in [
            (1, "a list of addresses"),
            (2, "round_robin"),
            (3, "20 is more than 19"),
            (4, "did you mean `spool`?"),
            (5, "\"1ms\" is less than 10ms"),
            (6, "from \"100ms\" to \"1h\", or \"off\""),
            (7, "1 to 1000, or \"off\""),
            (8, "it begins with one of shm://"),
        ] {
            assert!(
                shown.contains(&format!("s.toml:{line}:")) && shown.contains(words),
                "{shown}"
            );
        }
    }
}
