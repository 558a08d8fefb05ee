//! The queue between the threads that take batches and the one that brings them to the disk (group commit): all that came
//! while the disk was busy is written and synced together.

use crate::limits::QUEUED_BYTES_MAX;
use crate::output::{BatchGroup, Part};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Batches that were taken and are not written.
#[derive(Debug)]
pub(crate) struct CommitQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    /// Bytes that wait, for those who only ask whether there is room. Relaxed: a hint.
    bytes: AtomicUsize,
    full_bytes: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    group: BatchGroup,
    ends: bool,
}

impl CommitQueue {
    /// A queue for a log whose files have so many bytes at most: a group makes none much longer.
    pub(crate) fn new(file_bytes_max: Option<u64>) -> Self {
        let file_bytes = file_bytes_max.and_then(|bytes| usize::try_from(bytes).ok());
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            bytes: AtomicUsize::new(0),
            full_bytes: file_bytes.unwrap_or(usize::MAX).min(QUEUED_BYTES_MAX),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // Bytes that no part covers are written with those of the next one, or dropped with all.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether no more should be taken of those who have something waiting here.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.full_bytes
    }

    /// Adds a batch. `false`: there is no room even for those who have nothing waiting.
    pub(crate) fn push(&self, part: Part, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        let length = state.group.bytes.len();
        if length >= self.full_bytes.saturating_mul(2).max(QUEUED_BYTES_MAX) {
            return false;
        }
        state.group.push(part, bytes);
        self.bytes.store(length + bytes.len(), Ordering::Relaxed);
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Waits for batches and takes all of them in exchange for a group that is empty. `false`: there are none and there will
    /// be none.
    pub(crate) fn take(&self, group: &mut BatchGroup) -> bool {
        group.clear();
        let waits = |state: &mut QueueState| state.group.parts.is_empty() && !state.ends;
        let state = self.changed.wait_while(self.lock(), waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.group, group);
        self.bytes.store(0, Ordering::Relaxed);
        !group.parts.is_empty()
    }

    /// Drops all that waits: what is before it could not be kept.
    pub(crate) fn clear(&self) {
        self.lock().group.clear();
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Lets [`CommitQueue::take`] end when nothing waits.
    pub(crate) fn end(&self) {
        self.lock().ends = true;
        self.changed.notify_all();
    }
}
