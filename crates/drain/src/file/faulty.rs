//! A storage that fails as told, for tests of what a full, broken or hanging disk does to a program.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::storage::{Disk, OpenMode, RenameMode, Stat, Storage};

/// An operation of [`Storage`] that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each is the method of that name
pub enum Operation {
    OpenDir,
    CreateDir,
    List,
    Open,
    Stat,
    StatFile,
    Rename,
    Remove,
    Symlink,
    ReadLink,
    SyncDir,
    Lock,
    ReadAt,
    WriteAt,
    Write,
    SetLen,
    Sync,
}

/// Fault that an operation meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this error number, and nothing is done.
    Error(i32),
    /// A read or write does at most so many bytes.
    Short(usize),
    /// It waits until the faults are cleared, then goes on as if nothing had been.
    Hang,
}

/// One fault: which operations, after how many that pass, and how many of them.
#[derive(Clone, Copy, Debug)]
struct Rule {
    operation: Option<Operation>,
    passes: u64,
    times: u64,
    fault: Fault,
}

/// Faults that are due, and calls that were counted.
#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    calls: HashMap<Operation, u64>,
    hanging: usize,
}

/// The real disk, with faults on order.
///
/// ```
/// use logdrive_drain::file::{Disk, Fault, Faulty, FileOptions, LogFile, Operation};
/// use std::sync::Arc;
///
/// let dir = tempfile::tempdir()?;
/// let storage = Arc::new(Faulty::new());
/// let mut file = LogFile::open(&FileOptions::new(dir.path().join("a.log")), storage.clone(), 0)?;
/// storage.fail(Operation::WriteAt, 0, 1, Fault::Error(28)); // the disk is full, once
/// let placement = file.place(6, 0)?;
/// assert_eq!(file.write_at(placement, 0, b"hello\n").unwrap_err().written_bytes, 0);
/// file.write_at(placement, 0, b"hello\n")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Faulty {
    state: Mutex<State>,
    changed: Condvar,
}

impl Faulty {
    /// A storage that works like [`Disk`] until a fault is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `passes` operations of this sort through, then spoils `times`.
    pub fn fail(&self, operation: Operation, passes: u64, times: u64, fault: Fault) {
        let operation = Some(operation);
        self.state().rules.push(Rule {
            operation,
            passes,
            times,
            fault,
        });
    }

    /// Lets `passes` operations of any sort through, then spoils all that follow.
    pub fn fail_all(&self, passes: u64, fault: Fault) {
        self.state().rules.push(Rule {
            operation: None,
            passes,
            times: u64::MAX,
            fault,
        });
    }

    /// Ends all faults; what hangs goes on.
    pub fn clear(&self) {
        self.state().rules.clear();
        self.changed.notify_all();
    }

    /// Number of times that an operation was asked for.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.state().calls.get(&operation).copied().unwrap_or(0)
    }

    /// Waits until so many operations hang at once. May block for ever: for tests only.
    pub fn wait_until_hanging(&self, count: usize) {
        let mut state = self.state();
        while state.hanging < count {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the first rule that fits; returns how many bytes may pass.
    fn enter(&self, operation: Operation) -> io::Result<usize> {
        let mut state = self.state();
        *state.calls.entry(operation).or_default() += 1;
        let mut hit = None;
        for rule in &mut state.rules {
            if rule.operation.is_some_and(|wanted| wanted != operation) || rule.times == 0 {
                continue;
            }
            if rule.passes > 0 {
                rule.passes -= 1;
                continue;
            }
            rule.times -= 1;
            hit = Some(rule.fault);
            break;
        }
        match hit {
            None => Ok(usize::MAX),
            Some(Fault::Short(bytes)) => Ok(bytes),
            Some(Fault::Error(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::Hang) => {
                state.hanging += 1;
                self.changed.notify_all();
                while state.rules.iter().any(|rule| rule.fault == Fault::Hang) {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                state.hanging -= 1;
                Ok(usize::MAX)
            }
        }
    }
}

impl Storage for Faulty {
    fn open_dir(&self, path: &Path, follow: bool) -> io::Result<File> {
        self.enter(Operation::OpenDir)?;
        Disk.open_dir(path, follow)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.enter(Operation::CreateDir)?;
        Disk.create_dir(path, mode)
    }

    fn list(&self, dir: &File, wanted: &dyn Fn(&OsStr) -> bool, max: usize) -> io::Result<Vec<OsString>> {
        self.enter(Operation::List)?;
        Disk.list(dir, wanted, max)
    }

    fn open(&self, dir: &File, name: &str, how: OpenMode) -> io::Result<File> {
        self.enter(Operation::Open)?;
        Disk.open(dir, name, how)
    }

    fn stat(&self, dir: &File, name: &Path) -> io::Result<Stat> {
        self.enter(Operation::Stat)?;
        Disk.stat(dir, name)
    }

    fn stat_file(&self, file: &File) -> io::Result<Stat> {
        self.enter(Operation::StatFile)?;
        Disk.stat_file(file)
    }

    fn rename(&self, dir: &File, from: &str, to: &str, mode: RenameMode) -> io::Result<()> {
        self.enter(Operation::Rename)?;
        Disk.rename(dir, from, to, mode)
    }

    fn remove(&self, dir: &File, name: &str) -> io::Result<()> {
        self.enter(Operation::Remove)?;
        Disk.remove(dir, name)
    }

    fn symlink(&self, dir: &File, target: &Path, name: &str) -> io::Result<()> {
        self.enter(Operation::Symlink)?;
        Disk.symlink(dir, target, name)
    }

    fn read_link(&self, dir: &File, name: &str) -> io::Result<PathBuf> {
        self.enter(Operation::ReadLink)?;
        Disk.read_link(dir, name)
    }

    fn sync_dir(&self, dir: &File) -> io::Result<()> {
        self.enter(Operation::SyncDir)?;
        Disk.sync_dir(dir)
    }

    fn lock(&self, file: &File) -> io::Result<bool> {
        self.enter(Operation::Lock)?;
        Disk.lock(file)
    }

    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let may = self.enter(Operation::ReadAt)?.min(bytes.len());
        Disk.read_at(file, &mut bytes[..may], offset)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let may = self.enter(Operation::WriteAt)?.min(bytes.len());
        Disk.write_at(file, &bytes[..may], offset)
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let may = self.enter(Operation::Write)?.min(bytes.len());
        Disk.write(file, &bytes[..may])
    }

    fn set_len(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.enter(Operation::SetLen)?;
        Disk.set_len(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.enter(Operation::Sync)?;
        Disk.sync(file)
    }
}
