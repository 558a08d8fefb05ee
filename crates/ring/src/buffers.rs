//! The output buffers of the sinks, in shared memory, and the epoch that ties them to the rings.
//!
//! The drain formats records into a buffer, notes the buffer's fill and each ring's position for the next epoch, and
//! publishes the epoch with one store. Only then is ring space released, and only then is a full buffer handed to
//! the sink's I/O thread. A recoverer that opens the session after a SIGKILL finds, at the newest epoch, text and ring
//! positions that fit together. The bytes are drawn in `spec/session.md`.
#![allow(unsafe_code)]

use crate::checksum::{Checksum, guarded, unguarded};
use crate::epoch_cells::EpochCells;
use crate::sink_account::{SINK_BYTES, Settled, SinkCounts, SinkDrops, SinkWords};
use crate::{RingError, files, sys};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) mod damage;
pub(crate) mod unfinished;

/// `LDDRAIN` and the format's version.
const MAGIC: u64 = u64::from_le_bytes(*b"LDDRAIN\x03");

/// The part of the magic in front of the version.
const MAGIC_NAME: u64 = (1 << 56) - 1;

/// Sinks of one session.
pub const SINKS_MAX: usize = 16;

/// Output buffers of one session: sixteen sinks with sixteen buffers each.
pub(crate) const BUFFERS_MAX: usize = 256;

/// Bytes of a buffer that takes every line: one record at its largest, escaped in the longest way, is 400 KiB.
pub const BUFFER_BYTES_MIN: usize = 512 * 1024;

/// Bytes of a buffer where there is little room; lines that are longer are cut.
pub(crate) const BUFFER_BYTES_LEAST: usize = 32 * 1024;

/// Buffers of a sink without which it is not opened: one is filled while the other is written.
pub(crate) const BUFFERS_AT_FIRST: usize = 2;

/// Bytes for the descriptions of the sinks, together, with a checksum behind each text. Where they are replaced, old and
/// new have to fit.
const CONFIG_BYTES_MAX: usize = 32 * 1024;

/// Bytes of a text that describes the sinks, at most.
pub(crate) const CONFIG_TEXT_MAX: usize = CONFIG_BYTES_MAX - CHECKSUM_BYTES;

/// Reads of descriptions and counts before one that was replaced meanwhile is taken as it is.
const LOOKS: usize = 8;

const HEADER_BYTES: usize = 4096;
const SINKS_AT: usize = HEADER_BYTES;
const DESCRIPTORS_AT: usize = SINKS_AT + SINKS_MAX * SINK_BYTES;
const DESCRIPTOR_BYTES: usize = 64;
const CONFIG_AT: usize = DESCRIPTORS_AT + BUFFERS_MAX * DESCRIPTOR_BYTES;
const COPY_AT: usize = (CONFIG_AT + CONFIG_BYTES_MAX).next_multiple_of(4096);
const BUFFERS_AT: usize = COPY_AT + 4096;

/// Bytes of the checksum behind the configuration's text.
const CHECKSUM_BYTES: usize = 8;

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
    /// Of magic, counts and bytes.
    checksum: AtomicU64,
    /// Lines about damage that the log has.
    damage_told: EpochCells<1>,
    unused: [AtomicU64; 100],
    /// Epoch from which on the line counts that says how the process ended.
    end_epoch: AtomicU64,
}

/// The words of the header that recovery needs once more, on another page. Each is stored after that of the header.
#[repr(C)]
struct HeaderCopy {
    magic: AtomicU64,
    sink_count: AtomicU32,
    buffer_count: AtomicU32,
    buffer_bytes: AtomicU64,
    config_place: AtomicU64,
    epoch: AtomicU64,
    checksum: AtomicU64,
}

/// Numbers of a file that never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    sink_count: u32,
    buffer_count: u32,
    buffer_bytes: u64,
}

impl Sizes {
    fn checksum(self) -> u64 {
        let counts = u64::from(self.sink_count) | u64::from(self.buffer_count) << 32;
        Checksum::of_words(&[MAGIC, counts, self.buffer_bytes]).value()
    }

    /// Stores them; the magic goes last. For the header and for its copy.
    fn store(self, words: (&AtomicU32, &AtomicU32, &AtomicU64, &AtomicU64), magic: &AtomicU64) {
        let (sink_count, buffer_count, buffer_bytes, checksum) = words;
        // Relaxed: the magic is stored last, and a reader of another process comes after our death.
        sink_count.store(self.sink_count, Ordering::Relaxed);
        buffer_count.store(self.buffer_count, Ordering::Relaxed);
        buffer_bytes.store(self.buffer_bytes, Ordering::Relaxed);
        checksum.store(self.checksum(), Ordering::Relaxed);
        // SYNC(drain file): the rest of the file is visible to a thread that sees the magic.
        magic.store(MAGIC, Ordering::Release);
    }

