//! Summary of a configuration in a few lines, so that somebody sees whether it is what was meant.

use super::units::{duration_text, size_text};
use crate::paint::{Paint, Style as Look};
use crate::table::{Side, Table};
use logdrive_agent::config::{AgentConfig, Quota, Recorder, Route, SinkConfig};
use logdrive_drain::control::describe_rule;
use logdrive_drain::file::{Compress, Every, FileOptions};
use logdrive_drain::layout::{LayoutOptions, Style};
use logdrive_drain::{Overflow, Target};
use logdrive_wire::Level;
use std::fmt::Write;

/// The summary.
pub(crate) fn text(config: &AgentConfig, paint: Paint) -> String {
    let mut out = String::new();
    put_agent(&mut out, config, paint);
    out.push('\n');
    out.push_str(&sinks(&config.sinks).text(paint));
    out.push('\n');
    out.push_str(&routes(&config.routes).text(paint));
    out.push('\n');
    out.push_str(&limits(config).text(paint));
    if !config.recorders.is_empty() {
        out.push('\n');
        out.push_str(&recorders(&config.recorders).text(paint));
    }
    if !config.levels.is_empty() {
        out.push('\n');
        out.push_str(&levels(config).text(paint));
    }
    out
}

fn put_agent(out: &mut String, config: &AgentConfig, paint: Paint) {
    let group = match &config.group {
        Some(group) => format!(", group {group}"),
        None => String::new(),
    };
    let lines = [
        (
            "socket",
            format!("{}, mode {:04o}{group}", config.socket.display(), config.mode),
        ),
        ("run_dir", config.run_dir.display().to_string()),
        ("metrics", config.metrics.to_string()),
    ];
    for (title, line) in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}  {line}", paint.the(Look::Title, format!("{title:<8}")));
    }
}

fn lower(level: Level) -> String {
    level.name().to_ascii_lowercase()
}

fn plain(text: impl Into<String>) -> (Look, String) {
    (Look::Plain, text.into())
}

fn level(level: Level) -> (Look, String) {
    (Look::Level(level), lower(level))
}

/// A value that was left open, which is not worth a look.
fn dim(text: &str) -> (Look, String) {
    (Look::Dim, text.to_owned())
}

fn sinks(sinks: &[SinkConfig]) -> Table {
    let headings = ["SINK", "TO", "LAYOUT", "LEVEL", "ROTATED", "KEPT", "IF SLOW"];
    let mut table = Table::new(headings.map(|heading| (heading, Side::Left)));
    for sink in sinks {
        let (to, rotated, kept) = match &sink.options.target {
            Target::File(file) => (plain(file.path.display().to_string()), rotated(file), kept(file)),
            Target::Stdout => (plain("standard output"), dim("-"), dim("-")),
            Target::Stderr => (plain("standard error"), dim("-"), dim("-")),
            Target::Ship(ship) => (plain(ship.destination()), dim("-"), dim("-")),
            _ => (plain("nowhere"), dim("-"), dim("-")),
        };
        table.push([
            (Look::Title, sink.name.clone()),
            to,
            plain(layout(&sink.options.layout)),
            level(sink.options.min_level),
            rotated,
            kept,
            plain(match sink.options.overflow {
                Overflow::Drop => "drop",
                Overflow::Hold => "hold",
            }),
        ]);
    }
    table
}

/// A pattern is too long for a table.
fn layout(layout: &LayoutOptions) -> String {
    let text = match &layout.style {
        Style::Pattern(_) => "pattern".to_owned(),
        _ => LayoutOptions::from(layout.style.clone()).to_text(),
    };
    match layout.local_time {
        true => format!("{text}, local"),
        false => text,
    }
}

fn rotated(file: &FileOptions) -> (Look, String) {
    let size = file.rotate_bytes.map(|bytes| format!("at {}", size_text(bytes)));
    let time = file.rotate_every.map(|every| match every {
        Every::Hourly => "hourly".to_owned(),
        Every::Daily => "daily".to_owned(),
        Every::Seconds(seconds) => {
            format!("each {}", duration_text(std::time::Duration::from_secs(seconds)))
        }
    });
    listed([size, time], "never")
}

