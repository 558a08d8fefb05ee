//! Listening: accepts connections of all transports and feeds what comes to a service, on threads by choice.

mod connection;
mod listening;
mod memory;
mod poller;
mod pool;
mod stats;
mod talks;
mod thread;
#[cfg(feature = "udp")]
mod udp;

pub use listening::{Listening, Threads, serve};
pub(crate) use memory::Share;
pub(crate) use stats::Shared;
pub use stats::Stats;
