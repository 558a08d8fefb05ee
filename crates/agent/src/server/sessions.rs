//! Sessions of a server: their numbers, processes and memory files, and how they end.

use super::event::End;
use super::ready::{Source, Watcher};
use super::refusal::refused;
use super::watched_process::{FinishedProcesses, WatchedProcess};
use crate::descriptor_store::DescriptorStore;
use crate::limits::{AWAY_MS_MAX, LIST_BYTES_MAX, SESSION_NUMBER_MAX};
use logdrive_drain::ClientProcess;
use logdrive_ring::clock::unix_ns;
use logdrive_ring::{HostedSession, MemoryId, Peer};
use logdrive_wire::agent::{Message, Refused, RefusedCode, SessionEntry, SessionState};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A session and its process.
#[derive(Debug)]
pub(super) struct ServedSession {
    pub(super) session: Arc<HostedSession>,
    pub(super) connection: Option<u64>,
    /// The process, where the system has descriptors of processes.
    process: Option<WatchedProcess>,
    /// Since when it has no connection.
    away_since: Option<Instant>,
    /// True if it has said goodbye.
    pub(super) is_ending: bool,
    /// Rings that it waits for: of the largest size, and small ones.
    pub(super) rings_requested: [u32; 2],
    /// Bytes of the flight recorder that it wished for.
    pub(super) keep_bytes: u64,
}

impl ServedSession {
    /// One whose process is connected, or may still come: it was stored while there was no agent, and may be dead.
    pub(super) fn new(
        session: Arc<HostedSession>,
        process: Option<OwnedFd>,
        connection: Option<u64>,
        now: Instant,
    ) -> Self {
        let pid = session.peer().pid;
        Self {
            session,
            connection,
            process: process.map(|descriptor| WatchedProcess::new(descriptor, pid)),
            away_since: connection.is_none().then_some(now),
            is_ending: false,
            rings_requested: [0; 2],
            keep_bytes: 0,
        }
    }

    fn state(&self) -> SessionState {
        if self.is_ending {
            SessionState::Ending
        } else if self.connection.is_some() {
            SessionState::Connected
        } else {
            SessionState::Away
        }
    }

    /// End of the process, if it has ended and no more is to be learned of it.
    fn end(&mut self, now: Instant) -> Option<End> {
        let exit = self.process.as_mut()?.exit(now)?;
        Some(match exit {
            exit if self.is_ending => End::Goodbye(exit),
            Some(exit) => End::Exited(exit),
            None => End::Ended,
        })
    }

    /// The descriptor of the process.
    fn descriptor(&self) -> Option<&OwnedFd> {
        self.process.as_ref().map(|process| &process.descriptor)
    }
}

/// All sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    watcher: Watcher,
    served: BTreeMap<u64, ServedSession>,
    last_number: u64,
    /// Session of each memory file.
    owners: HashMap<MemoryId, u64>,
    /// Processes whose sessions have ended in order.
    finished: FinishedProcesses,
    /// Holds the descriptors of sessions beyond the death of this agent.
    store: Option<DescriptorStore>,
}

impl Sessions {
    pub(super) fn new(watcher: Watcher) -> Self {
        Self {
            watcher,
            served: BTreeMap::new(),
            last_number: 0,
            owners: HashMap::new(),
            finished: FinishedProcesses::default(),
            store: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.served.len()
    }

    pub(super) fn get(&self, session: u64) -> Option<&ServedSession> {
        self.served.get(&session)
    }

    pub(super) fn get_mut(&mut self, session: u64) -> Option<&mut ServedSession> {
        self.served.get_mut(&session)
    }

    /// All sessions, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ServedSession> {
        self.served.values()
    }

    /// A session whose process waits for rings.
    pub(super) fn waiting_for_rings(&mut self) -> Option<&mut ServedSession> {
        self.served
            .values_mut()
            .find(|served| served.rings_requested != [0; 2])
    }

    /// A number for a session: the wanted one if it is free, otherwise one that rises with time.
    pub(super) fn number(&mut self, wanted: Option<u64>) -> u64 {
        let is_free = |number: &u64| *number < SESSION_NUMBER_MAX && !self.served.contains_key(number);
        if let Some(number) = wanted.filter(is_free) {
            return number;
        }
        let mut number = (unix_ns() / 1_000_000).max(self.last_number + 1);
        while self.served.contains_key(&number) {
            number += 1;
        }
        self.last_number = number;
        number
    }

