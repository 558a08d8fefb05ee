//! `logdrive query` as people use it: sources, forms of output, errors, damage and Ctrl-C.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use support::{logdrive, run, stdout, text, with_stdin};

fn line(number: usize) -> String {
    let level = if number.is_multiple_of(10) {
        "WARN "
    } else {
        "INFO "
    };
    format!(
        "2026-11-21T12:{:02}:{:02}.000000000Z {level} t m a.rs:1 done n={number} user=u{}\n",
        number / 60,
        number % 60,
        number % 7
    )
}

fn log(count: usize) -> String {
    (0..count).map(line).collect()
}

#[test]
fn directories_compressed_files_and_pipes_are_sources() {
    let dir = tempfile::tempdir().expect("a directory");
    let logs = dir.path().join("logs");
    fs::create_dir(&logs).expect("a directory");
    fs::write(logs.join("a.log"), log(100)).expect("a file");
    let zstd = zstd::stream::encode_all(log(200).as_bytes(), 1).expect("it is compressed");
    fs::write(logs.join("b.log.zst"), zstd).expect("a file");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(log(50).as_bytes()).expect("memory takes it");
    fs::write(logs.join("c.log.gz"), gzip.finish().expect("memory takes it")).expect("a file");
    fs::write(logs.join(".hidden"), log(1000)).expect("a file");
    let count = |sources: &[&str]| {
        stdout(
            dir.path(),
            &[&["query", "level:warn", "--count"], sources].concat(),
        )
    };
    assert_eq!(count(&["logs"]), "35\n");
    assert_eq!(count(&["logs/b.log.zst", "logs/a.log"]), "30\n");
    let piped = with_stdin(
        dir.path(),
        &["query", "level:warn | fields n | limit 2", "-"],
        log(100).as_bytes(),
    );
    assert_eq!(text(&piped.stdout), "n=0\nn=10\n");
    // Lines before the first record are records of a message alone.
    let piped = with_stdin(dir.path(), &["query", "two", "-"], b"one\ntwo\nthree two");
    assert_eq!(text(&piped.stdout), "two\nthree two\n");
}

/// Names of fields of an access log do not stand in its lines, and a large one is searched on all cores.
#[test]
fn logs_of_other_programs_have_fields() {
    let dir = tempfile::tempdir().expect("a directory");
    let request = |number: usize| {
        let status = if number.is_multiple_of(1000) { 503 } else { 200 };
        format!(
            "10.0.0.{} - - [21/Nov/2026:12:34:56 +0000] \"GET /orders/{number} HTTP/1.1\" {status} 12\n",
            number % 256
        )
    };
    fs::write(
        dir.path().join("access.log"),
        (0..40_000).map(request).collect::<String>(),
    )
    .expect("a file");
    let error = "2026-11-21 12:34:56,789 ERROR [main] com.x.App - cannot read\njava.io.IOException: disk is full\n\tat com.x.App.run(App.java:7)\n";
    fs::write(
        dir.path().join("java.log"),
        format!("{error}2026-11-21 12:34:57,000 INFO  [main] com.x.App - go on\n"),
    )
    .expect("a file");
    let found = |query: &str, file: &str| stdout(dir.path(), &["query", query, file, "--count"]);
    for (query, file, expected) in [
        ("status:>=500", "access.log", "40\n"),
        ("status:=503 level:error method:=GET", "access.log", "40\n"),
        ("client:=10.0.0.7 status:=200", "access.log", "157\n"),
        ("path:=/orders/77", "access.log", "1\n"),
        ("thread:=main target:=com.x.App level:error", "java.log", "1\n"),
        ("level:error IOException", "java.log", "1\n"),
    ] {
        assert_eq!(found(query, file), expected, "{query}");
    }
    assert_eq!(stdout(dir.path(), &["cat", "java.log", "-l", "error"]), error);
}

