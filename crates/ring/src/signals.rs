//! Fatal signals: notes them in the session's header with the calls of the thread, has the log written, and lets the
//! signal take its course.
#![allow(unsafe_code)]

use crate::backtrace;
use crate::clock::unix_ns;
use crate::ordinary_end::{action_of, wait_for_last_words};
use crate::session_header::SessionHeader;
use crate::static_cell::StaticCell;
use crate::sys;
use crate::thread_sanitizer::Unseen;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::cell::{Cell, UnsafeCell};

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
/// Thread whose fatal signal is being noted; 0 for none.
static NOTING: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Set in the logger's own threads.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
    /// Set there for the whole thread, where there is a sanitizer.
    static UNSEEN: Cell<Option<Unseen>> = const { Cell::new(None) };
}

/// The actions that were in force before ours.
struct Earlier(UnsafeCell<[core::mem::MaybeUninit<libc::sigaction>; FATAL.len()]>);
// SAFETY: written once by `install` before a handler of ours is in force, and read by handlers afterwards.
unsafe impl Sync for Earlier {}
static EARLIER: Earlier = Earlier(UnsafeCell::new(
    [const { core::mem::MaybeUninit::uninit() }; FATAL.len()],
));

/// Signals, as bits by their places in [`FATAL`], whose earlier handler has put the default action in its own place.
static WITHDRAWN: AtomicU32 = AtomicU32::new(0);

/// The action that takes over from ours.
fn earlier_of(index: usize) -> libc::sigaction {
    // SAFETY: stored by `note_fatal_signals` before a handler of ours was in force; plain numbers, for which zero is valid
    // and means the default action.
    unsafe {
        // Relaxed: a bit that is valid by itself.
        match WITHDRAWN.load(Ordering::Relaxed) & 1 << index {
            0 => (*EARLIER.0.get())[index].assume_init(),
            _ => core::mem::zeroed(),
        }
    }
}

/// From now on SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE and SIGSYS are noted in this header before the action that was
/// in force until now takes over: the handler of the program or of the runtime, or the end of the process. A signal that
/// a handler of the program deals with, so that the process goes on, leaves no note.
pub fn note_fatal_signals(header: &'static SessionHeader) {
    HEADER.set(header);
    // Relaxed: only the thread that sees the 0 installs.
    if INSTALLED.swap(1, Ordering::Relaxed) != 0 {
        return;
    }
    backtrace::prepare();
    for (index, signal) in FATAL.into_iter().enumerate() {
        // SAFETY: as below; the earlier action is stored before ours can run for this signal, as the system call fills it
        // in first.
        unsafe { install(signal, (*EARLIER.0.get())[index].as_mut_ptr()) };
    }
}

/// # Safety
/// `earlier` is null, or points to memory for an action that nobody reads meanwhile.
unsafe fn install(signal: libc::c_int, earlier: *mut libc::sigaction) {
    // SAFETY: `sigaction` is plain numbers, for which zero is valid; the handler only makes plain stores and calls that are
    // safe in signal handlers.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = ours();
        // A fault of the handler itself finds the handler again, which then passes it on.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigaction(signal, &action, earlier);
    }
}

/// Forgets the header: the session has ended.
pub fn forget_header() {
    HEADER.clear();
}

/// Keeps signals that are sent to the process away from the calling thread: they are for the program's own threads, and
/// a pipe without a reader is an error of `write` here, never a signal. Faults of the thread itself are not held up.
/// A thread sanitizer of the program sees nothing of the thread.
pub fn block_in_thread() {
    IS_OWN.set(true);
    let unseen = Unseen::new();
    if unseen.is_effective() {
        UNSEEN.set(Some(unseen));
    }
    core::mem::forget(Held::new());
}

/// Signals of the calling thread are held up until this is dropped, so that no handler interrupts the thread; faults of
/// the thread itself are not. Two system calls. May be nested.
#[derive(Debug)]
pub struct Held {
    /// The signals that were held up before.
    before: libc::sigset_t,
    /// It belongs to its thread.
    _thread: core::marker::PhantomData<*const ()>,
}

impl Held {
    /// Holds signals up.
    #[allow(clippy::new_without_default, reason = "it is a deed, not a value")]
    pub fn new() -> Self {
        // SAFETY: the sets are plain memory that the calls fill in; only the calling thread's mask changes.
        let before = unsafe {
            let mut set: libc::sigset_t = core::mem::zeroed();
            libc::sigfillset(&mut set);
            for fatal in FATAL.into_iter().chain([libc::SIGTRAP]) {
                libc::sigdelset(&mut set, fatal);
            }
            let mut before: libc::sigset_t = core::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
            before
        };
        let _thread = core::marker::PhantomData;
        Self { before, _thread }
    }
}

/// Holds signals up as [`Held`] does, for a front end in another language; returns what [`release`] takes.
pub fn hold() -> u64 {
    let held = core::mem::ManuallyDrop::new(Held::new());
    let mut before = 0u64;
    let set = (&raw const held.before).cast::<u8>();
    // SAFETY: the set is plain memory, whose first words have a bit for each signal that a program can use; it and the
    // number have so many bytes.
    unsafe { core::ptr::copy_nonoverlapping(set, (&raw mut before).cast(), SET_BYTES) };
    before
}

