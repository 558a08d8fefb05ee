//! The thread that tidies where compression takes time: of low priority, alive only while there is
//! work, and can be stopped between two blocks. At most one request waits: a pass checks all files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::{FileError, FileOperation};
use super::tidy::Tidy;

/// The way to the thread. Dropped, it asks a running pass to stop and does not wait for it: a disk
/// that hangs must not hold up the end of a program, and the next open takes the work up again.
#[derive(Debug, Default)]
pub(crate) struct TidyThread {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    request: Option<Request>,
    running: bool,
}

#[derive(Debug)]
struct Request {
    tidy: Tidy,
    now_unix_s: i64,
    opening: bool,
}

impl TidyThread {
    /// Asks for a pass; starts the thread if none runs.
    pub(crate) fn request(&self, tidy: Tidy, now_unix_s: i64, opening: bool) {
        let (notices, dir) = (tidy.notices.clone(), tidy.names.dir.clone());
        let mut state = self.shared.state();
        let opening = opening || state.request.as_ref().is_some_and(|request| request.opening);
        state.request = Some(Request {
            tidy,
            now_unix_s,
            opening,
        });
        if state.running {
            return;
        }
        let shared = self.shared.clone();
        let builder = std::thread::Builder::new().name("logdrive-tidy".into());
        match builder.spawn(move || work(&shared)) {
            Ok(_) => state.running = true,
            Err(cause) => {
                state.request = None;
                notices.push(FileError::io(FileOperation::StartThread, dir, cause));
            }
        }
    }

    /// Waits until no pass runs or waits; `false` when that takes longer.
    pub(crate) fn wait_idle(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.state();
        while state.running {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for TidyThread {
    fn drop(&mut self) {
        // Relaxed: the flag carries no data, and the thread reads it repeatedly.
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    /// Nothing between lock and unlock panics, so a poisoned state is whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread: passes until no request is left.
fn work(shared: &Shared) {
    logdrive_ring::signals::block_in_thread();
    // On Linux this touches the calling thread alone. Without the right to it the work is done all
    // the same, only less politely.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
    loop {
        let request = {
            let mut state = shared.state();
            match state.request.take() {
                Some(request) if !shared.stop.load(Ordering::Relaxed) => request,
                _ => {
                    state.running = false;
                    shared.changed.notify_all();
                    return;
                }
            }
        };
        request
            .tidy
            .run(request.now_unix_s, request.opening, &shared.stop);
    }
}
