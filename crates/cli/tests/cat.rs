//! `logdrive cat` as people use it: on files, pipes and terminals' rules for colours.

mod support;

use logdrive_testkit::Random;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;
use support::{logdrive, run, stdout, text, with_stdin};

const TEXT: &str = r#"2026-11-21T12:34:56.123456789Z INFO  main shop::net net.rs:42 connected to 10.0.0.1:80 peer=7 name="a b"
2026-11-21T12:34:56.223456789Z TRACE tokio worker 3 quinn::conn conn.rs:9 conn{id=3 side="the server"}:path{n=1}: sent bytes=1200
2026-11-21T12:34:57.123456789Z ERROR main shop::orders orders.rs:7 order failed order_id=7 reason="no \"stock\""
thread 'main' panicked at src/main.rs:1:1:
  explode()
2026-11-21T12:34:58.123456789Z WARN  logdrive logdrive 12 records dropped: ring full
2026-11-21T12:34:59.123456789Z FATAL main shop main.rs:1 two\nlines
"#;

const JSON: &str = r#"{"ts":"2026-11-21T12:34:56.150000000Z","level":"DEBUG","thread":"main","module":"gate::http","file":"src/http.rs","line":12,"message":"request \"GET /\"","status":200,"took_ms":1.50,"spans":[{"name":"req","id":9}]}
{"ts":"2026-11-21T12:34:57.500000000Z","level":"WARN","thread":"main","module":"gate::http","file":"src/http.rs","line":13,"message":"slow","took_ms":250.25,"none":null}
"#;

const LOGFMT: &str = "ts=2026-11-21T12:34:56.160000000Z level=info thread=main module=db caller=pool.rs:3 msg=\"pool ready\" size=8 name=\"the pool\"\n";

const GLOG: &str = "I20261121 12:34:56.170000   417 net.cc:42] connected to 10.0.0.1 peer=7\nW20261121 12:34:58.000001   417 net.cc:43] slow\n";

/// A directory with a log of each form.
fn logs() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, content) in [
        ("a.log", TEXT),
        ("b.json", JSON),
        ("c.logfmt", LOGFMT),
        ("d.glog", GLOG),
    ] {
        fs::write(dir.path().join(name), content).expect("a file");
    }
    dir
}

const ALL: [&str; 4] = ["a.log", "b.json", "c.logfmt", "d.glog"];

fn cat(dir: &Path, more: &[&str]) -> String {
    stdout(dir, &[&["cat"], &ALL[..], more].concat())
}

fn lines<'a>(text: &'a str, numbers: &[usize]) -> String {
    let all: Vec<&'a str> = text.split_inclusive('\n').collect();
    numbers.iter().map(|number| all[*number]).collect()
}

#[test]
fn files_are_merged_by_time_and_stay_as_they_are() {
    let dir = logs();
    let expected = [
        lines(TEXT, &[0]),
        lines(JSON, &[0]),
        LOGFMT.to_owned(),
        lines(GLOG, &[0]),
        lines(TEXT, &[1, 2, 3, 4]),
        lines(JSON, &[1]),
        lines(GLOG, &[1]),
        lines(TEXT, &[5, 6]),
    ];
    assert_eq!(cat(dir.path(), &[]), expected.concat());
    assert_eq!(
        cat(dir.path(), &["--no-merge"]),
        [TEXT, JSON, LOGFMT, GLOG].concat()
    );
}

