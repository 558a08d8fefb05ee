//! Errors of the C interface: a code, and a text for the calling thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

/// The result of a call. `logdrive.h` has the same numbers.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The call did what it was asked for.
    Ok = 0,
    /// An argument is missing, is not UTF-8, or has a value that cannot be.
    Argument = -1,
    /// A logger of this process runs already.
    Running = -2,
    /// No logger of this process runs.
    NotRunning = -3,
    /// The logger could not be started.
    Start = -4,
    /// Some of the log was not written in time; it stays in the session, for `logdrive recover`.
    Incomplete = -5,
    /// A session could not be recovered.
    Recover = -6,
    /// The library itself has failed.
    Internal = -7,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Notes what went wrong, for the calling thread; gives the code back.
pub(crate) fn fail(code: Code, text: impl std::fmt::Display) -> c_int {
    let text: Vec<u8> = text
        .to_string()
        .into_bytes()
        .into_iter()
        .filter(|byte| *byte != 0)
        .collect();
    // A thread that is ending keeps no text.
    let _ = LAST.try_with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
    code as c_int
}

/// The text of the last failure in the calling thread; empty before the first. Valid until the next one.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(<&CStr>::default().as_ptr())
}
