//! Words in front of a message, as most loggers for people write them: level, process, thread, logger and place, in
//! any order, in brackets, between bars or bare.
//!
//! ```text
//! [main] INFO  com.x.App - text        INFO 417 --- [main] c.x.App : text       - app.db - ERROR - text
//! [417][info][main] [server.cc:350] x  | INFO     | app:run:12 - text           ERROR app::net: text
//! ```
//!
//! What stands before the level counts only where there is a level.

use crate::foreign::level::{is_upper, name, word_at};
use crate::pairs::is_key;
use crate::part::Part;
use crate::text::{is_module, is_place};
use logdrive_wire::Level;

/// Words that are looked at.
const WORDS_MAX: usize = 10;

/// Words behind a time of which the last one may be a level in capitals.
const FAR_WORDS_MAX: usize = 3;

/// Bytes between two brackets that may be a name.
const BRACKET_BYTES_MAX: usize = 96;

/// Words in front of a message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeadWords {
    pub(crate) level: Option<Level>,
    pub(crate) level_part: Part,
    pub(crate) pid: Part,
    pub(crate) user: Part,
    pub(crate) thread: Part,
    pub(crate) module: Part,
    /// File with its line.
    pub(crate) place: Part,
    /// Offset of the message.
    pub(crate) message: usize,
}

/// The level where it stands first behind a time, in capitals and alone, as with most loggers: ` INFO  `, `[INFO] `.
/// [`HeadWords::read`] finds the same, and more.
#[inline]
pub(crate) fn first_level(line: &[u8], from: usize) -> Option<(Level, Part)> {
    let mut at = from;
    while let Some(b' ' | b'\t' | b']') = line.get(at) {
        at += 1;
    }
    let is_bracketed = line.get(at) == Some(&b'[');
    at += usize::from(is_bracketed);
    let rest = line.get(at..)?;
    let (level, length) = match rest.first_chunk::<5>()? {
        b"INFO " | b"INFO]" => (Level::Info, 4),
        b"WARN " | b"WARN]" => (Level::Warn, 4),
        b"ERROR" => (Level::Error, 5),
        b"DEBUG" => (Level::Debug, 5),
        b"TRACE" => (Level::Trace, 5),
        b"FATAL" => (Level::Fatal, 5),
        _ => return None,
    };
    let ends = match is_bracketed {
        true => rest.get(length) == Some(&b']') || rest.get(length..length + 2) == Some(b" ]"),
        false => rest.get(length) == Some(&b' '),
    };
    ends.then(|| (level, Part::new(at, at + length)))
}

