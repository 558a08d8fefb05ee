//! The thread that forwards: connects, sends what is new, takes acknowledgements, and spools while no collector takes
//! records.

use super::batch_source::BatchSource;
use super::health::HealthProber;
use super::options::{ForwardOptions, check_member, choose_first};
use super::piece_limit::PieceLimit;
use super::state::{ForwardQueue, ForwardState, QueuedBatch, SharedState};
use crate::TransportError;
use crate::address::Address;
use crate::connection::{Connection, open_guarded};
use crate::hello::{Format, HELLO_ACKS, HELLO_ELSEWHERE, Reason, Role};
use crate::limits::{RETRY_MS, UDP_CREDIT_WAIT_MS};
use crate::options::Options;
use crate::session::{RecordBatch, Shipper, compress};
use crate::upstream::{Group, MemberId, MemberOptions, MemberState, Policy};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time that the thread waits for acknowledgements before it checks for new batches.
const ACK_WAIT: Duration = Duration::from_millis(2);

/// Time without an acknowledgement after which datagrams are sent again.
const DATAGRAM_RESEND: Duration = Duration::from_millis(UDP_CREDIT_WAIT_MS);
/// Answers without progress after which they are sent again at once, and the least pause before that happens again.
const REPEATS_MIN: u32 = 2;
const RESEND_PAUSE: Duration = Duration::from_millis(10);

/// The members that records may go to, and the one of the connection.
struct Members {
    group: Group,
    /// Members that have failed since one took records.
    tried: Vec<MemberId>,
    /// Member of the connection, and whether it is established.
    current: Option<(MemberId, bool)>,
    /// Health probes, where they are asked for.
    health: Option<HealthProber>,
    /// Another member was chosen by hand since the connection was made.
    is_reselected: bool,
    /// Others may have what lies before the records that are sent.
    is_elsewhere: bool,
    /// A thread connects to the current member.
    is_connecting: bool,
}

/// Pauses between attempts to connect, which grow with each failure.
struct Backoff {
    pause_ms: u64,
    next_attempt: Instant,
    /// Length of batches, where connections are too slow for longer ones.
    pieces: PieceLimit,
}

/// Signs of life of the other end.
struct Liveness {
    /// End of the time for the connection and the other end's hello.
    connect_ends: Instant,
    /// Time of the last frame of the other end, or at which it had nothing to say.
    last_received: Instant,
    /// Datagrams that may be lost; none over a stream.
    datagrams: Option<Datagrams>,
    /// Time of a keepalive question that has not been answered.
    keepalive_sent: Option<Instant>,
}

/// Loss of datagrams that are under way.
struct Datagrams {
    /// Time at which all count as lost.
    lost_at: Instant,
    /// Answers without progress: something was lost before what they answer.
    repeats: u32,
    /// Time of the last resend.
    resent: Instant,
}

impl Datagrams {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            lost_at: now + DATAGRAM_RESEND,
            repeats: 0,
            resent: now,
        }
    }

    /// Takes note of so many frames of the other end. Returns whether all that is under way is to be sent again.
    fn look(&mut self, has_progress: bool, frames: u32) -> bool {
        let now = Instant::now();
        if has_progress {
            (self.lost_at, self.repeats) = (now + DATAGRAM_RESEND, 0);
            return false;
        }
        self.repeats += frames;
        let is_told =
            self.repeats >= REPEATS_MIN && now.saturating_duration_since(self.resent) >= RESEND_PAUSE;
        if !is_told && now < self.lost_at {
            return false;
        }
        (self.lost_at, self.repeats, self.resent) = (now + DATAGRAM_RESEND, 0, now);
        true
    }
}

/// State of the thread.
pub(super) struct Runner {
    members: Members,
    /// The connection takes no new batches and ends when all that were sent are acknowledged.
    is_draining: bool,
    options: Options,
    /// Compression of batches of lines; blocks of columns are compressed already.
    line_zstd_level: Option<i32>,
    persists: bool,
    source: BatchSource,
    shipper: Shipper,
    connection: Option<Connection>,
    shared: Arc<SharedState>,
    began: Instant,
    backoff: Backoff,
    liveness: Liveness,
    connections: u64,
    resent_batches: u64,
    /// There is no room in the spool for what waits.
    is_spool_full: bool,
}

