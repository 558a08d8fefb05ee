//! Escapes of values in lines: taken out for comparing, put in as the layouts do it.

use logdrive_drain::layout::{Escape, escaped};
use std::borrow::Cow;

/// Escapes with which a piece of a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Writing {
    /// With the escapes of text, as a message or between quotes.
    #[default]
    Text,
    /// The same, and from between quotes: it is a string, whatever it looks like.
    Quoted,
    /// Bytes that mean themselves.
    Verbatim,
    /// From inside a JSON string.
    Json,
    /// JSON that is no string: a number, `true`, an object.
    JsonValue,
    /// Not at all: a name of a field that the reader gives.
    Given,
}

/// Returns the bytes that were logged, without the escapes with which they were written.
pub fn unescape(written: &[u8], writing: Writing) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', written).is_none() {
        return Cow::Borrowed(written);
    }
    match writing {
        Writing::Text | Writing::Quoted => Cow::Owned(logdrive_drain::layout::unescape(written)),
        Writing::Json => plain_json(written),
        Writing::Verbatim | Writing::JsonValue | Writing::Given => Cow::Borrowed(written),
    }
}

/// Takes the escapes of a JSON string out; what is no valid one stays as it stands.
fn plain_json(written: &[u8]) -> Cow<'_, [u8]> {
    let mut quoted = Vec::with_capacity(written.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(written);
    quoted.push(b'"');
    match serde_json::from_slice::<String>(&quoted) {
        Ok(text) => Cow::Owned(text.into_bytes()),
        Err(_) => Cow::Borrowed(written),
    }
}

/// Whether a byte needs a closer look: controls, the backslash, and all that is not ASCII.
fn is_special(byte: u8) -> bool {
    !(0x20..0x7f).contains(&byte) || byte == b'\\'
}

/// Writes text that a terminal takes for nothing else: as the text layout escapes it, but tabs and backslashes stay.
pub fn put_safe(out: &mut Vec<u8>, text: &[u8]) {
    let is_kept = |byte: u8| matches!(byte, b'\t' | b'\\');
    if !text.iter().any(|byte| is_special(*byte) && !is_kept(*byte)) {
        return out.extend_from_slice(text);
    }
    for part in text.split_inclusive(|byte| is_kept(*byte)) {
        match part.split_last() {
            Some((last, before)) if is_kept(*last) => {
                out.extend_from_slice(&escaped(before, Escape::Text));
                out.push(*last);
            }
            _ => out.extend_from_slice(&escaped(part, Escape::Text)),
        }
    }
}

/// Writes text with the escapes of the text layout; between quotes also `"`.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8], quoted: bool) {
    put(
        out,
        text,
        match quoted {
            true => Escape::Quoted,
            false => Escape::Text,
        },
    );
}

/// Writes the inside of a JSON string. Bytes that are not UTF-8 become U+FFFD, because JSON cannot carry them.
pub fn put_json(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text, Escape::Json);
}

fn put(out: &mut Vec<u8>, text: &[u8], escape: Escape) {
    let is_quote = |byte: u8| byte == b'"' && escape != Escape::Text;
    match text.iter().any(|byte| is_special(*byte) || is_quote(*byte)) {
        true => out.extend_from_slice(&escaped(text, escape)),
        false => out.extend_from_slice(text),
    }
}

/// Writes a field's value as the text layout does: between quotes where it would not be clear where it ends.
pub(crate) fn put_text_value(out: &mut Vec<u8>, value: &[u8], writing: Writing) {
    let value = unescape(value, writing);
    // A string that looks like a number stays one only between quotes; text itself does not distinguish them.
    let quoted = value.is_empty() || value.iter().any(|byte| matches!(byte, b' ' | b'"' | b'='));
    if quoted {
        out.push(b'"');
    }
    put_text(out, &value, quoted);
    if quoted {
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(put: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        put(&mut out);
        String::from_utf8(out).expect("escaped text is UTF-8")
    }

    #[test]
    fn a_terminal_gets_nothing_but_text() {
        let text = "a\x1b[31m\tb\u{85}\u{202e}\u{7f}é漢\\\"".as_bytes();
        assert_eq!(
            made(|out| put_safe(out, text)),
            "a\\x1b[31m\tb\\u{85}\\u{202e}\\x7fé漢\\\""
        );
        assert_eq!(made(|out| put_safe(out, b"\xff\xfeok\xf5")), "\\xff\\xfeok\\xf5");
    }

    #[test]
    fn text_escapes_read_back() {
        for text in [
            &b"plain"[..],
            b"a\nb\tc",
            b"\\",
            "\u{2028}ü".as_bytes(),
            b"\xff",
            b"say \"hi\"",
        ] {
            let mut out = Vec::new();
            put_text(&mut out, text, false);
            assert_eq!(&*unescape(&out, Writing::Text), text);
            out.clear();
            put_json(&mut out, text);
            if std::str::from_utf8(text).is_ok() {
                assert_eq!(&*unescape(&out, Writing::Json), text);
            }
        }
        assert_eq!(
            made(|out| put_json(out, "a\u{202e}\x01".as_bytes())),
            "a\\u202e\\u0001"
        );
        assert_eq!(&*unescape(br"bad \q", Writing::Json), br"bad \q");
    }

    #[test]
    fn values_are_quoted_where_they_need_it() {
        assert_eq!(made(|out| put_text_value(out, b"a b", Writing::Json)), "\"a b\"");
        assert_eq!(made(|out| put_text_value(out, b"", Writing::Json)), "\"\"");
        assert_eq!(
            made(|out| put_text_value(out, b"C:\\\\x", Writing::Json)),
            "C:\\\\x"
        );
        assert_eq!(made(|out| put_text_value(out, b"12", Writing::JsonValue)), "12");
    }
}
