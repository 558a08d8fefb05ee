//! Torn lines whose rest is still in the session of a dead process: the next owner of the log cuts them off, because the
//! recovery of that session writes them whole. Others only get an end.

use std::fs::File;
use std::path::PathBuf;

use logdrive_ring::{UnfinishedWrite, default_run_dir, unfinished_writes};

use super::active::Active;
use super::directory::LogDirectory;
use super::rewrite::lines_bytes;
use super::storage::{Reader, Stat};

/// Name of the directory of sessions beside a log, for a program whose default run directory has no room.
pub(crate) const BESIDE_LOG: &str = ".logdrive";

/// Finds the writes to a file that dead processes had begun, where it ends inside of a line.
pub(crate) fn find(directory: &LogDirectory, file: &File, stat: &Stat) -> Vec<UnfinishedWrite> {
    let mut last = [b'\n'];
    let last_offset = stat.bytes.saturating_sub(1);
    // What cannot be read is an error of the one who opens the file.
    let read = directory.storage.read_at(file, &mut last, last_offset);
    match read {
        Ok(1) if last != *b"\n" => (run_dirs(directory).iter())
            .flat_map(|run_dir| unfinished_writes(run_dir, stat.dev, stat.ino))
            .collect(),
        _ => Vec::new(),
    }
}

/// Places of sessions that may have begun a write: the run directories of who asks, and those in which other programs with
/// the same log put theirs unless they are told otherwise.
fn run_dirs(directory: &LogDirectory) -> Vec<PathBuf> {
    let beside = directory.options.path.parent().map(|dir| dir.join(BESIDE_LOG));
    let others = std::iter::once(default_run_dir()).chain(beside);
    let mut all = directory.run_dirs.to_vec();
    for other in others {
        if !all.contains(&other) {
            all.push(other);
        }
    }
    all
}

/// Cuts the torn line off if it is one of these writes, whose recovery finds the whole lines before it in their place.
/// Returns whether it was.
pub(crate) fn cut(active: &mut Active, directory: &LogDirectory, begun: &[UnfinishedWrite]) -> bool {
    let found = begun
        .iter()
        .find_map(|write| whole_lines_end(active, directory, write));
    if let Some(end_offset) = found {
        active.torn = false;
        // Where that fails, it is done before the next chunk is placed.
        let _ = active.truncate(directory, end_offset);
    }
    found.is_some()
}

/// Offset behind the last whole line of a write, if the file ends with a part of that write.
fn whole_lines_end(active: &Active, directory: &LogDirectory, write: &UnfinishedWrite) -> Option<u64> {
    let length = usize::try_from(active.end_offset.checked_sub(write.offset)?).ok()?;
    let expected = write.bytes.get(..length)?;
    let mut found = vec![0; length];
    let mut reader = Reader {
        storage: directory.storage.as_ref(),
        file: &active.file,
        offset: write.offset,
    };
    let filled = reader.fill(&mut found).ok()?;
    (filled == length && found == expected).then(|| write.offset + lines_bytes(expected) as u64)
}
