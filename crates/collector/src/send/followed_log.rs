//! A log that is read while it is written, through rotation of any kind: each of its files is read to its end, each line
//! once.
//!
//! Files are recognised by their content, not by their names alone: a file that is renamed, copied and truncated,
//! or compressed goes on where it was read to; another file with the same inode begins at its start.

use super::content::LogContent;
use super::found_files::{FoundFile, active_file, list};
use super::position::FilePosition;
use super::rotation_names::RotationNames;
use super::state::{FileState, Run, SendState};
use super::tracked_file::{FileRead, TrackedFile};
use crate::error::CollectorError;
use crate::limits::{FILES_MAX, SCAN_INTERVAL};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Options for following a log.
#[derive(Debug, Clone, Copy)]
pub struct FollowOptions {
    /// True if what is written later is read, too.
    pub follows: bool,
    /// Time that a rotated file has to be quiet before it is taken for complete: the program may still write to it.
    pub rotate_wait: Duration,
    /// True if files that were rotated before the first start are read.
    pub takes_rotated: bool,
    /// True if lines are sent as typed records, several lines of a stack trace as one.
    pub as_records: bool,
}

/// Files, or rests of files, that were not read, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skips {
    /// Files that could not be read, such as for their permissions, or because a compressed one is damaged.
    pub unreadable: u64,
    /// Files that were removed before their end was read, as far as is known.
    pub removed: u64,
    /// Files that were truncated with no copy of them left, so that their last lines may be missing.
    pub truncated: u64,
    /// Files beyond the largest number of one log.
    pub too_many: u64,
}

impl Skips {
    /// Returns the number of skips.
    pub fn total(&self) -> u64 {
        self.unreadable + self.removed + self.truncated + self.too_many
    }
}

/// Lines of one file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogBatch {
    pub(crate) count: u32,
    pub(crate) key: u64,
    /// Position behind them.
    pub(crate) position: FilePosition,
    /// True if the last line had no end, so that what is written behind it is a line of its own.
    pub(crate) ends_run: bool,
}

/// A log that is read while it is written.
#[derive(Debug)]
pub struct FollowedLog {
    pub(crate) path: PathBuf,
    names: RotationNames,
    pub(crate) options: FollowOptions,
    /// The oldest first.
    files: Vec<TrackedFile>,
    /// File that the last lines came from.
    current: Option<u64>,
    /// Runs of the state that are read again first.
    replay: VecDeque<Run>,
    next_key: u64,
    scanned: Option<Instant>,
    skips: Skips,
    /// True before the first scan of a log that has no state with all of its files.
    is_first: bool,
}

impl FollowedLog {
    /// Opens a log, at the positions of a state where there is one. Where what is not acknowledged cannot be read again
    /// as it was, the state gets another epoch: then the collector may get some lines twice, and none is taken for another.
    ///
    /// # Errors
    /// When there is no such log, or it cannot be read.
    pub(crate) fn open(
        path: &Path,
        state: Option<&mut SendState>,
        options: FollowOptions,
    ) -> Result<Self, CollectorError> {
        let known = state.as_ref().map_or(&[][..], |state| &state.files);
        let mut log = Self {
            path: path.to_owned(),
            names: RotationNames::of(path),
            options,
            files: known
                .iter()
                .map(|file| TrackedFile::of_state(file, path.to_owned()).in_records(options.as_records))
                .collect(),
            current: None,
            replay: VecDeque::new(),
            next_key: known.iter().map(|file| file.key + 1).max().unwrap_or(1),
            scanned: None,
            skips: Skips::default(),
            is_first: known.iter().all(|file| file.acknowledged.tail_crc.is_none()),
        };
        if log.files.is_empty() {
            // Says why it cannot be read.
            LogContent::open(path).map_err(CollectorError::file("open", path))?;
        }
        log.scan()?;
        if let Some(state) = state {
            log.replay = std::mem::take(&mut state.runs);
            let is_same = std::mem::replace(&mut state.as_records, options.as_records) == options.as_records;
            match is_same && log.can_replay() {
                true => state.runs.clone_from(&log.replay),
                false => {
                    log.replay.clear();
                    state.renumber();
                }
            }
        }
        Ok(log)
    }

