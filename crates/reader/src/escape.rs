//! Escapes: taking those of text and JSON out of a value, and putting them into one.

use std::borrow::Cow;
use std::io::Write;

/// How a piece of a line is written.
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
}

/// What was logged, without the escapes of how it was written.
pub fn unescape(written: &[u8], writing: Writing) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', written).is_none() {
        return Cow::Borrowed(written);
    }
    match writing {
        Writing::Text | Writing::Quoted => Cow::Owned(logdrive_drain::layout::unescape(written)),
        Writing::Json => plain_json(written),
        Writing::Verbatim | Writing::JsonValue => Cow::Borrowed(written),
    }
}

/// What is no valid JSON string stays as it stands.
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

/// Whether a character could hide, reorder or break what a reader sees. The same set as the layouts escape.
fn is_hidden(found: char) -> bool {
    found.is_control()
        || matches!(found, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a closer look is needed: at controls, and at all that is not ASCII.
fn is_suspect(byte: u8) -> bool {
    !(0x20..0x7f).contains(&byte)
}

/// Writes text that a terminal takes for nothing else. Text is returned as it is but for what [`is_hidden`] names and
/// for bytes that are not UTF-8; tabs stay.
pub fn put_safe(out: &mut Vec<u8>, text: &[u8]) {
    if !text.iter().any(|byte| is_suspect(*byte) && *byte != b'\t') {
        return out.extend_from_slice(text);
    }
    put_each(out, text, |out, found| match found {
        '\t' => out.push(b'\t'),
        _ => put_text_escape(out, found),
    });
}

/// Writes text with the escapes of the text layout; between quotes also `"`.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8], quoted: bool) {
    if !text
        .iter()
        .any(|byte| is_suspect(*byte) || *byte == b'\\' || (quoted && *byte == b'"'))
    {
        return out.extend_from_slice(text);
    }
    put_each(out, text, |out, found| match found {
        '\\' => out.extend_from_slice(br"\\"),
        '"' if quoted => out.extend_from_slice(b"\\\""),
        _ => put_text_escape(out, found),
    });
}

/// Writes a field's value as the text layout does: between quotes where it would not be clear where it ends.
pub(crate) fn put_text_value(out: &mut Vec<u8>, value: &[u8], writing: Writing) {
    let value = unescape(value, writing);
    // A string that looks like a number stays one only between quotes; text itself does not tell them apart.
    let quoted = value.is_empty() || value.iter().any(|byte| matches!(byte, b' ' | b'"' | b'='));
    if quoted {
        out.push(b'"');
    }
    put_text(out, &value, quoted);
    if quoted {
        out.push(b'"');
    }
}

/// Writes the inside of a JSON string. Bytes that are not UTF-8 become U+FFFD, because JSON cannot carry them.
pub fn put_json(out: &mut Vec<u8>, text: &[u8]) {
    if !text
        .iter()
        .any(|byte| is_suspect(*byte) || matches!(byte, b'\\' | b'"'))
    {
        return out.extend_from_slice(text);
    }
    for chunk in text.utf8_chunks() {
        for found in chunk.valid().chars() {
            match found {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(br"\\"),
                '\n' => out.extend_from_slice(br"\n"),
                '\r' => out.extend_from_slice(br"\r"),
                '\t' => out.extend_from_slice(br"\t"),
                // All of these have at most four hex digits.
                _ if is_hidden(found) => put_format(out, format_args!("\\u{:04x}", found as u32)),
                _ => put_char(out, found),
            }
        }
        for _ in chunk.invalid() {
            put_char(out, '\u{fffd}');
        }
    }
}

fn put_each(out: &mut Vec<u8>, text: &[u8], special: impl Fn(&mut Vec<u8>, char)) {
    for chunk in text.utf8_chunks() {
        for found in chunk.valid().chars() {
            match found {
                '\\' | '"' => special(out, found),
                _ if is_hidden(found) => special(out, found),
                _ => put_char(out, found),
            }
        }
        for byte in chunk.invalid() {
            put_format(out, format_args!("\\x{byte:02x}"));
        }
    }
}

fn put_text_escape(out: &mut Vec<u8>, found: char) {
    match found {
        '\n' => out.extend_from_slice(br"\n"),
        '\r' => out.extend_from_slice(br"\r"),
        '\t' => out.extend_from_slice(br"\t"),
        _ if found.is_ascii_control() => put_format(out, format_args!("\\x{:02x}", found as u32)),
        _ if is_hidden(found) => put_format(out, format_args!("\\u{{{:x}}}", found as u32)),
        _ => put_char(out, found),
    }
}

fn put_char(out: &mut Vec<u8>, found: char) {
    out.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
}

fn put_format(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory cannot fail.
    let _ = out.write_fmt(text);
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
