//! The thread `logdrive-agent`: takes what the agent sends, and finds an agent again when it has gone.

use super::connection::{Connection, RingSize, send, send_keep_request};
use super::limits::{CONNECT_MS, REPORT_MS, RETRY_MS, RINGS_SHOWN, WELCOME_BACK_MS};
use super::{JoinError, no_answer, receive};
use logdrive_ring::channel::{Channel, Received, into_files};
use logdrive_ring::clock::monotonic_ns;
use logdrive_ring::limits::RINGS_MAX;
use logdrive_ring::{AgentConnection, MemoryFiles, SessionWriter, local, signals, thread_counts};
use logdrive_wire::agent::{Adopt, Message};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The thread of one connection to an agent.
#[derive(Debug)]
pub(super) struct ConnectionThread {
    connection: Arc<Connection>,
    session: Arc<SessionWriter>,
    /// Rings that the agent knows of.
    shown: usize,
    disabled_before: u64,
    /// Time of the next report of counts.
    report_at: Instant,
    buffer: Vec<u8>,
}

impl ConnectionThread {
    pub(super) fn new(
        connection: &Arc<Connection>,
        session: &Arc<SessionWriter>,
        shown: usize,
        disabled_before: u64,
    ) -> Self {
        Self {
            connection: Arc::clone(connection),
            session: Arc::clone(session),
            shown,
            disabled_before,
            report_at: Instant::now(),
            buffer: vec![0; logdrive_wire::limits::AGENT_MESSAGE_BYTES_MAX],
        }
    }

    pub(super) fn run(mut self) {
        local::deny_thread();
        signals::block_in_thread();
        let mut pause_ms = RETRY_MS.0;
        while !self.connection.has_ended() {
            if self.connection.is_connected() {
                pause_ms = RETRY_MS.0;
                self.handle_message();
                continue;
            }
            self.connection.pause(with_jitter(pause_ms));
            if self.connection.has_ended() {
                return;
            }
            // Why it did not work has no place to be said but the log, which is what cannot be reached.
            if self.adopt().is_err() {
                pause_ms = (pause_ms * 2).min(RETRY_MS.1);
            }
            self.report();
        }
    }

