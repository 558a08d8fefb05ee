//! Merge: takes the records of all rings in the order of their times, and gives them to their destinations.
//!
//! Where the next records go to one destination alone, a sink or the flight recorder, they are taken in runs without a
//! look at anything else. Every other record is laid out for all its sinks by itself.

use super::collect::Collector;
use super::dump;
use super::emit::Selection;
use super::pipeline::Pipeline;
use super::ring_reader::{NO_RECORD, RingReader};
use super::route::{Destination, SingleSink};
use super::run::{Run, Stop, record_run};
use super::session_input::SessionInput;
use crate::flight_recorder::memory::RecorderMemory;
use crate::limits::KEEP_ROOM_TRIES;
use crate::sink::buffer::SinkBuffer;
use crate::sink::drop_reason::SinkDrop;
use logdrive_wire::Level;
use std::sync::atomic::Ordering;

/// Rings with records to take, by the times of their first ones. The earliest stands last, so that it is changed in
/// place: where threads log at the same time, their rings take turns record by record, and few of them move.
#[derive(Debug, Default)]
pub(super) struct MergeQueue {
    heads: Vec<(u64, usize)>,
}

impl MergeQueue {
    /// Takes all rings with records up to the bound.
    fn fill(&mut self, readers: &[RingReader], bound: u64) {
        let heads = readers.iter().map(|reader| reader.head.time_ticks);
        let heads = heads.enumerate().map(|(index, ticks)| (ticks, index));
        self.heads.clear();
        self.heads
            .extend(heads.filter(|(ticks, _)| *ticks <= bound && *ticks != NO_RECORD));
        self.heads.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Returns the ring that comes first, and up to which time its records come before those of all others.
    #[inline]
    pub(super) fn first(&self, bound: u64) -> Option<(usize, u64)> {
        match self.heads.as_slice() {
            [.., (until, _), (_, index)] => Some((*index, *until)),
            [(_, index)] => Some((*index, bound)),
            [] => None,
        }
    }

    /// Notes that the first ring begins with a record of another time now.
    #[inline]
    pub(super) fn update_first(&mut self, ticks: u64, bound: u64) {
        if ticks > bound || ticks == NO_RECORD {
            self.heads.pop();
            return;
        }
        let Some(mut at) = self.heads.len().checked_sub(1) else {
            return;
        };
        let (_, index) = self.heads[at];
        // Of equal times, the one that is being read comes first.
        while let Some(before) = at.checked_sub(1)
            && self.heads[before].0 < ticks
        {
            self.heads[at] = self.heads[before];
            at = before;
        }
        self.heads[at] = (ticks, index);
    }
}

/// Destination of a run, open to take records.
enum Taker<'a> {
    Sink(&'a mut SinkBuffer),
    Recorder(&'a mut RecorderMemory),
}

/// Records that runs took.
struct Taken {
    /// Those that count.
    counted: u64,
    /// Set if there were any.
    is_any: bool,
    /// Number of the session of the last one.
    input: usize,
    stop: Stop,
}

/// Takes records in the order of their times up to the bound; returns the number of those that count.
pub(super) fn merge(pipe: &mut Pipeline, queue: &mut MergeQueue, bound: u64) -> u64 {
    let mut took = 0;
    let mut room_tries = 0;
    let buffer_bytes = pipe.buffers.buffer_bytes() as u64;
    queue.fill(&pipe.collect.readers, bound);
    while let Some((index, _)) = queue.first(bound) {
        if pipe.emit.has_failed {
            // Nothing is committed any more: the rest stays in the session of the dead process.
            break;
        }
        let destination = pipe
            .route
            .destination(&pipe.collect, &pipe.emit.sinks, buffer_bytes, index);
        // Where even dumping does not make room, the record goes the way of one that is not recorded.
        let destination = destination.filter(|_| room_tries <= KEEP_ROOM_TRIES);
        let Some(destination) = destination else {
            room_tries = 0;
            took += take_first(pipe, queue, bound, true);
            continue;
        };
        let Some(taken) = take_runs(pipe, queue, bound, destination) else {
            took += take_first(pipe, queue, bound, true);
            continue;
        };
        took += taken.counted;
        if taken.is_any {
            room_tries = 0;
        }
        match taken.stop {
            // What a sink's run stops at mostly needs more sinks; but it may be for the flight recorder.
            Stop::Other if !taken.is_any || matches!(destination, Destination::Sink(_)) => {
                took += take_first(pipe, queue, bound, false);
            }
            Stop::Other | Stop::Again => {}
            Stop::Enough => pipe.commit(),
            Stop::NoRoom => {
                room_tries += 1;
                dump::make_room(pipe, taken.input);
            }
            Stop::Trigger(id) => dump::start_triggered(pipe, taken.input, id),
            Stop::Broken(error, trigger) => {
                if let Some(id) = trigger {
                    dump::start_triggered(pipe, taken.input, id);
                }
                if let Some((index, _)) = queue.first(bound) {
                    pipe.collect.quarantine(index, &error);
                    queue.update_first(NO_RECORD, bound);
                }
            }
        }
    }
    // Relaxed: a statistic.
    pipe.counts.drained.fetch_add(took, Ordering::Relaxed);
    took
}

/// Takes runs of one destination, from rings of one session and of further ones whose records go the same way. `None`
/// where the destination is gone.
fn take_runs(
    pipe: &mut Pipeline,
    queue: &mut MergeQueue,
    bound: u64,
    destination: Destination,
) -> Option<Taken> {
    let (first, _) = queue.first(bound)?;
    let (collect, emit, clock) = (&mut pipe.collect, &mut pipe.emit, &mut pipe.clock);
    let Collector { inputs, readers, .. } = collect;
    let mut number = readers[first].input;
    let owner = number;
    // Out of its session, so that callsites can be read while it is written to.
    let mut recorder = match destination {
        Destination::Recorder => inputs.get_mut(number)?.as_mut()?.recorder.take(),
        Destination::Sink(_) => None,
    };
    let mut input = inputs.get(number)?.as_ref()?;
    let mut run = Run::new(&input.callsites, &clock.calibration, clock.newest_ticks);
    let (mut taker, single) = match (destination, &mut recorder) {
        (Destination::Sink(single), _) => {
            (run.below, run.route) = (single.below, single.route);
            (Taker::Sink(emit.sinks.get_mut(single.number)?), Some(single))
        }
        (Destination::Recorder, Some(recorder)) => (Taker::Recorder(&mut recorder.memory), None),
        (Destination::Recorder, None) => return None,
    };
    let mut stop = Stop::Other;
    let mut noted = (0, 0);
    while let Some((index, until)) = queue.first(bound) {
        let reader = &mut readers[index];
        if reader.input != number {
            // Where processes log at the same time, their rings take turns record by record.
            let Some(next) = single.and_then(|single| same_way(inputs, reader, input, single)) else {
                stop = Stop::Again;
                break;
            };
            input.note_taken(run.counted - noted.0, run.times.late - noted.1);
            noted = (run.counted, run.times.late);
            (number, input) = (reader.input, next);
            run.callsites = &input.callsites;
        }
        run.until = until;
        match &mut taker {
            Taker::Sink(sink) => sink.take_run(reader, &mut run),
            Taker::Recorder(memory) => record_run(memory, reader, &mut run),
        }
        let ticks = reader.head.time_ticks;
        if ticks > until && !matches!(run.stop, Some(Stop::Broken(..))) {
            queue.update_first(ticks, bound);
        }
        stop = match run.stop.take() {
            Some(why) => why,
            None if ticks <= until => Stop::Other,
            // Quotas are checked for one ring at a time.
            None if single.is_some() && !input.quotas.is_empty() => Stop::Again,
            None => continue,
        };
        break;
    }
    // Records without counts, such as those of gaps, have callsites, too.
    input.note_taken(run.counted - noted.0, run.times.late - noted.1);
    let taken = Taken {
        counted: run.counted,
        is_any: run.has_taken,
        input: number,
        stop,
    };
    let (taken_route, times, file_bytes) = (run.route, run.times, run.file_bytes);
    if let (Some(recorder), Some(Some(input))) = (recorder, inputs.get_mut(owner)) {
        input.recorder = Some(recorder);
    }
    clock.newest_ticks = times.newest_ticks;
    emit.count_excluded(taken.counted, single.map(|single| single.number), taken_route);
    if single.is_some() {
        spend(pipe, number, taken.counted, file_bytes);
    }
    if times.late > 0 {
        // Relaxed: a statistic.
        pipe.counts.late.fetch_add(times.late, Ordering::Relaxed);
    }
    Some(taken)
}

/// Counts records and their bytes in files against the quotas of a session's process.
#[inline]
fn spend(pipe: &mut Pipeline, number: usize, records: u64, file_bytes: u64) {
    if let Some(input) = pipe.collect.input(number) {
        pipe.route.quotas.spend(&input.quotas, records, file_bytes);
    }
}

/// Returns the session of a ring, where its first record goes to the one sink that those of another session go to, and
/// neither has quotas to keep account of.
fn same_way<'a>(
    inputs: &'a [Option<SessionInput>],
    reader: &RingReader,
    before: &SessionInput,
    single: SingleSink,
) -> Option<&'a SessionInput> {
    let input = inputs.get(reader.input)?.as_ref()?;
    let callsite = input.callsites.get(reader.head.callsite_id as usize)?.as_ref()?;
    let is_same = single.is_alone || single.route == Some(callsite.route);
    (is_same && input.quotas.is_empty() && before.quotas.is_empty()).then_some(input)
}

