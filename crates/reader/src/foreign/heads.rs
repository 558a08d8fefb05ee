//! Heads of lines of other programs: the form by the first bytes, the time, the level.
//!
//! Every function looks at the front of a line only, or at its first brackets and quotes; none looks twice at what is
//! behind.

use crate::foreign::container::text_behind_time;
use crate::foreign::level::{self, is_upper, name, word_at};
use crate::foreign::times::begins_with_weekday;
use crate::foreign::trace;
use crate::foreign::words::{HeadWords, first_level};
use crate::line_head::{ForeignForm, Form, FoundHead, Head, InnerLine};
use crate::part::Part;
use crate::text::is_module;
use crate::times::{Times, digits, read_offset};
use logdrive_wire::Level;

/// Bytes in front of the time of a line of an access log: address, two names.
const ACCESS_FRONT_BYTES_MAX: usize = 256;

/// Bytes of a name in front of a time.
const PREFIX_BYTES_MAX: usize = 64;

/// The head of a line.
fn head(form: ForeignForm, unix_ns: u64, time: (usize, usize), level: Option<Level>) -> Head {
    Head {
        form: Form::Foreign(form),
        unix_ns,
        level,
        time: Part::new(time.0, time.1),
        level_part: Part::new(time.1, time.1),
        is_timed: true,
    }
}

fn some(head: Head) -> Option<FoundHead> {
    Some(head.into())
}

/// The head of a line of words behind its time.
fn of_words(line: &[u8], unix_ns: u64, time: (usize, usize)) -> Head {
    if let Some((level, level_part)) = first_level(line, time.1) {
        return Head {
            level_part,
            ..head(ForeignForm::Words, unix_ns, time, Some(level))
        };
    }
    let words = HeadWords::read(line, time.1);
    Head {
        level_part: match words.level_part.is_empty() {
            true => Part::new(time.1, time.1),
            false => words.level_part,
        },
        ..head(ForeignForm::Words, unix_ns, time, words.level)
    }
}

/// A line whose time, in the form of ISO 8601, stands between two offsets.
pub(crate) fn behind_iso(
    line: &[u8],
    start: usize,
    end: usize,
    unix_ns: u64,
    times: &mut Times,
) -> Option<FoundHead> {
    let rest = line.get(end..).unwrap_or(b"");
    if start == 0 {
        if text_behind_time(rest).is_some() {
            let found = head(ForeignForm::Container, unix_ns, (start, end), None);
            return Some(found.around(InnerLine::Wrapped(end)));
        }
        let written = line.get(19..end).unwrap_or(b"");
        let has_zone = written.ends_with(b"Z") || memchr::memchr2(b'+', b'-', written).is_some();
        if has_zone
            && line.get(10) == Some(&b'T')
            && first_level(line, end).is_none()
            && let Some(tag) = SyslogTag::read(line, end)
            && tag.has_app
            && name(tag.host.of(line)).is_none()
        {
            let found = head(ForeignForm::Syslog, unix_ns, (start, end), None);
            return Some(found.around(InnerLine::Decides(tag.message)));
        }
    }
    let (unix_ns, end) = in_named_zone(line, end, unix_ns, times);
    some(of_words(line, unix_ns, (start, end)))
}

/// A zone behind a blank: ` UTC [`, ` +0000]`; other names mean local time.
fn in_named_zone(line: &[u8], end: usize, unix_ns: u64, times: &Times) -> (u64, usize) {
    let rest = line.get(end..).unwrap_or(b"");
    match rest {
        [b' ', b'U', b'T', b'C', b' ' | b']', ..] | [b' ', b'G', b'M', b'T', b' ' | b']', ..] => {
            (unix_ns, end + 4)
        }
        [b' ', sign @ (b'+' | b'-'), offset @ ..] => match read_offset(offset) {
            Some((ns, length)) if matches!(offset.get(length), None | Some(b' ' | b']')) => {
                let ns = match sign {
                    b'+' => unix_ns.saturating_sub(ns),
                    _ => unix_ns.saturating_add(ns),
                };
                (ns, end + 2 + length)
            }
            _ => (unix_ns, end),
        },
        [b' ', zone @ ..] => {
            let length = zone.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
            let is_zone = (3..=5).contains(&length)
                && matches!(zone.get(length..length + 3), Some([b' ', b'[', b'0'..=b'9']));
            match is_zone {
                true => (times.as_local(unix_ns), end + 1 + length),
                false => (unix_ns, end),
            }
        }
        _ => (unix_ns, end),
    }
}

