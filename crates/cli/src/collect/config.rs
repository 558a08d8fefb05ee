//! The collector's configuration: a file in TOML, and the command line before it.

use super::outputs::{
    self, ENGINE_EXAMPLE, EXAMPLE, LAYOUTS, OutputConfig, OutputEngine, PATTERN, ROUTE, RouteConfig, SINK,
};
use super::{CollectArgs, address};
use crate::config::init::flat_text;
use crate::config::load::load_flat;
use crate::config::parse::{check_metrics, parse_with_lists};
use crate::config::problem::Problem;
use crate::config::sections::{Argument, BARE, Section, put_arguments};
use crate::error::CliError;
use crate::paint::ColorChoice;
use logdrive_agent::config::Metrics;
use logdrive_collector::StoreFormat;
use logdrive_collector::input::InputAddress;
use logdrive_drain::file::FileOptions;
use logdrive_drain::layout::LayoutOptions;
use logdrive_drain::schema::{FILE, Kind, Row, Setting, Value, Words, Wrong, limits};
use logdrive_ship::limits::{DECOMPRESSED_BYTES_MAX, FRAME_BYTES_MAX, HELLO_BYTES_MAX};
use logdrive_ship::{Address, Options};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// First words of the commented default.
const ABOUT: &str = "Configuration of `logdrive collect`. A key with # before it shows its default, or an example; the command line comes \
     before the file.";

/// Addresses that one collector listens at.
const LISTENERS_MAX: usize = 64;

/// Inputs of each kind.
const EXAMPLE_INPUTS: &str = "[\"syslog+udp://127.0.0.1:5514\", \"syslog+tcp://127.0.0.1:5601\", \"http://127.0.0.1:4318\", \
     \"journald://\", \"files:///var/log/pods/*/*/*.log\"]";

/// Inputs of one collector, each with a thread.
const INPUTS_MAX: usize = 16;