/// Takes the first record by itself, for all its sinks; returns 1 if it counts. One that is recorded is left for the
/// flight recorder, but where the sinks are to have it all the same.
fn take_first(pipe: &mut Pipeline, queue: &mut MergeQueue, bound: u64, with_recorded: bool) -> u64 {
    let Some((index, _)) = queue.first(bound) else {
        return 0;
    };
    let reader = &pipe.collect.readers[index];
    let (number, head) = (reader.input, reader.head);
    let id = head.callsite_id as usize;
    match pipe.collect.callsite(number, id) {
        Some(callsite) if callsite.is_recorded && !with_recorded => return 0,
        Some(_) => {}
        None => {
            pipe.load_callsites(number);
            // Its callsite may be one that a run takes.
            if pipe.collect.callsite(number, id).is_some() {
                return 0;
            }
        }
    }
    emit_record(pipe, index);
    let is_late = head.time_ticks < pipe.clock.newest_ticks;
    if is_late {
        // Relaxed: a statistic.
        pipe.counts.late.fetch_add(1, Ordering::Relaxed);
    }
    pipe.clock.newest_ticks = pipe.clock.newest_ticks.max(head.time_ticks);
    let reader = &mut pipe.collect.readers[index];
    let advanced = reader.advance();
    dump::start_triggered(pipe, number, id);
    if let Err(error) = advanced {
        pipe.collect.quarantine(index, &error);
    }
    let is_counted = head.callsite_id != 0;
    if let Some(input) = pipe.collect.input(number) {
        input.note_taken(u64::from(is_counted), u64::from(is_late));
    }
    queue.update_first(pipe.collect.readers[index].head.time_ticks, bound);
    u64::from(is_counted)
}

