//! Errors of a log file. Each message says what happened, to which path, and what a
//! person can do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Error that keeps a log file from being opened, rotated, written or recovered.
///
/// ```
/// use logdrive_drain::file::{Disk, FileError, FileOptions, LogFile};
/// use std::sync::Arc;
///
/// let error = LogFile::open(&FileOptions::new("/dev/fd"), Arc::new(Disk), 0).unwrap_err();
/// assert!(matches!(error, FileError::FileIsLink { .. }) && error.is_permanent());
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refused an operation.
    #[error("cannot {doing} {}: {cause}; {}", path.display(), advice(cause))]
    Io {
        /// Operation that was tried.
        doing: FileOperation,
        /// File or directory that it was tried on.
        path: PathBuf,
        /// Error of the system. Part of the message, hence no `source`.
        cause: io::Error,
    },
    /// The options contradict themselves or cannot be read.
    #[error("wrong options for a log file: {what}")]
    Options {
        /// The fault, and advice what to give instead.
        what: String,
    },
    /// The file name cannot be used for a log.
    #[error("the log path {} cannot be used: {why}", path.display())]
    Name {
        /// The path as the caller gave it.
        path: PathBuf,
        /// The fault, and advice what to give instead.
        why: &'static str,
    },
    /// The directory is a symbolic link, which its owner may point elsewhere at any time.
    #[error(
        "the log directory {} is a symbolic link: give the directory that it points to, \
         or allow it with trust_directory", path.display()
    )]
    DirectoryIsLink {
        /// Path of the log directory.
        path: PathBuf,
    },
    /// Any user may rename or remove files there.
    #[error(
        "the log directory {} may be written by every user (mode {mode:o}): remove that with \
         `chmod o-w`, choose another, or allow it with trust_directory", path.display()
    )]
    DirectoryOpenToAll {
        /// Path of the log directory.
        path: PathBuf,
        /// Permission bits of the directory.
        mode: u32,
    },
    /// Another user may rename or remove files there.
    #[error(
        "the log directory {} belongs to user {owner}, not to user {user} who runs this program: \
         choose another, or allow it with trust_directory", path.display()
    )]
    DirectoryOfOther {
        /// Path of the log directory.
        path: PathBuf,
        /// The user id that owns it.
        owner: u32,
        /// The effective user id of this process.
        user: u32,
    },
    /// The file is a symbolic link; no link is followed.
    #[error(
        "the log file {} is a symbolic link: give the file that it points to; for the standard \
         streams use the console sink", path.display()
    )]
    FileIsLink {
        /// Path of the symbolic link.
        path: PathBuf,
    },
    /// In a directory where all may write, another user placed the file or a hard link to it.
    #[error(
        "the log file {} was placed by user {owner} in a directory that all may write to: \
         remove it, or choose another directory", path.display()
    )]
    FileOfOther {
        /// Path of the log file.
        path: PathBuf,
        /// The user id that owns it.
        owner: u32,
    },
    /// A directory, socket or block device.
    #[error("the log path {} is a {what}: give a file, a pipe or a character device", path.display())]
    NotAFile {
        /// Path as it was configured.
        path: PathBuf,
        /// Type of what stands there, such as a directory.
        what: &'static str,
    },
    /// Other processes hold the file and every name beside it.
    #[error(
        "the log file {} and all names beside it are in use by other processes: give each \
         process a file of its own", path.display()
    )]
    Locked {
        /// Path of the log as configured.
        path: PathBuf,
    },
    /// A file in the directory has the highest number that a rotated file can have.
    #[error(
        "no number is left to rotate {} to: move the rotated files away", path.display()
    )]
    NoNameLeft {
        /// Path of the file that is written.
        path: PathBuf,
    },
    /// Something deletes the file as soon as it is there.
    #[error(
        "the log file {} is deleted again and again while it is written: end the program that does that",
        path.display()
    )]
    Deleted {
        /// Path of the file that is written.
        path: PathBuf,
    },
    /// A placement that this file did not give, or gave before it moved on.
    #[error("the chunk was placed in another file than {}: place it again", path.display())]
    Misplaced {
        /// Path of the file that is written.
        path: PathBuf,
    },
    /// A chunk was neither written to its end nor abandoned.
    #[error("the chunk before is unfinished in {}: write its rest or abandon it", path.display())]
    Unfinished {
        /// Path of the file that is written.
        path: PathBuf,
    },
}

