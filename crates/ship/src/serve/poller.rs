//! A poller: one thread that waits for many sockets at once and does for each what is to be done.

use super::Shared;
use super::connection::{Accepted, Buffer};
use super::pool::{Pool, Work};
use super::talks::Talks;
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
const SWEEP: Duration = Duration::from_millis(250);
/// Connections that are accepted before others get their turn.
const ACCEPTS_MAX: usize = 64;
/// How long a stopping poller waits for peers to take what is left for them.
const PARTING: Duration = Duration::from_millis(500);
/// Looks at the connection that spoke last, between two at all of them, while a poller spins.
const LOOKS_MAX: usize = 32;

/// Events in a row that are one connection's and nobody else's, from where on it gets a thread of its own: enough that one
/// which only says hello and asks a few things does not.
const ALONE: u32 = 32;

/// How other threads reach a poller.
#[derive(Clone)]
pub(crate) struct Hook {
    waker: Arc<OwnedFd>,
    arrivals: Arc<Mutex<Arrivals>>,
}

/// What has come and was not taken.
#[derive(Default)]
struct Arrivals {
    waiting: Vec<Arrival>,
    /// The poller has ended.
    is_closed: bool,
}

/// What comes from other threads.
pub(crate) enum Arrival {
    /// A connection that another poller has accepted, or that a thread of its own gives back.
    Connection(Box<Accepted>),
    /// The response of a pool's thread.
    Response {
        token: u64,
        stream: u16,
        sequence: u64,
        result: Result<Vec<u8>, String>,
    },
}

impl Hook {
    pub(crate) fn new() -> io::Result<Self> {
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            waker: Arc::new(waker),
            arrivals: Arc::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        // Whole arrivals go in and out.
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings something to the poller; gives it back when that has ended.
    pub(crate) fn send(&self, arrival: Arrival) -> Option<Arrival> {
        let mut arrivals = self.lock();
        if arrivals.is_closed {
            return Some(arrival);
        }
        arrivals.waiting.push(arrival);
        drop(arrivals);
        self.wake();
        None
    }

    pub(crate) fn wake(&self) {
        // It can only be full, and then the poller wakes anyway.
        let _ = rustix::io::write(&*self.waker, &1_u64.to_le_bytes());
    }
}

/// Makes a link of an accepted socket.
pub(crate) type Dress = Box<dyn Fn(crate::link::SocketLink) -> io::Result<Box<dyn Link>> + Send>;

/// A listener with what makes links of its sockets.
pub(crate) struct Door {
    pub(crate) listener: StreamListener,
    pub(crate) dress: Dress,
}

struct Slot {
    accepted: Option<Box<Accepted>>,
    /// Rises with each connection in this place, so that nothing late reaches the next one.
    generation: u32,
    interest: EventFlags,
}

/// The thread's state.
pub(crate) struct Poller {
    epoll: OwnedFd,
    hook: Hook,
    /// All pollers, this one too, for handing connections on.
    hooks: Vec<Hook>,
    turn: usize,
    doors: Vec<Door>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    buffer: Buffer,
    jobs: Vec<Job>,
    pool: Option<Arc<Pool>>,
    /// Threads for connections that talk much.
    talks: Option<Arc<Talks>>,
    shared: Arc<Shared>,
    swept: Instant,
    /// Connections that may have more to read.
    unread: Vec<usize>,
    /// The connection that spoke last.
    last: u64,
    /// How often in a row it was the only one.
    alone: u32,
    /// Connections in the order in which they came, until a sweep finds that they have said hello.
    strangers: VecDeque<u64>,
}

impl Poller {
    pub(crate) fn new(
        shared: Arc<Shared>,
        index: usize,
        hooks: Vec<Hook>,
        doors: Vec<Door>,
        pool: Option<Arc<Pool>>,
        talks: Option<Arc<Talks>>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let hook = hooks.get(index).cloned().map_or_else(Hook::new, Ok)?;
        epoll::add(&epoll, &*hook.waker, EventData::new_u64(WAKER), EventFlags::IN)?;
        for (index, door) in doors.iter().enumerate() {
            let data = EventData::new_u64(LISTENERS + index as u64);
            epoll::add(&epoll, door.listener.as_fd(), data, EventFlags::IN)?;
        }
        Ok(Self {
            epoll,
            hook,
            hooks,
            turn: index,
            doors,
            slots: Vec::new(),
            free: Vec::new(),
            buffer: Buffer::new(),
            jobs: Vec::new(),
            pool,
            talks,
            shared,
            swept: Instant::now(),
            unread: Vec::new(),
            last: WAKER,
            alone: 0,
            strangers: VecDeque::new(),
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
                SWEEP
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
                self.turn_of(index, EventFlags::IN, now);
            }
            let last = self.last;
            for event in &events {
                self.take(event, now);
            }
            self.leave_alone(last, events.len());
            if now - self.swept >= SWEEP {
                self.sweep(now);
            }
        }
        self.stop();
    }

