//! The seam between a log file and the system: every operation on the disk goes through [`Storage`],
//! so that tests make any of them fail, stop or fall short. [`Disk`] is the real one.
//!
//! Handles are plain descriptors and names are single components, looked up in an open directory:
//! replacing a directory on the path later has no effect on a file that is open.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use logdrive_ring::FileId;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::limits::POLL_MAX;

/// Mode in which [`Storage::open`] opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// A new file with these permissions, for reading and appending; fails where the name is taken.
    New(u32),
    /// An existing file for reading and appending.
    Append,
    /// An existing file for reading and writing anywhere.
    Existing,
    /// An existing file for reading.
    ReadOnly,
    /// A pipe or a character device, for writes that never block.
    Stream,
}

/// Behaviour of a rename whose new name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// The rename fails with `EEXIST`.
    NoReplace,
    /// The file of that name is removed.
    Replace,
    /// Both files exchange their names at once.
    Exchange,
}

/// Metadata of the file behind a name or a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Number of the device that holds it.
    pub dev: u64,
    /// Number of its inode on that device.
    pub ino: u64,
    /// Type of the file: regular, directory, link and so on.
    pub kind: FileKind,
    /// Permission bits, without the type.
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of names (hard links) that it has.
    pub links: u64,
    /// Time of the last write, in seconds since 1970.
    pub modified_unix_s: i64,
}

impl Stat {
    /// Returns true if both are the same file.
    pub fn same_file(&self, other: &Stat) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }
}

/// Type of a file, as far as a log cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file, with offsets.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe with a name.
    Fifo,
    /// A terminal, `/dev/null` and the like.
    CharDevice,
    /// A socket, a block device or something unknown.
    Other,
}

