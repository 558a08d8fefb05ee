//! Escapes: foreign text never ends a line, moves a cursor, hides or reorders what a reader sees.
//!
//! In text, escaped are control characters (C0, DEL, C1), the line separators U+2028 and U+2029, characters that no reader
//! sees (Unicode's `Default_Ignorable_Code_Point`: soft hyphen, zero-width characters, marks that change the direction of
//! text, fillers, variation selectors, tags), U+FFF9-FFFB, bytes that are not UTF-8, and the backslash, which makes it
//! reversible: [`unescape`] gives back the bytes that went in. JSON escapes the same
//! characters in its own way; there a byte that is not UTF-8 becomes U+FFFD, because JSON cannot carry it.
//!
//! Most text needs none of this: it is checked and copied in one pass over blocks of sixteen bytes.

use super::write::{OVERFLOW, grow, put, put_block, put_byte};

/// Escapes with which text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// In a line of text: `\n`, `\x1b`, `\u{202e}`, `\\`.
    Text,
    /// The same between double quotes: `\"` as well.
    Quoted,
    /// Inside of a JSON string.
    Json,
    /// As it is, without any escape.
    Raw,
}

/// Classes of bytes that [`special`] finds.
const TEXT: u8 = 0;
const QUOTED: u8 = 1;
const BARE: u8 = 2;

/// Returns true if a byte needs a closer look. One more than the byte, as a signed number, is less than that of anything
/// printable where the byte is DEL or not ASCII: one comparison for all of a range, and vector instructions have it.
#[inline(always)]
const fn special<const CLASS: u8>(byte: u8) -> bool {
    let lowest = if CLASS == BARE { 0x21 } else { 0x20 };
    (byte.wrapping_add(1).cast_signed() < lowest + 1)
        | (byte == b'\\')
        | (CLASS != TEXT && byte == b'"')
        | (CLASS == BARE && byte == b'=')
}

/// Writes text with what needs it escaped.
#[inline(never)]
pub(super) fn put_escaped(bytes: &mut [u8], at: usize, text: &[u8], escape: Escape) -> usize {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..text.len())) {
        let clean = match escape {
            Escape::Text => copy_clean::<TEXT>(place, text),
            Escape::Quoted | Escape::Json => copy_clean::<QUOTED>(place, text),
            Escape::Raw => return put(bytes, at, text),
        };
        if clean {
            return at + text.len();
        }
        return put_slowly(bytes, at, text, escape);
    }
    OVERFLOW
}

/// As [`put_escaped`], for the text of messages.
#[inline(always)]
pub(super) fn put_message_text(bytes: &mut [u8], at: usize, text: &[u8]) -> usize {
    let place = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..text.len()));
    match place.map(|place| copy_clean::<TEXT>(place, text)) {
        Some(true) => at + text.len(),
        Some(false) => put_slowly(bytes, at, text, Escape::Text),
        None => OVERFLOW,
    }
}

/// Writes text in which nothing is special, so that it is ASCII; `None` for other text, and where there is no room.
#[inline]
pub(super) fn put_plain(bytes: &mut [u8], at: usize, text: &[u8]) -> Option<usize> {
    let place = bytes.get_mut(at..)?.get_mut(..text.len())?;
    copy_clean::<TEXT>(place, text).then_some(at + text.len())
}

/// The same for a key, which is not empty.
#[inline]
pub(super) fn put_plain_key(bytes: &mut [u8], at: usize, key: &[u8]) -> Option<usize> {
    (!key.is_empty() && copy_bare_into(bytes, at, key)).then_some(at + key.len())
}

/// Form of a field's value where it ends at the next space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bare {
    /// As it is where that is clear, else between quotes, with the escapes of text.
    Text,
    /// The same with the escapes of JSON between the quotes, as logfmt has it.
    Logfmt,
}

/// Writes a field's value, between quotes where it needs them.
#[inline]
pub(super) fn put_bare(bytes: &mut [u8], at: usize, text: &[u8], bare: Bare) -> usize {
    if !text.is_empty() && copy_bare_into(bytes, at, text) {
        return at + text.len();
    }
    put_bare_slowly(bytes, at, text, bare)
}

