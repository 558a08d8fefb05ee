//! The records of a part of a log file that pass a filter.
//!
//! Where a filter asks for a text or a value that has to stand in a record, it is searched in all bytes at once, and only the
//! records around what was found are looked at.

use crate::colors::strip_terminal;
use crate::filter::Filter;
use crate::head::read_head;
use crate::limits::UNTIMED_LINES_MAX;
use crate::line_head::Head;
use crate::record::Record;
use crate::times::Times;
use jiff::tz::TimeZone;
use logdrive_query::RawSearch;

/// A record that passes, in the bytes of its part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundRecord {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) head: Head,
}

/// State that goes on from one part to the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartEnd {
    /// End of the bytes before the first record, which belong to the record before.
    pub(crate) leading: usize,
    /// Whether a record begins in the part, and the last one's time and whether it passes.
    pub(crate) last: Option<(u64, bool)>,
}

/// Looks for records.
#[derive(Debug)]
pub(crate) struct TextScan {
    pub(crate) filter: Filter,
    search: Option<RawSearch>,
    pub(crate) times: Times,
    pub(crate) parts: Record,
}

impl TextScan {
    pub(crate) fn new(filter: Filter) -> Self {
        Self {
            search: filter.raw_search(),
            filter,
            times: Times::new(TimeZone::system()),
            parts: Record::default(),
        }
    }

    /// Finds the records of a part that pass. Colours are taken out of its bytes.
    pub(crate) fn scan(
        &mut self,
        bytes: &mut [u8],
        begins_line: bool,
        each: &mut impl FnMut(&mut Self, &[u8], FoundRecord),
    ) -> PartEnd {
        let end = strip_terminal(bytes, 0, bytes.len());
        let bytes = bytes.get(..end).unwrap_or(&[]);
        self.times.begin_record();
        let begin = match begins_line {
            true => 0,
            false => memchr::memchr(b'\n', bytes).map_or(end, |at| at + 1),
        };
        let Some((first, head)) = self.next_head(bytes, begin) else {
            return PartEnd {
                leading: end,
                last: None,
            };
        };
        let search = self.search.take();
        let can_search = search
            .as_ref()
            .filter(|search| search.can_search(bytes.get(first..).unwrap_or(&[])));
        let last = match can_search {
            Some(search) => self.scan_found(bytes, first, search, each),
            None => self.scan_all(bytes, (first, head), each),
        };
        self.search = search;
        PartEnd {
            leading: first,
            last: Some(last),
        }
    }

    /// The next line from here on with which a record begins.
    fn next_head(&mut self, bytes: &[u8], from: usize) -> Option<(usize, Head)> {
        let mut at = from;
        while at < bytes.len() {
            let rest = bytes.get(at..)?;
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            if let Some(head) = read_head(rest.get(..length)?, &mut self.times) {
                return Some((at, head));
            }
            at += length + 1;
        }
        None
    }

    fn scan_all(
        &mut self,
        bytes: &[u8],
        first: (usize, Head),
        each: &mut impl FnMut(&mut Self, &[u8], FoundRecord),
    ) -> (u64, bool) {
        let (mut start, mut head) = first;
        loop {
            let line = memchr::memchr(b'\n', bytes.get(start..).unwrap_or(&[]));
            let behind = line.map_or(bytes.len(), |length| start + length + 1);
            let next = self.next_head(bytes, behind);
            let end = next.map_or(bytes.len(), |(next, _)| next);
            let passes = self.finish(bytes, FoundRecord { start, end, head }, each);
            match next {
                Some(next) => (start, head) = next,
                None => return (head.unix_ns, passes),
            }
        }
    }

    /// Looks at the records alone in which the search finds something.
    fn scan_found(
        &mut self,
        bytes: &[u8],
        first: usize,
        search: &RawSearch,
        each: &mut impl FnMut(&mut Self, &[u8], FoundRecord),
    ) -> (u64, bool) {
        let mut from = first;
        let mut last_found = None;
        while let Some(at) = search.next(bytes, from) {
            let Some((start, head)) = self.head_before(bytes, first, at) else {
                break;
            };
            let line = memchr::memchr(b'\n', bytes.get(at..).unwrap_or(&[]));
            let behind = line.map_or(bytes.len(), |length| at + length + 1);
            let end = self
                .next_head(bytes, behind)
                .map_or(bytes.len(), |(next, _)| next);
            let passes = self.finish(bytes, FoundRecord { start, end, head }, each);
            last_found = Some((end, head.unix_ns, passes));
            from = end;
        }
        match last_found {
            Some((end, unix_ns, passes)) if end == bytes.len() => (unix_ns, passes),
            // The last record of the part does not pass; its time matters to what follows it only where it does.
            _ => (0, false),
        }
    }

    /// The record in which a place lies.
    fn head_before(&mut self, bytes: &[u8], first: usize, at: usize) -> Option<(usize, Head)> {
        let mut end = at;
        loop {
            let before = bytes.get(first..end)?;
            let start = first + memchr::memrchr(b'\n', before).map_or(0, |line| line + 1);
            let rest = bytes.get(start..)?;
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            self.times.begin_record();
            if let Some(head) = read_head(rest.get(..length)?, &mut self.times) {
                return Some(match head.is_timed {
                    true => (start, head),
                    false => self.timed_before(bytes, first, start, head),
                });
            }
            if start == first {
                return None;
            }
            end = start - 1;
        }
    }

    /// Gives a head without a time that of the lines before it. The first half of a head may stand there, too.
    fn timed_before(&mut self, bytes: &[u8], first: usize, start: usize, head: Head) -> (usize, Head) {
        let mut end = start;
        for number in 0..UNTIMED_LINES_MAX {
            if end <= first {
                break;
            }
            let before = bytes.get(first..end - 1).unwrap_or(&[]);
            let at = first + memchr::memrchr(b'\n', before).map_or(0, |line| line + 1);
            let line = bytes.get(at..end - 1).unwrap_or(&[]);
            if let Some(timed) = read_head(line, &mut self.times).filter(|head| head.is_timed) {
                return match timed.is_level_behind() && number == 0 {
                    true => (at, timed),
                    false => (
                        start,
                        Head {
                            unix_ns: timed.unix_ns,
                            ..head
                        },
                    ),
                };
            }
            end = at;
        }
        (start, Head { unix_ns: 0, ..head })
    }

    /// Gives a record to `each` where it passes.
    #[inline]
    fn finish(
        &mut self,
        bytes: &[u8],
        found: FoundRecord,
        each: &mut impl FnMut(&mut Self, &[u8], FoundRecord),
    ) -> bool {
        let record = bytes.get(found.start..found.end).unwrap_or(&[]);
        let passes = self.filter.passes_head(&found.head)
            && self
                .filter
                .passes_whole(record, &found.head, &mut self.parts, &mut self.times);
        if passes {
            each(self, record, found);
        }
        passes
    }
}
