//! The drain: takes records out of all rings, merges them by time and lays them out for every sink.
//!
//! A pass looks at every ring once, takes what is older than the pass, and ends with a commit: ring positions and
//! buffer fills become valid together, then ring space is released. See `spec/session.md` for what that buys.

use crate::drain::ring_reader::{NO_RECORD, ReadError, RingReader};
use crate::drain::run::RoutedCallsite;
use crate::drain::session_input::{Router, SessionInput};
use crate::flight_recorder::{FlightRecorder, RecorderOptions, RecorderPolicy};
use crate::internal_notices::{InternalNotices, gap_callsite};
use crate::limits::{NO_PROGRESS_MS, PAUSE_BUSY_NS_MAX, PAUSE_NS_MIN, SPARE_RINGS};
use crate::quota::{QuotaPolicy, Quotas};
use crate::sink::buffer::{SinkBuffer, SinkSettings, Staged};
use crate::sink::drop_reason::SinkDrop;
use crate::sink::writer::IoRequest;
use crate::status::BackendStatus;
use logdrive_ring::clock::{monotonic_ns, ticks_of};
use logdrive_ring::{
    Buffers, Calibration, Calibrator, Consumer, HostedSession, SessionHeader, SessionReader,
};
use logdrive_wire::Level;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

pub(crate) mod callsite_counter;
mod housekeeping;
mod merge;
mod quotas;
mod recorder;
pub(crate) mod ring_reader;
pub(crate) mod run;
pub(crate) mod session_input;
mod sessions;
mod single_sink;

use merge::MergeQueue;
pub(crate) use recorder::ClientSelector;
use recorder::DumpState;

/// What the drain counts for everybody to see.
#[derive(Debug, Default)]
pub(crate) struct DrainCounts {
    /// Disabled calls of the process before this session began.
    disabled_before: u64,
    /// Records taken from rings and given to the sinks.
    pub(crate) drained: AtomicU64,
    /// Records with a time before that of an earlier line: their thread was stopped inside of the call.
    pub(crate) late: AtomicU64,
    /// Records whose bytes did not fit their callsite.
    pub(crate) malformed: AtomicU64,
    /// Rings that broke a rule of the format.
    pub(crate) quarantined: AtomicU64,
}

impl DrainCounts {
    /// Counts of a session that begins now.
    pub(crate) fn start() -> Self {
        Self {
            disabled_before: logdrive_ring::local::disabled_calls(),
            ..Self::default()
        }
    }

    /// Calls that their level switched off since the session began.
    pub(crate) fn disabled_calls(&self) -> u64 {
        logdrive_ring::local::disabled_calls().saturating_sub(self.disabled_before)
    }
}

/// Takes records from rings to sinks.
pub(crate) struct Drain {
    /// The sessions by number; 0 is the one whose buffers are the drain's own. One that is over leaves its place to
    /// the next.
    inputs: Vec<Option<SessionInput>>,
    readers: Vec<RingReader>,
    spare_windows: Vec<Vec<u8>>,
    buffers: Arc<Buffers>,
    outlets: Vec<SinkBuffer>,
    inside: InternalNotices,
    router: Option<Router>,
    recorder_policy: Option<Box<dyn RecorderPolicy>>,
    /// How the process of the session that joins next wants its records kept.
    recorder_request: Option<(u64, RecorderOptions)>,
    quotas: Quotas,
    commands: Option<Receiver<Command>>,
    calibrator: Option<Calibrator>,
    calibration: Calibration,
    coarse: bool,
    epoch: u64,
    sequence: u64,
    newest_ticks: u64,
    queue: MergeQueue,
    staged: Vec<Staged>,
    /// Rings that were found to be damaged in this pass, by input, with what is to be said.
    damages: Vec<(usize, String)>,
    status: Arc<BackendStatus>,
    counts: Arc<DrainCounts>,
    stop: Arc<AtomicBool>,
    housekeeping_at_ns: u64,
    pause_ns: u64,
    /// How full the fullest ring was at the last pass, in sixteenths of an eighth.
    fullest: usize,
    passed_at: Instant,
    /// Whether the recovery of a dead session has been given up.
    failed: bool,
}