#[test]
fn filters_are_the_same_in_every_form() {
    let dir = logs();
    let text_records = |numbers: &[usize]| lines(TEXT, numbers);
    for (args, expected) in [
        (
            &["-l", "warn"][..],
            [
                text_records(&[2, 3, 4]),
                lines(JSON, &[1]),
                lines(GLOG, &[1]),
                text_records(&[5, 6]),
            ]
            .concat(),
        ),
        (&["--level=FATAL"], text_records(&[6])),
        (
            &["--since", "2026-11-21T12:34:58Z"],
            [lines(GLOG, &[1]), text_records(&[5, 6])].concat(),
        ),
        (
            &["--until", "2026-11-21T12:34:56.15Z"],
            [text_records(&[0]), lines(JSON, &[0])].concat(),
        ),
        (
            &["--since", "2026-11-21", "--until", "2026-11-21", "-l", "fatal"],
            text_records(&[6]),
        ),
        (&["--since", "2100-01-01"], String::new()),
        (
            &["-f", "peer=7"],
            [text_records(&[0]), lines(GLOG, &[0])].concat(),
        ),
        (&["-f", "took_ms>2"], lines(JSON, &[1])),
        (&["-f", "id=9"], lines(JSON, &[0])),
        (
            &["-f", "side=the server", "-f", "bytes>=1200"],
            text_records(&[1]),
        ),
        (&["-f", "reason=no \"stock\""], text_records(&[2, 3, 4])),
        (
            &["-f", "thread!=main", "-l", "warn"],
            [lines(GLOG, &[1]), text_records(&[5])].concat(),
        ),
        (&["-m", "shop", "-l", "error"], text_records(&[2, 3, 4, 6])),
        (
            &["-m", "gate::http", "-m", "db"],
            [lines(JSON, &[0]), LOGFMT.to_owned(), lines(JSON, &[1])].concat(),
        ),
        (&["-t", "tokio worker 3"], text_records(&[1])),
        (&["-g", "explode"], text_records(&[2, 3, 4])),
        (
            &["-g", "SLOW", "-i"],
            [lines(JSON, &[1]), lines(GLOG, &[1])].concat(),
        ),
        (&["-g", "slow", "-v", "gate"], lines(GLOG, &[1])),
        (&["-n", "2"], text_records(&[5, 6])),
        (
            &["-n", "1", "-l", "error", "-v", "FATAL"],
            text_records(&[2, 3, 4]),
        ),
    ] {
        assert_eq!(cat(dir.path(), args), expected, "{args:?}");
    }
}

#[test]
fn every_form_becomes_json_lines() {
    let dir = logs();
    let expected = r#"{"ts":"2026-11-21T12:34:56.123456789Z","level":"INFO","thread":"main","module":"shop::net","file":"net.rs","line":42,"message":"connected to 10.0.0.1:80","peer":7,"name":"a b"}
{"ts":"2026-11-21T12:34:56.150000000Z","level":"DEBUG","thread":"main","module":"gate::http","file":"src/http.rs","line":12,"message":"request \"GET /\"","status":200,"took_ms":1.50,"spans":[{"name":"req","id":9}]}
{"ts":"2026-11-21T12:34:56.160000000Z","level":"INFO","thread":"main","module":"db","file":"pool.rs","line":3,"message":"pool ready","size":8,"name":"the pool"}
{"ts":"2026-11-21T12:34:56.170000000Z","level":"INFO","thread":"417","file":"net.cc","line":42,"message":"connected to 10.0.0.1","peer":7}
{"ts":"2026-11-21T12:34:56.223456789Z","level":"TRACE","thread":"tokio worker 3","module":"quinn::conn","file":"conn.rs","line":9,"message":"sent","bytes":1200,"spans":[{"name":"conn","id":3,"side":"the server"},{"name":"path","n":1}]}
{"ts":"2026-11-21T12:34:57.123456789Z","level":"ERROR","thread":"main","module":"shop::orders","file":"orders.rs","line":7,"message":"order failed\nthread 'main' panicked at src/main.rs:1:1:\n  explode()","order_id":7,"reason":"no \"stock\""}
{"ts":"2026-11-21T12:34:57.500000000Z","level":"WARN","thread":"main","module":"gate::http","file":"src/http.rs","line":13,"message":"slow","took_ms":250.25,"none":null}
{"ts":"2026-11-21T12:34:58.000001000Z","level":"WARN","thread":"417","file":"net.cc","line":43,"message":"slow"}
{"ts":"2026-11-21T12:34:58.123456789Z","level":"WARN","thread":"logdrive","module":"logdrive","message":"12 records dropped: ring full"}
{"ts":"2026-11-21T12:34:59.123456789Z","level":"FATAL","thread":"main","module":"shop","file":"main.rs","line":1,"message":"two\nlines"}
"#;
    let found = cat(dir.path(), &["--json"]);
    assert_eq!(found, expected);
    for line in found.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
}

