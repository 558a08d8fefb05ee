//! `logdrive run` with real commands: what they print, how they end, signals, terminals, and a kill of ourselves.

mod support;

use logdrive_testkit::wait_until;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{logdrive, text};

/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// `logdrive run` with its session in the directory, and the paths that commands are looked for in.
fn command(dir: &Path, options: &[&str], run: &[&str]) -> Command {
    let mut command = logdrive(dir);
    command
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .args(["run", "--run-dir", "run"])
        .args(options)
        .arg("--")
        .args(run);
    command
}

/// The same where the parent of the tests has signals ignored, as shells do for what runs in their background.
fn heeding(command: &Command) -> Command {
    let mut heeding = Command::new("env");
    heeding
        .arg("--default-signal=HUP,INT,TERM,USR1")
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .env_clear()
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    if let Some(dir) = command.get_current_dir() {
        heeding.current_dir(dir);
    }
    heeding
}

fn run(dir: &Path, options: &[&str], words: &[&str]) -> Output {
    command(dir, options, words).output().expect("the command runs")
}

/// Runs a script that has to end well and silently; its log.
fn log_of(options: &[&str], script: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let output = run(dir.path(), options, &["sh", "-c", script]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!((text(&output.stdout), text(&output.stderr)), Default::default());
    read(&dir.path().join("sh.log"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("there is a log")
}

/// The level, the output and the rest of each line of a log in text without the lines about the command itself.
fn lines(log: &str) -> Vec<(String, String, String)> {
    let split = |line: &str| {
        let mut words = line.splitn(5, ' ').map(str::to_owned);
        let mut next = || words.next().unwrap_or_default();
        let (_time, level) = (next(), next());
        // Levels of four letters have a blank more behind them.
        let rest = match level.len() {
            4 => line.split_once("  ").map(|(_, rest)| rest),
            _ => line
                .split_once(' ')
                .and_then(|(_, rest)| rest.split_once(' '))
                .map(|(_, rest)| rest),
        };
        let (_name, rest) = rest.unwrap_or_default().split_once(' ').unwrap_or_default();
        let (output, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        (level, output.to_owned(), rest.to_owned())
    };
    log.lines()
        .map(split)
        .filter(|(_, output, _)| output != "run")
        .collect()
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(status.success());
}

#[test]
fn both_outputs_become_records_with_their_levels() {
    let log = log_of(
        &[],
        "echo hello; echo 'WARN: low' >&2; echo; printf 'a\\r\\n'; echo '2026-11-21 12:34:56 ERROR x'",
    );
    let mut found = lines(&log);
    // The two outputs race.
    found.sort_by_key(|(_, output, _)| output.clone());
    let expected = [
        ("WARN", "stderr", "low"),
        ("INFO", "stdout", "hello"),
        ("INFO", "stdout", ""),
        ("INFO", "stdout", "a"),
        ("ERROR", "stdout", "x time=2026-11-21T12:34:56.000000000Z"),
    ];
    let found: Vec<(&str, &str, &str)> = found
        .iter()
        .map(|(level, output, rest)| (level.as_str(), output.as_str(), rest.as_str()))
        .collect();
    assert_eq!(found, expected, "{log}");
    assert!(log.contains(" INFO  sh run started as process "), "{log}");
    assert!(log.trim_end().ends_with(" INFO  sh run exited with 0"), "{log}");
}

/// A trace is one record of its stream, whatever the other one says meanwhile.
#[test]
fn stack_traces_are_one_record_each() {
    let script = concat!(
        "echo start; echo 'Exception in thread \"main\" java.lang.IllegalStateException: no order'; ",
        "printf '\\tat shop.Orders.read(Orders.java:7)\\n\\t... 2 more\\n'; echo between; ",
        "printf 'Traceback (most recent call last):\\n  File \"a.py\", line 1, in <module>\\n' >&2; echo again; ",
        "printf '    1/0\\nZeroDivisionError: division by zero\\n' >&2; printf '10%%\\r50%%\\r100%%\\n'; ",
        "echo 'level=warn msg=\"queue is long\" percent=81'",
    );
    let mut found = lines(&log_of(&[], script));
    found.sort_by_key(|(_, output, _)| output.clone());
    let found: Vec<(&str, &str, &str)> = found
        .iter()
        .map(|(level, output, rest)| (level.as_str(), output.as_str(), rest.as_str()))
        .collect();
    let expected = [
        (
            "ERROR",
            "stderr",
            r#"Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    1/0\nZeroDivisionError: division by zero"#,
        ),
        ("INFO", "stdout", "start"),
        (
            "ERROR",
            "stdout",
            r#"Exception in thread "main" java.lang.IllegalStateException: no order\n\tat shop.Orders.read(Orders.java:7)\n\t... 2 more"#,
        ),
        ("INFO", "stdout", "between"),
        ("INFO", "stdout", "again"),
        ("INFO", "stdout", "100%"),
        ("WARN", "stdout", "queue is long percent=81"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn lines_of_json_become_fields_unless_told_otherwise() {
    let script = r#"echo '{"level":"error","msg":"slow","took_ms":2.5,"id":7,"at":{"x":[1]}}'"#;
    let log = log_of(&[], script);
    assert!(
        log.contains(r#" ERROR sh stdout slow took_ms=2.5 id=7 at="{\"x\":[1]}""#),
        "{log}"
    );
    let log = log_of(&["--format", "json"], script);
    let value = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .find(|value| value["target"] == "stdout")
        .expect("a record");
    assert_eq!(
        (value["level"].as_str(), value["message"].as_str()),
        (Some("ERROR"), Some("slow"))
    );
    assert_eq!(
        (value["took_ms"].as_f64(), value["id"].as_u64()),
        (Some(2.5), Some(7))
    );
    let log = log_of(&["--no-parse"], script);
    assert!(
        log.contains(r#" INFO  sh stdout {"level":"error","msg":"slow""#),
        "{log}"
    );
}

#[test]
fn levels_are_filtered_and_standard_error_has_its_own() {
    let log = log_of(
        &["--level", "warn", "--stderr-level", "error"],
        "echo info; echo plain >&2; echo 'DEBUG x' >&2; echo 'warning: y'",
    );
    let mut found: Vec<String> = lines(&log).into_iter().map(|(_, _, rest)| rest).collect();
    found.sort();
    assert_eq!(found, ["plain", "warning: y"], "{log}");
}

#[test]
fn a_line_of_a_megabyte_goes_in_parts_and_loses_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = "head -c 1048576 /dev/zero | tr '\\0' x; echo; echo next";
    let output = run(dir.path(), &["--format", "json"], &["sh", "-c", script]);
    assert!(output.status.success());
    let mut joined = String::new();
    let mut parts = Vec::new();
    for line in read(&dir.path().join("sh.log")).lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if value["target"] == "stdout" && value["message"] != "next" {
            joined.push_str(value["message"].as_str().expect("text"));
            parts.push((value["part"].as_u64().expect("a number"), value["last"].as_bool()));
        }
    }
    assert!(joined.len() == 1 << 20 && joined.bytes().all(|byte| byte == b'x'));
    let count = parts.len() as u64;
    let expected: Vec<(u64, Option<bool>)> = (1..=count)
        .map(|part| (part, (part == count).then_some(true)))
        .collect();
    assert_eq!(parts, expected);
    assert_eq!(count, 17);
}

#[test]
fn bytes_that_are_no_text_come_back_out_of_the_log() {
    let bytes: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').collect();
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("bytes"), &bytes).expect("a file");
    let output = run(
        dir.path(),
        &["--no-parse", "--keep-ansi"],
        &["sh", "-c", "cat bytes; echo"],
    );
    assert!(output.status.success());
    let log = read(&dir.path().join("sh.log"));
    let (_, shown) = log.split_once(" sh stdout ").expect("the line");
    let shown = shown.lines().next().expect("the line");
    assert_eq!(logdrive_drain::layout::unescape(shown.as_bytes()), bytes);
}

#[test]
fn colours_go_unless_they_are_to_stay() {
    let script = "printf '\\033[31mERROR\\033[0m: \\033[1mx\\033[m\\n'";
    let log = log_of(&[], script);
    assert!(log.contains(" ERROR sh stdout x\n"), "{log}");
    let log = log_of(&["--keep-ansi"], script);
    assert!(
        log.contains(r" ERROR sh stdout \x1b[31mERROR\x1b[0m: \x1b[1mx\x1b[m"),
        "{log}"
    );
}

#[test]
fn a_line_that_has_not_ended_is_marked_and_joined() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = command(
        dir.path(),
        &[],
        &["sh", "-c", "printf 'Name: '; read name; echo $name; printf end"],
    )
    .stdin(Stdio::piped())
    .spawn()
    .expect("it starts");
    let log = dir.path().join("sh.log");
    wait_until("the prompt", || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains(" sh stdout Name:  partial=true\n"))
    });
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"Bob\n").expect("it is read");
    assert!(child.wait().expect("it ends").success());
    let log = read(&log);
    assert!(log.contains(" sh stdout Bob part=2 last=true\n"), "{log}");
    assert!(log.contains(" sh stdout end partial=true\n"), "{log}");
}

#[test]
fn tee_copies_every_byte() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = "head -c 300000 /dev/urandom | tee bytes; echo 'on stderr' >&2; printf '\\033[1mno end'";
    let output = run(dir.path(), &["--tee"], &["sh", "-c", script]);
    let mut expected = fs::read(dir.path().join("bytes")).expect("the bytes");
    expected.extend(b"\x1b[1mno end");
    assert!(output.stdout == expected, "{} bytes", output.stdout.len());
    assert_eq!(text(&output.stderr), "on stderr\n");
}

#[test]
fn a_reader_that_goes_ends_the_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = command(dir.path(), &["--tee"], &["yes"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut first = [0; 4];
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut first).expect("some lines");
    drop(stdout);
    let status = child.wait().expect("it ends");
    assert_eq!(&first, b"y\ny\n");
    assert_eq!(status.code(), Some(128 + 13));
    let log = read(&dir.path().join("yes.log"));
    assert!(log.contains(" yes run killed by SIGPIPE\n"), "{}", log.len());
}

#[test]
fn much_output_is_kept_to_the_last_line() {
    let log = log_of(
        &["--format", "plain"],
        "yes 'a line of some length' | head -n 300000",
    );
    assert_eq!(log.lines().count(), 300_000);
    assert!(log.lines().all(|line| line == "a line of some length"));
}

#[test]
fn standard_error_alone_leaves_standard_output_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = run(
        dir.path(),
        &["--stderr-only"],
        &["sh", "-c", "echo data; echo message >&2"],
    );
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        ("data\n".into(), String::new())
    );
    let log = read(&dir.path().join("sh.log"));
    assert!(
        log.contains(" sh stderr message\n") && !log.contains("data"),
        "{log}"
    );
}

