//! The output buffers of the sinks, in shared memory, and the epoch that ties them to the rings.
//!
//! The drain formats records into a buffer, notes the buffer's fill and each ring's position for the next epoch, and
//! publishes the epoch with one store. Only then is ring space released, and only then is a full buffer handed to
//! the sink's I/O thread. A recoverer that opens the session after a SIGKILL finds, at the newest epoch, text and ring
//! positions that fit together. The bytes are drawn in `spec/session.md`.
#![allow(unsafe_code)]

use crate::epoch_cells::EpochCells;
use crate::{RingError, files, sys};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `LDDRAIN` and the format's version.
const MAGIC: u64 = u64::from_le_bytes(*b"LDDRAIN\x01");

/// Sinks of one session.
pub(crate) const SINKS_MAX: usize = 16;

/// Output buffers of one session: sixteen sinks with sixteen buffers each.
pub(crate) const BUFFERS_MAX: usize = 256;

/// Bytes of a buffer, at least: one record at its largest, escaped in the longest way, is 400 KiB.
pub const BUFFER_BYTES_MIN: usize = 512 * 1024;

/// Bytes for the descriptions of the sinks, together. Where they are replaced, old and new have to fit.
pub(crate) const CONFIG_BYTES_MAX: usize = 32 * 1024;

/// Reads of the descriptions before one that was replaced meanwhile is taken as it is.
const CONFIG_LOOKS: usize = 8;

const HEADER_BYTES: usize = 4096;
const SINK_BYTES: usize = 256;
const SINKS_AT: usize = HEADER_BYTES;
const DESCRIPTORS_AT: usize = SINKS_AT + SINKS_MAX * SINK_BYTES;
const DESCRIPTOR_BYTES: usize = 64;
const CONFIG_AT: usize = DESCRIPTORS_AT + BUFFERS_MAX * DESCRIPTOR_BYTES;
const BUFFERS_AT: usize = (CONFIG_AT + CONFIG_BYTES_MAX).next_multiple_of(4096);

#[repr(C)]
struct Header {
    magic: AtomicU64,
    sink_count: AtomicU32,
    buffer_count: AtomicU32,
    buffer_bytes: AtomicU64,
    /// Bytes of the configuration, and in the upper half where it starts.
    config_place: AtomicU64,
    epoch: AtomicU64,
    journal: AtomicU64,
    ancestors: [[AtomicU64; 2]; ANCESTORS_MAX],
}

/// Journals of earlier drains whose last epochs are kept: that of a session that comes back after so many restarts of
/// its agent is forgotten.
const ANCESTORS_MAX: usize = 200;

/// The epochs of one drain over sessions that outlive it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Journal {
    /// Its name, never 0; later ones are greater.
    pub id: u64,
    /// The epoch that was published last.
    pub epoch: u64,
}

#[repr(C)]
struct SinkWords {
    /// Length, records and sequence number of the buffer that is being filled.
    fill: EpochCells<3>,
    written_records: AtomicU64,
    written_bytes: AtomicU64,
    dropped: [AtomicU64; 8],
    errors: AtomicU64,
    last_error: AtomicU64,
    unused: [AtomicU64; 12],
}

#[repr(C)]
struct Descriptor {
    state: AtomicU32,
    sink: AtomicU32,
    sequence: AtomicU64,
    length: AtomicU64,
    records: AtomicU64,
    dev: AtomicU64,
    ino: AtomicU64,
    offset: AtomicU64,
    unused: AtomicU64,
}

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<SinkWords>() == SINK_BYTES);
    assert!(size_of::<Descriptor>() == DESCRIPTOR_BYTES);
    assert!(offset_of!(Header, epoch) == 32);
    assert!(offset_of!(Header, journal) == 40);
    assert!(offset_of!(Header, ancestors) == 48);
    assert!(size_of::<Header>() <= HEADER_BYTES);
    assert!(offset_of!(SinkWords, written_records) == 64);
    assert!(offset_of!(SinkWords, dropped) == 80);
    assert!(offset_of!(Descriptor, dev) == 32);
};

const FREE: u32 = 0;
const FILLING: u32 = 1;
const READY: u32 = 2;
const WRITING: u32 = 3;

