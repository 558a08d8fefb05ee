//! Waiters for flushes: each gets an answer when its records are with the kernel, or when they could not be written.
//!
//! Each depends on the sinks of its own records only, so that a disk that hangs under one of them delays no other
//! waiter. Waits are bounded: when none of its sinks has made progress for five seconds, the flush has failed.

use crate::limits::WAIT_NO_PROGRESS_MS;
use crate::routing::SINK_MISSING;
use crate::server::{End, Requester, Server};
use logdrive_drain::{Backend, ClientProcess};
use logdrive_ring::{Exit, HostedSession};
use logdrive_wire::agent::{Refused, RefusedCode};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// Owner of a flush.
#[derive(Debug)]
enum Waiter {
    /// A process, for a ticket of its own.
    Flush { session: u64, ticket: u64 },
    /// A process, to end.
    Bye { session: u64 },
    /// No peer: the process is gone, and its memory is needed until all is written, without a limit.
    Left { session: u64 },
    /// A tool, for what is kept of some processes.
    Dump {
        requester: Requester,
        of: Vec<PendingDump>,
    },
    /// A tool, for the sinks that the text names.
    Files { requester: Requester, text: String },
}

impl Waiter {
    fn session(&self) -> Option<u64> {
        match self {
            Self::Flush { session, .. } | Self::Bye { session } => Some(*session),
            Self::Left { .. } | Self::Dump { .. } | Self::Files { .. } => None,
        }
    }
}

/// A dump that was asked for.
#[derive(Debug)]
struct PendingDump {
    session: u64,
    pid: u32,
    /// Number of its records, once they are laid out; the sender is dropped where nothing is kept.
    dump: Receiver<u64>,
    answer: Option<Option<u64>>,
}

impl PendingDump {
    /// Begins to write what is kept of the process of a session, so many nanoseconds back or all, because a tool wants
    /// it.
    fn start(backend: &Backend, session: &HostedSession, span_ns: u64) -> Self {
        Self {
            session: session.id(),
            pid: session.peer().pid,
            dump: backend.start_dump(session.id(), span_of(span_ns), "of a command".to_owned()),
            answer: None,
        }
    }
}

/// Returns the span of a message, where 0 is everything.
fn span_of(span_ns: u64) -> Option<Duration> {
    (span_ns > 0).then(|| Duration::from_nanos(span_ns))
}

/// Returns the number of records of a dump that is laid out, or `None` in it where nothing is kept; `None` while it goes
/// on.
fn answer_of(dump: &Receiver<u64>) -> Option<Option<u64>> {
    match dump.try_recv() {
        Ok(records) => Some(Some(records)),
        Err(TryRecvError::Empty) => None,
        Err(TryRecvError::Disconnected) => Some(None),
    }
}

/// Flush that a peer waits for.
#[derive(Debug)]
struct Pending {
    waiter: Waiter,
    /// The sinks, by their bits.
    sinks: u32,
    /// A dump that has to be laid out first.
    dump: Option<Receiver<u64>>,
    /// `None` until all dumps are laid out.
    ticket: Option<u64>,
    /// True if it is to be made durable when it is written.
    sync: bool,
    progress: u64,
    since: Instant,
}

impl Pending {
    /// Returns whether all dumps are laid out.
    fn has_dumped(&mut self) -> bool {
        if let Some(dump) = &self.dump {
            if answer_of(dump).is_none() {
                return false;
            }
            self.dump = None;
        }
        let Waiter::Dump { of, .. } = &mut self.waiter else {
            return true;
        };
        for dumped in of.iter_mut().filter(|dumped| dumped.answer.is_none()) {
            dumped.answer = answer_of(&dumped.dump);
        }
        of.iter().all(|dumped| dumped.answer.is_some())
    }

