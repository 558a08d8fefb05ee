//! The account of what a sync has still to bring to the disk besides the active file: files that rotation has left
//! behind, and ranges that a failed sync has put in doubt.
//!
//! A file leaves the account when its sync worked, when its bytes are on the disk compressed, or when a rule of
//! retention removed it. Shared with the thread that compresses and removes.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::error::{FileError, FileOperation, SyncFailed, UnsyncedRange};
use super::limits::{LEFT_FILES_MAX, LEFT_OPEN_MAX, RANGES_MAX};
use super::storage::{LockedFile, OpenMode, Stat, Storage};

/// Everything that is written and was not synced, except in the active file. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnsyncedFiles(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Oldest first.
    files: VecDeque<LeftFile>,
    /// Ranges that no later sync can prove to be on disk.
    doubts: Vec<UnsyncedRange>,
    /// First error since the doubts were returned.
    error: Option<FileError>,
    /// The owner has asked for a sync.
    is_asked: bool,
}

/// A file that was the active one.
#[derive(Clone, Debug)]
struct LeftFile {
    range: UnsyncedRange,
    /// The descriptor that it was written with, which learns of every error since, where the owner asks for syncs. Without
    /// it the file is opened anew, and learns of what nobody was told.
    file: Option<Arc<File>>,
}

impl UnsyncedFiles {
    /// Takes over what a file that is left behind has unsynced; gives up its lock.
    pub(crate) fn leave(&self, storage: &dyn Storage, dir: &File, range: UnsyncedRange, file: LockedFile) {
        let mut state = self.state();
        let file = state.is_asked.then(|| file.give_up_lock());
        state.files.push_back(LeftFile {
            range,
            // Nor where there is no descriptor to spare.
            file: file.and_then(Result::ok).map(Arc::new),
        });
        if let Some(at) = state.files.len().checked_sub(LEFT_OPEN_MAX + 1)
            && let Some(older) = state.files.get_mut(at)
        {
            older.file = None;
        }
        let is_full = state.files.len() > LEFT_FILES_MAX;
        drop(state);
        if is_full {
            self.sync_oldest(storage, dir);
        }
    }

    /// The owner asks for a sync: from now on a file is compressed only when its bytes are known to be sound.
    pub(crate) fn ask(&self) {
        self.state().is_asked = true;
    }

    /// Returns true if the owner has asked for a sync before.
    pub(crate) fn is_asked(&self) -> bool {
        self.state().is_asked
    }

    /// Closes files that were deleted, so that their space is free. The next sync tells of them.
    pub(crate) fn release_deleted(&self, storage: &dyn Storage) {
        for left in &mut self.state().files {
            let stat = left.file.as_ref().map(|file| storage.stat_file(file));
            if matches!(stat, Some(Ok(stat)) if stat.links == 0) {
                left.file = None;
            }
        }
    }

    /// Forgets a file whose bytes are on the disk by another way, or are no longer wanted. Before it is removed.
    pub(crate) fn settle(&self, stat: &Stat) {
        self.state().files.retain(|left| !left.is(stat));
    }

    /// Notes bytes that may not be on disk, and can no longer be brought there from the file.
    pub(crate) fn doubt(&self, range: UnsyncedRange, error: FileError) {
        let mut state = self.state();
        if state.doubts.len() < RANGES_MAX {
            state.doubts.push(range);
        }
        state.error.get_or_insert(error);
    }

    /// The sync of a file has failed that another part of the program tried.
    pub(crate) fn fail(&self, stat: &Stat, cause: io::Error) {
        let mut state = self.state();
        let Some(at) = state.files.iter().position(|left| left.is(stat)) else {
            return;
        };
        let left = state.files.remove(at);
        drop(state);
        if let Some(left) = left {
            let error = FileError::io(FileOperation::Sync, &left.range.path, cause);
            self.doubt(left.range, error);
        }
    }

    /// Notes an error without bytes of its own, such as that of a directory.
    pub(crate) fn note(&self, error: FileError) {
        self.state().error.get_or_insert(error);
    }

    /// Syncs the files that were left behind, oldest first.
    pub(crate) fn sync_all(&self, storage: &dyn Storage, dir: &File) {
        while self.sync_oldest(storage, dir) {}
    }

    /// Syncs the oldest file; `false` when there is none.
    fn sync_oldest(&self, storage: &dyn Storage, dir: &File) -> bool {
        let Some(left) = self.state().files.front().cloned() else {
            return false;
        };
        let synced = left.sync(storage, dir);
        // It stayed in the account until now: the file may have been compressed, and be gone for that.
        let mut state = self.state();
        let is_it = |other: &LeftFile| other.range == left.range;
        let Some(at) = state.files.iter().position(is_it) else {
            return true;
        };
        state.files.remove(at);
        drop(state);
        if let Err(cause) = synced {
            let error = FileError::io(FileOperation::Sync, &left.range.path, cause);
            self.doubt(left.range, error);
        }
        true
    }

    /// Returns what is in doubt since the last call.
    pub(crate) fn take_failure(&self) -> Result<(), SyncFailed> {
        let mut state = self.state();
        match state.error.take() {
            None => Ok(()),
            Some(cause) => Err(SyncFailed {
                unsynced: std::mem::take(&mut state.doubts),
                cause,
            }),
        }
    }

    /// Nothing between lock and unlock panics, so a poisoned state is whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeftFile {
    /// Brings the file to the disk, and checks that it still has a name there.
    fn sync(&self, storage: &dyn Storage, dir: &File) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::new(self.open(storage, dir)?),
        };
        storage.sync(&file)?;
        if storage.stat_file(&file)?.links > 0 {
            return Ok(());
        }
        // Some file systems report no names at all.
        match storage.stat(dir, &self.range.path) {
            Ok(stat) if self.is(&stat) => Ok(()),
            _ => Err(Errno::NOENT.into()),
        }
    }

    fn open(&self, storage: &dyn Storage, dir: &File) -> io::Result<File> {
        let name = self.range.path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or(io::ErrorKind::NotFound)?;
        let file = storage.open(dir, name, OpenMode::ReadOnly)?;
        match self.is(&storage.stat_file(&file)?) {
            true => Ok(file),
            false => Err(Errno::NOENT.into()),
        }
    }

    fn is(&self, stat: &Stat) -> bool {
        (self.range.dev, self.range.ino) == (stat.dev, stat.ino)
    }
}