#[inline(always)]
fn copy_bare_into(bytes: &mut [u8], at: usize, text: &[u8]) -> bool {
    bytes
        .get_mut(at..)
        .and_then(|rest| rest.get_mut(..text.len()))
        .is_some_and(|place| copy_clean::<BARE>(place, text))
}

#[inline(never)]
fn put_bare_slowly(bytes: &mut [u8], at: usize, text: &[u8], bare: Bare) -> usize {
    let quoted = match bare {
        Bare::Text => text.is_empty() || text.iter().any(|byte| matches!(byte, b' ' | b'"' | b'=')),
        Bare::Logfmt => text.is_empty() || text.iter().any(|&byte| byte != b'\\' && special::<BARE>(byte)),
    };
    let escape = match (bare, quoted) {
        (Bare::Text, true) => Escape::Quoted,
        (Bare::Text, false) => Escape::Text,
        (Bare::Logfmt, true) => Escape::Json,
        // Nothing but backslashes, which mean nothing outside of quotes.
        (Bare::Logfmt, false) => return put(bytes, at, text),
    };
    if !quoted {
        return put_slowly(bytes, at, text, escape);
    }
    let at = put_byte(bytes, at, b'"');
    let at = put_escaped(bytes, at, text, escape);
    put_byte(bytes, at, b'"')
}

/// Writes a key, with spaces, quotes and equals signs escaped as well: it ends at the next `=`.
pub(super) fn put_key(bytes: &mut [u8], mut at: usize, key: &[u8]) -> usize {
    if copy_bare_into(bytes, at, key) {
        return at + key.len();
    }
    for part in key.split_inclusive(|byte| matches!(byte, b' ' | b'"' | b'=')) {
        at = match part.split_last() {
            Some((&last @ (b' ' | b'"' | b'='), before)) => {
                let at = put_escaped(bytes, at, before, Escape::Text);
                put_hex(bytes, at, last)
            }
            _ => put_escaped(bytes, at, part, Escape::Text),
        };
    }
    at
}

/// Copies text of equal length and returns whether it was clean; if not, the copy is to be overwritten.
#[inline(always)]
fn copy_clean<const CLASS: u8>(place: &mut [u8], text: &[u8]) -> bool {
    let (Some(last), Some(last_place)) = (text.last_chunk::<16>(), place.last_chunk_mut::<16>()) else {
        return copy_clean_short::<CLASS>(place, text);
    };
    // The last block overlaps the one before, so that the end needs no loop over bytes.
    *last_place = *last;
    let mut found = [0; 16];
    note_special::<CLASS>(&mut found, last);
    let (blocks, _) = text.get(..text.len() - 1).unwrap_or(&[]).as_chunks::<16>();
    let (places, _) = place.as_chunks_mut::<16>();
    for (place, block) in places.iter_mut().zip(blocks) {
        // One load for both: the compiler cannot know that the text is not written through the place.
        let block = *block;
        *place = block;
        note_special::<CLASS>(&mut found, &block);
    }
    found.iter().fold(0, |all, byte| all | byte) == 0
}

/// Byte for byte, so that the compiler makes vector instructions of it.
#[inline(always)]
fn note_special<const CLASS: u8>(found: &mut [u8; 16], block: &[u8; 16]) {
    for (found, &byte) in found.iter_mut().zip(block) {
        *found |= if special::<CLASS>(byte) { 0xff } else { 0 };
    }
}

/// The same for fewer than sixteen bytes: two words that overlap.
#[inline(always)]
fn copy_clean_short<const CLASS: u8>(place: &mut [u8], text: &[u8]) -> bool {
    if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        if let Some(place) = place.first_chunk_mut::<8>() {
            *place = *first;
        }
        if let Some(place) = place.last_chunk_mut::<8>() {
            *place = *last;
        }
        let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
        return special_word::<CLASS>(first) | special_word::<CLASS>(last) == 0;
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        if let Some(place) = place.first_chunk_mut::<4>() {
            *place = *first;
        }
        if let Some(place) = place.last_chunk_mut::<4>() {
            *place = *last;
        }
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return special_word::<CLASS>(u64::from(first) | u64::from(last) << 32) == 0;
    }
    let mut clean = true;
    for (place, &byte) in place.iter_mut().zip(text).take(3) {
        *place = byte;
        clean &= !special::<CLASS>(byte);
    }
    clean
}

