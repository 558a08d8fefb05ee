//! Compaction of a segment that a person names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::compact::{compact, is_segment};
use super::compress::Outcome;
use super::directory::LogDirectory;
use super::error::{FileError, FileOperation};
use super::notices::Notices;
use super::options::FileOptions;
use super::storage::{Disk, OpenMode};
use super::unsynced::UnsyncedFiles;

/// Result of a compaction by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compacted {
    /// It was rewritten: its bytes before and after.
    Done {
        /// Bytes before.
        before: u64,
        /// Bytes after.
        after: u64,
    },
    /// Its blocks are full already.
    AsItIs,
    /// It has bytes that are no sound block, and is as it was.
    Damaged,
    /// A process writes to it.
    InUse,
    /// It is no segment.
    NoSegment,
}

/// Rewrites a segment in full blocks, at a level of zstd where one is given; then also where its blocks are full. The file
/// keeps its name; whoever reads it meanwhile has one or the other. Blocks for as long as it takes.
///
/// ```
/// use logdrive_drain::file::{Compacted, compact_segment};
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("a.log");
/// std::fs::write(&path, "no segment")?;
/// assert_eq!(compact_segment(&path, None)?, Compacted::NoSegment);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the file cannot be read, or one beside it cannot be written.
pub fn compact_segment(path: &Path, level: Option<i32>) -> Result<Compacted, FileError> {
    let mut options = FileOptions::new(path);
    // It is a file that a person names.
    options.trust_directory = true;
    let directory = LogDirectory::open(&options, Arc::new(Disk), Notices::default())?;
    let name = directory.names.active();
    let failed = |cause| FileError::io(FileOperation::Compress, PathBuf::from(path), cause);
    let length = || {
        directory
            .storage
            .stat(&directory.dir, Path::new(&name))
            .map_err(failed)
    };
    let before = length()?.bytes;
    let (storage, dir) = (directory.storage.as_ref(), &*directory.dir);
    let file = storage.open(dir, &name, OpenMode::ReadOnly).map_err(failed)?;
    if !is_segment(storage, &file).map_err(failed)? {
        return Ok(Compacted::NoSegment);
    }
    let (stop, unsynced) = (AtomicBool::new(false), UnsyncedFiles::default());
    match compact(storage, dir, &name, level, &stop, &unsynced).map_err(failed)? {
        Outcome::Done => Ok(Compacted::Done {
            before,
            after: length()?.bytes,
        }),
        Outcome::InUse => Ok(Compacted::InUse),
        Outcome::Damaged => Ok(Compacted::Damaged),
        Outcome::AsItIs | Outcome::Stopped => Ok(Compacted::AsItIs),
    }
}
