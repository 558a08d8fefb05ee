//! Everything that C calls. Each function checks what it is given, and lets no panic out.
//!
//! This is the only module of the crate with unsafe code: reading what C points to, and names for the linker.
#![allow(unsafe_code)]

use crate::control::LOGGER;
use crate::error::{Code, fail};
use crate::options::Options;
use crate::{error, program_calls, rescue, shared};
use logdrive::foreign::ForeignSite;
use logdrive_ring::{DropReason, Unseen};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

/// The numbers of the running logger. `logdrive.h` has the same struct.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct LogdriveStats {
    /// Number of records committed to rings.
    pub committed: u64,
    /// Calls dropped, by the codes of `spec/ring.md`.
    pub dropped: [u64; DropReason::COUNT],
    /// Calls that their level switched off, where they are counted.
    pub disabled: u64,
    /// Number of calls that sampling left out.
    pub sampled_out: u64,
    /// Number of records whose values were cut.
    pub cut: u64,
    /// Records that still lie in rings.
    pub in_rings: u64,
    /// Number of records of unknown callsites.
    pub malformed: u64,
    /// Number of rings that were made.
    pub rings: u32,
    /// Rings that a thread has now.
    pub rings_attached: u32,
    /// Number of callsites that are registered.
    pub callsites: u32,
    /// Sinks; ask for each of them.
    pub sinks: u32,
}

/// Counters of one sink.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct LogdriveSinkStats {
    /// Number of records handed to the kernel.
    pub written_records: u64,
    /// Number of bytes handed to the kernel.
    pub written_bytes: u64,
    /// Records that the sink left out, whatever the reason.
    pub dropped: u64,
    /// Number of records on their way to the sink.
    pub pending: u64,
    /// Number of writes that failed.
    pub errors: u64,
    /// The system's code of the last failed write; 0 when the last one went well.
    pub last_error: u64,
}

/// Runs a call; a panic becomes an error. A thread sanitizer of the program sees nothing of it.
fn guarded(call: impl FnOnce() -> c_int) -> c_int {
    let _unseen = Unseen::new();
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        fail(
            Code::Internal,
            "the library has failed in itself; please report it with what the program printed",
        )
    })
}

/// The same for a call that gives something else.
fn guarded_or<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    let _unseen = Unseen::new();
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(otherwise)
}

/// A text of C.
///
/// # Safety
/// Null, or the address of a text that ends with a zero and stays as it is during the call.
unsafe fn text<'a>(what: &str, from: *const c_char) -> Result<&'a str, c_int> {
    if from.is_null() {
        return Err(fail(Code::Argument, format!("{what} is null")));
    }
    // SAFETY: the caller's.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str()
        .map_err(|_| fail(Code::Argument, format!("{what} is not UTF-8")))
}

fn done(result: Result<(), String>) -> c_int {
    match result {
        Ok(()) => Code::Ok as c_int,
        Err(why) => fail(Code::Argument, why),
    }
}

/// Returns the version of the library as text.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Returns the error text of this thread's last call that failed. Valid until the next one that fails.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_last_error() -> *const c_char {
    error::last()
}

/// Options for an application of this name; null when it is none. To be freed.
///
/// # Safety
/// A text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_options_new(app: *const c_char) -> *mut Options {
    // SAFETY: the caller's.
    match unsafe { text("the application's name", app) } {
        Ok(app) => Box::into_raw(Box::new(Options::new(app))),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Frees options; null is nothing.
///
/// # Safety
/// Null, or what `logdrive_options_new` gave, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_options_free(options: *mut Options) {
    if !options.is_null() {
        // SAFETY: the caller's: it came from a box.
        drop(unsafe { Box::from_raw(options) });
    }
}

/// Sets one option of the logger.
///
/// # Safety
/// Options that were not freed, which no other thread uses, and texts that end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_options_set(
    options: *mut Options,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    // SAFETY: the caller's.
    let (options, key, value) = unsafe { (options.as_mut(), text("the key", key), text("the value", value)) };
    guarded(|| match (options, key, value) {
        (Some(options), Ok(key), Ok(value)) => done(options.set(key, value)),
        _ => Code::Argument as c_int,
    })
}

/// Adds a sink: `file:PATH`, `stdout`, `stderr` or `discard`.
///
/// # Safety
/// As for `logdrive_options_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_options_add_sink(options: *mut Options, sink: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let (options, sink) = unsafe { (options.as_mut(), text("the sink", sink)) };
    guarded(|| match (options, sink) {
        (Some(options), Ok(sink)) => done(options.add_sink(sink)),
        _ => Code::Argument as c_int,
    })
}

