//! `logdrive send` of files that other programs rotate, to a real collector: each line arrives once, and what cannot be read
//! is counted.

mod support;

use logdrive_testkit::wait_until;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use support::collector::{Running, World, json, logdrive, write_lines};

fn follow(world: &World, files: &str, address: &str, more: &[&str]) -> Running {
    let mut command = world.send(files, address, &["--follow", "--rotate-wait", "200ms"]);
    Running(command.args(more).spawn().expect("it starts"))
}

/// Waits until the collector's log has so many lines, and returns their numbers in rising order.
fn numbers(world: &World, count: usize) -> Vec<usize> {
    let read = || {
        let mut found: Vec<usize> = world
            .raw()
            .iter()
            .map(|line| line.split(' ').nth(1).expect("a word").parse().expect("a number"))
            .collect();
        found.sort_unstable();
        found
    };
    wait_until("the lines are collected", || read().len() >= count);
    read()
}

fn check(world: &World, count: usize) {
    assert_eq!(
        numbers(world, count),
        (0..count).collect::<Vec<_>>(),
        "missing or twice"
    );
}

fn truncate(path: &Path) {
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(|file| file.set_len(0)).expect("truncated");
}

#[test]
fn each_line_arrives_once_through_renames_copies_and_compression() {
    let world = World::new();
    let (collector, address) = world.collect(&world.address(), &[]);
    let path = |name: &str| world.path(name);
    let log = path("app.log");
    write_lines(&log, 0, 300);
    let sender = follow(&world, log.to_str().expect("text"), &address, &[]);
    check(&world, 300);
    // The program goes on in the renamed file.
    fs::rename(&log, path("app.log.1")).expect("renamed");
    write_lines(&log, 300, 400);
    write_lines(&path("app.log.1"), 400, 500);
    check(&world, 500);
    // Twice between two reads.
    write_lines(&log, 500, 600);
    fs::rename(path("app.log.1"), path("app.log.3")).expect("renamed");
    fs::rename(&log, path("app.log.2")).expect("renamed");
    write_lines(&log, 600, 700);
    fs::rename(&log, path("app.log.1")).expect("renamed");
    write_lines(&log, 700, 800);
    check(&world, 800);
    // Copied, truncated, and grown beyond where it was.
    write_lines(&log, 800, 900);
    fs::copy(&log, path("app.log-20261121")).expect("copied");
    truncate(&log);
    write_lines(&log, 900, 1_500);
    check(&world, 1_500);
    // A neighbour is another log.
    write_lines(&path("app-error.log"), 5_000, 5_066);
    // The sender is away while the log is rotated and compressed.
    let sent = json(&sender.end());
    assert_eq!(
        (&sent["missing"], &sent["skipped"]["truncated"]),
        (&0.into(), &0.into()),
        "{sent}"
    );
    write_lines(&log, 1_500, 1_600);
    let rotated = fs::read(&log).expect("read");
    fs::write(
        path("app.log.4.zst"),
        zstd::encode_all(rotated.as_slice(), 1).expect("compressed"),
    )
    .expect("written");
    fs::remove_file(&log).expect("removed");
    write_lines(&log, 1_600, 1_700);
    let output = world
        .send(log.to_str().expect("text"), &address, &[])
        .output()
        .expect("it ran");
    assert!(output.status.success(), "{output:?}");
    check(&world, 1_700);
    assert_eq!(json(&collector.end())["records"], 1_700);
}

#[test]
fn a_second_sender_of_a_log_is_refused_and_a_second_collector_gets_all_of_it() {
    let world = World::new();
    let (_first, address) = world.collect(&world.address(), &[]);
    let log = world.path("app.log");
    write_lines(&log, 0, 200);
    let name = log.to_str().expect("text");
    let sender = follow(&world, name, &address, &[]);
    check(&world, 200);
    let refused = world.send(name, &address, &[]).output().expect("it ran");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("another sender has the state"), "{error}");
    sender.end();
    check(&world, 200);
    let other = World::new();
    let (_second, second) = other.collect(&other.address(), &[]);
    let output = world.send(name, &second, &[]).output().expect("it ran");
    assert_eq!(json(&output)["acknowledged"], 200, "{output:?}");
    check(&other, 200);
    // With the first one named beside it, it is one group, which has all.
    let output = world
        .send(name, &second, &["--to", &address])
        .output()
        .expect("it ran");
    assert_eq!(json(&output)["records"], 0, "{output:?}");
}

