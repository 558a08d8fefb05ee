//! Recognises the level of a line of text where it is plain.
//!
//! Looked at is the front of the line only, and a word counts only where a level stands in the usual formats: first
//! (`ERROR: x`, `[warn] x`, `<3>x`, `E1121 12:34:56 x`), behind a time (`2026-11-21 12:34:56 INFO x`), behind the name
//! of who speaks (`cc1: error: x`), or under its key (`level=error`). Prose that speaks of errors is no error. A line
//! without a level gets that of its stream: a wrong level would be worse than none.

use super::ansi;
use crate::limits::{HEAD_BYTES, HEAD_BYTES_COLOURED};
use logdrive_wire::Level;

/// The level that a line names.
///
/// ```
/// use logdrive_reader::foreign::level::recognise;
/// use logdrive_wire::Level;
/// assert_eq!(recognise(b"2026-11-21 12:34:56,789 WARNING disk is nearly full"), Some(Level::Warn));
/// assert_eq!(recognise(b"found 3 ERROR lines"), None);
/// ```
pub fn recognise(line: &[u8]) -> Option<Level> {
    let head = front(line, HEAD_BYTES);
    if memchr::memchr(ansi::ESCAPE, head).is_none() {
        return of_head(head);
    }
    let mut plain = Vec::with_capacity(HEAD_BYTES_COLOURED);
    ansi::strip(front(line, HEAD_BYTES_COLOURED), &mut plain);
    of_head(front(&plain, HEAD_BYTES))
}

/// As [`recognise`], for a line without the escape byte of terminals.
#[inline]
pub fn recognise_plain(line: &[u8]) -> Option<Level> {
    of_head(front(line, HEAD_BYTES))
}

fn front(text: &[u8], bytes: usize) -> &[u8] {
    text.get(..bytes).unwrap_or(text)
}

fn of_head(head: &[u8]) -> Option<Level> {
    let head = trim_start(head);
    match head.first()? {
        b'<' => syslog(head).or_else(|| bracketed(head)),
        b'[' | b'(' => bracketed(head),
        b'0'..=b'9' => behind_time(head),
        b'A'..=b'Z' => glog(head)
            .or_else(|| ruby(head))
            .or_else(|| first_word(head))
            .or_else(|| behind_name_of_day(head))
            .or_else(|| behind_speaker(head))
            .or_else(|| under_key(head)),
        b'a'..=b'z' => first_word(head)
            .or_else(|| panicked(head))
            .or_else(|| behind_speaker(head))
            .or_else(|| under_key(head)),
        _ => behind_speaker(head).or_else(|| under_key(head)),
    }
}

/// A word that names a level.
pub(crate) struct Name {
    pub(crate) level: Level,
    /// True if it means a level also where nothing but its capitals says so. `NOTE` and `ALERT` do not.
    pub(crate) plain: bool,
}

/// Level of a name, in upper or lower case, as any program writes it.
pub fn of_name(word: &str) -> Option<Level> {
    name(word.as_bytes()).map(|found| found.level)
}

/// Reads a level's name in upper or lower case; `Warning` too.
pub(crate) fn name(word: &[u8]) -> Option<Name> {
    let mut lower = [0; 13];
    let place = lower.get_mut(..word.len())?;
    for (place, byte) in place.iter_mut().zip(word) {
        *place = byte.to_ascii_lowercase();
    }
    let (level, plain) = match &*place {
        b"trace" | b"trc" | b"trac" => (Level::Trace, true),
        b"verbose" | b"trce" | b"silly" | b"finer" | b"finest" => (Level::Trace, false),
        b"debug" | b"dbg" | b"debu" => (Level::Debug, true),
        b"dbug" | b"deb" | b"fine" => (Level::Debug, false),
        b"info" | b"inf" | b"notice" => (Level::Info, true),
        // Parts of a message that postgres logs as lines of their own.
        b"detail" | b"hint" | b"context" | b"statement" | b"query" => (Level::Info, false),
        b"success" => (Level::Info, true),
        b"note" | b"ntc" | b"log" | b"config" | b"informational" | b"information" => (Level::Info, false),
        b"warn" | b"warning" | b"wrn" => (Level::Warn, true),
        b"error" | b"err" | b"erro" | b"severe" => (Level::Error, true),
        b"fail" | b"eror" => (Level::Error, false),
        b"fatal" | b"ftl" | b"fata" | b"critical" | b"crit" => (Level::Fatal, true),
        b"panic" | b"pani" | b"emerg" | b"emergency" | b"alert" => (Level::Fatal, false),
        _ => return None,
    };
    Some(Name { level, plain })
}