/// What a drain is made of.
pub(crate) struct DrainParts {
    pub(crate) source: Arc<SessionReader>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) outlets: Vec<SinkBuffer>,
    /// Which sinks get which records; without, all do.
    pub(crate) router: Option<Router>,
    /// What the process itself keeps of what no sink takes.
    pub(crate) keep: Option<FlightRecorder>,
    /// Where sessions of other processes come from.
    pub(crate) commands: Option<Receiver<Command>>,
    pub(crate) status: Arc<BackendStatus>,
    pub(crate) counts: Arc<DrainCounts>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) coarse: bool,
    /// The highest sequence number of a buffer so far.
    pub(crate) sequence: u64,
}

/// Request of another thread to the drain.
pub(crate) enum Command {
    /// Drain this session, too.
    Join(Arc<HostedSession>),
    /// The process of this session writes nothing more: drain the rest, log the text, and forget the session.
    Leave(u64, Option<String>),
    /// Use another router.
    SetRouter(Router),
    /// Write what is recorded of these processes, so far back, for that reason.
    Dump(ClientSelector, Option<Duration>, String),
    /// The same of one session, with an answer under a number.
    DumpFor {
        /// Number of the answer.
        dump: u64,
        /// Session whose records are written.
        session: u64,
        /// Age of the oldest record that is written; `None` for all.
        span: Option<Duration>,
        /// Reason that the log gives.
        reason: String,
    },
    /// The process of this session has crashed, as the text says: write its flight recorder where it asked for that.
    DumpCrashed(u64, String),
    /// The process of this session, which joins next, asks for a flight recorder.
    RequestRecorder(u64, RecorderOptions),
    /// Use another policy for flight recorders.
    SetRecorderPolicy(Box<dyn RecorderPolicy>),
    /// Use another policy for quotas.
    SetQuotaPolicy(Box<dyn QuotaPolicy>),
    /// Change the settings of a sink.
    UpdateSink(usize, Box<SinkSettings>),
    /// Add a sink, in a place of its own or in that of one that is closed.
    AddSink(Box<SinkBuffer>),
    /// Write what this sink has, and close it: no route leads to it any more.
    CloseSink(usize),
}

impl Drain {
    pub(crate) fn new(parts: DrainParts) -> Self {
        let calibrator = parts
            .source
            .is_live()
            .then(|| Calibrator::start(parts.source.header().clock_source()));
        let calibration = match &calibrator {
            Some(calibrator) => {
                parts.source.header().store_calibration(&calibrator.current());
                calibrator.current()
            }
            None => last_calibration(parts.source.header()),
        };
        let inside = InternalNotices::new(&parts.outlets);
        let epoch = parts.buffers.epoch();
        let mut own = SessionInput::new(parts.source, epoch, None);
        own.keep = parts.keep;
        let drain = Self {
            readers: Vec::new(),
            spare_windows: Vec::new(),
            buffers: parts.buffers,
            staged: Vec::with_capacity(parts.outlets.len()),
            damages: Vec::new(),
            outlets: parts.outlets,
            inside,
            router: parts.router,
            recorder_policy: None,
            recorder_request: None,
            quotas: Quotas::default(),
            commands: parts.commands,
            calibrator,
            calibration,
            coarse: parts.coarse,
            epoch,
            sequence: parts.sequence,
            newest_ticks: 0,
            queue: MergeQueue::default(),
            status: parts.status,
            counts: parts.counts,
            stop: parts.stop,
            housekeeping_at_ns: 0,
            pause_ns: PAUSE_NS_MIN,
            fullest: 0,
            passed_at: Instant::now(),
            failed: false,
            inputs: vec![Some(own)],
        };
        drain.renew_coarse_clock();
        drain
    }

