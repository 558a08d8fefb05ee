//! Errors of connections, each with the address or file that it is about and with what to do next.

use crate::frame::FrameError;
use crate::hello::Reason;
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Error of a connection, a server, a forwarder or its spool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The text is no address.
    #[error("`{text}` is no address: {why}")]
    Address {
        /// Text that was given.
        text: String,
        /// Expected form.
        why: &'static str,
    },
    /// The address is off this machine and not encrypted.
    #[error(
        "{address} leaves this machine without encryption: use tls:// or quic://, or say insecure = true"
    )]
    Insecure {
        /// Address that was used.
        address: String,
    },
    /// The transport carries messages one way, and nothing else.
    #[error(
        "{address} carries messages one way: records and requests want answers in order, so use unix://, shm://, tcp://, \
         tls:// or quic://"
    )]
    OneWay {
        /// Address that was used.
        address: String,
    },
    /// This build leaves the transport out.
    #[error("this build has no {scheme}://; build it with the feature `{scheme}`")]
    NotBuilt {
        /// Scheme of the address, such as `tcp`.
        scheme: &'static str,
    },
    /// No server can be reached there.
    #[error("cannot connect to {address}: {cause}")]
    Connect {
        /// Address that was used.
        address: String,
        /// Error of the system.
        cause: io::Error,
    },
    /// Nothing can be accepted there.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// Address that was used.
        address: String,
        /// Error of the system.
        cause: io::Error,
    },
    /// The connection broke.
    #[error("the connection to {address} is lost: {cause}")]
    Lost {
        /// Address that was used.
        address: String,
        /// Error of the system.
        cause: io::Error,
    },
    /// The other end said goodbye.
    #[error("{address} ended the connection: {} ({words})", .reason.name())]
    Refused {
        /// Address that was used.
        address: String,
        /// Reason that it gave.
        reason: Reason,
        /// Explanation that it gave, in words.
        words: String,
    },
    /// The other end sent bytes that are no frame.
    #[error("{address} sent bytes that are no frame: {cause}")]
    Frame {
        /// Address that was used.
        address: String,
        /// Rule that the bytes break.
        cause: FrameError,
    },
    /// A time limit has passed.
    #[error("{address} did not {what} within {ms} ms")]
    Timeout {
        /// Address that was used.
        address: String,
        /// Awaited action, such as "answer" or "say hello".
        what: &'static str,
        /// Time limit in milliseconds.
        ms: u64,
    },
    /// A message is longer than the other end accepts.
    #[error("a message of {bytes} bytes is too long: {bytes_max} are allowed")]
    TooLong {
        /// Length of the message in bytes.
        bytes: usize,
        /// Values that are allowed.
        bytes_max: usize,
    },
    /// The service answered that it failed.
    #[error("the request failed: {0}")]
    Failed(String),
    /// No member of the upstream can be used.
    #[error("no address of the upstream can be reached: {last}")]
    NoMember {
        /// Error of the last attempt.
        last: String,
    },
    /// Keys or certificates cannot be used.
    #[error("cannot use {}: {why}", path.display())]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// Reason why it cannot be used.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {doing} {}: {cause}", path.display())]
    File {
        /// Action that failed, such as "open".
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        cause: io::Error,
    },
    /// Another process has the spool.
    #[error("the spool {} belongs to another process: end it, or choose another directory", directory.display())]
    SpoolTaken {
        /// Directory of the spool.
        directory: PathBuf,
    },
    /// There is no room in the spool.
    #[error("the spool {} is full: {bytes_max} bytes are allowed", directory.display())]
    SpoolFull {
        /// Directory of the spool.
        directory: PathBuf,
        /// Values that are allowed.
        bytes_max: u64,
    },
    /// The system refuses something that is not about one peer.
    #[error("cannot {doing}: {cause}")]
    System {
        /// Action that failed, such as "open".
        doing: &'static str,
        /// Error of the system.
        cause: io::Error,
    },
    /// An option has a value that is not allowed.
    #[error("{option} is {found}; allowed is {allowed}")]
    Option {
        /// Which.
        option: &'static str,
        /// Value that was found.
        found: String,
        /// Values that are allowed.
        allowed: &'static str,
    },
}

impl TransportError {
    /// Makes [`TransportError::Connect`] of the system's error.
    pub fn connect(address: &impl Display) -> impl Fn(io::Error) -> Self {
        let address = address.to_string();
        move |cause| Self::Connect {
            address: address.clone(),
            cause,
        }
    }

    /// Makes [`TransportError::Listen`] of the system's error.
    pub(crate) fn listen(address: &impl Display) -> impl Fn(io::Error) -> Self {
        let address = address.to_string();
        move |cause| Self::Listen {
            address: address.clone(),
            cause,
        }
    }

    /// Makes [`TransportError::Lost`] of the system's error.
    pub fn lost(address: impl Display) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Lost {
            address: address.to_string(),
            cause,
        }
    }

    /// Makes [`TransportError::Frame`] of what is wrong with the bytes.
    pub fn malformed(address: impl Display) -> impl FnOnce(FrameError) -> Self {
        move |cause| Self::Frame {
            address: address.to_string(),
            cause,
        }
    }

    /// Makes [`TransportError::System`] of the system's error.
    pub fn system(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |cause| Self::System { doing, cause }
    }

    /// Makes a [`TransportError::Timeout`].
    pub fn timeout(address: impl Display, what: &'static str, limit: Duration) -> Self {
        Self::Timeout {
            address: address.to_string(),
            what,
            ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Returns whether another sender uses the session.
    pub fn is_superseded(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                reason: Reason::Superseded,
                ..
            }
        )
    }

    /// Returns whether another attempt, later or elsewhere, may succeed without anybody changing anything.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Lost { .. } | Self::Timeout { .. } | Self::NoMember { .. } => true,
            Self::Refused { reason, .. } => reason.is_passing(),
            _ => false,
        }
    }
}