    /// Reads them; `None` where the checksum is wrong.
    fn load(words: (&AtomicU32, &AtomicU32, &AtomicU64, &AtomicU64)) -> Option<Self> {
        let (sink_count, buffer_count, buffer_bytes, checksum) = words;
        // Relaxed: everything is checked.
        let sizes = Self {
            sink_count: sink_count.load(Ordering::Relaxed),
            buffer_count: buffer_count.load(Ordering::Relaxed),
            buffer_bytes: buffer_bytes.load(Ordering::Relaxed),
        };
        (checksum.load(Ordering::Relaxed) == sizes.checksum()).then_some(sizes)
    }

    /// Checks them against the format and the length of the file.
    fn check(self, file_bytes: u64) -> Result<Self, RingError> {
        let Self {
            sink_count,
            buffer_count,
            buffer_bytes,
        } = self;
        if sink_count as usize > SINKS_MAX {
            return Err(damaged("sink count", u64::from(sink_count), "at most 16"));
        }
        if buffer_count as usize > BUFFERS_MAX
            || (sink_count > 0 && (buffer_count == 0 || !buffer_count.is_multiple_of(sink_count)))
        {
            return Err(damaged(
                "buffer count",
                u64::from(buffer_count),
                "1 to 256, the same for each sink",
            ));
        }
        if !(BUFFER_BYTES_LEAST as u64..=1 << 30).contains(&buffer_bytes) {
            return Err(damaged("buffer bytes", buffer_bytes, "32 KiB to 1 GiB"));
        }
        if file_bytes < Buffers::file_bytes(buffer_count as usize, buffer_bytes as usize) {
            return Err(damaged(
                "file size",
                file_bytes,
                "the header, the descriptors and all buffers",
            ));
        }
        Ok(self)
    }
}

impl Header {
    fn sizes(&self) -> (&AtomicU32, &AtomicU32, &AtomicU64, &AtomicU64) {
        (
            &self.sink_count,
            &self.buffer_count,
            &self.buffer_bytes,
            &self.checksum,
        )
    }
}

impl HeaderCopy {
    fn sizes(&self) -> (&AtomicU32, &AtomicU32, &AtomicU64, &AtomicU64) {
        (
            &self.sink_count,
            &self.buffer_count,
            &self.buffer_bytes,
            &self.checksum,
        )
    }
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
struct Descriptor {
    state: AtomicU32,
    sink: AtomicU32,
    sequence: AtomicU64,
    length: AtomicU64,
    records: AtomicU64,
    dev: AtomicU64,
    ino: AtomicU64,
    offset: AtomicU64,
    /// Of the state and of the words that are valid in it; stored before the state, so that it says which is true.
    checksum: AtomicU64,
}

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<Descriptor>() == DESCRIPTOR_BYTES);
    assert!(offset_of!(Header, epoch) == 32);
    assert!(offset_of!(Header, journal) == 40);
    assert!(offset_of!(Header, ancestors) == 48);
    assert!(offset_of!(Header, damage_told) == 3256);
    assert!(offset_of!(Header, end_epoch) == 4088);
    assert!(size_of::<Header>() == HEADER_BYTES);
    assert!(offset_of!(Header, checksum) == 3248);
    assert!(offset_of!(HeaderCopy, epoch) == 32);
    assert!(offset_of!(HeaderCopy, checksum) == 40);
    assert!(offset_of!(Descriptor, checksum) == 56);
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
    words: Words,
    sink_count: usize,
    buffer_count: usize,
    buffer_bytes: usize,
    blocks: Blocks,
}

/// The file's blocks, as far as they are reserved.
#[derive(Debug)]
struct Blocks {
    /// The file, where the blocks of a buffer are reserved when it is first needed; without it, they all are.
    path: Option<PathBuf>,
    /// Bits of the buffers whose blocks are there.
    reserved: [AtomicU64; BUFFERS_MAX / 64],
}

impl Blocks {
    fn of(path: Option<&Path>) -> Self {
        Self {
            path: path.map(Path::to_owned),
            reserved: [const { AtomicU64::new(0) }; BUFFERS_MAX / 64],
        }
    }

    fn are_reserved(&self, index: usize) -> bool {
        // Relaxed: the bit of a buffer is of use to its owner only.
        self.path.is_none() || self.reserved[index / 64].load(Ordering::Relaxed) >> (index % 64) & 1 == 1
    }