    /// Enters a session, and watches its process; fails when one of its files belongs to another session.
    pub(super) fn enter(&mut self, served: ServedSession) -> Result<(), Refused> {
        let id = served.session.id();
        self.claim(id, &served.session.memory_ids())?;
        self.finished.remove(id, &self.watcher);
        if let Some(process) = served.descriptor() {
            // Without it the end of the connection is the end of the process.
            let _ = self.watcher.add(process, Source::Process(id));
        }
        self.served.insert(id, served);
        self.store(id);
        Ok(())
    }

    /// Notes whose the files are.
    pub(super) fn claim(&mut self, session: u64, files: &[MemoryId]) -> Result<(), Refused> {
        let is_foreign = |file: &MemoryId| self.owners.get(file).is_some_and(|owner| *owner != session);
        if files.iter().any(is_foreign) {
            return Err(refused(
                RefusedCode::Descriptors,
                "a file of the session belongs to another session",
                "start the process anew",
            ));
        }
        self.owners.extend(files.iter().map(|file| (*file, session)));
        Ok(())
    }

    /// The session that has the memory of another one.
    pub(super) fn known(&self, shown: &HostedSession) -> Option<&Arc<HostedSession>> {
        let owner = self.owners.get(shown.files().ids().first()?)?;
        self.served.get(owner).map(|served| &served.session)
    }

    /// A session that the peer may see and change.
    pub(super) fn accessible(&self, peer: Peer, id: u64) -> Result<Arc<HostedSession>, Refused> {
        let Some(served) = self.served.get(&id) else {
            return Err(refused(
                RefusedCode::UnknownSession,
                format!("there is no session {id}"),
                "`logdrive ps` lists the sessions there are",
            ));
        };
        let owner = served.session.peer().uid;
        if may_access(peer, owner) {
            return Ok(Arc::clone(&served.session));
        }
        Err(refused(
            RefusedCode::NotAllowed,
            format!("session {id} belongs to user {owner}"),
            "ask as that user or as root",
        ))
    }

    /// Lists the sessions above a number that a peer may see, as far as one message takes them.
    pub(super) fn list(&self, peer: Peer, above: u64) -> Message {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for (id, served) in self.served.range(above.saturating_add(1)..) {
            let session = &served.session;
            if !may_access(peer, session.peer().uid) {
                continue;
            }
            let entry = SessionEntry {
                session: *id,
                start_unix_ns: session.start_unix_ns(),
                pid: session.peer().pid,
                uid: session.peer().uid,
                ring_count: session.ring_count() as u32,
                state: served.state(),
                app: session.app().to_owned(),
            };
            bytes += entry.wire_bytes();
            if bytes > LIST_BYTES_MAX {
                return Message::Sessions { more: true, entries };
            }
            entries.push(entry);
        }
        Message::Sessions { more: false, entries }
    }

    /// A session's process is connected (again). Returns the connection that it had.
    pub(super) fn reconnected(&mut self, session: u64, key: u64) -> Option<u64> {
        let served = self.served.get_mut(&session)?;
        served.away_since = None;
        served.rings_requested = [0; 2];
        served.connection.replace(key).filter(|earlier| *earlier != key)
    }

    /// The connection of a session has ended; where the process cannot be watched, so has the process.
    pub(super) fn disconnected(&mut self, session: u64, key: u64, now: Instant) -> Option<End> {
        let served = self.served.get_mut(&session)?;
        if served.connection != Some(key) {
            return None;
        }
        served.connection = None;
        served.rings_requested = [0; 2];
        served.away_since = Some(now);
        served.process.is_none().then_some(End::Ended)
    }

    /// The descriptor of a process has something to say: the end of the process, perhaps.
    pub(super) fn check_process(&mut self, session: u64, now: Instant) -> Option<End> {
        self.served.get_mut(&session)?.end(now)
    }

