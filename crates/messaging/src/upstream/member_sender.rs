//! The sender of one member, and the count of what is lost with it.

use crate::Sender;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A member's sender, with the counter of what is lost with it.
#[derive(Debug)]
pub(super) struct MemberSender {
    pub(super) sender: Sender,
    /// Relaxed: a count that orders nothing.
    pub(super) lost: Arc<AtomicU64>,
}

impl Drop for MemberSender {
    fn drop(&mut self) {
        // What it has collected goes now, or is lost and counted with the rest.
        let _ = self.sender.flush();
        self.lost.fetch_add(self.sender.lost(), Ordering::Relaxed);
    }
}

/// The sender of a member, kept for further messages.
#[derive(Debug)]
pub(super) struct CachedSender {
    pub(super) sender_for: Arc<MemberSender>,
    pub(super) used: Instant,
}
