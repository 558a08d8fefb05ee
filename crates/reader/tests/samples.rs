//! Lines that real programs wrote: time, level, and the lines that belong together are those that a person finds in them.
//!
//! `tests/samples/NAME.log` is the output of a program, with neutral names of hosts and paths; `NAME.expected` has a row for
//! each record: its first line, number of lines, time, level, target, and the front of its message.

use jiff::tz::TimeZone;
use logdrive_reader::foreign::{ForeignParser, ForeignRecord, JoinRule, LineJoiner, plain_text};
use logdrive_reader::{
    Filter, Input, LogFile, ReadError, Sink, Source, SourceOptions, SourceRecord, chunk_bytes, iso_text,
    merge,
};
use std::fs;
use std::path::{Path, PathBuf};

/// A time on the day on which the programs ran: some lines name no year, and some no day.
const NOW_NS: u64 = 1_795_650_000_000_000_000;

/// Bytes of a message in a row.
const MESSAGE_BYTES: usize = 60;

fn samples() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let entries = fs::read_dir(dir).expect("a directory of samples");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut logs: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect();
    logs.sort();
    logs
}

/// The records of a text as a sender finds them, line by line: number of the first line, and the lines.
fn joined(text: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut joiner = LineJoiner::new(JoinRule::LogFile);
    let mut records: Vec<(usize, Vec<u8>)> = Vec::new();
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = plain_text(line);
        let continues = joiner.continues(line.strip_suffix(b"\n").unwrap_or(&line));
        match records.last_mut().filter(|_| continues) {
            Some((_, lines)) => lines.extend_from_slice(&line),
            None => records.push((number + 1, line.into_owned())),
        }
    }
    records
}

fn row(number: usize, lines: &[u8], record: &ForeignRecord) -> String {
    let count = lines.split_inclusive(|byte| *byte == b'\n').count();
    let message = String::from_utf8_lossy(&record.message)
        .replace('\n', "\\n")
        .replace('\t', "\\t");
    let front: String = message.chars().take(MESSAGE_BYTES).collect();
    let target = match record.target.as_str() {
        "" => "-",
        target => target,
    };
    format!(
        "{number} {count} {} {} {target} {front}",
        record.unix_ns.map_or("-".to_owned(), iso_text),
        record.level.map_or("-", logdrive_wire::Level::name),
    )
}

#[test]
fn records_of_real_programs_are_read_as_a_person_reads_them() {
    let logs = samples();
    assert!(logs.len() >= 40, "{} samples", logs.len());
    let mut wrong = Vec::new();
    for path in &logs {
        let text = fs::read(path).expect("a sample");
        let mut parser = ForeignParser::in_zone(TimeZone::UTC).with_now(NOW_NS);
        let rows: Vec<String> = joined(&text)
            .iter()
            .map(|(number, lines)| row(*number, lines, &parser.read(lines)).trim_end().to_owned())
            .collect();
        let expected_path = path.with_extension("expected");
        if std::env::var_os("LOGDRIVE_WRITE_SAMPLES").is_some() {
            fs::write(&expected_path, rows.join("\n") + "\n").expect("rows that can be written");
        }
        let expected = fs::read_to_string(&expected_path).unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let expected: Vec<&str> = expected.lines().collect();
        if rows.len() != expected.len() {
            wrong.push(format!(
                "{name}: {} records, expected {}",
                rows.len(),
                expected.len()
            ));
        }
        for (found, expected) in rows
            .iter()
            .zip(expected)
            .filter(|(found, expected)| found != expected)
        {
            wrong.push(format!("{name}:\n  found    {found}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Records as `cat` reads them.
#[derive(Default)]
struct Taken(Vec<Vec<u8>>);

impl Sink for Taken {
    type Error = ReadError;

    fn take(&mut self, record: &SourceRecord<'_>) -> Result<(), ReadError> {
        self.0.push(record.bytes.to_vec());
        Ok(())
    }

    fn before_wait(&mut self) -> Result<(), ReadError> {
        Ok(())
    }

    fn failed(&mut self, error: ReadError) -> Result<(), ReadError> {
        Err(error)
    }
}

/// A sender joins lines one by one, `cat` in chunks: both find the same records, and the same fields in them.
#[test]
fn a_sender_finds_the_records_and_fields_that_cat_finds() {
    for path in samples() {
        let input = Input::new(vec![LogFile::alone(path.clone())]);
        let options = SourceOptions {
            chunk_bytes: chunk_bytes(1),
            keep_order: true,
        };
        let mut taken = Taken::default();
        merge(
            &mut [Source::new(String::new(), input, options)],
            &Filter::default(),
            &mut taken,
        )
        .expect("a sample is read");
        let text = fs::read(&path).expect("a sample");
        let (mut first, mut second) = (
            ForeignParser::in_zone(TimeZone::UTC),
            ForeignParser::in_zone(TimeZone::UTC),
        );
        let sent: Vec<ForeignRecord> = joined(&text).iter().map(|(_, lines)| first.read(lines)).collect();
        let read: Vec<ForeignRecord> = taken.0.iter().map(|lines| second.read(lines)).collect();
        assert_eq!(sent, read, "{}", path.display());
    }
}
