//! Normalising of a sender's lines: the same lines with its host, process and session as fields, on one line each
//! whatever is in them. In JSON each key stands once: a record's own `host` becomes `host_1`, as in the layouts.

use logdrive_reader::{Writing, put_json, put_safe, unescape};
use logdrive_ship::Identity;
use logdrive_ship::hello::Hello;
use memchr::{memchr, memchr_iter, memmem};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;
use std::ops::Range;

/// The fields of one sender, ready to be put behind its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fields {
    is_json: bool,
    /// Their keys.
    keys: Vec<&'static str>,
    /// The same between quotes, as they stand in JSON.
    quoted_keys: Vec<Vec<u8>>,
    bytes: Vec<u8>,
    /// The same with what stands before them and the line break.
    tail: Vec<u8>,
    /// Those that rows of a segment have as values.
    row_values: Vec<(&'static str, String)>,
}

/// Lines of a sender that are to be normalised.
#[derive(Debug)]
pub(crate) struct SenderLines<'a> {
    fields: &'a Fields,
    rest: &'a [u8],
    /// True if there is nothing to escape in any of them.
    is_plain: bool,
    /// True if one may have a key of the fields itself.
    clashes: bool,
}

impl Fields {
    /// The fields of a sender that said this hello, and the name that its transport vouches for; in JSON or as text.
    pub(crate) fn of(hello: &Hello, identity: Option<&Identity>, is_json: bool) -> Self {
        let mut keys = Vec::new();
        let mut text = String::new();
        let session = format!("{:032x}", hello.session);
        let mut row_values = vec![("session", session.clone())];
        row_values.extend(identity.map(|identity| ("identity", identity.name.clone())));
        let mut put = |key: &'static str, value: &str, is_number: bool| {
            keys.push(key);
            // Writing into a string does not fail.
            let _ = match (is_json, is_number) {
                (false, _) => write!(text, " {key}={value}"),
                (true, true) => write!(text, "\"{key}\":{value},"),
                (true, false) => write!(text, "\"{key}\":\"{value}\","),
            };
        };
        // Records of an input name theirs.
        if !hello.host.is_empty() {
            put("host", &plain(&hello.host), false);
        }
        // Without a name each line names its process itself: an agent sends those of many.
        if !hello.app.is_empty() {
            put("process", &plain(&hello.app), false);
            put("pid", &hello.pid.to_string(), true);
        }
        put("session", &session, false);
        if let Some(identity) = identity {
            put("identity", &plain(&identity.name), false);
        }
        if is_json {
            text.pop();
            text.push('}');
        }
        let comma = if is_json { "," } else { "" };
        Self {
            is_json,
            tail: format!("{comma}{text}\n").into_bytes(),
            quoted_keys: keys.iter().map(|key| format!("\"{key}\"").into_bytes()).collect(),
            keys,
            bytes: text.into_bytes(),
            row_values,
        }
    }

    /// Fields that no row of a segment has by itself, as it has the process.
    pub(crate) fn row_values(&self) -> &[(&'static str, String)] {
        &self.row_values
    }

    /// Whether one of the fields has this key.
    pub(crate) fn has_key(&self, name: &str) -> bool {
        self.keys.contains(&name)
    }

    /// Writes the fields behind a line that was laid out here, and ends at `end` with its line break; bytes behind that do not
    /// count. Returns the end.
    pub(crate) fn put_behind(&self, (out, start): (&mut Vec<u8>, usize), end: usize, clashes: bool) -> usize {
        let line = out.get(start..end).unwrap_or(&[]);
        let cut = match self.is_json {
            false => line.strip_suffix(b"\n").map(<[u8]>::len),
            true => line
                .strip_suffix(b"}\n")
                .filter(|inside| inside.len() > 1 && inside.starts_with(b"{"))
                .map(<[u8]>::len),
        };
        let whole;
        let clashes = clashes && self.may_clash(line);
        let (at, behind): (usize, &[u8]) = match cut.filter(|_| !clashes) {
            Some(cut) => (start + cut, &self.tail),
            None => {
                let mut renamed = Vec::with_capacity(line.len() + self.bytes.len());
                self.put_line(
                    line.strip_suffix(b"\n").unwrap_or(line),
                    true,
                    clashes,
                    &mut renamed,
                );
                whole = renamed;
                (start, &whole)
            }
        };
        let end = at + behind.len();
        if out.len() < end {
            out.resize(end, 0);
        }
        if let Some(place) = out.get_mut(at..end) {
            place.copy_from_slice(behind);
        }
        end
    }

    /// Lines that are put behind one another with the fields.
    pub(crate) fn lines<'a>(&'a self, lines: &'a [u8]) -> SenderLines<'a> {
        SenderLines {
            fields: self,
            rest: lines,
            // One scan of all of them, because hardly any have something to escape.
            is_plain: !has_suspects(lines),
            clashes: self.may_clash(lines),
        }
    }

    /// Returns whether a record may have one of the keys itself; one may also be written with escapes.
    fn may_clash(&self, lines: &[u8]) -> bool {
        let has = |key: &Vec<u8>| memmem::find(lines, key).is_some();
        self.is_json && (self.quoted_keys.iter().any(has) || memmem::find(lines, b"\\u").is_some())
    }

    fn put_line(&self, line: &[u8], is_plain: bool, clashes: bool, out: &mut Vec<u8>) {
        if self.is_json {
            self.put_object(line, is_plain, clashes, out);
        } else if is_plain {
            out.extend_from_slice(line);
        } else {
            put_safe(out, line);
        }
        out.extend_from_slice(&self.bytes);
        out.push(b'\n');
    }

    /// Without the brace at its end, which the fields bring; what is no object becomes one.
    fn put_object(&self, line: &[u8], is_plain: bool, clashes: bool, out: &mut Vec<u8>) {
        let inside = line
            .strip_prefix(b"{")
            .and_then(|line| line.trim_ascii_end().strip_suffix(b"}"));
        let is_plain = is_plain || {
            let mut safe = Vec::with_capacity(line.len());
            put_safe(&mut safe, line);
            safe == line
        };
        match inside.filter(|_| is_plain) {
            Some(inside) if !inside.trim_ascii().is_empty() => {
                out.push(b'{');
                match clashes {
                    true => self.put_renamed(inside, out),
                    false => out.extend_from_slice(inside),
                }
                out.push(b',');
            }
            Some(_) => out.push(b'{'),
            None => {
                out.extend_from_slice(br#"{"message":""#);
                put_json(out, line);
                out.extend_from_slice(b"\",");
            }
        }
    }
}

impl SenderLines<'_> {
    /// Returns the number of lines that are left; bytes behind the last line break are one more.
    pub(crate) fn count(&self) -> usize {
        let is_open = self.rest.last().is_some_and(|byte| *byte != b'\n');
        memchr_iter(b'\n', self.rest).count() + usize::from(is_open)
    }

    /// Appends lines until there are `bytes_max` bytes or more, without the first `skip`. Returns the number of lines that
    /// are done with.
    #[cfg(test)]
    pub(crate) fn put(&mut self, skip: u32, bytes_max: usize, out: &mut Vec<u8>) -> u32 {
        self.put_wanted(skip, bytes_max, out, |_| true).0
    }

    /// Appends lines that are wanted until there are `bytes_max` bytes or more, without the first `skip`. All are asked for, in
    /// order. Returns the number of lines that are done with, and of those that were put.
    pub(crate) fn put_wanted(
        &mut self,
        skip: u32,
        bytes_max: usize,
        out: &mut Vec<u8>,
        mut wants: impl FnMut(&[u8]) -> bool,
    ) -> (u32, u32) {
        let (mut count, mut put) = (0, 0);
        while !self.rest.is_empty() && out.len() < bytes_max {
            let rest = self.rest;
            let (line, behind) = match memchr(b'\n', rest) {
                Some(at) => (rest.get(..at).unwrap_or(&[]), rest.get(at + 1..).unwrap_or(&[])),
                None => (rest, &[][..]),
            };
            self.rest = behind;
            if wants(line) && count >= skip {
                put += 1;
                self.fields.put_line(line, self.is_plain, self.clashes, out);
            }
            count += 1;
        }
        (count, put)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

impl Fields {
    /// The members of an object; those that have a key of the fields get an unused number behind it.
    fn put_renamed(&self, inside: &[u8], out: &mut Vec<u8>) {
        let found = keys_of(inside);
        let is_ours = |name: &[u8]| self.keys.iter().any(|key| key.as_bytes() == name);
        if !found.iter().any(|(_, name)| is_ours(name)) {
            return out.extend_from_slice(inside);
        }
        let mut taken: HashSet<Vec<u8>> = found.iter().map(|(_, name)| name.to_vec()).collect();
        let mut numbers = vec![0_u32; self.keys.len()];
        let mut from = 0;
        for (place, name) in &found {
            let ours = self.keys.iter().zip(&mut numbers);
            let Some((key, number)) = ours.into_iter().find(|(key, _)| key.as_bytes() == name.as_ref())
            else {
                continue;
            };
            let fresh = loop {
                *number += 1;
                let fresh = format!("{key}_{number}").into_bytes();
                if taken.insert(fresh.clone()) {
                    break fresh;
                }
            };
            out.extend_from_slice(inside.get(from..place.start).unwrap_or(&[]));
            out.extend_from_slice(&fresh);
            from = place.end;
        }
        out.extend_from_slice(inside.get(from..).unwrap_or(&[]));
    }
}

/// The keys of an object that stands here without its braces: where they stand, without their quotes, and what they say.
fn keys_of(inside: &[u8]) -> Vec<(Range<usize>, Cow<'_, [u8]>)> {
    let mut keys = Vec::new();
    let (mut at, mut depth, mut is_key) = (0, 0_usize, true);
    while let Some(byte) = inside.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let end = string_end(inside, at);
                if depth == 0 && is_key {
                    let written = inside.get(at..end).unwrap_or(&[]);
                    keys.push((at..end, unescape(written, Writing::Json)));
                    is_key = false;
                }
                at = end + 1;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => is_key |= depth == 0,
            _ => {}
        }
    }
    keys
}