    /// The process of a session that is over, and its end in words, if it has ended and that is worth a line. Another
    /// session of the process tells its end itself.
    pub(super) fn check_finished(&mut self, session: u64, now: Instant) -> Option<(ClientProcess, String)> {
        let (client, text) = self.finished.check(session, &self.watcher, now)?;
        let mut others = self.served.values();
        let has_other = others.any(|served| served.session.peer().pid == client.pid && !served.is_ending);
        (!has_other).then_some((client, text))
    }

    /// Processes of sessions that are over, which have ended some time ago, with their ends in words.
    pub(super) fn overdue_finished(&mut self, now: Instant) -> Vec<(ClientProcess, String)> {
        let overdue = self.finished.overdue(now).into_iter();
        overdue
            .filter_map(|session| self.check_finished(session, now))
            .collect()
    }

    /// Sessions that are over: those without a connection, those whose status was awaited.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<(u64, End)> {
        let has_passed = |since: Option<Instant>, ms: u64| {
            since.is_some_and(|since| now.saturating_duration_since(since) >= Duration::from_millis(ms))
        };
        let end = |served: &mut ServedSession| {
            if served
                .process
                .as_ref()
                .is_some_and(|process| process.has_waited(now))
            {
                return served.end(now);
            }
            has_passed(served.away_since, AWAY_MS_MAX).then_some(match served.is_ending {
                true => End::Goodbye(None),
                false => End::Vanished,
            })
        };
        let all = self.served.iter_mut();
        all.filter_map(|(id, served)| Some((*id, end(served)?))).collect()
    }

    /// Forgets a session. The store has it until it is [released](Self::release).
    pub(super) fn remove(&mut self, session: u64) -> Option<ServedSession> {
        let served = self.forget(session)?;
        if let Some(process) = served.descriptor() {
            self.watcher.remove(process);
        }
        Some(served)
    }

    /// Forgets a session that has ended in order, as [`Sessions::remove`] does. Its process is watched on. Returns its
    /// connection.
    pub(super) fn finish(&mut self, session: u64) -> Option<u64> {
        let served = self.forget(session)?;
        if let Some(process) = served.process {
            self.finished.add(&served.session, process, &self.watcher);
        }
        served.connection
    }

    fn forget(&mut self, session: u64) -> Option<ServedSession> {
        let served = self.served.remove(&session)?;
        self.owners.retain(|_, owner| *owner != session);
        Some(served)
    }

    /// Has a store hold all sessions from now on.
    pub(super) fn store_in(&mut self, mut store: DescriptorStore) -> Result<(), String> {
        let connected = store.connect_at_start();
        self.store = Some(store);
        self.store_all(connected)
    }

    /// Returns the descriptors in the store, and the sessions for which it has no room.
    pub(super) fn store_counts(&self) -> (u64, u64) {
        self.store.as_ref().map_or((0, 0), DescriptorStore::counts)
    }

    /// Stores what is new of a session.
    pub(super) fn store(&mut self, session: u64) {
        if let (Some(store), Some(served)) = (&mut self.store, self.served.get(&session)) {
            store.store(&served.session, served.descriptor());
        }
    }

    /// All of a session is written: its memory is not needed any more, unless its process has shown it again since.
    pub(super) fn release(&mut self, session: u64) {
        if self.served.contains_key(&session) {
            return;
        }
        if let Some(store) = &mut self.store {
            store.remove(session);
        }
    }

    /// Stores everything again where the store has lost it.
    pub(super) fn check_store(&mut self, now: Instant) -> Result<(), String> {
        match &mut self.store {
            Some(store) => {
                let connected = store.reconnect(now);
                self.store_all(connected)
            }
            None => Ok(()),
        }
    }

    fn store_all(&mut self, connected: Result<bool, String>) -> Result<(), String> {
        if connected? && let Some(store) = &mut self.store {
            for served in self.served.values() {
                store.store(&served.session, served.descriptor());
            }
        }
        Ok(())
    }
}

/// Returns whether a peer is root or the agent's own user.
pub(super) fn is_trusted(peer: Peer) -> bool {
    peer.uid == 0 || peer.uid == logdrive_ring::user_id()
}

/// Returns whether a user may see and change the sessions of another one.
pub(super) fn may_access(peer: Peer, owner: u32) -> bool {
    is_trusted(peer) || peer.uid == owner
}
