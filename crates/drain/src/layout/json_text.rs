//! Text that is JSON itself, which a program has rendered: it is checked, and then stands in a line of JSON as it is.

use super::escape::{Escape, put_escaped};
use super::limits::JSON_DEPTH_MAX;
use super::write::put;

/// Returns true if a text is one JSON value in UTF-8 that fits into a line: without line breaks or tabs between its parts.
pub(super) fn is_json(text: &[u8]) -> bool {
    core::str::from_utf8(text).is_ok() && value_end(text, 0, JSON_DEPTH_MAX) == Some(text.len())
}

/// Writes a text that is JSON, with what no reader sees escaped, which is in strings.
pub(super) fn put_json(bytes: &mut [u8], mut at: usize, text: &[u8]) -> usize {
    let is_plain = |byte: &u8| (0x20..0x7f).contains(byte);
    for part in text.chunk_by(|one, next| is_plain(one) == is_plain(next)) {
        at = match part.first().is_some_and(is_plain) {
            true => put(bytes, at, part),
            false => put_escaped(bytes, at, part, Escape::Json),
        };
    }
    at
}

/// Returns the end of the value that begins at an offset.
fn value_end(text: &[u8], at: usize, depth: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at),
        b'{' => parts_end(text, at, b'}', depth.checked_sub(1)?, |text, at, depth| {
            let colon = skip_spaces(text, string_end(text, at)?);
            if text.get(colon) != Some(&b':') {
                return None;
            }
            value_end(text, skip_spaces(text, colon + 1), depth)
        }),
        b'[' => parts_end(text, at, b']', depth.checked_sub(1)?, value_end),
        b't' => word_end(text, at, b"true"),
        b'f' => word_end(text, at, b"false"),
        b'n' => word_end(text, at, b"null"),
        _ => number_end(text, at),
    }
}

/// Returns the end of an object or array, whose parts have commas between them.
fn parts_end(
    text: &[u8],
    at: usize,
    close: u8,
    depth: usize,
    part_end: impl Fn(&[u8], usize, usize) -> Option<usize>,
) -> Option<usize> {
    let mut at = skip_spaces(text, at + 1);
    if text.get(at) == Some(&close) {
        return Some(at + 1);
    }
    loop {
        at = skip_spaces(text, part_end(text, at, depth)?);
        match text.get(at)? {
            b',' => at = skip_spaces(text, at + 1),
            found => return (*found == close).then_some(at + 1),
        }
    }
}

fn skip_spaces(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or(b"");
    at + rest.iter().take_while(|byte| **byte == b' ').count()
}

fn word_end(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    text.get(at..)?.starts_with(word).then_some(at + word.len())
}

fn string_end(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => match text.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                b'u' => {
                    let digits = text.get(at + 2..at + 6)?;
                    digits.iter().all(u8::is_ascii_hexdigit).then_some(6)?
                }
                _ => return None,
            },
            0x20.. => 1,
            _ => return None,
        };
    }
}

fn number_end(text: &[u8], at: usize) -> Option<usize> {
    let digits = |at: usize| {
        let rest = text.get(at..).unwrap_or(b"");
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let start = at + usize::from(text.get(at) == Some(&b'-'));
    let mut end = start + digits(start);
    if end == start || text.get(start) == Some(&b'0') && end > start + 1 {
        return None;
    }
    if text.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        end += (fraction > 0).then_some(1 + fraction)?;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        end += (exponent > 0).then_some(1 + sign + exponent)?;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_told_from_other_text() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        for text in [
            "0",
            "-1.5e+3",
            "1E9",
            "true",
            "null",
            r#""a\u00e9\n\"""#,
            "[]",
            "{}",
            r#"{"a":[1,{"b":"é"}],"":false}"#,
            r#"[1, 2]"#,
            &deep(JSON_DEPTH_MAX),
        ] {
            assert!(is_json(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "01",
            "1.",
            "-",
            "+1",
            "1e",
            "nul",
            "truex",
            "\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "[1,]",
            "[1 2]",
            "{1:2}",
            r#"{"a"}"#,
            r#"{"a":1,}"#,
            "{}{}",
            "[1]\n",
            "[\n1]",
            "\"\n\"",
            "NaN",
            "a",
            &deep(JSON_DEPTH_MAX + 1),
        ] {
            assert!(!is_json(text.as_bytes()), "{text}");
        }
        assert!(!is_json(b"\"\xff\""));
    }

    #[test]
    fn what_no_reader_sees_is_escaped() {
        let text = "{\"a\":\"é\u{202e}\u{7f}\"}";
        assert!(is_json(text.as_bytes()));
        let mut bytes = [0; 64];
        let end = put_json(&mut bytes, 0, text.as_bytes());
        let found = core::str::from_utf8(bytes.get(..end).unwrap_or(b"")).unwrap_or("");
        assert_eq!(found, r#"{"a":"é\u202e\u007f"}"#);
    }
}
