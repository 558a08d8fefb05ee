//! One ring that is followed: the bytes that were copied out of it and not taken yet.

use crate::limits::{POLL_BYTES_MAX, RING_HELD_BYTES_MAX};
use logdrive_ring::{Calibration, FollowerRead, Ring, RingFollower};
use logdrive_wire::{RecordHeader, record::HEADER_BYTES};
use std::sync::Arc;

/// The callsite of gap records, which the ring's count leaves out.
const GAP: u32 = 0;

/// Records of a session with which to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Those that are committed from now on.
    Newest,
    /// The oldest that can be found in its rings: all of a young session, else what its drain has not taken.
    Oldest,
}

/// A ring, with records that were copied and checked as far as their borders go.
#[derive(Debug)]
pub(crate) struct WatchedRing {
    follower: RingFollower,
    bytes: Vec<u8>,
    /// Offset of the record at the front.
    start: usize,
    /// Up to where whole records stand.
    whole: usize,
    /// Time and header of the record at the front.
    front: Option<(u64, RecordHeader)>,
    pub(crate) thread_id: u64,
    pub(crate) thread_name: String,
    /// The ring's count when the first poll began.
    records_before: u64,
    records_seen: u64,
    missed: u64,
    given_up: bool,
    calibration: Calibration,
    latest_ticks: u64,
}

impl WatchedRing {
    pub(crate) fn new(ring: Arc<Ring>, from: Start, calibration: Calibration) -> Self {
        let newest = RingFollower::newest(Arc::clone(&ring));
        let records = ring.counts().records;
        let (follower, records_before) = match from {
            Start::Newest => (newest, records),
            Start::Oldest => {
                let oldest = RingFollower::oldest(ring);
                // How many records lie before the oldest is not known, and those behind it are found by the first poll.
                let is_all = oldest.position() == 0;
                (oldest, if is_all { 0 } else { u64::MAX })
            }
        };
        Self {
            bytes: Vec::new(),
            start: 0,
            whole: 0,
            front: None,
            thread_id: follower.ring().thread_id(),
            thread_name: follower.ring().thread_name(),
            records_before,
            records_seen: 0,
            missed: 0,
            given_up: false,
            calibration,
            latest_ticks: 0,
            follower,
        }
    }

    /// Copies what is new, at most `room` bytes; gives how much, and the share of the ring in 256ths. `None` where the ring
    /// or a record in it breaks a rule.
    pub(crate) fn poll(
        &mut self,
        room: usize,
        calibration: &Calibration,
        latest_ticks: u64,
    ) -> Option<(usize, u32)> {
        (self.calibration, self.latest_ticks) = (*calibration, latest_ticks);
        if self.given_up {
            return Some((0, 0));
        }
        // Read before the position: a record that is counted in between is seen later, and never counted as missed.
        let records = self.follower.ring().counts().records;
        let pending = self.follower.pending_bytes().ok()?;
        if pending == 0 {
            if self.missed > 0 {
                self.account(records);
            }
            return Some((0, 0));
        }
        if self.start == self.bytes.len() {
            self.refresh_thread();
        }
        let capacity = self.follower.ring().capacity_bytes() as u64;
        let share = (pending.min(capacity) * 256 / capacity.max(1)) as u32;
        let room = room
            .min(RING_HELD_BYTES_MAX.saturating_sub(self.held_bytes()))
            .min(POLL_BYTES_MAX);
        self.move_down();
        let copied = match self.follower.look(room, &mut self.bytes).ok()? {
            FollowerRead::Nothing => 0,
            FollowerRead::Bytes(bytes) => bytes,
            FollowerRead::Overwritten(_) => {
                // The rest of a record that was copied in part does not come.
                self.bytes.truncate(self.whole);
                self.account(self.follower.ring().counts().records);
                0
            }
        };
        self.check_borders()?;
        if self.records_before == u64::MAX {
            self.records_before = records.saturating_sub(self.records_seen);
        }
        if self.front.is_none() {
            self.find_front();
        }
        Some((copied, share))
    }

    /// Everything up to the ring's count is seen, or missed.
    fn account(&mut self, records: u64) {
        if self.records_before != u64::MAX {
            let expected = records.wrapping_sub(self.records_before);
            let missed = expected.saturating_sub(self.records_seen);
            // A count that runs backwards, or far ahead, is not a producer's.
            self.missed = if missed < u64::MAX / 2 {
                missed
            } else {
                self.missed
            };
        }
    }

    /// Another thread may have taken the ring over while it was empty.
    fn refresh_thread(&mut self) {
        let ring = self.follower.ring();
        let id = ring.thread_id();
        if id != self.thread_id {
            self.thread_id = id;
            self.thread_name = ring.thread_name();
        }
    }

    /// Makes room behind what is held.
    fn move_down(&mut self) {
        if self.start == 0 {
            return;
        }
        self.bytes.drain(..self.start);
        self.whole -= self.start;
        self.start = 0;
    }

    /// Walks over the records that were copied whole.
    fn check_borders(&mut self) -> Option<()> {
        while let Some(bytes) = self.bytes.get(self.whole..self.whole + HEADER_BYTES) {
            let header = RecordHeader::decode(bytes).ok()?;
            let length = header.length_bytes as usize;
            if self.bytes.len() - self.whole < length {
                break;
            }
            self.whole += length;
            self.records_seen += u64::from(header.callsite_id != GAP);
        }
        Some(())
    }

