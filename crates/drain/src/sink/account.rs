//! Account of the records that a sink drops, as the drain keeps it: it is stored in the session with the epoch that
//! covers those records, so that each counts once after a kill, and continues in the next drain.

use crate::sink::drop_reason::SinkDrop;
use logdrive_ring::SinkDrops;

/// Drops of one sink, and those of them that no line of the sink tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DropAccount {
    drops: SinkDrops,
    /// Set if it changed since it was stored.
    has_changed: bool,
}

/// Drops that a line of the sink is to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreported {
    /// Records that had no room here.
    pub(crate) records: u64,
    /// Calls dropped earlier, at the call, whose line had no room here.
    pub(crate) calls: u64,
    /// Times of the first and the last of them.
    pub(crate) unix_ns: [u64; 2],
    /// The system's code of the sink's last failure then; 0 where it was slow.
    pub(crate) cause: u64,
}

impl DropAccount {
    /// Goes on from what the session has.
    pub(crate) fn resume(drops: SinkDrops) -> Self {
        Self {
            drops,
            has_changed: false,
        }
    }

    /// Numbers to store.
    pub(crate) fn drops(&self) -> &SinkDrops {
        &self.drops
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// The epoch that covers it is published.
    pub(crate) fn committed(&mut self) {
        self.has_changed = false;
    }

    /// Counts records that are not for the sink, or that other lines tell.
    #[inline]
    pub(crate) fn count(&mut self, records: u64, reason: SinkDrop) {
        if let Some(count) = self.drops.by_reason.get_mut(reason as usize) {
            *count = count.wrapping_add(records);
        }
        self.has_changed = true;
    }

    /// Counts a record of this time for which there is no room. `cause` is the code of the sink's last failure.
    pub(crate) fn count_overflow(&mut self, unix_ns: u64, cause: u64) {
        self.count(1, SinkDrop::Overflow);
        self.drops.unreported = self.drops.unreported.saturating_add(1);
        self.note_time(unix_ns, cause);
    }

    /// Notes that a line of this time, which tells of calls that were dropped, had no room.
    pub(crate) fn count_calls(&mut self, calls: u64, unix_ns: u64, cause: u64) {
        self.drops.unreported_calls = self.drops.unreported_calls.saturating_add(calls);
        self.note_time(unix_ns, cause);
        self.has_changed = true;
    }

    fn note_time(&mut self, unix_ns: u64, cause: u64) {
        self.drops.unreported_cause = cause;
        let [since, until] = &mut self.drops.unreported_unix_ns;
        if *since == 0 {
            *since = unix_ns;
        }
        *until = (*until).max(unix_ns);
    }

    /// Drops that no line tells yet.
    #[inline]
    pub(crate) fn unreported(&self) -> Option<Unreported> {
        let SinkDrops {
            unreported: records,
            unreported_calls: calls,
            unreported_unix_ns: unix_ns,
            unreported_cause: cause,
            ..
        } = self.drops;
        (records | calls != 0).then_some(Unreported {
            records,
            calls,
            unix_ns,
            cause,
        })
    }

    /// A line tells them, or nothing will.
    pub(crate) fn clear_unreported(&mut self) {
        self.drops.unreported = 0;
        self.drops.unreported_calls = 0;
        self.drops.unreported_unix_ns = [0; 2];
        self.drops.unreported_cause = 0;
        self.has_changed = true;
    }
}
