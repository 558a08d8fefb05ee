//! The private agent of one command: programs that log with Logdrive find it in their environment, and their records go
//! into the log of the command, merged with what it prints.
//!
//! It is the same server as the agent's, in a thread of its own, and the same drain. Its socket lies in a directory
//! beside the sessions of the run directory, which no other user may enter; it ends with the command.

use super::limits::ENDING_TURN_MS;
use crate::capture::stream::{OutputTimeout, notify};
use crate::config::Limits;
use crate::error::AgentError;
use crate::flush_waiters::FlushWaiters;
use crate::limits::{TURN_MS, WAIT_TURN_MS};
use crate::path_lock::PathLock;
use crate::server::{Event, Request, Requester, Server, ServerOptions, refused};
use logdrive_drain::{Backend, BackendError};
use logdrive_ring::channel::Channel;
use logdrive_ring::{HostedSession, Peer};
use logdrive_wire::agent::RefusedCode;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Prefix and suffix of the directories of private agents: `run-4711.agent`.
const DIRECTORY_NAME: (&str, &str) = ("run-", ".agent");

/// The bits of all sinks.
const ALL: u32 = !crate::routing::SINK_MISSING;

/// The socket in such a directory.
const SOCKET: &str = "agent.sock";

/// Bytes of a path that a socket may have; with one for its end.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// An agent for one command.
#[derive(Debug)]
pub(super) struct PrivateAgent {
    shared: Arc<Shared>,
    socket: PathBuf,
    thread: JoinHandle<()>,
}

/// State that the thread of the agent and that of the command share.
#[derive(Debug, Default)]
struct Shared {
    /// The agent is to end.
    stop: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The command has ended: how long its sessions are waited for, and who wants to know that it is over.
    ending: Option<Ending>,
    /// All sessions have ended since, or are not waited for any longer.
    is_over: bool,
}

#[derive(Debug)]
struct Ending {
    since: Instant,
    timeout: OutputTimeout,
    bell: Arc<OwnedFd>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PrivateAgent {
    /// Starts the agent beside the drain. `None` where it has no place: then the command runs as well, and its
    /// programs write their logs themselves, as they do elsewhere.
    pub(super) fn start(backend: &Arc<Backend>) -> Result<Option<Self>, BackendError> {
        let (server, socket) = match open_server(backend) {
            Ok(opened) => opened,
            Err(error) => {
                backend.notice(format!(
                    "programs that log with Logdrive write logs of their own: {error}"
                ));
                return Ok(None);
            }
        };
        let shared = Arc::new(Shared::default());
        let turns = AgentLoop {
            server,
            flush_waiters: FlushWaiters::new(Arc::clone(backend)),
            backend: Arc::clone(backend),
            shared: Arc::clone(&shared),
            committed: 0,
            moved_at: Instant::now(),
        };
        let thread = std::thread::Builder::new()
            .name("logdrive-agent".to_owned())
            .spawn(move || turns.run())
            .map_err(|cause| BackendError::Thread {
                name: "logdrive-agent",
                cause,
            })?;
        Ok(Some(Self {
            shared,
            socket,
            thread,
        }))
    }

    /// Socket of the agent.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns whether all processes that had sessions are over, so far as anybody waits for them. To be asked once
    /// the command has ended; the bell rings when it may have become true.
    pub(super) fn has_finished(&self, timeout: OutputTimeout, bell: &Arc<OwnedFd>) -> bool {
        let mut state = self.shared.state();
        if state.ending.is_none() {
            state.ending = Some(Ending {
                since: Instant::now(),
                timeout,
                bell: Arc::clone(bell),
            });
            drop(state);
            // The answer is that of a turn that ends after the question: a session of a process that has ended is known
            // to it, or has ended.
            self.wake();
            return false;
        }
        state.is_over
    }

    /// Sessions are not waited for any longer.
    pub(super) fn abandon(&self) {
        self.shared.state().is_over = true;
    }

    /// Ends the agent, whose sessions have ended or are not waited for, and removes its place.
    pub(super) fn end(self) {
        // Relaxed: the thread looks again and again.
        self.shared.stop.store(true, Ordering::Relaxed);
        self.wake();
        // That it has panicked, which it does not, would change nothing here.
        let _ = self.thread.join();
        if let Some(place) = self.socket.parent() {
            // What cannot be removed now is by the next command in this run directory.
            let _ = fs::remove_dir_all(place);
        }
    }

    /// Ends the agent's wait for peers. Where it cannot be reached, its wait ends by itself in a tenth of a second.
    fn wake(&self) {
        drop(Channel::connect_to_agent(
            &self.socket,
            Duration::from_millis(TURN_MS),
        ));
    }
}

/// The sockets of private agents in a run directory, whether an agent listens there or not.
pub fn private_sockets(run_dir: &Path) -> Vec<PathBuf> {
    let sockets = places(run_dir).into_iter().map(|(path, _)| path.join(SOCKET));
    let mut sockets: Vec<PathBuf> = sockets.filter(|socket| socket.exists()).collect();
    sockets.sort();
    sockets
}

/// The directories of private agents, each with the process that made it.
fn places(run_dir: &Path) -> Vec<(PathBuf, i32)> {
    let Ok(list) = fs::read_dir(run_dir) else {
        return Vec::new();
    };
    let place = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let pid = name
            .strip_prefix(DIRECTORY_NAME.0)?
            .strip_suffix(DIRECTORY_NAME.1)?
            .parse()
            .ok()?;
        Some((path, pid))
    };
    list.filter_map(|entry| place(entry.ok()?.path())).collect()
}

