//! A log file as its I/O thread sees it: open, place a chunk, write it, sync, close.
//!
//! A chunk is placed before it is written, so that its owner can note the placement where it survives
//! a kill; a recoverer writes the same bytes to the same place again. One chunk is on its way at
//! a time, and the file moves (rotation, reopening, sealing) only between two chunks.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::active::{Active, Placement};
use super::directory::LogDirectory;
use super::error::{FileError, FileOperation, SyncFailed, UnsyncedRange, WriteFailed};
use super::limits::INTERRUPTED_MAX;
use super::link::point_link;
use super::names::Rotated;
use super::notices::Notices;
use super::options::{Compress, FileOptions};
use super::storage::Storage;
use super::tidy_thread::TidyThread;

/// A chunk that was placed and is neither written to its end nor abandoned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) placement: Placement,
    len_bytes: u64,
    written_bytes: u64,
}

/// The destination of a file sink. Used by one thread; each call may block as long as the disk does,
/// except that a pipe or terminal which takes nothing gives the thread back after 100 ms.
///
/// ```
/// use logdrive_drain::file::{Disk, FileOptions, LogFile};
/// use std::sync::Arc;
///
/// let dir = tempfile::tempdir()?;
/// let options = FileOptions::new(dir.path().join("shop/shop.log"));
/// let now_unix_ns = 1_795_264_496_000_000_000;
/// let mut file = LogFile::open(&options, Arc::new(Disk), now_unix_ns)?;
/// let placement = file.place(6, now_unix_ns)?;
/// file.write_at(placement, 0, b"hello\n")?;
/// file.sync()?;
/// file.close(now_unix_ns)?;
/// assert_eq!(std::fs::read(&options.path)?, b"hello\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LogFile {
    pub(crate) directory: LogDirectory,
    pub(crate) active: Active,
    pub(crate) chunk: Option<Chunk>,
    pub(crate) reopen_asked: bool,
    /// Time at which the path was last compared with the open file.
    pub(crate) checked_unix_ns: u64,
    /// Time of the last rotation that failed, until one succeeds.
    pub(crate) rotation_failed_unix_ns: Option<u64>,
    /// The name that the last rotation gave.
    pub(crate) last_rotated: Option<Rotated>,
    /// The owner has asked for a sync before, so files are synced before they are rotated.
    pub(crate) syncs: bool,
    /// Found by such a sync, or after a seal; returned by the next call of `sync`.
    pub(crate) unsynced: Vec<UnsyncedRange>,
    /// Error of the sync that failed, while it has not been returned.
    pub(crate) sync_error: Option<FileError>,
    tidy_thread: TidyThread,
}

impl LogFile {
    /// Opens the log, making directory and file where they are missing, and takes its lock. Where
    /// another process has that, opens `NAME.PID.log` beside it and says so in a notice.
    pub fn open(
        options: &FileOptions,
        storage: Arc<dyn Storage>,
        now_unix_ns: u64,
    ) -> Result<LogFile, FileError> {
        let file = Self::open_untidied(options, storage, now_unix_ns)?;
        file.tidy(now_unix_ns, true);
        Ok(file)
    }

    /// As `open`, but leaves compression and left-overs to others: for recovery, which is brief.
    pub(crate) fn open_untidied(
        options: &FileOptions,
        storage: Arc<dyn Storage>,
        now_unix_ns: u64,
    ) -> Result<LogFile, FileError> {
        let directory = LogDirectory::open(options, storage, Notices::default())?;
        let active = Active::choose(&directory, seconds(now_unix_ns))?;
        let file = LogFile {
            directory,
            active,
            chunk: None,
            reopen_asked: false,
            checked_unix_ns: now_unix_ns,
            rotation_failed_unix_ns: None,
            last_rotated: None,
            syncs: false,
            unsynced: Vec::new(),
            sync_error: None,
            tidy_thread: TidyThread::default(),
        };
        file.set_link();
        Ok(file)
    }

    /// Finds the place for a chunk of whole lines, in a new file where size or time ask for one. A
    /// rotation that fails is reported in a notice and tried again 10 seconds later; meanwhile the old
    /// file is written on.
    pub fn place(&mut self, len_bytes: u64, now_unix_ns: u64) -> Result<Placement, FileError> {
        if self.chunk.is_some() {
            return Err(FileError::Unfinished { path: self.path() });
        }
        self.follow(now_unix_ns)?;
        if self.active.regular {
            self.active.find_end(&self.directory)?;
        }
        self.active.end_torn_line(&self.directory)?;
        if self.active.regular {
            self.rotate_if_due(len_bytes, now_unix_ns);
        }
        self.active.write_header(&self.directory)?;
        let placement = self.active.placement();
        self.chunk = Some(Chunk {
            placement,
            len_bytes,
            written_bytes: 0,
        });
        Ok(placement)
    }

    /// Writes a chunk to its place, from its byte `skip` on. After a failure the same call with
    /// `skip = written_bytes` goes on where it stopped.
    pub fn write_at(
        &mut self,
        placement: Placement,
        skip_bytes: u64,
        bytes: &[u8],
    ) -> Result<(), WriteFailed> {
        let misplaced = |file: &Self| WriteFailed {
            written_bytes: skip_bytes,
            cause: FileError::Misplaced { path: file.path() },
        };
        let Some(mut chunk) = self.chunk.filter(|chunk| chunk.placement == placement) else {
            return Err(misplaced(self));
        };
        // A place was made for so many bytes, and a gap before `skip` would be filled with zeros.
        if bytes.len() as u64 != chunk.len_bytes || skip_bytes > chunk.written_bytes {
            return Err(misplaced(self));
        }
        let written = self.write_rest(&mut chunk, skip_bytes, bytes);
        self.active.end_offset = placement.offset + chunk.written_bytes;
        self.chunk = written.is_err().then_some(chunk);
        written.map_err(|cause| WriteFailed {
            written_bytes: chunk.written_bytes,
            cause: FileError::io(FileOperation::Write, self.path(), cause),
        })
    }