    /// Counts how often the connection that spoke last is the only one that does, and gives one that talks much a thread of
    /// its own.
    fn leave_alone(&mut self, before: u64, events: usize) {
        match events {
            // The time was over.
            0 => return,
            1 if self.last == before => self.alone += 1,
            _ => self.alone = 0,
        }
        let Some(talks) = self.talks.clone().filter(|_| self.alone >= ALONE) else {
            return;
        };
        self.alone = 0;
        let Some(index) = self.index_of(self.last) else {
            return;
        };
        let may_go = self.unread.is_empty()
            && self
                .accepted(index)
                .is_some_and(|accepted| accepted.talks_simply());
        if !may_go || !talks.reserve() {
            return;
        }
        if let Some(accepted) = self.take_out(index)
            && let Err(accepted) = talks.push(accepted, self.hook.clone())
        {
            self.adopt(accepted, Instant::now());
        }
    }

    /// Takes a connection from the place where events find it.
    fn take_out(&mut self, index: usize) -> Option<Box<Accepted>> {
        let slot = self.slots.get_mut(index)?;
        let accepted = slot.accepted.take()?;
        slot.generation = slot.generation.wrapping_add(1) & 0x7fff_ffff;
        if let Some(descriptor) = accepted.link.descriptor() {
            // Closing it does the same.
            let _ = epoll::delete(&self.epoll, descriptor);
        }
        self.free.push(index);
        self.unread.retain(|other| *other != index);
        Some(accepted)
    }

    /// Looks whether the connection that spoke last goes on: a receive of its own costs less than asking for all of them
    /// first, and what it brings is answered at once.
    fn spin_on_last(&mut self) -> bool {
        for _ in 0..LOOKS_MAX {
            let Some(index) = self.index_of(self.last) else {
                return false;
            };
            let now = Instant::now();
            self.turn_of(index, EventFlags::IN, now);
            if self.accepted(index).is_none_or(|accepted| accepted.heard == now) {
                return true;
            }
        }
        false
    }

    fn take(&mut self, event: &Event, now: Instant) {
        let data = event.data.u64();
        match data {
            WAKER => self.take_arrivals(now),
            LISTENERS.. => self.accept((data - LISTENERS) as usize, now),
            token => {
                if let Some(index) = self.index_of(token) {
                    self.last = token;
                    self.turn_of(index, event.flags, now);
                }
            }
        }
    }

    fn index_of(&self, token: u64) -> Option<usize> {
        let index = (token & 0xffff_ffff) as usize;
        let slot = self.slots.get(index)?;
        (u64::from(slot.generation) == token >> 32 && slot.accepted.is_some()).then_some(index)
    }

    fn token_of(&self, index: usize) -> u64 {
        let generation = self.slots.get(index).map_or(0, |slot| slot.generation);
        u64::from(generation) << 32 | index as u64
    }

