//! The head of a line: whether a record begins here, in which form, when it was and how severe it is.
//!
//! This runs over every line of the input, so the forms that Logdrive writes itself come first and cost some compares.

use crate::escape::{Writing, unescape};
use crate::foreign::container::ContainerLine;
use crate::foreign::heads;
use crate::foreign::level;
use crate::foreign::trace::level_of_unknown;
use crate::json::members_at;
use crate::line_head::{Form, FoundHead, Head, InnerLine};
use crate::pairs::logfmt_pairs;
use crate::part::{Pair, Part, Text};
use crate::times::{Times, digits, from_number};
use logdrive_wire::Level;

/// Pairs of a logfmt line that are searched for time and level.
const HEAD_PAIRS_MAX: usize = 8;

/// Wrappings of a line that are looked into: a line of a program within syslog within a container's log.
const DEPTH_MAX: u8 = 3;

/// The earliest time that a number means, in 1973.
const EARLIEST_NUMBER_NS: u64 = 100_000_000_000_000_000;

/// Reads a line's head; `None` for a line that belongs to the record before.
#[inline]
pub(crate) fn read_head(line: &[u8], times: &mut Times) -> Option<Head> {
    let own = match line.first()? {
        b'0'..=b'9' => read_own_text(line, times),
        b'{' => read_own_json(line, times),
        _ => None,
    };
    match own {
        Some(head) => {
            times.state.take_head(&head);
            Some(head)
        }
        None => read_other(line, times),
    }
}

/// `2026-11-21T12:34:56.123456789Z INFO  ...`
#[inline]
fn read_own_text(line: &[u8], times: &mut Times) -> Option<Head> {
    let (unix_ns, end) = times.read_iso(line)?;
    let (level, level_part) = own_level(line, end).filter(|_| line.get(10) == Some(&b'T'))?;
    Some(Head {
        form: Form::Text,
        unix_ns,
        level: Some(level),
        time: Part::new(0, end),
        level_part,
        is_timed: true,
    })
}

/// `{"ts":"2026-11-21T12:34:56.123456789Z","level":"INFO",...}`
#[inline]
fn read_own_json(line: &[u8], times: &mut Times) -> Option<Head> {
    read_between(line, b"{\"ts\":\"", b"\",\"level\":\"", b'"', Form::Json, times)
}

/// Reads the head of a line that is neither text nor JSON of Logdrive.
#[inline(never)]
fn read_other(line: &[u8], times: &mut Times) -> Option<Head> {
    let found = match line.first()? {
        b'0'..=b'9' => match times.read_iso(line) {
            Some((unix_ns, end)) => inside(heads::behind_iso(line, 0, end, unix_ns, times), line, times),
            None => inside(heads::behind_digit(line, times), line, times),
        },
        b'{' => read_json(line, times),
        b'I' | b'W' | b'E' | b'F' | b'D' | b'T' if line.get(1).is_some_and(u8::is_ascii_digit) => {
            read_glog(line, times)
        }
        b'[' => match times.read_iso(line.get(1..)?) {
            Some((unix_ns, length)) => inside(
                heads::behind_iso(line, 1, 1 + length, unix_ns, times),
                line,
                times,
            ),
            None => inside(heads::behind_bracket(line, times), line, times),
        },
        b'a'..=b'z' | b'A'..=b'Z' | b'@' | b'_' => match read_logfmt(line, times) {
            Some(head) => Some(head),
            None => inside(heads::behind_letter(line, times), line, times),
        },
        b'<' => inside(heads::read_priority(line, 0, times), line, times),
        b':' => inside(heads::read_access(line, times), line, times),
        b'/' => inside(heads::of_crash(line, times), line, times),
        _ => None,
    };
    match &found {
        Some(head) => times.state.take_head(head),
        None => times.state.is_java_util = false,
    }
    found
}

