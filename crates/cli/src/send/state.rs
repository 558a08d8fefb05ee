//! How far a file was acknowledged: a small file that is replaced as a whole.

use super::follow::Mark;
use crate::error::CliError;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What is remembered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) session: u128,
    pub(super) epoch: u64,
    /// The number of the first record that is not acknowledged.
    pub(super) number: u64,
    /// Where that record begins.
    pub(super) mark: Mark,
}

/// Where the state of a file is unless told otherwise: beside those of other files, named after its path.
pub(super) fn default_path(file: &Path) -> Result<PathBuf, CliError> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .ok_or(CliError::NoDirectory {
            variable: "XDG_STATE_HOME",
        })?;
    let absolute = std::path::absolute(file).map_err(|cause| CliError::Open {
        path: file.to_owned(),
        cause,
    })?;
    let name = logdrive_drain::file::safe_name(&absolute.display().to_string());
    Ok(state.join("logdrive/send").join(name))
}

impl State {
    /// What the file says; `None` when there is none.
    pub(super) fn load(path: &Path) -> Result<Option<Self>, CliError> {
        let failed = |cause| CliError::Read {
            path: path.to_owned(),
            cause,
        };
        let file = match options().read(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(failed(cause)),
        };
        let mut text = String::new();
        file.take(1_024).read_to_string(&mut text).map_err(failed)?;
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
            mark: Mark {
                dev: number()?,
                ino: number()?,
                offset: number()?,
            },
        })
    }

    /// Replaces the file.
    pub(super) fn save(&self, path: &Path) -> Result<(), CliError> {
        let failed = |cause| CliError::Write {
            path: path.to_owned(),
            cause,
        };
        if let Some(directory) = path.parent() {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(failed)?;
        }
        let Mark { dev, ino, offset } = self.mark;
        let text = format!(
            "logdrive-send-1 {:032x} {} {} {dev} {ino} {offset}\n",
            self.session, self.epoch, self.number
        );
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let fresh = path.with_file_name(name);
        let mut file = options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&fresh)
            .map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        std::fs::rename(&fresh, path).map_err(failed)
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_back_and_rubbish_is_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a/b");
        assert_eq!(State::load(&path).expect("no file"), None);
        let state = State {
            session: u128::MAX,
            epoch: 1,
            number: u64::MAX,
            mark: Mark {
                dev: 2,
                ino: 3,
                offset: 4,
            },
        };
        state.save(&path).expect("written");
        assert_eq!(State::load(&path).expect("sound"), Some(state));
        std::fs::write(&path, "x").expect("written");
        assert!(State::load(&path).is_err());
    }
}
