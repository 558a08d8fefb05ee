//! From the text of a configuration to its meaning, or to all that is wrong with it. No I/O: what has to be known of the
//! machine is asked of a [`Context`].

use super::checks;
use super::context::Context;
use super::problem::Problem;
use super::reader::{Findings, Placed, Reader, describe};
use super::sections::{
    AGENT, APP, LEVEL, PROCESS, RECORDER, ROUTE, SECTIONS, SHIP, SINK, Section, TOTAL, USER,
};
use crate::suggestion::most_similar;
use logdrive_agent::config::limits::{NAME_BYTES_MAX, RINGS_OF_PROCESS};
use logdrive_agent::config::{
    AgentConfig, AppLimit, AppPattern, LevelRule, Limits, Metrics, ProcessSelector, Quota, Recorder, Route,
    SinkConfig, UserLimit,
};
use logdrive_drain::Target;
use logdrive_drain::file::FileOptions;
use logdrive_drain::layout::{LayoutOptions, Style};
use logdrive_drain::limits::SHIP_ADDRESSES_MAX;
use logdrive_drain::schema::{Options, Schema, Value};
use logdrive_drain::ship::{MemberOptions, ShipOptions};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Reads the configuration of an agent.
///
/// # Errors
/// With everything that is wrong, in the order of the text.
pub(crate) fn parse(text: &str, context: &dyn Context) -> Result<AgentConfig, Vec<Problem>> {
    parse_with(text, |document, findings| read(document, context, findings))
}

/// Reads the configuration of a command: one table without a header.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_flat<T: Options>(
    text: &str,
    section: &'static Section,
    options: T,
    check: impl FnOnce(&mut Reader<'_>, &mut T),
) -> Result<T, Vec<Problem>> {
    parse_with(text, |document, findings| {
        let table = Some((document, 0..0));
        read_table(section, table, &super::context::Machine, findings, options, check).value
    })
}

