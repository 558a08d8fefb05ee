//! The files of a log in its directory: the rotated ones, the oldest first, and the one that is written.

use super::rotation_names::{RotationNames, is_unfinished};
use crate::limits::ENTRIES_MAX;
use std::cmp::Ordering;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file of a log, as its directory has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) bytes: u64,
    /// Time of its last change, in seconds and nanoseconds.
    pub(crate) modified: (i64, i64),
    /// True for the file at the log's own path.
    pub(crate) is_active: bool,
}

impl FoundFile {
    fn of(path: PathBuf, found: &Metadata, is_active: bool) -> Self {
        Self {
            path,
            dev: found.dev(),
            ino: found.ino(),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            is_active,
        }
    }
}

/// Returns the file at the log's path; `None` where there is none, or no regular one.
pub(crate) fn active_file(path: &Path) -> io::Result<Option<FoundFile>> {
    match path.metadata() {
        Ok(found) if found.is_file() => Ok(Some(FoundFile::of(path.to_owned(), &found, true))),
        Ok(_) => Ok(None),
        // Renamed, and not made anew so far.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lists the files of a log, the oldest first and the active one last. Links to rotated files are left out: they lead to
/// files that have names of their own.
pub(crate) fn list(path: &Path, names: &RotationNames) -> io::Result<Vec<FoundFile>> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)?.take(ENTRIES_MAX) {
        let entry = entry?;
        let name = entry.file_name();
        let is_rotated = |name: &str| names.is_rotated(name) && !is_unfinished(name);
        if !name.to_str().is_some_and(is_rotated) {
            continue;
        }
        // It may have been removed in between.
        let Ok(metadata) = entry.path().symlink_metadata() else {
            continue;
        };
        if metadata.is_file() {
            found.push(FoundFile::of(entry.path(), &metadata, false));
        }
    }
    found.sort_by(|a, b| {
        a.modified
            .cmp(&b.modified)
            .then_with(|| by_name(&a.path, &b.path))
    });
    found.extend(active_file(path)?);
    Ok(found)
}

/// Order of files that were written at one time: `app.log.10` is older than `app.log.9`; names with dates rise.
fn by_name(a: &Path, b: &Path) -> Ordering {
    let number = |path: &Path| -> Option<u64> { path.extension()?.to_str()?.parse().ok() };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        _ => a.cmp(b),
    }
}
