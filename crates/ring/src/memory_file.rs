//! Sealed memory files: what an agent and a process share. The receiver of one checks it before it is mapped,
//! so that no touch of its pages can fail later.

use crate::RingError;
use crate::header::capacity_of;
use rustix::fs::{self, FallocateFlags, MemfdFlags, OFlags, SealFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The seals of a memory file: its size never changes, and its pages may be written for ever.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The file system of memory files with pages of the usual size. Huge pages may be missing when they are touched.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Identity of a memory file, whatever descriptor leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryId {
    dev: u64,
    ino: u64,
}

/// Makes a memory file of `bytes`, of which the first `reserved` have their blocks.
pub(crate) fn make(name: &str, bytes: u64, reserved: u64) -> Result<File, RingError> {
    // The path is made where it is needed: a caller may have interrupted the allocator.
    let path = || PathBuf::from(name);
    let fail = |action| move |cause: rustix::io::Errno| RingError::io(action, path(), cause.into());
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag that keeps the file from being run as a program.
    let made = match fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(rustix::io::Errno::INVAL) => fs::memfd_create(name, flags),
        other => other,
    };
    let file = File::from(made.map_err(fail("make"))?);
    if crate::sys::check_size_limit(bytes).is_err() {
        return Err(RingError::NoRoom { path: path(), bytes });
    }
    fs::ftruncate(&file, bytes).map_err(fail("make"))?;
    if reserved > 0 {
        match fs::fallocate(&file, FallocateFlags::empty(), 0, reserved) {
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::NOMEM | rustix::io::Errno::DQUOT) => {
                return Err(RingError::NoRoom {
                    path: path(),
                    bytes: reserved,
                });
            }
            other => other.map_err(fail("reserve"))?,
        }
    }
    fs::fcntl_add_seals(&file, SEALS).map_err(fail("seal"))?;
    Ok(file)
}

/// Returns whether a descriptor is a memory file with the seals of a session's. Asks only the kernel, so that it never
/// hangs, whatever file system the descriptor belongs to; and such a file can be closed without a wait.
pub fn is_memory_file(file: &File) -> bool {
    fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS))
}

/// Returns whether the file can neither shrink nor grow.
pub(crate) fn is_sealed(file: &File) -> bool {
    let size = SealFlags::SHRINK.union(SealFlags::GROW);
    fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(size))
}

/// Checks a descriptor that came from a peer: a sealed memory file, open for reading and writing, of exactly this size.
///
/// # Errors
/// With what is wrong, in the words of `what`.
pub(crate) fn check(file: &File, what: &'static str, bytes: u64) -> Result<MemoryId, RingError> {
    let (id, found) = check_any_size(file, what)?;
    if found == bytes {
        return Ok(id);
    }
    Err(RingError::damaged(what, "size", found, "the size of the format"))
}

/// As [`check`], for a ring of a capacity up to this one.
pub(crate) fn check_ring(file: &File, capacity_bytes: usize) -> Result<MemoryId, RingError> {
    let (id, found) = check_any_size(file, "ring")?;
    match capacity_of(found)? {
        capacity if capacity <= capacity_bytes => Ok(id),
        _ => Err(RingError::damaged(
            "ring",
            "size",
            found,
            "at most that of the session's rings",
        )),
    }
}

/// As [`check`], for files whose size says something; returns it.
pub(crate) fn check_any_size(file: &File, what: &'static str) -> Result<(MemoryId, u64), RingError> {
    if !is_memory_file(file) {
        return Err(RingError::damaged(
            what,
            "seals",
            0,
            "a memory file sealed in size",
        ));
    }
    // From here on it is a memory file, whose answers come from the kernel alone.
    let io = |cause: io::Error| RingError::io("look at", Path::new(what), cause);
    let system = fs::fstatfs(file).map_err(|cause| io(cause.into()))?;
    if system.f_type as u64 != TMPFS_MAGIC {
        return Err(RingError::damaged(
            what,
            "file system",
            system.f_type as u64,
            "memory with pages of the usual size",
        ));
    }
    let flags = fs::fcntl_getfl(file).map_err(|cause| io(cause.into()))?;
    if !flags.contains(OFlags::RDWR) || flags.contains(OFlags::PATH) {
        return Err(RingError::damaged(
            what,
            "access",
            u64::from(flags.bits()),
            "open for reading and writing",
        ));
    }
    let found = file.metadata().map_err(io)?;
    let id = MemoryId {
        dev: found.dev(),
        ino: found.ino(),
    };
    Ok((id, found.len()))
}

/// A second descriptor of the same memory, with locks and a place of its own.
pub(crate) fn open_again(file: &File) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).write(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    fn why(file: &File) -> String {
        check(file, "ring", 8192).expect_err("it is refused").to_string()
    }

    #[test]
    fn what_was_made_here_is_taken() {
        let file = make("logdrive-test", 8192, 4096).expect("memory");
        let id = check(&file, "ring", 8192).expect("it is ours");
        let again = open_again(&file).expect("a second descriptor");
        assert_eq!(check(&again, "ring", 8192).expect("the same"), id);
        let other = make("logdrive-test", 8192, 0).expect("memory");
        assert_ne!(check(&other, "ring", 8192).expect("it is ours"), id);
        assert!(file.set_len(0).is_err() && file.set_len(1 << 20).is_err());
    }

    #[test]
    fn other_sizes_kinds_and_accesses_are_refused() {
        let file = make("logdrive-test", 4096, 4096).expect("memory");
        assert!(why(&file).contains("size"));
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        assert!(why(&File::from(OwnedFd::from(reader))).contains("seals"));
        assert!(why(&File::open("/dev/zero").expect("a device")).contains("seals"));
        assert!(why(&tempfile().expect("a file")).contains("seals"));
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let unsealed = File::from(fs::memfd_create("logdrive-test", flags).expect("memory"));
        unsealed.set_len(8192).expect("a size");
        assert!(why(&unsealed).contains("seals"));
        fs::fcntl_add_seals(&unsealed, SealFlags::SHRINK).expect("a seal");
        assert!(why(&unsealed).contains("seals"));
    }

    #[test]
    fn descriptors_that_cannot_write_are_refused() {
        use std::os::fd::AsRawFd;
        let file = make("logdrive-test", 8192, 4096).expect("memory");
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let reader = File::open(&path).expect("for reading");
        assert!(why(&reader).contains("access"));
        let path_only = fs::open(&path, OFlags::PATH, fs::Mode::empty()).expect("a path");
        assert!(why(&File::from(path_only)).contains("seals"));
    }

    /// A file with a name that goes at once.
    fn tempfile() -> io::Result<File> {
        let path = std::env::temp_dir().join(format!("logdrive-memory-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        std::fs::remove_file(path)?;
        file.set_len(8192)?;
        Ok(file)
    }
}
