//! A session that an agent holds and a process has joined, both ends in one process: rings, callsites, wakes, and
//! descriptors that are not what they claim to be.
#![cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]

use logdrive_ring::*;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A connection that only counts.
#[derive(Debug, Default)]
struct Line {
    bells: AtomicU32,
    wanted: AtomicU32,
    away: AtomicBool,
}

impl AgentConnection for Line {
    fn wake_drain(&self) {
        self.bells.fetch_add(1, Ordering::SeqCst);
    }

    fn request_rings(&self, count: u32) {
        self.wanted.fetch_add(count, Ordering::SeqCst);
    }

    fn is_connected(&self) -> bool {
        !self.away.load(Ordering::SeqCst)
    }
}

fn options(ring_bytes: usize) -> HostedOptions {
    HostedOptions {
        id: 1,
        peer: Peer {
            pid: 4242,
            uid: user_id(),
            gid: 0,
        },
        ring_bytes,
        rings_max: 8,
        policy: FullPolicy::Drop,
        coarse: false,
    }
}

fn copies(descriptors: &[BorrowedFd<'_>]) -> Vec<File> {
    let copy = |fd: &BorrowedFd<'_>| File::from(fd.try_clone_to_owned().expect("a descriptor"));
    descriptors.iter().map(copy).collect()
}

fn rings_of(shared: &HostedSession, first: usize) -> Vec<File> {
    shared.with_ring_descriptors(first, 100, copies)
}

/// An agent's session with one ring, and its process's.
fn joined(rings: usize) -> (HostedSession, SessionWriter, Arc<Line>) {
    let shared = HostedSession::create("shop", options(1 << 16)).expect("memory");
    (0..rings).for_each(|_| shared.add_ring().expect("a ring"));
    let line = Arc::new(Line::default());
    let memory = MemoryFiles::check(copies(&shared.files().descriptors())).expect("it is ours");
    let session = SessionWriter::join(
        Path::new("agent.sock"),
        memory,
        rings_of(&shared, 0),
        shared.options().ring_bytes,
        Arc::clone(&line) as Arc<dyn AgentConnection>,
    );
    (shared, session.expect("joined"), line)
}

#[test]
fn what_a_process_registers_and_writes_is_read_by_its_agent() {
    let (shared, session, _) = joined(1);
    assert_eq!(shared.header().identity().pid, 4242);
    assert_eq!(session.header().identity().app, "shop");
    for number in 0..5000u32 {
        let text = format!("callsite {number} {}", "x".repeat(number as usize % 50));
        assert_eq!(
            session.register(text.as_bytes(), control::ON).expect("room").id(),
            number
        );
    }
    let (found, place) = shared.callsites_from(0);
    assert_eq!(found.len(), 5000);
    assert_eq!(found, session.callsites_from(0).0);
    assert_eq!(shared.callsites_from(place), (Vec::new(), place));
    let entry = shared.control(4999).expect("an entry");
    control::settle(entry, || 0, |_| control::Switch::plain(control::OFF));
    assert_eq!(session.control(4999).expect("an entry").control(), control::OFF);
    shared.counts(4999).expect("counts").store_drained(3, 300);
    let own = session.control(4999).expect("an entry");
    let counts = session.counters().of_entry(own).expect("counts");
    assert_eq!(counts.totals().records, 3);
    let mut producer = session.acquire("worker").expect("a ring");
    assert_eq!(
        producer.push(&[5; 64], false, FullPolicy::Drop),
        Admission::Granted
    );
    let ring = shared.rings_from(0).remove(0);
    assert_eq!(ring.thread_name(), "worker");
    let mut consumer = Consumer::new(Arc::clone(&ring));
    let mut bytes = [0; 64];
    assert_eq!(consumer.pending_bytes().expect("whole"), 64);
    consumer.copy_out(0, &mut bytes);
    assert_eq!(bytes, [5; 64]);
    consumer.release(64);
    drop(producer);
    assert!(consumer.is_finished());
}

#[test]
fn a_ring_that_the_agent_has_freed_goes_to_the_next_thread_but_never_to_two() {
    let (shared, session, line) = joined(1);
    let first = session.acquire("one").expect("a ring");
    let ring = shared.rings_from(0).remove(0);
    // An agent that frees a ring while a thread has it does not give it to a second one.
    shared.recycle(&ring);
    line.away.store(true, Ordering::SeqCst);
    let second = session.acquire("two").expect("a ring of its own");
    assert_eq!(session.rings_from(0).len(), 2);
    drop(first);
    assert_eq!(ring.counts().state, RingState::Ended);
    let third = session.acquire("three").expect("another of its own");
    assert_eq!(session.rings_from(0).len(), 3);
    shared.recycle(&ring);
    let fourth = session.acquire("four").expect("the freed one");
    assert_eq!(session.rings_from(0).len(), 3);
    assert_eq!(ring.thread_name(), "four");
    drop((second, third, fourth));
    // All that it has, with the rings that it made itself, is shown to the next agent.
    let descriptors = session.descriptors().expect("an agent's session");
    let shown = descriptors.with(|memory, rings| {
        let next = HostedSession::adopt(copies(memory), options(1 << 16)).expect("the same memory");
        copies(rings)
            .into_iter()
            .try_for_each(|file| next.take_ring(file))
            .expect("its rings");
        (next.ring_count(), next.app().to_owned(), next.memory_ids())
    });
    let (count, app, ids) = shown.expect("none is closed");
    assert_eq!(
        (count, app.as_str(), ids.len()),
        (3, "shop", MemoryFiles::PARTS + 3)
    );
    assert_eq!(ids[..MemoryFiles::PARTS + 1], shared.memory_ids());
}

#[test]
fn rings_are_asked_for_ahead_and_a_thread_without_one_waits_but_a_moment() {
    let (shared, session, line) = joined(1);
    let first = session.acquire("one").expect("a ring");
    assert!(line.wanted.load(Ordering::SeqCst) > 0, "the stock is empty");
    assert!(matches!(session.acquire("two"), Err(RingError::Limit { .. })));
    shared.add_ring().expect("a ring");
    session.take_rings(rings_of(&shared, 1)).expect("it comes");
    let second = session.acquire("two").expect("the ring that came");
    assert_eq!(session.header().totals().rings, 2);
    let error = session
        .take_rings(rings_of(&shared, 1))
        .expect_err("twice the same");
    assert!(error.to_string().contains("file of its own"), "{error}");
    drop((first, second));
}

#[test]
fn the_bell_rings_once_for_each_sleep() {
    let (shared, session, line) = joined(1);
    session.waker().wake();
    assert_eq!(line.bells.load(Ordering::SeqCst), 0);
    shared.header().set_drain_asleep(true);
    session.waker().wake();
    session.waker().wake();
    assert_eq!(line.bells.load(Ordering::SeqCst), 1);
    shared.header().set_drain_asleep(true);
    shared.header().set_drain_asleep(false);
    session.waker().wake();
    assert_eq!(line.bells.load(Ordering::SeqCst), 1);
}

#[test]
fn a_tool_sees_the_session_through_its_descriptors() {
    let (shared, session, _) = joined(2);
    session.register(b"gap", control::ON).expect("room");
    session.register(b"other", control::OFF).expect("room");
    let memory = MemoryFiles::check(copies(&shared.files().descriptors())).expect("ours");
    let view =
        SessionReader::of_memory(Path::new("agent.sock"), memory, rings_of(&shared, 0)).expect("a view");
    assert_eq!(view.callsites().expect("a table"), session.callsites_from(0).0);
    assert_eq!(view.rings().0.len(), 2);
    let entry = view.control(1).expect("an entry");
    control::settle(entry, || 0, |_| control::Switch::plain(control::ON));
    assert_eq!(session.control(1).expect("an entry").control(), control::ON);
    assert!(view.rules().is_ok());
    assert!(view.counts(1).is_some());
    assert!(view.buffers().is_err(), "an agent's session has none");
}

#[test]
fn descriptors_that_are_wrong_are_refused_one_by_one() {
    let (shared, _session, _) = joined(1);
    let adopt = |files| {
        HostedSession::adopt(files, options(1 << 16))
            .expect_err("refused")
            .to_string()
    };
    let good = || copies(&shared.files().descriptors());
    assert!(adopt(Vec::new()).contains("number of descriptors"));
    for place in 0..MemoryFiles::PARTS {
        let with = |file: File| {
            let mut files = good();
            files[place] = file;
            files
        };
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        assert!(adopt(with(File::from(std::os::fd::OwnedFd::from(reader)))).contains("seals"));
        assert!(adopt(with(File::open("/dev/null").expect("a device"))).contains("seals"));
        let ring = rings_of(&shared, 0).remove(0);
        assert!(adopt(with(ring)).contains("size"), "{place}");
        let other = (place + 1) % MemoryFiles::PARTS;
        let twice = File::from(good()[other].as_fd().try_clone_to_owned().expect("a descriptor"));
        let why = adopt(with(twice));
        assert!(why.contains("size") || why.contains("file of its own"), "{why}");
    }
    let take = |file| shared.take_ring(file).expect_err("refused").to_string();
    assert!(take(rings_of(&shared, 0).remove(0)).contains("file of its own"));
    assert!(take(good().remove(0)).contains("size"));
    let (_, larger) = Ring::unnamed(1 << 17).expect("memory");
    assert!(take(larger).contains("size"));
    let (_, file) = Ring::unnamed(1 << 16).expect("memory");
    file.write_all_at(&[7], 1 << 16).expect("another magic");
    assert!(take(file).contains("magic"));
    for _ in 1..8 {
        shared
            .take_ring(Ring::unnamed(1 << 16).expect("memory").1)
            .expect("a good one");
    }
    assert!(take(Ring::unnamed(1 << 16).expect("memory").1).contains("limit of 8"));
}

#[test]
fn a_table_with_a_broken_entry_is_read_past_it_once() {
    let (shared, session, _) = joined(1);
    session.register(b"gap", control::ON).expect("room");
    let table = copies(&shared.files().descriptors()).remove(3);
    table
        .write_all_at(&[0xff; 64], 16)
        .expect("an entry without an end");
    let header = copies(&shared.files().descriptors()).remove(0);
    header
        .write_all_at(&u64::MAX.to_le_bytes(), 264)
        .expect("table_bytes");
    let (found, place) = shared.callsites_from(0);
    assert_eq!(
        (found.len(), place),
        (1, 16 << 20),
        "all that the process claims to have"
    );
    assert_eq!(shared.callsites_from(place), (Vec::new(), place));
}

#[test]
fn an_adopted_header_is_checked() {
    for (offset, bytes) in [(0, 0u64), (12, 9), (256, 5000), (264, 1 << 40)] {
        let (shared, _session, _) = joined(0);
        let files = copies(&shared.files().descriptors());
        files[0]
            .write_all_at(&bytes.to_le_bytes(), offset)
            .expect("damage");
        let error = HostedSession::adopt(files, options(1 << 16)).expect_err("refused");
        assert!(error.to_string().contains("session header is damaged"), "{error}");
    }
}
