//! The inbox of a poller: what other threads hand to it, and the waker that makes it look.

use super::connection::ServerConnection;
use mio::{Poll, Token};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Token of the waker's events in the poller's event loop.
pub(super) const WAKER: Token = Token(usize::MAX);

/// The sending end of a poller's inbox; clones share it.
#[derive(Clone)]
pub(crate) struct Inbox {
    waker: Arc<mio::Waker>,
    queue: Arc<Mutex<Queue>>,
}

/// Items that have arrived and were not taken.
#[derive(Default)]
struct Queue {
    items: Vec<InboxItem>,
    /// The poller has ended.
    is_closed: bool,
}

/// Hand-over from another thread.
pub(crate) enum InboxItem {
    /// A connection that another poller has accepted, or that a dedicated thread gives back.
    Connection(Box<ServerConnection>),
    /// The outbox of the connection with this token has something.
    Outbox(Token),
    /// The service has acknowledged records of the connection with this token, or cannot keep them.
    Acks(Token),
}

impl Inbox {
    /// Makes the inbox of the poller that waits on `poll`.
    pub(super) fn new(poll: &Poll) -> io::Result<Self> {
        Ok(Self {
            waker: Arc::new(mio::Waker::new(poll.registry(), WAKER)?),
            queue: Arc::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Whole items go in and out.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands an item to the poller; gives it back when that has ended.
    pub(super) fn send(&self, item: InboxItem) -> Option<InboxItem> {
        let mut queue = self.lock();
        if queue.is_closed {
            return Some(item);
        }
        queue.items.push(item);
        drop(queue);
        self.wake();
        None
    }

    /// Makes the poller check its inbox and the end of the server.
    pub(super) fn wake(&self) {
        // The poller checks them at least once in a sweep interval, so that a failure costs no more than that.
        let _ = self.waker.wake();
    }

    /// Takes what has arrived.
    pub(super) fn take(&self) -> Vec<InboxItem> {
        std::mem::take(&mut self.lock().items)
    }

    /// Takes what has arrived, and nothing any more from now on.
    pub(super) fn close(&self) -> Vec<InboxItem> {
        let mut queue = self.lock();
        queue.is_closed = true;
        std::mem::take(&mut queue.items)
    }

    /// Returns whether both are the same poller's.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.waker, &other.waker)
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inbox")
    }
}
