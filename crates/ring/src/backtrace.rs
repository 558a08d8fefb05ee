//! The calls of a thread that a fatal signal has stopped, as text: `program+0x1f2a3 libc.so.6+0x3f8d0`. Everything but
//! [`prepare`] is safe in signal handlers: it takes no lock and allocates nothing.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::c_void;

/// Calls that are named. The innermost ones tell most, and a recursion has no end.
const FRAMES: usize = 24;
/// Bytes of the name of a file.
const NAME_BYTES: usize = 40;
/// Bytes of the text at most: so many calls with the longest names.
pub(crate) const TEXT_BYTES: usize = FRAMES * 64;
/// Bytes of the stack that the unwinder and the reading of `/proc` may need, with room to spare. Signal handlers may have
/// a stack of their own, which is small.
const STACK_BYTES: usize = 3 * 1024;

/// One call.
#[derive(Clone, Copy)]
struct Call {
    address: usize,
    /// The address as the file has it; as it is where the file is unknown.
    offset: usize,
    name: [u8; NAME_BYTES],
    name_bytes: usize,
}

/// Memory of the one backtrace that is written at a time.
struct Scratch {
    calls: [Call; FRAMES],
    count: usize,
    /// Address at which the signal stopped the thread.
    stopped_at: usize,
    /// Calls of the handler itself, which come first.
    skipped: usize,
    read: [u8; 2048],
    path: [u8; 256],
    text: [u8; TEXT_BYTES],
}

struct Shared(UnsafeCell<Scratch>);
// SAFETY: `of` is called by one thread at a time, as its caller sees to.
unsafe impl Sync for Shared {}
static SCRATCH: Shared = Shared(UnsafeCell::new(Scratch {
    calls: [Call {
        address: 0,
        offset: 0,
        name: [0; NAME_BYTES],
        name_bytes: 0,
    }; FRAMES],
    count: 0,
    stopped_at: 0,
    skipped: 0,
    read: [0; 2048],
    path: [0; 256],
    text: [0; TEXT_BYTES],
}));

/// Makes the unwinder load what it loads at its first use, which a signal handler must not wait for.
pub(crate) fn prepare() {
    unwind::prepare();
}

/// The calls of the calling thread as text, from a signal's context on. Where the stack has no room for the unwinder,
/// or its tables cannot be had without a lock, only the place where the signal came.
///
/// # Safety
/// `context` is what the kernel gave to the handler of a signal that runs in this thread, and no other thread is in this
/// function. The text is valid until the next call.
pub(crate) unsafe fn of(context: *mut c_void) -> &'static [u8] {
    // SAFETY: the caller's: nobody else uses the memory.
    let scratch = unsafe { &mut *SCRATCH.0.get() };
    // SAFETY: the caller's.
    scratch.stopped_at = unsafe { stopped_at(context) };
    scratch.count = 0;
    scratch.skipped = 0;
    if has_room() {
        unwind::walk(scratch);
    }
    if scratch.count == 0 {
        scratch.add(scratch.stopped_at);
    }
    name(scratch);
    let length = lay_out(scratch);
    &scratch.text[..length]
}

impl Scratch {
    /// Adds a call; `false` when there is no room for more.
    fn add(&mut self, address: usize) -> bool {
        let Some(call) = self.calls.get_mut(self.count) else {
            return false;
        };
        call.address = address;
        call.offset = address;
        call.name_bytes = 0;
        self.count += 1;
        self.count < FRAMES
    }
}

/// Address at which the signal came; 0 where it is unknown.
///
/// # Safety
/// Facts that the kernel gave to the handler.
unsafe fn stopped_at(context: *mut c_void) -> usize {
    // SAFETY: the caller's.
    let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_ref() }) else {
        return 0;
    };
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    return context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
    return context.uc_mcontext.pc as usize;
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        let _ = context;
        0
    }
}

/// Returns whether a fault came from a stack that is full: its address lies about where the stack ends.
///
/// # Safety
/// Facts that the kernel gave to the handler.
pub(crate) unsafe fn is_at_end_of_stack(info: *const libc::siginfo_t, context: *mut c_void) -> bool {
    /// Bytes that a function may reserve before it touches them.
    const NEAR: usize = 64 * 1024;
    // SAFETY: the caller's.
    let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_ref() }) else {
        return false;
    };
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    let stack = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
    let stack = context.uc_mcontext.sp as usize;
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let stack = core::ptr::from_ref(context).addr();
    // SAFETY: the caller's: a fault of memory has an address.
    let address = unsafe { (*info).si_addr() }.addr();
    address.abs_diff(stack) < NEAR
}

