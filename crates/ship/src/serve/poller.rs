//! A poller: one thread that waits for many sockets at once and does for each what is to be done.

use super::ServerState;
use super::connection::{Buffer, ServerConnection};
use super::dedicated::DedicatedThreads;
use super::pool::{QueuedRequest, RequestPool};
use crate::hello::Reason;
use crate::limits::EVENTS_MAX;
use crate::link::{Link, StreamListener, timespec};
use crate::session::Job;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The data of the waker's event; listeners come below it, connections count from 0.
const WAKER: u64 = u64::MAX;
const LISTENERS: u64 = u64::MAX - 1024;
/// How often deadlines are looked at.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);
/// Connections that are accepted before others get their turn.
const ACCEPTS_MAX: usize = 64;
/// How long a stopping poller waits for peers to take what is left for them.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Looks at the connection that spoke last, between two at all of them, while a poller spins.
const SPIN_RECEIVES_MAX: usize = 32;

/// Events in a row that are one connection's and nobody else's, from where on it gets a thread of its own: enough that one
/// which only says hello and asks a few things does not.
const DEDICATE_AFTER_EVENTS: u32 = 32;

/// How other threads reach a poller.
#[derive(Clone)]
pub(crate) struct Waker {
    waker: Arc<OwnedFd>,
    inbox: Arc<Mutex<Inbox>>,
}

/// What has come and was not taken.
#[derive(Default)]
struct Inbox {
    waiting: Vec<InboxItem>,
    /// The poller has ended.
    is_closed: bool,
}

/// What comes from other threads.
pub(crate) enum InboxItem {
    /// A connection that another poller has accepted, or that a thread of its own gives back.
    Connection(Box<ServerConnection>),
    /// The response of a pool's thread.
    Response {
        token: u64,
        stream: u16,
        sequence: u64,
        result: Result<Vec<u8>, String>,
    },
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            waker: Arc::new(waker),
            inbox: Arc::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // Whole arrivals go in and out.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings something to the poller; gives it back when that has ended.
    pub(crate) fn send(&self, item: InboxItem) -> Option<InboxItem> {
        let mut inbox = self.lock();
        if inbox.is_closed {
            return Some(item);
        }
        inbox.waiting.push(item);
        drop(inbox);
        self.wake();
        None
    }

    pub(crate) fn wake(&self) {
        // It can only be full, and then the poller wakes anyway.
        let _ = rustix::io::write(&*self.waker, &1_u64.to_le_bytes());
    }
}

/// Makes a link of an accepted socket.
pub(crate) type WrapLink = Box<dyn Fn(crate::link::SocketLink) -> io::Result<Box<dyn Link>> + Send>;

/// A listener with what makes links of its sockets.
pub(crate) struct Listener {
    pub(crate) listener: StreamListener,
    pub(crate) wrap: WrapLink,
}

impl Listener {
    /// Accepts connections that need no wrapping.
    pub(crate) fn plain(listener: StreamListener) -> Self {
        Self {
            listener,
            wrap: Box::new(|link| Ok(Box::new(link))),
        }
    }
}

struct Slot {
    connection: Option<Box<ServerConnection>>,
    /// Rises with each connection in this place, so that nothing late reaches the next one.
    generation: u32,
    interest: EventFlags,
}

/// The thread's state.
pub(crate) struct Poller {
    epoll: OwnedFd,
    own_waker: Waker,
    /// All pollers, this one too, for handing connections on.
    wakers: Vec<Waker>,
    next_poller: usize,
    listeners: Vec<Listener>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    buffer: Buffer,
    jobs: Vec<Job>,
    pool: Option<Arc<RequestPool>>,
    /// Threads for connections that talk much.
    dedicated: Option<Arc<DedicatedThreads>>,
    shared: Arc<ServerState>,
    last_sweep: Instant,
    /// Connections that may have more to read.
    unread: Vec<usize>,
    /// The connection that spoke last.
    last_active: u64,
    /// How often in a row it was the only one.
    consecutive_events: u32,
    /// Connections in the order in which they came, until a sweep finds that they have said hello.
    pre_handshake: VecDeque<u64>,
}