impl HeadWords {
    /// Reads the words behind an offset, which is that of the end of a time, or of the begin of the line.
    pub(crate) fn read(line: &[u8], from: usize) -> Self {
        let mut words = Self::default();
        let rest = line.get(from..).unwrap_or(b"");
        let closed = rest
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b']' | b')'))
            .count();
        let start = from + closed;
        let mut at = match rest {
            // `: INFO/MainProcess] text`, as Celery has it.
            [b':', b' ', ..] if from > 0 => words.read_celery(line, from + 2).unwrap_or(start),
            // ` #417]  INFO -- : text`, as Ruby has it.
            [b' ', b'#', number @ ..] => {
                let length = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let is_pid = number.get(length) == Some(&b']');
                if is_pid {
                    words.pid = Part::new(from + 2, from + 2 + length);
                }
                if is_pid { from + 3 + length } else { start }
            }
            // `, Info                  CBS    text`, as Windows has it.
            [b',', b' ', ..] if from > 0 => {
                let (word, behind) = word_at(rest.get(2..).unwrap_or(b""));
                let ends = behind.starts_with(b" ") && words.take_level(word, from + 2).is_some();
                if ends { from + 2 + word.len() } else { start }
            }
            _ => words.read_logcat(line, start).unwrap_or(start),
        };
        for number in 0..WORDS_MAX {
            at = skip_separators(line, at);
            let next = match line.get(at) {
                Some(b'[' | b'(' | b'<') => words.read_bracket(line, at),
                Some(_) if words.level.is_none() => words.read_before_level(line, at, number),
                Some(_) => words.read_behind_level(line, at),
                None => None,
            };
            let Some(Taken { end, is_last }) = next else { break };
            at = end;
            if words.level.is_some() {
                words.message = at;
            }
            if is_last {
                break;
            }
        }
        if words.level.is_none() {
            return Self::of_far_level(line, start);
        }
        words.message = skip_to_message(line, words.message);
        words
    }

    /// A level in capitals behind words that mean nothing here, which stay in the message.
    fn of_far_level(line: &[u8], start: usize) -> Self {
        let mut words = Self {
            message: start,
            ..Self::default()
        };
        let mut at = start;
        for _ in 0..FAR_WORDS_MAX {
            at = skip_blanks(line, at);
            let rest = line.get(at..).unwrap_or(b"");
            let (word, behind) = word_at(rest);
            let ends = matches!(behind, [] | [b' ' | b':' | b'\t', ..]);
            if ends
                && is_upper(word)
                && name(word).is_some_and(|found| found.plain || behind.starts_with(b":"))
                && words.take_level(word, at).is_some()
            {
                break;
            }
            at += memchr::memchr2(b' ', b'\t', rest).unwrap_or(rest.len());
        }
        words
    }

    /// `1702  8671 D `: process, thread and level, as Android has them.
    fn read_logcat(&mut self, line: &[u8], start: usize) -> Option<usize> {
        let number = |at: usize| {
            let rest = line.get(at..).unwrap_or(b"");
            let length = rest
                .iter()
                .take(10)
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            (length > 0 && rest.get(length) == Some(&b' ')).then(|| Part::new(at, at + length))
        };
        let pid = number(start)?;
        let thread = number(skip_blanks(line, pid.end()))?;
        let at = skip_blanks(line, thread.end());
        let level = match line.get(at..at + 2)? {
            b"V " => Level::Trace,
            b"D " => Level::Debug,
            b"I " => Level::Info,
            b"W " => Level::Warn,
            b"E " => Level::Error,
            b"F " => Level::Fatal,
            _ => return None,
        };
        (self.pid, self.thread) = (pid, thread);
        (self.level, self.level_part) = (Some(level), Part::new(at, at + 1));
        self.message = at + 2;
        Some(at + 2)
    }

    fn read_celery(&mut self, line: &[u8], at: usize) -> Option<usize> {
        let (word, rest) = word_at(line.get(at..)?);
        let close = memchr::memchr(b']', rest.get(..BRACKET_BYTES_MAX.min(rest.len()))?)?;
        if rest.first() != Some(&b'/') {
            return None;
        }
        self.take_level(word, at)?;
        let end = at + word.len();
        self.thread = Part::new(end + 1, end + close);
        self.message = end + close + 1;
        Some(self.message)
    }

    fn take_level(&mut self, word: &[u8], at: usize) -> Option<()> {
        let found = name(word)?;
        (self.level, self.level_part) = (Some(found.level), Part::new(at, at + word.len()));
        Some(())
    }

    /// `[main]`, `[ WARN ]`, `[417]`, `[core:error]`, `[pid 417:tid 9]`, `(Y.java:12)`, `<0.9.0>`
    fn read_bracket(&mut self, line: &[u8], at: usize) -> Option<Taken> {
        if line
            .get(at..)
            .is_some_and(|rest| rest.starts_with(b"[unknown]@[unknown] "))
        {
            return Some(Taken::going_on(at + 19));
        }
        let close = match line.get(at)? {
            b'[' => b']',
            b'(' => b')',
            _ => b'>',
        };
        let rest = line.get(at + 1..)?;
        let rest = rest.get(..BRACKET_BYTES_MAX.min(rest.len()))?;
        let length = memchr::memchr(close, rest)?;
        let inner = rest.get(..length)?;
        let start = at + 1 + inner.len() - inner.trim_ascii_start().len();
        let text = inner.trim_ascii();
        let end = at + 2 + length;
        let end = end + usize::from(line.get(end) == Some(&b':'));
        self.take_bracketed(line, start, text, close)?;
        Some(Taken::going_on(end))
    }

    fn take_bracketed(&mut self, line: &[u8], start: usize, text: &[u8], close: u8) -> Option<()> {
        let part = Part::new(start, start + text.len());
        if self.level.is_none() && self.take_level(text, start).is_some() {
            return Some(());
        }
        // `[core:error]`
        if let Some(colon) = memchr::memrchr(b':', text)
            && self.level.is_none()
            && self
                .take_level(text.get(colon + 1..)?, start + colon + 1)
                .is_some()
        {
            self.module = Part::new(start, start + colon);
            return Some(());
        }
        if let Some(numbers) = text.strip_prefix(b"pid ") {
            let pid = numbers.iter().take_while(|byte| byte.is_ascii_digit()).count();
            self.pid = Part::new(start + 4, start + 4 + pid);
            if numbers.get(pid..pid + 5) == Some(b":tid ") {
                self.thread = Part::new(start + 4 + pid + 5, part.end());
            }
            return Some(());
        }
        if matches!(text, [] | b"-") {
            return Some(());
        }
        let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        if is_number(text) || text.strip_prefix(b"#").is_some_and(is_number) {
            let number = Part::new(
                part.end() - text.iter().filter(|byte| **byte != b'#').count(),
                part.end(),
            );
            return take_one(&mut self.pid, number).or_else(|| take_one(&mut self.thread, number));
        }
        if close == b')' {
            let is_of_java = is_place(text) && memchr::memchr(b'.', text).is_some();
            return is_of_java.then(|| take_one(&mut self.place, part))?;
        }
        if is_place(text) && memchr::memchr2(b'.', b'/', text).is_some() {
            return take_one(&mut self.place, part);
        }
        let _ = line;
        self.take_name(text, part)
    }

    /// A name of a thread or of a logger between brackets.
    fn take_name(&mut self, text: &[u8], part: Part) -> Option<()> {
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.:$/#@+-| ".contains(byte);
        let begins = text
            .first()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
        // `<0.9.0>`, a process of Erlang.
        let is_erlang = text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
        if !is_erlang && (!begins || !text.iter().all(is_of_name)) {
            return None;
        }
        let is_dotted = memchr::memchr2(b'.', b':', text).is_some() && !text.contains(&b' ') && !is_erlang;
        let (first, second) = match is_dotted {
            true => (&mut self.module, &mut self.thread),
            false => (&mut self.thread, &mut self.module),
        };
        take_one(first, part).or_else(|| take_one(second, part))
    }

    /// A bare word before the level, or the level itself.
    fn read_before_level(&mut self, line: &[u8], at: usize, number: usize) -> Option<Taken> {
        let rest = line.get(at..)?;
        let (word, behind) = word_at(rest);
        if let Some(found) = name(word) {
            let ends = matches!(
                behind,
                [] | [
                    b' ' | b'\t' | b'\r' | b']' | b':' | b'|' | b',' | b'[' | b'(' | b'/' | b'>',
                    ..
                ]
            );
            let stands_out = is_upper(word) || matches!(behind, [b':', ..]) || number == 0;
            let is_clear = found.plain
                || matches!(behind, [b':' | b'|' | b' ', ..]) && (is_upper(word) || behind.starts_with(b":"));
            if ends && stands_out && is_clear {
                self.take_level(word, at)?;
                return Some(self.behind_level(line, at + word.len()));
            }
        }
        let length = word_length(rest);
        let text = rest.get(..length)?;
        let end = at + length;
        let part = Part::new(at, end);
        // `user@database`, as postgres has it.
        if memchr::memchr(b'@', text).is_some_and(|at| at > 0 && text.iter().all(|byte| is_key(*byte))) {
            take_one(&mut self.user, part)?;
            return Some(Taken::going_on(end));
        }
        if text.iter().all(u8::is_ascii_digit) && length <= 10 {
            take_one(&mut self.pid, part)?;
            return Some(Taken::going_on(end));
        }
        if !is_module(text) || number > 2 {
            return None;
        }
        // A name counts before a separator, or right before a level in capitals.
        let next = line.get(skip_blanks(line, end)..)?;
        let is_before_level =
            name(word_at(next).0).is_some_and(|found| found.plain) && is_upper(word_at(next).0);
        let is_before_bracket = matches!(next, [b'[', rest @ ..] if name(word_at(rest).0).is_some());
        if !is_before_level && !is_before_bracket && !matches!(next, [b'-' | b'|', b' ', ..]) {
            return None;
        }
        let is_thread = text == b"main" || memchr::memmem::find(text, b"hread").is_some();
        take_one(
            if is_thread {
                &mut self.thread
            } else {
                &mut self.module
            },
            part,
        )?;
        Some(Taken::going_on(end))
    }

    /// The end of a level: `INFO[0000] text`, `WARNING:root:text`, `[error]`.
    fn behind_level(&mut self, line: &[u8], end: usize) -> Taken {
        match line.get(end..) {
            Some([b'[', b'0'..=b'9', ..]) => {
                let close = line.get(end..).and_then(|rest| memchr::memchr(b']', rest));
                Taken::last(close.map_or(end, |close| end + close + 1))
            }
            Some([b':', next, rest @ ..]) if !next.is_ascii_whitespace() => {
                let length = rest
                    .iter()
                    .take(BRACKET_BYTES_MAX)
                    .position(|byte| matches!(byte, b':' | b' '));
                let name = length.and_then(|length| line.get(end + 1..end + 2 + length));
                match name {
                    Some(name) if is_module(name) && line.get(end + 1 + name.len()) == Some(&b':') => {
                        self.module = Part::new(end + 1, end + 1 + name.len());
                        Taken::last(end + 2 + name.len())
                    }
                    _ => Taken::last(end + 1),
                }
            }
            Some([b':', ..]) => Taken::last(end + 1),
            Some([b'/', ..]) => Taken::last(end),
            _ => Taken::going_on(end),
        }
    }

    /// A bare word behind the level that is a logger or a place, as what follows shows.
    fn read_behind_level(&mut self, line: &[u8], at: usize) -> Option<Taken> {
        let rest = line.get(at..)?;
        let length = word_length(rest);
        let word = rest.get(..length)?;
        let end = at + length;
        let part = Part::new(at, end);
        let next = line.get(skip_blanks(line, end)..).unwrap_or(b"");
        if word.iter().all(u8::is_ascii_digit) && next.starts_with(b"--- ") {
            take_one(&mut self.pid, part)?;
            return Some(Taken::going_on(end));
        }
        // `417#417: text`, as nginx has it.
        if let Some(numbers) = word.strip_suffix(b":")
            && let Some(hash) = memchr::memchr(b'#', numbers)
            && numbers
                .iter()
                .enumerate()
                .all(|(at, byte)| byte.is_ascii_digit() || at == hash)
        {
            self.pid = Part::new(at, at + hash);
            self.thread = Part::new(at, end - 1);
            return Some(Taken::last(end));
        }
        if let Some(name) = word.strip_suffix(b":") {
            return self.take_before_colon(name, at, next);
        }
        // `main.go:12 > text`, `caller.go:7<tab>text`
        if is_place(word) && memchr::memchr(b'.', word).is_some() {
            let is_framed =
                next.starts_with(b"> ") || line.get(end) == Some(&b'\t') || next.starts_with(b"- ");
            is_framed.then(|| take_one(&mut self.place, part))??;
            return Some(Taken::last(end));
        }
        if !is_module(word) && !is_function(word) {
            return None;
        }
        let is_tabbed = line.get(end) == Some(&b'\t') && line.get(at - 1) == Some(&b'\t');
        let before_tabbed_place = is_tabbed && next.get(..word_length(next)).is_some_and(is_place);
        let is_framed = matches!(next, [b'-' | b'|' | b':', b' ', ..] | [b'|', ..]);
        let in_parentheses = next.strip_prefix(b"(").map(|rest| {
            rest.get(
                ..rest
                    .iter()
                    .take(BRACKET_BYTES_MAX)
                    .position(|byte| *byte == b')')
                    .unwrap_or(0),
            )
            .unwrap_or(b"")
        });
        let before_place = in_parentheses.is_some_and(|place| is_place(place) && place.contains(&b'.'));
        if !is_framed && !before_place && !before_tabbed_place {
            return None;
        }
        self.take_logger(word, at)?;
        Some(Taken {
            end,
            is_last: is_framed,
        })
    }

    /// A name with a colon behind it: a place, or a logger, which a place may follow.
    fn take_before_colon(&mut self, name: &[u8], at: usize, next: &[u8]) -> Option<Taken> {
        let part = Part::new(at, at + name.len());
        if is_place(name) {
            take_one(&mut self.place, part)?;
            return Some(Taken::last(part.end() + 1));
        }
        if !is_module(name) || is_exception(name) {
            return None;
        }
        take_one(&mut self.module, part)?;
        // A place may follow: `app::net: src/main.rs:42: text`.
        let is_before_place = |next: &[u8]| {
            next.get(..word_length(next))
                .and_then(|word| word.strip_suffix(b":"))
                .is_some_and(is_place)
        };
        Some(Taken {
            end: part.end() + 1,
            is_last: !is_before_place(next),
        })
    }

    /// A logger, which may have a function and a line behind it: `app.net:run:12`.
    fn take_logger(&mut self, word: &[u8], at: usize) -> Option<()> {
        if let Some(colon) = memchr::memrchr(b':', word)
            && word
                .get(colon + 1..)
                .is_some_and(|line| !line.is_empty() && line.iter().all(u8::is_ascii_digit))
            && colon.checked_sub(1).and_then(|before| word.get(before)) != Some(&b':')
        {
            self.place = Part::new(at, at + word.len());
            let before = word.get(..colon)?;
            let module = memchr::memrchr(b':', before).unwrap_or(colon);
            return take_one(&mut self.module, Part::new(at, at + module));
        }
        take_one(&mut self.module, Part::new(at, at + word.len()))
    }
}