/// Host, application and process of a line of syslog.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyslogTag {
    pub(crate) host: Part,
    pub(crate) app: Part,
    pub(crate) pid: Part,
    pub(crate) message: usize,
    /// Whether an application and a colon stand there.
    pub(crate) has_app: bool,
}

impl SyslogTag {
    /// Reads ` host app[417]: ` at the end of a time.
    pub(crate) fn read(line: &[u8], end: usize) -> Option<Self> {
        let is_of_host =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
        let start = end + 1;
        if line.get(end) != Some(&b' ') {
            return None;
        }
        let rest = line.get(start..)?;
        let length = rest.iter().take(256).take_while(|byte| is_of_host(byte)).count();
        if length == 0 || rest.get(length) != Some(&b' ') || rest.get(length - 1) == Some(&b':') {
            return None;
        }
        let host = Part::new(start, start + length);
        let at = host.end() + 1;
        Some(Self::read_app(line, at).map_or(
            Self {
                host,
                app: Part::default(),
                pid: Part::default(),
                message: at,
                has_app: false,
            },
            |(app, pid, message)| Self {
                host,
                app,
                pid,
                message,
                has_app: true,
            },
        ))
    }

    /// Reads `app[417]: `.
    fn read_app(line: &[u8], at: usize) -> Option<(Part, Part, usize)> {
        let is_of_app = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./-@()+".contains(byte);
        let rest = line.get(at..)?;
        let length = rest.iter().take(128).take_while(|byte| is_of_app(byte)).count();
        let app = Part::new(at, at + length);
        let mut end = at + length;
        let mut pid = Part::default();
        if line.get(end) == Some(&b'[') {
            let inside = line.get(end + 1..)?;
            let length = inside
                .iter()
                .take(10)
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            pid = Part::new(end + 1, end + 1 + length);
            end += 2 + length;
            if line.get(end - 1) != Some(&b']') || length == 0 {
                return None;
            }
        }
        if length == 0 || line.get(end) != Some(&b':') {
            return None;
        }
        end += 1;
        end += usize::from(line.get(end) == Some(&b' '));
        Some((app, pid, end))
    }
}

/// A line that begins with a digit, and not with a time of ISO 8601.
pub(crate) fn behind_digit(line: &[u8], times: &mut Times) -> Option<FoundHead> {
    let count = line
        .iter()
        .take(11)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let rest = line.get(count..)?;
    match rest.first()? {
        // `417:M 21 Nov 2026 12:34:56.789 * text`
        b':' => match rest.get(1)? {
            letter if letter.is_ascii_uppercase() && rest.get(2) == Some(&b' ') => {
                let at = count + 3;
                let (unix_ns, length) = times.read_day_first(line.get(at..)?)?;
                let level = line.get(at + length..).and_then(redis_level);
                some(head(ForeignForm::Redis, unix_ns, (at, at + length), level))
            }
            b's' if rest.starts_with(b":signal-handler (") => {
                let at = count + 17;
                let (unix_ns, length) = Times::read_epoch(line.get(at..)?)?;
                some(head(ForeignForm::Redis, unix_ns, (at, at + length + 1), None))
            }
            _ if count <= 2 => of_time_of_day(line, 0, times),
            _ => read_access(line, times),
        },
        // `123 <34>1 2026-...`: the number of bytes is that of a frame.
        b' ' if rest.get(1) == Some(&b'<') && count <= 6 => read_priority(line, count + 1, times),
        b'/' | b' ' | b'-' if count <= 2 => match times.read_day_first(line) {
            Some((unix_ns, length)) => some(of_words(line, unix_ns, (0, length))),
            None => of_short_date(line, times),
        },
        b' ' if count == 6 => of_short_date(line, times),
        b'.' | b' ' if count == 10 => {
            let (unix_ns, length) = Times::read_epoch(line)?;
            // As `journalctl -o short-unix` has it.
            if let Some(tag) = SyslogTag::read(line, length).filter(|tag| tag.has_app) {
                let found = head(ForeignForm::Syslog, unix_ns, (0, length), None);
                return Some(found.around(InnerLine::Decides(tag.message)));
            }
            some(of_words(line, unix_ns, (0, length)))
        }
        _ => read_access(line, times),
    }
}

