//! Live control of sessions: which processes are meant, the change of their rules, and what is said about it.

use crate::control_args::LiveArgs;
use crate::error::CliError;
use crate::output::{Output, note, put_json, safe};

use crate::session_finder::{Located, SessionFinder, absolute};
use crate::suggestion::most_similar;
use logdrive_agent::AgentError;
use logdrive_drain::control::{
    Action, Rule, Selector, change, describe_rule, describe_selector, put_rule, sampled_variants, selects,
};
use logdrive_ring::SessionReader;
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
    pub(crate) at: Located,
    pub(crate) session: SessionReader,
}

impl Live {
    /// `shop (process 4711)`
    pub(crate) fn title(&self) -> String {
        format!("{} (process {})", self.app, self.pid)
    }

    /// The callsites that the program's own statements are, with their numbers.
    pub(crate) fn callsites(&self) -> Result<Vec<(u32, Callsite)>, CliError> {
        let table = self.session.callsites().map_err(|cause| self.cannot(cause))?;
        let sampled_variants = sampled_variants(&table, |id| self.session.control(id));
        Ok(table
            .iter()
            .filter(|(id, _)| *id != 0 && !sampled_variants.contains(id))
            .filter_map(|(id, bytes)| Some((*id, Callsite::decode(bytes).ok()?)))
            .collect())
    }

    pub(crate) fn cannot(&self, cause: impl Into<AgentError>) -> CliError {
        CliError::Control {
            app: self.app.clone(),
            pid: self.pid,
            cause: cause.into(),
        }
    }
}

/// Returns the live processes that the arguments name, however long that takes.
pub(crate) fn live_sessions(args: &LiveArgs) -> Result<Vec<Live>, CliError> {
    let (search, mut live) = Search::start(args)?;
    live.extend(search.rest()?);
    Ok(live)
}

/// A search for live processes: those that are found at once come first, so that no one waits for an agent that is slow and
/// perhaps has nothing to do with it.
struct Search<'a> {
    name: &'a str,
    finder: SessionFinder,
    /// Whether a process was found.
    has_found: bool,
    /// Nobody else can be meant.
    is_over: bool,
    dead: Option<FoundProcess>,
    others: Vec<FoundProcess>,
}

impl<'a> Search<'a> {
    /// Begins; with those that are found at once.
    fn start(args: &'a LiveArgs) -> Result<(Self, Vec<Live>), CliError> {
        let mut search = Self {
            name: &args.name,
            finder: SessionFinder::of(&args.run_dir, &args.agent)?,
            has_found: false,
            is_over: false,
            dead: None,
            others: Vec::new(),
        };
        let found = match search.path() {
            None => search.finder.find_in_a_hurry()?,
            Some(path) => {
                search.finder.look_at(path);
                let found = search.finder.find_path(path).into_iter();
                let found: Vec<Located> = found.filter(|at| is_same(&at.path, path)).collect();
                search.is_over = found.iter().any(Located::is_alive);
                match search.is_over {
                    true => found,
                    false => search.finder.find_in_a_hurry()?,
                }
            }
        };
        let live = search.pick(found)?;
        Ok((search, live))
    }

    /// The others, when those that were slow have answered.
    ///
    /// # Errors
    /// Also when nobody is meant, neither now nor before.
    fn rest(mut self) -> Result<Vec<Live>, CliError> {
        if self.is_over {
            return Ok(Vec::new());
        }
        let found = self.finder.find_late()?;
        let live = self.pick(found)?;
        if self.has_found {
            // It may have others who are meant.
            self.finder.late().iter().for_each(note);
            return Ok(live);
        }
        self.others.retain(|process| process.at.is_alive());
        Err(no_running_process(
            self.name,
            self.dead,
            &self.others,
            &self.finder,
        ))
    }

    fn path(&self) -> Option<&'a Path> {
        self.name.contains('/').then(|| Path::new(self.name))
    }

    /// Opens those who are meant and live, and remembers the others.
    fn pick(&mut self, found: Vec<Located>) -> Result<Vec<Live>, CliError> {
        let mut live = Vec::new();
        for at in found {
            // One that cannot be read, or has just gone, is nobody's.
            let Some((app, pid)) = self.finder.owner_of(&at) else {
                continue;
            };
            let is_named = match self.path() {
                Some(path) => is_same(&at.path, path),
                None => at.is_named(self.name, &app, pid),
            };
            let process = FoundProcess { at, app, pid };
            match (is_named, process.at.is_alive()) {
                (true, true) => live.push(open(process, &mut self.finder)?),
                (true, false) => self.dead = self.dead.take().or(Some(process)),
                _ => self.others.push(process),
            }
        }
        self.has_found |= !live.is_empty();
        Ok(live)
    }
}

/// A process with a session, before that is opened.
#[derive(Debug, Clone)]
struct FoundProcess {
    at: Located,
    app: String,
    pid: u32,
}

/// Whether two paths lead to the same session, one of them perhaps with a slash or a dot more.
fn is_same(found: &Path, named: &Path) -> bool {
    absolute(found) == absolute(named)
        || (found.file_name() == named.file_name()
            && matches!((found.canonicalize(), named.canonicalize()), (Ok(found), Ok(named)) if found == named))
}

fn open(process: FoundProcess, finder: &mut SessionFinder) -> Result<Live, CliError> {
    let FoundProcess { at, app, pid } = process;
    let opened = finder.view(&at).and_then(|session| {
        // A session of a version that had no live control has no rules.
        session.rules()?;
        Ok(session)
    });
    match opened {
        Ok(session) => Ok(Live {
            app,
            pid,
            path: at.path.clone(),
            at,
            session,
        }),
        Err(cause) => Err(CliError::Control { app, pid, cause }),
    }
}