logdrive_drain::options! {
    /// Options of a collector.
    #[derive(Debug, Clone)]
    pub(super) struct CollectConfig {
        /// Addresses to listen at. Only this machine's own addresses, unless it is tls:// or quic://, or insecure = true.
        pub(super) listen: Vec<Address> => Row::of(Kind::List {
                most: LISTENERS_MAX,
                bytes: limits::PATH_BYTES_MAX,
                is_names: false,
                allowed: "a list of addresses, such as [\"unix:///run/logdrive/collect.sock\"]",
            })
            .required("[\"unix:///run/logdrive/collect.sock\"]")
            .scope(FILE)
            => [|_| None, set_listen],
        /// Sources of other systems' records: syslog+udp://, syslog+tcp://, syslog+tls://, http:// for OpenTelemetry (by gRPC,
        /// too), Elasticsearch's bulk, Loki's push and lines, kafka:// for a topic, journald://, and files:// for logs that a pattern
        /// names (docs/inputs.md). Without encryption only this machine's own addresses, unless insecure = true.
        pub(super) inputs: Vec<InputAddress> => Row::of(Kind::List {
                most: INPUTS_MAX,
                bytes: limits::PATH_BYTES_MAX,
                is_names: false,
                allowed: "a list of addresses, such as [\"syslog+udp://127.0.0.1:514\"]",
            })
            .unset("none", EXAMPLE_INPUTS)
            .scope(FILE)
            => [|_| None, set_inputs],
        /// The directory for collected.log and its ledger.
        out: Option<PathBuf> => Row::of(Kind::Path(limits::PATH_BYTES_MAX)).required("\"/var/log/logdrive\"").scope(FILE),
        /// Form of the log: collected.log has text, collected.segment has segments, which `logdrive cat` shows as text.
        pub(super) format: StoreFormat => Row::of(Kind::Word).words(StoreFormat::WORDS).scope(FILE),
        /// Layout of records in collected.log; JSON objects stay as they were sent.
        pub(super) layout: LayoutOptions => Row::of(Kind::Parsed(PATTERN)).words(LAYOUTS).scope(FILE),
        /// Make the log durable before records are acknowledged: level C2 instead of C1.
        pub(super) sync: bool => Row::of(Kind::Flag).scope(FILE),
        /// Threads that wait for sockets.
        pub(super) pollers: usize => Row::of(Kind::Count(1..=64)).scope(FILE),
        /// Address at which metrics are served to Prometheus, by HTTP without a password: counts, never a record.
        pub(super) metrics: Metrics => Row::of(Kind::Parsed(
            "an address and port such as \"127.0.0.1:9188\", or \"unix:\" and an absolute path",
        )).off().scope(FILE),
        /// Accept an address in `metrics` that other machines can reach.
        metrics_insecure: bool => Row::of(Kind::Flag).scope(FILE),
    }
    and {
        pub(super) file: FileOptions,
        pub(super) options: Options,
        pub(super) outputs: Vec<OutputConfig>,
        pub(super) routes: Vec<RouteConfig>,
        /// Address of the collector itself that inputs pass their records to, and the directory of their states.
        pub(super) inputs_to: Option<(Address, PathBuf)>,
    }
    with {
        /// Let clients without a certificate come.
        tls_anyone: (options.tls.anyone) => Row::of(Kind::Flag).scope(FILE),
        /// Let plain TCP leave this machine.
        insecure: (options.insecure) => Row::of(Kind::Flag).scope(FILE),
        /// Connections at once. Each costs some KiB.
        connections: (options.limits.connections_max) => Row::of(Kind::Count(1..=1_000_000)).scope(FILE),
        /// Bytes of partial frames and answers of all connections together. While more than half is taken, long frames wait,
        /// and a peer that takes over a second for one is sent away.
        pending_bytes: (options.limits.pending_bytes_max) => Row::of(Kind::Size(1 << 16..=1 << 40)).scope(FILE),
        /// Bytes that one sender may have under way before any of them are acknowledged.
        peer_bytes: (options.limits.credit_bytes) => Row::of(Kind::Size(1 << 10..=1 << 40)).scope(FILE),
        /// Bytes of a batch after decompression.
        decompressed_bytes: (options.limits.decompressed_bytes_max) => Row::of(Kind::Size(
            FRAME_BYTES_MAX as u64..=DECOMPRESSED_BYTES_MAX as u64,
        ))
        .scope(FILE),
        /// Bytes of one frame, compressed.
        frame_bytes: (options.limits.frame_bytes_max) => Row::of(Kind::Size(HELLO_BYTES_MAX as u64..=FRAME_BYTES_MAX as u64))
            .scope(FILE),
        /// A connection that is silent for so long is ended.
        idle_timeout: (options.timeouts.idle) => Row::of(Kind::Time(limits::IDLE_TIMEOUT)).scope(FILE),
        /// So is one that has not said hello after so long.
        handshake_timeout: (options.timeouts.handshake) => Row::of(Kind::Time(limits::CONNECT_TIMEOUT)).scope(FILE),
        /// Time for which a thread polls its sockets before it sleeps. It costs a processor while it does, and answers sooner.
        spin: (options.spin) => Row::of(Kind::Time(Duration::ZERO..=Duration::from_secs(1))).scope(FILE),
    }
    after { file, options.tls }
}

fn set_listen(config: &mut CollectConfig, value: Value) -> Result<(), Wrong> {
    let Value::Names(addresses) = value else {
        return Err(Wrong::new("expected addresses"));
    };
    let addresses = addresses.iter();
    let read = addresses.map(|(text, span)| address(text).map_err(|why| Wrong::new(why).at(span)));
    config.listen = read.collect::<Result<_, _>>()?;
    Ok(())
}

fn set_inputs(config: &mut CollectConfig, value: Value) -> Result<(), Wrong> {
    let Value::Names(addresses) = value else {
        return Err(Wrong::new("expected addresses"));
    };
    let addresses = addresses.iter();
    let read = addresses.map(|(text, span)| text.parse().map_err(|why: String| Wrong::new(why).at(span)));
    config.inputs = read.collect::<Result<_, _>>()?;
    Ok(())
}

impl Default for CollectConfig {
    fn default() -> Self {
        let OutputConfig {
            format, layout, file, ..
        } = OutputConfig::default();
        Self {
            listen: Vec::new(),
            inputs: Vec::new(),
            out: None,
            format,
            layout,
            sync: false,
            pollers: 1,
            metrics: Metrics::Off,
            metrics_insecure: false,
            file,
            options: Options::default(),
            outputs: Vec::new(),
            routes: Vec::new(),
            inputs_to: None,
        }
    }
}

/// The one table of the file.
static COLLECT: Section = Section {
    options: || Box::new(CollectConfig::default()),
    // The log has the name collected.log, and every line of it is a record.
    skip: &["path", "newest_link", "header", "tls_name"],
    ..BARE
};

