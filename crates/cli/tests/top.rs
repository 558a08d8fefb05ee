//! `logdrive top` on programs that log: snapshots, and the screen in a terminal, with keys and signals.

mod support;

use logdrive_testkit::{Process, wait_for, wait_until};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use support::{VICTIM_DIR, Victim, logdrive, run, stdout, text, wait_to_be_killed};

/// Records that a victim logs.
const RECORDS: u64 = 500;

/// Does nothing, unless it was started by [`Victim::start`]: then this is a program that logs and waits to be killed.
#[test]
fn victim() {
    let Some(dir) = std::env::var_os(VICTIM_DIR) else {
        return assert_eq!(RECORDS % 2, 0);
    };
    let app = std::env::var("LOGDRIVE_CLI_TEST_APP").expect("the app's name is given");
    let _guard = logdrive::builder(&app)
        .run_dir(Path::new(&dir).join("run"))
        .file(logdrive::File::new(Path::new(&dir).join(format!("{app}.log"))))
        .full(logdrive::Full::Block)
        .init()
        .expect("logging starts");
    for id in 0..RECORDS {
        logdrive::info!(id, "order filled");
    }
    logdrive::warn!("only once");
    logdrive::flush();
    wait_to_be_killed();
}

const SNAPSHOT: [&str; 5] = ["top", "--run-dir", "run", "--interval", "100ms"];

fn snapshot(dir: &Path, more: &[&str]) -> Value {
    let args = [&SNAPSHOT[..], &["--json"], more].concat();
    let line = stdout(dir, &args);
    assert_eq!(line.lines().count(), 1, "{line}");
    serde_json::from_str(&line).expect("JSON")
}

#[test]
fn a_snapshot_tells_of_processes_and_their_callsites() {
    let dir = tempfile::tempdir().expect("a directory");
    let shop = Victim::start("victim", dir.path(), "shop");
    let _bank = Victim::start("victim", dir.path(), "bank");
    let found = snapshot(dir.path(), &["shop"]);
    let processes = found["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 1, "{found}");
    let process = &processes[0];
    assert_eq!(process["app"], "shop");
    assert_eq!(process["pid"], shop.pid());
    assert_eq!(
        (&process["via"], &process["state"]),
        (&"own".into(), &"alive".into())
    );
    assert_eq!(process["records"], RECORDS + 1);
    assert_eq!(
        (&process["dropped"], &process["records_per_s"]),
        (&0.into(), &0.0.into())
    );
    assert!(process["log"].as_str().expect("a path").ends_with("shop.log"));
    let callsites = process["callsites"].as_array().expect("a list");
    let of = |message: &str| callsites.iter().find(|site| site["message"] == message);
    let loud = of("order filled").unwrap_or_else(|| panic!("{found}"));
    assert_eq!((&loud["level"], &loud["state"]), (&"INFO".into(), &"on".into()));
    assert!(loud["file"].as_str().expect("a path").ends_with("top.rs"));
    assert_eq!(
        snapshot(dir.path(), &[])["processes"].as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(
        snapshot(dir.path(), &["-n", "1"])["processes"][0]["callsites"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_dead_process_is_told_as_dead() {
    let dir = tempfile::tempdir().expect("a directory");
    Victim::start("victim", dir.path(), "shop").kill();
    let found = snapshot(dir.path(), &[]);
    assert_eq!(found["processes"][0]["state"], "dead", "{found}");
}

#[test]
fn into_a_pipe_goes_one_snapshot_as_text() {
    let dir = tempfile::tempdir().expect("a directory");
    let _shop = Victim::start("victim", dir.path(), "shop");
    let table = stdout(dir.path(), &SNAPSHOT);
    assert!(
        table.starts_with("APP ") && table.contains("RECORDS/S"),
        "{table}"
    );
    assert!(
        table.contains("order filled") && table.contains("only once"),
        "{table}"
    );
    assert!(!table.contains('\x1b'), "{table:?}");
    let nobody = run(dir.path(), &[&SNAPSHOT[..], &["nobody"]].concat());
    assert!(nobody.status.success());
    assert!(text(&nobody.stderr).contains("none of 1 processes contains \"nobody\""));
}

#[test]
fn where_nobody_logs_it_says_where_was_looked() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("run")).expect("a directory");
    let nothing = run(dir.path(), &SNAPSHOT);
    assert!(nothing.status.success() && nothing.stdout.is_empty());
    let said = text(&nothing.stderr);
    assert!(
        said.contains("no program logs") && said.contains("run directory run"),
        "{said}"
    );
}

#[test]
fn an_agent_that_was_named_and_does_not_answer_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let _shop = Victim::start("victim", dir.path(), "shop");
    let found = snapshot(dir.path(), &["--socket", "nobody.sock"]);
    assert!(
        found["troubles"][0]
            .as_str()
            .expect("a text")
            .contains("nobody.sock"),
        "{found}"
    );
}

#[test]
fn a_command_under_run_is_seen_through_its_private_agent() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = std::env::current_exe().expect("this program has a path");
    let child = logdrive(dir.path())
        .env(VICTIM_DIR, dir.path())
        .env("LOGDRIVE_CLI_TEST_APP", "inside")
        .args(["run", "--run-dir", "run", "--name", "outside", "--"])
        .arg(program)
        .args(["--exact", "victim", "--nocapture"])
        .stdout(Stdio::null())
        .spawn();
    let mut child = Process::from(child.expect("it runs"));
    let inside = wait_for("the process", || {
        std::fs::create_dir_all(dir.path().join("run")).expect("a directory");
        let process = snapshot(dir.path(), &["inside"])["processes"][0].clone();
        (process["records"] == RECORDS + 1).then_some(process)
    });
    assert_eq!(
        (&inside["via"], &inside["state"]),
        (&"agent".into(), &"alive".into())
    );
    // The command ends with the one around it: this ends both.
    let pid = inside["pid"].to_string();
    assert!(
        Command::new("kill")
            .arg(&pid)
            .status()
            .expect("kill runs")
            .success()
    );
    child.wait();
}

/// The screen, in a terminal that `logdrive run --pty` makes.
struct Screen {
    child: Process,
    keys: Option<ChildStdin>,
    shown: Arc<Mutex<String>>,
}

impl Screen {
    fn start(dir: &Path) -> Self {
        let mut child = logdrive(dir)
            .env("TERM", "xterm-256color")
            .args(["run", "--pty", "--tee", "--no-agent", "--run-dir", "outer", "--"])
            .arg(env!("CARGO_BIN_EXE_logdrive"))
            .args(SNAPSHOT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut out, sink) = (child.stdout.take().expect("a pipe"), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                sink.lock().expect("no panic").push_str(&text(&bytes[..count]));
            }
        });
        let keys = child.stdin.take();
        Self {
            child: child.into(),
            keys,
            shown,
        }
    }

    fn shown(&self) -> String {
        self.shown.lock().expect("no panic").clone()
    }

    fn wait_for(&self, what: &str) {
        wait_until(what, || self.shown().contains(what));
    }

    fn press(&mut self, keys: &str) {
        self.keys
            .as_mut()
            .expect("a pipe")
            .write_all(keys.as_bytes())
            .expect("it reads");
    }

    /// Waits for the end; what was shown, and the status.
    fn ended(mut self) -> (String, i32) {
        let status = self.child.wait();
        self.wait_for(LEFT);
        (self.shown(), status.code().unwrap_or(-1))
    }
}