/// Nobody who lives is meant; tells who lives.
fn no_running_process(
    name: &str,
    dead: Option<FoundProcess>,
    alive: &[FoundProcess],
    finder: &SessionFinder,
) -> CliError {
    let apps: Vec<&str> = alive.iter().map(|process| process.app.as_str()).collect();
    let mut hint = if let Some(FoundProcess { app, pid, .. }) = dead {
        format!(": {app} (process {pid}) is dead; `logdrive recover` brings what it had logged into its log")
    } else if alive.is_empty() {
        let places = finder.text();
        format!(
            ": no program of this user logs with Logdrive in {places}; --run-dir and --agent name other places to look"
        )
    } else {
        let names: Vec<String> = alive
            .iter()
            .take(NAMES_SHOWN_MAX)
            .map(|process| format!("{} ({})", process.app, process.pid))
            .collect();
        let more = if alive.len() > names.len() { ", ..." } else { "" };
        let meant = most_similar(name, apps).map_or(String::new(), |app| format!("; did you mean {app}?"));
        format!(": alive are {}{more}{meant}", names.join(", "))
    };
    for silence in finder.silences() {
        hint.push_str(&format!("; {silence}"));
    }
    CliError::NoRunningProcess {
        name: safe(name),
        hint,
    }
}

/// Processes that an error lists.
const NAMES_SHOWN_MAX: usize = 10;

/// Outcome of a change of rules in one process, as JSON.
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
            made: logdrive_reader::iso_text(rule.made_unix_ns),
            until: (rule.until_unix_ns != 0).then(|| logdrive_reader::iso_text(rule.until_unix_ns)),
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

    /// Whether it names a statement by its number.
    fn has_number(&self) -> bool {
        let mut selectors = self.selectors().into_iter();
        selectors.any(|selector| matches!(selector, Selector::Callsite(_)))
    }

    /// Number of rules that were removed.
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
                let kind = logdrive_drain::control::kind_of(action);
                rules.retain(|rule| {
                    logdrive_drain::control::kind_of(&rule.action) != kind
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

/// Looks at a process before anything is changed.
type Check<'a> = dyn Fn(&Live) -> Result<(), CliError> + 'a;

/// Changes the rules of all processes that process means, and says what that did: of each as soon as it is found. What has
/// to be looked at in all of them is, by `check`, before any is changed. `false` when there was nothing to remove.
pub(crate) fn change_all(
    args: &LiveArgs,
    edit: &Edit<'_>,
    json: bool,
    check: Option<&Check<'_>>,
) -> Result<bool, CliError> {
    let (search, mut live) = Search::start(args)?;
    let mut changes = Changes {
        edit,
        json,
        output: Output::stdout()?,
        processes: 0,
        changed: 0,
        removed: 0,
    };
    if check.is_some() || edit.has_number() {
        live.extend(search.rest()?);
        refuse_numbers_of_many(&live, edit)?;
        if let Some(check) = check {
            live.iter().try_for_each(check)?;
        }
        live.iter().try_for_each(|session| changes.make(session))?;
    } else {
        live.iter().try_for_each(|session| changes.make(session))?;
        search
            .rest()?
            .iter()
            .try_for_each(|session| changes.make(session))?;
    }
    changes.end()
}

/// A change that is made to one process after the other.
struct Changes<'a> {
    edit: &'a Edit<'a>,
    json: bool,
    output: Output,
    processes: usize,
    changed: usize,
    removed: usize,
}

impl Changes<'_> {
    fn make(&mut self, session: &Live) -> Result<(), CliError> {
        let mut removed = 0;
        let edit_rules = |rules: &mut Vec<Rule>, now| removed = self.edit.make(rules, now);
        let changed = change(&session.session, edit_rules).map_err(|cause| session.cannot(cause))?;
        if let Some(damage) = changed.damage {
            note(format!(
                "{}: the rules before this were damaged and are gone: {damage}",
                session.title()
            ));
        }
        self.processes += 1;
        self.changed += changed.callsites_changed;
        self.removed += removed;
        let selected = selected(session, self.edit)?;
        if self.json {
            return put_json(
                &mut self.output,
                &Line {
                    app: &session.app,
                    pid: session.pid,
                    path: &session.path,
                    rules: changed.rules.iter().map(RuleLine::of).collect(),
                    callsites_selected: selected.len(),
                    callsites_changed: changed.callsites_changed,
                },
            );
        }
        let what = what_was_done(self.edit, removed);
        let count = count_of(changed.callsites_changed, "callsite");
        writeln!(self.output, "{}: {what}; {count} changed", session.title())?;
        self.output.flush()?;
        report_no_match(session, self.edit, &selected)
    }

    fn end(mut self) -> Result<bool, CliError> {
        self.output.flush()?;
        if self.processes > 1 && !self.json {
            note(format!(
                "{} changed in {} processes",
                count_of(self.changed, "callsite"),
                self.processes
            ));
        }
        Ok(matches!(self.edit, Edit::Set(..) | Edit::Reset) || self.removed > 0)
    }
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
fn report_no_match(session: &Live, edit: &Edit<'_>, selected: &[(u32, Callsite)]) -> Result<(), CliError> {
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
        note(format!(
            "{}: nothing of {text} has been called so far, the rule waits for it{hint}",
            session.title()
        ));
    }
    Ok(())
}

/// Returns names that may have been meant by a selector of this kind.
fn names_of(selector: &Selector, callsite: &Callsite) -> Vec<String> {
    let file = callsite.file.rsplit('/').next().unwrap_or("");
    match selector {
        Selector::Line(..) => vec![format!("{file}:{}", callsite.line)],
        Selector::File(_) => vec![file.to_owned()],
        _ => vec![callsite.target_or_module().to_owned(), callsite.module.clone()],
    }
}
