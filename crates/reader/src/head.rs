//! The head of a line: whether a record begins here, in which form, when it was and how severe it is.
//!
//! This runs over every line of the input, so the forms that Logdrive writes itself come first and cost some compares.

use crate::escape::Writing;
use crate::json::members_at;
use crate::pairs::logfmt_pairs;
use crate::part::{Pair, Part, Text};
use crate::times::{Times, from_number};
use logdrive_wire::Level;

/// Pairs of a logfmt line that are searched for time and level.
const HEAD_PAIRS_MAX: usize = 8;

/// Words behind the time that are searched for a level.
const LEVEL_WORDS_MAX: usize = 3;

/// Form in which a record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// Time, level, and text that may be Logdrive's.
    Text,
    /// As glog writes.
    Glog,
    /// A JSON object.
    Json,
    /// Pairs of key and value.
    Logfmt,
    /// Nothing that is known; lines before the first record.
    #[default]
    Unknown,
}

/// Facts of the head of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) form: Form,
    pub(crate) unix_ns: u64,
    pub(crate) level: Option<Level>,
    /// Part that is the time, in text and glog.
    pub(crate) time: Part,
    pub(crate) level_part: Part,
}

/// Reads a line's head; `None` for a line that belongs to the record before.
#[inline]
pub(crate) fn read_head(line: &[u8], times: &mut Times) -> Option<Head> {
    match line.first()? {
        b'0'..=b'9' => read_text(line, 0, times),
        b'{' => read_json(line, times),
        b'I' | b'W' | b'E' | b'F' | b'D' | b'T' if line.get(1).is_some_and(u8::is_ascii_digit) => {
            read_glog(line, times)
        }
        b'[' => read_text(line, 1, times),
        b'a'..=b'z' | b'A'..=b'Z' | b'@' | b'_' => read_logfmt(line, times),
        _ => None,
    }
}

/// `2026-11-21T12:34:56.123456789Z INFO  ...`
#[inline]
fn read_text(line: &[u8], at: usize, times: &mut Times) -> Option<Head> {
    let (unix_ns, length) = times.read_iso(line.get(at..)?)?;
    let end = at + length;
    let (level, level_part) = match own_level(line, end) {
        Some(found) => found,
        None => find_level(line, end),
    };
    Some(Head {
        form: Form::Text,
        unix_ns,
        level,
        time: Part::new(at, end),
        level_part,
    })
}

/// The level behind a space, as Logdrive writes it.
#[inline]
fn own_level(line: &[u8], end: usize) -> Option<(Option<Level>, Part)> {
    let six: &[u8; 6] = line.get(end + 1..)?.first_chunk()?;
    let level = match six {
        b"INFO  " => Level::Info,
        b"DEBUG " => Level::Debug,
        b"TRACE " => Level::Trace,
        b"WARN  " => Level::Warn,
        b"ERROR " => Level::Error,
        b"FATAL " => Level::Fatal,
        _ => return None,
    };
    Some((Some(level), Part::new(end + 1, end + 1 + level.name().len())))
}

/// The level among the next words: the first word, or one in capitals or brackets, so that `failed with error` is none.
fn find_level(line: &[u8], end: usize) -> (Option<Level>, Part) {
    let mut at = end;
    for number in 0..LEVEL_WORDS_MAX {
        let rest = line.get(at..).unwrap_or(b"");
        let start = at
            + rest
                .iter()
                .take_while(|byte| !byte.is_ascii_alphanumeric())
                .count();
        let rest = line.get(start..).unwrap_or(b"");
        let word_end = start + rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let word = line.get(start..word_end).unwrap_or(b"");
        let ends = matches!(
            line.get(word_end),
            None | Some(b' ' | b'\t' | b'\r' | b']' | b':' | b'|' | b')' | b'>')
        );
        let bracketed = start > 0 && matches!(line.get(start - 1), Some(b'[' | b'<' | b'('));
        let stands_out = number == 0 || bracketed || word.iter().all(u8::is_ascii_uppercase);
        if let Some(level) = level_of(word).filter(|_| ends && stands_out) {
            return (Some(level), Part::new(start, word_end));
        }
        let rest = line.get(word_end..).unwrap_or(b"");
        at = word_end + rest.iter().take_while(|byte| **byte != b' ').count();
    }
    (None, Part::new(end, end))
}

