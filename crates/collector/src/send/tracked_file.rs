//! A file of a log whose lines are read, recognised by its content whatever it is called.

use super::content::LogContent;
use super::found_files::FoundFile;
use super::lines::{HeldRecord, last_record, take_lines};
use super::position::FilePosition;
use super::state::FileState;
use memchr::memrchr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// A file of a log.
#[derive(Debug)]
pub(crate) struct TrackedFile {
    pub(crate) key: u64,
    pub(crate) path: PathBuf,
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    /// Position behind the last line that was read.
    pub(crate) position: FilePosition,
    pub(crate) acknowledged: FilePosition,
    pub(crate) seen_bytes: u64,
    seen_modified: Option<(i64, i64)>,
    pub(crate) is_active: bool,
    /// True if the directory has it.
    pub(crate) is_listed: bool,
    /// True if it could not be read, which was counted.
    pub(crate) has_failed: bool,
    /// `None` until it is read, and where the content is gone.
    content: Option<LogContent>,
    /// Time since which its end was read and nothing came.
    quiet_since: Option<Instant>,
    held: HeldRecord,
    /// Lines are sent as records: a read ends where the next line begins one, or at the end of what is there.
    as_records: bool,
}

/// End of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileRead {
    /// So many lines. The last one had no end where `is_partial`.
    Lines { count: u32, is_partial: bool },
    /// Nothing now.
    End,
    /// The file has other content than that of the position.
    Changed,
}

impl TrackedFile {
    /// A file that was not read so far.
    pub(crate) fn new(key: u64, listed: &FoundFile) -> Self {
        Self::of_state(
            &FileState {
                key,
                dev: listed.dev,
                ino: listed.ino,
                acknowledged: FilePosition {
                    tail_crc: Some(0),
                    ..FilePosition::default()
                },
                seen_bytes: listed.bytes,
                is_active: listed.is_active,
            },
            listed.path.clone(),
        )
    }

    pub(crate) fn of_state(state: &FileState, path: PathBuf) -> Self {
        Self {
            key: state.key,
            path,
            dev: state.dev,
            ino: state.ino,
            position: state.acknowledged,
            acknowledged: state.acknowledged,
            seen_bytes: state.seen_bytes,
            seen_modified: None,
            is_active: state.is_active,
            is_listed: false,
            has_failed: false,
            content: None,
            quiet_since: None,
            held: HeldRecord::default(),
            as_records: false,
        }
    }

    /// Reads whole records, or as much of one as there is.
    #[must_use]
    pub(crate) fn in_records(mut self, as_records: bool) -> Self {
        self.as_records = as_records;
        self
    }

    pub(crate) fn state(&self) -> FileState {
        FileState {
            key: self.key,
            dev: self.dev,
            ino: self.ino,
            // Also of what is read and not acknowledged, so that the content is found again by its first bytes.
            acknowledged: FilePosition {
                head_bytes: self.position.head_bytes,
                head_crc: self.position.head_crc,
                ..self.acknowledged
            },
            seen_bytes: self.seen_bytes,
            is_active: self.is_active,
        }
    }

    /// Whether a listed file with this inode still has the content; notes its name and size if so.
    pub(crate) fn is_still(&mut self, listed: &FoundFile) -> io::Result<bool> {
        let is_unchanged = self.seen_modified == Some(listed.modified) && self.seen_bytes == listed.bytes;
        if !is_unchanged && self.position.offset != u64::MAX {
            let mut content = LogContent::open(&listed.path)?;
            let found = content.metadata()?;
            if (found.dev(), found.ino()) != (listed.dev, listed.ino) {
                // Renamed in between: the next list says how.
                return Ok(true);
            }
            // Compressed files are not written again; to compare all of one after each start takes long.
            let is_known = content.is_compressed() && self.seen_bytes == listed.bytes;
            if !is_known && !self.position.is_in(&mut content)? {
                return Ok(false);
            }
            if self.position.tail_crc.is_none() {
                self.position = FilePosition::note(&mut content, self.position.offset)?;
                self.acknowledged = self.position;
            }
            // A file that is open goes on where it is.
            self.content.get_or_insert(content);
        }
        self.see(listed);
        Ok(true)
    }

    /// Goes on in a listed file, which has the content.
    pub(crate) fn adopt(&mut self, listed: &FoundFile, content: Option<LogContent>) {
        self.content = content;
        self.see(listed);
    }

    /// Closes the file, which is read again once it has changed.
    pub(crate) fn close(&mut self) {
        self.content = None;
    }

