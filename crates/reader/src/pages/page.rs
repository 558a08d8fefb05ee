//! One page: the records that begin in a range of bytes of a log.
//!
//! A record goes up to the next line that begins one, also beyond the end of the page. So lines at the front of a page
//! that begin no record belong to the page before. Where that would go on for more than
//! [`RECORD_BYTES_MAX`](crate::limits::RECORD_BYTES_MAX), both sides stop: the record ends with its page, and each of those
//! lines is a record.

use crate::colors::strip_colors;
use crate::head::read_head;
use crate::limits::RECORD_BYTES_MAX;
use crate::times::Times;
use logdrive_wire::Level;
use std::borrow::Cow;

/// Record of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRecord {
    /// Time by which it is merged, in nanoseconds since 1970: its own, or that of an earlier record of the page where that
    /// is later; 0 for a line before any time.
    pub unix_ns: u64,
    /// Its level, if it says one.
    pub level: Option<Level>,
    /// Set if it begins with a time, and so is not just a line.
    pub has_head: bool,
    start: u32,
    end: u32,
}

/// A page that was read.
#[derive(Debug, Default)]
pub struct Page {
    bytes: Vec<u8>,
    records: Vec<PageRecord>,
    is_coloured: bool,
}

/// Bytes from which a page is made.
#[derive(Debug)]
pub(crate) struct PageBytes {
    /// Bytes from the page's start on; for all but the first page with the byte before it.
    pub(crate) bytes: Vec<u8>,
    /// Number of bytes of the page itself.
    pub(crate) own: usize,
    /// Set if this is the first page.
    pub(crate) is_first: bool,
    /// Set if the log ends with these bytes.
    pub(crate) is_end: bool,
    /// Set if no record of the log begins with a time: then each line is one.
    pub(crate) is_lines: bool,
}

/// Lines of a page, as they are grouped.
struct Grouping {
    records: Vec<PageRecord>,
    latest_ns: u64,
    has_head: bool,
}

impl Page {
    /// Groups bytes to records. `None`: more bytes behind the page are needed to find the end of its last record.
    pub(crate) fn read(source: PageBytes, times: &mut Times) -> Result<Self, PageBytes> {
        let before = usize::from(!source.is_first);
        let end = before + source.own;
        let bytes = &source.bytes;
        let first = match source.is_first {
            true => Some(0),
            false => memchr::memchr(b'\n', bytes.get(..end).unwrap_or(bytes)).map(|at| at + 1),
        };
        let Some(first) = first.filter(|first| *first < end.min(bytes.len())) else {
            return Ok(Self::default());
        };
        // What is behind the page, and whether that is all that counts.
        let is_all = source.is_end || bytes.len() >= end + RECORD_BYTES_MAX;
        let start = match source.is_first || source.is_lines {
            true => first,
            false => match first_head(bytes, first, before + RECORD_BYTES_MAX, times) {
                Some(head) => head,
                None if !is_all => return Err(source),
                // The log ends, and these lines belong to the page before.
                None if bytes.len() < before + RECORD_BYTES_MAX => end,
                None => first,
            },
        };
        let mut grouping = Grouping {
            records: Vec::new(),
            latest_ns: 0,
            has_head: false,
        };
        let mut at = start;
        times.begin_record();
        // Records that begin in the page, then the rest of the last of them.
        while at < bytes.len() {
            let rest = bytes.get(at..).unwrap_or_default();
            let length = match memchr::memchr(b'\n', rest) {
                Some(line_end) => line_end + 1,
                None if is_all => rest.len(),
                None => return Err(source),
            };
            let line = rest.get(..length).unwrap_or_default();
            if at >= end && (source.is_lines || !grouping.has_head) {
                break;
            }
            if at >= end + RECORD_BYTES_MAX {
                break;
            }
            let head = line_head(line, times);
            if at >= end && head.is_some() {
                break;
            }
            grouping.take(at, length, head, source.is_lines);
            at += length;
            if at >= bytes.len() && !is_all {
                return Err(source);
            }
        }
        // No head was found in time: the record ends with its page.
        if at >= end + RECORD_BYTES_MAX {
            grouping.cut(bytes, end);
        }
        let mut records = grouping.records;
        date_leading(&mut records);
        Ok(Self {
            is_coloured: memchr::memchr(0x1b, &source.bytes).is_some(),
            bytes: source.bytes,
            records,
        })
    }

