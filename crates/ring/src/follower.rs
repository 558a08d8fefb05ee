//! Looking at a ring without being its consumer: for tools that follow a log live, in any process, without help by the
//! program that writes and unnoticed by it.
//!
//! A follower stores nothing in shared memory, so no thread waits for it, and what it has not seen when the producer
//! comes round is lost to it. It copies bytes out and looks afterwards whether they can have been overwritten
//! meanwhile. Three things make that safe:
//!
//! - **Borders.** Records can only be separated from a place where one begins. Such places are 0 as long as nothing
//!   was overwritten, `consumed`, and `committed`. After a loss the follower goes on at the newest, `committed`.
//! - **What is checked.** The producer writes at `committed`, behind what it has committed, one record at a time. So
//!   bytes from `start` on are as they were if `committed`, loaded *after* the copy, is at most the capacity less the
//!   longest record ahead of `start`.
//! - **Order.** The copy is made of relaxed loads; the fence behind it, `SYNC(overtake)`, keeps the second load of
//!   `committed` behind them. Its other end is the producer's commit: a byte of the record behind position `p` is
//!   stored after `committed = p`. Release orders only what comes *before* a store, so on processors with a weak order
//!   stores of the next record may be seen before the commit in front of them, by as much as a core holds back. That is
//!   a few kilobytes at most and is kept as a distance, [`STORES_AHEAD_BYTES`], because a fence in the producer would
//!   cost every call. On x86-64 stores are seen in their order.
//!
//! A producer that breaks the rules can make a follower read anything, so its reader checks what it gets, as the
//! drain does.
#![allow(unsafe_code)]

use crate::RingError;
use crate::ring::Ring;
use crate::sync::{Ordering, fence};
use core::sync::atomic::AtomicU64;
use std::sync::Arc;

/// By how much stores of later records may be seen before the commit in front of them. Cores hold back less than a
/// hundred stores of at most 64 bytes; this is more than twice that, and a quarter of the smallest ring.
const STORES_AHEAD_BYTES: usize = 16 * 1024;

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum FollowerRead {
    /// Nothing new was committed.
    Nothing,
    /// So many bytes were copied. They go on where the last ones ended, which need not be the end of a record.
    Bytes(usize),
    /// The producer was faster: so many bytes were overwritten, or may have been. What is seen next begins at a border,
    /// and the rest of a record that was copied in part will not come.
    Overwritten(u64),
}

/// Watches one ring. See `crates/ring/src/follower.rs` for why what it copies is whole.
///
/// ```
/// # fn main() -> Result<(), logdrive_ring::RingError> {
/// use logdrive_ring::{FullPolicy, RingFollower, Producer, Ring, FollowerRead};
/// let (ring, _file) = Ring::unnamed(1 << 16)?;
/// let ring = std::sync::Arc::new(ring);
/// let mut follower = RingFollower::newest(ring.clone());
/// let mut producer = Producer::attach(ring, "main");
/// producer.push(&[7; 32], false, FullPolicy::Drop);
/// let mut bytes = Vec::new();
/// assert_eq!(follower.look(1 << 20, &mut bytes)?, FollowerRead::Bytes(32));
/// assert_eq!(bytes, [7; 32]);
/// assert_eq!(follower.look(1 << 20, &mut bytes)?, FollowerRead::Nothing);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RingFollower {
    ring: Arc<Ring>,
    position: u64,
}

impl RingFollower {
    /// Begins at the newest record: what is committed from now on is seen.
    pub fn newest(ring: Arc<Ring>) -> Self {
        // SYNC(commit)
        let position = ring.header().committed.load(Ordering::Acquire);
        Self { ring, position }
    }

    /// Begins as far back as records can be separated: with the first record of the ring where nothing was
    /// overwritten yet, else with those that its consumer has not released.
    pub fn oldest(ring: Arc<Ring>) -> Self {
        let mut follower = Self::newest(ring);
        let newest = follower.position;
        let safe = follower.safe_bytes();
        // Relaxed: a border whatever its age, because bytes from there on are checked when they are copied.
        let consumed = follower.ring.header().consumed.load(Ordering::Relaxed);
        if newest <= safe {
            follower.position = 0;
        } else if consumed.is_multiple_of(8) && newest.wrapping_sub(consumed) <= safe {
            follower.position = consumed;
        }
        follower
    }

    /// Ring that is read.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Position up to which the ring was read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Distance by which the producer may be ahead of a byte while the byte is surely as it was.
    fn safe_bytes(&self) -> u64 {
        let kept = self.ring.record_bytes_max() + STORES_AHEAD_BYTES;
        self.ring.capacity_bytes().saturating_sub(kept) as u64
    }

