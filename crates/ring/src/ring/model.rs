//! A ring for the model checker: the same header with loom's atomics, and a data area whose every access loom
//! watches.

use super::{DrainWaker, Growth, Ring};
use crate::drop_reason::DropReason;
use crate::epoch_cells::{EpochCell, EpochCells};
use crate::header::RingHeader;
use crate::sync::{AtomicU32, AtomicU64};
use loom::cell::UnsafeCell;

/// The memory of a modelled ring.
#[derive(Debug)]
pub(super) struct Model {
    header: Box<RingHeader>,
    words: Vec<UnsafeCell<u64>>,
}

fn words<const N: usize>() -> [AtomicU64; N] {
    core::array::from_fn(|_| AtomicU64::new(0))
}

impl Ring {
    /// A ring of this many bytes for a model; smaller than the format allows.
    pub fn model(capacity_bytes: usize) -> Self {
        let header = RingHeader {
            magic: AtomicU64::new(0),
            state: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            capacity_bytes: AtomicU64::new(0),
            thread_id: AtomicU64::new(0),
            thread_name: words(),
            committed: AtomicU64::new(0),
            records: AtomicU64::new(0),
            line1: words(),
            dropped: words::<{ DropReason::COUNT }>(),
            unreported: words::<{ DropReason::COUNT }>(),
            consumed: AtomicU64::new(0),
            line4: AtomicU64::new(0),
            drained: EpochCells(core::array::from_fn(|_| EpochCell {
                epoch: AtomicU64::new(0),
                numbers: words(),
            })),
            line4_end: words(),
            waiting: AtomicU32::new(0),
            space_sequence: AtomicU32::new(0),
            cut: AtomicU64::new(0),
            reader_asleep: AtomicU32::new(0),
            line5_half: AtomicU32::new(0),
            line5: words(),
        };
        let words = (0..capacity_bytes / 8).map(|_| UnsafeCell::new(0)).collect();
        Self {
            model: Model {
                header: Box::new(header),
                words,
            },
            capacity_bytes,
            index: 0,
            overloaded: AtomicU32::new(0),
            held: AtomicU32::new(0),
            drain_waker: None::<&'static DrainWaker>,
            growth: Growth::none(),
        }
    }

    /// The shared header.
    pub(crate) fn header(&self) -> &RingHeader {
        &self.model.header
    }

    pub(crate) fn model_write(&self, position: u64, record: &[u8]) {
        for (index, chunk) in record.chunks_exact(8).enumerate() {
            let word = (position as usize / 8 + index) % self.model.words.len();
            let mut eight = [0u8; 8];
            eight.copy_from_slice(chunk);
            // SAFETY: loom checks that no other thread accesses the word meanwhile; that is the point of the model.
            self.model.words[word].with_mut(|at| unsafe { *at = u64::from_le_bytes(eight) });
        }
    }

    pub(crate) fn copy_out(&self, position: u64, out: &mut [u8]) {
        for (index, chunk) in out.chunks_exact_mut(8).enumerate() {
            let word = (position as usize / 8 + index) % self.model.words.len();
            // SAFETY: as in `model_write`.
            let value = self.model.words[word].with(|at| unsafe { *at });
            chunk.copy_from_slice(&value.to_le_bytes());
        }
    }
}
