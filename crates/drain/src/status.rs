//! What drain, I/O threads and callers of `flush` tell each other: how far each sink is, notices, and the end.

use crate::limits::{DUMP_ANSWERS_MAX, NOTICE_BYTES_MAX, NOTICES_MAX};
#[cfg(all(feature = "ship", target_os = "linux"))]
use logdrive_ship::forward::ForwardWatch;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shared by the threads of one backend.
#[derive(Debug)]
pub(crate) struct BackendStatus {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The highest mark that each sink has reached.
    reached: Vec<u64>,
    closed: Vec<bool>,
    /// How often each sink has moved: written a buffer, or reached a mark.
    moved: Vec<u64>,
    /// How often each sink could not write, or not make durable, what it was given, for good.
    lost: Vec<u64>,
    /// Rises whenever anything moves.
    progress: u64,
    /// What came of dumps that somebody asked for by number, until that one looks.
    dumps: BTreeMap<u64, DumpAnswer>,
    last_dump: u64,
    notices: VecDeque<String>,
    requested: u64,
    abandoned: bool,
    /// How the sinks that send stand.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    watched: Vec<(usize, ForwardWatch)>,
}

/// What came of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpAnswer {
    /// So many records are laid out; a mark that is requested now is reached when they are with the kernel.
    Written(u64),
    /// There is no flight recorder for that process.
    KeepsNothing,
    /// There is no such session.
    Unknown,
}

/// How far some sinks are with a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushStatus {
    /// All of them have handed what came before the mark to the kernel.
    pub reached: bool,
    /// How often they have moved.
    pub moved: u64,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// All sinks are there.
    Reached,
    /// Nothing moved for the given time.
    NoProgress,
}

impl State {
    fn move_on(&mut self, sink: usize) {
        if let Some(moved) = self.moved.get_mut(sink) {
            *moved += 1;
        }
        self.progress += 1;
    }
}

impl BackendStatus {
    pub(crate) fn new(sinks: usize) -> Self {
        Self {
            state: Mutex::new(State {
                reached: vec![0; sinks],
                closed: vec![false; sinks],
                moved: vec![0; sinks],
                lost: vec![0; sinks],
                progress: 0,
                dumps: BTreeMap::new(),
                last_dump: 0,
                notices: VecDeque::new(),
                requested: 0,
                abandoned: false,
                #[cfg(all(feature = "ship", target_os = "linux"))]
                watched: Vec::new(),
            }),
            changed: Condvar::new(),
        }
    }

    /// There is one more sink, with nothing behind it.
    pub(crate) fn add_sink(&self) {
        self.change(|state| {
            state.reached.push(state.requested);
            state.closed.push(false);
            state.moved.push(0);
            state.lost.push(0);
        });
    }

    /// A sink takes the place of one that is closed, with nothing behind it. What its place has lost stays counted.
    pub(crate) fn reopen_sink(&self, sink: usize) {
        self.change(|state| {
            let requested = state.requested;
            if let Some(reached) = state.reached.get_mut(sink) {
                *reached = requested;
            }
            if let Some(closed) = state.closed.get_mut(sink) {
                *closed = false;
            }
        });
    }

    /// Whether the I/O thread of a sink has ended.
    pub(crate) fn is_closed(&self, sink: usize) -> bool {
        self.lock().closed.get(sink).copied().unwrap_or(true)
    }

