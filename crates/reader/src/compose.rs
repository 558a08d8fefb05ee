//! Records written anew: as a JSON line, and as a line of the text layout.

use crate::escape::{Writing, put_json, put_text, put_text_value};
use crate::part::{Part, Text};
use crate::pen::{Pen, Piece};
use crate::record::{Field, Record};
use crate::times::iso_text;
use logdrive_wire::Level;
use std::borrow::Cow;

/// Keys of a line of JSON or logfmt that are not fields, as the layouts have them.
const RESERVED: [&[u8]; 13] = [
    // Not reserved where the line does not name its process.
    b"app",
    b"pid",
    b"ts",
    b"level",
    b"thread",
    b"target",
    b"module",
    b"file",
    b"line",
    b"message",
    b"spans",
    b"malformed",
    b"cut",
];

/// Keys that a JSON line has already. One row of bytes serves all records.
#[derive(Debug, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn has(&self, name: &[u8]) -> bool {
        let mut start = 0;
        self.ends
            .iter()
            .any(|end| self.bytes.get(std::mem::replace(&mut start, *end)..*end) == Some(name))
    }

    /// The key itself, or with a number behind it where it is taken.
    fn unique<'a>(&mut self, key: &'a [u8], reserved: &[&[u8]]) -> Cow<'a, [u8]> {
        let mut unique = Cow::Borrowed(key);
        let mut number = 0;
        while reserved.contains(&&*unique) || self.has(&unique) {
            number += 1;
            unique = Cow::Owned([key, b"_", number.to_string().as_bytes()].concat());
        }
        self.bytes.extend_from_slice(&unique);
        self.ends.push(self.bytes.len());
        unique
    }
}

/// A record that is a JSON line stays as it is. Lines that belong to it are none, so they are left out of its object
/// and become one of their own.
pub(crate) fn keep_json(out: &mut Vec<u8>, bytes: &[u8], record: &Record) {
    out.extend_from_slice(bytes.get(..record.lines.first_bytes).unwrap_or(b""));
    let further = record.further_lines(bytes);
    if !further.is_empty() {
        out.extend_from_slice(b"\n{\"message\":\"");
        put_json(out, &further);
        out.extend_from_slice(b"\"}");
    }
    out.push(b'\n');
}

