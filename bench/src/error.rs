//! Errors of a benchmark, written so that a person can act on them.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// The result of anything in this crate.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Why a benchmark could not be run or its result not be used. Causes are not distinguished, so it is a message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BenchError(String);

impl BenchError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> BenchError {
        BenchError(message.into())
    }

    /// Wraps an error of the file system or of a process, for use in `map_err`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BenchError {
        move |cause| BenchError(format!("could not {action} {}: {cause}", path.display()))
    }

    /// Wraps the complaint of a logger under test.
    pub fn subject(subject: &str, problem: impl Display) -> BenchError {
        BenchError(format!("{subject}: {problem}"))
    }
}

impl From<io::Error> for BenchError {
    fn from(cause: io::Error) -> BenchError {
        BenchError(cause.to_string())
    }
}

impl From<serde_json::Error> for BenchError {
    fn from(cause: serde_json::Error) -> BenchError {
        BenchError(cause.to_string())
    }
}