#[test]
fn processes_that_share_a_log_are_told_apart_by_filters_and_in_json() {
    let dir = logs();
    let line = |pid: u32, thread: &str| {
        format!(
            "2026-11-21T12:34:56.123456789Z INFO  shop[{pid}]/{thread} app::net net.rs:42 hello app=\"x\"\n"
        )
    };
    let (one, other) = (line(4711, "worker 3"), line(4712, "main"));
    let both = format!("{one}{other}");
    let cat = |args: &[&str]| {
        let output = with_stdin(dir.path(), &[&["cat"], args].concat(), both.as_bytes());
        text(&output.stdout)
    };
    assert_eq!(cat(&["-t", "worker 3"]), one);
    assert_eq!(cat(&["-f", "pid=4712"]), other);
    assert_eq!(cat(&["-f", "app=shop", "-f", "pid<4712"]), one);
    assert_eq!(
        cat(&["--json", "-f", "pid=4711"]),
        concat!(
            r#"{"ts":"2026-11-21T12:34:56.123456789Z","level":"INFO","app":"shop","pid":4711,"thread":"worker 3","#,
            r#""module":"app::net","file":"net.rs","line":42,"message":"hello","app_1":"x"}"#,
            "\n"
        )
    );
}

#[test]
fn every_form_becomes_pairs() {
    let dir = logs();
    let found = cat(dir.path(), &["--format", "logfmt"]);
    let expected = r#"ts=2026-11-21T12:34:56.123456789Z level=info thread=main module=shop::net file=net.rs line=42 message="connected to 10.0.0.1:80" peer=7 name="a b"
ts=2026-11-21T12:34:56.150000000Z level=debug thread=main module=gate::http file=src/http.rs line=12 message="request \"GET /\"" status=200 took_ms=1.50 id=9
ts=2026-11-21T12:34:56.160000000Z level=info thread=main module=db caller=pool.rs:3 msg="pool ready" size=8 name="the pool"
"#;
    assert_eq!(found.split_inclusive('\n').take(3).collect::<String>(), expected);
    let spans = found.lines().find(|line| line.contains("message=sent"));
    assert_eq!(spans, None, "messages stand between quotes");
    // What was made is read like what was logged.
    let made = with_stdin(
        dir.path(),
        &["cat", "-f", "order_id=7", "--json"],
        found.as_bytes(),
    );
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).expect("an object");
    assert_eq!(made["reason"], "no \"stock\"");
    assert_eq!(
        made["message"],
        "order failed\nthread 'main' panicked at src/main.rs:1:1:\n  explode()"
    );
    for same in [["--json", "--json"], ["--text", "--text"]] {
        let form = ["--format", same[0].trim_start_matches('-')];
        assert_eq!(cat(dir.path(), &form), cat(dir.path(), &same[..1]), "{same:?}");
    }
}

#[test]
fn every_form_becomes_lines_of_text() {
    let dir = logs();
    let expected = r#"2026-11-21T12:34:56.150000000Z DEBUG main gate::http http.rs:12 req{id=9}: request "GET /" status=200 took_ms=1.50
2026-11-21T12:34:56.160000000Z INFO  main db pool.rs:3 pool ready size=8 name="the pool"
2026-11-21T12:34:56.170000000Z INFO  417 net.cc:42 connected to 10.0.0.1 peer=7
2026-11-21T12:34:57.500000000Z WARN  main gate::http http.rs:13 slow took_ms=250.25
2026-11-21T12:34:58.000001000Z WARN  417 net.cc:43 slow
"#;
    let found = cat(dir.path(), &["--text"]);
    let others: String = found
        .split_inclusive('\n')
        .filter(|line| !TEXT.contains(line))
        .collect();
    assert_eq!(others, expected);
    let own: String = found
        .split_inclusive('\n')
        .filter(|line| TEXT.contains(line))
        .collect();
    assert_eq!(own, TEXT);
    // Text that was made is read like text that was logged.
    let made = with_stdin(
        dir.path(),
        &["cat", "--text", "-f", "id=9", "-m", "gate"],
        expected.as_bytes(),
    );
    assert_eq!(text(&made.stdout), lines(expected, &[0]));
}

