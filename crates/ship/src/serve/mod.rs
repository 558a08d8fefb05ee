//! Listening: accepts connections of all transports and feeds what comes to a service, on threads by choice.

mod blocking;
mod connection;
mod dedicated;
mod inbox;
mod listening;
mod memory;
mod poller;
mod pool;
mod stats;
mod table;
#[cfg(feature = "udp")]
mod udp;

pub use listening::{ServerHandle, Threads, serve};
pub(crate) use memory::QuotaShare;
pub(crate) use stats::ServerState;
pub use stats::Stats;
