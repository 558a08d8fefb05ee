//! Errors of a benchmark, written so that a person can act on it.

use std::path::{Path, PathBuf};

/// The result of anything in this crate.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Why a benchmark could not be run or its result not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A file or a process could not be used.
    #[error("could not {action} {}", path.display())]
    Io {
        /// Operation, as a verb.
        action: &'static str,
        /// Path of the operation.
        path: PathBuf,
        /// Cause that the kernel gave.
        source: std::io::Error,
    },
    /// The command line names something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// A logger under test could not be set up, or broke.
    #[error("{subject}: {problem}")]
    Subject {
        /// The logger.
        subject: String,
        /// Cause that it gave.
        problem: String,
    },
    /// A child process ended without a result.
    #[error("{workload} {subject}: the measuring process ended with {status} and without a result")]
    Child {
        /// The workload it ran.
        workload: String,
        /// The logger it measured.
        subject: String,
        /// Exit status.
        status: String,
    },
    /// The QUIC transfer failed.
    #[error("the transfer over QUIC failed: {0}")]
    Transfer(String),
    /// At least one subject failed; the others have their results.
    #[error("{0} of the measurements failed, see above")]
    Incomplete(usize),
}

impl BenchError {
    /// Wraps an error of the file system or of a process, for use in `map_err`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BenchError {
        let path = path.to_path_buf();
        move |source| BenchError::Io { action, path, source }
    }

    /// Wraps whatever a logger under test complained about.
    pub fn subject(subject: &str, problem: impl std::fmt::Display) -> BenchError {
        BenchError::Subject {
            subject: subject.to_string(),
            problem: problem.to_string(),
        }
    }

    /// The message together with its causes, on one line.
    #[must_use]
    pub fn full_message(&self) -> String {
        let mut message = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        message
    }
}
