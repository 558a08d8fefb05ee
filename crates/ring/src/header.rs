//! The shared header of a ring: the end of its file, drawn in `spec/ring.md`. Everything in it is atomic, because the
//! other end may be in another process.

use crate::epoch_cells::EpochCells;
use crate::limits::{RING_BYTES_MAX, RING_BYTES_MIN, THREAD_NAME_BYTES};
use crate::sync::{AtomicU32, AtomicU64, Ordering, labelled};
use crate::{DropReason, RingError};

/// Bytes of the header, which lies behind the data area: so both begin at a multiple of any page size up to the
/// smallest ring, and can be mapped apart.
pub(crate) const RING_HEADER_BYTES: usize = 4096;

/// Offset of the capacity in the header.
pub(crate) const CAPACITY_OFFSET: u64 = 16;

/// `LDRING` and the two bytes of the format's version.
pub(crate) const RING_MAGIC: u64 = u64::from_le_bytes(*b"LDRING\x01\x00");

/// Owner of a ring.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingState {
    /// No thread writes; it may be given to one.
    Free = 0,
    /// A thread writes.
    Attached = 1,
    /// Its thread has ended; the drain takes what is left, then frees it.
    Ended = 2,
    /// It broke a rule of the format and is not read any more.
    Quarantined = 3,
}

impl RingState {
    fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Free,
            1 => Self::Attached,
            2 => Self::Ended,
            _ => Self::Quarantined,
        }
    }
}

/// The header of a ring. Grouped in cache lines by who writes.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RingHeader {
    // Line 0: written when the ring is made or handed to a thread.
    pub(crate) magic: AtomicU64,
    pub(crate) state: AtomicU32,
    pub(crate) reserved: AtomicU32,
    pub(crate) capacity_bytes: AtomicU64,
    pub(crate) thread_id: AtomicU64,
    pub(crate) thread_name: [AtomicU64; THREAD_NAME_BYTES / 8],
    // Line 1: the producer, for every record.
    pub(crate) committed: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) line1: [AtomicU64; 6],
    // Line 2: the producer, for every record that it drops.
    pub(crate) dropped: [AtomicU64; DropReason::COUNT],
    // Line 3: dropped records that no gap record has reported yet; producer and drain take from it.
    pub(crate) unreported: [AtomicU64; DropReason::COUNT],
    // Line 4: the consumer.
    pub(crate) consumed: AtomicU64,
    pub(crate) line4: AtomicU64,
    /// Positions that become valid with their epoch.
    pub(crate) drained: EpochCells<1>,
    pub(crate) line4_end: [AtomicU64; 2],
    // Line 5: parking.
    pub(crate) waiting: AtomicU32,
    pub(crate) space_sequence: AtomicU32,
    pub(crate) cut: AtomicU64,
    /// Not 0 while the reading end sleeps; rings of a log leave it 0.
    pub(crate) reader_asleep: AtomicU32,
    pub(crate) line5_half: AtomicU32,
    pub(crate) line5: [AtomicU64; 5],
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(offset_of!(RingHeader, capacity_bytes) as u64 == CAPACITY_OFFSET);
    assert!(offset_of!(RingHeader, thread_id) == 24);
    assert!(offset_of!(RingHeader, thread_name) == 32);
    assert!(offset_of!(RingHeader, committed) == 64);
    assert!(offset_of!(RingHeader, records) == 72);
    assert!(offset_of!(RingHeader, dropped) == 128);
    assert!(offset_of!(RingHeader, unreported) == 192);
    assert!(offset_of!(RingHeader, consumed) == 256);
    assert!(offset_of!(RingHeader, drained) == 272);
    assert!(offset_of!(RingHeader, waiting) == 320);
    assert!(offset_of!(RingHeader, space_sequence) == 324);
    assert!(offset_of!(RingHeader, cut) == 328);
    assert!(offset_of!(RingHeader, reader_asleep) == 336);
    assert!(size_of::<RingHeader>() == 384);
    assert!(size_of::<RingHeader>() <= RING_HEADER_BYTES);
};

