//! A ring as one direction of a connection between two processes: bytes in parts, without a drop and without a count,
//! and a reader that sleeps until there is more.
//!
//! The log's own rings are polled, so that a log call never wakes a thread. A message has a reader that waits for it:
//! here the reader says that it sleeps, and the writer checks that word after each commit.
#![allow(unsafe_code)]

use crate::drop_reason::FullPolicy;
use crate::header::RingState;
use crate::ring::Ring;
use crate::sync::{Ordering, fence};
use crate::{Admission, Consumer, InPlace, Producer, RingError, sys};
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

// SAFETY: the pointers of a producer lead into the mapping of its ring, which it owns a share of and which any thread
// may write; its cells are reached through `&mut self` or by the one thread that has the value.
unsafe impl Send for PipeWriter {}

impl PipeWriter {
    /// The writing end of a ring without a writer.
    pub fn new(ring: Arc<Ring>) -> Self {
        Self {
            producer: Producer::attach(ring, "logdrive-pipe"),
        }
    }

    /// Ring that is written.
    pub fn ring(&self) -> Option<&Arc<Ring>> {
        self.producer.ring()
    }

    /// Copies the parts in behind each other, filled up with zeros to a multiple of 8, and wakes a reader that sleeps.
    /// Waits for room as long as `alive` says so; it is asked every 100 ms.
    ///
    /// `false`: the ring is quarantined, `alive` said no, or the parts are longer than the ring takes at once.
    pub fn push(&mut self, parts: &[&[u8]], alive: &dyn Fn() -> bool) -> bool {
        let is_in = self.push_quietly(parts, alive);
        self.wake_reader();
        is_in
    }

    /// As [`PipeWriter::push`], without making sure that a reader wakes which goes to sleep at this very moment: whoever
    /// pushes many calls [`PipeWriter::wake_reader`] behind the last, and before it waits for anything. That spares each
    /// push a fence, which waits for the reader's core when the reader looks all the time.
    pub fn push_quietly(&mut self, parts: &[&[u8]], alive: &dyn Fn() -> bool) -> bool {
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
        self.wake_who_sleeps();
        true
    }

    /// Room for bytes that are written one behind the other and become visible together, at most so many. `None` when
    /// there is no room at the moment, or they are more than the ring takes at once. Does not wait.
    ///
    /// ```
    /// # fn main() -> Result<(), logdrive_ring::RingError> {
    /// use logdrive_ring::{Consumer, PipeWriter, Ring};
    /// let (ring, _file) = Ring::unnamed(1 << 16)?;
    /// let ring = std::sync::Arc::new(ring);
    /// let mut writer = PipeWriter::new(ring.clone());
    /// let mut reservation = writer.reserve(100).expect("an empty ring");
    /// assert!(reservation.extend(b"....ring"));
    /// assert!(reservation.put(0, b"in a"));
    /// reservation.commit();
    /// let consumer = Consumer::new(ring);
    /// assert_eq!(consumer.in_place()?.to_vec(), b"in aring");
    /// # Ok(())
    /// # }
    /// ```
    pub fn reserve(&mut self, bytes_max: usize) -> Option<Reservation<'_>> {
        let room = bytes_max.next_multiple_of(8);
        if room > self.ring()?.record_bytes_max() || room > self.free_bytes() {
            return None;
        }
        let end = self.producer.hot.position.get().wrapping_add(room as u64);
        // Relaxed: as for `push`.
        let fits = end <= self.producer.hot.limit.load(Ordering::Relaxed);
        if !fits && self.producer.admit(room, true, FullPolicy::Drop, &|| true) != Admission::Granted {
            return None;
        }
        Some(Reservation {
            writer: self,
            room,
            length: 0,
        })
    }

    /// Bytes that go into the ring at once, at most: a multiple of 8.
    pub fn piece_bytes_max(&self) -> usize {
        self.ring().map_or(0, |ring| ring.record_bytes_max())
    }

    /// Bytes that can be pushed without waiting.
    pub fn free_bytes(&self) -> usize {
        let Some(ring) = self.ring() else { return 0 };
        // SYNC(release): the consumer has finished with the bytes before its position passes them.
        let consumed = ring.header().consumed.load(Ordering::Acquire);
        let used = self.producer.hot.position.get().wrapping_sub(consumed);
        usize::try_from(used).map_or(0, |used| ring.capacity_bytes().saturating_sub(used))
    }

    /// Wakes a reader that sleeps although something is committed.
    pub fn wake_reader(&self) {
        // SYNC(doorbell): either the reader sees the commit, or we see that it sleeps.
        fence(Ordering::SeqCst);
        self.wake_who_sleeps();
    }

    fn wake_who_sleeps(&self) {
        let Some(ring) = self.ring() else { return };
        let word = &ring.header().reader_asleep;
        // Relaxed: ordered by the fence where it has to be.
        if word.load(Ordering::Relaxed) != 0 {
            word.store(0, Ordering::Relaxed);
            sys::futex_wake(word);
        }
    }
}

