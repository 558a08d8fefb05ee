//! Errors of reading logs: the file, the cause, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Error of reading a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A file or directory that cannot be opened.
    #[error("cannot open {}: {}", path.display(), io_text(cause))]
    Open {
        /// The file.
        path: PathBuf,
        /// Cause, as the system gives it.
        cause: io::Error,
    },
    /// A file or directory that cannot be read.
    #[error("cannot read {}: {}", path.display(), io_text(cause))]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause, as the system gives it.
        cause: io::Error,
    },
    /// A compressed file that is damaged or cut off. What comes before the damage was read.
    #[error(
        "cannot decompress {}: {}; what comes before is printed, the rest of this file is lost to it",
        path.display(), io_text(cause)
    )]
    Decompress {
        /// The file.
        path: PathBuf,
        /// Cause, as the decoder gives it.
        cause: io::Error,
    },
    /// A part of a segment that is no block. What stands before and behind it is read.
    #[error("{}: {damage}; the records before and behind them are read", path.display())]
    Damage {
        /// The file.
        path: PathBuf,
        /// Place and reason.
        damage: logdrive_store::Damage,
    },
    /// A segment from a pipe, in which nothing can be skipped.
    #[error("a segment cannot be read from a pipe: name the file")]
    SegmentStream,
    /// A directory where a log file is expected.
    #[error("{0} is a directory: name the log files in it, such as {0}/*.log", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// One session more than a follower takes.
    #[error("{limit} sessions are followed and no more: name the ones that matter")]
    TooManySessions {
        /// Sessions that one follower takes.
        limit: usize,
    },
    /// A session whose lines cannot be laid out.
    #[error(transparent)]
    Layout {
        /// Cause, such as a name that is too long.
        #[from]
        cause: logdrive_drain::layout::LayoutError,
    },
}

impl ReadError {
    /// Returns what makes the error of a file that cannot be opened out of its cause.
    pub(crate) fn open(path: &Path) -> impl Fn(io::Error) -> Self {
        move |cause| Self::Open {
            path: path.to_owned(),
            cause,
        }
    }

    /// Returns what makes the error of a file that cannot be read out of its cause.
    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |cause| Self::Read {
            path: path.to_owned(),
            cause,
        }
    }
}

/// Returns a system error as a sentence without the error's number, with advice for those that people meet often.
pub fn io_text(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "you may not; ask its owner, or run as its user".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full; free some space and try again".to_owned(),
        _ if cause.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            "too many files are open; raise the limit with `ulimit -n 4096`, or merge in parts".to_owned()
        }
        _ => {
            let mut text = cause.to_string();
            text.truncate(text.find(" (os error").unwrap_or(text.len()));
            let mut letters = text.chars();
            let first = letters.next().into_iter().flat_map(char::to_lowercase);
            first.chain(letters).collect()
        }
    }
}
