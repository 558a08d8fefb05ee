//! Records of other programs, out of their lines.

use crate::compose::is_number;
use crate::escape::Writing;
use crate::foreign::ansi::{ESCAPE, strip};
use crate::foreign::container::unwrapped;
use crate::foreign::pod::PodContainer;
use crate::foreign::record::{ForeignRecord, ForeignValue};
use crate::line_head::Form;
use crate::part::Text;
use crate::record::{Field, Record};
use crate::times::Times;
use jiff::tz::TimeZone;
use std::borrow::Cow;
use std::path::Path;

/// Takes the lines of a record apart. It keeps memory from record to record.
#[derive(Debug)]
pub struct ForeignParser {
    times: Times,
    record: Record,
    /// Fields of every record.
    common: Vec<(String, ForeignValue)>,
}

impl Default for ForeignParser {
    fn default() -> Self {
        Self::in_zone(TimeZone::system())
    }
}

impl ForeignParser {
    /// A parser with this zone for times that name none and are local ones.
    pub fn in_zone(zone: TimeZone) -> Self {
        let mut record = Record::default();
        record.lines.is_strict = true;
        Self {
            times: Times::new(zone),
            record,
            common: Vec::new(),
        }
    }

    /// A parser of a file: records of a container's log have the names of its pod as fields.
    ///
    /// ```
    /// use logdrive_reader::foreign::{ForeignParser, ForeignValue};
    /// let path = "/var/log/pods/shop_orders-7d9_0b1c/server/0.log";
    /// let record = ForeignParser::default().of_file(path.as_ref()).read(b"2026-11-21T12:34:56Z stdout F ready");
    /// assert!(record.fields.contains(&("pod".to_owned(), ForeignValue::Text(b"orders-7d9".to_vec()))));
    /// ```
    #[must_use]
    pub fn of_file(mut self, path: &Path) -> Self {
        self.common = PodContainer::of_path(path).map_or(Vec::new(), |found| found.into_fields().into());
        self
    }

    /// A parser for which it is this time, in nanoseconds since 1970: of lines that name no year, or no day, it decides.
    #[must_use]
    pub fn with_now(mut self, unix_ns: u64) -> Self {
        self.times.set_now(unix_ns);
        self
    }

    /// Takes a record apart, which may have several lines, with or without the end of the last one. Lines whose record a
    /// [`LineJoiner`](super::LineJoiner) found belong together. Control sequences of terminals are taken out, and of what
    /// was written over on one line the last state counts.
    pub fn read(&mut self, lines: &[u8]) -> ForeignRecord {
        let lines = plain_text(lines);
        let lines = unwrapped(&lines);
        self.record.read(&lines, &mut self.times);
        let record = &self.record;
        let text = |text: Text| lossy(&text.plain(&lines));
        let mut found = ForeignRecord {
            unix_ns: record.unix_ns,
            level: record.level,
            thread: text(record.thread),
            target: text(record.module),
            message: message_of(record, &lines),
            fields: Vec::with_capacity(record.fields.len()),
        };
        let own = [
            ("app", Text::new(record.process.app, Writing::Quoted)),
            ("pid", Text::new(record.process.pid, Writing::Verbatim)),
            ("file", record.file),
            ("line", Text::new(record.line, Writing::Verbatim)),
        ];
        for (name, value) in own.into_iter().filter(|(_, value)| !value.is_empty()) {
            found.fields.push((name.to_owned(), value_of(value, &lines)));
        }
        for field in &record.fields {
            found
                .fields
                .push((key_of(record, field, &lines), value_of(field.value, &lines)));
        }
        found.fields.extend_from_slice(&self.common);
        found
    }
}

impl ForeignParser {
    /// Takes a record apart that is one line of JSON or of logfmt; `None` for any other.
    pub fn read_pairs(&mut self, line: &[u8]) -> Option<ForeignRecord> {
        let found = self.read(line);
        matches!(self.record.form, Form::Json | Form::Logfmt).then_some(found)
    }

    /// Takes a record apart whose first line is of a known form; `None` for any other.
    pub fn read_known(&mut self, lines: &[u8]) -> Option<ForeignRecord> {
        let found = self.read(lines);
        (self.record.form != Form::Unknown).then_some(found)
    }
}

/// The message with the lines that belong to it.
fn message_of(record: &Record, lines: &[u8]) -> Vec<u8> {
    let mut message = record.message.plain(lines).into_owned();
    let further = record.further_lines(lines);
    if !further.is_empty() {
        message.extend_from_slice(record.break_before_further());
        message.extend_from_slice(&further);
    }
    message
}

