//! The thread that forwards: connects, sends what is new, takes acknowledgements, and spools while no collector takes
//! records.

use super::batch_source::BatchSource;
use super::health::HealthProber;
use super::options::{ForwardOptions, check_member, choose_first, group_of};
use crate::TransportError;
use crate::address::Address;
use crate::connection::Connection;
use crate::hello::{HELLO_ACKS, HELLO_ELSEWHERE, Reason, Role};
use crate::limits::RETRY_MS;
use crate::options::Options;
use crate::session::{Shipper, compress};
use crate::upstream::{Group, MemberId, MemberOptions, MemberState, Policy};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time that the thread waits for acknowledgements before it looks for new batches.
const ACK_WAIT: Duration = Duration::from_millis(2);

/// State of a forwarder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForwardState {
    /// A collector takes records now.
    pub is_connected: bool,
    /// Records that were pushed.
    pub pushed: u64,
    /// The number behind the last record that is kept at the other end: level C3.
    pub acknowledged: u64,
    /// The number behind the last record that is kept at the other end, or by the spool with this machine's kernel: it
    /// survives the death of this process.
    pub secured: u64,
    /// Records that were refused because memory and spool were full; whoever pushed them knows.
    pub refused: u64,
    /// Batches that were sent more than once.
    pub resent_batches: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Bytes in the spool, with what earlier sessions left.
    pub spool_bytes: u64,
    /// Sessions before this one whose records are still in the spool.
    pub sessions_left: u64,
    /// Failure that keeps records from being taken; empty while a collector takes them.
    pub failure: String,
    /// Failure to write the spool; empty while it can be written.
    pub spool_failure: String,
    /// The failure will not pass: the thread has ended.
    pub is_over: bool,
}

/// Error of a push for which there was no room, with the lines that were pushed.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal(pub Vec<u8>);

#[derive(Debug)]
struct Item {
    count: u32,
    lines: Vec<u8>,
}

#[derive(Debug)]
struct Inner {
    queue: VecDeque<Item>,
    queued_bytes: usize,
    next: u64,
    state: ForwardState,
    ends: bool,
    /// Members that records may go to.
    members: Vec<MemberOptions>,
    /// The thread has not taken over these members yet.
    members_changed: bool,
    /// Time at which the thread gives up what is not acknowledged.
    deadline: Option<Instant>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// Something was pushed, or it ends.
    work: Condvar,
    /// Something was acknowledged, or there is room.
    progress: Condvar,
    queue_bytes: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Whoever panicked has left whole items.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forwards records, with a thread of its own.
#[derive(Debug)]
pub struct Forwarder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    first: u64,
    session: u128,
}

