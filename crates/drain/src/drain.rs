//! The drain: takes records out of all rings, merges them by time and lays them out for every sink.
//!
//! A record's way is collect, merge, route, emit: [`collect`] copies it out of its ring, [`merge`] finds it to be the
//! next by time, [`route`] says which destinations get it, and [`emit`] lays it out in their buffers and commits. See
//! `spec/session.md` for what the commit buys.

use crate::limits::{
    HOUSEKEEPING_NS, PAUSE_BUSY_NS_MAX, PAUSE_NS_MAX, PAUSE_NS_MIN, PAUSE_SESSIONS, PAUSE_TIMES_MAX,
    SPARE_RINGS,
};
use crate::sink::writer::IoRequest;
use crate::status::{WaitLimit, Waited};
use logdrive_ring::clock::monotonic_ns;
use logdrive_ring::damage_told;
use logdrive_wire::Level;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

pub(crate) mod callsite;
mod clock;
mod collect;
pub(crate) mod command;
pub(crate) mod counts;
mod dump;
mod emit;
pub(crate) mod input_account;
mod merge;
pub(crate) mod pipeline;
mod report;
pub(crate) mod ring_reader;
pub(crate) mod route;
pub(crate) mod run;
mod session_input;
mod sessions;

use command::{Command, handle_commands};
use dump::DumpState;
use merge::{MergeQueue, merge};
use pipeline::{DrainParts, Pipeline};

/// Outcome of the end of a drain.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// All sinks have ended, with all that they were given.
    pub(crate) is_complete: bool,
    /// The line of the end, where there is one.
    pub(crate) end: Option<String>,
}

/// Takes records from rings to sinks.
pub(crate) struct Drain {
    pipe: Pipeline,
    queue: MergeQueue,
    /// Commands of other threads.
    commands: Option<Receiver<Command>>,
    stop: Arc<AtomicBool>,
    housekeeping_at_ns: u64,
    pause_ns: u64,
    passed_at: Instant,
}

impl Drain {
    pub(crate) fn new(parts: DrainParts, commands: Option<Receiver<Command>>) -> Self {
        Self {
            stop: Arc::clone(&parts.stop),
            pipe: Pipeline::new(parts),
            queue: MergeQueue::default(),
            commands,
            housekeeping_at_ns: 0,
            pause_ns: PAUSE_NS_MIN,
            passed_at: Instant::now(),
        }
    }

    /// Runs the drain thread of a living session: passes with pauses, until it is told to stop.
    pub(crate) fn run(mut self) -> Self {
        logdrive_ring::local::deny_thread();
        logdrive_ring::signals::block_in_thread();
        let mut answered = 0;
        loop {
            // SYNC(stop): what the stopping thread did before is visible to the passes after this load.
            let stopping = self.stop.load(Ordering::Acquire);
            let requested = self.pipe.status.newest_ticket();
            if let Some(commands) = &self.commands {
                handle_commands(&mut self.pipe, commands);
            }
            let is_leaving = self.pipe.collect.inputs().any(|input| input.leaving.is_some());
            let has_dumps = self.pipe.collect.poll_recorders();
            report::tick_quotas(&mut self.pipe, stopping);
            let took = self.pass(stopping || is_leaving || has_dumps || requested > answered);
            let dumps = dump::write_slices(&mut self.pipe);
            let has_left = !is_leaving || sessions::remove_finished(&mut self.pipe);
            if requested > answered && has_left && !self.pipe.collect.is_dumping() {
                self.pipe.pass_ticket(requested);
                answered = requested;
            }
            report::maintain_control(&mut self.pipe, stopping);
            if stopping && (dumps == DumpState::None || self.pipe.status.is_abandoned()) {
                self.clear_recorders();
                return self;
            }
            // With a quarter of a ring there is no time for a pause; but one full ring must not keep the others from
            // what is due.
            let has_time = self.pipe.collect.fullest < 32 && dumps != DumpState::Moves;
            if has_time || monotonic_ns() >= self.housekeeping_at_ns {
                self.pipe.collect.recycle_rings();
                self.housekeeping();
            }
            if has_time {
                self.rest(took);
            }
        }
    }

    /// Passes until the rings of a dead process are empty; `false` when a sink took nothing for five seconds. Then what
    /// was not committed is still in the session.
    pub(crate) fn run_to_end(&mut self) -> bool {
        loop {
            let took = self.pass(true);
            if took == 0 || self.has_failed() {
                return !self.has_failed();
            }
        }
    }

    /// Makes one pass; returns the number of records taken. With `all`, records up to this very moment are taken.
    fn pass(&mut self, all: bool) -> u64 {
        let pipe = &mut self.pipe;
        pipe.emit.begin_pass(Instant::now());
        pipe.clock.renew(&pipe.collect);
        // A ring that comes after this look has only times behind the bound, so the time is read before.
        let mut bound = pipe.collect.now_ticks();
        pipe.collect.add_readers();
        if !pipe.collect.observe(bound) && !all {
            bound = bound.saturating_sub(pipe.clock.order_window_ticks());
        }
        let took = merge(pipe, &mut self.queue, bound);
        report::report_notices(pipe);
        pipe.commit();
        pipe.emit.hand_over_due();
        pipe.collect.park();
        took
    }