/// `app.net:<module>:12`, as loguru has it.
fn is_function(word: &[u8]) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.:<>".contains(byte);
    word.iter().all(is_of_name)
        && word
            .first()
            .is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
}

/// The name of an exception, which stands in front of messages, too.
fn is_exception(name: &[u8]) -> bool {
    name.ends_with(b"Error") || name.ends_with(b"Exception")
}

/// A word that was taken, and whether it was the last one before the message.
struct Taken {
    end: usize,
    is_last: bool,
}

impl Taken {
    fn going_on(end: usize) -> Self {
        Self { end, is_last: false }
    }

    fn last(end: usize) -> Self {
        Self { end, is_last: true }
    }
}

/// Takes a part, if there is none yet.
fn take_one(place: &mut Part, part: Part) -> Option<()> {
    place.is_empty().then(|| *place = part)
}

fn word_length(text: &[u8]) -> usize {
    let ends = |byte: &u8| matches!(byte, b' ' | b'\t' | b'|' | b']' | b'[' | b'(');
    text.iter().position(ends).unwrap_or(text.len())
}

fn skip_blanks(line: &[u8], at: usize) -> usize {
    let rest = line.get(at..).unwrap_or(b"");
    at + rest
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count()
}

/// Blanks and what stands alone between two words: `-`, `---`, `|`, `:`.
fn skip_separators(line: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        at = skip_blanks(line, at);
        let rest = line.get(at..).unwrap_or(b"");
        let marks = rest.iter().take_while(|byte| matches!(byte, b'-' | b':')).count();
        match rest.get(marks) {
            _ if rest.first() == Some(&b'|') => at += 1,
            Some(b' ' | b'\t') if marks > 0 && marks <= 3 => at += marks,
            _ => return at,
        }
    }
}

