//! Parsing of records: a line in any of the known forms becomes the parts of a [`Record`].

use crate::escape::Writing;
use crate::foreign::bodies::java_util_level;
use crate::foreign::trace::level_of_unknown;
use crate::head::{Role, WEAK_KEYS, head_within, is_weak_key, level_of_value, read_head, time_of};
use crate::json::{elements, is_json, members_at};
use crate::line_head::{Form, Head};
use crate::pairs::{Style, read_pair};
use crate::part::{Pair, Part, Text};
use crate::record::{Field, Record};
use crate::times::Times;

impl Record {
    /// Takes a record apart: its first line, and whatever lines follow.
    pub(crate) fn read(&mut self, record: &[u8], times: &mut Times) {
        let kept = times.state;
        times.begin_record();
        let end = memchr::memchr(b'\n', record).unwrap_or(record.len());
        let mut first = record.get(..end).unwrap_or(record);
        first = first.strip_suffix(b"\r").unwrap_or(first);
        self.clear();
        match read_head(first, times) {
            None => {
                self.lines.first_bytes = first.len();
                if first.first() == Some(&b'{') && is_json(first) {
                    self.form = Form::Json;
                    self.read_object(first, 0, times);
                    times.state = kept;
                    return;
                }
                self.level = level_of_unknown(first);
                self.message = Text::new(Part::new(0, first.len()), Writing::Verbatim);
            }
            Some(head) => {
                if head.is_level_behind() && end < record.len() {
                    first = with_next_line(record, end);
                }
                self.lines.first_bytes = first.len();
                self.take_head(&head);
                self.read_body(&head, first, 0, times);
            }
        }
        // Records are taken apart when lines behind them were read.
        times.state = kept;
    }

    /// Takes a line apart that begins at an offset, and whose head was read.
    fn read_body(&mut self, head: &Head, line: &[u8], at: usize, times: &mut Times) {
        match head.form {
            Form::Text => crate::text::read_text(self, line),
            Form::Glog => crate::text::read_glog(self, line),
            Form::Json => self.read_object(line, at, times),
            Form::Foreign(form) => crate::foreign::bodies::read(self, form, line, at, times),
            Form::Logfmt | Form::Unknown => {
                self.read_logfmt(line, at);
                self.take_weak_roles(line, times);
            }
        }
    }

    /// Takes the line of a program apart that stands in that of another one, such as syslog. Time and level of the outer
    /// line stay.
    pub(crate) fn read_within(&mut self, line: &[u8], at: usize, times: &mut Times) {
        let inner = line.get(at..).unwrap_or(b"");
        let head = match head_within(inner, times) {
            Some(head) => head.shifted(at),
            // Without a time and a level, too, its members are fields.
            None if inner.first() == Some(&b'{') && is_json(inner) => Head::of_object(),
            None => {
                self.message = Text::new(Part::new(at.min(line.len()), line.len()), Writing::Verbatim);
                return;
            }
        };
        let (time, level, level_part) = (self.time, self.level, self.level_part);
        (self.time, self.level, self.level_part) = (head.time, head.level, head.level_part);
        times.depth += 1;
        self.read_body(&head, line, at, times);
        times.depth -= 1;
        (self.time, self.level_part) = (time, level_part);
        self.level = level.or(self.level);
    }

    /// Takes a line of JSON apart.
    fn read_object(&mut self, line: &[u8], at: usize, times: &mut Times) {
        if self.lines.is_strict && !is_json(line.get(at..).unwrap_or(b"")) {
            self.message = Text::new(Part::new(at, line.len()), Writing::Verbatim);
            return;
        }
        self.read_members(line, at, true);
        self.take_weak_roles(line, times);
        // A line of a program in a file of Docker, which ends with a line break.
        let part = self.message.part;
        let text = part.of(line).strip_suffix(b"\\n").unwrap_or(part.of(line));
        let is_docker = self.message.writing == Writing::Json
            && line.get(part.start().saturating_sub(7)..part.start()) == Some(b"\"log\":\"")
            && self.module.is_empty();
        if is_docker {
            (self.lines.is_wrapped, self.lines.is_partial) = (true, text.len() == part.of(line).len());
            let end = part.start() + text.len();
            self.message.part = Part::new(part.start(), end);
            if memchr::memchr(b'\\', text).is_none() {
                self.read_within(line.get(..end).unwrap_or(line), part.start(), times);
            }
        }
    }

