//! One log as a row of records that pass the filter, in order of time within a small window, in bounded memory.
//!
//! A chunk is read, its lines are grouped to records, and those that pass are noted as places in the chunk. Records
//! are then put into order; the last ones are kept back until the next chunk has been read, so that a late record
//! still finds its place.

use crate::colors::strip_terminal;
use crate::error::ReadError;
use crate::filter::Filter;
use crate::foreign::trace::{JoinRule, OpenTrace};
use crate::head::read_head;
use crate::input::Input;
use crate::limits::{
    CHUNK_BYTES, CHUNK_BYTES_MIN, CHUNKS_BYTES_MAX, RECORD_BYTES_MAX, REORDER_BYTES, REORDER_RECORDS,
    SCAN_THREADS_MAX,
};
use crate::line_head::Head;
use crate::record::Record;
use crate::scan::{ScannedPart, ScannedText, Shapes};
use crate::times::Times;
use jiff::tz::TimeZone;

/// A record that passes, in the chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) unix_ns: u64,
    start: usize,
    end: usize,
    /// Whether this goes on with the record before: one that is larger than is kept.
    pub(crate) goes_on: bool,
    /// Whether it was kept back when the last chunk was read.
    is_kept: bool,
}

/// Record of a log that is read.
#[derive(Debug, Clone, Copy)]
pub struct SourceRecord<'a> {
    /// Name of the log.
    pub name: &'a str,
    /// Time, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Its lines, with the end of the last one.
    pub bytes: &'a [u8],
    /// Whether this goes on with the record before: one that is larger than is kept.
    pub goes_on: bool,
    /// Whether the bytes are what is printed of it.
    pub is_shaped: bool,
}

/// Options of a source besides its filter.
#[derive(Debug, Clone, Copy)]
pub struct SourceOptions {
    /// Bytes that are read at a time; [`chunk_bytes`] suits a number of sources.
    pub chunk_bytes: usize,
    /// Leave records where they stand, instead of putting late ones into order.
    pub keep_order: bool,
}

/// Returns the bytes that each of so many sources may read at a time, so that all of them stay within 64 MiB.
pub fn chunk_bytes(sources: usize) -> usize {
    (CHUNKS_BYTES_MAX / sources.max(1)).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES)
}

/// A log that is read.
#[derive(Debug)]
pub struct Source {
    /// Name of the log, as its records bear it.
    pub name: String,
    input: Input,
    options: SourceOptions,
    times: Times,
    parts: Record,
    chunk: Chunk,
    entries: Vec<Entry>,
    next: usize,
    /// Entries before this one may be taken.
    ready: usize,
    at_end: bool,
    /// Entry that was finished last, for what goes on with it.
    last: Last,
    /// Whether what was finished last was a piece of a line, which goes on.
    in_line: bool,
    has_lines: bool,
    has_records: bool,
    failures: Vec<ReadError>,
}

/// Bytes of the log that are read and not yet taken.
#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Memory of the chunk before, which takes what is kept when more is read.
    spare: Vec<u8>,
    /// Bytes that were read; what lies behind is rubbish.
    filled: usize,
    /// Offset of the first line that is not yet part of an entry.
    open_at: usize,
    /// Whether what is read now is of a segment, whose records were asked the query.
    is_segment: bool,
    /// Whether a file of the other kind comes next, so that the last record of this one is whole.
    ends_here: bool,
    /// Threads that read in place of the input, where the log allows that.
    scanned: Option<ScannedText>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Last {
    unix_ns: u64,
    passes: bool,
}

/// A record whose end has not been seen.
#[derive(Debug, Clone, Copy)]
struct Open {
    head: Option<Head>,
    start: usize,
}

impl Source {
    /// Returns the source of a log.
    pub fn new(name: String, input: Input, options: SourceOptions) -> Self {
        Self {
            name,
            input,
            options,
            times: Times::new(TimeZone::system()),
            parts: Record::default(),
            chunk: Chunk::default(),
            entries: Vec::new(),
            next: 0,
            ready: 0,
            at_end: false,
            last: Last::default(),
            in_line: false,
            has_lines: false,
            has_records: false,
            failures: Vec::new(),
        }
    }