/// Completes a head by what the line within its line says.
#[cold]
fn inside(found: Option<FoundHead>, line: &[u8], times: &mut Times) -> Option<Head> {
    let FoundHead { mut head, inner } = found?;
    match inner {
        None => {}
        Some(InnerLine::Decides(at)) => head.level = level_within(line.get(at..).unwrap_or(b""), times),
        Some(InnerLine::May(at)) => {
            let stated = head_within(line.get(at..).unwrap_or(b""), times).and_then(|inner| inner.level);
            head.level = stated.or(head.level);
        }
        Some(InnerLine::Wrapped(at)) => {
            let wrapped = ContainerLine::behind_time(line.get(at..)?)?;
            let inner = head_within(&wrapped.text, times);
            times.state.is_container = true;
            if times.state.streams.continues(&wrapped, inner.is_some()) {
                return None;
            }
            head.level = match inner {
                Some(inner) => inner.level,
                None => level_of_unknown(&wrapped.text),
            };
        }
    }
    Some(head)
}

/// The head of a line that stands in another one.
pub(crate) fn head_within(inner: &[u8], times: &mut Times) -> Option<Head> {
    if times.depth >= DEPTH_MAX {
        return None;
    }
    let kept = std::mem::take(&mut times.state);
    times.depth += 1;
    let found = read_head(inner, times);
    times.depth -= 1;
    times.state = kept;
    found
}

/// The level of a line that stands in another one.
fn level_within(inner: &[u8], times: &mut Times) -> Option<Level> {
    match head_within(inner, times) {
        Some(head) => head.level,
        None => level_of_unknown(inner),
    }
}

/// The level behind a space, as Logdrive writes it.
#[inline]
fn own_level(line: &[u8], end: usize) -> Option<(Level, Part)> {
    let six: &[u8; 6] = line.get(end..)?.strip_prefix(b" ")?.first_chunk()?;
    let level = match six {
        b"INFO  " => Level::Info,
        b"DEBUG " => Level::Debug,
        b"TRACE " => Level::Trace,
        b"WARN  " => Level::Warn,
        b"ERROR " => Level::Error,
        b"FATAL " => Level::Fatal,
        _ => return None,
    };
    if six[5] == b' ' && line.get(end + 7).is_some_and(u8::is_ascii_digit) && is_of_spring(line, end + 7) {
        return None;
    }
    Some((level, Part::new(end + 1, end + 1 + level.name().len())))
}

/// `417 --- [main]` behind a level.
fn is_of_spring(line: &[u8], at: usize) -> bool {
    let rest = line.get(at..).unwrap_or(b"");
    let count = rest
        .iter()
        .take(10)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    rest.get(count..).is_some_and(|rest| rest.starts_with(b" --- ["))
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
        is_timed: true,
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

/// Keys that have a role where no other key has it, the better ones first.
pub(crate) const WEAK_KEYS: [(Role, &[&[u8]]); 6] = [
    (
        Role::Time,
        &[
            b"@t",
            b"t",
            b"asctime",
            b"datetime",
            b"instant",
            b"__REALTIME_TIMESTAMP",
            b"time_iso8601",
            b"time_local",
            b"start_time",
            b"date",
        ],
    ),
    (
        Role::Level,
        &[
            b"log.level",
            b"levelname",
            b"loglevel",
            b"log_level",
            b"level_name",
            b"severity_text",
            b"@l",
            b"@level",
            b"error_severity",
            b"PRIORITY",
            b"s",
        ],
    ),
    (
        Role::Thread,
        &[
            b"process.thread.name",
            b"thread.name",
            b"ctx",
            b"threadId",
            b"thread_id",
        ],
    ),
    (
        Role::Target,
        &[
            b"loggerName",
            b"logger_name",
            b"log.logger",
            b"@module",
            b"SourceContext",
            b"category",
            b"c",
        ],
    ),
    (
        Role::Message,
        &[
            b"event",
            b"@message",
            b"@m",
            b"@mt",
            b"MESSAGE",
            b"log",
            b"short_message",
        ],
    ),
    (Role::File, &[b"log.origin.file.name", b"@caller"]),
];

/// The keys of a role in [`WEAK_KEYS`].
fn weak_keys(role: Role) -> &'static [&'static [u8]] {
    let found = WEAK_KEYS.iter().find(|(weak, _)| *weak == role);
    found.map_or(&[], |(_, keys)| keys)
}

/// Whether a key of one or three letters may have a role: MongoDB writes them, and logfmt a time.
pub(crate) fn is_weak_key(line: &[u8], key: &[u8]) -> bool {
    key.len() > 3
        || key == b"log"
        || key.first() == Some(&b'@')
        || line.starts_with(b"{\"t\":{\"$date\"")
        || line.starts_with(b"t=") && key == b"t"
}

