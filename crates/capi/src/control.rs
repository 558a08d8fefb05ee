//! The one logger of the process: who holds it, its start, its end, and a change of its options while threads log.

use crate::error::{Code, fail};
use crate::options::Options;
use logdrive::{Guard, InitError, Stopped};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The running logger, and whether it is being exchanged.
#[derive(Debug)]
pub struct Logger {
    guard: Mutex<Option<Guard>>,
    /// Threads that find no session wait for it while this is set.
    changing: AtomicBool,
    /// Rises with each exchange, so that a call that fell between two loggers is made again.
    changes: AtomicU64,
    gate: Mutex<()>,
}

/// The logger of this process.
pub(crate) static LOGGER: Logger = Logger {
    guard: Mutex::new(None),
    changing: AtomicBool::new(false),
    changes: AtomicU64::new(0),
    gate: Mutex::new(()),
};

impl Logger {
    pub(crate) fn start(&self, options: &Options) -> c_int {
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
                Code::Ok as c_int
            }
            Err(InitError::Running) => fail(Code::Running, InitError::Running.to_string()),
            Err(error) => fail(Code::Start, error.to_string()),
        }
    }

    pub(crate) fn stop(&self) -> c_int {
        let taken = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(guard) = taken else {
            return fail(Code::NotRunning, "no logger runs in this process");
        };
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
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        // SYNC(changing): whoever finds no session after this finds the flag, and waits for the gate.
        self.changing.store(true, Ordering::SeqCst);
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

    /// Does the work once the logger is not being exchanged, and again where it failed because it was.
    pub(crate) fn through_changes(&self, work: impl Fn() -> bool) -> bool {
        // SYNC(changing): pairs with `restart`.
        let before = self.changes.load(Ordering::SeqCst);
        // SYNC(changing): pairs with `restart`.
        if self.changing.load(Ordering::SeqCst) {
            self.wait();
        }
        if work() {
            return true;
        }
        // SYNC(changing): pairs with `restart`.
        let changing = self.changing.load(Ordering::SeqCst);
        if changing {
            self.wait();
        }
        // SYNC(changing): pairs with `restart`.
        (changing || self.changes.load(Ordering::SeqCst) != before) && work()
    }

    fn wait(&self) {
        // A signal handler inside of a log call must not wait for anybody.
        if !logdrive_ring::local::is_busy() {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Returns true if a logger was started here and has not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.guard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }
}
