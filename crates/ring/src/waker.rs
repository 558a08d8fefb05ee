//! The word that a sleeping drain waits on: one of this process, or one in the session's header when the drain is in an
//! agent.

use crate::sync::{AtomicU32, Ordering};
use crate::sys;

#[cfg(not(loom))]
use crate::session_header::SessionHeader;
#[cfg(not(loom))]
use std::sync::Arc;

/// Requests of a session, whose drain is in an agent, to its connection. Threads that log call it: nothing here may
/// wait.
#[cfg(not(loom))]
pub trait AgentConnection: Send + Sync + core::fmt::Debug {
    /// Wakes the agent's drain.
    fn wake_drain(&self);

    /// Asks for so many rings of the largest size, unless that was done and is not answered.
    fn request_rings(&self, count: u32);

    /// As [`AgentConnection::request_rings`], for rings of 64 KiB.
    fn request_small_rings(&self, count: u32) {
        self.request_rings(count);
    }

    /// Returns whether the agent is there, as far as is known.
    fn is_connected(&self) -> bool;

    /// Returns whether the agent has said that there are no more rings.
    fn are_rings_refused(&self) -> bool {
        false
    }
}

/// Wakes a drain that sleeps.
#[derive(Debug)]
pub struct DrainWaker {
    word: AtomicU32,
    #[cfg(not(loom))]
    agent: Option<(&'static SessionHeader, Arc<dyn AgentConnection>)>,
}

impl DrainWaker {
    /// The waker of a drain in this process, which is awake.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            agent: None,
        }
    }

    /// The waker of a drain in an agent.
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
    pub(crate) fn of_agent(header: &'static SessionHeader, line: Arc<dyn AgentConnection>) -> Self {
        Self {
            word: AtomicU32::new(0),
            agent: Some((header, line)),
        }
    }

    /// Sleeps until a thread wakes it, at most this long. The caller checks for work again afterwards.
    pub fn sleep(&self, timeout_ns: u64) {
        // SYNC(wake): a producer that sees the 1 has work that we shall see after its wake.
        self.word.store(1, Ordering::SeqCst);
        sys::futex_wait(&self.word, 1, timeout_ns);
        // Relaxed: only a hint for the next ringer.
        self.word.store(0, Ordering::Relaxed);
    }

    /// Wakes the drain if it sleeps. Costs a load otherwise.
    pub fn wake(&self) {
        #[cfg(not(loom))]
        if let Some((header, line)) = &self.agent {
            if header.take_drain_asleep() {
                line.wake_drain();
            }
            return;
        }
        // SYNC(wake)
        if self.word.load(Ordering::SeqCst) == 1 && self.word.swap(0, Ordering::SeqCst) == 1 {
            sys::futex_wake(&self.word);
        }
    }
}
