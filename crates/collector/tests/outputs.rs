//! Several outputs at once, of which one fails again and again: each record is in each output that it is routed to, once.

use logdrive_collector::{CollectRoute, Outputs, Store, StoreFormat};
use logdrive_drain::file::{Fault, Faulty, FileOptions, Operation};
use logdrive_ship::forward::{ForwardOptions, Forwarder};
use logdrive_ship::{Address, Options, ServerHandle, Threads, serve};
use logdrive_testkit::{DEADLINE, wait_until};
use logdrive_wire::Level;
use std::path::Path;
use std::sync::Arc;

const NAMES: [&str; 3] = ["all", "errors", "shop"];
const EIO: i32 = 5;

/// All records, errors of all, and those of the shop.
fn routes() -> Vec<CollectRoute> {
    let mut errors = CollectRoute::to_all(0);
    (errors.level, errors.outputs, errors.goes_on) = (Level::Error, vec![1], true);
    let mut shop = CollectRoute::to_all(0);
    shop.app = Some(glob::Pattern::new("shop-*").expect("a pattern"));
    (shop.outputs, shop.goes_on) = (vec![2], true);
    let mut all = CollectRoute::to_all(0);
    all.outputs = vec![0];
    vec![errors, shop, all]
}

/// Opens the outputs: the first syncs, the second is on a disk of its own.
fn start(directory: &Path, disk: &Arc<Faulty>) -> (Arc<Outputs>, ServerHandle) {
    let open = |(name, sync): (&str, bool)| {
        let options = FileOptions::new(directory.join(name).join("collected.log"));
        let disk = match name {
            "errors" => disk.clone(),
            _ => Arc::new(Faulty::new()),
        };
        Store::open_on(&options, StoreFormat::Text, sync, disk).expect("opened")
    };
    let stores = NAMES.into_iter().zip([true, true, false]).map(open).collect();
    let outputs = Arc::new(Outputs::new(stores, routes()));
    let socket = Address::Unix(directory.join("c.sock"));
    let server = serve(
        &[socket],
        &Options::default(),
        Threads::default(),
        outputs.clone(),
    );
    (outputs, server.expect("it listens"))
}

fn line(app: &str, number: u64) -> String {
    let level = if number.is_multiple_of(5) { "ERROR" } else { "INFO" };
    format!("2026-11-25T10:11:12.123456Z {level:<5} {app} {number}\n")
}

/// Numbers of an application's lines in an output, in their order.
fn collected(directory: &Path, output: &str, app: &str) -> Vec<u64> {
    let mut files: Vec<_> = std::fs::read_dir(directory.join(output))
        .expect("there")
        .map(|entry| entry.expect("read").path())
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect();
    // The one that is written has the shortest name, and comes last.
    files.sort_by_key(|path| (path.ends_with("collected.log"), path.clone()));
    let text: String = files
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("text"))
        .collect();
    let numbers = text.lines().filter_map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        value["message"]
            .as_str()?
            .strip_prefix(&format!("{app} "))?
            .parse()
            .ok()
    });
    numbers.collect()
}

