//! The pipeline: collect, merge, route, emit. A pass takes the records of all rings in the order of their times through
//! it, and ends with a commit: ring positions and buffer fills become valid together, then ring space is released.

use super::clock::{Clock, renew_coarse_clocks};
use super::collect::Collector;
use super::counts::DrainCounts;
use super::emit::Emitter;
use super::input_account::InputAccount;
use super::route::{Router, Routes};
use super::session_input::SessionInput;
use crate::flight_recorder::FlightRecorder;
use crate::sink::buffer::SinkBuffer;
use crate::status::BackendStatus;
use logdrive_ring::{Buffers, SessionReader};
use logdrive_wire::Level;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Things that a drain is made of.
pub(crate) struct DrainParts {
    pub(crate) session: Arc<SessionReader>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) sinks: Vec<SinkBuffer>,
    /// Without one, all sinks get all records.
    pub(crate) router: Option<Router>,
    /// Flight recorder of the process itself.
    pub(crate) recorder: Option<FlightRecorder>,
    pub(crate) status: Arc<BackendStatus>,
    pub(crate) counts: Arc<DrainCounts>,
    pub(crate) stop: Arc<AtomicBool>,
    /// Set if producers read the coarse clock.
    pub(crate) coarse: bool,
}

/// Parts of the drain, with what all of them use. A part knows those before it, and none that come behind.
pub(super) struct Pipeline {
    pub(super) collect: Collector,
    pub(super) route: Routes,
    pub(super) emit: Emitter,
    pub(super) clock: Clock,
    pub(super) buffers: Arc<Buffers>,
    pub(super) status: Arc<BackendStatus>,
    pub(super) counts: Arc<DrainCounts>,
}

impl Pipeline {
    pub(super) fn new(parts: DrainParts) -> Self {
        let clock = Clock::start(&parts.session, parts.coarse);
        let epoch = parts.buffers.epoch();
        let account = parts.session.header().settle_account(epoch);
        let mut own = SessionInput::new(parts.session, epoch, None);
        own.account = InputAccount::resume(account);
        own.recorder = parts.recorder;
        let collect = Collector::new(own, Arc::clone(&parts.counts));
        renew_coarse_clocks(&collect);
        let emit = Emitter::new(
            parts.sinks,
            Arc::clone(&parts.buffers),
            parts.stop,
            Arc::clone(&parts.status),
        );
        Self {
            collect,
            route: Routes {
                router: parts.router,
                ..Routes::default()
            },
            emit,
            clock,
            buffers: parts.buffers,
            status: parts.status,
            counts: parts.counts,
        }
    }

    /// Makes everything that was taken and laid out so far count.
    pub(super) fn commit(&mut self) {
        self.emit.commit(&mut self.collect);
    }

    /// Makes room for a record of a sink; `false` where records of this level are dropped instead.
    pub(super) fn make_room(&mut self, sink: usize, level: Level) -> bool {
        self.emit.make_room(&mut self.collect, sink, level.is_urgent())
    }

    /// Reads callsites of a session that were registered since the last look.
    pub(super) fn load_callsites(&mut self, number: usize) {
        if let Some(input) = self.collect.input_mut(number) {
            self.route.load_callsites(input, &self.emit.sinks);
        }
    }

    /// Writes a line of the logger about itself to every sink.
    pub(super) fn report(&mut self, level: Level, text: &str) {
        self.emit.notice(&mut self.collect, u32::MAX, level, text);
    }

    /// Writes the line of the process's end, which counts with a commit of its own.
    pub(super) fn report_end(&mut self, level: Level, text: &str) {
        self.emit.end(&mut self.collect, level, text);
    }

    /// Writes a line about damage, with which so many of them are written, with a commit of its own.
    pub(super) fn report_damage(&mut self, told: u64, text: &str) {
        self.emit.damage(&mut self.collect, told, text);
    }

    /// Writes a line about a session to the sinks that its process's warnings go to: others have nothing to do with it.
    /// Returns those that have no room for it, as bits.
    pub(super) fn report_for(&mut self, number: usize, level: Level, text: &str) -> u32 {
        let input = self.collect.input(number);
        let client = input.and_then(|input| input.client.as_ref());
        let sinks = self.route.notice_sinks(client);
        self.emit.notice(&mut self.collect, sinks, level, text)
    }

    /// Writes a line to these sinks, as bits.
    pub(super) fn report_to(&mut self, sinks: u32, level: Level, text: &str) {
        self.emit.notice(&mut self.collect, sinks, level, text);
    }

    /// Commits, and passes a flush ticket behind every fill.
    pub(super) fn pass_ticket(&mut self, ticket: u64) {
        self.emit.pass_ticket(&mut self.collect, ticket);
    }

    /// Commits, and gives every fill to its I/O thread.
    pub(super) fn hand_over_all(&mut self) {
        self.emit.hand_over_all(&mut self.collect);
    }
}