/// The operations on disk that a log file needs. Names are single components in an open directory.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Opens a directory; a link as the last component fails unless `follow` is set.
    fn open_dir(&self, path: &Path, follow: bool) -> io::Result<File>;
    /// Makes one directory with these permissions.
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Names in a directory that `wanted` takes, at most `max`.
    fn list(
        &self,
        dir: &File,
        wanted: &dyn Fn(&OsStr) -> bool,
        max: usize,
    ) -> io::Result<Vec<std::ffi::OsString>>;
    /// Opens a file; links are not followed.
    fn open(&self, dir: &File, name: &str, how: OpenMode) -> io::Result<File>;
    /// Asks about a name, or about an absolute path; links are not followed.
    fn stat(&self, dir: &File, name: &Path) -> io::Result<Stat>;
    /// Returns the metadata of an open file.
    fn stat_file(&self, file: &File) -> io::Result<Stat>;
    /// Renames a file within a directory.
    fn rename(&self, dir: &File, from: &str, to: &str, mode: RenameMode) -> io::Result<()>;
    /// Removes a name that is no directory.
    fn remove(&self, dir: &File, name: &str) -> io::Result<()>;
    /// Makes a symbolic link `name` to `target`; fails where the name is taken.
    fn symlink(&self, dir: &File, target: &Path, name: &str) -> io::Result<()>;
    /// Returns the target of a symbolic link.
    fn read_link(&self, dir: &File, name: &str) -> io::Result<std::path::PathBuf>;
    /// Brings the names of a directory to the disk, where its file system can do that.
    fn sync_dir(&self, dir: &File) -> io::Result<()>;
    /// Takes the exclusive lock of a file; `false` when another holds it.
    fn lock(&self, file: &File) -> io::Result<bool>;
    /// Reads at an offset; 0 at the end.
    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes to a file at an offset; may write a part. On Linux a file that is open for appending takes the bytes at
    /// its end, wherever that is by then.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Writes to a stream; `WouldBlock` when it took nothing for a while.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize>;
    /// Sets the size of a file.
    fn set_len(&self, file: &File, bytes: u64) -> io::Result<()>;
    /// Brings the data of a file to the disk.
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Storage for Disk {
    fn open_dir(&self, path: &Path, follow: bool) -> io::Result<File> {
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if !follow {
            flags |= OFlags::NOFOLLOW;
        }
        Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::mkdir(
            path,
            Mode::from_bits_truncate(mode as rustix::fs::RawMode),
        )?)
    }

    fn list(
        &self,
        dir: &File,
        wanted: &dyn Fn(&OsStr) -> bool,
        max: usize,
    ) -> io::Result<Vec<std::ffi::OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(dir)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if wanted(name) {
                names.push(name.to_os_string());
            }
            if names.len() >= max {
                break;
            }
        }
        Ok(names)
    }

    fn open(&self, dir: &File, name: &str, how: OpenMode) -> io::Result<File> {
        // Without O_NONBLOCK a pipe put in the file's place would hold the caller for ever; for a
        // regular file the flag has no meaning.
        let always = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK;
        let open = |flags: OFlags, mode: u32| {
            let mode = Mode::from_bits_truncate(mode as rustix::fs::RawMode);
            rustix::fs::openat(dir, name, always | flags, mode)
        };
        let file = match how {
            OpenMode::New(mode) => open(
                OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL,
                mode,
            )?,
            OpenMode::Append => open(OFlags::RDWR | OFlags::APPEND, 0)?,
            OpenMode::Existing => open(OFlags::RDWR, 0)?,
            OpenMode::ReadOnly => open(OFlags::RDONLY, 0)?,
            // A pipe that is open for reading too needs no reader to be opened, and keeps what was
            // written for the next reader. Where reading is not allowed, writing must do.
            OpenMode::Stream => match open(OFlags::RDWR, 0) {
                Err(Errno::ACCESS | Errno::PERM) => open(OFlags::WRONLY, 0)?,
                other => other?,
            },
        };
        Ok(File::from(file))
    }

    fn stat(&self, dir: &File, name: &Path) -> io::Result<Stat> {
        Ok(stat_of(&rustix::fs::statat(
            dir,
            name,
            AtFlags::SYMLINK_NOFOLLOW,
        )?))
    }

    fn stat_file(&self, file: &File) -> io::Result<Stat> {
        Ok(stat_of(&rustix::fs::fstat(file)?))
    }

    fn rename(&self, dir: &File, from: &str, to: &str, mode: RenameMode) -> io::Result<()> {
        rename(dir, from, to, mode)
    }

    fn remove(&self, dir: &File, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
    }

    fn symlink(&self, dir: &File, target: &Path, name: &str) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, dir, name)?)
    }

    fn read_link(&self, dir: &File, name: &str) -> io::Result<std::path::PathBuf> {
        let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
        Ok(Path::new(OsStr::from_bytes(target.to_bytes())).to_path_buf())
    }

    fn sync_dir(&self, dir: &File) -> io::Result<()> {
        match dir.sync_all() {
            // Without such a call there, nothing can be done, and no later one would do better.
            Err(cause)
                if matches!(
                    Errno::from_io_error(&cause),
                    Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
                ) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    fn lock(&self, file: &File) -> io::Result<bool> {
        match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }

    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(bytes, offset)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.write_at(bytes, offset)
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        match rustix::io::write(file, bytes) {
            Err(Errno::AGAIN) => {}
            other => return Ok(other?),
        }
        let mut waited = [PollFd::new(file, PollFlags::OUT)];
        poll(&mut waited, Some(&POLL_MAX.try_into().map_err(|_| Errno::INVAL)?))?;
        Ok(rustix::io::write(file, bytes)?)
    }

    fn set_len(&self, file: &File, bytes: u64) -> io::Result<()> {
        file.set_len(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}

/// Renames with the kernel's help where it can; without it a lock holder may still look first.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn rename(dir: &File, from: &str, to: &str, mode: RenameMode) -> io::Result<()> {
    use rustix::fs::RenameFlags;
    let flags = match mode {
        RenameMode::Replace => return Ok(rustix::fs::renameat(dir, from, dir, to)?),
        RenameMode::NoReplace => RenameFlags::NOREPLACE,
        RenameMode::Exchange => RenameFlags::EXCHANGE,
    };
    match rustix::fs::renameat_with(dir, from, dir, to, flags) {
        Err(Errno::INVAL | Errno::NOSYS) if mode == RenameMode::NoReplace => {
            rename_unless_taken(dir, from, to)
        }
        other => Ok(other?),
    }
}

/// As above, for systems without such renames.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn rename(dir: &File, from: &str, to: &str, mode: RenameMode) -> io::Result<()> {
    match mode {
        RenameMode::Replace => Ok(rustix::fs::renameat(dir, from, dir, to)?),
        RenameMode::NoReplace => rename_unless_taken(dir, from, to),
        RenameMode::Exchange => Err(Errno::NOSYS.into()),
    }
}

/// Looks whether the name is free, then renames: another process may come in between, but only one
/// that rotates the same log in the same second.
fn rename_unless_taken(dir: &File, from: &str, to: &str) -> io::Result<()> {
    match rustix::fs::statat(dir, to, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(rustix::fs::renameat(dir, from, dir, to)?),
        Err(cause) => Err(cause.into()),
        Ok(_) => Err(Errno::EXIST.into()),
    }
}