/// A function of C that takes lines, with what it is called with.
struct Callback {
    write: LogdriveWriteLines,
    context: *mut c_void,
}

// SAFETY: the caller of `logdrive_options_add_callback` vouches that the context may be used in another thread, by one at a
// time.
unsafe impl Send for Callback {}
// SAFETY: as above; the sink has one thread.
unsafe impl Sync for Callback {}

impl Callback {
    fn write(&self, lines: &[u8]) -> bool {
        // SAFETY: the caller of `logdrive_options_add_callback` vouches for function and context.
        unsafe { (self.write)(self.context, lines.as_ptr().cast(), lines.len()) == 0 }
    }
}

/// Takes lines; 0 when it has taken them.
pub type LogdriveWriteLines =
    unsafe extern "C" fn(context: *mut c_void, lines: *const c_char, bytes: usize) -> c_int;

/// Adds a function as a sink.
///
/// # Safety
/// As for `logdrive_options_set`. Function and context stay valid until the logger has ended, and may be used in another
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_options_add_callback(
    options: *mut Options,
    write: Option<LogdriveWriteLines>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's.
    let options = unsafe { options.as_mut() };
    guarded(|| match (options, write) {
        (Some(options), Some(write)) => {
            let callback = Callback { write, context };
            options.add_callback(logdrive::CallbackSink::new(move |lines| callback.write(lines)));
            Code::Ok as c_int
        }
        _ => fail(Code::Argument, "the options or the function are null"),
    })
}

/// Sets one option of the sink that was added last.
///
/// # Safety
/// As for `logdrive_options_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_options_set_sink(
    options: *mut Options,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    // SAFETY: the caller's.
    let (options, key, value) = unsafe { (options.as_mut(), text("the key", key), text("the value", value)) };
    guarded(|| match (options, key, value) {
        (Some(options), Ok(key), Ok(value)) => done(options.set_sink(key, value)),
        _ => Code::Argument as c_int,
    })
}

/// Starts the logger of this process. The options stay the caller's.
///
/// # Safety
/// Options that were not freed, which no other thread changes meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_start(options: *const Options) -> c_int {
    // SAFETY: the caller's.
    match unsafe { options.as_ref() } {
        Some(options) => outside_callback(|| LOGGER.start(options)),
        None => fail(Code::Argument, "the options are null"),
    }
}

/// Ends the logger, if one runs, and starts another one; calls in between wait.
///
/// # Safety
/// As for `logdrive_start`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_restart(options: *const Options) -> c_int {
    // SAFETY: the caller's.
    match unsafe { options.as_ref() } {
        Some(options) => outside_callback(|| LOGGER.restart(options)),
        None => fail(Code::Argument, "the options are null"),
    }
}

/// Drains everything that was committed and ends the logger. The end of the program does the same.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_stop() -> c_int {
    outside_callback(|| LOGGER.stop())
}

/// 1 while a logger runs that was started here, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_is_running() -> c_int {
    guarded_or(0, || c_int::from(LOGGER.is_running()))
}

/// Waits until everything that was committed before is with the kernel.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_flush() -> c_int {
    outside_callback(|| complete(logdrive::flush()))
}

/// Has the flight recorder written, with everything that was committed before.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_dump() -> c_int {
    outside_callback(|| complete(logdrive::dump()))
}

/// As `logdrive_dump`, but only records that are not older than this.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_dump_last(milliseconds: u64) -> c_int {
    outside_callback(|| complete(logdrive::dump_last(Duration::from_millis(milliseconds))))
}

/// Runs a call that waits for the sinks. A sink's own function would wait for itself.
fn outside_callback(call: impl FnOnce() -> c_int) -> c_int {
    guarded(|| match logdrive_ring::local::is_denied() {
        true => fail(
            Code::Incomplete,
            "the function of a sink cannot wait for the log: call this in another thread",
        ),
        false => call(),
    })
}

/// As `logdrive_flush`, then makes all files durable. `Incomplete` also where something since the last answer may not be on
/// disk; the log says what.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_sync() -> c_int {
    outside_callback(|| complete(logdrive::sync()))
}

fn complete(all: bool) -> c_int {
    if all {
        Code::Ok as c_int
    } else if logdrive_ring::local::is_busy() {
        // In a signal handler that has interrupted the logger. A text would allocate.
        Code::Incomplete as c_int
    } else {
        fail(
            Code::Incomplete,
            "nothing was written for five seconds; the rest stays in the session",
        )
    }
}