/// A time of day is one only where a level follows.
fn of_time_of_day(line: &[u8], at: usize, times: &mut Times) -> Option<FoundHead> {
    let (unix_ns, length) = times.read_time_of_day(line.get(at..)?)?;
    let found = of_words(line, unix_ns, (at, at + length));
    found.level.is_some().then(|| found.into())
}

/// A date without a century is a time only where a level follows.
fn of_short_date(line: &[u8], times: &mut Times) -> Option<FoundHead> {
    let (unix_ns, length) = times.read_short_date(line)?;
    let found = of_words(line, unix_ns, (0, length));
    found.level.is_some().then(|| found.into())
}

fn redis_level(rest: &[u8]) -> Option<Level> {
    match rest {
        [b' ', b'.', b' ', ..] => Some(Level::Trace),
        [b' ', b'-', b' ', ..] => Some(Level::Debug),
        [b' ', b'*', b' ', ..] => Some(Level::Info),
        [b' ', b'#', b' ', ..] => Some(Level::Warn),
        _ => None,
    }
}

/// A line that begins with a bracket, and not with a time of ISO 8601 behind it.
pub(crate) fn behind_bracket(line: &[u8], times: &mut Times) -> Option<FoundHead> {
    let rest = line.get(1..)?;
    if begins_with_weekday(rest) && rest.get(3) == Some(&b' ') {
        let (unix_ns, length) = times.read_month_first(rest.get(4..)?)?;
        return some(of_words(line, unix_ns, (1, 5 + length)));
    }
    if rest.first()?.is_ascii_digit() {
        if let Some((unix_ns, length)) = times.read_day_first(rest) {
            return some(of_words(line, unix_ns, (1, 1 + length)));
        }
        return of_time_of_day(line, 1, times);
    }
    if rest.get(1) == Some(&b' ') && rest.get(2).is_some_and(u8::is_ascii_digit) {
        return read_tornado(line, times);
    }
    timeless_words(line, times)
}

/// `[I 261121 12:34:56 app:7] text`, `[W 2026-11-21 12:34:56.789 App] text`
fn read_tornado(line: &[u8], times: &mut Times) -> Option<FoundHead> {
    let level = level::named(line.get(1..2)?)?;
    let rest = line.get(3..)?;
    let (unix_ns, length) = match times.read_iso(rest) {
        Some(found) => found,
        None => {
            let date = rest.get(..6).filter(|date| date.iter().all(u8::is_ascii_digit))?;
            let (time, length) = rest
                .get(7..)
                .map(|time| (time, time.iter().position(|byte| *byte == b' ')))?;
            let time = time.get(..length?)?;
            let dated = [b"20", date, b" ", time].concat();
            let (ns, length) = times
                .read_glog(&dated)
                .or_else(|| times.read_glog(&[&dated[..], b".0"].concat()))?;
            (ns, length.min(dated.len()) - 2)
        }
    };
    some(head(ForeignForm::Tornado, unix_ns, (3, 3 + length), Some(level)))
}

