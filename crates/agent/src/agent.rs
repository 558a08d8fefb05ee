//! The agent itself: a server that hands out sessions, and a backend that drains them all.
//!
//! Two threads of its own: this one, which talks to processes and tools, and the drain. Neither waits for the other, so
//! that a sink that hangs keeps no process from joining, and no process keeps a record from being drained.

mod reload;
mod requests;
mod sink_files;

use crate::config::{AgentConfig, Process};
use crate::descriptor_store::StoreOptions;
use crate::error::AgentError;
use crate::flight_recorders::{FlightRecorders, after_crash};
use crate::flush_waiters::FlushWaiters;
use crate::level_rules;
use crate::limits::{SINK_PLACES, TURN_MS, WAIT_TURN_MS};
use crate::log_directories::LogDirectories;
use crate::metrics::Numbers;
use crate::metrics_server::MetricsServer;
use crate::path_lock::PathLock;
use crate::quota::ConfiguredQuotas;
use crate::routing::{NO_PROCESS, SharedRouting, key_of};
use crate::server::{Event, Requester, Server, ServerCounts, ServerOptions};
use logdrive_drain::file::{Disk, Storage};
use logdrive_drain::{Backend, BackendError, BackendOptions, Stats, Stopped};
use logdrive_ring::HostedSession;
use sink_files::{SinkFiles, SinkUsers};
use std::collections::VecDeque;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
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
    backend: Arc<Backend>,
    routing: SharedRouting,
    flush_waiters: FlushWaiters,
    /// Tools that want the configuration to be read again.
    reloads: VecDeque<Requester>,
    numbers: Numbers,
    metrics: MetricsServer,
    /// Notices of the agent's threads for its log.
    notices: (Sender<String>, Receiver<String>),
    sinks: SinkFiles,
    _run_dir_lock: PathLock,
}

/// Error that keeps an agent from starting.
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

impl Agent {
    /// Takes its places, writes what an agent before it had taken and not written, opens the sinks, and listens.
    ///
    /// # Errors
    /// Fails when another agent has the socket or the directory, a directory is not safe, or a sink cannot be opened.
    pub fn start(config: AgentConfig) -> Result<Self, StartError> {
        Self::start_on(config, Arc::new(Disk))
    }