    /// Gives roles that no key has to keys that may have them.
    fn take_weak_roles(&mut self, line: &[u8], times: &mut Times) {
        for (role, keys) in &WEAK_KEYS {
            let is_taken = match role {
                Role::Time => !self.time.is_empty(),
                Role::Level => !self.level_part.is_empty(),
                Role::Thread => !self.thread.is_empty(),
                Role::Target => !self.module.is_empty(),
                Role::Message => !self.message.is_empty(),
                _ => !self.file.is_empty(),
            };
            if is_taken {
                continue;
            }
            let fields = &self.fields;
            let found = keys.iter().filter(|key| is_weak_key(line, key)).find_map(|key| {
                let is_one = |field: &Field| field.span.is_none() && field.key.part.of(line) == *key;
                fields.iter().position(is_one)
            });
            let Some(field) = found.and_then(|at| self.fields.get(at).map(|field| (at, field.value))) else {
                continue;
            };
            let will_do = match role {
                Role::Level => level_of_value(line, field.1).is_some(),
                Role::Time => time_of(line, field.1, times).is_some(),
                _ => field.1.writing != Writing::JsonValue,
            };
            if will_do && self.take_role(*role, field.1, line) {
                self.fields.remove(field.0);
            }
        }
    }

    fn read_members(&mut self, line: &[u8], at: usize, outermost: bool) {
        for Pair { key, value, .. } in members_at(line, at).into_iter().flatten() {
            let is_nested =
                value.writing == Writing::JsonValue && line.get(value.part.start()) == Some(&b'{');
            match Role::of(key.of(line)) {
                Some(Role::Spans) if self.read_spans(line, value.part.start()) => {}
                Some(role) if self.take_role(role, value, line) => {}
                // The formatter of `tracing-subscriber` keeps all fields in one object.
                _ if outermost && is_nested && matches!(key.of(line), b"fields" | b"log") => {
                    self.read_members(line, value.part.start(), false);
                }
                _ => self.push_field(Text::new(key, Writing::Json), value, None),
            }
        }
    }

    /// Reads an array of objects with a name. `false` when it is not one.
    fn read_spans(&mut self, line: &[u8], at: usize) -> bool {
        let mut found = false;
        for element in elements(line, at) {
            let Some(members) = members_at(line, element.part.start()) else {
                continue;
            };
            let is_name = |pair: &Pair| pair.key.of(line) == b"name";
            let name = members.clone().find(is_name);
            let Some(number) = self.push_span(name.map(|pair| pair.value).unwrap_or_default()) else {
                break;
            };
            found = true;
            for Pair { key, value, .. } in members.filter(|pair| !is_name(pair)) {
                self.push_field(Text::new(key, Writing::Json), value, Some(number));
            }
        }
        found
    }

    fn read_logfmt(&mut self, line: &[u8], at: usize) {
        let mut at = at;
        while at < line.len() {
            match read_pair(line, at, Style::Logfmt) {
                Some(pair) => {
                    let role = Role::of(pair.key.of(line)).filter(|role| *role != Role::Spans);
                    if !role.is_some_and(|role| self.take_role(role, pair.value, line)) {
                        self.push_field(Text::in_text(pair.key), pair.value, None);
                    }
                    at = pair.next;
                }
                // A word without a value has nothing to search for.
                None => {
                    let end = memchr::memchr(b' ', line.get(at..).unwrap_or(b""))
                        .map_or(line.len(), |word| at + word);
                    if self.lines.is_strict && end > at {
                        self.push_field(Text::in_text(Part::new(at, end)), Text::default(), None);
                    }
                    at = end + 1;
                }
            }
        }
    }

