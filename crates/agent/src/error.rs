//! Errors between an agent and its peers.

use logdrive_ring::RingError;
use logdrive_wire::WireError;
use logdrive_wire::agent::{Refused, RefusedCode};
use std::io;
use std::path::PathBuf;

/// Error between an agent and its peers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Another agent has the place.
    #[error(
        "{path} belongs to another agent{}; end that one, or give this one a place of its own",
        pid.map_or_else(String::new, |pid| format!(", process {pid}"))
    )]
    InUse {
        /// The socket or directory.
        path: PathBuf,
        /// Its holder, where it is known.
        pid: Option<u32>,
    },
    /// A directory that another user could change.
    #[error("{path} is not safe: {what}; mend that, or choose another directory")]
    Unsafe {
        /// The directory or file.
        path: PathBuf,
        /// Description of what is wrong with it.
        what: &'static str,
    },
    /// A system call on a path failed.
    #[error("cannot {action} {path}: {cause}")]
    Io {
        /// Operation that failed.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Error of the system.
        #[source]
        cause: io::Error,
    },
    /// No agent listens there.
    #[error("no agent answers at {path}: {cause}; start one with `logdrive agent`, or name its socket")]
    NoAgent {
        /// The socket.
        path: PathBuf,
        /// Error of the system.
        #[source]
        cause: io::Error,
    },
    /// The agent said no.
    #[error("the agent refused: {reason}; {advice}")]
    Refused {
        /// Which family of reasons.
        code: RefusedCode,
        /// Reason of the refusal, for people.
        reason: String,
        /// Advice on what to do.
        advice: String,
    },
    /// The agent has not answered, or has closed the connection.
    #[error("the agent at {path} {what}; try again, and look into its log if it does so again")]
    NoAnswer {
        /// The socket.
        path: PathBuf,
        /// Description of what it did.
        what: &'static str,
    },
    /// A message that cannot be read.
    #[error("a message of the agent cannot be read: {0}")]
    Message(#[from] WireError),
    /// Shared memory that is not what it claims to be.
    #[error(transparent)]
    Ring(#[from] RingError),
}

impl AgentError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, cause: impl Into<io::Error>) -> Self {
        Self::Io {
            action,
            path: path.into(),
            cause: cause.into(),
        }
    }
}

impl From<Refused> for AgentError {
    fn from(refused: Refused) -> Self {
        Self::Refused {
            code: refused.code,
            reason: refused.reason,
            advice: refused.advice,
        }
    }
}
