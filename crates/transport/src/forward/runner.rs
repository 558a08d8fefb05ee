//! The thread that forwards: connects, says what is new, sends, hears what is kept, and spools while nobody listens.

use super::spool::{Spool, SpoolOptions};
use crate::TransportError;
use crate::address::Address;
use crate::connection::Connection;
use crate::hello::{Format, HELLO_ACKS, Hello, Reason, Role};
use crate::limits::{OUTBOX_BYTES_MAX, RETRY_MS};
use crate::options::Options;
use crate::session::{Shipper, compress};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the thread listens for acknowledgements before it looks for new batches.
const LISTEN: Duration = Duration::from_millis(2);

/// What is forwarded, and how.
#[derive(Debug, Clone)]
pub struct ForwardOptions {
    /// Whose records: a number of its own, kept over restarts where records are sent again after them.
    pub session: u128,
    /// Rises when the numbering begins anew.
    pub epoch: u64,
    /// The number of the first record.
    pub next: u64,
    /// How records look.
    pub format: Format,
    /// The level of zstd; `None` sends as it is. Default: none.
    pub zstd_level: Option<i32>,
    /// Bytes in memory that nobody keeps yet, at most. Default: 16 MiB.
    pub queue_bytes: usize,
    /// Where batches go while nobody takes them; without it they wait in memory. It keeps session and epoch.
    pub spool: Option<SpoolOptions>,
}

impl ForwardOptions {
    /// Lines of text of a new session.
    pub fn new(session: u128, epoch: u64) -> Self {
        Self {
            session,
            epoch,
            next: 0,
            format: Format::Text,
            zstd_level: None,
            queue_bytes: OUTBOX_BYTES_MAX,
            spool: None,
        }
    }
}

/// How it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForwardState {
    /// Whether somebody takes records now.
    pub is_connected: bool,
    /// Records that were pushed.
    pub pushed: u64,
    /// The number behind the last record that is kept at the other end: level C3.
    pub acknowledged: u64,
    /// Records that were refused because memory and spool were full; whoever pushed them knows.
    pub refused: u64,
    /// Batches that were sent more than once.
    pub resent_batches: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Bytes in the spool.
    pub spool_bytes: u64,
    /// Why nobody takes records; empty when somebody does.
    pub failure: String,
    /// The failure will not pass: the thread has ended.
    pub is_over: bool,
}

