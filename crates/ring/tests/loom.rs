//! Every interleaving of a producer and a consumer on a small ring, checked by loom, and the proof that the orderings
//! are needed: the tests run again with each end of each pair weakened in turn, and then one of them has to fail.
//!
//! Run with `cargo xtask loom`. A weakened ordering is `Relaxed`, a weakened fence is none at all.
#![cfg(loom)]

use logdrive_ring::{Admission, Consumer, ENDS, FullPolicy, Producer, Ring, WEAKENED};
use loom::sync::Arc as LoomArc;
use loom::thread;
use std::process::Command;
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

/// Runs every interleaving of a test. The producer attaches before its thread starts: loom remembers the last access to
/// a word only, so a load of the position in that thread would hide the consumer's own load from the search.
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
        let mut producer = Producer::attach(ring, "p");
        let producer = thread::spawn(move || {
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

/// A drain has taken half of a full ring, and dies before it has released it; the next one takes the ring over from the
/// epoch that counts, while the producer waits for that space.
#[test]
fn a_ring_that_is_taken_over_goes_on_where_the_epoch_says() {
    model(|| {
        let ring = Arc::new(Ring::model(128));
        let mut producer = Producer::attach(Arc::clone(&ring), "p");
        for number in 0..8 {
            assert_eq!(
                producer.push(&record(number), true, FullPolicy::Drop),
                Admission::Granted
            );
        }
        let writer = thread::spawn(move || producer.push(&record(8), true, FullPolicy::Drop));
        let taken = Arc::clone(&ring);
        // In a thread of its own, because its fences would make a weak `settle` strong.
        let dead = thread::spawn(move || {
            let dead = Consumer::new(taken);
            let mut bytes = [0; 64];
            dead.copy_out(0, &mut bytes);
            for (number, found) in bytes.chunks_exact(16).enumerate() {
                assert_eq!(found, record(number as u64), "nobody has written there yet");
            }
            dead.note_drained(64, 1, 0);
            // Of an epoch that was never published.
            dead.note_drained(128, 2, 1);
        });
        dead.join().expect("it dies between two steps");
        let mut consumer = Consumer::adopt(ring, 1);
        assert_eq!(consumer.position(), 64);
        consumer.settle();
        let mut next = 4;
        take(&mut consumer, &mut next);
        let admission = writer.join().expect("the producer runs through");
        take(&mut consumer, &mut next);
        assert_eq!(next, 8 + u64::from(admission != Admission::Dropped));
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

#[test]
fn a_ring_is_finished_only_when_all_of_it_is_read() {
    model(|| {
        let ring = Arc::new(Ring::model(128));
        let mut consumer = Consumer::new(Arc::clone(&ring));
        let mut producer = Producer::attach(ring, "p");
        let producer = thread::spawn(move || {
            assert_eq!(
                producer.push(&record(0), true, FullPolicy::Drop),
                Admission::Granted
            );
        });
        let mut next = 0;
        take(&mut consumer, &mut next);
        if consumer.is_finished() {
            assert_eq!(next, 1, "a ring with a record in it was given away");
        }
        producer.join().expect("the producer runs through");
        take(&mut consumer, &mut next);
        assert!(consumer.is_finished());
        assert_eq!(next, 1);
    });
}

/// Runs one test of this file in a process of its own; whether it passed, and what it printed.
fn alone(test: &str, weakened: Option<&str>) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args([test, "--exact"]).env_remove(WEAKENED);
    if let Some(end) = weakened {
        command.env(WEAKENED, end);
    }
    let output = command.output().expect("this program starts again");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("running 1 test"), "there is no test `{test}`");
    (output.status.success(), text)
}

#[test]
fn each_weakened_ordering_is_found() {
    let by_test = [
        (
            "commit.",
            "bytes_are_visible_before_the_position_that_covers_them",
        ),
        ("release.", "space_is_reused_only_after_it_was_released"),
        (
            "settle.",
            "a_ring_that_is_taken_over_goes_on_where_the_epoch_says",
        ),
        ("park.", "a_parked_producer_is_always_woken"),
        ("state.", "a_ring_is_finished_only_when_all_of_it_is_read"),
    ];
    for end in ENDS {
        let (_, test) = by_test
            .into_iter()
            .find(|(label, _)| end.starts_with(label))
            .unwrap_or_else(|| panic!("no test is known for `{end}`"));
        let (passed, text) = alone(test, None);
        assert!(passed, "with every ordering as it is:\n{text}");
        let (passed, text) = alone(test, Some(end));
        assert!(!passed, "`{test}` passes without `{end}`");
        assert!(text.contains("panicked"), "`{test}` ended otherwise:\n{text}");
        println!("without {end:13} {test} fails");
    }
}
