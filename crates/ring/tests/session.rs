//! Sessions and rings as whole processes use them: files, locks, recovery positions, hostile bytes.
#![cfg(not(loom))]

use logdrive_ring::local::{self, Clock, Wrote};
use logdrive_ring::*;
use std::path::PathBuf;
use std::sync::Arc;

fn options(name: &str) -> (SessionOptions, PathBuf) {
    let dir = std::env::temp_dir().join(format!("logdrive-ring-test-{}-{name}", std::process::id()));
    let options = SessionOptions {
        app: name.to_owned(),
        run_dirs: vec![dir.clone()],
        ring_bytes: 1 << 16,
        config: b"config".to_vec(),
        sink_count: 1,
        buffers_per_sink: 2,
        buffer_bytes: BUFFER_BYTES_MIN,
        sinks_at_start: 0,
        keep_bytes: 0,
    };
    (options, dir)
}

#[test]
fn a_session_reads_back_what_was_registered_and_goes_when_removed() {
    let (options, dir) = options("registered");
    let (session, failed) = SessionWriter::create(&options).unwrap();
    assert!(failed.is_empty());
    for number in 0..5000u32 {
        let entry = session
            .register(format!("callsite {number}").as_bytes(), control::ON)
            .unwrap();
        assert_eq!(entry.id(), number);
    }
    let (found, end) = session.callsites_from(0);
    assert_eq!(found.len(), 5000);
    assert_eq!(found[4999], (4999, b"callsite 4999".to_vec()));
    assert_eq!(session.callsites_from(end).0.len(), 0);
    let view = SessionReader::open(session.path()).unwrap();
    assert_eq!(view.callsites().unwrap(), found);
    control::settle(
        view.control(17).unwrap(),
        || 0,
        |_| control::Switch::plain(control::OFF),
    );
    assert_eq!(session.control(17).unwrap().control(), control::OFF);
    assert_eq!(view.buffers().unwrap().config(), b"config");
    session.remove().unwrap();
    assert_eq!(find_sessions(&dir).unwrap().len(), 0);
    std::fs::remove_dir(dir).unwrap();
}

/// A process may make a ring between the moment that its sidecar sees how many there are and the one that it opens them:
/// the sidecar takes those that it has seen, and the other one next time, so that each is drained once.
#[cfg(target_os = "linux")]
#[test]
fn a_ring_that_is_made_during_a_look_is_found_by_the_next_one() {
    let (options, dir) = options("made during a look");
    let (session, _) = SessionWriter::create(&options).unwrap();
    let _producers = [session.acquire("a").unwrap(), session.acquire("b").unwrap()];
    let view = SessionReader::open(session.path()).unwrap();
    let numbers = |range| -> Vec<u32> { view.rings_in(range).0.iter().map(|ring| ring.index()).collect() };
    assert_eq!(
        (numbers(0..1), numbers(1..2), numbers(2..9)),
        (vec![0], vec![1], vec![])
    );
    let helped = SessionReader::open_for_drain(session.path()).unwrap();
    assert_eq!((helped.rings_from(0).len(), helped.rings_from(2).len()), (2, 0));
    drop((view, helped));
    session.remove().unwrap();
    std::fs::remove_dir(dir).unwrap();
}

#[test]
fn the_reserved_eighth_is_for_urgent_records() {
    let (ring, _file) = Ring::unnamed(1 << 16).unwrap();
    let ring = Arc::new(ring);
    let mut producer = Producer::attach(ring.clone(), "t");
    let mut accepted = 0;
    while producer.push(&[0; 64], false, FullPolicy::Drop) != Admission::Dropped {
        accepted += 1;
    }
    assert_eq!(accepted, (1 << 16) * 7 / 8 / 64);
    let mut urgent = 0;
    while producer.push(&[0; 64], true, FullPolicy::Drop) == Admission::GapDue {
        // The next writer reports the gap; here the record itself is pushed again.
        ring.take_unreported();
        assert_eq!(
            producer.push(&[0; 64], true, FullPolicy::Drop),
            Admission::Granted
        );
        urgent += 1;
        producer.push(&[0; 64], false, FullPolicy::Drop);
    }
    assert!(urgent > 0);
    let dropped = ring.counts().dropped[DropReason::Full as usize];
    assert_eq!(dropped, 1 + urgent + u64::from(dropped > 1 + urgent));
}

