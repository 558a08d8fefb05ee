//! The server: takes connections, hands sessions to processes, takes them back, and answers tools. One thread drives it,
//! and nothing in it waits but [`Server::poll`], which waits as long as it is told.
//!
//! The owner, the drain, calls [`Server::poll`] where it would sleep, and acts on the events. Whatever a peer does ends
//! at its own connection: messages are read whole, checked and bounded, and a peer that is slow, silent or loud is closed.

mod admission;
mod connection;
mod descriptor_closer;
mod event;
mod process_messages;
mod ready;
mod recorder_grant;
mod restore;
mod sessions;
mod tool_messages;

pub use event::{End, Event, Request, Requester};

use crate::config::{AgentConfig, LevelRule, Limits, Recorder};
use crate::descriptor_store::DescriptorStore;
use crate::error::AgentError;
use crate::limits::{
    ACCEPT_PAUSE_MS, ACCEPTS_PER_TURN, READY_PER_TURN, TIMERS_EVERY_MS, USER_PART_OF_CONNECTIONS,
};
use crate::path_lock::Listener;
use connection::{Attached, Connection, Role, SendError};
use descriptor_closer::DescriptorCloser;
use logdrive_ring::channel::Channel;
use logdrive_ring::{HostedSession, MemoryId};
use logdrive_wire::agent::{Message, Refused, RefusedCode};
use ready::{Ready, Source};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use sessions::ServedSession;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Options of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The path of the socket.
    pub socket: PathBuf,
    /// The group of the socket; `None` for the agent's own.
    pub group: Option<u32>,
    /// The permissions of the socket.
    pub mode: u32,
    /// Connections at once.
    pub connections: u32,
    /// Longest time that a connection without a session may send nothing.
    pub idle_timeout: Duration,
    /// Names the journal of this agent's epochs.
    pub journal: u64,
    /// Limits of processes.
    pub limits: Limits,
    /// The levels that processes begin with.
    pub levels: Vec<LevelRule>,
    /// Flight recorders, whose memory counts as that of their processes.
    pub recorders: Vec<Recorder>,
}

impl ServerOptions {
    /// As a configuration says.
    pub fn of(config: &AgentConfig, journal: u64) -> Self {
        Self {
            socket: config.socket.clone(),
            group: config.group.as_ref().map(|group| group.id),
            mode: config.mode,
            connections: config.connections,
            idle_timeout: config.idle_timeout,
            journal,
            limits: config.limits.clone(),
            levels: config.levels.clone(),
            recorders: config.recorders.clone(),
        }
    }
}

/// Counts of a server since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerCounts {
    /// Connections that were taken.
    pub accepted: u64,
    /// Connections and requests that were refused in words.
    pub refused: u64,
    /// Connections that were closed because their peer was silent, slow, or not understood.
    pub closed: u64,
    /// Sessions that were made.
    pub joined: u64,
    /// Sessions that were adopted.
    pub adopted: u64,
    /// Times that the system had no descriptor for a new connection.
    pub out_of_descriptors: u64,
    /// Connections now.
    pub connections: u64,
    /// Sessions now.
    pub sessions: u64,
}

/// The agent's end of all connections.
#[derive(Debug)]
pub struct Server {
    options: ServerOptions,
    listener: Listener,
    ready: Ready,
    /// Given up for a moment when there is no other descriptor, so that a peer can be told.
    spare: Option<OwnedFd>,
    connections: HashMap<u64, Connection>,
    next_connection: u64,
    sessions: BTreeMap<u64, ServedSession>,
    last_session: u64,
    /// Which session each memory file belongs to.
    memory: HashMap<MemoryId, u64>,
    descriptor_closer: DescriptorCloser,
    /// Holds the descriptors of sessions beyond the death of this agent.
    store: Option<DescriptorStore>,
    events: Vec<Event>,
    counts: ServerCounts,
    timers_at: Instant,
    accept_at: Option<Instant>,
    user: u32,
    buffer: Box<[u8]>,
}

/// One byte more than the longest message, so that a longer one is seen.
const BUFFER_BYTES: usize = logdrive_wire::limits::AGENT_MESSAGE_BYTES_MAX + 1;

