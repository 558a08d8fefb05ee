//! Tests of the memory: against a plain model, after kills at any moment, and with files of arbitrary bytes.

use super::*;
use logdrive_ring::KeepFile;
use logdrive_testkit::Random;
use std::collections::VecDeque;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    number: u64,
    ticks: u64,
    thread: u64,
    length: usize,
}

fn payload(record: &Record) -> Vec<u8> {
    let mut bytes = vec![record.number as u8; record.length];
    bytes[..8].copy_from_slice(&record.number.to_le_bytes());
    bytes
}

fn push(memory: &mut RecorderMemory, record: &Record) -> bool {
    let payload = payload(record);
    let header = RecordHeader {
        length_bytes: (HEADER_BYTES + payload.len()) as u32,
        callsite_id: (record.number % 65_536) as u32,
        time_ticks: record.ticks,
    };
    memory.push(
        &header,
        record.thread,
        &format!("worker-{}", record.thread),
        &payload,
    )
}

/// Takes everything that there is, and checks that each record is whole.
fn take_all(memory: &mut RecorderMemory) -> Vec<Record> {
    let mut taken = Vec::new();
    while let Some(kept) = memory.front() {
        let number = u64::from_le_bytes(*kept.payload.first_chunk().expect("a number"));
        let record = Record {
            number,
            ticks: kept.time_ticks,
            thread: kept.thread_id,
            length: kept.payload.len(),
        };
        assert_eq!(kept.payload, payload(&record));
        assert_eq!(kept.thread_name, format!("worker-{}", kept.thread_id));
        assert_eq!(u64::from(kept.callsite_id), number % 65_536);
        taken.push(record);
        memory.advance(true);
    }
    assert!(!memory.is_taking());
    taken
}

fn random_record(random: &mut Random, number: u64) -> Record {
    let length = match random.below(40) {
        0 => 65_536 - HEADER_BYTES,
        1 => 8 + 8 * random.below(4_000) as usize,
        _ => 8 + 8 * random.below(12) as usize,
    };
    Record {
        number,
        ticks: 1_000 + number * 10,
        thread: 1 + random.below(5),
        length,
    }
}

/// The memory always holds the newest of the records that were put in.
#[test]
fn a_memory_holds_the_newest_records_in_their_order() {
    Random::rounds(8, |random| {
        let mut memory = RecorderMemory::private(0);
        let mut model: VecDeque<Record> = VecDeque::new();
        let mut number = 0;
        for _ in 0..60 {
            for _ in 0..random.below(4_000) {
                let record = random_record(random, number);
                number += 1;
                if !push(&mut memory, &record) {
                    memory.note(1, 0);
                    memory.committed();
                    assert!(push(&mut memory, &record), "room after a commit");
                }
                model.push_back(record);
            }
            let counts = memory.counts();
            assert_eq!(counts.kept, number);
            let all = random.below(3) > 0;
            let held = counts.held() as usize;
            let oldest_held = model.len() - held.min(model.len());
            let from_ticks = match (all, model.get(oldest_held + held / 2)) {
                (false, Some(record)) => record.ticks,
                _ => 0,
            };
            let expected: Vec<Record> = model
                .iter()
                .skip(oldest_held)
                .filter(|record| record.ticks >= from_ticks)
                .cloned()
                .collect();
            let found = memory.take_from(from_ticks);
            assert_eq!(found.map_or(0, |(records, _)| records), expected.len() as u64);
            if let Some((_, oldest)) = found {
                assert_eq!(oldest, expected[0].ticks);
            }
            assert_eq!(take_all(&mut memory), expected);
            model.clear();
            assert_eq!(memory.counts().held(), 0);
        }
    });
}

#[test]
fn what_is_on_its_way_to_the_log_is_not_overwritten() {
    Random::rounds(3, |random| {
        let mut memory = RecorderMemory::private(0);
        for number in 0..40_000 {
            push(&mut memory, &random_record(random, number));
        }
        let (records, _) = memory.take_from(0).expect("records");
        let mut number = 40_000;
        while push(&mut memory, &random_record(random, number)) {
            number += 1;
        }
        assert_eq!(take_all(&mut memory).len() as u64, records);
        // What was taken counts in no output buffer yet.
        assert!(!push(&mut memory, &random_record(random, number)));
        memory.note(1, 0);
        memory.committed();
        assert!(push(&mut memory, &random_record(random, number)));
        let counts = memory.counts();
        assert_eq!(counts.held(), number + 1 - 40_000);
        assert_eq!(counts.kept, counts.written + counts.forgotten + counts.held());
    });
}

#[test]
fn a_chunk_that_is_skipped_is_counted() {
    Random::rounds(3, |random| {
        let mut memory = RecorderMemory::private(0);
        for number in 0..100_000 {
            push(&mut memory, &random_record(random, number));
        }
        let (records, _) = memory.take_from(0).expect("records");
        memory.advance(true);
        let lost = memory.skip_chunk();
        assert!(lost > 0);
        assert_eq!(take_all(&mut memory).len() as u64, records - lost - 1);
    });
}

struct Shared {
    file: std::fs::File,
    _dir: tempfile::TempDir,
    session: logdrive_ring::SessionWriter,
}

