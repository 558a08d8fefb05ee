//! A run: records of one ring that come before those of all others, taken together.

use crate::drain::callsite_counter::CallsiteCounter;
use crate::layout::Plan;
use logdrive_ring::Calibration;
use logdrive_wire::Level;

/// A callsite with its line plans, one for each sink that gets its records.
#[derive(Debug)]
pub(crate) struct RoutedCallsite {
    pub(crate) level: Level,
    pub(crate) plans: Vec<Option<Plan>>,
    pub(crate) counts: CallsiteCounter,
    /// The sinks that get its records: bit 0 for the first.
    pub(crate) routed: u32,
    /// Those that get what was kept of them.
    pub(crate) dump_sinks: u32,
    /// No sink takes its records, and the flight recorder keeps them.
    pub(crate) keeps: bool,
    /// Where it stands, if a record of it has what is kept written.
    pub(crate) trigger: Option<Box<str>>,
}

impl RoutedCallsite {
    /// The plan for a sink that gets its records.
    #[inline(always)]
    pub(crate) fn plan(&self, number: usize) -> Option<&Plan> {
        let is_routed = self.routed >> number & 1 == 1;
        self.plans.get(number).filter(|_| is_routed)?.as_ref()
    }
}

/// What a run may take, and what it took.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// Callsites by their number.
    pub(crate) sites: &'a [Option<RoutedCallsite>],
    pub(crate) calibration: &'a Calibration,
    /// From this level on, other sinks take records, too.
    pub(crate) below: Option<Level>,
    /// SingleSink callsites with these routes, as bits.
    pub(crate) routed: Option<u32>,
    /// Ticks of the last record that may be taken.
    pub(crate) until: u64,
    pub(crate) times: Times,
    /// Records that count.
    pub(crate) counted: u64,
    /// Bytes of their lines in files.
    pub(crate) file_bytes: u64,
    /// The callsite of the last record has what is kept written.
    pub(crate) trigger: Option<usize>,
    /// So much was taken that the ring's producer is given room before more is.
    pub(crate) is_enough: bool,
}

impl<'a> Run<'a> {
    /// One of nothing so far.
    pub(crate) fn new(
        sites: &'a [Option<RoutedCallsite>],
        calibration: &'a Calibration,
        newest_ticks: u64,
    ) -> Self {
        Self {
            sites,
            calibration,
            below: None,
            routed: None,
            until: 0,
            times: Times {
                newest_ticks,
                late: 0,
            },
            counted: 0,
            file_bytes: 0,
            trigger: None,
            is_enough: false,
        }
    }
}

/// Keeps account of the order of times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Ticks of the newest record that was ever taken.
    pub(crate) newest_ticks: u64,
    /// Records with a time before that of an earlier line.
    pub(crate) late: u64,
}

impl Times {
    /// A record of this time was taken.
    #[inline(always)]
    pub(crate) fn took(&mut self, ticks: u64) {
        self.late += u64::from(ticks < self.newest_ticks);
        self.newest_ticks = self.newest_ticks.max(ticks);
    }
}
