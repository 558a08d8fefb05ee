//! Listening: accepts connections of all transports and feeds what comes to a service, on threads by choice.

mod accept;
mod blocking;
#[cfg(feature = "tls")]
mod certificates;
mod connection;
mod dedicated;
mod inbox;
mod listening;
mod memory;
mod poller;
mod pool;
mod session;
mod stats;
mod table;
mod threads;
#[cfg(feature = "udp")]
mod udp;

pub use listening::{ServerHandle, Threads, serve};
use memory::QuotaShare;
#[cfg(feature = "quic")]
pub(crate) use pool::{RequestQueue, TOO_MANY, hand_over};
pub(crate) use session::ServedSession;
pub(crate) use stats::ServerState;
pub use stats::Stats;
