//! A callsite as the drain knows it: where its records go, how they are laid out, and how many there were.

use crate::layout::Plan;
use logdrive_ring::CallsiteCounts;
use logdrive_wire::{Callsite, Level};
use std::cell::Cell;

/// A callsite with its route, and with a plan for each sink that gets its records.
#[derive(Debug)]
pub(crate) struct RoutedCallsite {
    pub(crate) level: Level,
    /// Plans by the number of the sink.
    pub(crate) plans: Vec<Option<Plan>>,
    pub(crate) counter: CallsiteCounter,
    /// Sinks that get its records: bit 0 for the first.
    pub(crate) route: u32,
    /// Sinks that get what the flight recorder held of them.
    pub(crate) dump_sinks: u32,
    /// No sink takes its records, and the flight recorder holds them.
    pub(crate) is_recorded: bool,
    /// Level and place in the source, where a record starts a dump of the flight recorder.
    pub(crate) trigger: Option<Box<str>>,
}

impl RoutedCallsite {
    /// Returns the plan for a sink that gets its records.
    #[inline(always)]
    pub(crate) fn plan(&self, sink: usize) -> Option<&Plan> {
        let is_routed = self.route >> sink & 1 == 1;
        self.plans.get(sink).filter(|_| is_routed)?.as_ref()
    }
}

/// Returns level and place of a callsite: `ERROR at src/net.rs:42`.
pub(crate) fn trigger_text(callsite: &Callsite) -> Box<str> {
    let level = callsite.level.to_string().to_uppercase();
    match callsite.file.as_str() {
        "" => format!("{level} of {}", callsite.target_or_module()),
        file => format!("{level} at {file}:{}", callsite.line),
    }
    .into()
}

/// Records and bytes of lines of one callsite: two plain additions a record, stored in the session some times a second.
#[derive(Debug)]
pub(crate) struct CallsiteCounter {
    records: Cell<u64>,
    bytes: Cell<u64>,
    /// Records at the last report.
    reported: Cell<u64>,
}

impl CallsiteCounter {
    /// Continues from the session's counts: another drain, or this one with other plans, has counted before.
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
        // The count that it continues from may be anything.
        self.records.set(self.records.get().wrapping_add(records));
        self.bytes.set(self.bytes.get().wrapping_add(bytes as u64));
    }

    /// Stores the counts if they have changed: a cache line without stores stays in the caches of all processors.
    pub(crate) fn report(&self, counts: Option<&CallsiteCounts>) {
        let records = self.records.get();
        if let Some(counts) = counts.filter(|_| records != self.reported.get()) {
            counts.store_drained(records, self.bytes.get());
            self.reported.set(records);
        }
    }
}
