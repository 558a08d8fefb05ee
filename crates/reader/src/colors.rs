//! Colours of lines that were printed for a terminal, and lines that were written over.

use crate::foreign::parser::last_state;
use crate::limits::OVERWRITTEN_BYTES_MAX;

/// Takes the colours out that a console's layout put in: `ESC [ 1 ; 31 m`. Returns where the bytes end now. Half of a
/// sequence at the end stays for the next time.
pub(crate) fn strip_colors(chunk: &mut [u8], from: usize, end: usize) -> usize {
    let Some(first) = chunk.get(from..end).and_then(|bytes| memchr::memchr(0x1b, bytes)) else {
        return end;
    };
    let (mut read, mut write) = (from + first, from + first);
    while read < end {
        if let Some(length) = chunk.get(read..end).and_then(color_length) {
            read += length;
            continue;
        }
        let rest = chunk.get(read + 1..end).unwrap_or(b"");
        let length = 1 + memchr::memchr(0x1b, rest).unwrap_or(rest.len());
        chunk.copy_within(read..read + length, write);
        read += length;
        write += length;
    }
    write
}

/// Takes the colours out, and of what was written over on one line all but the last state. Returns where the bytes end now.
pub(crate) fn strip_terminal(chunk: &mut [u8], from: usize, end: usize) -> usize {
    // One search for both: most logs have neither.
    let Some(first) = chunk
        .get(from..end)
        .and_then(|bytes| memchr::memchr2(0x1b, b'\r', bytes))
    else {
        return end;
    };
    let end = strip_colors(chunk, from + first, end);
    strip_overwritten(chunk, from, end)
}

fn strip_overwritten(chunk: &mut [u8], from: usize, end: usize) -> usize {
    let bytes = chunk.get(from..end).unwrap_or(b"");
    let overwrites = |at: &usize| !matches!(bytes.get(at + 1), None | Some(b'\r' | b'\n'));
    let Some(first) = memchr::memchr_iter(b'\r', bytes).find(overwrites) else {
        return end;
    };
    let line = memchr::memrchr(b'\n', bytes.get(..first).unwrap_or(b"")).map_or(0, |at| at + 1);
    let (mut read, mut write) = (from + line, from + line);
    while let Some(rest) = chunk.get(read..end).filter(|rest| !rest.is_empty()) {
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let text = rest.get(..length).unwrap_or(rest);
        // What is longer, or has no end, is no line that a person saw.
        let shown = match length <= OVERWRITTEN_BYTES_MAX && text.ends_with(b"\n") {
            true => last_state(text).len(),
            false => length,
        };
        chunk.copy_within(read + length - shown..read + length, write);
        read += length;
        write += shown;
    }
    write
}

fn color_length(bytes: &[u8]) -> Option<usize> {
    let parameters = bytes.strip_prefix(b"\x1b[")?;
    let length = parameters
        .iter()
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        .count();
    (parameters.get(length) == Some(&b'm')).then_some(length + 3)
}
