//! One accepted connection on a poller: its bytes that wait, in both directions.

use super::{ServedSession, ServerState};
use crate::hello::Reason;
use crate::limits::{BUSY_SPIN_US, LONG_BYTES, PIECE_BYTES, READ_BYTES, WAITING_BYTES_MAX};
use crate::link::Link;
use crate::session::{Job, awaited_ack, defers_acks, put_deferred_ack};
use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Partial frames up to here are moved to the poller's buffer; longer ones grow where they are.
const MOVED_BYTES_MAX: usize = 64 * 1024;
/// Reads of one connection before the others get their turn.
const READS_MAX: usize = 8;

/// Time that the thread of a connection whose requests come in numbers spins before it sleeps.
const BUSY_SPIN: Duration = Duration::from_micros(BUSY_SPIN_US);

/// Outcome of one receive.
struct Received {
    /// Bytes of the front of a frame that were there before.
    held: usize,
    /// Bytes that came behind them.
    result: io::Result<usize>,
    /// Both lie in the poller's buffer, not in the connection's own.
    is_moved: bool,
    /// The link filled all the space that it was offered: there may be more.
    is_full: bool,
}

/// Accepted connection.
pub(crate) struct ServerConnection {
    pub(crate) link: Box<dyn Link>,
    pub(crate) session: ServedSession,
    out: Vec<u8>,
    out_start: usize,
    /// The rest of a long frame is not read before there is memory for it.
    pub(crate) waits_for_memory: bool,
    /// Since when the peer has taken nothing of what is left to be sent.
    send_blocked_since: Option<Instant>,
    /// Reason to end the connection for, as soon as the output is sent.
    pub(crate) closing: Option<Reason>,
    /// Several frames came at once, and others soon behind them.
    is_busy: bool,
}

/// Reason for which a turn of reading a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// All that was there is read, or an event follows when to go on.
    Drained,
    /// The turn is over; there may be more.
    TurnOver,
    /// The peer does not take its answers. Bytes may be left, without a further event.
    Paused,
}

/// Bytes of which one poller has one set.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; MOVED_BYTES_MAX + READ_BYTES],
        }
    }
}

impl ServerConnection {
    pub(crate) fn new(link: Box<dyn Link>, mut session: ServedSession) -> Self {
        session.server.set_output_limit(PIECE_BYTES);
        Self {
            link,
            session,
            out: Vec::new(),
            out_start: 0,
            waits_for_memory: false,
            send_blocked_since: None,
            closing: None,
            is_busy: false,
        }
    }

    /// Returns whether the peer does not take what we send, so that we take nothing from it.
    pub(crate) fn is_backpressured(&self, shared: &ServerState) -> bool {
        let most = match shared.memory.is_scarce() {
            true => LONG_BYTES,
            false => WAITING_BYTES_MAX,
        };
        self.out.len() - self.out_start + self.session.outbox().bytes() > most
    }

    /// Reason to end the connection for now: silence, or memory that it holds for too long, for a frame that has not
    /// come whole or for answers that the peer does not take.
    pub(crate) fn expired(&self, shared: &ServerState, now: Instant) -> Option<Reason> {
        let silent = self.session.silent(shared, now);
        if silent.is_some() {
            return silent;
        }
        let (timeout, reason) = shared.memory.hold_timeout();
        let is_over = |since: Instant| now.saturating_duration_since(since) >= timeout;
        let is_stuck = reason == Reason::Memory && self.send_blocked_since.is_some_and(is_over);
        let has_begun = !self.session.input.is_empty();
        let overdue = self.session.overdue(has_begun, shared, now);
        overdue.or(is_stuck.then_some(reason))
    }

    fn has_memory(&mut self, shared: &ServerState) -> bool {
        self.waits_for_memory = !self.session.has_memory(shared, MOVED_BYTES_MAX);
        !self.waits_for_memory
    }

    /// Returns whether a thread can wait for it alone: it has said hello, owes nothing, and its link waits in one system
    /// call.
    pub(crate) fn suits_dedicated_thread(&self) -> bool {
        self.session.is_established
            && self.closing.is_none()
            && !self.has_output()
            // Other threads do not wake one that waits in a receive.
            && !self.session.outbox().is_used()
            // Its poller is woken for acknowledgements.
            && !defers_acks(&self.session.server)
            && self.link.blocks_in_receive()
    }

    /// Returns whether there is something to send.
    pub(crate) fn has_output(&self) -> bool {
        self.out.len() > self.out_start || self.link.has_unsent()
    }

