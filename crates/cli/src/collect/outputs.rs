//! Outputs of a collector and routes to them, as tables of its configuration: those of an agent's, with hosts.

use crate::config::parse::Source;
use crate::config::reader::Findings;
use crate::config::sections::{BARE, Section};
use crate::error::CliError;
use logdrive_agent::config::AppPattern;
use logdrive_collector::{CollectRoute, CollectorError, Outputs, Store, StoreFormat};
use logdrive_drain::file::{Compress, FileOptions};
use logdrive_drain::layout::{LayoutOptions, Style};
use logdrive_drain::schema::{FILE, Kind, Row, Setting, Value, Word, Words, Wrong, limits};
use logdrive_engines::{Delivery, DeliveryOptions, EngineAddress, EngineError};
use logdrive_wire::Level;
use std::path::PathBuf;
use std::sync::Arc;

/// Outputs of one collector: each has a directory, and with sync a thread.
const OUTPUTS_MAX: usize = 16;
/// Routes of one collector, which are tried for each callsite or line.
const ROUTES_MAX: usize = 64;

/// Layouts of typed records that are one word.
pub(super) const LAYOUTS: &[Word] = &[
    ("json", "one JSON object a line: fields keep their types"),
    (
        "text",
        "time, level, thread, module, place, message and fields, for people",
    ),
    ("logfmt", "key=value pairs"),
    ("glog", "as Google's glog"),
];
/// Form of an engine's address.
pub(super) const ENGINE: &str = "the address of an engine, such as \"kafka://127.0.0.1:9092/logs\"";
/// Bytes of records that wait for an engine, where the configuration says no other.
const SPOOL_BYTES: u64 = 10 << 30;
/// Bytes of a file of them: small enough to be gone soon when the engine has it.
const SPOOL_FILE_BYTES: u64 = 64 << 20;

pub(super) const PATTERN: &str =
    "\"pattern \" and a line of your own, such as \"pattern {time} {level:5} {message}{fields}\"";

/// Engine of an output, where it has one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct OutputEngine(pub(super) Option<EngineAddress>);

impl Setting for OutputEngine {
    fn to_value(&self) -> Option<Value> {
        self.0.as_ref().map(|to| Value::Text(to.to_string()))
    }

    fn from_value(value: Value) -> Result<Self, Wrong> {
        let address = String::from_value(value)?.parse();
        address
            .map(|address| Self(Some(address)))
            .map_err(|error: EngineError| Wrong::new(error.to_string()))
    }
}

logdrive_drain::options! {
    /// An output of a collector.
    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct OutputConfig {
        /// Its name, for routes.
        pub(super) name: String => Row::of(Kind::Name).required("\"main\"").scope(FILE),
        /// The directory for collected.log and its ledger, which no other output has.
        pub(super) out: Option<PathBuf> => Row::of(Kind::Path(limits::PATH_BYTES_MAX)).required("\"/var/log/logdrive\"").scope(FILE),
        /// Form of the log, as for all.
        pub(super) format: StoreFormat => Row::of(Kind::Word).words(StoreFormat::WORDS).scope(FILE),
        /// Layout of typed records, as for all.
        pub(super) layout: LayoutOptions => Row::of(Kind::Parsed(PATTERN)).words(LAYOUTS).scope(FILE),
        /// Engine that the records go to, out of segments in `out`, which are removed when it has them: kafka://HOST:PORT/TOPIC,
        /// otlp://HOST:PORT and others (docs/engines.md). While it is away they wait there, keep_bytes of them.
        pub(super) to: OutputEngine => Row::of(Kind::Parsed(ENGINE)).unset("the log is all", "\"kafka://127.0.0.1:9092/logs\"").scope(FILE),
        /// Make the log durable before records are acknowledged.
        pub(super) sync: bool => Row::of(Kind::Flag).scope(FILE),
    }
    and {
        pub(super) file: FileOptions,
    }
    after { file }
}

logdrive_drain::options! {
    /// A route to outputs.
    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct RouteConfig {
        /// Applications, by the name that senders say.
        app: AppPattern => Row::of(Kind::Parsed("a name of an application, with * for any text and ? for any character")).scope(FILE),
        /// Hosts, by the name that senders say.
        host: AppPattern => Row::of(Kind::Parsed("a name of a host, with * for any text and ? for any character")).scope(FILE),
        /// Records of this level and above. A line that says no level counts as info.
        level: Level => Row::of(Kind::Level).scope(FILE),
        /// The names of the sinks they go to.
        sinks: Vec<String> => Row::of(Kind::List {
            most: OUTPUTS_MAX,
            bytes: 0,
            is_names: true,
            allowed: "names of sinks, such as [\"main\"]",
        }).required("[\"main\"]").scope(FILE),
        /// Try the routes behind too, so that this one only adds sinks.
        goes_on: bool => Row::of(Kind::Flag).named("continue").scope(FILE),
    }
}

