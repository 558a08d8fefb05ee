//! The drain's clock: turns ticks into times, and renews what producers read.

use super::collect::Collector;
use logdrive_ring::clock::ticks_of;
use logdrive_ring::{Calibration, Calibrator, SessionHeader, SessionReader};
use std::sync::atomic::Ordering;

/// Calibration of ticks, and the time of the newest record.
#[derive(Debug)]
pub(super) struct Clock {
    /// None for the session of a dead process, which keeps its last calibration.
    calibrator: Option<Calibrator>,
    pub(super) calibration: Calibration,
    /// Set if producers read the coarse clock, which every pass renews then.
    pub(super) is_coarse: bool,
    /// Ticks of the newest record that was ever taken.
    pub(super) newest_ticks: u64,
}

impl Clock {
    /// Starts the calibration of a living session, and takes that of a dead one.
    pub(super) fn start(session: &SessionReader, is_coarse: bool) -> Self {
        let header = session.header();
        let calibrator = session
            .is_live()
            .then(|| Calibrator::start(header.clock_source()));
        let calibration = match &calibrator {
            Some(calibrator) => {
                header.store_calibration(&calibrator.current());
                calibrator.current()
            }
            None => last_calibration(header),
        };
        Self {
            calibrator,
            calibration,
            is_coarse,
            newest_ticks: 0,
        }
    }

    /// Renews calibration and coarse clock where that is due.
    pub(super) fn renew(&mut self, collect: &Collector) {
        if self.is_coarse {
            renew_coarse_clocks(collect);
        }
        if let Some(calibrator) = self.calibrator.as_mut()
            && calibrator.renew(self.newest_ticks)
        {
            self.calibration = calibrator.current();
            for input in collect.inputs() {
                input.session.header().store_calibration(&self.calibration);
            }
        }
    }

    /// Half a millisecond in ticks: a thread that was stopped between reading its clock and its commit usually goes on
    /// within that time, and its record is still put in order.
    pub(super) fn order_window_ticks(&self) -> u64 {
        let rate = self.calibration.ns_per_tick_q32.max(1);
        ((500_000u128 << 32) / u128::from(rate)) as u64
    }
}

/// Stores the ticks of this moment in the sessions whose processes live.
pub(super) fn renew_coarse_clocks(collect: &Collector) {
    for input in collect.inputs().filter(|input| input.session.is_live()) {
        let header = input.session.header();
        // Relaxed: a time, valid by itself.
        header
            .coarse_clock()
            .store(ticks_of(header.clock_source()), Ordering::Relaxed);
    }
}

/// Returns the calibration that a dead process left; without one, times count from its start.
fn last_calibration(header: &SessionHeader) -> Calibration {
    header.calibration().unwrap_or(Calibration {
        base_ticks: 0,
        base_unix_ns: header.identity().start_unix_ns,
        ns_per_tick_q32: 0,
    })
}
