//! Sink buffer, the drain's side of one sink: it lays lines out in the current buffer and hands full buffers to the
//! I/O thread.

use crate::drain::callsite::RoutedCallsite;
use crate::drain::ring_reader::{ReadError, RingReader};
use crate::drain::run::{Run, Stop};
use crate::layout::{
    Layout, LayoutError, LayoutOptions, LineBuffer, Outcome, Plan, ProcessInfo, Record, Style,
};
use crate::limits::{PAUSE_BUSY_NS_MAX, SEGMENT_FLUSH_EVERY};
use crate::segment::RowRun;
use crate::sink::account::DropAccount;
use crate::sink::drop_reason::SinkDrop;
use crate::sink::options::{Overflow, SinkOptions, Target};
use crate::sink::spare::SpareBuffers;
use crate::sink::targets::Targets;
use crate::sink::writer::IoRequest;
use logdrive_ring::{Buffer, Buffers};
use logdrive_wire::{Callsite, Level};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Outcome of staging a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Staged {
    /// It lies behind the fill of the current buffer, and waits for [`SinkBuffer::accept`].
    Line(usize),
    /// It is left out, and counted when it is accepted.
    Dropped(SinkDrop),
    /// The buffer is full: commit, then [`SinkBuffer::hand_over`], then try again.
    Full,
}

/// One sink, as the drain sees it.
#[derive(Debug)]
pub(crate) struct SinkBuffer {
    index: usize,
    pub(crate) settings: SinkSettings,
    /// Set if its lines take space on a disk.
    pub(crate) is_file: bool,
    buffers: Arc<Buffers>,
    current: Option<Buffer>,
    /// Set if the current buffer is the last one, which is kept for urgent lines: warnings and above, and lines that
    /// tell what is missing.
    reserved: bool,
    /// Set if a line did not fit into the current buffer any more.
    is_filled: bool,
    spare: SpareBuffers,
    back: Receiver<Buffer>,
    out: Sender<IoRequest>,
    flush: Flush,
    /// Drops, and those of them that no line tells.
    pub(crate) account: DropAccount,
    /// Set if the fill changed since the last commit.
    changed: bool,
    /// Nothing is for it any more: it only keeps its place.
    closed: bool,
}

/// Reasons to hand the current buffer over before it is full.
#[derive(Debug, Default)]
struct Flush {
    /// Time before which nothing of the fill was logged.
    filled_since: Option<Instant>,
    /// Set if a record's level asks for it.
    is_asked: bool,
    /// The fill is due, and stays because the I/O thread is behind.
    is_held_back: bool,
    /// Flush ticket that is passed behind the fill of the reserved buffer, which stays until another one is free.
    ticket: Option<u64>,
}

/// Settings of a sink that can change while it is open.
#[derive(Debug)]
pub(crate) struct SinkSettings {
    pub(crate) layout: Layout,
    pub(crate) min_level: Level,
    pub(crate) flush_level: Level,
    pub(crate) flush_every: Duration,
    pub(crate) overflow: Overflow,
    pub(crate) targets: Targets,
}

impl SinkSettings {
    /// Settings from the options of a sink.
    ///
    /// # Errors
    /// When the layout cannot be used.
    pub(crate) fn new(
        options: &SinkOptions,
        layout: LayoutOptions,
        process: &ProcessInfo,
    ) -> Result<Self, LayoutError> {
        let flush_every = match (&layout.style, &options.target) {
            // A block of few records is large, and stays.
            (Style::Segments, Target::File(_)) => options.flush_every.max(SEGMENT_FLUSH_EVERY),
            _ => options.flush_every,
        };
        Ok(Self {
            layout: Layout::new(layout, process.clone())?,
            min_level: options.min_level,
            flush_level: options.flush_level,
            flush_every,
            overflow: options.overflow,
            targets: options.targets.clone(),
        })
    }
}

impl SinkBuffer {
    /// Buffer of a sink that is open: full buffers go `out` and come `back`, and the spare ones are all that it has.
    pub(crate) fn new(
        index: usize,
        settings: SinkSettings,
        is_file: bool,
        buffers: Arc<Buffers>,
        spare: Vec<Buffer>,
        back: Receiver<Buffer>,
        out: Sender<IoRequest>,
    ) -> Self {
        Self {
            account: DropAccount::resume(buffers.drops(index)),
            index,
            settings,
            is_file,
            buffers,
            current: None,
            reserved: false,
            is_filled: false,
            spare: SpareBuffers::new(spare),
            back,
            out,
            flush: Flush::default(),
            changed: false,
            closed: false,
        }
    }

