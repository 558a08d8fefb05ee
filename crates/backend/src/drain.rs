//! The drain: takes records out of all rings, merges them by time and lays them out for every sink.
//!
//! A pass looks at every ring once, takes what is older than the pass, and ends with a commit: ring positions and
//! buffer fills become valid together, then ring space is released. See `spec/session.md` for what that buys.

use crate::inside::Inside;
use crate::limits::{
    HOUSEKEEPING_NS, NO_PROGRESS_MS, PAUSE_BUSY_NS_MAX, PAUSE_NS_MAX, PAUSE_NS_MIN, SPARE_RINGS,
};
use crate::marks::Marks;
use crate::outlet::{Outlet, SinkDrop, Staged};
use crate::reader::{NO_RECORD, ReadError, Reader};
use crate::run::{Run, Site};
use crate::source::Source;
use crate::writer::Message;
use logdrive_ring::clock::{monotonic_ns, ticks_of};
use logdrive_ring::{Calibration, Calibrator, Consumer, DropReason};
use logdrive_wire::{Callsite, Level};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
#[derive(Debug)]
pub(crate) struct Drain {
    source: Source,
    readers: Vec<Reader>,
    spare_windows: Vec<Vec<u8>>,
    sites: Vec<Option<Site>>,
    table_place: usize,
    outlets: Vec<Outlet>,
    inside: Inside,
    calibrator: Option<Calibrator>,
    calibration: Calibration,
    coarse: bool,
    epoch: u64,
    sequence: u64,
    newest_ticks: u64,
    staged: Vec<Staged>,
    marks: Arc<Marks>,
    counts: Arc<DrainCounts>,
    stop: Arc<AtomicBool>,
    housekeeping_at_ns: u64,
    told_dropped: [u64; DropReason::COUNT],
    pause_ns: u64,
    /// How full the fullest ring was at the last pass, in sixteenths of an eighth.
    fullest: usize,
    passed_at: Instant,
    /// Whether the recovery of a dead session has been given up.
    failed: bool,
}

/// What a drain is made of.
pub(crate) struct DrainParts {
    pub(crate) source: Source,
    pub(crate) outlets: Vec<Outlet>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) counts: Arc<DrainCounts>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) coarse: bool,
    /// The highest sequence number of a buffer so far.
    pub(crate) sequence: u64,
}

impl Drain {
    pub(crate) fn new(parts: DrainParts) -> Self {
        let calibrator = parts
            .source
            .is_live()
            .then(|| Calibrator::start(parts.source.clock_source()));
        let calibration = match &calibrator {
            Some(calibrator) => {
                parts.source.header().store_calibration(&calibrator.current());
                calibrator.current()
            }
            None => parts.source.last_calibration(),
        };
        let inside = Inside::new(&parts.outlets);
        let epoch = parts.source.buffers().epoch();
        let drain = Self {
            readers: Vec::new(),
            spare_windows: Vec::new(),
            sites: Vec::new(),
            table_place: 0,
            staged: Vec::with_capacity(parts.outlets.len()),
            outlets: parts.outlets,
            inside,
            calibrator,
            calibration,
            coarse: parts.coarse,
            epoch,
            sequence: parts.sequence,
            newest_ticks: 0,
            marks: parts.marks,
            counts: parts.counts,
            stop: parts.stop,
            housekeeping_at_ns: 0,
            told_dropped: [0; DropReason::COUNT],
            pause_ns: PAUSE_NS_MIN,
            fullest: 0,
            passed_at: Instant::now(),
            failed: false,
            source: parts.source,
        };
        drain.renew_coarse_clock();
        drain
    }

