//! Live control of sessions: which processes are meant, the change of their rules, and what is said about it.

use crate::args::RunDirArgs;
use crate::control_args::LiveArgs;
use crate::error::CliError;
use crate::output::Output;
use crate::ps::{put_json, tell};
use crate::sessions::{Found, dirs_text, find_all, run_dirs, safe};
use crate::similar::most_similar;
use logdrive_backend::control::{
    Action, ControlView, Rule, Selector, Switchboard, change, describe_rule, describe_selector, put_rule,
    selects, twins,
};
use logdrive_ring::SessionView;
use logdrive_wire::Callsite;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A process that logs.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) app: String,
    pub(crate) pid: u32,
    pub(crate) path: PathBuf,
    pub(crate) board: ControlView,
}

impl Live {
    /// `shop (process 4711)`
    pub(crate) fn title(&self) -> String {
        format!("{} (process {})", self.app, self.pid)
    }

    /// The callsites that the program's own statements are, with their numbers.
    pub(crate) fn callsites(&self) -> Result<Vec<(u32, Callsite)>, CliError> {
        let table = self.board.table().map_err(|cause| self.cannot(cause))?;
        let twins = twins(&self.board, &table);
        Ok(table
            .iter()
            .filter(|(id, _)| *id != 0 && !twins.contains(id))
            .filter_map(|(id, bytes)| Some((*id, Callsite::decode(bytes).ok()?)))
            .collect())
    }

    pub(crate) fn cannot(&self, cause: logdrive_ring::RingError) -> CliError {
        CliError::Control {
            app: self.app.clone(),
            pid: self.pid,
            cause,
        }
    }
}

/// The live processes that somebody means.
pub(crate) fn live_sessions(args: &LiveArgs) -> Result<Vec<Live>, CliError> {
    if args.name.contains('/') {
        return at_path(Path::new(&args.name), &args.run_dir);
    }
    let dirs = run_dirs(&args.run_dir)?;
    let mut named = Vec::new();
    let mut others = Vec::new();
    for found in find_all(&dirs)? {
        // One that cannot be read, or has just gone, is nobody's.
        let Ok(view) = SessionView::open(&found.path) else {
            continue;
        };
        let (app, pid) = (safe(&view.header().app()), view.header().pid());
        let is_directory = found.path.file_name().is_some_and(|name| name == &*args.name);
        let is_named = app == args.name || is_directory || args.name.parse() == Ok(pid);
        match is_named {
            true => named.push((found, app, pid)),
            false => others.push((found, app, pid)),
        }
    }
    let is_alive = |(found, _, _): &(Found, String, u32)| found.holder.is_some();
    let dead = named.iter().find(|session| !is_alive(session)).cloned();
    let alive: Vec<_> = named.into_iter().filter(is_alive).collect();
    if alive.is_empty() {
        others.retain(is_alive);
        return Err(nobody(&args.name, dead, &others, &dirs));
    }
    alive
        .into_iter()
        .map(|(found, app, pid)| open(found.path, app, pid))
        .collect()
}

fn open(path: PathBuf, app: String, pid: u32) -> Result<Live, CliError> {
    match ControlView::open(&path) {
        Ok(board) => Ok(Live {
            app,
            pid,
            path,
            board,
        }),
        Err(cause) => Err(CliError::Control { app, pid, cause }),
    }
}

fn at_path(path: &Path, run_dir: &RunDirArgs) -> Result<Vec<Live>, CliError> {
    let name = path.display().to_string();
    let dirs = [path.parent().map_or_else(PathBuf::new, Path::to_owned)];
    let found = find_all(&dirs)?
        .into_iter()
        .find(|found| found.path.file_name() == path.file_name());
    let view = found.as_ref().map(|found| SessionView::open(&found.path));
    let (Some(found), Some(Ok(view))) = (found, view) else {
        return Err(nobody(&name, None, &[], &run_dirs(run_dir)?));
    };
    let (app, pid) = (safe(&view.header().app()), view.header().pid());
    if found.holder.is_none() {
        return Err(nobody(&name, Some((found, app, pid)), &[], &dirs));
    }
    Ok(vec![open(found.path, app, pid)?])
}