    /// The drain thread of a living session: passes with pauses, until it is reported to stop.
    pub(crate) fn run(mut self) -> Self {
        logdrive_ring::local::deny_thread();
        logdrive_ring::signals::block_in_thread();
        let mut answered = 0;
        loop {
            // SYNC(stop): what the stopping thread did before is visible to the passes after this load.
            let stopping = self.stop.load(Ordering::Acquire);
            let requested = self.status.requested();
            self.handle_commands();
            let leaving = self.inputs().any(|input| input.leaving.is_some());
            let wanted = self.poll_keeps();
            self.tick_quotas(stopping);
            let took = self.pass(stopping || leaving || wanted || requested > answered);
            let dumping = self.write_kept();
            let left = !leaving || self.let_go();
            if requested > answered && left && !self.is_dumping() {
                self.hand_over_all();
                self.tell_all(|| IoRequest::Mark(requested));
                answered = requested;
            }
            self.keep_control(stopping);
            if stopping && (dumping == DumpState::None || self.status.is_abandoned()) {
                self.forget_kept();
                return self;
            }
            // With a quarter of a ring there is no time for a pause; but one full ring must not keep the others from
            // what is due.
            let is_calm = self.fullest < 32 && dumping != DumpState::Moves;
            if is_calm || monotonic_ns() >= self.housekeeping_at_ns {
                self.recycle_rings();
                self.housekeeping();
            }
            if is_calm {
                self.rest(took);
            }
        }
    }

    /// Passes until the rings of a dead process are empty; `false` when a sink took nothing for five seconds. Then what
    /// was not committed is still in the session.
    pub(crate) fn run_to_end(&mut self) -> bool {
        loop {
            let took = self.pass(true);
            if took == 0 || self.failed {
                return !self.failed;
            }
        }
    }

