//! What drain, I/O threads and callers of `flush` tell each other: how far each sink is, notices, and the end.

use crate::limits::{NOTICE_BYTES_MAX, NOTICES_MAX};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shared by the threads of one backend.
#[derive(Debug)]
pub(crate) struct Marks {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The highest mark that each sink has reached.
    reached: Vec<u64>,
    closed: Vec<bool>,
    /// Rises whenever a buffer is written.
    progress: u64,
    /// The same for each sink.
    moved: Vec<u64>,
    notices: VecDeque<String>,
    requested: u64,
    abandoned: bool,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// All sinks are there.
    Reached,
    /// Nothing moved for the given time.
    NoProgress,
}

impl Marks {
    pub(crate) fn new(sinks: usize) -> Self {
        Self {
            state: Mutex::new(State {
                reached: vec![0; sinks],
                closed: vec![false; sinks],
                progress: 0,
                moved: vec![0; sinks],
                notices: VecDeque::new(),
                requested: 0,
                abandoned: false,
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
        });
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
            state.progress += 1;
        });
    }

    /// A buffer of a sink was written.
    pub(crate) fn progress(&self, sink: usize) {
        self.change(|state| {
            state.progress += 1;
            if let Some(moved) = state.moved.get_mut(sink) {
                *moved += 1;
            }
        });
    }

    /// How much some sinks have written, by bits: a number that rises with each buffer.
    pub(crate) fn moved(&self, sinks: u32) -> u64 {
        let state = self.lock();
        let moved = state.moved.iter().enumerate();
        moved
            .filter(|(number, _)| sinks >> number & 1 == 1)
            .fold(0, |sum, (_, moved)| sum.wrapping_add(*moved))
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

    /// Whether some sinks, by bits, have reached the mark; does not wait.
    pub(crate) fn has_reached(&self, mark: u64, sinks: u32) -> bool {
        let state = self.lock();
        let reached = state.reached.iter().zip(&state.closed).enumerate();
        reached
            .filter(|(number, _)| sinks >> number & 1 == 1)
            .all(|(_, (reached, closed))| *reached >= mark || *closed)
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
