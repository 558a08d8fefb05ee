//! Lines of the text and glog layouts behind time and level: thread, module, place, spans, message, fields.
//!
//! A line of text does not say where its thread's name ends or its message begins, so this goes by what the parts
//! look like. Other loggers' lines give what of it they have.

use crate::pairs::{Style, is_key, read_last_of_span, read_pair, read_trailing_pairs, span_end};
use crate::part::{Part, Text};
use crate::record::{ProcessPart, Record};

/// Words behind the level that are searched for the place in the source: names of threads may have spaces.
const PLACE_WORDS_MAX: usize = 8;

/// `main app::net net.rs:42 outer{id=1}: connected to 10.0.0.1 peer=7`
pub(crate) fn read_text(record: &mut Record, line: &[u8]) {
    let at = skip(line, record.level_part.end().max(record.time.end()), |byte| {
        matches!(byte, b' ' | b']' | b')')
    });
    let words = Words::read(line, at);
    let body = if let Some(place) = words.place(line) {
        let word = words.part(place);
        read_place(record, line, word);
        if place > 1 {
            record.module = Text::in_text(words.part(place - 1));
        }
        let last_of_thread = if place > 1 { place - 2 } else { 0 };
        take_thread(record, line, Part::new(at, words.part(last_of_thread).end()));
        word.end()
    } else if words.is_own(line, record) {
        take_thread(record, line, words.part(0));
        record.module = Text::in_text(words.part(1));
        words.part(1).end()
    } else if let Some(module) = words.module_with_colon(line) {
        record.module = Text::in_text(Part::new(module.start(), module.end() - 1));
        module.end()
    } else {
        at
    };
    read_body(record, line, body);
}

/// `worker-3`, or with its process, as many that share a log have it: `shop[4711]/worker-3`.
fn take_thread(record: &mut Record, line: &[u8], part: Part) {
    record.thread = Text::in_text(part);
    let name = part.of(line);
    let Some(close) = memchr::memmem::find(name, b"]/") else {
        return;
    };
    let Some(open) = memchr::memchr(b'[', name).filter(|open| *open < close) else {
        return;
    };
    let at = part.start();
    let (app, pid) = (Part::new(at, at + open), Part::new(at + open + 1, at + close));
    let digits = pid.of(line);
    let is_pid = digits.len() <= 10 && digits.iter().all(u8::is_ascii_digit);
    let is_named = digits.first().is_some_and(|first| *first != b'0') && is_pid;
    if is_named && !app.is_empty() && !app.of(line).contains(&b' ') {
        record.process = ProcessPart { app, pid };
        record.thread = Text::in_text(Part::new(at + close + 2, part.end()));
    }
}

/// `   417 file.cc:42] message key=value`
pub(crate) fn read_glog(record: &mut Record, line: &[u8]) {
    let at = skip(line, record.time.end(), |byte| byte == b' ');
    let rest = line.get(at..).unwrap_or(b"");
    let Some(bracket) = memchr::memchr(b']', rest) else {
        return read_body(record, line, at);
    };
    let head = rest.get(..bracket).unwrap_or(b"");
    let thread_length = memchr::memchr(b' ', head).unwrap_or(0);
    record.thread = Text::in_text(Part::new(at, at + thread_length));
    let place = skip(line, at + thread_length, |byte| byte == b' ');
    read_place(record, line, Part::new(place, at + bracket));
    read_body(record, line, at + bracket + 1);
}

pub(crate) fn skip(line: &[u8], at: usize, skipped: impl Fn(u8) -> bool) -> usize {
    let rest = line.get(at..).unwrap_or(b"");
    at + rest.iter().take_while(|byte| skipped(**byte)).count()
}

pub(crate) fn read_place(record: &mut Record, line: &[u8], word: Part) {
    let text = word.of(line);
    let colon = memchr::memrchr(b':', text).unwrap_or(text.len());
    record.file = Text::in_text(Part::new(word.start(), word.start() + colon));
    record.line = Part::new(word.start() + (colon + 1).min(text.len()), word.end());
}

/// Spans, message and fields: all that follows.
pub(crate) fn read_body(record: &mut Record, line: &[u8], at: usize) {
    let at = skip(line, at, |byte| byte == b' ');
    let start = read_spans(record, line, at).unwrap_or_else(|| {
        record.span_names.clear();
        record.fields.clear();
        at
    });
    let mut pairs = std::mem::take(&mut record.pairs);
    let end = read_trailing_pairs(line, start, &mut pairs);
    let message_end = end.saturating_sub(usize::from(!pairs.is_empty()));
    record.message = Text::in_text(Part::new(start, message_end.max(start)));
    for pair in &pairs {
        record.push_field(Text::in_text(pair.key), pair.value, None);
    }
    record.pairs = pairs;
}

