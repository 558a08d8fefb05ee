//! Batches: rows that were sent read back, with definitions that go over a connection once, and hostile bytes are errors.

mod support;

use logdrive_store::limits::DEFINITIONS_BYTES_MAX;
use logdrive_store::{Batch, BatchDictionary, BatchEncoder, Definition, EncodedBatch, StoreError};
use logdrive_testkit::Random;
use std::collections::HashMap;
use support::{Whole, hex, of_block, random_rows, unhex, vector_rows};

/// Receiving end, which gets each definition when it is new or has changed.
#[derive(Default)]
struct Receiver {
    dictionary: BatchDictionary,
    sent: HashMap<u32, Vec<u8>>,
    definitions: usize,
}

impl Receiver {
    fn take(&mut self, batch: &EncodedBatch) -> Vec<Whole> {
        for Definition { number, bytes } in &batch.definitions {
            if self.sent.get(number).is_none_or(|sent| **sent != **bytes) {
                self.sent.insert(*number, bytes.to_vec());
                self.dictionary.define(*number, bytes).expect("a definition");
                self.definitions += 1;
            }
        }
        let read = Batch::read(&batch.block, &self.dictionary).expect("a batch");
        assert_eq!(read.block.head().records, batch.records as usize);
        assert_eq!(read.callsites.len(), read.block.head().callsites.len());
        of_block(&read.block)
    }
}

/// Threads have other numbers in a block than in the rows that it was made of.
fn without_threads(mut rows: Vec<Whole>) -> Vec<Whole> {
    rows.iter_mut().for_each(|row| row.thread = None);
    rows
}

#[test]
fn random_records_read_back_and_their_callsites_are_sent_once() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let (mut encoder, mut receiver) = (BatchEncoder::default(), Receiver::default());
        let count = [1, 10, 300, 3_000][random.below(4) as usize];
        let (rows, expected) = random_rows(&mut random, count);
        for round in 0..2 {
            let bytes_max = [1, 4_000, 1 << 18][random.below(3) as usize];
            let batches = encoder.encode(&rows, bytes_max).expect("batches");
            let read: Vec<Whole> = batches.iter().flat_map(|batch| receiver.take(batch)).collect();
            assert_eq!(
                without_threads(read),
                without_threads(expected.clone()),
                "seed {seed}, round {round}"
            );
            assert!(
                receiver.definitions <= 8 + 4,
                "seed {seed}: {}",
                receiver.definitions
            );
        }
    }
}

#[test]
fn numbers_begin_again_before_a_receiver_has_too_many() {
    let (mut encoder, mut receiver) = (BatchEncoder::default(), Receiver::default());
    let mut names = 0;
    for seed in 0..900 {
        // A long message makes each callsite take much.
        let mut random = Random::new(seed);
        let mut site = support::callsite(&mut random, 1);
        (site.dynamic, site.message) = (false, format!("{seed:05}").repeat(3_000));
        site.fields.clear();
        let site = logdrive_store::RowCallsite::new(&site, None).expect("a callsite");
        let mut rows = vec![0; 1 << 16];
        let name = format!("thread {seed}");
        let thread = logdrive_store::RowThread {
            id: seed,
            name: &name,
        };
        let end = logdrive_store::RowWriter::default()
            .record(&mut rows, 0, &site, thread, seed, b"")
            .expect("room");
        for batch in encoder.encode(&rows[..end], 1 << 18).expect("batches") {
            assert_eq!(receiver.take(&batch).len(), 1);
            names += 1;
        }
        assert!(receiver.dictionary.bytes() <= DEFINITIONS_BYTES_MAX);
    }
    assert_eq!(names, 900);
    assert!(
        receiver.sent.len() < 1_000,
        "numbers began again: {}",
        receiver.sent.len()
    );
}

