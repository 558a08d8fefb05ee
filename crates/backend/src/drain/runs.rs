//! Runs of records that go to one sink alone: laid out in one go, without a look at what else there is.

use super::{Drain, site_of};
use crate::outlet::SinkDrop;
use crate::reader::ReadError;
use crate::run::Run;
use logdrive_wire::Level;
use std::sync::atomic::Ordering;

/// A sink that takes records alone.
#[derive(Debug, Clone, Copy, Default)]
struct Only {
    number: usize,
    /// From this level on, others take them, too.
    below: Option<Level>,
    /// Records whose routes are others than these, as bits, are not meant.
    routed: Option<u32>,
}

impl Drain {
    /// The sink that takes the next records of a ring alone, if there is one.
    fn only_sink(&self, index: usize) -> Option<Only> {
        if let [_] = self.outlets.as_slice() {
            return Some(Only::default());
        }
        match self.router {
            Some(_) => self.only_route(index),
            None if self.recorder.is_some() => None,
            None => self.lowest_sink(),
        }
    }

    /// The sink that routes give the record at a ring's front, if it is one: then it mostly is that of the others, too.
    fn only_route(&self, index: usize) -> Option<Only> {
        let reader = &self.readers[index];
        let site = site_of(&self.feeds, reader.feed, reader.head.callsite_id as usize)?;
        site.routed.is_power_of_two().then(|| Only {
            number: site.routed.trailing_zeros() as usize,
            below: None,
            routed: Some(site.routed),
        })
    }

    /// The sink with the lowest level, with the level from which on others take records, too. `None` where two sinks have
    /// the lowest.
    fn lowest_sink(&self) -> Option<Only> {
        let levels = || self.outlets.iter().map(|outlet| outlet.min_level);
        let lowest = levels().min()?;
        let number = levels().position(|level| level == lowest)?;
        let others = levels().enumerate().filter(|(other, _)| *other != number);
        let below = others.map(|(_, level)| level).min()?;
        (below > lowest).then_some(Only {
            number,
            below: Some(below),
            routed: None,
        })
    }

    /// Takes what needs no more than one sink: the only one there is, the only one that takes records of low levels, or the
    /// only one that routes lead to.
    pub(super) fn run_of_only_sink(
        &mut self,
        index: usize,
        until: u64,
        counted: &mut u64,
    ) -> Result<(), ReadError> {
        if !self.has_plenty(index) {
            return Ok(());
        }
        let Some(only) = self.only_sink(index) else {
            return Ok(());
        };
        let number = only.number;
        let Some(outlet) = self.outlets.get_mut(number) else {
            return Ok(());
        };
        let Some(Some(feed)) = self.feeds.get(self.readers[index].feed) else {
            return Ok(());
        };
        let mut run = Run {
            sites: &feed.sites,
            calibration: &self.calibration,
            below: only.below,
            routed: only.routed,
            until,
            newest_ticks: self.newest_ticks,
            late: 0,
            counted: 0,
            file_bytes: 0,
            trigger: None,
            is_enough: false,
        };
        let result = outlet.take_run(&mut self.readers[index], &mut run);
        self.newest_ticks = run.newest_ticks;
        *counted += run.counted;
        let (taken, file_bytes, trigger, late) = (run.counted, run.file_bytes, run.trigger, run.late);
        let is_enough = run.is_enough;
        self.rations.spend(&feed.rations, taken, file_bytes);
        let reason = match only.routed {
            Some(_) => SinkDrop::Elsewhere,
            None => SinkDrop::Level,
        };
        for (other, outlet) in self.outlets.iter_mut().enumerate() {
            if other != number {
                outlet.leave_out(taken, reason);
            }
        }
        // Relaxed: a statistic.
        self.counts.late.fetch_add(late, Ordering::Relaxed);
        if let Some(id) = trigger {
            self.note_trigger(self.readers[index].feed, id);
        }
        if is_enough {
            self.commit();
        }
        result
    }

    /// Reads the callsite of the record at a ring's front, where it has not been read; whether there it is.
    pub(super) fn load_missing(&mut self, index: usize) -> bool {
        let reader = &self.readers[index];
        let id = reader.head.callsite_id as usize;
        let Some(Some(feed)) = self.feeds.get_mut(reader.feed) else {
            return false;
        };
        if feed.sites.get(id).is_some_and(Option::is_some) {
            return false;
        }
        feed.load_sites(&self.outlets, self.router.as_ref(), self.recorder.as_deref());
        feed.sites.get(id).is_some_and(Option::is_some)
    }
}