#[test]
fn wait_parks_once_per_episode_and_then_drops_at_once() {
    let (ring, _file) = Ring::unnamed(1 << 16).unwrap();
    let ring = Arc::new(ring);
    let mut producer = Producer::attach(ring.clone(), "t");
    while producer.push(&[0; 1024], false, FullPolicy::Wait) != Admission::Dropped {}
    let parked = ring.counts().dropped[0];
    assert_eq!(parked, 1);
    for _ in 0..100_000 {
        assert_eq!(
            producer.push(&[0; 1024], false, FullPolicy::Wait),
            Admission::Dropped
        );
    }
    let mut consumer = Consumer::new(ring.clone());
    consumer.release(consumer.pending_bytes().unwrap());
    assert_eq!(
        producer.push(&[0; 1024], false, FullPolicy::Wait),
        Admission::GapDue
    );
    assert_eq!(ring.take_unreported()[0], 100_001);
    assert_eq!(
        producer.push(&[0; 1024], false, FullPolicy::Wait),
        Admission::Granted
    );
}

#[test]
fn a_thread_writes_through_its_place_and_gives_the_ring_back() {
    let (options, dir) = options("place");
    let (session, _) = SessionWriter::create(&options).unwrap();
    local::start_running();
    let session = Arc::new(session);
    let inner = Arc::clone(&session);
    std::thread::spawn(move || {
        assert_eq!(local::write(5, 24, false, |put| put.u64(9)), Wrote::NoRing);
        let producer = inner.acquire("worker").unwrap();
        assert!(local::attach(
            producer,
            FullPolicy::Drop,
            Clock::Counter,
            local::generation()
        ));
        assert_eq!(
            local::write(5, 24, false, |put| {
                put.u64(9);
                // A signal handler that logs now is turned away and counted.
                assert_eq!(local::write(6, 24, false, |put| put.u64(1)), Wrote::Dropped);
            }),
            Wrote::Committed
        );
    })
    .join()
    .unwrap();
    let ring = session.rings_from(0).remove(0);
    assert_eq!(ring.thread_name(), "worker");
    assert_eq!(ring.counts().state, RingState::Ended);
    assert_eq!(ring.counts().dropped[DropReason::Reentrant as usize], 1);
    let mut consumer = Consumer::new(Arc::clone(&ring));
    let mut record = [0; 24];
    consumer.copy_out(0, &mut record);
    assert_eq!(record[..8], [24, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(record[16..], 9u64.to_le_bytes());
    assert!(!consumer.is_finished());
    consumer.release(24);
    assert!(consumer.is_finished());
    SessionReader::open_own(&session).unwrap().recycle(&ring);
    let again = session.acquire("next").unwrap();
    assert_eq!(
        (session.rings_from(0).len(), ring.thread_name().as_str()),
        (1, "next")
    );
    drop(again);
    session.remove().unwrap();
    std::fs::remove_dir(dir).unwrap();
}

#[test]
fn positions_that_break_the_rules_are_errors() {
    let (ring, file) = Ring::unnamed(1 << 16).unwrap();
    let ring = Arc::new(ring);
    let consumer = Consumer::new(ring.clone());
    use std::os::unix::fs::FileExt;
    let header_at = ring.capacity_bytes() as u64;
    for committed in [4u64, 12, (1 << 16) + 8, u64::MAX - 7, u64::MAX] {
        file.write_all_at(&committed.to_le_bytes(), header_at + 64)
            .unwrap();
        assert!(consumer.pending_bytes().is_err(), "{committed}");
    }
    assert!(Ring::open_sealed(&file, 0).is_ok());
    for (offset, bytes) in [(0, 7u64), (16, 0), (16, 3 << 16), (16, 1 << 40), (16, 1 << 17)] {
        let offset = header_at + offset;
        let mut before = [0; 8];
        file.read_exact_at(&mut before, offset).unwrap();
        file.write_all_at(&bytes.to_le_bytes(), offset).unwrap();
        assert!(Ring::open_sealed(&file, 0).is_err(), "{offset} {bytes}");
        file.write_all_at(&before, offset).unwrap();
    }
}

#[test]
fn sinks_are_described_anew_and_their_memory_comes_and_goes() {
    use std::os::unix::fs::MetadataExt;
    let (mut options, dir) = options("replaced");
    options.sink_count = 2;
    let (session, _) = SessionWriter::create(&options).unwrap();
    let buffers = session.buffers();
    let view = SessionReader::open(session.path()).unwrap().buffers().unwrap();
    // Old and new share the room, so that there is an end to it; then the old one counts.
    for round in 1..=100usize {
        let text = vec![b'a' + (round % 26) as u8; round * 100];
        buffers.replace_config(&text).unwrap();
        assert!(view.config() == text, "round {round}");
    }
    let before = view.config();
    assert!(buffers.replace_config(&[b'x'; 32 * 1024]).is_err());
    assert!(view.config() == before);
    let blocks = || std::fs::metadata(session.path().join("drain")).unwrap().blocks();
    let (none, bytes) = (blocks(), BUFFER_BYTES_MIN as u64 * 2);
    for _ in 0..3 {
        let mut all = buffers.take_all(1).expect("room");
        assert!(blocks() * 512 >= none * 512 + bytes);
        all[0].space()[..4].copy_from_slice(b"text");
        drop(all);
        buffers.release(1).unwrap();
        assert!(blocks() * 512 < none * 512 + bytes / 2);
    }
    session.remove().unwrap();
    std::fs::remove_dir(dir).unwrap();
}

#[test]
fn only_published_epochs_count_after_a_kill() {
    let (options, dir) = options("epochs");
    let (session, _) = SessionWriter::create(&options).unwrap();
    let buffers = Arc::clone(session.buffers());
    let mut all = buffers.take_all(0).expect("room");
    let mut buffer = all.remove(0);
    buffer.start_filling(1);
    buffer.space()[..6].copy_from_slice(b"first\n");
    buffer.grow(6, 1);
    buffers.note_fill(0, Some(&buffer), &SinkDrops::default(), 1);
    buffers.publish(1);
    buffer.space()[..7].copy_from_slice(b"second\n");
    buffer.grow(7, 1);
    buffers.note_fill(0, Some(&buffer), &SinkDrops::default(), 2);
    let (unwritten, empty) = buffers.adopt(0).expect("room");
    assert_eq!(unwritten.len(), 1);
    assert_eq!(unwritten[0].0.bytes(), b"first\n");
    assert_eq!(empty.len(), 1);
    // Adopting struck the note out; the drain makes it again.
    buffers.note_fill(0, Some(&buffer), &SinkDrops::default(), 2);
    buffers.publish(2);
    assert_eq!(buffers.adopt(0).expect("room").0[0].0.bytes(), b"first\nsecond\n");
    // A buffer that is filled again is not taken for its earlier filling.
    buffer.mark_ready();
    buffer.mark_written();
    buffer.start_filling(2);
    assert_eq!(buffers.adopt(0).expect("room").0.len(), 0);
    assert_eq!(buffers.counts(0).written_records, 2);
    session.remove().unwrap();
    std::fs::remove_dir(dir).unwrap();
}

#[test]
fn ring_positions_of_an_unpublished_epoch_are_drained_again() {
    let (ring, _file) = Ring::unnamed(1 << 16).unwrap();
    let ring = Arc::new(ring);
    let mut producer = Producer::attach(ring.clone(), "t");
    for _ in 0..3 {
        producer.push(&[1; 64], false, FullPolicy::Drop);
    }
    let consumer = Consumer::new(ring.clone());
    consumer.note_drained(64, 1, 0);
    consumer.note_drained(128, 2, 1);
    assert_eq!(Consumer::resume(ring.clone(), 0).position(), 0);
    assert_eq!(Consumer::resume(ring.clone(), 1).position(), 64);
    assert_eq!(Consumer::resume(ring.clone(), 2).position(), 128);
}

#[test]
fn a_session_of_a_living_process_cannot_be_adopted_by_its_list() {
    let (options, dir) = options("alive");
    let (session, _) = SessionWriter::create(&options).unwrap();
    let found = find_sessions(&dir).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].holder, Some(std::process::id()));
    session.remove().unwrap();
    std::fs::remove_dir(dir).unwrap();
}