/// A level by the names that loggers use.
pub(crate) fn level_of(word: &[u8]) -> Option<Level> {
    // A level's name is short, and most words are not levels.
    if !(1..=11).contains(&word.len()) {
        return None;
    }
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    match word.first()?.to_ascii_lowercase() {
        b't' if is("trace") => Some(Level::Trace),
        b'd' if is("debug") => Some(Level::Debug),
        b'i' if is("info") || is("information") => Some(Level::Info),
        b'n' if is("notice") => Some(Level::Info),
        b'w' if is("warn") || is("warning") => Some(Level::Warn),
        b'e' if is("error") || is("err") => Some(Level::Error),
        b'e' if is("emergency") || is("emerg") => Some(Level::Fatal),
        b'f' if is("fatal") => Some(Level::Fatal),
        b'c' if is("critical") || is("crit") => Some(Level::Fatal),
        b'p' if is("panic") => Some(Level::Fatal),
        _ => None,
    }
}

/// `I20261121 12:34:56.123456   417 file.cc:42] ...`
fn read_glog(line: &[u8], times: &mut Times) -> Option<Head> {
    let level = match line.first()? {
        b'T' => Level::Trace,
        b'D' => Level::Debug,
        b'I' => Level::Info,
        b'W' => Level::Warn,
        b'E' => Level::Error,
        _ => Level::Fatal,
    };
    let (unix_ns, length) = times.read_glog(line.get(1..)?)?;
    Some(Head {
        form: Form::Glog,
        unix_ns,
        level: Some(level),
        time: Part::new(1, 1 + length),
        level_part: Part::new(0, 1),
    })
}

/// Role of a key of a structured line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Time,
    Level,
    Thread,
    Target,
    Module,
    File,
    Line,
    Message,
    Spans,
}

impl Role {
    /// The role of a key, by the names that loggers use.
    pub(crate) fn of(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"ts" | b"time" | b"timestamp" | b"@timestamp" => Self::Time,
            b"level" | b"severity" | b"lvl" => Self::Level,
            b"thread" | b"threadName" | b"thread_name" => Self::Thread,
            b"target" | b"logger" => Self::Target,
            b"module" => Self::Module,
            b"file" | b"filename" | b"caller" => Self::File,
            b"line" | b"line_number" => Self::Line,
            b"message" | b"msg" => Self::Message,
            b"spans" => Self::Spans,
            _ => return None,
        })
    }
}

fn structured(form: Form, unix_ns: u64, level: Option<Level>) -> Head {
    Head {
        form,
        unix_ns,
        level,
        time: Part::default(),
        level_part: Part::default(),
    }
}

/// `{"ts":"2026-11-21T12:34:56.123456789Z","level":"INFO",...}`
fn read_json(line: &[u8], times: &mut Times) -> Option<Head> {
    if let Some(own) = read_between(line, b"{\"ts\":\"", b"\",\"level\":\"", b'"', Form::Json, times) {
        return Some(own);
    }
    read_pairs(Form::Json, line, members_at(line, 0)?, times)
}

/// `ts=2026-11-21T12:34:56.123456789Z level=info ...`
fn read_logfmt(line: &[u8], times: &mut Times) -> Option<Head> {
    if let Some(own) = read_between(line, b"ts=", b" level=", b' ', Form::Logfmt, times) {
        return Some(own);
    }
    read_pairs(Form::Logfmt, line, logfmt_pairs(line).take(HEAD_PAIRS_MAX), times)
}

/// Looks for time and level among pairs of key and value.
fn read_pairs(form: Form, line: &[u8], pairs: impl Iterator<Item = Pair>, times: &mut Times) -> Option<Head> {
    let (mut time, mut level) = (None, None);
    for Pair { key, value, .. } in pairs {
        match Role::of(key.of(line)) {
            Some(Role::Time) => time = time.or_else(|| time_of(line, value, times)),
            Some(Role::Level) => level = level_of_value(line, value),
            _ => {}
        }
        if time.is_some() && level.is_some() {
            break;
        }
    }
    Some(structured(form, time?, level))
}

/// Time and level where Logdrive itself puts them.
fn read_between(
    line: &[u8],
    before: &[u8],
    between: &[u8],
    end: u8,
    form: Form,
    times: &mut Times,
) -> Option<Head> {
    let rest = line.strip_prefix(before)?;
    let (unix_ns, length) = times.read_iso(rest)?;
    let word = rest.get(length..)?.strip_prefix(between)?;
    let word = word.get(..word.iter().take(12).position(|byte| *byte == end)?)?;
    Some(structured(form, unix_ns, Some(level_of(word)?)))
}

