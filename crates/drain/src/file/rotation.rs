//! Change of the active file: rotation by size and time, sealing after a failed sync, and
//! following a rotation by another program.
//!
//! The new file is made and locked under the name that the old one shall get; then both exchange
//! their names at once. So the configured path never is without a file, no other process can take it
//! in between, and what cannot work (a full disk, no descriptor left) fails before anything moved.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use super::active::Active;
use super::directory::LogDirectory;
use super::error::{FileError, FileOperation};
use super::limits::{CHECK_INTERVAL_NS, LISTED_MAX, ROTATION_RETRY_NS, SEQUENCE_MAX};
use super::log_file::{LogFile, seconds, tidy};
use super::names::Rotated;
use super::notices::Notices;
use super::storage::{OpenMode, RenameMode, is_named};

impl LogFile {
    /// Before a chunk: leaves a sealed file, and goes back to the path when another program moved the file.
    pub(crate) fn follow(&mut self, now_unix_ns: u64) -> Result<(), FileError> {
        if self.active.sealed {
            self.rotate(now_unix_ns)?;
        }
        // A clock that was set back must not put the look off.
        let looked_ns = now_unix_ns.checked_sub(self.checked_unix_ns);
        if !self.reopen_asked && looked_ns.is_some_and(|since_ns| since_ns < CHECK_INTERVAL_NS) {
            return Ok(());
        }
        self.checked_unix_ns = now_unix_ns;
        self.reopen_asked = false;
        if self.active.regular && self.active.name == self.directory.names.active() {
            self.beside.report_new(&self.directory);
        }
        self.unsynced.release_deleted(self.directory.storage.as_ref());
        if !self.was_moved() {
            return Ok(());
        }
        let Err(error) = self.reopen_path(now_unix_ns) else {
            return Ok(());
        };
        let stat = self.directory.stat_file(&self.active.file, &self.active.name)?;
        if stat.links == 0 {
            // What is written to a file without a name is lost: better fail, and be asked again.
            self.reopen_asked = true;
            return Err(error);
        }
        self.directory.notices.push(error);
        Ok(())
    }

    /// Returns true if the path is gone or shows another file. The full path is asked, and not the open
    /// directory, since the directory may have been moved too.
    pub(crate) fn was_moved(&self) -> bool {
        match self.directory.storage.stat(&self.directory.dir, &self.path()) {
            Ok(stat) => (stat.dev, stat.ino) != (self.active.dev, self.active.ino),
            Err(cause) => {
                matches!(
                    cause.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                )
            }
        }
    }

    /// Opens the configured path anew, directory and all.
    fn reopen_path(&mut self, now_unix_ns: u64) -> Result<(), FileError> {
        let storage = self.directory.storage.clone();
        let notices: Notices = self.directory.notices.clone();
        let run_dirs = Arc::clone(&self.directory.run_dirs);
        let directory = LogDirectory::open(&self.directory.options, storage, notices)?.among(run_dirs);
        let active = Active::choose(&directory, seconds(now_unix_ns))?;
        if let Err(error) = self.active.finish_truncation(&self.directory) {
            self.directory.notices.push(error);
        }
        let mut old = std::mem::replace(&mut self.active, active);
        let stat = old.regular.then(|| self.directory.storage.stat_file(&old.file));
        if matches!(stat, Some(Ok(stat)) if stat.links == 0) {
            old.doubt(&self.directory, &self.unsynced);
            self.directory.notices.push(format_args!(
                "the log file {} was deleted while it was written: it is begun anew, with what was on its way",
                self.directory.path_of(&old.name).display()
            ));
        } else {
            let name = old.name.clone();
            old.leave(&self.directory, &name, &self.unsynced);
        }
        self.directory = directory;
        self.set_link();
        Ok(())
    }

    /// Rotates when size or time ask for it. A failure is reported, and the old file is written on.
    pub(crate) fn rotate_if_due(&mut self, len_bytes: u64, now_unix_ns: u64) {
        let period = self.directory.period(seconds(now_unix_ns));
        if self.active.is_empty() || period < self.active.period {
            // An empty file moves to the present period; a clock that was set back begins it anew.
            self.active.period = period;
        }
        let full = self
            .directory
            .options
            .rotate_bytes
            .is_some_and(|rotate_bytes| self.active.end_offset.saturating_add(len_bytes) > rotate_bytes);
        if self.active.is_empty() || !(full || period > self.active.period) {
            return;
        }
        let failed_ns = self
            .rotation_failed_unix_ns
            .and_then(|at_ns| now_unix_ns.checked_sub(at_ns));
        if failed_ns.is_some_and(|since_ns| since_ns < ROTATION_RETRY_NS) {
            return;
        }
        match self.rotate(now_unix_ns) {
            Ok(()) => self.rotation_failed_unix_ns = None,
            Err(error) => {
                self.rotation_failed_unix_ns = Some(now_unix_ns);
                self.directory
                    .notices
                    .push(format_args!("{error}; it is written on for now"));
            }
        }
    }