    /// Which sink it is.
    pub(crate) fn number(&self) -> usize {
        self.index
    }

    /// Lets the sink close when all that was handed over is written, and lets go of all buffers. What it has must be
    /// handed over before.
    pub(crate) fn close(&mut self) {
        debug_assert!(!self.has_fill(), "a fill would be lost");
        // First: a thread that sees the sink closed may give its buffers to another sink.
        self.spare.clear();
        self.current = None;
        (_, self.back) = channel();
        self.closed = true;
        self.send(IoRequest::Close);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes other settings. Plans that were compiled before are those of the old layout.
    pub(crate) fn apply(&mut self, settings: SinkSettings) {
        self.settings = settings;
    }

    /// Lowest level that it takes.
    #[inline]
    pub(crate) fn min_level(&self) -> Level {
        self.settings.min_level
    }

    /// The plan of a callsite, of another process where one is given.
    pub(crate) fn compile(&self, callsite: &Callsite, process: Option<&ProcessInfo>) -> Plan {
        match process {
            Some(process) => self.settings.layout.compile_for(callsite, process),
            None => self.settings.layout.compile(callsite),
        }
    }

    /// Returns whether buffers are free beyond those that records of the moment need.
    pub(crate) fn has_slack(&mut self) -> bool {
        if self.settings.overflow == Overflow::Hold {
            return true;
        }
        self.spare.take_back(self.back.try_iter());
        let needed = self
            .spare
            .count()
            .div_ceil(3)
            .max(2)
            .min(self.spare.count().saturating_sub(1));
        self.spare.len() >= needed.max(1)
    }

    /// Lays a line out behind the fill; one of a dump, which has no level here, whatever the sink's own. Nothing counts
    /// before [`SinkBuffer::accept`]. Drops that no line tells are told first, see [`SinkBuffer::take_buffer`].
    #[inline]
    pub(crate) fn stage(
        &mut self,
        plan: &Plan,
        line: &Record<'_>,
        level: Option<Level>,
        is_urgent: bool,
    ) -> Staged {
        if level.is_some_and(|level| level < self.settings.min_level) {
            return Staged::Dropped(SinkDrop::Level);
        }
        if self.account.unreported().is_some() {
            return Staged::Full;
        }
        self.stage_line(plan, line, is_urgent)
    }

    /// Lays a line out behind the fill, also where drops are to be told.
    #[inline]
    pub(crate) fn stage_line(&mut self, plan: &Plan, line: &Record<'_>, is_urgent: bool) -> Staged {
        let Some(current) = self.current.as_mut().filter(|_| !self.reserved || is_urgent) else {
            return Staged::Full;
        };
        let empty = current.length() == 0;
        let mut out = line_buffer(current);
        match self.settings.layout.line(plan, line, &mut out) {
            Outcome::Overflow if empty => match self.settings.layout.line_cut(plan, line, &mut out) {
                Outcome::Overflow => Staged::Dropped(SinkDrop::TooLong),
                _ => Staged::Line(out.len()),
            },
            Outcome::Overflow => {
                self.is_filled = true;
                Staged::Full
            }
            _ => Staged::Line(out.len()),
        }
    }

    /// Lays out records of one ring, up to a time, without any other check: for the only sink that takes them.
    /// Stops at whatever needs more than that: a full buffer, an unknown callsite, a level that is left out, or that
    /// others take.
    pub(crate) fn take_run(&mut self, reader: &mut RingReader, run: &mut Run<'_>) {
        let is_open = !self.reserved && self.account.unreported().is_none();
        let Some(current) = self.current.as_mut().filter(|_| is_open) else {
            return;
        };
        let mut out = line_buffer(current);
        let mut counted = 0;
        let mut result = Ok(());
        while reader.head.time_ticks <= run.until && result.is_ok() {
            let id = reader.head.callsite_id as usize;
            let Some(Some(callsite)) = run.callsites.get(id) else {
                break;
            };
            // Gap records, of callsite 0, are told, which takes more than a line.
            let is_ours = id != 0
                && callsite.level >= self.settings.min_level
                && run.below.is_none_or(|below| callsite.level < below)
                && run.route.is_none_or(|route| callsite.route == route);
            let Some(plan) = callsite.plan(self.index).filter(|_| is_ours) else {
                break;
            };
            let length_before = out.len();
            let taken = take_callsite(
                &mut self.settings.layout,
                (callsite, plan),
                reader,
                run,
                &mut out,
                &mut result,
            );
            callsite
                .counter
                .add_many(taken.records, out.len() - length_before);
            if taken.records == 0 {
                break;
            }
            self.flush.is_asked |= callsite.level >= self.settings.flush_level;
            counted += taken.records;
            run.has_taken = true;
            // The dump that a record triggers stands in the log before the ring's next record.
            if callsite.trigger.is_some() {
                run.stop = Some(Stop::Trigger(id));
                break;
            }
            if taken.share_prefix && result.is_ok() {
                let mut records = 0;
                result = take_shared_prefix(
                    &mut self.settings.layout,
                    (callsite, plan),
                    reader,
                    run,
                    &mut out,
                    &mut records,
                );
                counted += records;
                if reader.has_enough() {
                    run.stop = Some(Stop::Enough);
                    break;
                }
            }
        }
        let length = out.len();
        current.grow(length, counted);
        self.changed |= length > 0;
        run.counted += counted;
        run.file_bytes += if self.is_file { length as u64 } else { 0 };
        // The records before the damage are laid out already, and a trigger among them still has its dump.
        if let Err(error) = result {
            let trigger = match run.stop {
                Some(Stop::Trigger(id)) => Some(id),
                _ => None,
            };
            run.stop = Some(Stop::Broken(error, trigger));
        }
    }

    /// Takes a staged line into the fill, or counts it as dropped.
    #[inline]
    pub(crate) fn accept(&mut self, staged: Staged, level: Level, counted: bool, unix_ns: u64) {
        match staged {
            Staged::Line(length) => {
                if let Some(current) = &mut self.current {
                    current.grow(length, u64::from(counted));
                }
                self.changed = true;
                self.flush.is_asked |= level >= self.settings.flush_level;
            }
            Staged::Dropped(SinkDrop::Overflow) if counted && !self.closed => {
                let cause = self.buffers.last_error(self.index);
                self.account.count_overflow(unix_ns, cause);
            }
            Staged::Dropped(reason) if counted && !self.closed => self.account.count(1, reason),
            _ => {}
        }
    }

    /// Counts records that are not for this sink.
    pub(crate) fn count_excluded(&mut self, records: u64, reason: SinkDrop) {
        if records > 0 && !self.closed {
            self.account.count(records, reason);
        }
    }

    /// Returns whether the current buffer has something in it.
    pub(crate) fn has_fill(&self) -> bool {
        self.current.as_ref().is_some_and(|buffer| buffer.length() > 0)
    }

    /// Notes a line that tells of dropped calls and has no room.
    pub(crate) fn count_calls(&mut self, calls: u64, unix_ns: u64) {
        if !self.closed {
            let cause = self.buffers.last_error(self.index);
            self.account.count_calls(calls, unix_ns, cause);
        }
    }

    /// Notes fill and drops for an epoch, where they have changed.
    pub(crate) fn note(&mut self, epoch: u64) {
        if self.has_changed() {
            let drops = self.account.drops();
            self.buffers
                .note_fill(self.index, self.current.as_ref(), drops, epoch);
        }
    }

    /// Returns whether the fill, or the number of drops, changed since it was noted.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed || self.account.has_changed()
    }