    fn note(&self, index: usize, are_reserved: bool) {
        let bit = 1 << (index % 64);
        // Relaxed: as above.
        match are_reserved {
            true => self.reserved[index / 64].fetch_or(bit, Ordering::Relaxed),
            false => self.reserved[index / 64].fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Makes sure that a buffer may be touched: a file system without room is an error here, and no SIGBUS then.
    fn reserve(&self, index: usize, buffer_bytes: usize, mapping: &sys::Mapping) -> Result<(), RingError> {
        let Some(path) = self.path.as_ref().filter(|_| !self.are_reserved(index)) else {
            return Ok(());
        };
        let from = Buffers::file_bytes(index, buffer_bytes);
        let reserved = files::reserve_within(path, from, from + buffer_bytes as u64);
        reserved.or_else(|error| match error {
            RingError::NoRoom { .. } => Err(error),
            // A program that has given up its rights, or its root, has the mapping all the same.
            _ => mapping.populate(from as usize, buffer_bytes).map_err(|_| error),
        })?;
        self.note(index, true);
        Ok(())
    }
}

/// Unwritten buffers of a dead process with their places, and its empty ones.
pub type Adopted = (Vec<(Buffer, FileLocation)>, Vec<Buffer>);

/// One output buffer. Only the owner of the value accesses its bytes.
#[derive(Debug)]
pub struct Buffer {
    shared: Arc<Buffers>,
    index: usize,
    length: usize,
    /// Bytes at the start that the log has in another place than the rest.
    done: usize,
    records: u64,
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
            words: Words { mapping },
            sink_count,
            buffer_count,
            buffer_bytes,
            blocks: Blocks::of(None),
        };
        let (header, copy) = (buffers.words.header(), buffers.words.header_copy());
        buffers.words.put_config(0, config);
        header.config_place.store(config.len() as u64, Ordering::Relaxed);
        copy.config_place.store(config.len() as u64, Ordering::Relaxed);
        for index in 0..buffer_count {
            let descriptor = buffers.words.descriptor(index);
            descriptor
                .sink
                .store((index / per_sink) as u32, Ordering::Relaxed);
            descriptor.change(FREE);
        }
        for sink in 0..SINKS_MAX {
            buffers.words.sink(sink).store_mark(sink);
        }
        let sizes = Sizes {
            sink_count: sink_count as u32,
            buffer_count: buffer_count as u32,
            buffer_bytes: buffer_bytes as u64,
        };
        sizes.store(copy.sizes(), &copy.magic);
        sizes.store(header.sizes(), &header.magic);
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
            sys::Mapping::plain(file, 0, BUFFERS_AT).map_err(|cause| RingError::io("map", path, cause))?;
        // SAFETY: the page is mapped, aligned and large enough; all fields are atomics.
        let header = unsafe { &*head.base().cast::<Header>() };
        // SAFETY: as above, on the page of the copy.
        let copy = unsafe { &*head.base().add(COPY_AT).cast::<HeaderCopy>() };
        // SYNC(drain file)
        let magic = header.magic.load(Ordering::Acquire);
        let copied = copy.magic.load(Ordering::Acquire);
        let is_other_version = |magic: u64| magic & MAGIC_NAME == MAGIC & MAGIC_NAME && magic != MAGIC;
        if magic != MAGIC
            && (copied != MAGIC || is_other_version(magic) && Sizes::load(copy.sizes()).is_none())
        {
            return Err(damaged("magic", magic, "LDDRAIN and version 3"));
        }
        // Either of them is enough.
        let sizes = Sizes::load(header.sizes())
            .or_else(|| Sizes::load(copy.sizes()))
            .ok_or_else(|| {
                let found = header.checksum.load(Ordering::Relaxed);
                damaged("checksum", found, "that of the words before it")
            })?
            .check(bytes)?;
        let (buffer_count, buffer_bytes) = (sizes.buffer_count as usize, sizes.buffer_bytes as usize);
        let expected = Self::file_bytes(buffer_count, buffer_bytes) as usize;
        let mapping =
            sys::Mapping::plain(file, 0, expected).map_err(|cause| RingError::io("map", path, cause))?;
        Ok(Self {
            words: Words { mapping },
            sink_count: sizes.sink_count as usize,
            buffer_count,
            buffer_bytes,
            blocks: Blocks::of(Some(path)),
        })
    }

    /// The blocks of buffers are not there yet: [`Buffer::reserve`] makes sure of them in the file of this path.
    pub(crate) fn reserve_later(&mut self, path: &Path) {
        self.blocks = Blocks::of(Some(path));
    }

    /// The text that describes the sinks, as it was given when the session was made or [replaced](Self::replace_config)
    /// since. Empty where it is damaged.
    pub fn config(&self) -> Vec<u8> {
        self.whole_config().unwrap_or_default()
    }