fn shared() -> Shared {
    let dir = tempfile::tempdir().expect("a directory");
    let (session, _) = logdrive_ring::SessionWriter::create(&logdrive_ring::SessionOptions {
        app: "keep".to_owned(),
        run_dirs: vec![dir.path().join("run")],
        ring_bytes: 0,
        config: Vec::new(),
        sink_count: 0,
        buffers_per_sink: 0,
        buffer_bytes: logdrive_ring::BUFFER_BYTES_MIN,
        sinks_at_start: 0,
        keep_bytes: 1,
    })
    .expect("a session");
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(session.path().join("keep"))
        .expect("its file");
    Shared {
        file,
        _dir: dir,
        session,
    }
}

impl Shared {
    fn open(&self) -> KeepFile {
        let view = logdrive_ring::SessionReader::open(self.session.path()).expect("a view");
        view.keep().expect("a sound file").expect("a file")
    }
}

/// A recorder of a process that is killed at some moment.
struct Killed {
    memory: RecorderMemory,
    /// Records that a recoverer may find, and the number of them that was never committed.
    expected: VecDeque<Record>,
    uncommitted: usize,
    epoch: u64,
    number: u64,
}

impl Killed {
    fn commit(&mut self) {
        self.memory.note(self.epoch + 1, self.epoch);
        self.epoch += 1;
        self.memory.committed();
        self.uncommitted = 0;
    }

    fn keep(&mut self, random: &mut Random) {
        let record = random_record(random, self.number);
        self.number += 1;
        if !push(&mut self.memory, &record) {
            self.commit();
            assert!(push(&mut self.memory, &record), "room after a commit");
        }
        self.expected.push_back(record);
        self.uncommitted += 1;
    }

    /// Writes some of what is kept; `false` when the kill comes in the middle of it.
    fn dump(&mut self, random: &mut Random) -> bool {
        let held = self.memory.counts().held();
        if self.memory.take_from(0).is_none() {
            return true;
        }
        self.expected.drain(..self.expected.len() - held as usize);
        for _ in 0..1 + random.below(held) {
            self.memory.advance(true);
            self.expected.pop_front();
        }
        self.commit();
        if random.below(2) == 0 {
            return false;
        }
        take_all(&mut self.memory);
        self.expected.clear();
        self.commit();
        true
    }
}

#[test]
fn after_a_kill_each_record_of_the_epoch_is_there_once() {
    Random::rounds(20, |random| {
        let shared = shared();
        let mut killed = Killed {
            memory: RecorderMemory::shared(shared.open()),
            expected: VecDeque::new(),
            uncommitted: 0,
            epoch: 0,
            number: 0,
        };
        for _ in 0..random.below(30) {
            for _ in 0..random.below(1_500) {
                killed.keep(random);
            }
            if random.below(8) == 0 && !killed.dump(random) {
                break;
            }
            if random.below(3) > 0 {
                killed.commit();
            }
        }
        // Noted, but the epoch never came.
        killed.memory.note(killed.epoch + 1, killed.epoch);
        let committed = killed.expected.len() - killed.uncommitted;
        let expected: Vec<Record> = killed.expected.into_iter().take(committed).collect();
        let (mut again, damage) = RecorderMemory::adopt(shared.open(), killed.epoch);
        assert_eq!(damage, None);
        let found = again.take_from(0).map_or(0, |(records, _)| records);
        let taken = take_all(&mut again);
        assert_eq!(taken.len() as u64, found);
        assert!(expected.ends_with(&taken), "the newest of what was committed");
        let overwritten = expected.len() - taken.len();
        let bytes: usize = taken.iter().map(|record| record.length + 40).sum();
        assert!(
            overwritten == 0
                || killed.uncommitted > 0
                || bytes + 70_000 + 2 * CHUNK_BYTES > shared.open().bytes(),
            "{overwritten} records are gone, and the memory holds {bytes} bytes"
        );
    });
}

#[test]
fn a_file_of_arbitrary_bytes_does_no_harm() {
    use std::os::unix::fs::FileExt;
    Random::rounds(200, |random| {
        let shared = shared();
        let mut memory = RecorderMemory::shared(shared.open());
        for number in 0..random.below(20_000) {
            push(&mut memory, &random_record(random, number));
        }
        memory.note(1, 0);
        let whole = shared.file.metadata().expect("its size").len();
        for _ in 0..1 + random.below(200) {
            // Most of them in the words of the header, which say what counts, and in the first chunk.
            let at = match random.below(4) {
                0 => 16 + random.below(120),
                1 => 4096 + random.below(4096),
                2 => 4096 + random.below(CHUNK_BYTES as u64),
                _ => 16 + random.below(whole - 24),
            };
            let value = match random.below(4) {
                0 => u64::MAX - random.below(3),
                1 => random.below(1 << 20),
                2 => 1 << random.below(64),
                _ => random.below(u64::MAX),
            };
            shared
                .file
                .write_all_at(&value.to_le_bytes(), at)
                .expect("a mutation");
        }
        let (mut again, _) = RecorderMemory::adopt(shared.open(), 1 + random.below(2));
        for number in 0..random.below(20_000) {
            if !push(&mut again, &random_record(random, number)) {
                again.committed();
            }
        }
        let mut left = 10_000_000;
        again.take_from(random.below(200_000));
        while again.front().is_some() {
            again.advance(true);
            left -= 1;
            assert!(left > 0, "it ends");
        }
        assert!(!again.is_taking());
    });
}