    /// The epoch that covers the fill is published. What is new in it was logged after the given time.
    pub(crate) fn committed(&mut self, since: Instant) {
        self.account.committed();
        if self.changed {
            self.changed = false;
            self.flush.filled_since.get_or_insert(since);
        }
    }

    /// Returns whether the fill has waited long enough, or a record asked for it, and the I/O thread keeps up. Where it
    /// does not, the fill would only wait behind others, and nearly empty buffers would be all there are: then it goes
    /// on growing.
    pub(crate) fn wants_flush(&mut self, now: Instant) -> bool {
        let is_due = |since: Instant| now.saturating_duration_since(since) >= self.settings.flush_every;
        let is_wanted =
            self.has_fill() && (self.flush.is_asked || self.flush.filled_since.is_some_and(is_due));
        self.flush.is_held_back = is_wanted && self.is_behind();
        is_wanted && !self.flush.is_held_back
    }

    /// Returns whether half of the buffers are on their way; for a flush that a record asked for, all but the current
    /// one and one more, which takes what comes behind it.
    fn is_behind(&mut self) -> bool {
        self.spare.take_back(self.back.try_iter());
        let idle = self.spare.len() + usize::from(self.current.is_some());
        let on_their_way = self.spare.count().saturating_sub(idle);
        match self.flush.is_asked {
            true => on_their_way > 0 && self.spare.len() < 2,
            false => on_their_way * 2 >= self.spare.count(),
        }
    }

