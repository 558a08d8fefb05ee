//! Changes of rules in running processes, and their report.

use crate::control_args::LiveArgs;
use crate::error::CliError;
use crate::instant::age_text;
use crate::live::Search;
use crate::output::{Output, note, put_json};
use crate::suggestion::most_similar;
use crate::table::count_of;
use crate::watched_session::WatchedSession;
use logdrive_drain::control::{
    Action, Changed, Rule, RuleKind, Selector, change, describe_rule, describe_selector, kind_of, put_rule,
    selects,
};
use logdrive_wire::Callsite;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

/// The rules of a process as JSON; after a change with what that did.
#[derive(Debug, Serialize)]
pub(crate) struct RulesLine<'a> {
    app: &'a str,
    pid: u32,
    path: &'a Path,
    rules: Vec<RuleLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callsites_selected: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callsites_changed: Option<usize>,
}

impl<'a> RulesLine<'a> {
    pub(crate) fn new(session: &'a WatchedSession, rules: &[Rule]) -> Self {
        Self {
            app: &session.app,
            pid: session.pid,
            path: &session.at.path,
            rules: rules.iter().map(RuleLine::of).collect(),
            callsites_selected: None,
            callsites_changed: None,
        }
    }
}

/// A rule as JSON.
#[derive(Debug, Serialize)]
struct RuleLine {
    rule: String,
    selector: String,
    made: String,
    until: Option<String>,
}

impl RuleLine {
    fn of(rule: &Rule) -> Self {
        Self {
            rule: describe_rule(rule),
            selector: describe_selector(&rule.selector),
            made: logdrive_reader::iso_text(rule.made_unix_ns),
            until: (rule.until_unix_ns != 0).then(|| logdrive_reader::iso_text(rule.until_unix_ns)),
        }
    }
}

/// A change of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Sets rules, for so many nanoseconds; 0 for ever.
    Set(Vec<(Action, Selector)>, u64),
    /// The rules of one kind for these callsites go.
    Remove(RuleKind, Vec<Selector>),
    /// All rules for exactly these callsites go.
    Clear(Selector),
    /// All rules go.
    Reset,
}

/// Result of a change in one process.
#[derive(Debug)]
pub(crate) struct EditOutcome {
    changed: Changed,
    /// Rules that were removed.
    removed: usize,
    /// The same in words.
    pub(crate) text: String,
}

impl Edit {
    fn selectors(&self) -> Vec<&Selector> {
        match self {
            Self::Set(rules, _) => rules.iter().map(|(_, selector)| selector).collect(),
            Self::Remove(_, selectors) => selectors.iter().collect(),
            Self::Clear(selector) => vec![selector],
            Self::Reset => Vec::new(),
        }
    }

    /// Number of a statement that it names by its number.
    fn number(&self) -> Option<u32> {
        let mut selectors = self.selectors().into_iter();
        selectors.find_map(|selector| match selector {
            Selector::Callsite(id) => Some(*id),
            _ => None,
        })
    }

    /// Makes the change in a session.
    pub(crate) fn make(&self, session: &WatchedSession) -> Result<EditOutcome, CliError> {
        let mut removed = 0;
        let edit_rules = |rules: &mut Vec<Rule>, now_unix_ns| removed = self.apply(rules, now_unix_ns);
        let changed = change(&session.view, edit_rules).map_err(|cause| session.cannot(cause))?;
        let count = count_of(changed.callsites_changed as u64, "callsite");
        Ok(EditOutcome {
            text: format!("{}; {count} changed", self.describe(removed)),
            changed,
            removed,
        })
    }

    /// Number of rules that were removed.
    fn apply(&self, rules: &mut Vec<Rule>, now_unix_ns: u64) -> usize {
        let before = rules.len();
        match self {
            Self::Set(set, for_ns) => {
                for (action, selector) in set {
                    put_rule(rules, action.clone(), selector.clone(), *for_ns, now_unix_ns);
                }
                return 0;
            }
            Self::Remove(kind, selectors) => {
                rules.retain(|rule| kind_of(&rule.action) != *kind || !selectors.contains(&rule.selector));
            }
            Self::Clear(selector) => rules.retain(|rule| rule.selector != *selector),
            Self::Reset => rules.clear(),
        }
        before - rules.len()
    }