    /// Reports, once a second, drops that no producer reports.
    fn housekeeping(&mut self) {
        let now_ns = monotonic_ns();
        if now_ns < self.housekeeping_at_ns {
            return;
        }
        self.housekeeping_at_ns = now_ns + HOUSEKEEPING_NS;
        if let Some(own) = self.pipe.collect.input(0)
            && let Some(writer) = own.session.own()
        {
            // If the lock cannot be taken now, number and start of the process still show that it lives.
            let _ = writer.keep_lock();
            let disabled = self.pipe.counts.disabled_calls();
            own.session.header().store_disabled(disabled);
            if let Some(text) = writer.take_notice() {
                self.pipe.status.notice(text);
            }
        }
        report::report_drops(&mut self.pipe);
    }

    /// Pauses until the fullest ring is likely to be an eighth full: every wake-up takes time from the program's own
    /// threads. Longer and longer when nothing comes, and never past a flush that is due.
    fn rest(&mut self, took: u64) {
        let now = Instant::now();
        let since_last_ns = (now - self.passed_at).as_nanos() as u64;
        self.passed_at = now;
        self.pause_ns = if took > 0 {
            let fullest = (self.pipe.collect.fullest as u64).max(1);
            let until_an_eighth_ns = since_last_ns.saturating_mul(16) / fullest;
            until_an_eighth_ns.clamp(PAUSE_NS_MIN, PAUSE_BUSY_NS_MAX)
        } else {
            (self.pause_ns * 2).min(self.longest_pause_ns())
        };
        let mut pause = Duration::from_nanos(self.pause_ns);
        if self.pipe.clock.is_coarse {
            pause = pause.min(Duration::from_millis(1));
        }
        for sink in &self.pipe.emit.sinks {
            if let Some(due) = sink.due_in(now) {
                pause = pause.min(due.max(Duration::from_nanos(PAUSE_NS_MIN)));
            }
        }
        let Some(first) = self.pipe.collect.input(0) else {
            return;
        };
        let Some(session) = first.session.own() else {
            if first.session.is_live() {
                first.session.header().sleep_drain(pause.as_nanos() as u64);
            }
            return;
        };
        // If this fails, the thread that needs the ring finds out by itself and counts it.
        let _ = session.make_spare_ring(SPARE_RINGS, took == 0);
        self.set_asleep(true);
        session.waker().sleep(pause.as_nanos() as u64);
        self.set_asleep(false);
    }

    /// Returns the longest pause while nothing comes: with many sessions, each of which a pass checks, longer.
    fn longest_pause_ns(&self) -> u64 {
        let sessions = self.pipe.collect.inputs.len() as u64;
        PAUSE_NS_MAX * (1 + sessions / PAUSE_SESSIONS).min(PAUSE_TIMES_MAX)
    }

    /// Notes for the processes that share their sessions whether to wake the drain when they need it.
    fn set_asleep(&self, asleep: bool) {
        for input in self
            .pipe
            .collect
            .inputs()
            .filter(|input| input.client_id.is_some())
        {
            input.session.header().set_drain_asleep(asleep);
        }
    }

    /// Forgets what flight recorders hold: the logger ends in order, and nothing has happened that would have it
    /// written.
    fn clear_recorders(&mut self) {
        for input in self.pipe.collect.inputs_mut() {
            if let Some(recorder) = &mut input.recorder {
                recorder.memory.clear();
            }
        }
    }

    /// Writes all that the flight recorder of a dead process holds; returns the number of records.
    pub(crate) fn dump_dead(&mut self, reason: &str) -> u64 {
        dump::write_dead(&mut self.pipe, reason)
    }

    /// Writes those lines about damage of a dead process's session that no earlier recovery has written, each with a commit
    /// of its own.
    pub(crate) fn tell_damage(&mut self, lines: &[String]) {
        // A recovery that was killed behind its last line has told all.
        let told = match self.pipe.buffers.has_end() {
            true => lines.len(),
            false => damage_told(&self.pipe.buffers) as usize,
        };
        for (number, line) in lines.iter().enumerate().skip(told) {
            self.pipe.report_damage(number as u64 + 1, line);
        }
    }

    /// Returns whether a sink took nothing, so that the rest was left where it is.
    pub(crate) fn has_failed(&self) -> bool {
        self.pipe.emit.has_failed
    }

    /// Ends the drain: reports what is left to report, hands all over with a last line, and closes the sinks, until the
    /// given moment. `end` is that line and its level; where it says how a process of another session ended, that one writes
    /// nothing more. It gets the final sums; where the logger ends in order, only if something was dropped.
    pub(crate) fn close(mut self, end: Option<(Level, &str)>, until: Option<Instant>) -> Closed {
        // A recovery that was killed behind its last line has reported all.
        let end = match end {
            Some((_, text)) if self.pipe.buffers.has_end() => Some(text.to_owned()),
            _ => self.report_end(end),
        };
        self.pipe.hand_over_all();
        self.pipe.emit.send_all(|| IoRequest::Close);
        Closed {
            is_complete: self.pipe.status.wait_closed(WaitLimit::until(until)) == Waited::Done,
            end,
        }
    }

    /// Reports what is left to report, and the end; returns its line.
    fn report_end(&mut self, end: Option<(Level, &str)>) -> Option<String> {
        let own = self.pipe.collect.input(0);
        let is_over = end.is_some() && own.is_some_and(|own| own.session.own().is_none());
        report::report_last_drops(&mut self.pipe, is_over);
        let (level, text) = report::describe_end(&mut self.pipe, end, is_over)?;
        self.pipe.report_end(level, &text);
        Some(text)
    }
}