/// Nobody who lives is meant; tells who lives.
fn nobody(
    name: &str,
    dead: Option<(Found, String, u32)>,
    alive: &[(Found, String, u32)],
    dirs: &[PathBuf],
) -> CliError {
    let apps: Vec<&str> = alive.iter().map(|(_, app, _)| app.as_str()).collect();
    let hint = if let Some((_, app, pid)) = dead {
        format!(": {app} (process {pid}) is dead; `logdrive recover` brings what it had logged into its log")
    } else if alive.is_empty() {
        format!(
            ": no program of this user logs with Logdrive in {}; --run-dir names another place to look",
            dirs_text(dirs)
        )
    } else {
        let names: Vec<String> = alive
            .iter()
            .take(NAMES_SHOWN_MAX)
            .map(|(_, app, pid)| format!("{app} ({pid})"))
            .collect();
        let more = if alive.len() > names.len() { ", ..." } else { "" };
        let meant = most_similar(name, apps).map_or(String::new(), |app| format!("; did you mean {app}?"));
        format!(": alive are {}{more}{meant}", names.join(", "))
    };
    CliError::NobodyAlive {
        name: safe(name),
        hint,
    }
}

/// Processes that an error lists.
const NAMES_SHOWN_MAX: usize = 10;

/// What a change of rules did to one process, as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    app: &'a str,
    pid: u32,
    path: &'a Path,
    rules: Vec<RuleLine>,
    callsites_selected: usize,
    callsites_changed: usize,
}

/// A rule as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct RuleLine {
    rule: String,
    selector: String,
    made: String,
    until: Option<String>,
}

impl RuleLine {
    pub(crate) fn of(rule: &Rule) -> Self {
        Self {
            rule: describe_rule(rule),
            selector: describe_selector(&rule.selector),
            made: crate::instant::iso_text(rule.made_unix_ns),
            until: (rule.until_unix_ns != 0).then(|| crate::instant::iso_text(rule.until_unix_ns)),
        }
    }
}

/// A change that a command makes to the rules.
#[derive(Debug)]
pub(crate) enum Edit<'a> {
    /// Sets rules, for a time; 0 for ever.
    Set(&'a [(Action, Selector)], u64),
    /// Removes rules of these selectors and of the kind of this action.
    Remove(Action, &'a [Selector]),
    /// Removes all.
    Reset,
}

impl Edit<'_> {
    fn selectors(&self) -> Vec<&Selector> {
        match self {
            Edit::Set(rules, _) => rules.iter().map(|(_, selector)| selector).collect(),
            Edit::Remove(_, selectors) => selectors.iter().collect(),
            Edit::Reset => Vec::new(),
        }
    }

    /// How many rules were removed.
    fn make(&self, rules: &mut Vec<Rule>, now_unix_ns: u64) -> usize {
        let before = rules.len();
        match self {
            Edit::Set(set, for_ns) => {
                for (action, selector) in *set {
                    put_rule(rules, action.clone(), selector.clone(), *for_ns, now_unix_ns);
                }
                0
            }
            Edit::Remove(action, selectors) => {
                let kind = logdrive_backend::control::kind_of(action);
                rules.retain(|rule| {
                    logdrive_backend::control::kind_of(&rule.action) != kind
                        || !selectors.contains(&rule.selector)
                });
                before - rules.len()
            }
            Edit::Reset => {
                rules.clear();
                before
            }
        }
    }
}

/// Changes the rules of all these processes, and says what that did. `false` when there was nothing to remove.
pub(crate) fn change_all(live: &[Live], edit: &Edit<'_>, json: bool) -> Result<bool, CliError> {
    refuse_numbers_of_many(live, edit)?;
    let mut output = Output::stdout()?;
    let (mut changed_in_all, mut removed_in_all) = (0, 0);
    for session in live {
        let mut removed = 0;
        let edit_rules = |rules: &mut Vec<Rule>, now| removed = edit.make(rules, now);
        let changed = change(&session.board, edit_rules).map_err(|cause| session.cannot(cause))?;
        if let Some(damage) = changed.damage {
            tell(&format!(
                "{}: the rules before this were damaged and are gone: {damage}",
                session.title()
            ));
        }
        changed_in_all += changed.callsites_changed;
        removed_in_all += removed;
        let selected = selected(session, edit)?;
        if json {
            put_json(
                &mut output,
                &Line {
                    app: &session.app,
                    pid: session.pid,
                    path: &session.path,
                    rules: changed.rules.iter().map(RuleLine::of).collect(),
                    callsites_selected: selected.len(),
                    callsites_changed: changed.callsites_changed,
                },
            )?;
            continue;
        }
        let what = what_was_done(edit, removed);
        let count = count_of(changed.callsites_changed, "callsite");
        writeln!(output, "{}: {what}; {count} changed", session.title())?;
        output.flush()?;
        tell_of_nothing(session, edit, &selected)?;
    }
    output.flush()?;
    if live.len() > 1 && !json {
        tell(&format!(
            "{} changed in {} processes",
            count_of(changed_in_all, "callsite"),
            live.len()
        ));
    }
    Ok(matches!(edit, Edit::Set(..) | Edit::Reset) || removed_in_all > 0)
}

