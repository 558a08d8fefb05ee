//! Senders that have several collectors: backups, circuit breakers, looks, times, QUIC, and what is refused and why.

mod support;

use logdrive_testkit::wait_until;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use support::collector::{Running, World, json, logdrive, write_lines};
use support::text;

/// All lines that any of them has, each of which has to be there once.
fn all_of(places: &[&World]) -> BTreeSet<String> {
    let lines: Vec<String> = places.iter().flat_map(|place| place.lines()).collect();
    let unique: BTreeSet<String> = lines.iter().cloned().collect();
    assert_eq!(unique.len(), lines.len(), "twice");
    unique
}

fn file_of(world: &World) -> (PathBuf, String) {
    let path = world.path("app.log");
    let text = path.to_str().expect("text").to_owned();
    (path, text)
}

#[test]
fn a_backup_has_what_comes_while_the_others_are_away_and_is_left_when_one_is_back() {
    let (main, spare, sender) = (World::new(), World::new(), World::new());
    let (path, file) = file_of(&sender);
    let (of_main, of_spare) = (main.start(), spare.start());
    write_lines(&path, 0, 500);
    let backup = spare.address();
    let more = ["--backup", backup.as_str(), "--follow", "--health-every", "100ms"];
    let running = Running(
        sender
            .send(&file, &main.address(), &more)
            .spawn()
            .expect("it starts"),
    );
    wait_until("the main one has it", || main.lines().len() == 500);
    // In order, so that all that it has is acknowledged.
    of_main.end();
    write_lines(&path, 500, 1_000);
    wait_until("the backup has it", || spare.lines().len() == 500);
    let of_main = main.start();
    let mut count = 1_000;
    wait_until("records go back", || {
        write_lines(&path, count, count + 10);
        count += 10;
        std::thread::park_timeout(std::time::Duration::from_millis(10));
        main.lines().len() > 500
    });
    // It is not needed any more.
    let spared = json(&of_spare.end());
    assert_eq!(spared["lost"], 0, "{spared}");
    write_lines(&path, count, count + 500);
    count += 500;
    wait_until("all is there", || all_of(&[&main, &spare]).len() == count);
    let sent = json(&running.end());
    assert_eq!(sent["missing"], 0, "{sent}");
    let kept = json(&of_main.end());
    assert_eq!(kept["lost"], 0, "what the backup has is not lost: {kept}");
}

