//! Collect: the sessions that are drained, the readers of their rings, and what is given back to producers.

use super::callsite::RoutedCallsite;
use super::counts::DrainCounts;
use super::input_account::CallDrops;
use super::ring_reader::{NO_RECORD, ReadError, RingReader};
use super::session_input::SessionInput;
use crate::flight_recorder::FlightRecorder;
use crate::limits::PRESSURE_BYTES_MIN;
use logdrive_ring::Consumer;
use logdrive_ring::clock::ticks_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes in a ring from which on records are not held back to be put in order. A small ring that fills is replaced.
fn pressure_bytes(capacity_bytes: usize) -> usize {
    (capacity_bytes / 16).max(PRESSURE_BYTES_MIN.min(capacity_bytes / 4))
}

/// Sessions and rings.
#[derive(Debug)]
pub(super) struct Collector {
    /// Sessions by number; 0 is the one whose buffers are the drain's own. One that is over leaves its place to the
    /// next.
    pub(super) inputs: Vec<Option<SessionInput>>,
    pub(super) readers: Vec<RingReader>,
    spare_windows: Vec<Vec<u8>>,
    /// Damage that was found in this pass: the number of the session, and the line for the log.
    damages: Vec<(usize, String)>,
    /// Fill of the fullest ring at the last pass, in sixteenths of an eighth.
    pub(super) fullest: usize,
    counts: Arc<DrainCounts>,
}

impl Collector {
    /// Collector of one session; others may follow.
    pub(super) fn new(own: SessionInput, counts: Arc<DrainCounts>) -> Self {
        Self {
            inputs: vec![Some(own)],
            readers: Vec::new(),
            spare_windows: Vec::new(),
            damages: Vec::new(),
            fullest: 0,
            counts,
        }
    }

