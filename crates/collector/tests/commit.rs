//! A collector that acknowledges what is on disk: batches of many senders go there together, and syncs that fail cost nothing.

use logdrive_collector::{Store, StoreFormat};
use logdrive_drain::file::{Fault, Faulty, FileOptions, Operation};
use logdrive_ship::forward::{ForwardOptions, Forwarder};
use logdrive_ship::hello::Format;
use logdrive_ship::{Address, Options, ServerHandle, Threads, serve};
use logdrive_testkit::wait_until;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SENDERS: u64 = 16;
const LIMIT: Duration = Duration::from_secs(60);
const EIO: i32 = 5;

struct Collector {
    directory: tempfile::TempDir,
    disk: Arc<Faulty>,
    store: Arc<Store>,
    server: ServerHandle,
}

impl Collector {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = Arc::new(Faulty::new());
        let store = open(directory.path(), &disk);
        let socket = Address::Unix(directory.path().join("c.sock"));
        let server = serve(&[socket], &Options::default(), Threads::default(), store.clone());
        Self {
            directory,
            disk,
            store,
            server: server.expect("it listens"),
        }
    }

    fn sender(&self, session: u64) -> Forwarder {
        let mut forward = ForwardOptions::new(u128::from(session) + 1, 1);
        forward.sent_until = Some(0);
        // Lines that are kept as they came.
        forward.format = Format::Opaque;
        Forwarder::start(self.server.addresses(), &Options::default(), &forward).expect("it starts")
    }
}

fn open(directory: &Path, disk: &Arc<Faulty>) -> Arc<Store> {
    let options = FileOptions::new(directory.join("collected.log"));
    Arc::new(Store::open_on(&options, StoreFormat::Text, true, disk.clone()).expect("opened"))
}

fn push(sender: &Forwarder, session: u64, from: u64, to: u64) {
    for number in from..to {
        let line = format!("{session} {number}\n").into_bytes();
        sender.push(1, line, LIMIT).expect("room");
    }
}

/// Returns how often each record is in the log files.
fn collected(directory: &Path) -> HashMap<(u64, u64), u32> {
    let mut found = HashMap::new();
    for entry in std::fs::read_dir(directory).expect("there") {
        let path = entry.expect("read").path();
        if path.extension().is_none_or(|end| end != "log") {
            continue;
        }
        for line in std::fs::read_to_string(&path).expect("text").lines() {
            let mut words = line.split(' ').map(|word| word.parse().expect("a number"));
            let (session, number) = (words.next().expect("there"), words.next().expect("there"));
            *found.entry((session, number)).or_default() += 1;
        }
    }
    found
}

fn check(directory: &Path, records: u64) {
    let found = collected(directory);
    assert_eq!(found.len() as u64, SENDERS * records, "lost");
    assert!(found.values().all(|times| *times == 1), "twice");
}

#[test]
fn one_sync_covers_the_batches_of_many_senders_and_delays_no_hello() {
    let collector = Collector::start();
    let senders: Vec<Forwarder> = (0..SENDERS).map(|session| collector.sender(session)).collect();
    collector.disk.fail(Operation::Sync, 0, 1, Fault::Hang);
    push(&senders[0], 0, 0, 1);
    collector.disk.wait_until_hanging(1);
    for (sender, session) in senders.iter().zip(0..) {
        push(sender, session, u64::from(session == 0), 100);
        // One that says hello while the disk hangs is answered.
        wait_until("it is connected", || sender.state().is_connected);
        assert_eq!(sender.state().acknowledged, 0);
    }
    let before = collector.disk.calls(Operation::Sync);
    collector.disk.clear();
    for sender in &senders {
        assert!(sender.wait_acknowledged(100, LIMIT));
    }
    // Two for each group. How many groups there are depends on how fast the rest of the batches comes.
    let syncs = collector.disk.calls(Operation::Sync) - before;
    assert!(syncs < 400, "{syncs} syncs for 1600 batches");
    check(collector.directory.path(), 100);
}

#[test]
fn a_sync_that_fails_loses_and_doubles_nothing() {
    // Of each group the ledger is synced first, then the log; after a failure a new ledger.
    for passes in 0..12 {
        let collector = Collector::start();
        let senders: Vec<Forwarder> = (0..SENDERS).map(|session| collector.sender(session)).collect();
        let times = 1 + passes % 3;
        collector
            .disk
            .fail(Operation::Sync, passes, times, Fault::Error(EIO));
        // Two syncs a round at least.
        for (from, to) in [(0, 5), (5, 12), (12, 13), (13, 14), (14, 16), (16, 18), (18, 20)] {
            for (sender, session) in senders.iter().zip(0..) {
                push(sender, session, from, to);
            }
            for sender in &senders {
                assert!(
                    sender.wait_acknowledged(to, LIMIT),
                    "{passes}: {:?}",
                    sender.state()
                );
            }
        }
        drop(senders);
        let Collector {
            directory,
            disk,
            store,
            server,
        } = collector;
        server.stop();
        store.close();
        let told = store.notices().join("\n").to_lowercase();
        assert!(told.contains("input/output error"), "{passes}: {told}");
        assert_eq!(store.counts().records, SENDERS * 20);
        check(directory.path(), 20);
        // Nor does a later start change what is there.
        drop(store);
        assert_eq!(open(directory.path(), &disk).counts().sessions, SENDERS);
        check(directory.path(), 20);
    }
}

/// The end of a file whose sync has failed may come back after a power cut, although it was cut off.
#[test]
fn a_later_start_cuts_off_what_a_failed_sync_has_left() {
    let collector = Collector::start();
    let sender = collector.sender(0);
    push(&sender, 0, 0, 1);
    assert!(sender.wait_acknowledged(1, LIMIT));
    collector.disk.fail(Operation::Sync, 1, 1, Fault::Error(EIO));
    push(&sender, 0, 1, 2);
    assert!(sender.wait_acknowledged(2, LIMIT));
    drop(sender);
    let Collector {
        directory,
        disk,
        store,
        server,
    } = collector;
    server.stop();
    drop(store);
    let files = std::fs::read_dir(directory.path()).expect("there");
    let rotated = files
        .map(|entry| entry.expect("read").path())
        .find(|path| path.extension().is_some_and(|end| end == "log") && !path.ends_with("collected.log"))
        .expect("the sealed file");
    let mut text = std::fs::read_to_string(&rotated).expect("text");
    let cut = text.len();
    text.push_str(&text.replace("0 0", "0 1"));
    std::fs::write(&rotated, &text).expect("written");
    drop(open(directory.path(), &disk));
    assert_eq!(rotated.metadata().expect("there").len(), cut as u64);
    let found = collected(directory.path());
    assert!(
        found.len() == 2 && found.values().all(|times| *times == 1),
        "{found:?}"
    );
}