    /// Records in the order of the log.
    pub fn records(&self) -> &[PageRecord] {
        &self.records
    }

    /// Returns the lines of a record, with the end of the last one.
    pub fn bytes(&self, record: &PageRecord) -> &[u8] {
        let range = record.start as usize..record.end as usize;
        self.bytes.get(range).unwrap_or_default()
    }

    /// Returns the lines of a record without colours.
    pub fn plain(&self, record: &PageRecord) -> Cow<'_, [u8]> {
        let bytes = self.bytes(record);
        match self.is_coloured {
            false => Cow::Borrowed(bytes),
            true => {
                let mut plain = bytes.to_vec();
                let end = strip_colors(&mut plain, 0, bytes.len());
                plain.truncate(end);
                Cow::Owned(plain)
            }
        }
    }

    /// Bytes of memory that the page takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<PageRecord>()
    }
}

impl Grouping {
    /// Takes a line: it begins a record, or goes on with the last one.
    fn take(&mut self, at: usize, length: usize, head: Option<(u64, Option<Level>)>, is_lines: bool) {
        let end = (at + length) as u32;
        if let Some((unix_ns, level)) = head {
            self.latest_ns = self.latest_ns.max(unix_ns);
            self.has_head = true;
            return self.records.push(PageRecord {
                unix_ns: self.latest_ns,
                level,
                has_head: true,
                start: at as u32,
                end,
            });
        }
        match self.records.last_mut().filter(|_| self.has_head && !is_lines) {
            Some(last) => last.end = end,
            None => self.records.push(PageRecord {
                unix_ns: self.latest_ns,
                level: None,
                has_head: false,
                start: at as u32,
                end,
            }),
        }
    }

    /// Ends the last record with the last of its lines that begins in the page.
    fn cut(&mut self, bytes: &[u8], page_end: usize) {
        let Some(last) = self.records.last_mut() else {
            return;
        };
        let from = page_end.saturating_sub(1).max(last.start as usize);
        let rest = bytes.get(from..last.end as usize).unwrap_or_default();
        if let Some(line_end) = memchr::memchr(b'\n', rest) {
            last.end = (from + line_end + 1) as u32;
        }
    }
}

/// Lines before the first record of a page have its time, so that they stay beside it.
fn date_leading(records: &mut [PageRecord]) {
    let Some(first) = records.iter().position(|record| record.has_head) else {
        return;
    };
    let unix_ns = records.get(first).map_or(0, |record| record.unix_ns);
    for record in records.iter_mut().take(first) {
        record.unix_ns = unix_ns;
    }
}

/// Offset of the first line from a line's start up to a limit that begins a record.
fn first_head(bytes: &[u8], from: usize, limit: usize, times: &mut Times) -> Option<usize> {
    let mut at = from;
    while at < bytes.len() && at < limit {
        let rest = bytes.get(at..)?;
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        times.begin_record();
        if line_head(rest.get(..length)?, times).is_some() {
            return Some(at);
        }
        at += length;
    }
    None
}

