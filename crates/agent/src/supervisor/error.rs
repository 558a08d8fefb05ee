//! Errors of running a command, and their exit status.

use logdrive_drain::BackendError;
use std::io;
use std::path::PathBuf;

/// Error that keeps a command from running. Nothing of it has run then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// There is no such program.
    #[error("cannot find the command {}: {hint}", program.display())]
    NotFound {
        /// As it was given.
        program: PathBuf,
        /// Advice on what to try.
        hint: String,
    },
    /// There is one that cannot be executed.
    #[error("cannot execute {}: {}", program.display(), why(cause))]
    NotExecutable {
        /// As it was given.
        program: PathBuf,
        /// Error of the system. Part of the message, hence no `source`.
        cause: io::Error,
    },
    /// The session, the log file or a thread of the backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A pipe, a terminal, a thread or the signals of this process.
    #[error("cannot {what}: {cause}; the limits of processes and open files (`ulimit -a`) may be too low")]
    System {
        /// Operation that failed.
        what: &'static str,
        /// Error of the system.
        cause: io::Error,
    },
}

impl CommandError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::System { what, cause }
    }

    /// The exit status, as shells and `env` have it: 127 not found, 126 not executable, 125 for our own trouble.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::Backend(_) | Self::System { .. } => 125,
        }
    }
}

fn why(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => {
            "it is a directory, or you may not execute it; `chmod +x` lets you if it is yours".to_owned()
        }
        _ if cause.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            "it is no program of this system; a script needs a first line such as #!/bin/sh".to_owned()
        }
        _ => cause.to_string(),
    }
}
