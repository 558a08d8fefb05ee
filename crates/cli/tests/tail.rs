//! `tail` on real programs that log while they are followed.

mod support;

use logdrive_testkit::{Process, report, this_test};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use support::{VICTIM_DIR, logdrive, run, text};

/// Timeout of a test for anything that it waits for.
const DEADLINE: Duration = Duration::from_secs(30);

const APP: &str = "LOGDRIVE_CLI_TEST_APP";

/// Does nothing, unless it was started by [`start`]: then this is a program that logs on command.
#[test]
fn program() {
    let Some(dir) = std::env::var_os(VICTIM_DIR) else {
        assert!(DEADLINE > Duration::ZERO);
        return;
    };
    let app = std::env::var(APP).expect("the app's name is given");
    let builder = logdrive::builder(&app)
        .run_dir(Path::new(&dir).join("run"))
        .flush_every(Duration::from_millis(10));
    let builder = match app.as_str() {
        "console" => builder.discard(),
        _ => builder.file(logdrive::File::new(
            Path::new(&dir).join(format!("logs/{app}.log")),
        )),
    };
    let guard = builder.init().expect("logging starts");
    report("ready");
    for command in std::io::stdin().lines().map_while(Result::ok) {
        match command.split_once(' ') {
            Some(("log", id)) => logdrive::info!(id = id.parse::<u64>().unwrap_or(0), "order filled"),
            Some(("warn", id)) => logdrive::warn!(id = id.parse::<u64>().unwrap_or(0), "order late"),
            _ => break,
        }
        println!("done");
    }
    drop(guard);
}

/// Starts a program that logs on demand.
fn start(dir: &Path, app: &str) -> Process {
    let mut command = this_test("program");
    command.env(VICTIM_DIR, dir).env(APP, app).current_dir(dir);
    let mut process = Process::spawn(&mut command);
    process.expect("ready");
    process
}