impl FileError {
    /// An operation that the system refused.
    pub(crate) fn io(doing: FileOperation, path: impl AsRef<Path>, cause: io::Error) -> Self {
        FileError::Io {
            doing,
            path: path.as_ref().to_path_buf(),
            cause,
        }
    }

    /// The system's error number, where the system refused an operation.
    pub fn os_error(&self) -> Option<i32> {
        match self {
            FileError::Io { cause, .. } => cause.raw_os_error(),
            _ => None,
        }
    }

    /// Returns true if the other side is merely full or absent for now: no fault, worth no report, to be
    /// tried again soon.
    pub fn is_busy(&self) -> bool {
        matches!(self, FileError::Io { cause, .. } if cause.kind() == io::ErrorKind::WouldBlock)
    }

    /// Returns true if the reader of a pipe has gone.
    pub fn is_closed(&self) -> bool {
        matches!(self, FileError::Io { cause, .. } if cause.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns true if a program cannot begin with it: it has to be changed by a person, and is no disk that is full or
    /// fails for a while.
    pub(crate) fn is_fatal_at_start(&self) -> bool {
        let passes = [
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::FBIG,
            Errno::IO,
            Errno::STALE,
            Errno::AGAIN,
        ];
        match self {
            FileError::Io { cause, .. } => {
                Errno::from_io_error(cause).is_none_or(|errno| !passes.contains(&errno))
            }
            _ => true,
        }
    }

    /// Returns true if no retry can help: the options or the directory have to be changed first.
    pub fn is_permanent(&self) -> bool {
        !matches!(
            self,
            FileError::Io { .. }
                | FileError::Locked { .. }
                | FileError::NoNameLeft { .. }
                | FileError::Deleted { .. }
        )
    }
}

/// Operation on a file, as it stands in a message after "cannot".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileOperation {
    /// Making a directory that is missing.
    CreateDirectory,
    /// Opening the directory of the log.
    OpenDirectory,
    /// Listing the files of the directory.
    List,
    /// Opening an existing file or creating one.
    Open,
    /// Reading size, owner and type of a file.
    Inspect,
    /// Taking the exclusive lock of the file.
    Lock,
    /// Writing bytes to the file.
    Write,
    /// Reading, for compression and recovery.
    Read,
    /// Cutting off a line that could not be written whole.
    Truncate,
    /// Syncing data of the file to the disk.
    Sync,
    /// Moving the file away, to begin a new one.
    Rotate,
    /// Compressing a file after its rotation.
    Compress,
    /// Moving a rotated file to the cold directory.
    MoveToCold,
    /// Removing a file by the rules of retention.
    Remove,
    /// Setting the link to the newest file.
    Link,
    /// Starting the thread that compresses and removes files.
    StartThread,
}

impl fmt::Display for FileOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            FileOperation::CreateDirectory => "create the directory",
            FileOperation::OpenDirectory => "open the directory",
            FileOperation::List => "list the directory",
            FileOperation::Open => "open",
            FileOperation::Inspect => "inspect",
            FileOperation::Lock => "lock",
            FileOperation::Write => "write to",
            FileOperation::Read => "read",
            FileOperation::Truncate => "truncate",
            FileOperation::Sync => "bring to disk",
            FileOperation::Rotate => "rotate",
            FileOperation::Compress => "compress",
            FileOperation::MoveToCold => "move to the cold directory",
            FileOperation::Remove => "remove",
            FileOperation::Link => "set the link",
            FileOperation::StartThread => "start a thread for",
        })
    }
}