#[test]
fn directories_and_patterns_are_sent_and_what_cannot_be_read_is_counted() {
    let world = World::new();
    let (_collector, address) = world.collect(&world.address(), &[]);
    let logs = world.path("logs");
    fs::create_dir(&logs).expect("made");
    write_lines(&logs.join("a.log.1"), 0, 10);
    write_lines(&logs.join("a.log"), 10, 20);
    write_lines(&logs.join("b.log"), 20, 30);
    let pattern = logs.join("*.log");
    let sender = follow(
        &world,
        pattern.to_str().expect("text"),
        &address,
        &["--app", "app"],
    );
    assert_eq!(numbers(&world, 20), (10..30).collect::<Vec<_>>());
    // One that comes later.
    write_lines(&logs.join("c.log"), 30, 40);
    assert_eq!(numbers(&world, 30), (10..40).collect::<Vec<_>>());
    assert_eq!(json(&sender.end())["logs"], 3);
    // Truncated while nobody looked, and no copy of it: its last lines may be missing.
    truncate(&logs.join("b.log"));
    fs::write(logs.join("d.log.gz"), [0x1f, 0x8b, 8, 0, 1]).expect("written");
    let output = world
        .send(logs.to_str().expect("text"), &address, &[])
        .output()
        .expect("it ran");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let sent = json(&output);
    assert_eq!(
        (&sent["skipped"]["truncated"], &sent["skipped"]["unreadable"]),
        (&1.into(), &1.into()),
        "{sent}"
    );
    let none = logdrive()
        .args(["send", "--to", &address])
        .arg(logs.join("*.none"))
        .output()
        .expect("it ran");
    assert!(
        String::from_utf8_lossy(&none.stderr).contains("no file matches"),
        "{none:?}"
    );
}

/// A log, the state of its sender, and a copy of that as on another machine.
struct Copied {
    world: World,
    _collector: Running,
    address: String,
    log: PathBuf,
    state: PathBuf,
    copy: PathBuf,
}

impl Copied {
    fn new() -> Self {
        let world = World::new();
        let (collector, address) = world.collect(&world.address(), &[]);
        let [log, state, copy] = ["app.log", "state-1", "state-2"].map(|name| world.path(name));
        write_lines(&log, 0, 100);
        Self {
            world,
            _collector: collector,
            address,
            log,
            state,
            copy,
        }
    }

    fn send(&self, state: &Path) {
        let [log, state] = [&self.log, state].map(|path| path.to_str().expect("text"));
        let output = self.world.send(log, &self.address, &["--state", state]).output();
        let output = output.expect("it ran");
        assert!(output.status.success(), "{output:?}");
    }

    /// Copies the state. The sender goes on with its log; the other machine has the log as it was, and lines of its own.
    fn go_on_twice(&self) {
        fs::copy(&self.state, &self.copy).expect("copied");
        let original = fs::read(&self.log).expect("read");
        write_lines(&self.log, 100, 400);
        self.send(&self.state);
        fs::write(&self.log, original).expect("written");
        write_lines(&self.log, 400, 500);
        self.send(&self.copy);
    }
}

/// The state of a sender that was copied with its machine made the second one take its own lines for acknowledged.
#[test]
fn a_sender_with_a_copied_state_takes_a_session_of_its_own() {
    let copied = Copied::new();
    copied.send(&copied.state);
    copied.go_on_twice();
    check(&copied.world, 500);
}

/// A sender that was killed believed a collector that had up to 65,536 records more than it had sent.
#[test]
fn a_copy_of_the_state_of_a_killed_sender_takes_a_session_of_its_own() {
    let copied = Copied::new();
    let [log, state] = [&copied.log, &copied.state].map(|path| path.to_str().expect("text"));
    let mut sender = follow(&copied.world, log, &copied.address, &["--state", state]);
    numbers(&copied.world, 100);
    sender.kill();
    copied.go_on_twice();
    // Where the kill came before the acknowledgement was noted, the copy sends the first lines again, under its own session.
    let found = numbers(&copied.world, 500);
    let mut distinct = found.clone();
    distinct.dedup();
    assert_eq!(distinct, (0..500).collect::<Vec<_>>(), "missing");
    assert_eq!(
        found.iter().filter(|number| **number >= 100).count(),
        400,
        "twice"
    );
}
