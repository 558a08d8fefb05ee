//! Names of rotated files of a log: which files beside `app.log` are earlier parts of it.
//!
//! logrotate, log4j, logback, Python, Go's lumberjack, spdlog and Logdrive itself put a number or a date behind the name
//! (`app.log.1`, `app.log-20261121`, `app.log.2026-11-21_10`) or before its extension (`app.1.log`, `app-2026-11-21-3.log`,
//! `app.2026-11-21T12-34-56Z.000001.log`), and the name of the compression behind it. A name with other letters is that of
//! another log: `app-error.log`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Ends of the names of compressed files.
const COMPRESSED: [&str; 5] = [".gz", ".zst", ".xz", ".bz2", ".Z"];

/// Ends of files that are being written or kept aside by programs that rotate and compress.
const UNFINISHED: [&str; 3] = [".tmp", ".part", ".swp"];

/// Names of the files of one log.
#[derive(Debug, Clone)]
pub(crate) struct RotationNames {
    name: String,
    stem: String,
    /// With its dot; empty for none.
    extension: String,
}

impl RotationNames {
    /// Names of the files that are rotated from this path.
    pub(crate) fn of(path: &Path) -> Self {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let (stem, extension) = split_extension(name);
        Self {
            name: name.to_owned(),
            stem: stem.to_owned(),
            extension: extension.to_owned(),
        }
    }

    /// Whether a file of this name is a rotated one of the log.
    pub(crate) fn is_rotated(&self, name: &str) -> bool {
        if self.name.is_empty() || name == self.name {
            return false;
        }
        let plain = without_compression(name);
        let behind = plain.strip_prefix(&self.name);
        let within = plain
            .strip_prefix(&self.stem)
            .and_then(|rest| rest.strip_suffix(&self.extension));
        // `app.log.gz` alone is a compressed copy of the log.
        plain == self.name || behind.is_some_and(is_mark) || within.is_some_and(is_mark)
    }
}

/// Returns the path of the log that a rotated file is of; the path itself where it is no rotated file.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else {
        return path.to_owned();
    };
    let plain = without_compression(name);
    // Behind the whole name: `app.log.1`.
    let behind = plain
        .char_indices()
        .skip(1)
        .find(|(at, _)| plain.get(*at..).is_some_and(is_mark));
    if let Some((at, _)) = behind {
        return path.with_file_name(plain.get(..at).unwrap_or(plain));
    }
    let (stem, extension) = split_extension(plain);
    let within = stem
        .char_indices()
        .skip(1)
        .find(|(at, _)| stem.get(*at..).is_some_and(is_mark));
    match within {
        Some((at, _)) => path.with_file_name(format!("{}{extension}", stem.get(..at).unwrap_or(stem))),
        None => path.with_file_name(plain),
    }
}

/// Whether a name is that of a file which another program is still writing.
pub(crate) fn is_unfinished(name: &str) -> bool {
    UNFINISHED.iter().any(|end| name.ends_with(end))
}

fn without_compression(name: &str) -> &str {
    let found = COMPRESSED.iter().find_map(|end| name.strip_suffix(end));
    found.filter(|plain| !plain.is_empty()).unwrap_or(name)
}

fn split_extension(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(dot) if dot > 0 => name.split_at(dot),
        _ => (name, ""),
    }
}

/// Whether a text is what rotation puts into a name: a separator, then digits with separators, and the `T` and `Z` of a
/// date; or `.old`.
fn is_mark(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['.', '-', '_']) else {
        return false;
    };
    let is_part = |byte: u8| byte.is_ascii_digit() || b".-_:+TZ".contains(&byte);
    let has_date_letters = |text: &str| text.bytes().any(|byte| byte == b'T' || byte == b'Z');
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    rest == "old"
        || (rest.starts_with(|c: char| c.is_ascii_digit())
            && rest.bytes().all(is_part)
            && (!has_date_letters(rest) || digits >= 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_APP_LOG: [&str; 16] = [
        "app.log.1",
        "app.log.12.gz",
        "app.log-20261121",
        "app.log-20261121-1669000000.zst",
        "app.log.2026-11-21",
        "app.log.2026-11-21_10",
        "app.log.2026-11-21.3.gz",
        "app.1.log",
        "app-1.log.gz",
        "app-2026-11-21-3.log.gz",
        "app.2026-11-21.log",
        "app-2026-11-21T12-34-56.789.log",
        "app.2026-11-21T12-34-56Z.000001.log.zst",
        "app_20261121.log",
        "app.log.old",
        "app.log.gz",
    ];

    const OF_OTHERS: [&str; 12] = [
        "app-error.log",
        "app-error.log.1",
        "app2.log",
        "app.log.bak",
        "app.logs",
        "app.log1",
        "app.error.log",
        "app",
        "app.T.log",
        "application.log",
        "app.json",
        "xapp.log.1",
    ];

    #[test]
    fn rotated_files_are_told_from_neighbours() {
        let names = RotationNames::of(Path::new("/var/log/app.log"));
        for name in OF_APP_LOG {
            assert!(names.is_rotated(name), "{name}");
        }
        for name in OF_OTHERS.into_iter().chain(["app.log"]) {
            assert!(!names.is_rotated(name), "{name}");
        }
        let names = RotationNames::of(Path::new("syslog"));
        assert!(names.is_rotated("syslog.1") && names.is_rotated("syslog.2.gz"));
        assert!(!names.is_rotated("syslog-ng.conf") && !names.is_rotated("syslogd"));
        assert!(!RotationNames::of(Path::new("/")).is_rotated("1"));
    }

    #[test]
    fn a_rotated_file_leads_to_its_log() {
        for name in OF_APP_LOG {
            assert_eq!(
                log_of(&Path::new("/l").join(name)),
                Path::new("/l/app.log"),
                "{name}"
            );
        }
        for name in ["app.log", "app-error.log", "syslog", "x1.log", "1.log"] {
            assert_eq!(log_of(Path::new(name)), Path::new(name), "{name}");
        }
        assert_eq!(log_of(Path::new("syslog.1")), Path::new("syslog"));
        assert_eq!(log_of(Path::new("syslog.2.gz")), Path::new("syslog"));
    }
}
