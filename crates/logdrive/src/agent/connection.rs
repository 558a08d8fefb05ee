//! The connection as all threads see it: what is sent from anywhere, without a wait, and what is waited for.

use super::limits::RINGS_REQUEST_MS;
use super::policy_code;
use crate::config::Config;
use logdrive_drain::RecorderOptions;
use logdrive_drain::control::describe_selector;
use logdrive_ring::AgentConnection;
use logdrive_ring::channel::Channel;
use logdrive_ring::clock::monotonic_ns;
use logdrive_wire::agent::{Keep, Message, Welcome};
use logdrive_wire::limits::AGENT_KEEP_CALLSITES_MAX;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Says what is to be kept, before the session is asked for or shown.
pub(super) fn send_keep_request(channel: &Channel, keep: Option<&Keep>) -> io::Result<()> {
    match keep {
        Some(keep) => send(channel, &Message::Keep(keep.clone()), &[]),
        None => Ok(()),
    }
}

/// Sends a message, or says why not.
pub(super) fn send(channel: &Channel, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = message.encode().map_err(io::Error::other)?;
    channel.send(&bytes, descriptors)
}

/// The connection of this process to its agent, shared by all threads.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) channel: Channel,
    pub(super) socket: PathBuf,
    pub(super) ring_bytes: u64,
    pub(super) policy: u32,
    pub(super) coarse: bool,
    /// Request for the agent's flight recorder.
    pub(super) keep: Option<Keep>,
    connected: AtomicBool,
    /// True if the agent has said that there are no more rings.
    rings_refused: AtomicBool,
    /// Until then no rings are asked for.
    rings_asked_until_ms: [AtomicU64; 2],
    state: Mutex<State>,
    changed: Condvar,
}

/// Sizes of rings that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RingSize {
    Largest,
    Small,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The session's number, and the journal of the agent that drains it.
    pub(super) session: u64,
    pub(super) journal: u64,
    last_ticket: u64,
    tickets: BTreeMap<u64, Ticket>,
    goodbye: bool,
    goodbye_sent: bool,
    done: Option<bool>,
    ended: bool,
}

#[derive(Debug)]
struct Ticket {
    what: FlushTarget,
    sent: bool,
    reached: Option<bool>,
}

/// State that a flush ticket waits for.
#[derive(Debug, Clone, Copy)]
pub(super) enum FlushTarget {
    /// Until all lines are with the kernel.
    Written,
    /// Until all lines are on disk.
    Durable,
    /// Until kept records, so many nanoseconds back or all, are with the kernel, too.
    Kept(u64),
}

impl FlushTarget {
    fn message(self, ticket: u64) -> Message {
        match self {
            Self::Written => Message::Flush {
                ticket,
                durable: false,
            },
            Self::Durable => Message::Flush {
                ticket,
                durable: true,
            },
            Self::Kept(span_ns) => Message::WriteKept { ticket, span_ns },
        }
    }
}

/// Returns the request for an agent's flight recorder.
pub(super) fn keep_request(keep: &RecorderOptions) -> Keep {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let callsites = keep.trigger_callsites.iter();
    Keep {
        bytes: keep.bytes,
        before_ns: keep.before.map_or(0, ns),
        pause_ns: ns(keep.pause),
        trigger_level: keep.trigger_level,
        on_crash: keep.on_crash,
        trigger_callsites: callsites
            .take(AGENT_KEEP_CALLSITES_MAX as usize)
            .map(describe_selector)
            .collect(),
    }
}

fn now_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

