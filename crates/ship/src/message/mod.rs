//! Messages: one way, in batches, and requests with their responses.

mod client;
#[cfg(feature = "udp")]
mod datagrams;
mod outlet;
mod sender;

pub use client::{Client, Reply};
pub use sender::{Batch, Sender};
