//! The state of a sender: up to where a file was acknowledged, in a small file that is replaced as a whole.

use super::position::FilePosition;
use crate::error::CollectorError;
use logdrive_ship::forward::files::{make_directory, read_text, replace};
use std::io;
use std::path::{Path, PathBuf};

/// State of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendState {
    /// Session under which the file's records are sent.
    pub session: u128,
    /// Epoch of their numbers.
    pub epoch: u64,
    /// Number of the first record that is not acknowledged.
    pub number: u64,
    /// Position at which that record begins.
    pub position: FilePosition,
}

/// Returns the path of a file's state in the user's state directory, where it is named after the file's path.
///
/// # Errors
/// When the environment names no state directory.
pub fn default_state_path(file: &Path) -> Result<PathBuf, CollectorError> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .ok_or(CollectorError::NoStateDirectory {
            variable: "XDG_STATE_HOME",
        })?;
    let absolute = std::path::absolute(file).map_err(CollectorError::file("open", file))?;
    let name = logdrive_drain::file::safe_name(&absolute.display().to_string());
    Ok(state.join("logdrive/send").join(name))
}

impl SendState {
    /// Reads a state; `None` when there is no such file.
    ///
    /// # Errors
    /// When the file cannot be read, or holds something else.
    pub fn load(path: &Path) -> Result<Option<Self>, CollectorError> {
        let failed = CollectorError::file("read", path);
        let Some(text) = read_text(path, 1_024).map_err(&failed)? else {
            return Ok(None);
        };
        let broken = || {
            failed(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is no state of `logdrive send`: remove it to send the file from its start",
            ))
        };
        Self::parse(&text).ok_or_else(broken).map(Some)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split_whitespace();
        if parts.next()? != "logdrive-send-1" {
            return None;
        }
        let session = u128::from_str_radix(parts.next()?, 16).ok()?;
        let mut number = || parts.next()?.parse::<u64>().ok();
        Some(Self {
            session,
            epoch: number()?,
            number: number()?,
            position: FilePosition {
                dev: number()?,
                ino: number()?,
                offset: number()?,
            },
        })
    }

    /// Replaces the file, so that it is whole after any end.
    pub(crate) fn save(&self, path: &Path) -> Result<(), CollectorError> {
        let failed = CollectorError::file("write", path);
        if let Some(directory) = path.parent() {
            make_directory(directory).map_err(&failed)?;
        }
        let FilePosition { dev, ino, offset } = self.position;
        let text = format!(
            "logdrive-send-1 {:032x} {} {} {dev} {ino} {offset}\n",
            self.session, self.epoch, self.number
        );
        replace(path, &text).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_back_and_rubbish_is_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a/b");
        assert_eq!(SendState::load(&path).expect("no file"), None);
        let state = SendState {
            session: u128::MAX,
            epoch: 1,
            number: u64::MAX,
            position: FilePosition {
                dev: 2,
                ino: 3,
                offset: 4,
            },
        };
        state.save(&path).expect("written");
        assert_eq!(SendState::load(&path).expect("sound"), Some(state));
        std::fs::write(&path, "x").expect("written");
        assert!(SendState::load(&path).is_err());
    }
}
