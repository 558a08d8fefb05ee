//! The flight recorder at the drain: records that no sink takes go to the memory of their process, and from there to the
//! sinks when something happens.
//!
//! What is written of a memory is written in slices between passes, and only while the sinks have buffers to spare, so
//! that neither rings nor records of the moment wait for it.

use super::merge::MergeQueue;
use super::{Drain, site_of};
use crate::drain::ring_reader::{NO_RECORD, ReadError, RingReader};
use crate::drain::run::{RoutedCallsite, Times};
use crate::drain::session_input::SessionInput;
use crate::flight_recorder::memory::RecorderMemory;
use crate::flight_recorder::{
    DumpProgress, DumpRequest, FlightRecorder, RecorderOptions, RecorderPolicy, Requesters, with_commas,
};
use crate::internal_notices::InternalNotices;
use crate::layout::{Record, Thread};
use crate::limits::{DUMP_SLICE_RECORDS, KEEP_ROOM_TRIES, NO_PROGRESS_MS};
use crate::sink::buffer::Staged;
use crate::sink::drop_reason::SinkDrop;
use crate::status::{BackendStatus, DumpAnswer};
use logdrive_ring::clock::monotonic_ns;
use logdrive_wire::Level;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// ClientSelector memory is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientSelector {
    /// That of the process itself.
    Own,
    /// Those of all processes of an application.
    App(String),
    /// That of the process of a session.
    Session(u64),
}

impl ClientSelector {
    fn is(&self, input: &SessionInput) -> bool {
        match self {
            Self::Own => input.client.is_none(),
            Self::App(app) => input.client.as_ref().is_some_and(|client| client.app == *app),
            Self::Session(id) => input.client_id == Some(*id),
        }
    }
}

/// How far dumps came between two passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DumpState {
    /// There are none.
    None,
    /// There is more to write, and room for it.
    Moves,
    /// There is more to write, and the sinks are busy.
    Waits,
}

/// Why [`Drain::keep_some`] ended.
enum KeepStop {
    /// The first record is none that is kept.
    Other,
    /// Nothing is in the way of more of them.
    Again,
    /// So much was taken that it is given back to its producer now.
    Enough,
    /// The memory is full of what is on its way to the log.
    NoRoom,
    /// The callsite of the last record has what is kept written.
    Trigger(usize),
    /// A ring broke a rule.
    Broken(usize, ReadError),
}

impl Drain {
    /// Keeps records in the order of their times, up to one that a sink takes; how many.
    pub(super) fn keep_runs(&mut self, queue: &mut MergeQueue, bound: u64) -> u64 {
        let mut kept = 0;
        let mut tries = 0;
        while let Some((index, _)) = queue.first(bound) {
            let number = self.readers[index].input;
            let (records, stop) = self.keep_some(queue, bound);
            kept += records;
            match stop {
                KeepStop::Other => break,
                KeepStop::Again => {}
                KeepStop::Enough => self.commit(),
                KeepStop::Trigger(id) => self.note_trigger(number, id),
                KeepStop::NoRoom => {
                    tries = if records > 0 { 1 } else { tries + 1 };
                    if tries > KEEP_ROOM_TRIES {
                        break;
                    }
                    self.make_room_to_keep(number);
                }
                KeepStop::Broken(index, error) => {
                    self.quarantine(index, &error);
                    queue.renew(NO_RECORD, bound);
                }
            }
        }
        kept
    }

    /// The same for rings of one session, and records of one route; how many, and why no more.
    fn keep_some(&mut self, queue: &mut MergeQueue, bound: u64) -> (u64, KeepStop) {
        let Some((first, _)) = queue.first(bound) else {
            return (0, KeepStop::Other);
        };
        let number = self.readers[first].input;
        let Some(Some(input)) = self.inputs.get_mut(number) else {
            return (0, KeepStop::Other);
        };
        let (sites, Some(keep)) = (&input.sites, &mut input.keep) else {
            return (0, KeepStop::Other);
        };
        let mut run = KeepRun {
            sites,
            memory: &mut keep.memory,
            until: 0,
            times: Times {
                newest_ticks: self.newest_ticks,
                late: 0,
            },
            routed: None,
            records: 0,
        };
        let mut stop = KeepStop::Other;
        while let Some((index, until)) = queue.first(bound) {
            let reader = &mut self.readers[index];
            if reader.input != number {
                stop = KeepStop::Again;
                break;
            }
            run.until = until;
            let stopped = run.take(reader, index);
            let ticks = reader.head.time_ticks;
            if stopped.is_some() || ticks <= until {
                stop = stopped.unwrap_or(stop);
                if ticks > until && !matches!(stop, KeepStop::Broken(..)) {
                    queue.renew(ticks, bound);
                }
                break;
            }
            queue.renew(ticks, bound);
        }
        let (records, routed, times) = (run.records, run.routed.unwrap_or(0), run.times);
        self.newest_ticks = times.newest_ticks;
        self.count_kept(number, records, routed, times.late);
        (records, stop)
    }

