//! State of a delivery: how far the engine has the log, and the batch that it may have in part. It is written before a batch
//! is handed over, so that after a kill the same records go under the same numbers in the same batch.

use crate::error::EngineError;
use crate::limits::STATE_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

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
}

impl DeliveryState {
    fn new() -> Self {
        Self {
            delivery: format!("{:016x}", fastrand::u64(..)),
            delivered: None,
            number: 0,
            begun: None,
        }
    }
}

/// File of a state, which one delivery has at a time.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
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
        let file = Self {
            path: path.to_owned(),
            _lock: lock,
        };
        let state = match file.read()? {
            Some(state) => state,
            None => {
                let state = DeliveryState::new();
                file.save(&state)?;
                state
            }
        };
        Ok((file, state))
    }

    fn read(&self) -> Result<Option<DeliveryState>, EngineError> {
        let file = match File::open(&self.path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(EngineError::file("open", &self.path))?,
        };
        let mut text = String::new();
        let read = file.take(STATE_BYTES_MAX).read_to_string(&mut text);
        read.map_err(EngineError::file("read", &self.path))?;
        let state = serde_json::from_str(&text).map_err(|error| EngineError::State {
            path: self.path.clone(),
            why: error.to_string(),
        })?;
        Ok(Some(state))
    }

    /// Writes the state in the place of the one before.
    pub(crate) fn save(&self, state: &DeliveryState) -> Result<(), EngineError> {
        let temporary = self.path.with_extension("tmp");
        let text = serde_json::to_vec(state).map_err(io::Error::from);
        text.and_then(|text| fs::write(&temporary, text))
            .map_err(EngineError::file("write", &temporary))?;
        fs::rename(&temporary, &self.path).map_err(EngineError::file("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back_and_has_one_owner() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("delivery.state");
        let (file, mut state) = StateFile::open(&path).expect("a state");
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
        assert!(matches!(StateFile::open(&path), Err(EngineError::State { .. })));
    }
}
