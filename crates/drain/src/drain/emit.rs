//! Emit: lays records out in the buffers of the sinks, commits epochs, and hands full buffers to the I/O threads.

use super::callsite::RoutedCallsite;
use super::collect::Collector;
use crate::internal_notices::{InternalNotices, Notice, describe_unreported};
use crate::layout::Record;
use crate::limits::NO_PROGRESS;
use crate::sink::buffer::{SinkBuffer, SinkSettings, Staged};
use crate::sink::drop_reason::SinkDrop;
use crate::sink::writer::IoRequest;
use crate::status::BackendStatus;
use logdrive_ring::{Buffers, note_damage_told};
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

/// Result of a record that was laid out for its sinks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Accepted {
    /// Set if any sink got a line.
    pub(super) is_written: bool,
    /// Set if any sink left it out for want of room.
    pub(super) is_left_out: bool,
    /// Bytes of all lines.
    pub(super) bytes: usize,
    /// Bytes of those in files.
    pub(super) file_bytes: u64,
}

/// Sinks, and the epoch that their fills count for.
pub(super) struct Emitter {
    pub(super) sinks: Vec<SinkBuffer>,
    buffers: Arc<Buffers>,
    /// Lines of one record that wait to count for all sinks or for none.
    staged: Vec<Staged>,
    /// Time of that record.
    staged_unix_ns: u64,
    notices: InternalNotices,
    epoch: u64,
    /// Highest sequence number of a buffer so far.
    sequence: u64,
    /// Start of this pass, and of the one before: what is taken was committed after that, but for what is put in order.
    passes: (Instant, Instant),
    /// Set if the recovery of a dead session has been given up.
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
            staged_unix_ns: 0,
            notices: InternalNotices::new(&sinks),
            epoch: buffers.epoch(),
            sequence: buffers.last_sequence(),
            passes: (Instant::now(), Instant::now()),
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
        self.staged_unix_ns = record.unix_ns;
        for (number, sink) in self.sinks.iter_mut().enumerate() {
            let is_selected = selection.sinks >> number & 1 == 1;
            let plan = callsite.plans.get(number).filter(|_| is_selected);
            let staged = match plan {
                Some(Some(_)) if selection.without >> number & 1 == 1 => Staged::Dropped(SinkDrop::Overflow),
                Some(Some(plan)) => {
                    let is_urgent = selection.level.is_some_and(Level::is_urgent);
                    sink.stage(plan, record, selection.level, is_urgent)
                }
                _ => Staged::Dropped(SinkDrop::NotRouted),
            };
            if staged == Staged::Full {
                return Some(number);
            }
            self.staged.push(staged);
        }
        None
    }

    /// Takes what was staged into the fills, or counts it as dropped.
    #[inline]
    pub(super) fn accept(&mut self, level: Level, is_counted: bool) -> Accepted {
        let mut accepted = Accepted::default();
        for (sink, staged) in self.sinks.iter_mut().zip(&self.staged) {
            sink.accept(*staged, level, is_counted, self.staged_unix_ns);
            match staged {
                Staged::Line(length) => {
                    accepted.is_written = true;
                    accepted.bytes += length;
                    accepted.file_bytes += if sink.is_file { *length as u64 } else { 0 };
                }
                Staged::Dropped(SinkDrop::Overflow | SinkDrop::TooLong) => accepted.is_left_out = true,
                _ => {}
            }
        }
        accepted
    }

    /// Notes for these sinks, as bits, that a line which tells of so many dropped calls has no room.
    pub(super) fn count_calls(&mut self, sinks: u32, calls: u64) {
        if calls == 0 {
            return;
        }
        for (number, sink) in self.sinks.iter_mut().enumerate() {
            if sinks >> number & 1 == 1 {
                sink.count_calls(calls, self.staged_unix_ns);
            }
        }
    }

    /// Counts a record as dropped by each sink, for the reason that is given for it.
    pub(super) fn drop_record(&mut self, level: Level, reason: impl Fn(usize, &SinkBuffer) -> SinkDrop) {
        for (number, sink) in self.sinks.iter_mut().enumerate() {
            let reason = reason(number, sink);
            sink.accept(Staged::Dropped(reason), level, true, 0);
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

    /// Notes that the drain begins to look at all rings.
    pub(super) fn begin_pass(&mut self, now: Instant) {
        self.passes = (now, self.passes.0);
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
        for sink in &mut self.sinks {
            sink.committed(self.passes.1);
        }
        collect.release();
    }

    /// Makes room for a line of a sink, and tells there what it had no room for before. What was taken so far is
    /// committed first, because a buffer may only be written once its fill is. `false`: there is no room, and the sink's
    /// policy is to drop records of this kind.
    #[cold]
    pub(super) fn make_room(&mut self, collect: &mut Collector, number: usize, is_urgent: bool) -> bool {
        if self.has_failed {
            // Nothing is committed any more, so that no fill may be written.
            return false;
        }
        let is_dead = !collect.is_live();
        if !is_dead && self.sinks[number].is_full(is_urgent) {
            return false;
        }
        let deadline = Instant::now() + NO_PROGRESS;
        let stop = Arc::clone(&self.stop);
        let status = Arc::clone(&self.status);
        let is_given_up = move || match is_dead {
            // No process waits for the records of a dead one: they stay in the session when the disk does not answer.
            true => Instant::now() > deadline,
            // Relaxed: read repeatedly.
            false => stop.load(Ordering::Relaxed) && status.is_abandoned(),
        };
        loop {
            self.commit(collect);
            let sink = &mut self.sinks[number];
            if !sink.take_buffer(is_urgent, &mut self.sequence, &is_given_up) {
                self.has_failed |= is_dead;
                return false;
            }
            let Some(unreported) = sink.account.unreported() else {
                return true;
            };
            if self.notices.gap(sink, number, &unreported) {
                sink.account.clear_unreported();
                return true;
            }
            // It did not fit behind the fill: in the next buffer it does.
        }
    }

    /// Writes a line of the logger about itself to these sinks, as bits. Returns those that have no room for it.
    pub(super) fn notice(&mut self, collect: &mut Collector, sinks: u32, level: Level, text: &str) -> u32 {
        self.put(collect, sinks, &Notice::new(Some(level), text))
    }

    /// Writes a line that frames a dump to these sinks, whatever their level. Returns those that have no room for it.
    pub(super) fn frame_dump(&mut self, collect: &mut Collector, sinks: u32, text: &str) -> u32 {
        self.put(collect, sinks, &Notice::new(None, text))
    }

    /// Lays a notice out for all its sinks, so that it counts for all of them or for none.
    fn put(&mut self, collect: &mut Collector, sinks: u32, notice: &Notice) -> u32 {
        let without = self.find_room(collect, sinks, notice);
        if !self.has_failed {
            self.accept(notice.level.unwrap_or(Level::Fatal), false);
        }
        without
    }

    /// Writes the line of the process's end to every sink, and commits it: the epoch says that it is there.
    pub(super) fn end(&mut self, collect: &mut Collector, level: Level, text: &str) {
        let notice = Notice::new(Some(level), text);
        self.find_room(collect, u32::MAX, &notice);
        if !self.has_failed {
            self.buffers.note_end(self.epoch.wrapping_add(1));
            self.accept(level, false);
            self.commit(collect);
        }
    }

    /// Writes a line about damage to every sink, and commits it: the epoch says that so many of them are there.
    pub(super) fn damage(&mut self, collect: &mut Collector, told: u64, text: &str) {
        let notice = Notice::new(Some(Level::Warn), text);
        self.find_room(collect, u32::MAX, &notice);
        if !self.has_failed {
            let next = self.epoch.wrapping_add(1);
            note_damage_told(&self.buffers, told, next, self.epoch);
            self.accept(Level::Warn, false);
            self.commit(collect);
        }
    }

    /// Lays a notice out for all its sinks. Returns those that have no room for it.
    fn find_room(&mut self, collect: &mut Collector, sinks: u32, notice: &Notice) -> u32 {
        let mut without = 0;
        while let Some(full) = self.stage_notice(sinks & !without, notice) {
            if !self.make_room(collect, full, notice.is_urgent()) {
                if self.has_failed {
                    return 0;
                }
                without |= 1 << full;
            }
        }
        without
    }

    /// Lays a notice out; returns the number of a sink that is full.
    fn stage_notice(&mut self, sinks: u32, notice: &Notice) -> Option<usize> {
        self.staged.clear();
        self.staged_unix_ns = notice.unix_ns;
        for (number, sink) in self.sinks.iter_mut().enumerate() {
            let is_meant = sinks >> number & 1 == 1 && !sink.is_closed();
            let staged = match is_meant {
                true => self.notices.stage(sink, number, notice),
                false => Staged::Dropped(SinkDrop::NotRouted),
            };
            if staged == Staged::Full {
                return Some(number);
            }
            self.staged.push(staged);
        }
        None
    }

    /// Reports drops of sinks that were too slow and have room again, while nothing more comes for them.
    pub(super) fn report_drops(&mut self, collect: &mut Collector) {
        for number in 0..self.sinks.len() {
            if self.sinks[number].account.unreported().is_some() {
                self.make_room(collect, number, false);
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
            sink.pass_late_ticket();
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

    /// Commits, and passes a flush ticket behind every fill.
    pub(super) fn pass_ticket(&mut self, collect: &mut Collector, ticket: u64) {
        self.commit(collect);
        for sink in &mut self.sinks {
            sink.pass_ticket(ticket);
        }
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
        if self.sinks[number].account.unreported().is_some() {
            self.make_room(collect, number, false);
        }
        if let Some(unreported) = self.sinks[number].account.unreported() {
            // No line of its own will tell them.
            self.status.notice(describe_unreported(number, &unreported));
            self.sinks[number].account.clear_unreported();
        }
        self.commit(collect);
        self.sinks[number].hand_over();
        self.sinks[number].close();
    }
}