    /// Keeps account of records that no sink takes.
    fn count_kept(&mut self, input: usize, records: u64, routed: u32, late: u64) {
        if records == 0 {
            return;
        }
        for number in 0..self.outlets.len() {
            let reason = match routed >> number & 1 {
                1 => SinkDrop::Level,
                _ => SinkDrop::NotRouted,
            };
            self.buffers.count_dropped(number, reason as usize, records);
        }
        if let Some(Some(input)) = self.inputs.get(input) {
            input.note_taken();
        }
        // Relaxed: a statistic.
        self.counts.late.fetch_add(late, Ordering::Relaxed);
    }

    /// The memory is full of what is on its way to the log.
    #[cold]
    fn make_room_to_keep(&mut self, number: usize) {
        self.commit();
        let is_taking = |drain: &Self| drain.keep(number).is_some_and(|keep| keep.memory.is_taking());
        if !is_taking(self) {
            return;
        }
        if self.dump_slice(number) == 0
            && let Some(keep) = self.keep_mut(number)
        {
            let lost = keep.memory.skip_chunk();
            if let Some(dump) = &mut keep.dump {
                dump.lost += lost;
            }
        }
        self.commit();
    }

    fn keep(&self, number: usize) -> Option<&FlightRecorder> {
        self.inputs.get(number)?.as_ref()?.keep.as_ref()
    }

    fn keep_mut(&mut self, number: usize) -> Option<&mut FlightRecorder> {
        self.inputs.get_mut(number)?.as_mut()?.keep.as_mut()
    }

    /// A record of a callsite has been taken: where that has what is kept written, begins with it.
    pub(super) fn note_trigger(&mut self, number: usize, id: usize) {
        let Some(place) = site_of(&self.inputs, number, id).and_then(|site| site.trigger.as_deref()) else {
            return;
        };
        let Some(keep) = self.keep(number) else { return };
        if keep.dump.is_some() || monotonic_ns() < keep.paused_until_ns {
            return;
        }
        let wanted = DumpRequest {
            span: keep.options.before,
            because: format!("of {place}"),
            by: Requesters::default(),
        };
        let reference_ticks = self.newest_ticks;
        self.start_dump(number, &wanted, reference_ticks);
    }

    /// Does what another thread has asked for.
    pub(super) fn want_dump(&mut self, whose: &ClientSelector, span: Option<Duration>, because: &str) {
        for input in self.inputs.iter_mut().flatten().filter(|input| whose.is(input)) {
            if let Some(keep) = input.keep.as_mut().filter(|keep| keep.wanted.is_none()) {
                keep.wanted = Some(DumpRequest {
                    span,
                    because: because.to_owned(),
                    by: Requesters::default(),
                });
            }
        }
    }

    /// The same of one session, for somebody who waits for the answer.
    pub(super) fn want_dump_for(&mut self, dump: u64, id: u64, span: Option<Duration>, because: String) {
        let is = |input: &&mut SessionInput| ClientSelector::Session(id).is(input);
        let keep = match self.inputs.iter_mut().flatten().find(is) {
            None => return self.status.answer_dump(dump, DumpAnswer::Unknown),
            Some(SessionInput { keep: None, .. }) => {
                return self.status.answer_dump(dump, DumpAnswer::KeepsNothing);
            }
            Some(SessionInput { keep: Some(keep), .. }) => keep,
        };
        match &mut keep.wanted {
            // It has not begun: one answers all.
            Some(wanted) => wanted.by.dumps.push(dump),
            None => {
                let by = Requesters {
                    request: None,
                    dumps: vec![dump],
                };
                keep.wanted = Some(DumpRequest { span, because, by });
            }
        }
    }

