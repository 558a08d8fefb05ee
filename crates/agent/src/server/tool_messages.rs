//! Messages of tools: list of sessions, descriptors of one, and requests for the owner.

use super::connection::{Attached, Role, rings_messages};
use super::event::{Event, Request, Requester};
use super::process_messages::unexpected_message;
use super::{Server, refused};
use crate::limits::{ANSWER_BYTES_MAX, ANSWER_PART_BYTES, LIST_BYTES_MAX, RINGS_PER_MESSAGE};
use logdrive_ring::{HostedSession, Peer};
use logdrive_wire::agent::{Message, Refused, RefusedCode, SessionEntry};
use std::sync::Arc;
use std::time::Instant;

impl Server {
    pub(super) fn answer_tool(
        &mut self,
        key: u64,
        peer: Peer,
        message: Message,
        now: Instant,
    ) -> Result<(), Refused> {
        let Some(connection) = self.connections.get_mut(&key) else {
            return Ok(());
        };
        if matches!(connection.role, Role::Tool { waits: true }) {
            return Err(unexpected_message(&message));
        }
        connection.role = Role::Tool { waits: false };
        match message {
            Message::List { above } => {
                let list = self.list(peer, above);
                self.send(key, &list, Attached::Nothing, now);
                Ok(())
            }
            Message::Open { session } => {
                if let Err(why) = self.send_descriptors(key, peer, session, now) {
                    self.refuse_at(key, why, false, now);
                }
                Ok(())
            }
            Message::DumpSession { session, span_ns } => {
                self.forward_for_session(key, peer, session, Request::DumpSession { session, span_ns }, now)
            }
            Message::Files { session, written } => {
                self.forward_for_session(key, peer, session, Request::Files { session, written }, now)
            }
            Message::Stats => self.forward_if_trusted(key, peer, Request::Stats, now),
            Message::Reload => self.forward_if_trusted(key, peer, Request::Reload, now),
            Message::Dump { span_ns, app } => {
                self.forward(key, peer, Request::Dump { app, span_ns });
                Ok(())
            }
            other => Err(unexpected_message(&other)),
        }
    }

    /// Returns whether a user may see and change the sessions of another one.
    fn may_access(&self, peer: Peer, owner: u32) -> bool {
        self.is_trusted(peer) || peer.uid == owner
    }

    /// Returns whether a peer is root or the agent's own user.
    pub fn is_trusted(&self, peer: Peer) -> bool {
        peer.uid == 0 || peer.uid == self.user
    }

    fn list(&self, peer: Peer, above: u64) -> Message {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for (id, served) in self.sessions.range(above.saturating_add(1)..) {
            let session = &served.session;
            if !self.may_access(peer, session.peer().uid) {
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

    /// A session that the peer may see and change.
    fn accessible_session(&self, peer: Peer, id: u64) -> Result<Arc<HostedSession>, Refused> {
        let served = self.sessions.get(&id).ok_or_else(|| {
            refused(
                RefusedCode::UnknownSession,
                format!("there is no session {id}"),
                "`logdrive ps` lists the sessions there are",
            )
        })?;
        let owner = served.session.peer().uid;
        if self.may_access(peer, owner) {
            return Ok(Arc::clone(&served.session));
        }
        Err(refused(
            RefusedCode::NotAllowed,
            format!("session {id} belongs to user {owner}"),
            "ask as that user or as root",
        ))
    }

    /// The sessions of an application that a peer may see and change.
    pub fn sessions_of(&self, peer: Peer, app: &str) -> Vec<Arc<HostedSession>> {
        let of_app = self.sessions().filter(|session| session.app() == app);
        of_app
            .filter(|session| self.may_access(peer, session.peer().uid))
            .cloned()
            .collect()
    }

    /// The session of a number.
    pub fn session(&self, id: u64) -> Option<&Arc<HostedSession>> {
        self.sessions.get(&id).map(|served| &served.session)
    }

    fn forward_for_session(
        &mut self,
        key: u64,
        peer: Peer,
        id: u64,
        request: Request,
        now: Instant,
    ) -> Result<(), Refused> {
        match self.accessible_session(peer, id) {
            Ok(_) => self.forward(key, peer, request),
            Err(why) => self.refuse_at(key, why, false, now),
        }
        Ok(())
    }

    fn send_descriptors(&mut self, key: u64, peer: Peer, id: u64, now: Instant) -> Result<(), Refused> {
        let session = self.accessible_session(peer, id)?;
        let total = session.ring_count();
        let count = total.min(RINGS_PER_MESSAGE);
        let message = Message::Session {
            session: id,
            ring_total: total as u32,
            ring_count: count as u32,
        };
        self.send(key, &message, Attached::Session(Arc::clone(&session), count), now);
        for (message, with) in rings_messages(&session, count, total) {
            self.send(key, &message, with, now);
        }
        Ok(())
    }

    fn forward_if_trusted(
        &mut self,
        key: u64,
        peer: Peer,
        request: Request,
        now: Instant,
    ) -> Result<(), Refused> {
        if self.is_trusted(peer) {
            self.forward(key, peer, request);
        } else {
            let why = refused(
                RefusedCode::NotAllowed,
                format!("user {} may not ask that", peer.uid),
                "ask as root or as the agent's user",
            );
            self.refuse_at(key, why, false, now);
        }
        Ok(())
    }

    fn forward(&mut self, key: u64, peer: Peer, request: Request) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.role = Role::Tool { waits: true };
            self.events.push(Event::Request {
                requester: Requester(key),
                peer,
                request,
            });
        }
    }

    /// Answers a tool. A text that is too long is cut, and says so.
    pub fn answer(&mut self, requester: Requester, text: &str, now: Instant) {
        self.stop_waiting(requester);
        let mut left = text;
        let mut room = ANSWER_BYTES_MAX;
        loop {
            let (part, rest) = left.split_at(boundary(left, ANSWER_PART_BYTES.min(room)));
            room -= part.len();
            let is_cut = room == 0 && !rest.is_empty();
            let text = if is_cut {
                format!("{part}\n(cut)\n")
            } else {
                part.to_owned()
            };
            let more = !rest.is_empty() && !is_cut;
            self.send(
                requester.0,
                &Message::Answer { more, text },
                Attached::Nothing,
                now,
            );
            if !more {
                return;
            }
            left = rest;
        }
    }

    /// Tells a tool that it does not get what it asked for.
    pub fn refuse(&mut self, requester: Requester, why: Refused, now: Instant) {
        self.stop_waiting(requester);
        let why = refused(why.code, why.reason, why.advice);
        self.refuse_at(requester.0, why, false, now);
    }

    fn stop_waiting(&mut self, requester: Requester) {
        if let Some(connection) = self.connections.get_mut(&requester.0) {
            connection.role = Role::Tool { waits: false };
        }
    }
}

/// The last place at or below `bytes` where a text can be cut; behind the first character at least.
fn boundary(text: &str, bytes: usize) -> usize {
    let mut place = bytes.min(text.len());
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    if place == 0 {
        text.chars().next().map_or(0, char::len_utf8)
    } else {
        place
    }
}