/// Returns advice for a person about an error of the system.
fn advice(cause: &io::Error) -> &'static str {
    let Some(errno) = Errno::from_io_error(cause) else {
        return match cause.kind() {
            io::ErrorKind::WriteZero => "the device takes no more bytes",
            io::ErrorKind::InvalidData => "the file is damaged",
            _ => "it will be tried again",
        };
    };
    match errno {
        Errno::NOSPC | Errno::DQUOT => "free space on that file system, or lower keep_bytes or keep_files",
        Errno::ROFS => "the file system is read-only: mount it for writing, or choose another path",
        Errno::MFILE => "this process has too many open files: raise `ulimit -n`",
        Errno::NFILE => "the machine has too many open files: raise fs.file-max",
        Errno::ACCESS | Errno::PERM => "give this user the right to write there, or choose another path",
        Errno::IO => "the disk failed: look at the kernel's messages",
        Errno::FBIG => "the file may not grow further: set rotate_bytes, or raise `ulimit -f`",
        Errno::NAMETOOLONG => "choose a shorter path",
        Errno::NOENT => {
            "it was removed, or no file can be made there: make the directory, or choose another path"
        }
        Errno::NOTDIR => "a part of the path is no directory: choose another path",
        Errno::STALE => "the network file system lost it: mount it again",
        Errno::PIPE | Errno::NXIO => "nobody reads it: start the reader",
        Errno::AGAIN => "its reader is too slow, or its owner is at work: it will be tried again",
        _ => "it will be tried again",
    }
}

/// A chunk that was not written to its end.
///
/// ```
/// # use logdrive_drain::file::{Fault, Faulty, FileOptions, LogFile, Operation};
/// # use std::sync::Arc;
/// # let dir = tempfile::tempdir()?;
/// # let storage = Arc::new(Faulty::new());
/// # let mut file = LogFile::open(&FileOptions::new(dir.path().join("a.log")), storage.clone(), 0)?;
/// # storage.fail(Operation::WriteAt, 0, 1, Fault::Short(7));
/// # storage.fail(Operation::WriteAt, 0, 1, Fault::Error(28));
/// let chunk = b"one\ntwo\n";
/// let placement = file.place(8, 0)?;
/// let failed = file.write_at(placement, 0, chunk).unwrap_err();
/// assert_eq!(failed.written_bytes, 7); // the disk is full
/// file.abandon(placement, 4)?; // keeps the first line
/// assert_eq!(std::fs::read(file.path())?, b"one\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{cause} ({written_bytes} bytes of the chunk are written)")]
pub struct WriteFailed {
    /// Number of bytes of the chunk that stand in the file, from its start: the `skip` of the next try.
    pub written_bytes: u64,
    /// Error that stopped the write. Part of the message, hence no `source`.
    pub cause: FileError,
}

/// Bytes that were handed to the kernel and may not have reached the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsyncedRange {
    /// The file, as it was or will be called after it was sealed.
    pub path: PathBuf,
    /// Number of the device that holds the file.
    pub dev: u64,
    /// Number of the file's inode on that device.
    pub ino: u64,
    /// Offset of the first byte that may not be on disk.
    pub from_offset: u64,
    /// Offset behind the last byte that may not be on disk.
    pub to_offset: u64,
}

/// A sync that failed. The kernel forgets such a failure once it has reported it, so the file is sealed:
/// nothing more is appended to it, and no later sync of it would prove anything. The bytes that may not
/// be on disk are to be written again, where they are still at hand; the next placement is in a new file.
///
/// ```
/// # use logdrive_drain::file::{Fault, Faulty, FileOptions, LogFile, Operation};
/// # use std::sync::Arc;
/// # let dir = tempfile::tempdir()?;
/// # let storage = Arc::new(Faulty::new());
/// # let mut file = LogFile::open(&FileOptions::new(dir.path().join("a.log")), storage.clone(), 0)?;
/// # storage.fail(Operation::Sync, 0, 1, Fault::Error(5));
/// let placement = file.place(6, 0)?;
/// file.write_at(placement, 0, b"hello\n")?;
/// let failed = file.sync().unwrap_err();
/// assert_eq!((failed.unsynced[0].from_offset, failed.unsynced[0].to_offset), (0, 6));
/// assert_ne!(file.place(6, 0)?.ino, placement.ino);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{cause}; the file is sealed and a new one is begun")]
pub struct SyncFailed {
    /// The bytes since the last sync that worked, oldest first.
    pub unsynced: Vec<UnsyncedRange>,
    /// Error of the system. Part of the message, hence no `source`.
    pub cause: FileError,
}
