//! Whole lines of a buffer.

use memchr::memchr_iter;

/// Moves the first `end` bytes over as lines, the last one with an end, and returns their number.
pub(crate) fn take_lines(rest: &mut Vec<u8>, end: usize, lines: &mut Vec<u8>) -> u32 {
    lines.extend(rest.drain(..end));
    if lines.last().is_some_and(|byte| *byte != b'\n') {
        lines.push(b'\n');
    }
    u32::try_from(memchr_iter(b'\n', lines).count()).unwrap_or(u32::MAX)
}