/// Not zero if one of the word's bytes is special. Exact as an answer for the whole word: without a special byte
/// nothing is carried or borrowed, and the first special byte has its mark whatever follows.
#[inline(always)]
const fn special_word<const CLASS: u8>(word: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    const fn equal(word: u64, byte: u8) -> u64 {
        (word ^ (LOW * byte as u64)).wrapping_sub(LOW)
    }
    let lowest = if CLASS == BARE { 0x21 } else { 0x20 };
    // DEL is the only one that becomes more than ASCII by one.
    let mut found = word | word.wrapping_add(LOW) | word.wrapping_sub(LOW * lowest) | equal(word, b'\\');
    if CLASS != TEXT {
        found |= equal(word, b'"');
    }
    if CLASS == BARE {
        found |= equal(word, b'=');
    }
    found & HIGH
}

/// Writes text in which something is special: runs of harmless text, and escapes between them.
#[inline(never)]
fn put_slowly(bytes: &mut [u8], mut at: usize, text: &[u8], escape: Escape) -> usize {
    for chunk in text.utf8_chunks() {
        at = put_valid(bytes, at, chunk.valid(), escape);
        for &byte in chunk.invalid() {
            at = match escape {
                Escape::Json => put(bytes, at, "\u{fffd}".as_bytes()),
                Escape::Text | Escape::Quoted | Escape::Raw => put_hex(bytes, at, byte),
            };
        }
        if at == OVERFLOW {
            break;
        }
    }
    at
}

fn put_valid(bytes: &mut [u8], mut at: usize, text: &str, escape: Escape) -> usize {
    let mut rest = text;
    while let Some(run) = rest.bytes().position(|byte| SUSPECT[usize::from(byte)]) {
        let (before, from) = rest.split_at(run);
        at = put(bytes, at, before.as_bytes());
        let Some(suspect) = from.chars().next() else {
            break;
        };
        at = put_char(bytes, at, suspect, escape);
        rest = from.get(suspect.len_utf8()..).unwrap_or("");
        if at == OVERFLOW {
            return OVERFLOW;
        }
    }
    put(bytes, at, rest.as_bytes())
}

/// First bytes of characters that may have to be escaped.
const SUSPECT: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        // 0xc2 opens C1 and U+00AD, and so on: the first bytes of what `is_hidden` has.
        table[byte] = byte < 0x20
            || matches!(
                byte as u8,
                0x7f | b'\\' | b'"' | 0xc2 | 0xcd | 0xd8 | 0xe1..=0xe3 | 0xef | 0xf0 | 0xf3
            );
        byte += 1;
    }
    table
};

