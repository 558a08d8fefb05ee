//! The last records of a log: from the end of its file backwards, and where a time asks for more, from its rotated
//! files.

use crate::error::ReadError;
use crate::filter::LineFilter;
use crate::head::read_head;
use crate::input::Input;
use crate::limits::{CHUNK_BYTES, PAST_BYTES_MAX, PAST_FIRST_BYTES};
use crate::log_files::log_files;
use crate::merge::{Sink, merge};
use crate::source::{Source, SourceOptions, SourceRecord};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// A record of a log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastRecord {
    /// Time, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Its lines.
    pub bytes: Vec<u8>,
}

/// Records that were found, and the rotated files that could not be read.
#[derive(Debug, Default)]
pub struct Past {
    /// Records in the order of their times.
    pub records: Vec<PastRecord>,
    /// Errors of rotated files; the records of the others are there.
    pub failures: Vec<ReadError>,
    bytes: u64,
}

/// Returns the last `count` records of a log file that pass and are not newer than `until_ns`. With a filter that says
/// since when, those since then, with the rotated files, of which 256 MiB are kept.
///
/// # Errors
/// When the file, or the directory of its rotated files, cannot be read.
pub fn last_records(
    path: &Path,
    filter: &mut LineFilter,
    count: usize,
    until_ns: u64,
) -> Result<Past, ReadError> {
    let (records, is_all) = end_of(path, filter, count, until_ns)?;
    let mut past = Past {
        records,
        ..Past::default()
    };
    if is_all && past.records.len() < count && filter.filter().since_ns.is_some() {
        let mut rotated = rotated_of(path, filter)?;
        rotated.records.append(&mut past.records);
        past = rotated;
    }
    let surplus = past.records.len().saturating_sub(count);
    past.records.drain(..surplus);
    Ok(past)
}

/// Reads from the end of the file backwards, in steps that grow; returns also whether the whole file was read.
fn end_of(
    path: &Path,
    filter: &mut LineFilter,
    count: usize,
    until_ns: u64,
) -> Result<(Vec<PastRecord>, bool), ReadError> {
    let cannot_read = ReadError::read(path);
    let mut file = File::open(path).map_err(ReadError::open(path))?;
    let length = file.metadata().map_err(&cannot_read)?.len();
    let mut window = PAST_FIRST_BYTES;
    loop {
        let start = length.saturating_sub(window);
        file.seek(SeekFrom::Start(start)).map_err(&cannot_read)?;
        let mut bytes = Vec::new();
        (&mut file)
            .take(length - start)
            .read_to_end(&mut bytes)
            .map_err(&cannot_read)?;
        let (past, oldest_ns) = records_of(&bytes, filter, start == 0, until_ns);
        let has_enough = match filter.filter().since_ns {
            Some(since) => oldest_ns.is_some_and(|oldest| oldest < since),
            None => past.len() >= count,
        };
        if start == 0 || has_enough || window >= PAST_BYTES_MAX {
            return Ok((past, start == 0 && !has_enough));
        }
        window *= 4;
    }
}

/// Returns the records that pass, and the time of the first one, whether or not it does.
fn records_of(
    bytes: &[u8],
    filter: &mut LineFilter,
    is_whole: bool,
    until_ns: u64,
) -> (Vec<PastRecord>, Option<u64>) {
    // The last line may be half written.
    let end = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    let bytes = bytes.get(..end).unwrap_or(b"");
    let mut starts = Vec::new();
    let mut at = 0;
    let mut is_line_start = is_whole;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        if is_line_start && let Some(head) = read_head(text, &mut filter.times) {
            starts.push((at, head.unix_ns));
        }
        is_line_start = true;
        at += line.len();
    }
    // Before the first line that has a time, what is read from the middle of a file has none.
    let first_timed = starts
        .iter()
        .find(|(_, unix_ns)| *unix_ns > 0)
        .map(|(_, unix_ns)| *unix_ns);
    let ends = starts
        .iter()
        .skip(1)
        .map(|(start, _)| *start)
        .chain([bytes.len()]);
    let records = starts.iter().zip(ends).filter_map(|(&(start, unix_ns), end)| {
        let bytes = bytes.get(start..end)?;
        (unix_ns <= until_ns && filter.passes(bytes)).then(|| PastRecord {
            unix_ns,
            bytes: bytes.to_vec(),
        })
    });
    (records.collect(), first_timed)
}

/// Reads the rotated files of a log.
fn rotated_of(path: &Path, filter: &LineFilter) -> Result<Past, ReadError> {
    let mut files = log_files(path)?.into_iter().next().unwrap_or_default();
    // The file itself was read.
    files.retain(|file| file.path != path);
    let options = SourceOptions {
        chunk_bytes: CHUNK_BYTES,
        keep_order: false,
    };
    let source = Source::new(String::new(), Input::new(files), options);
    let mut past = Past::default();
    merge(&mut [source], filter.filter(), &mut past)?;
    Ok(past)
}

impl Sink for Past {
    type Error = ReadError;

    /// Keeps a record, and forgets the oldest where they become too many.
    fn take(&mut self, record: &SourceRecord<'_>) -> Result<(), ReadError> {
        self.bytes += record.bytes.len() as u64;
        match self.records.last_mut().filter(|_| record.goes_on) {
            Some(before) => before.bytes.extend_from_slice(record.bytes),
            None => self.records.push(PastRecord {
                unix_ns: record.unix_ns,
                bytes: record.bytes.to_vec(),
            }),
        }
        if self.bytes > PAST_BYTES_MAX {
            let half = self.records.len() / 2;
            self.records.drain(..half);
            self.bytes = self.records.iter().map(|record| record.bytes.len() as u64).sum();
        }
        Ok(())
    }

    fn before_wait(&mut self) -> Result<(), ReadError> {
        Ok(())
    }

    fn failed(&mut self, error: ReadError) -> Result<(), ReadError> {
        self.failures.push(error);
        Ok(())
    }
}
