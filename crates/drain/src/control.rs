//! Live control: what rules make of callsites, and the way of a change into a running session.
//!
//! The process's own filter gives every callsite a control word, its base. Rules lie on top of it, in the session's
//! file `rules`: they raise or lower levels, mute, or sample, for callsites that exist and for those that come later.
//! A tool changes the rules with [`change`], which stores the new control words itself, so a change holds at once and
//! without the process's help. The process reads the rules when it registers a callsite and when its filter
//! changes; its drain refills budgets and ends rules whose time is over (`maintenance`).
//!
//! **Which rule decides.** A mute goes before everything else. Then the level: of the rules that select the callsite
//! the one with the narrowest selector, which is a callsite's number before a line before a file before the longest
//! module before all; the newest of equals; without any, the base. What is on is then sampled as the narrowest
//! sampling rule says.

pub(crate) mod maintenance;
mod text;

pub use text::{
    DirectiveError, describe_action, describe_rule, describe_selector, read_action_directive, read_selector,
};

use crate::filter::is_below;
use logdrive_ring::clock::unix_ns;
use logdrive_ring::control::{
    ControlEntry, EVERY, KeyField, KeyedLimit, OFF, OFF_COUNTED, ON, PER_KEY, PER_SECOND, Switch, settle,
};
pub use logdrive_ring::rules::{Action, Rule, RulesFile, Selector};
use logdrive_ring::{RingError, SessionReader};
use logdrive_wire::limits::FIELDS_MAX;
use logdrive_wire::{Callsite, Level};
use std::collections::BTreeSet;

/// The field that kept records of a sample carry: one of so many calls was kept.
pub const SAMPLE_FIELD: &str = "sample_every";

/// Returns whether a control word lets no call pass.
pub fn is_off(control: u32) -> bool {
    matches!(control, OFF | OFF_COUNTED)
}

/// Computes the control word that rules give a callsite with this base. `off` is the word for callsites that are off.
pub fn switch_of(
    rules: &[Rule],
    id: u32,
    callsite: &Callsite,
    base: u32,
    off: u32,
    now_unix_ns: u64,
) -> Switch {
    let off = Switch::plain(if off == OFF_COUNTED { OFF_COUNTED } else { OFF });
    let rules = rules.iter().filter(|rule| rule.holds(now_unix_ns));
    let allowed = allowed(rules.clone(), id, callsite);
    let mut sample: Option<(Rank, Switch)> = None;
    for rule in rules {
        if let (Some(rank), Some(switch)) = (rank_of(rule, id, callsite), sample_of(&rule.action, callsite)) {
            keep_higher(&mut sample, rank, switch);
        }
    }
    match (allowed.unwrap_or(!is_off(base)), sample) {
        (false, _) if allowed.is_none() => Switch::plain(base),
        (false, _) => off,
        (true, Some((_, switch))) => switch,
        (true, None) if allowed.is_none() => Switch::plain(base),
        (true, None) => Switch::plain(ON),
    }
}

/// Returns whether mutes and levels let a callsite's records through; `None` where they do not say.
fn allowed<'a>(rules: impl Iterator<Item = &'a Rule>, id: u32, callsite: &Callsite) -> Option<bool> {
    let mut level: Option<(Rank, Option<u8>)> = None;
    for rule in rules {
        match rule.action {
            Action::Mute if selects(&rule.selector, id, callsite) => return Some(false),
            Action::Level(lowest) => {
                if let Some(rank) = rank_of(rule, id, callsite) {
                    keep_higher(&mut level, rank, lowest);
                }
            }
            _ => {}
        }
    }
    let (_, lowest) = level?;
    Some(lowest.is_some_and(|lowest| callsite.level.code() >= lowest))
}

/// Rank of a rule: the narrowness of its selector, then its age.
type Rank = (u8, usize, u64);

fn keep_higher<T>(best: &mut Option<(Rank, T)>, rank: Rank, found: T) {
    if best.as_ref().is_none_or(|(before, _)| *before < rank) {
        *best = Some((rank, found));
    }
}

/// `None` for a callsite that the rule is not about.
fn rank_of(rule: &Rule, id: u32, callsite: &Callsite) -> Option<Rank> {
    let (kind, length) = match &rule.selector {
        Selector::All => (0, 0),
        Selector::Module(name) => (1, name.len()),
        Selector::File(name) => (2, name.len()),
        Selector::Line(name, _) => (3, name.len()),
        Selector::Callsite(_) => (4, 0),
    };
    selects(&rule.selector, id, callsite).then_some((kind, length, rule.made_unix_ns))
}

/// Returns whether a selector means a callsite. A module means its target and its module path, and what is below
/// either.
pub fn selects(selector: &Selector, id: u32, callsite: &Callsite) -> bool {
    match selector {
        Selector::All => true,
        Selector::Module(name) => {
            is_below(callsite.target_or_module(), name) || is_below(&callsite.module, name)
        }
        Selector::File(name) => is_file(&callsite.file, name),
        Selector::Line(name, line) => *line == callsite.line && is_file(&callsite.file, name),
        Selector::Callsite(number) => *number == id,
    }
}

/// Returns whether a path is the given one or ends with it.
fn is_file(path: &str, end: &str) -> bool {
    let front = path.strip_suffix(end);
    !end.is_empty() && front.is_some_and(|front| front.is_empty() || front.ends_with(['/', '\\']))
}

