//! A storage with injected failures, for tests of what a full, broken or hanging disk does to a program.

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
    /// It takes so many milliseconds longer.
    Slow(u64),
    /// It waits until the faults are cleared, then goes on as if nothing had been.
    Hang,
    /// The process is killed before anything is done, as by SIGKILL from outside.
    Kill,
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
        self.add(Some(operation), passes, times, fault);
    }

    /// Lets `passes` operations of any sort through, then spoils all that follow.
    pub fn fail_all(&self, passes: u64, fault: Fault) {
        self.add(None, passes, u64::MAX, fault);
    }

    fn add(&self, operation: Option<Operation>, passes: u64, times: u64, fault: Fault) {
        self.state().rules.push(Rule {
            operation,
            passes,
            times,
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
            Some(Fault::Slow(ms)) => {
                drop(state);
                std::thread::sleep(std::time::Duration::from_millis(ms));
                Ok(usize::MAX)
            }
            Some(Fault::Error(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::Kill) => {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL)?;
                // The signal ends this thread before the call returns.
                Err(rustix::io::Errno::INTR.into())
            }
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

/// Methods that do what [`Disk`] does, where no fault meets their operation.
macro_rules! forward {
    ($($operation:ident: fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> io::Result<$result> {
            self.enter(Operation::$operation)?;
            Disk.$name($($argument),*)
        })*
    };
}

impl Storage for Faulty {
    forward! {
        OpenDir: fn open_dir(path: &Path, follow: bool) -> File;
        CreateDir: fn create_dir(path: &Path, mode: u32) -> ();
        List: fn list(dir: &File, wanted: &dyn Fn(&OsStr) -> bool, max: usize) -> Vec<OsString>;
        Open: fn open(dir: &File, name: &str, how: OpenMode) -> File;
        Stat: fn stat(dir: &File, name: &Path) -> Stat;
        StatFile: fn stat_file(file: &File) -> Stat;
        Rename: fn rename(dir: &File, from: &str, to: &str, mode: RenameMode) -> ();
        Remove: fn remove(dir: &File, name: &str) -> ();
        Symlink: fn symlink(dir: &File, target: &Path, name: &str) -> ();
        ReadLink: fn read_link(dir: &File, name: &str) -> PathBuf;
        SyncDir: fn sync_dir(dir: &File) -> ();
        SetLen: fn set_len(file: &File, bytes: u64) -> ();
        Sync: fn sync(file: &File) -> ();
    }

    fn lock(&self, file: &File) -> io::Result<bool> {
        match self.enter(Operation::Lock) {
            // As if another process had it.
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Ok(false),
            other => other.and_then(|_| Disk.lock(file)),
        }
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
}
