//! The system calls of the ring crate, each behind a safe function.
#![allow(unsafe_code)]

#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
use rustix::thread::futex;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use std::ffi::CString;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Memory mapped twice in a row, or once; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: *mut u8,
    mapped_bytes: usize,
}

// SAFETY: a mapping is plain memory that any thread may address; who may write where is up to its users.
unsafe impl Send for Mapping {}
// SAFETY: as above; the type itself has no interior state.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `[offset, offset + bytes)` of a file, shared and writable.
    pub(crate) fn plain(file: &File, offset: u64, bytes: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing of ours.
        let base = unsafe { map(core::ptr::null_mut(), bytes, file.as_raw_fd(), offset, 0) }?;
        Ok(Self {
            base,
            mapped_bytes: bytes,
        })
    }

    /// Maps `[0, data)` of a file, followed by `[0, data + tail)`, so that `data` bytes from any offset of the data
    /// area are contiguous, and the tail lies behind both. Only offset 0 of the file is mapped, and `data` apart, so
    /// that `data` has to be a multiple of the page size and nothing else. `populate` touches every page now.
    pub(crate) fn ring(file: &File, data: usize, tail: usize, populate: bool) -> io::Result<Self> {
        let total = 2 * data + tail;
        let flags = if populate { POPULATE } else { 0 };
        // SAFETY: reserves address space only; nothing of ours is there.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                total,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANON | NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Self {
            base: base.cast(),
            mapped_bytes: total,
        };
        let fd = file.as_raw_fd();
        // SAFETY: both fixed mappings lie inside of the reservation that `mapping` owns; the kernel rounds the end of
        // the second one up to its page as it has rounded the end of the reservation.
        unsafe {
            map(mapping.base, data, fd, 0, libc::MAP_FIXED | flags)?;
            map(
                mapping.base.add(data),
                data + tail,
                fd,
                0,
                libc::MAP_FIXED | flags,
            )?;
        }
        Ok(mapping)
    }

    /// Memory of the interpreter's own, which maps no files.
    #[cfg(miri)]
    pub(crate) fn interpreted(bytes: usize) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing of ours.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), bytes, access, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED, "the interpreter has memory");
        Self {
            base: base.cast(),
            mapped_bytes: bytes,
        }
    }

    /// First byte of the mapping.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `mapped_bytes` are what `mmap` gave, and no thread can reach the mapping after its owner.
        unsafe { libc::munmap(self.base.cast(), self.mapped_bytes) };
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const POPULATE: libc::c_int = libc::MAP_POPULATE;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const POPULATE: libc::c_int = 0;
#[cfg(any(target_os = "linux", target_os = "android"))]
const NORESERVE: libc::c_int = libc::MAP_NORESERVE;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const NORESERVE: libc::c_int = 0;

/// # Safety
/// With `MAP_FIXED`, `[at, at + bytes)` must be address space that the caller owns.
unsafe fn map(at: *mut u8, bytes: usize, fd: RawFd, offset: u64, flags: libc::c_int) -> io::Result<*mut u8> {
    // SAFETY: the caller vouches for a fixed address; any other address is the kernel's choice.
    let base = unsafe {
        libc::mmap(
            at.cast(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | flags,
            fd,
            offset as libc::off_t,
        )
    };
    if base == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(base.cast())
    }
}

/// Grows the file to `bytes` with the blocks reserved, so that no later touch can fail with SIGBUS.
pub(crate) fn reserve(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    {
        // SAFETY: plain system call on a descriptor that `file` keeps open.
        let code = unsafe {
            libc::posix_fallocate(
                file.as_raw_fd(),
                from as libc::off_t,
                (bytes - from) as libc::off_t,
            )
        };
        if code == 0 {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(code))
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    {
        let _ = from;
        match file.metadata()?.len() < bytes {
            true => file.set_len(bytes),
            false => Ok(()),
        }
    }
}

/// Gives the blocks of a part of the file back; its size stays.
pub(crate) fn release(file: &File, from: u64, to: u64) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(file, flags, from, to.saturating_sub(from))?)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = (file, from, to);
        Ok(())
    }
}

/// An unnamed shared memory object, for systems without memory files.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn shared_object(name: &str, bytes: u64) -> io::Result<File> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only uniqueness counts.
    let unique = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = CString::new(format!("/ld{:.8}{}.{unique}", name, std::process::id()))
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // Variadic on Apple's systems, where small integers are not allowed.
    #[cfg(target_vendor = "apple")]
    let mode: libc::c_uint = 0o600;
    #[cfg(not(target_vendor = "apple"))]
    let mode: libc::mode_t = 0o600;
    // SAFETY: `name` is a valid C string for the length of both calls.
    let fd = unsafe { libc::shm_open(name.as_ptr(), libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, mode) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above; the object lives on through `fd`.
    unsafe { libc::shm_unlink(name.as_ptr()) };
    // SAFETY: `fd` is a fresh descriptor without another owner.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(bytes)?;
    Ok(file)
}