    /// Bytes that are committed and were not seen.
    ///
    /// # Errors
    /// When the producer's position breaks the ring's rules: it runs backwards or is not a multiple of 8. The ring is
    /// not worth another look then.
    pub fn pending_bytes(&self) -> Result<u64, RingError> {
        // SYNC(commit): the bytes below the position are visible.
        self.ahead(self.ring.header().committed.load(Ordering::Acquire))
    }

    fn ahead(&self, committed: u64) -> Result<u64, RingError> {
        let ahead = committed.wrapping_sub(self.position);
        if ahead > u64::MAX / 2 || !ahead.is_multiple_of(8) {
            return Err(RingError::Damaged {
                what: "ring",
                field: "committed position",
                found: committed,
                expected: "a multiple of 8 that never runs backwards",
            });
        }
        Ok(ahead)
    }

    /// Copies what was committed since the last look behind what `out` holds, at most so many bytes. Never waits;
    /// allocates only where `out` has to grow.
    ///
    /// # Errors
    /// As [`pending_bytes`](Self::pending_bytes).
    pub fn look(&mut self, bytes_max: usize, out: &mut Vec<u8>) -> Result<FollowerRead, RingError> {
        let safe = self.safe_bytes();
        let pending = self.pending_bytes()?;
        if pending > safe {
            return Ok(self.skip(pending));
        }
        // No more than one ring, because `safe` is less.
        let length = (pending as usize).min(bytes_max) & !7;
        if length == 0 {
            return Ok(FollowerRead::Nothing);
        }
        let kept = out.len();
        self.copy(length, out);
        // SYNC(overtake): the loads of the copy come before this one.
        fence(Ordering::Acquire);
        // Relaxed: the fence orders it, and nothing is read on the strength of it.
        let ahead = self.ahead(self.ring.header().committed.load(Ordering::Relaxed));
        if !matches!(ahead, Ok(ahead) if ahead <= safe) {
            out.truncate(kept);
            return ahead.map(|ahead| self.skip(ahead));
        }
        self.position = self.position.wrapping_add(length as u64);
        Ok(FollowerRead::Bytes(length))
    }

    fn skip(&mut self, ahead: u64) -> FollowerRead {
        self.position = self.position.wrapping_add(ahead);
        FollowerRead::Overwritten(ahead)
    }

    /// Copies a multiple of 8 bytes, less than a ring long, from the position on.
    fn copy(&self, length: usize, out: &mut Vec<u8>) {
        let mask = self.ring.capacity_bytes() as u64 - 1;
        // Positions are multiples of 8; the mask makes sure of it, whatever was read.
        let offset = (self.position & mask & !7) as usize;
        let words = self.ring.data().wrapping_add(offset).cast::<u64>();
        out.reserve(length);
        for index in 0..length / 8 {
            // SAFETY: the data area is mapped twice in a row, so a ring's length from any offset is mapped; the mapping
            // is aligned to pages and the offset to 8 bytes. The word may be written at this moment, from another
            // process as a rule, so it is loaded as an atomic, once.
            let word = unsafe { AtomicU64::from_ptr(words.add(index)) };
            // Relaxed: whether it was overwritten is looked up behind a fence, see `look`.
            #[allow(clippy::host_endian_bytes)]
            // Bytes go out as they lie there; they are not a number here.
            out.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Consumer, FullPolicy, Producer};
    use std::sync::atomic::AtomicBool;

    fn ring() -> Arc<Ring> {
        Arc::new(Ring::unnamed(1 << 16).expect("a ring").0)
    }

    /// A record of its own length, whose words are all its number.
    fn record(number: u64) -> Vec<u8> {
        let words = 3 + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 60;
        let words = if number.is_multiple_of(1_000) {
            1_000
        } else {
            words
        };
        let mut bytes = Vec::with_capacity(words as usize * 8);
        bytes.extend_from_slice(&(words * 8).to_le_bytes());
        for index in 1..words {
            bytes.extend_from_slice(&(number ^ index << 48).to_le_bytes());
        }
        bytes
    }

    /// A producer whose records are released at once, as if a drain were never behind.
    struct Busy {
        producer: Producer,
        consumer: Consumer,
        next: u64,
    }

    impl Busy {
        /// A producer stays in its thread; the next one goes on with the numbers.
        fn from(ring: &Arc<Ring>, next: u64) -> Self {
            Self {
                producer: Producer::attach(ring.clone(), "busy"),
                consumer: Consumer::new(ring.clone()),
                next,
            }
        }

        fn push(&mut self) {
            self.producer.push(&record(self.next), true, FullPolicy::Drop);
            self.next += 1;
            let pending = self.consumer.pending_bytes().expect("positions hold");
            self.consumer.release(pending);
        }
    }

    /// Takes whole records off the front; their numbers only grow.
    fn take_records(bytes: &mut Vec<u8>, newest: &mut Option<u64>) -> u64 {
        let mut at = 0;
        let mut count = 0;
        while let Some(length) = bytes.get(at..at + 8) {
            let length = u64::from_le_bytes(length.try_into().expect("eight bytes")) as usize;
            let Some(found) = bytes.get(at..at + length) else {
                break;
            };
            let number = u64::from_le_bytes(found[8..16].try_into().expect("eight bytes")) ^ 1 << 48;
            assert_eq!(found, record(number), "record {number}");
            assert!(newest.is_none_or(|newest| newest < number), "{newest:?} {number}");
            *newest = Some(number);
            count += 1;
            at += length;
        }
        bytes.drain(..at);
        count
    }

    #[test]
    fn records_are_whole_or_lost_however_often_the_producer_laps() {
        let ring = ring();
        let mut follower = RingFollower::oldest(ring.clone());
        let mut busy = Busy::from(&ring, 0);
        // One lap at least, whatever the machine's threads do.
        for _ in 0..5_000 {
            busy.push();
        }
        let mut bytes = Vec::new();
        let mut lost = match follower.look(usize::MAX, &mut bytes) {
            Ok(FollowerRead::Overwritten(lost)) => lost,
            other => panic!("the ring was lapped, and seen was {other:?}"),
        };
        let next = busy.next;
        drop(busy);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, lapped) = (stop.clone(), ring.clone());
        let thread = std::thread::spawn(move || {
            let mut busy = Busy::from(&lapped, next);
            while !stopped.load(Ordering::Relaxed) {
                busy.push();
            }
            busy.next
        });
        let (mut newest, mut seen_bytes, mut seen_records) = (None, 0, 0);
        let mut look = |bytes: &mut Vec<u8>, most| {
            match follower.look(most, bytes).expect("positions hold") {
                FollowerRead::Nothing => return false,
                FollowerRead::Bytes(length) => seen_bytes += length as u64,
                FollowerRead::Overwritten(length) => {
                    // What there is of a record has no end.
                    bytes.clear();
                    lost += length;
                }
            }
            seen_records += take_records(bytes, &mut newest);
            true
        };
        // Pieces of all sizes, so that records are cut between them.
        for round in 0..20_000 {
            look(&mut bytes, 8 + round % 200 * 97);
        }
        stop.store(true, Ordering::Relaxed);
        let mut busy = Busy::from(&ring, thread.join().expect("the producer ends"));
        while look(&mut bytes, 1 << 20) {}
        let first_quiet = busy.next;
        for _ in 0..50 {
            busy.push();
        }
        while look(&mut bytes, 64) {}
        assert!(
            seen_records >= 50 && newest == Some(first_quiet + 49),
            "{seen_records} {newest:?}"
        );
        assert_eq!(seen_bytes + lost, follower.position());
        assert_eq!(follower.pending_bytes().expect("positions hold"), 0);
    }

