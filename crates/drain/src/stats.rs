//! Statistics of a session. Two sums hold exactly, at any moment when no thread is inside of a call:
//! `calls = committed + dropped at the call + disabled + sampled out`, and for every sink
//! `committed = written + dropped by the sink + pending`.

use crate::drain::counts::DrainCounts;
use crate::flight_recorder::counts_of;
use crate::sink::drop_reason::SinkDrop;
use logdrive_ring::{
    Buffers, Consumer, DropReason, HostedSession, KeepCounts, Ring, SessionHeader, SessionReader,
    SessionWriter, SinkCounts, thread_counts,
};
use logdrive_wire::{RecordHeader, record::HEADER_BYTES};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The numbers of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records committed to rings.
    pub committed: u64,
    /// Calls dropped, by the code of [`DropReason`].
    pub dropped: [u64; DropReason::COUNT],
    /// Calls that their level switched off.
    pub disabled: u64,
    /// Calls that sampling left out.
    pub sampled_out: u64,
    /// Records whose values were cut to the limit.
    pub cut: u64,
    /// Records that still lie in rings.
    pub in_rings: u64,
    /// Rings made, and rings that a thread holds now.
    pub rings: (u32, u32),
    /// Callsites registered.
    pub callsites: u32,
    /// Records whose thread was stopped inside of the call, so that they stand behind later ones.
    pub late: u64,
    /// Records of unknown callsites.
    pub malformed: u64,
    /// Rings that are not read any more.
    pub quarantined: u64,
    /// Records of the flight recorder: `kept = written + forgotten + held`. Each of them counts as dropped by all sinks,
    /// also when it is written later.
    pub keep: KeepCounts,
    /// For every sink.
    pub sinks: Vec<SinkStats>,
}

/// The numbers of one sink.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SinkStats {
    /// Counts of the sink's buffers.
    pub counts: SinkCounts,
    /// Records on their way: in rings or in buffers.
    pub pending: u64,
}

impl SinkStats {
    /// Records that the sink dropped, by the code of [`SinkDrop`].
    pub fn dropped(&self) -> u64 {
        self.counts
            .dropped
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Names and counts of the reasons that occurred.
    pub fn dropped_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        SinkDrop::NAMES
            .into_iter()
            .zip(self.counts.dropped)
            .filter(|(_, count)| *count > 0)
    }
}

