//! The drain: takes records out of all rings, merges them by time and lays them out for every sink.
//!
//! A pass looks at every ring once, takes what is older than the pass, and ends with a commit: ring positions and
//! buffer fills become valid together, then ring space is released. See `spec/session.md` for what that buys.

use crate::feed::{Feed, Router};
use crate::inside::{Inside, gap_callsite};
use crate::keep::{Keep, KeepOptions, Recorder};
use crate::limits::{NO_PROGRESS_MS, PAUSE_BUSY_NS_MAX, PAUSE_NS_MIN, SPARE_RINGS};
use crate::marks::Marks;
use crate::outlet::{Outlet, SinkDrop, Staged, Tuning};
use crate::ration::{Rationing, Rations};
use crate::reader::{NO_RECORD, ReadError, Reader};
use crate::run::Site;
use crate::writer::Message;
use logdrive_ring::clock::{monotonic_ns, ticks_of};
use logdrive_ring::{
    Buffers, Calibration, Calibrator, Consumer, HostedSession, SessionHeader, SessionReader,
};
use logdrive_wire::Level;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

mod housekeeping;
mod members;
mod merge;
mod only_sink;
mod rations;
mod recorder;

use merge::Turns;
use recorder::Dumping;
pub(crate) use recorder::Whose;

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
    feeds: Vec<Option<Feed>>,
    readers: Vec<Reader>,
    spare_windows: Vec<Vec<u8>>,
    buffers: Arc<Buffers>,
    outlets: Vec<Outlet>,
    inside: Inside,
    router: Option<Router>,
    recorder: Option<Box<dyn Recorder>>,
    /// How the process of the session that joins next wants its records kept.
    wish: Option<(u64, KeepOptions)>,
    rations: Rations,
    orders: Option<Receiver<Order>>,
    calibrator: Option<Calibrator>,
    calibration: Calibration,
    coarse: bool,
    epoch: u64,
    sequence: u64,
    newest_ticks: u64,
    turns: Turns,
    staged: Vec<Staged>,
    /// Rings that were found to be damaged in this pass, by feed, with what is to be said.
    damages: Vec<(usize, String)>,
    marks: Arc<Marks>,
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
    pub(crate) outlets: Vec<Outlet>,
    /// Which sinks get which records; without, all do.
    pub(crate) router: Option<Router>,
    /// What the process itself keeps of what no sink takes.
    pub(crate) keep: Option<Keep>,
    /// Where sessions of other processes come from.
    pub(crate) orders: Option<Receiver<Order>>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) counts: Arc<DrainCounts>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) coarse: bool,
    /// The highest sequence number of a buffer so far.
    pub(crate) sequence: u64,
}

