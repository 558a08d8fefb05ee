//! Connections that are cut under load, disks that are full, and clients that mean harm: records are in the
//! collector's log once, and the next client is served. `LOGDRIVE_TEST_CYCLES` makes the cuts more,
//! `LOGDRIVE_TEST_CONNECTIONS` the clients.

mod support;

use logdrive_ship::frame::{FLAG_ACK, FLAG_ZSTD, HEADER_BYTES, Header, Kind, next_frame};
use logdrive_ship::hello::{HELLO_ACKS, HELLO_UNCHECKED, Hello, Reason, Role, decode_goodbye};
use logdrive_testkit::{wait_until, wait_until_within};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use support::collector::{Running, World, cycles, json, limit, logdrive, write_lines};
use support::cuts::CuttingProxy;
use support::transports::{Transport, over_each_transport, strs};

fn check(world: &World, count: usize) {
    let found = world.collected();
    let unique: std::collections::HashSet<&String> = found.iter().collect();
    assert_eq!((unique.len(), found.len()), (count, count), "missing or twice");
    let expected = (0..count).map(|number| format!("line {number} of this log"));
    assert!(found.into_iter().eq(expected), "out of order");
}

/// Cuts the connections of a sender that always has something to send.
fn cut_connections(scheme: &str) {
    let world = World::new();
    let transport = Transport::new(&world, scheme);
    let (collector, address) = world.collect(&transport.listen, &strs(&transport.of_collector()));
    let proxy = CuttingProxy::start(&address, world.directory.path());
    let file = world.path("app.log");
    write_lines(&file, 0, 1_000);
    let path = file.to_str().expect("text").to_owned();
    let options = transport.of_sender();
    let options = [&strs(&options)[..], &["--follow"]].concat();
    let mut sender = world.send(&path, &proxy.address, &options);
    let sender = Running(sender.spawn().expect("it starts"));
    let mut count = 1_000;
    let wanted = cycles(4);
    let log = world.path("out/collected.log");
    let (mut log, mut kept) = (std::fs::File::open(&log).expect("there"), 0);
    wait_until_within(limit(), "enough is cut", || {
        // Always something to send, and never more than it takes at once.
        let mut fresh = Vec::new();
        log.read_to_end(&mut fresh).expect("read");
        kept += memchr::memchr_iter(b'\n', &fresh).count();
        if count < kept + 500 {
            write_lines(&file, count, count + 500);
            count += 500;
        }
        proxy.count() >= wanted
    });
    proxy.calm();
    world.wait_for_records(count);
    let sent = json(&sender.end());
    assert_eq!(sent["missing"], 0, "{sent}");
    assert!(sent["connections"].as_u64() > Some(1), "{sent}");
    collector.end();
    check(&world, count);
    println!(
        "{scheme}: {} cuts, {count} records, 0 lost, 0 twice",
        proxy.count()
    );
}

over_each_transport!(
    connections_that_are_cut_under_load_lose_and_double_nothing,
    cut_connections
);

/// Starts a command with a limit for the bytes of a file, as a full disk has one; it fails instead of ending.
fn with_limit(command: &Command, kib: usize) -> Command {
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_str().expect("text")))
        .collect();
    let mut limited = Command::new("bash");
    let line = format!("trap '' XFSZ; ulimit -S -f {kib}; exec {}", words.join(" "));
    limited.args(["-c", &line]);
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            limited.env(name, value);
        }
    }
    limited
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    limited
}

fn lift_limit(running: &Running) {
    let pid = rustix::process::Pid::from_child(&running.0);
    let limit = rustix::process::Rlimit {
        current: None,
        maximum: None,
    };
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limit).expect("it may be lifted");
}

