//! The log of agents that are killed, read and checked while it grows.
//!
//! Rotated files are removed when they have been read to their end, but for the newest few: an agent that is killed
//! while a file rotates leaves the next one something to write there.

use crate::lines::Lines;
use crate::{Error, log_files};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Rotated files that are left.
const LEFT: usize = 4;

/// Messages of a drain when records are missing or damaged; nothing of it is to be in this log.
const BAD_NOTICES: [&str; 4] = ["damaged", " records dropped", "unknown callsite", "cannot"];

/// The log.
pub(crate) struct AgentLog {
    dir: PathBuf,
    /// Bytes read of each file, by inode.
    read: BTreeMap<u64, u64>,
    /// Lines of the programs.
    pub(crate) lines: Lines,
    ended: BTreeSet<u32>,
}

impl AgentLog {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            read: BTreeMap::new(),
            lines: Lines::default(),
            ended: BTreeSet::new(),
        }
    }

    /// Returns whether the log says that a process has ended, once.
    pub(crate) fn take_end_of(&mut self, pid: u32) -> bool {
        self.ended.remove(&pid)
    }

    /// Reads what has come since the last look.
    pub(crate) fn read_on(&mut self) -> Result<(), Error> {
        loop {
            let files = self.files()?;
            let Some((active, rotated)) = files.split_last() else {
                return Ok(());
            };
            for path in rotated {
                self.read_file(path, &File::open(path)?)?;
            }
            for old in rotated.iter().rev().skip(LEFT) {
                self.read.remove(&std::fs::metadata(old)?.ino());
                std::fs::remove_file(old)?;
            }
            let Ok(file) = File::open(active) else {
                return Ok(());
            };
            // What was the active file when the list was made may have been rotated since, and more than once.
            if self.files()? == files {
                return self.read_file(active, &file);
            }
        }
    }

    /// The files in the order of their lines; the last one is that which is written.
    fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let mut paths = log_files(&self.dir)?;
        // In the middle of a rotation there is no active file.
        if paths.last().is_some_and(|last| !last.ends_with("crash.log")) {
            paths.push(self.dir.join("crash.log"));
        }
        Ok(paths)
    }

    /// Reads whole lines from where the last look at this file ended.
    fn read_file(&mut self, path: &Path, file: &File) -> Result<(), Error> {
        let found = file.metadata()?;
        let from = self.read.get(&found.ino()).copied().unwrap_or(0);
        let mut bytes = vec![0; usize::try_from(found.len().saturating_sub(from))?];
        let length = read_at_most(file, &mut bytes, from)?;
        let whole = bytes[..length]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(line)?.trim_end_matches('\n');
            self.check(line)
                .map_err(|why| format!("{why}: {line:?} in {}", path.display()))?;
        }
        self.read.insert(found.ino(), from + whole as u64);
        Ok(())
    }

    fn check(&mut self, line: &str) -> Result<(), String> {
        match line.strip_prefix("logdrive ") {
            Some(notice) => self.take_notice(notice),
            None => self.lines.check(line),
        }
    }

    /// Messages of the drain.
    fn take_notice(&mut self, notice: &str) -> Result<(), String> {
        if BAD_NOTICES.iter().any(|word| notice.contains(word)) {
            return Err("the drain reports a failure".to_owned());
        }
        let ended = notice.strip_prefix("process ").and_then(|rest| {
            let (pid, rest) = rest.split_once(' ')?;
            rest.contains("was ended by signal 9")
                .then(|| pid.parse::<u32>().ok())
                .flatten()
        });
        self.ended.extend(ended);
        Ok(())
    }
}

/// Fills the buffer as far as the file goes.
fn read_at_most(file: &File, bytes: &mut [u8], from: u64) -> Result<usize, Error> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], from + length as u64)? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}
