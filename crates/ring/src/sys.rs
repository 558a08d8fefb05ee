//! The system calls of the ring crate, each behind a safe function.
#![allow(unsafe_code)]

#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
use rustix::thread::futex;
use std::ffi::{CStr, CString};
use std::fs::{File, TryLockError};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;

/// The system's code for a process that is not there.
pub(crate) const NO_SUCH_PROCESS: i32 = libc::ESRCH;

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

    /// A mapping of nothing.
    pub(crate) const fn empty() -> Self {
        Self {
            base: core::ptr::null_mut(),
            mapped_bytes: 0,
        }
    }

    /// Replaces the mapping by zeros of this process's own, at the same addresses; `false` where that fails, and then
    /// nothing has changed. One system call, allowed in signal handlers.
    pub(crate) fn make_private(&self) -> bool {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED | NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is that of this mapping, which stays mapped; whoever reads it has to take zeros, as from any
        // shared memory.
        let base = unsafe { libc::mmap(self.base.cast(), self.mapped_bytes, access, flags, -1, 0) };
        base != libc::MAP_FAILED
    }

    /// Has the system find memory for a part of the mapping, without a descriptor of its file. Fails where there is no room,
    /// and on systems that do not know the call.
    pub(crate) fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        assert!(
            offset <= self.mapped_bytes && bytes <= self.mapped_bytes - offset,
            "a part of the mapping"
        );
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            // SAFETY: the part lies inside of the mapping, and the call changes no byte of it.
            let code =
                unsafe { libc::madvise(self.base.add(offset).cast(), bytes, libc::MADV_POPULATE_WRITE) };
            match code {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        Err(io::ErrorKind::Unsupported.into())
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
        if self.mapped_bytes == 0 {
            return;
        }
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
    check_size_limit(bytes)?;
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
            true => set_size(file, bytes),
            false => Ok(()),
        }
    }
}

/// Fails with EFBIG where the process's limit of file sizes does not allow a file of this size. The kernel would end the
/// process with SIGXFSZ, in the thread that asks, which is often one of the program.
pub(crate) fn check_size_limit(bytes: u64) -> io::Result<()> {
    match bytes <= size_limit() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EFBIG)),
    }
}

/// Bytes that a file of this process may have.
pub(crate) fn size_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is plain numbers, which the call fills in. Where it fails, there is no limit.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    match limit.rlim_cur {
        libc::RLIM_INFINITY => u64::MAX,
        // On FreeBSD the number is signed.
        #[allow(clippy::useless_conversion)]
        bytes => u64::try_from(bytes).unwrap_or(u64::MAX),
    }
}

/// Sets the size of a file, within the process's limit.
pub(crate) fn set_size(file: &File, bytes: u64) -> io::Result<()> {
    check_size_limit(bytes)?;
    file.set_len(bytes)
}

/// Bytes of a file system in all, and those that are free for the process's user.
#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the types differ between systems"
)]
fn bytes_of(found: &libc::statvfs) -> [u64; 2] {
    [found.f_blocks, found.f_bavail].map(|blocks| (blocks as u64).saturating_mul(found.f_frsize as u64))
}

/// Bytes of the file system of a path, as it was made; `None` where it does not say.
pub(crate) fn file_system_bytes(path: &std::path::Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and the structure is read only where the call has filled it.
    let found = unsafe {
        match libc::statvfs(path.as_ptr(), found.as_mut_ptr()) {
            0 => found.assume_init(),
            _ => return None,
        }
    };
    Some(bytes_of(&found)[0]).filter(|bytes| *bytes > 0)
}

/// Fails with ENOSPC where a file system would have less than the margin, or a quarter of its size, beside so many bytes.
pub(crate) fn leaves_room(file: &File, bytes: u64, margin: u64) -> io::Result<()> {
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open, and the structure is read only where the call has filled it.
    let found = unsafe {
        match libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr()) {
            0 => found.assume_init(),
            _ => return Err(io::Error::last_os_error()),
        }
    };
    let [total, free] = bytes_of(&found);
    match total == 0 || free >= bytes.saturating_add(margin.min(total / 4)) {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
    }
}

/// Makes a new file for its owner alone, through no link. Allocates nothing on the heap.
pub(crate) fn open_new(path: &CStr) -> io::Result<File> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero; the descriptor is new, and nobody else's.
    unsafe {
        match libc::open(path.as_ptr(), flags, 0o600) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(File::from_raw_fd(descriptor)),
        }
    }
}

/// Gives a file another name. Allocates nothing on the heap.
pub(crate) fn rename(from: &CStr, to: &CStr) -> io::Result<()> {
    // SAFETY: both paths end with a zero.
    match unsafe { libc::rename(from.as_ptr(), to.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Removes a name. Allocates nothing on the heap.
pub(crate) fn unlink(path: &CStr) -> io::Result<()> {
    // SAFETY: the path ends with a zero.
    match unsafe { libc::unlink(path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
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
    set_size(&file, bytes)?;
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

/// The calling thread's `errno`, which a signal handler leaves as it found it.
pub(crate) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Puts the calling thread's `errno` back.
pub(crate) fn set_errno(code: i32) {
    #[cfg(target_os = "linux")]
    // SAFETY: the address is that of a number of the calling thread.
    unsafe {
        *libc::__errno_location() = code;
    }
    #[cfg(target_os = "android")]
    // SAFETY: as above.
    unsafe {
        *libc::__errno() = code;
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    // No handler of ours calls it.
    let _ = code;
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
pub fn inherited_descriptors(first: i32, count: usize) -> Vec<std::os::fd::OwnedFd> {
    let mut descriptors = Vec::new();
    for number in (first..).take(count) {
        // SAFETY: takes a number and no pointers; one that is not open is an error.
        if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            break;
        }
        // SAFETY: it is open, as the call above says, and nothing of this program owns it yet, as its caller promises.
        descriptors.push(unsafe { std::os::fd::OwnedFd::from_raw_fd(number) });
    }
    descriptors
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