/// As [`parse_flat`], with lists of tables of these names behind it, which `more` reads.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_with_lists<T: Options>(
    text: &str,
    (section, lists): (&'static Section, [&'static Section; 2]),
    options: T,
    check: impl FnOnce(&mut Reader<'_>, &mut T),
    more: impl FnOnce(&Source<'_>, &mut Findings, &mut T),
) -> Result<T, Vec<Problem>> {
    parse_with(text, |document, findings| {
        let is_list = |key: &str| lists.iter().any(|list| list.name == key);
        let mut root = DeTable::new();
        for (key, value) in document.iter().filter(|(key, _)| !is_list(key.get_ref())) {
            root.insert(key.clone(), value.clone());
        }
        let context = &super::context::Machine;
        let mut found = read_table(section, Some((&root, 0..0)), context, findings, options, check).value;
        more(&Source { document, context }, findings, &mut found);
        found
    })
}

fn parse_with<T>(text: &str, read: impl FnOnce(&DeTable<'_>, &mut Findings) -> T) -> Result<T, Vec<Problem>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut findings = Findings {
        is_torn: !errors.is_empty(),
        ..Findings::default()
    };
    let config = read(document.get_ref(), &mut findings);
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

/// Beginning of the line of a place.
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
    let agent = source.read_one(&AGENT, findings, AgentConfig::default(), |reader, config| {
        check_metrics(reader, &config.metrics, config.metrics_insecure);
    });
    let (mut config, places) = (agent.value, agent.places);
    let mut sinks = source.read_many(&SINK, findings, || SinkConfig::file("", ""), finish_sink);
    let ship = || SinkConfig::ship("", ShipOptions::new(Vec::new()));
    sinks.extend(source.read_many(&SHIP, findings, ship, finish_ship));
    // A file without sinks leaves the default one in place.
    if !sinks.is_empty() {
        config.sinks = sinks.iter().map(|sink| sink.value.clone()).collect();
    }
    // Routes and recorders name sinks, so they are read after them.
    let names: Vec<String> = config.sinks.iter().map(|sink| sink.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let routes = source.read_many(
        &ROUTE,
        findings,
        || Route::to_all(&[]),
        |reader, _| {
            reader.check_sinks("sinks", &names);
        },
    );
    let recorders = source.read_many(&RECORDER, findings, Recorder::new, |reader, recorder| {
        reader.check_sinks("sinks", &names);
        check_recorder(reader, recorder);
    });
    let any_level = || LevelRule {
        processes: ProcessSelector::anyone(),
        rules: Vec::new(),
    };
    let levels = source.read_many(&LEVEL, findings, any_level, |_, _| ());
    let (limits, users, apps) = read_limits(&source, findings);
    checks::agent(&config, &places, context, findings);
    checks::sinks(&config, &sinks, context, findings);
    checks::never_reached(&routes, findings, |earlier: &Route, later: &Route| {
        !earlier.goes_on && earlier.covers(later)
    });
    checks::never_reached(&recorders, findings, Recorder::covers);
    checks::never_reached(&levels, findings, |earlier: &LevelRule, later: &LevelRule| {
        earlier.processes.covers(&later.processes)
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
        let home = SECTIONS.iter().find(|section| section.row(name).is_some());
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
pub(crate) struct Source<'a> {
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
            // A value in the place of the table is reported where the table is read.
            table = value.get_ref().as_table()?;
        }
        None
    }

    /// Reads `[name]`, or its defaults.
    fn read_one<T: Options>(
        &self,
        section: &'static Section,
        findings: &mut Findings,
        default: T,
        check: impl FnOnce(&mut Reader<'_>, &mut T),
    ) -> Placed<T> {
        let found = self.find(section);
        let table = found.and_then(|value| Some((value.get_ref().as_table()?, value.span())));
        if let (Some(value), None) = (found, &table) {
            findings.add_torn(not_a_table(section, value.get_ref(), value.span()));
        }
        read_table(section, table, self.context, findings, default, check)
    }

    /// Reads all `[[name]]`.
    pub(crate) fn read_many<T: Options>(
        &self,
        section: &'static Section,
        findings: &mut Findings,
        default: impl Fn() -> T,
        mut check: impl FnMut(&mut Reader<'_>, &mut T),
    ) -> Vec<Placed<T>> {
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
            all.push(read_table(
                section,
                table,
                self.context,
                findings,
                default(),
                &mut check,
            ));
        }
        all
    }
}

/// Reads a table into a struct with the defaults; `check` notes what the rows do not say.
fn read_table<'a, T: Options>(
    section: &'static Section,
    table: Option<(&'a DeTable<'a>, Range<usize>)>,
    context: &'a dyn Context,
    findings: &mut Findings,
    mut value: T,
    check: impl FnOnce(&mut Reader<'_>, &mut T),
) -> Placed<T> {
    let before = findings.problems.len();
    let mut reader = Reader::new(section, table, context, findings);
    reader.fill(&mut value);
    check(&mut reader, &mut value);
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

/// Refuses metrics for other machines, unless they are wanted.
pub(crate) fn check_metrics(reader: &mut Reader<'_>, place: &Metrics, is_insecure: bool) {
    if let Metrics::Tcp(address) = place
        && !address.ip().is_loopback()
        && !is_insecure
    {
        let found = format!("other machines can reach {address}, and nothing asks them who they are");
        let help = "use 127.0.0.1 or a Unix socket, or add metrics_insecure = true";
        reader.wrong(reader.places.problem("metrics", found).help(help));
    }
}

/// Tools that read glog's lines take them for local times.
fn localize(reader: &Reader<'_>, sink: &mut SinkConfig) {
    let layout = &mut sink.options.layout;
    if layout.style == Style::Glog && !reader.places.has("local_time") {
        layout.local_time = LayoutOptions::glog().local_time;
    }
}

fn finish_sink(reader: &mut Reader<'_>, sink: &mut SinkConfig) {
    localize(reader, sink);
    if let Target::File(file) = &mut sink.options.target {
        file.local_time = sink.options.layout.local_time;
        if let (false, Some(row)) = (reader.places.has("path"), file.row("path")) {
            let found = "`path` is missing: a file needs one";
            let problem = reader.places.problem_of_all(found).allowed(row.allowed());
            reader.wrong_if_whole(problem.help(format!("add a line such as path = {}", row.example)));
        }
    } else if let Some(Value::Word(kind)) = sink.options.value("type") {
        reader.refuse(FileOptions::ROWS, &format!("with type = \"{kind}\""));
    }
}

fn finish_ship(reader: &mut Reader<'_>, sink: &mut SinkConfig) {
    localize(reader, sink);
    if let Target::Ship(ship) = &mut sink.options.target {
        ship.to = reader.addresses("to", false);
        let backup = reader.addresses("backup", true);
        add_backups(reader, &mut ship.to, backup);
        check_ship(reader, ship);
    }
}

/// Adds the addresses of `backup` to those of `to`.
fn add_backups(reader: &mut Reader<'_>, all: &mut Vec<MemberOptions>, backups: Vec<MemberOptions>) {
    for backup in backups {
        if all.iter().any(|other| other.address == backup.address) {
            let found = format!("{} stands in `to` as well", backup.address);
            reader.wrong(
                reader
                    .places
                    .problem("backup", found)
                    .help("take one of them out"),
            );
        }
        all.push(backup);
    }
    if all.len() > SHIP_ADDRESSES_MAX {
        let key = if reader.places.has("backup") {
            "backup"
        } else {
            "to"
        };
        let found = format!("these are {} addresses, with the others", all.len());
        let problem = reader.places.problem(key, found);
        reader.wrong(problem.allowed(format!("at most {SHIP_ADDRESSES_MAX} in `to` and `backup`")));
    }
}

/// Notes missing parts of an address, and unsafe ones. Names of hosts are not looked up.
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

fn check_recorder(reader: &mut Reader<'_>, recorder: &Recorder) {
    if recorder.on_level.is_some_and(|level| level <= recorder.level) {
        let found = "every record that is kept would have all written, so nothing would be kept";
        let help = "raise on_level, or lower level";
        reader.wrong(reader.places.problem("on_level", found).help(help));
    }
}

fn read_limits(
    source: &Source<'_>,
    findings: &mut Findings,
) -> (Limits, Vec<Placed<UserLimit>>, Vec<Placed<AppLimit>>) {
    let mut limits = Limits::default();
    limits.total = source.read_one(&TOTAL, findings, limits.total, |_, _| ()).value;
    let process = source.read_one(&PROCESS, findings, limits.process, |reader, process| {
        let (least, most) = (RINGS_OF_PROCESS.start(), RINGS_OF_PROCESS.end());
        if process.rings.is_none_or(|rings| u64::from(rings) > *most) {
            let found = format!("a process has at most {most} rings");
            let allowed = format!("a number from {least} to {most}");
            reader.wrong(reader.places.problem("rings", found).allowed(allowed));
        }
    });
    limits.process = process.value;
    let quota = Quota::default();
    let users = source.read_many(&USER, findings, || UserLimit { user: None, quota }, |_, _| ());
    let any_app = || AppLimit {
        app: AppPattern::any(),
        quota,
    };
    let apps = source.read_many(&APP, findings, any_app, |_, _| ());
    limits.apps = apps.iter().map(|limit| limit.value.clone()).collect();
    if !users.is_empty() {
        limits.users = users.iter().map(|limit| limit.value.clone()).collect();
    }
    (limits, users, apps)
}
