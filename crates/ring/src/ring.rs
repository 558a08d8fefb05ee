//! A ring in memory: its mapping and header, and the hand-over between threads.
#![allow(unsafe_code)]

pub use crate::header::{RING_HEADER_BYTES, RingHeader, RingState};

use crate::limits::{RING_BYTES_MAX, RING_BYTES_MIN};
use crate::sync::{AtomicU32, Ordering};
use crate::{RingError, sys};
use std::fs::File;
use std::path::Path;

/// The shared memory of one ring.
#[derive(Debug)]
pub struct Ring {
    #[cfg(not(loom))]
    mapping: sys::Mapping,
    #[cfg(loom)]
    model: Model,
    capacity_bytes: usize,
    index: u32,
    /// Whether an overload episode is on; the producer's own, kept here because producers come and go.
    overloaded: AtomicU32,
    /// The word on which the drain sleeps, where producer and drain share a process.
    drain_bell: Option<&'static DrainBell>,
}

/// The word that a sleeping drain waits on.
#[derive(Debug)]
pub struct DrainBell {
    word: AtomicU32,
}

impl DrainBell {
    /// A drain that is awake.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
        }
    }

    /// Sleeps until somebody rings, at most this long. The caller looks for work again afterwards.
    pub fn sleep(&self, timeout_ns: u64) {
        // SYNC(bell): whoever sees the 1 has work that we shall see after its wake.
        self.word.store(1, Ordering::SeqCst);
        sys::futex_wait(&self.word, 1, timeout_ns);
        // Relaxed: only a hint for the next ringer.
        self.word.store(0, Ordering::Relaxed);
    }

    /// Wakes the drain if it sleeps. Costs a load otherwise.
    pub fn ring(&self) {
        // SYNC(bell)
        if self.word.load(Ordering::SeqCst) == 1 && self.word.swap(0, Ordering::SeqCst) == 1 {
            sys::futex_wake(&self.word);
        }
    }
}

#[cfg(not(loom))]
impl Default for DrainBell {
    fn default() -> Self {
        Self::new()
    }
}

/// Rounds a wish to a capacity that the format allows.
pub fn capacity_for(bytes: usize) -> usize {
    bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX).next_power_of_two()
}

impl Ring {
    /// Bytes of the file for a ring of this capacity.
    pub fn file_bytes(capacity_bytes: usize) -> u64 {
        (RING_HEADER_BYTES + capacity_bytes) as u64
    }

    /// Makes a new ring of a file that has been reserved and is zero.
    #[cfg(not(loom))]
    pub(crate) fn create(
        file: &File,
        path: &Path,
        capacity_bytes: usize,
        index: u32,
        bell: Option<&'static DrainBell>,
    ) -> Result<Self, RingError> {
        let mapping = sys::Mapping::ring(file, RING_HEADER_BYTES, capacity_bytes, true)
            .map_err(|cause| RingError::io("map", path, cause))?;
        let ring = Self {
            mapping,
            capacity_bytes,
            index,
            overloaded: AtomicU32::new(0),
            drain_bell: bell,
        };
        ring.header().format(capacity_bytes);
        Ok(ring)
    }

    /// Makes a ring without a name: a sealed memory file on Linux, so that its size can never change, and an unlinked
    /// shared memory object elsewhere. The file can be passed to the process that drains.
    ///
    /// ```
    /// # fn main() -> Result<(), logdrive_ring::RingError> {
    /// use logdrive_ring::{Consumer, FullPolicy, Producer, Ring};
    /// let (ring, _file) = Ring::unnamed(1 << 16)?;
    /// let ring = std::sync::Arc::new(ring);
    /// let mut producer = Producer::attach(ring.clone(), "main");
    /// producer.push(&[7; 32], false, FullPolicy::Drop);
    /// let mut consumer = Consumer::new(ring);
    /// let mut bytes = [0; 32];
    /// consumer.copy_out(0, &mut bytes);
    /// assert_eq!(bytes, [7; 32]);
    /// consumer.release(32);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When there is no room for it, or the process has too many files open.
    #[cfg(not(loom))]
    pub fn unnamed(capacity_bytes: usize) -> Result<(Self, File), RingError> {
        let capacity_bytes = capacity_for(capacity_bytes);
        let path = Path::new("unnamed ring");
        let file = sys::memfd("logdrive-ring", Self::file_bytes(capacity_bytes))
            .map_err(|cause| RingError::io("make", path, cause))?;
        let ring = Self::create(&file, path, capacity_bytes, 0, None)?;
        Ok((ring, file))
    }