/// Fields that all lines of a file get behind their own ones: keys and texts.
pub(crate) type FileFields = Vec<(&'static str, String)>;

/// Writes a record as a JSON line, with the keys and in the order of the JSON layout.
pub(crate) fn json(out: &mut Vec<u8>, bytes: &[u8], record: &Record, names: &mut Names, common: &FileFields) {
    out.push(b'{');
    if let Some(unix_ns) = record.unix_ns {
        put_plain_member(out, b"ts", &time_text(bytes, record, unix_ns));
    }
    if let Some(level) = record.level {
        put_plain_member(out, b"level", level.name().as_bytes());
    }
    if !record.process.app.is_empty() {
        put_member(out, b"app", record.process.app.of(bytes));
    }
    let pid = record.process.pid.of(bytes);
    match is_number(pid) {
        true => put_number(out, b"pid", pid),
        false if !pid.is_empty() => put_member(out, b"pid", pid),
        false => {}
    }
    for (key, text) in [
        (&b"thread"[..], record.thread),
        (b"module", record.module),
        (b"file", record.file),
    ] {
        if !text.is_empty() {
            put_member(out, key, &text.plain(bytes));
        }
    }
    if !record.line.is_empty() && is_number(record.line.of(bytes)) {
        put_number(out, b"line", record.line.of(bytes));
    }
    out.extend_from_slice(b"\"message\":\"");
    put_json(out, &record.message.plain(bytes));
    let further = record.further_lines(bytes);
    if !further.is_empty() {
        put_json(out, record.break_before_further());
        put_json(out, &further);
    }
    out.push(b'"');
    names.clear();
    let reserved = match record.process.app.is_empty() && pid.is_empty() {
        true => &RESERVED[2..],
        false => &RESERVED,
    };
    for field in record.fields_of(None) {
        put_json_field(out, bytes, field, names, reserved);
    }
    for (key, value) in common {
        out.push(b',');
        put_key(out, &names.unique(key.as_bytes(), reserved));
        put_json_string(out, value.as_bytes());
    }
    put_json_spans(out, bytes, record, names);
    out.extend_from_slice(b"}\n");
}

fn put_json_spans(out: &mut Vec<u8>, bytes: &[u8], record: &Record, names: &mut Names) {
    for (number, name) in record.span_names.iter().enumerate() {
        let begin: &[u8] = if number == 0 { b",\"spans\":[" } else { b"," };
        out.extend_from_slice(begin);
        out.extend_from_slice(b"{\"name\":");
        put_json_string(out, &name.plain(bytes));
        names.clear();
        for field in record.fields_of(Some(number)) {
            put_json_field(out, bytes, field, names, &[b"name"]);
        }
        out.push(b'}');
    }
    if !record.span_names.is_empty() {
        out.push(b']');
    }
}

fn put_json_field(out: &mut Vec<u8>, bytes: &[u8], field: &Field, names: &mut Names, reserved: &[&[u8]]) {
    out.push(b',');
    let key = field.key.plain(bytes);
    put_key(out, &names.unique(&key, reserved));
    let written = field.value.part.of(bytes);
    let is_bare = matches!(field.value.writing, Writing::Text | Writing::Verbatim);
    if field.value.writing == Writing::JsonValue || (is_bare && is_json_word(written)) {
        out.extend_from_slice(written);
    } else {
        put_json_string(out, &field.value.plain(bytes));
    }
}

/// Writes a record as a line of logfmt, with the keys and in the order of that layout.
pub(crate) fn logfmt(
    out: &mut Vec<u8>,
    bytes: &[u8],
    record: &Record,
    names: &mut Names,
    common: &FileFields,
) {
    let start = out.len();
    let mut put = |key: &[u8], value: &[u8]| {
        if out.len() > start {
            out.push(b' ');
        }
        out.extend_from_slice(key);
        out.push(b'=');
        put_logfmt_value(out, value, false);
    };
    if let Some(unix_ns) = record.unix_ns {
        put(b"ts", &time_text(bytes, record, unix_ns));
    }
    if let Some(level) = record.level {
        put(b"level", level.name().to_ascii_lowercase().as_bytes());
    }
    if !record.process.app.is_empty() {
        put(b"app", record.process.app.of(bytes));
    }
    if !record.process.pid.is_empty() {
        put(b"pid", record.process.pid.of(bytes));
    }
    for (key, text) in [
        (&b"thread"[..], record.thread),
        (b"module", record.module),
        (b"file", record.file),
    ] {
        if !text.is_empty() {
            put(key, &text.plain(bytes));
        }
    }
    if !record.line.is_empty() && is_number(record.line.of(bytes)) {
        put(b"line", record.line.of(bytes));
    }
    let mut message = record.message.plain(bytes).into_owned();
    let further = record.further_lines(bytes);
    if !further.is_empty() {
        message.extend_from_slice(record.break_before_further());
        message.extend_from_slice(&further);
    }
    out.extend_from_slice(if out.len() > start {
        b" message="
    } else {
        b"message="
    });
    put_logfmt_value(out, &message, true);
    names.clear();
    let has_process = !(record.process.app.is_empty() && record.process.pid.is_empty());
    let reserved = match !has_process {
        true => &RESERVED[2..],
        false => &RESERVED,
    };
    let fields = record.fields_of(None).filter(|field| !is_absent(field, bytes));
    for field in fields {
        put_logfmt_field(out, bytes, field, names, reserved);
    }
    for (key, value) in common {
        out.push(b' ');
        out.extend_from_slice(&names.unique(key.as_bytes(), reserved));
        out.push(b'=');
        put_logfmt_value(out, value.as_bytes(), false);
    }
    for number in 0..record.span_names.len() {
        for field in record
            .fields_of(Some(number))
            .filter(|field| !is_absent(field, bytes))
        {
            put_logfmt_field(out, bytes, field, names, reserved);
        }
    }
    out.push(b'\n');
}

fn put_logfmt_field(out: &mut Vec<u8>, bytes: &[u8], field: &Field, names: &mut Names, reserved: &[&[u8]]) {
    out.push(b' ');
    let key = field.key.plain(bytes);
    let key = names.unique(&key, reserved);
    // A key cannot be quoted.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'=' | b'"');
    out.extend(key.iter().map(|byte| if is_plain(*byte) { *byte } else { b'_' }));
    out.push(b'=');
    put_logfmt_value(out, &field.value.plain(bytes), false);
}

/// Writes a value, between quotes where it would not be clear where it ends.
fn put_logfmt_value(out: &mut Vec<u8>, value: &[u8], quoted: bool) {
    let is_bare = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'=' | b'"');
    match !quoted && !value.is_empty() && value.iter().all(is_bare) {
        true => out.extend_from_slice(value),
        false => put_json_string(out, value),
    }
}

