//! The members of one flat JSON object, read where they stand: no tree is built, nothing is copied.

use crate::escape::Writing;
use crate::limits::JSON_DEPTH_MAX;
use crate::part::{Pair, Part, Text};

/// Returns whether a line is JSON from its beginning to its end; one that was cut is not.
pub(crate) fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
}

/// Walks over the members of the object that is a line.
pub(crate) fn members(line: &[u8]) -> impl Iterator<Item = Pair> + Clone + '_ {
    members_at(line, 0).into_iter().flatten()
}

/// Walks over the members of the object that begins at an offset. Ends at its end, or at the first thing that is not JSON.
pub(crate) fn members_at(line: &[u8], at: usize) -> Option<impl Iterator<Item = Pair> + Clone + '_> {
    let at = skip_space(line, at);
    let mut next = (line.get(at) == Some(&b'{')).then_some(at + 1)?;
    Some(std::iter::from_fn(move || {
        let mut at = skip_space(line, next);
        if line.get(at) == Some(&b',') {
            at = skip_space(line, at + 1);
        }
        let key_end = string_end(line, at)?;
        let key = Part::new(at + 1, key_end - 1);
        at = skip_space(line, key_end);
        if line.get(at) != Some(&b':') {
            return None;
        }
        let value;
        (value, next) = read_value(line, skip_space(line, at + 1))?;
        let next = value.part.end();
        Some(Pair { key, value, next })
    }))
}

/// Walks over the elements of the array that begins at an offset of the line.
pub(crate) fn elements(line: &[u8], at: usize) -> impl Iterator<Item = Text> + '_ {
    let start = skip_space(line, at);
    let mut next = (line.get(start) == Some(&b'[')).then_some(start + 1);
    std::iter::from_fn(move || {
        let mut at = skip_space(line, next?);
        if line.get(at) == Some(&b',') {
            at = skip_space(line, at + 1);
        }
        let (value, end) = read_value(line, at)?;
        next = Some(end);
        Some(value)
    })
}

/// Reads the value at an offset: what it is, and where it ends.
fn read_value(line: &[u8], at: usize) -> Option<(Text, usize)> {
    let (end, writing) = match line.get(at)? {
        b'"' => (string_end(line, at)?, Writing::Json),
        b'{' | b'[' => (nested_end(line, at)?, Writing::JsonValue),
        _ => (bare_end(line, at)?, Writing::JsonValue),
    };
    let part = match writing {
        Writing::Json => Part::new(at + 1, end - 1),
        _ => Part::new(at, end),
    };
    Some((Text { part, writing }, end))
}

fn skip_space(line: &[u8], at: usize) -> usize {
    let rest = line.get(at..).unwrap_or(b"");
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Returns the end of the string that begins with the quote at an offset.
pub(crate) fn string_end(line: &[u8], at: usize) -> Option<usize> {
    if line.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', line.get(at..)?)?;
        if line.get(at) == Some(&b'"') {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Returns the end of the object or array that begins at an offset.
fn nested_end(line: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0;
    let mut at = at;
    loop {
        match line.get(at)? {
            b'"' => {
                at = string_end(line, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
        if depth > JSON_DEPTH_MAX {
            return None;
        }
    }
}

/// Returns the end of a number or a word.
fn bare_end(line: &[u8], at: usize) -> Option<usize> {
    let rest = line.get(at..)?;
    let length = rest
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
        .count();
    (length > 0).then_some(at + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(line: &str) -> Vec<(String, String, Writing)> {
        let text = |part: Part| String::from_utf8_lossy(part.of(line.as_bytes())).into_owned();
        super::members(line.as_bytes())
            .map(|Pair { key, value, .. }| (text(key), text(value.part), value.writing))
            .collect()
    }

    #[test]
    fn members_are_found_with_their_kinds() {
        let found = members(r#" { "a":"x\"y" , "b\n":-1.5e3,"c":[1,{"d":"]"}],"e":{},"f":null}"#);
        let expected = [
            ("a", r#"x\"y"#, Writing::Json),
            (r"b\n", "-1.5e3", Writing::JsonValue),
            ("c", r#"[1,{"d":"]"}]"#, Writing::JsonValue),
            ("e", "{}", Writing::JsonValue),
            ("f", "null", Writing::JsonValue),
        ];
        let expected: Vec<_> = expected
            .map(|(key, value, kind)| (key.to_owned(), value.to_owned(), kind))
            .into();
        assert_eq!(found, expected);
    }

    #[test]
    fn elements_are_found() {
        let line = br#"[ {"a":1}, "b" ,3]"#;
        let found: Vec<&[u8]> = elements(line, 0).map(|value| value.part.of(line)).collect();
        assert_eq!(found, [&br#"{"a":1}"#[..], b"b", b"3"]);
        assert_eq!(elements(b"7", 0).count(), 0);
    }

    #[test]
    fn broken_json_ends_the_walk() {
        let lines = [
            ("", 0),
            ("{", 0),
            ("{}", 0),
            (r#"{"a"}"#, 0),
            (r#"{"a":}"#, 0),
            (r#"{"a":1,"b":"x"#, 1),
            (r#"{"a":1 "b"}"#, 1),
            (r#"{"a":[1"#, 0),
            (r#"{"a\"#, 0),
            (r#"{"a":"\"#, 0),
            ("[1]", 0),
        ];
        for (line, count) in lines {
            assert_eq!(members(line).len(), count, "{line}");
        }
        let deep = format!("{{\"a\":{}", "[".repeat(JSON_DEPTH_MAX + 2));
        assert_eq!(members(&deep).len(), 0);
    }
}