    /// Lets so many threads read the log, where it is of plain files. They make what is printed of each record, where `shapes` are
    /// given. Only so many of the last records need be found, where `last` is given.
    pub fn start_threads(
        &mut self,
        filter: &Filter,
        threads: usize,
        shapes: Option<&Shapes>,
        last: Option<usize>,
    ) {
        let threads = threads.min(SCAN_THREADS_MAX);
        // The last records of files in no order are nowhere in particular.
        let last = last.filter(|_| !self.options.keep_order);
        self.chunk.scanned = ScannedText::start(self.input.waiting(), filter, threads, shapes, last);
        if self.chunk.scanned.is_some() {
            self.input.clear();
        }
    }

    /// The next record, if one is ready.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Entry> {
        self.entries
            .get(self.next)
            .filter(|_| self.next < self.ready)
            .copied()
    }

    /// Goes on to the record behind.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next += 1;
    }

    /// Record of an entry, up to and with the end of its last line.
    #[inline]
    pub(crate) fn record(&self, entry: Entry) -> SourceRecord<'_> {
        SourceRecord {
            name: &self.name,
            unix_ns: entry.unix_ns,
            bytes: self.chunk.bytes.get(entry.start..entry.end).unwrap_or(b""),
            goes_on: entry.goes_on,
            is_shaped: self
                .chunk
                .scanned
                .as_ref()
                .is_some_and(|scanned| scanned.is_shaped),
        }
    }

    /// Whether the next [`fill`](Self::fill) would wait for a writer.
    pub(crate) fn would_wait(&self) -> bool {
        !self.at_end && self.input.would_wait()
    }

    /// Takes the errors since the last call.
    pub(crate) fn take_failures(&mut self) -> Vec<ReadError> {
        std::mem::take(&mut self.failures)
    }

    /// Whether there were lines, and none that a record begins with.
    pub fn has_no_records(&self) -> bool {
        self.has_lines && !self.has_records
    }

    /// Reads until a record is ready. `false` at the end of the log. Before it would wait, `before_wait` is called.
    pub(crate) fn fill<E>(
        &mut self,
        filter: &Filter,
        mut before_wait: impl FnMut() -> Result<(), E>,
    ) -> Result<bool, E> {
        while self.next >= self.ready {
            if self.at_end {
                return Ok(false);
            }
            if self.chunk.scanned.is_some() {
                self.take_part();
                self.release();
                continue;
            }
            if self.would_wait() {
                before_wait()?;
            }
            self.make_room();
            self.read_more(filter);
            match self.chunk.is_segment && filter.query.is_some() {
                true => self.split(&filter.without_query()),
                false => self.split(filter),
            }
            self.release();
        }
        Ok(true)
    }

    /// Takes the records of the next part of files that threads read.
    fn take_part(&mut self) {
        self.entries.drain(..self.next);
        (self.next, self.ready) = (0, 0);
        let Some(part) = self
            .chunk
            .scanned
            .as_mut()
            .and_then(|scanned| scanned.parts.next())
        else {
            self.at_end = true;
            return;
        };
        let mut bytes = part.bytes;
        let kept: usize = self.entries.iter().map(|entry| entry.end - entry.start).sum();
        if bytes.len() < kept {
            bytes.resize(kept, 0);
        }
        let mut at = 0;
        for entry in &mut self.entries {
            let length = move_bytes(&self.chunk.bytes, entry.start..entry.end, &mut bytes, at);
            (entry.start, entry.end, entry.is_kept) = (at, at + length, true);
            at += length;
        }
        let mut push = |unix_ns, start, end, goes_on| {
            self.entries.push(Entry {
                unix_ns,
                start,
                end,
                goes_on,
                is_kept: false,
            });
        };
        if part.leading > ScannedPart::FRONT && self.last.passes {
            push(self.last.unix_ns, ScannedPart::FRONT, part.leading, true);
        }
        for (unix_ns, start, end) in part.records {
            push(unix_ns, start, end, false);
        }
        if let Some((unix_ns, passes)) = part.last {
            self.last = Last { unix_ns, passes };
            self.has_records = true;
        }
        self.has_lines |= part.has_lines;
        if let Some(cause) = part.error {
            let path = std::path::Path::new(&self.name);
            self.failures.push(ReadError::read(path)(cause));
        }
        let taken = std::mem::replace(&mut self.chunk.bytes, bytes);
        if let Some(scanned) = &self.chunk.scanned {
            scanned.give_back(taken);
        }
    }

    /// Moves what is still needed to the front of a chunk with room behind it.
    fn make_room(&mut self) {
        self.entries.drain(..self.next);
        let open_bytes = self.chunk.filled - self.chunk.open_at;
        let kept_bytes: usize = self.entries.iter().map(|entry| entry.end - entry.start).sum();
        let room = kept_bytes + open_bytes + self.options.chunk_bytes;
        // What lies in the spare chunk from before is written over; it only grows, so it is not cleared each time.
        if self.chunk.spare.len() < room {
            self.chunk.spare.resize(room, 0);
        }
        let mut at = 0;
        for entry in &mut self.entries {
            let length = move_bytes(
                &self.chunk.bytes,
                entry.start..entry.end,
                &mut self.chunk.spare,
                at,
            );
            (entry.start, entry.end, entry.is_kept) = (at, at + length, true);
            at += length;
        }
        let length = move_bytes(
            &self.chunk.bytes,
            self.chunk.open_at..self.chunk.filled,
            &mut self.chunk.spare,
            at,
        );
        (self.chunk.open_at, self.chunk.filled) = (at, at + length);
        std::mem::swap(&mut self.chunk.bytes, &mut self.chunk.spare);
        self.next = 0;
        self.ready = 0;
    }

    /// Reads a chunk, or what there is without waiting for more of it.
    fn read_more(&mut self, filter: &Filter) {
        self.chunk.ends_here = false;
        if self.input.is_open() {
            self.chunk.is_segment = self.input.is_segment();
        }
        let end = self.chunk.filled + self.options.chunk_bytes;
        while self.chunk.filled < end {
            if !self.input.is_open() {
                match self.input.open_next(filter) {
                    Ok(true) if self.input.is_segment() != self.chunk.is_segment => {
                        if self.chunk.filled > self.chunk.open_at {
                            self.chunk.ends_here = true;
                            return;
                        }
                        self.chunk.is_segment = !self.chunk.is_segment;
                    }
                    Ok(true) => {}
                    Ok(false) => {
                        self.at_end = true;
                        return;
                    }
                    Err(error) => {
                        self.failures.push(error);
                        continue;
                    }
                }
            }
            let from = self.chunk.filled;
            let room = self.chunk.bytes.get_mut(from..end).unwrap_or_default();
            let length = self.input.read(room).unwrap_or_else(|error| {
                self.failures.push(error);
                0
            });
            self.failures.extend(self.input.take_damages());
            if length == 0 {
                self.end_line(end);
                self.input.close();
                continue;
            }
            self.chunk.filled += length;
            if self.input.would_wait() {
                return;
            }
        }
    }

    /// The last line of a file may lack its end, and another file may follow.
    fn end_line(&mut self, end: usize) {
        let lacks_end = self.chunk.filled > self.chunk.open_at
            && self.chunk.bytes.get(self.chunk.filled - 1) != Some(&b'\n');
        if lacks_end
            && self.chunk.filled < end
            && let Some(byte) = self.chunk.bytes.get_mut(self.chunk.filled)
        {
            *byte = b'\n';
            self.chunk.filled += 1;
        }
    }

    /// Groups the lines that are there to records, and notes those that pass.
    fn split(&mut self, filter: &Filter) {
        let mut chunk = std::mem::take(&mut self.chunk.bytes);
        self.chunk.filled = strip_terminal(&mut chunk, self.chunk.open_at, self.chunk.filled);
        let bytes = chunk.get(..self.chunk.filled).unwrap_or(b"");
        let whole = match memchr::memrchr(b'\n', bytes.get(self.chunk.open_at..).unwrap_or(b"")) {
            _ if self.at_end => self.chunk.filled,
            Some(last) => self.chunk.open_at + last + 1,
            None => self.chunk.open_at,
        };
        let mut open: Option<Open> = None;
        let mut trace = OpenTrace::default();
        self.times.begin_record();
        let mut at = self.chunk.open_at;
        while at < whole {
            let rest = bytes.get(at..whole).unwrap_or(b"");
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let line = rest.get(..length).unwrap_or(b"");
            self.has_lines = true;
            let head = self.head_of(line, at == self.chunk.open_at);
            // Lines before the first record are taken one by one.
            let is_before_first = !self.has_records && open.is_some_and(|open| open.head.is_none());
            let is_of_trace =
                !self.has_records && trace.continues(text_of(line), head.is_some(), JoinRule::Output);
            if head.is_some() || open.is_none() || (is_before_first && !is_of_trace) {
                if let Some(open) = open {
                    self.finish(open, at, bytes, filter);
                }
                open = Some(Open { head, start: at });
            }
            at += length;
        }
        self.chunk.open_at = whole;
        if let Some(open) = open {
            // Lines of the last record may follow, but a reader who waits for them should see what is there.
            let is_large = self.chunk.filled - open.start >= RECORD_BYTES_MAX;
            if self.at_end || self.chunk.ends_here || is_large || self.input.would_wait() {
                self.finish(open, whole, bytes, filter);
            } else {
                self.chunk.open_at = open.start;
            }
        } else if self.chunk.filled - whole >= RECORD_BYTES_MAX {
            // A line without an end is passed on in pieces.
            let line = bytes.get(whole..).unwrap_or(b"");
            let head = self.head_of(line, true);
            self.finish(Open { head, start: whole }, self.chunk.filled, bytes, filter);
            self.chunk.open_at = self.chunk.filled;
        }
        self.chunk.bytes = chunk;
    }

    /// The head of a line, unless it is the rest of one.
    #[inline]
    fn head_of(&mut self, line: &[u8], is_first: bool) -> Option<Head> {
        if is_first && self.in_line {
            return None;
        }
        read_head(text_of(line), &mut self.times)
    }

    /// Notes a record or a further piece of one, if it passes.
    fn finish(&mut self, open: Open, end: usize, bytes: &[u8], filter: &Filter) {
        let text = bytes.get(open.start..end).unwrap_or(b"");
        let goes_on = open.head.is_none() && (self.has_records || self.in_line);
        if let Some(head) = open.head {
            let passes = filter.passes_head(&head)
                && filter.passes_whole(text, &head, &mut self.parts, &mut self.times);
            self.last = Last {
                unix_ns: head.unix_ns,
                passes,
            };
            self.has_records = true;
        } else if !goes_on {
            self.last = Last {
                unix_ns: 0,
                passes: filter.passes_headless(text, &mut self.parts, &mut self.times),
            };
        }
        self.in_line = text.last() != Some(&b'\n');
        let Last { unix_ns, passes } = self.last;
        if passes {
            self.entries.push(Entry {
                unix_ns,
                start: open.start,
                end,
                goes_on,
                is_kept: false,
            });
        }
    }

    /// Puts entries into order, and says how many of them may be taken.
    fn release(&mut self) {
        self.sort();
        // A reader who waits should see what is there.
        if self.options.keep_order || self.at_end || self.input.would_wait() {
            self.ready = self.entries.len();
            return;
        }
        let mut bytes = 0;
        let late = self
            .entries
            .iter()
            .rev()
            .take(REORDER_RECORDS)
            .take_while(|entry| {
                bytes += entry.end - entry.start;
                bytes <= REORDER_BYTES && !entry.is_kept
            });
        self.ready = self.entries.len() - late.count();
    }

    fn sort(&mut self) {
        if !self.options.keep_order && !self.entries.is_sorted_by_key(|entry| entry.unix_ns) {
            // Stable: what has the same time, such as a further piece of a record, stays behind it.
            self.entries.sort_by_key(|entry| entry.unix_ns);
        }
    }
}

/// A line without its end.
fn text_of(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Copies bytes from one chunk to another, and returns how many.
fn move_bytes(from: &[u8], range: std::ops::Range<usize>, to: &mut [u8], at: usize) -> usize {
    let bytes = from.get(range).unwrap_or(b"");
    if let Some(place) = to.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_taken_out_and_nothing_else() {
        let strip = |text: &[u8]| {
            let mut bytes = text.to_vec();
            let end = strip_terminal(&mut bytes, 0, text.len());
            bytes.truncate(end);
            bytes
        };
        assert_eq!(
            strip(b"\x1b[2m2026\x1b[0m \x1b[1;31mFATAL\x1b[m x\n"),
            b"2026 FATAL x\n"
        );
        assert_eq!(strip(b"a\x1b[2Jb\x1b[31"), b"a\x1b[2Jb\x1b[31");
        assert_eq!(strip(b"\x1b\x1b[1m\x1b"), b"\x1b\x1b");
        assert_eq!(strip(b"plain"), b"plain");
        assert_eq!(strip(b"a\r\n1%\r50%\r100%\r\nb\nx\ry"), b"a\r\n100%\r\nb\nx\ry");
    }
}