    /// The process of a session has crashed: writes what is kept of it as it wished, where it wanted that. Where a recorder
    /// keeps it, that one says what is to be done.
    pub(super) fn want_crash_dump(&mut self, id: u64, because: &str) {
        for input in self.inputs.iter_mut().flatten() {
            if ClientSelector::Session(id).is(input)
                && let Some(keep) = input
                    .keep
                    .as_mut()
                    .filter(|keep| keep.is_requested && keep.options.on_crash)
                && keep.wanted.is_none()
            {
                keep.wanted = Some(DumpRequest {
                    span: keep.options.before,
                    because: because.to_owned(),
                    by: Requesters::default(),
                });
            }
        }
    }

    /// The process of a session, which is here or joins next, wants its records kept; a recorder of this side goes before
    /// its wish.
    pub(super) fn request_recorder(&mut self, id: u64, options: RecorderOptions) {
        let is = |input: &&mut SessionInput| ClientSelector::Session(id).is(input);
        let Some(input) = self.inputs.iter_mut().flatten().find(is) else {
            self.recorder_request = Some((id, options));
            return;
        };
        input.recorder_request = Some(options);
        choose_keep(input, self.recorder_policy.as_deref(), &self.status);
        input.forget_sites();
    }

    /// Other flight recorders from now on; what is kept stays where it is kept as before.
    pub(super) fn set_recorder_policy(&mut self, policy: Box<dyn RecorderPolicy>) {
        for input in self.inputs.iter_mut().flatten() {
            if input.client.is_some() {
                choose_keep(input, Some(&*policy), &self.status);
                input.forget_sites();
            }
        }
        self.recorder_policy = Some(policy);
    }

    /// Whether somebody wants something written, so that all that is committed has to be taken first.
    pub(super) fn poll_keeps(&mut self) -> bool {
        let mut is_wanted = false;
        for keep in self
            .inputs
            .iter_mut()
            .flatten()
            .filter_map(|input| input.keep.as_mut())
        {
            keep.poll();
            is_wanted |= keep.wanted.is_some();
        }
        is_wanted
    }

    /// Begins dumps that somebody wants, and writes a slice of each.
    pub(super) fn write_kept(&mut self) -> DumpState {
        let mut dumping = DumpState::None;
        for number in 0..self.inputs.len() {
            let Some(keep) = self.keep_mut(number) else {
                continue;
            };
            if keep.dump.is_none()
                && let Some(wanted) = keep.wanted.take()
            {
                let reference_ticks = self.now_ticks();
                self.start_dump(number, &wanted, reference_ticks);
            }
            if self.keep(number).is_some_and(|keep| keep.dump.is_some()) {
                let moved = self.dump_slice(number);
                dumping = match dumping {
                    DumpState::None | DumpState::Waits if moved == 0 => DumpState::Waits,
                    _ => DumpState::Moves,
                };
                self.give_up_stuck(number, moved);
            }
            self.answer(number);
        }
        dumping
    }

    /// Tells whoever asked for a dump that it is in the log.
    fn answer(&mut self, number: usize) {
        let Some(Some(SessionInput { keep: Some(keep), .. })) = self.inputs.get_mut(number) else {
            return;
        };
        if let Some((request, records, mark)) = keep.answer
            && self.status.has_reached(mark, u32::MAX)
        {
            keep.answer = None;
            if let Some(file) = keep.memory.file() {
                file.answer(request, records);
            }
        }
    }

