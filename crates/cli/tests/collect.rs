//! `logdrive collect` and `logdrive send` as processes that are killed again and again: each line is in the collector's
//! log once, in order. `LOGDRIVE_TEST_CYCLES` makes the kills more.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn logdrive() -> Command {
    Command::new(env!("CARGO_BIN_EXE_logdrive"))
}

/// A process that ends with the test, whatever happens.
struct Running(Child);

impl Running {
    fn kill(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        // Nor is there anything to be done about it.
        let _ = self.0.wait();
    }

    /// Ends it as a person would.
    fn end(mut self) -> Output {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let mut output = Output {
            status: self.0.wait().expect("it ends"),
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        if let Some(stdout) = self.0.stdout.take() {
            std::io::Read::read_to_end(&mut { stdout }, &mut output.stdout).expect("read");
        }
        output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

struct World {
    directory: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn address(&self) -> String {
        format!("unix://{}", self.path("c.sock").display())
    }

    /// Starts a collector and waits until it listens. Gives where, too.
    fn collect(&self, listen: &str, more: &[&str]) -> (Running, String) {
        let mut child = logdrive()
            .args(["collect", "--json", "--listen", listen, "--out"])
            .arg(self.path("out"))
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stderr = child.stderr.take().expect("piped");
        let child = Running(child);
        let mut lines = BufReader::new(stderr).lines();
        let address = loop {
            let line = lines.next().expect("it listens before it ends").expect("text");
            if let Some(address) = line.strip_prefix("listens: on ") {
                break address.to_owned();
            }
        };
        // So that it never writes into a pipe that nobody reads.
        std::thread::spawn(move || lines.for_each(drop));
        (child, address)
    }

    fn send(&self, file: &str, to: &str, more: &[&str]) -> Command {
        let mut command = logdrive();
        command
            .args(["send", file, "--json", "--to", to])
            .args(more)
            .env("XDG_STATE_HOME", self.path("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// What is in the collector's log, without the fields.
    fn collected(&self) -> Vec<String> {
        let mut names: Vec<PathBuf> = std::fs::read_dir(self.path("out"))
            .expect("there")
            .map(|entry| entry.expect("read").path())
            .filter(|path| path.extension().is_some_and(|end| end == "log" || end == "zst"))
            .collect();
        names.sort();
        names.dedup_by(|later, earlier| later.with_extension("") == *earlier);
        let mut lines = Vec::new();
        for name in names {
            let mut bytes = std::fs::read(&name).expect("read");
            if name.extension().is_some_and(|end| end == "zst") {
                bytes = zstd::decode_all(bytes.as_slice()).expect("sound");
            }
            for line in String::from_utf8(bytes).expect("text").lines() {
                let (line, fields) = line
                    .split_once(" host=")
                    .unwrap_or_else(|| panic!("no fields: {line}"));
                assert!(
                    fields.contains(" process=app ") && fields.contains(" session="),
                    "{fields}"
                );
                lines.push(line.to_owned());
            }
        }
        lines
    }
}

fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

fn write_lines(path: &Path, from: usize, to: usize) {
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .expect("opened");
    let text: String = (from..to)
        .map(|number| format!("line {number} of this log\n"))
        .collect();
    file.write_all(text.as_bytes()).expect("written");
}

fn expected(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("line {number} of this log"))
        .collect()
}

fn cycles(default: usize) -> usize {
    let given = std::env::var("LOGDRIVE_TEST_CYCLES").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < end, "{what} never came true");
        std::thread::yield_now();
    }
}

fn check(found: &[String], count: usize) {
    let unique: HashSet<&String> = found.iter().collect();
    assert_eq!((unique.len(), found.len()), (count, count), "missing or twice");
    assert_eq!(found, expected(count), "out of order");
}

#[test]
fn a_file_is_sent_once_however_often_it_is_sent() {
    let world = World::new();
    let (collector, address) = world.collect(&world.address(), &[]);
    let file = world.path("app.log");
    let file = file.to_str().expect("text");
    write_lines(Path::new(file), 0, 50_000);
    for more in [&[][..], &["--zstd", "3"][..]] {
        let output = world.send(file, &address, more).output().expect("it ran");
        assert!(output.status.success(), "{output:?}");
    }
    write_lines(Path::new(file), 50_000, 60_000);
    let output = world
        .send(file, &address, &["--zstd", "1"])
        .output()
        .expect("it ran");
    assert_eq!(json(&output)["acknowledged"], 10_000);
    let numbers = json(&collector.end());
    assert_eq!(numbers["records"], 60_000);
    check(&world.collected(), 60_000);
}

#[test]
fn records_come_over_tls_from_those_with_a_certificate_only() {
    let world = World::new();
    let keys = world.path("keys");
    let made = logdrive()
        .args(["collect", "--make-certificates"])
        .arg(&keys)
        .output()
        .expect("it ran");
    assert!(made.status.success(), "{made:?}");
    let key = |name: &str| keys.join(name).to_str().expect("text").to_owned();
    let (ca, cert, private) = (key("authority.pem"), key("server.pem"), key("server.key"));
    let server = ["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &private];
    let (collector, address) = world.collect("tls://127.0.0.1:0", &server);
    let file = world.path("app.log");
    let file = file.to_str().expect("text");
    write_lines(Path::new(file), 0, 1_000);
    let nobody = world
        .send(file, &address, &["--tls-ca", &ca, "--patience", "1s"])
        .output()
        .expect("it ran");
    assert_eq!(json(&nobody)["acknowledged"], 0, "{nobody:?}");
    let other = world.path("other");
    logdrive()
        .args(["collect", "--make-certificates"])
        .arg(&other)
        .output()
        .expect("it ran");
    let stranger = |name: &str| other.join(name).to_str().expect("text").to_owned();
    let (c, k) = (stranger("client.pem"), stranger("client.key"));
    let forged = [
        "--tls-ca",
        &ca,
        "--tls-cert",
        &c,
        "--tls-key",
        &k,
        "--patience",
        "1s",
    ];
    let forged = world.send(file, &address, &forged).output().expect("it ran");
    assert_eq!(json(&forged)["acknowledged"], 0, "{forged:?}");
    let (c, k) = (key("client.pem"), key("client.key"));
    let known = ["--tls-ca", &ca, "--tls-cert", &c, "--tls-key", &k];
    let output = world.send(file, &address, &known).output().expect("it ran");
    assert_eq!(json(&output)["acknowledged"], 1_000, "{output:?}");
    let numbers = json(&collector.end());
    assert!(numbers["ended"]["forbidden"].as_u64() >= Some(2), "{numbers}");
    check(&world.collected(), 1_000);
}

#[test]
fn collectors_that_are_killed_under_load_lose_and_double_nothing() {
    let world = World::new();
    let file = world.path("app.log");
    write_lines(&file, 0, 2_000);
    let address = world.address();
    let path = file.to_str().expect("text").to_owned();
    let sender = Running(
        world
            .send(&path, &address, &["--follow"])
            .spawn()
            .expect("it starts"),
    );
    let log = world.path("out/collected.log");
    let length = || log.metadata().map_or(0, |found| found.len());
    let mut count = 2_000;
    for cycle in 0..cycles(12) {
        let (mut collector, _) = world.collect(&address, &["--rotate-size", "1MiB"]);
        let before = length();
        // Batches of many sizes, while it is killed at whatever it does.
        for _ in 0..20 {
            write_lines(&file, count, count + 1 + cycle * 37 % 400);
            count += 1 + cycle * 37 % 400;
        }
        until("the log grows", || length() != before);
        collector.kill();
    }
    let (collector, _) = world.collect(&address, &[]);
    until("all is sent", || world.collected().len() >= count);
    let sent = json(&sender.end());
    assert_eq!(sent["missing"], 0, "{sent}");
    collector.end();
    check(&world.collected(), count);
}

#[test]
fn senders_that_are_killed_go_on_where_they_stopped() {
    let world = World::new();
    let file = world.path("app.log");
    write_lines(&file, 0, 100);
    let (collector, address) = world.collect(&world.address(), &[]);
    let path = file.to_str().expect("text").to_owned();
    let log = world.path("out/collected.log");
    let length = || log.metadata().map_or(0, |found| found.len());
    let mut count = 100;
    for cycle in 0..cycles(12) {
        let before = length();
        let mut sender = Running(
            world
                .send(&path, &address, &["--follow"])
                .spawn()
                .expect("it starts"),
        );
        write_lines(&file, count, count + 3_000 + cycle);
        count += 3_000 + cycle;
        until("the log grows", || length() > before);
        sender.kill();
        if cycle % 3 == 0 {
            std::fs::rename(&file, world.path(&format!("app.{cycle:04}.log"))).expect("renamed");
        }
    }
    write_lines(&file, count, count + 1);
    count += 1;
    let output = world.send(&path, &address, &[]).output().expect("it ran");
    assert_eq!(json(&output)["missing"], 0, "{output:?}");
    collector.end();
    check(&world.collected(), count);
}

#[test]
fn what_comes_while_the_collector_is_away_waits_in_the_spool() {
    let world = World::new();
    let address = world.address();
    let spool = world.path("spool");
    let spool = spool.to_str().expect("text").to_owned();
    let more = ["--app", "app", "--spool", &spool, "--patience", "100ms"];
    let mut count = 0;
    for _ in 0..3 {
        // Nobody listens: all of it goes to the disk, and the sender says so by its status.
        let mut sender = world.send("-", &address, &more);
        let mut sender = sender.stdin(Stdio::piped()).spawn().expect("it starts");
        let text: String = (count..count + 5_000)
            .map(|number| format!("line {number} of this log\n"))
            .collect();
        sender
            .stdin
            .take()
            .expect("piped")
            .write_all(text.as_bytes())
            .expect("written");
        assert_eq!(sender.wait_with_output().expect("it ends").status.code(), Some(1));
        count += 5_000;
    }
    let (collector, _) = world.collect(&address, &[]);
    let output = world
        .send("-", &address, &["--app", "app", "--spool", &spool])
        .output()
        .expect("it ran");
    assert!(output.status.success(), "{output:?}");
    collector.end();
    check(&world.collected(), count);
}
