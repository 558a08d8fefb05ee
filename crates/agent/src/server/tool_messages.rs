//! Messages of tools: list of sessions, descriptors of one, and requests for the owner.

use super::connection::{Attached, Role, rings_messages};
use super::event::{Event, Request, Requester};
use super::peers::Peers;
use super::refusal::{refused, unexpected_message};
use super::sessions::is_trusted;
use crate::limits::RINGS_PER_MESSAGE;
use logdrive_ring::{HostedSession, Peer};
use logdrive_wire::agent::{Message, Refused, RefusedCode};
use std::sync::Arc;
use std::time::Instant;

impl Peers {
    /// Answers a tool, or has the owner answer it. Fails where a message does not belong here.
    pub(super) fn answer_tool(
        &mut self,
        key: u64,
        peer: Peer,
        message: Message,
        now: Instant,
    ) -> Result<(), Refused> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(());
        };
        if matches!(connection.role, Role::Tool { waits: true }) {
            return Err(unexpected_message(&message));
        }
        connection.role = Role::Tool { waits: false };
        let request = match message {
            Message::List { above } => {
                let list = self.sessions.list(peer, above);
                self.connections.send(key, &list, Attached::Nothing, now);
                return Ok(());
            }
            Message::Open { session } => {
                match self.sessions.accessible(peer, session) {
                    Ok(session) => self.send_descriptors(key, &session, now),
                    Err(why) => self.connections.refuse(key, why, false, now),
                }
                return Ok(());
            }
            Message::DumpSession { session, span_ns } => Request::DumpSession { session, span_ns },
            Message::Files { session, written } => Request::Files { session, written },
            Message::Stats => Request::Stats,
            Message::Reload => Request::Reload,
            Message::Dump { span_ns, app } => Request::Dump { app, span_ns },
            other => return Err(unexpected_message(&other)),
        };
        match self.may_ask(peer, &request) {
            Ok(()) => {
                if let Some(connection) = self.connections.get_mut(key) {
                    connection.role = Role::Tool { waits: true };
                }
                self.events.push(Event::Request {
                    requester: Requester(key),
                    peer,
                    request,
                });
            }
            Err(why) => self.connections.refuse(key, why, false, now),
        }
        Ok(())
    }

    fn may_ask(&self, peer: Peer, request: &Request) -> Result<(), Refused> {
        match request {
            Request::DumpSession { session, .. } | Request::Files { session, .. } => {
                self.sessions.accessible(peer, *session).map(drop)
            }
            Request::Stats | Request::Reload if !is_trusted(peer) => Err(refused(
                RefusedCode::NotAllowed,
                format!("user {} may not ask that", peer.uid),
                "ask as root or as the agent's user",
            )),
            Request::Stats | Request::Reload | Request::Dump { .. } => Ok(()),
        }
    }

    fn send_descriptors(&mut self, key: u64, session: &Arc<HostedSession>, now: Instant) {
        let total = session.ring_count();
        let count = total.min(RINGS_PER_MESSAGE);
        let message = Message::Session {
            session: session.id(),
            ring_total: total as u32,
            ring_count: count as u32,
        };
        let with = Attached::Session(Arc::clone(session), count);
        self.connections.send(key, &message, with, now);
        for (message, with) in rings_messages(session, count, total) {
            self.connections.send(key, &message, with, now);
        }
    }
}