#[test]
fn colours_show_levels_keys_and_what_was_found() {
    let dir = logs();
    let found = stdout(
        dir.path(),
        &["cat", "a.log", "-l", "error", "-g", "failed", "--color", "always"],
    );
    let first = "\x1b[2m2026-11-21T12:34:57.123456789Z\x1b[0m \x1b[31mERROR\x1b[0m main \x1b[2mshop::orders\x1b[0m \
        \x1b[2morders.rs:7\x1b[0m order \x1b[1;7mfailed\x1b[0m \x1b[36morder_id\x1b[0m\x1b[2m=\x1b[0m7 \
        \x1b[36mreason\x1b[0m\x1b[2m=\x1b[0m\"no \\\"stock\\\"\"\n";
    assert_eq!(found, format!("{first}{}", lines(TEXT, &[3, 4])));
    let json = stdout(dir.path(), &["cat", "b.json", "-n1", "--color=always"]);
    assert!(
        json.contains("\x1b[33mWARN\x1b[0m") && json.contains("\x1b[36mtook_ms\x1b[0m"),
        "{json}"
    );
    let logfmt = stdout(dir.path(), &["cat", "c.logfmt", "--color=always"]);
    assert!(
        logfmt.contains("\x1b[32minfo\x1b[0m") && logfmt.contains("\x1b[36msize\x1b[0m"),
        "{logfmt}"
    );
}

#[test]
fn colours_never_change_the_text() {
    let dir = logs();
    let plain = cat(dir.path(), &["--color", "never"]);
    let colored = cat(dir.path(), &["--color", "always"]);
    assert_ne!(colored, plain);
    // The command takes colours out of what it reads.
    let again = with_stdin(dir.path(), &["cat", "--no-merge"], colored.as_bytes());
    assert_eq!(text(&again.stdout), plain);
}

#[test]
fn colours_are_off_in_pipes_and_where_they_are_not_wanted() {
    let dir = logs();
    let colored = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = logdrive(dir.path());
        command
            .args(["cat", "a.log"])
            .args(args)
            .envs(variables.iter().copied());
        text(&command.output().expect("it runs").stdout).contains('\x1b')
    };
    assert!(!colored(&[], &[]));
    assert!(!colored(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], &[]));
    assert!(colored(&[("CLICOLOR_FORCE", "1")], &[]));
    assert!(colored(&[("NO_COLOR", "1")], &["--color", "always"]));
    assert!(!colored(&[("CLICOLOR_FORCE", "1")], &["--color", "never"]));
}

#[test]
fn what_a_terminal_would_obey_is_escaped_where_one_may_be_reached() {
    let dir = tempfile::tempdir().expect("a directory");
    let hostile = "2026-11-21T12:34:56Z INFO  t m a.rs:1 \x1b]0;title\x07 \u{202e}x\n";
    fs::write(dir.path().join("x.log"), hostile).expect("a file");
    assert_eq!(stdout(dir.path(), &["cat", "x.log"]), hostile);
    let safe = stdout(dir.path(), &["cat", "x.log", "--color", "always"]);
    assert!(safe.contains(r"\x1b]0;title\x07 \u{202e}x"), "{safe:?}");
}

#[test]
fn records_that_are_late_find_their_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let line = |second: usize| {
        format!(
            "2026-11-21T12:{:02}:{:02}Z INFO  t m a.rs:1 x n={second}\n",
            second / 60,
            second % 60
        )
    };
    let order = [0, 1, 3, 4, 2, 5, 7, 8, 9, 6];
    let log: String = order.iter().map(|second| line(*second)).collect();
    fs::write(dir.path().join("late.log"), &log).expect("a file");
    let sorted: String = (0..10).map(line).collect();
    assert_eq!(stdout(dir.path(), &["cat", "late.log"]), sorted);
    assert_eq!(stdout(dir.path(), &["cat", "late.log", "--no-merge"]), log);
}

#[test]
fn large_files_are_merged_through_many_chunks() {
    let dir = tempfile::tempdir().expect("a directory");
    let line = |n: u64| {
        let (minute, second, milli) = (n / 60_000, n / 1_000 % 60, n % 1_000);
        format!(
            "2026-11-21T12:{minute:02}:{second:02}.{milli:03}Z INFO  worker m::n a.rs:1 a record with some text in it n={n}\n"
        )
    };
    let count = 60_000;
    for part in 0..3 {
        let log: String = (0..count).filter(|n| n % 3 == part).map(line).collect();
        fs::write(dir.path().join(format!("{part}.log")), log).expect("a file");
    }
    let expected: String = (0..count).map(line).collect();
    let found = stdout(dir.path(), &["cat", "2.log", "0.log", "1.log"]);
    // Not `assert_eq`, which would print megabytes.
    assert!(
        found == expected,
        "{} bytes instead of {}",
        found.len(),
        expected.len()
    );
    let filtered = stdout(dir.path(), &["cat", "2.log", "0.log", "1.log", "-f", "n>=59998"]);
    assert_eq!(filtered, [line(59_998), line(59_999)].concat());
}

