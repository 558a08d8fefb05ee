//! Who waits until records are with the kernel, and what each is told: that it was done, or that it could not be.
//!
//! Each looks at the sinks of its own records only, so that a disk that hangs under one of them keeps nobody else waiting.
//! Nobody waits for ever: when none of its sinks has moved for five seconds, it could not be done.

use crate::limits::WAIT_NO_PROGRESS_MS;
use crate::routes::LACKING;
use crate::server::{Asker, Server};
use logdrive_drain::{Backend, DumpAnswer};
use logdrive_ring::SharedSession;
use logdrive_wire::agent::{Refused, RefusedCode};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Whoever waits.
#[derive(Debug)]
pub(crate) enum Who {
    /// A process, for a mark of its own.
    Flush { session: u64, mark: u64 },
    /// A process, to end.
    Bye { session: u64 },
    /// Nobody: the process is gone, and its memory is needed until all is written, however long that takes.
    Left { session: u64 },
    /// A tool, for what is kept of some processes.
    Dump { asker: Asker, of: Vec<Dumped> },
    /// A tool, for the sinks that the text names.
    Files { asker: Asker, text: String },
}

impl Who {
    fn session(&self) -> Option<u64> {
        match self {
            Self::Flush { session, .. } | Self::Bye { session } => Some(*session),
            Self::Left { .. } | Self::Dump { .. } | Self::Files { .. } => None,
        }
    }
}

/// A dump that was asked for.
#[derive(Debug)]
pub(crate) struct Dumped {
    session: u64,
    pid: u32,
    /// Its number at the backend.
    dump: u64,
    answer: Option<DumpAnswer>,
}

impl Dumped {
    /// Begins to write what is kept of the process of a session, so many nanoseconds back or all, because a tool wants it.
    pub(crate) fn start(backend: &Backend, session: &SharedSession, span_ns: u64) -> Self {
        Self {
            session: session.id(),
            pid: session.peer().pid,
            dump: backend.start_dump(session.id(), span_of(span_ns), "of a command".to_owned()),
            answer: None,
        }
    }
}

/// How far back, as a message says it.
pub(crate) fn span_of(span_ns: u64) -> Option<Duration> {
    (span_ns > 0).then(|| Duration::from_nanos(span_ns))
}

/// What is waited for.
#[derive(Debug)]
struct Waiting {
    who: Who,
    /// The sinks, by their bits.
    sinks: u32,
    /// A dump that has to be laid out first.
    dump: Option<u64>,
    /// `None` until all dumps are laid out.
    mark: Option<u64>,
    /// Whether it is to be made durable when it is written.
    sync: bool,
    moved: u64,
    since: Instant,
}

impl Waiting {
    /// Whether all dumps are laid out.
    fn has_dumped(&mut self, backend: &Backend) -> bool {
        if let Some(dump) = self.dump {
            if backend.take_dump(dump).is_none() {
                return false;
            }
            self.dump = None;
        }
        let Who::Dump { of, .. } = &mut self.who else {
            return true;
        };
        for dumped in of.iter_mut().filter(|dumped| dumped.answer.is_none()) {
            dumped.answer = backend.take_dump(dumped.dump);
        }
        of.iter().all(|dumped| dumped.answer.is_some())
    }

    /// Whether it was done; `None` while it goes on.
    fn look(&mut self, backend: &Backend, now: Instant) -> Option<bool> {
        if self.mark.is_none() && self.has_dumped(backend) {
            self.mark = Some(backend.request_flush());
        }
        let reach = backend.reach_of(self.mark.unwrap_or(0), self.sinks);
        if reach.reached && self.mark.is_some() {
            if !std::mem::take(&mut self.sync) {
                return Some(true);
            }
            backend.request_sync(self.sinks);
            self.mark = Some(backend.request_flush());
            self.since = now;
        }
        if reach.moved != self.moved {
            (self.moved, self.since) = (reach.moved, now);
        }
        if matches!(self.who, Who::Left { .. }) {
            return None;
        }
        let waited = now.saturating_duration_since(self.since);
        (waited >= Duration::from_millis(WAIT_NO_PROGRESS_MS)).then_some(false)
    }
}