    /// When the fill is due, if there is one, or when to look again whether it can go.
    pub(crate) fn due_in(&self, now: Instant) -> Option<Duration> {
        let since = self.flush.filled_since.filter(|_| self.has_fill())?;
        Some(match self.flush.is_held_back {
            true => Duration::from_nanos(PAUSE_BUSY_NS_MAX),
            false => self
                .settings
                .flush_every
                .saturating_sub(now.saturating_duration_since(since)),
        })
    }

    /// Gives the committed fill to the I/O thread.
    pub(crate) fn hand_over(&mut self) {
        debug_assert!(!self.changed, "only a committed fill may be written");
        self.flush.filled_since = None;
        self.flush.is_held_back = false;
        let sync = std::mem::take(&mut self.flush.is_asked);
        if let Some(mut buffer) = self.current.take_if(|buffer| buffer.length() > 0) {
            buffer.mark_ready();
            self.reserved = false;
            self.is_filled = false;
            // The I/O thread lives as long as the sink buffer; without it the buffer stays in the session.
            let _ = self.out.send(IoRequest::Write { buffer, sync });
        }
    }

    /// Passes a flush ticket behind the committed fill. Where the fill lies in the reserved buffer and no other one is free,
    /// both stay until one is: otherwise there would be no room for urgent lines.
    pub(crate) fn pass_ticket(&mut self, ticket: u64) {
        self.take_back();
        if self.reserved && self.has_fill() {
            self.flush.ticket = Some(ticket);
        } else {
            self.flush.ticket = None;
            self.hand_over();
            self.send(IoRequest::Ticket(ticket));
        }
    }

    /// Passes a flush ticket that has waited, where another buffer is free now.
    pub(crate) fn pass_late_ticket(&mut self) {
        if let Some(ticket) = self.flush.ticket {
            self.pass_ticket(ticket);
        }
    }

    /// Gives a buffer that an earlier drain has filled to the I/O thread; it is one of the sink's when it comes back.
    pub(crate) fn hand_over_earlier(&mut self, mut buffer: Buffer) {
        buffer.mark_ready();
        self.spare.count_another();
        self.send(IoRequest::Write { buffer, sync: false });
    }

    /// Takes buffers back. With another one to spare, the reserved one is for all lines.
    fn take_back(&mut self) {
        self.spare.take_back(self.back.try_iter());
        self.spare.reserve_ahead();
        if !self.spare.is_empty() {
            self.reserved = false;
        }
    }

    /// Returns whether there is no room for a line, and nothing that a commit could change about it: its record is
    /// dropped.
    pub(crate) fn is_full(&mut self, is_urgent: bool) -> bool {
        if self.settings.overflow == Overflow::Hold {
            return false;
        }
        self.take_back();
        match (&self.current, self.is_filled && !self.reserved) {
            // It goes to the I/O thread.
            (Some(_), true) => false,
            (Some(_), false) => self.reserved && !is_urgent,
            (None, _) => self.spare.len() < if is_urgent { 1 } else { 2 },
        }
    }

    /// Has the current buffer take lines, another one where it is filled; what is in it must be committed. `false`: there
    /// is none, and the policy is to drop records that are not urgent, or all. Waits for the I/O thread where the policy is
    /// to hold back, until `stop` says no.
    pub(crate) fn take_buffer(
        &mut self,
        is_urgent: bool,
        sequence: &mut u64,
        stop: &dyn Fn() -> bool,
    ) -> bool {
        if self.closed {
            return false;
        }
        self.take_back();
        if self.current.is_some() && !self.is_filled {
            return !self.reserved || is_urgent;
        }
        if self.reserved {
            // A shorter line may still fit: the reserve is given away only for another buffer.
            self.is_filled = false;
            return false;
        }
        self.hand_over();
        while self.spare.is_empty() && self.settings.overflow == Overflow::Hold && !stop() {
            let pause = Duration::from_millis(20);
            self.spare.take_back(self.back.recv_timeout(pause));
            self.take_back();
        }
        let last = self.spare.len() == 1 && self.settings.overflow == Overflow::Drop;
        if self.spare.is_empty() || (last && !is_urgent) {
            return false;
        }
        let Some(mut buffer) = self.spare.pop() else {
            return false;
        };
        *sequence = sequence.wrapping_add(1);
        buffer.start_filling(*sequence);
        self.reserved = last;
        self.current = Some(buffer);
        true
    }