#[test]
fn the_status_of_the_command_is_ours() {
    let dir = tempfile::tempdir().expect("a directory");
    for status in [0, 1, 3, 126, 255] {
        let output = run(dir.path(), &[], &["sh", "-c", &format!("exit {status}")]);
        assert_eq!(output.status.code(), Some(status));
    }
    let log = read(&dir.path().join("sh.log"));
    assert!(log.contains(" WARN  sh run exited with 3\n"), "{log}");
}

#[test]
fn the_signal_that_ends_the_command_ends_us() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, number) in [("KILL", 9), ("TERM", 15), ("ABRT", 6), ("SEGV", 11)] {
        let output = run(dir.path(), &[], &["sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!(output.status.signal(), Some(number), "{name}");
        let log = read(&dir.path().join("sh.log"));
        assert!(
            log.contains(&format!(" ERROR sh run killed by SIG{name}\n")),
            "{log}"
        );
    }
    assert!(
        fs::read_dir(dir.path().join("run"))
            .expect("a directory")
            .next()
            .is_none()
    );
}

#[test]
fn the_command_finds_signals_as_we_did() {
    let log = log_of(&[], "grep SigBlk /proc/self/status");
    let ours = fs::read_to_string("/proc/self/status").expect("it is there");
    let ours = ours
        .lines()
        .find(|line| line.starts_with("SigBlk:"))
        .expect("it is there");
    assert!(log.contains(&ours.replace('\t', "\\t")), "{log} {ours}");
}

#[test]
fn signals_go_on_to_the_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = "trap 'echo got USR1; n=1' USR1; trap 'echo got HUP' HUP; trap 'echo got INT' INT;
        trap 'echo got TERM; exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let mut child = heeding(&command(dir.path(), &[], &["sh", "-c", script]))
        .spawn()
        .expect("it starts");
    let path = dir.path().join("sh.log");
    let has = |what: &str| fs::read_to_string(&path).is_ok_and(|log| log.contains(what));
    wait_until("the begin", || has(" stdout ready\n"));
    for name in ["USR1", "HUP", "INT", "TERM"] {
        signal(&child, name);
        wait_until(name, || has(&format!(" stdout got {name}\n")));
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(7));
    let log = read(&path);
    for name in ["USR1", "HUP", "INT", "TERM"] {
        assert_eq!(log.matches(&format!("got {name}\n")).count(), 1, "{log}");
    }
}

