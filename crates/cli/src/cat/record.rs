//! A record taken apart: where in its line the thread, the module, the message and the fields stand.
//!
//! Nothing is copied: parts are places in the line, and one [`Record`] is used for all records in turn.

use super::head::{Form, Head, Role, level_of_value, read_head};
use super::json::{Members, elements};
use super::pairs::{Pair, Style, read_pair};
use crate::escape::{Writing, plain};
use crate::instant::Times;
use crate::limits::FIELDS_MAX;
use logdrive_wire::Level;
use std::borrow::Cow;

/// A place in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Part {
    start: u32,
    end: u32,
}

impl Part {
    /// From an offset up to another. Lines are shorter than `RECORD_BYTES_MAX`, so their offsets fit.
    pub(super) fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    pub(super) fn end(self) -> usize {
        self.end as usize
    }

    pub(super) fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// What stands there.
    pub(super) fn of(self, line: &[u8]) -> &[u8] {
        line.get(self.start()..self.end()).unwrap_or(b"")
    }
}

/// A piece of text in a line, and how it is written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Text {
    pub(super) part: Part,
    pub(super) writing: Writing,
}

impl Text {
    /// With the escapes of text.
    pub(super) fn in_text(part: Part) -> Self {
        Self {
            part,
            writing: Writing::Text,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self.part.is_empty()
    }

    /// What was logged.
    pub(super) fn plain(self, line: &[u8]) -> Cow<'_, [u8]> {
        plain(self.part.of(line), self.writing)
    }
}

/// A field of a record, or of a span around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) key: Text,
    pub(super) value: Text,
    /// The number of its span.
    pub(super) span: Option<u8>,
}

/// A record.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) form: Form,
    pub(super) unix_ns: Option<u64>,
    pub(super) level: Option<Level>,
    /// Time and level as they stand in the line; only in text and glog.
    pub(super) time: Part,
    pub(super) level_part: Part,
    /// Of a line that names its process before its thread, `app[pid]/thread`; with keys for them they are fields.
    pub(super) app: Part,
    pub(super) pid: Part,
    pub(super) thread: Text,
    pub(super) module: Text,
    pub(super) file: Text,
    pub(super) line: Part,
    /// Spans before the message, in text: up to the colon and space.
    pub(super) spans_part: Part,
    pub(super) span_names: Vec<Text>,
    pub(super) message: Text,
    pub(super) fields: Vec<Field>,
    /// Memory for pairs behind the message, kept from record to record.
    pub(super) pairs: Vec<Pair>,
    /// The length of the record's first line, without its end.
    pub(super) line_length: usize,
}

impl Record {
    /// Takes a record apart: its first line, and whatever lines follow.
    pub(super) fn read(&mut self, record: &[u8], times: &mut Times) {
        let end = memchr::memchr(b'\n', record).unwrap_or(record.len());
        let first = record.get(..end).unwrap_or(record);
        let first = first.strip_suffix(b"\r").unwrap_or(first);
        self.clear();
        self.line_length = first.len();
        match read_head(first, times) {
            None => {
                self.message = Text {
                    part: Part::new(0, first.len()),
                    writing: Writing::Verbatim,
                }
            }
            Some(head) => {
                self.take_head(&head);
                match head.form {
                    Form::Text => super::text::read_text(self, first),
                    Form::Glog => super::text::read_glog(self, first),
                    Form::Json => self.read_json(first),
                    Form::Logfmt | Form::Unknown => self.read_logfmt(first),
                }
            }
        }
    }

    /// Back to nothing, but with its memory.
    fn clear(&mut self) {
        let mut kept = std::mem::take(self);
        kept.fields.clear();
        kept.span_names.clear();
        self.fields = kept.fields;
        self.span_names = kept.span_names;
        self.pairs = kept.pairs;
    }

    /// Takes the whole first line for the message, because it is not what it seemed to be.
    pub(super) fn forget_parts(&mut self) {
        let (unix_ns, level, line_length) = (self.unix_ns, self.level, self.line_length);
        self.clear();
        (self.unix_ns, self.level, self.line_length) = (unix_ns, level, line_length);
        self.message = Text {
            part: Part::new(0, line_length),
            writing: Writing::Verbatim,
        };
    }

