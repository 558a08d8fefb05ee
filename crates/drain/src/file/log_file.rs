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
use super::beside::FilesBeside;
use super::directory::LogDirectory;
use super::error::{FileError, FileOperation, SyncFailed, WriteFailed};
use super::limits::INTERRUPTED_MAX;
use super::link::point_link;
use super::names::Rotated;
use super::notices::Notices;
use super::options::{Compress, FileOptions};
use super::storage::Storage;
use super::tidy_thread::TidyThread;
use super::unsynced::UnsyncedFiles;
use crate::segment;

/// A chunk that was placed and is neither written to its end nor abandoned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) placement: Placement,
    len_bytes: u64,
    written_bytes: u64,
    /// So much of it was written before the file was truncated from outside, and lies elsewhere; the offset of the
    /// first byte behind that.
    moved: Option<(u64, u64)>,
}

impl Chunk {
    /// Offset of one of its bytes.
    fn offset_of(&self, byte: u64) -> u64 {
        match self.moved {
            Some((before, offset)) => offset + byte.saturating_sub(before),
            None => self.placement.offset + byte,
        }
    }
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
    /// Files and names that `sync` has still to bring to the disk, besides the active file.
    pub(crate) unsynced: UnsyncedFiles,
    /// Offset of the last chunk that was written to its end.
    pub(crate) last_chunk_offset: u64,
    /// True if blocks of segments are written, so that rotated files are compacted; false for lines. `None`: not known yet.
    has_segments: Option<bool>,
    tidy_thread: TidyThread,
    pub(crate) beside: FilesBeside,
}

impl LogFile {
    /// Opens the log, making directory and file where they are missing, and takes its lock. Where
    /// another process has that, opens `NAME.PID.log` beside it and says so in a notice.
    pub fn open(
        options: &FileOptions,
        storage: Arc<dyn Storage>,
        now_unix_ns: u64,
    ) -> Result<LogFile, FileError> {
        Self::open_among(options, storage, Arc::default(), now_unix_ns)
    }

    /// As `open`, where sessions in some run directories may have begun to write to the same log when their processes
    /// died: a line of theirs that is torn is left to their recovery.
    pub(crate) fn open_among(
        options: &FileOptions,
        storage: Arc<dyn Storage>,
        run_dirs: Arc<[PathBuf]>,
        now_unix_ns: u64,
    ) -> Result<LogFile, FileError> {
        let directory = LogDirectory::open(options, storage, Notices::default())?.among(run_dirs);
        let active = Active::choose(&directory, seconds(now_unix_ns))?;
        let file = LogFile {
            directory,
            active,
            chunk: None,
            reopen_asked: false,
            checked_unix_ns: now_unix_ns,
            rotation_failed_unix_ns: None,
            last_rotated: None,
            unsynced: UnsyncedFiles::default(),
            last_chunk_offset: 0,
            has_segments: None,
            tidy_thread: TidyThread::default(),
            beside: FilesBeside::new(seconds(now_unix_ns)),
        };
        file.set_link();
        tidy(&file, now_unix_ns, true);
        Ok(file)
    }

    /// Tells whether blocks of segments are written from now on, or lines. A file of the other kind is rotated first: no
    /// reader expects both in one file.
    pub fn expect_segments(&mut self, is_expected: bool, now_unix_ns: u64) {
        if self.has_segments.replace(is_expected) == Some(is_expected) || !self.active.regular {
            return;
        }
        let mut front = [0; 8];
        let storage = self.directory.storage.as_ref();
        // A file that cannot be read is written on.
        let length = storage
            .read_at(&self.active.file, &mut front, 0)
            .unwrap_or(0)
            .min(front.len());
        let is_other = length > 0 && segment::is_segment(&front[..length]) != is_expected;
        if is_other
            && !self.active.is_empty()
            && let Err(error) = self.rotate(now_unix_ns)
        {
            self.directory
                .notices
                .push(format_args!("{error}; it is written on for now"));
        }
    }

