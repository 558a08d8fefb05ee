//! Messages: one way, in batches, and requests with their responses.

mod client;
#[cfg(feature = "udp")]
mod datagrams;
mod sender;
mod transport;

pub use client::{Client, Reply};
pub use sender::{Batch, Sender};