    fn write_rest(&self, chunk: &mut Chunk, skip_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        // A stream cannot be written again: there `skip` is what was taken so far.
        if self.active.regular {
            chunk.written_bytes = skip_bytes;
        }
        let mut interrupted = 0;
        loop {
            let from = usize::try_from(chunk.written_bytes).unwrap_or(usize::MAX);
            let Some(rest) = bytes.get(from..).filter(|rest| !rest.is_empty()) else {
                return Ok(());
            };
            let offset = chunk.placement.offset + chunk.written_bytes;
            match self.active.write(&self.directory, rest, offset) {
                Ok(written) => {
                    chunk.written_bytes += written as u64;
                    interrupted = 0;
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {
                    interrupted += 1;
                    if interrupted > INTERRUPTED_MAX {
                        return Err(cause);
                    }
                }
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Gives up the rest of a chunk. Its first `keep_bytes`, which end at the end of a line, stay as
    /// far as they are written; a torn line behind them is cut off, now or, where the disk refuses
    /// that, before the next chunk is placed.
    pub fn abandon(&mut self, placement: Placement, keep_bytes: u64) -> Result<(), FileError> {
        let Some(chunk) = self.chunk.filter(|chunk| chunk.placement == placement) else {
            return Err(FileError::Misplaced { path: self.path() });
        };
        self.chunk = None;
        let keep_bytes = keep_bytes.min(chunk.written_bytes);
        if self.active.regular {
            return self
                .active
                .truncate(&self.directory, placement.offset + keep_bytes);
        }
        // What a pipe has taken cannot be taken back; the next chunk begins on a line of its own.
        self.active.torn = keep_bytes < chunk.written_bytes;
        Ok(())
    }

    /// Brings all that is written to the disk. After a failure the bytes since the last sync may not be
    /// on disk, and the next chunk is placed in a new file.
    pub fn sync(&mut self) -> Result<(), SyncFailed> {
        self.syncs = true;
        self.sync_active();
        match self.sync_error.take() {
            None => Ok(()),
            Some(cause) => Err(SyncFailed {
                unsynced: std::mem::take(&mut self.unsynced),
                cause,
            }),
        }
    }

    /// Asks for the path to be opened anew before the next chunk, after a rotation from outside. Such
    /// a rotation is also noticed unasked, within a second of logging.
    pub fn reopen(&mut self) {
        self.reopen_asked = true;
    }

    /// The file that is written, as an absolute path.
    pub fn path(&self) -> PathBuf {
        self.directory.path_of(&self.active.name)
    }

    /// The options with absolute paths: what a session keeps for its recovery.
    pub fn options(&self) -> &FileOptions {
        &self.directory.options
    }

    /// Returns true if it is a file with offsets, and no pipe or device.
    pub fn is_regular(&self) -> bool {
        self.active.regular
    }

    /// Takes the oldest notice: something that a person should know although the log goes on.
    pub fn notice(&mut self) -> Option<String> {
        self.directory.notices.take()
    }

    /// Waits until no rotated file is being compressed or removed; `false` when that takes longer.
    pub fn wait_idle(&self, timeout: Duration) -> bool {
        self.tidy_thread.wait_idle(timeout)
    }

    /// Closes the file and gives up its lock. Does not sync, and does not wait for a compression,
    /// which the next open takes up again. A file beside the configured one joins the rotated files
    /// where rules of retention are set, because nothing else would ever remove it.
    pub fn close(mut self, now_unix_ns: u64) -> Result<(), FileError> {
        let cut = self.active.finish_truncation(&self.directory);
        let beside = self.active.name != self.directory.names.active();
        let keeps_to_itself = !self.active.regular || self.active.is_empty();
        if !beside || keeps_to_itself || !self.directory.options.removes() {
            return cut;
        }
        self.move_away(now_unix_ns).and(cut)
    }

    /// Tidies behind a rotation or at open: here, or on a thread where compression takes time.
    pub(crate) fn tidy(&self, now_unix_ns: u64, opening: bool) {
        if !self.active.regular {
            return;
        }
        let (tidy, now_unix_s) = (self.directory.tidy(), seconds(now_unix_ns));
        if self.directory.options.compress == Compress::None {
            tidy.run(now_unix_s, opening, &AtomicBool::new(false));
        } else {
            self.tidy_thread.request(tidy, now_unix_s, opening);
        }
    }

    /// Lets the link point to the file. The log does not depend on it, so a failure is only reported.
    pub(crate) fn set_link(&self) {
        let options = &self.directory.options;
        let Some(link) = &options.newest_link else { return };
        let storage = self.directory.storage.as_ref();
        if let Err(error) = point_link(storage, options, link, &self.path()) {
            self.directory.notices.push(error);
        }
    }
}

/// Whole seconds, as calendars count them.
pub(crate) fn seconds(unix_ns: u64) -> i64 {
    // 2^64 ns are less than 2^35 s.
    (unix_ns / 1_000_000_000) as i64
}