/// Destination of a buffer's bytes: a file by device and inode, and the offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileLocation {
    /// Device number of the file.
    pub dev: u64,
    /// Inode number of the file; 0 for a destination that has no offsets.
    pub ino: u64,
    /// Offset of the first byte.
    pub offset: u64,
}

/// The shared memory of all output buffers of a session.
#[derive(Debug)]
pub struct Buffers {
    mapping: sys::Mapping,
    sink_count: usize,
    buffer_count: usize,
    buffer_bytes: usize,
    /// The file, where the blocks of a sink's buffers are reserved when they are taken.
    growing: Option<PathBuf>,
}

/// One output buffer. Only the owner of the value accesses its bytes.
#[derive(Debug)]
pub struct Buffer {
    shared: Arc<Buffers>,
    index: usize,
    length: usize,
    records: u64,
}

/// A sink's statistics in shared memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Records handed to the kernel.
    pub written_records: u64,
    /// Bytes handed to the kernel.
    pub written_bytes: u64,
    /// Records that the sink dropped, by the sink's own reasons.
    pub dropped: [u64; 8],
    /// Failed writes.
    pub errors: u64,
    /// The system's code of the last failure, 0 when the last write went well.
    pub last_error: u64,
    /// Records in buffers that are not written yet.
    pub pending_records: u64,
}

impl Buffers {
    /// Bytes of the file for this many buffers.
    pub(crate) fn file_bytes(buffer_count: usize, buffer_bytes: usize) -> u64 {
        (BUFFERS_AT + buffer_count * buffer_bytes) as u64
    }

    /// Makes new buffers of a file that has been reserved and is zero.
    pub(crate) fn create(
        file: &File,
        path: &Path,
        config: &[u8],
        sink_count: usize,
        per_sink: usize,
        buffer_bytes: usize,
    ) -> Result<Self, RingError> {
        let buffer_count = sink_count * per_sink;
        let bytes = Self::file_bytes(buffer_count, buffer_bytes) as usize;
        let mapping =
            sys::Mapping::plain(file, 0, bytes).map_err(|cause| RingError::io("map", path, cause))?;
        let buffers = Self {
            mapping,
            sink_count,
            buffer_count,
            buffer_bytes,
            growing: None,
        };
        let header = buffers.header();
        // Relaxed: the magic is stored last, and a reader of another process comes after our death.
        header.sink_count.store(sink_count as u32, Ordering::Relaxed);
        header.buffer_count.store(buffer_count as u32, Ordering::Relaxed);
        header.buffer_bytes.store(buffer_bytes as u64, Ordering::Relaxed);
        // SAFETY: the config area is mapped, `CONFIG_BYTES_MAX` long (checked by the caller), and not shared yet.
        unsafe {
            core::ptr::copy_nonoverlapping(
                config.as_ptr(),
                buffers.mapping.base().add(CONFIG_AT),
                config.len(),
            );
        }
        header.config_place.store(config.len() as u64, Ordering::Relaxed);
        for index in 0..buffer_count {
            buffers
                .descriptor(index)
                .sink
                .store((index / per_sink) as u32, Ordering::Relaxed);
        }
        // SYNC(drain file): the rest of the file is visible to a thread that sees the magic.
        header.magic.store(MAGIC, Ordering::Release);
        Ok(buffers)
    }

    /// Opens the buffers of a session; checks the header.
    pub(crate) fn open(file: &File, path: &Path) -> Result<Self, RingError> {
        let bytes = file
            .metadata()
            .map_err(|cause| RingError::io("look at", path, cause))?
            .len();
        if bytes < BUFFERS_AT as u64 {
            return Err(damaged("file size", bytes, "the header and the descriptors"));
        }
        let head =
            sys::Mapping::plain(file, 0, HEADER_BYTES).map_err(|cause| RingError::io("map", path, cause))?;
        // SAFETY: the page is mapped, aligned and large enough; all fields are atomics.
        let header = unsafe { &*head.base().cast::<Header>() };
        // Relaxed: everything is checked.
        // SYNC(drain file)
        let magic = header.magic.load(Ordering::Acquire);
        if magic != MAGIC {
            return Err(damaged("magic", magic, "LDDRAIN and version 1"));
        }
        let sink_count = header.sink_count.load(Ordering::Relaxed) as usize;
        let buffer_count = header.buffer_count.load(Ordering::Relaxed) as usize;
        let buffer_bytes = header.buffer_bytes.load(Ordering::Relaxed);
        if sink_count > SINKS_MAX {
            return Err(damaged("sink count", sink_count as u64, "at most 16"));
        }
        if buffer_count > BUFFERS_MAX
            || (sink_count > 0 && (buffer_count == 0 || !buffer_count.is_multiple_of(sink_count)))
        {
            return Err(damaged(
                "buffer count",
                buffer_count as u64,
                "1 to 256, the same for each sink",
            ));
        }
        if !(BUFFER_BYTES_MIN as u64..=1 << 30).contains(&buffer_bytes) {
            return Err(damaged("buffer bytes", buffer_bytes, "512 KiB to 1 GiB"));
        }
        let expected = Self::file_bytes(buffer_count, buffer_bytes as usize);
        if bytes < expected {
            return Err(damaged(
                "file size",
                bytes,
                "the header, the descriptors and all buffers",
            ));
        }
        let mapping = sys::Mapping::plain(file, 0, expected as usize)
            .map_err(|cause| RingError::io("map", path, cause))?;
        Ok(Self {
            mapping,
            sink_count,
            buffer_count,
            buffer_bytes: buffer_bytes as usize,
            growing: None,
        })
    }