    fn take_head(&mut self, head: &Head) {
        self.form = head.form;
        self.unix_ns = Some(head.unix_ns);
        self.level = head.level;
        self.time = head.time;
        self.level_part = head.level_part;
    }

    /// What follows the first line, without the last line's end.
    pub(super) fn further_lines<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        let rest = record.get(self.line_length..).unwrap_or(b"");
        let rest = rest.strip_prefix(b"\r").unwrap_or(rest);
        let rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        rest.strip_suffix(b"\n").unwrap_or(rest)
    }

    /// Adds a field, as long as there is room.
    pub(super) fn push_field(&mut self, key: Text, value: Text, span: Option<u8>) {
        if self.fields.len() < FIELDS_MAX {
            self.fields.push(Field { key, value, span });
        }
    }

    /// Begins a span; `None` when there are too many.
    pub(super) fn push_span(&mut self, name: Text) -> Option<u8> {
        let number = u8::try_from(self.span_names.len()).ok()?;
        self.span_names.push(name);
        Some(number)
    }

    fn read_json(&mut self, line: &[u8]) {
        self.read_members(line, 0, true);
    }

    fn read_members(&mut self, line: &[u8], at: usize, outermost: bool) {
        for (key, value) in Members::new(line, at).into_iter().flatten() {
            let is_nested =
                value.writing == Writing::JsonValue && line.get(value.part.start()) == Some(&b'{');
            match Role::of(key.of(line)) {
                Some(Role::Spans) if self.read_spans(line, value.part.start()) => {}
                Some(role) if self.take_role(role, value, line) => {}
                // The formatter of `tracing-subscriber` keeps all fields in one object.
                _ if outermost && is_nested && key.of(line) == b"fields" => {
                    self.read_members(line, value.part.start(), false);
                }
                _ => self.push_field(
                    Text {
                        part: key,
                        writing: Writing::Json,
                    },
                    value,
                    None,
                ),
            }
        }
    }

    /// Reads an array of objects with a name. `false` when it is not one.
    fn read_spans(&mut self, line: &[u8], at: usize) -> bool {
        let mut found = false;
        for element in elements(line, at) {
            let Some(members) = Members::new(line, element.part.start()) else {
                continue;
            };
            let name = members.clone().find(|(key, _)| key.of(line) == b"name");
            let Some(number) = self.push_span(name.map(|(_, value)| value).unwrap_or_default()) else {
                break;
            };
            found = true;
            for (key, value) in members.filter(|(key, _)| key.of(line) != b"name") {
                self.push_field(
                    Text {
                        part: key,
                        writing: Writing::Json,
                    },
                    value,
                    Some(number),
                );
            }
        }
        found
    }

    fn read_logfmt(&mut self, line: &[u8]) {
        let mut at = 0;
        while at < line.len() {
            match read_pair(line, at, Style::Logfmt) {
                Some(pair) => {
                    let role = Role::of(pair.key.of(line)).filter(|role| *role != Role::Spans);
                    if !role.is_some_and(|role| self.take_role(role, pair.value, line)) {
                        self.push_field(Text::in_text(pair.key), pair.value, None);
                    }
                    at = pair.next;
                }
                // A word without a value says nothing that could be looked for.
                None => {
                    at = memchr::memchr(b' ', line.get(at..).unwrap_or(b""))
                        .map_or(line.len(), |word| at + word + 1)
                }
            }
        }
    }

    /// Takes the value of a key with a role; `false` when the role is taken, so that it is a field.
    fn take_role(&mut self, role: Role, value: Text, line: &[u8]) -> bool {
        let place = match role {
            Role::Time => {
                let first = self.time.is_empty();
                if first {
                    self.time = value.part;
                }
                return first;
            }
            Role::Level => {
                let first = self.level_part.is_empty();
                if first {
                    self.level_part = value.part;
                    self.level = level_of_value(line, value);
                }
                return first;
            }
            Role::Line => {
                let first = self.line.is_empty();
                if first {
                    self.line = value.part;
                }
                return first;
            }
            Role::File => return self.take_file(value, line),
            Role::Thread => &mut self.thread,
            // The target stands in the module's place, as in the text layout.
            Role::Target => {
                self.module = value;
                return true;
            }
            Role::Module if !self.module.is_empty() => return true,
            Role::Module => &mut self.module,
            Role::Message => &mut self.message,
            Role::Spans => return false,
        };
        let first = place.is_empty();
        if first {
            *place = value;
        }
        first
    }

    /// A file, which may have its line behind it: `net.rs:42`.
    fn take_file(&mut self, value: Text, line: &[u8]) -> bool {
        if !self.file.is_empty() {
            return false;
        }
        self.file = value;
        let text = value.part.of(line);
        if let Some(colon) = memchr::memrchr(b':', text)
            && let Some(number) = text.get(colon + 1..)
            && !number.is_empty()
            && number.iter().all(u8::is_ascii_digit)
        {
            let start = value.part.start();
            self.file.part = Part::new(start, start + colon);
            self.line = Part::new(start + colon + 1, value.part.end());
        }
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use std::fmt::Write;

    /// A record on one line, for comparing.
    pub(in crate::cat) fn shown(line: &str) -> String {
        let bytes = line.as_bytes();
        let mut record = Record::default();
        record.read(bytes, &mut Times::new(TimeZone::UTC));
        let text = |text: Text| String::from_utf8_lossy(&text.plain(bytes)).into_owned();
        let mut shown = format!("{:?}", record.level.map(Level::name).unwrap_or("-"));
        if !record.app.is_empty() {
            let _ = write!(
                shown,
                " {}/{}",
                text(Text::in_text(record.app)),
                text(Text::in_text(record.pid))
            );
        }
        for part in [
            record.thread,
            record.module,
            record.file,
            Text::in_text(record.line),
        ] {
            let _ = write!(
                shown,
                " {}",
                if part.is_empty() {
                    "-".to_owned()
                } else {
                    text(part)
                }
            );
        }
        for name in &record.span_names {
            let _ = write!(shown, " <{}>", text(*name));
        }
        let _ = write!(shown, " [{}]", text(record.message));
        for field in &record.fields {
            let span = field.span.map_or(String::new(), |span| format!("{span}."));
            let _ = write!(shown, " {span}{}={}", text(field.key), text(field.value));
        }
        shown.replace('"', "")
    }

    #[test]
    fn json_lines_of_logdrive_are_taken_apart() {
        let line = r#"{"ts":"2026-11-21T12:34:56.123456789Z","level":"INFO","thread":"main","target":"net","module":"a::b","file":"src/n.rs","line":4,"message":"to \"x\"","peer":7,"name":"a b","none":null,"spans":[{"name":"outer","id":1},{"name":"inner"}]}"#;
        assert_eq!(
            shown(line),
            r#"INFO main net src/n.rs 4 <outer> <inner> [to x] peer=7 name=a b none=null 0.id=1"#
        );
    }

    #[test]
    fn json_lines_of_others_are_taken_apart() {
        let line = r#"{"timestamp":"2026-11-21T12:34:56Z","level":"WARN","fields":{"message":"slow","took_ms":31},"target":"app::db","spans":[{"name":"req","id":"x"}]}"#;
        assert_eq!(shown(line), "WARN - app::db - - <req> [slow] took_ms=31 0.id=x");
        let line =
            r#"{"level":"error","ts":1795264496.5,"caller":"app/main.go:17","msg":"no","message":"second"}"#;
        assert_eq!(shown(line), "ERROR - - app/main.go 17 [no] message=second");
    }

    #[test]
    fn logfmt_lines_are_taken_apart() {
        let line = r#"ts=2026-11-21T12:34:56.123456789Z level=info thread=main module=app caller=n.rs:42 msg="two\nlines" peer=7 flag path=C:\x name="a b""#;
        assert_eq!(
            shown(line),
            "INFO main app n.rs 42 [two\nlines] peer=7 path=C:\\x name=a b"
        );
    }

    #[test]
    fn a_line_of_no_form_is_all_message() {
        assert_eq!(shown("just some words a=1"), "- - - - - [just some words a=1]");
    }
}