    /// Reads and feeds what is there. With `until_end` a short read does not count as the last one: the end of the
    /// connection may follow, without a further event.
    pub(crate) fn read(
        &mut self,
        buffer: &mut Buffer,
        shared: &ServerState,
        now: Instant,
        until_end: bool,
        mut jobs: Option<&mut Vec<Job>>,
    ) -> Result<ReadEnd, Reason> {
        for _ in 0..READS_MAX {
            if self.is_backpressured(shared) {
                return Ok(ReadEnd::Paused);
            }
            // After a goodbye nothing is read: not even that the connection has been closed meanwhile.
            if self.closing.is_some() || !self.has_memory(shared) {
                return Ok(ReadEnd::Drained);
            }
            let space_bytes = shared.memory.read_bytes(self.session.server.has_delivered());
            let received = self.receive_once(buffer, space_bytes, None);
            let length = match received.result {
                Ok(0) => return Err(Reason::Lost),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ReadEnd::Drained),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(Reason::Forbidden),
                Err(_) => return Err(Reason::Lost),
            };
            self.session.last_received = now;
            shared.bytes.fetch_add(length as u64, Ordering::Relaxed);
            self.feed(
                buffer,
                received.held + length,
                received.is_moved,
                shared,
                &mut jobs,
            )?;
            if !received.is_full && !until_end && !self.link.buffers_received() {
                return Ok(ReadEnd::Drained);
            }
        }
        Ok(ReadEnd::TurnOver)
    }

    /// Waits for bytes, in one system call where the link can, and feeds them. `false`: none came in time.
    pub(crate) fn receive_blocking(
        &mut self,
        buffer: &mut Buffer,
        shared: &ServerState,
        timeout: Duration,
    ) -> Result<bool, Reason> {
        if !self.has_memory(shared) {
            return Ok(false);
        }
        let space_bytes = shared.memory.read_bytes(self.session.server.has_delivered());
        let received = match self.busy_poll(buffer, space_bytes) {
            Some(received) => received,
            None => self.receive_once(buffer, space_bytes, Some(timeout)),
        };
        let length = match received.result {
            Ok(0) => return Err(Reason::Lost),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(false),
            Err(_) => return Err(Reason::Lost),
        };
        self.session.last_received = Instant::now();
        shared.bytes.fetch_add(length as u64, Ordering::Relaxed);
        self.feed(
            buffer,
            received.held + length,
            received.is_moved,
            shared,
            &mut None,
        )?;
        Ok(true)
    }

    /// While several requests are under way the next ones are due at any time: spins for a while before it sleeps.
    fn busy_poll(&mut self, buffer: &mut Buffer, space_bytes: usize) -> Option<Received> {
        // The rest of a long frame comes without it.
        let polls = self.is_busy && self.session.input.len() <= MOVED_BYTES_MAX;
        let start = polls.then(Instant::now)?;
        while start.elapsed() < BUSY_SPIN {
            let received = self.receive_once(buffer, space_bytes, None);
            match &received.result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                _ => return Some(received),
            }
        }
        self.is_busy = false;
        None
    }

    /// Receives once, behind the front of a frame that is there already.
    fn receive_once(
        &mut self,
        buffer: &mut Buffer,
        space_bytes: usize,
        timeout: Option<Duration>,
    ) -> Received {
        let receive = |link: &mut dyn Link, space: &mut [u8]| match timeout {
            Some(timeout) => link.receive(space, timeout),
            None => link.try_receive(space),
        };
        let input = &mut self.session.input;
        let held = input.len();
        let is_moved = held <= MOVED_BYTES_MAX;
        let space = if is_moved {
            let (front, space) = buffer.bytes.split_at_mut(held);
            front.copy_from_slice(input);
            space.get_mut(..space_bytes)
        } else {
            // To the end of the frame, and no further: what follows goes through the buffer again.
            let room = input.capacity() - held;
            input.resize(held + room.clamp(1, space_bytes), 0);
            input.get_mut(held..)
        };
        let space = space.unwrap_or(&mut []);
        let result = receive(self.link.as_mut(), space);
        let is_full = result.as_ref().is_ok_and(|length| *length == space.len());
        if !is_moved {
            input.truncate(held + *result.as_ref().unwrap_or(&0));
        }
        Received {
            held,
            result,
            is_moved,
            is_full,
        }
    }

    fn feed(
        &mut self,
        buffer: &Buffer,
        length: usize,
        is_moved: bool,
        shared: &ServerState,
        jobs: &mut Option<&mut Vec<Job>>,
    ) -> Result<(), Reason> {
        let session = &mut self.session;
        if !session.is_established {
            session.server.peer.identity = self.link.identity();
        }
        let received = is_moved.then(|| buffer.bytes.get(..length).unwrap_or(&[]));
        let mut used = 0;
        let closing = loop {
            let session = &mut self.session;
            let fed = session.feed(received, used, shared, &mut self.out, jobs.as_deref_mut());
            used += fed.used_bytes;
            self.is_busy |= fed.frames > 1;
            if !fed.is_output_full || fed.close_reason.is_some() {
                break fed.close_reason;
            }
            if used < length && !self.write(shared)? {
                // Later, all at once.
                self.session.server.set_output_limit(usize::MAX);
            }
        };
        let session = &mut self.session;
        session.server.set_output_limit(PIECE_BYTES);
        if used > 0 || session.input.is_empty() {
            session.frame_began = session.last_received;
        }
        match received {
            Some(received) => {
                session.input.clear();
                session
                    .input
                    .extend_from_slice(received.get(used..).unwrap_or(&[]));
            }
            None => drop(session.input.drain(..used)),
        }
        if let Some(reason) = closing {
            self.closing = Some(reason);
        }
        session.update_memory(self.out.capacity(), shared)
    }

    /// Lays out acknowledgements that the service has given meanwhile.
    pub(crate) fn put_deferred_ack(&mut self) {
        if self.closing.is_none() {
            self.closing = put_deferred_ack(&mut self.session.server, &mut self.out);
        }
    }

    /// Refuses a request.
    pub(crate) fn refuse(&mut self, request: &Job, words: &str) {
        let (stream, sequence) = (request.stream, request.sequence);
        self.session
            .server
            .respond(stream, sequence, Err(words), &mut self.out);
    }

    /// Returns whether the peer is owed something that it can still get: answers of other threads, and bytes that it has
    /// begun to take less than `patience` ago; acknowledgements count as answers.
    pub(crate) fn is_owed(&self, patience: Duration) -> bool {
        let is_stuck = self
            .send_blocked_since
            .is_some_and(|since| since.elapsed() >= patience);
        let awaits_ack = awaited_ack(&self.session.server).is_some();
        !is_stuck && (self.session.outbox().awaited() > 0 || awaits_ack || self.has_output())
    }

    /// Sends what can be sent, of other threads, too. `Ok(true)`: all of it.
    pub(crate) fn write(&mut self, shared: &ServerState) -> Result<bool, Reason> {
        loop {
            if self.closing.is_none()
                && let Some(reason) = self.session.server.send_outbox(&mut self.out, WAITING_BYTES_MAX)
            {
                self.session.server.goodbye(reason, &mut self.out);
                self.closing = Some(reason);
            }
            if !self.write_out(shared)? {
                return Ok(false);
            }
            if self.session.outbox().bytes() == 0 || self.closing.is_some() {
                return Ok(true);
            }
        }
    }

    fn write_out(&mut self, shared: &ServerState) -> Result<bool, Reason> {
        while let Some(rest) = self.out.get(self.out_start..).filter(|rest| !rest.is_empty()) {
            match self.link.try_send(&[IoSlice::new(rest)]) {
                Ok(sent) => {
                    self.out_start += sent;
                    self.send_blocked_since = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.send_blocked_since.get_or_insert_with(Instant::now);
                    return Ok(false);
                }
                Err(_) => return Err(self.lost_reason()),
            }
        }
        self.out_start = 0;
        self.out.clear();
        if shared.memory.is_scarce() && self.out.capacity() > MOVED_BYTES_MAX {
            self.out = Vec::new();
        }
        self.session.update_memory(self.out.capacity(), shared)?;
        match self.link.flush() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(_) => Err(self.lost_reason()),
        }
    }

    /// Reason to end the connection for when nothing can be sent any more: a peer that has said goodbye waits for no
    /// answer.
    fn lost_reason(&self) -> Reason {
        self.closing.unwrap_or(Reason::Lost)
    }

    /// Gives back the memory of a connection that has nothing to say at the moment.
    pub(crate) fn shrink(&mut self, shared: &ServerState) {
        if self.out.is_empty() && self.out.capacity() > 0 {
            self.out = Vec::new();
            // It gets smaller, which cannot be too much.
            let _ = self.session.update_memory(0, shared);
        }
    }

    /// Sends the reason to the peer, as far as that is possible without waiting.
    pub(crate) fn send_goodbye(&mut self, reason: Reason, shared: &ServerState) {
        if self.closing.is_none() {
            self.session.server.goodbye(reason, &mut self.out);
        }
        let _ = self.write(shared);
    }

    /// Ends it: says why, unless the peer knows.
    pub(crate) fn close(&mut self, reason: Reason, shared: &ServerState) {
        if !matches!(reason, Reason::Done | Reason::Lost) {
            self.send_goodbye(reason, shared);
        }
        self.session.closed(reason, shared);
    }
}
