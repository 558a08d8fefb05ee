//! A ring as one direction of a connection between two processes: bytes in parts, without a drop and without a count,
//! and a reader that sleeps until there is more.
//!
//! The log's own rings are polled, so that a log call never wakes anybody. A message has somebody waiting for it: here
//! the reader says that it sleeps, and the writer looks at that word after each commit.
#![allow(unsafe_code)]

use crate::drop_reason::FullPolicy;
use crate::ring::{Ring, RingState};
use crate::sync::{Ordering, fence};
use crate::{Admission, Consumer, Producer, RingError, sys};
use std::sync::Arc;
use std::time::Duration;

/// The writing end of such a ring. Unlike a log's producer, which belongs to its thread, it may move to another one.
///
/// ```
/// # fn main() -> Result<(), logdrive_ring::RingError> {
/// use logdrive_ring::{Consumer, PipeWriter, Ring};
/// let (ring, _file) = Ring::unnamed(1 << 16)?;
/// let ring = std::sync::Arc::new(ring);
/// let mut writer = PipeWriter::new(ring.clone());
/// assert!(writer.push(&[b"four", b"more"], &|| true));
/// assert_eq!(Consumer::new(ring).pending_bytes()?, 8);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PipeWriter {
    producer: Producer,
}

// SAFETY: the pointers of a producer lead into the mapping of its ring, which it owns a share of and which any thread may
// write; its cells are reached through `&mut self` or by the one thread that has the value.
unsafe impl Send for PipeWriter {}

impl PipeWriter {
    /// The writing end of a ring that nobody writes.
    pub fn new(ring: Arc<Ring>) -> Self {
        Self {
            producer: Producer::attach(ring, "logdrive-pipe"),
        }
    }

    /// The ring.
    pub fn ring(&self) -> Option<&Arc<Ring>> {
        self.producer.ring()
    }

    /// Copies the parts in behind each other, filled up with zeros to a multiple of 8, and wakes a reader that sleeps.
    /// Waits for room as long as `alive` says so; it is asked every 100 ms.
    ///
    /// `false`: the ring is quarantined, `alive` said no, or the parts are longer than the ring takes at once.
    pub fn push(&mut self, parts: &[&[u8]], alive: &dyn Fn() -> bool) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let padded = length.next_multiple_of(8);
        let end = self.producer.hot.position.get().wrapping_add(padded as u64);
        // Relaxed: as for `fits`, but for records of any length.
        let fits = end <= self.producer.hot.limit.load(Ordering::Relaxed);
        if !fits && self.producer.admit(padded, true, FullPolicy::Block, alive) != Admission::Granted {
            return false;
        }
        // SAFETY: attached, because a detached producer has a limit of 0 and is not admitted; and `padded` bytes were
        // admitted.
        unsafe {
            let mut space = self.producer.hot.space(padded);
            space.zero_tail();
            for part in parts {
                space.bytes(part);
            }
            self.producer.hot.commit::<false>(padded);
        }
        self.wake_reader();
        true
    }

    /// Bytes that can be pushed without waiting.
    pub fn free_bytes(&self) -> usize {
        let Some(ring) = self.ring() else { return 0 };
        // SYNC(release): the consumer has finished with the bytes before its position passes them.
        let consumed = ring.header().consumed.load(Ordering::Acquire);
        let used = self.producer.hot.position.get().wrapping_sub(consumed);
        usize::try_from(used).map_or(0, |used| ring.capacity_bytes().saturating_sub(used))
    }

    fn wake_reader(&self) {
        let Some(ring) = self.ring() else { return };
        let word = &ring.header().reader_asleep;
        // SYNC(doorbell): either the reader sees the commit, or we see that it sleeps.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if word.load(Ordering::Relaxed) != 0 {
            word.store(0, Ordering::Relaxed);
            sys::futex_wake(word);
        }
    }
}

impl Consumer {
    /// Sleeps until something is committed, or the time is over. May return early.
    ///
    /// # Errors
    /// As [`Consumer::pending_bytes`].
    pub fn sleep(&self, patience: Duration) -> Result<(), RingError> {
        let word = &self.ring().header().reader_asleep;
        // Relaxed: ordered by the fence.
        word.store(1, Ordering::Relaxed);
        // SYNC(doorbell)
        fence(Ordering::SeqCst);
        if self.pending_bytes()? == 0 && self.ring().header().state() != RingState::Quarantined {
            let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
            sys::futex_wait(word, 1, patience_ns);
        }
        // Relaxed: a wake in vain is all that a stale word can cause.
        word.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Wakes whoever sleeps at the other ends of the ring, after [`Consumer::quarantine`].
    pub fn wake_all(&self) {
        let header = self.ring().header();
        // Relaxed: both look at the state of the ring when they wake.
        header.reader_asleep.store(0, Ordering::Relaxed);
        sys::futex_wake(&header.reader_asleep);
        // SYNC(space): as for `release`.
        header.space_sequence.fetch_add(1, Ordering::Release);
        sys::futex_wake(&header.space_sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_arrive_behind_each_other_and_a_sleeper_wakes() {
        let (ring, _file) = Ring::unnamed(1 << 16).expect("a ring");
        let ring = Arc::new(ring);
        let mut consumer = Consumer::new(ring.clone());
        let writer = std::thread::spawn(move || {
            let mut writer = PipeWriter::new(ring);
            for number in 0..50_000_u64 {
                let tail = vec![7_u8; number as usize % 100];
                assert!(writer.push(&[&number.to_le_bytes(), &tail], &|| true));
            }
        });
        for number in 0..50_000_u64 {
            let length = (8 + number as usize % 100).next_multiple_of(8);
            while consumer.pending_bytes().expect("sound") < length {
                // tidy: allow(sleep): the method under test, which another thread wakes
                consumer.sleep(Duration::from_secs(1)).expect("sound");
            }
            let mut bytes = vec![0; length];
            consumer.copy_out(0, &mut bytes);
            assert_eq!(bytes[..8], number.to_le_bytes());
            assert!(bytes[8..8 + number as usize % 100].iter().all(|byte| *byte == 7));
            consumer.release(length);
        }
        writer.join().expect("no panic");
    }

    #[test]
    fn a_quarantined_ring_lets_nobody_wait() {
        let (ring, _file) = Ring::unnamed(1 << 16).expect("a ring");
        let ring = Arc::new(ring);
        let mut writer = PipeWriter::new(ring.clone());
        while writer.free_bytes() >= 8_000 {
            assert!(writer.push(&[&[1; 8_000]], &|| true));
        }
        let other = Consumer::new(ring);
        let thread = std::thread::spawn(move || writer.push(&[&[1; 8_000]], &|| true));
        other.quarantine();
        other.wake_all();
        assert!(!thread.join().expect("no panic"));
        // tidy: allow(sleep): the method under test, which another thread wakes
        other.sleep(Duration::from_secs(3600)).expect("sound");
    }
}