    /// Files, and rests of files, that were skipped so far.
    pub fn skips(&self) -> Skips {
        self.skips
    }

    pub(crate) fn follows(&self) -> bool {
        self.options.follows
    }

    /// Appends lines of one file. `None` when there are none now.
    pub(crate) fn read(
        &mut self,
        lines: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<Option<LogBatch>, CollectorError> {
        while let Some(run) = self.replay.front().copied() {
            if let Some(batch) = self.read_again(run, lines, bytes_max)? {
                return Ok(Some(batch));
            }
            self.replay.pop_front();
        }
        let batch = self.read_any(lines, bytes_max);
        if batch.is_some() || !self.is_scan_due()? {
            return Ok(batch);
        }
        self.scan()?;
        Ok(self.read_any(lines, bytes_max))
    }

    /// Notes that lines of a file are acknowledged.
    pub(crate) fn acknowledge(&mut self, key: u64, position: FilePosition) {
        if let Some(file) = self.files.iter_mut().find(|file| file.key == key) {
            file.acknowledged = position;
        }
    }

    pub(crate) fn states(&self) -> Vec<FileState> {
        self.files.iter().map(TrackedFile::state).collect()
    }

    /// Whether all files of the runs are there, as long as they have to be.
    fn can_replay(&mut self) -> bool {
        let files = &self.files;
        self.replay.iter().all(|run| {
            let file = files.iter().find(|file| file.key == run.key && file.is_open());
            file.is_some_and(|file| file.is_listed && run.end.is_none_or(|end| file.reaches(end)))
        })
    }

    /// Reads lines of a run that may have been sent before; `None` at its end.
    fn read_again(
        &mut self,
        run: Run,
        lines: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<Option<LogBatch>, CollectorError> {
        self.current = Some(run.key);
        let mut has_scanned = false;
        loop {
            let changed = || CollectorError::Changed {
                path: self.path.clone(),
            };
            let mut files = self.files.iter_mut();
            let file = files.find(|file| file.key == run.key).ok_or_else(changed)?;
            let is_at_end = |file: &TrackedFile| run.end.is_some_and(|end| file.position.offset >= end);
            if is_at_end(file) {
                return Ok(None);
            }
            match file.read(lines, bytes_max, run.end, false) {
                Ok(FileRead::Lines { count, .. }) => {
                    return Ok(Some(LogBatch {
                        count,
                        key: run.key,
                        position: file.position,
                        ends_run: is_at_end(file),
                    }));
                }
                Ok(FileRead::End) if run.end.is_none() => return Ok(None),
                // Rotated since: its content is elsewhere.
                _ if !has_scanned => {
                    self.scan()?;
                    has_scanned = true;
                }
                Ok(_) => return Err(changed()),
                Err(cause) => return Err(CollectorError::read(&file.path, cause)),
            }
        }
    }

    /// Reads the file that was read last, as long as it has lines, then the oldest one that has some.
    fn read_any(&mut self, lines: &mut Vec<u8>, bytes_max: usize) -> Option<LogBatch> {
        let current = self.current;
        let is_current = |file: &TrackedFile| Some(file.key) == current;
        let order = (self.files.iter().position(is_current).into_iter()).chain(0..self.files.len());
        for index in order {
            let file = self.files.get_mut(index)?;
            if file.has_failed || file.is_at_rest() {
                continue;
            }
            let takes_partial =
                !self.options.follows || (!file.is_active && file.is_quiet(self.options.rotate_wait));
            match file.read(lines, bytes_max, None, takes_partial) {
                Ok(FileRead::Lines { count, is_partial }) => {
                    self.current = Some(file.key);
                    return Some(LogBatch {
                        count,
                        key: file.key,
                        position: file.position,
                        ends_run: is_partial,
                    });
                }
                Ok(FileRead::End) if takes_partial && file.is_listed && !file.is_active => file.close(),
                Ok(FileRead::End) => {}
                Ok(FileRead::Changed) => self.scanned = None,
                // Renamed before it was opened: the next scan finds it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.scanned = None,
                Err(_) => {
                    file.has_failed = true;
                    self.skips.unreadable += 1;
                }
            }
        }
        None
    }

    /// Whether the directory has to be listed: from time to time, and when the log itself is another file.
    fn is_scan_due(&self) -> Result<bool, CollectorError> {
        let Some(scanned) = self.scanned else {
            return Ok(true);
        };
        if self.options.follows && scanned.elapsed() >= SCAN_INTERVAL {
            return Ok(true);
        }
        let found = active_file(&self.path).map_err(|cause| CollectorError::read(&self.path, cause))?;
        let active = self.files.iter().find(|file| file.is_active && file.is_listed);
        let identity = |file: Option<(u64, u64)>| file.unwrap_or_default();
        Ok(identity(found.map(|file| (file.dev, file.ino)))
            != identity(active.map(|file| (file.dev, file.ino))))
    }

    /// Lists the directory, and finds the content of each file among those that are known.
    fn scan(&mut self) -> Result<(), CollectorError> {
        let listed =
            list(&self.path, &self.names).map_err(|cause| CollectorError::read(&self.path, cause))?;
        self.scanned = Some(Instant::now());
        self.files.iter_mut().for_each(|file| file.is_listed = false);
        let mut unknown = Vec::new();
        for entry in &listed {
            let is_same = |file: &&mut TrackedFile| (file.dev, file.ino) == (entry.dev, entry.ino);
            match self.files.iter_mut().find(is_same) {
                Some(file) => {
                    // A file that cannot be read is taken for the same one; a read of it later counts it.
                    file.is_listed = file.is_still(entry).unwrap_or(true);
                    if !file.is_listed {
                        file.lose();
                        unknown.push(entry);
                    }
                }
                None => unknown.push(entry),
            }
        }
        let unknown = self.adopt(unknown, Self::has_content);
        let unknown = self.adopt(unknown, Self::is_shorter_copy);
        let first_read = self.first_read(&listed);
        self.skips.too_many = 0;
        for entry in unknown {
            let position = listed.iter().position(|one| one == entry);
            self.begin(entry, position.is_some_and(|at| at < first_read));
        }
        self.is_first = false;
        self.drop_gone();
        let place = |file: &TrackedFile| {
            listed
                .iter()
                .position(|entry| (entry.dev, entry.ino) == (file.dev, file.ino))
        };
        self.files.sort_by_key(place);
        Ok(())
    }

    /// Gives unknown files to known ones that are no longer where they were, and whose content they have by this rule.
    /// Returns those that are left.
    fn adopt<'a>(
        &mut self,
        unknown: Vec<&'a FoundFile>,
        rule: fn(&mut TrackedFile, &FoundFile, &mut LogContent) -> io::Result<bool>,
    ) -> Vec<&'a FoundFile> {
        let mut left = Vec::new();
        for entry in unknown {
            let Ok(mut content) = LogContent::open(&entry.path) else {
                left.push(entry);
                continue;
            };
            let mut moved = self
                .files
                .iter_mut()
                .filter(|file| !file.is_listed && file.position.head_bytes > 0);
            // A file that cannot be read is no copy; a read of it later counts it.
            match moved.find_map(|file| rule(file, entry, &mut content).ok()?.then_some(file)) {
                Some(file) => file.adopt(entry, Some(content)),
                None => left.push(entry),
            }
        }
        left
    }

