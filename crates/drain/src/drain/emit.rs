//! Emit: lays records out in the buffers of the sinks, commits epochs, and hands full buffers to the I/O threads.

use super::callsite::RoutedCallsite;
use super::collect::Collector;
use crate::internal_notices::InternalNotices;
use crate::layout::Record;
use crate::limits::NO_PROGRESS;
use crate::sink::buffer::{SinkBuffer, SinkSettings, Staged};
use crate::sink::drop_reason::SinkDrop;
use crate::sink::writer::IoRequest;
use crate::status::BackendStatus;
use logdrive_ring::Buffers;
use logdrive_wire::Level;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Sinks that a record is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selection {
    /// Sinks that get it, as bits.
    pub(super) sinks: u32,
    /// Those of them that have no room for it, as bits: they count it as dropped.
    pub(super) without: u32,
    /// Level that the sinks compare; `None` for a record of a dump, which they take whatever its level.
    pub(super) level: Option<Level>,
}

/// Sinks, and the epoch that their fills count for.
pub(super) struct Emitter {
    pub(super) sinks: Vec<SinkBuffer>,
    buffers: Arc<Buffers>,
    /// Lines of one record that wait to count for all sinks or for none.
    staged: Vec<Staged>,
    notices: InternalNotices,
    epoch: u64,
    /// Highest sequence number of a buffer so far.
    sequence: u64,
    /// Whether the recovery of a dead session has been given up.
    pub(super) has_failed: bool,
    stop: Arc<AtomicBool>,
    status: Arc<BackendStatus>,
}

impl Emitter {
    /// Emitter for these sinks, whose buffers go on behind the last epoch and sequence number.
    pub(super) fn new(
        sinks: Vec<SinkBuffer>,
        buffers: Arc<Buffers>,
        stop: Arc<AtomicBool>,
        status: Arc<BackendStatus>,
    ) -> Self {
        Self {
            staged: Vec::with_capacity(sinks.len()),
            notices: InternalNotices::new(&sinks),
            epoch: buffers.epoch(),
            sequence: buffers.last_sequence(),
            sinks,
            buffers,
            has_failed: false,
            stop,
            status,
        }
    }

    /// Lays a record out for every sink of a selection. Nothing counts before [`Emitter::accept`]. Returns the number of
    /// a sink that is full: after [`Emitter::make_room`] all is to be staged again, so that a commit never falls between
    /// two sinks of the same record.
    #[inline]
    pub(super) fn stage(
        &mut self,
        callsite: &RoutedCallsite,
        record: &Record<'_>,
        selection: Selection,
    ) -> Option<usize> {
        self.staged.clear();
        for (number, sink) in self.sinks.iter_mut().enumerate() {
            let is_selected = selection.sinks >> number & 1 == 1;
            let plan = callsite.plans.get(number).filter(|_| is_selected);
            let staged = match plan {
                Some(Some(_)) if selection.without >> number & 1 == 1 => Staged::Dropped(SinkDrop::Overflow),
                Some(Some(plan)) => sink.stage(plan, record, selection.level),
                _ => Staged::Dropped(SinkDrop::NotRouted),
            };
            if staged == Staged::Full {
                return Some(number);
            }
            self.staged.push(staged);
        }
        None
    }

    /// Takes what was staged into the fills, or counts it as dropped. Returns whether any sink got a line, the bytes of
    /// all lines, and of those in files.
    #[inline]
    pub(super) fn accept(&mut self, level: Level, is_counted: bool) -> (bool, usize, u64) {
        let (mut is_written, mut bytes, mut file_bytes) = (false, 0, 0);
        for (sink, staged) in self.sinks.iter_mut().zip(&self.staged) {
            sink.accept(*staged, level, is_counted);
            if let Staged::Line(length) = staged {
                is_written = true;
                bytes += length;
                file_bytes += if sink.is_file { *length as u64 } else { 0 };
            }
        }
        (is_written, bytes, file_bytes)
    }

    /// Counts a record as dropped by each sink, for the reason that is given for it.
    pub(super) fn drop_record(&mut self, level: Level, reason: impl Fn(usize, &SinkBuffer) -> SinkDrop) {
        for (number, sink) in self.sinks.iter_mut().enumerate() {
            let reason = reason(number, sink);
            sink.accept(Staged::Dropped(reason), level, true);
        }
    }

    /// Counts records that went to one destination alone as left out by all other sinks.
    pub(super) fn count_excluded(&mut self, records: u64, destination: Option<usize>, route: Option<u32>) {
        for (number, sink) in self.sinks.iter_mut().enumerate() {
            let is_routed = route.is_none_or(|route| route >> number & 1 == 1);
            let reason = if is_routed {
                SinkDrop::Level
            } else {
                SinkDrop::NotRouted
            };
            if destination != Some(number) {
                sink.count_excluded(records, reason);
            }
        }
    }

