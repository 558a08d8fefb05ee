//! One connection: what came, what waits to be sent, and how long all that may take.

use super::descriptor_closer::DescriptorCloser;
use super::refusal::{refused, unreadable};
use crate::limits::{
    FIRST_MESSAGE_MS_MAX, MESSAGES_PER_SECOND_MAX, QUEUE_BYTES_MAX, RINGS_PER_MESSAGE, STUCK_MS_MAX,
};
use logdrive_ring::channel::{Channel, Received};
use logdrive_ring::{HostedSession, Peer};
use logdrive_wire::agent::{Adopt, Keep, Message, Refused, RefusedCode};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connected peer.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) channel: Channel,
    pub(super) peer: Peer,
    pub(super) role: Role,
    accepted_at: Instant,
    /// Time at which the last message of a peer without a session came, or its answer went.
    pub(super) active_at: Instant,
    queue: VecDeque<Outgoing>,
    queued_bytes: usize,
    /// Since when nothing of the queue could be sent.
    blocked_since: Option<Instant>,
    /// Messages in the current second.
    second: Instant,
    messages: u32,
    pub(super) muted_until: Option<Instant>,
    /// Closed as soon as the queue is sent.
    pub(super) ends: bool,
    /// There may be something to read, without a further event.
    pub(super) may_read: bool,
    /// Room to send is waited for.
    pub(super) awaits_room: bool,
    /// Flight recorder that a process asks for, until it has its session.
    pub(super) keep: Option<Keep>,
}

/// Role of a peer.
#[derive(Debug)]
pub(super) enum Role {
    /// It has not said.
    New,
    /// It shows a session, ring by ring.
    Adopting(Box<Adopting>),
    /// It has a session.
    Process {
        /// Its number.
        session: u64,
    },
    /// It asks.
    Tool {
        /// True if the owner has a question of it.
        waits: bool,
    },
}

/// A session whose rings are still coming.
#[derive(Debug)]
pub(super) struct Adopting {
    pub(super) message: Adopt,
    pub(super) session: HostedSession,
}

/// A message that waits, with what travels beside it.
#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    with: Attached,
}

/// Descriptors that travel with a message. They are looked up when it is sent, so that none are kept twice.
#[derive(Debug, Clone)]
pub(super) enum Attached {
    /// None.
    Nothing,
    /// The session's memory, and so many of its first rings.
    Session(Arc<HostedSession>, usize),
    /// So many rings from a number on.
    Rings(Arc<HostedSession>, usize, usize),
}

/// A message that came, or why there is none to act on.
pub(super) enum Incoming {
    Message(Message, Vec<OwnedFd>),
    Nothing,
    Closed,
    Bad(Refused),
}

/// A connection that is to be closed, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SendError {
    /// The peer has closed it, or the system has.
    Gone,
    /// The peer does not read what it asked for.
    Slow,
}

impl Connection {
    pub(super) fn new(channel: Channel, peer: Peer, now: Instant) -> Self {
        Self {
            channel,
            peer,
            role: Role::New,
            accepted_at: now,
            active_at: now,
            queue: VecDeque::new(),
            queued_bytes: 0,
            blocked_since: None,
            second: now,
            messages: 0,
            muted_until: None,
            ends: false,
            may_read: false,
            awaits_room: false,
            keep: None,
        }
    }

    /// Sends a message, or lets it wait behind others.
    pub(super) fn send(&mut self, message: &Message, with: Attached, now: Instant) -> Result<(), SendError> {
        // What we say ourselves is within the limits; if it is not, saying nothing would leave the peer waiting.
        let bytes = message.encode().map_err(|_| SendError::Gone)?;
        self.queued_bytes += bytes.len();
        self.queue.push_back(Outgoing { bytes, with });
        self.flush(now)?;
        if self.queued_bytes > QUEUE_BYTES_MAX {
            return Err(SendError::Slow);
        }
        Ok(())
    }

    /// Sends what waits, as far as the peer takes it.
    pub(super) fn flush(&mut self, now: Instant) -> Result<(), SendError> {
        while let Some(next) = self.queue.front() {
            match next.send(&self.channel) {
                Ok(()) => {
                    self.queued_bytes -= next.bytes.len();
                    self.queue.pop_front();
                    self.blocked_since = None;
                    self.active_at = now;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked_since.get_or_insert(now);
                    return Ok(());
                }
                Err(_) => return Err(SendError::Gone),
            }
        }
        Ok(())
    }

