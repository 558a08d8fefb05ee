//! Counts what reached a log file: line ends, and lines that carry a marker.
//!
//! A marker distinguishes the lines of a workload from what a logger adds on its own,
//! such as a note that something was dropped. The zeros behind the last line
//! of a file that is overwritten in place do not count.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use memchr::memmem::Finder;

use crate::{BenchError, Result};

const CHUNK_BYTES: usize = 1 << 20;

/// Contents of a log file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCount {
    /// Line ends.
    pub lines: u64,
    /// Lines that hold the marker.
    pub marked: u64,
    /// Bytes up to and with the last line end.
    pub bytes: u64,
}

/// Counts the lines in the file at `path`, and those that hold `marker`.
pub fn count_file(path: &Path, marker: &[u8]) -> Result<LineCount> {
    File::open(path)
        .and_then(|file| count_reader(file, marker))
        .map_err(BenchError::io("count the lines of", path))
}

/// Counts the lines in all that `reader` gives, and those that hold `marker`.
///
/// A line longer than a chunk is counted, but its marker only if it lies
/// within one chunk.
pub fn count_reader(mut reader: impl Read, marker: &[u8]) -> io::Result<LineCount> {
    let finder = Finder::new(marker);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut count = LineCount::default();
    let mut passed_bytes = 0;
    let mut kept = 0;
    loop {
        let read = match reader.read(&mut buffer[kept..]) {
            Ok(0) => return Ok(count),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let filled = kept + read;
        // Whole lines are counted; the begin of the next one is kept.
        let whole = memchr::memrchr(b'\n', &buffer[kept..filled]).map_or(0, |end| kept + end + 1);
        if whole > 0 {
            count.lines += memchr::memchr_iter(b'\n', &buffer[kept..whole]).count() as u64;
            count.marked += marked_lines(&buffer[..whole], &finder);
            count.bytes = passed_bytes + whole as u64;
        }
        let done = if whole == 0 && filled == buffer.len() {
            filled
        } else {
            whole
        };
        passed_bytes += done as u64;
        buffer.copy_within(done..filled, 0);
        kept = filled - done;
    }
}

fn marked_lines(text: &[u8], finder: &Finder) -> u64 {
    let mut count = 0;
    let mut rest = text;
    while let Some(at) = finder.find(rest) {
        count += 1;
        let end = memchr::memchr(b'\n', &rest[at..]).map_or(rest.len(), |end| at + end + 1);
        rest = &rest[end..];
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, which is the worst case for seams.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else {
                return Ok(0);
            };
            buffer[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    #[test]
    fn lines_across_reads_are_counted_once() {
        let text = b"a mark one\nmark two mark\nnone\nmark\n\0\0\0";
        let expected = LineCount {
            lines: 4,
            marked: 3,
            bytes: text.len() as u64 - 3,
        };
        assert_eq!(count_reader(&text[..], b"mark").unwrap(), expected);
        assert_eq!(count_reader(Drip(text), b"mark").unwrap(), expected);
    }

    #[test]
    fn zeros_longer_than_a_chunk_are_no_line() {
        let text = [b"mark\n".to_vec(), vec![0; 3 * CHUNK_BYTES]].concat();
        let count = count_reader(&text[..], b"mark").unwrap();
        assert_eq!((count.lines, count.marked, count.bytes), (1, 1, 5));
    }

    #[test]
    fn an_empty_file_has_nothing() {
        assert_eq!(count_reader(&b""[..], b"mark").unwrap(), LineCount::default());
    }
}
