//! Hostile bytes in shared memory: a session whose files were damaged by a crash, by a bug or on purpose is refused, or
//! read as far as it keeps the rules. Never a panic, never a SIGBUS, and work bounded by the size of the files.
//!
//! The random tests print their seed; `LOGDRIVE_SEED=N` repeats a run. The fuzz target `session` does the same without
//! an end.
#![cfg(not(any(loom, miri)))]

use logdrive_ring::{Consumer, FullPolicy, Producer, Ring};
use logdrive_testkit::Random;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

#[path = "hostile/mangled.rs"]
mod mangled;
use mangled::{EDIT_BYTES, Edit, Images, Seen, read_all, read_ring};

/// Sessions that the random test damages.
const MUTATIONS: u32 = 2_000;
/// Steps of the ring whose producer writes what it likes.
const RING_STEPS: u32 = 20_000;
const CAPACITY: usize = 1 << 16;

/// Offsets of `spec/ring.md`.
const HEADER: u64 = CAPACITY as u64;
const COMMITTED: u64 = HEADER + 64;
const CONSUMED: u64 = HEADER + 256;

fn edit(random: &mut Random) -> Edit {
    let mut bytes = [0; EDIT_BYTES];
    let (front, back) = bytes.split_at_mut(8);
    front.copy_from_slice(&random.bits().to_le_bytes());
    back.copy_from_slice(&random.bits().to_le_bytes()[..EDIT_BYTES - 8]);
    Edit::from_bytes(&bytes)
}

/// A directory of the test's own, and the images of a session.
fn images(test: &str) -> (Images, PathBuf) {
    let dir = std::env::temp_dir().join(format!("logdrive-hostile-{}-{test}", std::process::id()));
    (Images::of_a_real_session(&dir), dir)
}

#[test]
fn mangled_sessions_are_refused_or_read_but_never_fatal() {
    let (images, run_dir) = images("mangled");
    let dir = run_dir.join("mangled-1-0");
    images.write(&dir, &[]);
    let whole = read_all(&dir);
    assert_eq!(
        (whole.opened, whole.refused),
        (2, 0),
        "an undamaged session is read: {whole:?}"
    );
    assert!(
        whole.records > 0 && whole.rings == 4 && whole.buffers > 0,
        "{whole:?}"
    );
    let mut random = Random::seeded(20_261_121);
    let mut sum = Seen::default();
    for _ in 0..MUTATIONS {
        let edits: Vec<Edit> = (0..1 + random.bits() % 4).map(|_| edit(&mut random)).collect();
        images.write(&dir, &edits);
        let seen = read_all(&dir);
        sum.opened += seen.opened;
        sum.records += seen.records;
        sum.refused += seen.refused;
    }
    println!("{MUTATIONS} sessions: {sum:?}");
    assert!(
        sum.opened > MUTATIONS && sum.refused > 100,
        "damage is noticed, and not everything is refused: {sum:?}"
    );
    std::fs::remove_dir_all(run_dir).unwrap();
}

#[test]
fn a_file_of_any_length_is_checked_before_it_is_mapped() {
    let (images, run_dir) = images("cut");
    let dir = run_dir.join("cut-1-0");
    for index in 0..images.count() {
        let (name, length) = images.file(index);
        let edges = [
            0, 1, 8, 31, 32, 63, 64, 384, 448, 4095, 4096, 4097, 61_439, 61_440, 65_535, 65_536, 65_920,
            69_631,
        ];
        let lengths = edges
            .into_iter()
            .chain((1..16).map(|part| length * part / 16))
            .chain([length - 1, length - 8]);
        for cut in lengths.filter(|cut| *cut < length) {
            images.write(&dir, &[]);
            File::options()
                .write(true)
                .open(dir.join(name))
                .unwrap()
                .set_len(cut)
                .unwrap();
            let seen = read_all(&dir);
            assert!(seen.opened + seen.refused > 0, "{name} of {cut} bytes");
        }
    }
    std::fs::remove_dir_all(run_dir).unwrap();
}

