//! Forwarding: records of one session to a collector, at least once, and once in its log.

mod batch_source;
pub mod files;
mod forwarder;
mod health;
mod options;
mod owner;
mod piece_limit;
mod runner;
mod spool;
mod state;

pub use forwarder::Forwarder;
pub use options::ForwardOptions;
pub use owner::Owner;
pub use spool::{Spool, SpoolDirectory, SpoolOptions};
pub use state::{ForwardState, ForwardWatch, Refusal};

/// A unique number for a session.
///
/// # Errors
/// Fails when the system gives no random bytes.
pub fn new_session() -> std::io::Result<u128> {
    let mut bytes = [0; 16];
    let length = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    // 16 bytes come whole, by the kernel's word.
    debug_assert_eq!(length, bytes.len());
    Ok(u128::from_le_bytes(bytes).max(1))
}