/// Opens all log files anew, after somebody else moved them away.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_reopen() {
    guarded_or((), logdrive::reopen);
}

/// Replaces the filter of the running logger.
///
/// # Safety
/// A text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_set_filter(filter: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let filter = match unsafe { text("the filter", filter) } {
        Ok(filter) => filter,
        Err(code) => return code,
    };
    guarded(|| match filter.parse().map(logdrive::set_filter) {
        Ok(true) => Code::Ok as c_int,
        Ok(false) => fail(Code::NotRunning, "no logger runs in this process"),
        Err(error) => fail(Code::Argument, error),
    })
}

/// Recovers a session that a dead process left, into its own files or into one. Tells how many records that were.
///
/// # Safety
/// Texts that end with a zero; `into` and `records` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_recover(
    session: *const c_char,
    into: *const c_char,
    records: *mut u64,
) -> c_int {
    // SAFETY: the caller's.
    let session = match unsafe { text("the session", session) } {
        Ok(session) => session,
        Err(code) => return code,
    };
    let into = if into.is_null() {
        None
    } else {
        // SAFETY: the caller's.
        match unsafe { text("the file", into) } {
            Ok(into) => Some(logdrive::FileOptions::new(into)),
            Err(code) => return code,
        }
    };
    guarded(|| match logdrive::recover(Path::new(session), into.as_ref()) {
        Ok(recovered) => {
            if !records.is_null() {
                // SAFETY: the caller's: null, or a number of its own.
                unsafe { records.write(recovered.records) };
            }
            Code::Ok as c_int
        }
        Err(error) => fail(Code::Recover, error),
    })
}

/// The numbers of the running logger.
///
/// # Safety
/// Memory for one struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_stats(out: *mut LogdriveStats) -> c_int {
    if out.is_null() {
        return fail(Code::Argument, "the place for the numbers is null");
    }
    guarded(|| {
        let Some(stats) = logdrive::stats() else {
            return fail(Code::NotRunning, "no logger runs in this process");
        };
        let numbers = LogdriveStats {
            committed: stats.committed,
            dropped: stats.dropped,
            disabled: stats.disabled,
            sampled_out: stats.sampled_out,
            cut: stats.cut,
            in_rings: stats.in_rings,
            malformed: stats.malformed,
            rings: stats.rings.0,
            rings_attached: stats.rings.1,
            callsites: stats.callsites,
            sinks: stats.sinks.len() as u32,
        };
        // SAFETY: the caller's: memory for one struct, not null by the check above.
        unsafe { out.write(numbers) };
        Code::Ok as c_int
    })
}

/// The numbers of one sink, counted from 0.
///
/// # Safety
/// Memory for one struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_sink_stats(index: u32, out: *mut LogdriveSinkStats) -> c_int {
    if out.is_null() {
        return fail(Code::Argument, "the place for the numbers is null");
    }
    guarded(|| {
        let Some(stats) = logdrive::stats() else {
            return fail(Code::NotRunning, "no logger runs in this process");
        };
        let Some(sink) = stats.sinks.get(index as usize) else {
            return fail(Code::Argument, format!("there is no sink {index}"));
        };
        let numbers = LogdriveSinkStats {
            written_records: sink.counts.written_records,
            written_bytes: sink.counts.written_bytes,
            dropped: sink.dropped(),
            pending: sink.pending,
            errors: sink.counts.errors,
            last_error: sink.counts.last_error,
        };
        // SAFETY: as in `logdrive_stats`.
        unsafe { out.write(numbers) };
        Code::Ok as c_int
    })
}

/// Copies the directory of the running session, with a zero behind it, as far as it fits. Returns its length, or 0 when
/// there is none.
///
/// # Safety
/// Memory for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_session_path(out: *mut c_char, bytes: usize) -> usize {
    guarded_or(0, || {
        let Some(path) = logdrive::session_path() else {
            return 0;
        };
        let path = path.into_os_string().into_encoded_bytes();
        if !out.is_null() && bytes > 0 {
            let length = path.len().min(bytes - 1);
            // SAFETY: the caller's: `bytes` bytes, of which `length + 1` are written.
            unsafe {
                std::ptr::copy_nonoverlapping(path.as_ptr(), out.cast(), length);
                out.add(length).write(0);
            }
        }
        path.len()
    })
}

