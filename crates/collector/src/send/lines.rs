//! Whole lines of a buffer, up to the last record to which more lines may belong.

use crate::limits::RECORD_WAIT;
use logdrive_reader::foreign::{JoinRule, LineJoiner, open_record};
use memchr::memchr_iter;
use std::time::Instant;

/// Moves the first `end` bytes over as lines, the last one with an end, and returns their number.
pub(crate) fn take_lines(rest: &mut Vec<u8>, end: usize, lines: &mut Vec<u8>) -> u32 {
    lines.extend(rest.drain(..end));
    if lines.last().is_some_and(|byte| *byte != b'\n') {
        lines.push(b'\n');
    }
    u32::try_from(memchr_iter(b'\n', lines).count()).unwrap_or(u32::MAX)
}

/// Start of the last record of whole lines, whose first line begins one; and whether it goes on with the one before, which was too
/// long: whoever reads from there on does not see that.
pub(crate) fn last_record(lines: &[u8]) -> (usize, bool) {
    let mut joiner = LineJoiner::new(JoinRule::LogFile);
    let starts = starts_of(&mut joiner, lines);
    (starts.last().copied().unwrap_or(0), joiner.was_cut())
}

/// Starts of the records of whole lines, whose first line begins one.
pub(crate) fn record_starts(lines: &[u8]) -> Vec<usize> {
    starts_of(&mut LineJoiner::new(JoinRule::LogFile), lines)
}

fn starts_of(joiner: &mut LineJoiner, lines: &[u8]) -> Vec<usize> {
    let (mut starts, mut at) = (Vec::new(), 0);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        if !joiner.continues(line.strip_suffix(b"\n").unwrap_or(line)) || at == 0 {
            starts.push(at);
        }
        at += line.len();
    }
    starts
}

/// A record at the end of what was read that waits for its last lines: a stack trace is sent with its record.
#[derive(Debug, Default)]
pub(crate) struct HeldRecord {
    /// Bytes that were there, and since when no more came.
    seen: Option<(usize, Instant)>,
}

impl HeldRecord {
    /// Returns the end of the lines that can be taken from whole lines: all of them, or those before a record that may go
    /// on. A record that does not grow for a while, or fills the buffer, is whole.
    pub(crate) fn end(&mut self, lines: &[u8], is_full: bool, now: Instant) -> usize {
        let Some(start) = open_record(lines).filter(|start| !is_full || *start > 0) else {
            self.seen = None;
            return lines.len();
        };
        let held = lines.len() - start;
        let since = match self.seen {
            Some((bytes, since)) if bytes == held => since,
            _ => now,
        };
        self.seen = Some((held, since));
        if !is_full && now.duration_since(since) >= RECORD_WAIT {
            self.seen = None;
            return lines.len();
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_record_waits_for_its_last_lines_for_a_while() {
        let first = b"2026-11-21 12:34:56 INFO one\n";
        let error = [first.as_slice(), b"2026-11-21 12:34:57 ERROR two\n"].concat();
        let traced = [&error, b"\tat a.B.c(B.java:7)\n".as_slice()].concat();
        let mut held = HeldRecord::default();
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        assert_eq!(held.end(first, false, begin), first.len());
        assert_eq!(held.end(&error, false, begin), first.len());
        // Its trace comes, and the wait begins anew.
        let rest = traced.get(first.len()..).expect("the record");
        assert_eq!(held.end(rest, false, after(200)), 0);
        assert_eq!(held.end(rest, false, after(399)), 0);
        assert_eq!(held.end(rest, false, after(400)), rest.len());
        // A buffer that is full of it has no room for more.
        assert_eq!(held.end(rest, true, after(500)), rest.len());
        assert_eq!(held.end(&traced, true, after(500)), first.len());
        assert_eq!(held.end(b"", false, after(500)), 0);
    }
}