/// The command while it follows.
struct Tail {
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

fn lines_of(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Tail {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut child = logdrive(dir)
            .args(["tail", "--run-dir", "run"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        Self {
            lines: lines_of(child.stdout.take().expect("a pipe")),
            errors: lines_of(child.stderr.take().expect("a pipe")),
            child,
        }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("a line comes")
    }

    fn next_error(&self) -> String {
        self.errors.recv_timeout(DEADLINE).expect("a line comes")
    }

    fn interrupt(mut self) -> (Option<i32>, Vec<String>) {
        let killed = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status();
        assert!(killed.expect("there is a kill").success());
        let status = self.child.wait().expect("it ends");
        (status.code(), self.lines.iter().collect())
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // It has ended where all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("run")).expect("a directory");
    std::fs::set_permissions(
        dir.path().join("run"),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .expect("it is ours");
    dir
}

#[test]
fn what_was_logged_before_comes_first_and_nothing_comes_twice() {
    let dir = directory();
    let mut shop = start(dir.path(), "shop");
    for id in 0..20 {
        shop.ask(&format!("log {id}"), "done");
    }
    let tail = Tail::start(dir.path(), &["shop", "-n", "5"]);
    for id in 15..20 {
        let line = tail.next();
        assert!(line.ends_with(&format!("order filled id={id}")), "{line}");
    }
    for id in 20..40 {
        shop.ask(&format!("log {id}"), "done");
    }
    for id in 20..40 {
        let line = tail.next();
        assert!(line.ends_with(&format!("order filled id={id}")), "{line}");
        assert!(!line.contains("shop["), "one process needs no name: {line}");
    }
    let (code, rest) = tail.interrupt();
    assert_eq!((code, rest), (Some(0), Vec::new()));
}

#[test]
fn a_process_is_known_in_its_own_file_too() {
    let dir = directory();
    let mut shop = start(dir.path(), "shop");
    shop.ask("log 1", "done");
    let pid = format!("pid={}", shop.pid());
    for (condition, expected) in [("app=shop", 1), (&pid, 1), ("app=bank", 0), ("app!=shop", 0)] {
        let args = ["tail", "shop", "--run-dir", "run", "--no-follow", "-f", condition];
        let printed = support::stdout(dir.path(), &args);
        assert_eq!(printed.matches("order filled").count(), expected, "{condition}");
    }
}

#[test]
fn processes_are_merged_named_and_found_while_they_come_and_go() {
    let dir = directory();
    let mut first = start(dir.path(), "shop");
    first.ask("log 1", "done");
    let tail = Tail::start(dir.path(), &["shop", "-n", "0"]);
    // The command has begun when it shows something.
    let began = Instant::now();
    let mut id = 100;
    while tail.lines.try_recv().is_err() {
        assert!(began.elapsed() < DEADLINE);
        first.ask(&format!("log {id}"), "done");
        id += 1;
    }
    let mut second = start(dir.path(), "shop");
    second.ask("log 7", "done");
    let said = tail.next_error();
    assert_eq!(said, format!("shop (process {}) logs", second.pid()));
    let named = format!("shop[{}]/", second.pid());
    let line = std::iter::repeat_with(|| tail.next())
        .find(|line| line.contains(&named))
        .expect("it comes");
    assert!(line.ends_with("order filled id=7"), "{line}");
    first.ask("warn 8", "done");
    let line = tail.next();
    assert!(line.contains(&format!("shop[{}]/", first.pid())), "{line}");
    assert!(
        line.contains(" WARN ") && line.ends_with("order late id=8"),
        "{line}"
    );
    let pid = second.pid().to_string();
    second.end();
    assert_eq!(tail.next_error(), format!("shop (process {pid}) has ended"));
    assert_eq!(tail.interrupt().0, Some(0));
}

#[test]
fn a_process_that_is_named_by_its_number_ends_the_command_when_it_ends() {
    let dir = directory();
    let mut program = start(dir.path(), "console");
    program.ask("log 1", "done");
    program.ask("warn 2", "done");
    let pid = program.pid().to_string();
    let mut tail = Tail::start(dir.path(), &[&pid, "--level", "warn", "--format", "json"]);
    // No file has it, so it comes from memory.
    let line: serde_json::Value = serde_json::from_str(&tail.next()).expect("it is JSON");
    assert_eq!(
        (&line["id"], &line["level"]),
        (&2.into(), &"WARN".into()),
        "{line}"
    );
    program.ask("log 3", "done");
    program.ask("warn 4", "done");
    program.end();
    let line: serde_json::Value = serde_json::from_str(&tail.next()).expect("it is JSON");
    assert_eq!(line["id"], 4);
    assert_eq!(tail.next_error(), format!("console (process {pid}) has ended"));
    assert_eq!(tail.child.wait().expect("it ends").code(), Some(0));
    assert_eq!(tail.lines.iter().count(), 0);
}

#[test]
fn filters_are_those_of_cat() {
    let dir = directory();
    let mut shop = start(dir.path(), "shop");
    for id in 0..30 {
        shop.ask(&format!("log {id}"), "done");
    }
    for (args, expected) in [
        (&["-f", "id>=28"][..], &[28, 29][..]),
        (&["-g", "id=7", "-n", "1"], &[7]),
        (&["-m", "nobody"], &[]),
        (&["--since", "1h", "-f", "id<2"], &[0, 1]),
        (&["-n", "2", "--format", "json"], &[28, 29]),
    ] {
        let all = [&["tail", "shop", "--run-dir", "run", "--no-follow"], args].concat();
        let output = run(dir.path(), &all);
        assert_eq!(output.status.code(), Some(0), "{args:?} {}", text(&output.stderr));
        let ids: Vec<u64> = text(&output.stdout)
            .lines()
            .filter_map(|line| line.rsplit(['=', ':']).next()?.trim_end_matches('}').parse().ok())
            .collect();
        assert_eq!(ids, expected, "{args:?}: {}", text(&output.stdout));
    }
}

#[test]
fn a_look_at_the_end_has_as_many_records_as_were_asked_for_however_much_is_logged_meanwhile() {
    let dir = directory();
    let mut shop = start(dir.path(), "shop");
    for id in 0..5 {
        shop.ask(&format!("log {id}"), "done");
    }
    let over = AtomicBool::new(false);
    let outputs = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed: a word to stop.
            for id in (5..).take_while(|_| !over.load(Ordering::Relaxed)) {
                shop.ask(&format!("log {id}"), "done");
            }
        });
        let args = ["tail", "shop", "--run-dir", "run", "--no-follow", "-n", "3"];
        let outputs: Vec<_> = (0..3).map(|_| run(dir.path(), &args)).collect();
        over.store(true, Ordering::Relaxed);
        outputs
    });
    for output in outputs {
        let lines = text(&output.stdout);
        assert_eq!(lines.lines().count(), 3, "{lines}{}", text(&output.stderr));
    }
}

#[test]
fn nobody_to_follow_is_an_error_that_helps() {
    let dir = directory();
    let output = run(dir.path(), &["tail", "--run-dir", "run"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("--wait waits for one"),
        "{}",
        text(&output.stderr)
    );
    let _shop = start(dir.path(), "shop");
    let output = run(dir.path(), &["tail", "shpo", "--run-dir", "run"]);
    assert_eq!(
        text(&output.stderr),
        "error: there is no session of shpo; did you mean shop?\n"
    );
}

#[test]
fn numbers_are_told_to_prometheus() {
    let dir = directory();
    let mut console = start(dir.path(), "console");
    console.ask("log 1", "done");
    let text = support::stdout(dir.path(), &["stats", "--prometheus", "--run-dir", "run"]);
    let whose = format!("app=\"console\",pid=\"{}\"", console.pid());
    for expected in [
        format!("logdrive_up{{{whose}}} 1"),
        format!("logdrive_records_committed_total{{{whose}}} 1"),
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
    }
}