/// All that wait.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    list: Vec<Waiting>,
    /// What sinks had lost when a session was last told about it, or when it came.
    lost: BTreeMap<u64, Vec<u64>>,
}

impl Waits {
    /// Whether somebody waits for an answer.
    pub(crate) fn is_urgent(&self) -> bool {
        self.list
            .iter()
            .any(|waiting| !matches!(waiting.who, Who::Left { .. }))
    }

    /// Whether nothing is waited for, be it for nobody.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The sinks that somebody waits for, as bits.
    pub(crate) fn sinks(&self) -> u32 {
        self.list.iter().fold(0, |bits, waiting| bits | waiting.sinks)
    }

    /// A session has come: what was lost before is not its own.
    pub(crate) fn begin(&mut self, session: u64, backend: &Backend) {
        self.lost.insert(session, backend.lost());
    }

    /// A session has gone.
    pub(crate) fn end(&mut self, session: u64) {
        self.lost.remove(&session);
    }

    /// Waits for all that was committed before to be written to these sinks, after a dump where there is one, and to be
    /// durable with `sync`.
    pub(crate) fn add(&mut self, who: Who, sinks: u32, dump: Option<u64>, sync: bool, now: Instant) {
        self.list.push(Waiting {
            who,
            sinks,
            dump,
            mark: None,
            sync,
            moved: 0,
            since: now,
        });
    }

    /// A process wants what is kept of it written, so many nanoseconds back or all, and waits for its mark.
    pub(crate) fn write_kept(
        &mut self,
        backend: &Backend,
        (session, mark): (u64, u64),
        span_ns: u64,
        sinks: u32,
        now: Instant,
    ) {
        let because = "the program asked for it".to_owned();
        let dump = backend.start_dump(session, span_of(span_ns), because);
        self.add(Who::Flush { session, mark }, sinks, Some(dump), false, now);
    }

    /// Tells those who need not wait any more what came of it.
    pub(crate) fn answer(&mut self, backend: &Backend, server: &mut Server, now: Instant) {
        for (who, sinks, done) in self.take_done(backend, now) {
            match who {
                Who::Flush { session, mark } => server.flushed(session, mark, done, now),
                Who::Bye { session } => {
                    server.done(session, done, now);
                    self.end(session);
                    // What could not be written so far is still in memory that somebody has to have.
                    self.add(Who::Left { session }, sinks, None, false, now);
                }
                Who::Left { session } => server.release(session),
                Who::Dump { asker, of } if done => server.answer(asker, &told(&of), now),
                Who::Files { asker, text } if done => server.answer(asker, &text, now),
                Who::Dump { asker, .. } | Who::Files { asker, .. } => server.refuse(asker, stuck(), now),
            }
        }
    }

    /// Those that wait no more, each with its sinks and whether it was done.
    fn take_done(&mut self, backend: &Backend, now: Instant) -> Vec<(Who, u32, bool)> {
        let mut done = Vec::new();
        let mut at = 0;
        while let Some(waiting) = self.list.get_mut(at) {
            let Some(reached) = waiting.look(backend, now) else {
                at += 1;
                continue;
            };
            let waiting = self.list.remove(at);
            let whole = waiting
                .who
                .session()
                .is_none_or(|session| !self.has_lost(session, waiting.sinks, backend.lost()));
            let has_all = waiting.sinks & LACKING == 0;
            done.push((waiting.who, waiting.sinks, reached && whole && has_all));
        }
        done
    }

    /// Whether these sinks have lost something since the session was told the last time; it is told now.
    fn has_lost(&mut self, session: u64, sinks: u32, lost: Vec<u64>) -> bool {
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
fn told(of: &[Dumped]) -> String {
    let mut text = String::new();
    for dumped in of {
        let records = match dumped.answer {
            Some(DumpAnswer::Written(records)) => records.to_string(),
            _ => "-".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {} {records}", dumped.session, dumped.pid);
    }
    text
}

fn stuck() -> Refused {
    Refused {
        code: RefusedCode::Resources,
        reason: "the sinks have taken nothing for five seconds".to_owned(),
        advice: "look at the disk under the log files; what waits is written when it goes on".to_owned(),
    }
}
