//! Kept from the thread sanitizer of a program (`-fsanitize=thread`): memory accesses of this library.
//!
//! The sanitizer sees what the C library does for this one, such as copies and writes of files, but not the atomics that
//! order them: it would report races where there are none. It has functions by which a thread keeps its accesses from it.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// Functions of the sanitizer, each with its place.
static FUNCTIONS: [AtomicPtr<c_void>; 4] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 4];
const NAMES: [&CStr; 4] = [
    c"AnnotateIgnoreReadsBegin",
    c"AnnotateIgnoreWritesBegin",
    c"AnnotateIgnoreWritesEnd",
    c"AnnotateIgnoreReadsEnd",
];

const UNKNOWN: u8 = 0;
const ABSENT: u8 = 1;
const PRESENT: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Accesses of the calling thread are kept from the sanitizer until this is dropped. May be nested. Where the program is built
/// without it, this costs a load.
///
/// ```
/// let unseen = logdrive_ring::Unseen::new();
/// assert!(!unseen.is_effective(), "this program is built without it");
/// ```
#[derive(Debug)]
pub struct Unseen {
    is_effective: bool,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Unseen {
    /// Begins.
    #[allow(clippy::new_without_default, reason = "it is a deed, not a value")]
    pub fn new() -> Self {
        // SYNC(sanitizer)
        let state = match STATE.load(Ordering::Acquire) {
            UNKNOWN => find(),
            known => known,
        };
        let is_effective = state == PRESENT;
        if is_effective {
            call(0);
            call(1);
        }
        Self {
            is_effective,
            _thread: PhantomData,
        }
    }

    /// Returns true if there is a sanitizer.
    pub fn is_effective(&self) -> bool {
        self.is_effective
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        if self.is_effective {
            call(2);
            call(3);
        }
    }
}

#[cold]
fn find() -> u8 {
    let mut state = if cfg!(miri) { ABSENT } else { PRESENT };
    for (name, function) in NAMES.iter().zip(&FUNCTIONS) {
        if state == ABSENT {
            break;
        }
        // SAFETY: looks a name up in what is loaded.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        // Relaxed: published by the state. Two threads store the same.
        function.store(found, Ordering::Relaxed);
        if found.is_null() {
            state = ABSENT;
        }
    }
    // SYNC(sanitizer): the functions are stored before.
    STATE.store(state, Ordering::Release);
    state
}

fn call(place: usize) {
    // Relaxed: `STATE` was found to be PRESENT with Acquire.
    let function = FUNCTIONS[place].load(Ordering::Relaxed);
    // SAFETY: not null where the state is PRESENT, and of this type in every version of the sanitizer's interface.
    let function: unsafe extern "C" fn(*const c_char, c_int) = unsafe { core::mem::transmute(function) };
    // SAFETY: each changes a counter of the calling thread, and takes a text for its reports.
    unsafe { function(c"logdrive".as_ptr(), 0) };
}
