//! Reading a log file while it grows, through rotation: what was renamed is read to its end, then what came after it.

use super::state::State;
use crate::error::CliError;
use memchr::{memchr_iter, memrchr};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait at the end of a file before looking again.
const PAUSE: Duration = Duration::from_millis(100);

/// A place in a file, whatever it is called by now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) offset: u64,
}

/// Where lines come from.
pub(super) enum Input {
    Stdin { rest: Vec<u8>, has_ended: bool },
    File(Box<Follow>),
}

impl Input {
    pub(super) fn stdin() -> Self {
        Self::Stdin {
            rest: Vec::new(),
            has_ended: false,
        }
    }

    /// Appends whole lines, and gives their number; 0 when there are none now. `last`: no more will be asked for, so that
    /// a line without its end is taken too.
    pub(super) fn read(
        &mut self,
        lines: &mut Vec<u8>,
        bytes_max: usize,
        last: bool,
    ) -> Result<u32, CliError> {
        match self {
            Self::File(follow) => follow.read(lines, bytes_max),
            Self::Stdin { rest, has_ended } => read_stdin(rest, has_ended, lines, bytes_max, last),
        }
    }

    /// Whether more may come although nothing came.
    pub(super) fn goes_on(&self) -> bool {
        match self {
            Self::Stdin { has_ended, .. } => !has_ended,
            Self::File(follow) => follow.follows,
        }
    }

    pub(super) fn pause(&self) -> Duration {
        match self {
            Self::Stdin { .. } => Duration::ZERO,
            Self::File(_) => PAUSE,
        }
    }

    /// Behind the last line that was read.
    pub(super) fn mark(&self) -> Mark {
        match self {
            Self::Stdin { .. } => Mark::default(),
            Self::File(follow) => follow.mark,
        }
    }
}

fn read_stdin(
    rest: &mut Vec<u8>,
    has_ended: &mut bool,
    lines: &mut Vec<u8>,
    bytes_max: usize,
    last: bool,
) -> Result<u32, CliError> {
    let failed = |cause| CliError::Read {
        path: PathBuf::from("-"),
        cause,
    };
    let stdin = io::stdin();
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    // So that acknowledgements and signals are looked at while nothing comes.
    let is_ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&wait)).unwrap_or(0) > 0;
    if is_ready && !*has_ended {
        let held = rest.len();
        rest.resize(held + bytes_max, 0);
        let got = rustix::io::read(&stdin, rest.get_mut(held..).unwrap_or(&mut []));
        let length = match got {
            Ok(length) => length,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {
                rest.truncate(held);
                return Ok(0);
            }
            Err(error) => return Err(failed(error.into())),
        };
        rest.truncate(held + length);
        *has_ended = length == 0;
    }
    // A line that never ends is cut into pieces that fit.
    let end = match memrchr(b'\n', rest) {
        Some(at) => at + 1,
        None if *has_ended || last || rest.len() >= bytes_max => rest.len(),
        None => 0,
    };
    Ok(take_lines(rest, end, lines))
}

/// Moves the first `end` bytes over as lines.
fn take_lines(rest: &mut Vec<u8>, end: usize, lines: &mut Vec<u8>) -> u32 {
    lines.extend(rest.drain(..end));
    if lines.last().is_some_and(|byte| *byte != b'\n') {
        lines.push(b'\n');
    }
    u32::try_from(memchr_iter(b'\n', lines).count()).unwrap_or(u32::MAX)
}

/// A file that is followed.
pub(super) struct Follow {
    path: PathBuf,
    file: File,
    mark: Mark,
    pub(super) follows: bool,
    /// Rotated files that come before the one at the path.
    behind: std::collections::VecDeque<PathBuf>,
}

impl Follow {
    /// Opens the file, or what it was renamed to since the state was written.
    pub(super) fn open(path: &Path, state: Option<&State>, follows: bool) -> Result<Self, CliError> {
        let mark = state.map(|state| state.mark).filter(|mark| mark.ino != 0);
        let mut behind = match mark {
            Some(mark) => rotated_since(path, mark).map_err(|cause| failed(path, cause))?,
            None => std::collections::VecDeque::new(),
        };
        let first = behind.pop_front().unwrap_or_else(|| path.to_owned());
        let (file, mut start) = open(&first)?;
        if let Some(mark) = mark.filter(|mark| (mark.dev, mark.ino) == (start.dev, start.ino)) {
            let length = file.metadata().map_err(|cause| failed(path, cause))?.len();
            // A file that is shorter than what was acknowledged of it has begun anew.
            start.offset = if mark.offset <= length { mark.offset } else { 0 };
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            mark: start,
            follows,
            behind,
        })
    }

    fn read(&mut self, lines: &mut Vec<u8>, bytes_max: usize) -> Result<u32, CliError> {
        let cannot = |cause| failed(&self.path, cause);
        let mut bytes = vec![0; bytes_max];
        let length = self.file.read_at(&mut bytes, self.mark.offset).map_err(cannot)?;
        bytes.truncate(length);
        let is_at_end = length < bytes_max;
        let has_successor = is_at_end && self.has_successor().map_err(cannot)?;
        let end = match memrchr(b'\n', &bytes) {
            Some(at) => at + 1,
            // Longer than a batch, or nobody will write its end.
            None if !is_at_end || has_successor || !self.follows => length,
            None => 0,
        };
        if end > 0 {
            self.mark.offset += end as u64;
            return Ok(take_lines(&mut bytes, end, lines));
        }
        if length == 0 && has_successor {
            self.turn_over()?;
            return self.read(lines, bytes_max);
        }
        if is_at_end && self.file.metadata().map_err(cannot)?.len() < self.mark.offset {
            self.mark.offset = 0;
        }
        Ok(0)
    }

    /// Whether there is a file behind this one: of a rotation, or at the path.
    fn has_successor(&self) -> io::Result<bool> {
        if !self.behind.is_empty() {
            return Ok(true);
        }
        match self.path.metadata() {
            Ok(found) => Ok((found.dev(), found.ino()) != (self.mark.dev, self.mark.ino)),
            // Renamed, and not made anew so far.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn turn_over(&mut self) -> Result<(), CliError> {
        // Between the two looks it may have been rotated once more: everything since is looked for.
        if self.behind.is_empty() {
            let mut since =
                rotated_since(&self.path, self.mark).map_err(|cause| failed(&self.path, cause))?;
            // The first is the one that was just read.
            since.pop_front();
            self.behind = since;
        }
        let next = self.behind.pop_front().unwrap_or_else(|| self.path.clone());
        (self.file, self.mark) = open(&next)?;
        Ok(())
    }
}

