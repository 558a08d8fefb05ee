//! The ring's hot path under Miri: real producers, consumers and thread-local places on memory that Miri watches for
//! undefined behaviour and data races. What needs files, signals or processes is left to the other tests.
//!
//! Run with `cargo xtask miri`.
#![cfg(miri)]

use logdrive_ring::local::{self, Clock, Wrote};
use logdrive_ring::{Admission, Consumer, DropReason, FullPolicy, Producer, Ring};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

/// The places of all threads belong to one session, so these tests take turns.
static SESSION: Mutex<()> = Mutex::new(());

const RING_BYTES: usize = 1 << 16;

/// A length that does not divide the ring, so that records lie across its end.
const RECORD_BYTES: usize = 5_000;

static TIME: AtomicU64 = AtomicU64::new(7);

/// Waits for the next record of this length, and gives its bytes back.
fn take(consumer: &mut Consumer, length: usize) -> Vec<u8> {
    while consumer.pending_bytes().expect("positions keep the rules") < length {
        std::thread::yield_now();
    }
    let mut bytes = vec![0; length];
    consumer.copy_out(0, &mut bytes);
    consumer.release(length);
    bytes
}

#[test]
fn records_go_round_the_ring_whole_and_in_order() {
    let ring = Arc::new(Ring::interpreted(RING_BYTES));
    let mut consumer = Consumer::new(Arc::clone(&ring));
    let producer = std::thread::spawn(move || {
        let mut producer = Producer::attach(ring, "p");
        for number in 0..40u8 {
            let admission = producer.push(
                &[number; RECORD_BYTES],
                number.is_multiple_of(2),
                FullPolicy::Block,
            );
            assert_eq!(admission, Admission::Granted);
        }
    });
    for number in 0..40u8 {
        assert_eq!(take(&mut consumer, RECORD_BYTES), [number; RECORD_BYTES]);
    }
    producer.join().expect("the producer runs through");
    assert!(consumer.is_finished());
}

#[test]
fn a_ring_goes_from_thread_to_thread_with_its_position() {
    let ring = Arc::new(Ring::interpreted(RING_BYTES));
    let mut consumer = Consumer::new(Arc::clone(&ring));
    for number in 0..4u8 {
        let ring = Arc::clone(&ring);
        std::thread::spawn(move || {
            Producer::attach(ring, "short").push(&[number; 64], false, FullPolicy::Drop)
        });
        assert_eq!(take(&mut consumer, 64), [number; 64]);
        while !consumer.is_finished() {
            std::thread::yield_now();
        }
    }
    assert_eq!(ring.counts().records, 4);
}

/// Attaches the calling thread to the ring, which belongs to the session of `generation`.
fn attach(ring: &Arc<Ring>, policy: FullPolicy, generation: u32) {
    let producer = Producer::attach(Arc::clone(ring), "worker");
    assert!(local::attach(producer, policy, Clock::Coarse(&TIME), generation));
}

#[test]
fn a_thread_s_place_takes_records_turns_its_own_handlers_away_and_ends_with_the_session() {
    let _turn = SESSION.lock().unwrap_or_else(PoisonError::into_inner);
    local::start_running();
    let ring = Arc::new(Ring::interpreted(RING_BYTES));
    let mut consumer = Consumer::new(Arc::clone(&ring));
    let owned = Arc::clone(&ring);
    let (tell, told) = channel();
    let worker = std::thread::spawn(move || {
        assert_eq!(local::write(5, 24, false, |put| put.u64(9)), Wrote::NoRing);
        attach(&owned, FullPolicy::Drop, local::generation());
        for number in 0..20 {
            let wrote = local::write(5, 24, false, |put| {
                put.u64(number);
                // As a signal handler would, that logs in the middle of a call.
                assert_eq!(local::write(6, 24, false, |put| put.u64(0)), Wrote::Dropped);
            });
            assert_eq!(wrote, Wrote::Committed);
            assert_eq!(local::take_gap()[DropReason::Reentrant as usize], 1);
        }
        local::count_disabled();
        tell.send(()).expect("somebody listens");
        while local::write(5, 24, true, |put| put.u64(0)) != Wrote::NoRing {
            let _told = local::take_gap();
        }
    });
    let first = take(&mut consumer, 24);
    assert_eq!(first[..16], [24, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    told.recv().expect("the worker comes so far");
    local::end_generation();
    worker.join().expect("the worker sees the end of the session");
    assert_eq!(ring.counts().dropped[DropReason::Reentrant as usize], 20);
    assert!(local::disabled_calls() > 0);
}

#[test]
fn the_end_of_a_session_and_calls_meet_without_a_race() {
    let _turn = SESSION.lock().unwrap_or_else(PoisonError::into_inner);
    local::start_running();
    let generation = local::generation();
    TIME.store(8, Ordering::Relaxed);
    let rings: Vec<_> = (0..2).map(|_| Arc::new(Ring::interpreted(RING_BYTES))).collect();
    std::thread::scope(|scope| {
        for ring in &rings {
            scope.spawn(move || {
                attach(ring, FullPolicy::Wait, generation);
                while local::write(1, 64, false, |put| put.u64(1)) == Wrote::Committed {}
                // Full, or at its end; either way nothing more gets in once the session has ended.
                while local::write(1, 64, true, |put| put.u64(2)) != Wrote::NoRing {
                    let _told = local::take_gap();
                }
            });
        }
        scope.spawn(local::end_generation);
    });
    for ring in rings {
        let pending = Consumer::new(ring)
            .pending_bytes()
            .expect("positions keep the rules");
        assert!(pending.is_multiple_of(64));
    }
}