/// `<34>1 2026-11-21T12:34:56Z host app 417 ID47 [a b="c"] text`, `<34>Nov 21 12:34:56 host app[417]: text`, `<3>text`
pub(crate) fn read_priority(line: &[u8], at: usize, times: &mut Times) -> Option<FoundHead> {
    let rest = line.get(at + 1..)?;
    let count = rest
        .iter()
        .take(4)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if !(1..=3).contains(&count) || rest.get(count) != Some(&b'>') {
        return None;
    }
    let number = digits(rest.get(..count)?).filter(|number| *number <= 191)?;
    let level = level::severity(number & 7);
    let start = at + count + 2;
    let text = line.get(start..)?;
    if let [b'1', b' ', text @ ..] = text {
        let start = start + 2;
        if text.starts_with(b"- ") {
            let unix_ns = times.state.last_ns;
            let timeless = head(ForeignForm::Syslog5424, unix_ns, (start, start + 1), level);
            return some(Head {
                is_timed: false,
                ..timeless
            });
        }
        if let Some((unix_ns, length)) = times.read_iso(text) {
            return some(head(
                ForeignForm::Syslog5424,
                unix_ns,
                (start, start + length),
                level,
            ));
        }
    }
    let found = match times.read_month_first(text) {
        Some(found) => Some(found),
        None => times.read_iso(text),
    };
    let Some((unix_ns, length)) = found else {
        return some(Head {
            is_timed: false,
            time: Part::default(),
            ..head(ForeignForm::Priority, times.state.last_ns, (start, start), level)
        });
    };
    let end = start + length;
    let message = SyslogTag::read(line, end).map_or(end, |tag| tag.message);
    // What the program says of its level tells more than what the sender says.
    Some(head(ForeignForm::Syslog, unix_ns, (start, end), level).around(InnerLine::May(message)))
}

/// A line that begins with a letter and is no pairs.
pub(crate) fn behind_letter(line: &[u8], times: &mut Times) -> Option<FoundHead> {
    let second = *line.get(1)?;
    // `I, [2026-11-21T12:34:56.123456 #417]  INFO -- : text`
    if second == b',' && line.get(2..4) == Some(b" [") {
        let (unix_ns, length) = times.read_iso(line.get(4..)?)?;
        return some(of_words(line, unix_ns, (4, 4 + length)));
    }
    if line.get(3).is_some_and(|byte| matches!(byte, b' ' | b',')) {
        if begins_with_weekday(line) {
            let at = 4 + usize::from(line.get(3) == Some(&b','));
            let text = line.get(at..)?;
            let found = times.read_month_first(text);
            let (unix_ns, length) = found.or_else(|| times.read_day_first(text))?;
            return some(of_words(line, unix_ns, (0, at + length)));
        }
        if let Some((unix_ns, length)) = times.read_month_first(line) {
            return Some(behind_month(line, length, unix_ns));
        }
    }
    of_crash(line, times)
        .or_else(|| timeless_words(line, times))
        .or_else(|| behind_prefix(line, times))
        .or_else(|| read_access(line, times))
}

/// What a program says when it crashes, behind a record that tells of no error; else it belongs to that record.
pub(crate) fn of_crash(line: &[u8], times: &Times) -> Option<FoundHead> {
    let level = trace::crash_level(line)?;
    let is_behind_error = times.state.last_level.is_none_or(|last| last >= Level::Warn);
    let crash = head(ForeignForm::Crash, times.state.last_ns, (0, 0), Some(level));
    (!is_behind_error).then(|| {
        Head {
            is_timed: false,
            time: Part::default(),
            ..crash
        }
        .into()
    })
}

/// `app: 2026/11/21 12:34:56 text`, as Go writes it with a prefix.
fn behind_prefix(line: &[u8], times: &mut Times) -> Option<FoundHead> {
    let front = line.get(..PREFIX_BYTES_MAX.min(line.len()))?;
    let colon = memchr::memmem::find(front, b": ")?;
    if !is_module(line.get(..colon)?) || line.get(colon + 6) != Some(&b'/') {
        return None;
    }
    let start = colon + 2;
    let (unix_ns, length) = times.read_iso(line.get(start..)?)?;
    some(of_words(line, unix_ns, (start, start + length)))
}

/// A line whose time begins with a month.
fn behind_month(line: &[u8], end: usize, unix_ns: u64) -> FoundHead {
    if matches!(line.get(end - 2..end), Some(b"AM" | b"PM")) && is_java_util(line.get(end..).unwrap_or(b"")) {
        return head(ForeignForm::JavaUtil, unix_ns, (0, end), None).into();
    }
    match SyslogTag::read(line, end).filter(|tag| tag.has_app || end < 17) {
        Some(tag) if name(tag.host.of(line)).is_none() => {
            head(ForeignForm::Syslog, unix_ns, (0, end), None).around(InnerLine::Decides(tag.message))
        }
        _ => of_words(line, unix_ns, (0, end)).into(),
    }
}

