//! The server's side of one connection or stream, whatever carries its bytes: its handshake, its deadlines, the frame that
//! has come in part with the memory that it takes, and its end.

use super::{QuotaShare, ServerState};
use crate::hello::Reason;
use crate::session::{FeedResult, Job, Outbox, Peer, Server, defers_acks, panics};
use std::time::Instant;

/// State of a peer that is served.
pub(crate) struct ServedSession {
    pub(crate) server: Server,
    pub(crate) is_established: bool,
    pub(crate) last_received: Instant,
    accepted_at: Instant,
    /// Front of a frame that has not come whole.
    pub(crate) input: Vec<u8>,
    /// Time at which that frame began to come.
    pub(crate) frame_began: Instant,
    /// Share in the memory quota.
    memory: QuotaShare,
}

impl ServedSession {
    /// The session of a connection that was admitted, whose bytes are safe on their way, or are not. In a ring frames begin
    /// at multiples of `alignment`.
    pub(crate) fn of_peer(peer: Peer, is_protected: bool, alignment: usize, shared: &ServerState) -> Self {
        let server = shared.server(peer, is_protected).with_alignment(alignment);
        Self::new(server, Instant::now())
    }

    pub(crate) fn new(server: Server, now: Instant) -> Self {
        Self {
            server,
            is_established: false,
            last_received: now,
            accepted_at: now,
            input: Vec::new(),
            frame_began: now,
            memory: QuotaShare::default(),
        }
    }

    /// Feeds bytes that came, or without them what is held behind its first `used` bytes.
    pub(crate) fn feed(
        &mut self,
        bytes: Option<&[u8]>,
        used: usize,
        shared: &ServerState,
        out: &mut Vec<u8>,
        jobs: Option<&mut Vec<Job>>,
    ) -> FeedResult {
        let all = bytes.unwrap_or(&self.input);
        let rest = all.get(used..).unwrap_or(&[]);
        let fed = self.server.feed(rest, shared.service.as_ref(), out, jobs);
        self.note_established(shared);
        fed
    }

    /// Counts a peer that has said hello: the service that took it gets the end of its connection, too.
    pub(crate) fn note_established(&mut self, shared: &ServerState) {
        if !self.is_established && self.server.is_established() {
            self.is_established = true;
            shared.established();
        }
    }

    /// Returns whether what comes next may be read: the rest of a frame longer than `moved_bytes_max` waits until there is
    /// memory for all of it, and then has its place.
    /// Nothing may while the service has to bring what it took to a disk.
    pub(crate) fn has_memory(&mut self, shared: &ServerState, moved_bytes_max: usize) -> bool {
        if defers_acks(&self.server) && shared.service.is_congested(&self.server.peer) {
            return false;
        }
        let whole = match self.input.is_empty() {
            true => 0,
            false => self.server.needed_bytes(&self.input),
        };
        let quota = &shared.memory;
        quota.reserve_frame(&mut self.memory, &mut self.input, whole, moved_bytes_max)
    }

    /// Counts the memory that is held, with so many bytes beside the partial frame.
    pub(crate) fn update_memory(&mut self, other_bytes: usize, shared: &ServerState) -> Result<(), Reason> {
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        let bytes = self.input.capacity() + other_bytes + self.outbox().bytes();
        let has_delivered = self.server.has_delivered();
        shared.memory.update(&mut self.memory, bytes, has_delivered)
    }

    /// The outbox of the connection.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.server.peer.outbox
    }

    /// Reason to end the connection for, if the peer has been silent for too long; not while it waits for us.
    pub(crate) fn silent(&self, shared: &ServerState, now: Instant) -> Option<Reason> {
        let timeouts = &shared.options.timeouts;
        let (since, timeout, reason) = match self.is_established {
            true if self.outbox().awaited() > 0 => return None,
            true => (self.last_received, timeouts.idle, Reason::Idle),
            false => (self.accepted_at, timeouts.handshake, Reason::Handshake),
        };
        (now.saturating_duration_since(since) >= timeout).then_some(reason)
    }

    /// Reason to end the connection for, if a frame of which a part `has_begun` to come does not come whole in time.
    pub(crate) fn overdue(&self, has_begun: bool, shared: &ServerState, now: Instant) -> Option<Reason> {
        let (timeout, reason) = shared.memory.hold_timeout();
        let is_over = now.saturating_duration_since(self.frame_began) >= timeout;
        (has_begun && is_over).then_some(reason)
    }

    /// Reason to end the connection for: silence, or a frame that does not come whole in time.
    pub(crate) fn expired(&self, has_begun: bool, shared: &ServerState, now: Instant) -> Option<Reason> {
        self.silent(shared, now)
            .or_else(|| self.overdue(has_begun, shared, now))
    }

    /// Gives back what was counted; the connection is closed.
    pub(crate) fn closed(&mut self, reason: Reason, shared: &ServerState) {
        self.outbox().close();
        shared.memory.release(&mut self.memory);
        shared.connection_closed(reason, !self.is_established);
        if self.is_established {
            let (peer, service) = (&self.server.peer, shared.service.as_ref());
            if let Err(words) = panics::call(|| service.disconnected(peer, reason)) {
                panics::tell(peer, service, &words);
            }
        }
    }
}