/// Reads `outer{key=value key=value}:inner: ` and returns where the message begins. Without a field it could be any
/// message with a colon, so then it is taken for one.
#[inline]
pub(crate) fn read_spans(record: &mut Record, line: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let end = span_name_end(line, at).filter(|end| *end > at)?;
        let number = record.push_span(Text::in_text(Part::new(at, end)))?;
        at = end;
        if line.get(at) == Some(&b'{') {
            at = read_span_fields(record, line, at + 1, number)?;
        }
        if line.get(at) != Some(&b':') {
            return None;
        }
        at += 1;
        if line.get(at) == Some(&b' ') {
            let has_fields = record.fields.iter().any(|field| field.span.is_some());
            return has_fields.then_some(at + 1);
        }
    }
}

/// A name ends at a brace or at a colon that is not one of two. It may have spaces inside: `first recv`.
fn span_name_end(line: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        match (line.get(at)?, line.get(at + 1)) {
            (b':', Some(b':')) => at += 2,
            (b'{' | b':', _) => return Some(at),
            (b' ', _) if at > from => at += 1,
            (byte, _) if is_key(*byte) => at += 1,
            _ => return None,
        }
    }
}

/// Reads fields up to the closing brace, and returns what follows it.
fn read_span_fields(record: &mut Record, line: &[u8], from: usize, span: u8) -> Option<usize> {
    let mut at = from;
    loop {
        // The last value of a span ends at its brace, of which a value may have some, too.
        if let Some(pair) = read_pair(line, at, Style::Text)
            && span_end(pair.value.part.of(line)).is_none()
        {
            record.push_field(Text::in_text(pair.key), pair.value, Some(span));
            at = pair.next;
            continue;
        }
        let last = read_last_of_span(line, at)?;
        record.push_field(Text::in_text(last.key), last.value, Some(span));
        return Some(last.next);
    }
}

/// The first words of a line.
struct Words {
    parts: [Part; PLACE_WORDS_MAX + 1],
    count: usize,
}

impl Words {
    fn read(line: &[u8], from: usize) -> Self {
        let mut words = Self {
            parts: [Part::default(); PLACE_WORDS_MAX + 1],
            count: 0,
        };
        let mut at = from;
        for place in &mut words.parts {
            let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            let end = at + memchr::memchr(b' ', rest).unwrap_or(rest.len());
            *place = Part::new(at, end);
            words.count += 1;
            at = end + 1;
        }
        words
    }

    fn part(&self, number: usize) -> Part {
        self.parts.get(number).copied().unwrap_or_default()
    }

    fn all(&self) -> &[Part] {
        self.parts.get(..self.count).unwrap_or(&[])
    }

    /// The number of the word that is a place in the source, `net.rs:42`, with a module or a thread before it.
    fn place(&self, line: &[u8]) -> Option<usize> {
        let mut further = self.all().iter().skip(1);
        let number = further.position(|part| is_place(part.of(line)))? + 1;
        let before = self.part(number - 1).of(line);
        // Further behind, something else may look like a place: `connected to host.org:80`.
        (number <= 2 || is_module(before)).then_some(number)
    }

    /// Whether a line without a place is Logdrive's: its times have nine digits, its levels are padded to six.
    fn is_own(&self, line: &[u8], record: &Record) -> bool {
        let is_nine_digits = match record.time.of(line).get(19..29) {
            Some([b'.', digits @ ..]) => digits.iter().all(u8::is_ascii_digit),
            _ => false,
        };
        let is_padded = record.level_part.start() == record.time.end() + 1
            && self.part(0).start() == record.level_part.start() + 6;
        is_nine_digits && is_padded && self.count > 1 && is_module(self.part(1).of(line))
    }

    /// A first word such as `app::net:`, as `tracing-subscriber` writes.
    fn module_with_colon(&self, line: &[u8]) -> Option<Part> {
        let word = self.all().first()?;
        let module = word.of(line).strip_suffix(b":")?;
        is_module(module).then_some(*word)
    }
}

/// `net.rs:42`
pub(crate) fn is_place(word: &[u8]) -> bool {
    let Some(colon) = memchr::memrchr(b':', word) else {
        return false;
    };
    let (file, line) = word.split_at(colon);
    let number = line.get(1..).unwrap_or(b"");
    let is_number = !number.is_empty() && number.len() <= 10 && number.iter().all(u8::is_ascii_digit);
    is_number && !file.is_empty() && file.iter().all(|byte| is_key(*byte) && *byte != b':')
}

/// `app::net`, `net.quic`
pub(crate) fn is_module(word: &[u8]) -> bool {
    let is_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'.' | b'-' | b'/');
    let begins = word
        .first()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    begins && word.iter().all(is_name) && !word.ends_with(b":") && !word.ends_with(b".")
}
