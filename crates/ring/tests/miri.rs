//! The ring's hot path under Miri: real producers and consumers on memory that Miri watches for
//! undefined behaviour and data races. What needs files, signals or processes is left to the other tests.
//!
//! Run with `cargo xtask miri`.
#![cfg(miri)]

use logdrive_ring::{Admission, Consumer, FullPolicy, Producer, Ring};
use std::sync::Arc;

const RING_BYTES: usize = 1 << 16;

/// A length that does not divide the ring, so that records lie across its end.
const RECORD_BYTES: usize = 5_000;

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
    assert_eq!(ring.header().records(), 4);
}