    /// The blocks of buffers are not there yet: [`take_all`](Self::take_all) reserves them in the file of this path.
    pub(crate) fn reserve_later(&mut self, path: PathBuf) {
        self.growing = Some(path);
    }

    /// The text that describes the sinks, as it was given when the session was made or [replaced](Self::replace_config)
    /// since.
    pub fn config(&self) -> Vec<u8> {
        let header = self.header();
        let mut config = Vec::new();
        for _ in 0..CONFIG_LOOKS {
            // SYNC(config): the text is there.
            let word = header.config_place.load(Ordering::Acquire);
            let (start, length) = config_place(word);
            config.resize(length, 0);
            // SAFETY: the config area is mapped and `CONFIG_BYTES_MAX` long, and the place lies inside of it.
            unsafe {
                core::ptr::copy_nonoverlapping(
                    self.mapping.base().add(CONFIG_AT + start),
                    config.as_mut_ptr(),
                    length,
                );
            }
            // SYNC(config): where it was replaced twice meanwhile, what was copied may be of two texts.
            fence(Ordering::Acquire);
            if header.config_place.load(Ordering::Relaxed) == word {
                break;
            }
        }
        config
    }

    /// Replaces the text that describes the sinks: a reader, also after a kill, finds the old one or the new one.
    /// For the process that made the buffers, one thread at a time.
    ///
    /// # Errors
    /// When there is no room for so much text beside the old one.
    pub fn replace_config(&self, text: &[u8]) -> Result<(), RingError> {
        // Relaxed: only we write it.
        let (start, length) = config_place(self.header().config_place.load(Ordering::Relaxed));
        let behind = start + length;
        let at = if text.len() <= start {
            0
        } else if text.len() <= CONFIG_BYTES_MAX - behind {
            behind
        } else {
            return Err(RingError::Limit {
                what: "bytes that describe the sinks",
                limit: (CONFIG_BYTES_MAX - behind).max(start) as u64,
            });
        };
        // SAFETY: the config area is mapped and `CONFIG_BYTES_MAX` long, and this part of it is not the text that
        // counts.
        unsafe {
            core::ptr::copy_nonoverlapping(
                text.as_ptr(),
                self.mapping.base().add(CONFIG_AT + at),
                text.len(),
            );
        }
        // SYNC(config): a reader after our death that finds the place finds the text.
        let word = (at as u64) << 32 | text.len() as u64;
        self.header().config_place.store(word, Ordering::Release);
        Ok(())
    }

    /// Number of sinks of the session.
    pub fn sink_count(&self) -> usize {
        self.sink_count
    }

    /// Size of each buffer in bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// The epoch that was published last; 0 before the first.
    pub fn epoch(&self) -> u64 {
        // SYNC(epoch): the cells of the epoch are visible.
        self.header().epoch.load(Ordering::Acquire)
    }

    /// Names whose epochs they are, where they are those of sessions that outlive the buffers; 0 elsewhere.
    pub fn journal(&self) -> u64 {
        // SYNC(journal): its ancestors are there.
        self.header().journal.load(Ordering::Acquire)
    }