    /// Returns whether it was done; `None` while it goes on.
    fn poll(&mut self, backend: &Backend, now: Instant) -> Option<bool> {
        if self.ticket.is_none() && self.has_dumped() {
            self.ticket = Some(backend.request_flush());
        }
        let status = backend.sinks().flush_status(self.ticket.unwrap_or(0), self.sinks);
        if status.is_flushed && self.ticket.is_some() {
            if !std::mem::take(&mut self.sync) {
                return Some(true);
            }
            backend.sinks().request_sync(self.sinks);
            self.ticket = Some(backend.request_flush());
            self.since = now;
        }
        if status.moved != self.progress {
            (self.progress, self.since) = (status.moved, now);
        }
        if matches!(self.waiter, Waiter::Left { .. }) {
            return None;
        }
        let waited = now.saturating_duration_since(self.since);
        (waited >= Duration::from_millis(WAIT_NO_PROGRESS_MS)).then_some(false)
    }
}

/// Sessions at the drain, and all who wait for it.
#[derive(Debug)]
pub(crate) struct FlushWaiters {
    backend: Arc<Backend>,
    pending: Vec<Pending>,
    /// Losses of all sinks when a session last got an answer, or when it came.
    lost: BTreeMap<u64, Vec<u64>>,
}

impl FlushWaiters {
    pub(crate) fn new(backend: Arc<Backend>) -> Self {
        Self {
            backend,
            pending: Vec::new(),
            lost: BTreeMap::new(),
        }
    }

    /// Returns whether a peer waits for an answer.
    pub(crate) fn is_urgent(&self) -> bool {
        self.pending
            .iter()
            .any(|pending| !matches!(pending.waiter, Waiter::Left { .. }))
    }

    /// Returns whether there is no flush, not even one without a peer.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the sinks of all flushes, as bits.
    pub(crate) fn sinks(&self) -> u32 {
        self.pending.iter().fold(0, |bits, pending| bits | pending.sinks)
    }

    /// A session has come: it is drained from now on, and what was lost before is not its own.
    pub(crate) fn join(&mut self, session: Arc<HostedSession>) {
        self.lost.insert(session.id(), self.backend.sinks().lost());
        self.backend.join(session);
    }

    /// A process waits for all that was committed before to be written to these sinks, and to be durable with `sync`.
    pub(crate) fn flush(&mut self, (session, ticket): (u64, u64), sinks: u32, sync: bool) {
        self.add(Waiter::Flush { session, ticket }, sinks, None, sync);
    }

    /// A process wants what is kept of it written, so many nanoseconds back or all, and waits for its ticket.
    pub(crate) fn write_kept(&mut self, (session, ticket): (u64, u64), span_ns: u64, sinks: u32) {
        let because = "the program asked for it".to_owned();
        let dump = self.backend.start_dump(session, span_of(span_ns), because);
        self.add(Waiter::Flush { session, ticket }, sinks, Some(dump), false);
    }

    /// A process writes nothing more, and waits to end.
    pub(crate) fn bye(&mut self, session: u64, sinks: u32) {
        self.backend.leave(session, None);
        self.add(Waiter::Bye { session }, sinks, None, false);
    }

    /// A process is gone: the rest of its session is drained, and its end is logged.
    pub(crate) fn left(&mut self, session: &HostedSession, end: End, sinks: u32) {
        let (id, text) = (session.id(), end.describe(session));
        if end.is_crash(session) {
            self.backend.dump_crashed(id, text.clone());
        }
        self.lost.remove(&id);
        match end {
            // The drain may have forgotten the session with the goodbye.
            End::Goodbye(exit) => {
                self.backend.leave(id, None);
                if exit.is_some_and(|exit| exit != Exit::Status(0)) {
                    let client = ClientProcess::of(session);
                    self.backend.sinks().report_end(client, text);
                }
            }
            _ => self.backend.leave(id, Some(text)),
        }
        self.add(Waiter::Left { session: id }, sinks, None, false);
    }

