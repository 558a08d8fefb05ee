//! Errors of shared memory, rings and sessions.

use std::io;
use std::path::PathBuf;

/// Why a region, ring or session cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// A system call on a file or directory failed.
    #[error("cannot {action} {path}: {cause}")]
    Io {
        /// Action that failed.
        action: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the system.
        #[source]
        cause: io::Error,
    },
    /// The file system has no room for the region.
    #[error(
        "{path}: no room to reserve {bytes} bytes of shared memory; free space there or choose another run directory"
    )]
    NoRoom {
        /// The file that was to be reserved.
        path: PathBuf,
        /// Bytes asked for.
        bytes: u64,
    },
    /// A path that should be a file of a session and is a pipe, a device or a directory.
    #[error("{path} is not a regular file, so that it belongs to no session; remove it")]
    NotAFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// A directory that another user could write to.
    #[error("{path} is not safe for a session: {what}; remove it, or choose another run directory")]
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
        /// Reason, in words.
        what: &'static str,
    },
    /// An agent of a user who is not trusted.
    #[error(
        "the agent at {path} runs as user {uid}: it is believed if that is root, your own user, or the one whom the \
         directory belongs to, with nobody else writing there; mend that, or choose another socket"
    )]
    UntrustedAgent {
        /// The socket.
        path: PathBuf,
        /// The agent's user.
        uid: u32,
    },
    /// Bytes that are not what they claim to be.
    #[error("{what} is damaged: {field} is {found:#x}, expected {expected}")]
    Damaged {
        /// Which structure.
        what: &'static str,
        /// Which field of it.
        field: &'static str,
        /// The value found.
        found: u64,
        /// Values that the format allows there.
        expected: &'static str,
    },
    /// A limit of the format is reached.
    #[error("{what}: the limit of {limit} is reached")]
    Limit {
        /// Name of what there is too much of.
        what: &'static str,
        /// The most there may be.
        limit: u64,
    },
    /// Another tool is changing the rules of the session.
    #[error("another command is changing the rules in {path}; try again when it has ended")]
    Busy {
        /// The file of the rules.
        path: PathBuf,
    },
    /// A session that another process is using.
    #[error("the session {path} belongs to process {pid}, which is alive")]
    Alive {
        /// The session's directory.
        path: PathBuf,
        /// Process that holds it.
        pid: u32,
    },
}

impl RingError {
    /// Returns whether a session was never made to its end: its process was killed in the middle of that.
    pub fn is_incomplete(&self) -> bool {
        matches!(
            self,
            Self::Damaged {
                field: "magic" | "file size",
                found: 0,
                ..
            }
        )
    }

    /// Returns whether a file system has no room.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn is_no_room(&self) -> bool {
        match self {
            Self::NoRoom { .. } => true,
            Self::Io { cause, .. } => matches!(cause.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)),
            _ => false,
        }
    }

    /// Returns whether a ring's file is empty: the ring lay in memory of its process alone.
    pub(crate) fn is_private_ring(&self) -> bool {
        matches!(
            self,
            Self::Damaged {
                what: "ring header",
                field: "file size",
                found: 0,
                ..
            }
        )
    }

    pub(crate) fn damaged(
        what: &'static str,
        field: &'static str,
        found: u64,
        expected: &'static str,
    ) -> Self {
        Self::Damaged {
            what,
            field,
            found,
            expected,
        }
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, cause: io::Error) -> Self {
        Self::Io {
            action,
            path: path.into(),
            cause,
        }
    }
}