    /// Whether a file has all that was read of a known one.
    fn has_content(file: &mut TrackedFile, _: &FoundFile, content: &mut LogContent) -> io::Result<bool> {
        file.position.is_in(content)
    }

    /// Whether a file is a copy of a known one that was read further than the copy goes.
    fn is_shorter_copy(
        file: &mut TrackedFile,
        entry: &FoundFile,
        content: &mut LogContent,
    ) -> io::Result<bool> {
        let is_copy = !entry.is_active
            && content
                .plain_size()?
                .is_some_and(|bytes| bytes <= file.position.offset)
            && file.position.begins(content)?;
        if is_copy {
            file.position = FilePosition::note(content, entry.bytes)?;
        }
        Ok(is_copy)
    }

    /// Place in the list of the first file that is read at the first start.
    fn first_read(&self, listed: &[FoundFile]) -> usize {
        if !self.is_first || self.options.takes_rotated {
            return 0;
        }
        let is_known = |entry: &FoundFile| {
            let mut known = self.files.iter().filter(|file| file.is_listed);
            known.any(|file| (file.dev, file.ino) == (entry.dev, entry.ino))
        };
        let known = listed.iter().position(is_known);
        let active = || listed.iter().position(|entry| entry.is_active);
        known.or_else(active).unwrap_or(listed.len())
    }

