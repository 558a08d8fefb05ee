//! The agent itself: a server that hands out sessions, and a backend that drains them all.
//!
//! Two threads of its own: this one, which talks to processes and tools, and the drain. Neither waits for the other, so
//! that a sink that hangs keeps no process from joining, and no process keeps a record from being drained.

mod asks;
mod waits;

use crate::config::{AgentConfig, Change, Process, SinkConfig};
use crate::error::AgentError;
use crate::limits::{SINK_PLACES, TURN_MS, WAIT_TURN_MS};
use crate::place::PlaceLock;
use crate::server::{Asker, Event, Server, ServerOptions};
use logdrive_backend::{Backend, BackendError, BackendOptions, Member, Stats, Stopped, Target};
use logdrive_ring::SharedSession;
use logdrive_wire::{Callsite, Level};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use waits::{Waits, Who};

/// The name under which the agent's own session lies in its run directory.
const APP: &str = "agent";

/// A running agent.
///
/// ```no_run
/// use logdrive_agent::{Agent, config::AgentConfig};
/// let mut agent = Agent::start(AgentConfig::default())?;
/// agent.turn();
/// agent.stop();
/// # Ok::<(), logdrive_agent::StartError>(())
/// ```
#[derive(Debug)]
pub struct Agent {
    config: AgentConfig,
    server: Server,
    backend: Backend,
    sinks: Arc<Mutex<Sinks>>,
    waits: Waits,
    /// Tools that want the configuration to be read again.
    reloads: VecDeque<Asker>,
    /// Held as long as the agent lives: one agent per directory.
    _place: PlaceLock,
}

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Its socket or its directory.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// Its sinks or its session.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// Which sink is which: the routes name sinks of the configuration, each of which may be several files.
#[derive(Debug)]
struct Sinks {
    config: AgentConfig,
    /// Numbers of the backend's sinks, by the sink's name and its path with all placeholders filled in.
    numbers: BTreeMap<(String, PathBuf), usize>,
}

impl Sinks {
    /// The sinks of a callsite of a process, as bits. A sink that could not be opened gets nothing.
    fn route(&self, member: &Member, callsite: &Callsite) -> u32 {
        let process = process_of(member);
        let found = self
            .config
            .sinks_for(&process, callsite.target_or_module(), callsite.level);
        found
            .into_iter()
            .filter_map(|place| self.config.sinks.get(place))
            .filter_map(|sink| self.numbers.get(&key_of(sink, &process)))
            .fold(0, |bits, number| bits | 1 << number)
    }
}

impl Sinks {
    /// The sinks that records of a process may go to, by their places in the configuration.
    fn places_of(&self, process: &Process<'_>) -> Vec<usize> {
        let mut places = Vec::new();
        let routes = self.config.routes.iter();
        for route in routes.filter(|route| route.who.matches(process)) {
            places.extend(self.config.places_of(&route.sinks));
            if !route.goes_on && route.module.is_none() && route.level == Level::Trace {
                break;
            }
        }
        let recorders = self.config.recorders.iter();
        for recorder in recorders.filter(|recorder| recorder.who.matches(process)) {
            places.extend(self.config.places_of(&recorder.sinks));
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The same, as bits. A sink that could not be opened gets nothing.
    fn of(&self, process: &Process<'_>) -> u32 {
        let places = self.places_of(process).into_iter();
        places
            .filter_map(|place| self.config.sinks.get(place))
            .filter_map(|sink| self.numbers.get(&key_of(sink, process)))
            .fold(0, |bits, number| bits | 1 << number)
    }
}

/// For sinks that are the same for all processes.
const NOBODY: Process<'static> = Process {
    app: "",
    pid: 0,
    uid: 0,
};

/// The sinks there are, and those that are new.
fn merged(old: &[SinkConfig], new: &[SinkConfig]) -> Vec<SinkConfig> {
    let is_new = |sink: &&SinkConfig| old.iter().all(|other| other.name != sink.name);
    old.iter().chain(new.iter().filter(is_new)).cloned().collect()
}

fn process_of(member: &Member) -> Process<'_> {
    Process {
        app: &member.app,
        pid: member.pid,
        uid: member.uid,
    }
}

fn key_of(sink: &SinkConfig, process: &Process<'_>) -> (String, PathBuf) {
    let path = match sink.options_for(process).target {
        Target::File(file) => file.path,
        _ => PathBuf::new(),
    };
    (sink.name.clone(), path)
}

impl Agent {
    /// Takes its places, writes what an agent before it had taken and not written, opens the sinks, and listens.
    ///
    /// # Errors
    /// When another agent has the socket or the directory, a directory is not safe, or a sink cannot be opened.
    pub fn start(config: AgentConfig) -> Result<Self, StartError> {
        let place = PlaceLock::take(&config.run_dir)?;
        let fixed: Vec<_> = config
            .sinks
            .iter()
            .filter(|sink| !sink.has_placeholders())
            .collect();
        let numbers = fixed
            .iter()
            .enumerate()
            .map(|(number, sink)| (key_of(sink, &NOBODY), number))
            .collect();
        let mut options = BackendOptions::new(APP);
        options.run_dir = Some(config.run_dir.clone());
        options.ring_bytes = logdrive_ring::limits::RING_BYTES_MIN;
        options.sinks = fixed.iter().map(|sink| sink.options.clone()).collect();
        options.sink_places = SINK_PLACES.max(config.sinks.len());
        let sinks = Arc::new(Mutex::new(Sinks {
            config: config.clone(),
            numbers,
        }));
        let backend = Backend::start_hub(&options, router(&sinks))?;
        let server = Server::open(ServerOptions::of(&config, backend.journal()))?;
        Ok(Self {
            config,
            server,
            backend,
            sinks,
            waits: Waits::default(),
            reloads: VecDeque::new(),
            _place: place,
        })
    }

