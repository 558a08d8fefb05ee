//! Log files that can be read at any place: plain text that begins with a record. What a filter asks of times, and how many of
//! the last records are wanted, says which stretch of them has to be read.

use super::text_parts::{TextParts, TextRange, begins_record};
use super::text_scan::TextScan;
use crate::filter::Filter;
use crate::foreign::container::is_wrapped;
use crate::head::read_head;
use crate::input::{GZIP, ZSTD};
use crate::limits::{
    BORDER_READ_BYTES, LAST_SEARCH_BYTES_MAX, LATE_BYTES, ORDER_PROBES, PAST_FIRST_BYTES, REORDER_RECORDS,
};
use crate::log_files::LogFile;
use crate::segment::MAGIC;
use crate::times::Times;
use jiff::tz::TimeZone;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The stretches of these files in which records of a filter may stand; `None` where one of them has to be read from its start.
pub(crate) fn plain_ranges<'a>(
    parts: impl Iterator<Item = &'a LogFile>,
    filter: &Filter,
) -> Option<Vec<TextRange>> {
    let wanted = parts.filter(|part| !part.is_before(filter.since_ns));
    wanted.map(|part| plain_range(part, filter)).collect()
}

fn plain_range(part: &LogFile, filter: &Filter) -> Option<TextRange> {
    if part.path.as_os_str() == "-" {
        return None;
    }
    let file = File::open(&part.path).ok()?;
    let metadata = file.metadata().ok()?;
    let length = metadata.len();
    if !metadata.is_file() || length == 0 {
        return None;
    }
    let mut bytes = vec![0; length.min(PAST_FIRST_BYTES) as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let is_other = bytes.starts_with(&GZIP) || bytes.starts_with(&ZSTD) || bytes.starts_with(&MAGIC);
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    // Lines that a container's runtime wrapped are read in their order: it is they that say what belongs together.
    let is_wrapped = is_wrapped(line);
    let begins = !is_other && !is_wrapped && begins_record(line, &mut Times::new(TimeZone::system()));
    let range = TextRange {
        file: Arc::new(file),
        start: 0,
        end: length,
    };
    begins.then(|| narrowed(range, filter))
}

/// The stretch of a file that may hold records of the filter's times. Where times are in no order, it is all of the file.
fn narrowed(range: TextRange, filter: &Filter) -> TextRange {
    if filter.since_ns.is_none() && filter.until_ns.is_none() || range.end < 4 * LATE_BYTES {
        return range;
    }
    let mut seek = Seek {
        parts: TextParts::new(Vec::new()),
        times: Times::new(TimeZone::system()),
        range: range.clone(),
    };
    seek.narrowed(filter).unwrap_or(range)
}

/// Search of a place by its time.
struct Seek {
    parts: TextParts,
    times: Times,
    range: TextRange,
}

impl Seek {
    fn narrowed(&mut self, filter: &Filter) -> io::Result<TextRange> {
        let mut range = self.range.clone();
        if !self.is_in_order()? {
            return Ok(range);
        }
        // Records may be a little late.
        if let Some(since) = filter.since_ns {
            let at = self.first_from(since)?.saturating_sub(LATE_BYTES);
            if at > 0 {
                range.start = self.record_from(at)?;
            }
        }
        if let Some(until) = filter.until_ns.and_then(|until| until.checked_add(1)) {
            let at = self.first_from(until)?.saturating_add(LATE_BYTES);
            if at < self.range.end {
                range.end = self.record_from(at)?;
            }
        }
        Ok(range)
    }

    /// Place of the first record from a place on; the end where there is none.
    fn record_from(&mut self, at: u64) -> io::Result<u64> {
        match at {
            0 => Ok(0),
            _ => Ok(self.parts.border(&self.range, at)?.0),
        }
    }

    /// Time of the record that begins at a place.
    fn time_at(&mut self, at: u64) -> io::Result<Option<u64>> {
        let mut bytes = vec![0; (self.range.end - at).min(BORDER_READ_BYTES) as usize];
        self.range.file.read_exact_at(&mut bytes, at)?;
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or(&[]);
        Ok(read_head(line, &mut self.times)
            .filter(|head| head.is_timed)
            .map(|head| head.unix_ns))
    }

    /// Whether some records of all parts of the file are in the order of their times.
    fn is_in_order(&mut self) -> io::Result<bool> {
        let mut before = 0;
        for probe in 0..ORDER_PROBES {
            let at = self.record_from(self.range.end / ORDER_PROBES * probe)?;
            if at >= self.range.end {
                break;
            }
            match self.time_at(at)? {
                Some(unix_ns) if unix_ns >= before => before = unix_ns,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Place before which all records are of an earlier time, as far as they are in order.
    fn first_from(&mut self, unix_ns: u64) -> io::Result<u64> {
        let (mut low, mut high) = (0, self.range.end);
        while high - low > LATE_BYTES {
            let middle = low + (high - low) / 2;
            let at = self.record_from(middle)?;
            let is_early = at < high && self.time_at(at)?.is_some_and(|time| time < unix_ns);
            match is_early {
                true => low = at,
                false => high = middle,
            }
        }
        Ok(low)
    }
}

/// The end of a stretch in which at least so many records pass, and some for those that are late; all of it where they are not
/// near the end.
pub(crate) fn last_part(range: &TextRange, filter: &Filter, count: usize) -> Option<TextRange> {
    let mut parts = TextParts::new(Vec::new());
    let mut scan = TextScan::new(filter.clone());
    let wanted = count.saturating_add(REORDER_RECORDS);
    let mut length = PAST_FIRST_BYTES;
    let mut memory = Vec::new();
    while length <= LAST_SEARCH_BYTES_MAX && length < range.end - range.start {
        let (start, begins_line) = parts.border(range, range.end - length).ok()?;
        let part = super::text_parts::TextPart {
            file: Arc::clone(&range.file),
            start,
            end: range.end,
            begins_line,
            is_last: true,
        };
        let mut found = 0;
        let bytes = part.read(&mut memory).ok()?;
        scan.scan(bytes, begins_line, &mut |_, _, _| found += 1);
        if found >= wanted {
            return Some(TextRange {
                start,
                ..range.clone()
            });
        }
        length *= 4;
    }
    None
}