/// Sinks of the file.
pub(super) static SINK: Section = Section {
    name: "sink",
    many: Some(OUTPUTS_MAX),
    options: || Box::new(OutputConfig::default()),
    skip: &["path", "newest_link", "header"],
    ..BARE
};

/// Routes of the file.
pub(super) static ROUTE: Section = Section {
    name: "route",
    many: Some(ROUTES_MAX),
    options: || Box::new(RouteConfig::any()),
    ..BARE
};

/// Example of both, behind the commented default.
pub(super) const EXAMPLE: &str = "
# Several outputs instead of `out`, and routes to them, as in an agent's configuration. Keys of files that stand above hold for
# each that does not have its own. Without routes all records go to all outputs; routes are tried in their order, and the first
# that matches decides, unless it has `continue`. A record is acknowledged when each output that it goes to has it. HUP has
# outputs and routes read again; all other keys hold from the next start on.
#
#[[sink]]
#name = \"main\"
#out = \"/var/log/logdrive\"
#
#[[sink]]
#name = \"errors\"
#out = \"/var/log/logdrive-errors\"
#sync = true
#
#[[route]]
#level = \"error\"
#sinks = [\"errors\"]
#continue = true
#
#[[route]]
#app = \"*\"
#host = \"*\"
#sinks = [\"main\"]
";

/// Example of an output to each engine, behind that.
pub(super) const ENGINE_EXAMPLE: &str = "
# Outputs to engines: `out` has the records that the engine does not have yet, keep_bytes of them. Where an address has +http it may
# have +https. Options stand behind a `?` (docs/engines.md); passwords are in files, such as ?user=logs&password_file=/etc/logdrive/password
#
#[[sink]]
#name = \"kafka\"
#out = \"/var/spool/logdrive/kafka\"
#to = \"kafka://127.0.0.1:9092/logs?key=process\"
#
#[[sink]]
#name = \"otlp\"
#out = \"/var/spool/logdrive/otlp\"
#to = \"otlp://127.0.0.1:4317\"
#
#[[sink]]
#name = \"otlp-http\"
#out = \"/var/spool/logdrive/otlp-http\"
#to = \"otlp+http://127.0.0.1:4318\"
#
#[[sink]]
#name = \"clickhouse\"
#out = \"/var/spool/logdrive/clickhouse\"
#to = \"clickhouse+http://127.0.0.1:8123/logs\"
#
#[[sink]]
#name = \"elastic\"
#out = \"/var/spool/logdrive/elastic\"
#to = \"elastic+http://127.0.0.1:9200/logs-{date}\"
#
#[[sink]]
#name = \"s3\"
#out = \"/var/spool/logdrive/s3\"
#to = \"s3+http://127.0.0.1:9000/logs/shop?region=us-east-1\"
#
#[[sink]]
#name = \"loki\"
#out = \"/var/spool/logdrive/loki\"
#to = \"loki+http://127.0.0.1:3100\"
#
#[[sink]]
#name = \"victorialogs\"
#out = \"/var/spool/logdrive/victorialogs\"
#to = \"victorialogs+http://127.0.0.1:9428\"
#
#[[sink]]
#name = \"syslog\"
#out = \"/var/spool/logdrive/syslog\"
#to = \"syslog+tcp://127.0.0.1:601\"
#
#[[sink]]
#name = \"syslog-udp\"
#out = \"/var/spool/logdrive/syslog-udp\"
#to = \"syslog+udp://127.0.0.1:514\"
#
#[[sink]]
#name = \"syslog-tls\"
#out = \"/var/spool/logdrive/syslog-tls\"
#to = \"syslog+tls://logs.example.org:6514?tls_ca=/etc/logdrive/authority.pem\"
#
#[[sink]]
#name = \"journald\"
#out = \"/var/spool/logdrive/journald\"
#to = \"journald://\"
#
#[[sink]]
#name = \"stdout\"
#out = \"/var/spool/logdrive/stdout\"
#to = \"stdout://\"
";