/// Takes the record lock on the whole file without waiting; `Ok(false)` when another process has it.
pub(crate) fn lock_for_process(file: &File) -> io::Result<bool> {
    let lock = whole_file(libc::F_WRLCK as libc::c_short);
    // SAFETY: `lock` is a valid flock structure for the length of the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &lock) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// The process that holds the record lock, if another one does.
pub(crate) fn lock_holder(file: &File) -> io::Result<Option<u32>> {
    let mut lock = whole_file(libc::F_WRLCK as libc::c_short);
    // SAFETY: `lock` is a valid flock structure that the call fills in.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut lock) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((lock.l_type != libc::F_UNLCK as libc::c_short).then_some(lock.l_pid.cast_unsigned()))
}

/// Takes the lock of the open file (`flock`), without waiting; `Ok(false)` when another process has it.
pub(crate) fn lock_for_opener(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn whole_file(kind: libc::c_short) -> libc::flock {
    // SAFETY: `flock` is plain numbers, for which zero is valid.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = kind;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// The kernel's number of the calling thread.
pub(crate) fn thread_id() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        rustix::thread::gettid().as_raw_nonzero().get() as u64
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        // SAFETY: has no arguments and cannot fail.
        unsafe { libc::pthread_self() as usize as u64 }
    }
}

/// Closes all descriptors but the standard ones. For a program that has just begun and has opened none: they are what
/// its parent has left open by oversight.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn close_inherited() {
    // SAFETY: takes no pointers; nothing of this program owns a descriptor above the standard ones yet, as its caller
    // promises. Kernels before 5.9 do not know the call, and then they stay open.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Takes descriptors that the parent process has passed, from a number on, as service managers do. They are closed
/// on `exec` from then on. To be called once for each, in a program that has just begun; what is not open ends the list.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn inherited_descriptors(first: i32, count: usize) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    for number in (first..).take(count) {
        // SAFETY: takes a number and no pointers; one that is not open is an error.
        if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            break;
        }
        // SAFETY: it is open, as the call above says, and nothing of this program owns it yet, as its caller promises.
        descriptors.push(unsafe { OwnedFd::from_raw_fd(number) });
    }
    descriptors
}

/// The calling user.
pub fn user_id() -> u32 {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Nanoseconds of a system clock.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid structure that the call fills in.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// Parks until `word` is no longer `expected`, a wake comes, or the time is over. May return early.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
pub(crate) fn futex_wait(word: &crate::sync::AtomicU32, expected: u32, timeout_ns: u64) {
    let time = rustix::thread::Timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as _,
        tv_nsec: (timeout_ns % 1_000_000_000) as _,
    };
    // Whatever ended the wait, the caller looks again.
    let _ = futex::wait(word, futex::Flags::empty(), expected, Some(&time));
}

/// Wakes all who wait on `word`, in every process.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
pub(crate) fn futex_wake(word: &crate::sync::AtomicU32) {
    // A word of our own mapping is always one to wake on.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX.cast_unsigned());
}

/// Without futexes a waiter looks again every 100 µs.
#[cfg(all(not(any(target_os = "linux", target_os = "android")), not(loom)))]
pub(crate) fn futex_wait(word: &crate::sync::AtomicU32, expected: u32, timeout_ns: u64) {
    let end = std::time::Instant::now() + std::time::Duration::from_nanos(timeout_ns);
    // Relaxed: a hint; the caller checks its own condition again.
    while word.load(crate::sync::Ordering::Relaxed) == expected && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}

/// Without futexes there is no thread to wake.
#[cfg(all(not(any(target_os = "linux", target_os = "android")), not(loom)))]
pub(crate) fn futex_wake(_word: &crate::sync::AtomicU32) {}

/// The model's futex: waits until the word changes. A lost wake-up is an endless wait, which loom reports.
#[cfg(loom)]
pub(crate) fn futex_wait(word: &crate::sync::AtomicU32, expected: u32, _timeout_ns: u64) {
    while word.load(crate::sync::Ordering::Acquire) == expected {
        loom::thread::yield_now();
    }
}

/// The model's wake: the word itself carries it.
#[cfg(loom)]
pub(crate) fn futex_wake(_word: &crate::sync::AtomicU32) {}

/// Calls `handler` in the child after each `fork`.
pub(crate) fn at_fork_child(handler: extern "C" fn()) {
    // SAFETY: the handler is a plain function that lives as long as the program.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) };
}
