//! A log file that is read while it grows, through rotation: what was renamed is read to its end, then what came after
//! it.

use super::lines::take_lines;
use super::position::FilePosition;
use crate::error::CollectorError;
use memchr::memrchr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A log file that is read while it grows.
#[derive(Debug)]
pub struct FollowedFile {
    path: PathBuf,
    file: File,
    pub(crate) position: FilePosition,
    pub(crate) follows: bool,
    /// Rotated files that come before the one at the path.
    behind: std::collections::VecDeque<PathBuf>,
}

impl FollowedFile {
    /// Opens the file, or the one that it was renamed to since the position was noted.
    pub(crate) fn open(
        path: &Path,
        from: Option<FilePosition>,
        follows: bool,
    ) -> Result<Self, CollectorError> {
        let position = from.filter(|position| position.ino != 0);
        let mut behind = match position {
            Some(position) => {
                rotated_since(path, position).map_err(|cause| CollectorError::read(path, cause))?
            }
            None => std::collections::VecDeque::new(),
        };
        let first = behind.pop_front().unwrap_or_else(|| path.to_owned());
        let (file, mut start) = open(&first)?;
        if let Some(position) =
            position.filter(|position| (position.dev, position.ino) == (start.dev, start.ino))
        {
            let length = file
                .metadata()
                .map_err(|cause| CollectorError::read(path, cause))?
                .len();
            // A file that is shorter than what was acknowledged of it has begun anew.
            start.offset = if position.offset <= length {
                position.offset
            } else {
                0
            };
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            position: start,
            follows,
            behind,
        })
    }

    pub(crate) fn read(&mut self, lines: &mut Vec<u8>, bytes_max: usize) -> Result<u32, CollectorError> {
        let cannot = |cause| CollectorError::read(&self.path, cause);
        let mut bytes = vec![0; bytes_max];
        let length = self
            .file
            .read_at(&mut bytes, self.position.offset)
            .map_err(cannot)?;
        bytes.truncate(length);
        let is_at_end = length < bytes_max;
        let has_successor = is_at_end && self.has_successor().map_err(cannot)?;
        let end = match memrchr(b'\n', &bytes) {
            Some(at) => at + 1,
            // Longer than a batch, or a line whose end will not be written.
            None if !is_at_end || has_successor || !self.follows => length,
            None => 0,
        };
        if end > 0 {
            self.position.offset += end as u64;
            return Ok(take_lines(&mut bytes, end, lines));
        }
        if length == 0 && has_successor {
            self.turn_over()?;
            return self.read(lines, bytes_max);
        }
        if is_at_end && self.file.metadata().map_err(cannot)?.len() < self.position.offset {
            self.position.offset = 0;
        }
        Ok(0)
    }

    /// Whether there is a file behind this one: of a rotation, or at the path.
    fn has_successor(&self) -> io::Result<bool> {
        if !self.behind.is_empty() {
            return Ok(true);
        }
        match self.path.metadata() {
            Ok(found) => Ok((found.dev(), found.ino()) != (self.position.dev, self.position.ino)),
            // Renamed, and not made anew so far.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn turn_over(&mut self) -> Result<(), CollectorError> {
        // Between the two checks it may have been rotated once more: everything since is searched.
        if self.behind.is_empty() {
            let mut since = rotated_since(&self.path, self.position)
                .map_err(|cause| CollectorError::read(&self.path, cause))?;
            // The first is the one that was just read.
            since.pop_front();
            self.behind = since;
        }
        let next = self.behind.pop_front().unwrap_or_else(|| self.path.clone());
        (self.file, self.position) = open(&next)?;
        Ok(())
    }
}

fn open(path: &Path) -> Result<(File, FilePosition), CollectorError> {
    let file = File::open(path).map_err(CollectorError::file("open", path))?;
    let found = file
        .metadata()
        .map_err(|cause| CollectorError::read(path, cause))?;
    if found.is_dir() {
        return Err(CollectorError::Directory {
            path: path.to_owned(),
        });
    }
    let position = FilePosition {
        dev: found.dev(),
        ino: found.ino(),
        offset: 0,
    };
    Ok((file, position))
}

/// The file at a position, if it was renamed, and those that were rotated after it, oldest first. Without the path
/// itself. Compressed files are left out: they were whole before that.
fn rotated_since(path: &Path, position: FilePosition) -> io::Result<std::collections::VecDeque<PathBuf>> {
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
    let Some(written) = found
        .iter()
        .find(|one| (one.1, one.2) == (position.dev, position.ino))
        .map(|one| one.0)
    else {
        return Ok(std::collections::VecDeque::new());
    };
    // Files that were last written before the one of the position were read to their end before it.
    found.retain(|one| one.0 > written || (one.1, one.2) == (position.dev, position.ino));
    found.sort_by_key(|one| (one.0, (one.1, one.2) != (position.dev, position.ino)));
    Ok(found.into_iter().map(|one| one.3).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn all(follow: &mut FollowedFile) -> Vec<String> {
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
        let mut follow = FollowedFile::open(&path, None, true).expect("opened");
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
        let position = follow.position;
        std::fs::rename(&path, directory.path().join("app.9.log")).expect("renamed");
        std::fs::write(&path, "behind\n").expect("written");
        let mut again = FollowedFile::open(&path, Some(position), true).expect("opened");
        assert_eq!(all(&mut again), ["behind"]);
    }

    #[test]
    fn a_line_without_its_end_waits_and_a_cut_file_begins_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("app.log");
        std::fs::write(&path, "whole\nha").expect("written");
        let mut follow = FollowedFile::open(&path, None, true).expect("opened");
        assert_eq!(all(&mut follow), ["whole"]);
        std::fs::write(&path, "whole\nhalf\n").expect("written");
        assert_eq!(all(&mut follow), ["half"]);
        std::fs::write(&path, "new\n").expect("written");
        assert_eq!(all(&mut follow), ["new"]);
    }
}
