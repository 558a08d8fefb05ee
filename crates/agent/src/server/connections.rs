//! Connections of a server, by their keys: admitted, watched, sent to, closed.

use super::connection::{Attached, Connection, Role, SendError};
use super::ready::{Source, Watcher};
use super::refusal::refused;
use crate::limits::USER_PART_OF_CONNECTIONS;
use logdrive_ring::channel::Channel;
use logdrive_wire::agent::{Message, Refused, RefusedCode};
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    watcher: Watcher,
    by_key: HashMap<u64, Connection>,
    next_key: u64,
    /// Those that may have more to read, without a further event.
    unread: BTreeSet<u64>,
    /// Sessions whose connections were closed, each with the key of that connection.
    lost: Vec<(u64, u64)>,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    /// Connections that were closed because of their peer.
    pub(super) closed: u64,
}

impl Connections {
    pub(super) fn new(watcher: Watcher) -> Self {
        Self {
            watcher,
            by_key: HashMap::new(),
            next_key: 1,
            unread: BTreeSet::new(),
            lost: Vec::new(),
            accepted: 0,
            refused: 0,
            closed: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut Connection> {
        self.by_key.get_mut(&key)
    }

    /// Admits a connection that was accepted; of `most`, one user has a part. The agent's own user may have any number of
    /// sessions, but no more than that part of connections without one. Where there is no room, connections that have
    /// begun no session give way to new ones, so that idle ones keep nobody out.
    pub(super) fn admit(&mut self, channel: Channel, most: u32, now: Instant) {
        let Ok(peer) = channel.peer() else {
            return;
        };
        let is_own = peer.uid == logdrive_ring::user_id();
        let counts = |other: &&Connection| other.peer.uid == peer.uid && (!is_own || other.is_idle());
        let of_user = self.by_key.values().filter(counts).count();
        let user_max = (most / USER_PART_OF_CONNECTIONS).max(1) as usize;
        if of_user >= user_max && !self.evict(Some(peer.uid)) {
            let reason = format!(
                "user {} has the most connections of one user ({user_max})",
                peer.uid
            );
            let advice = "end some processes, or raise `connections` in the agent's configuration";
            return self.reject(&channel, refused(RefusedCode::Limit, reason, advice));
        }
        if self.len() >= most as usize && !self.evict(None) {
            let reason = format!("the agent has its most connections ({most})");
            let advice = "end some processes, or raise `connections` in its configuration";
            return self.reject(&channel, refused(RefusedCode::Limit, reason, advice));
        }
        let key = self.next_key;
        self.next_key += 1;
        if self.watcher.add(&channel, Source::Connection(key)).is_ok() {
            self.accepted += 1;
            self.by_key.insert(key, Connection::new(channel, peer, now));
        }
    }

    /// Closes the connection without a session that has been silent for the longest time: of this user, or of the one
    /// with the most of them. Returns `false` where there is none.
    pub(super) fn evict(&mut self, user: Option<u32>) -> bool {
        let idle = |connections: &HashMap<u64, Connection>, user: u32| {
            let of_user = connections.iter();
            of_user
                .filter(|(_, connection)| connection.is_idle() && connection.peer.uid == user)
                .min_by_key(|(_, connection)| connection.active_at)
                .map(|(key, _)| *key)
        };
        let Some(key) = user
            .or_else(|| self.user_with_most_idle())
            .and_then(|user| idle(&self.by_key, user))
        else {
            return false;
        };
        let reason = "the agent has no room, and closes a connection without a session for a new one";
        let why = refused(
            RefusedCode::Limit,
            reason,
            "connect when there is something to say",
        );
        if let Ok(bytes) = Message::Refused(why).encode()
            && let Some(connection) = self.by_key.get(&key)
        {
            // A peer that cannot receive it sees the end of the connection.
            let _ = connection.channel.send(&bytes, &[]);
        }
        self.closed += 1;
        self.close(key);
        true
    }

    fn user_with_most_idle(&self) -> Option<u32> {
        let mut idle_of: HashMap<u32, usize> = HashMap::new();
        for connection in self.by_key.values().filter(|connection| connection.is_idle()) {
            *idle_of.entry(connection.peer.uid).or_default() += 1;
        }
        let most = idle_of.into_iter().max_by_key(|(_, count)| *count)?;
        Some(most.0)
    }

    /// Refuses a peer.
    pub(super) fn reject(&mut self, channel: &Channel, why: Refused) {
        self.refused += 1;
        if let Ok(bytes) = Message::Refused(why).encode() {
            // A peer that cannot receive the refusal sees the end of the connection.
            let _ = channel.send(&bytes, &[]);
        }
    }

    /// Sends a message to a connection, and closes it if that fails.
    pub(super) fn send(&mut self, key: u64, message: &Message, with: Attached, now: Instant) {
        if let Some(connection) = self.get_mut(key) {
            let sent = connection.send(message, with, now);
            self.settle(key, sent);
        }
    }

    /// Refuses in words; with `ends`, closes the connection afterwards.
    pub(super) fn refuse(&mut self, key: u64, why: Refused, ends: bool, now: Instant) {
        self.refused += 1;
        if let Some(connection) = self.get_mut(key) {
            connection.ends |= ends;
        }
        self.send(key, &Message::Refused(why), Attached::Nothing, now);
    }

    /// Sends what waits, as far as the peer takes it.
    pub(super) fn flush(&mut self, key: u64, now: Instant) {
        if let Some(connection) = self.get_mut(key) {
            let sent = connection.flush(now);
            self.settle(key, sent);
        }
    }

    /// Lets a connection end by itself when all is sent; it has no session any more.
    pub(super) fn finish(&mut self, key: u64) {
        if let Some(connection) = self.get_mut(key) {
            connection.role = Role::Tool { waits: false };
            connection.ends = true;
            self.settle(key, Ok(()));
        }
    }

    /// After something was sent: closes what is broken or done, and waits for room where there is none.
    fn settle(&mut self, key: u64, sent: Result<(), SendError>) {
        let Some(connection) = self.by_key.get_mut(&key) else {
            return;
        };
        self.closed += u64::from(sent == Err(SendError::Slow));
        if sent.is_err() || (connection.ends && connection.is_flushed()) {
            return self.close(key);
        }
        if connection.awaits_room == connection.is_flushed() {
            connection.awaits_room = !connection.awaits_room;
            self.watcher.set_room(
                &connection.channel,
                Source::Connection(key),
                connection.awaits_room,
            );
        }
    }

    /// Has a connection read in the next turn, if it may have something.
    pub(super) fn continue_later(&mut self, key: u64) {
        let waits = |connection: &Connection| connection.may_read && connection.reads();
        if self.by_key.get(&key).is_some_and(waits) {
            self.unread.insert(key);
        }
    }

    /// Returns whether connections may have more to read, or were lost.
    pub(super) fn has_work(&self) -> bool {
        !self.unread.is_empty() || !self.lost.is_empty()
    }

    pub(super) fn take_unread(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.unread)
    }

    pub(super) fn take_lost(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.lost)
    }

    /// Closes a connection. A session that it had goes on without one, for a while.
    pub(super) fn close(&mut self, key: u64) {
        let Some(connection) = self.by_key.remove(&key) else {
            return;
        };
        self.watcher.remove(&connection.channel);
        if let Role::Process { session } = connection.role {
            self.lost.push((session, key));
        }
    }

    /// Closes those whose time is over, and reads again from those that were muted.
    pub(super) fn check_timers(&mut self, now: Instant, idle_timeout: Duration) {
        let mut overdue = Vec::new();
        let mut unmuted = Vec::new();
        for (key, connection) in &mut self.by_key {
            if connection.is_overdue(now, idle_timeout) {
                overdue.push(*key);
            } else if connection.muted_until.take_if(|until| now >= *until).is_some() {
                unmuted.push(*key);
            }
        }
        for key in overdue {
            self.closed += 1;
            self.close(key);
        }
        for key in unmuted {
            self.continue_later(key);
        }
    }
}
