//! Rewrites one rotated segment, so that a crash at any moment leaves its records once and whole: they go to a temporary
//! name, are synced, and take the name of the file, or its name in the cold directory before the file is removed.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use super::compress::{Outcome, copy_of, create_temporary, is_same, keep_time, lock_file};
use super::limits::{COLD_LEVEL, COPY_BLOCK_BYTES};
use super::names::{COLD_ENDING, COMPACT_ENDING};
use super::storage::{LockedFile, OpenMode, Reader, RenameMode, Stat, Storage, Writer, existing};
use super::unsynced::UnsyncedFiles;
use crate::segment::{self, Compaction};

fn reader<'a>(storage: &'a dyn Storage, file: &'a File) -> Reader<'a> {
    Reader {
        storage,
        file,
        offset: 0,
    }
}

pub(crate) fn is_segment(storage: &dyn Storage, file: &File) -> io::Result<bool> {
    let mut front = [0; 8];
    let length = reader(storage, file).fill(&mut front)?;
    Ok(segment::is_segment(&front[..length]))
}

/// Returns true if a file is a segment; `false` where it cannot be looked at, which whoever works on it finds out.
pub(crate) fn is_segment_named(storage: &dyn Storage, dir: &File, name: &str) -> bool {
    let file = existing(storage.open(dir, name, OpenMode::ReadOnly));
    matches!(file, Ok(Some(file)) if is_segment(storage, &file).unwrap_or(false))
}

/// Rewrites the segment `name` in full blocks where it has small ones, or blocks of a lower level of zstd than the one that is
/// given. After an error or a stop it is as it was.
pub(crate) fn compact(
    storage: &dyn Storage,
    dir: &File,
    name: &str,
    level: Option<i32>,
    stop: &AtomicBool,
    unsynced: &UnsyncedFiles,
) -> io::Result<Outcome> {
    let Some((source, stat)) = lock_file(storage, dir, name, OpenMode::ReadOnly)? else {
        return Ok(Outcome::InUse);
    };
    if segment::is_compact(reader(storage, &source), level)? {
        return Ok(Outcome::AsItIs);
    }
    let temporary = format!("{name}{COMPACT_ENDING}");
    let Some(copy) = create_temporary(storage, dir, &temporary, stat.mode)? else {
        return Ok(Outcome::InUse);
    };
    let rewritten = write_segment(storage, &source, &copy, level, stop);
    let finished = rewritten.and_then(|rewritten| {
        if rewritten == Compaction::Done {
            bring_to_disk(storage, (&source, &stat), &copy, unsynced)?;
            storage.rename(dir, &temporary, name, RenameMode::Replace)?;
        }
        Ok(rewritten)
    });
    let outcome = match finished {
        Ok(Compaction::Done) => {
            storage.sync_dir(dir)?;
            unsynced.settle(&stat);
            return Ok(Outcome::Done);
        }
        Ok(Compaction::Stopped) => Ok(Outcome::Stopped),
        // What is damaged stays as it is: a reader says what is lost of it.
        Ok(Compaction::Damaged) => Ok(Outcome::Damaged),
        Err(cause) => Err(cause),
    };
    // The first error has the cause; the next open removes the left-over.
    let _ = storage.remove(dir, &temporary);
    outcome
}

fn write_segment(
    storage: &dyn Storage,
    source: &File,
    copy: &File,
    level: Option<i32>,
    stop: &AtomicBool,
) -> io::Result<Compaction> {
    let writer = Writer {
        storage,
        file: copy,
        offset: 0,
    };
    segment::rewrite(reader(storage, source), writer, level, stop)
}

fn bring_to_disk(
    storage: &dyn Storage,
    (source, stat): (&File, &Stat),
    copy: &File,
    unsynced: &UnsyncedFiles,
) -> io::Result<()> {
    if unsynced.is_asked() {
        // Bytes that the disk did not take may have been read back wrong.
        storage
            .sync(source)
            .inspect_err(|cause| unsynced.fail(stat, copy_of(cause)))?;
    }
    storage.sync(copy)?;
    keep_time(source, copy);
    Ok(())
}