impl Forwarder {
    /// Starts. Tries the addresses in turn until one takes records; a failure that cannot pass ends it, which
    /// [`Forwarder::state`] tells.
    ///
    /// # Errors
    /// Fails when the spool cannot be opened or the thread not be started, or an address may not be used.
    pub fn start(
        addresses: &[Address],
        options: &Options,
        forward: &ForwardOptions,
    ) -> Result<Self, TransportError> {
        options.check()?;
        let group = group_of(addresses, options, forward)?;
        let source = BatchSource::open(forward, &options.app)?;
        let first = source.own_first;
        let state = ForwardState {
            acknowledged: first,
            secured: first,
            sessions_left: source.sessions_left(),
            ..ForwardState::default()
        };
        let inner = Inner {
            queue: VecDeque::new(),
            queued_bytes: 0,
            next: first,
            state,
            ends: false,
            members: group.members().map(|member| member.options).collect(),
            members_changed: false,
            deadline: None,
        };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            work: Condvar::new(),
            progress: Condvar::new(),
            queue_bytes: forward.queue_bytes,
        });
        let mut runner = Runner::new(group, options, forward, source, &shared);
        if let Some(health) = forward.group.health {
            runner.health = Some(HealthProber::start(&runner.group, health, options)?);
        }
        let thread = std::thread::Builder::new()
            .name("logdrive-forward".to_owned())
            .spawn(move || runner.run())
            .map_err(|cause| TransportError::System {
                doing: "start a thread",
                cause,
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
            first,
            session: forward.session,
        })
    }

    /// Returns a handle to its state, which stays valid when the forwarder has ended.
    pub fn watch(&self) -> ForwardWatch {
        ForwardWatch(Arc::clone(&self.shared))
    }

    /// The number of the first record that will be pushed.
    pub fn first_number(&self) -> u64 {
        self.first
    }

    /// Session that the records belong to.
    pub fn session(&self) -> u128 {
        self.session
    }

    /// Takes `count` lines, each with its line break, and gives the number of the first. Waits for room as long as
    /// `timeout` allows: 0 never blocks.
    ///
    /// # Errors
    /// Fails when there was no room, or it is over; the lines are given back, and their number is counted.
    pub fn push(&self, count: u32, lines: Vec<u8>, timeout: Duration) -> Result<u64, Refusal> {
        let mut inner = self.shared.lock();
        let length = lines.len();
        let fits =
            |inner: &Inner| inner.queue.is_empty() || inner.queued_bytes + length <= self.shared.queue_bytes;
        if !fits(&inner) && !timeout.is_zero() {
            let (waited, _) = self
                .shared
                .progress
                .wait_timeout_while(inner, timeout, |inner| !fits(inner) && !inner.state.is_over)
                .unwrap_or_else(PoisonError::into_inner);
            inner = waited;
        }
        if !fits(&inner) || inner.state.is_over {
            inner.state.refused += u64::from(count);
            return Err(Refusal(lines));
        }
        let first = inner.next;
        inner.next = first.saturating_add(count.into());
        inner.state.pushed += u64::from(count);
        inner.queued_bytes += length;
        inner.queue.push_back(Item { count, lines });
        drop(inner);
        self.shared.work.notify_one();
        Ok(first)
    }

    /// Returns the state at this moment.
    pub fn state(&self) -> ForwardState {
        self.shared.lock().state.clone()
    }

    /// Waits until all before this number is kept at the other end, with what earlier sessions left in the spool; `false`
    /// when the time is over, or all is.
    pub fn wait_acknowledged(&self, next: u64, timeout: Duration) -> bool {
        self.watch().wait_acknowledged(next, timeout)
    }

    /// Sends what was pushed, waits at most so long until it is kept, and ends. What is not kept then is in the spool,
    /// where there is one.
    pub fn stop(mut self, timeout: Duration) -> ForwardState {
        self.end(timeout);
        self.state()
    }

    fn end(&mut self, timeout: Duration) {
        let mut inner = self.shared.lock();
        inner.ends = true;
        inner.deadline = Some(Instant::now() + timeout);
        drop(inner);
        self.shared.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, it has said so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end(Duration::ZERO);
        }
    }
}

/// Handle to the state of a forwarder, valid after its end, too.
#[derive(Debug, Clone)]
pub struct ForwardWatch(Arc<Shared>);

impl ForwardWatch {
    /// Returns the state at this moment.
    pub fn state(&self) -> ForwardState {
        self.0.lock().state.clone()
    }

    /// The number behind the last record that was pushed.
    pub fn next_number(&self) -> u64 {
        self.0.lock().next
    }

    /// [`ForwardState::secured`].
    pub fn secured(&self) -> u64 {
        self.0.lock().state.secured
    }

    /// Failure that keeps records from being taken; `None` while a collector takes them, and before the first attempt.
    pub fn failure(&self) -> Option<String> {
        let inner = self.0.lock();
        let failure = &inner.state.failure;
        (!failure.is_empty()).then(|| failure.clone())
    }

    /// Members that records may go to.
    pub fn members(&self) -> Vec<MemberOptions> {
        self.0.lock().members.clone()
    }

    /// Sends to these from now on. A connection to one that is not among them ends when all that was sent there is
    /// acknowledged; with [`Policy::Manual`] also one to any but the first that is no backup. Those that may not be used
    /// are left out, which [`ForwardState::failure`] tells.
    pub fn set_members(&self, members: Vec<MemberOptions>) {
        let mut inner = self.0.lock();
        (inner.members, inner.members_changed) = (members, true);
        drop(inner);
        self.0.work.notify_all();
    }