/// ` com.example.App main`: a class and a method, or a logger alone, and no more.
fn is_java_util(rest: &[u8]) -> bool {
    let mut words = rest.trim_ascii().split(|byte| *byte == b' ');
    let is_class = words.next().is_some_and(is_module);
    let has_one = words
        .next()
        .is_none_or(|method| !method.is_empty() && !method.contains(&b':'));
    is_class && has_one && words.next().is_none() && rest.len() < 512
}

/// A line without a time whose first words say its level: `WARNING:root:text`, `[INFO] text`, `[main] INFO app - text`.
fn timeless_words(line: &[u8], times: &mut Times) -> Option<FoundHead> {
    if times.state.is_java_util {
        return None;
    }
    let first = *line.first()?;
    let at = match first {
        b'[' => 1,
        _ => 0,
    };
    let (word, behind) = word_at(line.get(at..)?);
    let is_level_first = name(word).is_some_and(|found| found.plain);
    let is_dotnet = first.is_ascii_lowercase() && is_dotnet(word, behind);
    if first != b'[' && !(is_level_first && is_upper(word)) && !is_dotnet {
        return None;
    }
    let words = HeadWords::read(line, 0);
    let level = words.level?;
    let is_capitals = is_upper(words.level_part.of(line));
    let is_alone =
        words.level_part.start() == 1 && matches!(line.get(words.level_part.end()), Some(b']' | b' '));
    let is_head = is_dotnet || is_capitals || (first == b'[' && is_alone);
    let found = Head {
        is_timed: false,
        time: Part::default(),
        level_part: words.level_part,
        ..head(ForeignForm::Words, times.state.last_ns, (0, 0), Some(level))
    };
    is_head.then(|| found.into())
}

/// `info: Microsoft.Hosting.Lifetime[14]`: the message stands in the next line.
fn is_dotnet(word: &[u8], behind: &[u8]) -> bool {
    let Some(category) = behind
        .strip_prefix(b": ")
        .and_then(|rest| rest.strip_suffix(b"]"))
    else {
        return false;
    };
    let open = memchr::memrchr(b'[', category).unwrap_or(0);
    matches!(word, b"trce" | b"dbug" | b"info" | b"warn" | b"fail" | b"crit")
        && is_module(category.get(..open).unwrap_or(b""))
        && category
            .get(open + 1..)
            .is_some_and(|number| number.iter().all(u8::is_ascii_digit))
}

/// `10.0.0.1 - ann [21/Nov/2026:12:34:56 +0000] "GET / HTTP/1.1" 200 612 "-" "curl"`
pub(crate) fn read_access(line: &[u8], times: &mut Times) -> Option<FoundHead> {
    let front = line.get(..ACCESS_FRONT_BYTES_MAX.min(line.len()))?;
    let open = memchr::memmem::find(front, b" [")? + 2;
    let (unix_ns, length) = times.read_day_first(line.get(open..)?)?;
    if line.get(open + length) != Some(&b']') {
        return None;
    }
    let status = access_status(line, open + length + 1).map(|part| part.of(line));
    let level = status.and_then(|status| match status.first()? {
        b'5' => Some(Level::Error),
        b'4' => Some(Level::Warn),
        b'1'..=b'3' => Some(Level::Info),
        _ => None,
    });
    some(head(ForeignForm::Access, unix_ns, (open, open + length), level))
}

/// The status behind a request in quotes.
pub(crate) fn access_status(line: &[u8], at: usize) -> Option<Part> {
    let request = access_request(line, at)?;
    let start = request.end() + 2;
    let status = line.get(start..start + 3)?;
    status
        .iter()
        .all(u8::is_ascii_digit)
        .then(|| Part::new(start, start + 3))
}

/// A request in quotes behind a blank.
pub(crate) fn access_request(line: &[u8], at: usize) -> Option<Part> {
    if line.get(at..at + 2) != Some(b" \"") {
        return None;
    }
    let end = crate::json::string_end(line, at + 1)?;
    Some(Part::new(at + 2, end - 1))
}