#[test]
fn lines_without_end_and_records_without_head_are_passed_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let long = "x".repeat(3 << 20);
    let log = format!(
        "before all\n2026-11-21T12:34:56Z INFO  t m a.rs:1 long {long}\n2026-11-21T12:34:57Z INFO  t m a.rs:1 end"
    );
    fs::write(dir.path().join("long.log"), &log).expect("a file");
    assert!(stdout(dir.path(), &["cat", "long.log"]) == format!("{log}\n"));
    assert_eq!(
        stdout(dir.path(), &["cat", "long.log", "-n", "1"]),
        "2026-11-21T12:34:57Z INFO  t m a.rs:1 end\n"
    );
    let filtered = stdout(dir.path(), &["cat", "long.log", "-l", "warn"]);
    assert_eq!(filtered, "");
    // Not one line end, and nothing that is text.
    let bytes: Vec<u8> = (0..3usize << 20)
        .map(|n| (n * 7 % 251) as u8)
        .filter(|byte| *byte != b'\n')
        .collect();
    fs::write(dir.path().join("bytes"), &bytes).expect("a file");
    let output = run(dir.path(), &["cat", "bytes"]);
    assert!(output.stdout.strip_suffix(b"\n") == Some(&bytes[..]));
    for args in [
        ["--json", "-n5"],
        ["--text", "-n5"],
        ["--color=always", "--no-merge"],
    ] {
        assert!(
            logdrive(dir.path())
                .args(["cat", "bytes"])
                .args(args)
                .output()
                .expect("it runs")
                .status
                .success()
        );
    }
}

#[test]
fn compressed_files_are_read_whatever_their_name() {
    let dir = logs();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(TEXT.as_bytes()).expect("memory takes it");
    let gzip = gzip.finish().expect("memory takes it");
    let zstd = zstd::stream::encode_all(JSON.as_bytes(), 1).expect("it is compressed");
    fs::write(dir.path().join("a.log.gz"), &gzip).expect("a file");
    fs::write(dir.path().join("b.unnamed"), &zstd).expect("a file");
    let compressed = stdout(
        dir.path(),
        &["cat", "a.log.gz", "b.unnamed", "c.logfmt", "d.glog"],
    );
    assert_eq!(compressed, cat(dir.path(), &[]));
    assert_eq!(text(&with_stdin(dir.path(), &["cat"], &zstd).stdout), JSON);
    assert_eq!(
        text(&with_stdin(dir.path(), &["cat", "-", "c.logfmt"], &gzip).stdout).len(),
        TEXT.len() + LOGFMT.len()
    );
    // Two members in one file, as appending makes them.
    fs::write(dir.path().join("twice.gz"), [&gzip[..], &gzip[..]].concat()).expect("a file");
    assert_eq!(
        stdout(dir.path(), &["cat", "twice.gz", "--no-merge"]),
        [TEXT, TEXT].concat()
    );
}

#[test]
fn a_damaged_file_gives_what_it_has_and_an_error() {
    let dir = logs();
    let log = TEXT.repeat(2_000);
    let mut zstd = zstd::stream::encode_all(log.as_bytes(), 1).expect("it is compressed");
    zstd.truncate(zstd.len() / 2);
    fs::write(dir.path().join("half.zst"), &zstd).expect("a file");
    let output = run(dir.path(), &["cat", "half.zst", "c.logfmt"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).starts_with("error: cannot decompress half.zst: "),
        "{}",
        text(&output.stderr)
    );
    assert!(text(&output.stdout).contains(LOGFMT));
}

