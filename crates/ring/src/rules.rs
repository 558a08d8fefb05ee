//! The rules of live control: which callsites are switched, muted or sampled, until when. Drawn in `spec/session.md`.
//!
//! They lie in the file `rules` of a session: a header with a sequence number, and two tables, of which the sequence
//! says which one is in force. A tool locks the file (`flock`), writes the other table and stores the next sequence,
//! so a reader sees the old rules or the new ones, also when a tool is killed in between. Whatever is read is checked;
//! what these rules mean to a callsite is not known here.
#![allow(unsafe_code)]

use crate::files::SessionDir;
use crate::limits::{RULE_NAME_BYTES_MAX, RULE_READS_MAX, RULES_FILE_BYTES, RULES_MAX, RULES_WAIT_MS_MAX};
use crate::own_file::{Opened, OwnFile};
use crate::{RingError, sys};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

mod bytes;

/// `LDRULES` and the format's version.
const MAGIC: u64 = u64::from_le_bytes(*b"LDRULES\x01");

/// Bytes of the header.
const HEADER_BYTES: usize = 4096;
/// Bytes of each of the two tables.
const TABLE_BYTES: usize = (RULES_FILE_BYTES - HEADER_BYTES) / 2;

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Time at which it was made, in nanoseconds since 1970. No two rules of a session have the same.
    pub made_unix_ns: u64,
    /// Time from which on it does not hold any more; 0 for never.
    pub until_unix_ns: u64,
    /// Action of the rule.
    pub action: Action,
    /// Callsites that it is about.
    pub selector: Selector,
}

/// Action of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Callsites of this level code and above are on, others off. `None`: all are off.
    Level(Option<u8>),
    /// Callsites are off, whatever other rules say.
    Mute,
    /// One call of so many passes.
    Every(u32),
    /// So many calls pass in a second.
    PerSecond(u32),
    /// So many calls pass in a second for each value of a field.
    PerKey {
        /// The field's name.
        field: String,
        /// Calls that pass in a second for each of its values.
        per_second: u32,
    },
}

/// Callsites that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// All of them.
    All,
    /// Those of a target, or of a module where no target was given, and of what is below it.
    Module(String),
    /// Those of a source file: its path, or the end of it.
    File(String),
    /// Those of one line.
    Line(String, u32),
    /// One, by its number in the session.
    Callsite(u32),
}

impl Rule {
    /// Returns whether it holds at a time.
    pub fn holds(&self, now_unix_ns: u64) -> bool {
        self.until_unix_ns == 0 || now_unix_ns < self.until_unix_ns
    }
}

/// The front of the file, mapped by everybody.
#[repr(C)]
#[derive(Debug)]
struct Header {
    magic: AtomicU64,
    sequence: AtomicU64,
    off_control: AtomicU32,
    unused: AtomicU32,
}

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(offset_of!(Header, sequence) == 8);
    assert!(offset_of!(Header, off_control) == 16);
    assert!(size_of::<Header>() <= HEADER_BYTES);
    assert!(HEADER_BYTES + 2 * TABLE_BYTES == RULES_FILE_BYTES);
};

/// The rules of one session.
#[derive(Debug)]
pub struct RulesFile {
    file: OwnFile,
    path: PathBuf,
    mapping: sys::Mapping,
}

impl RulesFile {
    /// Makes the file of a new session, without rules.
    pub(crate) fn create(dir: &SessionDir) -> Result<Self, RingError> {
        let (file, path) = dir.create_file("rules", RULES_FILE_BYTES as u64)?;
        Self::format(file, path)
    }

    /// Makes a file of zeroes one without rules.
    pub(crate) fn format(file: File, path: PathBuf) -> Result<Self, RingError> {
        let rules = Self::map(file, path)?;
        // SYNC(rules): stored last; a reader that sees it sees an empty file behind it.
        rules.header().magic.store(MAGIC, Ordering::Release);
        Ok(rules)
    }

    /// Takes a file that the caller has opened; the path is for messages.
    ///
    /// # Errors
    /// When it is not a file of rules.
    pub(crate) fn from_file(file: File, path: PathBuf) -> Result<Self, RingError> {
        let bytes = file
            .metadata()
            .map_err(|cause| RingError::io("look at", &path, cause))?
            .len();
        if bytes != RULES_FILE_BYTES as u64 {
            return Err(damaged("file size", bytes, "65536 bytes"));
        }
        let rules = Self::map(file, path)?;
        // SYNC(rules)
        let magic = rules.header().magic.load(Ordering::Acquire);
        if magic != MAGIC {
            return Err(damaged("magic", magic, "LDRULES and version 1"));
        }
        Ok(rules)
    }