#[test]
fn each_record_is_once_in_each_output_that_it_is_routed_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Arc::new(Faulty::new());
    let (mut outputs, mut server) = start(directory.path(), &disk);
    let apps = ["shop-a", "mail"];
    let senders: Vec<Forwarder> = apps
        .iter()
        .zip(1..)
        .map(|(app, session)| {
            let options = Options {
                app: (*app).to_owned(),
                ..Options::default()
            };
            let mut forward = ForwardOptions::new(session, 1);
            forward.sent_until = Some(0);
            forward.persists = true;
            Forwarder::start(server.addresses(), &options, &forward).expect("it starts")
        })
        .collect();
    let mut count = 0;
    for round in 0..12 {
        // Writes and syncs of one output fail; now and then all are opened anew, as after a kill.
        disk.fail(Operation::WriteAt, round % 3, 2, Fault::Error(EIO));
        disk.fail(Operation::Sync, round % 4, 1, Fault::Error(EIO));
        for number in count..count + 20 {
            for (sender, app) in senders.iter().zip(apps) {
                sender
                    .push(1, line(app, number).into_bytes(), DEADLINE)
                    .expect("room");
            }
        }
        count += 20;
        if round % 4 == 3 {
            drop(server);
            drop(outputs);
            disk.clear();
            (outputs, server) = start(directory.path(), &disk);
        }
    }
    disk.clear();
    for sender in &senders {
        assert!(sender.wait_acknowledged(count, DEADLINE), "{:?}", sender.state());
    }
    for app in apps {
        let all: Vec<u64> = (0..count).collect();
        let errors: Vec<u64> = (0..count).filter(|number| number % 5 == 0).collect();
        assert_eq!(collected(directory.path(), "all", app), all);
        assert_eq!(collected(directory.path(), "errors", app), errors);
        let shop = if app == "mail" { Vec::new() } else { all };
        assert_eq!(collected(directory.path(), "shop", app), shop);
    }
}

#[test]
fn an_output_that_hangs_holds_up_only_records_that_it_gets() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Arc::new(Faulty::new());
    let (outputs, server) = start(directory.path(), &disk);
    let sender = |session, app: &str| {
        let options = Options {
            app: app.to_owned(),
            ..Options::default()
        };
        let forward = ForwardOptions::new(session, 1);
        Forwarder::start(server.addresses(), &options, &forward).expect("it starts")
    };
    let (stuck, free) = (sender(1, "mail"), sender(2, "shop-a"));
    disk.fail(Operation::Sync, 0, 1, Fault::Hang);
    stuck
        .push(1, line("mail", 0).into_bytes(), DEADLINE)
        .expect("room");
    disk.wait_until_hanging(1);
    for number in 1..5 {
        free.push(1, line("shop-a", number).into_bytes(), DEADLINE)
            .expect("room");
    }
    assert!(free.wait_acknowledged(4, DEADLINE), "{:?}", free.state());
    assert_eq!(stuck.state().acknowledged, 0);
    wait_until("the others have it", || outputs.counts()[0].records == 5);
    disk.clear();
    assert!(stuck.wait_acknowledged(1, DEADLINE));
    let records: Vec<u64> = outputs.counts().iter().map(|counts| counts.records).collect();
    assert_eq!(records, [5, 1, 4]);
}

/// Of a session that the ledger alone knows, an output with routes cannot tell what was lost from what went elsewhere.
#[test]
fn records_that_a_sender_has_given_up_are_counted_once_whatever_the_routes() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Arc::new(Faulty::new());
    let (mut outputs, mut server) = start(directory.path(), &disk);
    let send = |server: &ServerHandle, next: u64, count: u64| {
        let options = Options {
            app: "mail".to_owned(),
            ..Options::default()
        };
        let mut forward = ForwardOptions::new(1, 1);
        forward.next = next;
        let sender = Forwarder::start(server.addresses(), &options, &forward).expect("it starts");
        for number in next..next + count {
            sender
                .push(1, line("mail", number).into_bytes(), DEADLINE)
                .expect("room");
        }
        assert!(
            sender.wait_acknowledged(next + count, DEADLINE),
            "{:?}",
            sender.state()
        );
    };
    send(&server, 0, 12);
    assert_eq!(outputs.total().lost, 0);
    send(&server, 17, 3);
    assert_eq!(outputs.total().lost, 5);
    drop(server);
    drop(outputs);
    // None of the last ones is an error, so that one output knows less.
    (outputs, server) = start(directory.path(), &disk);
    send(&server, 20, 3);
    assert_eq!(outputs.total().lost, 0);
    send(&server, 25, 1);
    assert_eq!(outputs.total().lost, 2);
    drop(server);
    drop(outputs);
    (outputs, server) = start(directory.path(), &disk);
    send(&server, 33, 1);
    assert_eq!(outputs.total().lost, 7);
}
