//! Pairs of key and value, as logfmt has them and as text layouts put them behind the message.

use crate::escape::Writing;
use crate::json::string_end;
use crate::limits::FIELDS_MAX;
use crate::part::{Pair, Part, Text};

/// Rules by which pairs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Text layouts: values have the escapes of text, and an empty one stands between quotes.
    Text,
    /// logfmt: between quotes the escapes are those of JSON.
    Logfmt,
}

/// Reads the pair at an offset; it ends at a space or with the line.
pub(crate) fn read_pair(line: &[u8], at: usize, style: Style) -> Option<Pair> {
    let (key, start) = read_key(line, at)?;
    let (quoted, bare) = match style {
        Style::Text => (Writing::Quoted, Writing::Text),
        Style::Logfmt => (Writing::Json, Writing::Verbatim),
    };
    if let Some(part) = read_quoted(line, start) {
        let end = part.end() + 1;
        let next = match line.get(end) {
            None => end,
            Some(b' ') => end + 1,
            Some(_) => return None,
        };
        let value = Text::new(part, quoted);
        return Some(Pair { key, value, next });
    }
    let rest = line.get(start..)?;
    let length = memchr::memchr(b' ', rest).unwrap_or(rest.len());
    let text = rest.get(..length)?;
    let is_of_message = text.is_empty() || text.contains(&b'=') || closes_more(text);
    if text.contains(&b'"') || (style == Style::Text && is_of_message) {
        return None;
    }
    Some(Pair {
        key,
        value: Text::new(Part::new(start, start + length), bare),
        next: (start + length + 1).min(line.len()),
    })
}

/// Reads the last field of a span in a text layout at an offset: its value ends at the brace of the span.
pub(crate) fn read_last_of_span(line: &[u8], at: usize) -> Option<Pair> {
    let (key, start) = read_key(line, at)?;
    let value = match read_quoted(line, start) {
        Some(part) => Text::new(part, Writing::Quoted),
        None if line.get(start) == Some(&b'"') => return None,
        None => Text::in_text(Part::new(start, start + span_end(line.get(start..)?)?)),
    };
    let end = value.part.end() + usize::from(value.writing == Writing::Quoted);
    (line.get(end) == Some(&b'}')).then_some(Pair {
        key,
        value,
        next: end + 1,
    })
}

/// Returns the offset at which a bare value meets the end of its span: `}:`.
pub(crate) fn span_end(text: &[u8]) -> Option<usize> {
    let word = memchr::memchr(b' ', text).unwrap_or(text.len());
    text.get(..word)?.windows(2).position(|two| two == b"}:")
}

/// The pairs at the front of a line of logfmt.
pub(crate) fn logfmt_pairs(line: &[u8]) -> impl Iterator<Item = Pair> + Clone + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let pair = read_pair(line, at, Style::Logfmt)?;
        at = pair.next;
        Some(pair)
    })
}

/// Reads a key and its equals sign; returns also the offset of the value.
fn read_key(line: &[u8], at: usize) -> Option<(Part, usize)> {
    let length = line.get(at..)?.iter().position(|byte| !is_key(*byte))?;
    let equals = at + length;
    (length > 0 && line.get(equals) == Some(&b'=')).then_some((Part::new(at, equals), equals + 1))
}

/// Returns the inside of the quotes that begin at an offset.
fn read_quoted(line: &[u8], at: usize) -> Option<Part> {
    let end = string_end(line, at)?;
    Some(Part::new(at + 1, end - 1))
}

/// Whether a byte may stand in a key; a text layout escapes the rest. Brackets and commas stand in messages: `f(a=1, b=2)`.
pub(crate) fn is_key(byte: u8) -> bool {
    const IS_KEY: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = !matches!(
                byte as u8,
                0..=b' '
                    | b'"'
                    | b'='
                    | b'('
                    | b')'
                    | b'['
                    | b']'
                    | b'{'
                    | b'}'
                    | b'<'
                    | b'>'
                    | b','
                    | b';'
                    | b'\''
            );
            byte += 1;
        }
        table
    };
    IS_KEY[usize::from(byte)]
}