    #[test]
    fn a_young_ring_is_seen_from_its_first_record_though_it_was_drained() {
        let ring = ring();
        let mut busy = Busy::from(&ring, 0);
        for _ in 0..20 {
            busy.push();
        }
        let (mut bytes, mut newest) = (Vec::new(), None);
        let mut follower = RingFollower::oldest(ring.clone());
        assert!(matches!(
            follower.look(usize::MAX, &mut bytes),
            Ok(FollowerRead::Bytes(_))
        ));
        assert_eq!(take_records(&mut bytes, &mut newest), 20);
        // Once it was overwritten only records that wait for the drain can be separated.
        for _ in 0..5_000 {
            busy.push();
        }
        let mut follower = RingFollower::oldest(ring.clone());
        assert_eq!(
            follower.look(usize::MAX, &mut bytes).expect("positions hold"),
            FollowerRead::Nothing
        );
        for _ in 0..3 {
            busy.producer.push(&record(9), true, FullPolicy::Drop);
        }
        let mut follower = RingFollower::oldest(ring);
        assert!(matches!(
            follower.look(usize::MAX, &mut bytes),
            Ok(FollowerRead::Bytes(_))
        ));
        assert_eq!(bytes, record(9).repeat(3));
    }

    #[test]
    fn positions_that_break_the_rules_are_errors() {
        let ring = ring();
        let header = ring.header();
        header.committed.store(800, Ordering::Relaxed);
        let mut follower = RingFollower::newest(ring.clone());
        let mut bytes = Vec::new();
        for committed in [792, 0, 804, u64::MAX, u64::MAX - 7] {
            header.committed.store(committed, Ordering::Relaxed);
            assert!(follower.look(usize::MAX, &mut bytes).is_err(), "{committed}");
        }
        header.consumed.store(u64::MAX, Ordering::Relaxed);
        for committed in [800, 1 << 20, 1 << 40, 804] {
            header.committed.store(committed, Ordering::Relaxed);
            let mut oldest = RingFollower::oldest(ring.clone());
            // Whatever it is, it is bounded by the ring.
            let _ = oldest.look(usize::MAX, &mut bytes);
            assert!(bytes.len() <= 1 << 16);
            bytes.clear();
        }
    }
}