impl Stats {
    /// Calls dropped, whatever the reason.
    pub fn dropped_calls(&self) -> u64 {
        self.dropped
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The most records that any sink still has to write.
    pub fn pending(&self) -> u64 {
        self.sinks
            .iter()
            .map(|sink| sink.pending)
            .max()
            .unwrap_or(self.in_rings)
    }

    /// The statistics of this process's session where an agent drains it: what the sinks did with it is in the
    /// agent's numbers.
    pub fn of_joined(session: &Arc<SessionWriter>) -> Self {
        let mut stats = Self::gather(session.header(), &session.rings_from(0), Some(session.buffers()));
        thread_counts::report_all();
        stats.sampled_out = session.counters().sampled_out();
        stats
    }

    /// The statistics of a session that is drained here for another process: what the sinks did with it is in the
    /// agent's own numbers. Whatever the process has written into its headers, the work is bounded by what it may have.
    pub fn of_shared(session: &HostedSession) -> Self {
        let header = session.header();
        let mut stats = Self::gather(header, &session.rings_from(0), None);
        stats.rings.0 = session.ring_count() as u32;
        stats.sampled_out = session.sampled_out();
        stats
    }

    /// The statistics of another process's session, alive or dead.
    pub fn of_view(view: &SessionReader) -> Self {
        let (rings, broken) = view.rings();
        let mut stats = Self::gather(view.header(), &rings, view.buffers().ok().as_ref());
        stats.quarantined = broken.len() as u64;
        stats.keep = counts_of(view.keep().ok().flatten().as_ref());
        // A session of an older version has no such counts, and no such calls.
        stats.sampled_out = view.sampled_out();
        stats
    }

    /// The statistics of a session whose drain asks, when everything is drained.
    pub(crate) fn of_drained(session: &SessionReader, buffers: &Arc<Buffers>) -> Self {
        Self::gather(session.header(), &session.rings_from(0), Some(buffers))
    }

    /// The statistics of the calls of a session that is drained here for another process, when everything is drained.
    pub(crate) fn of_client(session: &SessionReader, drained: u64) -> Self {
        let mut stats = Self::gather(session.header(), &session.rings_from(0), None);
        stats.committed = stats.committed.max(drained);
        stats
    }

    fn gather(header: &SessionHeader, rings: &[Arc<Ring>], buffers: Option<&Arc<Buffers>>) -> Self {
        let epoch = buffers.map_or(0, |buffers| buffers.epoch());
        let totals = header.totals();
        let mut stats = Self {
            dropped: totals.dropped,
            disabled: totals.disabled,
            rings: (totals.rings, 0),
            callsites: totals.callsites,
            ..Self::default()
        };
        for ring in rings {
            let counts = ring.counts();
            stats.committed = stats.committed.wrapping_add(counts.records);
            stats.cut = stats.cut.wrapping_add(counts.records_cut);
            stats.rings.1 += u32::from(counts.state == logdrive_ring::RingState::Attached);
            stats.in_rings += records_pending(ring, epoch);
            for (sum, count) in stats.dropped.iter_mut().zip(counts.dropped) {
                *sum = sum.wrapping_add(count);
            }
        }
        if buffers.is_some() {
            // A kill between a commit and its count leaves the count of a ring one too low.
            let drained = header.account(epoch).drained;
            stats.committed = stats.committed.max(drained.saturating_add(stats.in_rings));
        }
        for sink in 0..buffers.map_or(0, |buffers| buffers.sink_count()) {
            let counts = buffers.map(|buffers| buffers.counts(sink)).unwrap_or_default();
            let pending = counts.pending_records.saturating_add(stats.in_rings);
            stats.sinks.push(SinkStats { counts, pending });
        }
        stats
    }
}

/// The statistics of a backend, for other threads: it blocks no other thread, and outlives the backend.
#[derive(Debug, Clone)]
pub struct StatsSource {
    session: Arc<SessionWriter>,
    counts: Arc<DrainCounts>,
}

impl StatsSource {
    /// Statistics of a session that begins now.
    pub(crate) fn new(session: &Arc<SessionWriter>) -> Self {
        Self {
            session: Arc::clone(session),
            counts: Arc::new(DrainCounts::start()),
        }
    }

    pub(crate) fn session(&self) -> &Arc<SessionWriter> {
        &self.session
    }

    pub(crate) fn counts(&self) -> &Arc<DrainCounts> {
        &self.counts
    }

    /// The statistics of this moment.
    pub fn stats(&self) -> Stats {
        let (session, counts) = (&self.session, &self.counts);
        session.header().store_disabled(counts.disabled_calls());
        Stats {
            late: counts.late.load(Ordering::Relaxed),
            malformed: counts.malformed.load(Ordering::Relaxed),
            quarantined: counts.quarantined.load(Ordering::Relaxed),
            keep: counts_of(session.keep()),
            ..Stats::of_joined(session)
        }
    }
}

/// Walks over what a ring holds; bounded by the ring's size. Stops at the first thing that is not a record.
fn records_pending(ring: &Arc<Ring>, epoch: u64) -> u64 {
    let consumer = Consumer::resume(Arc::clone(ring), epoch);
    let pending = consumer.pending_bytes().unwrap_or(0);
    let mut at = 0;
    let mut count = 0;
    let mut bytes = [0u8; HEADER_BYTES];
    while at + HEADER_BYTES <= pending {
        consumer.copy_out(at, &mut bytes);
        let Ok(header) = RecordHeader::decode(&bytes) else {
            break;
        };
        count += u64::from(header.callsite_id != 0);
        at += header.length_bytes as usize;
    }
    count
}