#[test]
fn what_is_left_behind_is_not_waited_for_without_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let started = Instant::now();
    let output = run(
        dir.path(),
        &["--wait-output", "50ms"],
        &["sh", "-c", "sleep 600 & echo $!"],
    );
    assert!(output.status.success() && started.elapsed() < DEADLINE);
    let log = read(&dir.path().join("sh.log"));
    assert!(log.contains("stdout is held open by other processes"), "{log}");
    let pid = lines(&log).pop().expect("a line").2;
    let killed = Command::new("kill").arg(pid).status().expect("kill runs");
    assert!(killed.success());
}

#[test]
fn a_second_interrupt_ends_the_wait_for_what_is_left_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = heeding(&command(
        dir.path(),
        &["--wait-output", "1h"],
        &["sh", "-c", "sleep 600 & echo $!"],
    ))
    .spawn()
    .expect("it starts");
    let path = dir.path().join("sh.log");
    wait_until("the line", || {
        fs::read_to_string(&path).is_ok_and(|log| lines(&log).len() == 1)
    });
    let ends = Instant::now();
    loop {
        signal(&child, "INT");
        if let Some(status) = child.try_wait().expect("it can be asked") {
            // Before its end was seen, the command got the first of them.
            assert!(status.success() || status.signal() == Some(2), "{status}");
            break;
        }
        assert!(ends.elapsed() < DEADLINE);
    }
    let pid = lines(&read(&path)).remove(0).2;
    let _ = Command::new("kill").arg(pid).status().expect("kill runs");
}

