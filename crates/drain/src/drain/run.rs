//! A run: records of one ring that come before those of all others and go to one destination, taken together.

use super::callsite::RoutedCallsite;
use super::ring_reader::{ReadError, RingReader};
use crate::flight_recorder::memory::RecorderMemory;
use logdrive_ring::Calibration;
use logdrive_wire::Level;

/// Reason why a run, or several of them, ended.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The next record is none for this destination.
    Other,
    /// The next run needs its destinations determined again.
    Again,
    /// So much was taken that it is given back to its producer now.
    Enough,
    /// The flight recorder's memory is full of what is on its way to the log.
    NoRoom,
    /// A record of this callsite starts a dump of the flight recorder.
    Trigger(usize),
    /// A ring broke a rule, behind a record of this callsite if that starts a dump.
    Broken(ReadError, Option<usize>),
}

/// Bounds of a run, and what it took.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// Callsites by their number.
    pub(crate) callsites: &'a [Option<RoutedCallsite>],
    pub(crate) calibration: &'a Calibration,
    /// Level from which on other sinks take records, too.
    pub(crate) below: Option<Level>,
    /// Route of the callsites that are meant, as bits; `None` for any.
    pub(crate) route: Option<u32>,
    /// Ticks of the last record that may be taken.
    pub(crate) until: u64,
    pub(crate) times: Times,
    /// Set if any record was taken, counted or not.
    pub(crate) has_taken: bool,
    /// Records that count.
    pub(crate) counted: u64,
    /// Bytes of their lines in files.
    pub(crate) file_bytes: u64,
    /// Reason why the run ended before its time or its records did.
    pub(crate) stop: Option<Stop>,
}

impl<'a> Run<'a> {
    /// Run that has taken nothing so far.
    pub(crate) fn new(
        callsites: &'a [Option<RoutedCallsite>],
        calibration: &'a Calibration,
        newest_ticks: u64,
    ) -> Self {
        Self {
            callsites,
            calibration,
            below: None,
            route: None,
            until: 0,
            times: Times {
                newest_ticks,
                late: 0,
            },
            has_taken: false,
            counted: 0,
            file_bytes: 0,
            stop: None,
        }
    }
}

/// Order of the times of records that were taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Ticks of the newest record that was ever taken.
    pub(crate) newest_ticks: u64,
    /// Records with a time before that of an earlier line.
    pub(crate) late: u64,
}

impl Times {
    /// Notes the time of a record that was taken.
    #[inline(always)]
    pub(crate) fn note(&mut self, ticks: u64) {
        self.late += u64::from(ticks < self.newest_ticks);
        self.newest_ticks = self.newest_ticks.max(ticks);
    }
}

/// Puts records of one ring into a flight recorder's memory, up to the run's time or the first that is not recorded.
pub(super) fn record_run(memory: &mut RecorderMemory, reader: &mut RingReader, run: &mut Run<'_>) {
    while reader.head.time_ticks <= run.until {
        let id = reader.head.callsite_id as usize;
        let Some(Some(callsite)) = run.callsites.get(id) else {
            return;
        };
        if !callsite.is_recorded {
            return;
        }
        // A run has one set of destinations: the caller begins another one for the next route.
        if *run.route.get_or_insert(callsite.route) != callsite.route {
            run.stop = Some(Stop::Again);
            return;
        }
        let (head, payload) = (&reader.head, reader.payload());
        if !memory.push(head, reader.thread_id, &reader.thread_name, payload) {
            run.stop = Some(Stop::NoRoom);
            return;
        }
        callsite.counter.add(0);
        run.counted += 1;
        run.has_taken = true;
        run.times.note(reader.head.time_ticks);
        if !reader.advance_in_window()
            && let Err(error) = reader.look()
        {
            let trigger = callsite.trigger.is_some().then_some(id);
            run.stop = Some(Stop::Broken(error, trigger));
            return;
        }
        if callsite.trigger.is_some() {
            run.stop = Some(Stop::Trigger(id));
            return;
        }
        if reader.has_enough() {
            run.stop = Some(Stop::Enough);
            return;
        }
    }
}
