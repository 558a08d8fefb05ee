//! The state of a sender: up to where the files of one log were acknowledged by one group of collectors, in a small file
//! that is replaced as a whole.
//!
//! Records are numbered in the order in which they were sent, and the collector drops those whose numbers it has. So a
//! sender that starts again has to send the same lines under the same numbers: the state has the order in which parts of
//! files were sent, as `runs`, and is written before a record of another file is sent.

use super::position::{FilePosition, HEAD_BYTES};
use crate::error::CollectorError;
use crate::limits::{STATE_BYTES_MAX, STATES_MAX};
use logdrive_ring::clock::unix_ns;
use logdrive_ship::forward::files::{make_directory, private, read_text, replace};
use std::collections::VecDeque;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// First word of a state; the version is its last digit.
const MAGIC: &str = "logdrive-send-2";

/// First word of a state of the first version, which has one file and no fingerprint.
const MAGIC_1: &str = "logdrive-send-1";

/// A file of a log, as the state has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileState {
    /// Number of the file within the state.
    pub(crate) key: u64,
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    /// Position before the first line that is not acknowledged.
    pub(crate) acknowledged: FilePosition,
    /// Size when it was last seen; of a compressed file 0.
    pub(crate) seen_bytes: u64,
    /// True if it was the one that is written.
    pub(crate) is_active: bool,
}

/// Lines of one file that are sent one behind the other, from where the run before of that file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The file.
    pub(crate) key: u64,
    /// Offset of its end; `None` while it goes on.
    pub(crate) end: Option<u64>,
}

/// State of a sender.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendState {
    /// Session under which the log's records are sent.
    pub session: u128,
    /// Epoch of their numbers.
    pub epoch: u64,
    /// Number of the first record that is not acknowledged.
    pub number: u64,
    /// Number before which records may have been sent; `None` in states of earlier versions.
    pub(crate) sent_until: Option<u64>,
    /// Numbers are of records, which may have several lines; else of lines.
    pub(crate) as_records: bool,
    /// Addresses of the collectors that have what is acknowledged.
    pub collectors: Vec<String>,
    pub(crate) files: Vec<FileState>,
    /// Runs that are not acknowledged, in the order of their numbers.
    pub(crate) runs: VecDeque<Run>,
}

/// A state on disk, which no other process uses while this lives.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    /// Locked; the state itself is replaced each time.
    _lock: File,
}

/// Returns the path of a log's states in the user's state directory, where they are named after the log's path.
///
/// # Errors
/// When the environment names no state directory.
pub fn default_state_path(file: &Path) -> Result<PathBuf, CollectorError> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .ok_or(CollectorError::NoStateDirectory {
            variable: "XDG_STATE_HOME",
        })?;
    state_in(&state.join("logdrive/send"), file)
}

/// Returns the path of a log's states in a directory.
///
/// # Errors
/// When the current directory is not known.
pub fn state_in(directory: &Path, file: &Path) -> Result<PathBuf, CollectorError> {
    let absolute = std::path::absolute(file).map_err(CollectorError::file("open", file))?;
    Ok(directory.join(logdrive_drain::file::safe_name(&absolute.display().to_string())))
}

impl StateFile {
    /// Finds the state for these collectors: `path`, or the first of `path.2`, `path.3`, ... that is theirs or not there.
    /// The state is `None` where there is none so far.
    ///
    /// # Errors
    /// When another process uses it, it cannot be read, or holds something else.
    pub fn find(path: &Path, collectors: &[String]) -> Result<(Self, Option<SendState>), CollectorError> {
        for number in 1..=STATES_MAX {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            if number > 1 {
                name.push(format!(".{number}"));
            }
            let path = path.with_file_name(name);
            let others =
                |state: &Option<SendState>| state.as_ref().is_some_and(|state| !state.is_of(collectors));
            if others(&SendState::load(&path)?) {
                continue;
            }
            let own = Self::lock(path)?;
            // It may have been made in between.
            let state = SendState::load(&own.path)?;
            if !others(&state) {
                return Ok((own, state));
            }
        }
        Err(CollectorError::TooManyStates {
            path: path.to_owned(),
        })
    }

    /// Opens the state at this path, and no other.
    ///
    /// # Errors
    /// When it is of other collectors, another process uses it, it cannot be read, or holds something else.
    pub fn at(path: &Path, collectors: &[String]) -> Result<(Self, Option<SendState>), CollectorError> {
        let own = Self::lock(path.to_owned())?;
        match SendState::load(path)? {
            Some(state) if !state.is_of(collectors) => Err(CollectorError::OtherCollectors {
                path: path.to_owned(),
                collectors: state.collectors.join(", "),
            }),
            state => Ok((own, state)),
        }
    }

