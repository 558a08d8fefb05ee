//! Metrics of the agent: its sessions, sinks and connections, as text for Prometheus.

use crate::routing::SharedRouting;
use crate::server::ServerCounts;
use logdrive_drain::{SessionNumbers, Stats, StatsSource, metrics};
use logdrive_ring::HostedSession;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// Source of the metrics; kept up to date by the agent.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    shared: Arc<Mutex<Shared>>,
    own: StatsSource,
    routing: SharedRouting,
}

#[derive(Debug, Default)]
struct Shared {
    sessions: BTreeMap<u64, Arc<HostedSession>>,
    counts: ServerCounts,
}

impl Numbers {
    pub(crate) fn new(own: StatsSource, routing: SharedRouting) -> Self {
        Self {
            shared: Arc::default(),
            own,
            routing,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Shared)) {
        change(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn join(&self, session: &Arc<HostedSession>) {
        self.change(|shared| {
            shared.sessions.insert(session.id(), Arc::clone(session));
        });
    }

    pub(crate) fn leave(&self, session: u64) {
        self.change(|shared| {
            shared.sessions.remove(&session);
        });
    }

    pub(crate) fn count(&self, counts: ServerCounts) {
        self.change(|shared| shared.counts = counts);
    }

    /// The text, of this moment.
    pub(crate) fn text(&self) -> String {
        let (sessions, counts) = {
            let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            let sessions: Vec<_> = shared.sessions.values().cloned().collect();
            (sessions, shared.counts)
        };
        let own = SessionNumbers {
            app: "logdrive-agent".to_owned(),
            pid: std::process::id(),
            is_alive: true,
            stats: self.own.stats(),
        };
        let of_session = |session: &Arc<HostedSession>| SessionNumbers {
            app: session.app().to_owned(),
            pid: session.peer().pid,
            is_alive: true,
            stats: Stats::of_shared(session),
        };
        let all: Vec<_> = std::iter::once(own)
            .chain(sessions.iter().map(of_session))
            .collect();
        let mut text = metrics(&all);
        put_sinks(&mut text, &self.routing);
        put_counts(&mut text, &counts);
        text
    }
}

/// Which number of a sink is which: it names a file no longer than the agent runs.
fn put_sinks(text: &mut String, routing: &SharedRouting) {
    let quoted = |value: &str| {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        text,
        "# HELP logdrive_sink_info the name and the path of a sink of the agent\n# TYPE logdrive_sink_info gauge"
    );
    let sinks = routing.lock();
    let own = sinks
        .numbers
        .iter()
        .filter(|(key, _)| !sinks.shared.contains(*key));
    for ((name, path), number) in own {
        let _ = writeln!(
            text,
            "logdrive_sink_info{{app=\"logdrive-agent\",pid=\"{}\",sink=\"{}\",name=\"{}\",path=\"{}\"}} 1",
            std::process::id(),
            number + 1,
            quoted(name),
            quoted(&path.to_string_lossy())
        );
    }
}

fn put_counts(text: &mut String, counts: &ServerCounts) {
    for (name, kind, help, value) in [
        (
            "sessions",
            "gauge",
            "processes that log through the agent",
            counts.sessions,
        ),
        (
            "connections",
            "gauge",
            "connections to the agent",
            counts.connections,
        ),
        (
            "accepted_total",
            "counter",
            "connections that were taken",
            counts.accepted,
        ),
        (
            "joined_total",
            "counter",
            "sessions that were made",
            counts.joined,
        ),
        (
            "adopted_total",
            "counter",
            "sessions that were adopted from an earlier agent",
            counts.adopted,
        ),
        (
            "refused_total",
            "counter",
            "connections and requests that were refused",
            counts.refused,
        ),
        (
            "closed_total",
            "counter",
            "connections that were closed because of their peer",
            counts.closed,
        ),
        (
            "out_of_descriptors_total",
            "counter",
            "times that there was no descriptor for a connection",
            counts.out_of_descriptors,
        ),
        (
            "stored_descriptors",
            "gauge",
            "descriptors of sessions that the service manager or the keeper holds",
            counts.stored_descriptors,
        ),
        (
            "unstored_sessions",
            "gauge",
            "sessions that the service manager has no room for",
            counts.unstored_sessions,
        ),
    ] {
        let name = format!("logdrive_agent_{name}");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
}