    /// Returns whether nothing waits to be sent.
    pub(super) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether messages are read: not of a peer that does not read its answers, has sent too many, or was told
    /// to close.
    pub(super) fn reads(&self) -> bool {
        self.is_flushed() && self.muted_until.is_none() && !self.ends
    }

    /// Takes the next message into `buffer`, with its descriptors.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        descriptor_closer: &mut DescriptorCloser,
        now: Instant,
    ) -> Incoming {
        let mut descriptors = Vec::new();
        let user = self.peer.uid;
        let room = descriptor_closer.has_room(user);
        let bad = match self.channel.receive(buffer, &mut descriptors, room) {
            Ok(Received::Packet(length)) => {
                self.count_message(now);
                match Message::decode(buffer.get(..length).unwrap_or_default()) {
                    Ok(message) if message.descriptors() as usize == descriptors.len() => {
                        return Incoming::Message(message, descriptors);
                    }
                    other => Incoming::Bad(unreadable(other)),
                }
            }
            Ok(Received::Closed) => Incoming::Closed,
            Ok(Received::Cut) => Incoming::Bad(refused(
                RefusedCode::Resources,
                "a message was too long, or the agent has no descriptors left for it",
                "raise the agent's limit of open files (LimitNOFILE)",
            )),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.may_read = false;
                return Incoming::Nothing;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Incoming::Nothing,
            Err(_) => Incoming::Closed,
        };
        descriptor_closer.close(user, descriptors);
        bad
    }

    /// Counts a message. A peer that has sent too many in this second is not read until it is over.
    fn count_message(&mut self, now: Instant) {
        let second = Duration::from_secs(1);
        if now.saturating_duration_since(self.second) >= second {
            self.second = now;
            self.messages = 0;
        }
        self.messages += 1;
        if self.messages > MESSAGES_PER_SECOND_MAX {
            self.muted_until = Some(self.second + second);
        }
    }

    /// Returns whether it has begun no session and waits for no answer: it gives way where there is no room.
    pub(super) fn is_idle(&self) -> bool {
        match &self.role {
            Role::New | Role::Adopting(_) | Role::Tool { waits: false } => true,
            Role::Process { .. } | Role::Tool { waits: true } => false,
        }
    }

    /// Returns whether a time is over: of a peer that takes nothing, one that does not say what it is, or one without a
    /// session that says nothing.
    pub(super) fn is_overdue(&self, now: Instant, idle: Duration) -> bool {
        let has_passed = |active_at: Instant| now.saturating_duration_since(active_at);
        let blocked = self
            .blocked_since
            .is_some_and(|active_at| has_passed(active_at) >= Duration::from_millis(STUCK_MS_MAX));
        let first = Duration::from_millis(FIRST_MESSAGE_MS_MAX);
        let is_new = matches!(self.role, Role::New);
        let late = is_new && has_passed(self.accepted_at) >= first.min(idle);
        let silent = self.is_idle() && has_passed(self.active_at) >= idle;
        blocked || late || silent
    }
}

impl Outgoing {
    fn send(&self, channel: &Channel) -> io::Result<()> {
        match &self.with {
            Attached::Nothing => channel.send(&self.bytes, &[]),
            Attached::Session(session, rings) => session.with_ring_descriptors(0, *rings, |rings| {
                let mut all = session.files().descriptors().to_vec();
                all.extend_from_slice(rings);
                channel.send(&self.bytes, &all)
            }),
            Attached::Rings(session, first, count) => {
                session.with_ring_descriptors(*first, *count, |rings| channel.send(&self.bytes, rings))
            }
        }
    }
}

/// The messages that carry the rings of a session from a number on.
pub(super) fn rings_messages(
    session: &Arc<HostedSession>,
    first: usize,
    end: usize,
) -> Vec<(Message, Attached)> {
    let mut messages = Vec::new();
    let mut first = first;
    while first < end {
        let count = (end - first).min(RINGS_PER_MESSAGE);
        let message = Message::Rings {
            first: first as u32,
            count: count as u32,
            reason: String::new(),
        };
        messages.push((message, Attached::Rings(Arc::clone(session), first, count)));
        first += count;
    }
    messages
}