    /// Finds the place for a chunk of whole lines, in a new file where size or time ask for one. A
    /// rotation that fails is reported in a notice and tried again 10 seconds later; meanwhile the old
    /// file is written on.
    pub fn place(&mut self, len_bytes: u64, now_unix_ns: u64) -> Result<Placement, FileError> {
        if self.chunk.is_some() {
            return Err(FileError::Unfinished { path: self.path() });
        }
        keep_open(self)?;
        self.follow(now_unix_ns)?;
        if self.active.regular && !self.active.find_end(&self.directory)? {
            // Bytes written to a file without a name are lost.
            self.reopen_asked = true;
            self.follow(now_unix_ns)?;
            if self.active.regular {
                self.active.find_end(&self.directory)?;
            }
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
            moved: None,
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
        let (dev, ino) = (self.active.dev, self.active.ino);
        keep_open(self).map_err(|cause| WriteFailed {
            written_bytes: skip_bytes,
            cause,
        })?;
        if (dev, ino) != (self.active.dev, self.active.ino) {
            return Err(misplaced(self));
        }
        let written = self.write_rest(&mut chunk, skip_bytes, bytes);
        self.active.end_offset = chunk.offset_of(chunk.written_bytes);
        self.last_chunk_offset = chunk.placement.offset;
        self.chunk = written.is_err().then_some(chunk);
        if written.is_err() {
            // The space may be what the disk lacks.
            self.unsynced.release_deleted(self.directory.storage.as_ref());
        }
        written.map_err(|cause| WriteFailed {
            written_bytes: chunk.written_bytes,
            cause: FileError::io(FileOperation::Write, self.path(), cause),
        })
    }

    fn write_rest(&self, chunk: &mut Chunk, skip_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        // A stream cannot be written again: there `skip` is what was taken so far.
        if self.active.regular {
            chunk.written_bytes = skip_bytes;
            follow_truncation(self, chunk, bytes);
        }
        let mut interrupted = 0;
        loop {
            let from = usize::try_from(chunk.written_bytes).unwrap_or(usize::MAX);
            let Some(rest) = bytes.get(from..).filter(|rest| !rest.is_empty()) else {
                return Ok(());
            };
            let offset = chunk.offset_of(chunk.written_bytes);
            match self.active.write(&self.directory, rest, offset) {
                Ok(written) => {
                    chunk.written_bytes += written as u64;
                    interrupted = 0;
                    if self.active.regular && written < rest.len() {
                        follow_truncation(self, chunk, bytes);
                    }
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

    /// Returns true if the file was deleted or replaced under the last chunk, which is lost with it: it is to be placed
    /// and written again, in a new file. Asked behind every chunk, it lets no line be lost that way. Costs one `fstat`.
    pub fn was_deleted(&mut self) -> bool {
        if self.chunk.is_some() || !self.is_deleted() {
            return false;
        }
        // A line that is written again is no loss.
        self.active.end_offset = self.last_chunk_offset.min(self.active.end_offset);
        self.reopen_asked = true;
        true
    }

    /// Returns true if the file has no name any more. Some file systems report no names at all, so the path is asked too.
    fn is_deleted(&self) -> bool {
        if !self.active.regular {
            return false;
        }
        let stat = self.directory.storage.stat_file(&self.active.file);
        stat.is_ok_and(|stat| stat.links == 0) && self.was_moved()
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
            let end_offset = chunk.offset_of(keep_bytes);
            return self.active.truncate(&self.directory, end_offset);
        }
        // What a pipe has taken cannot be taken back; the next chunk begins on a line of its own.
        self.active.torn = keep_bytes < chunk.written_bytes;
        Ok(())
    }

    /// Takes a chunk back, and all behind it, after a sync that failed: they are cut off, now or before the next chunk is
    /// placed. Returns true if that is in a new file; where nothing else was in this one it is written on, because what was
    /// in doubt is gone.
    pub fn seal(&mut self, placement: Placement) -> bool {
        let active = &mut self.active;
        if !active.regular || (placement.dev, placement.ino) != (active.dev, active.ino) {
            return false;
        }
        active.sealed = placement.offset > active.start_offset;
        let end_offset = placement.offset.min(active.end_offset);
        if let Err(error) = active.truncate(&self.directory, end_offset) {
            self.directory.notices.push(error);
        }
        active.sealed
    }

    /// Brings all that is written to the disk: the files that were rotated since the last sync, the file that is
    /// written, and their names. After a failure the bytes since the last sync may not be on disk, and the next chunk is
    /// placed in a new file. A failure is returned once; what is written afterwards is the matter of the next call.
    pub fn sync(&mut self) -> Result<(), SyncFailed> {
        self.unsynced.ask();
        if let Err(error) = keep_open(self) {
            self.active.doubt(&self.directory, &self.unsynced);
            self.directory.notices.push(error);
            return self.unsynced.take_failure();
        }
        let directory = &self.directory;
        self.unsynced.sync_all(directory.storage.as_ref(), &directory.dir);
        if self.is_deleted() {
            self.active.doubt(&self.directory, &self.unsynced);
            self.reopen_asked = true;
        }
        self.active.sync(&self.directory, &self.unsynced);
        self.directory.sync_names(&self.unsynced);
        self.unsynced.take_failure()
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

/// If another program has truncated the file since a part of the chunk was written (as `copytruncate` does), goes
/// on at the end, with the line that was cut: at the old offset there would be zeros before it.
fn follow_truncation(log: &LogFile, chunk: &mut Chunk, bytes: &[u8]) {
    if chunk.written_bytes == 0 {
        return;
    }
    let Ok(stat) = log.directory.storage.stat_file(&log.active.file) else {
        return;
    };
    if stat.bytes >= chunk.offset_of(chunk.written_bytes) {
        return;
    }
    let written = usize::try_from(chunk.written_bytes).unwrap_or(usize::MAX);
    let written = bytes.get(..written).unwrap_or(bytes);
    let line_start = written
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    chunk.written_bytes = line_start as u64;
    chunk.moved = Some((chunk.written_bytes, stat.bytes));
}

/// Tidies behind a rotation or at open: here, or on a thread where compression, compaction or a move takes time.
pub(crate) fn tidy(log: &LogFile, now_unix_ns: u64, opening: bool) {
    if !log.active.regular {
        return;
    }
    let options = &log.directory.options;
    let has_segments = log.has_segments == Some(true) && !options.rotated.keeps_blocks;
    let tidy = log.directory.tidy(&log.unsynced, has_segments);
    let now_unix_s = seconds(now_unix_ns);
    if options.compress != Compress::None || has_segments || options.rotated.cold_dir.is_some() {
        log.tidy_thread.request(tidy, now_unix_s, opening);
    } else {
        tidy.run(now_unix_s, opening, &AtomicBool::new(false));
    }
}

/// Whole seconds, as calendars count them.
pub(crate) fn seconds(unix_ns: u64) -> i64 {
    // 2^64 ns are less than 2^35 s.
    (unix_ns / 1_000_000_000) as i64
}

/// Opens file and directory anew where the program has closed their descriptors, whose numbers may be files of its
/// own by now: what is written there would destroy them. Costs one `fstat` where they are open.
fn keep_open(log: &mut LogFile) -> Result<(), FileError> {
    if log.active.file.is_open() {
        return Ok(());
    }
    let storage = log.directory.storage.clone();
    let notices: Notices = log.directory.notices.clone();
    let run_dirs = Arc::clone(&log.directory.run_dirs);
    let directory = LogDirectory::open(&log.directory.options, storage, notices)?.among(run_dirs);
    let fresh = Active::choose(&directory, seconds(log.checked_unix_ns))?;
    directory.notices.push(format_args!(
        "the program has closed the descriptor of the log file {}: it is opened again",
        log.path().display()
    ));
    if (fresh.dev, fresh.ino) == (log.active.dev, log.active.ino) {
        log.active.continue_in(fresh);
    } else {
        log.active.doubt(&log.directory, &log.unsynced);
        log.active = fresh;
    }
    let old = std::mem::replace(&mut log.directory, directory);
    // Its number may be the program's, so that it is not closed.
    std::mem::forget(old.dir);
    Ok(())
}