/// Returns whether the stack that the handler runs on has room for what follows.
fn has_room() -> bool {
    // SAFETY: `stack_t` is plain numbers, for which zero is valid, and the call fills it in.
    let stack = unsafe {
        let mut stack: libc::stack_t = core::mem::zeroed();
        if libc::sigaltstack(core::ptr::null(), &mut stack) != 0 {
            return false;
        }
        stack
    };
    if stack.ss_flags & libc::SS_ONSTACK == 0 {
        return true;
    }
    let here = core::ptr::from_ref(&stack).addr();
    here.saturating_sub(stack.ss_sp.addr()) >= STACK_BYTES
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod unwind {
    use super::Scratch;
    use core::ffi::{c_int, c_void};
    use core::sync::atomic::{AtomicBool, Ordering};

    /// Calls of the handler that come before those of the program, at most.
    const SKIPPED_MAX: usize = 16;
    const GO_ON: c_int = 0;
    const STOP: c_int = 4;

    /// Set if the unwinder finds its tables without a lock.
    static IS_SAFE: AtomicBool = AtomicBool::new(false);

    unsafe extern "C" {
        fn _Unwind_Backtrace(
            each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            argument: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }

    extern "C" fn nothing(_: *mut c_void, _: *mut c_void) -> c_int {
        GO_ON
    }

    pub(super) fn prepare() {
        // SAFETY: looks a name up; since glibc 2.35 the unwinder uses it in place of a list behind a lock.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
        // SAFETY: walks the calls of this function, and does nothing with them.
        unsafe { _Unwind_Backtrace(nothing, core::ptr::null_mut()) };
        // Relaxed: a handler that misses it writes less.
        IS_SAFE.store(!found.is_null(), Ordering::Relaxed);
    }

    extern "C" fn each(context: *mut c_void, scratch: *mut c_void) -> c_int {
        // SAFETY: `walk` passes it, and uses it only afterwards.
        let scratch = unsafe { &mut *scratch.cast::<Scratch>() };
        // SAFETY: the unwinder's.
        let address = unsafe { _Unwind_GetIP(context) };
        if scratch.count == 0 && address != scratch.stopped_at {
            scratch.skipped += 1;
            return if scratch.skipped < SKIPPED_MAX {
                GO_ON
            } else {
                STOP
            };
        }
        if address == 0 {
            return STOP;
        }
        // Behind a call stands the address of the next instruction, which may belong to another line.
        let address = address - usize::from(scratch.count > 0);
        if scratch.add(address) { GO_ON } else { STOP }
    }

    pub(super) fn walk(scratch: &mut Scratch) {
        // Relaxed: see `prepare`.
        if IS_SAFE.load(Ordering::Relaxed) {
            let argument = core::ptr::from_mut(scratch).cast();
            // SAFETY: `each` uses the argument as what it is.
            unsafe { _Unwind_Backtrace(each, argument) };
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod unwind {
    pub(super) fn prepare() {}
    pub(super) fn walk(_scratch: &mut super::Scratch) {}
}

/// Finds the files of all calls in `/proc/self/maps`.
fn name(scratch: &mut Scratch) {
    // SAFETY: a text that ends with a zero; the descriptor is closed below.
    let maps = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if maps < 0 {
        return;
    }
    let (mut filled, mut base, mut path_bytes) = (0, 0, 0);
    loop {
        let free = &mut scratch.read[filled..];
        // SAFETY: so many bytes of memory of ours.
        let got = unsafe { libc::read(maps, free.as_mut_ptr().cast(), free.len()) };
        if got <= 0 {
            break;
        }
        filled += got.unsigned_abs();
        let mut begin = 0;
        while let Some(length) = scratch.read[begin..filled].iter().position(|byte| *byte == b'\n') {
            let line = &scratch.read[begin..begin + length];
            if let Some((start, end, path)) = mapping(line) {
                let kept = path.len().min(scratch.path.len());
                if scratch.path[..path_bytes] != path[..kept] {
                    scratch.path[..kept].copy_from_slice(&path[..kept]);
                    (base, path_bytes) = (start, kept);
                }
                name_calls(&mut scratch.calls[..scratch.count], start..end, base, path);
            }
            begin += length + 1;
        }
        scratch.read.copy_within(begin..filled, 0);
        filled -= begin;
        if filled == scratch.read.len() {
            // A line that is too long to be one.
            break;
        }
    }
    // SAFETY: the descriptor from above.
    unsafe { libc::close(maps) };
}

fn name_calls(calls: &mut [Call], memory: core::ops::Range<usize>, base: usize, path: &[u8]) {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    for call in calls {
        if memory.contains(&call.address) && !name.is_empty() {
            call.offset = call.address - base;
            call.name_bytes = name.len().min(NAME_BYTES);
            call.name[..call.name_bytes].copy_from_slice(&name[..call.name_bytes]);
        }
    }
}

/// Start, end and path of a line of `/proc/self/maps`: `start-end perms offset device inode path`.
fn mapping(line: &[u8]) -> Option<(usize, usize, &[u8])> {
    let dash = line.iter().position(|byte| *byte == b'-')?;
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (start, end) = (hex(line.get(..dash)?)?, hex(line.get(dash + 1..space)?)?);
    let path = line.iter().position(|byte| matches!(byte, b'/' | b'['));
    Some((start, end, path.map_or(&[], |path| &line[path..])))
}

fn hex(digits: &[u8]) -> Option<usize> {
    digits.iter().try_fold(0usize, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number.checked_mul(16)? | digit as usize)
    })
}

/// Writes the text; returns its length.
fn lay_out(scratch: &mut Scratch) -> usize {
    let mut length = 0;
    for (number, call) in scratch.calls[..scratch.count].iter().enumerate() {
        let mut digits = [0; 16];
        let mut first = digits.len();
        let mut left = call.offset;
        loop {
            first -= 1;
            digits[first] = b"0123456789abcdef"[left & 15];
            left >>= 4;
            if left == 0 || first == 0 {
                break;
            }
        }
        let space: &[u8] = if number == 0 { b"" } else { b" " };
        let plus: &[u8] = if call.name_bytes == 0 { b"0x" } else { b"+0x" };
        for part in [space, &call.name[..call.name_bytes], plus, &digits[first..]] {
            if let Some(place) = scratch.text.get_mut(length..length + part.len()) {
                place.copy_from_slice(part);
                length += part.len();
            }
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_has_bounds_and_perhaps_a_path() {
        let line = b"55d0-55e1 r-xp 00002000 fe:00 12 /usr/bin/my program";
        assert_eq!(mapping(line), Some((0x55d0, 0x55e1, &b"/usr/bin/my program"[..])));
        assert_eq!(
            mapping(b"7f00-7f01 rw-p 0 00:00 0 "),
            Some((0x7f00, 0x7f01, &b""[..]))
        );
        assert_eq!(mapping(b"no mapping"), None);
    }
}
