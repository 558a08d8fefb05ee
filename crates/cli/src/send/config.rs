//! The configuration of `logdrive send`: a file in TOML, and the command line before it.

use super::{Look, SendArgs};
use crate::config::init::flat_text;
use crate::config::load::load_flat;
use crate::config::parse::parse_flat;
use crate::config::problem::Problem;
use crate::config::sections::Section;
use crate::error::CliError;
use crate::paint::ColorChoice;
use logdrive_drain::schema::{FILE, Kind, Row, Value, Word};
use logdrive_drain::ship::{HealthOptions, MemberOptions, ShipOptions, SpoolOptions};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::time::Duration;

/// First words of the commented default.
const ABOUT: &str = "Configuration of `logdrive send`. A key with # before it shows its default, or an example; the command line comes \
     before the file. HUP has a sender read `to` and `backup` again.";

/// Formats of lines.
const FORMATS: &[Word] = &[("text", "lines of text"), ("json", "JSON objects, one a line")];
logdrive_drain::words!(Look {
    Text = "text",
    Json = "json"
});

/// Time that a sender may wait at its end: none, up to a year.
const END_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(366 * 86_400);

logdrive_drain::options! {
    /// Options of the command that are none of a sink.
    #[derive(Debug, Clone, Default, PartialEq)]
    struct SendOptions {
        /// The program's name in the records.
        app: Option<String> => Row::of(Kind::Text(logdrive_ship::limits::NAME_BYTES_MAX)).unset("the file's name", "\"stdin\"").scope(FILE),
        /// Format of the lines.
        format: Option<Look> => Row::of(Kind::Word).words(FORMATS).unset("text", "\"text\"").scope(FILE),
        /// Time to wait at the end for the acknowledgement of the collector.
        end_timeout: Option<Duration> => Row::of(Kind::Time(END_TIMEOUT)).unset("30 s", "\"30s\"").scope(FILE),
    }
    and {
        /// Health checks and the size of a spool, for a period or a directory that the command line gives.
        health: HealthOptions,
        spool_bytes: Option<u64>,
    }
}

/// The one table of the file.
static SEND: Section = Section {
    name: "",
    many: None,
    help: &[],
    parts: || {
        let ship = ShipOptions::new(Vec::new());
        let tls = ship.transport.tls.clone();
        vec![Box::new(ship), Box::new(tls), Box::new(SendOptions::default())]
    },
    skip: &[],
    shown: &[],
    is_example: false,
};

/// Options of a run, with the command line before the file.
#[derive(Debug, Clone)]
pub(super) struct SendConfig {
    /// The arguments, with what the file says where they say nothing.
    pub(super) args: SendArgs,
    /// Collectors, and the way to reach them.
    pub(super) ship: ShipOptions,
}

/// Returns the options of a run. `None` when the file is wrong, which has been said.
pub(super) fn configuration(args: &SendArgs, color: ColorChoice) -> Result<Option<SendConfig>, CliError> {
    if args.print_config {
        io::stdout().write_all(flat_text(ABOUT, &SEND).as_bytes())?;
        std::process::exit(0);
    }
    let found = match &args.config {
        Some(path) => load_flat(path, color, parse)?,
        None => Some((SendOptions::default(), ShipOptions::new(Vec::new()))),
    };
    let Some((file, ship)) = found else {
        return Ok(None);
    };
    let config = merged(args.clone(), file, ship);
    match config.ship.to.is_empty() {
        true => Err(CliError::NowhereToSend),
        false => Ok(Some(config)),
    }
}

fn parse(text: &str) -> Result<(SendOptions, ShipOptions), Vec<Problem>> {
    parse_flat(text, &SEND, |reader| {
        let (mut options, mut ship) = (SendOptions::default(), ShipOptions::new(Vec::new()));
        reader.fill(&mut ship);
        reader.fill(&mut ship.transport.tls);
        reader.fill(&mut options);
        let count = |key| match reader.value(key) {
            Some(Value::Number(count)) => u32::try_from(count).ok(),
            _ => None,
        };
        options.health.failures = count("health_failures").unwrap_or(options.health.failures);
        options.health.successes = count("health_successes").unwrap_or(options.health.successes);
        if let Some(Value::Number(bytes)) = reader.value("spool_bytes") {
            options.spool_bytes = Some(bytes);
        }
        ship.to = reader.addresses("to", false);
        ship.to.extend(reader.addresses("backup", true));
        (options, ship)
    })
}

