//! Flight recorders, and the levels that processes begin with.

use super::route::module_covers;
use super::{Process, Who};
use logdrive_drain::control::{Action, DirectiveError, Selector, read_action_directive, selects};
use logdrive_drain::is_below;
use logdrive_wire::{Callsite, Level};
use std::time::Duration;

/// Keeps records that no sink takes in memory, in binary, until something happens; then those of the last time are
/// written.
///
/// ```
/// use logdrive_agent::config::Recorder;
/// let recorder = Recorder::new();
/// assert_eq!(recorder.keep_bytes, 64 << 20);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorder {
    /// Records of these processes,
    pub who: Who,
    /// with this target or module, or below it; `None` for any,
    pub module: Option<String>,
    /// of this level and above, are kept when no sink takes them,
    pub level: Level,
    /// in so many bytes for each process; the oldest make room.
    pub keep_bytes: u64,
    /// A record of this level or above has them written; `None` for none.
    pub on_level: Option<Level>,
    /// So does a record of one of these callsites,
    pub on_callsites: Vec<Selector>,
    /// and the process's end by a signal.
    pub on_crash: bool,
    /// Only what is not older than this is written; what is older is given up.
    pub before: Duration,
    /// Names of the sinks that it is written to, whatever their level. Empty: those that the routes give for fatal
    /// records of the same module.
    pub sinks: Vec<String>,
}

impl Recorder {
    /// For every process, with the defaults.
    pub fn new() -> Self {
        Self {
            who: Who::anyone(),
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

    /// Whether it keeps records of a process with this target.
    pub fn matches(&self, process: &Process<'_>, target: &str) -> bool {
        let in_module = self
            .module
            .as_deref()
            .is_none_or(|module| is_below(target, module));
        in_module && self.who.matches(process)
    }

    /// Whether a record of a callsite has what is kept written. The answer holds for all its records.
    pub fn is_triggered_by(&self, id: u32, callsite: &Callsite) -> bool {
        self.on_level.is_some_and(|from| callsite.level >= from)
            || self
                .on_callsites
                .iter()
                .any(|selector| selects(selector, id, callsite))
    }

    /// Whether all that `other` matches is matched here too, as far as can be seen. See [`Who::covers`].
    pub fn covers(&self, other: &Recorder) -> bool {
        module_covers(self.module.as_deref(), other.module.as_deref()) && self.who.covers(&other.who)
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

/// The levels that processes begin with, until somebody changes them.
///
/// ```
/// use logdrive_agent::config::{LevelRule, Who};
/// let rule = LevelRule::new(Who::anyone(), "info,net::quic=trace")?;
/// assert_eq!(rule.rules.len(), 2);
/// # Ok::<(), logdrive_drain::control::DirectiveError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelRule {
    /// The processes.
    pub who: Who,
    /// What is on, as the command `logdrive level` would set it.
    pub rules: Vec<(Action, Selector)>,
}

impl LevelRule {
    /// Reads directives between commas.
    ///
    /// # Errors
    /// With the first directive that cannot be read.
    pub fn new(who: Who, directives: &str) -> Result<Self, DirectiveError> {
        let directives = directives.split(',').map(str::trim);
        let rules = directives
            .filter(|directive| !directive.is_empty())
            .map(read_action_directive);
        Ok(Self {
            who,
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
        let rule = LevelRule::new(Who::anyone(), " info, net.rs:42=off,").expect("directives");
        assert_eq!(
            rule.rules,
            [
                (Action::Level(Some(2)), Selector::All),
                (Action::Level(None), Selector::Line("net.rs".into(), 42))
            ]
        );
        assert!(LevelRule::new(Who::anyone(), "info,net=loud").is_err());
    }
}
