//! The agent itself: a server that hands out sessions, and a backend that drains them all.
//!
//! Two threads of its own: this one, which talks to processes and tools, and the drain. Neither waits for the other, so
//! that a sink that hangs keeps no process from joining, and no process keeps a record from being drained.

use crate::config::{AgentConfig, Change, Process, SinkConfig};
use crate::error::AgentError;
use crate::limits::{SINK_PLACES, TURN_MS, WAIT_TURN_MS};
use crate::place::PlaceLock;
use crate::server::{Asker, Event, Request, Server, ServerOptions};
use logdrive_backend::file::{Disk, Storage};
use logdrive_backend::limits::NO_PROGRESS_MS;
use logdrive_backend::{Backend, BackendError, BackendOptions, Member, Stats, Stopped, Target};
use logdrive_ring::SharedSession;
use logdrive_wire::Callsite;
use logdrive_wire::agent::{Refused, RefusedCode};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
    waiting: Vec<Waiting>,
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

/// Somebody who waits until everything up to a mark is with the kernel.
#[derive(Debug)]
struct Waiting {
    mark: u64,
    /// The sinks that its records may go to, as bits. Others may hang meanwhile.
    sinks: u32,
    /// How much those had written at the last look, and when that was more than before.
    moved: u64,
    since: Instant,
    who: Who,
}

#[derive(Debug)]
enum Who {
    Flush { session: u64, mark: u64 },
    Bye { session: u64 },
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

    /// All sinks that records of a process may go to, as bits.
    fn all_of(&self, process: &Process<'_>) -> u32 {
        let routes = self
            .config
            .routes
            .iter()
            .filter(|route| route.who.matches(process));
        let recorders = self.config.recorders.iter();
        let named = routes
            .map(|route| &route.sinks)
            .chain(recorders.map(|recorder| &recorder.sinks));
        named
            .flat_map(|names| self.config.places_of(names))
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
        Self::start_on(config, Arc::new(Disk))
    }

    /// As [`Agent::start`], with log files on another storage than the disk: for tests and benchmarks.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn start_on(config: AgentConfig, storage: Arc<dyn Storage>) -> Result<Self, StartError> {
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
        options.storage = storage;
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
            waiting: Vec::new(),
            _place: place,
        })
    }

    /// One turn: waits for peers some milliseconds, and does what they ask for.
    pub fn turn(&mut self) {
        let timeout = if self.waiting.is_empty() {
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
                self.backend.join(session);
            }
            Event::Bell => self.backend.wake(),
            Event::Flush {
                session,
                mark,
                durable,
            } => {
                if durable {
                    self.backend.request_sync();
                }
                self.wait(Who::Flush { session, mark });
            }
            Event::Bye { session } => {
                self.backend.leave(session, None);
                self.wait(Who::Bye { session });
            }
            Event::Left { session, end } => {
                let text = end.describe(&session);
                self.backend.leave(session.id(), Some(text));
            }
            Event::Request { asker, request, .. } => self.answer(asker, &request),
            Event::Notice(text) => self.backend.notice(text),
        }
    }

    fn wait(&mut self, who: Who) {
        let (Who::Flush { session, .. } | Who::Bye { session }) = who;
        let found = self.server.sessions().find(|held| held.id() == session);
        let sinks = found.map_or(u32::MAX, |held| {
            let process = Process {
                app: held.app(),
                pid: held.peer().pid,
                uid: held.peer().uid,
            };
            self.lock_sinks().all_of(&process)
        });
        self.waiting.push(Waiting {
            mark: self.backend.request_flush(),
            sinks,
            moved: self.backend.moved_in(sinks),
            since: Instant::now(),
            who,
        });
    }

    fn answer_waiting(&mut self) {
        let now = Instant::now();
        let (backend, server) = (&self.backend, &mut self.server);
        self.waiting.retain_mut(|waiting| {
            let reached = backend.has_reached_in(waiting.mark, waiting.sinks);
            let moved = backend.moved_in(waiting.sinks);
            if moved != waiting.moved {
                (waiting.moved, waiting.since) = (moved, now);
            }
            let patience = Duration::from_millis(NO_PROGRESS_MS);
            if !reached && now.saturating_duration_since(waiting.since) < patience {
                return true;
            }
            match waiting.who {
                Who::Flush { session, mark } => server.flushed(session, mark, reached, now),
                Who::Bye { session } => server.done(session, reached, now),
            }
            false
        });
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

    fn answer(&mut self, asker: Asker, request: &Request) {
        let now = Instant::now();
        let (reason, advice) = match request {
            Request::Stats => {
                let text = describe(&self.backend.stats(), &self.server);
                return self.server.answer(asker, &text, now);
            }
            Request::Reload => (
                "the agent takes no other configuration over its socket",
                "send it SIGHUP",
            ),
            Request::Dump { .. } => (
                "this agent keeps no flight record",
                "let the program keep its own, with `Builder::keep`",
            ),
        };
        let why = Refused {
            code: RefusedCode::NotAllowed,
            reason: reason.to_owned(),
            advice: advice.to_owned(),
        };
        self.server.refuse(asker, why, now);
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