    /// The journals of earlier drains, the latest first.
    pub fn ancestors(&self) -> Vec<Journal> {
        let load = |[id, epoch]: &[AtomicU64; 2]| Journal {
            id: id.load(Ordering::Relaxed),
            epoch: epoch.load(Ordering::Relaxed),
        };
        let ancestors = self.header().ancestors.iter().map(load);
        ancestors.take_while(|ancestor| ancestor.id != 0).collect()
    }

    /// Starts a journal, and keeps those of earlier drains, the latest first. For new buffers, before anything is
    /// drained.
    pub fn start_journal(&self, id: u64, ancestors: &[Journal]) {
        let header = self.header();
        for ([id, epoch], ancestor) in header.ancestors.iter().zip(ancestors) {
            id.store(ancestor.id, Ordering::Relaxed);
            epoch.store(ancestor.epoch, Ordering::Relaxed);
        }
        // SYNC(journal): a process that finds a journal after our death finds its ancestors.
        header.journal.store(id, Ordering::Release);
    }

    /// Publishes an epoch: from now on its cells are valid.
    pub fn publish(&self, epoch: u64) {
        // SYNC(epoch)
        self.header().epoch.store(epoch, Ordering::Release);
    }

    /// All buffers of one sink, empty and free. For the process that made them; called once, and once more after each
    /// [`release`](Self::release).
    ///
    /// # Errors
    /// When there is no memory for them, or no room where their file lies.
    pub fn take_all(self: &Arc<Self>, sink: usize) -> Result<Vec<Buffer>, RingError> {
        if let Some((path, from, to)) = self.blocks_of(sink) {
            files::reserve_within(path, from, to)?;
        }
        let own = (0..self.buffer_count).filter(|index| self.sink_of(*index) == sink);
        let buffers = own
            .map(|index| {
                self.descriptor(index).state.store(FREE, Ordering::Relaxed);
                Buffer {
                    shared: Arc::clone(self),
                    index,
                    length: 0,
                    records: 0,
                }
            })
            .collect();
        Ok(buffers)
    }

    /// Gives back the memory under the buffers of a sink that is closed. For the process that made them, and only when
    /// no thread has a buffer of the sink any more, and all of them are empty.
    ///
    /// # Errors
    /// When the file system cannot do that; then the memory stays reserved, which does no harm.
    pub fn release(&self, sink: usize) -> Result<(), RingError> {
        match self.blocks_of(sink) {
            Some((path, from, to)) => files::release_within(path, from, to),
            None => Ok(()),
        }
    }

    /// Path and range of a sink's buffers in the file, if they are reserved when they are taken.
    fn blocks_of(&self, sink: usize) -> Option<(&Path, u64, u64)> {
        let per_sink = self.buffer_count.checked_div(self.sink_count)?;
        let from = Self::file_bytes(sink * per_sink, self.buffer_bytes);
        let to = Self::file_bytes((sink + 1) * per_sink, self.buffer_bytes);
        Some((self.growing.as_deref()?, from, to))
    }

    /// Takes what a dead process left of one sink: its unwritten buffers in order, then its empty ones. Afterwards all
    /// of the sink's descriptors say what these values say.
    pub fn adopt(self: &Arc<Self>, sink: usize) -> (Vec<(Buffer, FileLocation)>, Vec<Buffer>) {
        let epoch = self.epoch();
        self.sink(sink).fill.strike_after(epoch);
        let mut unwritten = Vec::new();
        let mut empty = Vec::new();
        for index in 0..self.buffer_count {
            let descriptor = self.descriptor(index);
            if self.sink_of(index) != sink {
                continue;
            }
            // SYNC(buffer): what was stored before the state is visible.
            let (length, records) = match descriptor.state.load(Ordering::Acquire) {
                READY | WRITING => (
                    descriptor.length.load(Ordering::Relaxed) as usize,
                    descriptor.records.load(Ordering::Relaxed),
                ),
                FILLING => self.filled(sink, index, epoch),
                _ => (0, 0),
            };
            let length = length.min(self.buffer_bytes);
            let writing = descriptor.state.load(Ordering::Relaxed) == WRITING;
            let place = if writing {
                descriptor.place()
            } else {
                FileLocation::default()
            };
            let sequence = descriptor.sequence.load(Ordering::Relaxed);
            let mut buffer = Buffer {
                shared: Arc::clone(self),
                index,
                length,
                records,
            };
            if length == 0 {
                buffer.clear();
                empty.push(buffer);
            } else {
                unwritten.push((sequence, buffer, place));
            }
        }
        unwritten.sort_by_key(|(sequence, ..)| *sequence);
        (
            unwritten
                .into_iter()
                .map(|(_, buffer, place)| (buffer, place))
                .collect(),
            empty,
        )
    }