    /// Opens a ring whose file came from a peer: besides the header, its size must be sealed.
    ///
    /// # Errors
    /// As [`Ring::open`], and when the file could still shrink or grow.
    #[cfg(not(loom))]
    pub fn open_sealed(file: &File, index: u32) -> Result<Self, RingError> {
        if !sys::is_sealed(file) {
            return Err(RingError::Damaged {
                what: "ring file",
                field: "seals",
                found: 0,
                expected: "sealed against shrinking and growing",
            });
        }
        Self::open(file, Path::new("sealed ring"), index)
    }

    /// Opens a ring that somebody else made; checks its header.
    ///
    /// # Errors
    /// When the file is too short or its header is not a ring's.
    #[cfg(not(loom))]
    pub fn open(file: &File, path: &Path, index: u32) -> Result<Self, RingError> {
        let bytes = file
            .metadata()
            .map_err(|cause| RingError::io("look at", path, cause))?
            .len();
        if bytes < (RING_HEADER_BYTES + RING_BYTES_MIN) as u64 {
            return Err(RingError::Damaged {
                what: "ring header",
                field: "file size",
                found: bytes,
                expected: "at least 68 KiB",
            });
        }
        let capacity_bytes = {
            let head = sys::Mapping::plain(file, 0, RING_HEADER_BYTES)
                .map_err(|cause| RingError::io("map", path, cause))?;
            // SAFETY: the page is mapped, aligned, large enough, and all fields are atomics.
            unsafe { &*head.base().cast::<RingHeader>() }.check(bytes)?
        };
        let mapping = sys::Mapping::ring(file, RING_HEADER_BYTES, capacity_bytes, false)
            .map_err(|cause| RingError::io("map", path, cause))?;
        Ok(Self {
            mapping,
            capacity_bytes,
            index,
            overloaded: AtomicU32::new(0),
            drain_bell: None,
        })
    }

    /// The shared header.
    #[cfg(not(loom))]
    pub fn header(&self) -> &RingHeader {
        // SAFETY: the mapping is at least a page, page-aligned, and lives as long as `self`; all fields are atomics.
        unsafe { &*self.mapping.base().cast::<RingHeader>() }
    }

    /// First byte of the doubly mapped data area.
    #[cfg(not(loom))]
    pub(crate) fn data(&self) -> *mut u8 {
        // SAFETY: the mapping is longer than the header.
        unsafe { self.mapping.base().add(RING_HEADER_BYTES) }
    }

    /// Copies `out.len()` bytes from a position; at most the capacity.
    #[cfg(not(loom))]
    pub(crate) fn copy_out(&self, position: u64, out: &mut [u8]) {
        assert!(
            out.len() <= self.capacity_bytes,
            "a copy is at most one ring long"
        );
        let offset = (position & (self.capacity_bytes as u64 - 1)) as usize;
        // SAFETY: the data area is mapped twice in a row, so `capacity` bytes from any offset are mapped. A
        // producer that keeps the rules does not write there before the bytes are released; one that does not
        // gives us wrong bytes, which every reader checks.
        unsafe { core::ptr::copy_nonoverlapping(self.data().add(offset), out.as_mut_ptr(), out.len()) };
    }

    /// Bytes of the data area.
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// The number of the ring in its session.
    pub fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn is_overloaded(&self) -> bool {
        // Relaxed: read and written by the producing thread only.
        self.overloaded.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn set_overloaded(&self, on: bool) {
        // Relaxed: as above.
        self.overloaded.store(u32::from(on), Ordering::Relaxed);
    }

    pub(crate) fn has_unannounced(&self) -> bool {
        // Relaxed: counters of this thread; the drain may take them first, which is as good.
        self.header()
            .unannounced
            .iter()
            .any(|count| count.load(Ordering::Relaxed) != 0)
    }

    pub(crate) fn wake_drain(&self) {
        if let Some(bell) = self.drain_bell {
            bell.ring();
        }
    }
}

#[cfg(loom)]
mod model;
#[cfg(loom)]
use model::Model;
