//! A real agent, and real programs that log through it on command.

use super::{VICTIM_DIR, text};
use logdrive_testkit::{Process, report, this_test};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const APP: &str = "LOGDRIVE_CLI_TEST_APP";
const KEEP: &str = "LOGDRIVE_CLI_TEST_KEEP";

/// The agent's socket in a test's directory.
pub(crate) fn socket(dir: &Path) -> PathBuf {
    dir.join("agent/agent.sock")
}

/// The log of an application, as the agent writes it.
pub(crate) fn log_of(dir: &Path, app: &str) -> String {
    std::fs::read_to_string(dir.join(format!("agent/{app}.log"))).unwrap_or_default()
}

/// A directory for an agent, whose configuration has these tables behind its places.
pub(crate) fn place(tables: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("agent")).expect("a directory");
    configure(dir.path(), tables);
    dir
}

/// Writes the configuration; `DIR` in it is the directory of the logs.
pub(crate) fn configure(dir: &Path, tables: &str) {
    let path = dir.join("agent").display().to_string();
    let head = format!("[agent]\nsocket = \"{path}/agent.sock\"\nrun_dir = \"{path}/state\"\n\n");
    let text = head + &tables.replace("DIR", &path);
    std::fs::write(dir.join("agent.toml"), text).expect("a configuration");
}

/// One file for each application, from info on.
pub(crate) const ONE_FILE: &str = "[[sink]]\nname = \"main\"\npath = \"DIR/{app}.log\"\n";

/// `logdrive agent`.
pub(crate) struct Agent {
    process: Process,
}

impl Agent {
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_with(dir, Stdio::null())
    }

    pub(crate) fn start_with(dir: &Path, stdout: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_logdrive"))
            .args(["agent", "--config"])
            .arg(dir.join("agent.toml"))
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let listens = said
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line.contains("listens"));
        assert!(listens, "the agent does not listen");
        // What it says later goes nowhere, but it must not fail.
        std::thread::spawn(move || said.map_while(Result::ok).count());
        Self {
            process: child.into(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub(crate) fn end(mut self) {
        self.signal(Signal::TERM);
        assert!(self.process.wait().success());
    }

    pub(crate) fn kill(mut self) {
        self.process.kill();
    }
}

/// Plays the program, if this process is one: does what its standard input says, and says when it is done.
pub(crate) fn play() -> bool {
    let Some(dir) = std::env::var_os(VICTIM_DIR) else {
        return false;
    };
    let dir = Path::new(&dir);
    let app = std::env::var(APP).expect("the app's name is given");
    let mut builder = logdrive::builder(&app)
        .agent(socket(dir))
        .agent_timeout(std::time::Duration::from_secs(60))
        .run_dir(dir.join("run"))
        .file(logdrive::File::new(dir.join("alone.log")))
        .filter("info");
    if std::env::var_os(KEEP).is_some() {
        let keep = logdrive::Keep::bytes(1 << 20).pause(Duration::ZERO);
        builder = builder.keep(keep).filter("trace");
    }
    let guard = builder.init().expect("logging starts");
    assert!(logdrive::session_path().is_none(), "no agent has the session");
    report("ready");
    for command in std::io::stdin().lines().map_while(Result::ok) {
        let (what, number) = command.split_once(' ').unwrap_or((&command, "0"));
        let number: u64 = number.parse().expect("a number");
        println!("done {}", obey(what, number));
    }
    drop(guard);
    // Before the test harness says something to a parent that listens no more.
    std::process::exit(0);
}

fn obey(what: &str, number: u64) -> bool {
    match what {
        "tick" => tick(number),
        "ticks" => (0..number).for_each(tick),
        "tock" => logdrive::info!(number, "tock"),
        "detail" => logdrive::debug!(target: "net::quic", number, "detail"),
        "details" => (0..number).for_each(|number| logdrive::debug!(number, "kept")),
        "fail" => logdrive::error!(number, "it broke"),
        "thread" => std::thread::scope(|scope| {
            scope.spawn(|| tick(number));
        }),
        "flush" => return logdrive::flush(),
        "dump" => return logdrive::dump(),
        other => panic!("{other}"),
    }
    true
}

fn tick(number: u64) {
    let peer = ["ann", "bob"][(number % 2) as usize];
    logdrive::info!(number, peer, "tick");
}

/// A program that logs through the agent.
pub(crate) struct Program {
    process: Process,
}

impl Program {
    /// Starts this test binary again: its test `program` calls [`play`].
    pub(crate) fn start(dir: &Path, app: &str) -> Self {
        Self::start_with(dir, app, false)
    }

    /// With a flight recorder.
    pub(crate) fn keeping(dir: &Path, app: &str) -> Self {
        Self::start_with(dir, app, true)
    }

    fn start_with(dir: &Path, app: &str, keeps: bool) -> Self {
        let mut command = this_test("program");
        command.env(VICTIM_DIR, dir).env(APP, app).current_dir(dir);
        if keeps {
            command.env(KEEP, "1");
        }
        let mut process = Process::spawn(&mut command);
        process.expect("ready");
        Self { process }
    }

    /// Has it do something; what it says to that.
    #[track_caller]
    pub(crate) fn does(&mut self, command: &str) -> bool {
        self.process.ask(command, "done ") == "true"
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// `shop (process 4711)`
    pub(crate) fn title(&self, app: &str) -> String {
        format!("{app} (process {})", self.pid())
    }

    pub(crate) fn end(self) {
        self.process.end();
    }

    pub(crate) fn kill(mut self) {
        self.process.kill();
    }
}

/// Runs the command about the test's agent, which must end well; what it printed.
#[track_caller]
pub(crate) fn ok(dir: &Path, args: &[&str]) -> String {
    let output = run(dir, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs the command about the test's agent.
pub(crate) fn run(dir: &Path, args: &[&str]) -> std::process::Output {
    let socket = socket(dir);
    let at = ["--agent", socket.to_str().expect("a path of text")];
    super::run(dir, &[args, &at].concat())
}