/// Makes a place for the socket and listens there.
fn open_server(backend: &Backend) -> Result<(Server, PathBuf), AgentError> {
    let run_dir = backend.session().path().parent().unwrap_or(Path::new("."));
    remove_stale(run_dir);
    let place = make_directory(run_dir)?;
    let socket = place.join(SOCKET);
    let opened = Server::open(ServerOptions {
        socket: socket.clone(),
        group: None,
        mode: 0o600,
        connections: 1024,
        idle_timeout: Duration::from_secs(5),
        journal: backend.journal(),
        limits: Limits::default(),
        levels: Vec::new(),
        recorders: Vec::new(),
    });
    if opened.is_err() {
        // Nothing is in it but what this call has made.
        let _ = fs::remove_dir_all(&place);
    }
    Ok((opened?, socket))
}

/// In the run directory; where its path is too long for a socket, in the directory for temporary files.
fn make_directory(run_dir: &Path) -> Result<PathBuf, AgentError> {
    let name = format!("{}{}{}", DIRECTORY_NAME.0, std::process::id(), DIRECTORY_NAME.1);
    // The command may have another working directory by the time at which it connects.
    let run_dir = fs::canonicalize(run_dir).map_err(|cause| AgentError::io("find", run_dir, cause))?;
    let mut place = run_dir.join(&name);
    if place.join(SOCKET).as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        place = std::env::temp_dir().join(format!("logdrive-{name}"));
    }
    let make = || DirBuilder::new().mode(0o700).create(&place);
    let made = match make() {
        // A process of the same number has left it, perhaps in another namespace: it is ours if it can be removed.
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir_all(&place).and_then(|()| make())
        }
        made => made,
    };
    made.map_err(|cause| AgentError::io("make the directory", &place, cause))?;
    Ok(place)
}

/// Removes places whose process was killed.
fn remove_stale(run_dir: &Path) {
    for (path, pid) in places(run_dir) {
        let is_dead = Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH));
        // In another namespace of processes it may live all the same: then it holds its lock.
        if is_dead && PathLock::acquire(&path.join(SOCKET)).is_ok() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// The thread of the agent.
struct AgentLoop {
    server: Server,
    backend: Arc<Backend>,
    shared: Arc<Shared>,
    flush_waiters: FlushWaiters,
    /// Records that all sessions had committed at the last look, and when that number changed.
    committed: u64,
    moved_at: Instant,
}

impl AgentLoop {
    fn run(mut self) {
        logdrive_ring::local::deny_thread();
        logdrive_ring::signals::block_in_thread();
        // Relaxed: read repeatedly.
        while !self.shared.stop.load(Ordering::Relaxed) {
            let timeout_ms = match (
                !self.flush_waiters.is_urgent(),
                self.shared.state().ending.is_some(),
            ) {
                (false, _) => WAIT_TURN_MS,
                (true, true) => ENDING_TURN_MS,
                (true, false) => TURN_MS,
            };
            for event in self
                .server
                .poll(Instant::now(), Duration::from_millis(timeout_ms))
            {
                self.act(event);
            }
            self.flush_waiters.answer(&mut self.server, Instant::now());
            self.check_end();
        }
        self.report_remaining();
    }