impl Server {
    /// Takes the socket's place and listens there.
    ///
    /// # Errors
    /// Fails when another agent has the place, others can change its directory, or the system has no descriptors.
    pub fn open(options: ServerOptions) -> Result<Self, AgentError> {
        let listener = Listener::open(&options.socket, options.mode, options.group)?;
        let io = |cause: Errno| AgentError::io("watch", &options.socket, cause);
        let ready = Ready::new().map_err(io)?;
        ready
            .add(&listener.socket, Source::Listener, EventFlags::IN)
            .map_err(io)?;
        Ok(Self {
            spare: spare(),
            listener,
            ready,
            connections: HashMap::new(),
            next_connection: 1,
            sessions: BTreeMap::new(),
            last_session: 0,
            memory: HashMap::new(),
            descriptor_closer: DescriptorCloser::default(),
            store: None,
            events: Vec::new(),
            counts: ServerCounts::default(),
            timers_at: Instant::now(),
            accept_at: None,
            user: logdrive_ring::user_id(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            options,
        })
    }

    /// Does what peers ask for, and waits for them at most `timeout` when there is nothing to do. Processes that need the
    /// drain end the wait. `now` is the time at the call.
    pub fn poll(&mut self, now: Instant, timeout: Duration) -> Vec<Event> {
        let work = self.has_work();
        let timeout = if work { Duration::ZERO } else { timeout };
        let found = self.ready.wait(timeout, READY_PER_TURN);
        for (source, flags) in found {
            match source {
                Source::Listener => self.accept(now),
                Source::Connection(key) => self.serve(key, flags, now),
                Source::Process(session) => self.check_process(session, now),
            }
        }
        self.send_rings(now);
        if now >= self.timers_at {
            self.timers_at = now + Duration::from_millis(TIMERS_EVERY_MS);
            self.check_timers(now);
        }
        std::mem::take(&mut self.events)
    }

    /// The journal that sessions get to hear of.
    pub fn journal(&self) -> u64 {
        self.options.journal
    }

    /// Replaces the limits; sessions that have more keep it.
    pub fn set_limits(&mut self, limits: Limits) {
        self.options.limits = limits;
    }

    /// Takes what can change while it listens: connections, times, limits, levels and recorders. Sessions and connections
    /// that are there stay, also where they are more than there may be.
    pub fn adjust(&mut self, config: &AgentConfig) {
        let fixed = (self.options.socket.clone(), self.options.group, self.options.mode);
        self.options = ServerOptions::of(config, self.options.journal);
        (self.options.socket, self.options.group, self.options.mode) = fixed;
    }

    /// All sessions, in the order of their numbers.
    pub fn sessions(&self) -> impl Iterator<Item = &Arc<HostedSession>> + Clone {
        self.sessions.values().map(|served| &served.session)
    }

    /// Returns the counts.
    pub fn counts(&self) -> ServerCounts {
        ServerCounts {
            connections: self.connections.len() as u64,
            sessions: self.sessions.len() as u64,
            ..self.counts
        }
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPTS_PER_TURN {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(&self.listener.socket, flags) {
                Ok(socket) => self.add_connection(Channel::new(socket), now),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    return self.accept_with_spare(now);
                }
                // Gone again, or interrupted; `WOULDBLOCK` when there are no more.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// There is no descriptor for the next connection: with the spare one its peer is told so, then all others wait.
    fn accept_with_spare(&mut self, now: Instant) {
        self.counts.out_of_descriptors += 1;
        if self.counts.out_of_descriptors == 1 {
            self.events.push(Event::Notice(
                "the agent has no descriptor for another connection: raise LimitNOFILE, or end some processes".to_owned(),
            ));
        }
        drop(self.spare.take());
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        if let Ok(socket) = accept_with(&self.listener.socket, flags) {
            self.reject(
                &Channel::new(socket),
                refused(
                    RefusedCode::Resources,
                    "the agent has too many files open",
                    "raise its limit of open files (LimitNOFILE)",
                ),
            );
        }
        self.spare = spare();
        self.accept_at = Some(now + Duration::from_millis(ACCEPT_PAUSE_MS));
        self.ready
            .set(&self.listener.socket, Source::Listener, EventFlags::empty());
    }

    fn add_connection(&mut self, channel: Channel, now: Instant) {
        let Ok(peer) = channel.peer() else {
            return;
        };
        let of_user = self
            .connections
            .values()
            .filter(|other| other.peer.uid == peer.uid);
        let user_max = (self.options.connections / USER_PART_OF_CONNECTIONS).max(1) as usize;
        if self.connections.len() >= self.options.connections as usize {
            let reason = format!(
                "the agent has its most connections ({})",
                self.options.connections
            );
            let advice = "end some processes, or raise `connections` in its configuration";
            return self.reject(&channel, refused(RefusedCode::Limit, reason, advice));
        }
        if peer.uid != self.user && of_user.count() >= user_max {
            let reason = format!(
                "user {} has the most connections of one user ({user_max})",
                peer.uid
            );
            let advice = "end some processes, or raise `connections` in the agent's configuration";
            return self.reject(&channel, refused(RefusedCode::Limit, reason, advice));
        }
        let key = self.next_connection;
        self.next_connection += 1;
        if self
            .ready
            .add(&channel, Source::Connection(key), EventFlags::IN)
            .is_ok()
        {
            self.counts.accepted += 1;
            self.connections.insert(key, Connection::new(channel, peer, now));
        }
    }

    /// Tells a peer that it will not be served.
    fn reject(&mut self, channel: &Channel, why: Refused) {
        self.counts.refused += 1;
        if let Ok(bytes) = Message::Refused(why).encode() {
            // A peer that cannot be told sees the end of the connection.
            let _ = channel.send(&bytes, &[]);
        }
    }

    /// Sends a message to a connection, and closes it if that fails.
    fn send(&mut self, key: u64, message: &Message, with: Attached, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&key) {
            let sent = connection.send(message, with, now);
            self.update_interest(key, sent, now);
        }
    }

    /// Refuses in words; with `ends`, closes the connection afterwards.
    fn refuse_at(&mut self, key: u64, why: Refused, ends: bool, now: Instant) {
        self.counts.refused += 1;
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.ends |= ends;
        }
        self.send(key, &Message::Refused(why), Attached::Nothing, now);
    }

    /// After something was sent or received: closes what is broken or done, and waits for the right thing otherwise.
    fn update_interest(&mut self, key: u64, result: Result<(), SendError>, now: Instant) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        if result == Err(SendError::Slow) {
            self.counts.closed += 1;
        }
        if result.is_err() || (connection.ends && connection.is_flushed()) {
            return self.close(key, now);
        }
        let wanted = connection.wanted();
        if connection.interest != wanted {
            connection.interest = wanted;
            self.ready
                .set(&connection.channel, Source::Connection(key), wanted);
        }
    }