fn open(path: &Path) -> Result<(File, Mark), CliError> {
    let file = File::open(path).map_err(|cause| CliError::Open {
        path: path.to_owned(),
        cause,
    })?;
    let found = file.metadata().map_err(|cause| failed(path, cause))?;
    if found.is_dir() {
        return Err(CliError::Directory {
            path: path.to_owned(),
        });
    }
    let mark = Mark {
        dev: found.dev(),
        ino: found.ino(),
        offset: 0,
    };
    Ok((file, mark))
}

/// The file at a mark, if it was renamed, and those that were rotated after it, oldest first. Without the path itself.
/// Compressed files are left out: they were whole before that.
fn rotated_since(path: &Path, mark: Mark) -> io::Result<std::collections::VecDeque<PathBuf>> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let stem = path
        .file_stem()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let other = entry?.path();
        let name = other
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let is_compressed = [".gz", ".zst", ".tmp"].iter().any(|end| name.ends_with(end));
        if !name.starts_with(stem) || is_compressed || other.file_name() == path.file_name() {
            continue;
        }
        let Ok(metadata) = other.symlink_metadata() else {
            continue;
        };
        if metadata.is_file() {
            let written = (metadata.mtime(), metadata.mtime_nsec());
            found.push((written, metadata.dev(), metadata.ino(), other));
        }
    }
    let Some(marked) = found
        .iter()
        .find(|one| (one.1, one.2) == (mark.dev, mark.ino))
        .map(|one| one.0)
    else {
        return Ok(std::collections::VecDeque::new());
    };
    found.retain(|one| one.0 > marked || (one.1, one.2) == (mark.dev, mark.ino));
    found.sort_by_key(|one| (one.0, (one.1, one.2) != (mark.dev, mark.ino)));
    Ok(found.into_iter().map(|one| one.3).collect())
}

fn failed(path: &Path, cause: io::Error) -> CliError {
    CliError::Read {
        path: path.to_owned(),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn all(follow: &mut Follow) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..20 {
            follow.read(&mut lines, 64).expect("read");
        }
        String::from_utf8(lines)
            .expect("text")
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn each_line_is_read_once_through_rotations() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("app.log");
        let mut expected = Vec::new();
        let mut found = Vec::new();
        std::fs::write(&path, "").expect("written");
        let mut follow = Follow::open(&path, None, true).expect("opened");
        for round in 0..5 {
            let mut file = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(&path)
                .expect("there");
            for line in 0..7 {
                let line = format!("round {round} line {line}");
                writeln!(file, "{line}").expect("written");
                expected.push(line);
            }
            if round % 2 == 0 {
                found.extend(all(&mut follow));
            }
            std::fs::rename(&path, directory.path().join(format!("app.{round}.log"))).expect("renamed");
        }
        std::fs::write(&path, "the end\n").expect("written");
        expected.push("the end".to_owned());
        found.extend(all(&mut follow));
        assert_eq!(found, expected);
        assert!(all(&mut follow).is_empty());
        let state = State {
            mark: follow.mark,
            ..State::default()
        };
        std::fs::rename(&path, directory.path().join("app.9.log")).expect("renamed");
        std::fs::write(&path, "behind\n").expect("written");
        let mut again = Follow::open(&path, Some(&state), true).expect("opened");
        assert_eq!(all(&mut again), ["behind"]);
    }

    #[test]
    fn a_line_without_its_end_waits_and_a_cut_file_begins_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("app.log");
        std::fs::write(&path, "whole\nha").expect("written");
        let mut follow = Follow::open(&path, None, true).expect("opened");
        assert_eq!(all(&mut follow), ["whole"]);
        std::fs::write(&path, "whole\nhalf\n").expect("written");
        assert_eq!(all(&mut follow), ["half"]);
        std::fs::write(&path, "new\n").expect("written");
        assert_eq!(all(&mut follow), ["new"]);
    }
}
