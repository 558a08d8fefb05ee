//! The samples of other programs by each way into a log: `cat`, `send`, `send` of text to a collector that reads it, and `run`
//! find the same times, levels, threads, targets, messages and fields.

mod support;

use logdrive_reader::foreign::{
    ForeignParser, ForeignRecord, ForeignValue, JoinRule, LineJoiner, plain_text,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use support::collector::{World, json, logdrive};

fn samples() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reader/tests/samples");
    let entries = std::fs::read_dir(dir).expect("a directory of samples");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut logs: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect();
    logs.sort();
    logs
}

/// The lines of each record of a text.
fn joined(text: &[u8], rule: JoinRule) -> Vec<Vec<u8>> {
    let mut joiner = LineJoiner::new(rule);
    let mut records: Vec<Vec<u8>> = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let line = plain_text(line);
        let continues = joiner.continues(line.strip_suffix(b"\n").unwrap_or(&line));
        match records.last_mut().filter(|_| continues) {
            Some(lines) => lines.extend_from_slice(&line),
            None => records.push(line.into_owned()),
        }
    }
    records
}

/// Keys that a sender's records have, too.
const OF_SENDER: [&str; 5] = ["host", "process", "pid", "session", "identity"];

/// A record on a line, for comparing. A key that was taken has a number behind it, and numbers are as they are written.
fn shown(record: &ForeignRecord, is_collected: bool) -> String {
    let mut fields = BTreeMap::new();
    for (key, value) in &record.fields {
        if is_collected && OF_SENDER.contains(&key.as_str()) {
            continue;
        }
        let key = key.strip_suffix("_1").unwrap_or(key);
        let value = match value {
            ForeignValue::Text(text) => String::from_utf8_lossy(text).into_owned(),
            ForeignValue::None => continue,
            ForeignValue::F64(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        fields.insert(key.to_owned(), value);
    }
    let thread = match record.thread.as_str() {
        "-" => "",
        thread => thread,
    };
    format!(
        "{:?} {thread:?} {:?} {:?} {fields:?}",
        record.level.unwrap_or(logdrive_wire::Level::Info),
        record.target,
        String::from_utf8_lossy(&record.message).trim_end(),
    )
}

fn expected(path: &Path) -> Vec<String> {
    let text = std::fs::read(path).expect("a sample");
    let mut parser = ForeignParser::default();
    let records = joined(&text, JoinRule::LogFile);
    records
        .iter()
        .map(|lines| {
            let record = parser.read(lines.strip_suffix(b"\n").unwrap_or(lines));
            let time = record.unix_ns.map_or(String::new(), logdrive_reader::iso_text);
            format!("{time} {}", shown(&record, false))
        })
        .collect()
}

/// The same of lines of JSON that were made of a sample. Records that say no time have another one here.
fn found(lines: &[String], expected: &[String], is_collected: bool) -> Vec<String> {
    let mut parser = ForeignParser::default();
    let records = lines
        .iter()
        .zip(expected.iter().map(Some).chain(std::iter::repeat(None)));
    records
        .map(|(line, expected)| {
            let record = parser.read(line.as_bytes());
            let has_time = expected.is_none_or(|text| !text.starts_with(' '));
            let time = record.unix_ns.filter(|_| has_time);
            let time = time.map_or(String::new(), logdrive_reader::iso_text);
            format!("{time} {}", shown(&record, is_collected))
        })
        .collect()
}

/// Lines that a collector has of each sample.
fn collected(options: &[&str]) -> BTreeMap<String, Vec<String>> {
    let world = World::new();
    let (collector, address) = world.collect(&world.address(), &[]);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reader/tests/samples/*.log");
    let sent = world
        .send(dir.to_str().expect("text"), &address, options)
        .output()
        .expect("it ran");
    assert_eq!(json(&sent)["missing"], 0);
    collector.end();
    let mut by_sample = BTreeMap::new();
    for line in world.raw() {
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let name = value["process"].as_str().expect("a name").to_owned();
        by_sample.entry(name).or_insert_with(Vec::new).push(line);
    }
    by_sample
}

#[test]
fn what_is_sent_has_the_parts_that_cat_finds() {
    let mut wrong = Vec::new();
    let (records, text) = (collected(&[]), collected(&["--format", "text"]));
    for path in samples() {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("text");
        let expected = expected(&path);
        for (way, lines) in [("records", &records[name]), ("text", &text[name])] {
            let found = found(lines, &expected, true);
            if found.len() != expected.len() {
                wrong.push(format!(
                    "{name} {way}: {} records, not {}",
                    found.len(),
                    expected.len()
                ));
            }
            let pairs = found
                .iter()
                .zip(&expected)
                .filter(|(found, expected)| found != expected);
            wrong.extend(pairs.map(|(found, expected)| format!("{name} {way}:\n  {found}\n  {expected}")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_is_printed_as_json_has_the_same_parts() {
    let mut wrong = Vec::new();
    for path in samples() {
        let output = logdrive()
            .args(["cat", "--no-merge", "--format", "json"])
            .arg(&path)
            .output()
            .expect("it ran");
        let text = String::from_utf8(output.stdout).expect("text");
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let expected = expected(&path);
        let found = found(&lines, &expected, false);
        let name = path.display();
        if found.len() != expected.len() {
            wrong.push(format!("{name}: {} records, not {}", found.len(), expected.len()));
        }
        let pairs = found
            .iter()
            .zip(&expected)
            .filter(|(found, expected)| found != expected);
        wrong.extend(pairs.map(|(found, expected)| format!("{name}:\n  {found}\n  {expected}")));
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The record of a program has the time, the thread and the logger of its lines as fields.
fn as_run(mut record: ForeignRecord) -> ForeignRecord {
    let time = record
        .unix_ns
        .take()
        .map(logdrive_reader::iso_text)
        .unwrap_or_default();
    let (thread, target) = (
        std::mem::take(&mut record.thread),
        std::mem::take(&mut record.target),
    );
    for (key, text) in [("time", time), ("thread", thread), ("target", target)] {
        if !text.is_empty() {
            record.push_text(key, &text);
        }
    }
    record
}

#[test]
fn what_a_program_prints_has_the_same_parts() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut wrong = Vec::new();
    let mut parser = ForeignParser::default();
    let output = logdrive()
        .args([
            "run",
            "--name",
            "all",
            "--format",
            "json",
            "--run-dir",
            "run",
            "--",
            "sh",
            "-c",
        ])
        .args(["for file; do cat \"$file\"; echo between; done", "sh"])
        .args(samples())
        .current_dir(dir.path())
        .env_remove("LOGDRIVE")
        .output()
        .expect("it ran");
    assert!(output.status.success());
    let log = std::fs::read_to_string(dir.path().join("all.log")).expect("a log");
    let mut found = BTreeSet::new();
    for line in log.lines() {
        let mut record = parser.read(line.as_bytes());
        record.unix_ns = None;
        (record.thread, record.target) = (String::new(), String::new());
        found.insert(shown(&record, false));
    }
    for path in samples() {
        // Which further lines belong to a record is another question for what a program prints.
        let is_two_lines = path.ends_with("java_jul.log");
        let text = std::fs::read(&path).expect("a sample");
        for lines in joined(&text, JoinRule::Output) {
            let line = lines.strip_suffix(b"\n").unwrap_or(&lines);
            let breaks = memchr::memchr_iter(b'\n', line).count();
            let record = parser
                .read_known(line)
                .filter(|_| breaks == usize::from(is_two_lines));
            let Some(record) = record else {
                continue;
            };
            let expected = shown(&as_run(record), false);
            if !found.contains(&expected) {
                wrong.push(format!("{}:\n  {expected}", path.display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
