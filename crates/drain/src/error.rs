//! Errors of starting the logger and of recovering a session.

use crate::file::FileError;
use crate::layout::LayoutError;
use logdrive_ring::RingError;
use std::io;

/// Reason why the backend could not start, or a session could not be recovered. Its debug form is the same sentence, because
/// a `main` that returns it shows that.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The session's shared memory.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A log file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A thread could not be started.
    #[error("cannot start the thread {name}: {cause}; raise the limit of processes, or end some")]
    Thread {
        /// Its name.
        name: &'static str,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// A target that took no bytes for five seconds.
    #[error("{path} takes no bytes; the session is left as it is: try again when the disk answers")]
    NoProgress {
        /// The target.
        path: std::path::PathBuf,
    },
    /// Another sink than there are places for.
    #[error("there are places for {limit} sinks and no more: let several applications share one")]
    SinkPlaces {
        /// The places.
        limit: usize,
    },
    /// A collector, or the spool for it, cannot be used.
    #[cfg(all(feature = "ship", target_os = "linux"))]
    #[error(transparent)]
    Ship(#[from] logdrive_ship::TransportError),
    /// The system gives no random bytes.
    #[error("no number can be had for what is sent: {cause}")]
    Random {
        /// Error of the operating system.
        cause: io::Error,
    },
    /// A session that has no file to be recovered into, or describes none that can be read.
    #[error(
        "the session logged to no file that is known: name one to recover it into, or remove the session"
    )]
    NoFile,
}

impl std::fmt::Debug for BackendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}