fn is_hidden(found: char) -> bool {
    matches!(found, '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}'
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

fn put_char(bytes: &mut [u8], at: usize, found: char, escape: Escape) -> usize {
    let short = match found {
        '\n' => Some(b"\\n"),
        '\r' => Some(b"\\r"),
        '\t' => Some(b"\\t"),
        '\\' => Some(br"\\"),
        '"' if escape != Escape::Text => Some(b"\\\""),
        _ => None,
    };
    if let Some(short) = short {
        return put_block(bytes, at, short, 2);
    }
    if found.is_ascii_control() {
        return match escape {
            Escape::Json => put_unicode(bytes, at, found as u32, true),
            Escape::Text | Escape::Quoted | Escape::Raw => put_hex(bytes, at, found as u8),
        };
    }
    if is_hidden(found) {
        return put_unicode(bytes, at, found as u32, escape == Escape::Json);
    }
    put(bytes, at, found.encode_utf8(&mut [0; 4]).as_bytes())
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn put_hex(bytes: &mut [u8], at: usize, byte: u8) -> usize {
    let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
    put_block(bytes, at, &[b'\\', b'x', digits[0], digits[1]], 4)
}

/// `\u{202e}`, or `\u202e` for JSON, which has two of them for characters beyond four hex digits.
fn put_unicode(bytes: &mut [u8], at: usize, code: u32, json: bool) -> usize {
    let text = if json && code > 0xffff {
        let (high, low) = (0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
        format!("\\u{high:04x}\\u{low:04x}")
    } else if json {
        format!("\\u{code:04x}")
    } else {
        format!("\\u{{{code:x}}}")
    };
    put(bytes, at, text.as_bytes())
}

/// The escaped text, for what is made once and kept.
pub fn escaped(text: &[u8], escape: Escape) -> Vec<u8> {
    grow(text.len(), |bytes| put_escaped(bytes, 0, text, escape))
}

/// A field's value as [`put_bare`] writes it.
pub(super) fn escaped_bare(text: &[u8], bare: Bare) -> Vec<u8> {
    grow(text.len(), |bytes| put_bare(bytes, 0, text, bare))
}

/// A key as [`put_key`] writes it.
pub(super) fn escaped_key(key: &[u8]) -> Vec<u8> {
    grow(key.len(), |bytes| put_key(bytes, 0, key))
}

/// Takes the escapes of a text layout out again, and gives the bytes that were logged.
///
/// For a message, or for a value between quotes without its quotes. What is not an escape stays as it is.
///
/// ```
/// use logdrive_drain::layout::unescape;
/// assert_eq!(unescape(br"two\nlines and a \\ and \xff"), b"two\nlines and a \\ and \xff");
/// ```
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            plain.push(first);
            continue;
        }
        match read_escape(after, &mut plain) {
            Some(length) => rest = after.get(length..).unwrap_or(b""),
            None => plain.push(b'\\'),
        }
    }
    plain
}

/// Reads what follows a backslash, and returns its length.
fn read_escape(text: &[u8], plain: &mut Vec<u8>) -> Option<usize> {
    let single = match text.first()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'\\' => b'\\',
        b'"' => b'"',
        b'x' => {
            plain.push(u8::try_from(hex(text.get(1..3)?)?).ok()?);
            return Some(3);
        }
        b'u' => {
            let inner = text.get(1..)?.strip_prefix(b"{")?;
            let digits = inner.iter().take(7).position(|&byte| byte == b'}')?;
            let found = char::from_u32(hex(inner.get(..digits)?)?)?;
            plain.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(digits + 3);
        }
        _ => return None,
    };
    plain.push(single);
    Some(1)
}

fn hex(digits: &[u8]) -> Option<u32> {
    let text = core::str::from_utf8(digits).ok()?;
    // `from_str_radix` takes a sign.
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(text, 16).ok()
}