    /// The text that describes the sinks; `None` where its checksum is wrong.
    pub fn whole_config(&self) -> Option<Vec<u8>> {
        let place = &self.words.header().config_place;
        for _ in 0..LOOKS {
            // SYNC(config): the text is there.
            let word = place.load(Ordering::Acquire);
            if let Some(text) = self.words.config_at(word) {
                return Some(text);
            }
            // Where it was replaced twice meanwhile, what was copied may be of two texts.
            if place.load(Ordering::Relaxed) == word {
                break;
            }
        }
        self.words
            .config_at(self.words.header_copy().config_place.load(Ordering::Acquire))
    }

    /// Replaces the text that describes the sinks: a reader, also after a kill, finds the old one or the new one.
    /// For the process that made the buffers, one thread at a time.
    ///
    /// # Errors
    /// When there is no room for so much text beside the old one.
    pub fn replace_config(&self, text: &[u8]) -> Result<(), RingError> {
        // Relaxed: only we write it.
        let (start, length) = config_place(self.words.header().config_place.load(Ordering::Relaxed));
        let behind = start + length + CHECKSUM_BYTES;
        let needed = text.len() + CHECKSUM_BYTES;
        let at = if needed <= start {
            0
        } else if needed <= CONFIG_BYTES_MAX.saturating_sub(behind) {
            behind
        } else {
            let room = CONFIG_BYTES_MAX.saturating_sub(behind).max(start);
            return Err(RingError::Limit {
                what: "bytes that describe the sinks",
                limit: room.saturating_sub(CHECKSUM_BYTES) as u64,
            });
        };
        self.words.put_config(at, text);
        // SYNC(config): a reader after our death that finds the place finds the text.
        let word = (at as u64) << 32 | text.len() as u64;
        self.words.header().config_place.store(word, Ordering::Release);
        self.words
            .header_copy()
            .config_place
            .store(word, Ordering::Release);
        Ok(())
    }

    /// The line of the process's end is laid out, and counts when `epoch` is published.
    pub fn note_end(&self, epoch: u64) {
        // Relaxed: published with the epoch.
        self.words.header().end_epoch.store(epoch, Ordering::Relaxed);
    }

    /// Returns whether the line of the process's end is the last that counts: nothing was taken since.
    pub fn has_end(&self) -> bool {
        let epoch = self.epoch();
        epoch != 0 && self.words.header().end_epoch.load(Ordering::Relaxed) == epoch
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
        let epoch = self.words.header().epoch.load(Ordering::Acquire);
        let copied = self.words.header_copy().epoch.load(Ordering::Acquire);
        // The copy is behind until it is stored, too; of a damaged word nothing is taken.
        let whole = [epoch, copied]
            .into_iter()
            .filter_map(|word| unguarded(word, &[]));
        whole.max().unwrap_or(0)
    }

    /// Names whose epochs they are, where they are those of sessions that outlive the buffers; 0 elsewhere.
    pub fn journal(&self) -> u64 {
        // SYNC(journal): its ancestors are there.
        self.words.header().journal.load(Ordering::Acquire)
    }

    /// The journals of earlier drains, the latest first.
    pub fn ancestors(&self) -> Vec<Journal> {
        let load = |[id, epoch]: &[AtomicU64; 2]| Journal {
            id: id.load(Ordering::Relaxed),
            epoch: epoch.load(Ordering::Relaxed),
        };
        let ancestors = self.words.header().ancestors.iter().map(load);
        ancestors.take_while(|ancestor| ancestor.id != 0).collect()
    }

    /// Starts a journal, and keeps those of earlier drains, the latest first. For new buffers, before anything is
    /// drained.
    pub fn start_journal(&self, id: u64, ancestors: &[Journal]) {
        let header = self.words.header();
        for ([id, epoch], ancestor) in header.ancestors.iter().zip(ancestors) {
            id.store(ancestor.id, Ordering::Relaxed);
            epoch.store(ancestor.epoch, Ordering::Relaxed);
        }
        // SYNC(journal): a process that finds a journal after our death finds its ancestors.
        header.journal.store(id, Ordering::Release);
    }

    /// Publishes an epoch: from now on its cells are valid.
    pub fn publish(&self, epoch: u64) {
        let word = guarded(epoch, &[]);
        // SYNC(epoch)
        self.words.header().epoch.store(word, Ordering::Release);
        // Stored before any ring space is released: where the word above is damaged, this one is as good.
        self.words.header_copy().epoch.store(word, Ordering::Release);
    }

