//! The directories that an agent's log files lie in: each belongs to one agent.

use crate::config::SinkConfig;
use crate::error::AgentError;
use crate::path_lock::PathLock;
use logdrive_drain::Target;
use logdrive_drain::file::FileOptions;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The lock file in a directory of log files.
const LOCK: &str = ".logdrive-agent.lock";

/// By device and inode, so that a directory with two names is one.
type Claimed = Vec<((u64, u64), PathLock)>;

/// The directories that this agent has: shared by the agent and those who open its files.
#[derive(Debug, Default)]
pub(crate) struct LogDirectories {
    claimed: Arc<Mutex<Claimed>>,
}

impl LogDirectories {
    /// For another thread: takes the directory of a file as [`LogDirectories::claim_for`] does, as long as the agent is there.
    pub(crate) fn claimer(&self, target: Target) -> impl FnMut() -> Result<(), String> + Send + 'static {
        let claimed = Arc::downgrade(&self.claimed);
        move || match claimed.upgrade() {
            Some(claimed) => Self { claimed }
                .claim_for(&target)
                .map_err(|error| error.to_string()),
            None => Err("the agent ends".to_owned()),
        }
    }

    fn claimed(&self) -> MutexGuard<'_, Claimed> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the directory of a file, which is made if it is missing. A pipe or a device has none.
    ///
    /// # Errors
    /// Fails when another agent has it, or it cannot be made or locked.
    pub(crate) fn claim_for(&self, target: &Target) -> Result<(), AgentError> {
        let Target::File(file) = target else {
            return Ok(());
        };
        let is_device = fs::metadata(&file.path).is_ok_and(|found| !found.is_file());
        match file.path.parent() {
            Some(dir) if !is_device => self.claim_directory(dir, file),
            _ => Ok(()),
        }
    }

    /// The same for a sink that is several files, as far as its directory is known.
    pub(crate) fn claim_known(&self, sink: &SinkConfig) -> Result<(), AgentError> {
        let Target::File(file) = &sink.options.target else {
            return Ok(());
        };
        match file.path.parent() {
            Some(dir) if !dir.to_string_lossy().contains('{') => self.claim_directory(dir, file),
            _ => Ok(()),
        }
    }

    fn claim_directory(&self, dir: &Path, file: &FileOptions) -> Result<(), AgentError> {
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        let made = DirBuilder::new().recursive(true).mode(file.dir_mode).create(dir);
        made.map_err(|cause| AgentError::io("make the directory", dir, cause))?;
        let found = fs::metadata(dir).map_err(|cause| AgentError::io("look at", dir, cause))?;
        let id = (found.dev(), found.ino());
        let mut claimed = self.claimed();
        if claimed.iter().any(|(claimed, _)| *claimed == id) {
            return Ok(());
        }
        let lock = PathLock::acquire_file(&dir.join(LOCK), dir)?;
        claimed.push((id, lock));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_drain::SinkOptions;

    fn file(path: impl Into<std::path::PathBuf>) -> SinkOptions {
        SinkOptions::new(Target::File(FileOptions::new(path)))
    }

    #[test]
    fn a_directory_has_one_agent_under_whatever_name() {
        let keep = tempfile::tempdir().expect("a directory");
        let logs = keep.path().join("deep/logs");
        let first = LogDirectories::default();
        first
            .claim_for(&file(logs.join("a.log")).target)
            .expect("it is free");
        first
            .claim_for(&file(logs.join("b.log")).target)
            .expect("it is ours");
        let link = keep.path().join("link");
        std::os::unix::fs::symlink(&logs, &link).expect("a link");
        first
            .claim_for(&file(link.join("c.log")).target)
            .expect("it is ours");
        let second = LogDirectories::default();
        let error = second
            .claim_for(&file(link.join("c.log")).target)
            .expect_err("taken")
            .to_string();
        let expected = format!("another agent, process {}", std::process::id());
        assert!(error.contains(&expected) && error.contains("link"), "{error}");
        let sink = SinkConfig::file("main", logs.join("{app}.log"));
        assert!(second.claim_known(&sink).is_err());
        let elsewhere = SinkConfig::file("main", logs.join("{app}/x.log"));
        second
            .claim_known(&elsewhere)
            .expect("its directory is not known yet");
        drop(first);
        second.claim_known(&sink).expect("it is free again");
    }

    #[test]
    fn devices_have_no_directory_to_take() {
        let directories = LogDirectories::default();
        directories
            .claim_for(&file("/dev/full").target)
            .expect("nothing to lock");
        directories.claim_for(&Target::Stderr).expect("nothing to lock");
        assert!(directories.claimed().is_empty());
    }
}
