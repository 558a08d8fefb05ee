//! Parts of log files that can be read by themselves: each begins with a record and ends before one.
//!
//! Only some bytes at the borders of parts are read here. Where no record begins for long, a part begins in the middle of one, and
//! says so.

use crate::colors::strip_colors;
use crate::head::read_head;
use crate::limits::{BORDER_BYTES_MAX, BORDER_READ_BYTES, PART_BYTES};
use crate::times::Times;
use jiff::tz::TimeZone;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A part of a file.
#[derive(Debug, Clone)]
pub(crate) struct TextPart {
    pub(crate) file: Arc<File>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Whether its first line may begin a record; else it is the rest of a line.
    pub(crate) begins_line: bool,
    /// Whether it ends with its file.
    pub(crate) is_last: bool,
}

impl TextPart {
    /// Reads the part into memory that is used again and again. What the file lacks by now is left out.
    pub(crate) fn read<'a>(&self, memory: &'a mut Vec<u8>) -> io::Result<&'a mut [u8]> {
        let length = (self.end - self.start) as usize;
        if memory.len() < length + 1 {
            memory.resize(length + 1, 0);
        }
        let mut filled = 0;
        while let Some(room) = memory.get_mut(filled..length).filter(|room| !room.is_empty()) {
            match self.file.read_at(room, self.start + filled as u64) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(0) => break,
                Ok(length) => filled += length,
            }
        }
        if self.is_last
            && filled > 0
            && memory.get(filled - 1) != Some(&b'\n')
            && let Some(behind) = memory.get_mut(filled)
        {
            // Another file may follow.
            *behind = b'\n';
            filled += 1;
        }
        Ok(memory.get_mut(..filled).unwrap_or_default())
    }
}

/// A stretch of a file.
#[derive(Debug, Clone)]
pub(crate) struct TextRange {
    pub(crate) file: Arc<File>,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Cuts stretches of files, one behind the other, into parts.
#[derive(Debug)]
pub(crate) struct TextParts {
    ranges: VecDeque<TextRange>,
    times: Times,
    bytes: Vec<u8>,
    begins_line: bool,
}

impl TextParts {
    pub(crate) fn new(ranges: Vec<TextRange>) -> Self {
        Self {
            ranges: ranges.into(),
            times: Times::new(TimeZone::system()),
            bytes: Vec::new(),
            begins_line: true,
        }
    }

    /// The next part.
    pub(crate) fn next_part(&mut self) -> Option<TextPart> {
        loop {
            let range = self.ranges.front()?.clone();
            if range.start >= range.end {
                self.ranges.pop_front();
                self.begins_line = true;
                continue;
            }
            let wanted = range.start + PART_BYTES;
            let (end, ends_line) = match wanted >= range.end {
                true => (range.end, true),
                // Who reads the part finds out why it cannot be read.
                false => self.border(&range, wanted).unwrap_or((range.end, true)),
            };
            if let Some(front) = self.ranges.front_mut() {
                front.start = end;
            }
            return Some(TextPart {
                file: range.file,
                start: range.start,
                end,
                begins_line: std::mem::replace(&mut self.begins_line, ends_line),
                is_last: end == range.end,
            });
        }
    }

    /// The first place from `from` on where a record begins; where there is none for long, the end of a line, or any place.
    pub(crate) fn border(&mut self, range: &TextRange, from: u64) -> io::Result<(u64, bool)> {
        let mut length = BORDER_READ_BYTES;
        let mut bytes = std::mem::take(&mut self.bytes);
        let border = loop {
            // From the byte before on, which may be the end of a line.
            let start = from - 1;
            let end = range.end.min(start + length);
            bytes.resize((end - start) as usize, 0);
            range.file.read_exact_at(&mut bytes, start)?;
            if let Some(at) = self.record_in(&bytes) {
                break (start + at as u64, true);
            }
            if end == range.end {
                break (end, true);
            }
            if length >= BORDER_BYTES_MAX {
                break match memchr::memrchr(b'\n', &bytes) {
                    Some(at) => (start + at as u64 + 1, true),
                    None => (end, false),
                };
            }
            length *= 4;
        };
        self.bytes = bytes;
        Ok(border)
    }

    /// The first line of a stretch, behind a line's end, with which a record begins. The last line is not known to be whole.
    fn record_in(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = memchr::memchr(b'\n', bytes)? + 1;
        while let Some(length) = memchr::memchr(b'\n', bytes.get(at..)?) {
            let line = bytes.get(at..at + length)?;
            if begins_record(line, &mut self.times) {
                return Some(at);
            }
            at += length + 1;
        }
        None
    }
}

/// Whether a record with a time of its own begins with a line, which may have colours.
pub(crate) fn begins_record(line: &[u8], times: &mut Times) -> bool {
    if memchr::memchr(0x1b, line).is_none() {
        return read_head(line, times).is_some_and(|head| head.is_timed);
    }
    let mut plain = line.to_vec();
    let end = strip_colors(&mut plain, 0, line.len());
    read_head(plain.get(..end).unwrap_or(&plain), times).is_some_and(|head| head.is_timed)
}