    /// Takes the value of a key with a role; `false` when the role is taken, so that it is a field.
    fn take_role(&mut self, role: Role, value: Text, line: &[u8]) -> bool {
        let place = match role {
            Role::Time => return take_first(&mut self.time, value.part),
            Role::Line => return take_first(&mut self.line, value.part),
            Role::Level => {
                let is_first = take_first(&mut self.level_part, value.part);
                if is_first {
                    self.level = level_of_value(line, value);
                }
                return is_first;
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

/// The first two lines of a record, where the level stands in the second one.
fn with_next_line(record: &[u8], end: usize) -> &[u8] {
    let second = record.get(end + 1..).unwrap_or(b"");
    if java_util_level(second).is_none() {
        return record.get(..end).unwrap_or(record);
    }
    let length = memchr::memchr(b'\n', second).unwrap_or(second.len());
    let both = record.get(..end + 1 + length).unwrap_or(record);
    both.strip_suffix(b"\r").unwrap_or(both)
}

/// Takes a part, if there is none yet.
fn take_first(place: &mut Part, part: Part) -> bool {
    let is_first = place.is_empty();
    if is_first {
        *place = part;
    }
    is_first
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use logdrive_wire::Level;
    use std::fmt::Write;

    /// A record on one line, for comparing.
    fn shown(line: &str) -> String {
        let bytes = line.as_bytes();
        let mut record = Record::default();
        record.read(bytes, &mut Times::new(TimeZone::UTC));
        let text = |text: Text| String::from_utf8_lossy(&text.plain(bytes)).into_owned();
        let mut shown = format!("{:?}", record.level.map(Level::name).unwrap_or("-"));
        if !record.process.app.is_empty() {
            let _ = write!(
                shown,
                " {}/{}",
                text(Text::in_text(record.process.app)),
                text(Text::in_text(record.process.pid))
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

    #[test]
    fn lines_of_the_text_layout_are_taken_apart() {
        for (rest, expected) in [
            (
                "INFO  main app::net net.rs:42 connected to 10.0.0.1:80 peer=7 name=\"a b\"",
                "INFO main app::net net.rs 42 [connected to 10.0.0.1:80] peer=7 name=a b",
            ),
            (
                "DEBUG tokio worker 3 app a.rs:1 x=1",
                "DEBUG tokio worker 3 app a.rs 1 [] x=1",
            ),
            ("DEBUG 4711 a.rs:1 hello", "DEBUG 4711 - a.rs 1 [hello]"),
            (
                "INFO  shop[4711]/worker 3 app::net net.rs:42 hello",
                "INFO shop/4711 worker 3 app::net net.rs 42 [hello]",
            ),
            (
                "INFO  a[0]/b[x]/c app::net net.rs:42 hello",
                "INFO a[0]/b[x]/c app::net net.rs 42 [hello]",
            ),
            (
                "WARN  logdrive logdrive 12 records dropped: ring full",
                "WARN logdrive logdrive - - [12 records dropped: ring full]",
            ),
            (
                "TRACE t q::c c.rs:9 conn{id=3 side=\"the server\"}:path{n=1}: sent bytes=1200",
                "TRACE t q::c c.rs 9 <conn> <path> [sent] 0.id=3 0.side=the server 1.n=1 bytes=1200",
            ),
            (
                "TRACE t q c.rs:9 a{v=\"x\"}:b: m",
                "TRACE t q c.rs 9 <a> <b> [m] 0.v=x",
            ),
            ("TRACE t q c.rs:9 a{v={}}: m", "TRACE t q c.rs 9 <a> [m] 0.v={}"),
            (
                "TRACE t q c.rs:9 first recv:frame{ty=CRYPTO}: consumed 284 bytes",
                "TRACE t q c.rs 9 <first recv> <frame> [consumed 284 bytes] 1.ty=CRYPTO",
            ),
            (
                "INFO  t q c.rs:9 note: not a span k=1",
                "INFO t q c.rs 9 [note: not a span] k=1",
            ),
            ("INFO  t q c.rs:9 a{b: c", "INFO t q c.rs 9 [a{b: c]"),
            (
                r"INFO  t q c.rs:9 two\nlines of C:\\x",
                "INFO t q c.rs 9 [two\nlines of C:\\x]",
            ),
            ("INFO  main app a.rs:1", "INFO main app a.rs 1 []"),
            ("INFO  main", "INFO - - - - [main]"),
        ] {
            assert_eq!(
                shown(&format!("2026-11-21T12:34:56.123456789Z {rest}")),
                expected,
                "{rest}"
            );
        }
    }

    #[test]
    fn lines_of_other_loggers_give_what_they_have() {
        for (line, expected) in [
            (
                "2026-11-21T12:34:56.123456Z  INFO app::net: connected peer=7",
                "INFO - app::net - - [connected] peer=7",
            ),
            (
                "[2026-11-21 12:34:56.123] [info] hello world again",
                "INFO - - - - [hello world again]",
            ),
            (
                "2026-11-21 12:34:56,123 hello to all of you",
                "- - - - - [hello to all of you]",
            ),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }

    #[test]
    fn lines_of_glog_are_taken_apart() {
        for (line, expected) in [
            (
                "I20261121 12:34:56.123456   417 net.cc:42] connected peer=7",
                "INFO 417 - net.cc 42 [connected] peer=7",
            ),
            ("E1121 12:34:56.123456 417 a/b.cc:1] ", "ERROR 417 - a/b.cc 1 []"),
            (
                "E20261121 12:34:56.123456 no bracket here",
                "ERROR - - - - [no bracket here]",
            ),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }
}