/// The sequences that enter and leave the alternate screen, and show the cursor.
const ENTERED: &str = "\x1b[?1049h";
const LEFT: &str = "\x1b[?1049l";
const CURSOR: &str = "\x1b[?25h";

/// The rules of the shop.
fn rules(dir: &Path) -> Vec<Value> {
    let line = stdout(dir, &["level", "shop", "--json", "--run-dir", "run"]);
    let line: Value = serde_json::from_str(&line).expect("JSON");
    line["rules"].as_array().expect("a list").clone()
}

fn wait_for_rules(dir: &Path, is_so: impl Fn(&[Value]) -> bool) {
    wait_until("the rules", || is_so(&rules(dir)));
}

#[test]
fn keys_change_what_a_program_logs_and_the_terminal_is_given_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let _shop = Victim::start("victim", dir.path(), "shop");
    let mut screen = Screen::start(dir.path());
    screen.wait_for("WARN");
    screen.press("\tm");
    wait_for_rules(dir.path(), |rules| {
        rules.len() == 1 && rules[0]["rule"].to_string().contains("mute")
    });
    screen.press("x");
    wait_for_rules(dir.path(), <[Value]>::is_empty);
    screen.press("\tlw");
    wait_for_rules(dir.path(), |rules| {
        rules.len() == 1 && rules[0]["rule"].to_string().contains("warn")
    });
    screen.press("q");
    let (shown, status) = screen.ended();
    assert_eq!(status, 0, "{shown:?}");
    assert!(shown.starts_with(ENTERED) || shown.contains(ENTERED), "{shown:?}");
    assert!(shown.rfind(CURSOR) > shown.rfind("\x1b[?25l"), "{shown:?}");
}

#[test]
fn a_signal_ends_it_with_the_terminal_given_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let _shop = Victim::start("victim", dir.path(), "shop");
    let screen = Screen::start(dir.path());
    screen.wait_for("WARN");
    // It goes on to the command.
    screen.child.signal(rustix::process::Signal::TERM);
    let (shown, status) = screen.ended();
    assert_eq!(status, 0, "{shown:?}");
    assert!(shown.trim_end().ends_with(CURSOR), "{shown:?}");
}