    /// A tool wants what is kept of some sessions written, so many nanoseconds back or all.
    pub(crate) fn dump<'a>(
        &mut self,
        requester: Requester,
        sessions: impl IntoIterator<Item = &'a Arc<HostedSession>>,
        span_ns: u64,
        sinks: u32,
    ) {
        let sessions = sessions.into_iter();
        let of = sessions.map(|session| PendingDump::start(&self.backend, session, span_ns));
        let of = of.collect();
        self.add(Waiter::Dump { requester, of }, sinks, None, false);
    }

    /// A tool wants the text that names some sinks; `written`, when all that was committed before is written to them.
    pub(crate) fn name_sinks(
        &mut self,
        (requester, text): (Requester, String),
        written: bool,
        sinks: u32,
        server: &mut Server,
    ) {
        match written {
            true => self.add(Waiter::Files { requester, text }, sinks, None, false),
            false => server.answer(requester, &text, Instant::now()),
        }
    }

    /// Waits for these sinks, after a dump where there is one.
    fn add(&mut self, waiter: Waiter, sinks: u32, dump: Option<Receiver<u64>>, sync: bool) {
        self.pending.push(Pending {
            waiter,
            sinks,
            dump,
            ticket: None,
            sync,
            progress: 0,
            since: Instant::now(),
        });
    }

    /// Answers waiters whose flush has succeeded or failed.
    pub(crate) fn answer(&mut self, server: &mut Server, now: Instant) {
        for (waiter, sinks, done) in self.take_finished(now) {
            match waiter {
                Waiter::Flush { session, ticket } => server.flushed(session, ticket, done, now),
                Waiter::Bye { session } => {
                    server.done(session, done, now);
                    self.lost.remove(&session);
                    // Lines that could not be written so far are still in memory, which must stay.
                    self.add(Waiter::Left { session }, sinks, None, false);
                }
                Waiter::Left { session } => server.release(session),
                Waiter::Dump { requester, of } if done => server.answer(requester, &dump_report(&of), now),
                Waiter::Files { requester, text } if done => server.answer(requester, &text, now),
                Waiter::Dump { requester, .. } | Waiter::Files { requester, .. } => {
                    server.refuse(requester, no_progress(), now)
                }
            }
        }
    }

    /// Those that wait no more, each with its sinks and whether it was done.
    fn take_finished(&mut self, now: Instant) -> Vec<(Waiter, u32, bool)> {
        let mut done = Vec::new();
        let mut at = 0;
        while let Some(pending) = self.pending.get_mut(at) {
            let Some(reached) = pending.poll(&self.backend, now) else {
                at += 1;
                continue;
            };
            let pending = self.pending.remove(at);
            let whole = pending
                .waiter
                .session()
                .is_none_or(|session| !self.has_lost(session, pending.sinks));
            let has_all = pending.sinks & SINK_MISSING == 0;
            done.push((pending.waiter, pending.sinks, reached && whole && has_all));
        }
        done
    }

    /// Returns whether these sinks have lost something since the last answer to the session; this answer reports it.
    fn has_lost(&mut self, session: u64, sinks: u32) -> bool {
        let lost = self.backend.sinks().lost();
        let Some(before) = self.lost.get_mut(&session) else {
            return false;
        };
        let has_lost = |(number, lost): (usize, &u64)| {
            sinks >> number.min(31) & 1 == 1 && *lost > before.get(number).copied().unwrap_or(0)
        };
        let has = lost.iter().enumerate().any(has_lost);
        *before = lost;
        has
    }
}

/// `SESSION PID RECORDS` for each session; `-` where nothing is kept.
fn dump_report(of: &[PendingDump]) -> String {
    let mut text = String::new();
    for dumped in of {
        let records = match dumped.answer {
            Some(Some(records)) => records.to_string(),
            _ => "-".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {} {records}", dumped.session, dumped.pid);
    }
    text
}

fn no_progress() -> Refused {
    Refused {
        code: RefusedCode::Resources,
        reason: "the sinks have taken nothing for five seconds".to_owned(),
        advice: "look at the disk under the log files; what waits is written when it goes on".to_owned(),
    }
}