impl Poller {
    pub(crate) fn new(
        shared: Arc<ServerState>,
        index: usize,
        wakers: Vec<Waker>,
        listeners: Vec<Listener>,
        pool: Option<Arc<RequestPool>>,
        dedicated: Option<Arc<DedicatedThreads>>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let own_waker = wakers.get(index).cloned().map_or_else(Waker::new, Ok)?;
        epoll::add(
            &epoll,
            &*own_waker.waker,
            EventData::new_u64(WAKER),
            EventFlags::IN,
        )?;
        for (index, listener) in listeners.iter().enumerate() {
            let data = EventData::new_u64(LISTENERS + index as u64);
            epoll::add(&epoll, listener.listener.as_fd(), data, EventFlags::IN)?;
        }
        Ok(Self {
            epoll,
            own_waker,
            wakers,
            next_poller: index,
            listeners,
            slots: Vec::new(),
            free: Vec::new(),
            buffer: Buffer::new(),
            jobs: Vec::new(),
            pool,
            dedicated,
            shared,
            last_sweep: Instant::now(),
            unread: Vec::new(),
            last_active: WAKER,
            consecutive_events: 0,
            pre_handshake: VecDeque::new(),
        })
    }

    /// Runs until the server stops.
    pub(crate) fn run(mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let spin = self.shared.options.spin;
        let mut active = Instant::now();
        while !self.shared.stops() {
            events.clear();
            let spins = !spin.is_zero() && active.elapsed() < spin;
            if spins && self.spin_on_last() {
                active = Instant::now();
            }
            let timeout = if spins || !self.unread.is_empty() {
                Duration::ZERO
            } else {
                SWEEP_INTERVAL
            };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timespec(timeout))) {
                Ok(0) if spins => std::hint::spin_loop(),
                Ok(_) | Err(Errno::INTR) => {}
                // The descriptor is ours and open; nothing else can go wrong with it.
                Err(_) => break,
            }
            let now = Instant::now();
            if !events.is_empty() {
                active = now;
            }
            for index in std::mem::take(&mut self.unread) {
                self.process(index, EventFlags::IN, now);
            }
            let last_active = self.last_active;
            for event in &events {
                self.take(event, now);
            }
            self.offload_busy_connection(last_active, events.len());
            if now - self.last_sweep >= SWEEP_INTERVAL {
                self.sweep(now);
            }
        }
        self.stop();
    }

    /// Counts how often the connection that spoke last is the only one that does, and gives one that talks much a thread of
    /// its own.
    fn offload_busy_connection(&mut self, before: u64, events: usize) {
        match events {
            // The time was over.
            0 => return,
            1 if self.last_active == before => self.consecutive_events += 1,
            _ => self.consecutive_events = 0,
        }
        let Some(dedicated) = self
            .dedicated
            .clone()
            .filter(|_| self.consecutive_events >= DEDICATE_AFTER_EVENTS)
        else {
            return;
        };
        self.consecutive_events = 0;
        let Some(index) = self.index_of(self.last_active) else {
            return;
        };
        let may_go = self.unread.is_empty()
            && self
                .connection(index)
                .is_some_and(|connection| connection.suits_dedicated_thread());
        if !may_go || !dedicated.reserve() {
            return;
        }
        if let Some(connection) = self.deregister(index)
            && let Err(connection) = dedicated.push(connection, self.own_waker.clone())
        {
            self.register(connection, Instant::now());
        }
    }

    /// Takes a connection from the place where events find it.
    fn deregister(&mut self, index: usize) -> Option<Box<ServerConnection>> {
        let slot = self.slots.get_mut(index)?;
        let connection = slot.connection.take()?;
        slot.generation = slot.generation.wrapping_add(1) & 0x7fff_ffff;
        if let Some(descriptor) = connection.link.descriptor() {
            // Closing it does the same.
            let _ = epoll::delete(&self.epoll, descriptor);
        }
        self.free.push(index);
        self.unread.retain(|other| *other != index);
        Some(connection)
    }

    /// Looks whether the connection that spoke last goes on: a receive of its own costs less than asking for all of them
    /// first, and what it brings is answered at once.
    fn spin_on_last(&mut self) -> bool {
        for _ in 0..SPIN_RECEIVES_MAX {
            let Some(index) = self.index_of(self.last_active) else {
                return false;
            };
            let now = Instant::now();
            self.process(index, EventFlags::IN, now);
            if self
                .connection(index)
                .is_none_or(|connection| connection.last_received == now)
            {
                return true;
            }
        }
        false
    }

    fn take(&mut self, event: &Event, now: Instant) {
        let data = event.data.u64();
        match data {
            WAKER => self.take_inbox(now),
            LISTENERS.. => self.accept((data - LISTENERS) as usize, now),
            token => {
                if let Some(index) = self.index_of(token) {
                    self.last_active = token;
                    self.process(index, event.flags, now);
                }
            }
        }
    }

    fn index_of(&self, token: u64) -> Option<usize> {
        let index = (token & 0xffff_ffff) as usize;
        let slot = self.slots.get(index)?;
        (u64::from(slot.generation) == token >> 32 && slot.connection.is_some()).then_some(index)
    }

    fn token_of(&self, index: usize) -> u64 {
        let generation = self.slots.get(index).map_or(0, |slot| slot.generation);
        u64::from(generation) << 32 | index as u64
    }

    fn take_inbox(&mut self, now: Instant) {
        let mut count = [0; 8];
        // An empty counter is no harm.
        let _ = rustix::io::read(&*self.own_waker.waker, &mut count);
        let inbox = std::mem::take(&mut self.own_waker.lock().waiting);
        for item in inbox {
            match item {
                InboxItem::Connection(connection) => self.register(connection, now),
                InboxItem::Response {
                    token,
                    stream,
                    sequence,
                    result,
                } => {
                    let Some(index) = self.index_of(token) else {
                        continue;
                    };
                    if let Some(connection) = self.connection(index) {
                        let result = result.as_deref().map_err(String::as_str);
                        connection.respond(stream, sequence, result);
                    }
                    self.process(index, EventFlags::OUT, now);
                }
            }
        }
    }

    fn connection(&mut self, index: usize) -> Option<&mut ServerConnection> {
        self.slots.get_mut(index)?.connection.as_deref_mut()
    }

    fn accept(&mut self, listener: usize, now: Instant) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.listeners.get(listener) else {
                return;
            };
            let (link, address) = match listener.listener.accept(&self.shared.options) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // One that has gone already, or no descriptors are left: the others go on.
                    self.shared.count(Reason::Connections);
                    return;
                }
            };
            let wrapped = (listener.wrap)(link);
            if self.shared.is_full() {
                self.evict();
            }
            let uid = wrapped.as_ref().ok().and_then(|link| link.uid());
            let Some(peer) = self.shared.admit(address, uid) else {
                continue;
            };
            match wrapped {
                Ok(link) => {
                    let server = self.shared.session(peer, link.is_integrity_protected());
                    let connection = Box::new(ServerConnection::new(link, server, now));
                    self.next_poller = (self.next_poller + 1) % self.wakers.len().max(1);
                    match self.wakers.get(self.next_poller) {
                        Some(waker) if !Arc::ptr_eq(&waker.waker, &self.own_waker.waker) => {
                            if let Some(InboxItem::Connection(mut connection)) =
                                waker.send(InboxItem::Connection(connection))
                            {
                                connection.close(Reason::Ending, &self.shared);
                            }
                        }
                        _ => self.register(connection, now),
                    }
                }
                Err(_) => self.shared.connection_closed(Reason::Memory, true),
            }
        }
    }

    /// Ends the connection that has been here longest without a hello, so that a flood of them keeps nobody out.
    fn evict(&mut self) {
        while let Some(token) = self.pre_handshake.pop_front() {
            let Some(index) = self.index_of(token) else {
                continue;
            };
            if self
                .connection(index)
                .is_some_and(|connection| !connection.is_established)
            {
                return self.remove(index, Reason::Connections);
            }
        }
    }

    fn register(&mut self, mut connection: Box<ServerConnection>, now: Instant) {
        let index = self.free.pop().unwrap_or(self.slots.len());
        if index == self.slots.len() {
            self.slots.push(Slot {
                connection: None,
                generation: 0,
                interest: EventFlags::empty(),
            });
        }
        let token = self.token_of(index);
        let interest = EventFlags::IN;
        let added = match connection.link.descriptor() {
            Some(descriptor) => {
                epoll::add(&self.epoll, descriptor, EventData::new_u64(token), interest).is_ok()
            }
            None => false,
        };
        if !added {
            connection.closed(Reason::Memory, &self.shared);
            self.free.push(index);
            return;
        }
        if !connection.is_established {
            self.pre_handshake.push_back(token);
        }
        let has_output = connection.has_output();
        if let Some(slot) = self.slots.get_mut(index) {
            slot.connection = Some(connection);
            slot.interest = interest;
        }
        if has_output {
            self.process(index, EventFlags::OUT, now);
        }
    }

    /// Does for one connection what there is to do.
    fn process(&mut self, index: usize, flags: EventFlags, now: Instant) {
        let result = self.process_events(index, flags, now);
        if let Err(reason) = result {
            self.remove(index, reason);
        }
    }

    fn process_events(&mut self, index: usize, flags: EventFlags, now: Instant) -> Result<(), Reason> {
        let token = self.token_of(index);
        let uses_pool = self.pool.is_some();
        let Some(slot) = self.slots.get_mut(index) else {
            return Ok(());
        };
        let Some(connection) = slot.connection.as_deref_mut() else {
            return Ok(());
        };
        let is_readable = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        if is_readable && connection.closing.is_none() {
            let jobs = uses_pool.then_some(&mut self.jobs);
            if connection.read(&mut self.buffer, &self.shared, now, jobs)? {
                self.unread.push(index);
            }
            connection.jobs_waiting += self.jobs.len();
        }
        if let Some(pool) = self.pool.as_ref().filter(|_| !self.jobs.is_empty()) {
            for job in self.jobs.drain(..) {
                let request = QueuedRequest {
                    job,
                    token,
                    peer: connection.server.peer.clone(),
                    waker: self.own_waker.clone(),
                };
                if let Err(request) = pool.push(request) {
                    connection.respond(
                        request.job.stream,
                        request.job.sequence,
                        Err("too many requests wait"),
                    );
                }
            }
        }
        let is_done = connection.write(&self.shared)?;
        if let Some(reason) = connection.closing.filter(|_| is_done) {
            return Err(reason);
        }
        let mut interest = EventFlags::empty();
        if !connection.is_backpressured(&self.shared)
            && !connection.waits_for_memory
            && connection.closing.is_none()
        {
            interest |= EventFlags::IN;
        }
        if connection.has_output() {
            interest |= EventFlags::OUT;
        }
        if interest != slot.interest
            && let Some(descriptor) = connection.link.descriptor()
        {
            slot.interest = interest;
            epoll::modify(&self.epoll, descriptor, EventData::new_u64(token), interest)
                .map_err(|_| Reason::Memory)?;
        }
        Ok(())
    }

    fn remove(&mut self, index: usize, reason: Reason) {
        if let Some(mut connection) = self.deregister(index) {
            connection.close(reason, &self.shared);
        }
    }

    /// Ends what has been silent for too long.
    fn sweep(&mut self, now: Instant) {
        self.last_sweep = now;
        let options = &self.shared.options;
        let (handshake, idle) = (options.handshake_timeout, options.idle_timeout);
        let late: Vec<(usize, Reason)> = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| {
                let connection = slot.connection.as_deref()?;
                let silent = now.saturating_duration_since(if connection.is_established {
                    connection.last_received
                } else {
                    connection.accepted_at
                });
                match connection.is_established {
                    false if silent >= handshake => Some((index, Reason::Handshake)),
                    true if silent >= idle && connection.jobs_waiting == 0 => Some((index, Reason::Idle)),
                    _ => Some((index, connection.overdue(&self.shared, now)?)),
                }
            })
            .collect();
        for (index, reason) in late {
            self.remove(index, reason);
        }
        for index in 0..self.slots.len() {
            // There may be room now.
            if self
                .connection(index)
                .is_some_and(|connection| connection.waits_for_memory)
            {
                self.process(index, EventFlags::IN, now);
            }
        }
        for slot in &mut self.slots {
            if let Some(connection) = slot.connection.as_deref_mut()
                && now.saturating_duration_since(connection.last_received) >= SWEEP_INTERVAL
            {
                connection.shrink(&self.shared);
            }
        }
        let mut pre_handshake = std::mem::take(&mut self.pre_handshake);
        pre_handshake.retain(|token| {
            let index = self.index_of(*token);
            index.is_some_and(|index| {
                self.connection(index)
                    .is_some_and(|connection| !connection.is_established)
            })
        });
        self.pre_handshake = pre_handshake;
    }

    /// Takes what has come already, sends what is left, and says goodbye.
    fn stop(&mut self) {
        let end = Instant::now() + CLOSE_TIMEOUT;
        self.take_inbox(Instant::now());
        let mut inbox = self.own_waker.lock();
        inbox.is_closed = true;
        let late = std::mem::take(&mut inbox.waiting);
        drop(inbox);
        for item in late {
            if let InboxItem::Connection(mut connection) = item {
                connection.close(Reason::Ending, &self.shared);
            }
        }
        for index in 0..self.slots.len() {
            self.process(index, EventFlags::IN, Instant::now());
            let Some(connection) = self.connection(index) else {
                continue;
            };
            let timeout = end.saturating_duration_since(Instant::now());
            if connection.has_output() && !timeout.is_zero() {
                // One that does not read gets its answer after it comes back.
                let _ = connection.link.wait(true, timeout.min(Duration::from_millis(50)));
            }
            self.remove(index, Reason::Ending);
        }
    }
}
