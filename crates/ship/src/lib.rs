//! Shipping: frames and links between processes and hosts, records that arrive once, and the server for both records
//! and messages.
//!
//! A [`Forwarder`](forward::Forwarder) sends records to any of several collectors and spools them while none takes them. A
//! server ([`serve`]) gives what comes to a [`Service`](session::Service), whatever transport carries it. Messages and
//! requests of programs stand on the same links, in `logdrive-messaging`. `spec/frame.md` draws the bytes.
//!
//! ```
//! use logdrive_ship::forward::{ForwardOptions, Forwarder, new_session};
//! use logdrive_ship::hello::Reason;
//! use logdrive_ship::session::{Peer, Service};
//! use logdrive_ship::{Address, Options, Threads, serve};
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! struct Printer;
//! impl Service for Printer {
//!     fn hello(&self, _: &Peer) -> Result<u64, Reason> {
//!         Ok(0)
//!     }
//!     fn records(&self, _: &Peer, first: u64, count: u32, lines: &[u8]) -> Result<u64, Reason> {
//!         print!("{}", String::from_utf8_lossy(lines));
//!         Ok(first + u64::from(count))
//!     }
//! }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options::default();
//! let anywhere: Address = "tcp://127.0.0.1:0".parse()?;
//! let server = serve(&[anywhere], &options, Threads::default(), Arc::new(Printer))?;
//! let forward = ForwardOptions::new(new_session()?, 1);
//! let forwarder = Forwarder::start(server.addresses(), &options, &forward)?;
//! forwarder.push(2, b"one\ntwo\n".to_vec(), Duration::ZERO).expect("room");
//! assert!(forwarder.wait_acknowledged(2, Duration::from_secs(10)));
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
mod clock;
pub mod connection;
mod error;
pub mod forward;
pub mod frame;
pub mod hello;
mod identity;
pub mod limits;
mod link;
mod nonblocking;
mod open_link;
mod options;
#[cfg(feature = "quic")]
mod quic;
mod receive_buffer;
mod resolve;
mod serve;
pub mod session;
pub mod upstream;

pub use address::{Address, HostPort};
#[cfg(feature = "tls")]
pub use certificates::make_certificates;
pub use clock::coarse_now;
pub use error::TransportError;
pub use identity::Identity;
#[cfg(feature = "tls")]
pub use link::foreign_server_config;
pub use nonblocking::{NonBlocking, Readiness};
pub use options::{Checksum, Options, PeerLimits, Timeouts, TlsFiles, host_name};
pub use serve::{ServerHandle, Stats, Threads, serve};