    /// Begins to write what is kept, back from a time.
    fn start_dump(&mut self, number: usize, wanted: &DumpRequest, reference_ticks: u64) {
        let rate = u128::from(self.calibration.ns_per_tick_q32);
        let from_ticks = match wanted.span {
            Some(span) if rate > 0 => {
                let ticks = u64::try_from((span.as_nanos() << 32) / rate).unwrap_or(u64::MAX);
                reference_ticks.saturating_sub(ticks)
            }
            _ => 0,
        };
        let status = std::sync::Arc::clone(&self.status);
        let calibration = self.calibration;
        let Some(keep) = self.keep_mut(number) else { return };
        let Some((records, oldest_ticks)) = keep.memory.take_from(from_ticks) else {
            let by = wanted.by.clone();
            keep.answer = by
                .request
                .map(|request| (request, 0, status.request()))
                .or(keep.answer);
            answer_dumps(&status, &by, DumpAnswer::Written(0));
            return;
        };
        if wanted.by.is_nobody() {
            keep.paused_until_ns = monotonic_ns().saturating_add(keep.options.pause.as_nanos() as u64);
        }
        keep.dump = Some(DumpProgress {
            by: wanted.by.clone(),
            ..DumpProgress::default()
        });
        let sinks = keep.sinks;
        let since_ns = calibration
            .unix_ns(reference_ticks)
            .saturating_sub(calibration.unix_ns(oldest_ticks));
        let seconds = since_ns as f64 / 1e9;
        let text = format!(
            "flight recorder: {} of the last {seconds:.1} s {}, because {}",
            records_text(records),
            if records == 1 { "follows" } else { "follow" },
            wanted.because
        );
        self.report_dump(sinks, &text);
    }

    /// Writes the next records of a dump, as many as do not hold anybody up; how many those were.
    fn dump_slice(&mut self, number: usize) -> u64 {
        let mut moved = 0;
        while moved < DUMP_SLICE_RECORDS {
            match self.keep(number) {
                Some(keep) if keep.memory.front().is_some() => {}
                _ => {
                    self.end_dump(number);
                    break;
                }
            }
            if !self.dump_one(number) {
                break;
            }
            moved += 1;
        }
        if moved > 0
            && let Some(dump) = self.keep_mut(number).and_then(|keep| keep.dump.as_mut())
        {
            dump.waiting_since_ns = None;
        }
        moved
    }

    /// Writes one record; `false` while a sink has no buffer to spare.
    fn dump_one(&mut self, number: usize) -> bool {
        if self.is_dump_over_quota(number) {
            self.settle_front(number, false);
            return true;
        }
        let mut has_loaded = false;
        loop {
            let Some(Some(input)) = self.inputs.get_mut(number) else {
                return false;
            };
            let Some(keep) = &input.keep else { return false };
            let Some(kept) = keep.memory.front() else {
                return false;
            };
            let stuck = keep.dump.as_ref().map_or(0, |dump| dump.stuck);
            let Some(Some(site)) = input.sites.get(kept.callsite_id as usize) else {
                if std::mem::replace(&mut has_loaded, true) {
                    // A damaged number; there is nothing to be said about its bytes.
                    self.settle_front(number, false);
                    return true;
                }
                input.load_sites(
                    &self.outlets,
                    self.router.as_ref(),
                    self.recorder_policy.as_deref(),
                );
                continue;
            };
            let line = Record {
                unix_ns: self.calibration.unix_ns(kept.time_ticks),
                thread: Thread {
                    name: kept.thread_name,
                    id: kept.thread_id,
                },
                payload: kept.payload,
            };
            let sinks = site.dump_sinks & !stuck;
            let mut full = None;
            self.staged.clear();
            for (number, outlet) in self.outlets.iter_mut().enumerate() {
                let staged = match site.plans.get(number) {
                    Some(Some(plan)) if sinks >> number & 1 == 1 => outlet.stage_kept(plan, &line),
                    _ => Staged::Dropped(SinkDrop::NotRouted),
                };
                if staged == Staged::Full {
                    full = Some(number);
                    break;
                }
                self.staged.push(staged);
            }
            let Some(full) = full else {
                let is_line = |staged: &Staged| matches!(staged, Staged::Line(_));
                let is_written = self.staged.iter().any(is_line);
                for (outlet, staged) in self.outlets.iter_mut().zip(&self.staged) {
                    outlet.accept(*staged, Level::Trace, false);
                }
                self.spend_dumped(number);
                self.settle_front(number, is_written);
                return true;
            };
            if !self.outlets[full].has_slack() || !self.make_room(full, Level::Trace) {
                return false;
            }
        }
    }

    fn settle_front(&mut self, number: usize, is_written: bool) {
        if let Some(keep) = self.keep_mut(number) {
            keep.memory.advance(is_written);
            if let Some(dump) = &mut keep.dump {
                dump.written += u64::from(is_written);
                dump.lost += u64::from(!is_written);
            }
        }
    }