/// Reads the value of a field that is known to hold a level: also single letters.
pub(crate) fn named(word: &[u8]) -> Option<Level> {
    match word {
        b"T" | b"t" => Some(Level::Trace),
        b"D" | b"d" => Some(Level::Debug),
        b"I" | b"i" | b"DEFAULT" | b"default" => Some(Level::Info),
        b"W" | b"w" => Some(Level::Warn),
        b"E" | b"e" => Some(Level::Error),
        b"F" | b"f" | b"dpanic" => Some(Level::Fatal),
        _ => name(word).map(|name| name.level),
    }
}

/// Reads a severity of syslog: 0 emergency to 7 debug.
pub(crate) fn severity(number: u64) -> Option<Level> {
    match number {
        0..=2 => Some(Level::Fatal),
        3 => Some(Level::Error),
        4 => Some(Level::Warn),
        5 | 6 => Some(Level::Info),
        7 => Some(Level::Debug),
        _ => None,
    }
}

/// Takes white space off the front, which is mostly none, or a few spaces.
#[inline]
fn trim_start(text: &[u8]) -> &[u8] {
    let mut rest = text;
    while let Some(word) = rest.first_chunk::<8>() {
        let others = u64::from_le_bytes(*word) ^ u64::from_le_bytes([b' '; 8]);
        let spaces = others.trailing_zeros() as usize / 8;
        rest = rest.get(spaces..).unwrap_or_default();
        if spaces < 8 {
            break;
        }
    }
    match rest.first() {
        Some(byte) if byte.is_ascii_whitespace() => rest.trim_ascii_start(),
        _ => rest,
    }
}

/// Number of digits that the text begins with; `None` where there is nothing else.
#[inline]
fn digits_at(text: &[u8]) -> Option<usize> {
    let mut digits = 0;
    while let Some(word) = text.get(digits..)?.first_chunk::<8>() {
        let values = u64::from_le_bytes(*word) ^ u64::from_le_bytes([b'0'; 8]);
        // Ten and more reach the highest bit. What is carried comes from a byte that is none, and the first one counts.
        let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
        if others != 0 {
            return Some(digits + others.trailing_zeros() as usize / 8);
        }
        digits += 8;
    }
    let rest = text.get(digits..)?;
    let more = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    Some(digits + more)
}

pub(crate) fn word_at(text: &[u8]) -> (&[u8], &[u8]) {
    let length = text.iter().position(|byte| !byte.is_ascii_alphabetic());
    text.split_at(length.unwrap_or(text.len()))
}

pub(crate) fn is_upper(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_uppercase)
}

/// `<3>text`, `<191>text`: the priority of syslog, of which the lowest three bits are the severity.
fn syslog(head: &[u8]) -> Option<Level> {
    let rest = head.get(1..)?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    if !(1..=3).contains(&digits) || rest.get(digits) != Some(&b'>') {
        return None;
    }
    let digits = rest.get(..digits)?.iter();
    let number = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    (number <= 191).then(|| severity(number & 7)).flatten()
}

fn letter(letter: u8) -> Option<Level> {
    letter.is_ascii_uppercase().then(|| named(&[letter])).flatten()
}