    /// Waits until the I/O thread of a sink has ended, so long at most.
    pub(crate) fn wait_closed_sink(&self, sink: usize, timeout: Duration) -> bool {
        let is_open = |state: &mut State| !state.closed.get(sink).copied().unwrap_or(true);
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, is_open);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// A sink sends, and this tells how that goes.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    pub(crate) fn watch(&self, sink: usize, watch: ForwardWatch) {
        self.lock().watched.push((sink, watch));
    }

    /// How the sinks that send stand.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    pub(crate) fn watched(&self) -> Vec<(usize, ForwardWatch)> {
        self.lock().watched.clone()
    }

    /// A new mark, for a caller of `flush` to wait for.
    pub(crate) fn request(&self) -> u64 {
        let mut state = self.lock();
        state.requested += 1;
        state.requested
    }

    /// The newest mark that somebody waits for.
    pub(crate) fn requested(&self) -> u64 {
        self.lock().requested
    }

    /// A sink has handed everything before the mark to the kernel.
    pub(crate) fn reach(&self, sink: usize, mark: u64) {
        self.change(|state| {
            if let Some(reached) = state.reached.get_mut(sink) {
                *reached = mark.max(*reached);
            }
            state.move_on(sink);
        });
    }

    /// A buffer of a sink was written, or given up.
    pub(crate) fn progress(&self, sink: usize) {
        self.change(|state| state.move_on(sink));
    }

    /// A sink will never write, or make durable, what it was given.
    pub(crate) fn lose(&self, sink: usize) {
        self.change(|state| {
            if let Some(lost) = state.lost.get_mut(sink) {
                *lost += 1;
            }
        });
    }

    /// How often each sink has lost something.
    pub(crate) fn lost(&self) -> Vec<u64> {
        self.lock().lost.clone()
    }

    /// How far these sinks are with a mark, by their bits.
    pub(crate) fn flush_status(&self, mark: u64, sinks: u32) -> FlushStatus {
        let state = self.lock();
        let numbers = (0..state.reached.len()).filter(|number| sinks >> (*number).min(31) & 1 == 1);
        let is_there = |number: usize| state.reached[number] >= mark || state.closed[number];
        FlushStatus {
            reached: numbers.clone().all(is_there),
            moved: numbers.map(|number| state.moved[number]).sum(),
        }
    }

    /// A number for a dump, under which its answer will be.
    pub(crate) fn next_dump(&self) -> u64 {
        let mut state = self.lock();
        state.last_dump += 1;
        state.last_dump
    }

    pub(crate) fn answer_dump(&self, dump: u64, answer: DumpAnswer) {
        self.change(|state| {
            // Those that nobody looks at any more make room.
            while state.dumps.len() >= DUMP_ANSWERS_MAX {
                state.dumps.pop_first();
            }
            state.dumps.insert(dump, answer);
        });
    }

    /// What came of a dump, once.
    pub(crate) fn take_dump(&self, dump: u64) -> Option<DumpAnswer> {
        self.lock().dumps.remove(&dump)
    }

    /// An I/O thread has ended.
    pub(crate) fn close(&self, sink: usize) {
        self.change(|state| {
            if let Some(closed) = state.closed.get_mut(sink) {
                *closed = true;
            }
            state.progress += 1;
        });
    }

    /// Waits until all sinks have reached the mark, as long as anything moves.
    pub(crate) fn wait_for(&self, mark: u64, no_progress: Duration) -> Waited {
        self.wait(no_progress, |state| {
            state
                .reached
                .iter()
                .zip(&state.closed)
                .all(|(reached, closed)| *reached >= mark || *closed)
        })
    }

    /// Whether all sinks have reached a flush ticket; does not wait.
    pub(crate) fn is_flushed(&self, mark: u64) -> bool {
        self.flush_status(mark, u32::MAX).reached
    }

    /// Waits until all I/O threads have ended, as long as anything moves.
    pub(crate) fn wait_closed(&self, no_progress: Duration) -> Waited {
        self.wait(no_progress, |state| state.closed.iter().all(|closed| *closed))
    }

    fn wait(&self, no_progress: Duration, done: impl Fn(&State) -> bool) -> Waited {
        let mut state = self.lock();
        let mut seen = state.progress;
        let mut deadline = Instant::now() + no_progress;
        loop {
            if done(&state) {
                return Waited::Reached;
            }
            if state.progress != seen {
                seen = state.progress;
                deadline = Instant::now() + no_progress;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Waited::NoProgress;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives up on targets that fail: their bytes stay in the session.
    pub(crate) fn abandon(&self) {
        self.change(|state| state.abandoned = true);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    /// Sleeps between two tries of a failed write; ends at once when the logger gives up.
    pub(crate) fn pause(&self, time: Duration) {
        let state = self.lock();
        // A spurious wake-up means an earlier retry, which does no harm.
        drop(
            self.changed
                .wait_timeout_while(state, time, |state| !state.abandoned),
        );
    }

    /// Leaves a line for the log about the logger itself.
    pub(crate) fn notice(&self, mut text: String) {
        let mut length = text.len().min(NOTICE_BYTES_MAX);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        text.truncate(length);
        self.change(|state| {
            if state.notices.len() < NOTICES_MAX {
                state.notices.push_back(text);
            }
        });
    }

    pub(crate) fn take_notices(&self) -> VecDeque<String> {
        std::mem::take(&mut self.lock().notices)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