/// Returns the options of a run. `None` when the file is wrong, which has been said.
pub(super) fn configuration(
    args: &CollectArgs,
    color: ColorChoice,
) -> Result<Option<CollectConfig>, CliError> {
    if args.print_config {
        io::stdout().write_all(flat_text(ABOUT, &COLLECT).as_bytes())?;
        io::stdout().write_all(EXAMPLE.as_bytes())?;
        io::stdout().write_all(ENGINE_EXAMPLE.as_bytes())?;
        std::process::exit(0);
    }
    let found = match &args.config {
        Some(path) => load_flat(path, color, parse)?,
        None => Some(CollectConfig::default()),
    };
    found.map(|config| config.merged(args)).transpose()
}

fn parse(text: &str) -> Result<CollectConfig, Vec<Problem>> {
    parse_with_lists(
        text,
        (&COLLECT, [&SINK, &ROUTE]),
        CollectConfig::default(),
        |reader, config| check_metrics(reader, &config.metrics, config.metrics_insecure),
        |source, findings, config| {
            let like = config.output();
            (config.outputs, config.routes) = outputs::read(source, findings, &like);
        },
    )
}

/// The arguments that are options.
fn arguments(args: &CollectArgs) -> [Argument; 14] {
    [
        ("out", args.out.to_value()),
        ("format", args.format.and_then(|format| format.to_value())),
        ("layout", args.layout.as_ref().and_then(Setting::to_value)),
        ("sync", args.sync.then_some(Value::Flag(true))),
        ("rotate_bytes", args.rotate_size.to_value()),
        ("keep_files", args.keep.to_value()),
        ("pollers", args.pollers.to_value()),
        ("insecure", args.insecure.then_some(Value::Flag(true))),
        ("connections", args.connections.to_value()),
        ("idle_timeout", args.idle.to_value()),
        ("tls_anyone", args.tls_anyone.then_some(Value::Flag(true))),
        ("tls_authorities", args.tls_ca.to_value()),
        ("tls_certificate", args.tls_cert.to_value()),
        ("tls_key", args.tls_key.to_value()),
    ]
}

impl CollectConfig {
    /// An output without a name and a directory, with what holds for all.
    fn output(&self) -> OutputConfig {
        OutputConfig {
            format: self.format,
            layout: self.layout.clone(),
            sync: self.sync,
            file: self.file.clone(),
            ..OutputConfig::default()
        }
    }

