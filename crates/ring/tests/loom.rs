//! Every interleaving of a producer and a consumer on a small ring, checked by loom.
//!
//! Run with `cargo xtask loom`. Each test fails when its ordering is weakened: with `Relaxed` instead of
//! `Release` or `Acquire` at `SYNC(commit)`, loom reports a race on the data (`bytes_are_visible...`); at
//! `SYNC(release)` a race on reused space (`space_is_reused...`); without the fences of `SYNC(park)`, or with the
//! sequence read after the look at `consumed`, an endless wait (`a_parked_producer...`).
#![cfg(loom)]

use logdrive_ring::{Admission, Consumer, FullPolicy, Producer, Ring};
use loom::sync::Arc as LoomArc;
use loom::thread;
use std::sync::Arc;

/// A record of two words that both carry the same number.
fn record(number: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Takes what is there and checks that it is whole; returns how many records.
fn take(consumer: &mut Consumer, next: &mut u64) -> usize {
    let pending = consumer.pending_bytes().expect("positions keep the rules");
    let mut bytes = vec![0; pending];
    consumer.copy_out(0, &mut bytes);
    for found in bytes.chunks_exact(16) {
        assert_eq!(found, record(*next), "records arrive whole and in order");
        *next += 1;
    }
    if pending > 0 {
        consumer.release(pending);
    }
    pending / 16
}

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(test);
}

#[test]
fn bytes_are_visible_before_the_position_that_covers_them() {
    model(|| {
        let ring = Arc::new(Ring::model(256));
        let mut consumer = Consumer::new(Arc::clone(&ring));
        let producer = thread::spawn(move || {
            let mut producer = Producer::attach(ring, "p");
            for number in 0..2 {
                assert_eq!(
                    producer.push(&record(number), true, FullPolicy::Drop),
                    Admission::Granted
                );
            }
        });
        let mut next = 0;
        take(&mut consumer, &mut next);
        producer.join().expect("the producer runs through");
        take(&mut consumer, &mut next);
        assert_eq!(next, 2);
    });
}

#[test]
fn space_is_reused_only_after_it_was_released() {
    model(|| {
        // Room for eight records; a record is an eighth of the ring at most.
        let ring = Arc::new(Ring::model(128));
        let mut producer = Producer::attach(Arc::clone(&ring), "p");
        for number in 0..8 {
            assert_eq!(
                producer.push(&record(number), true, FullPolicy::Drop),
                Admission::Granted
            );
        }
        let pushed = LoomArc::new(loom::sync::atomic::AtomicUsize::new(0));
        let seen = LoomArc::clone(&pushed);
        let writer = thread::spawn(move || {
            let admission = producer.push(&record(8), true, FullPolicy::Drop);
            pushed.store(
                usize::from(admission != Admission::Dropped),
                loom::sync::atomic::Ordering::SeqCst,
            );
        });
        let mut consumer = Consumer::new(ring);
        let mut next = 0;
        take(&mut consumer, &mut next);
        writer.join().expect("the producer runs through");
        take(&mut consumer, &mut next);
        assert_eq!(next, 8 + seen.load(loom::sync::atomic::Ordering::SeqCst) as u64);
    });
}

#[test]
fn a_parked_producer_is_always_woken() {
    model(|| {
        let ring = Arc::new(Ring::model(128));
        let mut producer = Producer::attach(Arc::clone(&ring), "p");
        for number in 0..8 {
            assert_eq!(
                producer.push(&record(number), true, FullPolicy::Drop),
                Admission::Granted
            );
        }
        let writer = thread::spawn(move || {
            assert_eq!(
                producer.push(&record(8), true, FullPolicy::Block),
                Admission::Granted
            );
        });
        let mut consumer = Consumer::new(ring);
        let mut next = 0;
        take(&mut consumer, &mut next);
        writer.join().expect("the producer runs through");
        take(&mut consumer, &mut next);
        assert_eq!(next, 9);
    });
}
