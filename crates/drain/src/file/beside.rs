//! Files beside the log, `NAME.PID.log`: another process writes there because this one has the log. Its own log says so at
//! once; this one says so when it next looks at its directory.

use super::directory::LogDirectory;
use super::limits::LISTED_MAX;
use super::storage::{FileKind, existing};

/// Files of other processes that were reported.
#[derive(Debug, Default)]
pub(crate) struct FilesBeside {
    /// Time from which on a file was written by a process that lives.
    opened_unix_s: i64,
    /// Time of the directory's last change as it was seen.
    seen_unix_s: i64,
    reported: Vec<String>,
}

impl FilesBeside {
    /// Begins with a log that is opened now.
    pub(crate) fn new(now_unix_s: i64) -> Self {
        Self {
            opened_unix_s: now_unix_s,
            ..Self::default()
        }
    }

    /// Reports files that are new; asks for the list of the directory only where that has changed. What cannot be read now is
    /// read with the next change.
    pub(crate) fn report_new(&mut self, directory: &LogDirectory) {
        let Ok(stat) = directory.storage.stat_file(&directory.dir) else {
            return;
        };
        if stat.modified_unix_s == self.seen_unix_s {
            return;
        }
        let names = &directory.names;
        let is_beside = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| names.is_beside(name));
        let Ok(found) = directory.storage.list(&directory.dir, &is_beside, LISTED_MAX) else {
            return;
        };
        self.seen_unix_s = stat.modified_unix_s;
        for name in found.iter().filter_map(|name| name.to_str()) {
            if self.reported.len() >= LISTED_MAX || self.reported.iter().any(|known| known == name) {
                continue;
            }
            let stat = existing(directory.storage.stat(&directory.dir, name.as_ref()));
            let is_written = |modified_unix_s| modified_unix_s >= self.opened_unix_s;
            if matches!(stat, Ok(Some(stat)) if stat.kind == FileKind::Regular && is_written(stat.modified_unix_s))
            {
                self.reported.push(name.to_owned());
                directory.notices.push(format_args!(
                    "another process writes to {}, because this one has the log {}: give each a file of its own, or let an agent write for both",
                    directory.path_of(name).display(),
                    directory.path_of(&names.active()).display(),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::file::{Disk, FileOptions, LogFile};
    use logdrive_ring::clock::unix_ns;
    use std::sync::Arc;

    const SECOND_NS: u64 = 1_000_000_000;

    fn notices(file: &mut LogFile) -> Vec<String> {
        std::iter::from_fn(|| file.notice()).collect()
    }

    #[test]
    fn both_logs_say_that_a_second_process_writes_beside_the_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let options = FileOptions::new(dir.path().join("app.log"));
        std::fs::write(dir.path().join("app.1.log"), "of a process long dead\n").expect("a file");
        let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        let old = std::fs::File::options()
            .write(true)
            .open(dir.path().join("app.1.log"));
        old.and_then(|file| file.set_modified(hour_ago))
            .expect("its time");
        let mut now_unix_ns = unix_ns();
        let mut first = LogFile::open(&options, Arc::new(Disk), now_unix_ns).expect("the log");
        let mut second = LogFile::open(&options, Arc::new(Disk), now_unix_ns).expect("one beside");
        let beside = second.path().display().to_string();
        assert!(notices(&mut second).iter().any(|notice| notice.contains(&beside)));
        let mut told = Vec::new();
        for _ in 0..3 {
            now_unix_ns += 2 * SECOND_NS;
            let placement = first.place(4, now_unix_ns).expect("a place");
            first.write_at(placement, 0, b"abc\n").expect("written");
            told.extend(notices(&mut first));
        }
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(&beside), "{told:?}");
    }
}