    /// All buffers of one sink, empty and free, the first two with their memory; the others are to be
    /// [reserved](Buffer::reserve) before they are used. For the process that made them; called once, and once more after
    /// each [`release`](Self::release).
    ///
    /// # Errors
    /// When there is no memory for two, or no room where their file lies.
    pub fn take_all(self: &Arc<Self>, sink: usize) -> Result<Vec<Buffer>, RingError> {
        self.reserve_first(sink)?;
        let own = (0..self.buffer_count).filter(|index| self.sink_of(*index) == sink);
        let buffers = own
            .map(|index| {
                self.words.descriptor(index).change(FREE);
                Buffer {
                    shared: Arc::clone(self),
                    index,
                    length: 0,
                    done: 0,
                    records: 0,
                }
            })
            .collect();
        Ok(buffers)
    }

    /// Reserves the first buffers of a sink, without which it cannot work.
    pub(crate) fn reserve_first(&self, sink: usize) -> Result<(), RingError> {
        let own = (0..self.buffer_count).filter(|index| self.sink_of(*index) == sink);
        own.take(BUFFERS_AT_FIRST)
            .try_for_each(|index| self.blocks.reserve(index, self.buffer_bytes, &self.words.mapping))
    }

    /// Gives back the memory under the buffers of a sink that is closed. For the process that made them, and only when
    /// no thread has a buffer of the sink any more, and all of them are empty.
    ///
    /// # Errors
    /// When the file system cannot do that; then the memory stays reserved, which does no harm.
    pub fn release(&self, sink: usize) -> Result<(), RingError> {
        let Some(path) = &self.blocks.path else {
            return Ok(());
        };
        let per_sink = self.buffer_count.checked_div(self.sink_count).unwrap_or(0);
        let own = sink * per_sink..(sink + 1) * per_sink;
        own.clone().for_each(|index| self.blocks.note(index, false));
        let [from, to] = [own.start, own.end].map(|index| Self::file_bytes(index, self.buffer_bytes));
        files::release_within(path, from, to)
    }

    /// Takes what a dead process left of one sink: its unwritten buffers in order, then its empty ones, which are to be
    /// [reserved](Buffer::reserve) before they are used. Afterwards all of the sink's descriptors say what these values
    /// say.
    ///
    /// # Errors
    /// When there is no room for a buffer that has something in it: where its file is a copy, it may have holes.
    pub fn adopt(self: &Arc<Self>, sink: usize) -> Result<Adopted, RingError> {
        let epoch = self.epoch();
        // Their memory is there since the session began, also where there is no room for any other. In a copy it may not be,
        // and then they are as the others.
        let _ = self.reserve_first(sink);
        self.words.sink(sink).strike_after(epoch);
        let settled = self.words.sink(sink).settled().sequence;
        self.words.header().damage_told.strike_after(epoch);
        if self.words.header().end_epoch.load(Ordering::Relaxed) > epoch {
            // It was laid out, and does not count.
            self.note_end(0);
        }
        let mut unwritten = Vec::new();
        let mut empty = Vec::new();
        for index in 0..self.buffer_count {
            let descriptor = self.words.descriptor(index);
            if self.sink_of(index) != sink {
                continue;
            }
            let state = descriptor.true_state();
            let sequence = descriptor.sequence.load(Ordering::Relaxed);
            if state != Some(FREE) {
                self.blocks
                    .reserve(index, self.buffer_bytes, &self.words.mapping)?;
            }
            let (length, records) = match state {
                // Done with and counted; only its state was not stored any more.
                Some(READY | WRITING) if sequence == settled => (0, 0),
                Some(READY | WRITING) => (
                    descriptor.length.load(Ordering::Relaxed) as usize,
                    descriptor.records.load(Ordering::Relaxed),
                ),
                Some(FILLING) => self.filled(sink, index, epoch),
                // The text of a damaged one was set aside.
                Some(_) | None => (0, 0),
            };
            let length = length.min(self.buffer_bytes);
            let mut buffer = Buffer {
                shared: Arc::clone(self),
                index,
                length,
                done: (self.words.sink(sink).done(sequence) as usize).min(length),
                records,
            };
            // A place that is not certain is none: the bytes are appended.
            let place = match state {
                Some(WRITING) => buffer.place(),
                _ => FileLocation::default(),
            };
            if length == 0 {
                buffer.clear();
                empty.push(buffer);
            } else {
                unwritten.push((sequence, buffer, place));
            }
        }
        unwritten.sort_by_key(|(sequence, ..)| *sequence);
        let unwritten = unwritten.into_iter();
        let unwritten = unwritten.map(|(_, buffer, place)| (buffer, place)).collect();
        Ok((unwritten, empty))
    }

