//! Collectors as processes, what they have collected, and senders.

use logdrive_testkit::{DEADLINE, wait_until_within};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

pub(crate) fn logdrive() -> Command {
    Command::new(env!("CARGO_BIN_EXE_logdrive"))
}

/// A process that ends with the test, whatever happens.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        // Nor is there anything to be done about it.
        let _ = self.0.wait();
    }

    /// Waits until it ends, and what it has said.
    pub(crate) fn end_by_itself(mut self) -> Output {
        let mut output = Output {
            status: self.0.wait().expect("it ends"),
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        if let Some(mut stdout) = self.0.stdout.take() {
            std::io::Read::read_to_end(&mut stdout, &mut output.stdout).expect("read");
        }
        output
    }

    /// Ends it as a person would.
    pub(crate) fn end(self) -> Output {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        self.end_by_itself()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) struct World {
    pub(crate) directory: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}", self.path("c.sock").display())
    }

    /// Starts a collector and waits until it listens. Gives where, too.
    pub(crate) fn collect(&self, listen: &str, more: &[&str]) -> (Running, String) {
        let out = self.path("out");
        Self::collect_as(
            listen,
            &[&["--out", out.to_str().expect("text")][..], more].concat(),
        )
    }

    /// The same with all arguments, among them its outputs.
    pub(crate) fn collect_as(listen: &str, arguments: &[&str]) -> (Running, String) {
        let mut child = logdrive()
            .args(["collect", "--json", "--listen", listen])
            .args(arguments)
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
        // So that it never writes into a pipe without a reader.
        std::thread::spawn(move || lines.for_each(drop));
        (child, address)
    }

    /// Starts a collector at its own address.
    pub(crate) fn start(&self) -> Running {
        self.collect(&self.address(), &[]).0
    }

    /// The collector's lines, none before its first start.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self.path("out").exists() {
            true => self.collected(),
            false => Vec::new(),
        }
    }

    pub(crate) fn send(&self, file: &str, to: &str, more: &[&str]) -> Command {
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

    /// Returns the lines of the collector's log, without the fields.
    pub(crate) fn collected(&self) -> Vec<String> {
        let lines = self.raw().into_iter().map(|line| {
            if line.starts_with('{') {
                let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
                assert_eq!(value["process"], "app", "{line}");
                assert!(
                    value["session"].is_string() && value["host"].is_string(),
                    "{line}"
                );
                return value["message"].as_str().expect("text").to_owned();
            }
            let (line, fields) = line
                .split_once(" host=")
                .unwrap_or_else(|| panic!("no fields: {line}"));
            assert!(
                fields.contains(" process=app ") && fields.contains(" session="),
                "{fields}"
            );
            line.to_owned()
        });
        lines.collect()
    }

    /// Whole lines of the collector's log, the oldest first.
    pub(crate) fn raw(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let each = |text: &str| lines.push(text.to_owned());
        match self.each_line(each) {
            true => lines,
            false => self.raw(),
        }
    }

    /// Waits until the collector has so many records.
    pub(crate) fn wait_for_records(&self, count: usize) {
        // Many cycles make long logs, which take a moment to read.
        let pause = Duration::from_millis(if cycles(0) > 50 { 500 } else { 5 });
        wait_until_within(limit(), "all is sent", || {
            let mut found = 0;
            let is_there = self.each_line(|_| found += 1) && found >= count;
            if !is_there {
                std::thread::park_timeout(pause);
            }
            is_there
        });
    }

    /// Calls a function with each whole line; `false` where a file has another name meanwhile.
    fn each_line(&self, mut each: impl FnMut(&str)) -> bool {
        let mut names: Vec<PathBuf> = std::fs::read_dir(self.path("out"))
            .expect("there")
            .map(|entry| entry.expect("read").path())
            .filter(|path| path.extension().is_some_and(|end| end == "log" || end == "zst"))
            .collect();
        // Of one second there may be more than nine, whose numbers are not in the order of text.
        names.sort_by_cached_key(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let parts = name.split('.').map(|part| match part.parse::<u32>() {
                Ok(number) => format!("{number:010}"),
                Err(_) => part.to_owned(),
            });
            parts.collect::<Vec<_>>()
        });
        names.dedup_by(|later, earlier| later.with_extension("") == *earlier);
        for name in names {
            let mut bytes = match std::fs::read(&name) {
                // It was compressed meanwhile, and has another name.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return false,
                found => found.expect("read"),
            };
            if name.extension().is_some_and(|end| end == "zst") {
                bytes = zstd::decode_all(bytes.as_slice()).expect("sound");
            }
            let text = String::from_utf8(bytes).expect("text");
            // A collector at work may be in the middle of the last one.
            let whole = text
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'));
            whole.for_each(&mut each);
        }
        true
    }
}

pub(crate) fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

pub(crate) fn write_lines(path: &Path, from: usize, to: usize) {
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

/// Time for what takes longer, the more cycles there are.
pub(crate) fn limit() -> Duration {
    DEADLINE + Duration::from_secs(3) * cycles(0) as u32
}

pub(crate) fn cycles(default: usize) -> usize {
    let given = std::env::var("LOGDRIVE_TEST_CYCLES").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}