#[test]
fn a_collector_whose_disk_is_full_refuses_and_goes_on_when_there_is_room() {
    let world = World::new();
    let mut command = logdrive();
    command
        .args(["collect", "--json", "--listen", &world.address(), "--out"])
        .arg(world.path("out"));
    let mut collector = Running(with_limit(&command, 2_000).spawn().expect("it starts"));
    let said = std::io::BufReader::new(collector.0.stderr.take().expect("piped"));
    let notes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let own = Arc::clone(&notes);
    std::thread::spawn(move || {
        for line in std::io::BufRead::lines(said).map_while(Result::ok) {
            own.lock().expect("no panic").push(line);
        }
    });
    let has_said = |text: &str| {
        notes
            .lock()
            .expect("no panic")
            .iter()
            .any(|line| line.contains(text))
    };
    wait_until("it listens", || has_said("listens"));
    let file = world.path("app.log");
    write_lines(&file, 0, 60_000);
    let path = file.to_str().expect("text").to_owned();
    let sender = Running(
        world
            .send(&path, &world.address(), &[])
            .spawn()
            .expect("it starts"),
    );
    wait_until("it is told", || has_said("senders keep what is not written"));
    lift_limit(&collector);
    let output = sender.end_by_itself();
    assert!(
        output.status.success(),
        "{:?}",
        String::from_utf8_lossy(&output.stdout)
    );
    collector.end();
    check(&world, 60_000);
}

#[test]
fn a_spool_whose_disk_is_full_holds_back_and_loses_nothing() {
    let world = World::new();
    let spool = world.path("spool");
    let spool = spool.to_str().expect("text").to_owned();
    let command = world.send("-", &world.address(), &["--app", "app", "--spool", &spool]);
    let mut sender = Running(with_limit(&command, 1_000).spawn().expect("it starts"));
    let mut stdin = sender.0.stdin.take().expect("piped");
    // Far more than memory and the spool take.
    let count = 1_200_000;
    let writer = std::thread::spawn(move || {
        for number in 0..count {
            stdin
                .write_all(format!("line {number} of this log\n").as_bytes())
                .expect("it reads on");
        }
    });
    let has_spool = || std::fs::read_dir(&spool).is_ok_and(|found| found.count() > 1);
    wait_until("the spool is used", has_spool);
    let collector = world.start();
    writer.join().expect("all is read");
    let output = sender.end_by_itself();
    assert!(
        output.status.success(),
        "{:?}",
        String::from_utf8_lossy(&output.stdout)
    );
    collector.end();
    check(&world, count);
}

fn hello(session: u128) -> Vec<u8> {
    let mut hello = Hello::new(Role::Shipper);
    hello.session = session;
    hello.epoch = 1;
    hello.flags = HELLO_ACKS | HELLO_UNCHECKED;
    hello.app = "app".to_owned();
    let mut out = Vec::new();
    Header::new(Kind::Hello, 0).put(&[&hello.encode()], true, &mut out);
    out
}

/// Reads until a frame is there, or the connection ends.
fn frame(stream: &mut UnixStream, held: &mut Vec<u8>) -> Option<(Kind, Vec<u8>)> {
    loop {
        if let Ok(Some(found)) = next_frame(held, 1 << 20) {
            let (kind, payload) = (found.header.kind, found.payload.to_vec());
            held.drain(..found.header.length_bytes as usize);
            return Some((kind, payload));
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return None,
            Ok(length) => held.extend_from_slice(&bytes[..length]),
        }
    }
}

/// Says this behind a hello; why the connection ended.
fn refused(socket: &Path, session: u128, bytes: &[u8]) -> Option<Reason> {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    let mut held = Vec::new();
    if session > 0 {
        stream.write_all(&hello(session)).expect("sent");
        assert_eq!(frame(&mut stream, &mut held)?.0, Kind::Hello);
    }
    stream.write_all(bytes).expect("sent");
    loop {
        match frame(&mut stream, &mut held)? {
            (Kind::Goodbye, payload) => return Some(decode_goodbye(&payload).expect("sound").0),
            (Kind::Ack, _) => panic!("it was taken"),
            _ => {}
        }
    }
}

fn batch(flags: u8, count: u32, payload: &[u8]) -> Vec<u8> {
    let mut header = Header::new(Kind::Batch, 0);
    header.flags = FLAG_ACK | flags;
    header.count = count;
    let mut out = Vec::new();
    header.put(&[payload], true, &mut out);
    out
}

