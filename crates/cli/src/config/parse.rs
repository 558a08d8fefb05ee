//! From the text of a configuration to what it means, or to all that is wrong with it. No I/O: what has to be known of
//! the machine is asked of a [`Context`].

use super::checks;
use super::context::Context;
use super::keys::Section;
use super::problem::Problem;
use super::reader::{Findings, Places, Reader};
use super::sections::{SECTIONS, section};
use super::values::{Value, describe};
use crate::suggestion::most_similar;
use logdrive_agent::config::limits::NAME_BYTES_MAX;
use logdrive_agent::config::{
    AgentConfig, AppLimit, AppPattern, LevelRule, Limits, Metrics, Quota, Recorder, Route, SinkConfig,
    UserLimit,
};
use logdrive_drain::file::{Compress, Every, FileOptions};
use logdrive_drain::layout::{LayoutOptions, Style};
use logdrive_drain::limits::SHIP_ADDRESSES_MAX;
use logdrive_drain::ship::{HealthOptions, MemberOptions, Policy, ShipOptions, SpoolOptions, TlsFiles};
use logdrive_drain::{Overflow, SinkOptions, Sync, Target};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Something that was read, and where.
#[derive(Debug, Clone)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) places: Places,
    /// Nothing was wrong with it.
    pub(crate) is_sound: bool,
}

/// Reads a configuration.
///
/// # Errors
/// With everything that is wrong, in the order of the text.
pub(crate) fn parse(text: &str, context: &dyn Context) -> Result<AgentConfig, Vec<Problem>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut findings = Findings {
        is_torn: !errors.is_empty(),
        ..Findings::default()
    };
    let config = read(document.get_ref(), context, &mut findings);
    let mut problems = findings.problems;
    if !errors.is_empty() {
        // What was made of a torn line says nothing about what was meant.
        let torn: Vec<usize> = errors.iter().map(|error| line_of(text, &error.span())).collect();
        problems.retain(|problem| !torn.contains(&line_of(text, &problem.span)));
        problems.extend(errors.iter().map(|error| syntax_problem(text, error)));
    }
    if problems.is_empty() {
        return Ok(config);
    }
    problems.sort_by_key(|problem| problem.span.as_ref().map(|span| span.start));
    Err(problems)
}

/// Where the line of a place begins.
fn line_of(text: &str, span: &Option<Range<usize>>) -> usize {
    let start = span.as_ref().map_or(0, |span| span.start.min(text.len()));
    let before = text.as_bytes().get(..start).unwrap_or_default();
    before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1)
}

/// A mistake of syntax, with the key of its line where one can be seen.
fn syntax_problem(text: &str, error: &toml::de::Error) -> Problem {
    let span = error.span().unwrap_or(0..0);
    let line = text.get(line_of(text, &Some(span.clone()))..).unwrap_or_default();
    let line = line.lines().next().unwrap_or_default();
    let key = line.split_once('=').map_or("", |(key, _)| key.trim());
    let is_key = key.len() <= NAME_BYTES_MAX
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let message = error.message();
    let needless = [", expected nothing", ", expected literal string"];
    let message = needless
        .into_iter()
        .find_map(|end| message.strip_suffix(end))
        .unwrap_or(message);
    let problem = Problem::at(span, if is_key { key } else { "" }, message);
    match message {
        "unexpected leading zero" => {
            problem.help("put permissions between quotes, as \"0660\", or write 0o660")
        }
        "duplicate key" => problem.help("it stands further up as well: take one of them out"),
        _ => problem,
    }
}