    /// The highest sequence number that any buffer has had.
    pub fn last_sequence(&self) -> u64 {
        let sequences = (0..self.buffer_count).map(|index| self.descriptor(index));
        sequences
            .map(|descriptor| descriptor.sequence.load(Ordering::Relaxed))
            .max()
            .unwrap_or(0)
    }

    /// Length and records of a filling buffer that count at an epoch.
    fn filled(&self, sink: usize, index: usize, epoch: u64) -> (usize, u64) {
        // The cell is about this filling of the buffer only if it names its sequence number.
        let sequence = self.descriptor(index).sequence.load(Ordering::Relaxed);
        match self.sink(sink).fill.newest(epoch, |_| true).unwrap_or_default() {
            [length, records, found] if found == sequence => (length as usize, records),
            _ => (0, 0),
        }
    }

    /// Notes that a sink's current buffer will count up to its fill when `epoch` is published.
    pub fn note_fill(&self, sink: usize, buffer: &Buffer, epoch: u64) {
        let committed = self.header().epoch.load(Ordering::Relaxed);
        let sequence = buffer.descriptor().sequence.load(Ordering::Relaxed);
        let numbers = [buffer.length as u64, buffer.records, sequence];
        self.sink(sink).fill.note(numbers, epoch, committed);
    }

    /// Counts records that a sink dropped.
    pub fn count_dropped(&self, sink: usize, reason: usize, records: u64) {
        if let Some(word) = self.sink(sink).dropped.get(reason) {
            word.fetch_add(records, Ordering::Relaxed);
        }
    }

    /// Counts a failed write; code 0 means that writes succeed again.
    pub fn note_error(&self, sink: usize, code: u64) {
        let words = self.sink(sink);
        if code != 0 {
            words.errors.fetch_add(1, Ordering::Relaxed);
        }
        words.last_error.store(code, Ordering::Relaxed);
    }

    /// Statistics of a sink, as they are now.
    pub fn counts(&self, sink: usize) -> SinkCounts {
        let words = self.sink(sink);
        let epoch = self.epoch();
        let pending = (0..self.buffer_count)
            .filter(|index| self.sink_of(*index) == sink)
            // SYNC(buffer)
            .map(
                |index| match self.descriptor(index).state.load(Ordering::Acquire) {
                    READY | WRITING => self.descriptor(index).records.load(Ordering::Relaxed),
                    FILLING => self.filled(sink, index, epoch).1,
                    _ => 0,
                },
            )
            .fold(0u64, u64::saturating_add);
        SinkCounts {
            written_records: words.written_records.load(Ordering::Relaxed),
            written_bytes: words.written_bytes.load(Ordering::Relaxed),
            dropped: core::array::from_fn(|reason| words.dropped[reason].load(Ordering::Relaxed)),
            errors: words.errors.load(Ordering::Relaxed),
            last_error: words.last_error.load(Ordering::Relaxed),
            pending_records: pending,
        }
    }

    /// Sink of a buffer. By its number: the word in the descriptor is for people.
    fn sink_of(&self, index: usize) -> usize {
        index * self.sink_count / self.buffer_count.max(1)
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is at least `BUFFERS_AT` long, page-aligned, and lives as long as `self`; all fields are
        // atomics.
        unsafe { &*self.mapping.base().cast::<Header>() }
    }

    fn sink(&self, sink: usize) -> &SinkWords {
        assert!(sink < SINKS_MAX, "a sink number below the maximum");
        // SAFETY: as for the header; the offset is below `DESCRIPTORS_AT` and a multiple of 256.
        unsafe {
            &*self
                .mapping
                .base()
                .add(SINKS_AT + sink * SINK_BYTES)
                .cast::<SinkWords>()
        }
    }

    fn descriptor(&self, index: usize) -> &Descriptor {
        assert!(index < BUFFERS_MAX, "a buffer number below the maximum");
        // SAFETY: as for the header; the offset is below `CONFIG_AT` and a multiple of 64.
        unsafe {
            &*self
                .mapping
                .base()
                .add(DESCRIPTORS_AT + index * DESCRIPTOR_BYTES)
                .cast::<Descriptor>()
        }
    }
}