#[test]
fn every_word_of_every_header_may_hold_anything() {
    let (images, run_dir) = images("words");
    let dir = run_dir.join("words-1-0");
    for index in 0..images.count() {
        let words = images.used_bytes(index).min(512) / 8;
        for word in 0..words {
            // Operation 1 puts a value from the edges of the format.
            let value = (word * 7 + index) as u64;
            for step in [0, 9] {
                let edit = Edit {
                    file: index as u8,
                    op: 1,
                    at: (word * 8) as u16,
                    value: value + step,
                };
                images.write(&dir, &[edit]);
                read_all(&dir);
            }
        }
    }
    std::fs::remove_dir_all(run_dir).unwrap();
}

/// A ring that the test can write to behind the back of its two ends.
fn ring() -> (Arc<Ring>, File) {
    let (ring, file) = Ring::unnamed(CAPACITY).unwrap();
    (Arc::new(ring), file)
}

fn put(file: &File, offset: u64, value: u64) {
    file.write_all_at(&value.to_le_bytes(), offset).unwrap();
}

/// Every word of the data area is the beginning of a record of 16 bytes.
fn fill_with_headers(file: &File) {
    file.write_all_at(&16u64.to_le_bytes().repeat(CAPACITY / 8), 0)
        .unwrap();
}

#[test]
fn a_producer_that_writes_what_it_likes_costs_no_more_than_its_ring() {
    let mut random = Random::seeded(20_261_121);
    let (mut found, mut refused) = (0, 0);
    let (mut shared, mut file) = ring();
    for _ in 0..RING_STEPS {
        match random.bits() % 4 {
            0 => put(
                &file,
                HEADER + random.bits() % 48 * 8,
                random.bits() >> (random.bits() % 64),
            ),
            1 => put(
                &file,
                [COMMITTED, CONSUMED, HEADER + 272, HEADER + 280][random.bits() as usize % 4],
                random.bits() % (1 << 20),
            ),
            2 => put(&file, random.bits() % 60_000, 16 + random.bits() % 32 * 8),
            _ => {
                let mut seen = Seen::default();
                read_ring(&shared, random.bits() % 4, &mut seen);
                assert!(
                    seen.records as usize <= CAPACITY / 16,
                    "each record takes 16 bytes at least"
                );
                found += seen.records;
                refused += seen.refused;
                // The next walk begins with a ring of its own, or hardly any would be read.
                (shared, file) = ring();
                put(&file, COMMITTED, random.bits() % 4096 * 8);
                fill_with_headers(&file);
            }
        }
    }
    println!("{found} records, {refused} refused");
    assert!(
        found > 1000 && refused > 100,
        "both ways are taken: {found} {refused}"
    );
}

#[test]
fn positions_at_the_end_of_their_range_are_no_overflow() {
    for (consumed, ahead) in [
        (u64::MAX - 7, 16),
        (u64::MAX - 7, 0),
        (u64::MAX - 65_535, 65_536),
        (u64::MAX - 15, 8),
    ] {
        let (ring, file) = ring();
        put(&file, CONSUMED, consumed);
        put(&file, COMMITTED, consumed.wrapping_add(ahead));
        fill_with_headers(&file);
        let mut seen = Seen::default();
        read_ring(&ring, 0, &mut seen);
        assert_eq!(u64::from(seen.records), ahead / 16);
        // A thread that is handed such a ring writes, or drops its records; it does not fail.
        let mut producer = Producer::attach(Arc::clone(&ring), "t");
        for _ in 0..100 {
            producer.push(&[0; 1024], true, FullPolicy::Drop);
        }
    }
}

#[test]
fn a_position_noted_for_an_epoch_that_never_came_does_not_count_for_a_later_one() {
    // Killed after the notes of epoch 2 and before its publication; the recoverer commits an epoch 2 of its own, in
    // which this ring has no part, and is killed, too.
    let (ring, _file) = ring();
    let mut producer = Producer::attach(Arc::clone(&ring), "t");
    for _ in 0..4 {
        producer.push(&[1; 64], false, FullPolicy::Drop);
    }
    let dead = Consumer::new(Arc::clone(&ring));
    dead.note_drained(64, 1, 0);
    dead.note_drained(192, 2, 1);
    assert_eq!(Consumer::adopt(Arc::clone(&ring), 1).position(), 64);
    assert_eq!(
        Consumer::resume(Arc::clone(&ring), 2).position(),
        64,
        "records 64 to 192 would be lost"
    );
}