    /// Waits for a message and acts on it.
    fn handle_message(&mut self) {
        self.report();
        if self
            .connection
            .channel
            .wait(Duration::from_millis(REPORT_MS))
            .is_err()
        {
            return self.disconnect();
        }
        let mut descriptors = Vec::new();
        let received = self
            .connection
            .channel
            .receive(&mut self.buffer, &mut descriptors, true);
        let message = match received {
            Ok(Received::Packet(length)) => Message::decode(self.buffer.get(..length).unwrap_or_default()),
            // Without descriptors to spare there are no rings: the agent is asked again later.
            Ok(Received::Cut) => return self.connection.answer_rings(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok(Received::Closed) | Err(_) => return self.disconnect(),
        };
        match message {
            Ok(Message::Rings { count, .. }) if count as usize == descriptors.len() => {
                let files = into_files(descriptors);
                let size = files.first().map(|file| self.size_of(file));
                let is_taken = count > 0 && self.session.take_rings(files).is_ok();
                self.shown = self.ring_count();
                self.connection.answer_rings(size.filter(|_| is_taken));
            }
            Ok(Message::Flushed { ticket, reached }) => self.connection.answer_ticket(ticket, reached),
            Ok(Message::Done { complete }) => self.connection.answer_done(complete),
            // Refused, or something that an agent does not say: begin anew.
            _ => self.disconnect(),
        }
    }

    fn disconnect(&mut self) {
        self.connection.set_connected(false);
    }

    fn size_of(&self, ring: &File) -> RingSize {
        match ring.metadata() {
            Ok(found) if found.len() < self.connection.ring_bytes => RingSize::Small,
            _ => RingSize::Largest,
        }
    }

    fn ring_count(&self) -> usize {
        self.session.header().totals().rings as usize
    }

    /// Once a second: reports the counts of threads, and shows rings to the agent that were made in a hurry.
    fn report(&mut self) {
        let now = Instant::now();
        if now < self.report_at {
            return;
        }
        self.report_at = now + Duration::from_millis(REPORT_MS);
        thread_counts::report_all();
        let disabled = local::disabled_calls().saturating_sub(self.disabled_before);
        self.session.header().store_disabled(disabled);
        if self.connection.is_connected() && self.ring_count() > self.shown {
            let from = self.shown;
            let show = |_: &[BorrowedFd<'_>], rings: &[BorrowedFd<'_>]| {
                show_rings(&self.connection.channel, rings, from).map(|()| rings.len())
            };
            let shown = self.session.descriptors().and_then(|all| all.with(show));
            match shown {
                Some(Ok(count)) => self.shown = count,
                _ => self.disconnect(),
            }
        }
    }

    /// Gets the descriptors of the session's memory and rings from the agent that drains it, as a tool does.
    fn descriptors_of_agent(&self, socket: &Path) -> Result<(MemoryFiles, Vec<File>), JoinError> {
        let tool = Channel::connect_to_agent(socket, Duration::from_millis(CONNECT_MS))?;
        let session = self.connection.state().session;
        send(&tool, &Message::Open { session }, &[])
            .map_err(|cause| format!("cannot send to the agent: {cause}"))?;
        let wait = Duration::from_millis(WELCOME_BACK_MS);
        let (answer, descriptors) = receive(&tool, socket, wait)?;
        let Message::Session { ring_total, .. } = answer else {
            return Err(no_answer(socket, "has answered something else than was asked"));
        };
        let mut files = into_files(descriptors);
        let mut rings = files.split_off(MemoryFiles::PARTS.min(files.len()));
        while rings.len() < (ring_total as usize).min(RINGS_MAX) {
            match receive(&tool, socket, wait)? {
                (Message::Rings { count, .. }, more) if count > 0 => rings.extend(into_files(more)),
                _ => return Err(no_answer(socket, "has not sent all rings")),
            }
        }
        Ok((MemoryFiles::check(files)?, rings))
    }

    /// Connects anew and shows the session.
    fn adopt(&mut self) -> Result<(), JoinError> {
        let socket = &self.connection.socket;
        let descriptors = self
            .session
            .descriptors()
            .ok_or("the session has no descriptors to show")?;
        if descriptors.are_lost() {
            let (memory, rings) = self.descriptors_of_agent(socket)?;
            descriptors.restore(memory, rings)?;
        }
        let fresh = Channel::connect_to_agent(socket, Duration::from_millis(CONNECT_MS))?;
        let (session, journal) = {
            let state = self.connection.state();
            (state.session, state.journal)
        };
        let io = |cause: io::Error| format!("cannot show the session to the agent: {cause}");
        send_keep_request(&fresh, self.connection.keep.as_ref()).map_err(io)?;
        let shown = descriptors.with(|memory, rings| {
            let first = rings.get(..RINGS_SHOWN.min(rings.len())).unwrap_or_default();
            let message = Message::Adopt(Adopt {
                session,
                journal,
                ring_bytes: self.connection.ring_bytes,
                ring_total: rings.len() as u32,
                ring_count: first.len() as u32,
                policy: self.connection.policy,
                coarse: self.connection.coarse,
            });
            let mut all = memory.to_vec();
            all.extend_from_slice(first);
            send(&fresh, &message, &all)?;
            show_rings(&fresh, rings, first.len())?;
            Ok(rings.len())
        });
        let shown = shown
            .ok_or("the program has closed the descriptors of the session")?
            .map_err(io)?;
        let (answer, _) = receive(&fresh, socket, Duration::from_millis(WELCOME_BACK_MS))?;
        let Message::WelcomeBack { session, journal, .. } = answer else {
            return Err(no_answer(socket, "has answered something else than was asked"));
        };
        self.connection.channel.replace(fresh).map_err(io)?;
        self.shown = shown;
        {
            let mut state = self.connection.state();
            state.session = session;
            state.journal = journal;
        }
        self.connection.set_connected(true);
        // A thread may have made a ring in the meantime.
        self.report_at = Instant::now();
        Ok(())
    }
}

/// Shows the rings from a number on.
fn show_rings(channel: &Channel, rings: &[BorrowedFd<'_>], from: usize) -> io::Result<()> {
    let mut first = from;
    while let Some(part) = rings.get(first..(first + RINGS_SHOWN).min(rings.len())) {
        if part.is_empty() {
            break;
        }
        let message = Message::Rings {
            first: first as u32,
            count: part.len() as u32,
            reason: String::new(),
        };
        match send(channel, &message, part) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !channel.wait_for_room(Duration::from_millis(WELCOME_BACK_MS))? {
                    return Err(error);
                }
            }
            other => {
                other?;
                first += part.len();
            }
        }
    }
    Ok(())
}

/// A quarter more or less, so that a thousand processes do not come at once.
fn with_jitter(pause_ms: u64) -> Duration {
    let mut random = monotonic_ns() ^ (u64::from(std::process::id()) << 32);
    random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let part = (random >> 40) % 512;
    Duration::from_micros(pause_ms * 1000 * (768 + part) / 1024)
}
