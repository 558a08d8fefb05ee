//! Run directories: where sessions lie, and the search for them.

use super::Located;
use crate::error::CliError;
use crate::session_args::RunDirArgs;
use logdrive_ring::{FoundSession, RingError, default_run_dir, find_sessions};
use std::path::PathBuf;

/// The directory beside a log where a program keeps its session when shared memory cannot be used.
const BESIDE_LOG: &str = ".logdrive";

/// Returns the directories in which sessions are searched.
pub(super) fn run_dirs(args: &RunDirArgs) -> Result<Vec<PathBuf>, CliError> {
    if args.run_dir.is_empty() {
        return Ok(vec![default_run_dir(), PathBuf::from(BESIDE_LOG)]);
    }
    let mut dirs = Vec::new();
    for dir in &args.run_dir {
        if !dir.is_dir() {
            return Err(CliError::NoRunDir { path: dir.clone() });
        }
        dirs.push(dir.clone());
        dirs.push(dir.join(BESIDE_LOG));
    }
    Ok(dirs)
}

/// Returns the sessions of these directories with their holders; nothing more is read.
pub(super) fn find_all(dirs: &[PathBuf]) -> Result<Vec<Located>, CliError> {
    let located = |found: FoundSession| Located {
        path: found.path,
        holder: found.holder,
        entry: None,
    };
    let mut found = Vec::new();
    for dir in dirs {
        match find_sessions(dir) {
            Ok(sessions) => found.extend(sessions.into_iter().map(located)),
            // A directory of logs may be open to others where the one for sessions inside of it is not.
            Err(RingError::UnsafeDirectory { .. }) if dir.join(BESIDE_LOG).exists() => {}
            Err(cause) => {
                return Err(CliError::RunDir {
                    path: dir.clone(),
                    cause,
                });
            }
        }
    }
    Ok(found)
}

/// Returns the directories as text for people.
pub(super) fn dirs_text(dirs: &[PathBuf]) -> String {
    let names: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    names.join(" or ")
}