#[test]
fn those_who_mean_harm_are_refused_with_a_reason_and_the_next_one_is_served() {
    let world = World::new();
    std::fs::write(
        world.path("collect.toml"),
        "handshake_timeout = \"200ms\"\nidle_timeout = \"1s\"\n",
    )
    .expect("written");
    let config = world.path("collect.toml");
    let (collector, address) = world.collect(&world.address(), &["--config", config.to_str().expect("text")]);
    let socket = world.path("c.sock");
    // A gigabyte of zeros in some KiB, one that lies about its length, and one that is longer than it says.
    let zeros = zstd::bulk::compress(&vec![0; 64 << 20], 1).expect("packed");
    let bomb = |says: u32| [&says.to_le_bytes()[..], &zeros].concat();
    let mut broken = batch(0, 1, b"line\n");
    broken[30 % HEADER_BYTES] ^= 1;
    let mut oversized = batch(0, 1, b"line\n");
    oversized[..4].copy_from_slice(&(2u32 << 20).to_le_bytes());
    let cases: [(u128, Vec<u8>, Reason); 8] = [
        (1, batch(FLAG_ZSTD, 1, &bomb(1 << 30)), Reason::TooLarge),
        (2, batch(FLAG_ZSTD, 1, &bomb(1 << 20)), Reason::Malformed),
        (3, oversized, Reason::TooLarge),
        (4, broken, Reason::Checksum),
        (5, batch(0, 9, b"one line\n"), Reason::Malformed),
        (6, vec![0xff; 64], Reason::TooLarge),
        (0, batch(0, 1, b"no hello\n"), Reason::Unexpected),
        (
            0,
            b"GET / HTTP/1.1\r\n\r\n and more of it".to_vec(),
            Reason::TooLarge,
        ),
    ];
    for (number, (session, bytes, reason)) in cases.iter().enumerate() {
        assert_eq!(refused(&socket, *session, bytes), Some(*reason), "case {number}");
    }
    // Those who say nothing, or one byte after the other, do not keep anybody from being served.
    let slow: Vec<UnixStream> = (0..64)
        .map(|_| {
            let mut stream = UnixStream::connect(&socket).expect("it listens");
            // It may have ended it by now.
            let _ = stream.write_all(&hello(9)[..3]);
            stream
        })
        .collect();
    let file = world.path("app.log");
    write_lines(&file, 0, 1_000);
    let path = file.to_str().expect("text").to_owned();
    let sent = world.send(&path, &address, &[]).output().expect("it ran");
    assert!(sent.status.success(), "{sent:?}");
    for mut stream in slow {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a time");
        let mut held = Vec::new();
        let end =
            frame(&mut stream, &mut held).map(|(_, payload)| decode_goodbye(&payload).expect("sound").0);
        assert!(matches!(end, Some(Reason::Handshake) | None), "{end:?}");
    }
    let numbers = json(&collector.end());
    for reason in ["too_large", "malformed", "checksum", "unexpected", "handshake"] {
        assert!(numbers["ended"][reason].as_u64() > Some(0), "{reason}: {numbers}");
    }
    check(&world, 1_000);
}

#[test]
fn many_connections_take_little_memory() {
    let wanted: usize =
        std::env::var("LOGDRIVE_TEST_CONNECTIONS").map_or(400, |text| text.parse().expect("a number"));
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit {
        current: limit.maximum,
        ..limit
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, all).expect("it may be raised");
    let world = World::new();
    let collector = world.start();
    let socket = world.path("c.sock");
    let mut streams = Vec::new();
    for number in 0..wanted {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        stream.write_all(&hello(number as u128 + 1)).expect("sent");
        let mut held = Vec::new();
        assert_eq!(
            frame(&mut stream, &mut held).expect("an answer").0,
            Kind::Hello,
            "{number}"
        );
        streams.push((stream, held));
    }
    // One in a hundred sends.
    for (stream, held) in streams.iter_mut().step_by(100) {
        for round in 0..10 {
            let mut header = Header::new(Kind::Batch, round * 100);
            header.flags = FLAG_ACK;
            header.count = 100;
            let mut bytes = Vec::new();
            header.put(&["a line of a client\n".repeat(100).as_bytes()], true, &mut bytes);
            stream.write_all(&bytes).expect("sent");
            assert_eq!(frame(stream, held).expect("an answer").0, Kind::Ack);
        }
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", collector.0.id())).expect("it runs");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: usize = resident
        .and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok())
        .expect("a number");
    println!("{wanted} connections, 1 in 100 active: {} MiB", kib / 1024);
    assert!(kib < 256 * 1024, "{kib} KiB");
    drop(streams);
    let numbers = json(&collector.end());
    assert_eq!(numbers["records"], wanted.div_ceil(100) * 1000);
    assert_eq!(numbers["connections"], wanted);
}
