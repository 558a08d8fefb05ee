//! The rings of a session as its process has them: all of them, and those that no thread has.

use crate::RingError;
use crate::files::{self, SessionDir};
use crate::header::RingState;
use crate::limits::{ENDED_RINGS_MAX, FREE_RING_ATTEMPTS, FREE_RING_PAUSE_US, RINGS_MAX};
use crate::ring::{Ring, capacity_for};
use crate::session_header::SessionHeader;
use crate::waker::DrainWaker;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rings of this process's threads.
#[derive(Debug)]
pub(super) struct RingPool {
    rings: Mutex<Rings>,
    /// Held while a ring is made.
    creating: Mutex<()>,
    /// Capacity of each ring.
    pub(super) ring_bytes: usize,
    /// Wakes the drain of the rings.
    pub(super) waker: &'static DrainWaker,
}

#[derive(Debug, Default)]
pub(super) struct Rings {
    pub(super) all: Vec<Arc<Ring>>,
    /// Rings that no thread has. Used where this process drains the session itself.
    pub(super) free: Vec<Arc<Ring>>,
}

impl RingPool {
    /// A pool without rings. `ring_bytes` is rounded up to a capacity.
    pub(super) fn new(ring_bytes: usize, waker: DrainWaker) -> Self {
        Self {
            rings: Mutex::default(),
            creating: Mutex::new(()),
            ring_bytes: capacity_for(ring_bytes),
            waker: Box::leak(Box::new(waker)),
        }
    }

    /// A free ring of a session that this process drains.
    pub(super) fn take_free(&self) -> Option<Arc<Ring>> {
        self.lock().free.pop()
    }

    /// A ring that is free by the agent's word, and that no producer of this process has by ours.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn take_unclaimed(&self) -> Option<Arc<Ring>> {
        let rings = self.lock();
        let ring = rings.all.iter().find(|ring| is_unclaimed(ring) && ring.hold())?;
        ring.set_overloaded(false);
        Some(Arc::clone(ring))
    }

    /// Number of rings that [`RingPool::take_unclaimed`] could take.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn unclaimed(&self) -> usize {
        self.lock().all.iter().filter(|ring| is_unclaimed(ring)).count()
    }

    /// Waits for a ring of an ended thread. After many have ended, their rings will be free as soon as the drain has
    /// drained them: that is worth a short wait, because memory for a ring of every short thread is not.
    pub(super) fn wait_for_ended(&self, take: impl Fn() -> Option<Arc<Ring>>) -> Option<Arc<Ring>> {
        for _ in 0..FREE_RING_ATTEMPTS {
            let ended = |rings: &Rings| {
                let ended = |ring: &&Arc<Ring>| ring.header().state() == RingState::Ended;
                rings.all.iter().filter(ended).nth(ENDED_RINGS_MAX).is_some()
            };
            if !ended(&self.lock()) {
                return None;
            }
            self.waker.wake();
            std::thread::sleep(std::time::Duration::from_micros(FREE_RING_PAUSE_US));
            if let Some(ring) = take() {
                return Some(ring);
            }
        }
        None
    }

    /// Makes a ring in the session's directory.
    pub(super) fn make(&self, dir: &SessionDir, header: &SessionHeader) -> Result<Arc<Ring>, RingError> {
        // One at a time, but without the list's lock: who finds a ring in stock does not wait for others' files.
        let _making = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        let index = self.lock().all.len();
        check_count(index)?;
        let (file, path) =
            dir.create_file(&files::ring_name(index as u32), Ring::file_bytes(self.ring_bytes))?;
        let ring = Arc::new(Ring::create(
            &file,
            &path,
            self.ring_bytes,
            index as u32,
            Some(self.waker),
        )?);
        drop(self.enter(Arc::clone(&ring), header)?);
        Ok(ring)
    }

    /// Adds a ring, and publishes it to other processes. Returns the lock under which that was done.
    pub(super) fn enter(
        &self,
        ring: Arc<Ring>,
        header: &SessionHeader,
    ) -> Result<MutexGuard<'_, Rings>, RingError> {
        let mut rings = self.lock();
        check_count(rings.all.len())?;
        rings.all.push(ring);
        header.publish_ring_count(rings.all.len() as u32);
        Ok(rings)
    }

    /// Rings with numbers from `first` on.
    pub(super) fn from(&self, first: usize) -> Vec<Arc<Ring>> {
        self.lock().all.get(first..).unwrap_or(&[]).to_vec()
    }

    /// Takes a finished ring back, for the next thread.
    pub(super) fn recycle(&self, ring: &Arc<Ring>) {
        ring.set_overloaded(false);
        ring.header().store_state(RingState::Free);
        self.lock().free.push(Arc::clone(ring));
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the agent has freed a ring that no producer of this process has.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn is_unclaimed(ring: &Ring) -> bool {
    ring.header().state() == RingState::Free && !ring.is_held()
}

fn check_count(rings: usize) -> Result<(), RingError> {
    if rings < RINGS_MAX {
        return Ok(());
    }
    Err(RingError::Limit {
        what: "rings of a session",
        limit: RINGS_MAX as u64,
    })
}
