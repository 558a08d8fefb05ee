//! A FIFO for a log, and its reader, which stops reading for some seconds.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::sys::stat::Mode;

use super::MARKER;
use crate::{BenchError, Result};

/// Ends the reader; written by the workload after the logger has ended.
const END_MARK: &str = "end of the hang workload\n";

/// The reader takes at most this much at a time: what a FIFO holds.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// A FIFO that is removed at the end.
pub(super) struct Fifo {
    pub(super) path: PathBuf,
}

impl Fifo {
    pub(super) fn make(dir: PathBuf) -> Result<Fifo> {
        let path = dir.join(format!("hang-{}.fifo", std::process::id()));
        nix::unistd::mkfifo(&path, Mode::from_bits_truncate(0o640))
            .map_err(|error| BenchError::io("make the FIFO", &path)(error.into()))?;
        Ok(Fifo { path })
    }

    pub(super) fn end_reader(&self) -> Result<()> {
        File::options()
            .write(true)
            .open(&self.path)
            .and_then(|mut file| file.write_all(END_MARK.as_bytes()))
            .map_err(BenchError::io("write to", &self.path))
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        // A FIFO that stays behind in the scratch directory does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Reads the log until the end mark, with a pause, and counts the lines of
/// the workload.
pub(super) fn read_with_a_hang(path: &Path, hang: (Instant, Instant)) -> io::Result<u64> {
    // Opened for writing too, so that it never sees an end of file while a
    // logger opens its file again.
    let mut fifo = File::options().read(true).write(true).open(path)?;
    let (hang_begins, hang_ends) = hang;
    let mut hung = false;
    let mut counter = MarkCounter::default();
    let mut buffer = vec![0; READ_CHUNK_BYTES];
    while !counter.ended {
        if !hung && Instant::now() >= hang_begins {
            std::thread::sleep(hang_ends.saturating_duration_since(Instant::now()));
            hung = true;
        }
        let read = fifo.read(&mut buffer)?;
        counter.take(&buffer[..read]);
    }
    Ok(counter.lines)
}

/// Counts the lines with the marker in a stream of pieces.
#[derive(Default)]
struct MarkCounter {
    /// The begin of a line whose end has not come yet.
    partial: Vec<u8>,
    lines: u64,
    ended: bool,
}

impl MarkCounter {
    fn take(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.partial.extend_from_slice(&rest[..=end]);
            rest = &rest[end + 1..];
            if self.partial == END_MARK.as_bytes() {
                self.ended = true;
            } else if memchr::memmem::find(&self.partial, MARKER.as_bytes()).is_some() {
                self.lines += 1;
            }
            self.partial.clear();
        }
        self.partial.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_pieces_are_counted_up_to_the_end_mark() {
        let mut counter = MarkCounter::default();
        counter.take(b"x producer 1\nnotice\nx prod");
        assert_eq!((counter.lines, counter.ended), (1, false));
        counter.take(b"ucer 2\nend of the hang ");
        assert_eq!((counter.lines, counter.ended), (2, false));
        counter.take(b"workload\n");
        assert_eq!((counter.lines, counter.ended), (2, true));
    }
}
