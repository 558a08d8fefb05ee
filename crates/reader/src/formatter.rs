//! The formatter: a record as it stands, as a JSON line, or as a line of text, piece by piece into a [`Pen`].

use crate::compose;
use crate::escape::Writing;
use crate::foreign::PodContainer;
use crate::foreign::container::unwrapped;
use crate::head::Role;
use crate::json::{is_json, members};
use crate::line_head::Form;
use crate::pairs::logfmt_pairs;
use crate::part::{Pair, Part};
use crate::pen::{Pen, Piece};
use crate::record::Record;
use crate::times::Times;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::borrow::Cow;
use std::path::Path;

/// Form in which a record of a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Its own lines.
    AsIs,
    /// A JSON object on a line.
    Json,
    /// A line of text, and the lines that belong to it.
    Text,
    /// Pairs of key and value on a line.
    Logfmt,
}

/// Writes records of log files. Times without a zone are those of the system's zone.
///
/// ```
/// use logdrive_reader::{Formatter, Shape};
/// let mut out = Vec::new();
/// let line = b"ts=2026-11-21T12:34:56Z level=info msg=ready id=7\n";
/// Formatter::new().write(&mut out, Shape::Json, line, false);
/// assert_eq!(out, b"{\"ts\":\"2026-11-21T12:34:56Z\",\"level\":\"INFO\",\"message\":\"ready\",\"id\":7}\n");
/// ```
#[derive(Debug)]
pub struct Formatter {
    times: Times,
    record: Record,
    names: compose::Names,
    common: compose::FileFields,
}

impl Default for Formatter {
    fn default() -> Self {
        Self::new()
    }
}

impl Formatter {
    /// Returns a formatter; it keeps memory from record to record.
    pub fn new() -> Self {
        Self {
            times: Times::new(TimeZone::system()),
            record: Record::default(),
            names: compose::Names::default(),
            common: compose::FileFields::default(),
        }
    }

    /// Writes records of this file from now on: where it is the log of a container in Kubernetes, JSON and logfmt get the names
    /// of its pod as fields.
    ///
    /// ```
    /// use logdrive_reader::{Formatter, Shape};
    /// let (mut formatter, mut out) = (Formatter::new(), Vec::new());
    /// formatter.set_file("/var/log/pods/shop_orders-7d9_0b1c/server/0.log".as_ref());
    /// formatter.write(&mut out, Shape::Json, b"2026-11-21T12:34:56Z stdout F ready\n", false);
    /// assert!(out.ends_with(b"\"namespace\":\"shop\",\"pod\":\"orders-7d9\",\"container\":\"server\"}\n"));
    /// ```
    pub fn set_file(&mut self, path: &Path) {
        let found = PodContainer::of_path(path);
        self.common = found.map_or(Vec::new(), |found| found.into_names().into());
    }

    /// Writes one record, or with `goes_on` a further piece of the record before.
    pub fn write(&mut self, pen: &mut impl Pen, shape: Shape, record: &[u8], goes_on: bool) {
        if goes_on && matches!(shape, Shape::AsIs | Shape::Text) {
            return put_lines(pen, record);
        }
        let plain = match shape {
            Shape::AsIs => Cow::Borrowed(record),
            _ => unwrapped(record),
        };
        let is_wrapped = matches!(plain, Cow::Owned(_));
        if shape == Shape::Json && !is_wrapped && Self::keep_json_line(pen, record) {
            return;
        }
        let record = &*plain;
        self.record.read(record, &mut self.times);
        let line = record.get(..self.record.lines.first_bytes).unwrap_or(b"");
        match (shape, self.record.form) {
            (Shape::Json, Form::Json) if is_json(line) => {
                return compose::keep_json(pen.bytes(), record, &self.record);
            }
            (Shape::Json, Form::Json) => self.record.forget_parts(),
            _ => {}
        }
        match (shape, self.record.form) {
            (Shape::Json, _) => {
                return compose::json(pen.bytes(), record, &self.record, &mut self.names, &self.common);
            }
            (Shape::Logfmt, Form::Logfmt) if self.record.further_lines(record).is_empty() => {
                put_pairs(pen, line, &self.record, logfmt_pairs(line), Piece::Plain);
            }
            (Shape::Logfmt, _) => {
                return compose::logfmt(pen.bytes(), record, &self.record, &mut self.names, &self.common);
            }
            (Shape::Text, Form::Json | Form::Logfmt | Form::Glog) => compose::text(pen, line, &self.record),
            (Shape::Text, _) if is_wrapped => compose::text(pen, line, &self.record),
            (_, Form::Json) => put_pairs(pen, line, &self.record, members(line), Piece::Detail),
            (_, Form::Logfmt) => put_pairs(pen, line, &self.record, logfmt_pairs(line), Piece::Plain),
            (_, Form::Text | Form::Glog | Form::Foreign(_)) => put_text_pieces(pen, line, &self.record),
            (_, Form::Unknown) => pen.put(Piece::Plain, line),
        }
        put_lines(pen, record.get(self.record.lines.first_bytes..).unwrap_or(b""));
    }