/// `None` where the rule does not make sense for the callsite: its key is a field that no record can have.
fn sample_of(action: &Action, callsite: &Callsite) -> Option<Switch> {
    let (control, parameter) = match action {
        Action::Level(_) | Action::Mute => return None,
        Action::Every(0 | 1) => return Some(Switch::plain(ON)),
        Action::Every(calls) => (EVERY, u64::from(*calls)),
        Action::PerSecond(calls) => (PER_SECOND, u64::from(*calls)),
        Action::PerKey { field, per_second } => {
            let key = key_of(callsite, field)?;
            let per_second = *per_second;
            (PER_KEY, KeyedLimit { per_second, key }.to_parameter())
        }
    };
    Some(Switch { control, parameter })
}

/// Returns whether records of a callsite may have such a field, by whose values they can be sampled.
pub fn can_be_key(callsite: &Callsite, field: &str) -> bool {
    key_of(callsite, field).is_some()
}

/// Key of a field in a callsite's records: its index, or its name if fields are only known at the call.
fn key_of(callsite: &Callsite, field: &str) -> Option<KeyField> {
    let index = callsite.fields.iter().position(|known| known.name == field);
    match index.and_then(|index| u8::try_from(index).ok()) {
        Some(index) => Some(KeyField::Index(index)),
        None if callsite.dynamic && callsite.fields.len() < FIELDS_MAX => Some(KeyedLimit::named(field)),
        None => None,
    }
}

/// Stores the control words that follow from rules, for all callsites. Returns how many were changed.
///
/// The caller holds the lock of the rules, or is the process itself.
///
/// # Errors
/// When the callsites cannot be read.
pub fn apply(session: &SessionReader, rules: &[Rule], now_unix_ns: u64) -> Result<usize, RingError> {
    let in_force = session.rules()?;
    let off = in_force.off_control();
    let table = session.callsites()?;
    let sampled_variants = sampled_variants(&table, |id| session.control(id));
    let mut changed = 0;
    for (id, bytes) in &table {
        let Some(entry) = session
            .control(*id)
            .filter(|_| *id != 0 && !sampled_variants.contains(id))
        else {
            continue;
        };
        let Ok(callsite) = Callsite::decode(bytes) else {
            continue;
        };
        let make = |base| switch_of(rules, *id, &callsite, base, off, now_unix_ns);
        changed += usize::from(settle(entry, || in_force.sequence(), make));
    }
    Ok(changed)
}

/// Numbers of callsites that only stand for kept records of others.
pub fn sampled_variants<'a>(
    table: &[(u32, Vec<u8>)],
    entry: impl Fn(u32) -> Option<&'a ControlEntry>,
) -> BTreeSet<u32> {
    table
        .iter()
        .filter_map(|(id, _)| Some((*id, entry(*id)?.sampled_variant())))
        // A callsite that is its own can have none.
        .filter(|(id, sampled_variant)| *sampled_variant != 0 && sampled_variant != id)
        .map(|(_, sampled_variant)| sampled_variant)
        .collect()
}

/// Result of a change in one session.
#[derive(Debug)]
pub struct Changed {
    /// The rules that hold now.
    pub rules: Vec<Rule>,
    /// Callsites whose control word has changed.
    pub callsites_changed: usize,
    /// Damage of the earlier rules, which were replaced.
    pub damage: Option<RingError>,
}

/// Changes the rules of a session, and with them its callsites: when it returns, the change holds.
///
/// # Errors
/// When another tool changes the same rules for long, they become too many, or the session cannot be read.
pub fn change(session: &SessionReader, edit: impl FnOnce(&mut Vec<Rule>, u64)) -> Result<Changed, RingError> {
    let file = session.rules()?;
    let lock = file.lock()?;
    let now_unix_ns = unix_ns();
    let (mut rules, damage) = match file.read() {
        Ok((_, rules)) => (rules, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    rules.retain(|rule| rule.holds(now_unix_ns));
    edit(&mut rules, now_unix_ns);
    lock.replace(&rules)?;
    let callsites_changed = apply(session, &rules, now_unix_ns)?;
    Ok(Changed {
        rules,
        callsites_changed,
        damage,
    })
}

/// Adds a rule, in place of one of the same kind for the same callsites. `for_ns` is how long it holds; 0 for ever.
pub fn put_rule(rules: &mut Vec<Rule>, action: Action, selector: Selector, for_ns: u64, now_unix_ns: u64) {
    rules.retain(|rule| rule.selector != selector || kind_of(&rule.action) != kind_of(&action));
    let newest = rules.iter().map(|rule| rule.made_unix_ns).max().unwrap_or(0);
    rules.push(Rule {
        made_unix_ns: now_unix_ns.max(newest.saturating_add(1)),
        until_unix_ns: match for_ns {
            0 => 0,
            _ => now_unix_ns.saturating_add(for_ns),
        },
        action,
        selector,
    });
}

/// Rules of one kind take each other's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleKind {
    /// Levels.
    Level,
    /// Mutes.
    Mute,
    /// Sampling of any sort.
    Sample,
}

/// The kind of a rule.
pub fn kind_of(action: &Action) -> RuleKind {
    match action {
        Action::Level(_) => RuleKind::Level,
        Action::Mute => RuleKind::Mute,
        Action::Every(_) | Action::PerSecond(_) | Action::PerKey { .. } => RuleKind::Sample,
    }
}

/// Returns whether rules allow records of a target and level, of whose callsite no more is known; `None` where they do
/// not say.
pub fn allowed_by_rules(rules: &[Rule], target: &str, level: Level, now_unix_ns: u64) -> Option<bool> {
    let callsite = Callsite {
        level,
        module: target.to_owned(),
        ..Callsite::default()
    };
    // No callsite has this number, so no rule for one means it.
    let rules = rules.iter().filter(|rule| rule.holds(now_unix_ns));
    allowed(rules, u32::MAX, &callsite)
}

#[cfg(test)]
mod tests;