    /// Everything of a dump is laid out.
    fn end_dump(&mut self, number: usize) {
        let status = std::sync::Arc::clone(&self.status);
        let Some(keep) = self.keep_mut(number) else { return };
        let Some(dump) = keep.dump.take() else { return };
        keep.answer = match dump.by.request {
            Some(request) => Some((request, dump.written, status.request())),
            None => keep.answer,
        };
        answer_dumps(&status, &dump.by, DumpAnswer::Written(dump.written));
        let sinks = keep.sinks & !dump.stuck;
        let text = match dump.lost {
            0 => "flight recorder: end".to_owned(),
            lost => format!(
                "flight recorder: end; {} could not be written in time",
                records_text(lost)
            ),
        };
        self.report_dump(sinks, &text);
    }

    /// A dump goes on without sinks that have had no room for five seconds.
    fn give_up_stuck(&mut self, number: usize, moved: u64) {
        if moved > 0 {
            return;
        }
        let now_ns = monotonic_ns();
        let has_no_slack: u32 = (0..self.outlets.len())
            .filter(|sink| !self.outlets[*sink].has_slack())
            .map(|sink| 1 << sink)
            .sum();
        let Some(keep) = self.keep_mut(number) else { return };
        let sinks = keep.sinks;
        let Some(dump) = &mut keep.dump else { return };
        let since_ns = *dump.waiting_since_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since_ns) < NO_PROGRESS_MS * 1_000_000 {
            return;
        }
        dump.stuck |= has_no_slack;
        dump.waiting_since_ns = None;
        if sinks & !dump.stuck == 0 {
            let held_before = keep.memory.counts().forgotten;
            while keep.memory.is_taking() {
                keep.memory.skip_chunk();
            }
            dump.lost += keep.memory.counts().forgotten - held_before;
        }
    }

    /// A line that frames a dump, whatever the sinks' level.
    fn report_dump(&mut self, sinks: u32, text: &str) {
        for number in 0..self.outlets.len() {
            if sinks >> number & 1 == 0 || self.outlets[number].is_closed() {
                continue;
            }
            let tell = |inside: &InternalNotices, drain_outlets: &mut [crate::sink::buffer::SinkBuffer]| {
                inside.frame(&mut drain_outlets[number], number, text)
            };
            if !tell(&self.inside, &mut self.outlets) && self.make_room(number, Level::Info) {
                tell(&self.inside, &mut self.outlets);
            }
        }
    }

    /// Writes all that a dead process has kept: the number of records. Stops where a sink takes nothing.
    pub(crate) fn dump_dead(&mut self, because: &str) -> u64 {
        // Where its rings held nothing more, no callsite has said yet which sinks it goes to.
        if let Some(Some(input)) = self.inputs.get_mut(0) {
            input.load_sites(
                &self.outlets,
                self.router.as_ref(),
                self.recorder_policy.as_deref(),
            );
        }
        let Some(keep) = self.keep(0) else { return 0 };
        let wanted = DumpRequest {
            span: keep.options.before,
            because: because.to_owned(),
            by: Requesters::default(),
        };
        let on_crash = keep.options.on_crash;
        let written_before = keep.memory.counts().written;
        if on_crash {
            self.start_dump(0, &wanted, self.newest_ticks_kept());
            while !self.failed && self.keep(0).is_some_and(|keep| keep.dump.is_some()) {
                self.dump_slice(0);
            }
        }
        self.keep(0)
            .map_or(0, |keep| keep.memory.counts().written - written_before)
    }

    /// Whether a sink took nothing, so that the rest was left where it is.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// The last time that a dead process has left.
    fn newest_ticks_kept(&self) -> u64 {
        let newest = self.keep(0).map_or(0, |keep| keep.memory.newest_ticks());
        newest.max(self.newest_ticks)
    }

    /// The logger ends in order: nothing has happened that would have it written.
    pub(super) fn forget_kept(&mut self) {
        for keep in self
            .inputs
            .iter_mut()
            .flatten()
            .filter_map(|input| input.keep.as_mut())
        {
            keep.memory.clear();
        }
    }

    /// Whether a dump goes on or is to begin.
    pub(super) fn is_dumping(&self) -> bool {
        self.inputs()
            .filter_map(|input| input.keep.as_ref())
            .any(FlightRecorder::is_busy)
    }

    pub(super) fn has_kept(&self) -> bool {
        let mut keeps = self.inputs().filter_map(|input| input.keep.as_ref());
        keeps.any(|keep| keep.memory.has_changed())
    }

    /// Notes for an epoch what counts of the memories.
    pub(super) fn note_kept(&mut self, epoch: u64) {
        for keep in self
            .inputs
            .iter_mut()
            .flatten()
            .filter_map(|input| input.keep.as_mut())
        {
            keep.memory.note(epoch, self.epoch);
        }
    }

    /// The epoch is published.
    pub(super) fn committed_kept(&mut self) {
        for keep in self
            .inputs
            .iter_mut()
            .flatten()
            .filter_map(|input| input.keep.as_mut())
        {
            keep.memory.committed();
        }
    }
}