    /// Path of a file that belongs to the state, with its name before this one.
    pub fn beside(&self, name: &str) -> PathBuf {
        let mut own = self.path.file_name().unwrap_or_default().to_owned();
        own.push(".");
        own.push(name);
        self.path.with_file_name(own)
    }

    fn lock(path: PathBuf) -> Result<Self, CollectorError> {
        let failed = CollectorError::file("lock", &path);
        if let Some(directory) = path.parent() {
            make_directory(directory).map_err(&failed)?;
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let mut options = private();
        options.write(true).create(true).truncate(false);
        let lock = options.open(path.with_file_name(name)).map_err(&failed)?;
        let locked = lock.try_lock();
        match locked {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(CollectorError::StateInUse { path }),
            Err(std::fs::TryLockError::Error(cause)) => return Err(failed(cause)),
        }
        Ok(Self { path, _lock: lock })
    }

    /// Replaces the state, so that it is whole after any end.
    pub(crate) fn save(&self, state: &SendState) -> Result<(), CollectorError> {
        replace(&self.path, &state.text()).map_err(CollectorError::file("write", &self.path))
    }
}

impl SendState {
    /// State of a log of which nothing was sent.
    pub fn new(session: u128) -> Self {
        Self {
            session,
            epoch: unix_ns(),
            sent_until: Some(0),
            ..Self::default()
        }
    }

    /// Whether it is that of a group to which one of these collectors belongs. A state without collectors is of an
    /// earlier version, and anybody's.
    fn is_of(&self, collectors: &[String]) -> bool {
        self.collectors.is_empty() || self.collectors.iter().any(|one| collectors.contains(one))
    }

    /// Begins new numbers, so that no record is taken for one that was sent before.
    pub(crate) fn renumber(&mut self) {
        (self.epoch, self.number) = (self.epoch.saturating_add(1).max(unix_ns()), 0);
        self.sent_until = Some(0);
        self.runs.clear();
    }

    /// Adds collectors to the group that has what is acknowledged.
    pub(crate) fn add_collectors(&mut self, collectors: &[String]) {
        for one in collectors {
            if !self.collectors.contains(one) {
                self.collectors.push(one.clone());
            }
        }
    }

    /// Reads a state; `None` when there is no such file.
    ///
    /// # Errors
    /// When the file cannot be read, or holds something else.
    pub fn load(path: &Path) -> Result<Option<Self>, CollectorError> {
        let failed = CollectorError::file("read", path);
        let Some(text) = read_text(path, STATE_BYTES_MAX).map_err(&failed)? else {
            return Ok(None);
        };
        let broken = || {
            failed(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is no state of `logdrive send`: remove it to send the file from its start",
            ))
        };
        Self::parse(&text).ok_or_else(broken).map(Some)
    }

    fn text(&self) -> String {
        let mut text = format!("{MAGIC} {:032x} {} {}\n", self.session, self.epoch, self.number);
        // Writing into a string does not fail.
        if let Some(number) = self.sent_until {
            let _ = writeln!(text, "sent {number}");
        }
        if self.as_records {
            text.push_str("records\n");
        }
        for collector in &self.collectors {
            let _ = writeln!(text, "to {collector}");
        }
        for file in &self.files {
            let FilePosition {
                offset,
                head_bytes,
                head_crc,
                tail_crc,
            } = file.acknowledged;
            let tail = tail_crc.map_or_else(|| "-".to_owned(), |crc| crc.to_string());
            let _ = writeln!(
                text,
                "file {} {} {} {offset} {head_bytes} {head_crc} {tail} {} {}",
                file.key,
                file.dev,
                file.ino,
                file.seen_bytes,
                u8::from(file.is_active)
            );
        }
        for run in &self.runs {
            let end = run.end.map_or_else(|| "-".to_owned(), |end| end.to_string());
            let _ = writeln!(text, "run {} {end}", run.key);
        }
        text.push_str("end\n");
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut words = lines.next()?.split_whitespace();
        let magic = words.next()?;
        let session = u128::from_str_radix(words.next()?, 16).ok()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let mut state = Self {
            session,
            epoch: number()?,
            number: number()?,
            ..Self::default()
        };
        if magic == MAGIC_1 {
            let file = FileState {
                key: 1,
                dev: number()?,
                ino: number()?,
                acknowledged: FilePosition {
                    offset: number()?,
                    ..FilePosition::default()
                },
                seen_bytes: 0,
                is_active: true,
            };
            state.files.extend((file.ino != 0).then_some(file));
            return Some(state);
        }
        if magic != MAGIC {
            return None;
        }
        for line in lines {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            match kind {
                "sent" => state.sent_until = Some(rest.parse().ok()?),
                "records" => state.as_records = true,
                "to" => state.collectors.push(rest.to_owned()),
                "file" => state.files.push(parse_file(rest)?),
                "run" => {
                    let (key, end) = rest.split_once(' ')?;
                    state.runs.push_back(Run {
                        key: key.parse().ok()?,
                        end: parse_or_none(end)?,
                    });
                }
                // Without it the file was cut.
                "end" => return Some(state),
                _ => return None,
            }
        }
        None
    }
}