    /// All bytes of a buffer of a dead process. Called by a recoverer before any [`Buffer`] of it is made.
    fn bytes_of(&self, index: usize) -> &[u8] {
        assert!(index < self.buffer_count, "a number of a buffer");
        // SAFETY: the buffer lies inside of the mapping, and nobody writes to it while its process is dead and the
        // recoverer has made no value for it.
        unsafe {
            core::slice::from_raw_parts(
                self.words
                    .mapping
                    .base()
                    .add(BUFFERS_AT + index * self.buffer_bytes),
                self.buffer_bytes,
            )
        }
    }

    /// The highest sequence number that any buffer has had.
    pub fn last_sequence(&self) -> u64 {
        let sequences = (0..self.buffer_count).map(|index| self.words.descriptor(index));
        sequences
            .map(|descriptor| descriptor.sequence.load(Ordering::Relaxed))
            // A damaged one must not use the numbers up.
            .filter(|sequence| *sequence < 1 << 62)
            .max()
            .unwrap_or(0)
    }

    /// Length and records of a filling buffer that count at an epoch.
    fn filled(&self, sink: usize, index: usize, epoch: u64) -> (usize, u64) {
        // The cell is about this filling of the buffer only if it names its sequence number.
        let sequence = self.words.descriptor(index).sequence.load(Ordering::Relaxed);
        match self.words.sink(sink).drained(epoch).0 {
            [length, records, found] if found == sequence => (length as usize, records),
            _ => (0, 0),
        }
    }

    /// Notes that a sink's current buffer will count up to its fill, and its drops as they are given, when `epoch` is
    /// published. Without a buffer the sink fills none.
    pub fn note_fill(&self, sink: usize, buffer: Option<&Buffer>, drops: &SinkDrops, epoch: u64) {
        let committed = self.epoch();
        let fill = buffer.map_or([0; 3], |buffer| {
            let sequence = buffer.descriptor().sequence.load(Ordering::Relaxed);
            [buffer.length as u64, buffer.records, sequence]
        });
        self.words.sink(sink).note(fill, drops, epoch, committed);
    }

    /// Drops of a sink as of the epoch in force, for a drain that goes on with them.
    pub fn drops(&self, sink: usize) -> SinkDrops {
        self.words.sink(sink).drained(self.epoch()).1
    }

    /// Counts a failed write; code 0 means that writes succeed again.
    pub fn note_error(&self, sink: usize, code: u64) {
        self.words.sink(sink).note_error(code);
    }

    /// The system's code of the last failure of a sink; 0 when the last write went well.
    pub fn last_error(&self, sink: usize) -> u64 {
        self.words.sink(sink).last_error()
    }

    /// Statistics of a sink, as of the epoch in force.
    pub fn counts(&self, sink: usize) -> SinkCounts {
        let words = self.words.sink(sink);
        let own = || (0..self.buffer_count).filter(|index| self.sink_of(*index) == sink);
        let counts_at = |epoch| {
            let settled = words.settled().sequence;
            let pending = own().map(|index| {
                let descriptor = self.words.descriptor(index);
                // SYNC(buffer)
                match descriptor.state.load(Ordering::Acquire) {
                    READY | WRITING if descriptor.sequence.load(Ordering::Relaxed) == settled => 0,
                    READY | WRITING => descriptor.records.load(Ordering::Relaxed),
                    FILLING => self.filled(sink, index, epoch).1,
                    _ => 0,
                }
            });
            words.counts(epoch, pending.fold(0u64, u64::saturating_add))
        };
        let mut epoch = self.epoch();
        let mut counts = counts_at(epoch);
        for _ in 0..LOOKS {
            // A drain that is at work may have written over what the epoch relied on.
            let now = self.epoch();
            if now == epoch {
                break;
            }
            epoch = now;
            counts = counts_at(epoch);
        }
        counts
    }

    /// Sink of a buffer. By its number: the word in the descriptor is for people.
    fn sink_of(&self, index: usize) -> usize {
        index * self.sink_count / self.buffer_count.max(1)
    }
}

/// The mapped file: each part as its type.
#[derive(Debug)]
struct Words {
    mapping: sys::Mapping,
}