/// A sender whose main collector was away at its first attempt, and whose backup has gone since.
fn sends_after_both_failed(extra: &str) -> (Output, usize) {
    let (main, spare, sender) = (World::new(), World::new(), World::new());
    let config = sender.path("send.toml");
    let (first, second) = (main.address(), spare.address());
    let text = format!(
        "{extra}\n[[to]]\naddress = \"{first}\"\nweight = 2\n[[to]]\naddress = \"{second}\"\nbackup = true\n"
    );
    std::fs::write(&config, text).expect("written");
    let mut of_spare = spare.start();
    let mut command = logdrive();
    command
        .args(["send", "-", "--app", "app", "--json", "--config"])
        .arg(&config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Running(command.spawn().expect("it starts"));
    let mut input = running.0.stdin.take().expect("a pipe");
    let lines = |from: usize| -> String {
        let lines = (from..from + 100).map(|number| format!("line {number}\n"));
        lines.collect()
    };
    input.write_all(lines(0).as_bytes()).expect("it reads");
    wait_until("the backup has it", || spare.lines().len() == 100);
    of_spare.kill();
    let _of_main = main.start();
    input.write_all(lines(100).as_bytes()).expect("it reads");
    drop(input);
    let output = running.end_by_itself();
    (output, main.lines().len())
}

#[test]
fn a_circuit_breaker_leaves_alone_who_has_failed_as_the_file_says() {
    let (output, kept) = sends_after_both_failed("end_timeout = \"60s\"");
    assert_eq!((json(&output)["missing"].as_u64(), kept), (Some(0), 100));
    let (output, kept) =
        sends_after_both_failed("end_timeout = \"2s\"\nbreaker_failures = 1\nbreaker_open = \"1h\"");
    assert_eq!((output.status.code(), kept), (Some(1), 0), "{output:?}");
}

/// Certificates for the tests' names, as arguments of a collector and of a sender.
fn keys(world: &World) -> (Vec<String>, Vec<String>) {
    let keys = world.path("keys");
    let made = logdrive()
        .args(["collect", "--make-certificates"])
        .arg(&keys)
        .output()
        .expect("it ran");
    assert!(made.status.success(), "{made:?}");
    let of = |who: &str| {
        let names = [
            ("--tls-ca", "authority.pem".to_owned()),
            ("--tls-cert", format!("{who}.pem")),
            ("--tls-key", format!("{who}.key")),
        ];
        let pairs = names.into_iter().flat_map(|(option, name)| {
            [
                option.to_owned(),
                keys.join(name).to_str().expect("text").to_owned(),
            ]
        });
        pairs.collect()
    };
    (of("server"), of("client"))
}

fn strs(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[test]
fn records_go_over_quic_once_whatever_becomes_of_the_collector() {
    let world = World::new();
    let (server, client) = keys(&world);
    let (path, file) = file_of(&world);
    write_lines(&path, 0, 20_000);
    let (mut collector, address) = world.collect("quic://127.0.0.1:0", &strs(&server));
    let more = [
        &strs(&client)[..],
        &["--follow", "--response-timeout", "500ms", "--zstd", "1"],
    ]
    .concat();
    let sender = Running(world.send(&file, &address, &more).spawn().expect("it starts"));
    let mut count = 20_000;
    for _ in 0..2 {
        wait_until("some has come", || !world.raw().is_empty());
        write_lines(&path, count, count + 5_000);
        count += 5_000;
        collector.kill();
        (collector, _) = world.collect(&address, &strs(&server));
    }
    wait_until("all has come", || world.collected().len() >= count);
    let sent = json(&sender.end());
    assert_eq!(sent["missing"], 0, "{sent}");
    let found = world.collected();
    assert!(
        (0..count)
            .map(|number| format!("line {number} of this log"))
            .eq(found),
        "out of order"
    );
    let numbers = json(&collector.end());
    assert_eq!(numbers["lost"], 0, "{numbers}");
    // Who shows no certificate is refused there, too.
    let other = world.path("other.log");
    write_lines(&other, 0, 10);
    let (collector, address) = world.collect(&address, &strs(&server));
    let nobody = world
        .send(
            other.to_str().expect("text"),
            &address,
            &["--tls-ca", &client[1], "--end-timeout", "1s"],
        )
        .output()
        .expect("it ran");
    assert_eq!(json(&nobody)["acknowledged"], 0, "{nobody:?}");
    collector.end();
}

#[test]
fn who_runs_a_sender_chooses_where_records_go_while_it_runs() {
    let (one, two, sender) = (World::new(), World::new(), World::new());
    let (of_one, mut of_two) = (one.start(), two.start());
    let (path, _) = file_of(&sender);
    let config = sender.path("send.toml");
    let say = |to: [&World; 2]| {
        let [first, second] = to.map(World::address);
        let text = format!("policy = \"manual\"\nto = [\"{first}\", \"{second}\"]\n");
        std::fs::write(&config, text).expect("written");
    };
    say([&one, &two]);
    write_lines(&path, 0, 500);
    let mut command = logdrive();
    command
        .args(["send", "--follow", "--json", "--config"])
        .args([&config, &path])
        .env("XDG_STATE_HOME", sender.path("state"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let running = Running(command.spawn().expect("it starts"));
    wait_until("the first has it", || one.lines().len() == 500);
    let read_again = || {
        let pid = rustix::process::Pid::from_child(&running.0);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it runs");
    };
    // What is wrong changes nothing.
    std::fs::write(&config, "to = 7\n").expect("written");
    read_again();
    write_lines(&path, 500, 600);
    wait_until("the first has that, too", || one.lines().len() == 600);
    say([&two, &one]);
    read_again();
    let mut count = 600;
    wait_until("the other one is used", || {
        write_lines(&path, count, count + 10);
        count += 10;
        std::thread::park_timeout(std::time::Duration::from_millis(10));
        !two.lines().is_empty()
    });
    let before = one.lines().len();
    write_lines(&path, count, count + 500);
    count += 500;
    wait_until("all is there", || all_of(&[&one, &two]).len() == count);
    // No other is used while it is away.
    of_two.kill();
    write_lines(&path, count, count + 100);
    count += 100;
    let _of_two = two.start();
    wait_until("it has what came meanwhile", || {
        all_of(&[&one, &two]).len() == count
    });
    assert_eq!(one.lines().len(), before);
    let sent = json(&running.end());
    assert_eq!(sent["missing"], 0, "{sent}");
    of_one.end();
}

#[track_caller]
fn refused(args: &[&str], words: &str) {
    let output = logdrive().args(args).output().expect("it ran");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(said.contains(words), "{args:?}: {said}");
}

#[test]
fn what_is_no_address_is_refused_with_the_reason() {
    refused(
        &["send", "-", "--to", "ftp://logs.example.org:7140"],
        "it begins with one of shm://, unix://, tcp://, tls://, quic://, udp://",
    );
    refused(
        &["send", "-", "--to", "tcp://127.0.0.1:1", "--health-every", "1ms"],
        "allowed: 100ms to 1h",
    );
    refused(
        &["send", "-", "--to", "tcp://127.0.0.1:1,weight=0"],
        "`0` is no weight: allowed are 1 to 1000",
    );
}

#[test]
fn what_a_file_may_say_is_told_where_it_is_wrong() {
    let world = World::new();
    let config = world.path("send.toml");
    std::fs::write(
        &config,
        "health_every = \"1ms\"\n[[to]]\naddress = \"tls://a:1\"\nwieght = 2\n",
    )
    .expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_logdrive"))
        .args(["send", "-", "--config"])
        .arg(&config)
        .output()
        .expect("it ran");
    let said = text(&output.stderr);
    for words in [
        "send.toml:1:16: error: health_every: \"1ms\" is less than 100ms",
        "allowed: a time from \"100ms\" to \"1h\", or \"off\"",
        "send.toml:4:1: error: to: an address has no key `wieght`, did you mean `weight`?",
        "{ address = \"tls://logs.example.org:7140\", weight = 3, backup = false }",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_record_that_has_a_key_of_the_collector_itself_keeps_it_under_another() {
    let world = World::new();
    let (collector, address) = world.collect(&world.address(), &[]);
    let (path, file) = file_of(&world);
    std::fs::write(&path, "{\"host\":\"www\",\"pid\":1}\n{\"a\":2}\n").expect("written");
    let sent = world
        .send(&file, &address, &["--format", "json"])
        .output()
        .expect("it ran");
    assert!(sent.status.success(), "{sent:?}");
    collector.end();
    let raw = world.raw();
    assert!(
        raw[0].starts_with("{\"host_1\":\"www\",\"pid_1\":1,\"host\":\""),
        "{}",
        raw[0]
    );
    assert!(raw[1].starts_with("{\"a\":2,\"host\":\""), "{}", raw[1]);
    assert_eq!(raw[0].matches("\"pid\":").count(), 1);
}
