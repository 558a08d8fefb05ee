//! The blocks of a log of segments that is being written, in order, through rotations.

use crate::error::EngineError;
use crate::limits::FRONT_BYTES;
use crate::state::LogPosition;
use logdrive_reader::{ReadError, log_files};
use logdrive_store::{Block, Damage, SegmentReader};
use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells up to where the file with a device and inode number may be read, where it is the one that is being written.
pub type CommittedEnd = Arc<dyn Fn(u64, u64) -> Option<u64> + Send + Sync>;

/// A file that seems to end where what counts of it does.
#[derive(Debug)]
struct BoundedFile {
    file: File,
    offset: u64,
    /// Relaxed: one thread has both ends.
    end: Arc<AtomicU64>,
}

impl Read for BoundedFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.end.load(Ordering::Relaxed).saturating_sub(self.offset);
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let count = self
            .file
            .read_at(out.get_mut(..most).unwrap_or_default(), self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl Seek for BoundedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.offset = match to {
            SeekFrom::Start(offset) => offset,
            SeekFrom::End(distance) => self.end.load(Ordering::Relaxed).saturating_add_signed(distance),
            SeekFrom::Current(distance) => self.offset.saturating_add_signed(distance),
        };
        Ok(self.offset)
    }
}

/// A segment that is read.
#[derive(Debug)]
struct OpenSegment {
    blocks: SegmentReader<BoundedFile>,
    file: File,
    end: Arc<AtomicU64>,
    identity: LogPosition,
}

impl OpenSegment {
    /// Opens a segment at an offset; `None` while it has no first block.
    fn open(path: &Path, offset: u64) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let Some(identity) = identity(&file)? else {
            return Ok(None);
        };
        let end = Arc::new(AtomicU64::new(0));
        let bounded = BoundedFile {
            file: file.try_clone()?,
            offset: 0,
            end: Arc::clone(&end),
        };
        Ok(Some(Self {
            blocks: SegmentReader::at(bounded, offset),
            file,
            end,
            identity,
        }))
    }

    /// Looks how far it may be read.
    fn look(&self, written: Option<&CommittedEnd>) -> io::Result<()> {
        // The length first: who writes says where before the first byte is written.
        let length = self.file.metadata()?.len();
        let end = written.and_then(|written| written(self.identity.dev, self.identity.ino));
        self.end
            .store(end.map_or(length, |end| end.min(length)), Ordering::Relaxed);
        Ok(())
    }

    fn position(&self) -> LogPosition {
        LogPosition {
            offset: self.blocks.offset(),
            ..self.identity
        }
    }
}

/// Returns the identity of a segment; `None` where it has no first block.
fn identity(file: &File) -> io::Result<Option<LogPosition>> {
    let stat = file.metadata()?;
    let mut front = [0; FRONT_BYTES];
    if stat.len() < FRONT_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut front, 0)?;
    Ok(Some(LogPosition {
        dev: stat.dev(),
        ino: stat.ino(),
        front: crc32c::crc32c(&front),
        offset: 0,
    }))
}

/// Blocks of a log, in order.
pub(crate) struct SegmentSource {
    /// Path of the file that is written.
    path: PathBuf,
    written: Option<CommittedEnd>,
    open: Option<OpenSegment>,
    /// Place to go on at, before a segment is open.
    start: Option<LogPosition>,
    damages: Vec<Damage>,
    /// Files behind the open one, as they were when they were last listed.
    behind: VecDeque<PathBuf>,
    /// Set where the file of the start is gone, so that records may be missing.
    is_torn: bool,
}

