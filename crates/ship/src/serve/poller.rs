//! A poller: one thread with an event loop over many sockets, which does for each connection what is due.
//!
//! The event loop is mio's, which reports each change once (edge-triggered). So a connection is read until it is empty
//! or has had its turn; one that has had its turn is continued in the next round without an event. Changing the
//! interest of a connection makes the kernel look anew, so that nothing is missed while it was not read.

use super::accept::{Listener, NoConnection};
use super::connection::{Buffer, ReadEnd, ServerConnection};
use super::inbox::{Inbox, InboxItem, WAKER};
use super::pool::{self, RequestQueue};
use super::table::ConnectionTable;
use super::{ServedSession, ServerState, blocking, dedicated};
use crate::hello::Reason;
use crate::limits::EVENTS_MAX;
use crate::link::{Incoming, IncomingLink};
use crate::session::Job;
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Token of the first listener; tokens of connections are smaller, that of the waker is larger.
const LISTENERS: usize = usize::MAX - 1024;
/// Time between two checks of deadlines.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);
/// Connections that are accepted before others get their turn.
const ACCEPTS_MAX: usize = 64;
/// Time that a stopping poller waits for a peer that takes nothing of what is left for it.
const PEER_CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Time between two looks of a stopping poller at who is still owed something.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Receives from the connection that was active last, between two polls of all of them, while a poller spins.
const SPIN_RECEIVES_MAX: usize = 32;

/// Events in a row of one connection and no other, from where on it gets a dedicated thread: enough that a connection
/// which only says hello and asks a few things does not.
const DEDICATE_AFTER_EVENTS: u32 = 32;

/// The one connection that is active while no other is.
struct Activity {
    last: Token,
    /// Events in a row that were its own alone.
    events: u32,
}

/// State of the thread.
pub(crate) struct Poller {
    poll: Poll,
    inbox: Inbox,
    /// Inboxes of all pollers, this one too, among which accepted connections are handed out in turn.
    inboxes: Vec<Inbox>,
    next_poller: usize,
    listeners: Vec<Listener>,
    /// Listeners that may have more to accept.
    unaccepted: Vec<usize>,
    connections: ConnectionTable,
    /// Connections that may have more to read.
    unread: Vec<usize>,
    buffer: Buffer,
    jobs: Vec<Job>,
    pool: Option<RequestQueue>,
    shared: Arc<ServerState>,
    last_sweep: Instant,
    activity: Activity,
}

impl Poller {
    /// Makes the poller of `inboxes[index]`, whose waker is registered with `poll`.
    pub(crate) fn new(
        poll: Poll,
        (inboxes, index): (Vec<Inbox>, usize),
        listeners: Vec<Listener>,
        pool: Option<RequestQueue>,
        shared: Arc<ServerState>,
    ) -> io::Result<Self> {
        let inbox = inboxes.get(index).cloned().ok_or(io::ErrorKind::InvalidInput)?;
        for (index, listener) in listeners.iter().enumerate() {
            let descriptor = listener.as_fd().as_raw_fd();
            let token = Token(LISTENERS + index);
            poll.registry()
                .register(&mut SourceFd(&descriptor), token, Interest::READABLE)?;
        }
        Ok(Self {
            poll,
            inbox,
            inboxes,
            next_poller: index,
            listeners,
            unaccepted: Vec::new(),
            connections: ConnectionTable::default(),
            unread: Vec::new(),
            buffer: Buffer::new(),
            jobs: Vec::new(),
            pool,
            shared,
            last_sweep: Instant::now(),
            activity: Activity {
                last: WAKER,
                events: 0,
            },
        })
    }