/// The capacity of a ring whose file has this length.
pub(crate) fn capacity_of(file_bytes: u64) -> Result<usize, RingError> {
    let capacity = file_bytes.saturating_sub(RING_HEADER_BYTES as u64);
    let within = (RING_BYTES_MIN as u64..=RING_BYTES_MAX as u64).contains(&capacity);
    if within && capacity.is_power_of_two() {
        return Ok(capacity as usize);
    }
    Err(damaged(
        "file size",
        file_bytes,
        "4096 bytes more than a power of two from 64 KiB to 1 GiB",
    ))
}

impl RingHeader {
    /// Makes zeroed memory an empty ring.
    pub(crate) fn format(&self, capacity_bytes: usize) {
        // Relaxed: the ring is published by its session's ring count, not by these stores.
        self.capacity_bytes
            .store(capacity_bytes as u64, Ordering::Relaxed);
        // SYNC(ring magic): a recoverer that finds it after our death finds the capacity. Without it the ring was being made.
        self.magic.store(RING_MAGIC, Ordering::Release);
    }

    /// Checks that the header is one of ours, and says of the capacity what the file's length says.
    pub(crate) fn check(&self, capacity_bytes: usize) -> Result<(), RingError> {
        // SYNC(ring magic): the capacity is there.
        let magic = self.magic.load(Ordering::Acquire);
        if magic != RING_MAGIC {
            return Err(damaged("magic", magic, "LDRING and version 1"));
        }
        // Relaxed: as above; it is checked, whatever it is.
        let capacity = self.capacity_bytes.load(Ordering::Relaxed);
        if capacity != capacity_bytes as u64 {
            return Err(damaged(
                "capacity",
                capacity,
                "the length of the file without its header",
            ));
        }
        Ok(())
    }

    /// Owner of the ring.
    pub(crate) fn state(&self) -> RingState {
        // SYNC(state): what the last owner wrote is visible to the next.
        RingState::from_code(self.state.load(labelled("state.load", Ordering::Acquire)))
    }

    pub(crate) fn store_state(&self, state: RingState) {
        // SYNC(state)
        self.state
            .store(state as u32, labelled("state.store", Ordering::Release));
    }

    pub(crate) fn label(&self, thread_id: u64, name: &str) {
        store_text(&self.thread_name, name);
        // Relaxed: a label.
        self.thread_id.store(thread_id, Ordering::Relaxed);
    }

    /// Takes the label of another ring, which the same thread has had.
    pub(crate) fn label_as(&self, other: &Self) {
        for (to, from) in self.thread_name.iter().zip(&other.thread_name) {
            // Relaxed: a label.
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.thread_id
            .store(other.thread_id.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Takes the drops that no gap record has reported yet. Each drop is returned once.
    pub(crate) fn take_unreported(&self) -> [u64; DropReason::COUNT] {
        core::array::from_fn(|reason| {
            // Relaxed: the counter is its own data; the swap makes sure that only one side takes it.
            if self.unreported[reason].load(Ordering::Relaxed) == 0 {
                0
            } else {
                self.unreported[reason].swap(0, Ordering::Relaxed)
            }
        })
    }

    /// Adds drops back that could not be reported.
    pub(crate) fn return_unreported(&self, counts: &[u64; DropReason::COUNT]) {
        for (word, count) in self.unreported.iter().zip(counts) {
            if *count != 0 {
                // Relaxed: as in `take_unreported`.
                word.fetch_add(*count, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn count_drop(&self, reason: DropReason) {
        // Relaxed: counters; atomic additions because a signal handler may interrupt its own thread here.
        self.dropped[reason as usize].fetch_add(1, Ordering::Relaxed);
        self.unreported[reason as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Stores the front of a text, which always ends with a zero.
pub(crate) fn store_text(words: &[AtomicU64], text: &str) {
    let end = text.floor_char_boundary(words.len() * 8 - 1);
    let mut bytes = text.as_bytes()[..end].iter();
    for word in words {
        let eight = core::array::from_fn(|_| bytes.next().copied().unwrap_or(0));
        // Relaxed: a label.
        word.store(u64::from_le_bytes(eight), Ordering::Relaxed);
    }
}

/// Reads a text up to its zero, as far as it is one.
pub(crate) fn load_text(words: &[AtomicU64]) -> String {
    // Relaxed: a label.
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed).to_le_bytes();
    let mut bytes: Vec<u8> = words.iter().flat_map(load).collect();
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn damaged(field: &'static str, found: u64, expected: &'static str) -> RingError {
    RingError::damaged("ring header", field, found, expected)
}
