//! The account of a session: the records that a drain has taken, and the drops that lines of the log tell. It becomes
//! valid with the epoch that covers those records and lines, so that each drop is told once, also when drain and process
//! are killed. Drawn in `spec/session.md`.

use crate::drop_reason::DropReason;
use crate::epoch_cells::EpochCells;
use core::sync::atomic::{AtomicU64, Ordering, fence};

const REASONS: usize = DropReason::COUNT;

/// Numbers of the account.
const NUMBERS: usize = 2 * REASONS + 2;

/// Words of the account in the header.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct AccountWords {
    /// State of an earlier drain.
    base: [AtomicU64; NUMBERS],
    cells: EpochCells<NUMBERS>,
}

const _: () = assert!(core::mem::size_of::<AccountWords>() == 448);

/// Account of a session as its drain keeps it.
///
/// ```
/// let account = logdrive_ring::SessionAccount::default();
/// assert_eq!(account.drained, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionAccount {
    /// Records taken out of rings.
    pub drained: u64,
    /// Number of times that a sink left a record out for want of room, or for a quota.
    pub left_out: u64,
    /// Drops counted in rings that gap records or lines of the drain tell, by reason.
    pub told_of_rings: [u64; REASONS],
    /// Drops of threads without a ring that lines of the drain tell, by reason.
    pub told_without_ring: [u64; REASONS],
}

impl SessionAccount {
    fn to_numbers(self) -> [u64; NUMBERS] {
        let mut numbers = [0; NUMBERS];
        let told = self.told_of_rings.iter().chain(&self.told_without_ring);
        let all = [self.drained, self.left_out];
        for (word, number) in numbers.iter_mut().zip(all.iter().chain(told)) {
            *word = *number;
        }
        numbers
    }

    fn from_numbers(numbers: [u64; NUMBERS]) -> Self {
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        Self {
            drained: at(0),
            left_out: at(1),
            told_of_rings: core::array::from_fn(|reason| at(2 + reason)),
            told_without_ring: core::array::from_fn(|reason| at(2 + REASONS + reason)),
        }
    }
}

impl AccountWords {
    /// Notes what is valid once `epoch` is published; `committed` is the epoch that was published last.
    pub(crate) fn note(&self, account: SessionAccount, epoch: u64, committed: u64) {
        self.cells.note(account.to_numbers(), epoch, committed);
    }

    /// The account at an epoch.
    pub(crate) fn load(&self, epoch: u64) -> SessionAccount {
        // Relaxed: written once by a drain before ours.
        let base = || core::array::from_fn(|index| self.base[index].load(Ordering::Relaxed));
        SessionAccount::from_numbers(self.cells.newest(epoch, |_| true).unwrap_or_else(base))
    }

    /// Makes the account of an epoch one that needs no epoch. For a new drain, before it notes any.
    pub(crate) fn settle(&self, epoch: u64) -> SessionAccount {
        let account = self.load(epoch);
        self.store_base(account);
        account
    }

    /// Makes this the account that needs no epoch.
    pub(crate) fn store_base(&self, account: SessionAccount) {
        for (word, number) in self.base.iter().zip(account.to_numbers()) {
            // Relaxed: ordered by the fence.
            word.store(number, Ordering::Relaxed);
        }
        // SYNC(cell): a reader after our death finds the numbers before it finds the cells empty.
        fence(Ordering::Release);
        self.cells.strike_after(0);
    }
}