fn kept(file: &FileOptions) -> (Look, String) {
    let compressed = match file.compress {
        Compress::None => None,
        Compress::Gzip => Some("gzip".to_owned()),
        Compress::Zstd => Some("zstd".to_owned()),
    };
    let limits = [
        file.keep_files.map(|files| format!("{files} files")),
        file.keep_age.map(duration_text),
        file.keep_bytes.map(size_text),
    ];
    let all = match limits.iter().all(Option::is_none) {
        true => Some("all".to_owned()),
        false => None,
    };
    listed(limits.into_iter().chain([all, compressed]), "")
}

fn listed(parts: impl IntoIterator<Item = Option<String>>, none: &str) -> (Look, String) {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => dim(none),
        false => plain(parts.join(", ")),
    }
}

fn routes(routes: &[Route]) -> Table {
    let headings = ["ROUTE", "APP", "USER", "MODULE", "LEVEL", "SINKS", "THEN"];
    let mut table = Table::new(headings.map(|heading| (heading, Side::Left)));
    for (index, route) in routes.iter().enumerate() {
        table.push([
            plain((index + 1).to_string()),
            plain(route.processes.app.as_str()),
            any(route.processes.user.as_ref().map(ToString::to_string)),
            any(route.module.clone()),
            level(route.level),
            (Look::Title, route.sinks.join(", ")),
            if route.goes_on { plain("go on") } else { dim("end") },
        ]);
    }
    table
}

fn any(text: Option<String>) -> (Look, String) {
    text.map_or_else(|| dim("any"), plain)
}

fn limits(config: &AgentConfig) -> Table {
    let headings = [
        ("LIMITS OF", Side::Left),
        ("PROCESSES", Side::Right),
        ("RINGS", Side::Right),
        ("MEMORY", Side::Right),
        ("RECORDS/S", Side::Right),
        ("DISK/DAY", Side::Right),
    ];
    let mut table = Table::new(headings);
    let mut push = |holder: String, quota: &Quota| {
        let number =
            |number: Option<u64>| number.map_or_else(|| dim("-"), |number| plain(number.to_string()));
        let size = |bytes: Option<u64>| bytes.map_or_else(|| dim("-"), |bytes| plain(size_text(bytes)));
        table.push([
            plain(holder),
            number(quota.processes.map(u64::from)),
            number(quota.rings.map(u64::from)),
            size(quota.memory_bytes),
            number(quota.records_per_second),
            size(quota.disk_bytes_per_day),
        ]);
    };
    push("all together".to_owned(), &config.limits.total);
    push("each process".to_owned(), &config.limits.process);
    for limit in &config.limits.users {
        let holder = match &limit.user {
            Some(user) => format!("user {user}"),
            None if config.limits.users.len() == 1 => "each user".to_owned(),
            None => "each other user".to_owned(),
        };
        push(holder, &limit.quota);
    }
    for limit in &config.limits.apps {
        push(format!("app {}", limit.app), &limit.quota);
    }
    table
}

fn recorders(recorders: &[Recorder]) -> Table {
    let headings = ["RECORDER", "MODULE", "LEVEL", "KEEPS", "WRITES", "WHEN"];
    let mut table = Table::new(headings.map(|heading| (heading, Side::Left)));
    for recorder in recorders {
        let places = match recorder.on_callsites.len() {
            0 => None,
            1 => Some("1 callsite".to_owned()),
            count => Some(format!("{count} callsites")),
        };
        let when = [
            recorder.on_level.map(|level| format!("level {}", lower(level))),
            places,
            recorder.on_crash.then(|| "crash".to_owned()),
        ];
        table.push([
            plain(recorder.processes.to_string()),
            any(recorder.module.clone()),
            level(recorder.level),
            plain(size_text(recorder.keep_bytes)),
            plain(format!("the last {}", duration_text(recorder.before))),
            listed(when, "when asked"),
        ]);
    }
    table
}

fn levels(config: &AgentConfig) -> Table {
    let mut table = Table::new([("LEVELS OF", Side::Left), ("RULES", Side::Left)]);
    for rule in &config.levels {
        let rules = rule.rules.iter().map(|(action, selector)| {
            describe_rule(&logdrive_drain::control::Rule {
                made_unix_ns: 0,
                until_unix_ns: 0,
                action: action.clone(),
                selector: selector.clone(),
            })
        });
        table.push([
            plain(rule.processes.to_string()),
            plain(rules.collect::<Vec<_>>().join(", ")),
        ]);
    }
    table
}
