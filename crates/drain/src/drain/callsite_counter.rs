//! What the drain counts for each callsite: two plain additions a record, reported to everybody some times a second.

use logdrive_ring::CallsiteCounts;
use std::cell::Cell;

/// Records and bytes of one callsite.
#[derive(Debug)]
pub(crate) struct CallsiteCounter {
    records: Cell<u64>,
    bytes: Cell<u64>,
    /// The records that were reported last.
    reported: Cell<u64>,
}

impl CallsiteCounter {
    /// Goes on where the counts are: another drain, or this one with other plans, has counted before.
    pub(crate) fn resume(counts: Option<&CallsiteCounts>) -> Self {
        let totals = counts.map(CallsiteCounts::totals).unwrap_or_default();
        Self {
            records: Cell::new(totals.records),
            bytes: Cell::new(totals.bytes),
            reported: Cell::new(totals.records),
        }
    }

    /// Counts a record with the bytes of its lines, in all sinks together.
    #[inline(always)]
    pub(crate) fn add(&self, bytes: usize) {
        self.add_many(1, bytes);
    }

    /// Counts some records with the bytes of all their lines.
    #[inline(always)]
    pub(crate) fn add_many(&self, records: u64, bytes: usize) {
        // What a count begins with may be anything.
        self.records.set(self.records.get().wrapping_add(records));
        self.bytes.set(self.bytes.get().wrapping_add(bytes as u64));
    }

    /// Tells the counts, if they have changed: what nobody writes to stays in everybody's cache.
    pub(crate) fn tell(&self, counts: Option<&CallsiteCounts>) {
        let records = self.records.get();
        if let Some(counts) = counts.filter(|_| records != self.reported.get()) {
            counts.store_drained(records, self.bytes.get());
            self.reported.set(records);
        }
    }
}
