//! The files of one log: `app.log`, its rotated files `app.2026-11-21T12-34-56Z.000001.log` (`.zst`, `.gz`), and the
//! files of further processes beside it, `app.4711.log`, with rotated ones of their own.
//!
//! The number counts the rotations and is their order. Numbers of less than six digits are of an earlier form that
//! counted within one second; such files are older, in the order of their times.

use crate::error::ReadError;
use crate::limits::{DIRECTORY_ENTRIES_MAX, SEQUENCE_DIGITS_MIN};
use crate::times::read_stamp;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Time before its rotation within which a file got its last record: a record may be late by as much as its
/// thread was stopped inside of the call.
const LATE_NS: u64 = 600_000_000_000;

/// A file of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// The file.
    pub path: PathBuf,
    /// When it was rotated; its records are older.
    rotated_ns: Option<u64>,
}

impl LogFile {
    /// A file on its own.
    pub fn alone(path: PathBuf) -> Self {
        Self {
            path,
            rotated_ns: None,
        }
    }

    /// Whether all of it is too old.
    pub(crate) fn is_before(&self, since_ns: Option<u64>) -> bool {
        match (self.rotated_ns, since_ns) {
            (Some(rotated), Some(since)) => rotated.saturating_add(LATE_NS) < since,
            _ => false,
        }
    }
}

/// All logs that belong to the log file of this path: each a list of files, the oldest first. The first log is that
/// of the path itself; others are those of further processes.
///
/// # Errors
/// When the directory cannot be listed, or there is no such log.
pub fn log_files(path: &Path) -> Result<Vec<Vec<LogFile>>, ReadError> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
        _ => PathBuf::from("."),
    };
    let cannot_list = ReadError::read(&dir);
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let (stem, extension) = match name.rfind('.') {
        Some(dot) if dot > 0 => name.split_at(dot),
        _ => (name, ""),
    };
    let mut logs: BTreeMap<String, Vec<(Place, PathBuf)>> = BTreeMap::new();
    let entries = fs::read_dir(&dir).map_err(&cannot_list)?;
    for entry in entries.take(DIRECTORY_ENTRIES_MAX) {
        let name = entry.map_err(&cannot_list)?.file_name();
        let found = name.to_str().and_then(|name| read_name(name, stem, extension));
        if let Some((process, place)) = found {
            let files = logs.entry(process.to_owned()).or_default();
            files.push((place, path.with_file_name(&name)));
        }
    }
    if logs.is_empty() {
        return Err(ReadError::open(path)(std::io::ErrorKind::NotFound.into()));
    }
    Ok(logs.into_values().map(in_order).collect())
}

/// Sorts the files of one log, and leaves out what is there twice: a file that was compressed and not yet removed.
fn in_order(mut files: Vec<(Place, PathBuf)>) -> Vec<LogFile> {
    files.sort();
    files.dedup_by(|later, earlier| later.0.is_same_file(&earlier.0));
    let mut latest_ns = 0;
    let parts = files.into_iter().map(|(place, path)| {
        // Where the clock was set back, a file may hold records of later times than that of its rotation.
        latest_ns = place.rotated_ns.map_or(latest_ns, |at_ns| at_ns.max(latest_ns));
        LogFile {
            path,
            rotated_ns: place.rotated_ns.map(|_| latest_ns),
        }
    });
    parts.collect()
}

/// A file's place in its log; the active file comes last, a compressed one behind the same one in plain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    is_active: bool,
    /// Number of the rotation; 0 in a name of the earlier form.
    sequence: u32,
    rotated_ns: Option<u64>,
    /// Number within the second, in a name of the earlier form.
    number: u32,
    is_compressed: bool,
}

impl Place {
    fn is_same_file(&self, other: &Self) -> bool {
        let key = |place: &Self| (place.is_active, place.sequence, place.rotated_ns, place.number);
        key(self) == key(other)
    }
}

