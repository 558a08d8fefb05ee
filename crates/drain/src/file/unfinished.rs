//! Torn lines whose rest is still in the session of a dead process: the next owner of the log cuts them off, because the
//! recovery of that session writes them whole. Others only get an end.

use std::fs::File;

use logdrive_ring::{UnfinishedWrite, unfinished_writes};

use super::active::Active;
use super::directory::LogDirectory;
use super::rewrite::lines_bytes;
use super::storage::{Reader, Stat};

/// Finds the writes to a file that dead processes had begun, where it ends inside of a line.
pub(crate) fn find(directory: &LogDirectory, file: &File, stat: &Stat) -> Vec<UnfinishedWrite> {
    let mut last = [b'\n'];
    let last_offset = stat.bytes.saturating_sub(1);
    // What cannot be read is an error of the one who opens the file.
    let read = directory.storage.read_at(file, &mut last, last_offset);
    match read {
        Ok(1) if last != *b"\n" => (directory.run_dirs.iter())
            .flat_map(|run_dir| unfinished_writes(run_dir, stat.dev, stat.ino))
            .collect(),
        _ => Vec::new(),
    }
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