impl Descriptor {
    fn place(&self) -> FileLocation {
        FileLocation {
            dev: self.dev.load(Ordering::Relaxed),
            ino: self.ino.load(Ordering::Relaxed),
            offset: self.offset.load(Ordering::Relaxed),
        }
    }
}

impl Buffer {
    /// Number of the sink that it belongs to.
    fn sink(&self) -> usize {
        self.shared.sink_of(self.index)
    }

    /// Bytes filled so far.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `length` is at most the buffer's size, and the value is the only access to its bytes.
        unsafe { core::slice::from_raw_parts(self.start(), self.length) }
    }

    /// The part that is not filled yet.
    pub fn space(&mut self) -> &mut [u8] {
        let free = self.shared.buffer_bytes - self.length;
        // SAFETY: as for `bytes`, and `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.start().add(self.length), free) }
    }

    /// Takes `length` bytes of the space, with the number of records in them, into the fill.
    pub fn grow(&mut self, length: usize, records: u64) {
        assert!(
            length <= self.shared.buffer_bytes - self.length,
            "no more than the space that was there"
        );
        self.length += length;
        self.records += records;
    }

    /// Number of bytes filled.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Number of records in the buffer.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The drain begins to fill it. Sequence numbers start at 1, rise, and are never used again.
    pub fn start_filling(&mut self, sequence: u64) {
        let descriptor = self.descriptor();
        descriptor.sequence.store(sequence, Ordering::Relaxed);
        // SYNC(buffer)
        descriptor.state.store(FILLING, Ordering::Release);
    }

    /// The drain is done with it, and its fill is covered by a published epoch.
    pub fn mark_ready(&mut self) {
        let descriptor = self.descriptor();
        descriptor.length.store(self.length as u64, Ordering::Relaxed);
        descriptor.records.store(self.records, Ordering::Relaxed);
        // SYNC(buffer)
        descriptor.state.store(READY, Ordering::Release);
    }

    /// The I/O thread is about to write it there; a recoverer will write the same bytes to the same place.
    pub fn mark_writing(&mut self, place: FileLocation) {
        let descriptor = self.descriptor();
        descriptor.dev.store(place.dev, Ordering::Relaxed);
        descriptor.ino.store(place.ino, Ordering::Relaxed);
        descriptor.offset.store(place.offset, Ordering::Relaxed);
        // SYNC(buffer)
        descriptor.state.store(WRITING, Ordering::Release);
    }

    /// All bytes are with the kernel: counts them and empties the buffer.
    pub fn mark_written(&mut self) {
        let shared = Arc::clone(&self.shared);
        let words = shared.sink(self.sink());
        let records = self.records;
        let length = self.length as u64;
        // The state goes first: killed in between, records are missing in the count, not in the log.
        self.clear();
        let words_records = words
            .written_records
            .load(Ordering::Relaxed)
            .wrapping_add(records);
        words.written_records.store(words_records, Ordering::Relaxed);
        words.written_bytes.store(
            words.written_bytes.load(Ordering::Relaxed).wrapping_add(length),
            Ordering::Relaxed,
        );
    }

    /// Empties the buffer without counting anything as written.
    pub fn clear(&mut self) {
        self.length = 0;
        self.records = 0;
        // SYNC(buffer): we are done with the bytes.
        self.descriptor().state.store(FREE, Ordering::Release);
    }

    fn descriptor(&self) -> &Descriptor {
        self.shared.descriptor(self.index)
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: the index is below the buffer count, so the buffer lies inside of the mapping.
        unsafe {
            self.shared
                .mapping
                .base()
                .add(BUFFERS_AT + self.index * self.shared.buffer_bytes)
        }
    }
}

/// Start and length of the configuration, whatever the word says inside of its area.
fn config_place(word: u64) -> (usize, usize) {
    let start = ((word >> 32) as usize).min(CONFIG_BYTES_MAX);
    let length = (word & u64::from(u32::MAX)) as usize;
    (start, length.min(CONFIG_BYTES_MAX - start))
}

fn damaged(field: &'static str, found: u64, expected: &'static str) -> RingError {
    RingError::damaged("output buffers", field, found, expected)
}
