//! A ring in memory: its mapping and header, and the hand-over between threads.
#![allow(unsafe_code)]

#[cfg(not(loom))]
use crate::header::capacity_of;
use crate::header::{RING_HEADER_BYTES, RingHeader, RingState, load_text};
#[cfg(not(loom))]
use crate::limits::TOUCHED_PIECE_BYTES;
use crate::limits::{RECORD_BYTES_MAX, RECORD_PART_OF_RING, RING_BYTES_MAX, RING_BYTES_MIN};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::waker::DrainWaker;
use crate::{DropReason, RingError, sys};
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
    /// 1 during an overload episode; the producer's own, kept here because producers come and go.
    overloaded: AtomicU32,
    /// 1 while a producer of this process has the ring, whatever the shared header says.
    held: AtomicU32,
    /// Wakes the drain, where this process writes the ring.
    drain_waker: Option<&'static DrainWaker>,
    growth: Growth,
}

/// Replacement of a ring by a larger one, as its process does it.
#[derive(Debug)]
pub(crate) struct Growth {
    /// From then on it may be; `u64::MAX` for never.
    at_ns: AtomicU64,
    /// 1 if the memory of the ring ends with this process.
    private: AtomicU32,
    /// 1 if a thread that keeps logging gets a larger one before this one fills.
    early: AtomicU32,
}

impl Growth {
    /// Growth of a ring that stays as it is.
    pub(crate) fn none() -> Self {
        Self {
            at_ns: AtomicU64::new(u64::MAX),
            private: AtomicU32::new(0),
            early: AtomicU32::new(0),
        }
    }

    /// The ring may be replaced from that time on; 0 for at once, `u64::MAX` for never.
    pub(crate) fn set_at(&self, monotonic_ns: u64) {
        // Relaxed: a hint for the producing thread.
        self.at_ns.store(monotonic_ns, Ordering::Relaxed);
    }

    /// Returns whether the ring may be replaced now.
    #[cfg(not(loom))]
    pub(crate) fn is_due(&self) -> bool {
        // Relaxed: as above.
        match self.at_ns.load(Ordering::Relaxed) {
            0 => true,
            u64::MAX => false,
            at_ns => crate::clock::monotonic_ns() >= at_ns,
        }
    }

    /// A thread that has logged as much as the ring has may get a larger one, although this one has room: the slow path comes
    /// once for each half of a ring, and costs a call that finds its memory cold about a microsecond.
    pub(crate) fn set_early(&self, is_early: bool) {
        // Relaxed: a hint for the producing thread.
        self.early.store(u32::from(is_early), Ordering::Relaxed);
    }

    /// Returns whether the ring may be replaced before it fills.
    pub(crate) fn is_early(&self) -> bool {
        // Relaxed: as above.
        self.early.load(Ordering::Relaxed) != 0
    }

    /// The memory of the ring ends with this process.
    pub(crate) fn set_private(&self) {
        // Relaxed: set before the ring is shared.
        self.private.store(1, Ordering::Relaxed);
    }

    /// Returns whether the memory of the ring ends with this process.
    pub(crate) fn is_private(&self) -> bool {
        // Relaxed: as above.
        self.private.load(Ordering::Relaxed) != 0
    }
}

/// Numbers of a ring at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingCounts {
    /// Owner of the ring.
    pub state: RingState,
    /// Position up to which the ring is drained, by the drain's word.
    pub consumed: u64,
    /// Records committed so far, gap records not counted.
    pub records: u64,
    /// Records whose values were cut to the limit.
    pub records_cut: u64,
    /// Calls dropped so far, by reason.
    pub dropped: [u64; DropReason::COUNT],
}

/// Writes bytes at a position of the ring of a dead process; at most the capacity.
#[cfg(not(loom))]
pub(crate) fn write_at(ring: &Ring, position: u64, bytes: &[u8]) {
    let capacity_bytes = ring.capacity_bytes;
    assert!(bytes.len() <= capacity_bytes, "a copy is at most one ring long");
    let offset = (position & (capacity_bytes as u64 - 1)) as usize;
    // SAFETY: as in `Ring::copy_out`. The process is dead, so that nobody else writes there.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), ring.data().add(offset), bytes.len()) };
}

/// Rounds a size to a capacity that the format allows.
pub fn capacity_for(bytes: usize) -> usize {
    bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX).next_power_of_two()
}

/// Bytes of the longest record that a ring of this capacity takes.
pub(crate) fn record_bytes_max(capacity_bytes: usize) -> usize {
    RECORD_BYTES_MAX.min(capacity_bytes / RECORD_PART_OF_RING)
}

/// Numbers a ring that nobody else has yet.
#[cfg(not(loom))]
pub(crate) fn number(ring: &mut Ring, index: u32) {
    ring.index = index;
}

/// Returns whether less than half of a ring is free.
#[cfg(not(loom))]
pub(crate) fn is_half_full(ring: &Ring) -> bool {
    let header = ring.header();
    // Relaxed: for the producing thread, whose own position it is; what is consumed later is more room.
    let used = header
        .committed
        .load(Ordering::Relaxed)
        .wrapping_sub(header.consumed.load(Ordering::Relaxed));
    used > ring.capacity_bytes as u64 / 2
}

