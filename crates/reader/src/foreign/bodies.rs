//! Bodies of lines of other programs: thread, logger, place, message and fields, behind the time.

use crate::escape::Writing;
use crate::foreign::container::text_behind_time;
use crate::foreign::heads::{SyslogTag, access_request, access_status};
use crate::foreign::words::HeadWords;
use crate::json::members_at;
use crate::line_head::ForeignForm;
use crate::pairs::{is_key, read_trailing_pairs};
use crate::part::{Pair, Part, Text};
use crate::record::Record;
use crate::text::{is_module, is_place, skip};
use crate::times::Times;
use logdrive_query::GivenName;
use logdrive_wire::Level;

/// Takes a line apart that begins at an offset, and whose head was read.
pub(crate) fn read(record: &mut Record, form: ForeignForm, line: &[u8], at: usize, times: &mut Times) {
    match form {
        ForeignForm::Words => read_words(record, line, at),
        ForeignForm::Access => read_access(record, line),
        ForeignForm::Redis => read_redis(record, line),
        ForeignForm::Syslog => read_syslog(record, line, times),
        ForeignForm::Syslog5424 => read_syslog_5424(record, line, times),
        ForeignForm::Container => read_container(record, line, times),
        ForeignForm::Tornado => read_tornado(record, line),
        ForeignForm::Priority => {
            let at = record.time.end().max(record.level_part.end());
            record.read_within(line, at, times);
        }
        ForeignForm::JavaUtil => read_java_util(record, line),
        ForeignForm::Crash => record.message = verbatim(Part::new(at, line.len())),
    }
}

fn verbatim(part: Part) -> Text {
    Text::new(part, Writing::Verbatim)
}

impl Record {
    /// Gives a field a name that does not stand in the line.
    fn push_given(&mut self, name: GivenName, part: Part) {
        if !part.is_empty() {
            self.push_field(Text::given(name), verbatim(part), None);
        }
    }

    fn take_words(&mut self, line: &[u8], words: &HeadWords) {
        self.process.pid = words.pid;
        self.push_given(GivenName::User, words.user);
        self.thread = verbatim(words.thread);
        self.module = verbatim(words.module);
        if !words.place.is_empty() {
            let place = words.place.of(line);
            let colon = words.place.start() + memchr::memrchr(b':', place).unwrap_or(place.len());
            // `app.net:run:12` has a function where others have a file.
            if !words.module.is_empty() && words.module.start() == words.place.start() {
                self.line = Part::new(colon + 1, words.place.end());
            } else {
                self.file = verbatim(Part::new(words.place.start(), colon));
                self.line = Part::new(colon + 1, words.place.end());
            }
        }
    }
}

fn read_words(record: &mut Record, line: &[u8], at: usize) {
    let prefix = line
        .get(at..record.time.start())
        .and_then(|prefix| prefix.strip_suffix(b": "));
    let words = HeadWords::read(line, record.time.end());
    record.take_words(line, &words);
    if let Some(prefix) = prefix.filter(|_| words.module.is_empty()) {
        record.module = verbatim(Part::new(at, at + prefix.len()));
    }
    let mut at = words.message;
    if words.module.is_empty() && words.level.is_some() {
        at = read_tracing(record, line, at);
    }
    read_message(record, line, at);
}

/// `request{id=7}: app::net: text`, as the formatter of `tracing-subscriber` writes.
fn read_tracing(record: &mut Record, line: &[u8], at: usize) -> usize {
    let rest = line.get(at..).unwrap_or(b"");
    let word = memchr::memchr(b' ', rest).unwrap_or(rest.len());
    if memchr::memchr(b'{', rest.get(..word).unwrap_or(b"")).is_none() {
        return at;
    }
    let Some(start) = crate::text::read_spans(record, line, at) else {
        record.span_names.clear();
        record.fields.clear();
        return at;
    };
    let rest = line.get(start..).unwrap_or(b"");
    let length = memchr::memchr(b' ', rest).unwrap_or(rest.len());
    match rest.get(..length).and_then(|word| word.strip_suffix(b":")) {
        Some(module) if is_module(module) => {
            record.module = verbatim(Part::new(start, start + module.len()));
            skip(line, start + length, |byte| byte == b' ')
        }
        _ => start,
    }
}