#[test]
fn hostile_batches_are_errors() {
    let batch = BatchEncoder::default()
        .encode(&vector_rows(), 1 << 18)
        .expect("batches")
        .remove(0);
    let mut receiver = Receiver::default();
    assert_eq!(receiver.take(&batch).len(), 36);
    let nothing_defined = Batch::read(&batch.block, &BatchDictionary::default());
    assert!(
        matches!(nothing_defined, Err(StoreError::Contradiction { .. })),
        "{nothing_defined:?}"
    );
    for length in 0..batch.block.len() {
        assert!(
            Batch::read(&batch.block[..length], &receiver.dictionary).is_err(),
            "{length}"
        );
    }
    let mut random = Random::new(7);
    for _ in 0..2_000 {
        let mut bytes = batch.block.clone();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        // A checksum covers each byte.
        assert!(Batch::read(&bytes, &receiver.dictionary).is_err(), "byte {at}");
    }
    for definition in [&b""[..], b"\x01", b"\x02\x01", b"\x03abc", b"\x01\x07"] {
        assert!(
            receiver.dictionary.define(0, definition).is_err(),
            "{definition:?}"
        );
    }
    assert!(
        receiver
            .dictionary
            .define(70_000, b"\x02\0\0\0\0\0\0\0\0")
            .is_err()
    );
    // A number that is a callsite's may become a thread's; then it is no callsite.
    receiver
        .dictionary
        .define(batch.definitions[2].number, b"\x02\0\0\0\0\0\0\0\0")
        .expect("a thread");
    assert!(Batch::read(&batch.block, &receiver.dictionary).is_err());
}

/// What was sent once is read for ever: the bytes of the vectors were written by the version that they are of.
#[test]
fn batch_vectors_read_as_they_say() {
    let vectors = logdrive_testkit::vectors("segment");
    let read = |case: &serde_json::Value| {
        let mut dictionary = BatchDictionary::default();
        for definition in case["definitions"].as_array().expect("definitions") {
            let number = definition["number"].as_u64().expect("a number") as u32;
            dictionary.define(number, &unhex(definition["hex"].as_str().expect("hex")))?;
        }
        let bytes = unhex(case["hex"].as_str().expect("hex"));
        Batch::read(&bytes, &dictionary)?.block.rows()
    };
    let valid = vectors["batches"].as_array().expect("valid ones");
    for case in valid {
        let rows = read(case).expect("a batch");
        assert_eq!(
            hex(&rows),
            case["rows"].as_str().expect("hex"),
            "{}",
            case["name"]
        );
    }
    let invalid = vectors["invalid_batches"].as_array().expect("invalid ones");
    for case in invalid {
        let error = read(case).expect_err(case["name"].as_str().expect("a name"));
        assert!(
            format!("{error:?}").starts_with(case["error"].as_str().expect("an error")),
            "{}: {error:?}",
            case["name"]
        );
    }
    println!(
        "vectors: segment.json: {} valid, {} invalid",
        valid.len(),
        invalid.len()
    );
}

/// Prints a vector of this version, for `vectors/segment.json` when the version changes.
#[test]
fn a_batch_of_the_vectors_is_written_and_read_by_this_version() {
    let batches = BatchEncoder::default()
        .encode(&vector_rows(), 1 << 18)
        .expect("batches");
    let mut receiver = Receiver::default();
    for batch in &batches {
        for definition in &batch.definitions {
            println!("definition {} {}", definition.number, hex(&definition.bytes));
        }
        assert_eq!(receiver.take(batch).len(), 36);
        let rows = Batch::read(&batch.block, &receiver.dictionary)
            .expect("a batch")
            .block
            .rows();
        println!("hex {}\nrows {}", hex(&batch.block), hex(&rows.expect("rows")));
    }
}

/// The encoder collected the tokens of a filter that batches do not have, and never forgot them.
#[test]
fn an_encoder_of_batches_keeps_nothing_of_a_buffer() {
    let mut encoder = BatchEncoder::default();
    let (rows, _) = random_rows(&mut Random::new(5), 200);
    let mut kept = |times: usize| {
        for _ in 0..times {
            encoder.encode(&rows, usize::MAX).expect("batches");
        }
        format!("{encoder:?}").len()
    };
    let kept_at_first = kept(2);
    assert_eq!(kept(20), kept_at_first);
}