/// The callsite with this description (`spec/record.md`); null when it cannot be kept. What is described is copied.
///
/// # Safety
/// So many bytes to read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_callsite(description: *const u8, bytes: usize) -> *const ForeignSite {
    if description.is_null() {
        return std::ptr::null();
    }
    // SAFETY: the caller's.
    let description = unsafe { std::slice::from_raw_parts(description, bytes) };
    guarded_or(std::ptr::null(), || {
        ForeignSite::intern(description).map_or(std::ptr::null(), std::ptr::from_ref)
    })
}

/// Returns true if a call goes on whose control word is neither 0 nor 1. Registers the callsite the first time.
///
/// # Safety
/// What `logdrive_callsite` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_admit(site: *const ForeignSite) -> c_int {
    // SAFETY: the caller's; callsites are never freed.
    let Some(site) = (unsafe { site.as_ref() }) else {
        return 0;
    };
    guarded_or(0, || c_int::from(LOGGER.through_changes(|| site.admit())))
}

/// Writes one record with these values, whatever its callsite's word, and however full the ring is: the slow way of a
/// call. Returns 1 when it is committed; otherwise it was counted, or its level is off.
///
/// # Safety
/// What `logdrive_callsite` gave, and so many bytes to read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_write(site: *const ForeignSite, values: *const u8, bytes: usize) -> c_int {
    // SAFETY: the caller's; callsites are never freed.
    let Some(site) = (unsafe { site.as_ref() }) else {
        return 0;
    };
    let values = if bytes == 0 {
        &[]
    } else {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts(values, bytes) }
    };
    guarded_or(0, || c_int::from(LOGGER.through_changes(|| site.write(values))))
}

/// The calling thread's place, see `logdrive_ring::local::thread_state`. Valid until the thread ends.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_place() -> *mut c_void {
    logdrive_ring::local::thread_state().cast()
}

/// Memory that all modules of the process share by this name; null when it is too large, or had another size before.
///
/// # Safety
/// A text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_shared(name: *const c_char, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's.
    match unsafe { text("the name", name) } {
        Ok(name) => guarded_or(std::ptr::null_mut(), || {
            shared::area(name.as_bytes(), bytes).map_or(std::ptr::null_mut(), <*mut u8>::cast)
        }),
        Err(_) => std::ptr::null_mut(),
    }
}

/// A descriptor for signal handlers: a byte written to it has the log flushed, and one byte comes back. -1 when there is
/// none. Not for signal handlers itself.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_rescue_descriptor() -> c_int {
    guarded_or(-1, || rescue::descriptor().unwrap_or(-1))
}

/// Has `work` called by that thread for each byte 2 that is written to the descriptor; a byte 2 comes back. It is called by one
/// thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_rescue_work(work: Option<LogdriveRescueWork>) {
    guarded_or((), || rescue::set_work(work));
}

/// Work for a signal handler that another thread does.
pub type LogdriveRescueWork = extern "C" fn();

/// Takes one call: its name as the compiler wrote it, or none, and its file, or none, with the line.
pub type LogdriveTakeCall = unsafe extern "C" fn(
    context: *mut c_void,
    name: *const c_char,
    name_bytes: usize,
    file: *const c_char,
    file_bytes: usize,
    line: u32,
);

/// Finds the calls at an address of a program or library, innermost first; returns how many there are.
///
/// # Safety
/// A text for the module; `take` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdrive_calls_at(
    module: *const c_char,
    address: u64,
    take: Option<LogdriveTakeCall>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's.
    let module = unsafe { text("the module", module) };
    guarded_or(0, || {
        let (Ok(module), Some(take)) = (module, take) else {
            return 0;
        };
        program_calls::at(Path::new(module), address, |call| {
            // SAFETY: the caller vouches for function and context; the texts live as long as this call.
            unsafe {
                take(
                    context,
                    call.name.as_ptr().cast(),
                    call.name.len(),
                    call.file.as_ptr().cast(),
                    call.file.len(),
                    call.line,
                );
            }
        })
    })
}

/// Holds signals of the calling thread up, but for faults: for sections that take locks or allocate. Returns what
/// `logdrive_release_signals` takes.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_hold_signals() -> u64 {
    logdrive_ring::signals::hold()
}

/// Ends what `logdrive_hold_signals` has begun in the same thread.
#[unsafe(no_mangle)]
pub extern "C" fn logdrive_release_signals(held: u64) {
    logdrive_ring::signals::release(held);
}