/// Returns the offset of the quote that ends a string; the end of all where there is none.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Controls but line breaks and tabs, and what begins the characters that could reorder a line.
fn is_suspect(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\n' && byte != b'\t') || byte == 0x7f || byte >= 0x80
}

/// Looks at many bytes at once, whatever each of them is, for which there are instructions.
fn has_suspects(lines: &[u8]) -> bool {
    let among = |bytes: &[u8]| bytes.iter().fold(false, |found, byte| found | is_suspect(*byte));
    lines.chunks(512).any(among)
}

/// A name as it may stand in a line: what is not in the list becomes `_`.
fn plain(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '@');
    let name: String = name.chars().map(|c| if keep(c) { c } else { '_' }).collect();
    match name.is_empty() {
        true => "_".to_owned(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_ship::hello::{Format, Role};

    fn fields(format: Format) -> Fields {
        let mut hello = Hello::new(Role::Shipper);
        hello.format = format;
        hello.host = "a b\n".to_owned();
        hello.app = "shop".to_owned();
        hello.pid = 7;
        Fields::of(&hello, None, format == Format::Json)
    }

    fn put(format: Format, lines: &[u8], skip: u32, out: &mut Vec<u8>) -> u32 {
        fields(format).lines(lines).put(skip, usize::MAX, out)
    }

    #[test]
    fn lines_get_fields_and_stay_one_line() {
        let mut out = Vec::new();
        let count = put(Format::Text, b"one\nt\x1bwo\nthree", 1, &mut out);
        assert_eq!(count, 3);
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("t\\x1bwo host=a_b_ process=shop pid=7 session=0"),
            "{}",
            lines[0]
        );
        assert!(lines[1].starts_with("three host="));
    }

    /// Empty lines of a frame of 270 bytes with long names took 4.6 GB.
    #[test]
    fn lines_come_in_pieces_of_bounded_size() {
        let own = fields(Format::Text);
        let input = b"\n".repeat(1_000);
        let mut lines = own.lines(&input);
        assert_eq!(lines.count(), 1_000);
        let (mut pieces, mut count) = (0, 0);
        while !lines.is_empty() {
            let mut out = Vec::new();
            count += lines.put(0, 4_096, &mut out);
            assert!(out.len() < 4_096 + own.bytes.len() + 1);
            pieces += 1;
        }
        assert_eq!(count, 1_000);
        assert!(pieces > 10);
    }

    #[test]
    fn the_verified_name_stands_beside_the_claimed_one() {
        let mut hello = Hello::new(Role::Shipper);
        hello.format = Format::Json;
        hello.app = "shop".to_owned();
        let own = Fields::of(&hello, Some(&Identity::of_user(7)), true);
        let mut out = Vec::new();
        own.lines(b"{\"identity\":\"uid:0\"}\n")
            .put(0, usize::MAX, &mut out);
        let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(
            (&value["identity_1"], &value["identity"]),
            (&"uid:0".into(), &"uid:7".into())
        );
    }

    #[test]
    fn no_key_stands_twice() {
        let put = |line: &str| {
            let mut out = Vec::new();
            put(Format::Json, format!("{line}\n").as_bytes(), 0, &mut out);
            String::from_utf8(out).expect("text")
        };
        for (line, expected) in [
            (r#"{"host":"x","a":1}"#, r#"{"host_1":"x","a":1,"host":"a_b_","#),
            (
                r#"{"pid":1,"pid_1":2,"pid":3}"#,
                r#"{"pid_2":1,"pid_1":2,"pid_3":3,"host""#,
            ),
            (
                r#"{"\u0068ost":1, "pr\u006fcess" : 2}"#,
                r#"{"host_1":1, "process_1" : 2,"host""#,
            ),
            (
                r#"{"a":{"host":1},"b":["pid",{"pid":2}]}"#,
                r#"{"a":{"host":1},"b":["pid",{"pid":2}],"host""#,
            ),
            (
                r#"{"a":"\"session\":{","session":1}"#,
                r#"{"a":"\"session\":{","session_1":1,"host""#,
            ),
            (r#"{"a":"\\","host":1}"#, r#"{"a":"\\","host_1":1,"host""#),
        ] {
            let found = put(line);
            assert!(found.starts_with(expected), "{line}: {found}");
            let value: serde_json::Value = serde_json::from_str(&found).expect("JSON");
            assert_eq!((&value["host"], &value["pid"]), (&"a_b_".into(), &7.into()));
            let inside = found
                .trim_end()
                .strip_prefix('{')
                .and_then(|line| line.strip_suffix('}'));
            let keys = keys_of(inside.expect("an object").as_bytes());
            let unique: HashSet<&[u8]> = keys.iter().map(|(_, name)| name.as_ref()).collect();
            assert_eq!(unique.len(), keys.len(), "{found}");
        }
        // What is no JSON at all does no harm.
        for line in ["{\"host", "{\"host\"}", "{\"host\\", "{]}\"pid\"}", "{\"pid\":}"] {
            assert!(put(line).contains("\"host\":\"a_b_\""), "{line}");
        }
    }

    #[test]
    fn json_stays_json_whatever_comes() {
        for line in [
            "{\"a\":1}",
            "{}",
            "{ }",
            "no object",
            "{\"a\":\u{1b}}",
            "",
            "\u{202e}x\"\\",
        ] {
            let mut out = Vec::new();
            put(Format::Json, format!("{line}\n").as_bytes(), 0, &mut out);
            let value: serde_json::Value =
                serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(value["pid"], 7);
        }
    }
}