    /// Returns a sender of requests for other threads.
    pub(crate) fn sender(&self) -> Sender<IoRequest> {
        self.out.clone()
    }

    /// Sends a message to the I/O thread, behind all buffers handed over so far.
    pub(crate) fn send(&self, message: IoRequest) {
        // Without an I/O thread there is no receiver.
        let _ = self.out.send(message);
    }
}

/// Outcome of [`take_callsite`].
struct Taken {
    records: u64,
    /// More of them follow that differ in time and one text only.
    share_prefix: bool,
}

/// The rest of a buffer, for lines.
#[inline]
fn line_buffer(buffer: &mut Buffer) -> LineBuffer<'_> {
    let before = buffer.length();
    LineBuffer::new(buffer.space()).behind(before)
}

/// Records of one callsite behind each other, from which on more are expected.
const RUN_RECORDS: u64 = 3;

/// Lays out records of one ring that have the callsite of the first, until the buffer is full or there is more to do
/// than that.
#[inline(always)]
fn take_callsite(
    layout: &mut Layout,
    (callsite, plan): (&RoutedCallsite, &Plan),
    reader: &mut RingReader,
    run: &mut Run<'_>,
    out: &mut LineBuffer<'_>,
    result: &mut Result<(), ReadError>,
) -> Taken {
    let id = reader.head.callsite_id;
    let mut taken = Taken {
        records: 0,
        share_prefix: false,
    };
    while reader.head.time_ticks <= run.until && reader.head.callsite_id == id {
        let ticks = reader.head.time_ticks;
        let line = reader.line(run.calibration);
        if layout.line(plan, &line, out) == Outcome::Overflow {
            break;
        }
        taken.records += 1;
        run.times.note(ticks);
        if !reader.advance_in_window() {
            *result = reader.look();
        }
        let is_run = reader.head.time_ticks == ticks || taken.records >= RUN_RECORDS;
        taken.share_prefix = plan.has_runs() && is_run && reader.is_before(id, run.until);
        // What is kept is written before the record after a trigger.
        if taken.share_prefix || callsite.trigger.is_some() || result.is_err() {
            break;
        }
    }
    taken
}

/// Takes records of the same callsite and second, whose lines begin alike but for the digits of the time, such as many
/// lines of a command that were read at once. They are taken until the buffer is full, or the ring has enough to give
/// back.
fn take_shared_prefix(
    layout: &mut Layout,
    (callsite, plan): (&RoutedCallsite, &Plan),
    reader: &mut RingReader,
    run: &mut Run<'_>,
    out: &mut LineBuffer<'_>,
    records: &mut u64,
) -> Result<(), ReadError> {
    let record = reader.line(run.calibration);
    if let Some(rows) = layout.row_run(plan, &record.thread, out) {
        return take_rows(rows, callsite, reader, run, out, records);
    }
    let Some(mut prefix) = layout.shared_prefix(plan, &record) else {
        return Ok(());
    };
    // All that changes with each record is in variables of this function.
    let calibration = *run.calibration;
    let mut times = run.times;
    let length_before = out.len();
    let result = reader.take_shared_prefix(run.until, records, |thread, payload, ticks| {
        let record = Record {
            unix_ns: calibration.unix_ns(ticks),
            thread: *thread,
            payload,
        };
        let is_written = layout.line_after(&mut prefix, plan, &record, out);
        if is_written {
            times.note(ticks);
        }
        is_written
    });
    run.times = times;
    callsite.counter.add_many(*records, out.len() - length_before);
    result
}

/// Takes records of the same callsite as rows, until the buffer is full, or the ring has enough to give back.
fn take_rows(
    rows: RowRun,
    callsite: &RoutedCallsite,
    reader: &mut RingReader,
    run: &mut Run<'_>,
    out: &mut LineBuffer<'_>,
    records: &mut u64,
) -> Result<(), ReadError> {
    // As in `take_shared_prefix`.
    let calibration = *run.calibration;
    let mut times = run.times;
    let length_before = out.len();
    let result = reader.take_shared_prefix(run.until, records, |_, payload, ticks| {
        let is_written = out.put_row(rows, calibration.unix_ns(ticks), payload);
        if is_written {
            times.note(ticks);
        }
        is_written
    });
    run.times = times;
    callsite.counter.add_many(*records, out.len() - length_before);
    result
}
