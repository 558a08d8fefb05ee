//! Messages of processes: joining, adopting, rings, flushes, goodbye.

use super::connection::{Adopting, Attached, Role, SendError, rings_messages};
use super::event::Event;
use super::{Server, admission, refused};
use crate::config::Process;
use crate::level_rules;
use crate::limits::{MESSAGES_PER_TURN, RINGS_ASKED_MAX, RINGS_AT_START};
use logdrive_ring::channel::{Received, into_files};
use logdrive_ring::{FullPolicy, HostedOptions, HostedSession, MemoryFiles, Peer, RingError, is_memory_file};
use logdrive_wire::agent::{Adopt, Hello, Message, Refused, RefusedCode, Welcome, is_other_version};
use rustix::event::epoll::EventFlags;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// A message that came, or why there is none to act on.
enum Incoming {
    Message(Message, Vec<OwnedFd>),
    Nothing,
    Closed,
    Bad(Refused),
}

impl Server {
    /// A connection has something to receive, or room to send.
    pub(super) fn serve(&mut self, key: u64, flags: EventFlags, now: Instant) {
        if flags.contains(EventFlags::OUT) {
            let Some(connection) = self.connections.get_mut(&key) else {
                return;
            };
            let sent = connection.flush(now);
            self.update_interest(key, sent, now);
        }
        for _ in 0..MESSAGES_PER_TURN {
            // A peer that does not read its answers, or was told to close, is not read.
            let connection = self.connections.get(&key);
            if connection.is_none_or(|connection| !connection.wanted().contains(EventFlags::IN)) {
                break;
            }
            match self.receive(key, now) {
                Incoming::Message(message, descriptors) => {
                    self.handle_message(key, message, descriptors, now)
                }
                Incoming::Nothing => break,
                Incoming::Closed => return self.close(key, now),
                Incoming::Bad(why) => {
                    self.counts.closed += 1;
                    self.refuse_at(key, why, true, now);
                }
            }
        }
        // A peer that was told to go and hangs up is closed at once.
        if flags.contains(EventFlags::HUP) && !flags.contains(EventFlags::IN) {
            self.close(key, now);
        }
        self.update_interest(key, Ok(()), now);
    }

    fn receive(&mut self, key: u64, now: Instant) -> Incoming {
        let Some(connection) = self.connections.get_mut(&key) else {
            return Incoming::Nothing;
        };
        let mut descriptors = Vec::new();
        let user = connection.peer.uid;
        let room = self.descriptor_closer.has_room(user);
        let received = connection
            .channel
            .receive(&mut self.buffer, &mut descriptors, room);
        let length = match received {
            Ok(Received::Packet(length)) => length,
            Ok(Received::Closed) => {
                self.descriptor_closer.close(user, descriptors);
                return Incoming::Closed;
            }
            Ok(Received::Cut) => {
                self.descriptor_closer.close(user, descriptors);
                return Incoming::Bad(refused(
                    RefusedCode::Resources,
                    "a message was too long, or the agent has no descriptors left for it",
                    "raise the agent's limit of open files (LimitNOFILE)",
                ));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Incoming::Nothing;
            }
            Err(_) => return Incoming::Closed,
        };
        if !connection.count_message(now) {
            connection.mute();
        }
        let message = Message::decode(self.buffer.get(..length).unwrap_or_default());
        match message {
            Ok(message) if message.descriptors() as usize == descriptors.len() => {
                Incoming::Message(message, descriptors)
            }
            other => {
                self.descriptor_closer.close(user, descriptors);
                Incoming::Bad(refusal_of(other))
            }
        }
    }