#[test]
fn commands_that_cannot_be_run_are_told_as_shells_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let failed = |words: &[&str], status: i32, expected: &str| {
        let output = run(dir.path(), &[], words);
        assert_eq!(output.status.code(), Some(status), "{words:?}");
        let error = text(&output.stderr);
        assert!(
            error.starts_with("error: ") && error.contains(expected),
            "{error}"
        );
    };
    failed(&["no-such-command"], 127, "check the spelling");
    failed(&["./no-such-command"], 127, "there is no such file");
    assert_eq!(
        fs::read_dir(dir.path()).expect("a directory").count(),
        0,
        "no log for a typing error"
    );
    fs::write(dir.path().join("here"), "").expect("a file");
    failed(&["here"], 127, "./here is in this directory");
    failed(&["./here"], 126, "chmod +x");
    let binary = dir.path().join("binary");
    fs::write(&binary, [0x7f, 0, 1, 2]).expect("a file");
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).expect("it is ours");
    failed(&["./binary"], 126, "no program of this system");
    let output = run(dir.path(), &["-o", "/proc/x.log"], &["true"]);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
}

#[test]
fn a_terminal_is_one_to_the_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = "tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo all; echo err >&2; exit 5";
    let output = run(dir.path(), &["--pty"], &["sh", "-c", script]);
    assert_eq!(output.status.code(), Some(5));
    let found = lines(&read(&dir.path().join("sh.log")));
    let rest: Vec<&str> = found.iter().map(|(_, _, rest)| rest.as_str()).collect();
    assert!(rest[0].starts_with("/dev/pts/"), "{rest:?}");
    assert_eq!(rest[1..], ["24 80", "all", "err"]);
    assert!(found.iter().all(|(_, output, _)| output == "tty"));
}