/// The time that a value says.
pub(crate) fn time_of(line: &[u8], value: Text, times: &mut Times) -> Option<u64> {
    let text = value.part.of(line);
    if let Some((unix_ns, length)) = times.read_iso(text) {
        return (length == text.len()).then_some(unix_ns);
    }
    let is_number = matches!(value.writing, Writing::JsonValue | Writing::Verbatim);
    let number = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    from_number(number)
}

/// The level that a value says; some loggers write numbers from 10 for trace to 60 for fatal.
pub(crate) fn level_of_value(line: &[u8], value: Text) -> Option<Level> {
    let text = value.part.of(line);
    if value.writing == Writing::JsonValue {
        let number: u32 = std::str::from_utf8(text).ok()?.parse().ok()?;
        return Level::from_code(u8::try_from(number / 10).ok()?.checked_sub(1)?);
    }
    level_of(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    const TIME: u64 = 1_795_264_496_123_456_789;

    fn head(line: &str) -> Option<(Form, u64, Option<Level>)> {
        let head = read_head(line.as_bytes(), &mut Times::new(TimeZone::UTC))?;
        Some((head.form, head.unix_ns, head.level))
    }

    #[test]
    fn heads_of_logdrive_are_read() {
        for (line, form, ns) in [
            (
                "2026-11-21T12:34:56.123456789Z WARN  main app a.rs:1 x",
                Form::Text,
                TIME,
            ),
            (
                "W20261121 12:34:56.123456   417 a.cc:42] x",
                Form::Glog,
                TIME - 789,
            ),
            (
                r#"{"ts":"2026-11-21T12:34:56.123456789Z","level":"WARN","thread":"m"}"#,
                Form::Json,
                TIME,
            ),
            (
                "ts=2026-11-21T12:34:56.123456789Z level=warn thread=main",
                Form::Logfmt,
                TIME,
            ),
        ] {
            assert_eq!(head(line), Some((form, ns, Some(Level::Warn))), "{line}");
        }
    }

    #[test]
    fn heads_of_others_are_read() {
        for (line, form, ns, level) in [
            (
                "2026-11-21T12:34:56.123456789Z  INFO app: x",
                Form::Text,
                TIME,
                Some(Level::Info),
            ),
            (
                "[2026-11-21T12:34:56.123456789Z ERROR app] x",
                Form::Text,
                TIME,
                Some(Level::Error),
            ),
            (
                "[2026-11-21 12:34:56.123456789] [info] x",
                Form::Text,
                TIME,
                Some(Level::Info),
            ),
            (
                "[2026-11-21 12:34:56.123456789] [app] [warning] x",
                Form::Text,
                TIME,
                Some(Level::Warn),
            ),
            (
                "2026-11-21 12:34:56,123456789 [main] INFO  com.x - y",
                Form::Text,
                TIME,
                Some(Level::Info),
            ),
            (
                "2026-11-21T12:34:56.123456789Z it failed with error",
                Form::Text,
                TIME,
                None,
            ),
            (
                r#"{"level":"info","ts":1795264496123456789,"msg":"x"}"#,
                Form::Json,
                TIME,
                Some(Level::Info),
            ),
            (
                r#"{"level":40,"time":1795264496123,"msg":"x"}"#,
                Form::Json,
                TIME - 456_789,
                Some(Level::Warn),
            ),
            (
                r#"{"timestamp":"2026-11-21T12:34:56.123456789Z","x":{}}"#,
                Form::Json,
                TIME,
                None,
            ),
            (
                "level=error time=\"2026-11-21T12:34:56.123456789Z\" msg=x",
                Form::Logfmt,
                TIME,
                Some(Level::Error),
            ),
        ] {
            assert_eq!(head(line), Some((form, ns, level)), "{line}");
        }
    }

    #[test]
    fn other_lines_are_no_heads() {
        for line in [
            "",
            " at foo (a.js:1)",
            "\tat x",
            "Error: no",
            "12 monkeys",
            "{\"a\":1}",
            "{",
            "I2x",
            "Info: all good",
            "key=value and more",
            "thread 'main' panicked at src/main.rs:1:1:",
            "Caused by: 0: x",
        ] {
            assert_eq!(head(line), None, "{line}");
        }
    }
}
