//! Errors of the collector and of the sender of log files: the file, the cause, and what to do about it.

use logdrive_reader::io_text;
use std::io;
use std::path::{Path, PathBuf};

/// Error of collecting or of sending.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectorError {
    /// A file that cannot be used.
    #[error("cannot {doing} {}: {}", path.display(), io_text(cause))]
    File {
        /// Action that failed, such as "open".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause, as the system gives it.
        cause: io::Error,
    },
    /// A directory where a log file is expected.
    #[error("{0} is a directory: name the log files in it, such as {0}/*.log", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The log cannot be opened or written.
    #[error(transparent)]
    LogFile {
        /// Cause, with the file.
        #[from]
        cause: logdrive_drain::file::FileError,
    },
    /// No place for the state of a sender.
    #[error(
        "there is no absolute path in the environment variable {variable}: set it, or name a file with --state"
    )]
    NoStateDirectory {
        /// Name of the variable.
        variable: &'static str,
    },
    /// The options do not allow a connection, such as an address that carries no records.
    #[error(transparent)]
    Ship {
        /// Cause, with the address.
        #[from]
        cause: logdrive_ship::TransportError,
    },
}

impl CollectorError {
    /// Makes the error of a file from that of the system.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |cause| Self::File {
            doing,
            path: path.to_owned(),
            cause,
        }
    }

    /// Makes the error of a read.
    pub(crate) fn read(path: &Path, cause: io::Error) -> Self {
        Self::file("read", path)(cause)
    }

    /// Makes the error of a write.
    pub(crate) fn write(path: &Path, cause: io::Error) -> Self {
        Self::file("write", path)(cause)
    }
}
