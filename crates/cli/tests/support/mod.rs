//! Helpers of the tests of the command: running it, and programs that log and die.
#![allow(dead_code)] // Each test file uses its part.

pub(crate) mod agent;
pub(crate) mod collector;
pub(crate) mod cuts;
pub(crate) mod datagrams;
pub(crate) mod transports;

use logdrive_testkit::{Process, report, this_test};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The command, in a directory, with an environment of its own.
pub(crate) fn logdrive(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logdrive"));
    command
        .current_dir(dir)
        .env_clear()
        .env("TZ", "UTC")
        .stdin(Stdio::null());
    command
}

/// Runs the command and gives what it printed.
pub(crate) fn run(dir: &Path, args: &[&str]) -> Output {
    logdrive(dir).args(args).output().expect("the command runs")
}

/// Runs the command, which must end well, and gives its standard output.
pub(crate) fn stdout(dir: &Path, args: &[&str]) -> String {
    let output = run(dir, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "{args:?}");
    text(&output.stdout)
}

/// Runs the command with something on its standard input.
pub(crate) fn with_stdin(dir: &Path, args: &[&str], input: &[u8]) -> Output {
    let mut command = logdrive(dir);
    let mut child = command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the command ends");
    // The command may have ended before it read all.
    let _ = writer.join().expect("the writer ends");
    output
}

/// Bytes as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Role of the test binary when it is to be a program that logs: see [`Victim`].
pub(crate) const VICTIM_DIR: &str = "LOGDRIVE_CLI_TEST_DIR";

/// A program that has logged and waits. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Victim(Process);

impl Victim {
    /// Starts this test binary again as a program that logs: `test` is the name of its test that does so when
    /// [`VICTIM_DIR`] is set. Comes back when it has logged.
    pub(crate) fn start(test: &str, dir: &Path, app: &str) -> Self {
        let mut command = this_test(test);
        command
            .env(VICTIM_DIR, dir)
            .env("LOGDRIVE_CLI_TEST_APP", app)
            .current_dir(dir);
        let mut process = Process::spawn(&mut command);
        process.expect("victim is ready");
        Self(process)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Ends it with SIGKILL, and waits until it has gone.
    pub(crate) fn kill(mut self) -> u32 {
        self.0.kill();
        self.0.pid()
    }
}

/// Reports to the parent that all has been logged, then waits to be killed.
pub(crate) fn wait_to_be_killed() -> ! {
    report("victim is ready");
    loop {
        std::thread::park();
    }
}