/// Whether more is closed than opened, as at the end of `f(a=1, b=2)`.
fn closes_more(text: &[u8]) -> bool {
    let opened = text.iter().fold(0i64, |opened, byte| match byte {
        b'(' | b'[' | b'{' => opened + 1,
        b')' | b']' | b'}' => opened - 1,
        _ => opened,
    });
    opened < 0
}

/// Reads the pairs that fill the rest of a text line, behind the message, into `pairs`, and returns where they begin.
pub(crate) fn read_trailing_pairs(line: &[u8], from: usize, pairs: &mut Vec<Pair>) -> usize {
    pairs.clear();
    let mut first = line.len();
    let mut at = from;
    while let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) {
        // A word without an equals sign is no pair.
        let Some(equals) = memchr::memchr(b'=', rest) else {
            pairs.clear();
            break;
        };
        let word = memchr::memrchr(b' ', rest.get(..equals).unwrap_or(b"")).map_or(0, |space| space + 1);
        if word > 0 {
            pairs.clear();
            at += word;
        }
        match read_pair(line, at, Style::Text) {
            Some(pair) => {
                if pairs.is_empty() {
                    first = at;
                }
                if pairs.len() < FIELDS_MAX {
                    pairs.push(pair);
                }
                at = pair.next;
            }
            None => {
                pairs.clear();
                let rest = line.get(at..).unwrap_or(b"");
                at = memchr::memchr(b' ', rest).map_or(line.len(), |space| at + space + 1);
            }
        }
    }
    if pairs.is_empty() { line.len() } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trailing(line: &str) -> Vec<(String, String)> {
        let bytes = line.as_bytes();
        let text = |part: Part| String::from_utf8_lossy(part.of(bytes)).into_owned();
        let mut pairs = Vec::new();
        let start = read_trailing_pairs(bytes, 0, &mut pairs);
        assert_eq!(start, pairs.first().map_or(bytes.len(), |pair| pair.key.start()));
        pairs
            .iter()
            .map(|pair| (text(pair.key), text(pair.value.part)))
            .collect()
    }

    fn pairs<const N: usize>(expected: [(&str, &str); N]) -> Vec<(String, String)> {
        expected
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn pairs_stand_behind_the_message() {
        assert_eq!(
            trailing("order filled id=7 name=\"a b\" x=1.5"),
            pairs([("id", "7"), ("name", "a b"), ("x", "1.5")])
        );
        assert_eq!(
            trailing(r#"k="say \"hi\" \\" z="""#),
            pairs([("k", r#"say \"hi\" \\"#), ("z", "")])
        );
        assert_eq!(trailing("a=1 in the middle b=2"), pairs([("b", "2")]));
        assert_eq!(trailing("sum: 1 + 1 = 2"), pairs([]));
        assert_eq!(trailing("call f(a=1, b=2)"), pairs([]));
        assert_eq!(trailing("open=\"never closed"), pairs([]));
        assert_eq!(trailing("url=http://x/?a=1"), pairs([]));
        assert_eq!(trailing(""), pairs([]));
    }

    #[test]
    fn logfmt_is_more_lenient() {
        let line = b"url=http://x/?a=1 empty= last=\"\\u00e9\"";
        let url = read_pair(line, 0, Style::Logfmt).expect("a pair");
        assert_eq!(url.value.part.of(line), b"http://x/?a=1");
        let empty = read_pair(line, url.next, Style::Logfmt).expect("a pair");
        assert_eq!(empty.value.part.of(line), b"");
        let last = read_pair(line, empty.next, Style::Logfmt).expect("a pair");
        assert_eq!((last.value.writing, last.next), (Writing::Json, line.len()));
    }
}