    /// Returns all sessions.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &SessionInput> {
        self.inputs.iter().flatten()
    }

    /// As [`Collector::inputs`], to change them.
    pub(super) fn inputs_mut(&mut self) -> impl Iterator<Item = &mut SessionInput> {
        self.inputs.iter_mut().flatten()
    }

    /// Returns a session by its number.
    pub(super) fn input(&self, number: usize) -> Option<&SessionInput> {
        self.inputs.get(number)?.as_ref()
    }

    /// As [`Collector::input`], to change it.
    pub(super) fn input_mut(&mut self, number: usize) -> Option<&mut SessionInput> {
        self.inputs.get_mut(number)?.as_mut()
    }

    /// Returns a callsite of a session.
    #[inline]
    pub(super) fn callsite(&self, number: usize, id: usize) -> Option<&RoutedCallsite> {
        self.inputs.get(number)?.as_ref()?.callsites.get(id)?.as_ref()
    }

    /// Returns the callsite of the record at a ring's front.
    #[inline]
    pub(super) fn front_callsite(&self, index: usize) -> Option<&RoutedCallsite> {
        let reader = &self.readers[index];
        self.callsite(reader.input, reader.head.callsite_id as usize)
    }

    /// Returns the flight recorder of a session.
    pub(super) fn recorder(&self, number: usize) -> Option<&FlightRecorder> {
        self.input(number)?.recorder.as_ref()
    }

    /// As [`Collector::recorder`], to change it.
    pub(super) fn recorder_mut(&mut self, number: usize) -> Option<&mut FlightRecorder> {
        self.input_mut(number)?.recorder.as_mut()
    }

    fn recorders_mut(&mut self) -> impl Iterator<Item = &mut FlightRecorder> {
        self.inputs_mut().filter_map(|input| input.recorder.as_mut())
    }

    /// Returns whether producers may still write.
    pub(super) fn is_live(&self) -> bool {
        self.inputs().all(|input| input.session.is_live())
    }

    /// Returns the time of this moment; beyond all others where no process writes any more.
    pub(super) fn now_ticks(&self) -> u64 {
        match self.input(0) {
            Some(own) if own.session.is_live() => ticks_of(own.session.header().clock_source()),
            _ => NO_RECORD - 1,
        }
    }

    /// Makes readers for rings that are new.
    pub(super) fn add_readers(&mut self) {
        for (number, input) in self.inputs.iter_mut().enumerate() {
            let Some(input) = input.as_mut().filter(|input| input.leaving.is_none()) else {
                continue;
            };
            let epoch = input.epoch;
            for ring in input.fresh_rings() {
                let consumer = Consumer::adopt(ring, epoch);
                self.readers.push(RingReader::new(consumer, number));
            }
        }
    }

    /// Adds a session, whose rings are read from where its epoch says.
    pub(super) fn add_input(&mut self, mut input: SessionInput) {
        let number = match self.inputs.iter().position(Option::is_none) {
            Some(number) => number,
            None => {
                self.inputs.push(None);
                self.inputs.len() - 1
            }
        };
        for ring in input.fresh_rings() {
            let consumer = Consumer::adopt(ring, input.epoch);
            consumer.settle();
            self.readers.push(RingReader::new(consumer, number));
        }
        // Rings that are still to come are new.
        input.epoch = 0;
        if let Some(place) = self.inputs.get_mut(number) {
            *place = Some(input);
        }
    }

    /// Looks once at every producer's position. Returns whether any ring is so full that records are not held back to
    /// be put in order.
    pub(super) fn observe(&mut self, start_ticks: u64) -> bool {
        // Some seconds ahead of now no honest time can be.
        let latest_ticks = start_ticks.saturating_add(1 << 32).min(NO_RECORD - 1);
        let mut has_pressure = false;
        self.fullest = 0;
        // From the last ring on: where a thread has got a larger ring, which has a higher number, what it wrote to the smaller
        // one before is seen, too.
        for index in (0..self.readers.len()).rev() {
            let reader = &mut self.readers[index];
            if reader.quarantined {
                continue;
            }
            // What a process leaves is taken now, whatever times it has.
            let latest_ticks = if reader.is_finishing() {
                start_ticks
            } else {
                latest_ticks
            };
            match reader.observe(&mut self.spare_windows, latest_ticks) {
                Ok(left) => {
                    let capacity_bytes = reader.ring().capacity_bytes();
                    has_pressure |= left > pressure_bytes(capacity_bytes);
                    self.fullest = self.fullest.max(left * 8 * 16 / capacity_bytes);
                }
                Err(error) => self.quarantine(index, &error),
            }
        }
        has_pressure
    }

    /// Stops reading a ring for good, with a line for the log.
    pub(super) fn quarantine(&mut self, index: usize, error: &ReadError) {
        let reader = &mut self.readers[index];
        reader.quarantine();
        let number = reader.input;
        // Relaxed: a statistic.
        self.counts.quarantined.fetch_add(1, Ordering::Relaxed);
        let owner = match self.input(number).and_then(|input| input.client.as_ref()) {
            Some(client) => format!(" of {client}"),
            None => String::new(),
        };
        // In the middle of a pass nothing can be written; the rings of a pass bound the list.
        let text = format!("a ring{owner} is damaged and not read any more: {error}");
        self.note_damage(number, text);
    }

    /// Notes damage of a session, of which there are few in a pass, for a line at its end.
    pub(super) fn note_damage(&mut self, number: usize, text: String) {
        self.damages.push((number, text));
    }

    /// Returns what was found of damage since the last call.
    pub(super) fn take_damages(&mut self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.damages)
    }

    /// Returns whether anything was taken that no epoch covers.
    pub(super) fn has_uncommitted(&self) -> bool {
        let mut recorders = self.inputs().filter_map(|input| input.recorder.as_ref());
        self.readers.iter().any(RingReader::has_taken)
            || self.inputs().any(|input| input.account.has_changed())
            || recorders.any(|recorder| recorder.memory.has_changed())
    }

    /// Notes for the next epoch how far rings and flight recorders are.
    pub(super) fn note(&mut self, next: u64, epoch: u64) {
        for reader in self.readers.iter().filter(|reader| reader.has_taken()) {
            reader.note(next, epoch);
        }
        for recorder in self.recorders_mut() {
            recorder.memory.note(next, epoch);
        }
        for input in self.inputs_mut().filter(|input| input.account.has_changed()) {
            input.account.note(input.session.header(), next, epoch);
        }
    }

    /// Gives back what the published epoch covers.
    pub(super) fn release(&mut self) {
        for recorder in self.recorders_mut() {
            recorder.memory.committed();
        }
        for input in self.inputs_mut() {
            input.account.committed();
        }
        for reader in self.readers.iter_mut().filter(|reader| reader.has_taken()) {
            reader.release();
        }
    }

    /// Gives empty windows to rings that have records.
    pub(super) fn park(&mut self) {
        for reader in &mut self.readers {
            reader.park(&mut self.spare_windows);
        }
    }

    /// Gives finished rings to the next threads.
    pub(super) fn recycle_rings(&self) {
        for reader in self.readers.iter().filter(|reader| !reader.quarantined) {
            if reader.consumer.is_finished()
                && !reader.has_taken()
                && let Some(input) = self.input(reader.input)
            {
                input.session.recycle(reader.ring());
            }
        }
    }

    /// Has callsites routed anew with their next record.
    pub(super) fn forget_callsites(&mut self) {
        self.inputs_mut().for_each(SessionInput::forget_callsites);
    }

    /// Looks whether tools have asked for dumps; whether any dump is to begin.
    pub(super) fn poll_recorders(&mut self) -> bool {
        self.recorders_mut().fold(false, |is_pending, recorder| {
            recorder.poll();
            is_pending | recorder.pending.is_some()
        })
    }

    /// Returns whether any dump goes on or is to begin.
    pub(super) fn is_dumping(&self) -> bool {
        let mut recorders = self.inputs().filter_map(|input| input.recorder.as_ref());
        recorders.any(FlightRecorder::is_busy)
    }

    /// Returns drops of a session that no log line reports, with records of unknown callsites beyond those that have
    /// lines; with `all` also those of threads that seem to be at work. Where the process writes nothing more and all is
    /// drained, `is_over` says so: then they are what is missing between the drops and those that lines tell.
    pub(super) fn take_unreported_drops(
        &mut self,
        number: usize,
        all: bool,
        is_over: bool,
    ) -> (CallDrops, u64) {
        let Some(input) = self.input_mut(number) else {
            return (CallDrops::default(), 0);
        };
        let unknown = input.take_unreported_unknown();
        if is_over {
            return (input.account.untold(&input.session), unknown);
        }
        let mut drops = CallDrops {
            without_ring: input.account.untold_without_ring(input.session.header()),
            ..CallDrops::default()
        };
        for reader in self.readers.iter().filter(|reader| reader.input == number) {
            let is_idle =
                reader.head.time_ticks == NO_RECORD && reader.consumer.pending_bytes().unwrap_or(0) == 0;
            if all || is_idle || reader.quarantined {
                let more = reader.ring().take_unreported();
                for (sum, more) in drops.of_rings.iter_mut().zip(more) {
                    *sum = sum.saturating_add(more);
                }
            }
        }
        (drops, unknown)
    }

    /// Takes nothing more from a session than it has committed by now.
    pub(super) fn finish(&mut self, number: usize) {
        let own = |reader: &&mut RingReader| reader.input == number;
        self.readers.iter_mut().filter(own).for_each(RingReader::finish);
    }

    /// Returns whether a session has records to take, or a dump goes on.
    pub(super) fn has_more(&self, number: usize) -> bool {
        let is_left = |reader: &RingReader| reader.input == number && reader.has_more();
        self.readers.iter().any(is_left) || self.recorder(number).is_some_and(FlightRecorder::is_busy)
    }

    /// Forgets a session.
    pub(super) fn remove(&mut self, number: usize) {
        self.readers.retain(|reader| reader.input != number);
        self.inputs[number] = None;
    }
}