    /// As [`Agent::start`], with log files on another storage than the disk: for tests and benchmarks.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn start_on(config: AgentConfig, storage: Arc<dyn Storage>) -> Result<Self, StartError> {
        // Its own directory is made with the session, and what leads there now, for the lock beside it.
        if let Some(parent) = config.run_dir.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(parent);
            made.map_err(|cause| AgentError::io("make the directory", parent, cause))?;
        }
        let place = PathLock::acquire(&config.run_dir)?;
        let log_directories = LogDirectories::default();
        config
            .sinks
            .iter()
            .try_for_each(|sink| log_directories.claim_known(sink))?;
        let fixed: Vec<_> = config
            .sinks
            .iter()
            .filter(|sink| !sink.has_placeholders())
            .collect();
        let numbers = fixed
            .iter()
            .enumerate()
            .map(|(number, sink)| (key_of(sink, &NO_PROCESS), number))
            .collect();
        let mut options = BackendOptions::new(APP);
        options.run_dir = Some(config.run_dir.clone());
        options.storage = storage;
        options.ring_bytes = logdrive_ring::limits::RING_BYTES_MIN;
        options.sinks = fixed.iter().map(|sink| sink.options_for(&NO_PROCESS)).collect();
        options.sink_places = SINK_PLACES.max(config.sinks.len());
        let most_buffers = config.sinks.iter().filter_map(|sink| sink.options.buffers).max();
        options.buffers_per_sink = most_buffers.unwrap_or(0).max(options.buffers_per_sink);
        let routing = SharedRouting::new(config.clone(), numbers);
        let backend = Arc::new(Backend::start_multi_session(&options, routing.router())?);
        backend.set_recorder_policy(FlightRecorders(routing.clone()));
        backend.set_quota_policy(ConfiguredQuotas::new(&config.limits, &config.run_dir));
        let server = Server::open(ServerOptions::of(&config, backend.journal()))?;
        let numbers = Numbers::new(backend.stats_source(), routing.clone());
        let group = config.group.as_ref().map(|group| group.id);
        let shown = numbers.clone();
        let metrics = MetricsServer::start(&config.metrics, config.mode, group, move || shown.text())?;
        Ok(Self {
            config,
            server,
            flush_waiters: FlushWaiters::new(Arc::clone(&backend)),
            sinks: SinkFiles::new(Arc::clone(&backend), routing.clone(), log_directories),
            backend,
            routing,
            reloads: VecDeque::new(),
            numbers,
            metrics,
            notices: channel(),
            _run_dir_lock: place,
        })
    }

    /// Has a keeper or the service manager hold the memory of all sessions, so that what processes have committed
    /// survives even when they are killed together with the agent; goes on with what it holds of an earlier agent.
    pub fn store_descriptors(&mut self, options: StoreOptions) {
        let run_dir = self.config.run_dir.clone();
        self.server.keep(options, &run_dir, Instant::now());
    }

    /// One turn: waits for peers some milliseconds, and does what they ask for.
    pub fn turn(&mut self) {
        let timeout = if self.flush_waiters.is_urgent() {
            WAIT_TURN_MS
        } else {
            TURN_MS
        };
        let events = self.server.poll(Instant::now(), Duration::from_millis(timeout));
        for event in events {
            self.handle_event(event);
        }
        let now = Instant::now();
        self.flush_waiters.answer(&mut self.server, now);
        let users = SinkUsers {
            server: &self.server,
            waiters: &self.flush_waiters,
        };
        self.sinks.check(users, now);
        self.numbers.count(self.server.counts());
        while let Ok(text) = self.notices.1.try_recv() {
            self.backend.notice(text);
        }
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Joined(session) => self.add_session(session),
            Event::Adopted { session, .. } => {
                // The configuration may be another one than that of the agent before.
                let levels = self.config.levels.clone();
                level_rules::change_running(
                    vec![session.clone()],
                    Vec::new(),
                    levels,
                    self.notices.0.clone(),
                );
                self.add_session(session);
            }
            Event::Bell => self.backend.wake(),
            Event::Flush {
                session,
                ticket,
                durable,
            } => {
                let sinks = self.sinks_of_number(session);
                self.flush_waiters.flush((session, ticket), sinks, durable);
            }
            Event::Keep { session, keep } => self.backend.request_recorder(session, keep),
            Event::WriteKept {
                session,
                ticket,
                span_ns,
            } => {
                let sinks = self.sinks_of_number(session);
                self.flush_waiters.write_kept((session, ticket), span_ns, sinks);
            }
            // Its process has ended in the same turn: what `Left` does waits for its sinks.
            Event::Bye { session } if self.server.session(session).is_none() => {}
            Event::Bye { session } => {
                self.sinks.mark_changed();
                self.numbers.leave(session);
                self.flush_waiters.bye(session, self.sinks_of_number(session));
            }
            Event::Left { session, end } => {
                self.sinks.mark_changed();
                self.numbers.leave(session.id());
                if let Some((span, because)) = after_crash(&self.config.recorders, &session, end) {
                    self.backend.dump_session(session.id(), span, because);
                }
                let sinks = self.sinks.sinks_of(&session);
                self.flush_waiters.left(&session, end, sinks);
            }
            Event::Ended { client, text } => {
                // Its log may have been closed meanwhile.
                self.open_sinks(&Process::from(&client));
                self.sinks.mark_changed();
                self.backend.sinks().report_end(client, text);
            }
            Event::Request {
                requester,
                peer,
                request,
            } => self.answer_request(requester, peer, &request),
            Event::Notice(text) => self.backend.notice(text),
        }
    }

    /// A process has a session here: its sinks, then its records.
    fn add_session(&mut self, session: Arc<HostedSession>) {
        self.open_sinks(&Process::from(&*session));
        self.numbers.join(&session);
        self.flush_waiters.join(session);
    }

    fn open_sinks(&mut self, process: &Process<'_>) {
        let users = SinkUsers {
            server: &self.server,
            waiters: &self.flush_waiters,
        };
        self.sinks.open_for(process, users);
    }

    /// The sinks that records of a session may go to, as bits; none for a session that is gone.
    fn sinks_of_number(&self, session: u64) -> u32 {
        let session = self.server.session(session);
        session.map_or(0, |session| self.sinks.sinks_of(session))
    }

    /// The socket at which it listens.
    pub fn socket(&self) -> &Path {
        &self.config.socket
    }

    /// The sessions that it has.
    pub fn sessions(&self) -> Vec<Arc<HostedSession>> {
        self.server.sessions().cloned().collect()
    }

    /// The counts of its server.
    pub fn counts(&self) -> ServerCounts {
        self.server.counts()
    }

    /// Leaves a line about the agent in all its logs.
    pub fn notice(&self, text: String) {
        self.backend.notice(text);
    }

    /// Returns a problem that its own logs may not be able to report, such as a log that cannot be opened; each once.
    pub fn take_problem(&mut self) -> Option<String> {
        self.sinks.take_problem()
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

fn describe(stats: &Stats, server: &Server, sinks: &SinkFiles) -> String {
    let counts = server.counts();
    let mut text = format!(
        "sessions {}, connections {}, joined {}, adopted {}, refused {}, late records {}\n\
         descriptors held for the next agent {}, sessions without room there {}\n",
        counts.sessions,
        counts.connections,
        counts.joined,
        counts.adopted,
        counts.refused,
        stats.late,
        counts.stored_descriptors,
        counts.unstored_sessions
    );
    for (number, sink) in stats.sinks.iter().enumerate() {
        let reasons = sink
            .dropped_by_reason()
            .map(|(reason, count)| format!("{reason} {count}"));
        let reasons: Vec<String> = reasons.collect();
        let reasons = match reasons.is_empty() {
            true => String::new(),
            false => format!(" ({})", reasons.join(", ")),
        };
        text.push_str(&format!(
            "sink {number}: {} records and {} bytes written, {} dropped{reasons}, {} pending, {} errors",
            sink.counts.written_records,
            sink.counts.written_bytes,
            sink.dropped(),
            sink.pending,
            sink.counts.errors
        ));
        if sink.counts.last_error != 0 {
            let why = sinks.why_late(number);
            let why = why.map_or_else(String::new, |why| format!(", since this: {why}"));
            text.push_str(&format!("; it cannot be written now{why}"));
        }
        text.push('\n');
    }
    text
}