/// Writes a member that is a string, and the comma behind it.
fn put_member(out: &mut Vec<u8>, key: &[u8], text: &[u8]) {
    put_plain_key(out, key);
    put_json_string(out, text);
    out.push(b',');
}

/// The same with text that has nothing to escape.
fn put_plain_member(out: &mut Vec<u8>, key: &[u8], text: &[u8]) {
    put_plain_key(out, key);
    out.push(b'"');
    out.extend_from_slice(text);
    out.extend_from_slice(b"\",");
}

fn put_number(out: &mut Vec<u8>, key: &[u8], digits: &[u8]) {
    put_plain_key(out, key);
    out.extend_from_slice(digits);
    out.push(b',');
}

/// Writes a key that has nothing to escape.
fn put_plain_key(out: &mut Vec<u8>, key: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(key);
    out.extend_from_slice(b"\":");
}

fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    put_json_string(out, key);
    out.push(b':');
}

fn put_json_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    put_json(out, text);
    out.push(b'"');
}

/// Whether text that stood without quotes means a number or a truth in JSON, too.
fn is_json_word(text: &[u8]) -> bool {
    matches!(text, b"true" | b"false") || is_number(text)
}

/// Whether text is what JSON calls a number, if it is finite. Whole numbers of more than 64 bits are strings, as in the
/// JSON layout, because most readers would round them.
pub(crate) fn is_number(text: &[u8]) -> bool {
    let is_bare = matches!(text, [b'-' | b'0'..=b'9', ..]) && text.last().is_some_and(u8::is_ascii_digit);
    // Eighteen digits fit into 64 bits, whatever they are; addresses and versions have more points than a number.
    if is_bare && text.len() <= 18 && text.iter().all(u8::is_ascii_digit) {
        return text.len() == 1 || text.first() != Some(&b'0');
    }
    let is_whole = || !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    is_bare
        && text.iter().filter(|byte| **byte == b'.').count() <= 1
        && serde_json::from_slice::<serde_json::Number>(text)
            .is_ok_and(|number| !number.is_f64() || text == b"-0" || !is_whole())
}

/// The time as it stands where it has the form and the zone of the layouts, else written anew in UTC.
fn time_text<'a>(bytes: &'a [u8], record: &Record, unix_ns: u64) -> Cow<'a, [u8]> {
    let written = record.time.of(bytes);
    let has_form = written.get(10) == Some(&b'T') && written.get(4) == Some(&b'-');
    let has_zone = match written.split_at_checked(19) {
        Some((_, [.., b'Z'])) => true,
        Some((_, rest)) => rest.contains(&b'+') || rest.contains(&b'-'),
        None => false,
    };
    if has_form && has_zone {
        return Cow::Borrowed(written);
    }
    Cow::Owned(iso_text(unix_ns).into_bytes())
}

/// Writes a record as a line of the text layout, without its end.
pub(crate) fn text(pen: &mut impl Pen, bytes: &[u8], record: &Record) {
    if let Some(unix_ns) = record.unix_ns {
        pen.put(Piece::Detail, &time_text(bytes, record, unix_ns));
    }
    let name = record.level.map_or("-", Level::name);
    pen.put(Piece::Plain, b" ");
    pen.put(record.level.map_or(Piece::Detail, Piece::Level), name.as_bytes());
    // Levels are padded, so that what follows stands in a column.
    pen.put(Piece::Plain, b"     ".get(name.len()..).unwrap_or(b""));
    let mut word = Vec::new();
    let thread = match record.process.app.is_empty() {
        true => record.thread,
        false => Text::in_text(Part::new(record.process.app.start(), record.thread.part.end())),
    };
    put_word(pen, &mut word, Piece::Plain, bytes, thread);
    put_word(pen, &mut word, Piece::Detail, bytes, record.module);
    put_place(pen, bytes, record);
    if !record.message.is_empty() || !record.span_names.is_empty() {
        pen.put(Piece::Plain, b" ");
    }
    put_spans(pen, bytes, record);
    word.clear();
    put_text(&mut word, &record.message.plain(bytes), false);
    pen.put(Piece::Plain, &word);
    for field in record.fields_of(None).filter(|field| !is_absent(field, bytes)) {
        pen.put(Piece::Plain, b" ");
        put_field(pen, &mut word, bytes, field);
    }
}

