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
    /// A layout for the lines of the log that has no lines.
    #[error("the log has lines, which the layout segments does not have: use --format segments")]
    LayoutWithoutLines,
    /// A layout that cannot be used.
    #[error(transparent)]
    Layout {
        /// Cause.
        #[from]
        cause: logdrive_drain::layout::LayoutError,
    },
    /// The log cannot be opened or written.
    #[error(transparent)]
    LogFile {
        /// Cause, with the file.
        #[from]
        cause: logdrive_drain::file::FileError,
    },
    /// An input that cannot listen.
    #[cfg(feature = "inputs")]
    #[error("cannot listen at {address}: {}", io_text(cause))]
    Input {
        /// The address.
        address: String,
        /// Cause, as the system gives it.
        cause: io::Error,
    },
    /// An input that another process reads into the same directory.
    #[cfg(feature = "inputs")]
    #[error("another collector reads {address} with the state {}: end it", path.display())]
    InputInUse {
        /// The address.
        address: String,
        /// The file that is locked.
        path: PathBuf,
    },
    /// A checkpoint of an input that cannot be read.
    #[cfg(feature = "inputs")]
    #[error(
        "{} is no whole checkpoint of {address}: remove it to read from the start, or from where the group of consumers is",
        path.display()
    )]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// The input.
        address: String,
    },
    /// A client of an input that cannot be made.
    #[cfg(feature = "kafka")]
    #[error("the client of {address} cannot be made: {why}")]
    InputClient {
        /// The address.
        address: String,
        /// Cause, as the client gives it.
        why: String,
    },
    /// The system starts no thread.
    #[error("the system starts no thread: {}", io_text(cause))]
    Thread {
        /// Cause, as the system gives it.
        cause: io::Error,
    },
    /// The system gives no random bytes, which a new session takes.
    #[error("the system gives no random bytes: {}", io_text(cause))]
    Random {
        /// Cause, as the system gives it.
        cause: io::Error,
    },
    /// No place for the state of a sender.
    #[error(
        "there is no absolute path in the environment variable {variable}: set it, or name a file with --state"
    )]
    NoStateDirectory {
        /// Name of the variable.
        variable: &'static str,
    },
    /// Another process sends the same log to the same collectors.
    #[error(
        "another sender has the state {}: end it, or give this one another state with --state, which sends all again",
        path.display()
    )]
    StateInUse {
        /// The state.
        path: PathBuf,
    },
    /// A state that counts what other collectors have.
    #[error(
        "the state {} is of other collectors ({collectors}): name another one with --state, or remove it to send the \
         log from its start",
        path.display()
    )]
    OtherCollectors {
        /// The state.
        path: PathBuf,
        /// Their addresses.
        collectors: String,
    },
    /// A log that is sent to more groups of collectors than have states.
    #[error("{} has states of too many groups of collectors: remove those that are not used", path.display())]
    TooManyStates {
        /// The path of the first state.
        path: PathBuf,
    },
    /// A pattern that no file matches.
    #[error("no file matches {}: quote the pattern, and check the directory", pattern.display())]
    NoMatch {
        /// The pattern.
        pattern: PathBuf,
    },
    /// A text that is no pattern of paths.
    #[error("{} is no pattern: {why}", pattern.display())]
    Pattern {
        /// The text.
        pattern: PathBuf,
        /// Cause.
        why: &'static str,
    },
    /// A file that changed while its unacknowledged lines were read again.
    #[error(
        "{} changed while it was read again after a restart: start again, which sends it under new numbers",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The options do not allow a connection, such as an address beyond this machine without encryption.
    #[error(transparent)]
    Ship {
        /// Cause, with the address.
        #[from]
        cause: logdrive_ship::TransportError,
    },
}

impl CollectorError {
    /// Makes the error of a file from that of the system.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |cause| Self::File {
            doing,
            path: path.clone(),
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