    /// Writes a record that is one line of JSON as it stands, without taking it apart. `false`: it is none.
    fn keep_json_line(pen: &mut impl Pen, record: &[u8]) -> bool {
        let line = record.strip_suffix(b"\n").unwrap_or(record);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_kept = line.first() == Some(&b'{') && memchr::memchr(b'\n', line).is_none() && is_json(line);
        if is_kept {
            let out = pen.bytes();
            out.extend_from_slice(line);
            out.push(b'\n');
        }
        is_kept
    }

    /// Returns a record with its time in another zone, in the form and with the digits that it has; a record without a time
    /// as it is. A time that is a number becomes a text.
    ///
    /// ```
    /// use jiff::tz::{TimeZone, offset};
    /// use logdrive_reader::Formatter;
    /// let line = b"2026-11-21T12:34:56.5Z INFO  ready\n";
    /// let zone = TimeZone::fixed(offset(2));
    /// let zoned = Formatter::new().in_zone(line, &zone);
    /// assert_eq!(&*zoned, b"2026-11-21T14:34:56.5+02:00 INFO  ready\n");
    /// ```
    pub fn in_zone<'a>(&mut self, record: &'a [u8], zone: &TimeZone) -> Cow<'a, [u8]> {
        self.record.read(record, &mut self.times);
        let part = self.record.time;
        let Some(unix_ns) = self.record.unix_ns.filter(|_| !part.is_empty()) else {
            return Cow::Borrowed(record);
        };
        let (start, end) = (part.start(), part.end());
        let mut text = zoned_text(part.of(record), unix_ns, zone, self.record.form == Form::Glog);
        let is_string = start > 0 && record.get(start - 1) == Some(&b'"');
        if self.record.form == Form::Json && !is_string {
            text = format!("\"{text}\"");
        }
        let (before, after) = (record.get(..start), record.get(end..));
        Cow::Owned(
            [
                before.unwrap_or_default(),
                text.as_bytes(),
                after.unwrap_or_default(),
            ]
            .concat(),
        )
    }

    /// Returns a record in a form, with the process that wrote it if one is given.
    pub fn convert(&mut self, record: &[u8], shape: Shape, process: Option<(&str, u32)>) -> Vec<u8> {
        let plain = unwrapped(record);
        let is_wrapped = matches!(plain, Cow::Owned(_));
        let record = &*plain;
        self.record.read(record, &mut self.times);
        let (line, further) = record.split_at(self.record.lines.first_bytes.min(record.len()));
        let mut out = Vec::with_capacity(record.len() + 64);
        match (shape, self.record.form) {
            (Shape::Json, Form::Text | Form::Logfmt | Form::Glog | Form::Foreign(_) | Form::Unknown) => {
                compose::json(&mut out, record, &self.record, &mut self.names, &self.common);
            }
            (Shape::Logfmt, Form::Text | Form::Json | Form::Glog | Form::Foreign(_) | Form::Unknown) => {
                compose::logfmt(&mut out, record, &self.record, &mut self.names, &self.common);
            }
            (Shape::Text, form) if is_wrapped || matches!(form, Form::Json | Form::Logfmt | Form::Glog) => {
                compose::text(&mut out, line, &self.record);
                out.extend_from_slice(further);
            }
            _ => out.extend_from_slice(record),
        }
        if let Some((app, pid)) = process {
            self.name_process(&mut out, app, pid);
        }
        out
    }

    /// Names a process in a line, where the layouts do it: before the thread.
    fn name_process(&mut self, line: &mut Vec<u8>, app: &str, pid: u32) {
        self.record.read(line, &mut self.times);
        let thread = self.record.thread.part.start();
        let (at, text) = match self.record.form {
            Form::Text => (Some(thread), format!("{app}[{pid}]/")),
            Form::Json => (
                memchr::memmem::find(line, b"\"thread\":"),
                format!("\"app\":{},\"pid\":{pid},", serde_json::Value::from(app)),
            ),
            Form::Logfmt => (
                memchr::memmem::find(line, b"thread="),
                format!("app={app} pid={pid} "),
            ),
            Form::Glog | Form::Foreign(_) | Form::Unknown => (None, String::new()),
        };
        if let Some(at) = at.filter(|at| *at > 0 && *at <= line.len()) {
            line.splice(at..at, text.bytes());
        }
    }
}

