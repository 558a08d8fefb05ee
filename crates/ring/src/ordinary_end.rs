//! Ordinary ends of the process: `exit`, `quick_exit`, and the signals that ask a process to end. Here they are only
//! noted: a function that the front end gives runs at an exit, and a thread of the front end waits for a signal.
#![allow(unsafe_code)]

use crate::session_header::SessionHeader;
use crate::static_cell::StaticCell;
use crate::{clock, sys};
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::Duration;

/// The signals whose default action ends a process that was asked to end.
const ASKING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// In [`NEWS`]: nobody waits for signals any more.
const CLOSED: u32 = u32::MAX;

static HEADER: StaticCell<&'static SessionHeader> = StaticCell::empty();
/// Process whose thread waits for signals; 0 for none. A child of a `fork` has the handler without the thread.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The first signal that came, [`CLOSED`], or 0. The thread sleeps on it.
static NEWS: AtomicU32 = AtomicU32::new(0);
static AT_EXIT: OnceLock<fn()> = OnceLock::new();
/// Time that a fatal signal waits for the drain, in nanoseconds; 0 for none.
static LAST_WAIT_NS: AtomicU64 = AtomicU64::new(0);
/// 1 once the thread has dealt with a fatal signal.
static DEALT_WITH: AtomicU32 = AtomicU32::new(0);

/// Begins to note the end of the process in this header. `last_wait` is the time that a fatal signal, where it is noted,
/// waits for a thread that calls [`wait_for_signal`].
pub fn watch(header: &'static SessionHeader, last_wait: Duration) {
    let last_wait_ns = u64::try_from(last_wait.as_nanos()).unwrap_or(u64::MAX);
    HEADER.set(header);
    // Relaxed: handlers read them after `sigaction`, which is a system call.
    LAST_WAIT_NS.store(last_wait_ns, Ordering::Relaxed);
    DEALT_WITH.store(0, Ordering::Relaxed);
    NEWS.store(0, Ordering::Relaxed);
    OWNER.store(std::process::id(), Ordering::Relaxed);
}

/// Takes those of SIGTERM, SIGINT and SIGHUP that still have their default action, for a thread that calls
/// [`wait_for_signal`]. A signal that the program handles or ignores stays as it is; a handler that the program installs
/// later replaces ours. Linux only.
pub fn take_signals() {
    if !cfg!(any(target_os = "linux", target_os = "android")) {
        return;
    }
    for signal in ASKING {
        let action = action_of(signal);
        if action == libc::SIG_DFL || action == ours() {
            set_action(signal, ours());
        }
    }
}

/// Gives the signals their default action back, where it is still ours, and ends the wait of the thread. A signal that
/// has come before is still the thread's. Returns whether there is none, so that the thread ends by itself.
pub fn release_signals() -> bool {
    for signal in ASKING {
        if action_of(signal) == ours() {
            set_action(signal, libc::SIG_DFL);
        }
    }
    HEADER.clear();
    // SYNC(news)
    let news = NEWS.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire);
    sys::futex_wake(&NEWS);
    news.is_ok()
}

/// In the child of a `fork`: its handler has no thread to hand a signal over to.
pub fn forget_signals() {
    HEADER.clear();
    // Relaxed: the child has one thread.
    OWNER.store(0, Ordering::Relaxed);
}

/// Waits for a signal that asks the process to end, or that ends it and waits for [`release_fatal`]. `None` after [`release_signals`].
pub fn wait_for_signal() -> Option<u32> {
    loop {
        // SYNC(news): what was done before is visible.
        match NEWS.load(Ordering::Acquire) {
            0 => sys::futex_wait(&NEWS, 0, u64::MAX / 2),
            CLOSED => return None,
            signal => return Some(signal),
        }
    }
}

/// Goes on waiting after a signal that did not end the process.
pub fn forget_signal() {
    // SYNC(news)
    NEWS.store(0, Ordering::Release);
}

/// Returns whether a signal is one that the process cannot live on from, whose thread waits.
pub fn is_fatal(signal: u32) -> bool {
    !ASKING.contains(&signal.cast_signed())
}

/// Lets the thread go on that a fatal signal has stopped: the signal takes its course.
pub fn release_fatal() {
    // SYNC(dealt with)
    DEALT_WITH.store(1, Ordering::Release);
    sys::futex_wake(&DEALT_WITH);
}

/// In the handler of a fatal signal: has the log written, and waits for that, so long at most.
pub(crate) fn wait_for_last_words(signal: u32) {
    // Relaxed: see `watch`.
    let wait_ns = LAST_WAIT_NS.load(Ordering::Relaxed);
    let is_ours = OWNER.load(Ordering::Relaxed) == std::process::id();
    if wait_ns == 0 || !is_ours || !post(signal) {
        return;
    }
    let end_ns = clock::monotonic_ns().saturating_add(wait_ns);
    // SYNC(dealt with)
    while DEALT_WITH.load(Ordering::Acquire) == 0 {
        let left_ns = end_ns.saturating_sub(clock::monotonic_ns());
        if left_ns == 0 {
            return;
        }
        sys::futex_wait(&DEALT_WITH, 0, left_ns);
    }
}