    /// Moves the active file away and begins a new one in its place.
    pub(crate) fn rotate(&mut self, now_unix_ns: u64) -> Result<(), FileError> {
        if self.was_moved() {
            return self.reopen_path(now_unix_ns);
        }
        // A torn line would stay in the rotated file for ever.
        self.active.finish_truncation(&self.directory)?;
        let now_unix_s = seconds(now_unix_ns);
        let (file, rotated) = self.exchange(now_unix_s)?;
        let name = self.active.name.clone();
        let stat = self.directory.stat_file(&file, &name)?;
        let active = Active::regular(file, &name, &stat, self.directory.period(now_unix_s));
        let old = std::mem::replace(&mut self.active, active);
        let rotated_name = self.rotated_name(rotated)?;
        old.leave(&self.directory, &rotated_name, &self.unsynced);
        self.directory.mark_names_changed();
        self.last_rotated = Some(rotated);
        self.set_link();
        tidy(self, now_unix_ns, false);
        Ok(())
    }

    /// Puts a new, locked file under the active name and gives the old one a rotated name.
    fn exchange(&mut self, now_unix_s: i64) -> Result<(File, Rotated), FileError> {
        let name = &self.active.name;
        let failed = |cause| FileError::io(FileOperation::Rotate, self.path(), cause);
        let mut rotated = self.next_rotated(now_unix_s)?;
        loop {
            let rotated_name = self.rotated_name(rotated)?;
            let file = match self.create(&rotated_name) {
                Ok(Some(file)) => file,
                Ok(None) => {
                    rotated.sequence += 1;
                    continue;
                }
                Err(cause) => return Err(failed(cause)),
            };
            let (storage, dir) = (&self.directory.storage, &self.directory.dir);
            let exchanged = storage.rename(dir, name, &rotated_name, RenameMode::Exchange);
            let Err(cause) = exchanged else {
                return Ok((file, rotated));
            };
            let removed = storage.remove(dir, &rotated_name);
            if !matches!(
                Errno::from_io_error(&cause),
                Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
            ) {
                return Err(failed(cause));
            }
            removed.map_err(failed)?;
            return self
                .rename_and_create(&rotated_name)
                .map(|file| (file, rotated))
                .map_err(failed);
        }
    }

    /// Makes and locks a file; nothing when the name is taken.
    fn create(&self, name: &str) -> io::Result<Option<File>> {
        let (storage, dir) = (&self.directory.storage, &self.directory.dir);
        let file = match storage.open(dir, name, OpenMode::New(self.directory.options.mode)) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            other => other?,
        };
        match self.directory.lock(&file, &self.directory.path_of(name)) {
            // Before the lock it was an empty file that nobody held: a pass that tidies may have removed its name.
            Ok(true) => Ok(is_named(storage.as_ref(), dir, name, &file)?.then_some(file)),
            // Another process checks whether this is a left-over; it removes the name if so.
            Ok(false) => Ok(None),
            Err(error) => {
                // The returned error has the cause; the next open removes an empty left-over.
                let _ = storage.remove(dir, name);
                Err(match error {
                    FileError::Io { cause, .. } => cause,
                    _ => io::ErrorKind::Other.into(),
                })
            }
        }
    }

    /// The way for file systems that cannot exchange names. When the new file cannot be made, the old
    /// one gets its name back.
    fn rename_and_create(&self, rotated_name: &str) -> io::Result<File> {
        let (storage, dir, name) = (&self.directory.storage, &self.directory.dir, &self.active.name);
        storage.rename(dir, name, rotated_name, RenameMode::NoReplace)?;
        let created = self.create(name);
        if let Ok(Some(file)) = created {
            return Ok(file);
        }
        // Where even this fails, the file is found to be moved within a second, and reopened.
        let _ = storage.rename(dir, rotated_name, name, RenameMode::NoReplace);
        Err(created.err().unwrap_or_else(|| Errno::AGAIN.into()))
    }

    /// Moves the active file away without a new one: at close.
    pub(crate) fn move_away(&mut self, now_unix_ns: u64) -> Result<(), FileError> {
        let mut rotated = self.next_rotated(seconds(now_unix_ns))?;
        loop {
            let rotated_name = self.rotated_name(rotated)?;
            let (storage, dir) = (&self.directory.storage, &self.directory.dir);
            match storage.rename(dir, &self.active.name, &rotated_name, RenameMode::NoReplace) {
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => rotated.sequence += 1,
                Err(cause) => return Err(FileError::io(FileOperation::Rotate, self.path(), cause)),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// The place behind all rotated files that are there, and behind those that this process has made: the order of
    /// the numbers is the order of the rotations, whatever the clock says.
    fn next_rotated(&self, now_unix_s: i64) -> Result<Rotated, FileError> {
        let names = &self.directory.names;
        let highest = Cell::new(self.last_rotated.map_or(0, |last| last.sequence));
        // Nothing is listed, so that no number of files is too many.
        let note = |name: &std::ffi::OsStr| {
            if let Some((rotated, _)) = names.parse_rotated(name) {
                highest.set(highest.get().max(rotated.sequence));
            }
            false
        };
        self.directory
            .storage
            .list(&self.directory.dir, &note, LISTED_MAX)
            .map_err(|cause| FileError::io(FileOperation::List, &names.dir, cause))?;
        Ok(Rotated {
            sequence: highest.get() + 1,
            unix_s: now_unix_s,
            number: 0,
        })
    }

    fn rotated_name(&self, rotated: Rotated) -> Result<String, FileError> {
        if rotated.sequence > SEQUENCE_MAX {
            return Err(FileError::NoNameLeft { path: self.path() });
        }
        Ok(self
            .directory
            .names
            .rotated(&self.directory.zone.stamp(rotated.unix_s), rotated.sequence))
    }
}