    fn take_arrivals(&mut self, now: Instant) {
        let mut count = [0; 8];
        // An empty counter is no harm.
        let _ = rustix::io::read(&*self.hook.waker, &mut count);
        let arrivals = std::mem::take(&mut self.hook.lock().waiting);
        for arrival in arrivals {
            match arrival {
                Arrival::Connection(accepted) => self.adopt(accepted, now),
                Arrival::Response {
                    token,
                    stream,
                    sequence,
                    result,
                } => {
                    let Some(index) = self.index_of(token) else {
                        continue;
                    };
                    if let Some(accepted) = self.accepted(index) {
                        let result = result.as_deref().map_err(String::as_str);
                        accepted.respond(stream, sequence, result);
                    }
                    self.turn_of(index, EventFlags::OUT, now);
                }
            }
        }
    }

    fn accepted(&mut self, index: usize) -> Option<&mut Accepted> {
        self.slots.get_mut(index)?.accepted.as_deref_mut()
    }

    fn accept(&mut self, door: usize, now: Instant) {
        for _ in 0..ACCEPTS_MAX {
            let Some(door) = self.doors.get(door) else { return };
            let (link, address) = match door.listener.accept(&self.shared.options) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // One that has gone already, or no descriptors are left: the others go on.
                    self.shared.count(Reason::Connections);
                    return;
                }
            };
            let dressed = (door.dress)(link);
            if self.shared.is_crowded() {
                self.evict();
            }
            let uid = dressed.as_ref().ok().and_then(|link| link.uid());
            let Some(peer) = self.shared.admit(address, uid) else {
                continue;
            };
            match dressed {
                Ok(link) => {
                    let server = self.shared.session(peer, link.is_safe());
                    let accepted = Box::new(Accepted::new(link, server, now));
                    self.turn = (self.turn + 1) % self.hooks.len().max(1);
                    match self.hooks.get(self.turn) {
                        Some(hook) if !Arc::ptr_eq(&hook.waker, &self.hook.waker) => {
                            if let Some(Arrival::Connection(mut accepted)) =
                                hook.send(Arrival::Connection(accepted))
                            {
                                accepted.end(Reason::Ending, &self.shared);
                            }
                        }
                        _ => self.adopt(accepted, now),
                    }
                }
                Err(_) => self.shared.leave(Reason::Memory, true),
            }
        }
    }

    /// Ends the connection that has been here longest without a hello, so that a flood of them keeps nobody out.
    fn evict(&mut self) {
        while let Some(token) = self.strangers.pop_front() {
            let Some(index) = self.index_of(token) else {
                continue;
            };
            if self.accepted(index).is_some_and(|accepted| !accepted.is_met) {
                return self.remove(index, Reason::Connections);
            }
        }
    }

    fn adopt(&mut self, mut accepted: Box<Accepted>, now: Instant) {
        let index = self.free.pop().unwrap_or(self.slots.len());
        if index == self.slots.len() {
            self.slots.push(Slot {
                accepted: None,
                generation: 0,
                interest: EventFlags::empty(),
            });
        }
        let token = self.token_of(index);
        let interest = EventFlags::IN;
        let added = match accepted.link.descriptor() {
            Some(descriptor) => {
                epoll::add(&self.epoll, descriptor, EventData::new_u64(token), interest).is_ok()
            }
            None => false,
        };
        if !added {
            accepted.leave(Reason::Memory, &self.shared);
            self.free.push(index);
            return;
        }
        if !accepted.is_met {
            self.strangers.push_back(token);
        }
        let has_output = accepted.has_output();
        if let Some(slot) = self.slots.get_mut(index) {
            slot.accepted = Some(accepted);
            slot.interest = interest;
        }
        if has_output {
            self.turn_of(index, EventFlags::OUT, now);
        }
    }

    /// Does for one connection what there is to do.
    fn turn_of(&mut self, index: usize, flags: EventFlags, now: Instant) {
        let result = self.work(index, flags, now);
        if let Err(reason) = result {
            self.remove(index, reason);
        }
    }

    fn work(&mut self, index: usize, flags: EventFlags, now: Instant) -> Result<(), Reason> {
        let token = self.token_of(index);
        let uses_pool = self.pool.is_some();
        let Some(slot) = self.slots.get_mut(index) else {
            return Ok(());
        };
        let Some(accepted) = slot.accepted.as_deref_mut() else {
            return Ok(());
        };
        let is_readable = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        if is_readable && accepted.ends.is_none() {
            let jobs = uses_pool.then_some(&mut self.jobs);
            if accepted.read(&mut self.buffer, &self.shared, now, jobs)? {
                self.unread.push(index);
            }
            accepted.jobs_waiting += self.jobs.len();
        }
        if let Some(pool) = self.pool.as_ref().filter(|_| !self.jobs.is_empty()) {
            for job in self.jobs.drain(..) {
                let work = Work {
                    job,
                    token,
                    peer: accepted.server.peer.clone(),
                    hook: self.hook.clone(),
                };
                if let Err(work) = pool.push(work) {
                    accepted.respond(work.job.stream, work.job.sequence, Err("too many requests wait"));
                }
            }
        }
        let is_done = accepted.write(&self.shared)?;
        if let Some(reason) = accepted.ends.filter(|_| is_done) {
            return Err(reason);
        }
        let mut interest = EventFlags::empty();
        if !accepted.is_clogged(&self.shared) && !accepted.is_waiting && accepted.ends.is_none() {
            interest |= EventFlags::IN;
        }
        if accepted.has_output() {
            interest |= EventFlags::OUT;
        }
        if interest != slot.interest
            && let Some(descriptor) = accepted.link.descriptor()
        {
            slot.interest = interest;
            epoll::modify(&self.epoll, descriptor, EventData::new_u64(token), interest)
                .map_err(|_| Reason::Memory)?;
        }
        Ok(())
    }

    fn remove(&mut self, index: usize, reason: Reason) {
        if let Some(mut accepted) = self.take_out(index) {
            accepted.end(reason, &self.shared);
        }
    }

    /// Ends what has been silent for too long.
    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        let options = &self.shared.options;
        let (handshake, idle) = (options.handshake_timeout, options.idle_timeout);
        let late: Vec<(usize, Reason)> = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| {
                let accepted = slot.accepted.as_deref()?;
                let silent = now.saturating_duration_since(if accepted.is_met {
                    accepted.heard
                } else {
                    accepted.since
                });
                match accepted.is_met {
                    false if silent >= handshake => Some((index, Reason::Handshake)),
                    true if silent >= idle && accepted.jobs_waiting == 0 => Some((index, Reason::Idle)),
                    _ => Some((index, accepted.is_late(&self.shared, now)?)),
                }
            })
            .collect();
        for (index, reason) in late {
            self.remove(index, reason);
        }
        for index in 0..self.slots.len() {
            // There may be room now.
            if self.accepted(index).is_some_and(|accepted| accepted.is_waiting) {
                self.turn_of(index, EventFlags::IN, now);
            }
        }
        for slot in &mut self.slots {
            if let Some(accepted) = slot.accepted.as_deref_mut()
                && now.saturating_duration_since(accepted.heard) >= SWEEP
            {
                accepted.rest(&self.shared);
            }
        }
        let mut strangers = std::mem::take(&mut self.strangers);
        strangers.retain(|token| {
            let index = self.index_of(*token);
            index.is_some_and(|index| self.accepted(index).is_some_and(|accepted| !accepted.is_met))
        });
        self.strangers = strangers;
    }

    /// Takes what has come already, sends what is left, and says goodbye.
    fn stop(&mut self) {
        let end = Instant::now() + PARTING;
        self.take_arrivals(Instant::now());
        let mut arrivals = self.hook.lock();
        arrivals.is_closed = true;
        let late = std::mem::take(&mut arrivals.waiting);
        drop(arrivals);
        for arrival in late {
            if let Arrival::Connection(mut accepted) = arrival {
                accepted.end(Reason::Ending, &self.shared);
            }
        }
        for index in 0..self.slots.len() {
            self.turn_of(index, EventFlags::IN, Instant::now());
            let Some(accepted) = self.accepted(index) else {
                continue;
            };
            let patience = end.saturating_duration_since(Instant::now());
            if accepted.has_output() && !patience.is_zero() {
                // One that does not read gets its answer after it comes back.
                let _ = accepted.link.wait(true, patience.min(Duration::from_millis(50)));
            }
            self.remove(index, Reason::Ending);
        }
    }
}
