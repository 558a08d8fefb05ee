//! What can go wrong with a connection, told as: what happened, to what, and what to do next.

use crate::frame::FrameError;
use crate::hello::Reason;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a transport could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The text is no address.
    #[error("`{text}` is no address: {why}")]
    Address {
        /// The text.
        text: String,
        /// What is expected.
        why: &'static str,
    },
    /// The address is off this machine and not encrypted.
    #[error(
        "{address} leaves this machine without encryption: use tls:// or quic://, or say insecure = true"
    )]
    Insecure {
        /// The address.
        address: String,
    },
    /// The transport carries messages one way, and nothing else.
    #[error(
        "{address} carries messages one way: records and requests want answers in order, so use unix://, shm://, tcp://, \
         tls:// or quic://"
    )]
    OneWay {
        /// The address.
        address: String,
    },
    /// This build leaves the transport out.
    #[error("this build has no {scheme}://; build it with the feature `{scheme}`")]
    NotBuilt {
        /// The scheme.
        scheme: &'static str,
    },
    /// Nobody can be reached there.
    #[error("cannot connect to {address}: {cause}")]
    Connect {
        /// The address.
        address: String,
        /// Why not.
        cause: io::Error,
    },
    /// Nothing can be accepted there.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: String,
        /// Why not.
        cause: io::Error,
    },
    /// The connection broke.
    #[error("the connection to {address} is lost: {cause}")]
    Lost {
        /// The address.
        address: String,
        /// Why.
        cause: io::Error,
    },
    /// The other end said goodbye.
    #[error("{address} ended the connection: {} ({words})", .reason.name())]
    Refused {
        /// The address.
        address: String,
        /// Its reason.
        reason: Reason,
        /// Its words.
        words: String,
    },
    /// What came is no frame.
    #[error("{address} sent bytes that are no frame: {cause}")]
    Frame {
        /// The address.
        address: String,
        /// What is wrong with them.
        cause: FrameError,
    },
    /// A time limit has passed.
    #[error("{address} did not {what} within {ms} ms")]
    Timeout {
        /// The address.
        address: String,
        /// What was waited for: connect, answer, say hello.
        what: &'static str,
        /// The limit.
        ms: u64,
    },
    /// A message is longer than the other end accepts.
    #[error("a message of {bytes} bytes is too long: {bytes_max} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// What is allowed.
        bytes_max: usize,
    },
    /// The service answered that it failed.
    #[error("the request failed: {0}")]
    Failed(String),
    /// No member of the upstream can be used.
    #[error("no address of the upstream can be reached: {last}")]
    NoMember {
        /// What the last attempt ended with.
        last: String,
    },
    /// Keys or certificates cannot be used.
    #[error("cannot use {}: {why}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {doing} {}: {cause}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// Another process has the spool.
    #[error("the spool {} belongs to another process: end it, or choose another directory", directory.display())]
    SpoolTaken {
        /// Its directory.
        directory: PathBuf,
    },
    /// There is no room in the spool.
    #[error("the spool {} is full: {bytes_max} bytes are allowed", directory.display())]
    SpoolFull {
        /// Its directory.
        directory: PathBuf,
        /// What is allowed.
        bytes_max: u64,
    },
    /// The system refuses something that is not about one peer.
    #[error("cannot {doing}: {cause}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        cause: io::Error,
    },
    /// An option has a value that is not allowed.
    #[error("{option} is {found}; allowed is {allowed}")]
    Option {
        /// Which.
        option: &'static str,
        /// What was found.
        found: String,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl TransportError {
    /// Makes a [`TransportError::Timeout`].
    pub fn timeout(address: impl std::fmt::Display, what: &'static str, limit: Duration) -> Self {
        Self::Timeout {
            address: address.to_string(),
            what,
            ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Whether another attempt, later or elsewhere, may succeed without anybody changing anything.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Lost { .. } | Self::Timeout { .. } | Self::NoMember { .. } => true,
            Self::Refused { reason, .. } => reason.is_passing(),
            _ => false,
        }
    }
}