/// Moves a rotated file to the cold directory, which may be on another file system: a segment with stronger compression,
/// another file as it is. A file that is there already, because a crash has come before the removal, is compared.
pub(crate) fn move_to_cold(
    storage: &dyn Storage,
    (dir, cold): (&File, &File),
    name: &str,
    stop: &AtomicBool,
    unsynced: &UnsyncedFiles,
) -> io::Result<Outcome> {
    let Some((source, stat)) = lock_file(storage, dir, name, OpenMode::ReadOnly)? else {
        return Ok(Outcome::InUse);
    };
    if let Some(twin) = existing(storage.open(cold, name, OpenMode::ReadOnly))? {
        if !holds_same(storage, &source, &twin)? {
            let text =
                "the cold directory has another file of this name: give each log a directory of its own";
            return Err(io::Error::other(text));
        }
    } else {
        let outcome = copy_to_cold(storage, cold, (&source, &stat), name, stop, unsynced)?;
        if outcome != Outcome::Done {
            return Ok(outcome);
        }
    }
    storage.sync_dir(cold)?;
    unsynced.settle(&stat);
    storage.remove(dir, name)?;
    Ok(Outcome::Done)
}

fn copy_to_cold(
    storage: &dyn Storage,
    cold: &File,
    (source, stat): (&LockedFile, &Stat),
    name: &str,
    stop: &AtomicBool,
    unsynced: &UnsyncedFiles,
) -> io::Result<Outcome> {
    let temporary = format!("{name}{COLD_ENDING}");
    let Some(copy) = create_temporary(storage, cold, &temporary, stat.mode)? else {
        return Ok(Outcome::InUse);
    };
    let write = || -> io::Result<bool> {
        if is_segment(storage, source)? {
            match write_segment(storage, source, &copy, Some(COLD_LEVEL), stop)? {
                Compaction::Done => return Ok(true),
                Compaction::Stopped => return Ok(false),
                // It goes there as it is.
                Compaction::Damaged => storage.set_len(&copy, 0)?,
            }
        }
        copy_all(storage, source, &copy, stop)
    };
    let finished = write().and_then(|complete| {
        if complete {
            bring_to_disk(storage, (source, stat), &copy, unsynced)?;
            storage.rename(cold, &temporary, name, RenameMode::NoReplace)?;
        }
        Ok(complete)
    });
    match finished {
        Ok(true) => return Ok(Outcome::Done),
        Ok(false) => storage.remove(cold, &temporary)?,
        Err(cause) => {
            // As above.
            let _ = storage.remove(cold, &temporary);
            return Err(cause);
        }
    }
    Ok(Outcome::Stopped)
}

/// Copies the bytes; `false` when it was stopped before the end.
fn copy_all(storage: &dyn Storage, source: &File, copy: &File, stop: &AtomicBool) -> io::Result<bool> {
    let mut from = reader(storage, source);
    let mut to = Writer {
        storage,
        file: copy,
        offset: 0,
    };
    let mut block = vec![0; COPY_BLOCK_BYTES];
    // Relaxed: the flag carries no data, and one block more or less does not matter.
    while !stop.load(Ordering::Relaxed) {
        match from.read(&mut block) {
            Ok(0) => return Ok(true),
            Ok(read) => to.write_all(block.get(..read).unwrap_or(&[]))?,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(false)
}

/// Returns true if two files hold the same bytes, or the same records of segments.
fn holds_same(storage: &dyn Storage, one: &File, other: &File) -> io::Result<bool> {
    if !is_segment(storage, one)? || !is_segment(storage, other)? {
        return is_same(reader(storage, one), reader(storage, other));
    }
    let digest = segment::digest(reader(storage, one))?;
    if digest.is_none() {
        return is_same(reader(storage, one), reader(storage, other));
    }
    Ok(digest == segment::digest(reader(storage, other))?)
}