/// Reads the process and the place in the log that a file's name says: `4711`, `4711-2`, or nothing for the process that got
/// the file it asked for.
fn read_name<'a>(name: &'a str, stem: &str, extension: &str) -> Option<(&'a str, Place)> {
    let rest = name.strip_prefix(stem)?;
    let endings = [".zst", ".gz", ".xz", ".bz2"];
    let plain = endings.iter().find_map(|ending| rest.strip_suffix(ending));
    let middle = plain.unwrap_or(rest).strip_suffix(extension)?;
    let (process, rotated) = split_process(middle)?;
    let mut place = Place {
        is_active: rotated.is_empty(),
        sequence: 0,
        rotated_ns: None,
        number: 0,
        is_compressed: plain.is_some(),
    };
    if place.is_active {
        // Only rotated files are compressed.
        return (!place.is_compressed).then_some((process, place));
    }
    let stamped = rotated.strip_prefix('.')?;
    let (rotated_ns, length) = read_stamp(stamped)?;
    place.rotated_ns = Some(rotated_ns);
    let digits = stamped.get(length..)?.strip_prefix('.')?;
    let number = digits.parse().ok()?;
    match digits.len() >= SEQUENCE_DIGITS_MIN {
        true => place.sequence = number,
        false => place.number = number,
    }
    Some((process, place))
}

/// Takes `.4711` or `.4711-2` off the front.
fn split_process(middle: &str) -> Option<(&str, &str)> {
    let Some(rest) = middle.strip_prefix('.') else {
        return middle.is_empty().then_some(("", ""));
    };
    let length = rest.find('.').unwrap_or(rest.len());
    let (first, after) = rest.split_at(length);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_process = match first.split_once('-') {
        Some((pid, attempt)) => is_number(pid) && is_number(attempt),
        None => is_number(first),
    };
    Some(if is_process { (first, after) } else { ("", middle) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path, path: &str) -> Vec<Vec<String>> {
        let logs = log_files(&dir.join(path)).expect("there is such a log");
        let name = |part: LogFile| {
            part.path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
        };
        logs.into_iter()
            .map(|log| log.into_iter().filter_map(name).collect())
            .collect()
    }

    #[test]
    fn the_files_of_a_log_are_found_in_order() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in [
            "app.log",
            "app.2026-11-21T12-34-56Z.2.log",
            "app.2026-11-21T12-34-56Z.1.log.zst",
            "app.2026-11-20T12-34-56Z.1.log.gz",
            "app.2026-11-20T12-34-56Z.1.log",
            "app.4711.log",
            "app.4711.2026-11-20T12-34-56Z.1.log",
            "app.2026-11-21T01-00-00+0200.1.log",
            "app.2026-11-21T12-34-56Z.1.log.zst.tmp",
            "app2.log",
            "app.old.log",
            "app.log.zst",
            "other.log",
            "app",
        ] {
            fs::write(dir.path().join(name), "").expect("a file");
        }
        let found = names(dir.path(), "app.log");
        assert_eq!(
            found[0],
            [
                "app.2026-11-20T12-34-56Z.1.log",
                "app.2026-11-21T01-00-00+0200.1.log",
                "app.2026-11-21T12-34-56Z.1.log.zst",
                "app.2026-11-21T12-34-56Z.2.log",
                "app.log",
            ]
        );
        assert_eq!(found[1], ["app.4711.2026-11-20T12-34-56Z.1.log", "app.4711.log"]);
        assert_eq!(found.len(), 2);
        assert!(log_files(&dir.path().join("none.log")).is_err());
    }

    /// Names were read in the order of the times, which is not that of the files once the clock was set back.
    #[test]
    fn the_files_of_a_log_are_in_the_order_of_their_rotations() {
        let dir = tempfile::tempdir().expect("a directory");
        let in_order = [
            "app.2026-11-21T12-34-56Z.2.log",
            "app.2026-11-21T12-34-56Z.10.log",
            "app.2026-11-21T12-34-56Z.000009.log",
            "app.2026-11-21T12-34-56Z.000010.log.gz",
            "app.2026-11-21T11-34-56Z.000011.log",
            "app.2026-11-21T12-34-56Z.1000000.log",
            "app.log",
        ];
        for name in in_order {
            fs::write(dir.path().join(name), "").expect("a file");
        }
        assert_eq!(names(dir.path(), "app.log"), [in_order]);
        // Of the file behind the set clock it is not known how late its records are.
        let files = log_files(&dir.path().join("app.log")).expect("a log").remove(0);
        assert_eq!(files[4].rotated_ns, files[3].rotated_ns);
    }

    #[test]
    fn only_what_was_rotated_long_before_is_left_out() {
        let part = LogFile {
            path: PathBuf::new(),
            rotated_ns: Some(1_000),
        };
        assert!(!part.is_before(None));
        assert!(!part.is_before(Some(1_000 + LATE_NS)));
        assert!(part.is_before(Some(1_001 + LATE_NS)));
        assert!(!LogFile::alone(PathBuf::new()).is_before(Some(u64::MAX)));
    }
}
