//! Numbers that become valid with an epoch: two cells, of which one holds what the published epoch relies on while the
//! other is written for the next. Drawn in `spec/session.md`.

use crate::checksum::{guarded, unguarded};
use crate::sync::{AtomicU64, Ordering, fence};

/// Numbers of one epoch. The word of the epoch guards them: it holds a check of all of them.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct EpochCell<const N: usize> {
    pub(crate) epoch: AtomicU64,
    pub(crate) numbers: [AtomicU64; N],
}

/// The cells of one thing. One drain writes them; readers come after its death, or after the epoch is published.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct EpochCells<const N: usize>(pub(crate) [EpochCell<N>; 2]);

impl<const N: usize> EpochCells<N> {
    /// Notes what is valid once `epoch` is published; `committed` is the epoch that was published last.
    pub(crate) fn note(&self, numbers: [u64; N], epoch: u64, committed: u64) {
        // The cell that the committed epoch relies on must stay; the other one is free.
        // Relaxed: one writer, see above.
        let valid = |cell: &EpochCell<N>| match cell.read() {
            Some((epoch, _)) if epoch <= committed => epoch,
            _ => 0,
        };
        let [first, second] = &self.0;
        let cell = if valid(first) > valid(second) {
            second
        } else {
            first
        };
        // The epoch goes first to "none", so that numbers of two epochs are never taken for a whole.
        cell.epoch.store(0, Ordering::Relaxed);
        // SYNC(cell): a reader after our death sees the stores in this order.
        fence(Ordering::Release);
        for (word, number) in cell.numbers.iter().zip(numbers) {
            word.store(number, Ordering::Relaxed);
        }
        // SYNC(cell)
        fence(Ordering::Release);
        cell.epoch.store(guarded(epoch, &numbers), Ordering::Relaxed);
    }

    /// The numbers of the newest epoch up to `epoch` that are whole and `sound`.
    pub(crate) fn newest(&self, epoch: u64, mut sound: impl FnMut(&[u64; N]) -> bool) -> Option<[u64; N]> {
        let mut newest = (0, None);
        for cell in &self.0 {
            let Some((cell_epoch, numbers)) = cell.read() else {
                continue;
            };
            if cell_epoch > newest.0 && cell_epoch <= epoch && sound(&numbers) {
                newest = (cell_epoch, Some(numbers));
            }
        }
        newest.1
    }

    /// The highest epoch that anything was noted for; 0 without any. For the writer.
    #[cfg(not(loom))]
    pub(crate) fn newest_epoch(&self) -> u64 {
        let epochs = self.0.iter().filter_map(|cell| Some(cell.read()?.0));
        epochs.max().unwrap_or(0)
    }

    /// Strikes out what was noted for epochs that were never published, because the next one will have the same number.
    pub(crate) fn strike_after(&self, epoch: u64) {
        for cell in &self.0 {
            // A damaged cell stays as it is: it is valid at no epoch.
            if cell.read().is_some_and(|(found, _)| found > epoch) {
                // Relaxed: the writer is dead, and we are the only drain.
                cell.epoch.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Returns whether the check of a cell is wrong, so that what it held is not known.
    #[cfg(not(loom))]
    pub(crate) fn is_damaged(&self) -> bool {
        self.0.iter().any(|cell| cell.read().is_none())
    }
}

impl<const N: usize> EpochCell<N> {
    /// Epoch and numbers; `None` where the check is wrong. An epoch of 0 is that of no numbers.
    fn read(&self) -> Option<(u64, [u64; N])> {
        // Relaxed: the writer is dead or is ourselves.
        let word = self.epoch.load(Ordering::Relaxed);
        let numbers = core::array::from_fn(|index| self.numbers[index].load(Ordering::Relaxed));
        Some((unguarded(word, &numbers)?, numbers))
    }
}
