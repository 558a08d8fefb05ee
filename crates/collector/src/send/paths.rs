//! The logs that paths, patterns and directories name.

use super::rotation_names::{RotationNames, is_unfinished, log_of};
use crate::error::CollectorError;
use crate::limits::ENTRIES_MAX;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A log that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedLog {
    /// Path of the file that is written.
    pub path: PathBuf,
    /// True if rotated files of it were named, too.
    pub takes_rotated: bool,
}

/// Returns the logs that these paths name, each once: a file as it is, the files of a directory, and those that match a
/// pattern (`*`, `?`, `[...]`, `**`). Rotated files are parts of their log where it is there.
///
/// # Errors
/// When a directory cannot be listed, a pattern is none, or nothing matches it.
pub fn find_logs(paths: &[PathBuf]) -> Result<Vec<NamedLog>, CollectorError> {
    let mut logs = BTreeMap::new();
    for path in paths {
        if path.is_dir() {
            let files = files_of(path)?;
            add(&mut logs, files);
        } else if is_pattern(path) && !path.exists() {
            let files = matches_of(path)?;
            if files.is_empty() {
                return Err(CollectorError::NoMatch {
                    pattern: path.clone(),
                });
            }
            add(&mut logs, files);
        } else {
            logs.entry(path.clone()).or_insert(false);
        }
    }
    let named = |(path, takes_rotated)| NamedLog { path, takes_rotated };
    Ok(logs.into_iter().map(named).collect())
}

/// Whether a path names files by a pattern or by their directory, so that others may come.
pub(super) fn is_pattern(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    text.iter().any(|byte| b"*?[".contains(byte))
}

/// Adds found files to the logs, rotated ones as parts of theirs.
fn add(logs: &mut BTreeMap<PathBuf, bool>, files: Vec<PathBuf>) {
    for file in files {
        let log = log_of(&file);
        let is_rotated = log != file && (log.is_file() || logs.keys().any(|known| is_part(known, &file)));
        match is_rotated {
            true => *logs.entry(log).or_default() = true,
            false => {
                logs.entry(file).or_default();
            }
        }
    }
}

/// Whether a file is a rotated one of a log.
fn is_part(log: &Path, file: &Path) -> bool {
    let name = file.file_name().and_then(OsStr::to_str);
    log.parent() == file.parent() && name.is_some_and(|name| RotationNames::of(log).is_rotated(name))
}

impl NamedLog {
    /// Whether another log that was found is a part of this one, which has been rotated.
    pub fn has_part(&self, other: &Self) -> bool {
        is_part(&self.path, &other.path)
    }
}

/// The regular files of a directory, but for hidden and unfinished ones.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>, CollectorError> {
    let failed = |cause| CollectorError::read(directory, cause);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)?.take(ENTRIES_MAX) {
        let path = entry.map_err(failed)?.path();
        let is_wanted = |name: &str| !name.starts_with('.') && !is_unfinished(name);
        if path.file_name().and_then(OsStr::to_str).is_some_and(is_wanted) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The regular files that match a pattern.
fn matches_of(pattern: &Path) -> Result<Vec<PathBuf>, CollectorError> {
    let text = pattern.to_str().unwrap_or_default();
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..glob::MatchOptions::default()
    };
    let found = glob::glob_with(text, options).map_err(|error| CollectorError::Pattern {
        pattern: pattern.to_owned(),
        why: error.msg,
    })?;
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        path.is_file() && name.is_some_and(|name| !is_unfinished(name))
    };
    // Directories that cannot be read match nothing.
    Ok(found
        .filter_map(Result::ok)
        .filter(is_wanted)
        .take(ENTRIES_MAX)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_patterns_name_logs_with_their_rotated_files() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in [
            "app.log",
            "app.log.1",
            "app.log.2.gz",
            "app-error.log",
            "w-1.out",
            "w-2.out",
            ".hidden",
            "x.tmp",
        ] {
            std::fs::write(directory.path().join(name), "").expect("written");
        }
        std::fs::create_dir(directory.path().join("below")).expect("made");
        let found = |pattern: &str| {
            let logs = find_logs(&[directory.path().join(pattern)]).expect("found");
            let name = |log: &NamedLog| log.path.file_name().and_then(OsStr::to_str).map(str::to_owned);
            logs.iter()
                .filter_map(|log| Some((name(log)?, log.takes_rotated)))
                .collect::<Vec<_>>()
        };
        let own = |names: &[(&str, bool)]| {
            names
                .iter()
                .map(|(name, rotated)| ((*name).to_owned(), *rotated))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found(""),
            own(&[
                ("app-error.log", false),
                ("app.log", true),
                ("w-1.out", false),
                ("w-2.out", false)
            ])
        );
        assert_eq!(
            found("*.log"),
            own(&[("app-error.log", false), ("app.log", false)])
        );
        assert_eq!(found("app.log*"), own(&[("app.log", true)]));
        assert_eq!(found("app.log.1"), own(&[("app.log.1", false)]));
        assert!(find_logs(&[directory.path().join("*.none")]).is_err());
        assert!(find_logs(&[directory.path().join("a[")]).is_err());
    }
}