/// Puts the arguments before the file.
fn merged(mut args: SendArgs, file: SendOptions, mut ship: ShipOptions) -> SendConfig {
    for (given, is_backup) in [(&args.to, false), (&args.backup, true)] {
        if !given.is_empty() {
            ship.to.retain(|member| member.is_backup != is_backup);
            let given = given.iter().cloned();
            ship.to
                .extend(given.map(|member| MemberOptions { is_backup, ..member }));
        }
    }
    // Main ones first: with the policy manual, the first one is used.
    ship.to.sort_by_key(|member| member.is_backup);
    ship.group.policy = args.policy.unwrap_or(ship.group.policy);
    if let Some(every) = args.health_every {
        let health = ship.group.health.unwrap_or(file.health);
        ship.group.health = Some(HealthOptions { every, ..health });
    }
    let transport = &mut ship.transport;
    transport.connect_timeout = args.connect_timeout.unwrap_or(transport.connect_timeout);
    transport.response_timeout = args.response_timeout.unwrap_or(transport.response_timeout);
    transport.insecure |= args.insecure;
    let tls = &mut transport.tls;
    for (place, given) in [
        (&mut tls.authorities, &args.tls_ca),
        (&mut tls.certificate, &args.tls_cert),
        (&mut tls.key, &args.tls_key),
    ] {
        *place = given.clone().or(place.take());
    }
    tls.name = args.tls_name.clone().or(tls.name.take());
    ship.zstd_level = args.zstd.or(ship.zstd_level);
    if let Some(directory) = &args.spool {
        let of_file = ship.spool.as_ref().map(|spool| spool.bytes_max);
        let mut spool = SpoolOptions::new(directory.clone());
        spool.bytes_max = of_file.or(file.spool_bytes).unwrap_or(spool.bytes_max);
        ship.spool = Some(spool);
    }
    args.app = args.app.or(file.app);
    args.format = args.format.or(file.format);
    args.end_timeout = args.end_timeout.or(file.end_timeout);
    SendConfig { args, ship }
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
        let (options, plain) = parse(&text).expect("sound");
        assert_eq!((plain.to.len(), options), (1, SendOptions::default()));
        let (options, mut full) = parse(&uncommented(&text)).expect("sound");
        assert_eq!(options.format, Some(Look::Text));
        assert_eq!((full.to.len(), full.group.clone()), (2, plain.group.clone()));
        assert!(full.spool.is_some() && full.transport.tls.authorities.is_some());
        full.transport.tls = plain.transport.tls.clone();
        assert_eq!(full.transport, plain.transport);
    }

    #[test]
    fn weights_breaker_health_checks_and_times_are_taken() {
        let text = "backup = [\"unix:///b\"]\nbreaker_failures = 3\nbreaker_open = \"1s\"\nhealth_every = \"2s\"\n\
                    health_failures = 4\nconnect_timeout = \"300ms\"\n[[to]]\naddress = \"unix:///a\"\nweight = 5\n";
        let (options, ship) = parse(text).expect("sound");
        let config = merged(SendArgs::default(), options.clone(), ship.clone());
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
        assert_eq!(config.ship.transport.connect_timeout, Duration::from_millis(300));
        let named = SendArgs {
            to: vec![MemberOptions::new("unix:///c".parse().expect("an address"))],
            connect_timeout: Some(Duration::from_secs(9)),
            ..SendArgs::default()
        };
        let config = merged(named, options, ship);
        assert_eq!(config.ship.to[0].address.to_string(), "unix:///c");
        assert_eq!(config.ship.to.len(), 2, "the backup is still that of the file");
        assert_eq!(config.ship.transport.connect_timeout, Duration::from_secs(9));
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
            (3, "20 is more than 19"),
            (4, "did you mean `spool`?"),
            (5, "\"1ms\" is less than 10ms"),
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