    /// One turn: waits for peers some milliseconds, and does what they ask for.
    pub fn turn(&mut self) {
        let timeout = if self.waits.is_empty() {
            TURN_MS
        } else {
            WAIT_TURN_MS
        };
        let events = self.server.poll(Instant::now(), Duration::from_millis(timeout));
        for event in events {
            self.act(event);
        }
        self.answer_waiting();
    }

    fn act(&mut self, event: Event) {
        match event {
            Event::Joined(session) | Event::Adopted { session, .. } => {
                self.open_sinks(&session);
                self.waits.begin(session.id(), &self.backend);
                self.backend.join(session);
            }
            Event::Bell => self.backend.wake(),
            Event::Flush {
                session,
                mark,
                durable,
            } => self.wait(Who::Flush { session, mark }, session, durable),
            Event::Keep { session, keep } => self.backend.keep(session, keep),
            Event::WriteKept {
                session,
                mark,
                span_ns,
            } => self.write_kept(session, mark, span_ns),
            Event::Bye { session } => {
                self.backend.leave(session, None);
                self.wait(Who::Bye { session }, session, false);
            }
            Event::Left { session, end } => {
                let text = end.describe(&session);
                if end.is_crash(&session) {
                    self.backend.dump_crashed(session.id(), text.clone());
                }
                self.waits.end(session.id());
                self.backend.leave(session.id(), Some(text));
            }
            Event::Request { asker, peer, request } => self.answer_request(asker, peer, &request),
            Event::Notice(text) => self.backend.notice(text),
        }
    }

    fn wait(&mut self, who: Who, session: u64, durable: bool) {
        let sinks = self.sinks_of_number(session);
        self.waits.add(who, sinks, None, durable, Instant::now());
    }

    /// Opens the files that a process is the first to need.
    fn open_sinks(&mut self, session: &SharedSession) {
        let process = Process {
            app: session.app(),
            pid: session.peer().pid,
            uid: session.peer().uid,
        };
        let mut sinks = self.lock_sinks();
        for sink in self.config.sinks.iter().filter(|sink| sink.has_placeholders()) {
            let key = key_of(sink, &process);
            if sinks.numbers.contains_key(&key) {
                continue;
            }
            match self.backend.add_sink(&sink.options_for(&process)) {
                Ok(number) => {
                    sinks.numbers.insert(key, number);
                }
                Err(error) => self.backend.notice(format!(
                    "no sink {} for process {} of {}: {error}",
                    sink.name, process.pid, process.app
                )),
            }
        }
    }

    /// Takes another configuration: routes, levels, limits and new sinks hold at once. Returns what holds from the next
    /// start on: places, and sinks that are changed or gone.
    ///
    /// # Errors
    /// When a new sink cannot be opened; then nothing has changed but that sinks before it are open.
    pub fn reload(&mut self, config: AgentConfig) -> Result<Vec<Change>, BackendError> {
        let changes = self.config.diff(&config);
        for change in &changes {
            let Change::SinkAdded(name) = change else { continue };
            let added = config.sinks.iter().find(|sink| sink.name == *name);
            if let Some(sink) = added.filter(|sink| !sink.has_placeholders()) {
                let number = self.backend.add_sink(&sink.options)?;
                self.lock_sinks().numbers.insert(key_of(sink, &NOBODY), number);
            }
        }
        let later = |change: &Change| {
            change.needs_restart() || matches!(change, Change::SinkRemoved(_) | Change::SinkChanged { .. })
        };
        let later: Vec<Change> = changes.into_iter().filter(later).collect();
        self.server.set_limits(config.limits.clone());
        // What is open stays as it is.
        let config = AgentConfig {
            sinks: merged(&self.config.sinks, &config.sinks),
            ..config
        };
        self.lock_sinks().config = config.clone();
        self.config = config;
        for session in self.server.sessions().cloned().collect::<Vec<_>>() {
            self.open_sinks(&session);
        }
        self.backend.route(router(&self.sinks));
        Ok(later)
    }

    fn lock_sinks(&self) -> MutexGuard<'_, Sinks> {
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The socket at which it listens.
    pub fn socket(&self) -> &Path {
        &self.config.socket
    }

    /// Leaves a line about the agent in all its logs.
    pub fn notice(&self, text: String) {
        self.backend.notice(text);
    }

    /// The statistics of the agent's sinks.
    pub fn stats(&self) -> Stats {
        self.backend.stats()
    }

    /// Opens all files anew, as after a rotation from outside.
    pub fn reopen(&self) {
        self.backend.reopen();
    }

    /// Writes what was taken, and ends. Processes keep their sessions, and wait for the next agent.
    pub fn stop(self) -> Stopped {
        self.backend.stop()
    }
}

fn router(sinks: &Arc<Mutex<Sinks>>) -> impl Fn(&Member, &Callsite) -> u32 + Send + 'static {
    let sinks = Arc::clone(sinks);
    move |member, callsite| {
        sinks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .route(member, callsite)
    }
}

fn describe(stats: &Stats, server: &Server) -> String {
    let counts = server.counts();
    let mut text = format!(
        "sessions {}, connections {}, joined {}, adopted {}, refused {}\n",
        counts.sessions, counts.connections, counts.joined, counts.adopted, counts.refused
    );
    for (number, sink) in stats.sinks.iter().enumerate() {
        text.push_str(&format!(
            "sink {number}: {} records and {} bytes written, {} dropped, {} pending, {} errors\n",
            sink.counts.written_records,
            sink.counts.written_bytes,
            sink.dropped(),
            sink.pending,
            sink.counts.errors
        ));
    }
    text
}