impl Words {
    /// The text at a place, if its checksum stands behind it.
    fn config_at(&self, place: u64) -> Option<Vec<u8>> {
        let (start, length) = config_place(place);
        let mut text = vec![0; length + CHECKSUM_BYTES];
        // SAFETY: the config area is mapped and `CONFIG_BYTES_MAX` long, and the place with its checksum lies inside of
        // it.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.mapping.base().add(CONFIG_AT + start),
                text.as_mut_ptr(),
                text.len(),
            );
        }
        // SYNC(config): what was copied is older than what the caller loads next.
        fence(Ordering::Acquire);
        let checksum = text.split_off(length);
        (checksum == Checksum::new().bytes(&text).value().to_le_bytes()).then_some(text)
    }

    /// Mends one byte of the text at a place, or of its checksum; `false` where more is damaged.
    fn mend_config(&self, place: u64, before: impl FnOnce()) -> bool {
        let (start, length) = config_place(place);
        let mut text = vec![0; length + CHECKSUM_BYTES];
        // SAFETY: as in `config_at`.
        unsafe {
            let from = self.mapping.base().add(CONFIG_AT + start);
            core::ptr::copy_nonoverlapping(from, text.as_mut_ptr(), text.len());
        }
        let stored = text.split_off(length);
        let stored = stored.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let is_mended = Checksum::new().mend(&mut text, stored).is_some();
        if is_mended {
            before();
            self.put_config(start, &text);
        }
        is_mended
    }

    /// Writes a text and its checksum at an offset of the config area, which has room for both.
    fn put_config(&self, at: usize, text: &[u8]) {
        let checksum = Checksum::new().bytes(text).value().to_le_bytes();
        assert!(
            at + text.len() + CHECKSUM_BYTES <= CONFIG_BYTES_MAX,
            "the callers have checked that"
        );
        // SAFETY: the config area is mapped and `CONFIG_BYTES_MAX` long, and this part of it is not the text that
        // counts.
        unsafe {
            let to = self.mapping.base().add(CONFIG_AT + at);
            core::ptr::copy_nonoverlapping(text.as_ptr(), to, text.len());
            core::ptr::copy_nonoverlapping(checksum.as_ptr(), to.add(text.len()), CHECKSUM_BYTES);
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is at least `BUFFERS_AT` long, page-aligned, and lives as long as `self`; all fields are
        // atomics.
        unsafe { &*self.mapping.base().cast::<Header>() }
    }

    fn header_copy(&self) -> &HeaderCopy {
        // SAFETY: as for the header; the copy has a page of its own before the buffers.
        unsafe { &*self.mapping.base().add(COPY_AT).cast::<HeaderCopy>() }
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
    /// Stores another state, for which all of its words are there.
    fn change(&self, state: u32) {
        let checksum = self.checksum_of(state);
        // SYNC(buffer): what was stored before is visible to whoever sees one of the two.
        self.checksum.store(checksum, Ordering::Release);
        self.state.store(state, Ordering::Release);
    }

    /// Checksum of a state and of the words that are valid in it.
    fn checksum_of(&self, state: u32) -> u64 {
        // Relaxed: they were stored by this thread, or their checksum was loaded before.
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let words = [
            u64::from(state),
            load(&self.sequence),
            load(&self.length),
            load(&self.records),
            load(&self.dev),
            load(&self.ino),
            load(&self.offset),
        ];
        let valid = match state {
            FREE => 1,
            FILLING => 2,
            READY => 4,
            _ => words.len(),
        };
        Checksum::of_words(words.get(..valid).unwrap_or(&words)).value()
    }

    /// The state whose checksum is stored, whatever the word of the state says: a kill between the two is no damage.
    /// `None` where no state has it.
    fn true_state(&self) -> Option<u32> {
        // SYNC(buffer)
        let checksum = self.checksum.load(Ordering::Acquire);
        [FREE, FILLING, READY, WRITING]
            .into_iter()
            .find(|state| self.checksum_of(*state) == checksum)
    }

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

    /// Makes sure that the buffer may be filled: its memory is there, or is reserved now.
    ///
    /// # Errors
    /// When there is no room where its file lies. The buffer must not be filled then.
    pub fn reserve(&self) -> Result<(), RingError> {
        let shared = &self.shared;
        (shared.blocks).reserve(self.index, shared.buffer_bytes, &shared.words.mapping)
    }

    /// Returns whether the memory of the buffer is there.
    pub fn is_reserved(&self) -> bool {
        self.shared.blocks.are_reserved(self.index)
    }

    /// Bytes filled so far, without those that are [done](Self::mark_done).
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `length` is at most the buffer's size, and the value is the only access to its bytes.
        let filled = unsafe { core::slice::from_raw_parts(self.start(), self.length) };
        filled.get(self.done..).unwrap_or(&[])
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

    /// Sequence number of its fill.
    pub fn sequence(&self) -> u64 {
        // Relaxed: we alone change it.
        self.descriptor().sequence.load(Ordering::Relaxed)
    }

    /// Leaves out all behind so many of its [bytes](Self::bytes). The records count as before.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(self.done.saturating_add(length));
    }

    /// The drain begins to fill it. Sequence numbers start at 1, rise, and are never used again.
    pub fn start_filling(&mut self, sequence: u64) {
        let descriptor = self.descriptor();
        descriptor.sequence.store(sequence, Ordering::Relaxed);
        descriptor.change(FILLING);
    }

    /// The drain is done with it, and its fill is covered by a published epoch.
    pub fn mark_ready(&mut self) {
        let descriptor = self.descriptor();
        descriptor.length.store(self.length as u64, Ordering::Relaxed);
        descriptor.records.store(self.records, Ordering::Relaxed);
        descriptor.change(READY);
    }

    /// The log has so many of its bytes in a place where the rest cannot follow: that has no place any more. Killed before
    /// the old place is given up, the next recoverer compares the rest with what stands behind them.
    pub fn mark_done(&mut self, bytes: usize) {
        self.done = self.done.saturating_add(bytes).min(self.length);
        if self.done > 0 {
            // Relaxed: as in `place`.
            let sequence = self.descriptor().sequence.load(Ordering::Relaxed);
            let words = self.shared.words.sink(self.sink());
            words.note_done(sequence, self.done as u64);
        }
        self.mark_ready();
    }

    /// The place of its first byte that is not done; the descriptor has that of its first byte.
    fn place(&self) -> FileLocation {
        // Relaxed: we alone change it.
        let place = self.descriptor().place();
        FileLocation {
            offset: place.offset.wrapping_add(self.done as u64),
            ..place
        }
    }

    /// The I/O thread is about to write it there; a recoverer will write the same bytes to the same place.
    pub fn mark_writing(&mut self, place: FileLocation) {
        let descriptor = self.descriptor();
        // Relaxed: we alone change it.
        if descriptor.state.load(Ordering::Relaxed) == WRITING {
            if self.place() == place {
                return;
            }
            // Until all of the new place is stored, there is none.
            descriptor.change(READY);
        }
        descriptor.dev.store(place.dev, Ordering::Relaxed);
        descriptor.ino.store(place.ino, Ordering::Relaxed);
        let offset = place.offset.wrapping_sub(self.done as u64);
        descriptor.offset.store(offset, Ordering::Relaxed);
        descriptor.change(WRITING);
    }

    /// All bytes are with the kernel: counts them and empties the buffer.
    pub fn mark_written(&mut self) {
        let (records, bytes) = (self.records, self.length as u64);
        self.settle(|sums| {
            sums.written_records = sums.written_records.wrapping_add(records);
            sums.written_bytes = sums.written_bytes.wrapping_add(bytes);
        });
    }

    /// The target is gone: counts the records as dropped for that and empties the buffer.
    pub fn mark_gone(&mut self) {
        let records = self.records;
        self.settle(|sums| sums.gone = sums.gone.wrapping_add(records));
    }

    /// Counts the buffer and empties it. Killed in between, the next drain finds by its sequence number that it is
    /// counted.
    fn settle(&mut self, count: impl FnOnce(&mut Settled)) {
        let words = self.shared.words.sink(self.sink());
        let mut sums = words.settled();
        sums.sequence = self.descriptor().sequence.load(Ordering::Relaxed);
        count(&mut sums);
        words.settle(sums);
        self.clear();
    }

    /// Empties the buffer without counting anything.
    pub fn clear(&mut self) {
        self.length = 0;
        self.done = 0;
        self.records = 0;
        // We are done with the bytes.
        self.descriptor().change(FREE);
    }

    fn descriptor(&self) -> &Descriptor {
        self.shared.words.descriptor(self.index)
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: the index is below the buffer count, so the buffer lies inside of the mapping.
        unsafe {
            self.shared
                .words
                .mapping
                .base()
                .add(BUFFERS_AT + self.index * self.shared.buffer_bytes)
        }
    }
}

/// Opens the output buffers of the session in a directory, whatever its header says, for reading them.
///
/// # Errors
/// When their file is missing or damaged.
pub fn open_buffers(session: &Path) -> Result<Buffers, RingError> {
    let path = session.join("drain");
    Buffers::open(&files::open_existing(&path)?, &path)
}

/// Start and length of the configuration, whatever the word says, with room for the checksum inside of its area.
fn config_place(word: u64) -> (usize, usize) {
    let most = CONFIG_BYTES_MAX - CHECKSUM_BYTES;
    let start = ((word >> 32) as usize).min(most);
    let length = (word & u64::from(u32::MAX)) as usize;
    (start, length.min(most - start))
}

/// Whole lines from an offset of a buffer on, up to bytes that are no text: the offset behind them, and their number.
fn whole_lines(bytes: &[u8], from: usize) -> (usize, u64) {
    let bytes = bytes.get(from..).unwrap_or(&[]);
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let length = text
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let lines = text.get(..length).map_or(0, lines_in);
    (from + length, lines)
}

fn lines_in(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn damaged(field: &'static str, found: u64, expected: &'static str) -> RingError {
    RingError::damaged("output buffers", field, found, expected)
}