    /// Begins to read a file that is not known; `is_earlier` than the first start, its content is only noted.
    fn begin(&mut self, entry: &FoundFile, is_earlier: bool) {
        if self.files.len() >= FILES_MAX {
            self.skips.too_many += 1;
            return;
        }
        let mut file = TrackedFile::new(self.next_key, entry).in_records(self.options.as_records);
        if is_earlier {
            let noted = LogContent::open(&entry.path).and_then(|mut content| match content.plain_size()? {
                Some(bytes) => FilePosition::note(&mut content, bytes),
                None => Ok(FilePosition::UNREAD),
            });
            file.position = noted.unwrap_or(FilePosition::UNREAD);
            file.acknowledged = file.position;
        } else {
            // Where it cannot be opened, a read of it counts it.
            let opened = LogContent::open(&entry.path).ok();
            if opened.is_some_and(|mut content| self.is_unfinished_copy(entry, &mut content)) {
                return;
            }
        }
        self.next_key += 1;
        file.adopt(entry, None);
        self.files.push(file);
    }

    /// Whether a file may still be written by the program that rotates: a copy of a log that is there, or a compressed
    /// file that is young. The next scan decides.
    fn is_unfinished_copy(&mut self, entry: &FoundFile, content: &mut LogContent) -> bool {
        if entry.is_active {
            return false;
        }
        if content.is_compressed() {
            let modified = UNIX_EPOCH + Duration::from_secs(u64::try_from(entry.modified.0).unwrap_or(0));
            let age = SystemTime::now().duration_since(modified).unwrap_or_default();
            // Times of files have seconds here.
            let is_young = self.options.follows && age < self.options.rotate_wait + Duration::from_secs(1);
            return is_young || self.has_listed_content(content);
        }
        self.files
            .iter_mut()
            .any(|file| file.is_listed && file.has_copy(entry, content).unwrap_or(false))
    }

    /// Whether a file that is still there, and was read, has this content.
    fn has_listed_content(&mut self, content: &mut LogContent) -> bool {
        let mut read = self
            .files
            .iter()
            .filter(|file| file.is_listed && file.position.head_bytes > 0);
        read.any(|file| file.position.is_in(content).unwrap_or(false))
    }

    /// Forgets files that are gone, once they were read to their end as far as they can be.
    fn drop_gone(&mut self) {
        let wait = match self.options.follows {
            true => self.options.rotate_wait,
            false => Duration::ZERO,
        };
        let skips = &mut self.skips;
        self.files.retain(|file| {
            let is_read = !file.is_open() || file.is_quiet(wait);
            let is_acknowledged = file.acknowledged == file.position || !file.is_open();
            if file.is_listed || !is_read || !is_acknowledged {
                return true;
            }
            let has_more = file.is_active || file.position.offset < file.seen_bytes;
            if !file.is_open() && has_more && file.position.offset != u64::MAX {
                match file.is_overwritten() {
                    true => skips.truncated += 1,
                    false => skips.removed += 1,
                }
            }
            false
        });
    }
}

#[cfg(test)]
mod tests;
