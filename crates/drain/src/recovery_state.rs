//! State of a recovery that runs in the background: the files that it works on, so that a sink that begins opens them
//! afterwards, and its progress.

use crate::limits::{NO_PROGRESS, RECOVERY_END_MS, RECOVERY_LOOK_MS};
use crate::status::BackendStatus;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shared by the thread that recovers, the start that waits for it a moment, and the I/O threads of new sinks.
#[derive(Debug)]
pub(crate) struct RecoveryState {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The files of all sessions are known.
    is_listed: bool,
    is_done: bool,
    is_stopping: bool,
    /// Files of sessions that are still to be recovered, each as often as sessions log to it.
    pending: Vec<PathBuf>,
    /// Files of sessions that were recovered or given up, with what the threads share that may still write there.
    ending: Vec<(Vec<PathBuf>, Arc<BackendStatus>)>,
    /// State that the threads of the session under recovery share.
    current: Option<Arc<BackendStatus>>,
    /// Sessions that were finished or given up.
    finished: u64,
    /// Progress as it was seen last, and the time of that.
    seen: (u64, Instant),
}

impl State {
    fn holds(&mut self, path: &Path) -> bool {
        // A thread that writes has its own count of the status.
        self.ending.retain(|(_, status)| Arc::strong_count(status) > 1);
        let is_ending = |files: &Vec<PathBuf>| files.iter().any(|file| file == path);
        // Its files are known within milliseconds, unless the run directory itself does not answer.
        (!self.is_listed && self.seen.1.elapsed() < NO_PROGRESS)
            || self.pending.iter().any(|file| file == path)
            || self.ending.iter().any(|(files, _)| is_ending(files))
    }

    fn progress(&self) -> u64 {
        let current = self.current.as_ref().map_or(0, |status| status.progress());
        self.finished.wrapping_mul(1 << 32).wrapping_add(current)
    }

    /// Time since anything has moved.
    fn stands_for(&mut self) -> Duration {
        let progress = self.progress();
        if self.seen.0 != progress {
            self.seen = (progress, Instant::now());
        }
        self.seen.1.elapsed()
    }
}

impl RecoveryState {
    /// State of a recovery that is about to begin.
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                is_listed: false,
                is_done: false,
                is_stopping: false,
                pending: Vec::new(),
                ending: Vec::new(),
                current: None,
                finished: 0,
                seen: (0, Instant::now()),
            }),
            changed: Condvar::new(),
        }
    }

    /// State where nothing is recovered.
    pub(crate) fn none() -> Self {
        let none = Self::new();
        none.list(Vec::new());
        none.end();
        none
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Notes the files of all sessions that will be recovered.
    pub(crate) fn list(&self, files: Vec<PathBuf>) {
        self.change(|state| (state.pending, state.is_listed) = (files, true));
    }

    /// Notes what the threads of the session share that is recovered now.
    pub(crate) fn begin(&self, status: &Arc<BackendStatus>) {
        self.change(|state| state.current = Some(Arc::clone(status)));
    }

    /// Notes that one session is recovered or given up: its files are free as soon as its threads have ended.
    pub(crate) fn finish(&self, files: &[PathBuf]) {
        self.change(|state| {
            for file in files {
                if let Some(at) = state.pending.iter().position(|pending| pending == file) {
                    state.pending.swap_remove(at);
                }
            }
            if let Some(status) = state.current.take() {
                state.ending.push((files.to_vec(), status));
            }
            state.finished += 1;
        });
    }

    /// Notes that no more sessions will be recovered.
    pub(crate) fn end(&self) {
        self.change(|state| {
            state.pending.clear();
            (state.is_listed, state.is_done) = (true, true);
        });
    }

    /// Time since anything has moved.
    pub(crate) fn stands_for(&self) -> Duration {
        self.lock().stands_for()
    }

    /// Returns whether the session after this one is left to another start.
    pub(crate) fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    /// Returns whether no more sessions will be recovered.
    #[cfg(test)]
    pub(crate) fn is_done(&self) -> bool {
        self.lock().is_done
    }

    /// Waits until all is recovered, so long at most.
    pub(crate) fn wait(&self, timeout: Duration) {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |state| !state.is_done);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Has the recovery end: gives it a second for all that is left, and then ends it after the session that it works on,
    /// for which this waits as long as anything moves, and five seconds more; with `end` for half of the time until then.
    pub(crate) fn stop(&self, end: Option<Instant>) {
        let now = Instant::now();
        let half = end.map(|end| end.saturating_duration_since(now) / 2);
        let until = now + Duration::from_millis(RECOVERY_END_MS).min(half.unwrap_or(Duration::MAX));
        // The other half of a short time is for the program's own records.
        let is_over = || Instant::now() >= until && end.is_some();
        let mut state = self.lock();
        while !state.is_done && !is_over() && state.stands_for() < NO_PROGRESS {
            let look = Duration::from_millis(RECOVERY_LOOK_MS);
            state.is_stopping = Instant::now() >= until;
            let waited = self.changed.wait_timeout(state, look);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_stopping = true;
    }

    /// Waits until no recovery works on a file any more, for the I/O thread of a sink; what moves there counts as
    /// progress of that sink. `false`: nothing moves for five seconds, or the logger gives the sink up.
    pub(crate) fn wait_for_file(&self, path: &Path, sink: usize, status: &BackendStatus) -> bool {
        let mut progress = None;
        let mut state = self.lock();
        while state.holds(path) {
            if status.is_abandoned() || state.stands_for() >= NO_PROGRESS {
                return false;
            }
            if progress.replace(state.seen.0) != Some(state.seen.0) {
                status.note_progress(sink);
            }
            let look = Duration::from_millis(RECOVERY_LOOK_MS);
            let waited = self.changed.wait_timeout(state, look);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Returns whether a recovery works on a file.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.lock().holds(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_held_until_its_session_is_finished_and_its_threads_have_ended() {
        let state = RecoveryState::new();
        let (log, other) = (PathBuf::from("/logs/a.log"), PathBuf::from("/logs/b.log"));
        assert!(state.holds(&log) && state.holds(&other), "nobody knows yet");
        state.list(vec![log.clone(), log.clone()]);
        assert!(state.holds(&log) && !state.holds(&other));
        let status = Arc::new(BackendStatus::new(1));
        state.begin(&status);
        state.finish(std::slice::from_ref(&log));
        state.finish(std::slice::from_ref(&log));
        assert!(state.holds(&log), "a thread has it");
        drop(status);
        assert!(!state.holds(&log));
    }
}