/// `E1121 12:34:56.123456 417 file.cc:42] text`, also with a year.
fn glog(head: &[u8]) -> Option<Level> {
    let level = letter(*head.first()?)?;
    let rest = head.get(1..)?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let time = rest.get(digits..digits + 4)?;
    let is_time = matches!(time, [b' ', b'0'..=b'2', b'0'..=b'9', b':']);
    (matches!(digits, 4 | 8) && is_time).then_some(level)
}

/// `E, [2026-11-21T12:34:56.123456 #417] ERROR -- : text`.
fn ruby(head: &[u8]) -> Option<Level> {
    if head.get(1..4)? != b", [" {
        return None;
    }
    letter(*head.first()?)
}

/// `thread 'main' panicked at src/main.rs:7:5:`
fn panicked(head: &[u8]) -> Option<Level> {
    let found = head.starts_with(b"thread '") && memchr::memmem::find(head, b"' panicked at ").is_some()
        || head.starts_with(b"thread '") && memchr::memmem::find(head, b") panicked at ").is_some();
    found.then_some(Level::Error)
}

/// The line begins with a level.
fn first_word(head: &[u8]) -> Option<Level> {
    let (word, rest) = word_at(head);
    let name = name(word)?;
    if is_upper(word) {
        return level_before(&name, rest);
    }
    // `error[E0382]: borrow of moved value`
    if rest.starts_with(b"[E0") {
        return Some(name.level);
    }
    ends_with_colon(rest).then_some(name.level)
}

/// Returns whether the text after a name in capitals confirms that it is a level.
fn level_before(name: &Name, rest: &[u8]) -> Option<Level> {
    let clear = match rest {
        [] => name.plain,
        [b' ' | b'\t' | b'[' | b'(' | b'-' | b'!' | b',' | b'/', ..] => name.plain,
        [b':' | b']' | b'|' | b'>', ..] => true,
        _ => false,
    };
    clear.then_some(name.level)
}

fn ends_with_colon(rest: &[u8]) -> bool {
    matches!(rest, [b':'] | [b':', b' ' | b'\t', ..])
}

/// `[error] text`, `[main] INFO text`, `[2026-11-21 12:34:56] [warn] text`, `[I 12:34:56 app] text`.
fn bracketed(head: &[u8]) -> Option<Level> {
    let mut rest = head;
    // Date, thread, logger and level are in brackets of their own, in any order.
    for _ in 0..4 {
        let inner = rest.get(1..)?;
        if inner.first()?.is_ascii_digit() {
            return behind_time(inner).or_else(|| under_key(head));
        }
        if let Some(level) = in_brackets(inner) {
            return Some(level);
        }
        let close = memchr::memchr3(b']', b')', b'>', inner)?;
        rest = inner.get(close + 1..)?.trim_ascii_start();
        if !matches!(rest.first()?, b'[' | b'(' | b'<') {
            return first_word(rest);
        }
    }
    None
}

/// Behind an opening bracket: a level in any case, alone or before what else belongs to it.
fn in_brackets(inner: &[u8]) -> Option<Level> {
    let (word, rest) = word_at(inner.trim_ascii_start());
    if let ([single], [b' ', b'0'..=b'9', ..]) = (word, rest) {
        return letter(*single);
    }
    let name = name(word)?;
    match rest.trim_ascii_start() {
        [b']' | b')' | b'>', ..] => Some(name.level),
        _ if is_upper(word) => level_before(&name, rest),
        _ => None,
    }
}

/// The line begins with a day: `Nov 21 12:34:56 host app[417]: ERROR text`.
fn behind_name_of_day(head: &[u8]) -> Option<Level> {
    const DAYS: [&[u8]; 19] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
        b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun",
    ];
    let rest = head.get(3..)?;
    if !DAYS.contains(&head.get(..3)?) || !matches!(rest, [b' ' | b',', ..]) {
        return None;
    }
    rest.iter()
        .take(10)
        .any(u8::is_ascii_digit)
        .then(|| somewhere(rest))
        .flatten()
}

