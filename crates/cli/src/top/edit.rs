//! Changes of rules that keys make: what they are, how they are told, and how they are made in a session.

use crate::instant::age_text;
use logdrive_drain::control::{
    Action, Rule, RuleKind, Selector, change, describe_action, describe_selector, kind_of, put_rule,
};
use logdrive_ring::{RingError, SessionReader};

/// Scope of a level that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Process,
    Module,
    Site,
}

/// A change of the rules of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// Which session.
    pub(super) key: String,
    pub(super) edit: Edit,
    /// Nanoseconds for which it holds; 0 for ever.
    pub(super) for_ns: u64,
}

/// Kind of the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    Set(Action, Selector),
    /// The rule of one kind for these callsites goes.
    Remove(RuleKind, Selector),
    /// All rules for exactly these callsites go.
    Clear(Selector),
    /// All rules go.
    Reset,
}

/// Makes a change; what it did, in words.
pub(super) fn make(session: &SessionReader, wanted: &Change) -> Result<String, RingError> {
    let mut removed = 0;
    let changed = change(session, |rules, now_unix_ns| {
        removed = apply(&wanted.edit, wanted.for_ns, rules, now_unix_ns);
    })?;
    let count = changed.callsites_changed;
    let plural = if count == 1 { "" } else { "s" };
    Ok(format!(
        "{}; {count} callsite{plural} changed",
        told(wanted, removed)
    ))
}

/// Number of rules that were removed.
fn apply(edit: &Edit, for_ns: u64, rules: &mut Vec<Rule>, now_unix_ns: u64) -> usize {
    let before = rules.len();
    match edit {
        Edit::Set(action, selector) => {
            put_rule(rules, action.clone(), selector.clone(), for_ns, now_unix_ns);
            return 0;
        }
        Edit::Remove(kind, selector) => {
            rules.retain(|rule| kind_of(&rule.action) != *kind || rule.selector != *selector);
        }
        Edit::Clear(selector) => rules.retain(|rule| rule.selector != *selector),
        Edit::Reset => rules.clear(),
    }
    before - rules.len()
}

fn told(wanted: &Change, removed: usize) -> String {
    let rules = match removed {
        0 => "there was no such rule".to_owned(),
        1 => "1 rule removed".to_owned(),
        count => format!("{count} rules removed"),
    };
    match &wanted.edit {
        Edit::Set(action, selector) => {
            let span = match wanted.for_ns {
                0 => String::new(),
                ns => format!(" for {}", age_text(ns / 1_000_000_000)),
            };
            format!(
                "{}: {}{span}",
                describe_selector(selector),
                describe_action(action)
            )
        }
        Edit::Remove(_, selector) | Edit::Clear(selector) => {
            format!("{}: {rules}", describe_selector(selector))
        }
        Edit::Reset => rules,
    }
}

/// Reads how to sample: `1000` keeps one of 1000, `100/s` so many a second, `10/s peer` so many a second for each value
/// of a field. `None` for nothing: all are kept again.
pub(super) fn read_sample(text: &str) -> Result<Option<Action>, &'static str> {
    const EXPECTED: &str = "write 1000 for one of 1000, 100/s, 10/s FIELD, or nothing to keep all";
    let mut words = text.split_whitespace();
    let Some(number) = words.next() else {
        return Ok(None);
    };
    let field = words.next();
    if words.next().is_some() {
        return Err(EXPECTED);
    }
    let per_second = number.strip_suffix("/s").map(str::parse::<u32>);
    let action = match (per_second, field) {
        (Some(Ok(per_second)), None) => Action::PerSecond(per_second),
        (Some(Ok(per_second)), Some(field)) => Action::PerKey {
            field: field.to_owned(),
            per_second,
        },
        (None, None) => match number.parse() {
            Ok(every @ 1..) => Action::Every(every),
            _ => return Err(EXPECTED),
        },
        _ => return Err(EXPECTED),
    };
    Ok(Some(action))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_sample_are_read_as_they_are_written() {
        assert_eq!(read_sample(" 1000 "), Ok(Some(Action::Every(1000))));
        assert_eq!(read_sample("100/s"), Ok(Some(Action::PerSecond(100))));
        let keyed = Action::PerKey {
            field: "peer".to_owned(),
            per_second: 10,
        };
        assert_eq!(read_sample("10/s peer"), Ok(Some(keyed)));
        assert_eq!(read_sample("  "), Ok(None));
        for wrong in ["0", "-1", "x", "10/m", "1000 peer", "10/s a b", "99999999999"] {
            assert!(read_sample(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rules_are_set_removed_and_told() {
        let mut rules = Vec::new();
        let site = Selector::Callsite(7);
        let change = |edit, for_ns| Change {
            key: String::new(),
            edit,
            for_ns,
        };
        let set = change(Edit::Set(Action::Level(None), site.clone()), 600_000_000_000);
        apply(&set.edit, set.for_ns, &mut rules, 1);
        assert_eq!(rules[0].until_unix_ns, 600_000_000_001);
        assert_eq!(told(&set, 0), "id:7: off for 10 min");
        apply(&Edit::Set(Action::Mute, site.clone()), 0, &mut rules, 2);
        apply(&Edit::Set(Action::Mute, Selector::All), 0, &mut rules, 3);
        assert_eq!(
            apply(&Edit::Remove(RuleKind::Mute, site.clone()), 0, &mut rules, 4),
            1
        );
        assert_eq!(apply(&Edit::Clear(site.clone()), 0, &mut rules, 4), 1);
        assert_eq!(told(&change(Edit::Clear(site), 0), 1), "id:7: 1 rule removed");
        assert_eq!(apply(&Edit::Reset, 0, &mut rules, 4), 1);
        assert_eq!(told(&change(Edit::Reset, 0), 0), "there was no such rule");
    }
}