/// What was pushed did not fit: it is given back.
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
    /// When the thread gives up what is not acknowledged.
    patience: Option<Instant>,
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
    /// When the spool cannot be opened or the thread not be started, or an address may not be used.
    pub fn start(
        addresses: &[Address],
        options: &Options,
        forward: &ForwardOptions,
    ) -> Result<Self, TransportError> {
        options.check()?;
        for address in addresses {
            address.check(options.insecure)?;
        }
        let mut forward = forward.clone();
        let spool = match &forward.spool {
            None => None,
            Some(options) => {
                let spool = Spool::open(options, forward.session, forward.epoch)?;
                (forward.session, forward.epoch) = (spool.session(), spool.epoch());
                forward.next = spool.next_number();
                Some(spool)
            }
        };
        let inner = Inner {
            queue: VecDeque::new(),
            queued_bytes: 0,
            next: forward.next,
            state: ForwardState::default(),
            ends: false,
            patience: None,
        };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            work: Condvar::new(),
            progress: Condvar::new(),
            queue_bytes: forward.queue_bytes,
        });
        let runner = Runner::new(addresses, options, &forward, spool, &shared);
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
            first: forward.next,
            session: forward.session,
        })
    }

    /// The number of the first record that will be pushed.
    pub fn first_number(&self) -> u64 {
        self.first
    }

    /// The session, which the spool may have kept.
    pub fn session(&self) -> u128 {
        self.session
    }

    /// Takes `count` lines, each with its line break, and gives the number of the first. Waits for room as long as
    /// `patience` allows: 0 never blocks.
    ///
    /// # Errors
    /// When there was no room, or it is over; the lines are given back, and their number is counted.
    pub fn push(&self, count: u32, lines: Vec<u8>, patience: Duration) -> Result<u64, Refusal> {
        let mut inner = self.shared.lock();
        let length = lines.len();
        let fits =
            |inner: &Inner| inner.queue.is_empty() || inner.queued_bytes + length <= self.shared.queue_bytes;
        if !fits(&inner) && !patience.is_zero() {
            let (waited, _) = self
                .shared
                .progress
                .wait_timeout_while(inner, patience, |inner| !fits(inner) && !inner.state.is_over)
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

    /// How it stands.
    pub fn state(&self) -> ForwardState {
        self.shared.lock().state.clone()
    }

    /// Waits until all before this number is kept at the other end; `false` when the time is over, or all is.
    pub fn wait_acknowledged(&self, next: u64, patience: Duration) -> bool {
        let inner = self.shared.lock();
        let waits = |inner: &mut Inner| inner.state.acknowledged < next && !inner.state.is_over;
        let (inner, _) = self
            .shared
            .progress
            .wait_timeout_while(inner, patience, waits)
            .unwrap_or_else(PoisonError::into_inner);
        inner.state.acknowledged >= next
    }

    /// Sends what was pushed, waits at most so long until it is kept, and ends. What is not kept then is in the spool,
    /// where there is one.
    pub fn stop(mut self, patience: Duration) -> ForwardState {
        self.end(patience);
        self.state()
    }

    fn end(&mut self, patience: Duration) {
        let mut inner = self.shared.lock();
        inner.ends = true;
        inner.patience = Some(Instant::now() + patience);
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

/// The thread's state.
struct Runner {
    addresses: Vec<Address>,
    turn: usize,
    options: Options,
    zstd_level: Option<i32>,
    format: Format,
    shipper: Shipper,
    session: (u128, u64),
    spool: Option<Spool>,
    /// Everything before this number is in the spool, or was.
    spooled: u64,
    connection: Option<Connection>,
    shared: Arc<Shared>,
    began: Instant,
    retry_ms: u64,
    retry_at: Instant,
    connections: u64,
}

impl Runner {
    fn new(
        addresses: &[Address],
        options: &Options,
        forward: &ForwardOptions,
        spool: Option<Spool>,
        shared: &Arc<Shared>,
    ) -> Self {
        let mut hello = Hello::new(Role::Shipper);
        hello.session = forward.session;
        hello.epoch = forward.epoch;
        hello.next = spool.as_ref().map_or(forward.next, Spool::first_number);
        let now = Instant::now();
        Self {
            addresses: addresses.to_vec(),
            turn: 0,
            options: options.clone(),
            zstd_level: forward.zstd_level,
            format: forward.format,
            shipper: Shipper::new(hello, forward.queue_bytes, false),
            session: (forward.session, forward.epoch),
            spooled: spool.as_ref().map_or(0, Spool::next_number),
            spool,
            connection: None,
            shared: Arc::clone(shared),
            began: now,
            retry_ms: RETRY_MS.0,
            retry_at: now,
            connections: 0,
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn run(mut self) {
        loop {
            if self.is_finished() {
                break;
            }
            if self.connection.is_none() && Instant::now() >= self.retry_at {
                self.connect();
            }
            let result = self.take_batches().and_then(|()| self.exchange());
            if let Err(error) = result
                && !self.fail(&error)
            {
                break;
            }
            self.report();
            self.rest();
        }
        self.keep_rest();
        if let Some(mut connection) = self.connection.take() {
            connection.part();
        }
        self.report();
        let mut inner = self.shared.lock();
        inner.state.is_over = true;
        inner.state.is_connected = false;
        drop(inner);
        self.shared.progress.notify_all();
    }

    /// Whether there is nothing more to do, or no more time.
    fn is_finished(&self) -> bool {
        let inner = self.shared.lock();
        let is_read = self.spool.as_ref().is_none_or(Spool::is_read);
        let is_done = inner.queue.is_empty() && self.shipper.is_settled() && is_read;
        inner.ends && (is_done || inner.patience.is_some_and(|end| Instant::now() >= end))
    }

    fn connect(&mut self) {
        let Some(address) = self.addresses.get(self.turn).cloned() else {
            return;
        };
        let made = Connection::open(&address, &self.options).and_then(|mut connection| {
            let mut hello = connection.hello(Role::Shipper, &self.options);
            (hello.session, hello.epoch) = self.session;
            hello.format = self.format;
            hello.flags |= HELLO_ACKS;
            let frame = self
                .shipper
                .connected(self.began.elapsed().as_nanos() as u64, hello);
            connection.send_parts(&mut [IoSlice::new(&frame)])?;
            Ok(connection)
        });
        match made {
            Ok(connection) => {
                self.connection = Some(connection);
                self.connections += 1;
            }
            Err(error) => {
                self.fail(&error);
            }
        }
    }

    /// Notes a failure, and when to try again. `false`: it cannot pass.
    fn fail(&mut self, error: &TransportError) -> bool {
        self.connection = None;
        self.shipper.apart();
        self.turn = (self.turn + 1) % self.addresses.len().max(1);
        self.retry_at = Instant::now() + Duration::from_millis(self.retry_ms);
        self.retry_ms = (self.retry_ms * 2).min(RETRY_MS.1);
        self.shared.lock().state.failure = error.to_string();
        error.is_passing()
    }

    /// Moves batches on: to the spool while nobody takes them, else to the shipper.
    fn take_batches(&mut self) -> Result<(), TransportError> {
        if self.spool.is_some() && !self.shipper.is_open() {
            self.spool_all()?;
        }
        self.read_spool()?;
        let reads_spool = self.spool.as_ref().is_some_and(|spool| !spool.is_read());
        loop {
            let mut inner = self.shared.lock();
            let Some(item) = inner.queue.front() else {
                return Ok(());
            };
            if !self.shipper.has_room(item.lines.len()) {
                return Ok(());
            }
            if reads_spool {
                // Behind what is in the spool.
                drop(inner);
                return self.spool_all();
            }
            let Some(item) = inner.queue.pop_front() else {
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
        let Some(spool) = &mut self.spool else {
            return Ok(());
        };
        for (first, count, compressed, payload) in self.shipper.unacknowledged() {
            if first >= self.spooled {
                if !spool.append(first, count, compressed, payload)? {
                    return Ok(());
                }
                self.spooled = first.saturating_add(count.into());
            }
        }
        loop {
            let mut inner = self.shared.lock();
            let Some(item) = inner.queue.front() else {
                return Ok(());
            };
            let first = self.spooled.max(self.shipper.next_number());
            if !spool.append(first, item.count, false, &item.lines)? {
                return Ok(());
            }
            self.spooled = first.saturating_add(item.count.into());
            if let Some(item) = inner.queue.pop_front() {
                inner.queued_bytes -= item.lines.len();
            }
            drop(inner);
            self.shared.progress.notify_all();
        }
    }

    /// Takes batches from the spool as far as the shipper has room.
    fn read_spool(&mut self) -> Result<(), TransportError> {
        let Some(spool) = &mut self.spool else {
            return Ok(());
        };
        while self.shipper.has_room(crate::limits::FRAME_BYTES_MAX) {
            let Some(batch) = spool.read()? else { break };
            let end = batch.first.saturating_add(batch.count.into());
            if end <= self.shipper.next_number() {
                continue;
            }
            // There is room for it.
            let _ = self.shipper.push(batch.count, batch.payload, batch.compressed);
        }
        Ok(())
    }

    /// Sends what may go and hears what is kept.
    fn exchange(&mut self) -> Result<(), TransportError> {
        let now = self.now_ns();
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        while let Some(frame) = self.shipper.poll(now) {
            connection.send_sealed(&frame.header, frame.payload)?;
        }
        let waits = !self.shipper.is_settled() || !self.shipper.is_open();
        let mut patience = if waits { LISTEN } else { Duration::ZERO };
        while let Some(frame) = connection.next(patience)? {
            patience = Duration::ZERO;
            let taken = self.shipper.receive(&frame, now);
            taken.map_err(|reason| refused(&connection.address, reason))?;
            if self.shipper.is_open() {
                self.retry_ms = RETRY_MS.0;
            }
        }
        if let Some(spool) = &mut self.spool {
            spool.release(self.shipper.acknowledged())?;
        }
        Ok(())
    }

    fn report(&mut self) {
        let counts = self.shipper.counts();
        let mut inner = self.shared.lock();
        let state = &mut inner.state;
        let before = (state.acknowledged, state.is_connected);
        state.is_connected = self.shipper.is_open();
        state.acknowledged = self.shipper.acknowledged();
        state.resent_batches = counts.resent_batches;
        state.connections = self.connections;
        state.spool_bytes = self.spool.as_ref().map_or(0, Spool::bytes);
        if state.is_connected {
            state.failure.clear();
        }
        let changed = before != (state.acknowledged, state.is_connected);
        drop(inner);
        if changed {
            self.shared.progress.notify_all();
        }
    }

    /// Sleeps until there is something to do.
    fn rest(&self) {
        let is_idle = self.shipper.is_settled() || self.connection.is_none();
        let inner = self.shared.lock();
        if !is_idle || inner.ends && self.connection.is_some() {
            return;
        }
        let until_retry = self.retry_at.saturating_duration_since(Instant::now());
        let (patience, with_queue) = match self.connection {
            Some(_) => (Duration::from_millis(100), true),
            None => (until_retry.min(Duration::from_millis(100)), self.spool.is_some()),
        };
        let sleeps = |inner: &mut Inner| (!with_queue || inner.queue.is_empty()) && !inner.ends;
        // The loop looks at everything again.
        let _ = self.shared.work.wait_timeout_while(inner, patience, sleeps);
    }

    /// What nobody has taken at the end goes to the spool, where there is one.
    fn keep_rest(&mut self) {
        if let Err(error) = self.spool_all() {
            self.shared.lock().state.failure = error.to_string();
        }
    }
}

fn refused(address: &str, reason: Reason) -> TransportError {
    TransportError::Refused {
        address: address.to_owned(),
        reason,
        words: "see its log".to_owned(),
    }
}