/// Writes lines that belong to a record. Their ends are ends.
fn put_lines(pen: &mut impl Pen, text: &[u8]) {
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let end = if line.ends_with(b"\r\n") {
            2
        } else {
            usize::from(line.ends_with(b"\n"))
        };
        let (line, end) = line.split_at(line.len() - end);
        pen.put(Piece::Plain, line);
        pen.bytes().extend_from_slice(end);
    }
}

/// Writes a line of text or glog.
fn put_text_pieces(pen: &mut impl Pen, line: &[u8], record: &Record) {
    let level = record.level.map_or(Piece::Plain, Piece::Level);
    let place = Part::new(
        record.file.part.start(),
        record.line.end().max(record.file.part.end()),
    );
    let mut at = 0;
    let mut head = [
        (record.level_part, level),
        (record.time, Piece::Detail),
        (record.module.part, Piece::Detail),
        (place, Piece::Detail),
    ];
    // In glog the level stands before the time.
    head.sort_by_key(|(part, _)| part.start());
    for (part, piece) in head {
        at = put_up_to(pen, line, at, part, piece);
    }
    let written = record
        .fields
        .iter()
        .filter(|field| field.key.writing != Writing::Given);
    for field in written {
        at = put_up_to(pen, line, at, field.key.part, Piece::Key);
        at = put_up_to(pen, line, at, Part::new(at, at + 1), Piece::Detail);
    }
    pen.put(Piece::Plain, line.get(at..).unwrap_or(b""));
}

/// Writes the text up to a part, then the part; returns where it ends.
fn put_up_to(pen: &mut impl Pen, line: &[u8], at: usize, part: Part, piece: Piece) -> usize {
    if part.is_empty() || part.start() < at {
        return at;
    }
    pen.put(Piece::Plain, line.get(at..part.start()).unwrap_or(b""));
    pen.put(piece, part.of(line));
    part.end()
}

/// Writes a line of pairs of key and value, each with the offset behind it: what frames them is detail, and `rest` what
/// follows them.
fn put_pairs(
    pen: &mut impl Pen,
    line: &[u8],
    record: &Record,
    pairs: impl Iterator<Item = Pair>,
    rest: Piece,
) {
    let mut at = 0;
    for Pair { key, value, next } in pairs {
        let between = |from: usize, to: usize| line.get(from..to).unwrap_or(b"");
        let role = Role::of(key.of(line));
        pen.put(Piece::Detail, between(at, key.start()));
        pen.put(
            if role.is_some() { Piece::Detail } else { Piece::Key },
            key.of(line),
        );
        pen.put(Piece::Detail, between(key.end(), value.part.start()));
        pen.put(piece_of_value(role, record), value.part.of(line));
        pen.put(Piece::Detail, between(value.part.end(), next));
        at = next;
    }
    pen.put(rest, line.get(at..).unwrap_or(b""));
}

fn piece_of_value(role: Option<Role>, record: &Record) -> Piece {
    match (role, record.level) {
        (Some(Role::Level), Some(level)) => Piece::Level(level),
        (Some(Role::Time | Role::Target | Role::Module | Role::File | Role::Line), _) => Piece::Detail,
        _ => Piece::Plain,
    }
}

