//! Lines of text of a sender as typed records: what its log says of each is found here, as a sender of records finds it.

use crate::limits::OUTPUT_BYTES_MAX;
use crate::records::TypedRecords;
use crate::send::{NO_THREAD, each_piece, record_starts};
use logdrive_drain::layout::{Record, Thread};
use logdrive_reader::foreign::{FOREIGN_CALLSITES_MAX, ForeignParser, ForeignRecord, dynamic_callsite};
use logdrive_store::{RowError, SegmentWriter};
use logdrive_wire::Level;
use logdrive_wire::limits::NAME_BYTES_MAX;
use memchr::memchr_iter;
use std::collections::HashMap;

/// Parser of a sender's lines, and the callsites of the records that it found.
#[derive(Debug, Default)]
pub(crate) struct TextRecords {
    parser: ForeignParser,
    numbers: HashMap<(Level, String), u32>,
    values: Vec<u8>,
}

/// Lines of a batch, record by record.
#[derive(Debug)]
pub(crate) struct TextLines<'a> {
    rest: &'a [u8],
    /// Starts of the records that are left, the last one first; offsets in the lines.
    starts: Vec<usize>,
    at: usize,
}

impl<'a> TextLines<'a> {
    /// Lines without the first `skip`, which are in the log.
    pub(crate) fn new(lines: &'a [u8], skip: u32) -> Self {
        let end = match skip {
            0 => 0,
            _ => memchr_iter(b'\n', lines)
                .nth(skip as usize - 1)
                .map_or(lines.len(), |end| end + 1),
        };
        let rest = lines.get(end..).unwrap_or(&[]);
        let mut starts = record_starts(rest);
        starts.reverse();
        Self { rest, starts, at: 0 }
    }

    /// Returns the number of lines; bytes behind the last line break are one more.
    pub(crate) fn count(lines: &[u8]) -> usize {
        let is_open = lines.last().is_some_and(|byte| *byte != b'\n');
        memchr_iter(b'\n', lines).count() + usize::from(is_open)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The lines of the next record.
    fn next_record(&mut self) -> Option<&'a [u8]> {
        let start = self.starts.pop()?;
        self.at = self.starts.last().copied().unwrap_or(self.rest.len());
        self.rest.get(start..self.at)
    }
}

impl TextRecords {
    /// Puts records into a segment or behind `out`, until there are `OUTPUT_BYTES_MAX` bytes or more. Returns the numbers of
    /// lines that are done with, and of records that were put. A line without a time has the time now.
    pub(crate) fn put(
        &mut self,
        lines: &mut TextLines<'_>,
        records: &mut TypedRecords,
        mut segment: Option<&mut SegmentWriter<Vec<u8>>>,
        out: &mut Vec<u8>,
        now_unix_ns: u64,
    ) -> Result<(u32, u32), RowError> {
        let (mut done, mut put) = (0, 0);
        let mut filled = out.len();
        let mut values = std::mem::take(&mut self.values);
        loop {
            let bytes = segment
                .as_mut()
                .map_or(filled, |segment| segment.file_mut().len());
            let Some(text) = (bytes < OUTPUT_BYTES_MAX).then(|| lines.next_record()).flatten() else {
                break;
            };
            done += TextLines::count(text) as u32;
            let mut record = self.parser.read(text.strip_suffix(b"\n").unwrap_or(text));
            record.unix_ns.get_or_insert(now_unix_ns);
            let number = self.number(&record, records, segment.is_some())?;
            each_piece(&mut record, text, &mut values, |record, values| {
                let typed = Record {
                    unix_ns: record.unix_ns.unwrap_or(0),
                    thread: Thread {
                        name: match record.thread.as_str() {
                            "" => NO_THREAD,
                            thread => thread,
                        },
                        id: 0,
                    },
                    payload: values,
                };
                let is_put =
                    records.put_record(number, &typed, segment.as_deref_mut(), (out, &mut filled))?;
                put += u32::from(is_put);
                Ok::<(), RowError>(())
            })?;
        }
        out.truncate(filled);
        self.values = values;
        Ok((done, put))
    }

    /// The number of the callsite of a record's level and target.
    fn number(
        &mut self,
        record: &ForeignRecord,
        records: &mut TypedRecords,
        is_segment: bool,
    ) -> Result<u32, RowError> {
        let mut key = (record.level.unwrap_or(Level::Info), record.target.clone());
        let is_full = self.numbers.len() >= FOREIGN_CALLSITES_MAX && !self.numbers.contains_key(&key);
        if is_full || key.1.len() > NAME_BYTES_MAX {
            key.1.clear();
        }
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number);
        }
        let number = self.numbers.len() as u32;
        records.add(number, &dynamic_callsite(key.0, &key.1), is_segment)?;
        self.numbers.insert(key, number);
        Ok(number)
    }
}