impl Runner {
    pub(super) fn new(
        (group, health): (Group, Option<HealthProber>),
        options: &Options,
        forward: &ForwardOptions,
        source: BatchSource,
        shared: &Arc<SharedState>,
    ) -> Self {
        let now = Instant::now();
        let is_elsewhere = group.members().count() > 1;
        Self {
            members: Members {
                group,
                tried: Vec::new(),
                current: None,
                health,
                is_reselected: false,
                is_elsewhere,
                is_connecting: false,
            },
            is_draining: false,
            options: options.clone(),
            line_zstd_level: forward.zstd_level.filter(|_| forward.format != Format::Records),
            persists: forward.persists,
            shipper: source.shipper(forward.queue_bytes),
            source,
            connection: None,
            shared: Arc::clone(shared),
            began: now,
            backoff: Backoff {
                pause_ms: RETRY_MS.0,
                next_attempt: now,
                pieces: PieceLimit::default(),
            },
            liveness: Liveness {
                connect_ends: now,
                last_received: now,
                datagrams: None,
                keepalive_sent: None,
            },
            connections: 0,
            resent_batches: 0,
            is_spool_full: false,
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn run(mut self) {
        // What carries the log must not write to it: not even what a library beneath has to say.
        logdrive_ring::local::deny_thread();
        while !self.is_finished() {
            self.apply_changes();
            if self.members.is_connecting {
                self.take_connection();
            } else if self.connection.is_none() && Instant::now() >= self.backoff.next_attempt {
                self.connect();
            }
            let result = self
                .take_batches()
                .and_then(|()| self.exchange())
                .and_then(|()| self.advance_session());
            if let Err(error) = result
                && !self.fail(&error)
            {
                break;
            }
            self.report();
            self.wait_for_work();
        }
        // Batches that no collector has taken at the end go to the spool, where there is one.
        if let Err(error) = self.spool_all() {
            self.shared.lock().state.failure = error.to_string();
        }
        if let Some(mut connection) = self.connection.take() {
            connection.close();
        }
        self.report();
        self.source.close();
        self.members.health = None;
        let mut inner = self.shared.lock();
        inner.state.is_over = true;
        inner.state.is_connected = false;
        drop(inner);
        self.shared.progress.notify_all();
    }

    /// Returns whether there is nothing more to do, or no more time.
    fn is_finished(&self) -> bool {
        let inner = self.shared.lock();
        let is_done = inner.queue.is_empty() && self.shipper.is_all_acknowledged() && self.source.is_read();
        inner.ends && (is_done || inner.deadline.is_some_and(|end| Instant::now() >= end))
    }

    /// Takes over new members and results of probes. Where the connection is to be given up, no new batches go there,
    /// and when all that did are acknowledged it ends.
    fn apply_changes(&mut self) {
        let mut inner = self.shared.lock();
        if std::mem::take(&mut inner.members_changed) {
            let members = inner.members.clone();
            drop(inner);
            self.replace_members(members);
        } else {
            drop(inner);
        }
        if let Some(health) = &mut self.members.health {
            for (id, is_healthy) in health.events() {
                self.members.group.probed(id, is_healthy);
            }
        }
        let is_removed = |id: MemberId| self.members.group.address(id).is_none();
        let is_deselected =
            |id: MemberId| self.members.is_reselected && self.members.group.chosen() != Some(id);
        self.is_draining = self.members.current.is_some_and(|(id, is_established)| {
            is_established && (is_removed(id) || is_deselected(id) || self.should_fail_back(id))
        });
        if self.is_draining && self.shipper.is_all_acknowledged() {
            self.disconnect();
        }
    }

    /// Returns whether a member is a backup, and a main member is known to be healthy.
    fn should_fail_back(&self, id: MemberId) -> bool {
        let Some(health) = &self.members.health else {
            return false;
        };
        let is_backup = |member: &MemberState| member.id == id && member.options.is_backup;
        let is_main = |member: &MemberState| {
            !member.options.is_backup && member.options.weight > 0 && health.is_confirmed_healthy(member.id)
        };
        self.members.group.members().any(|member| is_backup(&member))
            && self.members.group.members().any(|member| is_main(&member))
    }

    /// Replaces the members; those that stay keep their state.
    fn replace_members(&mut self, members: Vec<MemberOptions>) {
        let before: Vec<MemberState> = self.members.group.members().collect();
        for address in before.into_iter().map(|member| member.options.address) {
            if members.iter().all(|member| member.address != address) {
                self.members.group.remove(&address);
            }
        }
        for member in &members {
            let added =
                check_member(member, &self.options).and_then(|()| self.members.group.add(member.clone()));
            if let Err(error) = added {
                self.shared.lock().state.failure = error.to_string();
            }
        }
        let chosen = self.members.group.chosen();
        choose_first(&mut self.members.group, &members);
        if self.members.group.options().policy == Policy::Manual && self.members.group.chosen() != chosen {
            self.members.is_reselected = true;
        }
        self.members.is_elsewhere = true;
        self.members.tried.clear();
        self.backoff.next_attempt = Instant::now();
        if let (Some(_), Some(options)) = (&self.members.health, self.members.group.options().health) {
            // Without a thread no member is marked as failed, as without probes.
            self.members.health = HealthProber::start(&self.members.group, options, &self.options).ok();
        }
    }

    /// Ends the connection in order, to make another one.
    fn disconnect(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.close();
        }
        self.shipper.disconnected();
        (self.members.current, self.is_draining) = (None, false);
        self.members.tried.clear();
        self.backoff.next_attempt = Instant::now();
    }

    /// Starts to connect. A thread of its own does it, because a collector that does not answer takes all of the time for
    /// it: records go on to the spool meanwhile, and the end of the forwarder does not wait.
    fn connect(&mut self) {
        let Some((id, address)) = self.choose() else {
            self.backoff.next_attempt = Instant::now() + Duration::from_millis(RETRY_MS.0);
            return;
        };
        self.members.current = Some((id, false));
        self.members.is_reselected = false;
        let end = Instant::now() + self.options.timeouts.connect;
        self.liveness.connect_ends = end;
        let (options, shared) = (self.options.clone(), Arc::clone(&self.shared));
        let thread = std::thread::Builder::new()
            .name("logdrive-connect".to_owned())
            .spawn(move || {
                logdrive_ring::signals::block_in_thread();
                logdrive_ring::local::deny_thread();
                let opened = open_guarded(&address, &options, end);
                shared.lock().opened = Some(opened);
                shared.work.notify_all();
            });
        match thread {
            Ok(_) => self.members.is_connecting = true,
            Err(error) => {
                self.fail(&TransportError::system("start a thread")(error));
            }
        }
    }

    /// Says hello over the connection that was made, if it was.
    fn take_connection(&mut self) {
        let Some(opened) = self.shared.lock().opened.take() else {
            return;
        };
        self.members.is_connecting = false;
        let Some((id, _)) = self.members.current else {
            // Given up in the meantime.
            return;
        };
        let is_datagrams = matches!(self.members.group.address(id), Some(Address::Udp(_)));
        self.liveness.datagrams = is_datagrams.then(Datagrams::new);
        self.shipper.set_datagrams(is_datagrams);
        let pieces = self.backoff.pieces.bytes();
        self.shipper.set_piece_bytes(match is_datagrams {
            true => pieces.min(self.options.datagram_bytes),
            false => pieces,
        });
        let made = opened.and_then(|mut connection| {
            let mut hello = self.options.hello(Role::Shipper, connection.is_checked());
            self.source.owner().fill_hello(&mut hello);
            hello.flags |= HELLO_ACKS;
            if self.members.is_elsewhere {
                hello.flags |= HELLO_ELSEWHERE;
            }
            let frame = self.shipper.connected(hello);
            connection.send_parts(&mut [IoSlice::new(&frame)])?;
            Ok(connection)
        });
        match made {
            Ok(connection) => {
                self.connection = Some(connection);
                self.connections += 1;
                self.liveness.last_received = Instant::now();
                self.liveness.keepalive_sent = None;
            }
            Err(error) => {
                self.fail(&error);
            }
        }
    }

    /// Picks the member to try next: none of those that failed, as long as there are others.
    fn choose(&mut self) -> Option<(MemberId, Address)> {
        let (key, now_ns) = (self.source.owner().session as u64, self.now_ns());
        let mut found = self.members.group.pick(key, now_ns, &self.members.tried);
        if found.is_none() {
            self.members.tried.clear();
            found = self.members.group.pick(key, now_ns, &[]);
        }
        let id = found?;
        Some((id, self.members.group.address(id)?.clone()))
    }

    /// Notes a failure, and when to try again. `false`: it cannot pass.
    fn fail(&mut self, error: &TransportError) -> bool {
        if let Some(mut connection) = self.connection.take() {
            connection.abandon();
            let is_slow = matches!(error, TransportError::Timeout { .. }) && self.shipper.is_established();
            self.backoff
                .pieces
                .connection_ended(self.shipper.acknowledged(), is_slow);
        }
        self.shipper.disconnected();
        if let Some((id, _)) = self.members.current.take() {
            let now_ns = self.now_ns();
            self.members.group.failed(id, &error.to_string(), now_ns);
            self.members.tried.push(id);
            if let Some(health) = &mut self.members.health {
                health.suspect(id);
            }
        }
        self.backoff.next_attempt = Instant::now() + Duration::from_millis(self.backoff.pause_ms);
        self.backoff.pause_ms = (self.backoff.pause_ms * 2).min(RETRY_MS.1);
        let mut inner = self.shared.lock();
        inner.state.failure = error.to_string();
        inner.state.is_superseded = error.is_superseded();
        drop(inner);
        self.persists || error.is_passing()
    }

    /// Moves batches on: to the spool while no collector takes them, else to the shipper.
    fn take_batches(&mut self) -> Result<(), TransportError> {
        if !self.shipper.is_established() || !self.source.is_own() {
            self.spool_all()?;
        }
        if self.is_draining {
            return Ok(());
        }
        if self.source.read_into(&mut self.shipper)? {
            self.disconnect();
        }
        if !self.source.is_read() || self.source.is_behind(&self.shipper) {
            // Behind what is in the spool.
            return self.spool_all();
        }
        loop {
            let mut inner = self.shared.lock();
            let fits = |item: &mut QueuedBatch| self.shipper.has_room(item.lines.len());
            let Some(item) = inner.queue.pop_front_if(fits) else {
                return Ok(());
            };
            inner.queued_bytes -= item.lines.len();
            drop(inner);
            self.shared.progress.notify_all();
            let (payload, compressed) = self.pack(item.lines);
            // There is room for it: it was just asked for, and compression does not lengthen.
            let _ = self.shipper.push(item.count, payload, compressed);
        }
    }

    fn pack(&self, lines: Vec<u8>) -> (Vec<u8>, bool) {
        match self.line_zstd_level.and_then(|level| compress(&lines, level)) {
            Some(packed) => (packed, true),
            None => (lines, false),
        }
    }

    /// Brings what is only in memory to the spool, in order, as far as there is room.
    fn spool_all(&mut self) -> Result<(), TransportError> {
        if !self.source.has_spool() {
            return Ok(());
        }
        // What was acknowledged before a connection ended leaves no gap in front of what comes now.
        self.source.release(&self.shipper)?;
        self.is_spool_full = !self.source.spool_unacknowledged(&self.shipper)?;
        while !self.is_spool_full {
            // Not while the lock is held: a disk that hangs must not block readers of the state.
            let Some(item) = self.shared.lock().queue.pop_front() else {
                return Ok(());
            };
            let (length, count) = (item.lines.len(), item.count);
            let (payload, compressed) = self.pack(item.lines);
            let mut batch = RecordBatch {
                first: 0,
                count,
                compressed,
                payload,
            };
            let is_kept = self.source.append(&self.shipper, &mut batch)?;
            let mut inner = self.shared.lock();
            if is_kept {
                inner.queued_bytes -= length;
            } else {
                self.is_spool_full = true;
                let lines = unpack(batch.payload, compressed);
                inner.queue.push_front(QueuedBatch { count, lines });
            }
            drop(inner);
            self.shared.progress.notify_all();
        }
        Ok(())
    }

    /// Sends what the window allows and takes acknowledgements.
    fn exchange(&mut self) -> Result<(), TransportError> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        while let Some(frame) = self.shipper.poll() {
            if frame.is_first {
                // It had nothing to say.
                self.liveness.last_received = Instant::now();
            }
            connection.send_sealed(&frame.header, frame.payload)?;
        }
        if self.shipper.is_blocked_by_oversized() {
            return Err(refused(&connection.address, Reason::TooLarge));
        }
        let waits = !self.shipper.is_all_acknowledged() || !self.shipper.is_established();
        let mut timeout = if waits { ACK_WAIT } else { Duration::ZERO };
        let acknowledged = self.shipper.acknowledged();
        let mut frames = 0;
        while let Some(frame) = connection.next(timeout)? {
            timeout = Duration::ZERO;
            frames += 1;
            let taken = self.shipper.receive(&frame);
            taken.map_err(|reason| refused(&connection.address, reason))?;
            self.liveness.last_received = Instant::now();
            self.liveness.keepalive_sent = None;
            if self.shipper.is_established() {
                self.backoff.pause_ms = RETRY_MS.0;
                if let Some((id, is_established @ false)) = &mut self.members.current {
                    *is_established = true;
                    self.members.group.succeeded(*id);
                    self.members.tried.clear();
                }
            }
        }
        if let Some(datagrams) = &mut self.liveness.datagrams {
            let has_progress = !waits || self.shipper.acknowledged() > acknowledged;
            if datagrams.look(has_progress, frames)
                && let Some(hello) = self.shipper.resend()
            {
                connection.send_parts(&mut [IoSlice::new(&hello)])?;
            }
        }
        self.source.release(&self.shipper)?;
        self.check_liveness()
    }

