//! The memory of a flight recorder, as a file of its session: opaque bytes in chunks, and the words that say which of
//! them count. Drawn in `spec/session.md`.
//!
//! Like ring positions and buffer fills, the end of what counts belongs to an epoch: a process that opens the file
//! after a SIGKILL finds each kept record here, in its ring or in an output buffer, and in one of them only.
#![allow(unsafe_code)]

use crate::epoch_cells::EpochCells;
use crate::limits::KEEP_BYTES_MAX;
use crate::{RingError, sys};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// `LDKEEP` and the format's version.
const MAGIC: u64 = u64::from_le_bytes(*b"LDKEEP\x01\x00");

const HEADER_BYTES: usize = 4096;

/// Bytes of a chunk: what is overwritten at a time.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// Chunks of a memory, at least: one is filled and one is written down while two keep.
const CHUNKS_MIN: usize = 4;

/// Bytes of a page, at least.
const TOUCH_BYTES: usize = 4096;

#[repr(C)]
struct Header {
    magic: AtomicU64,
    bytes: AtomicU64,
    tail: AtomicU64,
    unused: AtomicU64,
    /// Head, what was written, and an unused word.
    cells: EpochCells<3>,
    kept: AtomicU64,
    written: AtomicU64,
    forgotten: AtomicU64,
    counts_end: AtomicU64,
    // Line 2: what tools ask for.
    request_sequence: AtomicU64,
    request_span_ns: AtomicU64,
    answer_records: AtomicU64,
    answer_sequence: AtomicU64,
}

const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(Header, tail) == 16);
    assert!(offset_of!(Header, cells) == 32);
    assert!(offset_of!(Header, kept) == 96);
    assert!(offset_of!(Header, request_sequence) == 128);
    assert!(offset_of!(Header, answer_sequence) == 152);
};

/// The shared memory of a flight recorder.
#[derive(Debug)]
pub struct KeepFile {
    mapping: Arc<sys::Mapping>,
    bytes: usize,
}

/// Which positions count. Positions count bytes from the start of the session; position `p` lies at `p` modulo the
/// memory's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeepPositions {
    /// Behind the newest record.
    pub head: u64,
    /// Everything before it is in output buffers, or given up.
    pub written: u64,
}

/// Records that a flight recorder has had: `kept = written + forgotten + held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeepCounts {
    /// Records that were put into the memory.
    pub kept: u64,
    /// Records that were written to the log.
    pub written: u64,
    /// Records that made room for newer ones, or were too old when something happened.
    pub forgotten: u64,
}

impl KeepCounts {
    /// Records in memory.
    pub fn held(&self) -> u64 {
        self.kept
            .saturating_sub(self.written)
            .saturating_sub(self.forgotten)
    }
}

impl KeepFile {
    /// Bytes of a memory that keeps so many: whole chunks, four at least.
    pub fn bytes_for(bytes: u64) -> usize {
        let bytes = bytes.clamp((CHUNKS_MIN * CHUNK_BYTES) as u64, KEEP_BYTES_MAX as u64) as usize;
        bytes.next_multiple_of(CHUNK_BYTES)
    }

    /// Bytes of the file.
    pub(crate) fn file_bytes(bytes: usize) -> u64 {
        (HEADER_BYTES + bytes) as u64
    }

    /// Makes a new memory of a file that has been reserved and is zero.
    pub(crate) fn create(file: &File, path: &Path, bytes: usize) -> Result<Self, RingError> {
        let memory = Self::map(file, path, bytes)?;
        // Relaxed: the magic is stored last.
        memory.header().bytes.store(bytes as u64, Ordering::Relaxed);
        // SYNC(keep file): the header is visible to a thread that sees the magic.
        memory.header().magic.store(MAGIC, Ordering::Release);
        Ok(memory)
    }

    /// Opens the memory of a session; checks the header.
    pub(crate) fn open(file: &File, path: &Path) -> Result<Self, RingError> {
        let found = file
            .metadata()
            .map_err(|cause| RingError::io("look at", path, cause))?
            .len();
        let least = Self::file_bytes(CHUNKS_MIN * CHUNK_BYTES);
        if found < least || found > Self::file_bytes(KEEP_BYTES_MAX) {
            return Err(damaged("file size", found, "the header and 1 MiB to 16 GiB"));
        }
        let bytes = found as usize - HEADER_BYTES;
        if !bytes.is_multiple_of(CHUNK_BYTES) {
            return Err(damaged("file size", found, "the header and whole chunks"));
        }
        let memory = Self::map(file, path, bytes)?;
        // SYNC(keep file)
        let magic = memory.header().magic.load(Ordering::Acquire);
        if magic != MAGIC {
            return Err(damaged("magic", magic, "LDKEEP and version 1"));
        }
        let claimed = memory.header().bytes.load(Ordering::Relaxed);
        if claimed != bytes as u64 {
            return Err(damaged("bytes", claimed, "those of the file behind its header"));
        }
        Ok(memory)
    }