    /// One pass; the number of records taken. With `all`, records up to this very moment are taken.
    fn pass(&mut self, all: bool) -> u64 {
        self.renew_clock();
        // A ring that comes after this look has only times behind the bound, so the time is read before.
        let start_ticks = self.now_ticks();
        self.add_readers();
        // Some seconds ahead of now no honest time can be.
        let latest_ticks = start_ticks.saturating_add(1 << 32).min(NO_RECORD - 1);
        let mut bound = start_ticks;
        let mut pressure = all;
        self.fullest = 0;
        for index in 0..self.readers.len() {
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
                    pressure |= left > reader.ring().capacity_bytes() / 16;
                    let eighths = left * 8 * 16 / reader.ring().capacity_bytes();
                    self.fullest = self.fullest.max(eighths);
                }
                Err(error) => self.quarantine(index, &error),
            }
        }
        if !pressure {
            bound = bound.saturating_sub(self.order_window_ticks());
        }
        let took = self.merge(bound);
        self.notices();
        self.commit();
        let now = Instant::now();
        for outlet in &mut self.outlets {
            if outlet.wants_flush(now) {
                outlet.hand_over();
            }
        }
        for reader in &mut self.readers {
            reader.park(&mut self.spare_windows);
        }
        took
    }

    /// Readers for rings that are new.
    fn add_readers(&mut self) {
        for (number, input) in self.inputs.iter_mut().enumerate() {
            let Some(input) = input else { continue };
            if input.leaving.is_some() {
                continue;
            }
            let epoch = input.epoch;
            for ring in input.fresh_rings() {
                self.readers
                    .push(RingReader::new(Consumer::adopt(ring, epoch), number));
            }
        }
    }

    /// The time of this moment; beyond all others where nobody writes any more.
    fn now_ticks(&self) -> u64 {
        match self.inputs.first() {
            Some(Some(own)) if own.source.is_live() => ticks_of(own.source.header().clock_source()),
            _ => NO_RECORD - 1,
        }
    }

    /// Half a millisecond: a thread that was stopped between reading its clock and its commit usually goes on within
    /// that time, and its record is still put in order.
    fn order_window_ticks(&self) -> u64 {
        let rate = self.calibration.ns_per_tick_q32.max(1);
        ((500_000u128 << 32) / u128::from(rate)) as u64
    }

    /// Lays the record at a ring's front out for every sink. It counts for all of them or for none, so that a commit
    /// never falls between two sinks of the same record.
    fn emit(&mut self, index: usize) {
        let id = self.readers[index].head.callsite_id as usize;
        let number = self.readers[index].input;
        if self.exceeds_quota(number, id) {
            return;
        }
        loop {
            let reader = &self.readers[index];
            let line = reader.line(&self.calibration);
            let Some(site) = site_of(&self.inputs, number, id) else {
                return self.emit_unknown(index);
            };
            let level = site.level;
            let mut full = None;
            self.staged.clear();
            for (number, outlet) in self.outlets.iter_mut().enumerate() {
                let staged = match site.plan(number) {
                    Some(plan) => outlet.stage(plan, &line, level),
                    _ => Staged::Dropped(SinkDrop::NotRouted),
                };
                if staged == Staged::Full {
                    full = Some(number);
                    break;
                }
                self.staged.push(staged);
            }
            let Some(number) = full else {
                site.counts.add(staged_bytes(&self.staged));
                for (outlet, staged) in self.outlets.iter_mut().zip(&self.staged) {
                    outlet.accept(*staged, level, id != 0);
                }
                return self.spend_staged(number);
            };
            if !self.make_room(number, level) {
                self.emit_without(index, number, level);
                return;
            }
        }
    }

    /// A record of which nothing is known but its length.
    #[cold]
    fn emit_unknown(&mut self, index: usize) {
        let reader = &self.readers[index];
        let id = reader.head.callsite_id;
        let text = format!(
            "a record of unknown callsite {id}, {} bytes",
            reader.payload().len()
        );
        self.counts.malformed.fetch_add(1, Ordering::Relaxed);
        for outlet in &mut self.outlets {
            outlet.accept(Staged::Dropped(SinkDrop::Unknown), Level::Warn, true);
        }
        let number = reader.input;
        let is_told = match self.inputs.get_mut(number) {
            Some(Some(input)) => input.meets_unknown(),
            _ => true,
        };
        if is_told {
            self.report_for(number, Level::Warn, &text);
        }
    }

    /// The record goes to all sinks but those that have no room for it.
    #[cold]
    fn emit_without(&mut self, index: usize, first_full: usize, level: Level) {
        let mut full = vec![false; self.outlets.len()];
        full[first_full] = true;
        loop {
            let reader = &self.readers[index];
            let line = reader.line(&self.calibration);
            let id = reader.head.callsite_id as usize;
            let Some(site) = site_of(&self.inputs, reader.input, id) else {
                return;
            };
            let mut retry = None;
            self.staged.clear();
            for (number, outlet) in self.outlets.iter_mut().enumerate() {
                let staged = match site.plan(number) {
                    Some(_) if full[number] => Staged::Dropped(SinkDrop::Overflow),
                    Some(plan) => outlet.stage(plan, &line, level),
                    _ => Staged::Dropped(SinkDrop::NotRouted),
                };
                if staged == Staged::Full {
                    retry = Some(number);
                    break;
                }
                self.staged.push(staged);
            }
            match retry {
                Some(number) => full[number] = !self.make_room(number, level),
                None => {
                    site.counts.add(staged_bytes(&self.staged));
                    for (outlet, staged) in self.outlets.iter_mut().zip(&self.staged) {
                        outlet.accept(*staged, level, id != 0);
                    }
                    return self.spend_staged(self.readers[index].input);
                }
            }
        }
    }

    /// A fresh buffer for a sink. What was taken so far is committed first, because a buffer may only be written once
    /// its fill is.
    #[cold]
    fn make_room(&mut self, number: usize, level: Level) -> bool {
        self.commit();
        let stop = Arc::clone(&self.stop);
        let status = Arc::clone(&self.status);
        let (dead, failed) = (!self.is_live(), self.failed);
        let outlet = &mut self.outlets[number];
        outlet.hand_over();
        let deadline = Instant::now() + Duration::from_millis(NO_PROGRESS_MS);
        let given_up = move || match dead {
            // Nobody waits for the records of a dead process: they stay where they are when the disk does not answer.
            true => failed || Instant::now() > deadline,
            // Relaxed: looked at again and again.
            false => stop.load(Ordering::Relaxed) && status.is_abandoned(),
        };
        let taken = outlet.take_buffer(level.is_urgent(), &mut self.sequence, &given_up);
        self.failed |= dead && !taken;
        let unreported = outlet.take_unreported();
        if unreported > 0 {
            self.inside.gap(
                &mut self.outlets[number],
                number,
                unreported,
                "the sink was too slow",
            );
        }
        taken
    }

    /// Makes everything that was taken and laid out so far count, then releases the ring space.
    fn commit(&mut self) {
        if self.failed {
            return;
        }
        let changed = self.outlets.iter().any(SinkBuffer::has_changed);
        if !changed && !self.readers.iter().any(RingReader::has_taken) && !self.has_kept() {
            return;
        }
        let next = self.epoch.wrapping_add(1);
        for reader in self.readers.iter().filter(|reader| reader.has_taken()) {
            reader.note(next, self.epoch);
        }
        for outlet in &mut self.outlets {
            outlet.note(next);
        }
        self.note_kept(next);
        self.buffers.publish(next);
        self.epoch = next;
        self.committed_kept();
        let now = Instant::now();
        for outlet in &mut self.outlets {
            outlet.committed(now);
        }
        for reader in self.readers.iter_mut().filter(|reader| reader.has_taken()) {
            reader.release();
        }
    }

    fn quarantine(&mut self, index: usize, error: &ReadError) {
        self.readers[index].quarantine();
        self.counts.quarantined.fetch_add(1, Ordering::Relaxed);
        let whose = match self.inputs.get(self.readers[index].input) {
            Some(Some(SessionInput {
                client: Some(client), ..
            })) => format!(" of {client}"),
            _ => String::new(),
        };
        // In the middle of a pass nothing can be written; the rings of a pass bound the list.
        let text = format!("a ring{whose} is damaged and not read any more: {error}");
        self.damages.push((self.readers[index].input, text));
    }

    fn notices(&mut self) {
        for (number, text) in std::mem::take(&mut self.damages) {
            self.report_for(number, Level::Warn, &text);
        }
        for text in self.status.take_notices() {
            self.tell(Level::Warn, &text);
        }
    }

    /// A line about a session, for the sinks that its process's warnings go to: others have nothing to do with it.
    pub(crate) fn report_for(&mut self, number: usize, level: Level, text: &str) {
        let client = self
            .inputs
            .get(number)
            .and_then(|input| input.as_ref()?.client.as_ref());
        let sinks = match (&self.router, client) {
            (Some(router), Some(client)) => router(client, &gap_callsite()),
            _ => u32::MAX,
        };
        self.report_to(sinks, level, text);
    }

    /// A line of the logger about itself, for every sink.
    pub(crate) fn tell(&mut self, level: Level, text: &str) {
        self.report_to(u32::MAX, level, text);
    }

    fn report_to(&mut self, sinks: u32, level: Level, text: &str) {
        let sinks = sinks & self.open_sinks();
        for number in (0..self.outlets.len()).filter(|number| sinks >> number & 1 == 1) {
            if self.inside.notice(&mut self.outlets[number], number, level, text) {
                continue;
            }
            if self.make_room(number, level) {
                self.inside.notice(&mut self.outlets[number], number, level, text);
            }
        }
    }

    /// Commits, and gives every fill to its I/O thread.
    pub(crate) fn hand_over_all(&mut self) {
        self.commit();
        for outlet in &mut self.outlets {
            outlet.hand_over();
        }
    }

    pub(crate) fn tell_all(&self, message: impl Fn() -> IoRequest) {
        for outlet in &self.outlets {
            outlet.send(message());
        }
    }

    fn inputs(&self) -> impl Iterator<Item = &SessionInput> {
        self.inputs.iter().flatten()
    }

    /// Whether producers may still write.
    fn is_live(&self) -> bool {
        self.inputs().all(|input| input.source.is_live())
    }

    fn renew_coarse_clock(&self) {
        for input in self.inputs().filter(|input| input.source.is_live()) {
            // Relaxed: a time, valid by itself.
            let ticks = ticks_of(input.source.header().clock_source());
            input
                .source
                .header()
                .coarse_clock()
                .store(ticks, Ordering::Relaxed);
        }
    }

    fn renew_clock(&mut self) {
        if self.coarse {
            self.renew_coarse_clock();
        }
        if let Some(calibrator) = self.calibrator.as_mut()
            && calibrator.renew(self.newest_ticks)
        {
            self.calibration = calibrator.current();
            for input in self.inputs.iter().flatten() {
                input.source.header().store_calibration(&self.calibration);
            }
        }
    }

    /// Pauses until the fullest ring is likely to be an eighth full: every wake-up takes time from the program's own
    /// threads. Longer and longer when nothing comes, and never past a flush that is due.
    fn rest(&mut self, took: u64) {
        let now = Instant::now();
        let since_last_ns = (now - self.passed_at).as_nanos() as u64;
        self.passed_at = now;
        self.pause_ns = if took > 0 {
            let until_an_eighth_ns = since_last_ns.saturating_mul(16) / (self.fullest as u64).max(1);
            until_an_eighth_ns.clamp(PAUSE_NS_MIN, PAUSE_BUSY_NS_MAX)
        } else {
            (self.pause_ns * 2).min(self.longest_pause_ns())
        };
        let mut pause = Duration::from_nanos(self.pause_ns);
        if self.coarse {
            pause = pause.min(Duration::from_millis(1));
        }
        for outlet in &self.outlets {
            if let Some(due) = outlet.due_in(now) {
                pause = pause.min(due.max(Duration::from_nanos(PAUSE_NS_MIN)));
            }
        }
        let Some(Some(first)) = self.inputs.first() else {
            return;
        };
        let Some(session) = first.source.own() else {
            if first.source.is_live() {
                first.source.header().sleep_drain(pause.as_nanos() as u64);
            }
            return;
        };
        if took == 0 {
            // Where this fails, the thread that needs the ring finds out by itself and counts it.
            let _ = session.make_spare_ring(SPARE_RINGS);
        }
        self.set_asleep(true);
        session.waker().sleep(pause.as_nanos() as u64);
        self.set_asleep(false);
    }

    /// Tells the processes that share their sessions whether to ring when they need us.
    fn set_asleep(&self, asleep: bool) {
        for input in self.inputs() {
            if input.client_id.is_some() {
                input.source.header().set_drain_asleep(asleep);
            }
        }
    }
}

/// The calibration that a dead process left; without one, times count from its start.
fn last_calibration(header: &SessionHeader) -> Calibration {
    header.calibration().unwrap_or(Calibration {
        base_ticks: 0,
        base_unix_ns: header.start_unix_ns(),
        ns_per_tick_q32: 0,
    })
}

/// A callsite of a session.
#[inline]
fn site_of(inputs: &[Option<SessionInput>], number: usize, id: usize) -> Option<&RoutedCallsite> {
    inputs.get(number)?.as_ref()?.sites.get(id)?.as_ref()
}

/// Bytes of a record's lines, in all sinks together.
fn staged_bytes(staged: &[Staged]) -> usize {
    let bytes = |staged: &Staged| match staged {
        Staged::Line(bytes) => *bytes,
        _ => 0,
    };
    staged.iter().map(bytes).sum()
}