    /// The drain thread of a living session: passes with pauses, until it is told to stop.
    pub(crate) fn run(mut self) -> Self {
        logdrive_ring::local::deny_thread();
        logdrive_ring::signals::block_in_thread();
        let mut answered = 0;
        loop {
            // SYNC(stop): what the stopping thread did before is visible to the passes after this load.
            let stopping = self.stop.load(Ordering::Acquire);
            let requested = self.marks.requested();
            let took = self.pass(stopping || requested > answered);
            if requested > answered {
                self.hand_over_all();
                self.tell_all(|| Message::Mark(requested));
                answered = requested;
            }
            if stopping {
                return self;
            }
            // With a quarter of a ring there is no time for a pause.
            if self.fullest < 32 {
                self.recycle_rings();
                self.housekeeping();
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
        let known = self.readers.len();
        let epoch = self.epoch;
        let fresh = self.source.rings_from(known);
        self.readers.extend(
            fresh
                .into_iter()
                .map(|ring| Reader::new(Consumer::adopt(ring, epoch))),
        );
        let start_ticks = if self.source.is_live() {
            ticks_of(self.source.clock_source())
        } else {
            NO_RECORD - 1
        };
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

    /// Half a millisecond: a thread that was stopped between reading its clock and its commit usually goes on within
    /// that time, and its record is still put in order.
    fn order_window_ticks(&self) -> u64 {
        let rate = self.calibration.ns_per_tick_q32.max(1);
        ((500_000u128 << 32) / u128::from(rate)) as u64
    }

    /// Takes records in the order of their times up to the bound. Runs of one ring are taken whole.
    fn merge(&mut self, bound: u64) -> u64 {
        let mut took = 0;
        loop {
            let mut best = usize::MAX;
            let mut best_ticks = NO_RECORD;
            let mut until = bound;
            for (index, reader) in self.readers.iter().enumerate() {
                let ticks = reader.head.time_ticks;
                if ticks < best_ticks {
                    until = until.min(best_ticks);
                    best_ticks = ticks;
                    best = index;
                } else {
                    until = until.min(ticks);
                }
            }
            if best_ticks > bound || best_ticks == NO_RECORD {
                self.counts.drained.fetch_add(took, Ordering::Relaxed);
                return took;
            }
            took += self.run_of(best, until);
        }
    }

    /// Takes records of one ring up to a time; the number of those that count.
    fn run_of(&mut self, index: usize, until: u64) -> u64 {
        let mut counted = 0;
        loop {
            let result = self.run_of_only_sink(index, until, &mut counted);
            let head = self.readers[index].head;
            let result = match result {
                Ok(()) if head.time_ticks > until => return counted,
                // What a run stops at, or any record where there are several sinks.
                Ok(()) => {
                    self.emit(index);
                    counted += u64::from(head.callsite_id != 0);
                    let is_late = head.time_ticks < self.newest_ticks;
                    self.newest_ticks = self.newest_ticks.max(head.time_ticks);
                    // Relaxed: a statistic.
                    self.counts.late.fetch_add(u64::from(is_late), Ordering::Relaxed);
                    self.readers[index].advance()
                }
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                self.quarantine(index, &error);
                return counted;
            }
        }
    }

    /// Takes what needs no more than the one sink there is.
    fn run_of_only_sink(&mut self, index: usize, until: u64, counted: &mut u64) -> Result<(), ReadError> {
        let [outlet] = self.outlets.as_mut_slice() else {
            return Ok(());
        };
        let mut run = Run {
            sites: &self.sites,
            calibration: &self.calibration,
            until,
            newest_ticks: self.newest_ticks,
            late: 0,
            counted: 0,
        };
        let result = outlet.take_run(&mut self.readers[index], &mut run);
        self.newest_ticks = run.newest_ticks;
        *counted += run.counted;
        // Relaxed: a statistic.
        self.counts.late.fetch_add(run.late, Ordering::Relaxed);
        result
    }

    /// Lays the record at a ring's front out for every sink. It counts for all of them or for none, so that a commit
    /// never falls between two sinks of the same record.
    fn emit(&mut self, index: usize) {
        let id = self.readers[index].head.callsite_id as usize;
        if self.sites.get(id).is_none_or(Option::is_none) {
            self.load_sites();
        }
        loop {
            let reader = &self.readers[index];
            let line = reader.line(&self.calibration);
            let Some(Some(site)) = self.sites.get(id) else {
                self.counts.malformed.fetch_add(1, Ordering::Relaxed);
                let text = format!("a record of unknown callsite {id}, {} bytes", line.payload.len());
                for outlet in &mut self.outlets {
                    outlet.accept(Staged::Dropped(SinkDrop::Unknown), Level::Warn, true);
                }
                return self.tell(Level::Warn, &text);
            };
            let level = site.level;
            let mut full = None;
            self.staged.clear();
            for (number, outlet) in self.outlets.iter_mut().enumerate() {
                let Some(plan) = site.plans.get(number) else {
                    continue;
                };
                let staged = outlet.stage(plan, &line, level);
                if staged == Staged::Full {
                    full = Some(number);
                    break;
                }
                self.staged.push(staged);
            }
            let Some(number) = full else {
                for (outlet, staged) in self.outlets.iter_mut().zip(&self.staged) {
                    outlet.accept(*staged, level, id != 0);
                }
                return;
            };
            if !self.make_room(number, level) {
                self.emit_without(index, number, level);
                return;
            }
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
            let Some(Some(site)) = self.sites.get(id) else {
                return;
            };
            let mut retry = None;
            self.staged.clear();
            for (number, outlet) in self.outlets.iter_mut().enumerate() {
                let staged = if full[number] {
                    Staged::Dropped(SinkDrop::Overflow)
                } else {
                    outlet.stage(&site.plans[number], &line, level)
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
                    for (outlet, staged) in self.outlets.iter_mut().zip(&self.staged) {
                        outlet.accept(*staged, level, id != 0);
                    }
                    return;
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
        let marks = Arc::clone(&self.marks);
        let outlet = &mut self.outlets[number];
        outlet.hand_over();
        let deadline = Instant::now() + Duration::from_millis(NO_PROGRESS_MS);
        let (dead, failed) = (!self.source.is_live(), self.failed);
        let given_up = move || match dead {
            // Nobody waits for the records of a dead process: they stay where they are when the disk does not answer.
            true => failed || Instant::now() > deadline,
            // Relaxed: looked at again and again.
            false => stop.load(Ordering::Relaxed) && marks.is_abandoned(),
        };
        let taken = outlet.take_buffer(level.is_urgent(), &mut self.sequence, &given_up);
        self.failed |= dead && !taken;
        let untold = outlet.take_untold();
        if untold > 0 {
            self.inside
                .gap(&mut self.outlets[number], number, untold, "the sink was too slow");
        }
        taken
    }

    /// Makes everything that was taken and laid out so far count, then releases the ring space.
    fn commit(&mut self) {
        if self.failed {
            return;
        }
        let changed = self.outlets.iter().any(Outlet::has_changed);
        if !changed && !self.readers.iter().any(Reader::has_taken) {
            return;
        }
        let next = self.epoch.wrapping_add(1);
        for reader in self.readers.iter().filter(|reader| reader.has_taken()) {
            reader.note(next, self.epoch);
        }
        for outlet in &mut self.outlets {
            outlet.note(next);
        }
        self.source.buffers().publish(next);
        self.epoch = next;
        let now = Instant::now();
        for outlet in &mut self.outlets {
            outlet.committed(now);
        }
        for reader in self.readers.iter_mut().filter(|reader| reader.has_taken()) {
            reader.release();
        }
    }

    /// Reads callsites that were registered since the last look, and compiles their plans.
    #[cold]
    fn load_sites(&mut self) {
        let (found, place) = self.source.callsites_from(self.table_place);
        self.table_place = place;
        for (id, bytes) in found {
            let id = id as usize;
            if self.sites.len() <= id {
                self.sites.resize_with(id + 1, || None);
            }
            // A callsite that cannot be read stays unknown; its records say so.
            if let (Ok(callsite), Some(slot)) = (Callsite::decode(&bytes), self.sites.get_mut(id)) {
                let plans = self
                    .outlets
                    .iter()
                    .map(|outlet| outlet.compile(&callsite))
                    .collect();
                *slot = Some(Site {
                    level: callsite.level,
                    plans,
                });
            }
        }
    }

    fn quarantine(&mut self, index: usize, error: &ReadError) {
        self.readers[index].quarantine();
        self.counts.quarantined.fetch_add(1, Ordering::Relaxed);
        self.marks
            .notice(format!("a ring is damaged and not read any more: {error}"));
    }

    fn notices(&mut self) {
        for text in self.marks.take_notices() {
            self.tell(Level::Warn, &text);
        }
    }

    /// A line of the logger about itself, for every sink.
    pub(crate) fn tell(&mut self, level: Level, text: &str) {
        for number in 0..self.outlets.len() {
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

    pub(crate) fn tell_all(&self, message: impl Fn() -> Message) {
        for outlet in &self.outlets {
            outlet.send(message());
        }
    }

    pub(crate) fn into_source(self) -> Source {
        self.source
    }

    fn renew_coarse_clock(&self) {
        if self.source.is_live() {
            // Relaxed: a time, valid by itself.
            let ticks = ticks_of(self.source.clock_source());
            self.source
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
            && calibrator.renew()
        {
            self.calibration = calibrator.current();
            self.source.header().store_calibration(&self.calibration);
        }
    }

    /// Once a second: finished rings go back, drops that no producer will tell are told, a ring is kept ready.
    fn housekeeping(&mut self) {
        let now_ns = monotonic_ns();
        if now_ns < self.housekeeping_at_ns {
            return;
        }
        self.housekeeping_at_ns = now_ns + HOUSEKEEPING_NS;
        self.source.header().store_disabled(self.counts.disabled_calls());
        self.tell_drops();
    }

    fn recycle_rings(&mut self) {
        for reader in self.readers.iter().filter(|reader| !reader.quarantined) {
            if reader.consumer.is_finished() && !reader.has_taken() {
                self.source.recycle(reader.ring());
            }
        }
    }

    /// Gap lines for drops that their own thread has not told: it ended, is quiet, or never had a ring.
    pub(crate) fn tell_drops(&mut self) {
        let mut counts = [0u64; DropReason::COUNT];
        for reader in &self.readers {
            let idle =
                reader.head.time_ticks == NO_RECORD && reader.consumer.pending_bytes().unwrap_or(0) == 0;
            if idle || reader.quarantined {
                add(&mut counts, &reader.ring().header().take_unannounced());
            }
        }
        let without_ring = self.source.header().dropped();
        for (reason, total) in without_ring.iter().enumerate() {
            counts[reason] = counts[reason].saturating_add(total.saturating_sub(self.told_dropped[reason]));
        }
        self.told_dropped = without_ring;
        for reason in DropReason::ALL
            .into_iter()
            .filter(|reason| counts[*reason as usize] > 0)
        {
            let count = counts[reason as usize];
            self.tell(
                Level::Warn,
                &format!("{count} records dropped: {}", reason.text()),
            );
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
            (self.pause_ns * 2).min(PAUSE_NS_MAX)
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
        if let Source::Live(session) = &self.source {
            if took == 0 {
                // Where this fails, the thread that needs the ring finds out by itself and counts it.
                let _ = session.stock(SPARE_RINGS);
            }
            session.bell().sleep(pause.as_nanos() as u64);
        }
    }
}

fn add(sum: &mut [u64; DropReason::COUNT], more: &[u64; DropReason::COUNT]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.saturating_add(*more);
    }
}
