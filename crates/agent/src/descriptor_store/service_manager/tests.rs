//! Tests of the store's names, of its limits, and of messages that are lost.

use super::*;
use logdrive_ring::channel::Received;
use logdrive_ring::{FullPolicy, HostedOptions, Peer};
use rustix::net::bind;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

/// The manager's end. Holds no descriptors, but the names of those that it got.
struct FakeManager {
    socket: Channel,
    names: BTreeSet<String>,
}

impl FakeManager {
    fn bind(path: &Path) -> Self {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).expect("a socket");
        bind(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("bound");
        Self {
            socket: Channel::new(socket),
            names: BTreeSet::new(),
        }
    }

    fn obey(&mut self) {
        let mut buffer = [0; 4096];
        let mut descriptors = Vec::new();
        while let Ok(Received::Packet(length)) = self.socket.receive(&mut buffer, &mut descriptors, true) {
            descriptors.clear();
            let text = std::str::from_utf8(&buffer[..length]).expect("text");
            let name = text
                .trim_end()
                .rsplit_once("FDNAME=")
                .expect("a name")
                .1
                .to_owned();
            match text.starts_with("FDSTORE=1\n") {
                true => assert!(self.names.insert(name), "stored twice: {text}"),
                false => assert!(self.names.remove(&name), "removed twice: {text}"),
            }
        }
    }
}

/// Sessions of any number, all with the memory of one.
fn sessions() -> impl Fn(u64) -> HostedSession {
    let options = move |id| HostedOptions {
        id,
        peer: Peer {
            pid: std::process::id(),
            uid: 0,
            gid: 0,
        },
        ring_bytes: logdrive_ring::limits::RING_BYTES_MIN,
        rings_max: 4,
        policy: FullPolicy::Wait,
        coarse: false,
    };
    let first = HostedSession::create("shop", options(1)).expect("a session");
    first.add_ring().expect("a ring");
    move |id| {
        let copy = |file: &BorrowedFd<'_>| File::from(file.try_clone_to_owned().expect("a descriptor"));
        let files = first.files().descriptors().iter().map(copy).collect();
        let session = HostedSession::adopt(files, options(id)).expect("it is a session");
        let ring = first.with_ring_descriptors(0, 1, |rings| copy(&rings[0]));
        session.take_ring(ring).expect("it is a ring");
        session
    }
}

