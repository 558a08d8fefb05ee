//! The one logger of the process: who holds it, its start, its end, and a change of its options while threads log.

use crate::error::{Code, fail};
use crate::options::Options;
use logdrive::{Guard, InitError, Stopped};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Exchanges that one call may fall into, each of them between two loggers: more than a thread can miss while others run.
const CHANGES_MAX: usize = 100;

/// The running logger, and whether it is being exchanged.
#[derive(Debug)]
pub struct Logger {
    guard: Mutex<Option<Guard>>,
    /// True if there is a guard.
    running: AtomicBool,
    /// Threads that find no session wait for it while this is set.
    changing: AtomicBool,
    /// Rises with each exchange, so that a call that fell between two loggers is made again.
    changes: AtomicU64,
    gate: Mutex<()>,
}

/// The logger of this process.
pub(crate) static LOGGER: Logger = Logger {
    guard: Mutex::new(None),
    running: AtomicBool::new(false),
    changing: AtomicBool::new(false),
    changes: AtomicU64::new(0),
    gate: Mutex::new(()),
};

impl Logger {
    pub(crate) fn start(&self, options: &Options) -> c_int {
        let Some(_change) = Change::begin() else {
            return Code::Start as c_int;
        };
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_some() {
            return fail(Code::Running, "logging runs already in this process");
        }
        Self::start_into(&mut guard, options)
    }

    fn start_into(guard: &mut Option<Guard>, options: &Options) -> c_int {
        match options.builder().init() {
            Ok(started) => {
                *guard = Some(started);
                LOGGER.running.store(true, Ordering::Relaxed);
                Code::Ok as c_int
            }
            Err(InitError::Running) => fail(Code::Running, InitError::Running.to_string()),
            Err(error) => fail(Code::Start, error.to_string()),
        }
    }

    pub(crate) fn stop(&self) -> c_int {
        let Some(_change) = Change::begin() else {
            return Code::Incomplete as c_int;
        };
        let taken = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(guard) = taken else {
            return fail(Code::NotRunning, "no logger runs in this process");
        };
        self.running.store(false, Ordering::Relaxed);
        match guard.stop() {
            Some((Stopped::LeftForRecovery, _)) => fail(
                Code::Incomplete,
                "a log file made no progress; what it did not take stays in the session: run `logdrive recover`",
            ),
            _ => Code::Ok as c_int,
        }
    }

    /// Ends the logger and starts another one; calls that come in between wait.
    pub(crate) fn restart(&self, options: &Options) -> c_int {
        let Some(_change) = Change::begin() else {
            return Code::Start as c_int;
        };
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        // SYNC(changing): whoever finds no session after this finds the flag, and waits for the gate.
        self.changing.store(true, Ordering::SeqCst);
        self.running.store(false, Ordering::Relaxed);
        if let Some(old) = guard.take() {
            // What could not be written is recovered by the start that follows, or by the next one.
            let _ = old.stop();
        }
        let started = Self::start_into(&mut guard, options);
        // SYNC(changing): the count moves before the flag falls, so that whoever misses the flag finds the count.
        self.changes.fetch_add(1, Ordering::SeqCst);
        // SYNC(changing): as above.
        self.changing.store(false, Ordering::SeqCst);
        started
    }

    /// Does the work once the logger is not being exchanged, and again as often as it failed because it was.
    pub(crate) fn through_changes(&self, work: impl Fn() -> bool) -> bool {
        for _ in 0..CHANGES_MAX {
            // SYNC(changing): pairs with `restart`.
            let may_wait = !self.changing.load(Ordering::SeqCst) || self.wait();
            // SYNC(changing): pairs with `restart`.
            let before = self.changes.load(Ordering::SeqCst);
            if work() {
                return true;
            }
            // SYNC(changing): pairs with `restart`.
            let is_changing = self.changing.load(Ordering::SeqCst);
            // SYNC(changing): pairs with `restart`.
            let is_between = is_changing || self.changes.load(Ordering::SeqCst) != before;
            if !is_between || !may_wait {
                return false;
            }
        }
        false
    }

    /// Waits for the end of an exchange. `false`: a signal handler inside of a log call, or of a change, must not wait for
    /// anybody.
    fn wait(&self) -> bool {
        let may_wait = !logdrive_ring::local::is_busy() && !CHANGES.get();
        if may_wait {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
        }
        may_wait
    }

    /// Returns true if a logger was started here and has not ended. For signal handlers, too.
    pub(crate) fn is_running(&self) -> bool {
        // Relaxed: an answer that may be old when it arrives.
        self.running.load(Ordering::Relaxed)
    }
}

thread_local! {
    /// Set while the thread starts, ends or exchanges the logger.
    static CHANGES: Cell<bool> = const { Cell::new(false) };
}

/// A start, end or exchange of the logger by this thread.
struct Change;

impl Change {
    /// `None` in a signal handler that has interrupted the logger or another change, which holds locks; no text is noted,
    /// because that allocates.
    fn begin() -> Option<Self> {
        let is_interrupted = logdrive_ring::local::is_busy() || CHANGES.replace(true);
        (!is_interrupted).then_some(Self)
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        CHANGES.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_falls_into_several_exchanges_is_made_until_it_falls_into_none() {
        let logger = Logger {
            guard: Mutex::new(None),
            running: AtomicBool::new(false),
            changing: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            gate: Mutex::new(()),
        };
        let calls = Cell::new(0);
        let is_made = logger.through_changes(|| {
            calls.set(calls.get() + 1);
            if calls.get() < 4 {
                logger.changes.fetch_add(1, Ordering::SeqCst);
            }
            calls.get() == 4
        });
        assert!(is_made);
        calls.set(0);
        assert!(!logger.through_changes(|| {
            calls.set(calls.get() + 1);
            false
        }));
        assert_eq!(calls.get(), 1, "what fails for another reason is not tried again");
    }
}
