//! The choice of the file that a process owns: the configured path, or a name beside it where
//! another process has that.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::active::Active;
use super::directory::LogDirectory;
use super::error::{FileError, FileOperation};
use super::limits::{BESIDE_MAX, OPEN_RACES_MAX};
use super::notices::Notices;
use super::options::FileOptions;
use super::storage::{FileKind, LockedFile, OpenMode, Storage, existing};
use super::unfinished;
use logdrive_ring::UnfinishedWrite;

impl Active {
    /// Opens and locks the file that this process will own: the configured one, or one beside it where
    /// another process has that.
    pub(crate) fn choose(directory: &LogDirectory, now_unix_s: i64) -> Result<Active, FileError> {
        let configured = directory.names.active();
        if let Some(active) = open_file(directory, &configured, now_unix_s)? {
            return Ok(active);
        }
        for attempt in 1..=BESIDE_MAX {
            let name = directory.names.beside(std::process::id(), attempt);
            if let Some(active) = open_file(directory, &name, now_unix_s)? {
                directory.notices.push(format_args!(
                    "the log file {} is in use by another process: this one writes to {}",
                    directory.path_of(&configured).display(),
                    directory.path_of(&name).display(),
                ));
                return Ok(active);
            }
        }
        Err(FileError::Locked {
            path: directory.path_of(&configured),
        })
    }
}

/// Returns true if another process has the log. A log that cannot be looked at counts as free: whoever opens it says why.
pub(crate) fn is_locked(options: &FileOptions, storage: &Arc<dyn Storage>) -> bool {
    let look = || {
        let directory = LogDirectory::open(options, Arc::clone(storage), Notices::default()).ok()?;
        let name = directory.names.active();
        let stat = directory.storage.stat(&directory.dir, Path::new(&name)).ok()?;
        if stat.kind != FileKind::Regular {
            return None;
        }
        let file = directory
            .storage
            .open(&directory.dir, &name, OpenMode::Existing)
            .ok()?;
        let file = LockedFile::new(file);
        directory.storage.lock(&file).ok()
    };
    look() == Some(false)
}

/// Opens or makes a file and takes its lock; `None` when another process holds it.
fn open_file(directory: &LogDirectory, name: &str, now_unix_s: i64) -> Result<Option<Active>, FileError> {
    let path = directory.path_of(name);
    let mut cause = io::Error::from(rustix::io::Errno::AGAIN);
    for _ in 0..OPEN_RACES_MAX {
        let named = existing(directory.storage.stat(&directory.dir, Path::new(name)))
            .map_err(|cause| FileError::io(FileOperation::Inspect, &path, cause))?;
        let how = match named.map(|stat| stat.kind) {
            None => OpenMode::New(directory.options.mode),
            Some(FileKind::Regular) => OpenMode::Append,
            Some(FileKind::Fifo | FileKind::CharDevice) => OpenMode::Stream,
            Some(FileKind::Link) => return Err(FileError::FileIsLink { path }),
            Some(kind) => {
                let what = match kind {
                    FileKind::Directory => "directory",
                    _ => "socket or block device",
                };
                return Err(FileError::NotAFile { path, what });
            }
        };
        let file = match directory.storage.open(&directory.dir, name, how) {
            Ok(file) => file,
            // Another program made or removed it after the check.
            Err(found) if is_race(&found) => {
                cause = found;
                continue;
            }
            Err(cause) => return Err(FileError::io(FileOperation::Open, path, cause)),
        };
        let stat = directory.stat_file(&file, name)?;
        let expected = match how {
            OpenMode::Stream => matches!(stat.kind, FileKind::Fifo | FileKind::CharDevice),
            _ => stat.kind == FileKind::Regular,
        };
        if !expected {
            continue;
        }
        if how == OpenMode::Stream {
            // Whoever made it reads what is written to it.
            directory.check_owner(&path, &stat)?;
            return Ok(Some(Active::stream(file, name, &stat)));
        }
        directory.check_owner(&path, &stat)?;
        // Before the lock: a recovery that finds the lock taken writes elsewhere, and removes the session.
        let begun = unfinished::find(directory, &file, &stat);
        if !directory.lock(&file, &path)? {
            return Ok(None);
        }
        if !directory.still_named(name, &stat)? {
            // Its owner rotated it between our open and our lock.
            continue;
        }
        return adopt(directory, file, name, now_unix_s, &begun).map(Some);
    }
    // Where no other program is at work, the system makes no files here, as in /proc.
    Err(FileError::io(FileOperation::Open, path, cause))
}

/// Takes over a file whose lock is ours.
fn adopt(
    directory: &LogDirectory,
    file: File,
    name: &str,
    now_unix_s: i64,
    begun: &[UnfinishedWrite],
) -> Result<Active, FileError> {
    // Under the lock: the owner before us may have written since we looked.
    let stat = directory.stat_file(&file, name)?;
    // What an earlier process wrote in an earlier period is rotated as if it were our own.
    let written_unix_s = match stat.bytes {
        0 => now_unix_s,
        _ => stat.modified_unix_s.min(now_unix_s),
    };
    let mut active = Active::regular(file, name, &stat, directory.period(written_unix_s));
    active.check_last_line(directory)?;
    if active.torn && !unfinished::cut(&mut active, directory, begun) {
        // Its writer may have been killed in between.
        let begun = unfinished::find(directory, &active.file, &stat);
        unfinished::cut(&mut active, directory, &begun);
    }
    active.check_header(directory)?;
    Ok(active)
}

fn is_race(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
    )
}
