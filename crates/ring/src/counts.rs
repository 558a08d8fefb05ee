//! Counts of each callsite: records and bytes by the drain, drops and sampled-out calls by the threads. In
//! a file of its own, so that no count shares a cache line with a control word, which every call loads.
#![allow(unsafe_code)]

use crate::control::{ControlEntry, ENTRY_BYTES};
use crate::sys;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of an entry; as many as of a control entry, so that both files grow in step.
pub(crate) const COUNTS_BYTES: usize = 32;

/// The counts of one callsite. All of them only grow.
#[repr(C)]
#[derive(Debug)]
pub struct CallsiteCounts {
    records: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    sampled_out: AtomicU64,
}

const _: () = assert!(core::mem::size_of::<CallsiteCounts>() == COUNTS_BYTES);
const _: () = assert!(COUNTS_BYTES == ENTRY_BYTES);

/// The counts of one callsite at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallsiteTotals {
    /// Records that the drain has laid out.
    pub records: u64,
    /// Bytes of their lines, in all sinks together.
    pub bytes: u64,
    /// Calls whose record was dropped at the call.
    pub dropped: u64,
    /// Calls that sampling left out. A thread reports them when one passes, at the latest after 256, and once a
    /// second to the drain.
    pub sampled_out: u64,
}

impl CallsiteCounts {
    /// Stores how much has been laid out so far. For the drain.
    pub fn store_drained(&self, records: u64, bytes: u64) {
        // Relaxed: statistics, here and below.
        self.records.store(records, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Counts calls whose record was dropped. Modulo 2^64, so that a correction may be negative.
    pub(crate) fn add_dropped(&self, calls: u64) {
        self.dropped.fetch_add(calls, Ordering::Relaxed);
    }

    /// Counts calls that sampling left out, as [`CallsiteCounts::add_dropped`].
    pub(crate) fn add_sampled_out(&self, calls: u64) {
        self.sampled_out.fetch_add(calls, Ordering::Relaxed);
    }

    /// The counts now.
    pub fn totals(&self) -> CallsiteTotals {
        CallsiteTotals {
            records: self.records.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            sampled_out: self.sampled_out.load(Ordering::Relaxed),
        }
    }
}

/// The counts of this process's callsites. Lives as long as the program, as its control entries do, because threads
/// keep addresses of counts.
#[derive(Debug)]
pub struct CallsiteCounters {
    control: &'static sys::Mapping,
    counts: &'static sys::Mapping,
    /// Callsites whose counts may be touched.
    registered: AtomicU32,
}

impl CallsiteCounters {
    /// Both mappings are large enough for all callsites.
    pub(crate) fn new(control: &'static sys::Mapping, counts: &'static sys::Mapping) -> Self {
        Self {
            control,
            counts,
            registered: AtomicU32::new(0),
        }
    }

    /// The counts below this number of callsites are reserved.
    pub(crate) fn publish(&self, registered: u32) {
        // SYNC(counters): a thread that sees the number may access the counts below it.
        self.registered.store(registered, Ordering::Release);
    }

    /// The counts of a callsite.
    pub(crate) fn of(&self, id: u32) -> Option<&CallsiteCounts> {
        // SYNC(counters)
        let known = id < self.registered.load(Ordering::Acquire);
        // SAFETY: below the number of callsites counts are mapped, reserved and aligned; zeroes are valid, all fields
        // are atomics, and the mapping is never unmapped.
        known.then(|| unsafe {
            &*self
                .counts
                .base()
                .add(id as usize * COUNTS_BYTES)
                .cast::<CallsiteCounts>()
        })
    }

    /// The counts that belong to a control entry; `None` for one of another session. The entry's own number, which
    /// others may have written to, is not relied on.
    pub fn of_entry(&'static self, entry: &'static ControlEntry) -> Option<&'static CallsiteCounts> {
        let offset = core::ptr::from_ref(entry)
            .addr()
            .checked_sub(self.control.base().addr())?;
        self.of(u32::try_from(offset / ENTRY_BYTES).ok()?)
    }

    /// Calls that sampling left out, over all callsites.
    pub fn sampled_out(&self) -> u64 {
        (0..)
            .map_while(|id| self.of(id))
            .fold(0, |sum, counts| sum.wrapping_add(counts.totals().sampled_out))
    }
}