    /// A peer that is silent although something waits for its word, or that has said nothing for long, is asked, and
    /// then taken for dead.
    fn check_liveness(&mut self) -> Result<(), TransportError> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        if !self.shipper.is_established() && Instant::now() >= self.liveness.connect_ends {
            let limit = self.options.timeouts.connect;
            return Err(TransportError::timeout(&connection.address, "say hello", limit));
        }
        let waits = !self.shipper.is_all_acknowledged();
        let since = if waits {
            Some(self.liveness.last_received)
        } else {
            self.liveness.keepalive_sent
        };
        if since.is_some_and(|since| since.elapsed() > self.options.timeouts.response) {
            let limit = self.options.timeouts.response;
            return Err(TransportError::timeout(&connection.address, "acknowledge", limit));
        }
        if !waits
            && self.liveness.keepalive_sent.is_none()
            && self.liveness.last_received.elapsed() > self.options.timeouts.idle / 3
        {
            let header = self.shipper.keepalive();
            connection.send_sealed(&header, [&[], &[]])?;
            self.liveness.keepalive_sent = Some(Instant::now());
        }
        Ok(())
    }

    /// Goes on to the next session when all of an earlier one is acknowledged, and in the end to the own.
    fn advance_session(&mut self) -> Result<(), TransportError> {
        if self.source.is_own() || !self.shipper.is_all_acknowledged() || !self.source.is_current_read() {
            return Ok(());
        }
        self.source.next()?;
        self.resent_batches += self.shipper.resent_batches();
        self.shipper = self.source.shipper(self.shared.queue_bytes);
        if let Some(mut connection) = self.connection.take() {
            connection.close();
        }
        self.backoff.next_attempt = Instant::now();
        Ok(())
    }

    fn report(&mut self) {
        let resent = self.resent_batches + self.shipper.resent_batches();
        let mut inner = self.shared.lock();
        let state = &mut inner.state;
        let progress = |state: &ForwardState| {
            (
                state.secured,
                state.acknowledged,
                state.is_connected,
                state.sessions_left,
            )
        };
        let before = progress(state);
        state.is_connected = self.shipper.is_established();
        state.acknowledged = self.source.acknowledged(&self.shipper);
        state.secured = state.acknowledged.max(self.source.spooled);
        state.resent_batches = resent;
        state.connections = self.connections;
        state.lost = self.source.lost;
        state.spool_bytes = self.source.bytes();
        state.sessions_left = self.source.sessions_left();
        self.source.failure().clone_into(&mut state.spool_failure);
        if state.is_connected {
            state.failure.clear();
        }
        let changed = progress(state) != before;
        drop(inner);
        if changed {
            self.shared.progress.notify_all();
        }
    }

    /// Waits until there is something to do.
    fn wait_for_work(&self) {
        let is_idle = self.shipper.is_all_acknowledged() || self.connection.is_none();
        let inner = self.shared.lock();
        if !is_idle || inner.ends && self.connection.is_some() {
            return;
        }
        let now = Instant::now();
        let mut timeout = Duration::from_millis(100);
        if self.connection.is_none() && !self.members.is_connecting {
            timeout = timeout.min(self.backoff.next_attempt.saturating_duration_since(now));
        }
        if let Some(end) = inner.deadline {
            timeout = timeout.min(end.saturating_duration_since(now));
        }
        let takes = !self.is_spool_full && (self.connection.is_some() || self.source.has_spool());
        let ends = inner.ends;
        let sleeps = |inner: &mut ForwardQueue| {
            (!takes || inner.queue.is_empty())
                && inner.ends == ends
                && !inner.members_changed
                && inner.opened.is_none()
        };
        // The loop checks everything again.
        let _ = self.shared.work.wait_timeout_while(inner, timeout, sleeps);
    }
}

fn refused(address: &str, reason: Reason) -> TransportError {
    TransportError::Refused {
        address: address.to_owned(),
        reason,
        words: "see its log".to_owned(),
    }
}

fn unpack(payload: Vec<u8>, compressed: bool) -> Vec<u8> {
    let mut lines = Vec::new();
    // Packed a moment ago, so that it is sound.
    match compressed && crate::session::decompress(&payload, &mut lines).is_ok() {
        true => lines,
        false => payload,
    }
}
