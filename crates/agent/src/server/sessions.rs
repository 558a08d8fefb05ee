//! The sessions of a server, and how they end.

use super::connection::{Attached, Role};
use super::event::{End, Event};
use super::ready::Source;
use super::{Server, admission, refused};
use crate::config::Process;
use crate::limits::{AWAY_MS_MAX, EXIT_WAIT_MS, RINGS_PER_TURN, SESSION_NUMBER_MAX};
use logdrive_ring::clock::unix_ns;
use logdrive_ring::{HostedSession, MemoryId, exit_of};
use logdrive_wire::agent::{Message, Refused, RefusedCode, SessionState};
use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A session and its process.
#[derive(Debug)]
pub(super) struct ServedSession {
    pub(super) session: Arc<HostedSession>,
    pub(super) connection: Option<u64>,
    /// The process, where the system has descriptors of processes.
    process: Option<OwnedFd>,
    /// Since when it has no connection.
    away_since: Option<Instant>,
    /// True if it has said goodbye.
    pub(super) is_ending: bool,
    /// Time at which its end was seen; its status may still come.
    died_at: Option<Instant>,
    /// Rings that it waits for.
    pub(super) rings_requested: u32,
    /// Bytes of the flight recorder that it wished for.
    pub(super) keep_bytes: u64,
}

impl ServedSession {
    /// One that was kept while there was no agent: its process may come, or be dead.
    pub(super) fn restored(session: Arc<HostedSession>, process: Option<OwnedFd>, now: Instant) -> Self {
        Self {
            session,
            connection: None,
            process,
            away_since: Some(now),
            is_ending: false,
            died_at: None,
            rings_requested: 0,
            keep_bytes: 0,
        }
    }

    pub(super) fn process(&self) -> Option<&OwnedFd> {
        self.process.as_ref()
    }

    pub(super) fn state(&self) -> SessionState {
        if self.is_ending {
            SessionState::Ending
        } else if self.connection.is_some() {
            SessionState::Connected
        } else {
            SessionState::Away
        }
    }
}

impl Server {
    /// Returns whether a turn has something to do without any peer.
    pub(super) fn has_work(&self) -> bool {
        !self.events.is_empty() || self.sessions.values().any(|served| served.rings_requested > 0)
    }

    /// A number for a session: the wanted one if it is free, otherwise one that rises with time.
    pub(super) fn number(&mut self, wanted: Option<u64>) -> u64 {
        let free = |number: &u64| *number < SESSION_NUMBER_MAX && !self.sessions.contains_key(number);
        if let Some(number) = wanted.filter(free) {
            return number;
        }
        let mut number = (unix_ns() / 1_000_000).max(self.last_session + 1);
        while self.sessions.contains_key(&number) {
            number += 1;
        }
        self.last_session = number;
        number
    }

    /// Enters a session with its process; fails when one of its files belongs to another session.
    pub(super) fn enter(&mut self, key: u64, session: HostedSession) -> Result<Arc<HostedSession>, Refused> {
        let session = Arc::new(session);
        let id = session.id();
        self.claim(id, &session.memory_ids())?;
        let connection = self.connections.get_mut(&key);
        let process = connection.and_then(|connection| {
            connection.role = Role::Process { session: id };
            connection.peer.process(connection.channel.as_fd()).ok()
        });
        self.insert_session(ServedSession {
            session: Arc::clone(&session),
            connection: Some(key),
            process,
            away_since: None,
            is_ending: false,
            died_at: None,
            rings_requested: 0,
            keep_bytes: 0,
        });
        self.store_session(id);
        Ok(session)
    }

    /// Enters a session, and watches its process.
    pub(super) fn insert_session(&mut self, served: ServedSession) {
        let id = served.session.id();
        if let Some(process) = &served.process {
            // Without it the end of the connection is the end of the process.
            let _ = self.ready.add(process, Source::Process(id), EventFlags::IN);
        }
        self.sessions.insert(id, served);
    }

    /// Notes whose the files are.
    pub(super) fn claim(&mut self, session: u64, files: &[MemoryId]) -> Result<(), Refused> {
        let is_foreign = |file: &MemoryId| self.memory.get(file).is_some_and(|owner| *owner != session);
        if files.iter().any(is_foreign) {
            return Err(refused(
                RefusedCode::Descriptors,
                "a file of the session belongs to another session",
                "start the process anew",
            ));
        }
        self.memory.extend(files.iter().map(|file| (*file, session)));
        Ok(())
    }

    /// The connection of a session has ended.
    pub(super) fn connection_lost(&mut self, session: u64, key: u64, now: Instant) {
        let Some(served) = self.sessions.get_mut(&session) else {
            return;
        };
        if served.connection != Some(key) {
            return;
        }
        served.connection = None;
        served.rings_requested = 0;
        served.away_since = Some(now);
        if served.process.is_none() {
            self.end_session(session, End::Ended);
        }
    }

