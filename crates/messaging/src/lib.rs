//! Messages between programs: one way ([`Sender`]), or as requests with responses ([`Client`]), to one address or to any
//! member of a group ([`Upstream`]). They travel as frames of [`logdrive_ship`], whose [`serve`](logdrive_ship::serve)
//! hands them to a [`Service`](logdrive_ship::session::Service). `spec/frame.md` draws the bytes.
//!
//! ```
//! use logdrive_messaging::Client;
//! use logdrive_ship::session::{Peer, ReplyBuffer, Service};
//! use logdrive_ship::{Address, Options, Threads, serve};
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
#![cfg_attr(
    not(feature = "udp"),
    allow(unused_variables, reason = "only streams of bytes are built")
)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod backoff;
mod client;
#[cfg(feature = "udp")]
mod datagrams;
mod sender;
#[cfg(feature = "tokio")]
pub mod tokio;
mod transport;
mod upstream;

pub use client::{Client, Pushed, Reply};
pub use sender::{Batch, Sender};
pub use upstream::{Upstream, UpstreamOptions};