/// A message, and the fields behind it.
fn read_message(record: &mut Record, line: &[u8], at: usize) {
    let mut end = line.len();
    if let Some(found) = logger_at_end(record, line, at) {
        record.module = verbatim(found);
        end = found.start() - 2;
    }
    // `text<tab>{"key": "value"}`, as the console encoder of zap writes.
    let text = line.get(at..end).unwrap_or(b"");
    if text.ends_with(b"}")
        && let Some(tab) = memchr::memmem::rfind(text, b"\t{")
        && let Some(members) = members_at(line, at + tab + 1)
    {
        record.message = verbatim(Part::new(at, at + tab));
        for Pair { key, value, .. } in members {
            record.push_field(Text::new(key, Writing::Json), value, None);
        }
        return;
    }
    if !record.thread.is_empty() && record.thread.part.of(line).contains(&b'#') {
        return read_nginx(record, line, at, end);
    }
    read_pairs(record, line, at, end);
}

/// Pairs that fill the rest of a line behind a message.
fn read_pairs(record: &mut Record, line: &[u8], at: usize, end: usize) {
    let mut pairs = std::mem::take(&mut record.pairs);
    let text = line.get(..end).unwrap_or(line);
    let start = read_trailing_pairs(text, at, &mut pairs);
    let message = text.get(at..start).unwrap_or(b"");
    let length = match pairs.is_empty() {
        true => message.len(),
        false => message.trim_ascii_end().len(),
    };
    record.message = verbatim(Part::new(at, at + length));
    for pair in &pairs {
        let value = match pair.value.writing {
            Writing::Text => verbatim(pair.value.part),
            _ => pair.value,
        };
        record.push_field(Text::new(pair.key, Writing::Verbatim), value, None);
    }
    record.pairs = pairs;
}

/// `text (kafka.server.KafkaServer)`: the logger at the end, where it stands nowhere else.
fn logger_at_end(record: &Record, line: &[u8], at: usize) -> Option<Part> {
    let text = line.get(at..)?.strip_suffix(b")")?;
    let open = memchr::memmem::rfind(text, b" (")?;
    let name = text.get(open + 2..)?;
    let is_of_logger = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$' | b'-');
    let is_logger = record.module.is_empty()
        && name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(is_of_logger)
        && name.contains(&b'.');
    is_logger.then(|| Part::new(at + open + 2, at + text.len()))
}

/// `*1 text, client: 10.0.0.1, server: _, request: "GET / HTTP/1.1", host: "x"`
fn read_nginx(record: &mut Record, line: &[u8], at: usize, end: usize) {
    let mut at = at;
    if let Some(rest) = line.get(at..end).and_then(|rest| rest.strip_prefix(b"*")) {
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        record.push_given(GivenName::Connection, Part::new(at + 1, at + 1 + length));
        at = skip(line, at + 1 + length, |byte| byte == b' ');
    }
    let text = line.get(at..end).unwrap_or(b"");
    let client = memchr::memmem::find(text, b", client: ").unwrap_or(text.len());
    record.message = verbatim(Part::new(at, at + client));
    let mut next = at + client;
    while line.get(next..next + 2) == Some(b", ") {
        let start = next + 2;
        let rest = line.get(start..end).unwrap_or(b"");
        let Some(colon) = rest
            .iter()
            .take(32)
            .position(|byte| !is_key(*byte) || *byte == b':')
        else {
            break;
        };
        if rest.get(colon..colon + 2) != Some(b": ") {
            break;
        }
        let value = start + colon + 2;
        let (part, behind) = match crate::json::string_end(line, value) {
            Some(close) => (Part::new(value + 1, close - 1), close),
            None => {
                let rest = line.get(value..end).unwrap_or(b"");
                let length = memchr::memmem::find(rest, b", ").unwrap_or(rest.len());
                (Part::new(value, value + length), value + length)
            }
        };
        record.push_field(verbatim(Part::new(start, start + colon)), verbatim(part), None);
        next = behind;
    }
}

