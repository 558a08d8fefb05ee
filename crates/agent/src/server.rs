//! The server: takes connections, hands sessions to processes, takes them back, and answers tools. One thread drives it,
//! and nothing in it waits but [`Server::poll`], up to its timeout.
//!
//! The owner, the drain, calls [`Server::poll`] where it would sleep, and acts on the events. Whatever a peer does ends
//! at its own connection: messages are read whole, checked and bounded, and a peer that is slow, silent or loud is
//! closed.

mod admission;
mod connection;
mod connections;
mod descriptor_closer;
mod event;
mod listening;
mod options;
mod peers;
mod process_messages;
mod ready;
mod refusal;
mod sessions;
mod tool_messages;
mod watched_process;

pub use event::{End, Event, Request, Requester};
pub use options::{ServerCounts, ServerOptions};
pub(crate) use refusal::refused;

use crate::descriptor_store::{DescriptorStore, StoreOptions};
use crate::error::AgentError;
use crate::limits::{
    ACCEPTS_PER_TURN, ANSWER_BYTES_MAX, ANSWER_PART_BYTES, EVICTIONS_FOR_DESCRIPTORS, MESSAGES_PER_TURN,
    TIMERS_EVERY_MS,
};
use connection::{Attached, Connection, Incoming, Role};
use connections::Connections;
use descriptor_closer::DescriptorCloser;
use listening::{Accepted, Listening};
use logdrive_ring::channel::Channel;
use logdrive_ring::{HostedSession, Peer};
use logdrive_wire::agent::{Message, Refused, RefusedCode};
use peers::Peers;
use ready::{Readiness, Ready, Source};
use sessions::{ServedSession, Sessions, may_access};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The agent's end of all connections.
#[derive(Debug)]
pub struct Server {
    listening: Listening,
    /// Connections may wait that were not accepted in their turn.
    may_accept: bool,
    ready: Ready,
    peers: Peers,
    out_of_descriptors: u64,
    timers_at: Instant,
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
        let listening = Listening::open(&options.socket, options.mode, options.group)?;
        let watched = || {
            let ready = Ready::new()?;
            let (connections, sessions) = (ready.watcher()?, ready.watcher()?);
            connections.add(&listening, Source::Listener)?;
            Ok::<_, std::io::Error>((ready, connections, sessions))
        };
        let (ready, connections, sessions) =
            watched().map_err(|cause| AgentError::io("watch", &options.socket, cause))?;
        Ok(Self {
            listening,
            may_accept: false,
            ready,
            peers: Peers {
                connections: Connections::new(connections),
                sessions: Sessions::new(sessions),
                descriptor_closer: DescriptorCloser::default(),
                events: Vec::new(),
                joined: 0,
                adopted: 0,
                options,
            },
            out_of_descriptors: 0,
            timers_at: Instant::now(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
        })
    }

    /// Does what peers ask for, and waits for them at most `timeout` when there is nothing to do. Processes that need
    /// the drain end the wait. `now` is the time at the call.
    pub fn poll(&mut self, now: Instant, timeout: Duration) -> Vec<Event> {
        let has_work = self.may_accept
            || !self.peers.events.is_empty()
            || self.peers.connections.has_work()
            || self.peers.sessions.waiting_for_rings().is_some();
        let timeout = if has_work { Duration::ZERO } else { timeout };
        let ready = self.ready.wait(timeout);
        for key in self.peers.connections.take_unread() {
            self.serve(key, now);
        }
        for readiness in ready {
            self.dispatch(readiness, now);
        }
        // After the others: one that has sent its first message does not give way to a new one.
        if std::mem::take(&mut self.may_accept) {
            self.accept(now);
        }
        self.peers.send_rings(now);
        if now >= self.timers_at {
            self.timers_at = now + Duration::from_millis(TIMERS_EVERY_MS);
            self.check_timers(now);
        }
        for (session, key) in self.peers.connections.take_lost() {
            let end = self.peers.sessions.disconnected(session, key, now);
            self.peers.end_session(session, end);
        }
        std::mem::take(&mut self.peers.events)
    }