    /// Makes everything that was taken and laid out so far count, then releases the ring space.
    pub(super) fn commit(&mut self, collect: &mut Collector) {
        if self.has_failed {
            return;
        }
        if !self.sinks.iter().any(SinkBuffer::has_changed) && !collect.has_uncommitted() {
            return;
        }
        let next = self.epoch.wrapping_add(1);
        collect.note(next, self.epoch);
        for sink in &mut self.sinks {
            sink.note(next);
        }
        self.buffers.publish(next);
        self.epoch = next;
        let now = Instant::now();
        for sink in &mut self.sinks {
            sink.committed(now);
        }
        collect.release();
    }

    /// Gets a fresh buffer for a sink. What was taken so far is committed first, because a buffer may only be written
    /// once its fill is. `false`: there is none, and the sink's policy is to drop records of this level.
    #[cold]
    pub(super) fn make_room(&mut self, collect: &mut Collector, number: usize, level: Level) -> bool {
        if self.has_failed {
            // Nothing is committed any more, so that no fill may be written.
            return false;
        }
        self.commit(collect);
        let stop = Arc::clone(&self.stop);
        let status = Arc::clone(&self.status);
        let is_dead = !collect.is_live();
        let sink = &mut self.sinks[number];
        sink.hand_over();
        let deadline = Instant::now() + NO_PROGRESS;
        let is_given_up = move || match is_dead {
            // No process waits for the records of a dead one: they stay in the session when the disk does not answer.
            true => Instant::now() > deadline,
            // Relaxed: read repeatedly.
            false => stop.load(Ordering::Relaxed) && status.is_abandoned(),
        };
        let is_taken = sink.take_buffer(level.is_urgent(), &mut self.sequence, &is_given_up);
        self.has_failed |= is_dead && !is_taken;
        let dropped = sink.take_unreported();
        if dropped > 0 {
            self.notices.gap(sink, number, dropped, "the sink was too slow");
        }
        is_taken
    }

    /// Writes a line of the logger about itself to these sinks, as bits.
    pub(super) fn notice(&mut self, collect: &mut Collector, sinks: u32, level: Level, text: &str) {
        for number in self.open_sinks(sinks) {
            if !self.notices.notice(&mut self.sinks[number], number, level, text)
                && self.make_room(collect, number, level)
            {
                self.notices.notice(&mut self.sinks[number], number, level, text);
            }
        }
    }

    /// Writes a line that frames a dump to these sinks, whatever their level.
    pub(super) fn frame_dump(&mut self, collect: &mut Collector, sinks: u32, text: &str) {
        for number in self.open_sinks(sinks) {
            if !self.notices.frame(&mut self.sinks[number], number, text)
                && self.make_room(collect, number, Level::Info)
            {
                self.notices.frame(&mut self.sinks[number], number, text);
            }
        }
    }

    /// Returns the numbers of those of some sinks that are not closed.
    fn open_sinks(&self, sinks: u32) -> Vec<usize> {
        let open = self
            .sinks
            .iter()
            .enumerate()
            .filter(|(_, sink)| !sink.is_closed());
        open.map(|(number, _)| number)
            .filter(|number| sinks >> number & 1 == 1)
            .collect()
    }

    /// Reports drops of sinks that were too slow and have room again, while nothing more comes for them.
    pub(super) fn report_drops(&mut self, collect: &mut Collector) {
        for number in 0..self.sinks.len() {
            if self.sinks[number].has_unreported() {
                self.make_room(collect, number, Level::Info);
            }
        }
    }

    /// Gives fills that are due to their I/O threads.
    pub(super) fn hand_over_due(&mut self) {
        if self.has_failed {
            return;
        }
        let now = Instant::now();
        for sink in &mut self.sinks {
            if sink.wants_flush(now) {
                sink.hand_over();
            }
        }
    }

    /// Commits, and gives every fill to its I/O thread.
    pub(super) fn hand_over_all(&mut self, collect: &mut Collector) {
        self.commit(collect);
        self.sinks.iter_mut().for_each(SinkBuffer::hand_over);
    }

    /// Sends a request to every I/O thread, behind all fills handed over so far.
    pub(super) fn send_all(&self, request: impl Fn() -> IoRequest) {
        for sink in &self.sinks {
            sink.send(request());
        }
    }

    /// Changes the settings of a sink.
    pub(super) fn update_sink(&mut self, number: usize, settings: SinkSettings) {
        if let Some(sink) = self.sinks.get_mut(number) {
            sink.apply(settings);
            self.notices = InternalNotices::new(&self.sinks);
        }
    }

    /// Adds a sink, in a place of its own or in that of one that is closed.
    pub(super) fn add_sink(&mut self, sink: SinkBuffer) {
        match self.sinks.get_mut(sink.number()) {
            Some(closed) => *closed = sink,
            None => self.sinks.push(sink),
        }
        self.notices = InternalNotices::new(&self.sinks);
    }

    /// Writes what a sink has, and closes it. No route leads to it any more.
    pub(super) fn close_sink(&mut self, collect: &mut Collector, number: usize) {
        if self.sinks.get(number).is_none_or(SinkBuffer::is_closed) {
            return;
        }
        if self.sinks[number].has_unreported() {
            self.make_room(collect, number, Level::Info);
        }
        self.commit(collect);
        self.sinks[number].hand_over();
        self.sinks[number].close();
    }
}