    /// Runs until the server stops.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let spin = self.shared.options.spin;
        let mut active = Instant::now();
        while !self.shared.stops() {
            let spins = !spin.is_zero() && active.elapsed() < spin;
            if spins && self.spin_on_last() {
                active = Instant::now();
            }
            let has_more = !self.unread.is_empty() || !self.unaccepted.is_empty();
            let timeout = match spins || has_more {
                true => Duration::ZERO,
                false => SWEEP_INTERVAL,
            };
            match self.poll.poll(&mut events, Some(timeout)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
                // The event loop is ours and open; nothing else can go wrong with it.
                Err(_) => break,
            }
            let now = Instant::now();
            match events.is_empty() {
                false => active = now,
                true if spins => std::hint::spin_loop(),
                true => {}
            }
            for index in std::mem::take(&mut self.unread) {
                if let Some(slot) = self.connections.slots.get_mut(index) {
                    slot.is_unread = false;
                }
                self.process(index, true, now);
            }
            for index in std::mem::take(&mut self.unaccepted) {
                self.accept(index, now);
            }
            let last = self.activity.last;
            for event in &events {
                self.dispatch(event, now);
            }
            self.offload_busy_connection(last, events.iter().count());
            if now - self.last_sweep >= SWEEP_INTERVAL {
                self.sweep(now);
            }
        }
        self.stop();
    }

    /// Counts events of a connection that is active alone, and moves a busy one to a dedicated thread.
    fn offload_busy_connection(&mut self, last: Token, events: usize) {
        match events {
            // The time was over.
            0 => return,
            1 if self.activity.last == last => self.activity.events += 1,
            _ => self.activity.events = 0,
        }
        if self.activity.events < DEDICATE_AFTER_EVENTS {
            return;
        }
        self.activity.events = 0;
        let Some(index) = self.connections.index_of(self.activity.last) else {
            return;
        };
        let connection = self.connections.connection(index);
        let is_suitable = connection.is_some_and(|connection| connection.suits_dedicated_thread());
        if !self.unread.is_empty() || !is_suitable || !self.shared.dedicated.reserve() {
            return;
        }
        if let Some(connection) = self.deregister(index)
            && let Err(connection) = dedicated::start(connection, self.inbox.clone(), &self.shared)
        {
            self.register(connection, Instant::now());
        }
    }

    fn deregister(&mut self, index: usize) -> Option<Box<ServerConnection>> {
        self.unread.retain(|other| *other != index);
        self.connections.remove(self.poll.registry(), index)
    }

    /// Receives from the connection that was active last: that costs less than asking for all of them first, and what it
    /// brings is answered at once. Returns whether something came.
    fn spin_on_last(&mut self) -> bool {
        for _ in 0..SPIN_RECEIVES_MAX {
            let Some(index) = self.connections.index_of(self.activity.last) else {
                return false;
            };
            let now = Instant::now();
            self.process(index, true, now);
            let connection = self.connections.connection(index);
            if connection.is_none_or(|connection| connection.session.last_received == now) {
                return true;
            }
        }
        false
    }

    fn dispatch(&mut self, event: &Event, now: Instant) {
        match event.token() {
            WAKER => self.take_inbox(now),
            Token(token @ LISTENERS..) => self.accept(token - LISTENERS, now),
            token => {
                let Some(index) = self.connections.index_of(token) else {
                    return;
                };
                self.activity.last = token;
                if let Some(slot) = self.connections.slots.get_mut(index) {
                    slot.is_read_closed |= event.is_read_closed() || event.is_error();
                }
                let is_readable = event.is_readable() || event.is_read_closed() || event.is_error();
                self.process(index, is_readable, now);
            }
        }
    }

    fn take_inbox(&mut self, now: Instant) {
        for item in self.inbox.take() {
            match item {
                InboxItem::Connection(connection) => self.register(connection, now),
                InboxItem::Outbox(token) => {
                    if let Some(index) = self.connections.index_of(token) {
                        self.process(index, false, now);
                    }
                }
                InboxItem::Acks(token) => {
                    let Some(index) = self.connections.index_of(token) else {
                        continue;
                    };
                    let waits = self.connections.connection(index).is_some_and(|connection| {
                        connection.put_deferred_ack();
                        connection.waits_for_memory
                    });
                    self.process(index, waits, now);
                }
            }
        }
    }

    /// Accepts what waits at a listener, as far as others get their turn, too.
    fn accept(&mut self, index: usize, now: Instant) {
        let mut has_accepted = false;
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.listeners.get_mut(index) else {
                return;
            };
            match listener.accept(&self.shared.options) {
                Ok(incoming) => {
                    has_accepted = true;
                    self.admit(incoming, now);
                }
                Err(NoConnection::Empty) => return,
                Err(reason) => {
                    self.shared.count(Reason::Connections);
                    if reason == NoConnection::Refused {
                        return;
                    }
                }
            }
        }
        if !has_accepted && let Some(listener) = self.listeners.get_mut(index) {
            // An error that comes so often is not one connection's.
            listener.has_failed = true;
        } else if !self.unaccepted.contains(&index) {
            self.unaccepted.push(index);
        }
    }

    fn admit(&mut self, incoming: Incoming, now: Instant) {
        if self.shared.is_full()
            && let Some(oldest) = self.connections.oldest_pre_handshake()
        {
            // So that a flood of connections without a hello keeps no other client out.
            self.remove(oldest, Reason::Connections);
        }
        let uid = incoming.link.uid();
        let Some(peer) = self.shared.admit(incoming.address, uid) else {
            return;
        };
        match incoming.link {
            IncomingLink::Link(Ok(link)) => {
                let session = ServedSession::of_peer(peer, link.is_integrity_protected(), 1, &self.shared);
                self.hand_out(Box::new(ServerConnection::new(link, session)), now);
            }
            IncomingLink::Link(Err(_)) => self.shared.connection_closed(Reason::System, true),
            IncomingLink::Rings(channel) => blocking::start(channel, peer, &self.shared),
        }
    }

    /// Gives an accepted connection to the poller whose turn it is.
    fn hand_out(&mut self, connection: Box<ServerConnection>, now: Instant) {
        self.next_poller = (self.next_poller + 1) % self.inboxes.len().max(1);
        match self.inboxes.get(self.next_poller) {
            Some(inbox) if !inbox.is_same(&self.inbox) => {
                let refused = inbox.send(InboxItem::Connection(connection));
                if let Some(InboxItem::Connection(mut connection)) = refused {
                    connection.close(Reason::Ending, &self.shared);
                }
            }
            _ => self.register(connection, now),
        }
    }

    fn register(&mut self, connection: Box<ServerConnection>, now: Instant) {
        let has_output = connection.has_output();
        match self.connections.insert(self.poll.registry(), connection) {
            Ok(index) => {
                let (inbox, token) = (self.inbox.clone(), self.connections.token_of(index));
                if let Some(connection) = self.connections.connection(index) {
                    let outbox = connection.session.outbox();
                    // A poller that has ended has closed its connections.
                    outbox.set_waker(Box::new(move || drop(inbox.send(InboxItem::Outbox(token)))));
                }
                self.set_ack_waker(index);
                if has_output {
                    self.process(index, false, now);
                }
            }
            Err(mut connection) => connection.session.closed(Reason::System, &self.shared),
        }
    }

    /// Lets acknowledgements of the service wake this poller.
    fn set_ack_waker(&mut self, index: usize) {
        if !self.shared.service.defers_acks() {
            return;
        }
        let token = self.connections.token_of(index);
        let inbox = self.inbox.clone();
        if let Some(connection) = self.connections.connection(index) {
            connection.session.server.peer.acks.set_waker(move || {
                // A poller that has ended has closed the connection.
                let _ = inbox.send(InboxItem::Acks(token));
            });
        }
    }

    /// Does for one connection what is due; reads from it where there may be something.
    fn process(&mut self, index: usize, is_readable: bool, now: Instant) {
        if let Err(reason) = self.exchange(index, is_readable, now) {
            self.remove(index, reason);
        }
    }

    fn exchange(&mut self, index: usize, is_readable: bool, now: Instant) -> Result<(), Reason> {
        let token = self.connections.token_of(index);
        let uses_pool = self.pool.is_some();
        let Some(slot) = self.connections.slots.get_mut(index) else {
            return Ok(());
        };
        let Some(connection) = slot.connection.as_deref_mut() else {
            return Ok(());
        };
        let mut read = Ok(ReadEnd::Drained);
        if is_readable && connection.closing.is_none() {
            let jobs = uses_pool.then_some(&mut self.jobs);
            // Requests that came before an error are handed on below: what stays in `jobs` would run as the next peer's.
            read = connection.read(&mut self.buffer, &self.shared, now, slot.is_read_closed, jobs);
        }
        if let Some(pool) = self.pool.as_ref().filter(|_| !self.jobs.is_empty()) {
            for job in self.jobs.drain(..) {
                if let Err(refused) = pool::hand_over(pool, &connection.session.server.peer, job) {
                    connection.refuse(&refused, pool::TOO_MANY);
                }
            }
        }
        let written = connection.write(&self.shared);
        let read = read?;
        let is_done = written?;
        if let Some(reason) = connection.closing.filter(|_| is_done) {
            return Err(reason);
        }
        // While the peer does not take its answers, or when it has got its goodbye, nothing is read.
        let reads = !connection.is_backpressured(&self.shared) && connection.closing.is_none();
        let has_more = read == ReadEnd::TurnOver || read == ReadEnd::Paused && reads;
        if has_more && !slot.is_unread {
            slot.is_unread = true;
            self.unread.push(index);
        }
        let interest = match (reads, connection.has_output()) {
            (true, true) => Interest::READABLE | Interest::WRITABLE,
            (false, true) => Interest::WRITABLE,
            (_, false) => Interest::READABLE,
        };
        slot.set_interest(self.poll.registry(), token, interest)
            .map_err(|_| Reason::System)
    }

    fn remove(&mut self, index: usize, reason: Reason) {
        if let Some(mut connection) = self.deregister(index) {
            connection.close(reason, &self.shared);
        }
    }

    /// Ends connections that have been silent for too long, and tries again what had to wait.
    fn sweep(&mut self, now: Instant) {
        self.last_sweep = now;
        let shared = &self.shared;
        let slots = self.connections.slots.iter().enumerate();
        let overdue: Vec<(usize, Reason)> = slots
            .filter_map(|(index, slot)| Some((index, slot.connection.as_deref()?.expired(shared, now)?)))
            .collect();
        for (index, reason) in overdue {
            self.remove(index, reason);
        }
        for index in 0..self.connections.slots.len() {
            let connection = self.connections.connection(index);
            if connection.is_some_and(|connection| connection.waits_for_memory) {
                // There may be room now.
                self.process(index, true, now);
            }
        }
        for slot in &mut self.connections.slots {
            if let Some(connection) = slot.connection.as_deref_mut()
                && now.saturating_duration_since(connection.session.last_received) >= SWEEP_INTERVAL
            {
                connection.shrink(&self.shared);
            }
        }
        for index in 0..self.listeners.len() {
            if self.listeners.get(index).is_some_and(|one| one.has_failed) {
                self.accept(index, now);
            }
        }
        self.connections.prune_pre_handshake();
    }

    /// Accepts nothing more, answers what has come already as far as the time for that reaches, and says goodbye.
    fn stop(&mut self) {
        self.listeners.clear();
        self.unread.clear();
        let mut events = Events::with_capacity(EVENTS_MAX);
        self.take_inbox(Instant::now());
        for index in 0..self.connections.slots.len() {
            self.process(index, true, Instant::now());
        }
        while self.close_those_not_owed() {
            match self.poll.poll(&mut events, Some(STOP_POLL_INTERVAL)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
                Err(_) => break,
            }
            let now = Instant::now();
            for event in &events {
                if let Some(index) = self.connections.index_of(event.token()) {
                    // What a client asks from now on, it asks another server.
                    self.process(index, false, now);
                }
            }
            self.take_inbox(now);
        }
        for item in self.inbox.close() {
            if let InboxItem::Connection(mut connection) = item {
                connection.close(Reason::Ending, &self.shared);
            }
        }
        for index in 0..self.connections.slots.len() {
            self.remove(index, Reason::Ending);
        }
    }

    /// Ends connections whose peers have got all that they are owed. Returns whether others are left, and time for them.
    fn close_those_not_owed(&mut self) -> bool {
        let mut are_left = false;
        for index in 0..self.connections.slots.len() {
            let connection = self.connections.connection(index);
            match connection.is_some_and(|connection| connection.is_owed(PEER_CLOSE_TIMEOUT)) {
                true => are_left = true,
                false => self.remove(index, Reason::Ending),
            }
        }
        are_left && !self.shared.has_stopped()
    }
}