fn parse_file(text: &str) -> Option<FileState> {
    let words: Vec<&str> = text.split(' ').collect();
    let [
        key,
        dev,
        ino,
        offset,
        head_bytes,
        head_crc,
        tail_crc,
        seen_bytes,
        is_active,
    ] = words.as_slice()
    else {
        return None;
    };
    let number = |word: &&str| word.parse::<u64>().ok();
    Some(FileState {
        key: number(key)?,
        dev: number(dev)?,
        ino: number(ino)?,
        acknowledged: FilePosition {
            offset: number(offset)?,
            head_bytes: head_bytes.parse().ok().filter(|bytes| *bytes <= HEAD_BYTES)?,
            head_crc: head_crc.parse().ok()?,
            tail_crc: parse_or_none(tail_crc)?,
        },
        seen_bytes: number(seen_bytes)?,
        is_active: number(is_active)? != 0,
    })
}

/// A number, or `-` for none; the outer `None` for something else.
fn parse_or_none<T: std::str::FromStr>(word: &str) -> Option<Option<T>> {
    match word {
        "-" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collectors(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn full() -> SendState {
        let file = FileState {
            key: 9,
            dev: 2,
            ino: 3,
            acknowledged: FilePosition {
                offset: 4,
                head_bytes: 3,
                head_crc: 5,
                tail_crc: Some(6),
            },
            seen_bytes: 7,
            is_active: true,
        };
        SendState {
            as_records: true,
            session: u128::MAX,
            epoch: 1,
            number: u64::MAX,
            sent_until: Some(8),
            collectors: collectors(&["unix:///a b", "tls://[::1]:1"]),
            files: vec![
                file,
                FileState {
                    acknowledged: FilePosition::UNREAD,
                    ..file
                },
            ],
            runs: [(9, Some(12)), (1, None)]
                .map(|(key, end)| Run { key, end })
                .into(),
        }
    }

    #[test]
    fn a_state_reads_back_and_a_cut_one_is_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a/b");
        let (file, none) = StateFile::find(&path, &[]).expect("locked");
        assert_eq!(none, None);
        let state = full();
        file.save(&state).expect("written");
        assert_eq!(SendState::load(&path).expect("sound"), Some(state));
        let text = std::fs::read_to_string(&path).expect("written");
        for length in 0..text.len() - 1 {
            std::fs::write(&path, &text[..length]).expect("written");
            assert!(SendState::load(&path).is_err(), "{length}");
        }
    }

    #[test]
    fn a_state_of_the_first_version_is_read() {
        let state = SendState::parse("logdrive-send-1 0000000000000000000000000000000a 1 2 3 4 5\n");
        let state = state.expect("read");
        assert_eq!((state.session, state.epoch, state.number), (10, 1, 2));
        let file = state.files[0];
        assert_eq!((file.dev, file.ino, file.acknowledged.offset), (3, 4, 5));
        assert!(state.is_of(&collectors(&["any"])));
    }

    #[test]
    fn each_group_of_collectors_has_a_state_of_its_own_and_one_sender_each() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("app.log");
        let (a, b) = (collectors(&["a", "c"]), collectors(&["b"]));
        let (first, none) = StateFile::find(&path, &a).expect("locked");
        assert_eq!(none, None);
        let mut state = full();
        state.collectors.clone_from(&a);
        first.save(&state).expect("written");
        let in_use = StateFile::find(&path, &collectors(&["c"])).expect_err("another one sends it");
        assert!(matches!(in_use, CollectorError::StateInUse { .. }), "{in_use}");
        let (_second, none) = StateFile::find(&path, &b).expect("another state");
        assert_eq!(none, None);
        let refused = StateFile::at(&path, &b).expect_err("that one is of a and c");
        assert!(matches!(refused, CollectorError::StateInUse { .. }), "{refused}");
        drop(first);
        let refused = StateFile::at(&path, &b).expect_err("that one is of a and c");
        assert!(refused.to_string().contains("a, c"), "{refused}");
        let (_, found) = StateFile::find(&path, &collectors(&["c", "d"])).expect("free");
        assert_eq!(found, Some(state));
    }
}