impl Default for OutputConfig {
    fn default() -> Self {
        let mut file = FileOptions::new("");
        file.rotate_bytes = Some(1 << 30);
        file.keep_files = Some(16);
        file.compress = Compress::Zstd;
        Self {
            name: String::new(),
            out: None,
            format: StoreFormat::Text,
            layout: Style::Json.into(),
            to: OutputEngine(None),
            sync: false,
            file,
        }
    }
}

impl OutputConfig {
    fn open(&self) -> Result<Store, CollectorError> {
        let mut file = self.file.clone();
        let format = match self.to.0 {
            Some(_) => StoreFormat::Segments,
            None => self.format,
        };
        if self.to.0.is_some() {
            file.compress = Compress::None;
            file.keep_files = None;
            file.keep_bytes.get_or_insert(SPOOL_BYTES);
            file.rotate_bytes = Some(
                file.rotate_bytes
                    .unwrap_or(SPOOL_FILE_BYTES)
                    .min(SPOOL_FILE_BYTES),
            );
            file.rotated.keeps_blocks = true;
        }
        file.path = self.path(format);
        Store::open(&file, format, self.sync)?.with_layout(self.layout.clone())
    }

    fn path(&self, format: StoreFormat) -> PathBuf {
        let name = match format {
            StoreFormat::Text => "collected.log",
            StoreFormat::Segments => "collected.segment",
        };
        self.out.clone().unwrap_or_default().join(name)
    }

    /// Starts the delivery to the output's engine, where it has one.
    fn deliver(&self, store: &Store) -> Result<Option<Delivery>, EngineError> {
        let Some(to) = self.to.0.clone() else {
            return Ok(None);
        };
        let options = DeliveryOptions {
            to,
            log: self.path(StoreFormat::Segments),
            directory: self.out.clone().unwrap_or_default(),
            removes: true,
            written: Some(Arc::new(store.written_end())),
        };
        Delivery::start(options).map(Some)
    }
}

impl RouteConfig {
    fn any() -> Self {
        Self {
            app: AppPattern::any(),
            host: AppPattern::any(),
            level: Level::Trace,
            sinks: Vec::new(),
            goes_on: false,
        }
    }

    /// The route with the places of these outputs.
    pub(super) fn to_places(&self, outputs: &[OutputConfig]) -> CollectRoute {
        let place = |name: &String| outputs.iter().position(|output| output.name == *name);
        CollectRoute {
            app: CollectRoute::pattern(self.app.as_str()),
            host: CollectRoute::pattern(self.host.as_str()),
            level: self.level,
            outputs: self.sinks.iter().filter_map(place).collect(),
            goes_on: self.goes_on,
        }
    }
}

/// Reads the tables; `like` has what holds for all outputs.
pub(super) fn read(
    source: &Source<'_>,
    findings: &mut Findings,
    like: &OutputConfig,
) -> (Vec<OutputConfig>, Vec<RouteConfig>) {
    let (mut names, mut places) = (Vec::new(), Vec::new());
    let outputs = source.read_many(
        &SINK,
        findings,
        || like.clone(),
        |reader, output| {
            if names.contains(&output.name) {
                reader.wrong(
                    reader
                        .places
                        .problem("name", "another sink has this name".to_owned()),
                );
            }
            if places.contains(&output.out) {
                let found = "another sink has this directory, and each has a ledger of its own".to_owned();
                reader.wrong(reader.places.problem("out", found));
            }
            names.push(output.name.clone());
            places.push(output.out.clone());
        },
    );
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let routes = source.read_many(&ROUTE, findings, RouteConfig::any, |reader, _| {
        reader.check_sinks("sinks", &names);
    });
    let outputs = outputs.into_iter().map(|placed| placed.value).collect();
    (outputs, routes.into_iter().map(|placed| placed.value).collect())
}

/// Opens the outputs, and starts the deliveries of those that have an engine.
pub(super) fn open(
    outputs: &[OutputConfig],
    routes: &[RouteConfig],
) -> Result<(Outputs, Vec<Delivery>), CliError> {
    let stores: Result<Vec<Store>, _> = outputs.iter().map(OutputConfig::open).collect();
    let routes = routes.iter().map(|route| route.to_places(outputs)).collect();
    let opened = Outputs::new(stores?, routes);
    let mut deliveries = Vec::new();
    for (output, store) in outputs.iter().zip(opened.stores()) {
        let delivery = output.deliver(store);
        deliveries.extend(delivery.map_err(|cause| CliError::Engine { cause })?);
    }
    Ok((opened, deliveries))
}
