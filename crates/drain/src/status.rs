//! Status of a backend, shared by drain, I/O threads and callers of `flush`: flush tickets, notices, and the end.

use crate::limits::{NO_PROGRESS, NOTICE_BYTES_MAX, NOTICES_MAX, RECOVERY_LOOK_MS};
#[cfg(all(feature = "ship", target_os = "linux"))]
use logdrive_ship::forward::ForwardWatch;
use logdrive_wire::Level;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shared by the threads of one backend.
#[derive(Debug, Default)]
pub(crate) struct BackendStatus {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    sinks: Vec<SinkStatus>,
    /// Rises whenever anything moves.
    progress: u64,
    notices: VecDeque<(Level, String)>,
    /// Number of times that notices were taken.
    takes: u64,
    /// The newest flush ticket.
    requested: u64,
    abandoned: bool,
    /// State of the sinks that send.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    watched: Vec<(usize, ForwardWatch)>,
}

/// Status of one sink.
#[derive(Debug, Clone, Copy, Default)]
struct SinkStatus {
    /// The highest flush ticket before which everything is with the kernel.
    flushed: u64,
    /// Set if its I/O thread has ended.
    is_closed: bool,
    /// Number of buffers written and tickets passed.
    moved: u64,
    /// Number of times that it could not write, or not make durable, what it was given, for good.
    lost: u64,
    /// The same at the time of the last answer to a caller of `sync`.
    lost_told: u64,
}

impl SinkStatus {
    fn has_flushed(&self, ticket: u64) -> bool {
        self.flushed >= ticket || self.is_closed
    }
}

/// Progress of some sinks towards a flush ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushStatus {
    /// All of them have handed what came before the ticket to the kernel.
    pub is_flushed: bool,
    /// Number of times that they have moved.
    pub moved: u64,
}

/// End of a wait that has not got what it waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimit {
    /// Time without any progress.
    pub(crate) no_progress: Duration,
    /// Moment at which it ends whatever moves.
    pub(crate) until: Option<Instant>,
}

impl WaitLimit {
    /// Five seconds without progress, and no longer than until then.
    pub(crate) fn until(until: Option<Instant>) -> Self {
        Self {
            no_progress: NO_PROGRESS,
            until,
        }
    }

    fn deadline(self) -> Instant {
        let deadline = Instant::now() + self.no_progress;
        self.until.map_or(deadline, |until| until.min(deadline))
    }
}

/// Outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// All sinks are there.
    Done,
    /// Nothing moved for the given time, or the wait was over.
    NoProgress,
}

/// Leaves a warning for the log, and waits until the session has its line, from which a kill does not take it any more.
/// `false`: nobody took it in that time.
pub(crate) fn tell(status: &BackendStatus, text: String, timeout: Duration) -> bool {
    status.notice(text);
    let until = Instant::now() + timeout;
    // Whoever takes notices again has committed the lines of those before.
    let told = status.lock().takes + 2;
    // Looked at now and then: the drain takes notices in each pass, and is not to wake anybody there.
    while status.lock().takes < told {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(RECOVERY_LOOK_MS));
    }
    true
}

impl BackendStatus {
    pub(crate) fn new(sinks: usize) -> Self {
        let status = Self::default();
        status.lock().sinks = vec![SinkStatus::default(); sinks];
        status
    }

    /// Adds a sink with nothing behind it, in a place of its own or in that of one that is closed. What its place has
    /// lost stays counted.
    pub(crate) fn open_sink(&self, sink: usize) {
        self.change(|state| {
            let flushed = state.requested;
            match state.sinks.get_mut(sink) {
                Some(place) => (place.flushed, place.is_closed) = (flushed, false),
                None => state.sinks.push(SinkStatus {
                    flushed,
                    ..SinkStatus::default()
                }),
            }
        });
    }

    /// Returns whether the I/O thread of a sink has ended.
    pub(crate) fn is_closed(&self, sink: usize) -> bool {
        self.lock().sinks.get(sink).is_none_or(|sink| sink.is_closed)
    }

    /// Waits until the I/O thread of a sink has ended, so long at most.
    pub(crate) fn wait_closed_sink(&self, sink: usize, timeout: Duration) -> bool {
        let is_open = |state: &mut State| state.sinks.get(sink).is_some_and(|sink| !sink.is_closed);
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, is_open);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Adds a sink that sends.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    pub(crate) fn watch(&self, sink: usize, watch: ForwardWatch) {
        self.lock().watched.push((sink, watch));
    }