/// What another thread asks a drain to do.
pub(crate) enum Order {
    /// Drain this session, too.
    Join(Arc<HostedSession>),
    /// The process of this session writes nothing more: drain the rest, say the text, and forget the session.
    Leave(u64, Option<String>),
    /// Routes have changed.
    Route(Router),
    /// Write what is kept of these processes, so far back, for that reason.
    Dump(Whose, Option<Duration>, String),
    /// The same of one session, with an answer under a number.
    DumpFor {
        /// The number.
        dump: u64,
        /// Which.
        session: u64,
        /// So far back.
        span: Option<Duration>,
        /// For that reason.
        because: String,
    },
    /// The process of this session has crashed, as the text says: write what is kept of it where that is wanted.
    Crash(u64, String),
    /// The process of this session, which joins next, wants its records kept.
    Keep(u64, KeepOptions),
    /// Flight recorders have changed.
    Record(Box<dyn Recorder>),
    /// Rations have changed.
    Ration(Box<dyn Rationing>),
    /// A sink takes other choices.
    Tune(usize, Box<Tuning>),
    /// There is one more sink, in a place of its own or in that of one that is closed.
    Sink(Box<Outlet>),
    /// Nothing comes for this sink any more: write what it has, and close it.
    Close(usize),
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
        let inside = Inside::new(&parts.outlets);
        let epoch = parts.buffers.epoch();
        let mut own = Feed::new(parts.source, epoch, None);
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
            recorder: None,
            wish: None,
            rations: Rations::default(),
            orders: parts.orders,
            calibrator,
            calibration,
            coarse: parts.coarse,
            epoch,
            sequence: parts.sequence,
            newest_ticks: 0,
            turns: Turns::default(),
            marks: parts.marks,
            counts: parts.counts,
            stop: parts.stop,
            housekeeping_at_ns: 0,
            pause_ns: PAUSE_NS_MIN,
            fullest: 0,
            passed_at: Instant::now(),
            failed: false,
            feeds: vec![Some(own)],
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
            self.follow_orders();
            let leaving = self.feeds().any(|feed| feed.leaving.is_some());
            let wanted = self.poll_keeps();
            self.tick_rations(stopping);
            let took = self.pass(stopping || leaving || wanted || requested > answered);
            let dumping = self.write_kept();
            let left = !leaving || self.let_go();
            if requested > answered && left && !self.is_dumping() {
                self.hand_over_all();
                self.tell_all(|| Message::Mark(requested));
                answered = requested;
            }
            self.keep_control(stopping);
            if stopping && (dumping == Dumping::None || self.marks.is_abandoned()) {
                self.forget_kept();
                return self;
            }
            // With a quarter of a ring there is no time for a pause; but one full ring must not keep the others from
            // what is due.
            let is_calm = self.fullest < 32 && dumping != Dumping::Moves;
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
        for (number, feed) in self.feeds.iter_mut().enumerate() {
            let Some(feed) = feed else { continue };
            if feed.leaving.is_some() {
                continue;
            }
            let epoch = feed.epoch;
            for ring in feed.fresh_rings() {
                self.readers
                    .push(Reader::new(Consumer::adopt(ring, epoch), number));
            }
        }
    }

    /// The time of this moment; beyond all others where nobody writes any more.
    fn now_ticks(&self) -> u64 {
        match self.feeds.first() {
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
        let number = self.readers[index].feed;
        if self.leaves_out(number, id) {
            return;
        }
        loop {
            let reader = &self.readers[index];
            let line = reader.line(&self.calibration);
            let Some(site) = site_of(&self.feeds, number, id) else {
                return self.emit_unknown(index);
            };
            let level = site.level;
            let mut full = None;
            self.staged.clear();
            for (number, outlet) in self.outlets.iter_mut().enumerate() {
                let staged = match site.plan(number) {
                    Some(plan) => outlet.stage(plan, &line, level),
                    _ => Staged::Dropped(SinkDrop::Elsewhere),
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
        let number = reader.feed;
        let is_told = match self.feeds.get_mut(number) {
            Some(Some(feed)) => feed.meets_unknown(),
            _ => true,
        };
        if is_told {
            self.tell_of(number, Level::Warn, &text);
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
            let Some(site) = site_of(&self.feeds, reader.feed, id) else {
                return;
            };
            let mut retry = None;
            self.staged.clear();
            for (number, outlet) in self.outlets.iter_mut().enumerate() {
                let staged = match site.plan(number) {
                    Some(_) if full[number] => Staged::Dropped(SinkDrop::Overflow),
                    Some(plan) => outlet.stage(plan, &line, level),
                    _ => Staged::Dropped(SinkDrop::Elsewhere),
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
                    return self.spend_staged(self.readers[index].feed);
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
        let (dead, failed) = (!self.is_live(), self.failed);
        let outlet = &mut self.outlets[number];
        outlet.hand_over();
        let deadline = Instant::now() + Duration::from_millis(NO_PROGRESS_MS);
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
        if !changed && !self.readers.iter().any(Reader::has_taken) && !self.has_kept() {
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
        let whose = match self.feeds.get(self.readers[index].feed) {
            Some(Some(Feed {
                member: Some(member), ..
            })) => format!(" of {member}"),
            _ => String::new(),
        };
        // In the middle of a pass nothing can be written; the rings of a pass bound the list.
        let text = format!("a ring{whose} is damaged and not read any more: {error}");
        self.damages.push((self.readers[index].feed, text));
    }

    fn notices(&mut self) {
        for (number, text) in std::mem::take(&mut self.damages) {
            self.tell_of(number, Level::Warn, &text);
        }
        for text in self.marks.take_notices() {
            self.tell(Level::Warn, &text);
        }
    }

    /// A line about a session, for the sinks that its process's warnings go to: others have nothing to do with it.
    pub(crate) fn tell_of(&mut self, number: usize, level: Level, text: &str) {
        let member = self
            .feeds
            .get(number)
            .and_then(|feed| feed.as_ref()?.member.as_ref());
        let sinks = match (&self.router, member) {
            (Some(router), Some(member)) => router(member, &gap_callsite()),
            _ => u32::MAX,
        };
        self.tell_in(sinks, level, text);
    }

    /// A line of the logger about itself, for every sink.
    pub(crate) fn tell(&mut self, level: Level, text: &str) {
        self.tell_in(u32::MAX, level, text);
    }

    fn tell_in(&mut self, sinks: u32, level: Level, text: &str) {
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

    pub(crate) fn tell_all(&self, message: impl Fn() -> Message) {
        for outlet in &self.outlets {
            outlet.send(message());
        }
    }

    fn feeds(&self) -> impl Iterator<Item = &Feed> {
        self.feeds.iter().flatten()
    }

    /// Whether producers may still write.
    fn is_live(&self) -> bool {
        self.feeds().all(|feed| feed.source.is_live())
    }

    fn renew_coarse_clock(&self) {
        for feed in self.feeds().filter(|feed| feed.source.is_live()) {
            // Relaxed: a time, valid by itself.
            let ticks = ticks_of(feed.source.header().clock_source());
            feed.source
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
            for feed in self.feeds.iter().flatten() {
                feed.source.header().store_calibration(&self.calibration);
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
        let Some(Some(first)) = self.feeds.first() else {
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
        for feed in self.feeds() {
            if feed.client_id.is_some() {
                feed.source.header().set_drain_asleep(asleep);
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
fn site_of(feeds: &[Option<Feed>], number: usize, id: usize) -> Option<&Site> {
    feeds.get(number)?.as_ref()?.sites.get(id)?.as_ref()
}

/// Bytes of a record's lines, in all sinks together.
fn staged_bytes(staged: &[Staged]) -> usize {
    let bytes = |staged: &Staged| match staged {
        Staged::Line(bytes) => *bytes,
        _ => 0,
    };
    staged.iter().map(bytes).sum()
}