fn read(document: &DeTable<'_>, context: &dyn Context, findings: &mut Findings) -> AgentConfig {
    find_unknown_tables(document, findings);
    let source = Source { document, context };
    let mut config = AgentConfig::default();
    let agent = source.read_one("agent", findings, |reader| read_agent(reader, &mut config));
    let mut sinks = source.read_many("sink", findings, read_sink);
    sinks.extend(source.read_many("ship", findings, read_ship));
    if !sinks.is_empty() {
        config.sinks = sinks.iter().map(|sink| sink.value.clone()).collect();
    }
    let names: Vec<String> = config.sinks.iter().map(|sink| sink.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let routes = source.read_many("route", findings, |reader| read_route(reader, &names));
    let recorders = source.read_many("recorder", findings, |reader| read_recorder(reader, &names));
    let levels = source.read_many("level", findings, read_level_rule);
    let (limits, users, apps) = read_limits(&source, findings);
    checks::agent(&config, &agent.places, context, findings);
    checks::sinks(&config, &sinks, context, findings);
    checks::never_reached(&routes, findings, |earlier: &Route, later: &Route| {
        !earlier.goes_on && earlier.covers(later)
    });
    checks::never_reached(&recorders, findings, Recorder::covers);
    checks::never_reached(&levels, findings, |earlier: &LevelRule, later: &LevelRule| {
        earlier.who.covers(&later.who)
    });
    checks::never_reached(&users, findings, user_covers);
    checks::never_reached(&apps, findings, app_covers);
    config.limits = limits;
    config.recorders = values(recorders);
    config.levels = values(levels);
    config.routes = match routes.is_empty() {
        true => vec![Route::to_all(&config.sinks)],
        false => values(routes),
    };
    config
}

fn values<T>(placed: Vec<Placed<T>>) -> Vec<T> {
    placed.into_iter().map(|placed| placed.value).collect()
}

fn user_covers(earlier: &UserLimit, later: &UserLimit) -> bool {
    match (&earlier.user, &later.user) {
        (None, _) => true,
        (Some(earlier), Some(later)) => earlier.id == later.id,
        (Some(_), None) => false,
    }
}

fn app_covers(earlier: &AppLimit, later: &AppLimit) -> bool {
    earlier.app == AppPattern::any() || earlier.app == later.app
}

fn find_unknown_tables(document: &DeTable<'_>, findings: &mut Findings) {
    let top = SECTIONS.iter().filter(|section| !section.name.contains('.'));
    let names: Vec<&str> = top.clone().map(|section| section.name).collect();
    let headers: Vec<String> = top.map(|section| section.header()).collect();
    for (key, value) in document {
        let name = key.get_ref().as_ref();
        if names.contains(&name) {
            continue;
        }
        let home = SECTIONS.iter().find(|section| section.key(name).is_some());
        let is_table = matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_));
        let found = match is_table {
            true => "there is no such table",
            false => "this stands in no table",
        };
        let problem = Problem::at(key.span(), name, found);
        let problem = match (most_similar(name, names.iter().copied()), home) {
            (Some(meant), _) => problem.help(format!("did you mean `{meant}`?")),
            (None, Some(section)) => problem.help(format!("`{name}` belongs into {}", section.header())),
            (None, None) => problem,
        };
        findings.add(problem.allowed(headers.join(", ")));
    }
}

/// The document, table by table.
struct Source<'a> {
    document: &'a DeTable<'a>,
    context: &'a dyn Context,
}

impl<'a> Source<'a> {
    fn find(&self, section: &Section) -> Option<&'a toml::Spanned<DeValue<'a>>> {
        let mut table = self.document;
        let mut parts = section.name.split('.').peekable();
        while let Some(part) = parts.next() {
            let (_, value) = table.iter().find(|(key, _)| key.get_ref() == part)?;
            if parts.peek().is_none() {
                return Some(value);
            }
            // What stands in the place of the table is told where that is read.
            table = value.get_ref().as_table()?;
        }
        None
    }