    fn describe(&self, removed: usize) -> String {
        match self {
            Self::Set(rules, for_ns) => {
                let rule = |(action, selector): &(Action, Selector)| Rule {
                    made_unix_ns: 0,
                    until_unix_ns: 0,
                    action: action.clone(),
                    selector: selector.clone(),
                };
                let rules: Vec<String> = rules.iter().map(|set| describe_rule(&rule(set))).collect();
                let span = match for_ns {
                    0 => String::new(),
                    ns => format!(" for {}", age_text(ns / 1_000_000_000)),
                };
                format!("{}{span}", rules.join(", "))
            }
            Self::Remove(..) | Self::Clear(_) | Self::Reset => match removed {
                0 => "there was no such rule".to_owned(),
                count => format!("{} removed", count_of(count as u64, "rule")),
            },
        }
    }
}

/// Looks at a process before anything is changed.
type Check<'a> = dyn Fn(&WatchedSession) -> Result<(), CliError> + 'a;

/// Changes the rules of all processes that process means, and says what that did: of each as soon as it is found. What
/// has to be looked at in all of them is, by `check`, before any is changed. `false` when there was nothing to remove.
pub(crate) fn change_all(
    args: &LiveArgs,
    edit: &Edit,
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
    if check.is_some() || edit.number().is_some() {
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
    edit: &'a Edit,
    json: bool,
    output: Output,
    processes: usize,
    changed: usize,
    removed: usize,
}

impl Changes<'_> {
    fn make(&mut self, session: &WatchedSession) -> Result<(), CliError> {
        let EditOutcome {
            changed,
            removed,
            text,
        } = self.edit.make(session)?;
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
            let line = RulesLine {
                callsites_selected: Some(selected.len()),
                callsites_changed: Some(changed.callsites_changed),
                ..RulesLine::new(session, &changed.rules)
            };
            return put_json(&mut self.output, &line);
        }
        writeln!(self.output, "{}: {text}", session.title())?;
        self.output.flush()?;
        report_no_match(session, self.edit, &selected)
    }

    fn end(mut self) -> Result<bool, CliError> {
        self.output.flush()?;
        if self.processes > 1 && !self.json {
            note(format!(
                "{} changed in {} processes",
                count_of(self.changed as u64, "callsite"),
                self.processes
            ));
        }
        Ok(matches!(self.edit, Edit::Set(..) | Edit::Reset) || self.removed > 0)
    }
}

/// A number means another statement in each process.
fn refuse_numbers_of_many(live: &[WatchedSession], edit: &Edit) -> Result<(), CliError> {
    match edit.number() {
        Some(id) if live.len() > 1 => Err(CliError::NumberOfMany {
            id,
            processes: live.len(),
        }),
        _ => Ok(()),
    }
}

/// The callsites that a change is about.
fn selected(session: &WatchedSession, edit: &Edit) -> Result<Vec<(u32, Callsite)>, CliError> {
    let selectors = edit.selectors();
    let is_meant =
        |(id, callsite): &(u32, Callsite)| selectors.iter().any(|selector| selects(selector, *id, callsite));
    let mut callsites = session.callsites()?;
    callsites.retain(is_meant);
    Ok(callsites)
}

/// Notes rules that select no statement that has been called so far: often a mistyped name.
fn report_no_match(
    session: &WatchedSession,
    edit: &Edit,
    selected: &[(u32, Callsite)],
) -> Result<(), CliError> {
    let Edit::Set(rules, _) = edit else {
        return Ok(());
    };
    for (_, selector) in rules {
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
        let names: BTreeSet<String> = names.collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_set_removed_and_told() {
        let mut rules = Vec::new();
        let site = Selector::Callsite(7);
        let set = Edit::Set(vec![(Action::Level(None), site.clone())], 600_000_000_000);
        set.apply(&mut rules, 1);
        assert_eq!(rules[0].until_unix_ns, 600_000_000_001);
        assert_eq!(set.describe(0), "id:7=off for 10 min");
        let mutes = [site.clone(), Selector::All].map(|selector| (Action::Mute, selector));
        Edit::Set(mutes.into(), 0).apply(&mut rules, 2);
        let unmute = Edit::Remove(RuleKind::Mute, vec![site.clone()]);
        assert_eq!(unmute.apply(&mut rules, 4), 1);
        let clear = Edit::Clear(site);
        assert_eq!(clear.apply(&mut rules, 4), 1);
        assert_eq!(clear.describe(1), "1 rule removed");
        assert_eq!(unmute.apply(&mut rules, 4), 0);
        assert_eq!(unmute.describe(0), "there was no such rule");
        assert_eq!(Edit::Reset.apply(&mut rules, 5), 1);
        assert!(rules.is_empty());
    }
}
