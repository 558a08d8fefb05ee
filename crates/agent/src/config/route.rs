//! Routes: which records go to which sinks.

use super::limits::{MODULE_BYTES_MAX, SINKS_MAX};
use super::{Process, ProcessSelector, SinkConfig};
use logdrive_drain::schema::{FILE, Kind, Row, Setting, Value, Wrong, quoted};
use logdrive_drain::{is_below, options};
use logdrive_wire::Level;

options! {
/// Sends the records that match to sinks. Routes are tried in their order, and the first that matches decides, unless
/// it goes on.
///
/// ```
/// use logdrive_agent::config::{Process, Route, SinkConfig};
/// use logdrive_wire::Level;
///
/// let mut route = Route::to_all(&[SinkConfig::file("errors", "/var/log/logdrive/errors.log")]);
/// route.level = Level::Error;
/// let process = Process { app: "shop", pid: 417, uid: 1000 };
/// assert!(!route.matches(&process, "shop::orders", Level::Info));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The module or target of the log statement, with all that is below it: net means net::quic too, but not network.
    pub module: Option<String> => Row::of(Kind::Parsed(MODULE)).unset("any module", "\"net::quic\"").scope(FILE)
        => [|route| route.module.to_value(), |route, value| read_module(&mut route.module, value)],
    /// Records of this level and above.
    pub level: Level => Row::of(Kind::Level).scope(FILE),
    /// The names of the sinks they go to.
    pub sinks: Vec<String> => Row::of(SINKS).required("[\"main\"]").scope(FILE),
    /// Try the routes behind too, so that this one only adds sinks: for errors that go to a file of their own as well.
    pub goes_on: bool => Row::of(Kind::Flag).named("continue").scope(FILE),
}
and {
    /// Processes whose records match.
    pub processes: ProcessSelector,
}
before { processes } }

/// Description of a module.
pub(super) const MODULE: &str = "a module or target such as \"net::quic\"";

/// Names of sinks.
pub(super) const SINKS: Kind = Kind::List {
    most: SINKS_MAX,
    bytes: 0,
    is_names: true,
    allowed: "names of sinks, such as [\"main\"]",
};

/// Reads a module, which means all below it as well.
pub(super) fn read_module(module: &mut Option<String>, value: Value) -> Result<(), Wrong> {
    let text = String::from_value(value)?;
    if text.len() > MODULE_BYTES_MAX {
        return Err(Wrong::new(format!("this has more than {MODULE_BYTES_MAX} bytes")));
    }
    if text.contains('*') {
        return Err(Wrong::new(format!("{} has a * in it", quoted(&text)))
            .help("a module means all that is below it as well: leave the * out"));
    }
    *module = Some(text);
    Ok(())
}

impl Route {
    /// The route that sends everything to these sinks.
    pub fn to_all(sinks: &[SinkConfig]) -> Self {
        Self {
            processes: ProcessSelector::anyone(),
            module: None,
            level: Level::Trace,
            sinks: sinks.iter().map(|sink| sink.name.clone()).collect(),
            goes_on: false,
        }
    }

    /// Returns whether a record matches.
    pub fn matches(&self, process: &Process<'_>, target: &str, level: Level) -> bool {
        let in_module = self
            .module
            .as_deref()
            .is_none_or(|module| is_below(target, module));
        level >= self.level && in_module && self.processes.matches(process)
    }

    /// Returns whether it matches every record.
    pub fn takes_all(&self) -> bool {
        self.covers(&Self::to_all(&[]))
    }

    /// Returns whether every record that `other` matches is matched here too, as far as can be seen. See
    /// [`ProcessSelector::covers`].
    pub fn covers(&self, other: &Route) -> bool {
        self.level <= other.level
            && module_covers(self.module.as_deref(), other.module.as_deref())
            && self.processes.covers(&other.processes)
    }
}

/// Returns whether a module has in it all that another one has.
pub(super) fn module_covers(own: Option<&str>, other: Option<&str>) -> bool {
    match (own, other) {
        (None, _) => true,
        (Some(own), Some(other)) => is_below(other, own),
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_route_covers_a_narrower_one() {
        let all = Route::to_all(&[]);
        let mut net = all.clone();
        net.module = Some("net".into());
        let mut quic_errors = net.clone();
        quic_errors.module = Some("net::quic".into());
        quic_errors.level = Level::Error;
        assert!(all.takes_all() && !net.takes_all());
        assert!(all.covers(&net) && net.covers(&quic_errors));
        assert!(!quic_errors.covers(&net) && !net.covers(&all));
        quic_errors.module = Some("network".into());
        assert!(!net.covers(&quic_errors));
    }
}
