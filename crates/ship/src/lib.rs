//! Transport of Logdrive: frames and sessions between processes and hosts.
//!
//! Two users: Logdrive's own batches of records, which arrive once ([`session::Shipper`], [`session::DedupCursor`]), and
//! messages of any program, one way ([`Sender`]) or as requests with responses ([`Client`]), to one address or to any of
//! several ([`upstream::Upstream`]). What listens is the same for all: [`serve`] gives what comes to a [`session::Service`].
//! `spec/frame.md` draws the bytes.
//!
//! ```
//! use logdrive_ship::session::{ReplyBuffer, Peer, Service};
//! use logdrive_ship::{Address, Client, Options, Threads, serve};
//! # use std::sync::Arc;
//! struct Echo;
//! impl Service for Echo {
//!     fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
//!         reply.extend_from_slice(body);
//!         Ok(())
//!     }
//! }
//! # fn main() -> Result<(), logdrive_ship::TransportError> {
//! let options = Options::default();
//! let anywhere: Address = "tcp://127.0.0.1:0".parse()?;
//! let server = serve(&[anywhere], &options, Threads::default(), Arc::new(Echo))?;
//! let mut client = Client::connect(&server.addresses()[0], &options)?;
//! assert_eq!(client.call(b"hello")?, b"hello");
//! # Ok(())
//! # }
//! ```
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(
    not(all(feature = "quic", feature = "udp")),
    allow(unused_imports, unused_variables, reason = "only some transports are built")
)]
#![forbid(unsafe_code)]

pub mod address;
#[cfg(feature = "tls")]
mod certificates;
mod connection;
mod error;
pub mod forward;
pub mod frame;
pub mod hello;
pub mod limits;
mod link;
mod message;
mod options;
#[cfg(feature = "quic")]
mod quic;
mod serve;
pub mod session;
pub mod upstream;

pub use address::{Address, HostPort};
#[cfg(feature = "tls")]
pub use certificates::make_certificates;
pub use error::TransportError;
pub use message::{Batch, Client, Reply, Sender};
pub use options::{Checksum, Options, TlsFiles, host_name};
pub use serve::{ServerHandle, Stats, Threads, serve};