    /// Puts the arguments before the file.
    fn merged(mut self, args: &CollectArgs) -> Result<Self, CliError> {
        put_arguments(&mut self, arguments(args));
        if !args.listen.is_empty() {
            self.listen.clone_from(&args.listen);
        }
        if !args.input.is_empty() {
            self.inputs.clone_from(&args.input);
        }
        if let Some(open) = self.inputs.iter().find(|input| input.is_open())
            && !self.options.insecure
        {
            return Err(CliError::InputInsecure {
                address: open.to_string(),
            });
        }
        if self.listen.is_empty() && self.inputs.is_empty() {
            return Err(CliError::NothingToListen);
        }
        if self.outputs.is_empty() {
            let out = self.out.clone().ok_or(CliError::NowhereToCollect)?;
            let mut only = self.output();
            only.out = Some(out);
            only.to = OutputEngine(args.to.clone());
            self.outputs.push(only);
        }
        if let (Some(first), false) = (self.outputs.first(), self.inputs.is_empty()) {
            let directory = std::path::absolute(first.out.clone().unwrap_or_default())?;
            let socket = Address::Unix(directory.join("inputs.sock"));
            self.listen.push(socket.clone());
            self.inputs_to = Some((socket, directory));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_collector::CollectRoute;
    use logdrive_drain::schema::differences;
    use logdrive_wire::Level;

    #[test]
    fn the_commented_default_means_the_default() {
        let text = flat_text(ABOUT, &COLLECT);
        let lines = text.lines().map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => format!("{key}\n"),
            _ => format!("{line}\n"),
        });
        let (plain, full) = (parse(&text).expect("sound"), lines.collect::<String>());
        let mut full = parse(&full).expect("sound");
        assert!(full.file.rotated.cold_dir.is_some() && full.file.rotated.cold_after.is_some());
        full.file.rotated = plain.file.rotated.clone();
        assert_eq!((plain.listen.len(), plain.out.is_some()), (1, true));
        let of_tls = |name: &&str| name.starts_with("tls_");
        assert!(differences(&plain, &full).iter().all(of_tls));
        assert_eq!(plain.file, full.file);
        assert_eq!(plain.file, CollectConfig::default().file);
        assert!(full.options.tls.authorities.is_some());
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_what_is_allowed() {
        let text = "listen = [\"ftp://x\"]\nout = 7\nidel_timeout = \"1s\"\nsync = 1\nconnections = 0\nidle_timeout = \"soon\"\n\
                    rotate_every = \"1s\"\ncompress = \"rar\"\nspin = \"2s\"\ndecompressed_bytes = \"9 MiB\"\n";
        let problems = parse(text).expect_err("all wrong");
        assert_eq!(problems.len(), 10);
        let shown =
            crate::config::problem::report(&problems, "c.toml", text, crate::paint::Paint { on: false });
        for (line, key) in [
            (1, "listen"),
            (2, "out"),
            (3, "idel"),
            (4, "sync"),
            (5, "connections"),
            (6, "idle_timeout"),
            (7, "a time from \"1m\""),
            (8, "\"zstd\", \"gzip\" or \"none\""),
            (9, "\"2s\" is more than 1s"),
            (10, "\"1 MiB\" to \"8 MiB\""),
        ] {
            assert!(shown.contains(&format!("c.toml:{line}:")), "{shown}");
            assert!(shown.contains(key), "{shown}");
        }
        assert!(shown.contains("did you mean `idle_timeout`?"), "{shown}");
        assert!(shown.contains("it begins with one of shm://"), "{shown}");
        assert!(parse("listen = [").is_err());
    }

    #[test]
    fn the_example_is_sound_and_takes_over_what_stands_above() {
        let tables = EXAMPLE.lines().filter_map(|line| line.strip_prefix('#'));
        let tables: Vec<&str> = tables.filter(|line| !line.starts_with(' ')).collect();
        let text = "listen = [\"unix:///c.sock\"]\nkeep_files = 3\n".to_owned() + &tables.join("\n");
        let config = parse(&text).expect("sound");
        let syncs: Vec<bool> = config.outputs.iter().map(|output| output.sync).collect();
        assert_eq!(syncs, [false, true]);
        assert!(
            config
                .outputs
                .iter()
                .all(|output| output.file.keep_files == Some(3))
        );
        let routes: Vec<CollectRoute> = config
            .routes
            .iter()
            .map(|route| route.to_places(&config.outputs))
            .collect();
        assert_eq!(
            (routes[0].level, routes[0].outputs.clone()),
            (Level::Error, vec![1])
        );
        assert!(routes[0].goes_on && routes[1].app.is_none() && routes[1].outputs == [0]);
    }

    #[test]
    fn each_engine_has_an_example_that_is_sound() {
        let tables = ENGINE_EXAMPLE.lines().filter_map(|line| line.strip_prefix('#'));
        let tables: Vec<&str> = tables.filter(|line| !line.starts_with(' ')).collect();
        let text = "listen = [\"unix:///c.sock\"]\n".to_owned() + &tables.join("\n");
        let config = parse(&text).expect("sound");
        let to = config.outputs.iter().filter_map(|output| output.to.0.as_ref());
        let shown: Vec<String> = to.map(ToString::to_string).collect();
        assert_eq!(shown.len(), config.outputs.len());
        for scheme in logdrive_engines::EngineAddress::schemes() {
            let plain = scheme.replace("+https", "+http");
            let has_example = shown.iter().any(|to| to.starts_with(&format!("{plain}://")));
            assert!(has_example, "{scheme}");
        }
    }

    #[test]
    fn mistakes_in_tables_are_told() {
        let text = "listen = [\"unix:///c.sock\"]\n[[sink]]\nname = \"a\"\nout = \"/x\"\n[[sink]]\nname = \"a\"\nout = \"/x\"\n\
                    [[sink]]\nname = \"b\"\n[[route]]\nsinks = [\"c\"]\nlevel = \"loud\"\n[[route]]\nhosts = \"h\"\nsinks = [\"a\"]\n";
        let problems = parse(text).expect_err("all wrong");
        let told =
            crate::config::problem::report(&problems, "c.toml", text, crate::paint::Paint { on: false });
        for words in [
            "another sink has this name",
            "another sink has this directory",
            "there is no sink \"c\"",
            "c.toml:11",
            "did you mean `host`?",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }
}
