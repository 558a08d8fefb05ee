//! Control sequences of terminals, for colours, the cursor and titles, and their removal.
//!
//! They are taken out of lines by default, because a log is read elsewhere and a colour says nothing that a level does
//! not say. What is not a whole sequence stays, and layouts escape it.

/// The byte that every sequence begins with.
pub const ESCAPE: u8 = 0x1b;

/// Bytes of a sequence; no terminal sends or takes longer ones, but for titles and links, which have this many too.
const SEQUENCE_BYTES_MAX: usize = 1024;

/// Copies text without its control sequences to the end of `plain`.
///
/// ```
/// let mut plain = Vec::new();
/// logdrive_reader::foreign::ansi::strip(b"\x1b[1;31mERROR\x1b[0m disk is full", &mut plain);
/// assert_eq!(plain, b"ERROR disk is full");
/// ```
pub fn strip(text: &[u8], plain: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        let (before, from) = rest.split_at(at);
        plain.extend_from_slice(before);
        let length = sequence_length(from);
        plain.extend_from_slice(from.get(..usize::from(length == 0)).unwrap_or_default());
        rest = from.get(length.max(1)..).unwrap_or_default();
    }
    plain.extend_from_slice(rest);
}

/// The length of the sequence that the text begins with; 0 if it is none.
fn sequence_length(text: &[u8]) -> usize {
    let text = text.get(..SEQUENCE_BYTES_MAX).unwrap_or(text);
    match text.get(1) {
        // CSI: parameters, intermediates, one final byte.
        Some(b'[') => {
            let body = text.get(2..).unwrap_or_default();
            let length = body.iter().position(|byte| !matches!(byte, 0x20..=0x3f));
            match length.and_then(|length| body.get(length).map(|last| (length, last))) {
                Some((length, 0x40..=0x7e)) => length + 3,
                _ => 0,
            }
        }
        // OSC: text up to BEL or ST.
        Some(b']') => {
            let end = text.iter().position(|byte| *byte == 7 || *byte == b'\\');
            match end {
                Some(at) if text.get(at) == Some(&7) || text.get(at - 1) == Some(&ESCAPE) => at + 1,
                _ => 0,
            }
        }
        // A character set, as `tput sgr0` sends.
        Some(b'(' | b')') if text.len() > 2 => 3,
        // Keypad modes, and the cursor saved and restored.
        Some(b'=' | b'>' | b'7' | b'8') => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        strip(text, &mut plain);
        plain
    }

    #[test]
    fn whole_sequences_go_and_everything_else_stays() {
        for (text, expected) in [
            (&b"no sequence"[..], &b"no sequence"[..]),
            (b"\x1b[31mred\x1b[0m", b"red"),
            (b"\x1b[38;2;1;2;3mtrue\x1b[m colour", b"true colour"),
            (b"\x1b[?2004hprompt\x1b[K", b"prompt"),
            (b"\x1b]0;title\x07text", b"text"),
            (b"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", b"link"),
            (b"\x1b(B\x1b[mreset", b"reset"),
            (b"ends in \x1b", b"ends in \x1b"),
            (b"ends in \x1b[1;", b"ends in \x1b[1;"),
            (b"\x1b]no end", b"\x1b]no end"),
            (b"\x1b[\x00m", b"\x1b[\x00m"),
            (b"\x1b\x1b[1mx", b"\x1bx"),
            (b"", b""),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_sequence_without_an_end_is_looked_at_only_so_far() {
        let long = [b"\x1b]".as_slice(), &vec![b'x'; 100_000], b"\x07"].concat();
        assert_eq!(plain(&long), long);
    }
}
