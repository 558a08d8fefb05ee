//! State of a delivery: how far the engine has the log, and the batch that it may have in part. It is written before a batch
//! is handed over, so that after a kill the same records go under the same numbers in the same batch.
//!
//! Each write replaces the file with the kernel only. Once a second, and before files of the log are removed, a copy is synced:
//! after a power cut the later one of both that is whole holds, under which some records go again with the same numbers.

use crate::error::EngineError;
use crate::limits::{STATE_BYTES_MAX, SYNC_INTERVAL};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Place between two blocks of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LogPosition {
    /// Device and inode of the segment.
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    /// Checksum of its first bytes.
    pub(crate) front: u32,
    /// Offset of the block.
    pub(crate) offset: u64,
}

impl LogPosition {
    /// Whether both are in one file.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.front) == (other.dev, other.ino, other.front)
    }
}

/// Number of the first record of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileStart {
    ino: u64,
    front: u32,
    pub(crate) number: u64,
}

impl FileStart {
    pub(crate) fn new(position: LogPosition, number: u64) -> Self {
        Self {
            ino: position.ino,
            front: position.front,
            number,
        }
    }

    /// Whether it is that of the file of a position.
    pub(crate) fn is_of(&self, position: LogPosition) -> bool {
        (self.ino, self.front) == (position.ino, position.front)
    }
}

/// State of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveryState {
    /// Id of the delivery.
    pub(crate) delivery: String,
    /// Place behind what the engine has; `None` at the start of the log.
    pub(crate) delivered: Option<LogPosition>,
    /// Number of the record there.
    pub(crate) number: u64,
    /// Place behind the batch that was begun.
    pub(crate) begun: Option<LogPosition>,
    /// Number behind the last record of the log that was counted.
    #[serde(default)]
    pub(crate) counted: u64,
    /// Numbers of the first records of the log's files, by which records of files that are gone are counted.
    #[serde(default)]
    pub(crate) starts: Vec<FileStart>,
}

impl DeliveryState {
    fn new() -> Self {
        Self {
            delivery: format!("{:016x}", fastrand::u64(..)),
            delivered: None,
            number: 0,
            begun: None,
            counted: 0,
            starts: Vec::new(),
        }
    }
}

/// File of a state, which one delivery has at a time.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// Time of the last sync; `None` before the first.
    synced: Option<Instant>,
    /// Locked while this exists.
    _lock: File,
}

impl StateFile {
    /// Takes the lock, and reads the state or makes a new one.
    pub(crate) fn open(path: &Path) -> Result<(Self, DeliveryState), EngineError> {
        let lock_path = path.with_extension("lock");
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path);
        let lock = lock.map_err(EngineError::file("open", &lock_path))?;
        lock.try_lock().map_err(|_| EngineError::InUse {
            path: path.to_owned(),
        })?;
        let mut file = Self {
            path: path.to_owned(),
            synced: None,
            _lock: lock,
        };
        let state = match (file.read(path), file.read(&file.copy())) {
            (Ok(Some(state)), Ok(Some(copy))) if copy.number > state.number => copy,
            (Ok(Some(state)), _) => state,
            // Removed by a person: a name that is there outlives a power cut.
            (Ok(None), _) => DeliveryState::new(),
            (Err(EngineError::State { .. }), Ok(Some(copy))) => copy,
            (Err(error), _) => return Err(error),
        };
        file.save(&state)?;
        Ok((file, state))
    }

    /// Path of the copy that is synced.
    fn copy(&self) -> PathBuf {
        self.path.with_extension("synced")
    }

    fn read(&self, path: &Path) -> Result<Option<DeliveryState>, EngineError> {
        let file = match File::open(path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(EngineError::file("open", path))?,
        };
        let mut text = String::new();
        let read = file.take(STATE_BYTES_MAX).read_to_string(&mut text);
        read.map_err(EngineError::file("read", path))?;
        let state = serde_json::from_str(&text).map_err(|error| EngineError::State {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
        Ok(Some(state))
    }

    /// Writes the state in the place of the one before, and syncs a copy where that was not done for a while.
    pub(crate) fn save(&mut self, state: &DeliveryState) -> Result<(), EngineError> {
        self.write(state, &self.path, false)?;
        match self.synced.is_none_or(|at| at.elapsed() >= SYNC_INTERVAL) {
            true => self.sync(state),
            false => Ok(()),
        }
    }

    /// Syncs a copy of the state.
    pub(crate) fn sync(&mut self, state: &DeliveryState) -> Result<(), EngineError> {
        self.write(state, &self.copy(), true)?;
        self.synced = Some(Instant::now());
        Ok(())
    }

    fn write(&self, state: &DeliveryState, path: &Path, syncs: bool) -> Result<(), EngineError> {
        let temporary = self.path.with_extension("tmp");
        let cannot = EngineError::file("write", &temporary);
        let text = serde_json::to_vec(state).map_err(|error| cannot(error.into()))?;
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(&text)?;
            if syncs { file.sync_data() } else { Ok(()) }
        };
        write().map_err(cannot)?;
        fs::rename(&temporary, path).map_err(EngineError::file("write", path))?;
        match path.parent().filter(|_| syncs) {
            // The name, too.
            Some(directory) => File::open(directory)
                .and_then(|directory| directory.sync_all())
                .map_err(EngineError::file("sync", directory)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back_and_has_one_owner() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("delivery.state");
        let (mut file, mut state) = StateFile::open(&path).expect("a state");
        assert!(matches!(StateFile::open(&path), Err(EngineError::InUse { .. })));
        state.number = 7;
        state.begun = Some(LogPosition {
            ino: 9,
            ..LogPosition::default()
        });
        file.save(&state).expect("written");
        drop(file);
        assert_eq!(StateFile::open(&path).expect("a state").1, state);
        fs::write(&path, "{").expect("written");
        fs::write(path.with_extension("synced"), "").expect("written");
        assert!(matches!(StateFile::open(&path), Err(EngineError::State { .. })));
    }

    #[test]
    fn the_later_of_both_states_that_is_whole_holds_after_a_power_cut() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("delivery.state");
        let (mut file, mut state) = StateFile::open(&path).expect("a state");
        let first = state.clone();
        state.number = 7;
        file.sync(&state).expect("synced");
        drop(file);
        // The name of the later one had not reached the disk.
        fs::write(&path, serde_json::to_vec(&first).expect("json")).expect("written");
        assert_eq!(StateFile::open(&path).expect("a state").1, state);
        // Its name had, but none of its bytes.
        fs::write(&path, "").expect("written");
        assert_eq!(StateFile::open(&path).expect("a state").1, state);
    }
}