/// Bytes that are being written into a ring, see [`PipeWriter::reserve`]. Without [`Reservation::commit`] no reader
/// sees them.
#[derive(Debug)]
pub struct Reservation<'a> {
    writer: &'a mut PipeWriter,
    /// A multiple of 8; so many bytes are the writer's to write from its position on.
    room: usize,
    length: usize,
}

impl Reservation<'_> {
    fn start(&self) -> *mut u8 {
        let hot = &self.writer.producer.hot;
        // SAFETY: an offset below the capacity, inside of the data area.
        unsafe { hot.data.add((hot.position.get() & hot.mask) as usize) }
    }

    /// Appends bytes; `false`, and nothing is appended, when there is no room.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) -> bool {
        self.extend_in_place(InPlace::from(bytes))
    }

    /// As [`Reservation::extend`], of bytes that lie in a ring themselves.
    #[inline]
    pub fn extend_in_place(&mut self, bytes: InPlace<'_>) -> bool {
        if bytes.len() > self.room - self.length {
            return false;
        }
        // SAFETY: `room` bytes from the start were admitted, and the bytes fit behind `length`. They may lie in the same
        // ring, where a consumer that breaks the rules could make the two overlap, which `copy` allows.
        unsafe { core::ptr::copy(bytes.as_ptr(), self.start().add(self.length), bytes.len()) };
        self.length += bytes.len();
        true
    }

    /// Writes over bytes that were appended; `false` when they are not all there.
    pub fn put(&mut self, at: usize, bytes: &[u8]) -> bool {
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= self.length);
        if fits {
            // SAFETY: below `length`, which is within what was admitted; a slice of ours lies outside of the ring.
            unsafe { core::ptr::copy(bytes.as_ptr(), self.start().add(at), bytes.len()) };
        }
        fits
    }

    /// Bytes that were written so far.
    pub fn in_place(&self) -> InPlace<'_> {
        // SAFETY: `length` bytes from the start are mapped for as long as the writer lives, which is borrowed.
        unsafe { InPlace::raw(self.start(), self.length) }
    }

    /// Makes all of it visible, filled up with zeros to a multiple of 8, and wakes a reader that sleeps.
    pub fn commit(self) {
        let padded = self.length.next_multiple_of(8);
        // SAFETY: `room` is a multiple of 8 and was admitted, so the zeros lie inside; then `padded` bytes have been
        // written, to a ring that is attached because it admitted them.
        unsafe {
            core::ptr::write_bytes(self.start().add(self.length), 0, padded - self.length);
            self.writer.producer.hot.commit::<false>(padded);
        }
        self.writer.wake_reader();
    }
}