    fn map(file: &File, path: &Path, bytes: usize) -> Result<Self, RingError> {
        let mapping = sys::Mapping::plain(file, 0, HEADER_BYTES + bytes)
            .map_err(|cause| RingError::io("map", path, cause))?;
        Ok(Self {
            mapping: Arc::new(mapping),
            bytes,
        })
    }

    /// Bytes of all chunks.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes one thing and another behind it at a position. For the one drain of the session.
    ///
    /// # Panics
    /// When the bytes go beyond the chunk of the position.
    #[inline]
    pub fn write_both(&mut self, position: u64, first: &[u8], second: &[u8]) {
        let at = (position % self.bytes as u64) as usize;
        let length = first.len().saturating_add(second.len());
        assert!(length <= self.bytes - at, "bytes inside of a chunk");
        // SAFETY: `[at, at + length)` lies inside of the data area, which is mapped behind the header. Other processes
        // may read or write there at the same time; no reference to the bytes exists.
        unsafe {
            let to = self.mapping.base().add(HEADER_BYTES + at);
            core::ptr::copy_nonoverlapping(first.as_ptr(), to, first.len());
            core::ptr::copy_nonoverlapping(second.as_ptr(), to.add(first.len()), second.len());
        }
    }

    /// Copies what lies at a position.
    ///
    /// # Panics
    /// When that goes beyond the chunk of the position.
    pub fn read(&self, position: u64, out: &mut [u8]) {
        let at = (position % self.bytes as u64) as usize;
        assert!(out.len() <= self.bytes - at, "bytes inside of a chunk");
        // SAFETY: as in `write`; `out` is ours alone.
        unsafe {
            let from = self.mapping.base().add(HEADER_BYTES + at);
            core::ptr::copy_nonoverlapping(from.cast_const(), out.as_mut_ptr(), out.len());
        }
    }

    /// Work for a background thread: has the system find a page for all of the memory, which can take it a third
    /// of a second, so that the drain does not wait for it later. Ends early when its flag is set.
    pub fn toucher(&self) -> impl FnOnce(&AtomicBool) + Send + use<> {
        let (mapping, bytes) = (Arc::clone(&self.mapping), self.bytes);
        move |stop| {
            for at in (0..bytes).step_by(TOUCH_BYTES) {
                // Relaxed: read repeatedly.
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // SAFETY: the byte lies inside of the data area. The drain may write there, so it is read as an atomic,
                // and what it holds means nothing.
                let byte = unsafe { &*mapping.base().add(HEADER_BYTES + at).cast::<AtomicU8>() };
                core::hint::black_box(byte.load(Ordering::Relaxed));
            }
        }
    }

    /// Allows everything before the position to be overwritten.
    pub fn forget_before(&mut self, position: u64) {
        self.header().tail.store(position, Ordering::Relaxed);
        // SYNC(keep tail): a recoverer that sees new bytes there sees the tail behind them.
        fence(Ordering::Release);
    }

    /// Notes what counts when `epoch` is published, and its counts.
    pub fn note(&mut self, positions: KeepPositions, counts: &KeepCounts, epoch: u64, committed: u64) {
        let header = self.header();
        let KeepPositions { head, written } = positions;
        header.cells.note([head, written, 0], epoch, committed);
        // Relaxed: statistics.
        header.kept.store(counts.kept, Ordering::Relaxed);
        header.written.store(counts.written, Ordering::Relaxed);
        header.forgotten.store(counts.forgotten, Ordering::Relaxed);
    }

    /// Finds what counts at an epoch, for a drain that continues a dead process's memory; cells of later epochs are
    /// cleared. What may have been overwritten by what was not committed does not count.
    pub fn adopt(&mut self, epoch: u64) -> KeepPositions {
        let header = self.header();
        header.cells.strike_after(epoch);
        let [head, written, _] = header.cells.newest(epoch, |_| true).unwrap_or_default();
        // SYNC(keep tail): no new bytes are seen without the tail that goes before them.
        fence(Ordering::Acquire);
        let tail = header.tail.load(Ordering::Relaxed);
        KeepPositions {
            head: head.max(tail),
            written: written.max(tail),
        }
    }

