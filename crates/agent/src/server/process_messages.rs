//! Messages of processes: joining, adopting, rings, flushes, goodbye.

use super::admission::{self, ResourceRequest};
use super::connection::{Adopting, Attached, Role, rings_messages};
use super::event::Event;
use super::peers::Peers;
use super::refusal::{bad_descriptors, bad_memory, no_memory, refused, unexpected_message};
use super::sessions::ServedSession;
use crate::config::Process;
use crate::keeper::packet::policy_of;
use crate::level_rules;
use crate::limits::{RINGS_ASKED_MAX, RINGS_AT_START, RINGS_PER_TURN};
use logdrive_drain::RecorderOptions;
use logdrive_drain::control::read_selector;
use logdrive_ring::channel::into_files;
use logdrive_ring::limits::RING_BYTES_MIN;
use logdrive_ring::{HostedOptions, HostedSession, MemoryFiles, Peer, Ring, is_memory_file};
use logdrive_wire::agent::{Adopt, Hello, Keep, Message, Refused, RefusedCode, Welcome};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Peers {
    pub(super) fn handle_message(
        &mut self,
        key: u64,
        message: Message,
        mut descriptors: Vec<OwnedFd>,
        now: Instant,
    ) {
        let Some(connection) = self.connections.get_mut(key) else {
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
                self.request_rings(session, false, count);
                Ok(())
            }
            (Message::SmallRings { count }, Some(session)) => {
                self.request_rings(session, true, count);
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
            self.connections.refuse(key, why, true, now);
        }
    }

    fn request_rings(&mut self, session: u64, small: bool, count: u32) {
        if let Some(served) = self.sessions.get_mut(session) {
            let requested = &mut served.rings_requested[usize::from(small)];
            *requested = (*requested + count).min(RINGS_ASKED_MAX);
        }
    }

    fn begin_end(&mut self, session: u64) {
        let served = self.sessions.get_mut(session);
        if let Some(served) = served.filter(|served| !served.is_ending) {
            served.is_ending = true;
            self.events.push(Event::Bye { session });
        }
    }

    fn admit(&self, request: &ResourceRequest<'_>) -> Result<(), Refused> {
        admission::check(&self.options, &self.sessions, request)
    }

    fn join(&mut self, key: u64, peer: Peer, hello: &Hello, now: Instant) -> Result<(), Refused> {
        let ring_bytes = logdrive_ring::capacity_for(usize::try_from(hello.ring_bytes).unwrap_or(usize::MAX));
        let wanted = hello.ring_count.clamp(1, RINGS_AT_START) as usize;
        let process = Process {
            app: &hello.app,
            pid: peer.pid,
            uid: peer.uid,
        };
        self.admit(&ResourceRequest {
            process,
            session: None,
            rings: wanted,
            bytes: wanted as u64 * Ring::file_bytes(ring_bytes),
        })?;
        let rings_max = admission::rings_max(&self.options.limits, &process);
        let options = HostedOptions {
            id: self.sessions.number(None),
            peer,
            ring_bytes,
            rings_max,
            policy: policy_of(hello.policy),
            coarse: hello.coarse,
        };
        let session = HostedSession::create(&hello.app, options).and_then(|session| {
            (0..wanted).try_for_each(|_| session.add_ring())?;
            Ok(session)
        });
        let session = session.map_err(no_memory)?;
        // Before the process gets the session, so that its first callsite has these levels already.
        if let Err(error) = level_rules::apply_initial(&self.options.levels, &session) {
            self.events.push(Event::Notice(format!(
                "process {} of {} begins with its own levels: {error}",
                peer.pid, hello.app
            )));
        }
        let session = self.enter(key, session, now)?;
        self.joined += 1;
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
        self.connections
            .send(key, &welcome, Attached::Session(session, wanted), now);
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
            policy: policy_of(message.policy),
            coarse: message.coarse,
        };
        let session = HostedSession::adopt(files, options).map_err(bad_memory)?;
        self.admit_adopted(&session, total)?;
        let adopting = Adopting { message, session };
        if let Some(connection) = self.connections.get_mut(key) {
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
        let Some(known) = self.sessions.known(shown) else {
            return self.admit(&ResourceRequest {
                process: Process::from(shown),
                session: None,
                rings: total,
                bytes: least_bytes(total),
            });
        };
        let peer = known.peer();
        if peer.pid != shown.peer().pid || known.files().ids() != shown.files().ids() {
            return Err(refused(
                RefusedCode::Descriptors,
                format!("the session belongs to process {}", peer.pid),
                "start the process anew; after a fork, the child has to ask for a session of its own",
            ));
        }
        let rings = total.saturating_sub(known.ring_count());
        self.admit(&ResourceRequest::more_rings(known, rings, least_bytes(rings)))
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
        let served = self.sessions.get(session);
        let Some(session) = served.map(|served| Arc::clone(&served.session)) else {
            return Ok(());
        };
        let bytes = rings
            .iter()
            .map(|ring| ring.metadata().map_or(u64::MAX, |found| found.len()));
        let bytes = bytes.fold(0, u64::saturating_add);
        self.admit(&ResourceRequest::more_rings(&session, rings.len(), bytes))?;
        for ring in rings {
            session.take_ring(ring).map_err(bad_memory)?;
            let newest = session.memory_ids().pop();
            self.sessions.claim(session.id(), newest.as_slice())?;
        }
        self.sessions.store(session.id());
        Ok(())
    }

    /// Takes rings that a process shows; with the last one, its session.
    fn add_adopted_rings(&mut self, key: u64, rings: Vec<File>, now: Instant) -> Result<(), Refused> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(());
        };
        let Role::Adopting(adopting) = &connection.role else {
            return Ok(());
        };
        let (session, message) = (&adopting.session, adopting.message);
        rings
            .into_iter()
            .try_for_each(|file| session.take_ring(file))
            .map_err(bad_memory)?;
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
        if let Some(known) = self.sessions.known(&session).map(Arc::clone) {
            return self.resume(key, &known, &session, now);
        }
        let process = Process::from(&session);
        self.admit(&ResourceRequest {
            process,
            session: None,
            rings: session.ring_count(),
            bytes: session.rings_bytes(),
        })?;
        let rings_max = admission::rings_max(&self.options.limits, &process);
        let number = self.sessions.number(Some(message.session));
        let session = self.enter(key, session.renumbered(number, rings_max), now)?;
        self.adopted += 1;
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
        self.sessions.claim(session.id(), &has)?;
        let new = shown.rings_besides(&had).map_err(bad_memory)?;
        new.into_iter()
            .try_for_each(|file| session.take_ring(file))
            .map_err(bad_memory)?;
        self.sessions.store(session.id());
        self.grant_recorder(key, session);
        if let Some(connection) = self.connections.get_mut(key) {
            connection.role = Role::Process {
                session: session.id(),
            };
        }
        if let Some(earlier) = self.sessions.reconnected(session.id(), key) {
            self.connections.close(earlier);
        }
        self.send_welcome_back(key, session, now);
        // Rings that were on their way when the connection broke.
        for (place, id) in had.iter().skip(MemoryFiles::PARTS).enumerate() {
            if !has.contains(id) {
                for (message, with) in rings_messages(session, place, place + 1) {
                    self.connections.send(key, &message, with, now);
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
        self.connections.send(key, &message, Attached::Nothing, now);
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

    /// Enters a session with its process; fails when one of its files belongs to another session.
    fn enter(
        &mut self,
        key: u64,
        session: HostedSession,
        now: Instant,
    ) -> Result<Arc<HostedSession>, Refused> {
        let session = Arc::new(session);
        let connection = self.connections.get_mut(key);
        let process =
            connection.and_then(|connection| connection.peer.process(connection.channel.as_fd()).ok());
        let served = ServedSession::new(Arc::clone(&session), process, Some(key), now);
        self.sessions.enter(served)?;
        if let Some(connection) = self.connections.get_mut(key) {
            connection.role = Role::Process {
                session: session.id(),
            };
        }
        Ok(session)
    }

    /// Makes rings that processes wait for, a few in each turn.
    pub(super) fn send_rings(&mut self, now: Instant) {
        let mut left = RINGS_PER_TURN;
        while left > 0 {
            let Some(served) = self.sessions.waiting_for_rings() else {
                return;
            };
            // Those that replace others first: a thread that asks for one has no room.
            let small = served.rings_requested[0] == 0;
            let requested = &mut served.rings_requested[usize::from(small)];
            let count = (*requested).min(left);
            *requested -= count;
            left -= count;
            let (session, connection) = (Arc::clone(&served.session), served.connection);
            let largest = session.options().ring_bytes;
            let ring_bytes = if small { RING_BYTES_MIN } else { largest };
            self.send_rings_to(&session, connection, (count as usize, ring_bytes), now);
        }
    }

    fn send_rings_to(
        &mut self,
        session: &Arc<HostedSession>,
        connection: Option<u64>,
        (count, ring_bytes): (usize, usize),
        now: Instant,
    ) {
        let first = session.ring_count();
        let added = (0..count).try_for_each(|_| self.add_ring(session, ring_bytes));
        let made = session.ring_count() - first;
        // Before the process has them.
        self.sessions.store(session.id());
        if added.is_err()
            && let Some(served) = self.sessions.get_mut(session.id())
        {
            served.rings_requested = [0; 2];
        }
        let Some(key) = connection else { return };
        for (message, with) in rings_messages(session, first, first + made) {
            self.connections.send(key, &message, with, now);
        }
        if let Err(why) = added {
            let none = Message::Rings {
                first: first as u32,
                count: 0,
                reason: why.reason,
            };
            self.connections.send(key, &none, Attached::Nothing, now);
        }
    }

    /// Makes one more ring of a session, if all limits allow it.
    fn add_ring(&mut self, session: &HostedSession, ring_bytes: usize) -> Result<(), Refused> {
        let bytes = Ring::file_bytes(ring_bytes);
        self.admit(&ResourceRequest::more_rings(session, 1, bytes))?;
        session.add_ring_of(ring_bytes).map_err(no_memory)?;
        self.sessions
            .claim(session.id(), session.memory_ids().pop().as_slice())
    }

    /// Grants the flight recorder that a process has wished for before it got its session: its memory counts as that of the
    /// process. The owner hears of it before it hears of the session.
    fn grant_recorder(&mut self, key: u64, session: &HostedSession) {
        let connection = self.connections.get_mut(key);
        let Some(request) = connection.and_then(|connection| connection.keep.take()) else {
            return;
        };
        let wanted = admission::keep_bytes_wanted(request.bytes);
        let granted = admission::keep_bytes_granted(&self.options.limits, &self.sessions, session, wanted);
        if granted < wanted {
            let gets = match granted {
                0 => "no flight recorder".to_owned(),
                bytes => format!("a flight recorder of {bytes} bytes"),
            };
            self.events.push(Event::Notice(format!(
                "process {} of {} has {gets}, because its limit of memory leaves no more of the {wanted} that it wants: \
                 raise `memory_bytes` in the agent's configuration",
                session.peer().pid,
                session.app()
            )));
        }
        let session = session.id();
        if let Some(served) = self.sessions.get_mut(session) {
            served.keep_bytes = granted;
        }
        if granted > 0 {
            let keep = recorder_options(&request, granted);
            self.events.push(Event::Keep { session, keep });
        }
    }
}

/// Bytes that so many rings take at least: their sizes are known when all of them have come.
fn least_bytes(rings: usize) -> u64 {
    rings as u64 * Ring::file_bytes(RING_BYTES_MIN)
}

fn recorder_options(request: &Keep, bytes: u64) -> RecorderOptions {
    // A callsite that cannot be read is none that a record could be of.
    let callsites = request.trigger_callsites.iter();
    RecorderOptions {
        trigger_level: request.trigger_level,
        trigger_callsites: callsites.filter_map(|text| read_selector(text).ok()).collect(),
        on_crash: request.on_crash,
        before: (request.before_ns > 0).then(|| Duration::from_nanos(request.before_ns)),
        pause: Duration::from_nanos(request.pause_ns),
        ..RecorderOptions::new(bytes)
    }
}