/// A number means another statement in each process.
fn refuse_numbers_of_many(live: &[Live], edit: &Edit<'_>) -> Result<(), CliError> {
    let is_number = |selector: &&&Selector| matches!(selector, Selector::Callsite(_));
    match edit.selectors().iter().find(is_number) {
        Some(Selector::Callsite(id)) if live.len() > 1 => Err(CliError::NumberOfMany {
            id: *id,
            processes: live.len(),
        }),
        _ => Ok(()),
    }
}

fn what_was_done(edit: &Edit<'_>, removed: usize) -> String {
    match edit {
        Edit::Set(rules, for_ns) => {
            let rules: Vec<String> = rules
                .iter()
                .map(|(action, selector)| {
                    describe_rule(&Rule {
                        made_unix_ns: 0,
                        until_unix_ns: 0,
                        action: action.clone(),
                        selector: selector.clone(),
                    })
                })
                .collect();
            let span = match for_ns {
                0 => String::new(),
                ns => format!(" for {}", crate::instant::age_text(ns / 1_000_000_000)),
            };
            format!("{}{span}", rules.join(", "))
        }
        Edit::Remove(..) | Edit::Reset => match removed {
            0 => "there was no such rule".to_owned(),
            count => format!("{} removed", count_of(count, "rule")),
        },
    }
}

/// `1 callsite`, `2 callsites`
fn count_of(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", crate::table::count_text(count as u64))
}

/// The callsites that a change is about.
fn selected(session: &Live, edit: &Edit<'_>) -> Result<Vec<(u32, Callsite)>, CliError> {
    let selectors = edit.selectors();
    let is_meant =
        |(id, callsite): &(u32, Callsite)| selectors.iter().any(|selector| selects(selector, *id, callsite));
    let mut callsites = session.callsites()?;
    callsites.retain(is_meant);
    Ok(callsites)
}

/// Tells of rules that mean no statement that has been called so far: often a mistyped name.
fn tell_of_nothing(session: &Live, edit: &Edit<'_>, selected: &[(u32, Callsite)]) -> Result<(), CliError> {
    let Edit::Set(rules, _) = edit else {
        return Ok(());
    };
    for (_, selector) in *rules {
        if selected
            .iter()
            .any(|(id, callsite)| selects(selector, *id, callsite))
        {
            continue;
        }
        let known = session.callsites()?;
        let names = known
            .iter()
            .flat_map(|(_, callsite)| names_of(selector, callsite));
        let names: std::collections::BTreeSet<String> = names.collect();
        let text = describe_selector(selector);
        let plain = text
            .split_once(':')
            .map_or(text.as_str(), |(front, rest)| match front {
                "module" | "file" => rest,
                _ => text.as_str(),
            });
        let meant = most_similar(plain, names.iter().map(String::as_str));
        let hint = meant.map_or(String::new(), |name| format!("; did you mean {name}?"));
        tell(&format!(
            "{}: nothing of {text} has been called so far, the rule waits for it{hint}",
            session.title()
        ));
    }
    Ok(())
}

/// What somebody may have meant by a selector of this kind.
fn names_of(selector: &Selector, callsite: &Callsite) -> Vec<String> {
    let file = callsite.file.rsplit('/').next().unwrap_or("");
    match selector {
        Selector::Line(..) => vec![format!("{file}:{}", callsite.line)],
        Selector::File(_) => vec![file.to_owned()],
        _ => vec![callsite.target_or_module().to_owned(), callsite.module.clone()],
    }
}
