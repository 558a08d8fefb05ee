//! The log of agents that are killed, read and checked while it grows.
//!
//! Rotated files are removed when they have been read to their end, but for the newest few: an agent that is killed
//! while a file rotates leaves the next one something to write there.

use crate::{Error, checksum, rotation_key};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Lines by program and thread.
pub(crate) type Lines = BTreeMap<(u64, u64), u64>;

/// Rotated files that are left.
const LEFT: usize = 4;

/// Messages of a drain when records are missing or damaged; nothing of it is to be in this log.
const BAD_NEWS: [&str; 4] = ["damaged", " records dropped", "unknown callsite", "cannot"];

/// The log.
pub(crate) struct AgentLog {
    dir: PathBuf,
    /// Bytes read of each file, by inode.
    read: BTreeMap<u64, u64>,
    next: Lines,
    ended: BTreeSet<u32>,
    checked: u64,
}

impl AgentLog {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            read: BTreeMap::new(),
            next: Lines::new(),
            ended: BTreeSet::new(),
            checked: 0,
        }
    }

    /// Lines that were checked so far.
    pub(crate) fn checked(&self) -> u64 {
        self.checked
    }

    /// Whether the log says that a process has ended, once.
    pub(crate) fn take_end_of(&mut self, pid: u32) -> bool {
        self.ended.remove(&pid)
    }

    /// The number of lines of a thread; they are forgotten, and none may follow.
    pub(crate) fn take_lines(&mut self, program: u64, thread: u64) -> u64 {
        self.next.insert((program, thread), u64::MAX).unwrap_or(0)
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
        let mut paths = Vec::new();
        let Ok(entries) = std::fs::read_dir(&self.dir) else {
            return Ok(paths);
        };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                paths.push(path);
            }
        }
        paths.sort_by_key(|path| rotation_key(path));
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
        if let Some(notice) = line.strip_prefix("logdrive ") {
            return self.hear(notice);
        }
        let mut words = line.split(' ').skip(1);
        let mut number = |radix| u64::from_str_radix(words.next().unwrap_or(""), radix);
        let (Ok(program), Ok(thread), Ok(count), Ok(sum)) = (number(10), number(10), number(10), number(16))
        else {
            return Err("a torn line".to_owned());
        };
        if sum != checksum(program << 8 | thread, count) {
            return Err("a torn line".to_owned());
        }
        let next = self.next.entry((program, thread)).or_default();
        if count != *next {
            return Err(match *next {
                u64::MAX => "a line after the program's end".to_owned(),
                next if count < next => format!("a line that stands twice, {next} is next"),
                next => format!("lines are lost before this one, {next} is next"),
            });
        }
        *next += 1;
        self.checked += 1;
        Ok(())
    }

    /// Messages of the drain.
    fn hear(&mut self, notice: &str) -> Result<(), String> {
        if BAD_NEWS.iter().any(|word| notice.contains(word)) {
            return Err("the drain has bad news".to_owned());
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