    fn act(&mut self, event: Event) {
        let waiters = &mut self.flush_waiters;
        match event {
            Event::Joined(session) | Event::Adopted { session, .. } => waiters.join(session),
            Event::Bell => self.backend.wake(),
            Event::Keep { session, keep } => self.backend.request_recorder(session, keep),
            Event::Flush {
                session,
                ticket,
                durable,
            } => waiters.flush((session, ticket), ALL, durable),
            Event::WriteKept {
                session,
                ticket,
                span_ns,
            } => waiters.write_kept((session, ticket), span_ns, ALL),
            // Its process has ended in the same turn, as `Left` says.
            Event::Bye { session } if self.server.session(session).is_none() => {}
            Event::Bye { session } => waiters.bye(session, ALL),
            // Its end is logged before that of the command.
            Event::Left { session, end } => waiters.left(&session, end, ALL),
            // Most often it is the command, whose end is logged anyway.
            Event::Ended { .. } => {}
            Event::Request {
                requester,
                peer,
                request,
            } => self.answer(requester, peer, &request),
            Event::Notice(text) => self.backend.notice(text),
        }
    }

    fn answer(&mut self, requester: Requester, peer: Peer, request: &Request) {
        let (sessions, span_ns) = match request {
            Request::Files { written, .. } => {
                let config = self.backend.session().buffers().config();
                let text = String::from_utf8_lossy(&config).into_owned();
                return self
                    .flush_waiters
                    .name_sinks((requester, text), *written, ALL, &mut self.server);
            }
            Request::Dump { app, span_ns } => (self.server.sessions_of(peer, app), *span_ns),
            Request::DumpSession { session, span_ns } => {
                let session = self.server.session(*session).map(Arc::clone);
                (session.into_iter().collect(), *span_ns)
            }
            Request::Stats | Request::Reload => {
                let why = refused(
                    RefusedCode::NotAllowed,
                    "this is the private agent of one command",
                    "ask `logdrive top` or `logdrive ps` instead",
                );
                return self.server.refuse(requester, why, Instant::now());
            }
        };
        self.flush_waiters.dump(requester, &sessions, span_ns, ALL);
    }

    /// Once the command has ended: it is over when all its sessions have ended, or those that are left have been quiet
    /// for as long as they are waited for.
    fn check_end(&mut self) {
        let mut state = self.shared.state();
        let State { ending, is_over } = &mut *state;
        let Some(ending) = ending else { return };
        let now = Instant::now();
        let committed = self
            .server
            .sessions()
            .map(committed_of)
            .fold(0u64, u64::wrapping_add);
        if committed != self.committed {
            self.committed = committed;
            self.moved_at = now;
        }
        let quiet = now.saturating_duration_since(self.moved_at.max(ending.since));
        let total = now.saturating_duration_since(ending.since);
        *is_over |= quiet >= ending.timeout.quiet || total >= ending.timeout.total;
        *is_over |= self.server.sessions().next().is_none() && self.flush_waiters.is_empty();
        if *is_over {
            notify(&ending.bell);
        }
    }

    /// Processes that log on: the log says that it is not the place any more where that goes.
    fn report_remaining(&self) {
        for session in self.server.sessions() {
            self.backend.notice(format!(
                "process {} of {} goes on; what it logs from now on is not kept here",
                session.peer().pid,
                session.app()
            ));
            self.backend.leave(session.id(), None);
        }
    }
}

fn committed_of(session: &Arc<HostedSession>) -> u64 {
    let rings = session.rings_from(0);
    rings
        .iter()
        .fold(0, |sum: u64, ring| sum.wrapping_add(ring.counts().records))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_dead_processes_go_and_others_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let make = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir(&path).expect("a directory");
            fs::write(path.join(SOCKET), "").expect("a file");
            path
        };
        // No process has the highest number that there can be.
        let dead = make("run-4194304.agent");
        let alive = make(&format!("run-{}.agent", std::process::id()));
        let other = make("shop-4194304-1");
        assert_eq!(private_sockets(dir.path()).len(), 2);
        remove_stale(dir.path());
        assert!(!dead.exists() && alive.exists() && other.exists());
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_is_not_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let long = dir.path().join("x".repeat(120));
        fs::create_dir(&long).expect("a directory");
        let place = make_directory(&long).expect("a place");
        assert!(place.join(SOCKET).as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
        fs::remove_dir(&place).expect("it is there, and empty");
        let short = make_directory(dir.path()).expect("a place");
        assert!(short.starts_with(fs::canonicalize(dir.path()).expect("its path")));
    }
}
