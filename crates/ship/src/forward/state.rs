//! State that a forwarder's callers share with its thread: the queue of batches, and how delivery stands.

use crate::TransportError;
use crate::connection::Connection;
use crate::upstream::MemberOptions;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// State of a forwarder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForwardState {
    /// A collector takes records now.
    pub is_connected: bool,
    /// Records that were pushed.
    pub pushed: u64,
    /// The number behind the last record that is kept at the other end: level C3.
    pub acknowledged: u64,
    /// The number behind the last record that is kept at the other end, or by the spool with this machine's kernel: it
    /// survives the death of this process.
    pub secured: u64,
    /// Records that were refused because memory and spool were full, as the push returned.
    pub refused: u64,
    /// Batches that were sent more than once.
    pub resent_batches: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Bytes in the spool, with what earlier sessions left.
    pub spool_bytes: u64,
    /// Sessions before this one whose records are still in the spool.
    pub sessions_left: u64,
    /// Records of the spool that were given up while this forwarder ran, because their bytes were damaged on disk. They count
    /// as acknowledged.
    pub lost: u64,
    /// Failure that keeps records from being taken; empty while a collector takes them.
    pub failure: String,
    /// Failure to write the spool; empty while it can be written.
    pub spool_failure: String,
    /// The collector has records of the session that this forwarder has not sent, or an epoch that is later: another
    /// sender uses the session.
    pub is_superseded: bool,
    /// The failure will not pass: the thread has ended.
    pub is_over: bool,
}

/// Error of a push for which there was no room, with the lines that were pushed.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal(pub Vec<u8>);

/// Lines that were pushed together.
#[derive(Debug)]
pub(super) struct QueuedBatch {
    pub(super) count: u32,
    pub(super) lines: Vec<u8>,
}

/// Batches that wait for the thread, and requests to it.
#[derive(Debug)]
pub(super) struct ForwardQueue {
    pub(super) queue: VecDeque<QueuedBatch>,
    pub(super) queued_bytes: usize,
    pub(super) next: u64,
    pub(super) state: ForwardState,
    pub(super) ends: bool,
    /// Members that records may go to.
    pub(super) members: Vec<MemberOptions>,
    /// The thread has not taken over these members yet.
    pub(super) members_changed: bool,
    /// Time at which the thread gives up what is not acknowledged.
    pub(super) deadline: Option<Instant>,
    /// Outcome of the last attempt to connect, until the thread takes it.
    pub(super) opened: Option<Result<Connection, TransportError>>,
}

/// The queue, with what wakes those who wait for it.
#[derive(Debug)]
pub(super) struct SharedState {
    pub(super) inner: Mutex<ForwardQueue>,
    /// Something was pushed, or it ends.
    pub(super) work: Condvar,
    /// Something was acknowledged, or there is room.
    pub(super) progress: Condvar,
    pub(super) queue_bytes: usize,
}

impl SharedState {
    pub(super) fn lock(&self) -> MutexGuard<'_, ForwardQueue> {
        // A thread that panicked has left whole items.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle to the state of a forwarder, valid after its end, too.
#[derive(Debug, Clone)]
pub struct ForwardWatch(pub(super) Arc<SharedState>);

impl ForwardWatch {
    /// Returns the state at this moment.
    pub fn state(&self) -> ForwardState {
        self.0.lock().state.clone()
    }

    /// The number behind the last record that was pushed.
    pub fn next_number(&self) -> u64 {
        self.0.lock().next
    }

    /// [`ForwardState::lost`].
    pub fn lost(&self) -> u64 {
        self.0.lock().state.lost
    }

    /// [`ForwardState::secured`].
    pub fn secured(&self) -> u64 {
        self.0.lock().state.secured
    }

    /// Failure that keeps records from being taken; `None` while a collector takes them, and before the first attempt.
    pub fn failure(&self) -> Option<String> {
        let inner = self.0.lock();
        let failure = &inner.state.failure;
        (!failure.is_empty()).then(|| failure.clone())
    }

    /// Members that records may go to.
    pub fn members(&self) -> Vec<MemberOptions> {
        self.0.lock().members.clone()
    }

    /// Sends to these from now on. A connection to one that is not among them ends when all that was sent there is
    /// acknowledged; with [`Policy::Manual`](crate::upstream::Policy::Manual) also one to any but the first that is no
    /// backup. Those that may not be used are left out, which [`ForwardState::failure`] reports.
    pub fn set_members(&self, members: Vec<MemberOptions>) {
        let mut inner = self.0.lock();
        (inner.members, inner.members_changed) = (members, true);
        drop(inner);
        self.0.work.notify_all();
    }

    /// Waits until every record before `next` is acknowledged, the forwarder has ended or the timeout is over. Returns
    /// true if all are acknowledged.
    pub fn wait_acknowledged(&self, next: u64, timeout: Duration) -> bool {
        let lacks = |inner: &ForwardQueue| inner.state.acknowledged < next || inner.state.sessions_left > 0;
        let inner = self.0.lock();
        let waits = |inner: &mut ForwardQueue| lacks(inner) && !inner.state.is_over;
        let waited = self.0.progress.wait_timeout_while(inner, timeout, waits);
        !lacks(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}