/// `10.0.0.1 - ann [21/Nov/2026:12:34:56 +0000] "GET / HTTP/1.1" 200 612 "-" "curl"`
fn read_access(record: &mut Record, line: &[u8]) {
    let front = line.get(..record.time.start().saturating_sub(2)).unwrap_or(b"");
    let at = record.time.end() + 1;
    let mut starts = front.split(|byte| *byte == b' ').scan(0, |at, word| {
        let start = *at;
        *at += word.len() + 1;
        Some(Part::new(start, start + word.len()))
    });
    let mut words: [Part; 4] = Default::default();
    let count = words
        .iter_mut()
        .map_while(|place| starts.next().map(|word| *place = word))
        .count();
    // In front of the address may stand the name of the server.
    let first = usize::from(count == 4);
    if count == 4 {
        record.push_given(GivenName::Host, words[0]);
    }
    record.push_given(GivenName::Client, words[first]);
    let user = words[first + 2 - usize::from(count < 3)];
    if user.of(line) != b"-" && count >= 3 {
        record.push_given(GivenName::User, user);
    }
    let Some(request) = access_request(line, at) else {
        record.message = verbatim(Part::new(skip(line, at, |byte| byte == b' '), line.len()));
        return;
    };
    record.message = verbatim(request);
    let text = request.of(line);
    if let (Some(first), Some(last)) = (memchr::memchr(b' ', text), memchr::memrchr(b' ', text))
        && first < last
    {
        let start = request.start();
        record.push_given(GivenName::Method, Part::new(start, start + first));
        record.push_given(GivenName::Path, Part::new(start + first + 1, start + last));
        record.push_given(GivenName::Protocol, Part::new(start + last + 1, request.end()));
    }
    let Some(status) = access_status(line, at) else {
        return;
    };
    record.push_given(GivenName::Status, status);
    let mut next = status.end() + 1;
    let rest = line.get(next..).unwrap_or(b"");
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    record.push_given(GivenName::Bytes, Part::new(next, next + length));
    next += memchr::memchr(b' ', rest).map_or(rest.len(), |blank| blank + 1);
    for name in [GivenName::Referrer, GivenName::Agent] {
        let Some(end) = crate::json::string_end(line, next) else {
            return record.push_given(GivenName::Rest, Part::new(next, line.len()));
        };
        let part = Part::new(next + 1, end - 1);
        if part.of(line) != b"-" {
            record.push_given(name, part);
        }
        next = end + 1;
    }
    record.push_given(GivenName::Rest, Part::new(next, line.len()));
}

/// `417:M 21 Nov 2026 12:34:56.789 * text`
fn read_redis(record: &mut Record, line: &[u8]) {
    let colon = memchr::memchr(b':', line).unwrap_or(0);
    record.process.pid = Part::new(0, colon);
    let role = Part::new(colon + 1, colon + 2);
    if role.of(line).first().is_some_and(u8::is_ascii_uppercase) {
        record.push_given(GivenName::Role, role);
    }
    let at = record.time.end();
    let marks = usize::from(record.level.is_some()) * 2;
    let at = skip(line, at + marks, |byte| byte == b' ');
    record.message = verbatim(Part::new(at, line.len()));
}

/// `Nov 21 12:34:56 host app[417]: text`
fn read_syslog(record: &mut Record, line: &[u8], times: &mut Times) {
    let at = record.time.end();
    let Some(tag) = SyslogTag::read(line, at) else {
        return record.read_within(line, skip(line, at, |byte| byte == b' '), times);
    };
    record.read_within(line, tag.message, times);
    record.process.app = tag.app;
    record.process.pid = tag.pid;
    record.push_given(GivenName::Host, tag.host);
}

/// `<34>1 2026-11-21T12:34:56Z host app 417 ID47 [a b="c"] text`
fn read_syslog_5424(record: &mut Record, line: &[u8], times: &mut Times) {
    let mut at = record.time.end() + 1;
    let mut words = [Part::default(); 4];
    for word in &mut words {
        let rest = line.get(at..).unwrap_or(b"");
        let length = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        if rest.get(..length) != Some(b"-") {
            *word = Part::new(at, at + length);
        }
        at = (at + length + 1).min(line.len());
    }
    let data = at;
    at = match line.get(at) {
        Some(b'-') => at + 1,
        _ => structured_end(line, at),
    };
    let message = skip(line, at, |byte| byte == b' ');
    // Some senders put a byte order mark there.
    let mark = usize::from(line.get(message..message + 3) == Some("\u{feff}".as_bytes())) * 3;
    record.read_within(line, message + mark, times);
    let [host, app, pid, id] = words;
    record.process.app = app;
    match pid.of(line).iter().all(u8::is_ascii_digit) {
        true => record.process.pid = pid,
        false => record.thread = verbatim(pid),
    }
    record.push_given(GivenName::Host, host);
    record.push_given(GivenName::Msgid, id);
    read_structured(record, line, data, at);
}

