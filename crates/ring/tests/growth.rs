//! Small rings that are replaced by larger ones, in calls of several threads and ahead of their need.
#![cfg(not(any(loom, miri)))]

use logdrive_ring::local::{self, Clock, Wrote};
use logdrive_ring::{BUFFER_BYTES_MIN, FullPolicy, SessionOptions, SessionWriter, control};
use std::sync::{Arc, Barrier};

const SMALL: usize = 64 << 10;
const LARGE: usize = 1 << 20;

/// A session in a directory that goes with it, with largest rings of this size. The first callsite is registered.
fn session(ring_bytes: usize) -> (Arc<SessionWriter>, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let options = SessionOptions {
        app: "growth".to_owned(),
        run_dirs: vec![dir.path().join("run")],
        ring_bytes,
        config: Vec::new(),
        sink_count: 1,
        buffers_per_sink: 2,
        buffer_bytes: BUFFER_BYTES_MIN,
        sinks_at_start: 0,
        keep_bytes: 0,
    };
    let (session, _) = SessionWriter::create(&options).expect("a session");
    session.register(b"callsite", control::ON).expect("a callsite");
    local::start_running();
    (Arc::new(session), dir)
}

fn attach(session: &SessionWriter) {
    let producer = session.acquire_as("t", FullPolicy::Drop).expect("a ring");
    let clock = Clock::Monotonic;
    assert!(local::attach(
        producer,
        FullPolicy::Drop,
        clock,
        local::generation()
    ));
}

/// Writes records until the ring has no room for another one; returns the outcome for that one.
fn fill() -> Wrote {
    loop {
        let wrote = local::write(0, 64, false, |put| (0..6).for_each(|word| put.u64(word)));
        if wrote != Wrote::Committed {
            return wrote;
        }
    }
}

fn capacities(session: &SessionWriter) -> Vec<usize> {
    let rings = session.rings_from(0);
    rings.iter().map(|ring| ring.capacity_bytes()).collect()
}

/// Each call made the file of its ring, and waited for those of the others.
#[test]
fn threads_that_need_larger_rings_at_once_get_one_each() {
    const THREADS: usize = 8;
    let (session, _dir) = session(LARGE);
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                attach(&session);
                barrier.wait();
                assert_eq!(fill(), Wrote::RingFull);
                assert!(session.enlarge_ring(local::generation()));
                assert_eq!(fill(), Wrote::Dropped, "it is the largest");
            });
        }
    });
    let capacities = capacities(&session);
    for (bytes, count) in [(SMALL, THREADS), (LARGE, THREADS)] {
        assert_eq!(
            capacities.iter().filter(|found| **found == bytes).count(),
            count,
            "{bytes}"
        );
    }
    let numbers = session.rings_from(0);
    assert!(numbers.iter().map(|ring| ring.index()).eq(0..2 * THREADS as u32));
    let names = std::fs::read_dir(session.path()).expect("files").flatten();
    let mut names: Vec<String> = names
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    names.retain(|name| name.contains("ring"));
    names.sort();
    let expected: Vec<String> = (0..2 * THREADS)
        .map(|number| format!("ring-{number:05}"))
        .collect();
    assert_eq!(names, expected);
    session.remove().expect("it goes");
}

/// A thread with its largest ring at once takes sixteen times as much as it may need, which a program with many threads has not.
#[test]
fn rings_grow_step_by_step_where_those_of_the_session_take_much() {
    const LARGEST: usize = 16 << 20;
    let (session, _dir) = session(LARGEST);
    let _others: Vec<_> = (0..3)
        .map(|_| session.acquire("other").expect("a ring"))
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            attach(&session);
            for _ in 0..2 {
                assert_eq!(fill(), Wrote::RingFull);
                assert!(session.enlarge_ring(local::generation()));
            }
        });
    });
    assert_eq!(
        capacities(&session),
        [LARGEST, LARGEST, LARGEST, SMALL, 4 * SMALL, 16 * SMALL]
    );
    session.remove().expect("it goes");
}

/// Bytes of memory that mappings of a file of the session have, the larger of its two.
#[cfg(target_os = "linux")]
fn resident_bytes(name: &str) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("the mappings");
    let mut is_ours = false;
    let mut most = 0;
    for line in maps.lines() {
        if let Some(kib) = line.strip_prefix("Rss:").filter(|_| is_ours) {
            let kib = kib.trim().trim_end_matches(" kB").parse::<usize>();
            most = most.max(kib.expect("a number") << 10);
        } else if !line.split(' ').next().is_some_and(|word| word.ends_with(':')) {
            is_ours = line.ends_with(name);
        }
    }
    most
}

/// Each page of a new ring cost the call that came to it a fault, for the first turn around the ring.
#[cfg(target_os = "linux")]
#[test]
fn a_ring_that_replaced_a_smaller_one_is_touched_by_the_drain_when_it_has_nothing_else_to_do() {
    let (session, _dir) = session(LARGE);
    let name = format!("{}/ring-00001", session.path().display());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            attach(&session);
            assert_eq!(fill(), Wrote::RingFull);
            assert!(session.enlarge_ring(local::generation()));
            assert!(resident_bytes(&name) < LARGE);
            session.make_spare_ring(0, true).expect("nothing to make");
            assert_eq!(resident_bytes(&name), LARGE);
        });
    });
    session.remove().expect("it goes");
}