/// Time and level of a line that begins a record, whether or not it is coloured.
fn line_head(line: &[u8], times: &mut Times) -> Option<(u64, Option<Level>)> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    if line.first() != Some(&0x1b) {
        return read_head(line, times).map(|head| (head.unix_ns, head.level));
    }
    // The head of a coloured line is short.
    let mut plain = line.get(..line.len().min(1024)).unwrap_or_default().to_vec();
    let length = plain.len();
    let end = strip_colors(&mut plain, 0, length);
    plain.truncate(end);
    read_head(&plain, times).map(|head| (head.unix_ns, head.level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn records(text: &str, own: usize, is_first: bool, is_end: bool) -> Option<Vec<String>> {
        let source = PageBytes {
            bytes: text.as_bytes().to_vec(),
            own,
            is_first,
            is_end,
            is_lines: false,
        };
        let page = Page::read(source, &mut Times::new(TimeZone::UTC)).ok()?;
        let text = |record| String::from_utf8_lossy(page.bytes(record)).into_owned();
        Some(page.records().iter().map(text).collect())
    }

    const A: &str = "2026-11-21T08:00:00Z INFO  a\n";
    const B: &str = "2026-11-21T08:00:01Z WARN  b\n";

    #[test]
    fn a_record_belongs_to_the_page_in_which_it_begins() {
        let log = format!("{A}  one\n{B}  two\n  three\n");
        let first = records(&log, A.len() + 2, true, true).expect("enough");
        assert_eq!(first, [format!("{A}  one\n")]);
        let cut = A.len() + 2;
        let second = records(&log[cut - 1..], log.len() - cut, false, true).expect("enough");
        assert_eq!(second, [format!("{B}  two\n  three\n")]);
    }

    #[test]
    fn more_is_read_until_the_last_record_has_its_end() {
        let log = format!("{A}  one\n");
        assert_eq!(records(&log, A.len(), true, false), None);
        assert_eq!(
            records(&log, A.len(), true, true).map(|found| found.len()),
            Some(1)
        );
    }

    #[test]
    fn lines_before_the_first_record_stand_alone_beside_it() {
        let log = format!("banner\nof it\n{A}");
        let source = PageBytes {
            own: log.len(),
            bytes: log.into_bytes(),
            is_first: true,
            is_end: true,
            is_lines: false,
        };
        let page = Page::read(source, &mut Times::new(TimeZone::UTC)).expect("all of it");
        let times: Vec<_> = page.records().iter().map(|record| record.unix_ns).collect();
        assert_eq!(times.len(), 3);
        assert!(times[0] > 0 && times.iter().all(|time| *time == times[0]));
    }

    #[test]
    fn a_long_line_is_cut_and_goes_on_in_no_other_page() {
        let own = 64 * 1024;
        let long = format!("{A}{}", "x".repeat(own + RECORD_BYTES_MAX));
        let found = records(&long, own, true, false).expect("enough");
        assert_eq!(found.len(), 1);
        let inside = format!("x{}", "x".repeat(own + RECORD_BYTES_MAX));
        assert_eq!(records(&inside, own, false, false), Some(Vec::new()));
    }

    #[test]
    fn lines_that_belong_to_no_record_for_long_stand_alone() {
        let line = "  at somewhere\n";
        let own = 64 * 1024;
        let many = line.repeat((own + RECORD_BYTES_MAX) / line.len() + 2);
        let head = format!("{A}{many}");
        let first = records(&head, own, true, false).expect("enough");
        assert_eq!(first.len(), 1);
        // The next page begins where the first one ended, and goes on to the next one.
        let second = records(&format!("{}{many}", &head[own - 1..]), own, false, false);
        let second = second.expect("enough");
        assert!(head[first[0].len()..].starts_with(&second.concat()));
        assert!(first[0].len() + second.concat().len() >= 2 * own);
    }

    #[test]
    fn late_records_do_not_go_back_in_time() {
        let log = format!("{B}{A}");
        let source = PageBytes {
            own: log.len(),
            bytes: log.into_bytes(),
            is_first: true,
            is_end: true,
            is_lines: false,
        };
        let page = Page::read(source, &mut Times::new(TimeZone::UTC)).expect("all of it");
        assert_eq!(page.records()[0].unix_ns, page.records()[1].unix_ns);
    }
}