/// Blanks before a message, and one separator among them.
fn skip_to_message(line: &[u8], from: usize) -> usize {
    let at = skip_blanks(line, from);
    match line.get(at..) {
        Some([b'-' | b':' | b'|' | b'>', b' ' | b'\t', ..] | [b'|', ..]) => skip_blanks(line, at + 1),
        Some([b'-' | b':' | b'>']) => at + 1,
        // `-- : text`
        Some([b'-', b'-', b' ', ..]) => skip_to_message(line, at + 2),
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let bytes = line.as_bytes();
        let words = HeadWords::read(bytes, 0);
        let text = |part: Part| match part.is_empty() {
            true => "-".to_owned(),
            false => String::from_utf8_lossy(part.of(bytes)).into_owned(),
        };
        let message = line.get(words.message..).unwrap_or("");
        format!(
            "{} {} {} {} {} [{message}]",
            words.level.map_or("-", Level::name),
            text(words.pid),
            text(words.thread),
            text(words.module),
            text(words.place),
        )
    }

    #[test]
    fn words_of_usual_loggers_are_found() {
        for (line, expected) in [
            (" [main] INFO  com.x.App - text", "INFO - main com.x.App - [text]"),
            (
                " INFO  [main] com.x.App (App.java:12) - text",
                "INFO - main com.x.App App.java:12 [text]",
            ),
            (
                "  INFO 417 --- [           main] c.x.App                  : text",
                "INFO 417 main c.x.App - [text]",
            ),
            (
                "] INFO text (kafka.server.KafkaServer)",
                "INFO - - - - [text (kafka.server.KafkaServer)]",
            ),
            (
                "][INFO ][o.e.n.Node               ] [node-1] text",
                "INFO - node-1 o.e.n.Node - [text]",
            ),
            (" - app.db - ERROR - text", "ERROR - - app.db - [text]"),
            (" app.db ERROR text", "ERROR - - app.db - [text]"),
            (
                " | INFO     | app.net:run:12 - text",
                "INFO - - app.net app.net:run:12 [text]",
            ),
            ("] [417] [INFO] text", "INFO 417 - - - [text]"),
            (
                "][417][info][main] [source/server/server.cc:350] text",
                "INFO 417 main - source/server/server.cc:350 [text]",
            ),
            ("\tINFO\tapp\tmain.go:7\ttext", "INFO - - app main.go:7 [text]"),
            (" INF main.go:7 > text a=1", "INFO - - - main.go:7 [text a=1]"),
            (
                " [INFO]  agent.net: text: a=1",
                "INFO - - agent.net - [text: a=1]",
            ),
            ("WARNING:root:text", "WARN - - root - [text]"),
            ("INFO:     text", "INFO - - - - [text]"),
            ("INFO[0000] text", "INFO - - - - [text]"),
            (" [error] 417#417: *1 text", "ERROR 417 417#417 - - [*1 text]"),
            (
                "] [core:error] [pid 417:tid 99] text",
                "ERROR 417 99 core - [text]",
            ),
            (
                " INFO app::net: src/main.rs:42: text",
                "INFO - - app::net src/main.rs:42 [text]",
            ),
            (
                " 0 [Warning] [MY-010055] [Server] text",
                "WARN 0 MY-010055 Server - [text]",
            ),
            (" all is well", "- - - - - [all is well]"),
            (" [1/5] no level", "- - - - - [[1/5] no level]"),
            (" error while loading", "ERROR - - - - [while loading]"),
            ("", "- - - - - []"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
            if let Some((level, part)) = first_level(line.as_bytes(), 0) {
                let words = HeadWords::read(line.as_bytes(), 0);
                assert_eq!((Some(level), part), (words.level, words.level_part), "{line}");
            }
        }
    }
}