impl fmt::Debug for SegmentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentSource")
            .field("path", &self.path)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl SegmentSource {
    /// Reads the log of a path from a position on, or from its start.
    pub(crate) fn new(path: &Path, start: Option<LogPosition>, written: Option<CommittedEnd>) -> Self {
        Self {
            path: path.to_owned(),
            written,
            open: None,
            start,
            damages: Vec::new(),
            behind: VecDeque::new(),
            is_torn: false,
        }
    }

    /// Place behind the block that was returned last; `None` before the first.
    pub(crate) fn position(&self) -> Option<LogPosition> {
        self.open.as_ref().map(OpenSegment::position).or(self.start)
    }

    /// Takes the damage that was found.
    pub(crate) fn take_damages(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.damages)
    }

    /// Whether the file at which it should go on was gone; asked once.
    pub(crate) fn take_torn(&mut self) -> bool {
        std::mem::take(&mut self.is_torn)
    }

    /// Returns the next block that is wanted; `None` when there is none now. `wants` sees the file and the number of records of each
    /// block.
    pub(crate) fn next_block(
        &mut self,
        mut wants: impl FnMut(LogPosition, usize) -> bool,
    ) -> Result<Option<Block>, EngineError> {
        loop {
            if self.open.is_none() && !self.open_first()? {
                return Ok(None);
            }
            if let Some(block) = self.read(&mut wants)? {
                return Ok(Some(block));
            }
            if !self.has_next()? {
                return Ok(None);
            }
            // What came before the next file was begun.
            if let Some(block) = self.read(&mut wants)? {
                return Ok(Some(block));
            }
            if !self.open_next()? {
                return Ok(None);
            }
        }
    }

    fn read(
        &mut self,
        wants: &mut impl FnMut(LogPosition, usize) -> bool,
    ) -> Result<Option<Block>, EngineError> {
        let Some(open) = &mut self.open else {
            return Ok(None);
        };
        let cannot_read = EngineError::file("read", &self.path);
        open.look(self.written.as_ref()).map_err(&cannot_read)?;
        let file = open.identity;
        let block = open.blocks.next_block(|head| wants(file, head.records));
        self.damages.extend(open.blocks.take_damages());
        block.map_err(cannot_read)
    }

    /// Files of the log, the oldest first.
    fn files(&self) -> Result<Vec<PathBuf>, EngineError> {
        match log_files(&self.path) {
            // The first log is that of the path itself.
            Ok(logs) => {
                let own = logs.into_iter().next().unwrap_or_default();
                Ok(own.into_iter().map(|file| file.path).collect())
            }
            Err(ReadError::Open { cause, .. } | ReadError::Read { cause, .. })
                if cause.kind() == io::ErrorKind::NotFound =>
            {
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the file of the start, or the oldest. `false`: there is none.
    fn open_first(&mut self) -> Result<bool, EngineError> {
        let mut files: VecDeque<PathBuf> = self.files()?.into();
        if let Some(start) = self.start {
            let is_it = |path: &PathBuf| {
                let found = File::open(path).and_then(|file| identity(&file));
                found
                    .is_ok_and(|found| found.is_some_and(|found| found == LogPosition { offset: 0, ..start }))
            };
            match files.iter().position(is_it) {
                Some(place) => {
                    let path = files.get(place).cloned().unwrap_or_default();
                    self.open =
                        OpenSegment::open(&path, start.offset).map_err(EngineError::file("open", &path))?;
                    self.behind = files.split_off(place + 1);
                    return Ok(self.open.is_some());
                }
                None if files.is_empty() => return Ok(false),
                None => {
                    self.is_torn = true;
                    self.start = None;
                }
            }
        }
        self.behind = files;
        self.open_next()
    }

    /// Lists the files behind the open one. `false`: there is none.
    fn has_next(&mut self) -> Result<bool, EngineError> {
        let Some(open) = &self.open else {
            return Ok(false);
        };
        let mut files: VecDeque<PathBuf> = self.files()?.into();
        let is_open = |path: &PathBuf| {
            fs::metadata(path)
                .is_ok_and(|stat| (stat.dev(), stat.ino()) == (open.identity.dev, open.identity.ino))
        };
        // Where it was removed, all before it were, too.
        if let Some(place) = files.iter().position(is_open) {
            files = files.split_off(place + 1);
        }
        self.behind = files;
        Ok(!self.behind.is_empty())
    }

    /// Opens the next file, and notes what is left of the open one. `false`: it has no block yet.
    fn open_next(&mut self) -> Result<bool, EngineError> {
        while let Some(path) = self.behind.pop_front() {
            match OpenSegment::open(&path, 0) {
                Ok(Some(next)) => {
                    if let Some(before) = self.open.replace(next) {
                        self.note_rest(&before);
                    }
                    return Ok(true);
                }
                // One that was removed meanwhile, or has nothing yet.
                Ok(None) => {}
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => return Err(EngineError::file("open", &path)(cause)),
            }
        }
        Ok(false)
    }

    /// Notes a block that was begun and will not be finished.
    fn note_rest(&mut self, left: &OpenSegment) {
        let (offset, end) = (left.blocks.offset(), left.end.load(Ordering::Relaxed));
        if offset < end {
            self.damages.push(Damage {
                offset,
                bytes: end - offset,
                error: logdrive_store::StoreError::Truncated { what: "block" },
            });
        }
    }

    /// Removes the files of the log that lie before a position.
    pub(crate) fn remove_before(&self, position: LogPosition) -> Result<(), EngineError> {
        for path in self.files()? {
            let Ok(stat) = fs::metadata(&path) else { continue };
            if path == self.path || (stat.dev(), stat.ino()) == (position.dev, position.ino) {
                break;
            }
            match fs::remove_file(&path) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                    return Err(EngineError::file("remove", &path)(cause));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Bytes behind the place that was reached.
    pub(crate) fn bytes_behind(&self) -> u64 {
        let open = self.open.as_ref();
        let rest = open.map_or(0, |open| {
            let length = open.file.metadata().map_or(0, |stat| stat.len());
            length.saturating_sub(open.blocks.offset())
        });
        let files = self.behind.iter().filter_map(|path| fs::metadata(path).ok());
        files.map(|stat| stat.len()).fold(rest, u64::saturating_add)
    }
}