/// The length of the longest front of escaped text that fits into `limit` and splits neither an escape nor a
/// character.
pub(super) fn whole_front(text: &[u8], limit: usize, escape: Escape) -> usize {
    let mut end = 0;
    while let Some((&first, after)) = text.get(end..).and_then(<[u8]>::split_first) {
        let length = match first {
            b'\\' if escape != Escape::Json => 1 + read_escape(after, &mut Vec::new()).unwrap_or(0),
            // The halves of a pair stay together.
            b'\\' if matches!(after, [b'u', b'd', b'8'..=b'b', ..]) => 12,
            b'\\' if after.first() == Some(&b'u') => 6,
            b'\\' => 2,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xff => 4,
            _ => 1,
        };
        if end + length > limit.min(text.len()) {
            break;
        }
        end += length;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(input: &str) -> String {
        String::from_utf8(escaped(input.as_bytes(), Escape::Text)).unwrap()
    }

    #[test]
    fn what_could_harm_a_line_is_escaped() {
        assert_eq!(text("a\nb\r\t\u{1b}[31m\u{7f}"), r"a\nb\r\t\x1b[31m\x7f");
        assert_eq!(
            text("x\u{85}\u{2028}\u{202e}\u{2069}\u{61c}"),
            r"x\u{85}\u{2028}\u{202e}\u{2069}\u{61c}"
        );
        assert_eq!(
            text("so\u{ad}ft zero\u{200b}\u{feff} tag\u{e0041}\u{e007f} \u{fe0f}\u{3164}"),
            r"so\u{ad}ft zero\u{200b}\u{feff} tag\u{e0041}\u{e007f} \u{fe0f}\u{3164}"
        );
        assert_eq!(text("𝐀 🙂 가 ｱ ①"), "𝐀 🙂 가 ｱ ①");
        assert_eq!(escaped("\u{e0041}".as_bytes(), Escape::Json), br"\udb40\udc41");
        assert_eq!(whole_front(br"a\udb40\udc41b", 12, Escape::Json), 1);
        let hidden = "\u{ad}\u{200d}\u{e0041}";
        assert_eq!(unescape(text(hidden).as_bytes()), hidden.as_bytes());
        assert_eq!(text(r"C:\new"), r"C:\\new");
        assert_eq!(text("größe “quoted” 漢字 ©ء"), "größe “quoted” 漢字 ©ء");
        assert_eq!(escaped(b"a\xff\xfeb", Escape::Text), br"a\xff\xfeb");
        assert_eq!(
            escaped(b"\"\x01\xff\xc2\x80", Escape::Json),
            "\\\"\\u0001\u{fffd}\\u0080".as_bytes()
        );
    }

    #[test]
    fn values_are_quoted_only_where_they_need_it() {
        let bare = |input: &str, bare| {
            String::from_utf8(grow(input.len(), |b| put_bare(b, 0, input.as_bytes(), bare))).unwrap()
        };
        assert_eq!(bare("plain", Bare::Text), "plain");
        assert_eq!(bare("", Bare::Text), "\"\"");
        assert_eq!(bare("two words", Bare::Text), "\"two words\"");
        assert_eq!(bare("a=\"b\"\n", Bare::Text), r#""a=\"b\"\n""#);
        assert_eq!(bare(r"C:\x", Bare::Text), r"C:\\x");
        assert_eq!(bare("ä", Bare::Text), "ä");
        assert_eq!(bare(r"C:\x", Bare::Logfmt), r"C:\x");
        assert_eq!(bare("a\u{1b}", Bare::Logfmt), r#""a\u001b""#);
        assert_eq!(escaped_key(b"a b=c\n"), br"a\x20b\x3dc\n");
    }

    #[test]
    fn escapes_read_back_whatever_the_bytes_and_their_place() {
        let mut state = 0x5eed_5eed_5eed_5eedu64;
        for round in 0..40_000 {
            let input: Vec<u8> = (0..round % 70)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let byte = (state >> 40) as u8;
                    // Mostly plain text, so that every block size meets a lone special byte.
                    if (state >> 32) % 8 > u64::from(round % 3 == 0) {
                        b'a' + byte % 26
                    } else {
                        byte
                    }
                })
                .collect();
            let written = escaped(&input, Escape::Text);
            assert_eq!(unescape(&written), input, "{input:?}");
            assert_eq!(unescape(&escaped(&input, Escape::Quoted)), input, "{input:?}");
            assert!(!written.iter().any(|&byte| byte < 0x20 || byte == 0x7f));
            assert!(core::str::from_utf8(&written).is_ok());
        }
    }

    #[test]
    fn every_byte_is_judged_alike_at_every_place_and_length() {
        for length in 1..40 {
            for place in 0..length {
                for byte in 0..=255u8 {
                    let mut input = vec![b'a'; length];
                    input[place] = byte;
                    let mut copy = vec![0; length];
                    assert_eq!(copy_clean::<TEXT>(&mut copy, &input), !special::<TEXT>(byte));
                    assert_eq!(copy, input);
                    assert_eq!(copy_clean::<QUOTED>(&mut copy, &input), !special::<QUOTED>(byte));
                    assert_eq!(copy_clean::<BARE>(&mut copy, &input), !special::<BARE>(byte));
                }
            }
        }
    }

    #[test]
    fn a_cut_splits_neither_escapes_nor_characters() {
        let line = "ab\\n\\x1b\\u{202e}é漢".as_bytes();
        let ends: Vec<usize> = (0..=line.len())
            .map(|limit| whole_front(line, limit, Escape::Text))
            .collect();
        assert_eq!(
            ends,
            [
                0, 1, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 18, 18, 18, 21
            ]
        );
        let json = b"a\\u001b\\\\u";
        let ends: Vec<usize> = (0..=json.len())
            .map(|limit| whole_front(json, limit, Escape::Json))
            .collect();
        assert_eq!(ends, [0, 1, 1, 1, 1, 1, 1, 7, 7, 9, 10]);
    }

    #[test]
    fn what_is_not_an_escape_stays() {
        for plain in [
            &b"\\"[..],
            b"\\q",
            b"\\x1",
            b"\\x+1",
            b"\\u{}",
            b"\\u{d800}",
            b"\\u{1234567}",
            b"\\u1234",
        ] {
            assert_eq!(unescape(plain), plain);
        }
    }
}