/// Touches pages of a ring's data, beside the thread that writes them, so that its calls find them there. Piece by piece: others
/// that map memory wait for one.
#[cfg(not(loom))]
pub(crate) fn touch(ring: &Ring, from: usize, bytes: usize) {
    let until = from.saturating_add(bytes).min(ring.capacity_bytes);
    for at in (from..until).step_by(TOUCHED_PIECE_BYTES) {
        // Without that the thread touches them itself.
        let _ = ring.mapping.populate(at, TOUCHED_PIECE_BYTES.min(until - at));
    }
}

/// Makes the file of a ring without a name.
#[cfg(not(loom))]
pub(crate) fn unnamed_file(capacity_bytes: usize) -> Result<File, RingError> {
    let bytes = Ring::file_bytes(capacity_bytes);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let file = crate::memory_file::make("logdrive-ring", bytes, bytes)?;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let file = sys::shared_object("logdrive-ring", bytes)
        .map_err(|cause| RingError::io("make", Path::new("unnamed ring"), cause))?;
    Ok(file)
}

impl Ring {
    /// Bytes of the file for a ring of this capacity.
    pub fn file_bytes(capacity_bytes: usize) -> u64 {
        (capacity_bytes + RING_HEADER_BYTES) as u64
    }

    /// Makes a new ring of a file that has been reserved and is zero. With `populate` its pages are touched now.
    #[cfg(not(loom))]
    pub(crate) fn create(
        file: &File,
        path: &Path,
        capacity_bytes: usize,
        populate: bool,
        waker: Option<&'static DrainWaker>,
    ) -> Result<Self, RingError> {
        let mut ring = Self::map(file, path, capacity_bytes, 0, populate)?;
        ring.drain_waker = waker;
        ring.header().format(capacity_bytes);
        Ok(ring)
    }

    /// As [`Ring::create`], for the end that only reads: the pages of the data are left alone.
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
    pub(crate) fn create_for_peer(
        file: &File,
        path: &Path,
        capacity_bytes: usize,
        index: u32,
    ) -> Result<Self, RingError> {
        let ring = Self::map(file, path, capacity_bytes, index, false)?;
        ring.header().format(capacity_bytes);
        Ok(ring)
    }

    /// Maps a file whose length has been checked.
    #[cfg(not(loom))]
    fn map(
        file: &File,
        path: &Path,
        capacity_bytes: usize,
        index: u32,
        populate: bool,
    ) -> Result<Self, RingError> {
        let mapping = sys::Mapping::ring(file, capacity_bytes, RING_HEADER_BYTES, populate)
            .map_err(|cause| RingError::io("map", path, cause))?;
        Ok(Self {
            mapping,
            capacity_bytes,
            index,
            overloaded: AtomicU32::new(0),
            held: AtomicU32::new(0),
            drain_waker: None,
            growth: Growth::none(),
        })
    }

    /// A place for a ring that is made later, without memory. It is not used as a ring.
    #[cfg(not(loom))]
    pub(crate) fn prepared() -> Self {
        Self {
            mapping: sys::Mapping::empty(),
            capacity_bytes: 0,
            index: 0,
            overloaded: AtomicU32::new(0),
            held: AtomicU32::new(0),
            drain_waker: None,
            growth: Growth::none(),
        }
    }

    /// Replaces the memory by zeros of this process's own, at the same addresses: in the child of a `fork`, where the ring
    /// is the parent's and a call that was interrupted still writes. `false` where that fails. For signal handlers.
    #[cfg(not(loom))]
    pub(crate) fn make_private(&self) -> bool {
        self.mapping.make_private()
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
        let file = unnamed_file(capacity_bytes)?;
        let path = Path::new("unnamed ring");
        let ring = Self::create(&file, path, capacity_bytes, true, None)?;
        Ok((ring, file))
    }

