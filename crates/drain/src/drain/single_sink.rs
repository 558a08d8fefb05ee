//! Which sink takes a run of records alone, so that they are laid out in one go, without a look at what else there is.

use super::{Drain, site_of};
use logdrive_wire::Level;

/// A sink that takes records alone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SingleSink {
    pub(super) number: usize,
    /// From this level on, others take them, too.
    pub(super) below: Option<Level>,
    /// Records whose routes are others than these, as bits, are not meant.
    pub(super) routed: Option<u32>,
}

impl Drain {
    /// The sink that takes the next records of a ring alone, if there is one.
    pub(super) fn only_sink(&self, index: usize) -> Option<SingleSink> {
        if let [_] = self.outlets.as_slice() {
            return Some(SingleSink::default());
        }
        match self.router {
            Some(_) => self.only_route(index),
            None if self.recorder_policy.is_some() => None,
            None => self.lowest_sink(),
        }
    }

    /// The sink that routes give the record at a ring's front, if it is one: then it mostly is that of the others, too.
    fn only_route(&self, index: usize) -> Option<SingleSink> {
        let reader = &self.readers[index];
        let site = site_of(&self.inputs, reader.input, reader.head.callsite_id as usize)?;
        site.routed.is_power_of_two().then(|| SingleSink {
            number: site.routed.trailing_zeros() as usize,
            below: None,
            routed: Some(site.routed),
        })
    }

    /// The sink with the lowest level, with the level from which on others take records, too. `None` where two sinks have
    /// the lowest.
    fn lowest_sink(&self) -> Option<SingleSink> {
        let levels = || self.outlets.iter().map(|outlet| outlet.min_level);
        let lowest = levels().min()?;
        let number = levels().position(|level| level == lowest)?;
        let others = levels().enumerate().filter(|(other, _)| *other != number);
        let below = others.map(|(_, level)| level).min()?;
        (below > lowest).then_some(SingleSink {
            number,
            below: Some(below),
            routed: None,
        })
    }
}
