//! Mistakes of a configuration as a whole: sinks in each other's way, places where others could interfere, and
//! entries that are never reached.

use super::context::Context;
use super::reader::{Findings, Placed, Places};
use logdrive_agent::config::{AgentConfig, Metrics, SinkConfig};
use logdrive_drain::Target;
use logdrive_drain::file::FileOptions;
use std::path::{Path, PathBuf};

/// Permissions by which everybody, or the group too, may write.
const BY_ALL: u32 = 0o002;
const BY_GROUP_OR_ALL: u32 = 0o022;
/// With it, users cannot remove or rename files of others.
const STICKY: u32 = 0o1000;

/// Looks at the agent's own places.
pub(crate) fn agent(config: &AgentConfig, places: &Places, context: &dyn Context, findings: &mut Findings) {
    let mut own = vec![("socket", &config.socket)];
    if let Metrics::Unix(path) = &config.metrics {
        own.push(("metrics", path));
    }
    for (key, path) in own {
        if let Some(dir) = path.parent() {
            private_directory(key, dir, places, context, findings);
        }
    }
    private_directory("run_dir", &config.run_dir, places, context, findings);
    let lock = with_end(&config.socket, ".lock");
    let clashes = [
        (
            "run_dir",
            config.run_dir == config.socket || config.run_dir == lock,
        ),
        (
            "metrics",
            matches!(&config.metrics, Metrics::Unix(path) if *path == config.socket || *path == lock),
        ),
    ];
    for (key, _) in clashes.into_iter().filter(|(_, clash)| *clash) {
        let found = "this is the agent's socket or its lock";
        findings.add(places.problem(key, found).help("choose another path"));
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut text = path.as_os_str().to_owned();
    text.push(end);
    text.into()
}

/// The directory of a socket or a state: a user who may write there could replace the agent.
fn private_directory(
    key: &'static str,
    dir: &Path,
    places: &Places,
    context: &dyn Context,
    findings: &mut Findings,
) {
    let open = context
        .directory_mode(dir)
        .filter(|mode| mode & BY_GROUP_OR_ALL != 0);
    let found = match open {
        Some(mode) => Some(format!(
            "others may write to {} (mode {mode:04o}), and take the agent's place",
            dir.display()
        )),
        None => open_ancestor(dir, context),
    };
    if let Some(found) = found {
        let help = "choose a directory that only root or the agent's user may write to";
        findings.add(places.problem(key, found).help(help));
    }
}

/// The first directory on the way to a path, and the path itself, that everybody may change.
pub(crate) fn open_ancestor(path: &Path, context: &dyn Context) -> Option<String> {
    let mut way: Vec<&Path> = path.ancestors().collect();
    way.reverse();
    way.into_iter().find_map(|dir| {
        let mode = context.directory_mode(dir)?;
        (mode & BY_ALL != 0 && mode & STICKY == 0).then(|| {
            format!(
                "everybody may change what is in {} (mode {mode:04o})",
                dir.display()
            )
        })
    })
}

/// Looks at all sinks: names, places, and whether two are in each other's way.
pub(crate) fn sinks(
    config: &AgentConfig,
    sinks: &[Placed<SinkConfig>],
    context: &dyn Context,
    findings: &mut Findings,
) {
    for (index, sink) in sinks.iter().enumerate() {
        let before = sinks.get(..index).unwrap_or_default();
        if !sink.value.name.is_empty() && before.iter().any(|other| other.value.name == sink.value.name) {
            let found = format!("there is a sink \"{}\" already", sink.value.name);
            findings.add(sink.places.problem("name", found));
        }
        match &sink.value.options.target {
            Target::File(file) => {
                file_of(file, config, sink, before, context, findings);
            }
            Target::Discard => {}
            Target::Ship(ship) => {
                let spool = |sink: &Placed<SinkConfig>| match &sink.value.options.target {
                    Target::Ship(ship) => ship.spool.clone().map(|spool| spool.directory),
                    _ => None,
                };
                let own = ship.spool.as_ref().map(|spool| spool.directory.clone());
                if let Some(other) = before.iter().find(|other| own.is_some() && spool(other) == own) {
                    let found = format!("\"{}\" has this spool as well", other.value.name);
                    let problem = sink.places.problem("spool", found);
                    findings.add(problem.help("choose another directory"));
                }
            }
            target => {
                let same = |other: &&Placed<SinkConfig>| {
                    std::mem::discriminant(&other.value.options.target) == std::mem::discriminant(target)
                };
                if let Some(other) = before.iter().find(same) {
                    let found = format!("sink \"{}\" writes there as well", other.value.name);
                    let help = "lines of two sinks would tear each other: let two routes use one sink";
                    findings.add(sink.places.problem("type", found).help(help));
                }
            }
        }
    }
}

fn file_of(
    file: &FileOptions,
    config: &AgentConfig,
    sink: &Placed<SinkConfig>,
    before: &[Placed<SinkConfig>],
    context: &dyn Context,
    findings: &mut Findings,
) {
    let own = [
        ("path", Some(&file.path)),
        ("newest_link", file.newest_link.as_ref()),
    ];
    let mut is_sound = true;
    for (key, path) in own {
        let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else {
            continue;
        };
        let problem = match taken_by(path, config, before) {
            Some(found) => Some(sink.places.problem(key, found).help("choose another path")),
            None if file.trust_directory => None,
            None => path
                .parent()
                .and_then(|dir| open_ancestor(dir, context))
                .map(|found| {
                    let help = "choose another directory, or take the right to write from the others";
                    sink.places.problem(key, found).help(help)
                }),
        };
        is_sound &= problem.is_none();
        problem.into_iter().for_each(|problem| findings.add(problem));
    }
    if file.newest_link.as_ref() == Some(&file.path) {
        findings.add(
            sink.places
                .problem("newest_link", "this is the path of the file itself"),
        );
    } else if let (true, Err(error)) = (is_sound && sink.is_sound, file.check()) {
        // What the tables cannot say, the file itself knows.
        findings.add_if_whole(sink.places.problem_of_all(error.to_string()));
    }
}

/// Other user of a path, in words.
fn taken_by(path: &Path, config: &AgentConfig, before: &[Placed<SinkConfig>]) -> Option<String> {
    let uses = |sink: &&Placed<SinkConfig>| match &sink.value.options.target {
        Target::File(file) => file.path == path || file.newest_link.as_deref() == Some(path),
        _ => false,
    };
    if path == config.socket || matches!(&config.metrics, Metrics::Unix(socket) if socket == path) {
        return Some("this is a socket of the agent".to_owned());
    }
    if path.starts_with(&config.run_dir) {
        return Some("this is in the agent's own directory `run_dir`".to_owned());
    }
    let other = before.iter().find(uses)?;
    Some(format!(
        "sink \"{}\" has {} as well",
        other.value.name,
        path.display()
    ))
}

/// Finds entries that never count because an earlier one takes all that they mean.
pub(crate) fn never_reached<T>(
    entries: &[Placed<T>],
    findings: &mut Findings,
    covers: impl Fn(&T, &T) -> bool,
) {
    for (index, entry) in entries.iter().enumerate() {
        let before = entries.get(..index).unwrap_or_default();
        let by = before
            .iter()
            .position(|other| other.is_sound && entry.is_sound && covers(&other.value, &entry.value));
        if let Some(by) = by {
            let found = format!(
                "this is never reached: {} number {} takes all that it means",
                entry.places.header_text(),
                by + 1
            );
            findings.add_if_whole(
                entry
                    .places
                    .problem_of_all(found)
                    .help("put it before that one, or take it out"),
            );
        }
    }
}