    fn handle_message(&mut self, key: u64, message: Message, mut descriptors: Vec<OwnedFd>, now: Instant) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        connection.active_at = now;
        let peer = connection.peer;
        let session = match connection.role {
            Role::Process { session } => Some(session),
            _ => None,
        };
        let is_new = matches!(connection.role, Role::New);
        let is_adopting = matches!(connection.role, Role::Adopting(_));
        let done = match (message, session) {
            (Message::Hello(hello), None) if is_new => self.join(key, peer, &hello, now),
            (Message::Adopt(adopt), None) if is_new => {
                self.adopt(key, peer, adopt, std::mem::take(&mut descriptors), now)
            }
            (Message::Rings { .. }, None) if is_adopting => {
                self.adopt_rings(key, peer, std::mem::take(&mut descriptors), now)
            }
            (Message::Rings { .. }, Some(session)) => {
                self.add_late_rings(session, peer, std::mem::take(&mut descriptors))
            }
            (Message::MoreRings { count }, Some(session)) => {
                self.request_rings(session, count);
                Ok(())
            }
            (Message::Flush { ticket, durable }, Some(session)) => {
                self.events.push(Event::Flush {
                    session,
                    ticket,
                    durable,
                });
                Ok(())
            }
            // Before the session, so that none of its records is taken without it.
            (Message::Keep(request), None) if is_new => {
                connection.keep = Some(request);
                Ok(())
            }
            (Message::WriteKept { ticket, span_ns }, Some(session)) => {
                self.events.push(Event::WriteKept {
                    session,
                    ticket,
                    span_ns,
                });
                Ok(())
            }
            (Message::Bye, Some(session)) => {
                self.begin_end(session);
                Ok(())
            }
            // That it came has ended the wait; there is nothing more to it.
            (Message::Bell, Some(_)) => {
                self.events.push(Event::Bell);
                Ok(())
            }
            (message, None) if !is_adopting => self.answer_tool(key, peer, message, now),
            (message, _) => Err(unexpected_message(&message)),
        };
        // Of a message that should have had none.
        self.descriptor_closer.close(peer.uid, descriptors);
        if let Err(why) = done {
            self.refuse_at(key, why, true, now);
        }
    }

    fn request_rings(&mut self, session: u64, count: u32) {
        if let Some(served) = self.sessions.get_mut(&session) {
            served.rings_requested = (served.rings_requested + count).min(RINGS_ASKED_MAX);
        }
    }

    fn begin_end(&mut self, session: u64) {
        if let Some(served) = self.sessions.get_mut(&session).filter(|served| !served.is_ending) {
            served.is_ending = true;
            self.events.push(Event::Bye { session });
        }
    }

    /// Checks what a process would take; its numbers are those of the kernel.
    fn admit(&self, app: &str, peer: Peer, rings: usize, ring_bytes: usize) -> Result<usize, Refused> {
        let process = Process {
            app,
            pid: peer.pid,
            uid: peer.uid,
        };
        let request = admission::ResourceRequest {
            process,
            is_new: true,
            has: 0,
            rings,
            ring_bytes,
        };
        admission::check(&self.options, self.sessions(), &request)?;
        Ok(admission::rings_max(&self.options.limits, &process))
    }

    fn join(&mut self, key: u64, peer: Peer, hello: &Hello, now: Instant) -> Result<(), Refused> {
        let ring_bytes = logdrive_ring::capacity_for(usize::try_from(hello.ring_bytes).unwrap_or(usize::MAX));
        let wanted = hello.ring_count.clamp(1, RINGS_AT_START) as usize;
        let rings_max = self.admit(&hello.app, peer, wanted, ring_bytes)?;
        let options = HostedOptions {
            id: self.number(None),
            peer,
            ring_bytes,
            rings_max,
            policy: policy(hello.policy),
            coarse: hello.coarse,
        };
        let session = HostedSession::create(&hello.app, options).and_then(|session| {
            (0..wanted).try_for_each(|_| session.add_ring())?;
            Ok(session)
        });
        let session = session.map_err(no_memory)?;
        if let Err(error) = level_rules::apply_initial(&self.options.levels, &session) {
            self.events.push(Event::Notice(format!(
                "process {} of {} begins with its own levels: {error}",
                peer.pid, hello.app
            )));
        }
        let session = self.enter(key, session)?;
        self.counts.joined += 1;
        let welcome = Message::Welcome(Welcome {
            session: session.id(),
            journal: self.options.journal,
            ring_bytes: session.options().ring_bytes as u64,
            clock_source: session.header().clock_source() as u32,
            ring_count: wanted as u32,
            rings_max: rings_max as u32,
        });
        self.grant_recorder(key, &session);
        self.events.push(Event::Joined(Arc::clone(&session)));
        self.send(key, &welcome, Attached::Session(session, wanted), now);
        Ok(())
    }

    fn adopt(
        &mut self,
        key: u64,
        peer: Peer,
        message: Adopt,
        descriptors: Vec<OwnedFd>,
        now: Instant,
    ) -> Result<(), Refused> {
        let mut files = self.memory_files(peer, descriptors)?;
        let rings = files.split_off(MemoryFiles::PARTS.min(files.len()));
        let total = message.ring_total as usize;
        let bytes = usize::try_from(message.ring_bytes).unwrap_or(usize::MAX);
        if total < rings.len() || logdrive_ring::capacity_for(bytes) != bytes {
            return Err(bad_descriptors(
                "the rings are not those that the message tells of",
            ));
        }
        let options = HostedOptions {
            id: message.session,
            peer,
            ring_bytes: bytes,
            rings_max: total,
            policy: policy(message.policy),
            coarse: message.coarse,
        };
        let session = HostedSession::adopt(files, options).map_err(bad)?;
        self.admit_adopted(&session, total)?;
        let adopting = Adopting { message, session };
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.role = Role::Adopting(Box::new(adopting));
        }
        self.add_adopted_rings(key, rings, now)
    }

    /// Checks what a session that is shown would take, before any of its rings is mapped.
    fn admit_adopted(&self, shown: &HostedSession, total: usize) -> Result<(), Refused> {
        if !logdrive_wire::agent::is_app_name(shown.app()) {
            return Err(bad_descriptors(
                "the session's header has no name of an application",
            ));
        }
        let Some(known) = self.known(shown) else {
            return self
                .admit(shown.app(), shown.peer(), total, shown.options().ring_bytes)
                .map(drop);
        };
        let peer = known.peer();
        if peer.pid != shown.peer().pid || known.files().ids() != shown.files().ids() {
            return Err(refused(
                RefusedCode::Descriptors,
                format!("the session belongs to process {}", peer.pid),
                "start the process anew; after a fork, the child has to ask for a session of its own",
            ));
        }
        let request = admission::ResourceRequest {
            process: Process {
                app: known.app(),
                pid: peer.pid,
                uid: peer.uid,
            },
            is_new: false,
            has: known.ring_count(),
            rings: total.saturating_sub(known.ring_count()),
            ring_bytes: known.options().ring_bytes,
        };
        admission::check(&self.options, self.sessions(), &request)
    }

    /// The session that has the memory of another one.
    fn known(&self, shown: &HostedSession) -> Option<&Arc<HostedSession>> {
        let id = self.memory.get(shown.files().ids().first()?)?;
        self.sessions.get(id).map(|served| &served.session)
    }

    fn adopt_rings(
        &mut self,
        key: u64,
        peer: Peer,
        descriptors: Vec<OwnedFd>,
        now: Instant,
    ) -> Result<(), Refused> {
        if descriptors.is_empty() {
            return Err(bad_descriptors("a message of no rings"));
        }
        let rings = self.memory_files(peer, descriptors)?;
        self.add_adopted_rings(key, rings, now)
    }

    /// Takes rings that a process made while it had no connection, and that came to it later than its session.
    fn add_late_rings(&mut self, session: u64, peer: Peer, descriptors: Vec<OwnedFd>) -> Result<(), Refused> {
        let rings = self.memory_files(peer, descriptors)?;
        let Some(served) = self.sessions.get(&session) else {
            return Ok(());
        };
        let session = Arc::clone(&served.session);
        let request = admission::ResourceRequest {
            process: Process {
                app: session.app(),
                pid: peer.pid,
                uid: peer.uid,
            },
            is_new: false,
            has: session.ring_count(),
            rings: rings.len(),
            ring_bytes: session.options().ring_bytes,
        };
        admission::check(&self.options, self.sessions(), &request)?;
        for ring in rings {
            session.take_ring(ring).map_err(bad)?;
            let newest = session.memory_ids().pop();
            self.claim(session.id(), newest.as_slice())?;
        }
        self.store_session(session.id());
        Ok(())
    }

    /// Takes rings that a process shows; with the last one, its session.
    fn add_adopted_rings(&mut self, key: u64, rings: Vec<File>, now: Instant) -> Result<(), Refused> {
        let Some(connection) = self.connections.get_mut(&key) else {
            return Ok(());
        };
        let Role::Adopting(adopting) = &connection.role else {
            return Ok(());
        };
        let (session, message) = (&adopting.session, adopting.message);
        rings
            .into_iter()
            .try_for_each(|file| session.take_ring(file))
            .map_err(bad)?;
        if session.ring_count() < message.ring_total as usize {
            return Ok(());
        }
        let role = std::mem::replace(&mut connection.role, Role::New);
        let Role::Adopting(adopting) = role else {
            return Ok(());
        };
        self.finish_adoption(key, *adopting, now)
    }

    fn finish_adoption(&mut self, key: u64, adopting: Adopting, now: Instant) -> Result<(), Refused> {
        let Adopting { message, session } = adopting;
        if let Some(known) = self.known(&session) {
            let known = Arc::clone(known);
            return self.resume(key, &known, &session, now);
        }
        let rings = session.ring_count();
        let rings_max = self.admit(session.app(), session.peer(), rings, session.options().ring_bytes)?;
        let number = self.number(Some(message.session));
        let session = self.enter(key, session.renumbered(number, rings_max))?;
        self.counts.adopted += 1;
        self.grant_recorder(key, &session);
        self.events.push(Event::Adopted {
            session: Arc::clone(&session),
            journal: message.journal,
        });
        self.send_welcome_back(key, &session, now);
        Ok(())
    }

    /// The session is here: its connection had broken. It was checked that it is the same one.
    fn resume(
        &mut self,
        key: u64,
        session: &Arc<HostedSession>,
        shown: &HostedSession,
        now: Instant,
    ) -> Result<(), Refused> {
        let had = session.memory_ids();
        let has = shown.memory_ids();
        self.claim(session.id(), &has)?;
        let new = shown.rings_besides(&had).map_err(bad)?;
        new.into_iter()
            .try_for_each(|file| session.take_ring(file))
            .map_err(bad)?;
        self.store_session(session.id());
        self.grant_recorder(key, session);
        self.reconnect(session.id(), key, now);
        self.send_welcome_back(key, session, now);
        // Rings that were on their way when the connection broke.
        for (place, id) in had.iter().skip(MemoryFiles::PARTS).enumerate() {
            if !has.contains(id) {
                for (message, with) in rings_messages(session, place, place + 1) {
                    self.send(key, &message, with, now);
                }
            }
        }
        Ok(())
    }

    fn send_welcome_back(&mut self, key: u64, session: &HostedSession, now: Instant) {
        let message = Message::WelcomeBack {
            session: session.id(),
            journal: self.options.journal,
            ring_total: session.ring_count() as u32,
            rings_max: session.options().rings_max as u32,
        };
        self.send(key, &message, Attached::Nothing, now);
    }

    /// Descriptors as files, if all of them are sealed memory; others are closed elsewhere.
    fn memory_files(&mut self, peer: Peer, descriptors: Vec<OwnedFd>) -> Result<Vec<File>, Refused> {
        let files = into_files(descriptors);
        if files.iter().all(is_memory_file) {
            return Ok(files);
        }
        let all = files.into_iter().map(OwnedFd::from).collect();
        self.descriptor_closer.close(peer.uid, all);
        Err(bad_descriptors(
            "a descriptor is not that of a sealed memory file",
        ))
    }

    /// Everything that was committed before a [`Event::Flush`] is written, or cannot be.
    pub fn flushed(&mut self, session: u64, ticket: u64, reached: bool, now: Instant) {
        if let Some(key) = self.connection_of(session) {
            self.send(key, &Message::Flushed { ticket, reached }, Attached::Nothing, now);
        }
    }

    /// Everything of a session that said [`Event::Bye`] is written, or cannot be: tells the process, and forgets the
    /// session.
    pub fn done(&mut self, session: u64, complete: bool, now: Instant) {
        if let Some(key) = self.connection_of(session) {
            self.send(key, &Message::Done { complete }, Attached::Nothing, now);
            // The connection ends by itself when the message is sent; it has no session any more.
            if let Some(served) = self.sessions.get_mut(&session) {
                served.connection = None;
            }
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.role = Role::Tool { waits: false };
                connection.ends = true;
            }
            self.update_interest(key, Ok::<(), SendError>(()), now);
        }
        self.remove_session(session);
    }

    fn connection_of(&self, session: u64) -> Option<u64> {
        self.sessions.get(&session)?.connection
    }
}

