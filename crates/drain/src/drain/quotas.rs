//! Quotas at the drain: what is over is left out of all sinks, and counted there with the reason.

use super::{Drain, site_of};
use crate::drain::session_input::SessionInput;
use crate::quota::QuotaPolicy;
use crate::sink::buffer::Staged;
use crate::sink::drop_reason::SinkDrop;
use logdrive_ring::clock::{monotonic_ns, unix_ns};
use logdrive_wire::Level;

impl Drain {
    /// Other quotas from now on.
    pub(super) fn set_quota_policy(&mut self, policy: Box<dyn QuotaPolicy>) {
        self.quotas.replace(policy, unix_ns());
        let mut lines = Vec::new();
        for input in self.inputs.iter_mut().flatten() {
            if let Some(client) = &input.client {
                let before = std::mem::take(&mut input.quotas);
                input.quotas = self.quotas.enter(client, &before);
                lines.extend(self.quotas.leave(&before, monotonic_ns()));
            }
        }
        for text in lines {
            self.tell(Level::Warn, &text);
        }
    }

    /// Begins the next second or day, and tells what was left out.
    pub(super) fn tick_quotas(&mut self, all: bool) {
        for text in self.quotas.tick(monotonic_ns(), unix_ns(), all) {
            self.tell(Level::Warn, &text);
        }
    }

    /// A process is over.
    pub(super) fn leave_quotas(&mut self, number: usize) {
        let Some(Some(input)) = self.inputs.get_mut(number) else {
            return;
        };
        let slots = std::mem::take(&mut input.quotas);
        for text in self.quotas.leave(&slots, monotonic_ns()) {
            self.tell(Level::Warn, &text);
        }
    }

    /// Whether all that a ring may give in this pass is within the quotas of its process, so that nothing has to be
    /// counted record by record.
    #[inline]
    pub(super) fn is_far_from_quota(&self, index: usize) -> bool {
        let reader = &self.readers[index];
        match self.inputs.get(reader.input) {
            Some(Some(input)) if !input.quotas.is_empty() => {
                let (records, bytes) = self.quotas.left(&input.quotas);
                records > reader.records_at_most() && bytes > self.buffers.buffer_bytes() as u64
            }
            _ => true,
        }
    }

    /// Leaves a record out that is over a quota, and counts it for all sinks that would have got it.
    #[inline]
    pub(super) fn exceeds_quota(&mut self, number: usize, id: usize) -> bool {
        match self.inputs.get(number) {
            Some(Some(input)) if !input.quotas.is_empty() && id != 0 => self.exceeds_own_quota(number, id),
            _ => false,
        }
    }

    fn exceeds_own_quota(&mut self, number: usize, id: usize) -> bool {
        let Some(Some(input)) = self.inputs.get(number) else {
            return false;
        };
        // What nothing is known of is reported anyway, in a line of its own.
        let Some(site) = site_of(&self.inputs, number, id) else {
            return false;
        };
        let level = site.level;
        let sinks: Vec<bool> = (self.outlets.iter().enumerate())
            .map(|(sink, outlet)| site.plan(sink).is_some() && level >= outlet.min_level)
            .collect();
        if !sinks.contains(&true) {
            return false;
        }
        let Some(reason) = self.quotas.refuse(&input.quotas, level.is_urgent()) else {
            return false;
        };
        for (sink, outlet) in self.outlets.iter_mut().enumerate() {
            let reason = match (sinks[sink], site.plan(sink)) {
                (true, _) => reason,
                (false, Some(_)) => SinkDrop::Level,
                (false, None) => SinkDrop::NotRouted,
            };
            outlet.accept(Staged::Dropped(reason), level, true);
        }
        true
    }

    /// Counts what was just laid out against the quotas of its process.
    pub(super) fn spend_staged(&mut self, number: usize) {
        let Some(Some(SessionInput { quotas, .. })) = self.inputs.get(number) else {
            return;
        };
        if quotas.is_empty() {
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
        self.quotas.spend(quotas, records, bytes);
    }

    /// Whether a record that was kept is over its process's bytes of the day: then it is not written. The records of a
    /// dump do not count against those of a second: they are those of a longer time.
    pub(super) fn is_dump_over_quota(&mut self, number: usize) -> bool {
        let Some(Some(SessionInput { quotas, .. })) = self.inputs.get(number) else {
            return false;
        };
        !quotas.is_empty() && self.quotas.refuse_bytes(quotas)
    }

    /// Counts the bytes of a kept record that was written.
    pub(super) fn spend_dumped(&mut self, number: usize) {
        let Some(Some(SessionInput { quotas, .. })) = self.inputs.get(number) else {
            return;
        };
        let files = self.outlets.iter().zip(&self.staged);
        let bytes = files.map(|(outlet, staged)| match staged {
            Staged::Line(length) if outlet.is_file => *length as u64,
            _ => 0,
        });
        self.quotas.spend(quotas, 0, bytes.sum());
    }
}
