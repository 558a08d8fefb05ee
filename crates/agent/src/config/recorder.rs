//! Flight recorders, and the levels that processes begin with.

use super::limits::{
    LEVEL_RULES_MAX, MODULE_BYTES_MAX, RECORDER_BEFORE, RECORDER_BYTES, RULES_BYTES_MAX, TRIGGERS_MAX,
};
use super::route::{MODULE, SINKS, module_covers, read_module};
use super::{Process, ProcessSelector};
use logdrive_drain::control::{
    Action, DirectiveError, Rule, Selector, describe_rule, describe_selector, read_action_directive,
    read_selector, selects,
};
use logdrive_drain::schema::{FILE, Kind, Row, Setting, Value, Wrong, quoted};
use logdrive_drain::{is_below, options};
use logdrive_wire::{Callsite, Level};
use std::time::Duration;

options! {
    /// Flight recorder: keeps records that no sink takes in memory, in binary, until something happens; then those of the
    /// last time are written.
    ///
    /// ```
    /// use logdrive_agent::config::Recorder;
    /// let recorder = Recorder::new();
    /// assert_eq!(recorder.keep_bytes, 64 << 20);
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Recorder {
        /// The module or target of the log statement, with all that is below it: net means net::quic too, but not network.
        pub module: Option<String> => Row::of(Kind::Parsed(MODULE)).unset("any module", "\"net::quic\"").scope(FILE)
            => [|recorder| recorder.module.to_value(), |recorder, value| read_module(&mut recorder.module, value)],
        /// The lowest level that is kept.
        pub level: Level => Row::of(Kind::Level).scope(FILE),
        /// Memory for each process; the oldest records make room for new ones. 64 MiB are about a million records.
        pub keep_bytes: u64 => Row::of(Kind::Size(RECORDER_BYTES)).scope(FILE),
        /// Time that a dump goes back; what is older is left out, and given up.
        pub before: Duration => Row::of(Kind::Time(RECORDER_BEFORE)).scope(FILE),
        /// A record of this level or above has what is kept written.
        pub on_level: Option<Level> => Row::of(Kind::Level).off().scope(FILE),
        /// So does a record of one of these log statements, by file and line; a file or a module means all in it.
        pub on_callsites: Vec<Selector> => Row::of(Kind::List {
                most: TRIGGERS_MAX,
                bytes: MODULE_BYTES_MAX,
                is_names: false,
                allowed: "places in the source, such as [\"net.rs:42\"]; also files and modules",
            })
            .unset("none", "[\"net.rs:42\"]")
            .scope(FILE)
            => [shown_callsites, |recorder, value| read_callsites(&mut recorder.on_callsites, value)],
        /// So does the end of the process by a signal.
        pub on_crash: bool => Row::of(Kind::Flag).scope(FILE),
        /// The sinks that it is written to, whatever their level.
        pub sinks: Vec<String> => Row::of(SINKS)
            .unset("where the routes send fatal records of the same module", "[\"main\"]")
            .scope(FILE),
    }
    and {
        /// Processes whose records are kept.
        pub processes: ProcessSelector,
    }
    before { processes }
}

/// Places of callsites, for people.
fn shown_callsites(recorder: &Recorder) -> Option<Value> {
    let places: Vec<String> = recorder.on_callsites.iter().map(describe_selector).collect();
    places.to_value()
}

/// Reads places of callsites, which are the same in every run.
fn read_callsites(all: &mut Vec<Selector>, value: Value) -> Result<(), Wrong> {
    let Value::Names(places) = value else {
        return Err(Wrong::new("expected places"));
    };
    let mut read = Vec::new();
    for (text, span) in &places {
        let selector = read_selector(text).map_err(|error| Wrong::new(error.to_string()).at(span))?;
        if matches!(selector, Selector::Callsite(_) | Selector::All) {
            return Err(Wrong::new(format!("{} is no place", quoted(text)))
                .help(NUMBERS)
                .at(span));
        }
        read.push(selector);
    }
    *all = read;
    Ok(())
}

const NUMBERS: &str = "numbers of callsites are others in each run: write file and line";

impl Recorder {
    /// For every process, with the defaults.
    pub fn new() -> Self {
        Self {
            processes: ProcessSelector::anyone(),
            module: None,
            level: Level::Trace,
            keep_bytes: 64 << 20,
            on_level: Some(Level::Error),
            on_callsites: Vec::new(),
            on_crash: true,
            before: Duration::from_secs(30),
            sinks: Vec::new(),
        }
    }

    /// Returns whether it keeps records of a process with this target.
    pub fn matches(&self, process: &Process<'_>, target: &str) -> bool {
        let in_module = self
            .module
            .as_deref()
            .is_none_or(|module| is_below(target, module));
        in_module && self.processes.matches(process)
    }