/// A time in a zone, written as another one is.
fn zoned_text(written: &[u8], unix_ns: u64, zone: &TimeZone, is_glog: bool) -> String {
    // Every u64 of nanoseconds lies before the year 2600.
    let time = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    let zoned = time.to_zoned(zone.clone());
    if is_glog {
        let date = if written.get(4) == Some(&b' ') {
            "%m%d"
        } else {
            "%Y%m%d"
        };
        return zoned.strftime(&format!("{date} %H:%M:%S.%6f")).to_string();
    }
    let separator = if written.get(10) == Some(&b' ') { ' ' } else { 'T' };
    let point = written.iter().position(|byte| matches!(byte, b'.' | b','));
    let fraction = written
        .get(point.map_or(written.len(), |point| point + 1)..)
        .unwrap_or_default();
    let digits = match written.get(4) == Some(&b'-') {
        true => fraction
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
            .min(9),
        false => 9,
    };
    let mut text = zoned
        .strftime(&format!("%Y-%m-%d{separator}%H:%M:%S"))
        .to_string();
    if digits > 0 {
        let nanos = format!("{:09}", zoned.subsec_nanosecond());
        let mark = point
            .and_then(|point| written.get(point))
            .filter(|mark| **mark == b',');
        text.push(mark.map_or('.', |_| ','));
        text.push_str(nanos.get(..digits).unwrap_or_default());
    }
    text.push_str(&match zoned.offset().is_zero() {
        true => "Z".to_owned(),
        false => zoned.strftime("%:z").to_string(),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a container's runtime wrote around the lines is no part of them, in whatever form they are shown.
    #[test]
    fn lines_of_docker_are_shown_as_those_of_their_program() {
        let record = b"{\"log\":\"{\\\"level\\\":\\\"warn\\\",\\\"msg\\\":\\\"slow\\\",\\\"n\\\":7}\\n\",\"stream\":\"stderr\",\"time\":\"2026-11-21T12:34:56.1Z\"}\n";
        let text = "2026-11-21T12:34:56.1Z WARN  slow n=7 stream=stderr\n";
        let json = "{\"ts\":\"2026-11-21T12:34:56.1Z\",\"level\":\"WARN\",\"message\":\"slow\",\"n\":7,\"stream\":\"stderr\"}\n";
        for (shape, expected) in [(Shape::Text, text), (Shape::Json, json)] {
            let mut out = Vec::new();
            Formatter::new().write(&mut out, shape, record, false);
            assert_eq!(String::from_utf8_lossy(&out), expected);
            let converted = Formatter::new().convert(record, shape, None);
            assert_eq!(String::from_utf8_lossy(&converted), expected);
        }
        let mut out = Vec::new();
        Formatter::new().write(&mut out, Shape::AsIs, record, false);
        assert_eq!(out, record);
    }

    #[test]
    fn times_are_shown_in_a_zone_in_their_own_form() {
        let zone = TimeZone::posix("CET-1").expect("a good zone");
        let mut formatter = Formatter::new();
        for (line, expected) in [
            (
                "2026-11-21T12:34:56.123456789Z INFO  x",
                "2026-11-21T13:34:56.123456789+01:00 INFO  x",
            ),
            (
                "[2026-11-21 12:34:56,5] [info] x",
                "[2026-11-21 13:34:56,5+01:00] [info] x",
            ),
            (
                "2026-11-21T12:34:56Z INFO  x",
                "2026-11-21T13:34:56+01:00 INFO  x",
            ),
            (
                r#"{"ts":"2026-11-21T12:34:56.5Z","level":"INFO","message":"x"}"#,
                r#"{"ts":"2026-11-21T13:34:56.5+01:00","level":"INFO","message":"x"}"#,
            ),
            (
                r#"{"level":"INFO","ts":1795264496,"msg":"x"}"#,
                r#"{"level":"INFO","ts":"2026-11-21T13:34:56.000000000+01:00","msg":"x"}"#,
            ),
            (
                "ts=2026-11-21T12:34:56Z level=info msg=x",
                "ts=2026-11-21T13:34:56+01:00 level=info msg=x",
            ),
            ("no time", "no time"),
        ] {
            let zoned = formatter.in_zone(line.as_bytes(), &zone);
            assert_eq!(String::from_utf8_lossy(&zoned), expected, "{line}");
        }
    }
}