/// Records of one session and one route, on their way to its memory.
struct KeepRun<'a> {
    sites: &'a [Option<RoutedCallsite>],
    memory: &'a mut RecorderMemory,
    /// Ticks of the last record that may be taken.
    until: u64,
    times: Times,
    /// The sinks that the records have as their route.
    routed: Option<u32>,
    records: u64,
}

impl KeepRun<'_> {
    /// Keeps records of one ring up to the time; `None` where the next one is beyond it, or is not kept.
    fn take(&mut self, reader: &mut RingReader, index: usize) -> Option<KeepStop> {
        while reader.head.time_ticks <= self.until {
            let id = reader.head.callsite_id as usize;
            let site = self.sites.get(id)?.as_ref().filter(|site| site.keeps)?;
            if *self.routed.get_or_insert(site.routed) != site.routed {
                return Some(KeepStop::Again);
            }
            let (head, payload) = (&reader.head, reader.payload());
            if !self
                .memory
                .push(head, reader.thread_id, &reader.thread_name, payload)
            {
                return Some(KeepStop::NoRoom);
            }
            site.counts.add(0);
            self.records += 1;
            self.times.took(reader.head.time_ticks);
            if !reader.advance_in_window()
                && let Err(error) = reader.look()
            {
                return Some(KeepStop::Broken(index, error));
            }
            if site.trigger.is_some() {
                return Some(KeepStop::Trigger(id));
            }
            if reader.has_enough() {
                return Some(KeepStop::Enough);
            }
        }
        None
    }
}

/// Gives a session of another process the flight recorder that it is to have: the recorder's, or else as its process
/// wishes. What is kept stays where the size stays the same.
pub(super) fn choose_keep(
    input: &mut SessionInput,
    recorder: Option<&dyn RecorderPolicy>,
    status: &BackendStatus,
) {
    let own = input
        .client
        .as_ref()
        .and_then(|client| recorder?.options_for(client));
    let is_requested = own.is_none();
    let before = input.keep.take();
    let Some(options) = own.or_else(|| input.recorder_request.clone()) else {
        if let Some(FlightRecorder { wanted, dump, .. }) = before {
            let by = [wanted.map(|wanted| wanted.by), dump.map(|dump| dump.by)];
            for by in by.iter().flatten() {
                answer_dumps(status, by, DumpAnswer::KeepsNothing);
            }
        }
        return;
    };
    let fresh = |options: RecorderOptions| match is_requested {
        true => FlightRecorder::requested(options),
        false => FlightRecorder::new(RecorderMemory::private(options.bytes), options),
    };
    input.keep = Some(match before {
        Some(keep) if keep.options.bytes == options.bytes => FlightRecorder {
            options,
            is_requested,
            ..keep
        },
        Some(keep) => {
            let mut fresh = fresh(options);
            // Whoever waits for what was kept before gets what there is now.
            fresh.wanted = keep.wanted.or_else(|| {
                let DumpProgress { by, .. } = keep.dump?;
                let because = "of a command".to_owned();
                Some(DumpRequest {
                    span: None,
                    because,
                    by,
                })
            });
            fresh
        }
        None => fresh(options),
    });
}

/// Answers those who have asked for a dump by number.
fn answer_dumps(status: &BackendStatus, by: &Requesters, answer: DumpAnswer) {
    for dump in &by.dumps {
        status.answer_dump(*dump, answer);
    }
}

/// `1 record`, `18,204 records`
fn records_text(records: u64) -> String {
    let plural = if records == 1 { "" } else { "s" };
    format!("{} record{plural}", with_commas(records))
}