    /// Closes a connection. A session that it had goes on without one, for a while.
    fn close(&mut self, key: u64, now: Instant) {
        let Some(connection) = self.connections.remove(&key) else {
            return;
        };
        self.ready.remove(&connection.channel);
        if let Role::Process { session } = connection.role {
            self.connection_lost(session, key, now);
        }
    }

    fn check_timers(&mut self, now: Instant) {
        if self.accept_at.is_some_and(|at| now >= at) {
            self.accept_at = None;
            self.ready
                .set(&self.listener.socket, Source::Listener, EventFlags::IN);
        }
        let mut overdue = Vec::new();
        let mut unmuted = Vec::new();
        for (key, connection) in &mut self.connections {
            if connection.is_overdue(now, self.options.idle_timeout) {
                overdue.push(*key);
            } else if connection.muted_until.is_some_and(|until| now >= until) {
                connection.muted_until = None;
                unmuted.push(*key);
            }
        }
        for key in overdue {
            self.counts.closed += 1;
            self.close(key, now);
        }
        for key in unmuted {
            self.update_interest(key, Ok(()), now);
        }
        self.check_sessions(now);
        self.retry_store(now);
    }
}

/// A descriptor to spare.
fn spare() -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// A refusal, with words cut to what a message takes.
pub(crate) fn refused(code: RefusedCode, reason: impl Into<String>, advice: impl Into<String>) -> Refused {
    let cut = |mut text: String| {
        let mut length = text.len().min(logdrive_wire::limits::AGENT_TEXT_BYTES_MAX);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        text.truncate(length);
        text
    };
    Refused {
        code,
        reason: cut(reason.into()),
        advice: cut(advice.into()),
    }
}
