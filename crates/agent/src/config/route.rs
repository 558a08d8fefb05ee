//! Routes: which records go to which sinks.

use super::{Process, SinkConfig, Who};
use logdrive_drain::is_below;
use logdrive_wire::Level;

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
    /// Records of these processes,
    pub who: Who,
    /// with this target or module, or below it; `None` for any,
    pub module: Option<String>,
    /// of this level and above,
    pub level: Level,
    /// go to the sinks with these names.
    pub sinks: Vec<String>,
    /// Whether the routes behind are tried too.
    pub goes_on: bool,
}

impl Route {
    /// The route that sends everything to these sinks.
    pub fn to_all(sinks: &[SinkConfig]) -> Self {
        Self {
            who: Who::anyone(),
            module: None,
            level: Level::Trace,
            sinks: sinks.iter().map(|sink| sink.name.clone()).collect(),
            goes_on: false,
        }
    }

    /// Whether a record matches.
    pub fn matches(&self, process: &Process<'_>, target: &str, level: Level) -> bool {
        let in_module = self
            .module
            .as_deref()
            .is_none_or(|module| is_below(target, module));
        level >= self.level && in_module && self.who.matches(process)
    }

    /// Whether it matches every record.
    pub fn takes_all(&self) -> bool {
        self.covers(&Self::to_all(&[]))
    }

    /// Whether every record that `other` matches is matched here too, as far as can be seen. See [`Who::covers`].
    pub fn covers(&self, other: &Route) -> bool {
        self.level <= other.level
            && module_covers(self.module.as_deref(), other.module.as_deref())
            && self.who.covers(&other.who)
    }
}

/// Whether a module has in it all that another one has.
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