    fn find_front(&mut self) {
        self.front = None;
        if self.start >= self.whole {
            return;
        }
        let bytes = self.bytes.get(self.start..).unwrap_or(b"");
        if let Ok(header) = RecordHeader::decode(bytes) {
            // A clock that is wrong must not hold its ring back.
            let ticks = header.time_ticks.min(self.latest_ticks);
            self.front = Some((self.calibration.unix_ns(ticks), header));
        }
    }

    /// Time of the record at the front.
    pub(crate) fn front_ns(&self) -> Option<u64> {
        self.front.map(|(unix_ns, _)| unix_ns)
    }

    /// The record at the front: time, callsite, and the bytes behind its header.
    pub(crate) fn front(&self) -> Option<(u64, u32, &[u8])> {
        let (unix_ns, header) = self.front?;
        let end = self.start + header.length_bytes as usize;
        let payload = self.bytes.get(self.start + HEADER_BYTES..end)?;
        Some((unix_ns, header.callsite_id, payload))
    }

    /// Goes on to the next record.
    pub(crate) fn advance(&mut self) {
        if let Some((_, header)) = self.front {
            self.start += header.length_bytes as usize;
        }
        self.find_front();
    }

    /// Bytes that were copied and not taken.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether everything that was committed is taken.
    pub(crate) fn is_taken(&self) -> bool {
        self.given_up || (self.front.is_none() && matches!(self.follower.pending_bytes(), Ok(0)))
    }

    /// Records that were overwritten before they were seen.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// Watches the ring no more; what was found whole is still taken.
    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
        self.bytes.truncate(self.whole);
        if self.front.is_none() {
            self.find_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_ring::{Consumer, FullPolicy, Producer};

    const CLOCK: Calibration = Calibration {
        base_ticks: 0,
        base_unix_ns: 0,
        ns_per_tick_q32: 1 << 32,
    };

    fn record(id: u32, number: u64) -> Vec<u8> {
        let length_bytes = 24 + (number % 7) as u32 * 8;
        let header = RecordHeader {
            length_bytes,
            callsite_id: id,
            time_ticks: number,
        };
        let mut bytes = header.encode().to_vec();
        bytes.resize(length_bytes as usize, number as u8);
        bytes
    }

    fn ring() -> (Arc<Ring>, Producer, Consumer) {
        let ring = Arc::new(Ring::unnamed(1 << 16).expect("a ring").0);
        let producer = Producer::attach(Arc::clone(&ring), "worker");
        let consumer = Consumer::new(Arc::clone(&ring));
        (ring, producer, consumer)
    }

    fn take(watched: &mut WatchedRing) -> Vec<(u64, u32)> {
        let mut taken = Vec::new();
        while let Some((unix_ns, id, payload)) = watched.front() {
            assert!(payload.iter().all(|byte| *byte == unix_ns as u8));
            taken.push((unix_ns, id));
            watched.advance();
        }
        taken
    }

    #[test]
    fn seen_and_missed_records_add_up_and_gap_records_are_not_counted() {
        let (ring, mut producer, mut consumer) = ring();
        let mut watched = WatchedRing::new(Arc::clone(&ring), Start::Newest, CLOCK);
        let (mut seen, mut number) = (0, 0);
        for burst in [10u64, 3_000, 50, 9_000, 1, 2_000] {
            for _ in 0..burst {
                producer.push(&record(1, number), true, FullPolicy::Drop);
                number += 1;
                let pending = consumer.pending_bytes().expect("positions hold");
                consumer.release(pending);
            }
            // As often as it takes, in pieces that cut records.
            while watched.poll(5_000, &CLOCK, u64::MAX - 1).expect("records hold") != (0, 0) {
                seen += take(&mut watched).len() as u64;
            }
            assert_eq!(seen + watched.missed(), number, "after {burst}");
        }
        assert!(seen >= 61 && watched.missed() > 9_000, "{seen}");
        assert!(watched.is_taken());
    }

    #[test]
    fn the_time_of_a_record_is_never_in_the_future() {
        let (ring, mut producer, _consumer) = ring();
        let mut watched = WatchedRing::new(ring, Start::Oldest, CLOCK);
        producer.push(&record(4, 250), true, FullPolicy::Drop);
        watched.poll(1 << 20, &CLOCK, 200).expect("records hold");
        assert_eq!(watched.front_ns(), Some(200));
    }

    #[test]
    fn a_ring_full_of_rubbish_is_given_up() {
        let mut state = 7u64;
        for round in 0..200u64 {
            let (ring, mut producer, _consumer) = ring();
            let mut watched = WatchedRing::new(ring, Start::Oldest, CLOCK);
            producer.push(&record(3, 5), true, FullPolicy::Drop);
            let mut rubbish = vec![0; 4_096];
            for byte in &mut rubbish {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
                *byte = (state >> 56) as u8;
            }
            // Beyond the longest record, or too short for one: both are no record.
            rubbish[..4].copy_from_slice(&(if round % 2 == 0 { 8u32 } else { 1 << 20 }).to_le_bytes());
            producer.push(&rubbish, true, FullPolicy::Drop);
            assert!(watched.poll(1 << 20, &CLOCK, u64::MAX - 1).is_none(), "{round}");
            watched.give_up();
            assert_eq!(take(&mut watched), [(5, 3)], "what came before is whole");
            assert!(watched.is_taken());
        }
    }
}