impl Consumer {
    /// Bytes that are committed and not released, where they lie: nothing is copied. A reader that copies out what it
    /// checks, and uses only its copy, is safe from a writer that breaks the rules.
    ///
    /// # Errors
    /// As [`Consumer::pending_bytes`].
    pub fn in_place(&self) -> Result<InPlace<'_>, RingError> {
        let pending = self.pending_bytes()?;
        let ring = self.ring();
        let offset = (self.position() & (ring.capacity_bytes() as u64 - 1)) as usize;
        // SAFETY: the data area is mapped twice in a row, and `pending` is at most the capacity; the mapping lives as
        // long as the ring, of which the consumer has a share.
        Ok(unsafe { InPlace::raw(ring.data().add(offset), pending) })
    }

    /// Sleeps until something is committed, or the time is over. May return early.
    ///
    /// # Errors
    /// As [`Consumer::pending_bytes`].
    pub fn sleep(&self, timeout: Duration) -> Result<(), RingError> {
        self.sleep_unless(timeout, || false)
    }

    /// As [`Consumer::sleep`], but not if `is_called`, which is asked once the writer can see that this end sleeps: a thread
    /// that first makes it so and then calls [`Consumer::wake_all`], on a consumer of its own, ends the sleep for certain.
    ///
    /// # Errors
    /// As [`Consumer::pending_bytes`].
    pub fn sleep_unless(&self, timeout: Duration, is_called: impl FnOnce() -> bool) -> Result<(), RingError> {
        let word = &self.ring().header().reader_asleep;
        // Relaxed: ordered by the fence.
        word.store(1, Ordering::Relaxed);
        // SYNC(doorbell)
        fence(Ordering::SeqCst);
        let is_awake = is_called() || self.ring().header().state() == RingState::Quarantined;
        if self.pending_bytes()? == 0 && !is_awake {
            let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            sys::futex_wait(word, 1, timeout_ns);
        }
        // Relaxed: a wake in vain is all that a stale word can cause.
        word.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Wakes threads that sleep at the other ends of the rings, after [`Consumer::quarantine`].
    pub fn wake_all(&self) {
        let header = self.ring().header();
        // SYNC(doorbell): either a sleeper sees what its caller has done before, or the word that it sets is cleared here.
        fence(Ordering::SeqCst);
        // Relaxed: both check the state of the ring when they wake.
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

    #[test]
    fn drafts_become_visible_whole_and_none_is_larger_than_the_room() {
        let (ring, _file) = Ring::unnamed(1 << 16).expect("a ring");
        let ring = Arc::new(ring);
        let mut writer = PipeWriter::new(ring.clone());
        let mut consumer = Consumer::new(ring);
        let most = writer.piece_bytes_max();
        assert!(writer.reserve(most + 1).is_none());
        // Over the end of the ring many times, with a wrong length of each kind.
        for number in 0..1_000_usize {
            let length = number % most;
            let bytes = vec![number as u8; length];
            let mut reservation = writer.reserve(length).expect("the ring is empty");
            assert!(reservation.extend(&bytes[..length / 2]));
            assert!(reservation.extend_in_place(InPlace::from(&bytes[length / 2..])));
            assert!(!reservation.extend(&[0; 8]), "no more than was asked for");
            assert_eq!(reservation.put(0, &[1, 2]), length >= 2);
            assert!(!reservation.put(length, &[1]));
            assert_eq!(consumer.pending_bytes().expect("sound"), 0);
            reservation.commit();
            let found = consumer.in_place().expect("sound");
            assert_eq!(found.len(), length.next_multiple_of(8));
            let mut expected = bytes;
            if length >= 2 {
                expected[..2].copy_from_slice(&[1, 2]);
            }
            expected.resize(found.len(), 0);
            assert_eq!(found.to_vec(), expected);
            let length = found.len();
            consumer.release(length);
        }
        let mut reservations = 0;
        while let Some(mut reservation) = writer.reserve(most) {
            reservation.extend(&[7; 64]);
            reservation.commit();
            reservations += 1;
        }
        assert_eq!(
            reservations,
            ((1 << 16) - most) / 64 + 1,
            "until no room is left for a whole one"
        );
        // One that is not committed leaves nothing.
        consumer.release(most);
        assert!(writer.reserve(most).expect("room").extend(&[9; 100]));
        assert!(!consumer.in_place().expect("sound").to_vec().contains(&9));
    }
}