fn put_word(pen: &mut impl Pen, word: &mut Vec<u8>, piece: Piece, bytes: &[u8], text: Text) {
    if !text.is_empty() {
        word.clear();
        put_text(word, &text.plain(bytes), false);
        pen.put(Piece::Plain, b" ");
        pen.put(piece, word);
    }
}

/// ` net.rs:42`
fn put_place(pen: &mut impl Pen, bytes: &[u8], record: &Record) {
    let path = record.file.plain(bytes);
    let name = path
        .rsplit(|byte| matches!(byte, b'/' | b'\\'))
        .next()
        .unwrap_or(&path);
    if name.is_empty() {
        return;
    }
    let mut place = b" ".to_vec();
    put_text(&mut place, name, false);
    if !record.line.is_empty() {
        place.push(b':');
        place.extend_from_slice(record.line.of(bytes));
    }
    pen.put(Piece::Detail, &place);
}

/// `outer{key=value}:inner: `
fn put_spans(pen: &mut impl Pen, bytes: &[u8], record: &Record) {
    let mut word = Vec::new();
    for (number, name) in record.span_names.iter().enumerate() {
        word.clear();
        put_text(&mut word, &name.plain(bytes), false);
        pen.put(Piece::Plain, &word);
        let mut before = b"{";
        let fields = record.fields_of(Some(number));
        for field in fields.filter(|field| !is_absent(field, bytes)) {
            pen.put(Piece::Plain, before);
            put_field(pen, &mut word, bytes, field);
            before = b" ";
        }
        pen.put(Piece::Plain, if before == b" " { b"}:" } else { b":" });
    }
    if !record.span_names.is_empty() {
        pen.put(Piece::Plain, b" ");
    }
}

/// Text leaves out what JSON calls null.
fn is_absent(field: &Field, bytes: &[u8]) -> bool {
    field.value.writing == Writing::JsonValue && field.value.part.of(bytes) == b"null"
}

fn put_field(pen: &mut impl Pen, word: &mut Vec<u8>, bytes: &[u8], field: &Field) {
    word.clear();
    for part in field
        .key
        .plain(bytes)
        .split_inclusive(|byte| matches!(byte, b' ' | b'"' | b'='))
    {
        match part.split_last() {
            Some((last @ (b' ' | b'"' | b'='), before)) => {
                put_text(word, before, false);
                word.extend_from_slice(format!("\\x{last:02x}").as_bytes());
            }
            _ => put_text(word, part, false),
        }
    }
    pen.put(Piece::Key, word);
    pen.put(Piece::Detail, b"=");
    word.clear();
    put_text_value(word, field.value.part.of(bytes), field.value.writing);
    pen.put(Piece::Plain, word);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_json_are_told_from_words() {
        for text in [
            "0",
            "-0",
            "7",
            "-12",
            "1.5",
            "0.1",
            "1e9",
            "-1.5E-3",
            "18446744073709551615",
            "true",
            "false",
        ] {
            assert!(is_json_word(text.as_bytes()), "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "-",
            "01",
            "1.",
            "1.e3",
            "+1",
            "1e",
            "NaN",
            "inf",
            "0x1",
            "18446744073709551616",
            "null",
            "e1",
            ".5",
            "1-2",
            "1e999",
        ] {
            assert!(!is_json_word(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn keys_that_are_taken_get_a_number() {
        let mut names = Names::default();
        let unique = ["id", "level", "id", "id_1", "level_1"]
            .map(|key| String::from_utf8_lossy(&names.unique(key.as_bytes(), &RESERVED)).into_owned());
        assert_eq!(unique, ["id", "level_1", "id_1", "id_1_1", "level_1_1"]);
    }
}
