//! Errors of deliveries: the file or the engine, the cause, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Error of a delivery that cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A file that cannot be used.
    #[error("cannot {doing} {}: {cause}", path.display())]
    File {
        /// Action that failed, such as "open".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause, as the system gives it.
        cause: io::Error,
    },
    /// An address that names no engine.
    #[error("{address}: {why}")]
    Address {
        /// The address.
        address: String,
        /// Reason, and what is expected.
        why: String,
    },
    /// An engine whose client cannot be made with these options.
    #[error("{engine}: {why}")]
    Client {
        /// The engine.
        engine: &'static str,
        /// Reason in the words of the client.
        why: String,
    },
    /// The log cannot be listed.
    #[error(transparent)]
    Read {
        /// Cause, with the file.
        #[from]
        cause: logdrive_reader::ReadError,
    },
    /// The layout of records cannot be used.
    #[error(transparent)]
    Layout {
        /// Cause.
        #[from]
        cause: logdrive_drain::layout::LayoutError,
    },
    /// A state that another delivery uses.
    #[error("another delivery has the state {}: end it, or give this one another state", path.display())]
    InUse {
        /// The state.
        path: PathBuf,
    },
    /// A state that cannot be read.
    #[error("{} is no state of a delivery: {why}; remove it to deliver the log from its start, twice where it was", path.display())]
    State {
        /// The state.
        path: PathBuf,
        /// Reason.
        why: String,
    },
}

impl EngineError {
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::File {
            doing,
            path: path.clone(),
            cause,
        }
    }
}

/// Answer of an engine that has not taken a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is away or overloaded: the same batch again, after this time where the engine says one.
    Retry { why: String, after: Option<Duration> },
    /// The request is too large: less at once.
    TooLarge { why: String },
    /// It takes the batch never, because of some record that it does not name.
    Invalid { why: String },
    /// It has taken all but these records, by their place in the batch, and never will.
    Records(Vec<(usize, String)>),
    /// It has taken all but so many records, which it does not name, and never will.
    Unnamed { count: usize, why: String },
}