    /// Opens a ring whose file came from a peer: besides the header, its size must be sealed. Not on systems where sizes
    /// cannot be sealed.
    ///
    /// # Errors
    /// When the file does not have the length of a ring or could still change it, or its header is not a ring's.
    #[cfg(not(loom))]
    pub fn open_sealed(file: &File, index: u32) -> Result<Self, RingError> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let is_sealed = crate::memory_file::is_sealed(file);
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let is_sealed = false;
        if !is_sealed {
            let expected = "sealed against shrinking and growing";
            return Err(RingError::damaged("ring file", "seals", 0, expected));
        }
        Self::open(file, Path::new("sealed ring"), index)
    }

    /// Opens a ring that an agent made, for the end that writes: touches every page now, and wakes the drain with this
    /// waker. Its file has been checked.
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
    pub(crate) fn open_for_producer(
        file: &File,
        index: u32,
        waker: &'static DrainWaker,
    ) -> Result<Self, RingError> {
        let mut ring = Self::open_file(file, Path::new("ring of an agent"), index, true)?;
        ring.drain_waker = Some(waker);
        Ok(ring)
    }

    /// Opens a ring that another process made; checks the length of its file, then its header.
    ///
    /// # Errors
    /// When the file does not have the length of a ring, or its header is not a ring's.
    #[cfg(not(loom))]
    pub(crate) fn open(file: &File, path: &Path, index: u32) -> Result<Self, RingError> {
        Self::open_file(file, path, index, false)
    }

    #[cfg(not(loom))]
    fn open_file(file: &File, path: &Path, index: u32, populate: bool) -> Result<Self, RingError> {
        let bytes = file
            .metadata()
            .map_err(|cause| RingError::io("look at", path, cause))?
            .len();
        let capacity_bytes = capacity_of(bytes)?;
        let ring = Self::map(file, path, capacity_bytes, index, populate)?;
        ring.header().check(capacity_bytes)?;
        Ok(ring)
    }

    /// A ring for Miri, in memory of one process. Its data area is not the same bytes twice: what is written across its
    /// end has to be read from where it was written, one record at a time.
    #[cfg(miri)]
    pub fn interpreted(capacity_bytes: usize) -> Self {
        let capacity_bytes = capacity_for(capacity_bytes);
        let ring = Self {
            mapping: sys::Mapping::interpreted(2 * capacity_bytes + RING_HEADER_BYTES),
            capacity_bytes,
            index: 0,
            overloaded: AtomicU32::new(0),
            held: AtomicU32::new(0),
            drain_waker: None,
            growth: Growth::none(),
        };
        ring.header().format(capacity_bytes);
        ring
    }

    /// The shared header.
    #[cfg(not(loom))]
    pub(crate) fn header(&self) -> &RingHeader {
        // SAFETY: the header lies behind the two mappings of the data area, which are multiples of its alignment, and
        // lives as long as `self`; all fields are atomics.
        unsafe {
            &*self
                .mapping
                .base()
                .add(2 * self.capacity_bytes)
                .cast::<RingHeader>()
        }
    }

    /// First byte of the doubly mapped data area.
    #[cfg(not(loom))]
    pub(crate) fn data(&self) -> *mut u8 {
        self.mapping.base()
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

    /// Bytes of the longest record that the ring takes.
    pub(crate) fn record_bytes_max(&self) -> usize {
        record_bytes_max(self.capacity_bytes)
    }

    /// The number of the ring in its session.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The kernel's number of the thread that has, or last had, the ring.
    pub fn thread_id(&self) -> u64 {
        // Relaxed: a label.
        self.header().thread_id.load(Ordering::Relaxed)
    }

    /// The name of that thread, as far as it is text; empty when it has none. Allocates.
    pub fn thread_name(&self) -> String {
        load_text(&self.header().thread_name)
    }

    /// Numbers of the ring as they are now; they may change at any time.
    pub fn counts(&self) -> RingCounts {
        let header = self.header();
        // Relaxed: statistics.
        RingCounts {
            state: header.state(),
            consumed: header.consumed.load(Ordering::Relaxed),
            records: header.records.load(Ordering::Relaxed),
            records_cut: header.cut.load(Ordering::Relaxed),
            dropped: core::array::from_fn(|reason| header.dropped[reason].load(Ordering::Relaxed)),
        }
    }

    /// Takes the drops that no gap record has reported yet, by reason. Each drop is returned once.
    pub fn take_unreported(&self) -> [u64; DropReason::COUNT] {
        self.header().take_unreported()
    }

    /// Takes the ring for a producer of this process; `false` when another one has it.
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
    pub(crate) fn hold(&self) -> bool {
        // SYNC(held): what the last producer did with the ring is visible to the next.
        self.held.swap(1, Ordering::Acquire) == 0
    }

    /// Returns whether a producer of this process has the ring.
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
    pub(crate) fn is_held(&self) -> bool {
        // Relaxed: a hint; `hold` decides.
        self.held.load(Ordering::Relaxed) != 0
    }

    /// The producer of this process has ended.
    pub(crate) fn let_go(&self) {
        // SYNC(held)
        self.held.store(0, Ordering::Release);
    }

    pub(crate) fn is_overloaded(&self) -> bool {
        // Relaxed: read and written by the producing thread only.
        self.overloaded.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn set_overloaded(&self, on: bool) {
        // Relaxed: as above.
        self.overloaded.store(u32::from(on), Ordering::Relaxed);
    }

    /// State of its replacement by a larger ring.
    pub(crate) fn growth(&self) -> &Growth {
        &self.growth
    }

    pub(crate) fn has_unreported(&self) -> bool {
        // Relaxed: counters of this thread; the drain may take them first, which is as good.
        self.header()
            .unreported
            .iter()
            .any(|count| count.load(Ordering::Relaxed) != 0)
    }

    pub(crate) fn wake_drain(&self) {
        if let Some(waker) = self.drain_waker {
            waker.wake();
        }
    }
}

#[cfg(loom)]
mod model;
#[cfg(loom)]
use model::Model;