#[test]
fn rotated_files_and_those_of_other_processes_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let line = |second: u32| format!("2026-11-21T12:34:{second:02}Z INFO  t m a.rs:1 n={second}\n");
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).expect("a file");
    let oldest = zstd::stream::encode_all(line(1).as_bytes(), 1).expect("it is compressed");
    write("app.2026-11-21T12-34-02Z.1.log.zst", &oldest);
    write("app.2026-11-21T12-34-03Z.1.log", line(2).as_bytes());
    write("app.log", line(4).as_bytes());
    write("app.77.log", line(3).as_bytes());
    write("apple.log", line(0).as_bytes());
    let expected: String = (1..=4).map(line).collect();
    assert_eq!(stdout(dir.path(), &["cat", "--all", "app.log"]), expected);
    let named = stdout(dir.path(), &["cat", "-aH", "app.log"]);
    assert!(named.contains(&format!("app.77.log: {}", line(3))), "{named}");
    assert_eq!(stdout(dir.path(), &["cat", "app.log"]), line(4));
    // What was rotated long before is not even opened.
    write(
        "app.2026-11-20T12-34-02Z.1.log.zst",
        b"\x28\xb5\x2f\xfd and nothing that could be read",
    );
    let since = ["cat", "-a", "app.log", "--since", "2026-11-21T12:34:03Z"];
    assert_eq!(stdout(dir.path(), &since), [line(3), line(4)].concat());
}