/// Lays the record at a ring's front out for every sink. It counts for all of them or for none.
fn emit_record(pipe: &mut Pipeline, index: usize) {
    if exceeds_quota(pipe, index) {
        return;
    }
    let mut without = 0;
    loop {
        let reader = &pipe.collect.readers[index];
        let record = reader.line(&pipe.clock.calibration);
        let Some(callsite) = pipe.collect.front_callsite(index) else {
            return emit_unknown(pipe, index);
        };
        let level = callsite.level;
        let selection = Selection {
            sinks: callsite.route,
            without,
            level: Some(level),
        };
        let Some(full) = pipe.emit.stage(callsite, &record, selection) else {
            let is_gap = reader.head.callsite_id == 0;
            let accepted = pipe.emit.accept(level, !is_gap);
            callsite.counter.add(accepted.bytes);
            let number = reader.input;
            if is_gap {
                tell_gap(pipe, index, without);
            } else if accepted.is_left_out {
                leave_out(pipe, number);
            }
            let records = u64::from(accepted.is_written);
            return spend(pipe, number, records, accepted.file_bytes);
        };
        if !pipe.make_room(full, level) {
            if pipe.emit.has_failed {
                return;
            }
            without |= 1 << full;
        }
    }
}

/// Notes that a gap record is in the log, but for sinks that have no room, as bits: they tell it later.
#[cold]
fn tell_gap(pipe: &mut Pipeline, index: usize, without: u32) {
    let Collector { inputs, readers, .. } = &mut pipe.collect;
    let reader = &readers[index];
    if let Some(Some(input)) = inputs.get_mut(reader.input) {
        let calls = input.account.tell_gap(reader.payload());
        pipe.emit.count_calls(without, calls);
    }
}

/// Counts a record of a session that some sink has left out.
#[cold]
fn leave_out(pipe: &mut Pipeline, number: usize) {
    if let Some(input) = pipe.collect.input_mut(number) {
        input.account.leave_out(1);
    }
}

