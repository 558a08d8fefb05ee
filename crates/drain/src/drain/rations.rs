//! Rations at the drain: what is over is left out of all sinks, and counted there with the reason.

use super::{Drain, site_of};
use crate::feed::Feed;
use crate::outlet::{SinkDrop, Staged};
use crate::ration::Rationing;
use logdrive_ring::clock::{monotonic_ns, unix_ns};
use logdrive_wire::Level;

impl Drain {
    /// Other rations from now on.
    pub(super) fn set_rations(&mut self, rationing: Box<dyn Rationing>) {
        self.rations.replace(rationing, unix_ns());
        let mut lines = Vec::new();
        for feed in self.feeds.iter_mut().flatten() {
            if let Some(member) = &feed.member {
                let before = std::mem::take(&mut feed.rations);
                feed.rations = self.rations.enter(member, &before);
                lines.extend(self.rations.leave(&before, monotonic_ns()));
            }
        }
        for text in lines {
            self.tell(Level::Warn, &text);
        }
    }

    /// Begins the next second or day, and tells what was left out.
    pub(super) fn tick_rations(&mut self, all: bool) {
        for text in self.rations.tick(monotonic_ns(), unix_ns(), all) {
            self.tell(Level::Warn, &text);
        }
    }

    /// A process is over.
    pub(super) fn leave_rations(&mut self, number: usize) {
        let Some(Some(feed)) = self.feeds.get_mut(number) else {
            return;
        };
        let slots = std::mem::take(&mut feed.rations);
        for text in self.rations.leave(&slots, monotonic_ns()) {
            self.tell(Level::Warn, &text);
        }
    }

    /// Whether all that a ring may give in this pass is within the rations of its process, so that nothing has to be
    /// counted record by record.
    #[inline]
    pub(super) fn has_plenty(&self, index: usize) -> bool {
        let reader = &self.readers[index];
        match self.feeds.get(reader.feed) {
            Some(Some(feed)) if !feed.rations.is_empty() => {
                let (records, bytes) = self.rations.left(&feed.rations);
                records > reader.records_at_most() && bytes > self.buffers.buffer_bytes() as u64
            }
            _ => true,
        }
    }

    /// Leaves a record out that is over a ration, and counts it for all sinks that would have got it.
    #[inline]
    pub(super) fn leaves_out(&mut self, number: usize, id: usize) -> bool {
        match self.feeds.get(number) {
            Some(Some(feed)) if !feed.rations.is_empty() && id != 0 => self.leaves_out_rationed(number, id),
            _ => false,
        }
    }

    fn leaves_out_rationed(&mut self, number: usize, id: usize) -> bool {
        let Some(Some(feed)) = self.feeds.get(number) else {
            return false;
        };
        // What nothing is known of is told anyway, in a line of its own.
        let Some(site) = site_of(&self.feeds, number, id) else {
            return false;
        };
        let level = site.level;
        let sinks: Vec<bool> = (self.outlets.iter().enumerate())
            .map(|(sink, outlet)| site.plan(sink).is_some() && level >= outlet.min_level)
            .collect();
        if !sinks.contains(&true) {
            return false;
        }
        let Some(reason) = self.rations.refuse(&feed.rations, level.is_urgent()) else {
            return false;
        };
        for (sink, outlet) in self.outlets.iter_mut().enumerate() {
            let reason = match (sinks[sink], site.plan(sink)) {
                (true, _) => reason,
                (false, Some(_)) => SinkDrop::Level,
                (false, None) => SinkDrop::Elsewhere,
            };
            outlet.accept(Staged::Dropped(reason), level, true);
        }
        true
    }

    /// Counts what was just laid out against the rations of its process.
    pub(super) fn spend_staged(&mut self, number: usize) {
        let Some(Some(Feed { rations, .. })) = self.feeds.get(number) else {
            return;
        };
        if rations.is_empty() {
            return;
        }
        let mut records = 0;
        let mut bytes = 0;
        for (outlet, staged) in self.outlets.iter().zip(&self.staged) {
            if let Staged::Line(length) = staged {
                records = 1;
                bytes += if outlet.is_file { *length as u64 } else { 0 };
            }
        }
        self.rations.spend(rations, records, bytes);
    }

    /// Whether a record that was kept is over its process's bytes of the day: then it is not written. The records of a
    /// dump do not count against those of a second: they are those of a longer time.
    pub(super) fn is_kept_over_ration(&mut self, number: usize) -> bool {
        let Some(Some(Feed { rations, .. })) = self.feeds.get(number) else {
            return false;
        };
        !rations.is_empty() && self.rations.refuse_bytes(rations)
    }

    /// Counts the bytes of a kept record that was written.
    pub(super) fn spend_kept(&mut self, number: usize) {
        let Some(Some(Feed { rations, .. })) = self.feeds.get(number) else {
            return;
        };
        let files = self.outlets.iter().zip(&self.staged);
        let bytes = files.map(|(outlet, staged)| match staged {
            Staged::Line(length) if outlet.is_file => *length as u64,
            _ => 0,
        });
        self.rations.spend(rations, 0, bytes.sum());
    }
}