    fn map(file: File, path: PathBuf) -> Result<Self, RingError> {
        let mapping = sys::Mapping::plain(&file, 0, HEADER_BYTES)
            .map_err(|cause| RingError::io("map", &path, cause))?;
        let file = OwnFile::new(file).map_err(|cause| RingError::io("look at", &path, cause))?;
        Ok(Self { file, path, mapping })
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is one page, aligned, and lives as long as `self`; all fields are atomics.
        unsafe { &*self.mapping.base().cast::<Header>() }
    }

    /// A number that changes with every change of the rules; 0 before the first. One load.
    pub fn sequence(&self) -> u64 {
        // SYNC(rules): the table that belongs to the number is written.
        self.header().sequence.load(Ordering::Acquire)
    }

    /// The control word of callsites that the process switches off: its own choice whether such calls are counted.
    pub fn off_control(&self) -> u32 {
        // Relaxed: stored before the first callsite is registered.
        self.header().off_control.load(Ordering::Relaxed)
    }

    /// Notes which control word the process takes for callsites that are off.
    pub fn set_off_control(&self, control: u32) {
        self.header().off_control.store(control, Ordering::Relaxed);
    }

    /// The rules in force, with their sequence; also those whose time is over.
    ///
    /// # Errors
    /// When the file cannot be read, or does not hold what it claims to.
    pub fn read(&self) -> Result<(u64, Vec<Rule>), RingError> {
        let mut sequence = self.sequence();
        for _ in 0..RULE_READS_MAX {
            if sequence == 0 {
                return Ok((0, Vec::new()));
            }
            let read = self.read_table(sequence);
            let now = self.sequence();
            if now == sequence {
                return Ok((sequence, read?));
            }
            sequence = now;
        }
        Err(damaged(
            "sequence",
            sequence,
            "a number that stays for some microseconds",
        ))
    }

    fn read_table(&self, sequence: u64) -> Result<Vec<Rule>, RingError> {
        let mut table = vec![0; TABLE_BYTES];
        self.file
            .opened(&self.path)?
            .read_exact_at(&mut table, table_offset(sequence))
            .map_err(|cause| RingError::io("read", &self.path, cause))?;
        bytes::read_table(&table, sequence)
    }

    /// Locks the file, so that the rules can be changed. Waits for another tool, two seconds at most.
    ///
    /// # Errors
    /// When another tool holds the lock for longer, or the file cannot be locked.
    pub fn lock(&self) -> Result<RulesLock<'_>, RingError> {
        let deadline = Instant::now() + Duration::from_millis(RULES_WAIT_MS_MAX);
        loop {
            if let Some(lock) = self.try_lock()? {
                return Ok(lock);
            }
            if Instant::now() > deadline {
                return Err(RingError::Busy {
                    path: self.path.clone(),
                });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Locks the file without waiting; `None` when another tool has it.
    ///
    /// # Errors
    /// When the file cannot be locked.
    pub fn try_lock(&self) -> Result<Option<RulesLock<'_>>, RingError> {
        let file = self.file.opened(&self.path)?;
        let locked = sys::lock_for_opener(&file).map_err(|cause| RingError::io("lock", &self.path, cause))?;
        Ok(locked.then_some(RulesLock { rules: self, file }))
    }
}

/// The right to change the rules of a session, until it is dropped.
#[derive(Debug)]
pub struct RulesLock<'a> {
    rules: &'a RulesFile,
    file: Opened<'a>,
}

impl RulesLock<'_> {
    /// Puts these rules in force; returns their sequence. Control words stay as they are: storing those that follow
    /// from the rules is the caller's next step.
    ///
    /// # Errors
    /// When they are too many or too long, and then nothing has changed; or when the file cannot be written.
    pub fn replace(&self, rules: &[Rule]) -> Result<u64, RingError> {
        let mut next = self.rules.sequence().wrapping_add(1);
        if next == 0 {
            // 0 says that there never were any; what has wrapped goes on behind it.
            next = 2;
        }
        let table = bytes::write_table(rules, next)?;
        self.file
            .write_all_at(&table, table_offset(next))
            .map_err(|cause| RingError::io("write", &self.rules.path, cause))?;
        // SYNC(rules): the table is written, and is that of the new number.
        self.rules.header().sequence.store(next, Ordering::Release);
        // SYNC(settle): a callsite that is registered now sees these rules, or the thread that stores words sees the
        // callsite.
        fence(Ordering::SeqCst);
        Ok(next)
    }
}

impl Drop for RulesLock<'_> {
    fn drop(&mut self) {
        // It cannot fail for a lock that is held.
        let _ = self.file.unlock();
    }
}

fn table_offset(sequence: u64) -> u64 {
    (HEADER_BYTES + (sequence % 2) as usize * TABLE_BYTES) as u64
}

fn damaged(field: &'static str, found: u64, expected: &'static str) -> RingError {
    RingError::damaged("table of rules", field, found, expected)
}

#[cfg(test)]
mod tests;
