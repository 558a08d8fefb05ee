//! `logdrive run` with commands that log with Logdrive themselves: what they print and what they log is one log.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{logdrive, text};

/// Set for the program that logs: what it does at its end.
const END: &str = "LOGDRIVE_RUN_TEST_END";
/// Number of records that it logs in each of two threads.
const RECORDS: u64 = 5_000;

/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Does nothing, unless a test started it: then this is a program that logs and prints.
#[test]
fn program() {
    let Ok(end) = std::env::var(END) else {
        return assert_eq!(RECORDS % 2, 0);
    };
    let guard = logdrive::builder("shop")
        .run_dir("own")
        .file(logdrive::File::new("alone.log"))
        .full(logdrive::Full::Block)
        .init()
        .expect("logging starts");
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            scope.spawn(move || {
                for number in 0..RECORDS {
                    logdrive::info!("order {thread}/{number} filled");
                }
            });
        }
    });
    // Behind what the test harness has begun to print.
    println!("\nPRINTED by the program");
    match end.as_str() {
        "kill" => drop(
            Command::new("kill")
                .args(["-KILL", &std::process::id().to_string()])
                .status(),
        ),
        "stay" => {
            // Until the test lets go of what this reads.
            drop(std::io::stdin().read_to_end(&mut Vec::new()));
        }
        _ => {}
    }
    drop(guard);
    // Before the test harness says something more.
    std::process::exit(0);
}

/// The words that start this test binary as the program.
fn program_words() -> Vec<String> {
    let program = std::env::current_exe().expect("this program has a path");
    let program = program.to_string_lossy().into_owned();
    let words = ["program", "--exact", "--nocapture", "--test-threads=1"];
    std::iter::once(program).chain(words.map(str::to_owned)).collect()
}

/// `logdrive run` in a directory, around words.
fn command(dir: &Path, options: &[&str], end: &str, words: &[String]) -> Command {
    let mut command = logdrive(dir);
    command
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env(END, end)
        .args(["run", "--run-dir", "run", "--name", "both"])
        .args(options)
        .arg("--")
        .args(words);
    command
}

fn run(dir: &Path, options: &[&str], end: &str) -> Output {
    command(dir, options, end, &program_words())
        .output()
        .expect("it runs")
}

/// Each of the program's records is in a log once, those of a thread in their order. Between threads a line may stand
/// late where the system stopped its thread inside of the call.
fn check_records(log: &str) {
    let mut next = [0; 2];
    for line in log.lines() {
        let Some((_, order)) = line.split_once(" order ") else {
            continue;
        };
        let (thread, rest) = order.split_once('/').expect("a number");
        let number: u64 = rest
            .strip_suffix(" filled")
            .expect("the whole line")
            .parse()
            .expect("a number");
        let next = &mut next[thread.parse::<usize>().expect("a number")];
        assert_eq!(number, *next, "{line}");
        *next += 1;
    }
    assert_eq!(next, [RECORDS; 2]);
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn what_a_command_logs_and_what_it_prints_is_one_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = run(dir.path(), &[], "return");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    let log = read(&dir.path().join("both.log"));
    check_records(&log);
    assert!(log.contains(" both stdout PRINTED by the program\n"), "{log}");
    assert!(log.trim_end().ends_with(" both run exited with 0"), "{log}");
    assert!(!dir.path().join("alone.log").exists());
    let left: Vec<_> = fs::read_dir(dir.path().join("run"))
        .expect("it is there")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_killed_command_is_drained_to_its_last_record_and_its_end_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = run(dir.path(), &[], "kill");
    assert_eq!(output.status.signal(), Some(9), "{}", text(&output.stderr));
    let log = read(&dir.path().join("both.log"));
    check_records(&log);
    assert!(log.contains(" of shop was ended by signal 9 (SIGKILL)"), "{log}");
    assert!(log.trim_end().ends_with(" both run killed by SIGKILL"), "{log}");
}

#[test]
fn a_command_may_be_left_to_a_log_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = run(dir.path(), &["--no-agent"], "return");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = read(&dir.path().join("both.log"));
    assert!(
        !log.contains(" order ") && log.contains("PRINTED by the program"),
        "{log}"
    );
    check_records(&read(&dir.path().join("alone.log")));
}

