//! Notes a fatal signal in the session's header, then lets the signal take its course.
#![allow(unsafe_code)]

use crate::clock::unix_ns;
use crate::session_header::SessionHeader;
use crate::static_cell::StaticCell;
use crate::sys;
use core::sync::atomic::{AtomicU32, Ordering};
use std::cell::UnsafeCell;

/// The signals that end a process with a core dump.
const FATAL: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGSYS,
];

static HEADER: StaticCell<&'static SessionHeader> = StaticCell::empty();
static INSTALLED: AtomicU32 = AtomicU32::new(0);

/// The actions that were in force before ours.
struct Earlier(UnsafeCell<[core::mem::MaybeUninit<libc::sigaction>; FATAL.len()]>);
// SAFETY: written once by `install` before a handler of ours is in force, and read by handlers afterwards.
unsafe impl Sync for Earlier {}
static EARLIER: Earlier = Earlier(UnsafeCell::new(
    [const { core::mem::MaybeUninit::uninit() }; FATAL.len()],
));

/// From now on SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE and SIGSYS are noted in this header before the action that was
/// in force until now takes over: the handler of the program or of the runtime, or the end of the process.
pub fn note_fatal_signals(header: &'static SessionHeader) {
    HEADER.set(header);
    // Relaxed: only the thread that sees the 0 installs.
    if INSTALLED.swap(1, Ordering::Relaxed) != 0 {
        return;
    }
    for (index, signal) in FATAL.into_iter().enumerate() {
        // SAFETY: `sigaction` is plain numbers, for which zero is valid; the handler only makes plain stores and calls
        // that are safe in signal handlers. The earlier action is stored before ours can run for this signal, as the
        // system call fills it in first.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = note as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &action, (*EARLIER.0.get())[index].as_mut_ptr());
        }
    }
}

/// Forgets the header: the session has ended.
pub fn forget_header() {
    HEADER.clear();
}

/// Keeps signals that are sent to the process away from the calling thread: they are for the program's own threads, and
/// a pipe without a reader is an error of `write` here, never a signal. Faults of the thread itself are not held up.
pub fn block_in_thread() {
    // SAFETY: the set is plain memory that the calls fill in; only the calling thread's mask changes.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut set);
        for fatal in FATAL {
            libc::sigdelset(&mut set, fatal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, core::ptr::null_mut());
    }
}

extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if let Some(header) = HEADER.value() {
        header.note_signal(signal.unsigned_abs(), sys::thread_id(), unix_ns());
    }
    let Some(index) = FATAL.iter().position(|fatal| *fatal == signal) else {
        return;
    };
    // SAFETY: the earlier action was stored by `note_fatal_signals`. It is put back; a fault comes again when the
    // handler returns, and a signal that was sent is sent again.
    unsafe {
        libc::sigaction(signal, (*EARLIER.0.get())[index].as_ptr(), core::ptr::null_mut());
        if signal == libc::SIGABRT || (*info).si_code <= 0 {
            libc::raise(signal);
        }
    }
}
