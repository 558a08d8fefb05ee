//! Why a server cannot be started, or a tool does not get what it asks for.

use logdrive_ring::RingError;
use logdrive_wire::WireError;
use logdrive_wire::agent::{Refused, RefusedCode};
use std::io;
use std::path::PathBuf;

/// What went wrong between an agent and its peers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Another agent has the place.
    #[error(
        "{path} belongs to another agent{}; end that one, or give this one a place of its own",
        pid.map_or_else(String::new, |pid| format!(", process {pid}"))
    )]
    Held {
        /// The socket or directory.
        path: PathBuf,
        /// Its holder, where it is known.
        pid: Option<u32>,
    },
    /// A directory that somebody else could change.
    #[error("{path} is not safe: {what}; mend that, or choose another directory")]
    Unsafe {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A system call on a path failed.
    #[error("cannot {action} {path}: {cause}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// Nobody listens there.
    #[error("no agent answers at {path}: {cause}; start one with `logdrive agent`, or name its socket")]
    NoAgent {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The agent said no.
    #[error("the agent refused: {reason}; {advice}")]
    Refused {
        /// Which family of reasons.
        code: RefusedCode,
        /// What happened.
        reason: String,
        /// What to do.
        advice: String,
    },
    /// The agent has not answered, or has closed the connection.
    #[error("the agent at {path} {what}; try again, and look into its log if it does so again")]
    NoAnswer {
        /// The socket.
        path: PathBuf,
        /// What it did.
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
