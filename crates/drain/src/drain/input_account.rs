//! Account of one session that is drained: the records taken from it, and the drops of its threads that lines tell. It is
//! stored in the session with the epoch that covers them.

use crate::internal_notices::read_gap;
use logdrive_ring::{DropReason, SessionAccount, SessionHeader, SessionReader};
use std::cell::Cell;

/// Calls dropped, by the code of their reason.
pub(crate) type DropCounts = [u64; DropReason::COUNT];

/// Drops of calls that lines are to tell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallDrops {
    /// Those that rings count.
    pub(crate) of_rings: DropCounts,
    /// Those of threads without a ring.
    pub(crate) without_ring: DropCounts,
}

impl CallDrops {
    /// Number of drops for all reasons.
    pub(crate) fn count(&self) -> u64 {
        let counts = self.of_rings.iter().chain(&self.without_ring);
        counts.fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Drops for one reason alone.
    pub(crate) fn of(&self, reason: DropReason) -> Self {
        let code = reason as usize;
        let mut only = Self::default();
        only.of_rings[code] = self.of_rings[code];
        only.without_ring[code] = self.without_ring[code];
        only
    }
}

/// Account of a session.
#[derive(Debug, Default)]
pub(crate) struct InputAccount {
    stored: SessionAccount,
    /// Records taken since it was stored.
    taken: Cell<u64>,
    /// Records of this drain that stand behind later ones.
    late: Cell<u64>,
    has_changed: bool,
}

impl InputAccount {
    /// Goes on from what the session has.
    pub(crate) fn resume(stored: SessionAccount) -> Self {
        Self {
            stored,
            ..Self::default()
        }
    }

    /// Counts records that were taken out of rings, and those of them that stand behind later ones.
    #[inline]
    pub(crate) fn take(&self, records: u64, late: u64) {
        self.taken.set(self.taken.get().wrapping_add(records));
        self.late.set(self.late.get().wrapping_add(late));
    }

    /// Records that this drain found too late for their place.
    pub(crate) fn late(&self) -> u64 {
        self.late.get()
    }

    /// Counts records that some sink left out.
    pub(crate) fn leave_out(&mut self, records: u64) {
        self.stored.left_out = self.stored.left_out.wrapping_add(records);
        self.has_changed = true;
    }

    /// Records taken out of rings.
    pub(crate) fn drained(&self) -> u64 {
        self.stored.drained.wrapping_add(self.taken.get())
    }

    /// Records that some sink left out, for want of room or for a quota.
    pub(crate) fn left_out(&self) -> u64 {
        self.stored.left_out
    }

    /// A gap record of a ring is told; returns the calls that it stands for.
    pub(crate) fn tell_gap(&mut self, payload: &[u8]) -> u64 {
        let (count, reason) = read_gap(payload);
        let told = &mut self.stored.told_of_rings[reason as usize];
        *told = told.wrapping_add(count);
        self.has_changed = true;
        count
    }

    /// Lines tell these drops.
    pub(crate) fn tell(&mut self, drops: &CallDrops) {
        let add = |told: &mut DropCounts, counts: &DropCounts| {
            for (told, count) in told.iter_mut().zip(counts) {
                *told = told.wrapping_add(*count);
            }
        };
        add(&mut self.stored.told_of_rings, &drops.of_rings);
        add(&mut self.stored.told_without_ring, &drops.without_ring);
        self.has_changed = true;
    }

    /// Drops of threads without a ring that no line tells.
    pub(crate) fn untold_without_ring(&self, header: &SessionHeader) -> DropCounts {
        difference(header.totals().dropped, self.stored.told_without_ring)
    }

    /// All drops that no line tells, where no thread writes any more and all rings are drained.
    pub(crate) fn untold(&self, session: &SessionReader) -> CallDrops {
        let mut of_rings: DropCounts = [0; DropReason::COUNT];
        for ring in session.rings_from(0) {
            for (sum, count) in of_rings.iter_mut().zip(ring.counts().dropped) {
                *sum = sum.wrapping_add(count);
            }
        }
        CallDrops {
            of_rings: difference(of_rings, self.stored.told_of_rings),
            without_ring: self.untold_without_ring(session.header()),
        }
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed || self.taken.get() > 0
    }

    /// Stores it for the next epoch.
    pub(crate) fn note(&mut self, header: &SessionHeader, next: u64, epoch: u64) {
        self.stored.drained = self.stored.drained.wrapping_add(self.taken.take());
        self.has_changed = true;
        header.note_account(self.stored, next, epoch);
    }

    /// The epoch that covers it is published.
    pub(crate) fn committed(&mut self) {
        self.has_changed = false;
    }
}

/// Counts that are not told. A session's numbers may be anything.
fn difference(counts: DropCounts, told: DropCounts) -> DropCounts {
    core::array::from_fn(|reason| counts[reason].saturating_sub(told[reason]))
}