#[test]
fn a_terminal_passes_input_on_and_ends_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = command(dir.path(), &["--pty", "--tee"], &["cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"one\ntwo\nno end").expect("it is read");
    drop(stdin);
    let mut copied = String::new();
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_to_string(&mut copied).expect("text");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(copied, "one\ntwo\nno end");
    let found: Vec<String> = lines(&read(&dir.path().join("cat.log")))
        .into_iter()
        .map(|(_, _, rest)| rest)
        .collect();
    assert_eq!(found, ["one", "two", "no end partial=true"]);
}

#[test]
fn a_kill_of_ourselves_loses_no_committed_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let script =
        "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done; echo ready > ready; read line";
    let mut child = command(dir.path(), &[], &["sh", "-c", script])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    wait_until("the last line", || {
        let sessions = support::run(dir.path(), &["ps", "--json", "--run-dir", "run"]);
        let committed = text(&sessions.stdout)
            .lines()
            .find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()?["committed"].as_u64());
        // The command's start is a record, too.
        committed == Some(1_001)
    });
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    let recovered = support::run(dir.path(), &["recover", "--all", "--run-dir", "run"]);
    assert!(recovered.status.success(), "{}", text(&recovered.stderr));
    let log = read(&dir.path().join("sh.log"));
    let found: Vec<String> = lines(&log)
        .into_iter()
        .filter(|(_, output, _)| output == "stdout")
        .map(|(_, _, rest)| rest)
        .collect();
    let expected: Vec<String> = (0..1000).map(|number| format!("line {number}")).collect();
    assert_eq!(found, expected);
    assert!(log.contains("ended without a word"), "{log}");
}

#[test]
fn a_full_ring_may_drop_and_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = "yes 'a line that is quite a bit longer than the others' | head -n 200000";
    let output = run(dir.path(), &["--full", "drop"], &["sh", "-c", script]);
    assert!(output.status.success());
    let log = read(&dir.path().join("sh.log"));
    let kept = lines(&log)
        .iter()
        .filter(|(_, output, _)| output == "stdout")
        .count();
    let dropped: usize = log
        .lines()
        .filter_map(|line| {
            let (before, _) = line.split_once(" records dropped: ")?;
            before.rsplit(' ').next()?.parse::<usize>().ok()
        })
        .sum();
    assert_eq!(kept + dropped, 200_000);
    assert_eq!(dropped > 0, text(&output.stderr).contains("lines were left out"));
}

#[test]
fn help_tells_what_the_statuses_mean() {
    let help = support::stdout(Path::new("."), &["run", "--help"]);
    let mut lines = BufReader::new(help.as_bytes()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("Exit status: ")));
    let output = support::run(Path::new("."), &["run"]);
    assert_eq!(output.status.code(), Some(2));
    let output = support::run(Path::new("."), &["run", "--rotate-size", "64", "--", "true"]);
    assert!(
        text(&output.stderr).contains("has no unit"),
        "{}",
        text(&output.stderr)
    );
}