    /// Whether its end was read, it was closed, and it has not changed since.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.content.is_none() && self.quiet_since.is_some()
    }

    /// Forgets the content, which is overwritten or removed.
    pub(crate) fn lose(&mut self) {
        self.content = None;
        (self.dev, self.ino) = (0, 0);
    }

    fn see(&mut self, listed: &FoundFile) {
        if listed.bytes != self.seen_bytes {
            self.quiet_since = None;
        }
        self.path.clone_from(&listed.path);
        (self.dev, self.ino) = (listed.dev, listed.ino);
        (self.seen_bytes, self.seen_modified) = (listed.bytes, Some(listed.modified));
        (self.is_active, self.is_listed) = (listed.is_active, true);
    }

    /// Whether another file has its inode, or other content its file.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.ino == 0
    }

    /// Whether the content is as long as this offset, as far as that is known without reading it.
    pub(crate) fn reaches(&self, offset: u64) -> bool {
        let size = self.content.as_ref().map(LogContent::plain_size);
        size.is_some_and(|size| size.is_ok_and(|size| size.is_none_or(|bytes| bytes >= offset)))
    }

    /// Whether more can be read although no directory has it.
    pub(crate) fn is_open(&self) -> bool {
        self.content.is_some()
    }

    /// Whether its end was read, and nothing came for so long since.
    pub(crate) fn is_quiet(&self, wait: Duration) -> bool {
        self.quiet_since.is_some_and(|since| since.elapsed() >= wait)
    }

    /// Whether another file is a copy of this one, perhaps one that is not complete. A file that was written last before this
    /// one was made is none.
    pub(crate) fn has_copy(&mut self, listed: &FoundFile, other: &mut LogContent) -> io::Result<bool> {
        let own = self.open_content()?;
        let (Some(bytes @ 1..), Some(_)) = (other.plain_size()?, own.plain_size()?) else {
            return Ok(false);
        };
        let written = UNIX_EPOCH + Duration::from_secs(u64::try_from(listed.modified.0 + 1).unwrap_or(0));
        if own.metadata()?.created().is_ok_and(|made| made > written) {
            return Ok(false);
        }
        FilePosition::note(other, bytes)?.is_in(own)
    }

    /// Opens the file where it is not. Another one at its path is not it: that was rotated in between.
    fn open_content(&mut self) -> io::Result<&mut LogContent> {
        match &mut self.content {
            Some(content) => Ok(content),
            empty => {
                let content = LogContent::open(&self.path)?;
                let found = content.metadata()?;
                match (found.dev(), found.ino()) == (self.dev, self.ino) {
                    true => Ok(empty.insert(content)),
                    false => Err(io::ErrorKind::NotFound.into()),
                }
            }
        }
    }

    /// Appends lines, at most `bytes_max` bytes and none behind `until`. A line without its end is taken where
    /// `takes_partial`, and where it reaches `until`.
    pub(crate) fn read(
        &mut self,
        lines: &mut Vec<u8>,
        bytes_max: usize,
        until: Option<u64>,
        takes_partial: bool,
    ) -> io::Result<FileRead> {
        let position = self.position;
        if position.offset == u64::MAX {
            return Ok(FileRead::End);
        }
        let left = until.map_or(u64::MAX, |until| until.saturating_sub(position.offset));
        let wanted = usize::try_from(left).map_or(bytes_max, |left| left.min(bytes_max));
        let content = self.open_content()?;
        let before = position.tail_bytes();
        let mut fresh = vec![0; before + wanted];
        let length = content.read_at(&mut fresh, position.offset - before as u64)?;
        fresh.truncate(length);
        let tail: Vec<u8> = fresh.drain(..before.min(length)).collect();
        // Where its first bytes are read again, they are all that there is to compare.
        let is_at_head = (position.head_bytes as u64) > position.offset;
        if position.tail_crc != Some(crc32c::crc32c(&tail)) || (is_at_head && !position.is_in(content)?) {
            return Ok(FileRead::Changed);
        }
        let reaches_until = fresh.len() as u64 == left;
        let end = match memrchr(b'\n', &fresh) {
            Some(at) => at + 1,
            // Longer than a batch, or a line whose end will not be written.
            None if fresh.len() >= bytes_max || takes_partial || reaches_until => fresh.len(),
            None => 0,
        };
        if end == 0 {
            self.quiet_since.get_or_insert_with(Instant::now);
            return Ok(FileRead::End);
        }
        let is_last = takes_partial || reaches_until || fresh.get(end - 1) != Some(&b'\n');
        let whole = end;
        let text = fresh.get(..whole).unwrap_or_default();
        let is_full = fresh.len() >= bytes_max;
        let (end, is_cut) = match is_last {
            true => (whole, false),
            false if is_full && self.as_records => match last_record(text) {
                (0, _) => (whole, false),
                found => found,
            },
            false => (self.held.end(text, is_full, Instant::now()), false),
        };
        if end == 0 {
            return Ok(FileRead::End);
        }
        self.quiet_since = None;
        // More lines may come that belong to the last record: a read after a kill has to end here, too.
        let is_open = self.as_records && (end == whole || is_cut) && !reaches_until;
        let is_partial = is_open || fresh.get(end - 1) != Some(&b'\n');
        fresh.truncate(end);
        self.position.advance(&tail, &fresh);
        let count = take_lines(&mut fresh, end, lines);
        Ok(FileRead::Lines { count, is_partial })
    }
}
