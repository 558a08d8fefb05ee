//! State that all threads of a server share, and its counters.

use super::memory::MemoryQuota;
use super::threads::ThreadGroup;
use crate::hello::{Reason, Role};
use crate::identity::Identity;
use crate::options::{Checksum, Options};
use crate::session::{Acks, Outbox, Peer, Server, Service};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Counters of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Connections that are open now.
    pub connections: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// Ends of connections, by [`Reason`], which names them.
    pub ended: [u64; Reason::COUNT],
}

impl Stats {
    /// Connections that ended for this reason.
    pub fn ended_for(&self, reason: Reason) -> u64 {
        self.ended.get(reason as usize).copied().unwrap_or(0)
    }
}

/// Number of dedicated threads that may still be started.
#[derive(Debug)]
pub(crate) struct DedicatedPlaces(AtomicUsize);

impl DedicatedPlaces {
    /// Takes a place. `false`: there is none.
    pub(crate) fn reserve(&self) -> bool {
        let less = |free: usize| free.checked_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }

    pub(crate) fn release(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Shared by the threads of a server. All numbers are statistics or hints, so Relaxed suffices for them.
pub(crate) struct ServerState {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) options: Options,
    pub(crate) threads: ThreadGroup,
    pub(crate) dedicated: DedicatedPlaces,
    stops: AtomicBool,
    /// Time at which what is in flight has been answered, or is given up.
    stop_deadline: OnceLock<Instant>,
    pub(crate) memory: MemoryQuota,
    pub(crate) bytes: AtomicU64,
    current: AtomicU64,
    accepted: AtomicU64,
    /// Connections that have not said hello.
    pre_handshake: AtomicU64,
    ended: [AtomicU64; Reason::COUNT],
}

impl ServerState {
    /// The state of a server with so many dedicated threads at most.
    pub(crate) fn new(service: Arc<dyn Service>, options: Options, dedicated: usize) -> Self {
        Self {
            service,
            threads: ThreadGroup::default(),
            dedicated: DedicatedPlaces(AtomicUsize::new(dedicated)),
            memory: MemoryQuota::new(&options.limits, options.timeouts.idle),
            options,
            stops: AtomicBool::new(false),
            stop_deadline: OnceLock::new(),
            bytes: AtomicU64::new(0),
            current: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            pre_handshake: AtomicU64::new(0),
            ended: [const { AtomicU64::new(0) }; Reason::COUNT],
        }
    }

    /// Begins the end of the server.
    pub(crate) fn begin_stop(&self) {
        // A second stop changes nothing.
        let _ = self
            .stop_deadline
            .set(Instant::now() + self.options.timeouts.stop);
        // Relaxed: a flag that stands for itself; wakes and time limits make everybody look.
        self.stops.store(true, Ordering::Relaxed);
    }

    pub(crate) fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// Returns whether the server stops, and gives up what has not been answered.
    pub(crate) fn has_stopped(&self) -> bool {
        let deadline = self.stop_deadline.get();
        deadline.is_some_and(|deadline| Instant::now() >= *deadline)
    }

    /// Returns whether [`ServerState::admit`] would refuse.
    pub(crate) fn is_full(&self) -> bool {
        let most = self.options.limits.connections_max as u64;
        self.current.load(Ordering::Relaxed) >= most
            || self.pre_handshake.load(Ordering::Relaxed) >= pre_handshake_max(most)
    }

    /// A connection has come. `None`: there are too many, which has been counted.
    pub(crate) fn admit(&self, address: String, uid: Option<u32>) -> Option<Peer> {
        let id = self.accepted.fetch_add(1, Ordering::Relaxed);
        let current = self.current.fetch_add(1, Ordering::Relaxed);
        let pre_handshake = self.pre_handshake.fetch_add(1, Ordering::Relaxed);
        let most = self.options.limits.connections_max as u64;
        // A flood of those who never say hello leaves places to those who do.
        if current >= most || pre_handshake >= pre_handshake_max(most) {
            self.connection_closed(Reason::Connections, true);
            return None;
        }
        Some(Peer {
            id,
            address,
            uid,
            identity: uid.map(Identity::of_user),
            hello: None,
            outbox: Outbox::open(),
            acks: Acks::default(),
        })
    }

    /// A connection takes a place, of which streams will have their own. `false`: there are too many, which has been counted.
    #[cfg(feature = "quic")]
    pub(crate) fn hold_place(&self) -> bool {
        if self.is_full() {
            self.count(Reason::Connections);
            return false;
        }
        self.current.fetch_add(1, Ordering::Relaxed);
        self.pre_handshake.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A connection gives the place back that it took.
    #[cfg(feature = "quic")]
    pub(crate) fn release_place(&self) {
        self.current.fetch_sub(1, Ordering::Relaxed);
        self.pre_handshake.fetch_sub(1, Ordering::Relaxed);
    }

    /// A peer has said hello.
    pub(crate) fn established(&self) {
        self.pre_handshake.fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection has ended.
    pub(crate) fn connection_closed(&self, reason: Reason, is_pre_handshake: bool) {
        self.current.fetch_sub(1, Ordering::Relaxed);
        if is_pre_handshake {
            self.pre_handshake.fetch_sub(1, Ordering::Relaxed);
        }
        self.count(reason);
    }

    pub(crate) fn count(&self, reason: Reason) {
        if let Some(count) = self.ended.get(reason as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The state of a new connection whose bytes are safe on their way, or are not.
    pub(crate) fn server(&self, peer: Peer, is_protected: bool) -> Server {
        let checked = !is_protected || self.options.checksum != Checksum::Auto;
        let mut hello = self.options.hello(Role::Server, checked);
        hello.credit_bytes = self.options.limits.credit_bytes;
        Server::new(peer, hello).with_decompressed_bytes_max(self.options.limits.decompressed_bytes_max)
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            connections: self.current.load(Ordering::Relaxed),
            accepted: self.accepted.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            ended: std::array::from_fn(|index| {
                self.ended
                    .get(index)
                    .map_or(0, |count| count.load(Ordering::Relaxed))
            }),
        }
    }
}

/// Connections that may be without a hello at once.
fn pre_handshake_max(connections_max: u64) -> u64 {
    (connections_max / 4).max(16)
}

impl std::fmt::Debug for ServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerState")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