#[test]
fn lines_of_a_pipe_are_shown_when_they_come() {
    let dir = logs();
    let mut command = logdrive(dir.path());
    let mut child = command
        .args(["cat", "-l", "error"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut lines_found = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let error = lines(TEXT, &[2]);
    for _ in 0..3 {
        stdin
            .write_all(lines(TEXT, &[0, 2]).as_bytes())
            .expect("it reads");
        let found = lines_found.next().expect("a line").expect("text");
        assert_eq!(format!("{found}\n"), error);
    }
    // A line that belongs to the record before comes later, and belongs to it still.
    stdin.write_all(b"  at the end\n").expect("it reads");
    assert_eq!(lines_found.next().expect("a line").expect("text"), "  at the end");
    drop(stdin);
    assert!(lines_found.next().is_none());
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_reader_that_goes_away_is_a_clean_end() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("big.log"), TEXT.repeat(20_000)).expect("a file");
    let mut command = logdrive(dir.path());
    let mut child = command
        .args(["cat", "big.log"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut first = [0; 100];
    child
        .stdout
        .take()
        .expect("a pipe")
        .read_exact(&mut first)
        .expect("there is output");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
}

#[test]
fn errors_say_what_to_do_and_the_rest_is_printed() {
    let dir = logs();
    fs::create_dir(dir.path().join("logs")).expect("a directory");
    for (file, expected) in [
        (
            "a.lgo",
            "error: cannot open a.lgo: there is no such file; did you mean a.log?\n",
        ),
        (
            "nothing-like-it",
            "error: cannot open nothing-like-it: there is no such file; no file in . has a name like it\n",
        ),
        (
            "none/a.log",
            "error: cannot open none/a.log: there is no such file; there is no directory none either\n",
        ),
        (
            "logs",
            "error: logs is a directory: name the log files in it, such as logs/*.log\n",
        ),
    ] {
        let output = run(dir.path(), &["cat", file, "c.logfmt"]);
        assert_eq!(output.status.code(), Some(1), "{file}");
        assert_eq!(text(&output.stderr), expected);
        assert_eq!(text(&output.stdout), LOGFMT, "{file}");
    }
    let output = run(dir.path(), &["cat", "--all", "none.log"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("cannot open none.log"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn wrong_filters_say_what_may_be_written() {
    let dir = logs();
    for (args, expected) in [
        (
            &["-l", "loud"][..],
            "use trace, debug, info, warn, error or fatal",
        ),
        (&["-f", "peer"], "key!=value"),
        (&["-f", "peer>many"], "compares numbers"),
        (&["--since", "soon"], "2026-11-21T12:34:56Z"),
        (&["-n", "0"], "0 is not in"),
        (&["--json", "--text"], "cannot be used with"),
        (&["--levle", "warn"], "--level"),
    ] {
        let output = run(dir.path(), &[&["cat", "a.log"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            text(&output.stderr).contains(expected),
            "{args:?}: {}",
            text(&output.stderr)
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_file_that_is_no_log_is_printed_and_filters_say_why_nothing_passes() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("notes"), "one\ntwo\nthree\n").expect("a file");
    assert_eq!(stdout(dir.path(), &["cat", "notes"]), "one\ntwo\nthree\n");
    assert_eq!(
        stdout(dir.path(), &["cat", "notes", "-g", "t", "-n", "1"]),
        "three\n"
    );
    let output = run(dir.path(), &["cat", "notes", "-l", "info"]);
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).starts_with("warning: notes: no line of it begins with a time"));
    assert_eq!(
        stdout(dir.path(), &["cat", "notes", "-g", "two", "--json"]),
        "{\"message\":\"two\"}\n"
    );
}

#[test]
fn damaged_lines_never_harm_the_command() {
    const HARM: &[u8] = b"\"\\={}[]:, \x1b\xff\n09";
    let dir = tempfile::tempdir().expect("a directory");
    let lines: Vec<&str> = [TEXT, JSON, LOGFMT, GLOG]
        .iter()
        .flat_map(|log| log.lines())
        .collect();
    for seed in 1..=4u64 {
        let mut random = Random::new(seed);
        let mut log = Vec::new();
        for _ in 0..4_000 {
            let mut line = lines[random.index(lines.len())].as_bytes().to_vec();
            for _ in 0..random.index(4) {
                let at = random.index(line.len());
                match random.index(3) {
                    0 => line[at] = HARM[random.index(HARM.len())],
                    1 => line.truncate(at + 1),
                    _ => line.insert(at, HARM[random.index(HARM.len())]),
                }
            }
            log.extend_from_slice(&line);
            log.push(b'\n');
        }
        fs::write(dir.path().join("x.log"), &log).expect("a file");
        let made = |args: &[&str]| {
            let output = run(dir.path(), &[&["cat", "x.log"], args].concat());
            assert_eq!(
                output.status.code(),
                Some(0),
                "seed {seed} {args:?}: {}",
                text(&output.stderr)
            );
            output.stdout
        };
        for line in text(&made(&["--json"])).lines() {
            assert!(
                serde_json::from_str::<serde_json::Value>(line).is_ok(),
                "seed {seed}: {line}"
            );
        }
        let colored = text(&made(&["--text", "--color=always", "-g", "e"]));
        assert!(!colored.replace("\x1b[", "").contains('\x1b'), "seed {seed}");
        made(&[
            "-f", "peer>=1", "-f", "id!=x", "-m", "shop", "-t", "main", "-n", "7",
        ]);
    }
}

#[test]
fn the_pod_of_a_containers_log_is_shown_with_its_records() {
    let dir = tempfile::tempdir().expect("a directory");
    let id = "0123456789abcdef".repeat(4);
    let paths = [
        "pods/shop_orders-7d9_0b1c/server/0.log".to_owned(),
        format!("containers/mail-5c_post_queue-{id}.log"),
    ];
    for (path, text) in paths
        .iter()
        .zip(["ready", "{\"level\":\"warn\",\"msg\":\"slow\",\"n\":7}"])
    {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, format!("2026-11-21T12:34:56.5Z stdout F {text}\n")).expect("written");
    }
    for more in [&[][..], &["--no-merge"], &["-n", "5"]] {
        let words = [&["cat", "--json", paths[0].as_str(), paths[1].as_str()], more].concat();
        let found = stdout(dir.path(), &words);
        let values: Vec<serde_json::Value> = found
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let shown = |value: &serde_json::Value| {
            ["message", "namespace", "pod", "container"]
                .map(|key| value[key].as_str().unwrap_or("-").to_owned())
        };
        assert_eq!(
            shown(&values[0]),
            ["ready", "shop", "orders-7d9", "server"],
            "{found}"
        );
        assert_eq!(shown(&values[1]), ["slow", "post", "mail-5c", "queue"], "{found}");
        assert_eq!(
            (values[1]["level"].as_str(), values[1]["n"].as_u64()),
            (Some("WARN"), Some(7))
        );
    }
    let found = stdout(dir.path(), &["cat", "--format", "logfmt", &paths[0]]);
    assert!(
        found.ends_with(" stream=stdout namespace=shop pod=orders-7d9 container=server\n"),
        "{found}"
    );
}