/// The widths of these fields differ from system to system, hence the casts that some call idle.
#[allow(clippy::unnecessary_cast)]
fn stat_of(stat: &rustix::fs::Stat) -> Stat {
    let kind = match FileType::from_raw_mode(stat.st_mode as rustix::fs::RawMode) {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo => FileKind::Fifo,
        FileType::CharacterDevice => FileKind::CharDevice,
        _ => FileKind::Other,
    };
    Stat {
        dev: stat.st_dev as u64,
        ino: stat.st_ino as u64,
        kind,
        mode: stat.st_mode as u32 & 0o7777,
        uid: stat.st_uid,
        bytes: u64::try_from(stat.st_size).unwrap_or(0),
        links: stat.st_nlink as u64,
        modified_unix_s: stat.st_mtime as i64,
    }
}

/// Returns the result of an operation on a file, or `None` where there is no such file.
pub(crate) fn existing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Returns true if a name in a directory still is that of an open file.
pub(crate) fn is_named(storage: &dyn Storage, dir: &File, name: &str, file: &File) -> io::Result<bool> {
    let stat = storage.stat_file(file)?;
    let named = existing(storage.stat(dir, Path::new(name)))?;
    Ok(named.is_some_and(|named| named.same_file(&stat)))
}

/// A file whose lock goes with it. To close the file is not enough for that: a process that was
/// forked meanwhile has inherited the descriptor, and holds the lock until it executes or ends. Such
/// a process must not give up the lock of its parent either.
#[derive(Debug)]
pub(crate) struct LockedFile {
    /// Shared with nobody; what is shared and forgotten is never closed.
    file: Arc<File>,
    /// Its identity, as far as the system has told it.
    id: Option<FileId>,
    owner_pid: u32,
}

impl LockedFile {
    /// Takes over a file that this process has locked.
    pub(crate) fn new(file: File) -> LockedFile {
        LockedFile {
            id: file.metadata().ok().map(|found| FileId::of(&found)),
            file: Arc::new(file),
            owner_pid: std::process::id(),
        }
    }

    /// Returns true if the descriptor is still this file: the program has not closed it, and used its number again.
    pub(crate) fn is_open(&self) -> bool {
        let found = self.file.metadata().ok().map(|found| FileId::of(&found));
        found.is_some() && (self.id.is_none() || found == self.id)
    }

    /// Gives up the lock and keeps the file open.
    pub(crate) fn give_up_lock(self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl std::ops::Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if !self.is_open() {
            // The number is the program's by now, or nobody's: it is not ours to close.
            return std::mem::forget(Arc::clone(&self.file));
        }
        if self.owner_pid == std::process::id() {
            // A file without a lock has none to give up, and closing comes next.
            let _ = self.file.unlock();
        }
    }
}

/// Reads a file of the system from the storage in order, for the compression.
pub(crate) struct Reader<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) file: &'a File,
    pub(crate) offset: u64,
}

impl io::Read for Reader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.storage.read_at(self.file, bytes, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

impl io::Seek for Reader<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let offset = match to {
            io::SeekFrom::Start(offset) => Some(offset),
            io::SeekFrom::Current(by) => self.offset.checked_add_signed(by),
            io::SeekFrom::End(by) => self.storage.stat_file(self.file)?.bytes.checked_add_signed(by),
        };
        self.offset = offset.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.offset)
    }
}

impl Reader<'_> {
    /// Fills `bytes` as far as the file goes; returns how much.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(filled)
    }
}

/// Writes to a file of the storage in order, from its start.
pub(crate) struct Writer<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) file: &'a File,
    pub(crate) offset: u64,
}

impl io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.storage.write_at(self.file, bytes, self.offset)?;
        self.offset += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that was forked while the file was open held its lock on, and the next owner went
    /// beside the file.
    #[test]
    fn a_lock_goes_with_its_file_though_another_descriptor_is_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.log");
        let held = LockedFile::new(File::create(&path).expect("made"));
        assert!(Disk.lock(&held).expect("locked"));
        let inherited = held.try_clone().expect("a copy, as a child has it");
        let other = File::open(&path).expect("open");
        assert!(!Disk.lock(&other).expect("asked"));
        drop(held);
        assert!(Disk.lock(&other).expect("locked"));
        drop(inherited);
    }
}