fn structured(form: Form, unix_ns: u64, level: Option<Level>) -> Head {
    Head {
        form,
        unix_ns,
        level,
        time: Part::default(),
        level_part: Part::default(),
        is_timed: true,
    }
}

/// A line of JSON with time and level anywhere.
fn read_json(line: &[u8], times: &mut Times) -> Option<Head> {
    if let Some(docker) = ContainerLine::of_docker(line) {
        let has_head = head_within(docker.text.trim_ascii_end(), times).is_some();
        times.state.is_container = true;
        if times.state.streams.continues(&docker, has_head) {
            return None;
        }
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
fn read_pairs(
    form: Form,
    line: &[u8],
    pairs: impl Iterator<Item = Pair> + Clone,
    times: &mut Times,
) -> Option<Head> {
    let mut found = HeadPairs::default();
    for Pair { key, value, .. } in pairs.clone() {
        match Role::of(key.of(line)) {
            Some(Role::Time) => found.time = found.time.or_else(|| time_of(line, value, times)),
            Some(Role::Level) => found.level = found.level.or_else(|| level_of_value(line, value)),
            Some(Role::Message) => found.has_message = true,
            _ => {}
        }
        if found.time.is_some() && found.level.is_some() {
            break;
        }
    }
    if found.time.is_none() || found.level.is_none() {
        found.add_weak(line, pairs, times);
    }
    let is_whole = form == Form::Logfmt && found.has_message || line.trim_ascii_end().ends_with(b"}");
    match (found.time, found.level) {
        (Some(time), level) => Some(structured(form, time, level)),
        // A line that says its level is a record, whether or not it has a time.
        (None, Some(level)) if is_whole => Some(Head {
            is_timed: false,
            ..structured(form, times.state.last_ns, Some(level))
        }),
        _ => None,
    }
}

/// Values of a structured line that its head needs.
#[derive(Debug, Default)]
struct HeadPairs {
    time: Option<u64>,
    level: Option<Level>,
    has_message: bool,
}

impl HeadPairs {
    /// Takes what stands under keys that have a role only where no other one has it.
    fn add_weak(&mut self, line: &[u8], pairs: impl Iterator<Item = Pair> + Clone, times: &mut Times) {
        let has_time = self.time.is_some();
        let (mut best_time, mut best_level) = (usize::MAX, usize::MAX);
        let mut log = None;
        for Pair { key, value, .. } in pairs {
            let key = key.of(line);
            if key == b"log" {
                log = Some(value);
            }
            if !is_weak_key(line, key) {
                continue;
            }
            let rank = |role: Role| weak_keys(role).iter().position(|weak| *weak == key);
            if let Some(rank) = rank(Role::Time).filter(|rank| !has_time && *rank < best_time)
                && let Some(time) = time_of(line, value, times)
            {
                (self.time, best_time) = (Some(time), rank);
            }
            if let Some(rank) = rank(Role::Level).filter(|rank| *rank < best_level)
                && let Some(level) = level_of_value(line, value)
            {
                (self.level, best_level) = (Some(level), rank);
            }
        }
        if self.level.is_none()
            && let Some(log) = log
        {
            self.level = level_of_log(line, log, times);
        }
    }
}

/// The level of `log`: of the object that it is, or of the line of a program, as Docker has it.
fn level_of_log(line: &[u8], value: Text, times: &mut Times) -> Option<Level> {
    if value.writing == Writing::JsonValue {
        let mut members = members_at(line, value.part.start())?;
        let level = members.find(|pair| pair.key.of(line) == b"level")?;
        return level_of_value(line, level.value);
    }
    let text = unescape(value.part.of(line), value.writing);
    level_within(text.trim_ascii_end(), times)
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
        let is_all = matches!(text.get(length..), Some([] | [b' ', b'U' | b'G', ..]));
        return is_all.then_some(unix_ns);
    }
    if text.first() == Some(&b'{') {
        return time_of_object(line, value.part.start(), times);
    }
    if let Some((unix_ns, length)) = times.read_day_first(text) {
        return (length == text.len()).then_some(unix_ns);
    }
    let is_number = matches!(value.writing, Writing::JsonValue | Writing::Verbatim)
        || (text.len() >= 10 && text.iter().all(u8::is_ascii_digit));
    let number = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    // Less is no time but a duration.
    from_number(number).filter(|unix_ns| *unix_ns >= EARLIEST_NUMBER_NS)
}

/// `{"epochSecond":1795264496,"nanoOfSecond":5}`, `{"$date":"2026-11-21T12:34:56Z"}`
fn time_of_object(line: &[u8], at: usize, times: &mut Times) -> Option<u64> {
    let mut whole = None;
    let mut nanos = 0;
    for Pair { key, value, .. } in members_at(line, at)? {
        match key.of(line) {
            b"$date" if line.get(value.part.start()) != Some(&b'{') => return time_of(line, value, times),
            b"epochSecond" | b"seconds" => {
                whole = digits(value.part.of(line).get(..11.min(value.part.of(line).len()))?)
            }
            b"nanoOfSecond" | b"nanos" => {
                nanos = digits(value.part.of(line).get(..9.min(value.part.of(line).len()))?)?
            }
            _ => {}
        }
    }
    whole?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// The level that a value says; some loggers write numbers from 10 for trace to 60 for fatal, syslog from 7 to 0.
pub(crate) fn level_of_value(line: &[u8], value: Text) -> Option<Level> {
    let text = value.part.of(line);
    let is_number = text.len() <= 2 && text.iter().all(u8::is_ascii_digit);
    if is_number && !text.is_empty() {
        return match digits(text)? {
            number @ 0..=7 => level::severity(number),
            number @ 10..70 => Level::from_code(u8::try_from(number / 10 - 1).ok()?),
            _ => None,
        };
    }
    match value.writing {
        Writing::JsonValue => None,
        _ => level_of(text),
    }
}

/// A level by the names that loggers use.
pub(crate) fn level_of(word: &[u8]) -> Option<Level> {
    Some(match word {
        // The names of most lines.
        b"INFO" | b"info" => Level::Info,
        b"DEBUG" | b"debug" => Level::Debug,
        b"WARN" | b"warn" => Level::Warn,
        b"ERROR" | b"error" => Level::Error,
        b"TRACE" | b"trace" => Level::Trace,
        b"FATAL" | b"fatal" => Level::Fatal,
        _ => return level::named(word),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line_head::ForeignForm;
    use jiff::tz::TimeZone;

    const TIME: u64 = 1_795_264_496_123_456_789;
    const TIME_NS: u64 = 123_456_789;
    const WORDS: Form = Form::Foreign(ForeignForm::Words);

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
                WORDS,
                TIME,
                Some(Level::Info),
            ),
            (
                "[2026-11-21T12:34:56.123456789Z ERROR app] x",
                WORDS,
                TIME,
                Some(Level::Error),
            ),
            (
                "[2026-11-21 12:34:56.123456789] [info] x",
                WORDS,
                TIME,
                Some(Level::Info),
            ),
            (
                "[2026-11-21 12:34:56.123456789] [app] [warning] x",
                WORDS,
                TIME,
                Some(Level::Warn),
            ),
            (
                "2026-11-21 12:34:56,123456789 [main] INFO  com.x - y",
                WORDS,
                TIME,
                Some(Level::Info),
            ),
            (
                "2026-11-21T12:34:56.123456789Z it failed with error",
                WORDS,
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

    fn check(lines: &[(&str, u64, Option<Level>)]) {
        for (line, ns, level) in lines {
            let found = read_head(line.as_bytes(), &mut Times::new(TimeZone::UTC)).expect(line);
            let expected = (TIME - TIME_NS + ns, *level, true);
            assert_eq!((found.unix_ns, found.level, found.is_timed), expected, "{line}");
        }
    }

    /// The example lines are of the programs that their messages name.
    #[test]
    fn heads_of_programs_have_times_and_levels() {
        check(&[
            (
                "2026/11/21 12:34:56 [error] 417#417: *1 nginx",
                0,
                Some(Level::Error),
            ),
            ("2026/11/21 12:34:56 go", 0, None),
            (
                "2026-11-21 12:34:56.123456789 UTC [417] LOG:  postgres",
                TIME_NS,
                Some(Level::Info),
            ),
            (
                "2026-11-21 12:34:56.123456789 GMT [417] ERROR:  postgres",
                TIME_NS,
                Some(Level::Error),
            ),
            (
                "[2026-11-21 14:34:56 +0200] [417] [INFO] gunicorn",
                0,
                Some(Level::Info),
            ),
            (
                "[2026-11-21 12:34:56,123456789: WARNING/MainProcess] celery",
                TIME_NS,
                Some(Level::Warn),
            ),
            (
                "417:M 21 Nov 2026 12:34:56.123456789 * redis",
                TIME_NS,
                Some(Level::Info),
            ),
            (
                "10.0.0.1 - - [21/Nov/2026:12:34:56 +0000] \"GET / HTTP/1.1\" 502 0 \"-\" \"curl\"",
                0,
                Some(Level::Error),
            ),
            (
                "[Sat Nov 21 12:34:56.123456789 2026] [core:error] [pid 417] apache",
                TIME_NS,
                Some(Level::Error),
            ),
        ]);
    }

    #[test]
    fn heads_of_wrapped_lines_have_times_and_levels() {
        check(&[
            (
                "<27>Nov 21 12:34:56 host sshd[417]: syslog",
                0,
                Some(Level::Error),
            ),
            (
                "Nov 21 12:34:56 host sshd[417]: error: syslog",
                0,
                Some(Level::Error),
            ),
            (
                "<34>1 2026-11-21T12:34:56.123456789Z host app 417 ID47 - syslog",
                TIME_NS,
                Some(Level::Fatal),
            ),
            (
                "81 <165>1 2026-11-21T12:34:56.123456789Z host app - - - counted",
                TIME_NS,
                Some(Level::Info),
            ),
            (
                "2026-11-21T12:34:56.123456789Z stderr F WARN: a container's",
                TIME_NS,
                Some(Level::Warn),
            ),
            (
                "I, [2026-11-21T12:34:56.123456789 #417]  INFO -- : ruby",
                TIME_NS,
                Some(Level::Info),
            ),
            (
                "21-Nov-2026 12:34:56.123456789 SEVERE [main] org.x.Y tomcat",
                TIME_NS,
                Some(Level::Error),
            ),
            ("Nov 21, 2026 12:34:56 PM com.x.App main", 0, None),
            ("[I 261121 12:34:56 web:7] tornado", 0, Some(Level::Info)),
            (
                "[W 2026-11-21 12:34:56.123456789 App] jupyter",
                TIME_NS,
                Some(Level::Warn),
            ),
            ("1795264496.123456789 WARN seconds", TIME_NS, Some(Level::Warn)),
        ]);
    }

    #[test]
    fn heads_of_structured_lines_have_times_and_levels() {
        check(&[
            (
                r#"{"@timestamp":"2026-11-21T12:34:56.123456789Z","log.level":"warn","message":"ecs"}"#,
                TIME_NS,
                Some(Level::Warn),
            ),
            (
                r#"{"t":{"$date":"2026-11-21T12:34:56.123456789Z"},"s":"W","c":"NETWORK","msg":"mongo"}"#,
                TIME_NS,
                Some(Level::Warn),
            ),
            (
                r#"{"instant":{"epochSecond":1795264496,"nanoOfSecond":123456789},"level":"WARN"}"#,
                TIME_NS,
                Some(Level::Warn),
            ),
            (
                r#"{"__REALTIME_TIMESTAMP":"1795264496123456","PRIORITY":"4","MESSAGE":"journald"}"#,
                123_456_000,
                Some(Level::Warn),
            ),
            (
                r#"{"log":"ERROR: docker\n","stream":"stderr","time":"2026-11-21T12:34:56.123456789Z"}"#,
                TIME_NS,
                Some(Level::Error),
            ),
        ]);
    }

    #[test]
    fn a_line_that_says_its_level_needs_no_time() {
        let mut times = Times::new(TimeZone::UTC);
        let timed = read_head(b"2026-11-21 12:34:56 INFO first", &mut times).expect("a head");
        for line in [
            "WARNING:root:text",
            "INFO:     text",
            "[ERROR] text",
            "[main] INFO com.x.App - text",
            "INFO[0000] text",
            "<4>text",
            r#"{"level":"warn","message":"text"}"#,
            "level=info msg=text",
            "info: Microsoft.Hosting.Lifetime[14]",
        ] {
            let found = read_head(line.as_bytes(), &mut times).expect(line);
            assert!(found.level.is_some() && !found.is_timed, "{line}");
            assert_eq!(found.unix_ns, timed.unix_ns, "{line}");
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