    /// Returns the sinks that send.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    pub(crate) fn watched(&self) -> Vec<(usize, ForwardWatch)> {
        self.lock().watched.clone()
    }

    /// Returns a new flush ticket, for a caller of `flush` to wait for.
    pub(crate) fn request_flush(&self) -> u64 {
        let mut state = self.lock();
        state.requested += 1;
        state.requested
    }

    /// Returns the newest flush ticket.
    pub(crate) fn newest_ticket(&self) -> u64 {
        self.lock().requested
    }

    /// Notes that a sink has handed everything before a ticket to the kernel.
    pub(crate) fn note_flushed(&self, sink: usize, ticket: u64) {
        self.move_on(sink, |sink| sink.flushed = ticket.max(sink.flushed));
    }

    /// Notes that a buffer of a sink was written, or given up.
    pub(crate) fn note_progress(&self, sink: usize) {
        self.move_on(sink, |_| {});
    }

    fn move_on(&self, sink: usize, change: impl FnOnce(&mut SinkStatus)) {
        self.change(|state| {
            if let Some(sink) = state.sinks.get_mut(sink) {
                change(sink);
                sink.moved += 1;
            }
            state.progress += 1;
        });
    }

    /// Notes that a sink will never write, or make durable, what it was given.
    pub(crate) fn note_lost(&self, sink: usize) {
        self.change(|state| {
            if let Some(sink) = state.sinks.get_mut(sink) {
                sink.lost += 1;
            }
        });
    }

    /// Returns how often each sink has lost something.
    pub(crate) fn lost(&self) -> Vec<u64> {
        self.lock().sinks.iter().map(|sink| sink.lost).collect()
    }

    /// Returns how often each sink had lost something when a caller of `sync` was last answered.
    pub(crate) fn lost_told(&self) -> Vec<u64> {
        self.lock().sinks.iter().map(|sink| sink.lost_told).collect()
    }

    /// Answers a caller of `sync`: whether no sink has lost anything since the answer that was the last one when the
    /// call began. Whoever waits at the same time learns of it, too.
    pub(crate) fn tell_lost(&self, told_before: &[u64]) -> bool {
        let mut state = self.lock();
        let mut is_whole = true;
        for (number, sink) in state.sinks.iter_mut().enumerate() {
            is_whole &= sink.lost <= told_before.get(number).copied().unwrap_or(0);
            sink.lost_told = sink.lost;
        }
        is_whole
    }

    /// Returns the progress of these sinks, as bits, towards a ticket.
    pub(crate) fn flush_status(&self, ticket: u64, sinks: u32) -> FlushStatus {
        let state = self.lock();
        let some = state.sinks.iter().enumerate();
        let some = some.filter(|(number, _)| sinks >> (*number).min(31) & 1 == 1);
        FlushStatus {
            is_flushed: some.clone().all(|(_, sink)| sink.has_flushed(ticket)),
            moved: some.map(|(_, sink)| sink.moved).sum(),
        }
    }

    /// Returns a number that rises whenever anything moves.
    pub(crate) fn progress(&self) -> u64 {
        self.lock().progress
    }

    /// Notes that an I/O thread has ended.
    pub(crate) fn close(&self, sink: usize) {
        self.change(|state| {
            if let Some(sink) = state.sinks.get_mut(sink) {
                sink.is_closed = true;
            }
            state.progress += 1;
        });
    }

    /// Waits until all sinks have handed what came before a ticket to the kernel, as long as anything moves.
    pub(crate) fn wait_flushed(&self, ticket: u64, limit: WaitLimit) -> Waited {
        self.wait(limit, |sink| sink.has_flushed(ticket))
    }

    /// Waits until all I/O threads have ended, as long as anything moves.
    pub(crate) fn wait_closed(&self, limit: WaitLimit) -> Waited {
        self.wait(limit, |sink| sink.is_closed)
    }

    fn wait(&self, limit: WaitLimit, is_done: impl Fn(&SinkStatus) -> bool) -> Waited {
        let mut state = self.lock();
        let mut seen = state.progress;
        let mut deadline = limit.deadline();
        loop {
            if state.sinks.iter().all(&is_done) {
                return Waited::Done;
            }
            if state.progress != seen {
                seen = state.progress;
                deadline = limit.deadline();
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

    /// Leaves a warning for the log about the logger itself.
    pub(crate) fn notice(&self, text: String) {
        self.leave(Level::Warn, text);
    }

    /// Leaves a line for the log that warns of nothing that has happened.
    pub(crate) fn inform(&self, text: String) {
        self.leave(Level::Info, text);
    }

    fn leave(&self, level: Level, mut text: String) {
        text.truncate(text.floor_char_boundary(NOTICE_BYTES_MAX));
        self.change(|state| {
            if state.notices.len() < NOTICES_MAX {
                state.notices.push_back((level, text));
            }
        });
    }

    pub(crate) fn take_notices(&self) -> VecDeque<(Level, String)> {
        let mut state = self.lock();
        state.takes += 1;
        std::mem::take(&mut state.notices)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