/// Returns whether a program can be started with these names in its environment.
fn can_be_started(names: impl Iterator<Item = String>) -> bool {
    let names: Vec<String> = names.collect();
    let mut command = std::process::Command::new("true");
    command.env("LISTEN_FDNAMES", names.join(":"));
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn the_names_of_descriptors_tell_the_session() {
    let packet = Packet {
        pid: 417,
        gid: u32::MAX,
        ring_bytes: 1 << 20,
        has_process: true,
        ..Packet::of(Kind::Put, u64::MAX)
    };
    let first = name_of(&packet, 0);
    assert!(first.len() < 100, "{first}");
    assert_eq!(read_name(&first), Some((u64::MAX, 0, Some(packet))));
    assert_eq!(read_name(&name_of(&packet, 300)), Some((u64::MAX, 300, None)));
    for other in [
        "",
        "stored",
        "1",
        "1-0",
        "1-2-3",
        "1-0-1-1-1-1-1-1",
        "é-1",
        "10000000000000000-1",
    ] {
        assert_eq!(read_name(other), None, "{other}");
    }
}

/// They stayed in the store for ever, and took the room of others.
#[test]
fn names_of_an_earlier_build_are_removed_from_the_store() {
    let keep = tempfile::tempdir().expect("a directory");
    let path = keep.path().join("notify");
    let mut fake = FakeManager::bind(&path);
    let names = [0, 1].map(|number| format!("{}-{number}", "0f".repeat(48)));
    let foreign = "logdrive.socket".to_owned();
    fake.names.extend(names.iter().cloned().chain([foreign.clone()]));
    let descriptor = || OwnedFd::from(File::open("/dev/null").expect("a descriptor"));
    let inherited = fake.names.iter().map(|name| (name.clone(), descriptor()));
    let mut manager = ServiceManager::new(&path, 100, inherited.collect());
    let (restored, notices) = manager.restore();
    assert!(restored.is_empty() && notices.is_empty(), "{notices:?}");
    fake.obey();
    assert_eq!(fake.names, BTreeSet::from([foreign]));
    assert_eq!(manager.counts(), (0, 0));
}

#[test]
fn a_manager_that_cannot_be_reached_is_reported_once() {
    let mut manager = ServiceManager::new("/nowhere/notify", 100, Vec::new());
    manager.store(&sessions()(7), None);
    let error = manager.retry().expect_err("reported");
    assert!(error.contains("/nowhere/notify"), "{error}");
    assert!(manager.retry().expect("no second report"), "all is stored again");
}

#[test]
fn of_five_thousand_sessions_those_that_fit_are_stored_whole_and_the_next_start_works() {
    let keep = tempfile::tempdir().expect("a directory");
    let path = keep.path().join("notify");
    let mut fake = FakeManager::bind(&path);
    let mut manager = ServiceManager::new(&path, 100_000, Vec::new());
    let session = sessions();
    let number = |session: u64| 1_763_800_000_000 + session;
    let mut all = Vec::new();
    for id in 0..5000 {
        manager.store(&session(number(id)), None);
        fake.obey();
        let packet = Packet::of_session(Kind::Put, &session(number(id)), false);
        all.extend((0..6).map(|number| name_of(&packet, number)));
    }
    assert!(!can_be_started(all.into_iter()), "this is what the limit is for");
    assert!(can_be_started(fake.names.iter().cloned()));
    let stored = fake.names.len() / 6;
    assert!(stored > 1000 && fake.names.len() == stored * 6, "{stored}");
    assert_eq!(manager.counts(), (6 * stored as u64, 5000 - stored as u64));
    let report = manager.retry().expect_err("it is full");
    assert!(report.contains("no room"), "{report}");
    assert!(!manager.retry().expect("no second report"));
    // Room is found for one that was left out when another one goes.
    manager.remove(number(0));
    fake.obey();
    assert!(manager.retry().expect("nothing is wrong"), "all are stored again");
    manager.store(&session(number(4999)), None);
    fake.obey();
    assert!(manager.has(number(4999)) && !manager.has(number(4998)));
    assert_eq!(manager.counts().1, 5000 - stored as u64 - 1);
    // As many as were said to fit, and no more, in a small store.
    let mut small = ServiceManager::new(&path, 13, Vec::new());
    fake.names.clear();
    for id in 0..3 {
        small.store(&session(id), None);
        fake.obey();
    }
    assert_eq!((fake.names.len(), small.counts()), (12, (12, 1)));
}

#[test]
fn removals_are_repeated_until_the_manager_has_them() {
    let keep = tempfile::tempdir().expect("a directory");
    let path = keep.path().join("notify");
    let mut fake = FakeManager::bind(&path);
    let mut manager = ServiceManager::new(&path, 100, Vec::new());
    let session = sessions();
    manager.store(&session(7), None);
    fake.obey();
    assert_eq!(fake.names.len(), 6);
    // The manager is gone for a while, as while it starts itself anew.
    let names = std::mem::take(&mut fake.names);
    drop(fake);
    std::fs::remove_file(&path).expect("it was there");
    manager.remove(7);
    assert_eq!(manager.counts().0, 6, "they are still there");
    manager.retry().expect_err("reported");
    let mut fake = FakeManager::bind(&path);
    fake.names = names;
    assert!(manager.retry().expect("no second report"), "all is stored again");
    fake.obey();
    assert!(fake.names.is_empty(), "{:?}", fake.names);
    assert_eq!(manager.counts(), (0, 0));
}