/// The key of a field; with the name of its span before it.
fn key_of(record: &Record, field: &Field, lines: &[u8]) -> String {
    let key = lossy(&field.key.plain(lines));
    match field
        .span
        .and_then(|span| record.span_names.get(usize::from(span)))
    {
        Some(span) => format!("{}.{key}", lossy(&span.plain(lines))),
        None => key,
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A value with its type: numbers and truths where they stand without quotes.
fn value_of(value: Text, lines: &[u8]) -> ForeignValue {
    let written = value.part.of(lines);
    let is_bare = matches!(
        value.writing,
        Writing::JsonValue | Writing::Verbatim | Writing::Text
    );
    match written {
        b"null" if value.writing == Writing::JsonValue => ForeignValue::None,
        b"None" if value.writing == Writing::Text => ForeignValue::None,
        b"true" if is_bare => ForeignValue::Bool(true),
        b"false" if is_bare => ForeignValue::Bool(false),
        _ if is_bare && is_number(written) => number_of(written),
        _ => ForeignValue::Text(value.plain(lines).into_owned()),
    }
}

/// A number as most would read it, or its text where that would change it.
fn number_of(written: &[u8]) -> ForeignValue {
    let text = std::str::from_utf8(written).unwrap_or("");
    if let Ok(number) = text.parse() {
        return ForeignValue::U64(number);
    }
    if let Ok(number) = text.parse() {
        return ForeignValue::I64(number);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => ForeignValue::F64(number),
        _ => ForeignValue::Text(written.to_vec()),
    }
}

/// Text as a terminal shows it at last: without control sequences, and on each line what was written last.
pub fn plain_text(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr2(ESCAPE, b'\r', text) else {
        return Cow::Borrowed(text);
    };
    let mut plain = Vec::with_capacity(text.len());
    match memchr::memchr(ESCAPE, text.get(first..).unwrap_or(b"")) {
        Some(_) => strip(text, &mut plain),
        None => plain.extend_from_slice(text),
    }
    if memchr::memchr(b'\r', &plain).is_none() {
        return Cow::Owned(plain);
    }
    let mut shown = Vec::with_capacity(plain.len());
    for line in plain.split_inclusive(|byte| *byte == b'\n') {
        shown.extend_from_slice(last_state(line));
    }
    Cow::Owned(shown)
}

/// Returns what is written last on a line: behind the last carriage return that something follows.
pub fn last_state(line: &[u8]) -> &[u8] {
    let length = line.len()
        - line
            .iter()
            .rev()
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
    let start = memchr::memrchr(b'\r', line.get(..length).unwrap_or(b"")).map_or(0, |at| at + 1);
    line.get(start..).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_testkit::Random;
    use logdrive_wire::Value;
    use logdrive_wire::value::DynamicFields;

    #[test]
    fn the_last_state_of_a_line_counts() {
        for (text, expected) in [
            ("10%\r50%\r100%\n", "100%\n"),
            ("10%\r50%\r", "50%\r"),
            ("a\r\nb\r\n", "a\r\nb\r\n"),
            ("\x1b[31mred\x1b[0m\n", "red\n"),
            ("\x1b[2K10%\r\x1b[2K20%", "20%"),
            ("\r", "\r"),
            ("", ""),
        ] {
            assert_eq!(plain_text(text.as_bytes()), expected.as_bytes(), "{text:?}");
        }
    }

    /// The lines of a container have a wrapping each, and a long one comes in pieces.
    #[test]
    fn lines_of_containers_are_whole() {
        let text = "2026-11-21T12:34:56.1Z stderr P 2026-11-21 12:34:56,000 ERROR [main] a.B - fai\n\
            2026-11-21T12:34:56.1Z stderr F led\n\
            2026-11-21T12:34:56.2Z stderr F java.io.IOException: disk is full\n\
            2026-11-21T12:34:56.2Z stderr F \tat a.B.c(B.java:7)";
        let record = ForeignParser::in_zone(TimeZone::UTC).read(text.as_bytes());
        let message = "failed\njava.io.IOException: disk is full\n\tat a.B.c(B.java:7)";
        assert_eq!(String::from_utf8_lossy(&record.message), message);
        assert_eq!((record.target.as_str(), record.thread.as_str()), ("a.B", "main"));
        assert_eq!(record.level, Some(logdrive_wire::Level::Error));
        assert_eq!(
            record.fields,
            [("stream".to_owned(), ForeignValue::Text(b"stderr".to_vec()))]
        );
    }

    /// JSON in the files of Docker stands there with escapes, and a long line of it in pieces.
    #[test]
    fn json_within_the_lines_of_containers_is_fields() {
        let wrapped = |log: &str, more: &str| {
            let log = serde_json::Value::from(log);
            format!(r#"{{"log":{log},"stream":"stderr"{more},"time":"2026-11-21T12:34:56.1Z"}}"#)
        };
        let line = r#"{"level":"warn","msg":"slow \"a\"","n":7}"#;
        let (front, rest) = line.split_at(20);
        let cri = |tag: char, text: &str| format!("2026-11-21T12:34:56.1Z stderr {tag} {text}");
        let fields = |found: &ForeignRecord| -> Vec<String> {
            let shown = |(key, value): &(String, ForeignValue)| format!("{key} {value:?}");
            found.fields.iter().map(shown).collect()
        };
        let stream = format!("stream {:?}", ForeignValue::Text(b"stderr".to_vec()));
        let labels = format!("attrs {:?}", ForeignValue::Text(br#"{"tag":"a b"}"#.to_vec()));
        let number = "n U64(7)".to_owned();
        let attributes = r#","attrs":{"tag":"a b"}"#;
        for (text, expected) in [
            (
                wrapped(&format!("{line}\n"), ""),
                vec![number.clone(), stream.clone()],
            ),
            (
                wrapped(&format!("{line}\n"), attributes),
                vec![labels, number.clone(), stream.clone()],
            ),
            (
                format!("{}\n{}", wrapped(front, ""), wrapped(&format!("{rest}\n"), "")),
                vec![number.clone(), stream.clone()],
            ),
            (cri('F', line), vec![number.clone(), stream.clone()]),
            (
                format!("{}\n{}", cri('P', front), cri('F', rest)),
                vec![number, stream.clone()],
            ),
        ] {
            let found = ForeignParser::in_zone(TimeZone::UTC).read(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found.message), "slow \"a\"", "{text}");
            assert_eq!(found.level, Some(logdrive_wire::Level::Warn), "{text}");
            assert_eq!(
                found.unix_ns.map(crate::iso_text).as_deref(),
                Some("2026-11-21T12:34:56.100000000Z")
            );
            assert_eq!(fields(&found), expected, "{text}");
        }
        let found = ForeignParser::in_zone(TimeZone::UTC).read(cri('F', r#"{"a":1}"#).as_bytes());
        assert_eq!(fields(&found), ["a U64(1)".to_owned(), stream]);
        // Text that says more than its stream stays as Docker wrote it.
        let text = wrapped("plain \"text\"\n", attributes);
        let found = ForeignParser::in_zone(TimeZone::UTC).read(text.as_bytes());
        assert_eq!(String::from_utf8_lossy(&found.message), "plain \"text\"");
        assert_eq!(found.fields.len(), 2);
    }

    #[test]
    fn what_is_encoded_is_read_as_it_was() {
        let line = br#"{"time":"2026-11-21T12:34:56Z","level":"info","msg":"a","n":7,"i":-7,"f":1.5,"t":true,"u":null,"s":"x","o":{"a":1}}"#;
        let record = ForeignParser::in_zone(TimeZone::UTC).read(line);
        let mut payload = Vec::new();
        record.encode(&mut payload);
        let mut fields = DynamicFields::new(&payload);
        let mut found = Vec::new();
        while let Some(named) = fields.next_value().expect("fields that can be read") {
            found.push((named.key.to_owned(), format!("{:?}", named.value)));
        }
        assert_eq!(found[0].1, format!("{:?}", Value::Message(b"a")));
        let found: Vec<(&str, &str)> = found
            .iter()
            .skip(1)
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let text = |text: &[u8]| format!("{:?}", Value::Str(text));
        let expected = [
            ("n", "U64(7)".to_owned()),
            ("i", "I64(-7)".to_owned()),
            ("f", "F64(1.5)".to_owned()),
            ("t", "Bool(true)".to_owned()),
            ("u", "None".to_owned()),
            ("s", text(b"x")),
            ("o", text(b"{\"a\":1}")),
        ];
        assert_eq!(
            found,
            expected
                .iter()
                .map(|(key, value)| (*key, value.as_str()))
                .collect::<Vec<_>>()
        );
    }

    /// Bytes from anywhere end in a record that can be encoded.
    #[test]
    fn no_bytes_make_it_panic() {
        let words: [&[u8]; 40] = [
            b"2026-11-21T12:34:56Z",
            b"2026/11/21 12:34:56",
            b"[",
            b"]",
            b"{",
            b"}",
            b"\"",
            b"\\",
            b"INFO",
            b"error",
            b":",
            b" ",
            b"-",
            b"|",
            b"<34>1 ",
            b"Nov 21 12:34:56",
            b"PM",
            b" stdout P ",
            b" stderr F ",
            b"{\"log\":\"",
            b"\\n\"",
            b",\"stream\":\"stdout\"",
            b"417:M 21 Nov 2026 12:34:56",
            b" [21/Nov/2026:12:34:56 +0000] \"",
            b"GET / HTTP/1.1",
            b"200",
            b"a=1",
            b"=",
            b"(a.B)",
            b"\n",
            b"\r",
            b"\x1b[31m",
            b"\xff",
            b"\t",
            b"app[417]: ",
            b"host",
            b"#",
            b"[a b=\"",
            b", client: ",
            b"\x00",
        ];
        let mut random = Random::new(7);
        let mut parser = ForeignParser::in_zone(TimeZone::UTC);
        let mut joiner = crate::foreign::LineJoiner::new(crate::foreign::JoinRule::Output);
        let mut timed = 0;
        for _ in 0..50_000 {
            let bytes: Vec<u8> = (0..random.index(14))
                .flat_map(|_| words[random.index(words.len())].to_vec())
                .collect();
            bytes.split(|byte| *byte == b'\n').for_each(|line| {
                joiner.continues(line);
            });
            let record = parser.read(&bytes);
            timed += u32::from(record.unix_ns.is_some());
            let mut payload = Vec::new();
            record.encode(&mut payload);
            let mut fields = DynamicFields::new(&payload);
            while fields.next_value().expect("fields that can be read").is_some() {}
        }
        assert!(timed > 1_000);
    }
}