/// Lets a signal take its course: its default action where the handler is still ours, else the program's own handler.
/// Returns where the kernel protects the process from it, as the first one of a container.
pub fn end_by(signal: u32) {
    let signal = signal.cast_signed();
    if action_of(signal) != ours() && action_of(signal) != libc::SIG_DFL {
        // SAFETY: sends a signal to this process; takes no pointers.
        unsafe { libc::kill(libc::getpid(), signal) };
        return;
    }
    set_action(signal, libc::SIG_DFL);
    // SAFETY: the set is plain memory that the calls fill in, and only this thread's mask changes. The signal is for
    // this thread, because all others of the program may have blocked it.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, core::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Returns whether the kernel leaves out signals with their default action for this process: the first one of a
/// container.
pub fn is_first_process() -> bool {
    std::process::id() == 1
}

/// Status of the exit that has begun; `None` where there is none, or it is unknown.
pub fn exit_status() -> Option<u8> {
    HEADER.value()?.end().exit()?
}

/// Has a function called when the process ends by a return from `main`, `exit` or `quick_exit`: the first one stays.
/// After `exit` it runs behind all handlers and destructors of the program, so that what they log is there as well.
pub fn on_exit(handler: fn()) {
    if AT_EXIT.set(handler).is_err() {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        // A linker takes from a static library only what is referred to.
        core::hint::black_box(&END);
        // SAFETY: the functions live as long as the program. Where there is no room for one, the other ends are left.
        unsafe {
            at_quick_exit(at_exit);
            #[cfg(target_env = "gnu")]
            {
                let module = core::ptr::addr_of!(__dso_handle).cast_mut().cast();
                __cxa_atexit(note_exit, core::ptr::null_mut(), module);
                __cxa_at_quick_exit(note_exit, module);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    // SAFETY: as above.
    unsafe {
        libc::atexit(at_exit)
    };
}

#[cfg(target_os = "linux")]
unsafe extern "C" {
    fn at_quick_exit(handler: extern "C" fn()) -> libc::c_int;
}

// In glibc the functions that these take have the status as their second argument, as those of `on_exit`; unlike with
// `on_exit`, they go with their library when that is unloaded.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    static __dso_handle: u8;
    fn __cxa_atexit(
        handler: extern "C" fn(*mut c_void, libc::c_int),
        argument: *mut c_void,
        module: *mut c_void,
    ) -> libc::c_int;
    fn __cxa_at_quick_exit(
        handler: extern "C" fn(*mut c_void, libc::c_int),
        module: *mut c_void,
    ) -> libc::c_int;
}

/// Runs at the begin of an exit, and only notes its status. The drain comes at its end.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
extern "C" fn note_exit(_argument: *mut c_void, status: libc::c_int) {
    if let Some(header) = HEADER.value() {
        header.end().note_exit(Some(status.cast_unsigned() as u8));
    }
}

#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section holds addresses of functions without arguments, which the loader calls once each.
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    if let Some(header) = HEADER.value().filter(|header| header.end().exit().is_none()) {
        header.end().note_exit(None);
    }
    if let Some(handler) = AT_EXIT.get() {
        // A panic has nobody to go to, and must not keep the process from its end.
        let _ = catch_unwind(AssertUnwindSafe(handler));
    }
}

/// The handler: notes the signal and wakes the thread.
extern "C" fn note(signal: libc::c_int) {
    let error = sys::errno();
    // A handler that the program has installed since, and that calls the one before it, decides by itself.
    if action_of(signal) == ours() {
        // Relaxed: see `take_signals`.
        if OWNER.load(Ordering::Relaxed) == std::process::id() {
            hand_over(signal.unsigned_abs());
        } else {
            // A child of a `fork`: it ends as it would have. The signal is blocked until this handler returns.
            set_action(signal, libc::SIG_DFL);
            // SAFETY: takes no pointers.
            unsafe { libc::raise(signal) };
        }
    }
    sys::set_errno(error);
}

fn hand_over(signal: u32) {
    if let Some(header) = HEADER.value().filter(|_| !is_first_process()) {
        header
            .end()
            .note_signal(signal, sys::thread_id(), clock::unix_ns());
    }
    post(signal);
}

/// Hands a signal over to the thread; `false` when another one has come before.
fn post(signal: u32) -> bool {
    // SYNC(news)
    let posted = NEWS.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
    sys::futex_wake(&NEWS);
    posted.is_ok()
}

fn ours() -> libc::sighandler_t {
    note as *const () as libc::sighandler_t
}

/// Address of a signal's handler, `SIG_DFL` or `SIG_IGN`. Safe in signal handlers.
pub(crate) fn action_of(signal: libc::c_int) -> libc::sighandler_t {
    // SAFETY: `sigaction` is plain numbers, for which zero is valid, and the call fills it in.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        libc::sigaction(signal, core::ptr::null(), &mut action);
        action.sa_sigaction
    }
}

/// Safe in signal handlers.
pub(crate) fn set_action(signal: libc::c_int, handler: libc::sighandler_t) {
    // SAFETY: `sigaction` is plain numbers, for which zero is valid; the handler calls what signal handlers may, and
    // calls of the program that it interrupts begin again.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &action, core::ptr::null_mut());
    }
}
