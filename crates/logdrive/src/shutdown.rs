//! Shutdown at an ordinary end that the program has not announced: an exit without a dropped guard, or a signal that asks
//! the process to end. The log is drained within a bound, and then the end goes on as it would have.

use logdrive_ring::{SessionHeader, Unseen, local, ordinary_end, signals};
use logdrive_wire::Level;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The logger that is to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shutdown {
    /// Set if it runs, and was not inherited from the parent of a `fork`. Takes no lock.
    pub(crate) is_running: fn() -> bool,
    /// Ends it, at the latest at that moment.
    pub(crate) stop: fn(Instant, Ending),
}

/// Occasion of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The process succeeded, which the log does not say.
    Success,
    /// The log says the cause, at this level.
    Cause(Level),
    /// A fatal signal.
    Crash,
}

static SHUTDOWN: OnceLock<Shutdown> = OnceLock::new();
/// Time that a drain may take, in nanoseconds; 0 for none.
static TIMEOUT_NS: AtomicU64 = AtomicU64::new(0);

/// From now on ordinary ends drain the log. Returns the thread that waits for signals; `None` where none is taken.
pub(crate) fn arm(
    shutdown: Shutdown,
    header: &'static SessionHeader,
    timeout: Duration,
) -> Option<JoinHandle<()>> {
    // The same at every start.
    let _ = SHUTDOWN.set(shutdown);
    let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    // Relaxed: ends come later, from this thread or behind a lock.
    TIMEOUT_NS.store(timeout_ns, Ordering::Relaxed);
    ordinary_end::watch(header, timeout);
    ordinary_end::on_exit(at_exit);
    if timeout.is_zero() {
        return None;
    }
    let thread = Builder::new()
        .name("logdrive-end".to_owned())
        .spawn(wait_for_signals);
    let Ok(thread) = thread else {
        // Without it signals would do nothing at all, and nobody would answer a crash.
        ordinary_end::watch(header, Duration::ZERO);
        return None;
    };
    ordinary_end::take_signals();
    Some(thread)
}

/// The logger has ended: signals take their default action again.
pub(crate) fn disarm(thread: Option<JoinHandle<()>>) {
    let Some(thread) = thread else {
        return;
    };
    // A signal that has come before is the thread's, which ends the process.
    if ordinary_end::release_signals() {
        // It does nothing any more that could fail.
        let _ = thread.join();
    }
}

fn wait_for_signals() {
    local::deny_thread();
    signals::block_in_thread();
    while let Some(signal) = ordinary_end::wait_for_signal() {
        if ordinary_end::is_fatal(signal) {
            drain(Ending::Crash);
            return ordinary_end::release_fatal();
        }
        if ordinary_end::is_first_process() {
            // First, so that one that comes meanwhile is not missed.
            ordinary_end::forget_signal();
            write_and_go_on(signal);
        } else {
            drain(Ending::Cause(Level::Info));
            ordinary_end::end_by(signal);
            ordinary_end::forget_signal();
        }
    }
}

/// The kernel keeps the first process of a container from signals that it does not handle, so that it goes on until it is
/// killed: what it has logged is written now.
fn write_and_go_on(signal: u32) {
    // A thread of its own, because this one cannot log.
    let thread = Builder::new().name("logdrive-note".to_owned()).spawn(move || {
        signals::block_in_thread();
        crate::warn!(
            target: "logdrive",
            signal,
            "this process is the first of its container, which no signal ends that it does not handle: run it under an \
             init, or handle the signal"
        );
        crate::flush();
    });
    if let Ok(thread) = thread {
        // It does nothing that could fail.
        let _ = thread.join();
    }
}

fn at_exit() {
    let _unseen = Unseen::new();
    // A child of a `fork` that has logged nothing has no logger, and must not touch the locks of its parent's.
    if SHUTDOWN.get().is_some_and(|shutdown| (shutdown.is_running)()) {
        let status = ordinary_end::exit_status();
        drain(match status {
            None | Some(0) => Ending::Success,
            Some(_) => Ending::Cause(Level::Warn),
        });
    }
}

/// Drains the log and ends the logger, and waits for that no longer than the bound, whatever hangs.
fn drain(ending: Ending) {
    // Relaxed: see `arm`.
    let timeout = Duration::from_nanos(TIMEOUT_NS.load(Ordering::Relaxed));
    if timeout.is_zero() {
        return;
    }
    // A part is for what is left to do when a sink takes nothing more.
    let until = Instant::now() + timeout - timeout / 8;
    let done = Arc::new((Mutex::new(false), Condvar::new()));
    let thread = {
        let done = Arc::clone(&done);
        Builder::new().name("logdrive-stop".to_owned()).spawn(move || {
            local::deny_thread();
            signals::block_in_thread();
            stop(until, ending);
            *done.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            done.1.notify_all();
        })
    };
    if thread.is_err() {
        return stop(until, ending);
    }
    let is_done = done.0.lock().unwrap_or_else(PoisonError::into_inner);
    // Records left when the time is over stay in the session.
    drop(done.1.wait_timeout_while(is_done, timeout, |is_done| !*is_done));
}

fn stop(until: Instant, ending: Ending) {
    if let Some(shutdown) = SHUTDOWN.get() {
        (shutdown.stop)(until, ending);
    }
}