#[test]
fn results_are_lines_json_values_tables_and_bars() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("a.log"), log(90)).expect("a file");
    let query = |args: &[&str]| stdout(dir.path(), &[&["query"], args, &["a.log"]].concat());
    assert_eq!(query(&["n:=30"]), line(30));
    assert_eq!(
        query(&["n:=30", "--json"]),
        "{\"ts\":\"2026-11-21T12:00:30.000000000Z\",\"level\":\"WARN\",\"thread\":\"t\",\"module\":\"m\",\
         \"file\":\"a.rs\",\"line\":1,\"message\":\"done\",\"n\":30,\"user\":\"u2\"}\n"
    );
    assert_eq!(
        query(&["n:=30", "--format", "csv"]),
        "_time,level,app,pid,thread,module,message,fields\r\n\
         2026-11-21T12:00:30.000000000Z,WARN,,,t,m,done,n=30 user=u2\r\n"
    );
    assert_eq!(
        query(&[
            "* | stats by (level) count() as n, max(n) as most",
            "--format",
            "table"
        ]),
        "level   n  most\nINFO   81    89\nWARN    9    80\n"
    );
    let bars = query(&["level:warn", "--histogram"]);
    assert_eq!(bars.lines().count(), 17, "{bars}");
    assert!(bars.starts_with("2026-11-21T12:00:00 1 "), "{bars}");
    let users = query(&["*", "--histogram=user"]);
    assert!(users.starts_with("u0 13 "), "{users}");
    assert_eq!(
        query(&["* | sort by (n desc) | limit 2 | fields n"]),
        "n=89\nn=88\n"
    );
    assert_eq!(query(&["*", "--since", "2026-11-21T12:01:29Z"]), line(89));
    assert_eq!(query(&["*", "--until", "2026-11-21T12:00:00Z"]), line(0));
}

#[test]
fn order_is_kept_and_the_end_is_found_in_large_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let line = |n: usize| {
        format!(
            "2026-11-21T{:02}:{:02}:{:02}.{:03}Z INFO  t m a.rs:1 done with some more text n={n}\n",
            n / 3_600_000,
            n / 60_000 % 60,
            n / 1000 % 60,
            n % 1000
        )
    };
    let whole: String = (0..60_000).map(line).collect();
    fs::write(dir.path().join("a.log"), &whole).expect("a file");
    assert!(whole.len() > 3 << 20, "some parts");
    assert!(stdout(dir.path(), &["query", "*", "a.log"]) == whole);
    assert!(stdout(dir.path(), &["cat", "a.log"]) == whole);
    let last: String = (59_990..60_000).map(line).collect();
    assert_eq!(stdout(dir.path(), &["cat", "-n", "10", "a.log"]), last);
    assert_eq!(
        stdout(
            dir.path(),
            &["cat", "a.log", "--since", "2026-11-21T00:00:59.990Z"]
        ),
        last
    );
    let first: String = (0..5).map(line).collect();
    assert_eq!(
        stdout(
            dir.path(),
            &["cat", "a.log", "--until", "2026-11-21T00:00:00.004Z"]
        ),
        first
    );
    assert_eq!(
        stdout(dir.path(), &["cat", "a.log", "-f", "n=31234"]),
        line(31_234)
    );
    assert_eq!(
        stdout(dir.path(), &["cat", "a.log", "-g", "n=31234"]),
        line(31_234)
    );
    assert_eq!(
        stdout(dir.path(), &["query", "n:range[31234, 31234]", "a.log"]),
        line(31_234)
    );
}

#[test]
fn what_is_wrong_is_said() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("a.log"), log(10)).expect("a file");
    let output = run(dir.path(), &["query", "n=7", "a.log"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("^ write n:=7"),
        "{}",
        text(&output.stderr)
    );
    let output = run(dir.path(), &["query", "*", "none.log"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("there is no such file"),
        "{}",
        text(&output.stderr)
    );
}

fn damaged(dir: &Path) -> Vec<u8> {
    stdout(dir, &["import", "a.log", "-o", "a.segment"]);
    let block = fs::read(dir.join("a.segment")).expect("a segment");
    let mut bytes = block.repeat(3);
    let at = block.len() + block.len() / 2;
    bytes[at] ^= 1;
    bytes
}

#[test]
fn a_damaged_block_is_told_and_the_others_answer() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("a.log"), log(100)).expect("a file");
    let bytes = damaged(dir.path());
    fs::write(dir.path().join("b.segment"), bytes).expect("a file");
    let output = run(dir.path(), &["query", "level:warn", "b.segment", "--count"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "20\n");
    assert!(
        text(&output.stderr).contains("are left out"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn ctrl_c_gives_what_was_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = logdrive(dir.path())
        .args(["query", "level:warn", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(log(100).as_bytes()).expect("it is read");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("it is text");
    assert_eq!(format!("{first}\n"), line(0));
    // It reads, and so it holds the signal.
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(
        text(&output.stderr).contains("so far"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(lines.map_while(Result::ok).count(), 9);
}