/// Ends what [`hold`] has begun in the same thread.
pub fn release(before: u64) {
    // SAFETY: zeros are an empty set, of which the words that `hold` got are the front.
    let before = unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        core::ptr::copy_nonoverlapping((&raw const before).cast::<u8>(), (&raw mut set).cast(), SET_BYTES);
        set
    };
    let _thread = core::marker::PhantomData;
    drop(Held { before, _thread });
}

/// Bytes of a set of signals that name signals.
const SET_BYTES: usize = if size_of::<libc::sigset_t>() < 8 {
    size_of::<libc::sigset_t>()
} else {
    8
};

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the set is what `new` got; only the calling thread's mask changes.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, core::ptr::null_mut()) };
    }
}

fn ours() -> libc::sighandler_t {
    note as *const () as libc::sighandler_t
}

extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let error = sys::errno();
    let Some(index) = FATAL.iter().position(|fatal| *fatal == signal) else {
        return;
    };
    let earlier = earlier_of(index);
    // SAFETY: the kernel's.
    let is_sent = unsafe { (*info).si_code } <= 0;
    // Relaxed: of several threads one goes on. A fault of this handler, and the signal of a second thread, are passed on
    // at once.
    let is_first = NOTING
        .compare_exchange(0, sys::thread_id(), Ordering::Relaxed, Ordering::Relaxed)
        .is_ok();
    match earlier.sa_sigaction {
        libc::SIG_IGN if is_sent && signal != libc::SIGABRT => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            if is_first {
                note_signal(signal);
                last_words(signal, context);
            }
            pass_on(index, signal, is_sent);
            return;
        }
        _ if !is_first => {
            pass_on(index, signal, is_sent);
            return;
        }
        _ => {
            // First, because that handler may not return.
            note_signal(signal);
            // SAFETY: a handler that the program has installed, with what the kernel has given.
            unsafe { call_earlier(&earlier, signal, info, context) };
            let present = action_of(signal);
            if present != ours() && (!is_sent || signal == libc::SIGABRT) {
                // It has put another action in place, for the fault that comes again.
                last_words(signal, context);
            } else {
                if present == libc::SIG_DFL {
                    // It took a signal that was sent for such a fault, as Rust's runtime does: the next one is the end.
                    // Relaxed: see `earlier_of`.
                    WITHDRAWN.fetch_or(1 << index, Ordering::Relaxed);
                    // SAFETY: nothing is to be stored.
                    unsafe { install(signal, core::ptr::null_mut()) };
                }
                if let Some(header) = HEADER.value() {
                    header.end().forget_signal();
                }
            }
        }
    }
    if is_first {
        // Relaxed: see above.
        NOTING.store(0, Ordering::Relaxed);
    }
    sys::set_errno(error);
}

fn note_signal(signal: libc::c_int) {
    if let Some(header) = HEADER.value() {
        header
            .end()
            .note_signal(signal.unsigned_abs(), sys::thread_id(), unix_ns());
    }
}

/// Notes the calls of the thread, and has the log written.
fn last_words(signal: libc::c_int, context: *mut c_void) {
    if let Some(header) = HEADER.value() {
        // SAFETY: the kernel's, and one thread at a time comes here.
        header.end().note_backtrace(unsafe { backtrace::of(context) });
        // A thread of the logger cannot wait for itself.
        if !IS_OWN.get() {
            wait_for_last_words(signal.unsigned_abs());
        }
    }
}

/// Puts the earlier action back: a fault comes again when the handler returns, and a signal that was sent is sent again.
fn pass_on(index: usize, signal: libc::c_int, is_sent: bool) {
    // SAFETY: the action was in force before ours.
    unsafe {
        libc::sigaction(signal, &earlier_of(index), core::ptr::null_mut());
        if signal == libc::SIGABRT || is_sent {
            libc::raise(signal);
        }
    }
}

/// Calls the handler that was there before. Where it ends the process with `abort`, as the one of Rust's runtime does at
/// the end of a stack, a second handler would not have room on the stack of handlers; so there is none meanwhile, and the
/// calls are noted before.
///
/// # Safety
/// The action is that of a handler, and the rest is what the kernel gave to ours.
unsafe fn call_earlier(
    earlier: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    let is_memory = matches!(signal, libc::SIGSEGV | libc::SIGBUS);
    if !is_memory {
        // SAFETY: the caller's.
        return unsafe { call(earlier, signal, info, context) };
    }
    if let Some(header) = HEADER.value() {
        // SAFETY: the kernel's, and one thread at a time comes here.
        if unsafe { backtrace::is_at_end_of_stack(info, context) } {
            // SAFETY: as above.
            header.end().note_backtrace(unsafe { backtrace::of(context) });
        }
    }
    let abort = FATAL
        .iter()
        .position(|fatal| *fatal == libc::SIGABRT)
        .unwrap_or(0);
    // SAFETY: the action was in force before ours, which is put back where nobody has changed it.
    unsafe {
        let mut present: libc::sigaction = core::mem::zeroed();
        libc::sigaction(libc::SIGABRT, &earlier_of(abort), &mut present);
        call(earlier, signal, info, context);
        if present.sa_sigaction == ours() {
            libc::sigaction(libc::SIGABRT, &present, core::ptr::null_mut());
        }
    }
}

/// # Safety
/// The action is that of a handler, and the rest is what the kernel gave to ours.
unsafe fn call(
    action: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the flag says that it takes three arguments.
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { core::mem::transmute(action.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // SAFETY: without the flag it takes one.
        let handler: extern "C" fn(libc::c_int) = unsafe { core::mem::transmute(action.sa_sigaction) };
        handler(signal);
    }
}