    /// The descriptor of a process has something to say.
    pub(super) fn check_process(&mut self, session: u64, now: Instant) {
        let Some(served) = self.sessions.get_mut(&session) else {
            return;
        };
        let Some(process) = &served.process else {
            return;
        };
        // The event may be that of an earlier session of the same number.
        let now_or_never = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut polled = [PollFd::new(process, PollFlags::IN)];
        let ready = poll(&mut polled, Some(&now_or_never)).unwrap_or(0);
        let is_fetched = polled[0].revents().contains(PollFlags::HUP);
        if ready == 0 {
            return;
        }
        let exit = exit_of(process.as_fd(), served.session.peer().pid);
        let died_at = *served.died_at.get_or_insert(now);
        let waited = now.saturating_duration_since(died_at) >= Duration::from_millis(EXIT_WAIT_MS);
        match exit {
            _ if served.is_ending => self.end_session(session, End::Goodbye),
            Some(exit) => self.end_session(session, End::Exited(exit)),
            None if is_fetched || waited => self.end_session(session, End::Ended),
            // Its parent has not fetched the status: that it does is an event of its own.
            None => self
                .ready
                .set(process, Source::Process(session), EventFlags::empty()),
        }
    }

    /// Times of sessions: those without a connection, those whose status is awaited.
    pub(super) fn check_sessions(&mut self, now: Instant) {
        let has_passed = |active_at: Option<Instant>, ms: u64| {
            active_at.is_some_and(|active_at| {
                now.saturating_duration_since(active_at) >= Duration::from_millis(ms)
            })
        };
        let mut dead = Vec::new();
        let mut away = Vec::new();
        for (id, served) in &self.sessions {
            if has_passed(served.died_at, EXIT_WAIT_MS) {
                dead.push(*id);
            } else if has_passed(served.away_since, AWAY_MS_MAX) {
                away.push(*id);
            }
        }
        for session in dead {
            self.check_process(session, now);
        }
        for session in away {
            let is_ending = self.sessions.get(&session).is_some_and(|served| served.is_ending);
            self.end_session(session, if is_ending { End::Goodbye } else { End::Vanished });
        }
    }

    /// Forgets a session, and tells the owner.
    pub(super) fn end_session(&mut self, session: u64, end: End) {
        if let Some(session) = self.remove_session(session) {
            self.events.push(Event::Left { session, end });
        }
    }

    /// Forgets a session and closes its connection.
    pub(super) fn remove_session(&mut self, session: u64) -> Option<Arc<HostedSession>> {
        let served = self.sessions.remove(&session)?;
        self.memory.retain(|_, owner| *owner != session);
        if let Some(process) = &served.process {
            self.ready.remove(process);
        }
        if let Some(connection) = served.connection.and_then(|key| self.connections.remove(&key)) {
            self.ready.remove(&connection.channel);
        }
        Some(served.session)
    }

    /// A session's process is connected (again).
    pub(super) fn reconnect(&mut self, session: u64, key: u64, now: Instant) {
        let Some(served) = self.sessions.get_mut(&session) else {
            return;
        };
        let earlier = served.connection.replace(key);
        served.away_since = None;
        served.rings_requested = 0;
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.role = Role::Process { session };
        }
        if let Some(earlier) = earlier.filter(|earlier| *earlier != key) {
            self.close(earlier, now);
        }
    }

    /// Makes rings that processes wait for, a few in each turn.
    pub(super) fn send_rings(&mut self, now: Instant) {
        let mut left = RINGS_PER_TURN;
        while left > 0 {
            let waiting = self
                .sessions
                .iter()
                .find(|(_, served)| served.rings_requested > 0);
            let Some((id, served)) = waiting.map(|(id, served)| (*id, served)) else {
                return;
            };
            let count = served.rings_requested.min(left);
            left -= count;
            self.send_rings_to(id, count, now);
        }
    }

    fn send_rings_to(&mut self, id: u64, count: u32, now: Instant) {
        let Some(served) = self.sessions.get_mut(&id) else {
            return;
        };
        served.rings_requested -= count.min(served.rings_requested);
        let (session, connection) = (Arc::clone(&served.session), served.connection);
        let first = session.ring_count();
        let mut why = String::new();
        for _ in 0..count {
            if let Err(refused) = self.add_ring(&session) {
                why = refused.reason;
                break;
            }
        }
        let made = session.ring_count() - first;
        // Before the process has them.
        self.store_session(id);
        if made < count as usize
            && let Some(served) = self.sessions.get_mut(&id)
        {
            served.rings_requested = 0;
        }
        let Some(key) = connection else { return };
        let message = |count: usize, reason: String| Message::Rings {
            first: first as u32,
            count: count as u32,
            reason,
        };
        if made > 0 {
            let with = Attached::Rings(Arc::clone(&session), first, made);
            self.send(key, &message(made, String::new()), with, now);
        }
        if !why.is_empty() {
            self.send(key, &message(0, why), Attached::Nothing, now);
        }
    }

    /// Makes one more ring of a session, if all limits allow it.
    pub(super) fn add_ring(&mut self, session: &HostedSession) -> Result<(), Refused> {
        let peer = session.peer();
        let request = admission::ResourceRequest {
            process: Process {
                app: session.app(),
                pid: peer.pid,
                uid: peer.uid,
            },
            is_new: false,
            has: session.ring_count(),
            rings: 1,
            ring_bytes: session.options().ring_bytes,
        };
        admission::check(
            &self.options,
            self.sessions.values().map(|served| &served.session),
            &request,
        )?;
        session.add_ring().map_err(|error| {
            refused(
                RefusedCode::Resources,
                error.to_string(),
                "give the agent more memory or descriptors",
            )
        })?;
        if let Some(id) = session.memory_ids().last() {
            self.memory.insert(*id, session.id());
        }
        Ok(())
    }
}