    /// Reads `[name]`, or its defaults.
    fn read_one<T>(
        &self,
        name: &'static str,
        findings: &mut Findings,
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> Placed<T> {
        let section = section(name).unwrap_or(SECTIONS[0]);
        let found = self.find(section);
        let table = found.and_then(|value| Some((value.get_ref().as_table()?, value.span())));
        if let (Some(value), None) = (found, &table) {
            findings.add_torn(not_a_table(section, value.get_ref(), value.span()));
        }
        read_table(section, table, self.context, findings, read)
    }

    /// Reads all `[[name]]`.
    fn read_many<T>(
        &self,
        name: &'static str,
        findings: &mut Findings,
        mut read: impl FnMut(&mut Reader<'_>) -> T,
    ) -> Vec<Placed<T>> {
        let section = section(name).unwrap_or(SECTIONS[0]);
        let Some(found) = self.find(section) else {
            return Vec::new();
        };
        let Some(list) = found.get_ref().as_array() else {
            findings.add_torn(not_a_table(section, found.get_ref(), found.span()));
            return Vec::new();
        };
        let most = section.many.unwrap_or(1);
        let mut all = Vec::new();
        for (index, element) in list.iter().enumerate() {
            let Some(table) = element.get_ref().as_table() else {
                findings.add_torn(not_a_table(section, element.get_ref(), element.span()));
                continue;
            };
            if index >= most {
                let found = format!("{} tables are more than {most}", list.len());
                findings.add(Problem::at(element.span(), section.name, found));
                break;
            }
            let table = Some((table, element.span()));
            all.push(read_table(section, table, self.context, findings, &mut read));
        }
        all
    }
}

fn read_table<'a, T>(
    section: &'static Section,
    table: Option<(&'a DeTable<'a>, Range<usize>)>,
    context: &'a dyn Context,
    findings: &mut Findings,
    read: impl FnOnce(&mut Reader<'_>) -> T,
) -> Placed<T> {
    let before = findings.problems.len();
    let mut reader = Reader::new(section, table, context, findings);
    let value = read(&mut reader);
    Placed {
        value,
        places: reader.places,
        is_sound: findings.problems.len() == before,
    }
}

fn not_a_table(section: &Section, value: &DeValue<'_>, span: Range<usize>) -> Problem {
    let found = match (value, section.many) {
        (DeValue::Table(_), Some(_)) => "this is one table, and there may be several".to_owned(),
        _ => format!("{} stands where a table belongs", describe(value)),
    };
    let problem = Problem::at(span, section.name, found);
    problem.help(format!("begin it with a line {}", section.header()))
}

fn read_agent(reader: &mut Reader<'_>, config: &mut AgentConfig) {
    if let Some(socket) = reader.path("socket") {
        config.socket = socket;
    }
    if let Some(run_dir) = reader.path("run_dir") {
        config.run_dir = run_dir;
    }
    config.group = reader.account("group");
    config.mode = reader.mode("mode");
    config.connections = reader.small_number("connections").unwrap_or(1);
    config.idle_timeout = reader.time("idle_timeout").unwrap_or_default();
    let insecure = reader.flag("metrics_insecure");
    config.metrics = match reader.value("metrics") {
        Some(Value::Metrics(metrics)) => metrics,
        _ => Metrics::Off,
    };
    if let Metrics::Tcp(address) = config.metrics
        && !address.ip().is_loopback()
        && !insecure
    {
        let found = format!("other machines can reach {address}, and nothing asks them who they are");
        let help = "use 127.0.0.1 or a Unix socket, or add metrics_insecure = true";
        reader.wrong(reader.places.problem("metrics", found).help(help));
    }
}

fn read_sink(reader: &mut Reader<'_>) -> SinkConfig {
    let name = reader.text("name").unwrap_or_default();
    let layout = read_layout(reader);
    let target = match reader.word("type") {
        "stdout" => Target::Stdout,
        "stderr" => Target::Stderr,
        "discard" => Target::Discard,
        _ => Target::File(read_file(reader, layout.local_time)),
    };
    if !matches!(target, Target::File(_)) {
        let what = reader.word("type");
        reader.refuse(|key| key.files_only, &format!("with type = \"{what}\""));
    }
    let mut options = SinkOptions::new(target);
    options.layout = layout;
    options.min_level = reader.level("level").unwrap_or(options.min_level);
    options.overflow = match reader.word("overflow") {
        "hold" => Overflow::Hold,
        _ => Overflow::Drop,
    };
    options.flush_every = reader.time("flush_every").unwrap_or(options.flush_every);
    options.flush_level = reader.level("flush_level").unwrap_or(options.flush_level);
    options.sync = match reader.value("sync") {
        Some(Value::Time(time)) => Sync::Every(time),
        Some(Value::Word("level")) => Sync::AtLevel,
        _ => Sync::Never,
    };
    let mut sink = SinkConfig::new(name, options);
    sink.buffers = reader.small_number("buffers").unwrap_or(sink.buffers);
    sink
}

fn read_ship(reader: &mut Reader<'_>) -> SinkConfig {
    let name = reader.text("name").unwrap_or_default();
    let mut ship = ShipOptions::new(Vec::new());
    for (key, is_backup) in [("to", false), ("backup", true)] {
        if let Some(Value::Members(members)) = reader.value(key) {
            add_members(reader, key, &mut ship.to, members, is_backup);
        }
    }
    read_group(reader, &mut ship);
    ship.transport.insecure = reader.flag("insecure");
    ship.transport.tls = TlsFiles {
        authorities: reader.path("tls_authorities"),
        certificate: reader.path("tls_certificate"),
        key: reader.path("tls_key"),
        name: reader.text("tls_name"),
        anyone: false,
    };
    check_ship(reader, &ship);
    ship.zstd_level = reader
        .small_number("zstd")
        .and_then(|level| i32::try_from(level).ok());
    ship.spool = reader.path("spool").map(SpoolOptions::new);
    if let (Some(spool), Some(bytes)) = (&mut ship.spool, reader.number("spool_bytes")) {
        spool.bytes_max = bytes;
    }
    let mut sink = SinkConfig::ship(name, ship);
    let options = &mut sink.options;
    options.layout = match reader.word("layout") {
        "text" => Style::Text.into(),
        "logfmt" => Style::Logfmt.into(),
        "glog" => LayoutOptions::glog(),
        _ => Style::Json.into(),
    };
    options.min_level = reader.level("level").unwrap_or(options.min_level);
    options.overflow = match reader.word("overflow") {
        "hold" => Overflow::Hold,
        _ => Overflow::Drop,
    };
    options.flush_every = reader.time("flush_every").unwrap_or(options.flush_every);
    options.flush_level = reader.level("flush_level").unwrap_or(options.flush_level);
    sink.buffers = reader.small_number("buffers").unwrap_or(sink.buffers);
    sink
}

/// Adds the members of a key to those of the one before it.
fn add_members(
    reader: &mut Reader<'_>,
    key: &str,
    all: &mut Vec<MemberOptions>,
    members: Vec<MemberOptions>,
    is_backup: bool,
) {
    for mut member in members {
        member.is_backup |= is_backup;
        if all.iter().any(|other| other.address == member.address) {
            let found = format!("{} stands in `to` as well", member.address);
            reader.wrong(reader.places.problem(key, found).help("take one of them out"));
        }
        all.push(member);
    }
    if all.len() > SHIP_ADDRESSES_MAX {
        let found = format!("these are {} addresses, with the others", all.len());
        let problem = reader.places.problem(key, found);
        reader.wrong(problem.allowed(format!("at most {SHIP_ADDRESSES_MAX} in `to` and `backup`")));
    }
}

/// Which of several is used, when one is given up, how they are looked at, and how long anything may take.
fn read_group(reader: &mut Reader<'_>, ship: &mut ShipOptions) {
    let policy = reader.word("policy");
    let known = Policy::NAMES.iter().find(|(name, _)| *name == policy);
    ship.group.policy = known.map(|(_, policy)| *policy).unwrap_or_default();
    let breaker = &mut ship.group.breaker;
    // Off is never.
    breaker.failures = reader.small_number("breaker_failures").unwrap_or(u32::MAX);
    breaker.open = reader.time("breaker_open").unwrap_or(breaker.open);
    breaker.probes = reader.small_number("breaker_probes").unwrap_or(breaker.probes);
    breaker.successes = reader
        .small_number("breaker_successes")
        .unwrap_or(breaker.successes);
    let mut health = HealthOptions::default();
    health.failures = reader.small_number("health_failures").unwrap_or(health.failures);
    health.successes = reader
        .small_number("health_successes")
        .unwrap_or(health.successes);
    ship.group.health = reader
        .time("health_every")
        .map(|every| HealthOptions { every, ..health });
    let transport = &mut ship.transport;
    for (key, time) in [
        ("connect_timeout", &mut transport.connect_timeout),
        ("response_timeout", &mut transport.response_timeout),
        ("idle_timeout", &mut transport.idle_timeout),
    ] {
        *time = reader.time(key).unwrap_or(*time);
    }
}

/// What is needed for an address, and what nobody should do unknowingly. Names of hosts are not looked up.
fn check_ship(reader: &mut Reader<'_>, ship: &ShipOptions) {
    let is_here = |host: &str| match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost",
    };
    for member in &ship.to {
        let address = &member.address;
        let key = match reader.places.has("backup") && member.is_backup {
            true => "backup",
            false => "to",
        };
        let host = address.host_port().map_or("localhost", |at| at.host.as_str());
        if !address.is_encrypted() && !is_here(host) && !ship.transport.insecure {
            let found = format!("{address} is another machine, and nothing hides what is sent");
            let help = "use tls:// or quic://, or add insecure = true";
            reader.wrong(reader.places.problem(key, found).help(help));
        }
        if address.is_encrypted() && !reader.places.has("tls_authorities") {
            let found = format!("{address} needs the key `tls_authorities`");
            let help = "add a line such as tls_authorities = \"/etc/logdrive/authority.pem\"";
            reader.wrong(reader.places.problem(key, found).help(help));
        }
    }
    let pair = ["tls_certificate", "tls_key"].map(|key| reader.places.has(key));
    if pair[0] != pair[1] {
        let key = if pair[0] { "tls_certificate" } else { "tls_key" };
        let found = "a certificate and its key go together";
        reader.wrong(reader.places.problem(key, found).help("add the other one"));
    }
}

fn read_layout(reader: &mut Reader<'_>) -> LayoutOptions {
    let word = reader.word("layout");
    let pattern = reader.text("pattern");
    let style = match word {
        "json" => Style::Json,
        "logfmt" => Style::Logfmt,
        "glog" => Style::Glog,
        "pattern" => Style::Pattern(pattern.unwrap_or_default()),
        _ => Style::Text,
    };
    if word == "pattern" && !reader.places.has("pattern") {
        let problem = reader.places.problem("layout", "the key `pattern` is missing");
        reader.wrong_if_whole(
            problem.help("add a line such as pattern = \"{time} {level:5} {message}{fields}\""),
        );
    }
    if word != "pattern" {
        reader.refuse(|key| key.name == "pattern", "without layout = \"pattern\"");
    }
    let mut layout = LayoutOptions::from(style);
    layout.local_time = match reader.word("time") {
        "local" => true,
        // Tools that read glog's lines take them for local times.
        _ => layout.style == Style::Glog && !reader.places.has("time"),
    };
    if let Err(error) = LayoutOptions::from_text(&layout.to_text()) {
        let problem = reader.places.problem("pattern", error.to_string());
        reader.wrong(problem);
    }
    layout
}

fn read_file(reader: &mut Reader<'_>, local_time: bool) -> FileOptions {
    let mut file = FileOptions::new(reader.path("path").unwrap_or_default());
    if !reader.places.has("path") {
        let problem = reader
            .places
            .problem_of_all("`path` is missing: a file needs one");
        let problem = problem.allowed(reader.allowed("path"));
        reader.wrong_if_whole(problem.help("add a line such as path = \"/var/log/logdrive/{app}.log\""));
    }
    file.local_time = local_time;
    file.rotate_bytes = reader.number("rotate_bytes");
    file.rotate_every = match reader.value("rotate_every") {
        Some(Value::Word("hourly")) => Some(Every::Hourly),
        Some(Value::Word("daily")) => Some(Every::Daily),
        Some(Value::Time(time)) => Some(Every::Seconds(time.as_secs())),
        _ => None,
    };
    file.keep_files = reader.small_number("keep_files");
    file.keep_age = reader.time("keep_age");
    file.keep_bytes = reader.number("keep_bytes");
    file.compress = match reader.word("compress") {
        "zstd" => Compress::Zstd,
        "gzip" => Compress::Gzip,
        _ => Compress::None,
    };
    file.newest_link = reader.path("newest_link");
    file.header = reader.text("header");
    file.mode = reader.mode("mode");
    file.dir_mode = reader.mode("dir_mode");
    file.trust_directory = reader.flag("trust_directory");
    file
}

fn read_route(reader: &mut Reader<'_>, sinks: &[&str]) -> Route {
    Route {
        who: reader.who(),
        module: reader.text("module"),
        level: reader.level("level").unwrap_or(logdrive_wire::Level::Trace),
        sinks: reader.sinks("sinks", sinks),
        goes_on: reader.flag("continue"),
    }
}

fn read_recorder(reader: &mut Reader<'_>, sinks: &[&str]) -> Recorder {
    let defaults = Recorder::new();
    let recorder = Recorder {
        who: reader.who(),
        module: reader.text("module"),
        level: reader.level("level").unwrap_or(defaults.level),
        keep_bytes: reader.number("keep").unwrap_or(defaults.keep_bytes),
        on_level: reader.level("on_level"),
        on_callsites: match reader.value("on_callsites") {
            Some(Value::Selectors(selectors)) => selectors,
            _ => Vec::new(),
        },
        on_crash: reader.flag("on_crash"),
        before: reader.time("before").unwrap_or(defaults.before),
        sinks: reader.sinks("sinks", sinks),
    };
    if recorder.on_level.is_some_and(|level| level <= recorder.level) {
        let found = "every record that is kept would have all written, so nothing would be kept";
        let help = "raise on_level, or lower level";
        reader.wrong(reader.places.problem("on_level", found).help(help));
    }
    recorder
}

fn read_level_rule(reader: &mut Reader<'_>) -> LevelRule {
    LevelRule {
        who: reader.who(),
        rules: match reader.value("rules") {
            Some(Value::Rules(rules)) => rules,
            _ => Vec::new(),
        },
    }
}

fn read_limits(
    source: &Source<'_>,
    findings: &mut Findings,
) -> (Limits, Vec<Placed<UserLimit>>, Vec<Placed<AppLimit>>) {
    let total = source.read_one("limits", findings, read_quota);
    let process = source.read_one("limits.process", findings, read_quota);
    let users = source.read_many("limits.user", findings, |reader| UserLimit {
        user: reader.account("user"),
        quota: read_quota(reader),
    });
    let apps = source.read_many("limits.app", findings, |reader| AppLimit {
        app: reader.who().app,
        quota: read_quota(reader),
    });
    let mut limits = Limits {
        total: total.value,
        process: process.value,
        apps: apps.iter().map(|limit| limit.value.clone()).collect(),
        ..Limits::default()
    };
    if !users.is_empty() {
        limits.users = users.iter().map(|limit| limit.value.clone()).collect();
    }
    (limits, users, apps)
}

fn read_quota(reader: &mut Reader<'_>) -> Quota {
    Quota {
        processes: reader.small_number("processes"),
        rings: reader.small_number("rings"),
        memory_bytes: reader.number("memory_bytes"),
        records_per_second: reader.number("records_per_second"),
        disk_bytes_per_day: reader.number("disk_bytes_per_day"),
    }
}
