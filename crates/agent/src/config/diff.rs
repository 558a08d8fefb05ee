//! Changes of a new configuration, and those of them that have to wait for a restart.

use super::sink::is_live;
use super::{AgentConfig, Metrics, SinkConfig};
use logdrive_drain::schema::{Options, differences};
use std::fmt;

/// One difference between two configurations, see [`AgentConfig::diff`].
///
/// ```
/// use logdrive_agent::config::AgentConfig;
/// let old = AgentConfig::default();
/// let new = AgentConfig { mode: 0o600, ..AgentConfig::default() };
/// let changes = old.diff(&new);
/// assert_eq!(changes[0].to_string(), "agent.mode: 0660 becomes 0600 at the next start");
/// assert!(changes[0].needs_restart());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    text: String,
    needs_restart: bool,
}

impl Change {
    fn at_once(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            needs_restart: false,
        }
    }

    fn at_restart(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            needs_restart: true,
        }
    }

    /// Returns true when it, or a part of it, only holds from the next start on: what is open stays open.
    pub fn needs_restart(&self) -> bool {
        self.needs_restart
    }
}

impl fmt::Display for Change {
    /// One sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl AgentConfig {
    /// Changes that `new` makes: first what needs a restart, then settings, sinks, routes, limits, recorders and levels.
    /// Empty when both say the same. The order of sinks means nothing, that of all else does.
    pub fn diff(&self, new: &Self) -> Vec<Change> {
        let is_live = |key: &str| self.row(key).is_some_and(|row| row.is_live);
        let mut settings = differences(self, new);
        // Changes that need a restart come first.
        settings.sort_by_key(|key| is_live(key));
        let settings = settings.into_iter().map(|key| {
            let (old, new) = (self.shown(key), new.shown(key));
            match is_live(key) {
                true => Change::at_once(format!("agent.{key}: {old} became {new}")),
                false => Change::at_restart(format!("agent.{key}: {old} becomes {new} at the next start")),
            }
        });
        let mut changes: Vec<Change> = settings.collect();
        changes.extend(sink_changes(&self.sinks, &new.sinks));
        let parts = [
            ("the routes changed", self.routes != new.routes),
            ("the limits changed", self.limits != new.limits),
            ("the recorders changed", self.recorders != new.recorders),
            ("the level rules changed", self.levels != new.levels),
        ];
        let parts = parts.into_iter().filter(|(_, differs)| *differs);
        changes.extend(parts.map(|(text, _)| Change::at_once(text)));
        changes
    }

    /// An option of the agent itself as a sentence has it.
    fn shown(&self, key: &str) -> String {
        match (self.row(key), self.value(key)) {
            (Some(row), Some(value)) => row.show(&value).trim_matches('"').to_owned(),
            (Some(row), None) => row.without.to_owned(),
            (None, _) => String::new(),
        }
    }
}

fn sink_changes(old: &[SinkConfig], new: &[SinkConfig]) -> Vec<Change> {
    let find = |sinks: &[SinkConfig], name: &str| sinks.iter().position(|sink| sink.name == name);
    let mut changes = Vec::new();
    for sink in old {
        let name = &sink.name;
        let Some(newer) = find(new, name).and_then(|place| new.get(place)) else {
            changes.push(Change::at_restart(format!("sink {name:?} is gone")));
            continue;
        };
        let keys = sink.changed_keys(newer);
        if !keys.is_empty() {
            let text = format!("sink {name:?} has another {}", keys.join(", "));
            changes.push(match keys.iter().all(|key| is_live(key)) {
                true => Change::at_once(text),
                false => Change::at_restart(text),
            });
        }
    }
    let added = new.iter().filter(|sink| find(old, &sink.name).is_none());
    changes.extend(added.map(|sink| Change::at_once(format!("sink {:?} is new", sink.name))));
    changes
}

impl fmt::Display for Metrics {
    /// As a configuration file has it: `off`, `127.0.0.1:9187`, `unix:/run/logdrive/metrics.sock`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Account, LevelRule, ProcessSelector, Recorder, Route};
    use logdrive_wire::Level;

    fn change(change: impl FnOnce(&mut AgentConfig)) -> Vec<Change> {
        let mut new = AgentConfig::default();
        change(&mut new);
        AgentConfig::default().diff(&new)
    }

    #[test]
    fn nothing_changed_is_no_change() {
        assert!(change(|_| ()).is_empty());
    }

    #[test]
    fn places_that_others_know_need_a_restart() {
        let changes = change(|config| {
            config.socket = "/run/x.sock".into();
            config.group = Some(Account {
                name: "adm".into(),
                id: 4,
            });
            config.mode = 0o600;
            config.run_dir = "/run/x".into();
        });
        assert_eq!(changes.len(), 4, "{changes:?}");
        assert!(changes.iter().all(Change::needs_restart));
        let lines: Vec<String> = changes.iter().map(Change::to_string).collect();
        assert_eq!(
            lines[1],
            "agent.group: the agent's own group becomes adm at the next start"
        );
    }

    #[test]
    fn all_else_changes_while_the_agent_runs() {
        let changes = change(|config| {
            config.metrics = Metrics::Unix("/run/m.sock".into());
            config.connections = 10;
            config.sinks[0].options.min_level = Level::Info;
            config
                .sinks
                .insert(0, SinkConfig::file("errors", "/var/log/errors.log"));
            config.routes.insert(0, Route::to_all(&config.sinks));
            config.limits.process.rings = Some(1);
            config.recorders.push(Recorder::new());
            let rule = LevelRule::new(ProcessSelector::anyone(), "info").expect("a rule");
            config.levels.push(rule);
        });
        assert!(!changes.iter().any(Change::needs_restart));
        let lines: Vec<String> = changes.iter().map(Change::to_string).collect();
        assert_eq!(
            lines,
            [
                "agent.metrics: off became unix:/run/m.sock",
                "agent.connections: 1024 became 10",
                "sink \"main\" has another min_level",
                "sink \"errors\" is new",
                "the routes changed",
                "the limits changed",
                "the recorders changed",
                "the level rules changed",
            ]
        );
    }

    #[test]
    fn a_renamed_sink_is_one_gone_and_one_new_and_their_order_means_nothing() {
        let changes = change(|config| config.sinks[0].name = "other".into());
        let lines: Vec<String> = changes.iter().map(Change::to_string).collect();
        assert_eq!(lines, ["sink \"main\" is gone", "sink \"other\" is new"]);
        assert!(changes[0].needs_restart() && !changes[1].needs_restart());
        let two = |names: [&str; 2]| AgentConfig {
            sinks: names
                .map(|name| SinkConfig::file(name, format!("/{name}")))
                .to_vec(),
            ..AgentConfig::default()
        };
        assert!(two(["a", "b"]).diff(&two(["b", "a"])).is_empty());
    }
}
