//! Parts of files for a query: stretches of plain text, blocks of segments, and pieces of what has to be read from its start, such
//! as compressed files and pipes.

use super::plain_files::plain_ranges;
use super::text_parts::{TextPart, TextParts, begins_record};
use crate::error::ReadError;
use crate::filter::Filter;
use crate::input::Input;
use crate::limits::{BORDER_BYTES_MAX, PART_BYTES};
use crate::log_files::LogFile;
use crate::segment::MAGIC;
use crate::times::Times;
use jiff::tz::TimeZone;
use logdrive_store::{BlockPlace, BlockPlaces};
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A part, and what was found about the files on the way to it.
pub(crate) struct QueryPart {
    pub(crate) source: PartSource,
    /// Bytes of the files that it stands for.
    pub(crate) bytes: u64,
    pub(crate) failures: Vec<ReadError>,
}

/// Bytes of a part, or the place where they are.
pub(crate) enum PartSource {
    /// There is a failure alone.
    Nothing,
    Text(TextPart, PathBuf),
    /// Whole records.
    Lines(Vec<u8>),
    /// Lines before the first record, each by itself.
    Headless(Vec<u8>),
    Block(Arc<File>, BlockPlace, PathBuf),
}

/// A file that is being cut into parts.
enum Current {
    Text(TextParts, PathBuf),
    Segment(BlockPlaces, Arc<File>, PathBuf),
    Stream(Box<StreamParts>),
}

/// Cuts files into parts, one file after the other.
pub(crate) struct QueryParts {
    files: VecDeque<LogFile>,
    filter: Filter,
    current: Option<Current>,
}

impl QueryParts {
    pub(crate) fn new(files: Vec<LogFile>, filter: Filter) -> Self {
        Self {
            files: files.into(),
            filter,
            current: None,
        }
    }

    /// The next part.
    pub(crate) fn next_part(&mut self) -> Option<QueryPart> {
        loop {
            let part = match &mut self.current {
                Some(Current::Text(parts, path)) => parts.next_part().map(|part| QueryPart {
                    bytes: part.end - part.start,
                    source: PartSource::Text(part, path.clone()),
                    failures: Vec::new(),
                }),
                Some(Current::Segment(places, file, path)) => next_block(places, file, path),
                Some(Current::Stream(stream)) => stream.next_part(&self.filter),
                None => None,
            };
            if part.is_some() {
                return part;
            }
            let file = self.files.pop_front()?;
            self.current = Some(self.open(file));
        }
    }

    fn open(&self, file: LogFile) -> Current {
        let path = file.path.clone();
        if let Some(ranges) = plain_ranges(std::iter::once(&file), &self.filter) {
            return Current::Text(TextParts::new(ranges), path);
        }
        if path.as_os_str() != "-"
            && let Ok(segment) = File::open(&path)
        {
            let mut first = [0; MAGIC.len()];
            let is_file = segment.metadata().is_ok_and(|metadata| metadata.is_file());
            if is_file && segment.read_exact_at(&mut first, 0).is_ok() && first == MAGIC {
                return Current::Segment(BlockPlaces::new(), Arc::new(segment), path);
            }
        }
        Current::Stream(Box::new(StreamParts {
            input: Input::new(vec![file]),
            times: Times::new(TimeZone::system()),
            open: Vec::new(),
            has_records: false,
        }))
    }
}

fn next_block(places: &mut BlockPlaces, file: &Arc<File>, path: &Path) -> Option<QueryPart> {
    let found = file
        .metadata()
        .and_then(|metadata| places.next_place(file, metadata.len()));
    let damages = places.take_damages().into_iter();
    let mut failures: Vec<ReadError> = damages
        .map(|damage| ReadError::Damage {
            path: path.to_owned(),
            damage,
        })
        .collect();
    let place = found.unwrap_or_else(|cause| {
        failures.push(ReadError::read(path)(cause));
        None
    });
    let (source, bytes) = match place {
        Some(place) => (
            PartSource::Block(Arc::clone(file), place, path.to_owned()),
            place.end() - place.offset,
        ),
        None if failures.is_empty() => return None,
        None => (PartSource::Nothing, 0),
    };
    Some(QueryPart {
        source,
        bytes,
        failures,
    })
}

/// What is read from its start, cut where records begin.
struct StreamParts {
    input: Input,
    times: Times,
    /// Bytes whose last record may go on.
    open: Vec<u8>,
    has_records: bool,
}

impl StreamParts {
    fn next_part(&mut self, filter: &Filter) -> Option<QueryPart> {
        let mut failures = Vec::new();
        let before = self.open.len();
        let (at_end, end) = loop {
            if self.read(filter, &mut failures) {
                break (true, self.open.len());
            }
            let end = self.cut();
            if end > 0 {
                break (false, end);
            }
        };
        let rest = self.open.split_off(end);
        let mut bytes = std::mem::replace(&mut self.open, rest);
        if bytes.is_empty() && failures.is_empty() {
            return None;
        }
        if at_end && bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or(&[]);
        self.has_records |= begins_record(first, &mut self.times);
        Some(QueryPart {
            bytes: (bytes.len() + self.open.len()).saturating_sub(before) as u64,
            source: match self.has_records {
                _ if bytes.is_empty() => PartSource::Nothing,
                true => PartSource::Lines(bytes),
                false => PartSource::Headless(bytes),
            },
            failures,
        })
    }

    /// Reads until there is a part's worth. `true` at the end.
    fn read(&mut self, filter: &Filter, failures: &mut Vec<ReadError>) -> bool {
        let wanted = self.open.len() + PART_BYTES as usize;
        while self.open.len() < wanted {
            if !self.input.is_open() {
                match self.input.open_next(filter) {
                    Ok(true) => {}
                    Ok(false) => return true,
                    Err(error) => {
                        failures.push(error);
                        continue;
                    }
                }
            }
            let filled = self.open.len();
            self.open.resize(wanted, 0);
            let read = self.input.read(self.open.get_mut(filled..).unwrap_or_default());
            let length = read.unwrap_or_else(|error| {
                failures.push(error);
                0
            });
            self.open.truncate(filled + length);
            if length == 0 {
                self.input.close();
            }
            if length > 0 && self.input.would_wait() {
                return false;
            }
        }
        false
    }

    /// End of the whole records: where the last one begins. Of lines before the first record, the end of the last line. 0 where more
    /// has to be read.
    fn cut(&mut self) -> usize {
        let mut end = self.open.len();
        while let Some(line) = self
            .open
            .get(..end)
            .and_then(|bytes| memchr::memrchr(b'\n', bytes))
        {
            // The last line may be half read, and be a record all the same.
            if self.begins_at(line + 1) {
                return line + 1;
            }
            end = line;
        }
        let is_record = self.has_records || self.begins_at(0);
        let is_large = self.open.len() as u64 > BORDER_BYTES_MAX;
        if is_record && !is_large {
            return 0;
        }
        match memchr::memrchr(b'\n', &self.open) {
            Some(line) => line + 1,
            None if is_large => self.open.len(),
            None => 0,
        }
    }

    fn begins_at(&mut self, at: usize) -> bool {
        let line = self
            .open
            .get(at..)
            .and_then(|rest| rest.split(|byte| *byte == b'\n').next());
        line.is_some_and(|line| begins_record(line, &mut self.times))
    }
}