    /// Returns whether a record of a callsite has what is kept written. The answer holds for all its records.
    pub fn is_triggered_by(&self, id: u32, callsite: &Callsite) -> bool {
        self.on_level.is_some_and(|from| callsite.level >= from)
            || self
                .on_callsites
                .iter()
                .any(|selector| selects(selector, id, callsite))
    }

    /// Returns whether all that `other` matches is matched here too, as far as can be seen. See
    /// [`ProcessSelector::covers`].
    pub fn covers(&self, other: &Recorder) -> bool {
        module_covers(self.module.as_deref(), other.module.as_deref())
            && self.processes.covers(&other.processes)
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

options! {
    /// Levels that processes begin with, until somebody changes them.
    ///
    /// ```
    /// use logdrive_agent::config::{LevelRule, ProcessSelector};
    /// let rule = LevelRule::new(ProcessSelector::anyone(), "info,net::quic=trace")?;
    /// assert_eq!(rule.rules.len(), 2);
    /// # Ok::<(), logdrive_drain::control::DirectiveError>(())
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LevelRule {
        /// A level for all, then levels for modules, files (net.rs) or lines (net.rs:42); the narrowest counts.
        pub rules: Vec<(Action, Selector)> => Row::of(Kind::Parsed(
                "levels and SELECTOR=LEVEL between commas, such as \"info,net::quic=trace\"",
            ))
            .required("\"info,net::quic=trace\"")
            .scope(FILE)
            => [shown_rules, read_rules],
    }
    and {
        /// The processes.
        pub processes: ProcessSelector,
    }
    before { processes }
}

/// Directives, for people.
fn shown_rules(rule: &LevelRule) -> Option<Value> {
    let rules = rule.rules.iter();
    let rules = rules.map(|(action, selector)| {
        describe_rule(&Rule {
            made_unix_ns: 0,
            until_unix_ns: 0,
            action: action.clone(),
            selector: selector.clone(),
        })
    });
    Some(Value::Text(rules.collect::<Vec<_>>().join(", ")))
}

/// Reads directives that are the same in every run.
fn read_rules(rule: &mut LevelRule, value: Value) -> Result<(), Wrong> {
    let text = String::from_value(value)?;
    if text.len() > RULES_BYTES_MAX {
        return Err(Wrong::new(format!("this has more than {RULES_BYTES_MAX} bytes")));
    }
    let read = LevelRule::new(ProcessSelector::anyone(), &text);
    let rules = read.map_err(|error| Wrong::new(error.to_string()))?.rules;
    if rules.is_empty() {
        return Err(Wrong::new(format!("{} says nothing", quoted(&text))));
    }
    if rules.len() > LEVEL_RULES_MAX {
        return Err(Wrong::new(format!(
            "there are more than {LEVEL_RULES_MAX} levels"
        )));
    }
    if rules
        .iter()
        .any(|(_, selector)| matches!(selector, Selector::Callsite(_)))
    {
        let found = format!("{} names a callsite by its number", quoted(&text));
        return Err(Wrong::new(found).help(NUMBERS));
    }
    rule.rules = rules;
    Ok(())
}

impl LevelRule {
    /// Reads directives between commas.
    ///
    /// # Errors
    /// With the first directive that cannot be read.
    pub fn new(processes: ProcessSelector, directives: &str) -> Result<Self, DirectiveError> {
        let directives = directives.split(',').map(str::trim);
        let rules = directives
            .filter(|directive| !directive.is_empty())
            .map(read_action_directive);
        Ok(Self {
            processes,
            rules: rules.collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callsite(level: Level, line: u32) -> Callsite {
        Callsite {
            level,
            line,
            file: "src/net.rs".into(),
            ..logdrive_drain::gap_callsite()
        }
    }

    #[test]
    fn a_recorder_is_triggered_by_level_or_place() {
        let mut recorder = Recorder::new();
        recorder.on_callsites = vec![Selector::Line("net.rs".into(), 42)];
        assert!(recorder.is_triggered_by(1, &callsite(Level::Error, 1)));
        assert!(!recorder.is_triggered_by(1, &callsite(Level::Warn, 41)));
        assert!(recorder.is_triggered_by(1, &callsite(Level::Trace, 42)));
        recorder.on_level = None;
        assert!(!recorder.is_triggered_by(1, &callsite(Level::Fatal, 1)));
    }

    #[test]
    fn a_level_rule_takes_what_the_command_takes() {
        let rule = LevelRule::new(ProcessSelector::anyone(), " info, net.rs:42=off,").expect("directives");
        assert_eq!(
            rule.rules,
            [
                (Action::Level(Some(2)), Selector::All),
                (Action::Level(None), Selector::Line("net.rs".into(), 42))
            ]
        );
        assert!(LevelRule::new(ProcessSelector::anyone(), "info,net=loud").is_err());
    }
}
