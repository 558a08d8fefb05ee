//! Which open sink is which: routes and recorders name sinks of the configuration, each of which may be several files.

use crate::config::{AgentConfig, Process, SinkConfig};
use logdrive_drain::{ClientProcess, SinkOptions, Target};
use logdrive_ring::HostedSession;
use logdrive_wire::{Callsite, Level};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A sink's name, and its path with all placeholders filled in.
pub(crate) type SinkKey = (String, PathBuf);

/// For sinks that are the same for all processes.
pub(crate) const NO_PROCESS: Process<'static> = Process {
    app: "",
    pid: 0,
    uid: 0,
};

/// Stands for all processes that share a sink's file, where there is no room for a file of each any more.
pub(crate) const SHARED_FILE: Process<'static> = Process {
    app: "others",
    pid: 0,
    uid: 0,
};

/// Among the bits of sinks that are waited for: there is one more, which could not be opened. No sink has a number as high.
pub(crate) const SINK_MISSING: u32 = 1 << 31;

/// The sinks that are open, and the configuration that says who gets to them.
#[derive(Debug)]
pub(crate) struct RoutingTable {
    pub(crate) config: AgentConfig,
    /// Numbers of the backend's sinks.
    pub(crate) numbers: BTreeMap<SinkKey, usize>,
    /// Those of them that stand for the file of [`SHARED_FILE`].
    pub(crate) shared: BTreeSet<SinkKey>,
}

impl RoutingTable {
    /// The sinks of a callsite of a process, as bits.
    fn route(&self, client: &ClientProcess, callsite: &Callsite) -> u32 {
        let process = Process::from(client);
        let found = self
            .config
            .sinks_for(&process, callsite.target_or_module(), callsite.level);
        self.bits(&process, found)
    }

    /// The sinks that records of a process may go to, by their places in the configuration.
    fn sink_indices(&self, process: &Process<'_>) -> Vec<usize> {
        let mut places = Vec::new();
        let routes = self.config.routes.iter();
        for route in routes.filter(|route| route.processes.matches(process)) {
            places.extend(self.config.places_of(&route.sinks));
            if !route.goes_on && route.module.is_none() && route.level == Level::Trace {
                break;
            }
        }
        let recorders = self.config.recorders.iter();
        for recorder in recorders.filter(|recorder| recorder.processes.matches(process)) {
            places.extend(self.config.places_of(&recorder.sinks));
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// These sinks themselves.
    pub(crate) fn sinks_for(&self, process: &Process<'_>) -> impl Iterator<Item = &SinkConfig> {
        let places = self.sink_indices(process).into_iter();
        places.filter_map(|place| self.config.sinks.get(place))
    }

    /// A sink of the configuration as a process has it.
    pub(crate) fn options_for(&self, sink: &SinkConfig, process: &Process<'_>) -> SinkOptions {
        match self.shared.contains(&key_of(sink, process)) {
            true => sink.options_for(&SHARED_FILE),
            false => sink.options_for(process),
        }
    }

    /// Sinks of the configuration as bits. One that could not be opened gets nothing.
    pub(crate) fn bits(&self, process: &Process<'_>, places: Vec<usize>) -> u32 {
        places
            .into_iter()
            .filter_map(|place| self.config.sinks.get(place))
            .filter_map(|sink| self.numbers.get(&key_of(sink, process)))
            .fold(0, |bits, number| bits | 1 << number)
    }

    /// The sinks that records of a process may go to, as bits, with [`SINK_MISSING`] where one of them is not open.
    pub(crate) fn flush_sinks(&self, process: &Process<'_>) -> u32 {
        let numbers = self
            .sinks_for(process)
            .map(|sink| self.numbers.get(&key_of(sink, process)));
        numbers.fold(0, |bits, number| {
            bits | number.map_or(SINK_MISSING, |number| 1 << number)
        })
    }

    /// The files that a process writes to, as keys of sinks with placeholders.
    pub(crate) fn files_of(&self, process: &Process<'_>) -> Vec<SinkKey> {
        let mut files = Vec::new();
        for sink in self.sinks_for(process).filter(|sink| sink.has_placeholders()) {
            let key = key_of(sink, process);
            if self.shared.contains(&key) {
                files.push(key_of(sink, &SHARED_FILE));
            }
            files.push(key);
        }
        files
    }
}

/// Shared by the agent and its drain.
#[derive(Debug, Clone)]
pub(crate) struct SharedRouting(Arc<Mutex<RoutingTable>>);

impl SharedRouting {
    pub(crate) fn new(config: AgentConfig, numbers: BTreeMap<SinkKey, usize>) -> Self {
        let shared = BTreeSet::new();
        Self(Arc::new(Mutex::new(RoutingTable {
            config,
            numbers,
            shared,
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, RoutingTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the function that names the sinks of a callsite.
    pub(crate) fn router(&self) -> impl Fn(&ClientProcess, &Callsite) -> u32 + Send + 'static {
        let routes = self.clone();
        move |client, callsite| routes.lock().route(client, callsite)
    }
}

/// The sinks after a reload: those there are, with what can change of them, and those that are new.
pub(crate) fn merged(old: &[SinkConfig], new: &[SinkConfig]) -> Vec<SinkConfig> {
    let stays = |sink: &SinkConfig| match new.iter().find(|other| other.name == sink.name) {
        Some(other) => sink.tuned(other),
        None => sink.clone(),
    };
    let is_new = |sink: &&SinkConfig| old.iter().all(|other| other.name != sink.name);
    let added = new.iter().filter(is_new).cloned();
    old.iter().map(stays).chain(added).collect()
}

impl<'a> From<&'a ClientProcess> for Process<'a> {
    fn from(client: &'a ClientProcess) -> Self {
        Self {
            app: &client.app,
            pid: client.pid,
            uid: client.uid,
        }
    }
}

impl<'a> From<&'a HostedSession> for Process<'a> {
    fn from(session: &'a HostedSession) -> Self {
        Self {
            app: session.app(),
            pid: session.peer().pid,
            uid: session.peer().uid,
        }
    }
}

pub(crate) fn key_of(sink: &SinkConfig, process: &Process<'_>) -> SinkKey {
    let path = match sink.options_for(process).target {
        Target::File(file) => file.path,
        _ => PathBuf::new(),
    };
    (sink.name.clone(), path)
}