/// Reports a record of which nothing is known but its length.
#[cold]
fn emit_unknown(pipe: &mut Pipeline, index: usize) {
    let reader = &pipe.collect.readers[index];
    let number = reader.input;
    let text = format!(
        "a record of unknown callsite {}, {} bytes",
        reader.head.callsite_id,
        reader.payload().len()
    );
    // Relaxed: a statistic.
    pipe.counts.malformed.fetch_add(1, Ordering::Relaxed);
    pipe.emit.drop_record(Level::Warn, |_, _| SinkDrop::Unknown);
    leave_out(pipe, number);
    let input = pipe.collect.input_mut(number);
    if input.is_none_or(SessionInput::count_unknown) {
        // At the end of the pass: a commit must not fall between the count and the ring's next record.
        pipe.collect.note_damage(number, text);
    }
}

/// Leaves a record out that is over a quota, and counts it for all sinks that would have got it.
#[inline]
fn exceeds_quota(pipe: &mut Pipeline, index: usize) -> bool {
    let reader = &pipe.collect.readers[index];
    let Some(input) = pipe.collect.input(reader.input) else {
        return false;
    };
    if input.quotas.is_empty() || reader.head.callsite_id == 0 {
        return false;
    }
    // A record of an unknown callsite is reported anyway, in a line of its own.
    let Some(callsite) = pipe.collect.front_callsite(index) else {
        return false;
    };
    let level = callsite.level;
    let takes =
        |number: usize, sink: &SinkBuffer| callsite.plan(number).is_some() && level >= sink.min_level();
    let mut sinks = pipe.emit.sinks.iter().enumerate();
    if !sinks.any(|(number, sink)| takes(number, sink)) {
        return false;
    }
    let Some(reason) = pipe.route.quotas.refuse(&input.quotas, level.is_urgent()) else {
        return false;
    };
    pipe.emit
        .drop_record(level, |number, sink| match callsite.plan(number) {
            Some(_) if level >= sink.min_level() => reason,
            Some(_) => SinkDrop::Level,
            None => SinkDrop::NotRouted,
        });
    let number = reader.input;
    leave_out(pipe, number);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_testkit::Random;

    /// Takes all of some rings' times in order, run by run.
    fn merged(rings: &mut [Vec<u64>], bound: u64) -> Vec<(u64, usize)> {
        let head = |ring: &Vec<u64>| ring.first().copied().unwrap_or(NO_RECORD);
        let mut queue = MergeQueue::default();
        let heads = rings.iter().map(head).enumerate();
        queue.heads = heads
            .map(|(index, ticks)| (ticks, index))
            .filter(|(ticks, _)| *ticks <= bound)
            .collect();
        queue.heads.sort_unstable_by(|one, other| other.cmp(one));
        let mut found = Vec::new();
        while let Some((index, until)) = queue.first(bound) {
            let ring = &mut rings[index];
            assert!(head(ring) <= until && until <= bound);
            while head(ring) <= until {
                found.push((ring.remove(0), index));
            }
            queue.update_first(head(ring), bound);
        }
        found
    }

    #[test]
    fn runs_are_in_the_order_of_time_whatever_the_rings_hold() {
        let mut random = Random::new(0x0dde5);
        for round in 0..3_000 {
            let span = 1 + random.below(60);
            let mut rings: Vec<Vec<u64>> = (0..random.below(6))
                .map(|_| {
                    let count = random.below(20);
                    let mut times: Vec<u64> = (0..count).map(|_| random.below(span)).collect();
                    // Mostly as clocks go, sometimes not.
                    if round % 7 > 0 {
                        times.sort_unstable();
                    }
                    times
                })
                .collect();
            let all: Vec<Vec<u64>> = rings.clone();
            let bound = random.below(span + 10);
            let found = merged(&mut rings, bound);
            let times: Vec<u64> = found.iter().map(|(ticks, _)| *ticks).collect();
            if round % 7 > 0 {
                assert!(times.is_sorted(), "{all:?} up to {bound}: {found:?}");
                assert!(rings.iter().flatten().all(|ticks| *ticks > bound));
            }
            for (index, ring) in all.iter().enumerate() {
                let of_it = found.iter().filter(|(_, ring)| *ring == index);
                let taken: Vec<u64> = of_it.map(|(ticks, _)| *ticks).collect();
                assert_eq!([&taken[..], &rings[index]].concat(), *ring);
            }
        }
    }
}