    /// The counts as they were stored last.
    pub fn counts(&self) -> KeepCounts {
        let header = self.header();
        KeepCounts {
            kept: header.kept.load(Ordering::Relaxed),
            written: header.written.load(Ordering::Relaxed),
            forgotten: header.forgotten.load(Ordering::Relaxed),
        }
    }

    /// Asks the drain to write down what is kept of the last time, 0 for all. The number of the request, for
    /// [`KeepFile::answer`]. Of requests at the same moment one decides the time.
    pub fn request(&self, span_ns: u64) -> u64 {
        let header = self.header();
        header.request_span_ns.store(span_ns, Ordering::Relaxed);
        // SYNC(keep request): the span is visible to a thread that sees the number.
        header
            .request_sequence
            .fetch_add(1, Ordering::Release)
            .wrapping_add(1)
    }

    /// The newest request: its number, 0 before the first, and its time.
    pub fn requested(&self) -> (u64, u64) {
        let header = self.header();
        // SYNC(keep request)
        let sequence = header.request_sequence.load(Ordering::Acquire);
        (sequence, header.request_span_ns.load(Ordering::Relaxed))
    }

    /// All requests up to this one are done: so many records were written.
    pub fn answer(&self, sequence: u64, records: u64) {
        let header = self.header();
        header.answer_records.store(records, Ordering::Relaxed);
        // SYNC(keep answer): the number of records is visible to a thread that sees the answer.
        header.answer_sequence.store(sequence, Ordering::Release);
    }

    /// The newest request that is done, and the records of its answer.
    pub fn answered(&self) -> (u64, u64) {
        let header = self.header();
        // SYNC(keep answer)
        let sequence = header.answer_sequence.load(Ordering::Acquire);
        (sequence, header.answer_records.load(Ordering::Relaxed))
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with the header's page, is aligned, and lives as long as `self`; all fields are
        // atomics.
        unsafe { &*self.mapping.base().cast::<Header>() }
    }
}

fn damaged(field: &'static str, found: u64, expected: &'static str) -> RingError {
    RingError::damaged("flight recorder", field, found, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_file(bytes: usize) -> File {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(KeepFile::file_bytes(bytes)).expect("its size");
        file
    }

    fn positions(head: u64, written: u64) -> KeepPositions {
        KeepPositions { head, written }
    }

    #[test]
    fn what_was_noted_for_an_epoch_that_never_came_does_not_count() {
        let file = new_file(KeepFile::bytes_for(0));
        let mut memory =
            KeepFile::create(&file, Path::new("keep"), KeepFile::bytes_for(0)).expect("a memory");
        memory.note(positions(100, 0), &KeepCounts::default(), 1, 0);
        memory.note(positions(200, 50), &KeepCounts::default(), 2, 1);
        let mut again = KeepFile::open(&file, Path::new("keep")).expect("the same memory");
        assert_eq!(again.adopt(1), positions(100, 0));
        // The cell of epoch 2 is free again.
        again.note(positions(300, 60), &KeepCounts::default(), 2, 1);
        assert_eq!(again.adopt(2), positions(300, 60));
    }

    #[test]
    fn a_request_is_answered_by_its_number() {
        let file = new_file(KeepFile::bytes_for(0));
        let memory = KeepFile::create(&file, Path::new("keep"), KeepFile::bytes_for(0)).expect("a memory");
        assert_eq!(memory.request(30), 1);
        assert_eq!(memory.request(40), 2);
        assert_eq!(memory.requested(), (2, 40));
        memory.answer(2, 18_204);
        assert_eq!(memory.answered(), (2, 18_204));
    }

    #[test]
    fn a_file_that_is_no_memory_is_refused() {
        let path = Path::new("keep");
        assert!(KeepFile::open(&new_file(0), path).is_err());
        assert!(KeepFile::open(&new_file(KeepFile::bytes_for(0)), path).is_err());
        let file = new_file(KeepFile::bytes_for(0));
        drop(KeepFile::create(&file, path, KeepFile::bytes_for(0)).expect("a memory"));
        file.set_len(KeepFile::file_bytes(KeepFile::bytes_for(0)) - 1)
            .expect("a cut");
        assert!(KeepFile::open(&file, path).is_err());
    }
}