#[test]
fn a_level_holds_for_what_the_command_logs() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = run(dir.path(), &["--level", "warn"], "return");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = read(&dir.path().join("both.log"));
    assert!(!log.contains(" order ") && !log.contains("PRINTED"), "{log}");
}

#[test]
fn of_two_that_are_nested_each_has_its_own_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = env!("CARGO_BIN_EXE_logdrive");
    let mut words: Vec<String> = [inner, "run", "--tee", "--run-dir", "run", "--name", "inner", "--"]
        .map(str::to_owned)
        .to_vec();
    words.extend(program_words());
    let output = command(dir.path(), &[], "return", &words)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    check_records(&read(&dir.path().join("inner.log")));
    let outer = read(&dir.path().join("both.log"));
    assert!(!outer.contains(" order "), "{outer}");
    assert!(outer.contains(" both stdout PRINTED by the program\n"), "{outer}");
}

/// A command that leaves the program behind, which holds no output open.
fn leave_behind() -> Vec<String> {
    // A background job of a shell without a terminal reads nothing: descriptor 3 is what it reads until the test ends.
    let words = program_words().join(" ");
    let script =
        format!("exec 3<&0; {words} <&3 >printed 2>&1 & while ! grep -q PRINTED printed; do :; done");
    ["sh", "-c", &script].map(str::to_owned).to_vec()
}

#[test]
fn a_process_that_outlives_the_command_is_not_waited_for_without_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = command(dir.path(), &["--wait-output", "100ms"], "stay", &leave_behind())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let stdin = child.stdin.take();
    let status = wait(&mut child);
    assert!(status.success());
    let log = read(&dir.path().join("both.log"));
    check_records(&log);
    assert!(
        log.contains(" of shop goes on; what it logs from now on is not kept here"),
        "{log}"
    );
    // Now it ends, too.
    drop(stdin);
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("its status") {
            return status;
        }
        assert!(start.elapsed() < DEADLINE, "it does not end");
        std::thread::yield_now();
    }
}

#[test]
fn a_rule_holds_for_lines_of_a_kind_that_comes_later() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = "echo ready; read line; echo 'WARN: is low' >&2; echo 'ERROR: is off' >&2; echo done";
    let words = ["sh", "-c", script].map(str::to_owned);
    let mut child = command(dir.path(), &["--tee"], "", &words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("ready"));
    let told = support::run(dir.path(), &["level", "both", "stderr=error", "--run-dir", "run"]);
    assert!(told.status.success(), "{}", text(&told.stderr));
    writeln!(child.stdin.take().expect("a pipe"), "go on").expect("it reads");
    assert!(wait(&mut child).success());
    let log = read(&dir.path().join("both.log"));
    assert!(
        log.contains(" both stderr is off\n") && !log.contains("is low"),
        "{log}"
    );
    assert!(log.contains(" both stdout done\n"), "{log}");
}

#[test]
fn lines_are_sampled_and_what_is_kept_tells_of_how_many_it_is_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = r#"echo ready; read line; i=0; while [ $i -lt 1000 ]; do i=$((i+1)); echo line $i; done;
        echo '{"level":"warn","msg":"json"}'; echo '{"level":"warn","msg":"json"}' "#;
    let words = ["sh", "-c", script].map(str::to_owned);
    let mut child = command(dir.path(), &["--tee"], "", &words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("ready"));
    let args = [
        "sample",
        "both",
        "--callsite",
        "stdout",
        "--every",
        "100",
        "--run-dir",
        "run",
    ];
    let told = support::run(dir.path(), &args);
    assert!(told.status.success(), "{}", text(&told.stderr));
    writeln!(child.stdin.take().expect("a pipe"), "go on").expect("it reads");
    assert_eq!(lines.count(), 1_002);
    assert!(wait(&mut child).success());
    let log = read(&dir.path().join("both.log"));
    let kept = log.lines().filter(|line| line.contains(" stdout line ")).count();
    assert!((5..=15).contains(&kept), "{log}");
    let marked = log
        .lines()
        .filter(|line| line.ends_with(" sample_every=100"))
        .count();
    // The first line of JSON is kept, too, as the first of its kind.
    assert_eq!(marked, kept + 1, "{log}");
    assert!(
        log.contains(" WARN  both stdout json sample_every=100\n"),
        "{log}"
    );
}