/// Returns whether the kernel's list of record locks has one of this process on the session's file.
#[cfg(target_os = "linux")]
fn is_locked(session: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(session.join("session")).unwrap().ino();
    let (pid, inode) = (std::process::id().to_string(), format!(":{inode}"));
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.contains(&"POSIX") && words.contains(&pid.as_str()) && line.contains(&format!("{inode} "))
    })
}

/// Closing any descriptor of a file takes all record locks of the process off it.
#[cfg(target_os = "linux")]
#[test]
fn looking_at_the_process_s_own_session_leaves_its_lock() {
    let (options, dir) = options("own");
    let (session, _) = SessionWriter::create(&options).unwrap();
    session.register(b"first", control::ON).unwrap();
    let link = dir.with_extension("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    let other_way = link.join(session.path().file_name().unwrap());
    assert!(is_locked(session.path()));
    for path in [session.path(), &other_way] {
        let view = SessionReader::open(path).unwrap();
        assert_eq!(view.callsites().unwrap(), [(0, b"first".to_vec())]);
        drop(view);
        let refused = SessionReader::adopt(path).err();
        assert!(
            matches!(refused, Some(RingError::Alive { pid, .. }) if pid == std::process::id()),
            "{refused:?}"
        );
        assert!(is_locked(session.path()));
    }
    session.remove().unwrap();
    std::fs::remove_file(link).unwrap();
    std::fs::remove_dir(dir).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn an_adopted_session_is_held_until_it_is_dropped() {
    let (options, dir) = options("adopted");
    let (session, _) = SessionWriter::create(&options).unwrap();
    let path = session.path().to_owned();
    drop(session);
    assert!(!is_locked(&path));
    let adopted = SessionReader::adopt(&path).unwrap();
    assert!(is_locked(&path));
    assert_eq!(find_sessions(&dir).unwrap()[0].holder, Some(std::process::id()));
    assert!(matches!(
        SessionReader::adopt(&path).map(drop),
        Err(RingError::Alive { .. })
    ));
    drop(SessionReader::open(&path).unwrap());
    assert!(is_locked(&path));
    drop(adopted);
    assert!(!is_locked(&path));
    assert_eq!(find_sessions(&dir).unwrap()[0].holder, None);
    SessionReader::adopt(&path).unwrap().remove().unwrap();
    std::fs::remove_dir(dir).unwrap();
}

/// Sessions are made and looked for in two threads: the lock of a new one would be lost where the search opened its
/// file before it was locked, and closed it afterwards.
#[cfg(target_os = "linux")]
#[test]
fn a_search_in_another_thread_takes_no_lock_away() {
    let (options, dir) = options("search");
    let (first, _) = SessionWriter::create(&options).unwrap();
    std::thread::scope(|scope| {
        let maker = scope.spawn(|| {
            for _ in 0..100 {
                let (session, _) = SessionWriter::create(&options).unwrap();
                assert!(is_locked(session.path()));
                session.remove().unwrap();
            }
        });
        while !maker.is_finished() {
            find_sessions(&dir).unwrap();
        }
    });
    first.remove().unwrap();
    std::fs::remove_dir(dir).unwrap();
}

/// A pipe, a device or a directory in the place of a file would keep its reader waiting, or worse.
#[test]
fn a_session_file_that_is_no_file_is_refused() {
    let (options, dir) = options("pipes");
    for name in [
        "session",
        "drain",
        "control",
        "callsites",
        "counts",
        "rules",
        "ring-00000",
    ] {
        let (session, _) = SessionWriter::create(&options).unwrap();
        drop(session.acquire("t").unwrap());
        session.register(b"first", control::ON).unwrap();
        let path = session.path().to_owned();
        drop(session);
        std::fs::remove_file(path.join(name)).unwrap();
        let made = std::process::Command::new("mkfifo").arg(path.join(name)).status();
        assert!(made.unwrap().success());
        let refusal = match SessionReader::open(&path) {
            Err(error) => error,
            Ok(view) => match name {
                "drain" => view.buffers().unwrap_err(),
                "callsites" => view.callsites().unwrap_err(),
                "rules" => view.rules().map(drop).unwrap_err(),
                "control" | "counts" => {
                    let is_there = match name {
                        "control" => view.control(0).is_some(),
                        _ => view.counts(0).is_some(),
                    };
                    assert!(!is_there, "entries that cannot be mapped are not there");
                    RingError::NotAFile {
                        path: path.join(name),
                    }
                }
                _ => view.rings().1.remove(0),
            },
        };
        assert!(
            matches!(&refusal, RingError::NotAFile { path } if path.ends_with(name)),
            "{name}: {refusal}"
        );
        let holders: Vec<_> = find_sessions(&dir)
            .unwrap()
            .iter()
            .map(|found| found.holder)
            .collect();
        assert!(if name == "session" {
            holders.is_empty()
        } else {
            holders == [None]
        });
        std::fs::remove_dir_all(path).unwrap();
    }
    std::fs::remove_dir(dir).unwrap();
}

/// The kernel maps files at multiples of its page size, which is 64 KiB on some machines.
#[cfg(target_os = "linux")]
#[test]
fn files_are_mapped_from_multiples_of_the_largest_page() {
    let (options, dir) = options("pages");
    let (session, _) = SessionWriter::create(&options).unwrap();
    let _producer = session.acquire("t").unwrap();
    let view = SessionReader::open(session.path()).unwrap();
    let _parts = (view.rings(), view.buffers().unwrap());
    let (_unnamed, _file) = Ring::unnamed(1 << 16).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut found = 0;
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.get(5).copied().unwrap_or("");
        if name.contains("logdrive-ring-test") || name.starts_with("/memfd:logdrive-ring") {
            assert!(
                u64::from_str_radix(words[2], 16).unwrap().is_multiple_of(1 << 16),
                "{line}"
            );
            found += 1;
        }
    }
    // Two of each ring, of which one is mapped twice; the session, its control words and its buffers twice each; and
    // the table once.
    assert!(found >= 13, "{found}: {maps}");
    session.remove().unwrap();
    std::fs::remove_dir(dir).unwrap();
}

#[test]
fn a_run_directory_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (options, dir) = options("open");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(
        SessionWriter::create(&options),
        Err(RingError::UnsafeDirectory { .. })
    ));
    std::fs::remove_dir(dir).unwrap();
}

#[test]
fn disabled_calls_are_counted_in_living_and_ended_threads() {
    let before = local::disabled_calls();
    std::thread::spawn(|| (0..10).for_each(|_| local::count_disabled()))
        .join()
        .unwrap();
    (0..5).for_each(|_| local::count_disabled());
    assert_eq!(local::disabled_calls() - before, 15);
}