    /// See [`Forwarder::wait_acknowledged`].
    pub fn wait_acknowledged(&self, next: u64, timeout: Duration) -> bool {
        let lacks = |inner: &Inner| inner.state.acknowledged < next || inner.state.sessions_left > 0;
        let inner = self.0.lock();
        let waits = |inner: &mut Inner| lacks(inner) && !inner.state.is_over;
        let waited = self.0.progress.wait_timeout_while(inner, timeout, waits);
        !lacks(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// The thread's state.
struct Runner {
    group: Group,
    /// Members that have failed since one took records.
    tried: Vec<MemberId>,
    /// Member of the connection, and whether it is established.
    member: Option<(MemberId, bool)>,
    /// Health probes, where they are asked for.
    health: Option<HealthProber>,
    /// The connection takes no new batches and ends when all that were sent are acknowledged.
    is_draining: bool,
    /// Another member was chosen by hand since the connection was made.
    is_reselected: bool,
    /// Others may have what lies before the records that are sent.
    is_elsewhere: bool,
    options: Options,
    zstd_level: Option<i32>,
    persists: bool,
    source: BatchSource,
    shipper: Shipper,
    connection: Option<Connection>,
    shared: Arc<Shared>,
    began: Instant,
    retry_ms: u64,
    retry_at: Instant,
    /// Time of the last frame of the other end, or at which it had nothing to say.
    last_received: Instant,
    /// Time of a keepalive question that has not been answered.
    keepalive_sent: Option<Instant>,
    connections: u64,
    resent_batches: u64,
    /// There is no room in the spool for what waits.
    is_spool_full: bool,
}

impl Runner {
    fn new(
        group: Group,
        options: &Options,
        forward: &ForwardOptions,
        source: BatchSource,
        shared: &Arc<Shared>,
    ) -> Self {
        let now = Instant::now();
        let is_elsewhere = group.members().count() > 1;
        Self {
            group,
            tried: Vec::new(),
            member: None,
            health: None,
            is_draining: false,
            is_reselected: false,
            is_elsewhere,
            options: options.clone(),
            zstd_level: forward.zstd_level,
            persists: forward.persists,
            shipper: source.shipper(forward.queue_bytes),
            source,
            connection: None,
            shared: Arc::clone(shared),
            began: now,
            retry_ms: RETRY_MS.0,
            retry_at: now,
            last_received: now,
            keepalive_sent: None,
            connections: 0,
            resent_batches: 0,
            is_spool_full: false,
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn run(mut self) {
        // What carries the log must not write to it: not even what a library beneath has to say.
        logdrive_ring::local::deny_thread();
        while !self.is_finished() {
            self.apply_changes();
            if self.connection.is_none() && Instant::now() >= self.retry_at {
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
        // What nobody has taken at the end goes to the spool, where there is one.
        if let Err(error) = self.spool_all() {
            self.shared.lock().state.failure = error.to_string();
        }
        if let Some(mut connection) = self.connection.take() {
            connection.close();
        }
        self.report();
        self.source.close();
        self.health = None;
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
        if let Some(health) = &mut self.health {
            for (id, is_healthy) in health.events() {
                self.group.probed(id, is_healthy);
            }
        }
        let is_removed = |id: MemberId| self.group.address(id).is_none();
        let is_deselected = |id: MemberId| self.is_reselected && self.group.chosen() != Some(id);
        self.is_draining = self.member.is_some_and(|(id, is_established)| {
            is_established && (is_removed(id) || is_deselected(id) || self.should_fail_back(id))
        });
        if self.is_draining && self.shipper.is_all_acknowledged() {
            self.disconnect();
        }
    }

    /// Returns whether a member is a backup, and a main member is known to be healthy.
    fn should_fail_back(&self, id: MemberId) -> bool {
        let Some(health) = &self.health else {
            return false;
        };
        let is_backup = |member: &MemberState| member.id == id && member.options.is_backup;
        let is_main = |member: &MemberState| {
            !member.options.is_backup && member.options.weight > 0 && health.is_confirmed_healthy(member.id)
        };
        self.group.members().any(|member| is_backup(&member))
            && self.group.members().any(|member| is_main(&member))
    }

    /// Replaces the members; those that stay keep their state.
    fn replace_members(&mut self, members: Vec<MemberOptions>) {
        let before: Vec<Address> = self
            .group
            .members()
            .map(|member| member.options.address)
            .collect();
        for address in before {
            if members.iter().all(|member| member.address != address) {
                self.group.remove(&address);
            }
        }
        for member in &members {
            let added = check_member(member, &self.options).and_then(|()| self.group.add(member.clone()));
            if let Err(error) = added {
                self.shared.lock().state.failure = error.to_string();
            }
        }
        let chosen = self.group.chosen();
        choose_first(&mut self.group, &members);
        if self.group.options().policy == Policy::Manual && self.group.chosen() != chosen {
            self.is_reselected = true;
        }
        self.is_elsewhere = true;
        self.tried.clear();
        self.retry_at = Instant::now();
        if let (Some(_), Some(options)) = (&self.health, self.group.options().health) {
            // Without a thread nobody is found ill, which is as it was before.
            self.health = HealthProber::start(&self.group, options, &self.options).ok();
        }
    }

    /// Ends the connection in order, to make another one.
    fn disconnect(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.close();
        }
        self.shipper.disconnected();
        (self.member, self.is_draining) = (None, false);
        self.tried.clear();
        self.retry_at = Instant::now();
    }

    fn connect(&mut self) {
        let Some((id, address)) = self.choose() else {
            self.retry_at = Instant::now() + Duration::from_millis(RETRY_MS.0);
            return;
        };
        self.member = Some((id, false));
        self.is_reselected = false;
        let made = Connection::open(&address, &self.options).and_then(|mut connection| {
            let mut hello = connection.hello(Role::Shipper, &self.options);
            self.source.owner().fill_hello(&mut hello);
            hello.flags |= HELLO_ACKS;
            if self.is_elsewhere {
                hello.flags |= HELLO_ELSEWHERE;
            }
            let frame = self.shipper.connected(self.now_ns(), hello);
            connection.send_parts(&mut [IoSlice::new(&frame)])?;
            Ok(connection)
        });
        match made {
            Ok(connection) => {
                self.connection = Some(connection);
                self.connections += 1;
                self.last_received = Instant::now();
                self.keepalive_sent = None;
            }
            Err(error) => {
                self.fail(&error);
            }
        }
    }

    /// Picks the member to try next: none of those that failed, as long as there are others.
    fn choose(&mut self) -> Option<(MemberId, Address)> {
        let (key, now_ns) = (self.source.owner().session as u64, self.now_ns());
        let mut found = self.group.pick(key, now_ns, &self.tried);
        if found.is_none() {
            self.tried.clear();
            found = self.group.pick(key, now_ns, &[]);
        }
        let id = found?;
        Some((id, self.group.address(id)?.clone()))
    }

    /// Notes a failure, and when to try again. `false`: it cannot pass.
    fn fail(&mut self, error: &TransportError) -> bool {
        if let Some(mut connection) = self.connection.take() {
            connection.abandon();
        }
        self.shipper.disconnected();
        if let Some((id, _)) = self.member.take() {
            let now_ns = self.now_ns();
            self.group.failed(id, &error.to_string(), now_ns);
            self.tried.push(id);
            if let Some(health) = &mut self.health {
                health.suspect(id);
            }
        }
        self.retry_at = Instant::now() + Duration::from_millis(self.retry_ms);
        self.retry_ms = (self.retry_ms * 2).min(RETRY_MS.1);
        self.shared.lock().state.failure = error.to_string();
        self.persists || error.is_passing()
    }

    /// Moves batches on: to the spool while nobody takes them, else to the shipper.
    fn take_batches(&mut self) -> Result<(), TransportError> {
        if !self.shipper.is_established() || !self.source.is_own() {
            self.spool_all()?;
        }
        if self.is_draining {
            return Ok(());
        }
        self.source.read_into(&mut self.shipper)?;
        if !self.source.is_read() {
            // Behind what is in the spool.
            return self.spool_all();
        }
        loop {
            let mut inner = self.shared.lock();
            let fits = |item: &mut Item| self.shipper.has_room(item.lines.len());
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
        match self.zstd_level.and_then(|level| compress(&lines, level)) {
            Some(packed) => (packed, true),
            None => (lines, false),
        }
    }

    /// Brings what is only in memory to the spool, in order, as far as there is room.
    fn spool_all(&mut self) -> Result<(), TransportError> {
        if !self.source.has_spool() {
            return Ok(());
        }
        self.is_spool_full = !self.source.spool_unacknowledged(&self.shipper)?;
        while !self.is_spool_full {
            // Not while the lock is held: a disk that hangs must not hold up whoever asks how it stands.
            let Some(item) = self.shared.lock().queue.pop_front() else {
                return Ok(());
            };
            let length = item.lines.len();
            let count = item.count;
            let (payload, compressed) = self.pack(item.lines);
            let is_kept = self.source.append(&self.shipper, count, compressed, &payload)?;
            let mut inner = self.shared.lock();
            if is_kept {
                inner.queued_bytes -= length;
            } else {
                self.is_spool_full = true;
                let lines = unpack(payload, compressed);
                inner.queue.push_front(Item { count, lines });
            }
            drop(inner);
            self.shared.progress.notify_all();
        }
        Ok(())
    }

    /// Sends what the window allows and takes acknowledgements.
    fn exchange(&mut self) -> Result<(), TransportError> {
        let now = self.now_ns();
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        while let Some(frame) = self.shipper.poll(now) {
            if frame.is_first {
                // It had nothing to say.
                self.last_received = Instant::now();
            }
            connection.send_sealed(&frame.header, frame.payload)?;
        }
        if self.shipper.is_blocked_by_oversized() {
            return Err(refused(&connection.address, Reason::TooLarge));
        }
        let waits = !self.shipper.is_all_acknowledged() || !self.shipper.is_established();
        let mut timeout = if waits { ACK_WAIT } else { Duration::ZERO };
        while let Some(frame) = connection.next(timeout)? {
            timeout = Duration::ZERO;
            let taken = self.shipper.receive(&frame, now);
            taken.map_err(|reason| refused(&connection.address, reason))?;
            self.last_received = Instant::now();
            self.keepalive_sent = None;
            if self.shipper.is_established() {
                self.retry_ms = RETRY_MS.0;
                if let Some((id, is_established @ false)) = &mut self.member {
                    *is_established = true;
                    self.group.succeeded(*id);
                    self.tried.clear();
                }
            }
        }
        self.source.release(&self.shipper)?;
        self.check_liveness()
    }

    /// A peer that is silent although something waits for its word, or that has said nothing for long, is asked, and then
    /// taken for dead.
    fn check_liveness(&mut self) -> Result<(), TransportError> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let waits = !self.shipper.is_all_acknowledged() || !self.shipper.is_established();
        let since = if waits {
            Some(self.last_received)
        } else {
            self.keepalive_sent
        };
        if since.is_some_and(|since| since.elapsed() > self.options.response_timeout) {
            return Err(TransportError::timeout(
                &connection.address,
                "acknowledge",
                self.options.response_timeout,
            ));
        }
        if !waits
            && self.keepalive_sent.is_none()
            && self.last_received.elapsed() > self.options.idle_timeout / 3
        {
            let header = self.shipper.keepalive();
            connection.send_sealed(&header, &[])?;
            self.keepalive_sent = Some(Instant::now());
        }
        Ok(())
    }

    /// Goes on to the next session when all of an earlier one is acknowledged, and in the end to the own.
    fn advance_session(&mut self) -> Result<(), TransportError> {
        if self.source.is_own() || !self.shipper.is_all_acknowledged() || !self.source.is_current_read() {
            return Ok(());
        }
        self.source.next()?;
        self.resent_batches += self.shipper.counts().resent_batches;
        self.shipper = self.source.shipper(self.shared.queue_bytes);
        if let Some(mut connection) = self.connection.take() {
            connection.close();
        }
        self.retry_at = Instant::now();
        Ok(())
    }

    fn report(&mut self) {
        let resent = self.resent_batches + self.shipper.counts().resent_batches;
        let mut inner = self.shared.lock();
        let state = &mut inner.state;
        let before = (
            state.secured,
            state.acknowledged,
            state.is_connected,
            state.sessions_left,
        );
        state.is_connected = self.shipper.is_established();
        state.acknowledged = self.source.acknowledged(&self.shipper);
        state.secured = state.acknowledged.max(self.source.spooled);
        state.resent_batches = resent;
        state.connections = self.connections;
        state.spool_bytes = self.source.bytes();
        state.sessions_left = self.source.sessions_left();
        self.source.failure().clone_into(&mut state.spool_failure);
        if state.is_connected {
            state.failure.clear();
        }
        let changed = before
            != (
                state.secured,
                state.acknowledged,
                state.is_connected,
                state.sessions_left,
            );
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
        let until_retry = self.retry_at.saturating_duration_since(Instant::now());
        let takes = !self.is_spool_full;
        let (timeout, with_queue) = match self.connection {
            Some(_) => (Duration::from_millis(100), takes),
            None => (
                until_retry.min(Duration::from_millis(100)),
                takes && self.source.has_spool(),
            ),
        };
        let sleeps = |inner: &mut Inner| {
            (!with_queue || inner.queue.is_empty()) && !inner.ends && !inner.members_changed
        };
        // The loop looks at everything again.
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