impl Connection {
    pub(super) fn new(channel: Channel, socket: &Path, config: &Config, welcome: &Welcome) -> Self {
        Self {
            channel,
            socket: socket.to_owned(),
            ring_bytes: welcome.ring_bytes,
            policy: policy_code(config.full),
            coarse: config.backend.coarse_clock,
            keep: config.backend.keep.as_ref().map(keep_request),
            connected: AtomicBool::new(true),
            rings_refused: AtomicBool::new(false),
            rings_asked_until_ms: [const { AtomicU64::new(0) }; 2],
            state: Mutex::new(State {
                session: welcome.session,
                journal: welcome.journal,
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection is there again, or gone.
    pub(super) fn set_connected(&self, connected: bool) {
        let mut state = self.state();
        // A ticket that was sent and not answered is sent again.
        state.goodbye_sent = false;
        state.tickets.values_mut().for_each(|ticket| ticket.sent = false);
        // Relaxed: a hint for threads that want rings; what else hangs on it is behind the lock.
        self.connected.store(connected, Ordering::Relaxed);
        self.rings_refused.store(false, Ordering::Relaxed);
        self.set_asked_until(0);
        if connected {
            self.send_pending(&mut state);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Sends tickets and goodbye as far as there is room; the rest at the next look.
    fn send_pending(&self, state: &mut State) {
        if !self.is_connected() {
            return;
        }
        for (ticket, waiting) in &mut state.tickets {
            if !waiting.sent {
                let message = waiting.what.message(*ticket);
                waiting.sent = send(&self.channel, &message, &[]).is_ok();
            }
        }
        if state.goodbye && !state.goodbye_sent {
            state.goodbye_sent = send(&self.channel, &Message::Bye, &[]).is_ok();
        }
    }

    /// Asks for a ticket; returns it.
    pub(super) fn request_flush(&self, what: FlushTarget) -> u64 {
        let mut state = self.state();
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        let waiting = Ticket {
            what,
            sent: false,
            reached: None,
        };
        state.tickets.insert(ticket, waiting);
        self.send_pending(&mut state);
        ticket
    }

    /// The answer to a ticket, within a time. `Some(false)` when there will be none.
    pub(super) fn wait_for_ticket(&self, ticket: u64, timeout: Duration) -> Option<bool> {
        self.wait_for(timeout, |state| {
            let reached = state.tickets.get(&ticket).and_then(|waiting| waiting.reached);
            reached.or(state.ended.then_some(false))
        })
    }

    /// Forgets a ticket that is not waited for any more.
    pub(super) fn forget_ticket(&self, ticket: u64) {
        self.state().tickets.remove(&ticket);
    }

    pub(super) fn answer_ticket(&self, ticket: u64, reached: bool) {
        if let Some(waiting) = self.state().tickets.get_mut(&ticket) {
            waiting.reached = Some(reached);
        }
        self.changed.notify_all();
    }

    /// From now on nothing is written.
    pub(super) fn send_goodbye(&self) {
        let mut state = self.state();
        state.goodbye = true;
        self.send_pending(&mut state);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until the agent has said whether all was written; `None` when it has not within the timeout.
    pub(super) fn wait_for_done(&self, timeout: Duration) -> Option<bool> {
        self.wait_for(timeout, |state| state.done)
    }

    pub(super) fn answer_done(&self, complete: bool) {
        self.state().done = Some(complete);
        self.changed.notify_all();
    }

    /// The thread of the connection may end, whatever the agent does.
    pub(super) fn end(&self) {
        self.state().ended = true;
        self.changed.notify_all();
        self.channel.shut();
    }

    pub(super) fn has_ended(&self) -> bool {
        let state = self.state();
        state.ended || state.done.is_some()
    }

    /// Pauses between two tries; ends early when the connection ends.
    pub(super) fn pause(&self, time: Duration) {
        let state = self.state();
        drop(self.wait(state, time, |state| !state.ended));
    }

    /// Sends what could not be sent before, and waits until there is an answer.
    fn wait_for<T>(&self, timeout: Duration, answer: impl Fn(&State) -> Option<T>) -> Option<T> {
        let mut state = self.state();
        self.send_pending(&mut state);
        answer(&self.wait(state, timeout, |state| answer(state).is_none()))
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        timeout: Duration,
        is_moving: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'a, State> {
        self.changed
            .wait_timeout_while(state, timeout, is_moving)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    /// Rings have come, small ones or the largest, or there are no more of either size.
    pub(super) fn answer_rings(&self, came: Option<RingSize>) {
        // Relaxed: hints.
        self.rings_refused.store(came.is_none(), Ordering::Relaxed);
        match came {
            Some(size) => self.rings_asked_until_ms[size as usize].store(0, Ordering::Relaxed),
            None => self.set_asked_until(now_ms() + RINGS_REQUEST_MS.1),
        }
    }

    fn set_asked_until(&self, ms: u64) {
        for until in &self.rings_asked_until_ms {
            // Relaxed: hints.
            until.store(ms, Ordering::Relaxed);
        }
    }

    /// Sends a request for rings, unless that was done and is not answered.
    fn request(&self, size: RingSize, message: &Message) {
        let now = now_ms();
        let asked_until_ms = &self.rings_asked_until_ms[size as usize];
        // Relaxed: of several threads one asks; the word itself is all there is.
        let until = asked_until_ms.load(Ordering::Relaxed);
        let next = now + RINGS_REQUEST_MS.0;
        let is_first = || asked_until_ms.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed);
        if now >= until && is_first().is_ok() && send(&self.channel, message, &[]).is_err() {
            asked_until_ms.store(0, Ordering::Relaxed);
        }
    }
}

impl AgentConnection for Connection {
    fn wake_drain(&self) {
        // A bell that is lost costs the drain's longest sleep.
        let _ = send(&self.channel, &Message::Bell, &[]);
    }

    fn request_rings(&self, count: u32) {
        self.request(RingSize::Largest, &Message::MoreRings { count });
    }

    fn request_small_rings(&self, count: u32) {
        self.request(RingSize::Small, &Message::SmallRings { count });
    }

    fn is_connected(&self) -> bool {
        // Relaxed: see `set_connected`.
        self.connected.load(Ordering::Relaxed)
    }

    fn are_rings_refused(&self) -> bool {
        // Relaxed: a hint for a thread that looks again and again.
        self.rings_refused.load(Ordering::Relaxed)
    }
}