/// The end of the elements `[id key="value" ...]` that stand one behind the other.
fn structured_end(line: &[u8], from: usize) -> usize {
    let mut at = from;
    while line.get(at) == Some(&b'[') {
        let mut next = at + 1;
        loop {
            match line.get(next) {
                None => return from,
                Some(b']') => break,
                Some(b'"') => match crate::json::string_end(line, next) {
                    Some(end) => next = end,
                    None => return from,
                },
                Some(_) => next += 1,
            }
        }
        at = next + 1;
    }
    at
}

fn read_structured(record: &mut Record, line: &[u8], from: usize, end: usize) {
    let mut at = from;
    while at < end {
        let rest = line.get(at..end).unwrap_or(b"");
        let Some(equals) = memchr::memchr(b'=', rest) else {
            return;
        };
        let key = rest.get(..equals).unwrap_or(b"");
        let start = memchr::memrchr(b' ', key).map_or(0, |blank| blank + 1);
        let value = at + equals + 1;
        let Some(close) = crate::json::string_end(line, value) else {
            return;
        };
        if close > end {
            return;
        }
        let part = Part::new(at + start, at + equals);
        record.push_field(
            verbatim(part),
            Text::new(Part::new(value + 1, close - 1), Writing::Quoted),
            None,
        );
        at = close;
    }
}

/// ` stdout F text`
fn read_container(record: &mut Record, line: &[u8], times: &mut Times) {
    let at = record.time.end();
    let message = at + text_behind_time(line.get(at..).unwrap_or(b"")).unwrap_or(0);
    record.read_within(line, message, times);
    record.lines.is_wrapped = true;
    record.lines.is_partial = line.get(at + 8) == Some(&b'P');
    record.push_given(GivenName::Stream, Part::new(at + 1, at + 7));
}

/// ` app:7] text`
fn read_tornado(record: &mut Record, line: &[u8]) {
    let at = record.time.end();
    let rest = line.get(at..).unwrap_or(b"");
    let close = memchr::memchr(b']', rest).unwrap_or(0);
    let word = Part::new(skip(line, at, |byte| byte == b' '), at + close);
    let text = word.of(line);
    match memchr::memchr(b':', text) {
        Some(colon) if is_place(text) => {
            record.module = verbatim(Part::new(word.start(), word.start() + colon));
            record.line = Part::new(word.start() + colon + 1, word.end());
        }
        _ => record.module = verbatim(word),
    }
    let message = skip(line, at + close + 1, |byte| byte == b' ');
    read_pairs(record, line, message, line.len());
}

/// ` com.example.App main`, and in the next line `INFO: text`.
fn read_java_util(record: &mut Record, line: &[u8]) {
    let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
    let start = skip(line, record.time.end(), |byte| byte == b' ' || byte >= 0x80);
    let names = line.get(start..end).unwrap_or(b"");
    let class = memchr::memchr(b' ', names).unwrap_or(names.len());
    record.module = verbatim(Part::new(start, start + class));
    let second = line.get(end + 1..).unwrap_or(b"");
    match java_util_level(second) {
        Some((level, length)) => {
            record.level = Some(level);
            record.level_part = Part::new(end + 1, end + 1 + length);
            let message = skip(line, end + 2 + length, |byte| byte == b' ');
            record.message = verbatim(Part::new(message, line.len()));
        }
        None => record.message = verbatim(Part::new(start, end)),
    }
}

/// `SEVERE: text`
pub(crate) fn java_util_level(line: &[u8]) -> Option<(Level, usize)> {
    let (word, rest) = crate::foreign::level::word_at(line);
    let found = crate::foreign::level::name(word)?;
    rest.starts_with(b": ").then_some((found.level, word.len()))
}
