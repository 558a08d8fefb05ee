//! Colours of lines that were printed for a terminal.

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

fn color_length(bytes: &[u8]) -> Option<usize> {
    let parameters = bytes.strip_prefix(b"\x1b[")?;
    let length = parameters
        .iter()
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        .count();
    (parameters.get(length) == Some(&b'm')).then_some(length + 3)
}