    fn dispatch(&mut self, readiness: Readiness, now: Instant) {
        match readiness.source {
            Source::Listener => self.may_accept = true,
            Source::Process(session) => {
                let end = self.peers.sessions.check_process(session, now);
                self.peers.end_session(session, end);
                let ended = self.peers.sessions.check_finished(session, now);
                self.peers.report_ended(ended);
            }
            Source::Connection(key) => {
                if readiness.is_writable {
                    self.peers.connections.flush(key, now);
                }
                if let Some(connection) = self.peers.connections.get_mut(key) {
                    connection.may_read |= readiness.is_readable;
                }
                self.serve(key, now);
                // A peer that was refused and hangs up is closed at once.
                let is_read = |connection: &mut Connection| connection.reads();
                if readiness.is_hung_up && !self.peers.connections.get_mut(key).is_some_and(is_read) {
                    self.peers.connections.close(key);
                }
            }
        }
    }

    /// Acts on what a connection has sent, as far as others get their turn, too.
    fn serve(&mut self, key: u64, now: Instant) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(connection) = self.peers.connections.get_mut(key) else {
                return;
            };
            if !connection.may_read || !connection.reads() {
                return;
            }
            match connection.receive(&mut self.buffer, &mut self.peers.descriptor_closer, now) {
                Incoming::Message(message, descriptors) => {
                    self.peers.handle_message(key, message, descriptors, now);
                }
                Incoming::Nothing => {}
                Incoming::Closed => return self.peers.connections.close(key),
                Incoming::Bad(why) => {
                    self.peers.connections.closed += 1;
                    self.peers.connections.refuse(key, why, true, now);
                }
            }
        }
        self.peers.connections.continue_later(key);
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPTS_PER_TURN {
            match self.listening.accept(now) {
                Accepted::Connection(channel) => {
                    self.peers
                        .connections
                        .admit(channel, self.peers.options.connections, now);
                }
                Accepted::Exhausted(channel) => {
                    self.lack_descriptors(channel, now);
                    return self.listening.restore_spare();
                }
                Accepted::Nothing => return,
            }
        }
        self.may_accept = true;
    }

    /// The system has no descriptor: idle connections are closed for the one that comes, which is refused where there are
    /// none.
    fn lack_descriptors(&mut self, channel: Option<Channel>, now: Instant) {
        self.out_of_descriptors += 1;
        if self.out_of_descriptors == 1 {
            self.peers.events.push(Event::Notice(
                "the agent has no descriptor for another connection: raise LimitNOFILE, or end some \
                 processes"
                    .to_owned(),
            ));
        }
        let connections = &mut self.peers.connections;
        let evicted = (0..EVICTIONS_FOR_DESCRIPTORS).take_while(|_| connections.evict(None));
        let has_room = evicted.count() > 0;
        let Some(channel) = channel else { return };
        if has_room {
            return connections.admit(channel, self.peers.options.connections, now);
        }
        let why = refused(
            RefusedCode::Resources,
            "the agent has too many files open",
            "raise its limit of open files (LimitNOFILE)",
        );
        connections.reject(&channel, why);
    }

    fn check_timers(&mut self, now: Instant) {
        self.may_accept |= self.listening.resume(now);
        self.peers
            .connections
            .check_timers(now, self.peers.options.idle_timeout);
        for (session, end) in self.peers.sessions.overdue(now) {
            self.peers.end_session(session, Some(end));
        }
        let ended = self.peers.sessions.overdue_finished(now);
        self.peers.report_ended(ended);
        let unstored = self.peers.sessions.check_store(now).err();
        self.peers.events.extend(unstored.map(Event::Notice));
    }

    /// Takes what can change while it listens: connections, times, limits, levels and recorders; socket, group and mode
    /// stay. So do sessions and connections that are there, also where they are more than there may be.
    pub fn adjust(&mut self, options: ServerOptions) {
        self.peers.options = ServerOptions {
            socket: std::mem::take(&mut self.peers.options.socket),
            group: self.peers.options.group,
            mode: self.peers.options.mode,
            ..options
        };
    }

    /// All sessions, in the order of their numbers.
    pub fn sessions(&self) -> impl Iterator<Item = &Arc<HostedSession>> {
        self.peers.sessions.iter().map(|served| &served.session)
    }

    /// The session of a number.
    pub fn session(&self, id: u64) -> Option<&Arc<HostedSession>> {
        self.peers.sessions.get(id).map(|served| &served.session)
    }

    /// Returns the counts.
    pub fn counts(&self) -> ServerCounts {
        let (stored_descriptors, unstored_sessions) = self.peers.sessions.store_counts();
        ServerCounts {
            accepted: self.peers.connections.accepted,
            refused: self.peers.connections.refused,
            closed: self.peers.connections.closed,
            joined: self.peers.joined,
            adopted: self.peers.adopted,
            out_of_descriptors: self.out_of_descriptors,
            stored_descriptors,
            unstored_sessions,
            connections: self.peers.connections.len() as u64,
            sessions: self.peers.sessions.len() as u64,
        }
    }

    /// Has a store hold all sessions from now on, and takes over those that it has from an earlier agent: of processes
    /// that live, which will come and show them, and of those that are dead, whose sessions only the store has.
    pub fn keep(&mut self, options: StoreOptions, run_dir: &Path, now: Instant) {
        let (mut store, restored, notices) = DescriptorStore::start(options, run_dir, now);
        self.peers.events.extend(notices.into_iter().map(Event::Notice));
        for kept in restored {
            let id = kept.session.id();
            let session = Arc::new(kept.session);
            if session.header().totals().is_spilled {
                self.peers.events.push(Event::Notice(format!(
                    "process {} of {} has written its session to files, because there was no agent: `logdrive recover` \
                     brings its records into its own log",
                    session.peer().pid,
                    session.app()
                )));
                store.remove(id);
                continue;
            }
            let journal = session.header().journal();
            let served = ServedSession::new(Arc::clone(&session), kept.process, None, now);
            if self.peers.sessions.get(id).is_some() || self.peers.sessions.enter(served).is_err() {
                store.remove(id);
                continue;
            }
            self.peers.adopted += 1;
            self.peers.events.push(Event::Adopted { session, journal });
        }
        let unstored = self.peers.sessions.store_in(store).err();
        self.peers.events.extend(unstored.map(Event::Notice));
    }

    /// All of a session is written: its memory is not needed any more.
    pub fn release(&mut self, session: u64) {
        self.peers.sessions.release(session);
    }

    /// Everything that was committed before a [`Event::Flush`] is written, or cannot be.
    pub fn flushed(&mut self, session: u64, ticket: u64, reached: bool, now: Instant) {
        if let Some(key) = self
            .peers
            .sessions
            .get(session)
            .and_then(|served| served.connection)
        {
            let message = Message::Flushed { ticket, reached };
            self.peers.connections.send(key, &message, Attached::Nothing, now);
        }
    }

    /// Everything of a session that said [`Event::Bye`] is written, or cannot be: answers the process, and forgets the
    /// session. The connection ends by itself when the message is sent.
    pub fn done(&mut self, session: u64, complete: bool, now: Instant) {
        // One that its process has shown again since is another one.
        let is_ending = |served: &ServedSession| served.is_ending;
        if !self.peers.sessions.get(session).is_some_and(is_ending) {
            return;
        }
        if let Some(key) = self.peers.sessions.finish(session) {
            self.peers
                .connections
                .send(key, &Message::Done { complete }, Attached::Nothing, now);
            self.peers.connections.finish(key);
        }
    }

    /// The sessions of an application that a peer may see and change.
    pub fn sessions_of(&self, peer: Peer, app: &str) -> Vec<Arc<HostedSession>> {
        let of_app = self.sessions().filter(|session| session.app() == app);
        of_app
            .filter(|session| may_access(peer, session.peer().uid))
            .cloned()
            .collect()
    }

    /// Answers a tool. A text that is too long is cut, and says so.
    pub fn answer(&mut self, requester: Requester, text: &str, now: Instant) {
        self.stop_waiting(requester);
        let (mut left, rest) = text.split_at(text.floor_char_boundary(ANSWER_BYTES_MAX));
        let is_cut = !rest.is_empty();
        loop {
            let (part, rest) = left.split_at(left.floor_char_boundary(ANSWER_PART_BYTES));
            let more = !rest.is_empty();
            let text = match is_cut && !more {
                true => format!("{part}\n(cut)\n"),
                false => part.to_owned(),
            };
            let message = Message::Answer { more, text };
            self.peers
                .connections
                .send(requester.0, &message, Attached::Nothing, now);
            if !more {
                return;
            }
            left = rest;
        }
    }

    /// Refuses a tool's request.
    pub fn refuse(&mut self, requester: Requester, why: Refused, now: Instant) {
        self.stop_waiting(requester);
        let why = refused(why.code, why.reason, why.advice);
        self.peers.connections.refuse(requester.0, why, false, now);
    }

    fn stop_waiting(&mut self, requester: Requester) {
        if let Some(connection) = self.peers.connections.get_mut(requester.0) {
            connection.role = Role::Tool { waits: false };
        }
    }
}