fn policy(code: u32) -> FullPolicy {
    match code {
        0 => FullPolicy::Drop,
        2 => FullPolicy::Block,
        _ => FullPolicy::Wait,
    }
}

fn refusal_of(decoded: Result<Message, logdrive_wire::WireError>) -> Refused {
    match decoded {
        Err(error) if is_other_version(&error) => refused(
            RefusedCode::Version,
            format!(
                "{error}: this agent speaks version {}",
                logdrive_wire::agent::VERSION
            ),
            "use an agent and a library of the same version",
        ),
        Err(error) => refused(
            RefusedCode::Message,
            format!("a message cannot be read: {error}"),
            "connect with Logdrive's own library or command",
        ),
        Ok(message) => bad_descriptors(&format!("{} came without its descriptors", message.name())),
    }
}

pub(super) fn unexpected_message(message: &Message) -> Refused {
    refused(
        RefusedCode::Message,
        format!("{} does not belong here", message.name()),
        "connect with Logdrive's own library or command",
    )
}

fn bad_descriptors(what: &str) -> Refused {
    refused(RefusedCode::Descriptors, what, "start the process anew")
}

fn bad(error: RingError) -> Refused {
    bad_descriptors(&error.to_string())
}

fn no_memory(error: RingError) -> Refused {
    refused(
        RefusedCode::Resources,
        error.to_string(),
        "give the agent more memory or descriptors",
    )
}
