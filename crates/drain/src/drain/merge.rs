//! The merge: whose record comes next, and how far one ring's records may be taken before another ring's have to be.

use super::single_sink::SingleSink;
use super::{Drain, site_of};
use crate::drain::ring_reader::{NO_RECORD, ReadError, RingReader};
use crate::drain::run::{Run, Times};
use crate::drain::session_input::SessionInput;
use crate::sink::drop_reason::SinkDrop;
use std::sync::atomic::Ordering;

/// Rings with records to take, by the times of their first ones. The earliest stands last, so that it is changed in place:
/// where threads log at the same time, their rings take queue record by record, and few of them move.
#[derive(Debug, Default)]
pub(super) struct MergeQueue {
    heads: Vec<(u64, usize)>,
}

impl MergeQueue {
    /// All rings with records up to the bound.
    fn fill(&mut self, readers: &[RingReader], bound: u64) {
        let heads = readers.iter().map(|reader| reader.head.time_ticks);
        let heads = heads.enumerate().map(|(index, ticks)| (ticks, index));
        self.heads.clear();
        self.heads
            .extend(heads.filter(|(ticks, _)| *ticks <= bound && *ticks != NO_RECORD));
        self.heads.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// The ring that comes first, and up to which time its records come before those of all others.
    #[inline]
    pub(super) fn first(&self, bound: u64) -> Option<(usize, u64)> {
        match self.heads.as_slice() {
            [.., (until, _), (_, index)] => Some((*index, *until)),
            [(_, index)] => Some((*index, bound)),
            [] => None,
        }
    }

    /// The first ring begins with a record of another time now.
    #[inline]
    pub(super) fn renew(&mut self, ticks: u64, bound: u64) {
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

/// Why [`Drain::take_some_runs`] ended.
enum Stop {
    /// The first record needs more than one sink, or there is none.
    Other,
    /// Nothing is in the way of more of them.
    Again,
    /// So much was taken that it is given back to its producer now.
    Enough,
    /// A ring broke a rule.
    Broken(usize, ReadError),
}

impl Drain {
    /// Takes records in the order of their times up to the bound.
    pub(super) fn merge(&mut self, bound: u64) -> u64 {
        let mut took = 0;
        let mut queue = std::mem::take(&mut self.queue);
        queue.fill(&self.readers, bound);
        loop {
            took += self.take_runs(&mut queue, bound);
            let kept = self.keep_runs(&mut queue, bound);
            took += kept;
            let Some((index, _)) = queue.first(bound) else {
                break;
            };
            if kept > 0 {
                continue;
            }
            took += self.take_one(index);
            queue.renew(self.readers[index].head.time_ticks, bound);
        }
        self.queue = queue;
        // Relaxed: a statistic.
        self.counts.drained.fetch_add(took, Ordering::Relaxed);
        took
    }

    /// Takes what needs no more than one sink: the only one there is, the only one that takes records of low levels, or the
    /// only one that routes lead to.
    fn take_runs(&mut self, queue: &mut MergeQueue, bound: u64) -> u64 {
        let mut counted = 0;
        loop {
            match self.take_some_runs(queue, bound, &mut counted) {
                Stop::Again => {}
                Stop::Enough => self.commit(),
                Stop::Broken(index, error) => {
                    self.quarantine(index, &error);
                    queue.renew(NO_RECORD, bound);
                }
                Stop::Other => return counted,
            }
        }
    }

    /// The same for rings of one session, and of further ones whose records go the same way.
    fn take_some_runs(&mut self, queue: &mut MergeQueue, bound: u64, counted: &mut u64) -> Stop {
        let Some((first, _)) = queue
            .first(bound)
            .filter(|(index, _)| self.is_far_from_quota(*index))
        else {
            return Stop::Other;
        };
        let mut number = self.readers[first].input;
        let (Some(only), Some(Some(mut input))) =
            (self.only_sink(first), self.inputs.get(number).map(Option::as_ref))
        else {
            return Stop::Other;
        };
        let is_alone = self.outlets.len() == 1;
        let Some(outlet) = self.outlets.get_mut(only.number) else {
            return Stop::Other;
        };
        let mut run = Run::new(&input.sites, &self.calibration, self.newest_ticks);
        (run.below, run.routed) = (only.below, only.routed);
        let mut stop = Stop::Other;
        while let Some((index, until)) = queue.first(bound) {
            let reader = &mut self.readers[index];
            if reader.input != number {
                // Where processes log at the same time, their rings take queue record by record.
                let Some(next) = same_way(&self.inputs, reader, input, only, is_alone) else {
                    stop = Stop::Again;
                    break;
                };
                input.note_taken();
                (number, input) = (reader.input, next);
                run.sites = &input.sites;
            }
            run.until = until;
            if let Err(error) = outlet.take_run(reader, &mut run) {
                stop = Stop::Broken(index, error);
                break;
            }
            let ticks = reader.head.time_ticks;
            if ticks > until {
                queue.renew(ticks, bound);
            }
            // Quotas are looked at for one ring at a time.
            if run.is_enough || run.trigger.is_some() || (ticks > until && !input.quotas.is_empty()) {
                stop = if run.is_enough { Stop::Enough } else { Stop::Again };
                break;
            }
            if ticks <= until {
                break;
            }
        }
        // Records that count for nobody, such as those of gaps, have callsites, too.
        input.note_taken();
        let (taken, trigger) = (run.counted, run.trigger);
        let Times { newest_ticks, late } = run.times;
        self.quotas.spend(&input.quotas, taken, run.file_bytes);
        self.newest_ticks = newest_ticks;
        *counted += taken;
        self.count_runs(only, taken, late);
        if let Some(id) = trigger {
            self.note_trigger(number, id);
        }
        stop
    }

    /// Keeps account of records that went to this sink only.
    fn count_runs(&mut self, only: SingleSink, taken: u64, late: u64) {
        let reason = match only.routed {
            Some(_) => SinkDrop::NotRouted,
            None => SinkDrop::Level,
        };
        for (other, outlet) in self.outlets.iter_mut().enumerate() {
            if other != only.number {
                outlet.leave_out(taken, reason);
            }
        }
        if late > 0 {
            // Relaxed: a statistic.
            self.counts.late.fetch_add(late, Ordering::Relaxed);
        }
    }

    /// Takes what a run stops at, or any record where there are several sinks; how many that count.
    fn take_one(&mut self, index: usize) -> u64 {
        // ClientSelector callsite was read just now may be one that a run takes, or that is kept.
        if self.load_missing(index) {
            return 0;
        }
        let number = self.readers[index].input;
        let head = self.readers[index].head;
        self.emit(index);
        if head.time_ticks < self.newest_ticks {
            // Relaxed: a statistic.
            self.counts.late.fetch_add(1, Ordering::Relaxed);
        }
        self.newest_ticks = self.newest_ticks.max(head.time_ticks);
        let advanced = self.readers[index].advance();
        self.note_trigger(number, head.callsite_id as usize);
        if let Err(error) = advanced {
            self.quarantine(index, &error);
        }
        if let Some(Some(input)) = self.inputs.get(number) {
            input.note_taken();
        }
        u64::from(head.callsite_id != 0)
    }

    /// Reads the callsite of the record at a ring's front, where it has not been read; whether there it is.
    fn load_missing(&mut self, index: usize) -> bool {
        let reader = &self.readers[index];
        let id = reader.head.callsite_id as usize;
        let Some(Some(input)) = self.inputs.get_mut(reader.input) else {
            return false;
        };
        if input.sites.get(id).is_some_and(Option::is_some) {
            return false;
        }
        input.load_sites(
            &self.outlets,
            self.router.as_ref(),
            self.recorder_policy.as_deref(),
        );
        input.sites.get(id).is_some_and(Option::is_some)
    }
}

/// The session of a ring, where its first record goes to the one sink that those of another session go to, and neither
/// has quotas to keep account of.
fn same_way<'a>(
    inputs: &'a [Option<SessionInput>],
    reader: &RingReader,
    before: &SessionInput,
    only: SingleSink,
    is_alone: bool,
) -> Option<&'a SessionInput> {
    let input = inputs.get(reader.input)?.as_ref()?;
    let site = site_of(inputs, reader.input, reader.head.callsite_id as usize)?;
    let is_same = is_alone || only.routed == Some(site.routed);
    (is_same && input.quotas.is_empty() && before.quotas.is_empty()).then_some(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(state: &mut u64, below: u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

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
            queue.renew(head(ring), bound);
        }
        found
    }

    #[test]
    fn runs_are_in_the_order_of_time_whatever_the_rings_hold() {
        let mut state = 0x0dde5;
        for round in 0..3_000 {
            let span = 1 + random(&mut state, 60);
            let mut rings: Vec<Vec<u64>> = (0..random(&mut state, 6))
                .map(|_| {
                    let count = random(&mut state, 20);
                    let mut times: Vec<u64> = (0..count).map(|_| random(&mut state, span)).collect();
                    // Mostly as clocks go, sometimes not.
                    if round % 7 > 0 {
                        times.sort_unstable();
                    }
                    times
                })
                .collect();
            let all: Vec<Vec<u64>> = rings.clone();
            let bound = random(&mut state, span + 10);
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