/// The line begins with a time, and the level stands behind it.
fn behind_time(head: &[u8]) -> Option<Level> {
    let digits = digits_at(head)?;
    let is_time = match head.get(digits)? {
        b':' | b'-' | b'/' | b'.' | b'T' => true,
        // Seconds since 1970.
        b' ' | b'\t' | b']' => digits >= 10,
        _ => false,
    };
    if !is_time {
        return None;
    }
    let length = head
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t' | b']' | b'|'))?;
    let (time, rest) = head.split_at(length);
    somewhere(rest).or_else(|| in_time(time))
}

/// `417:417:1121/123456.789:ERROR:file.cc(42)`, as Chromium has it between brackets.
fn in_time(time: &[u8]) -> Option<Level> {
    time.split(|byte| *byte == b':')
        .filter(|word| is_upper(word))
        .find_map(|word| name(word).map(|name| name.level))
}

/// The first level in capitals, between brackets or before a colon.
fn somewhere(text: &[u8]) -> Option<Level> {
    let mut at = 0;
    while let Some(start) = text.get(at..)?.iter().position(u8::is_ascii_alphanumeric) {
        let start = at + start;
        let before = start.checked_sub(1).and_then(|before| text.get(before));
        let (word, rest) = word_at(text.get(start..)?);
        at = start + word.len().max(1);
        let stands_alone = matches!(
            before,
            None | Some(b' ' | b'\t' | b'[' | b'(' | b'<' | b'|' | b':' | b'=' | b'-' | b']')
        );
        if !stands_alone || word.is_empty() {
            // The rest of a word with digits or marks in it.
            at += rest
                .iter()
                .position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'.'))?;
            continue;
        }
        let Some(name) = name(word) else { continue };
        let is_bracketed = matches!(before, Some(b'[' | b'(' | b'<'))
            && matches!(rest.trim_ascii_start(), [b']' | b')' | b'>', ..]);
        let is_keyed = before == Some(&b'=') && text.get(..start)?.ends_with(b"level=");
        if is_bracketed || is_keyed || ends_with_colon(rest) {
            return Some(name.level);
        }
        if is_upper(word)
            && let Some(level) = level_before(&name, rest)
        {
            return Some(level);
        }
    }
    None
}

/// `cc1: fatal error: text`, `app.c:7:3: warning: text`: a first word with a colon, and a level with one.
fn behind_speaker(head: &[u8]) -> Option<Level> {
    let blank = memchr::memchr(b' ', head)?;
    if head.get(blank.checked_sub(1)?) != Some(&b':') {
        return None;
    }
    let rest = head.get(blank + 1..)?;
    let (word, after) = word_at(rest);
    if word == b"fatal" && after.starts_with(b" error:") {
        return Some(Level::Error);
    }
    let name = name(word)?;
    let clear = ends_with_colon(after) || after.starts_with(b"[E0");
    clear.then_some(name.level)
}

/// `time="..." level=info msg="..."`: logfmt, where the key says what it is.
fn under_key(head: &[u8]) -> Option<Level> {
    let mut rest = head;
    while let Some(at) = memchr::memchr(b'=', rest) {
        let (before, value) = rest.split_at(at);
        rest = value.get(1..)?;
        let is_key = [&b"level"[..], b"lvl", b"severity"].iter().any(|key| {
            before.strip_suffix(*key).is_some_and(|before| {
                before
                    .last()
                    .is_none_or(|byte| matches!(byte, b' ' | b'\t' | b',' | b'{' | b'['))
            })
        });
        if is_key {
            return named(word_at(rest.strip_prefix(b"\"").unwrap_or(rest)).0);
        }
    }
    None
}

#[cfg(test)]
mod tests;
