//! The directory of a log: made where it is missing, and checked for who else may write there.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::error::{FileError, FileOperation};
use super::names::Names;
use super::notices::Notices;
use super::open_dir::open_dir;
use super::options::FileOptions;
use super::storage::{Stat, Storage, existing};
use super::tidy::{CompactFiles, Tidy};
use super::unsynced::UnsyncedFiles;
use crate::calendar::Zone;

/// Names that a sync has still to bring to the disk.
#[derive(Debug)]
struct UnsyncedNames {
    /// Those in the log's directory.
    own: bool,
    /// Directories in which others were made.
    parents: Vec<PathBuf>,
}

/// An open directory with all that is needed to open and move files in it.
#[derive(Debug)]
pub(crate) struct LogDirectory {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) options: Arc<FileOptions>,
    pub(crate) names: Names,
    pub(crate) zone: Zone,
    pub(crate) dir: Arc<File>,
    pub(crate) notices: Notices,
    /// Rotated segments that passes need not look at again.
    compact_files: CompactFiles,
    cold_files: CompactFiles,
    /// Directories with sessions of dead processes that may have begun to write to the log.
    pub(crate) run_dirs: Arc<[PathBuf]>,
    /// All users may make files here (with the sticky bit): files of others are refused.
    shared: bool,
    /// Directories whose names may not be on disk; without paths of their own for the log's.
    unsynced_names: UnsyncedNames,
}

impl LogDirectory {
    /// Opens the directory of the log, and makes it if need be.
    pub(crate) fn open(
        options: &FileOptions,
        storage: Arc<dyn Storage>,
        notices: Notices,
    ) -> Result<LogDirectory, FileError> {
        options.check()?;
        let options = Arc::new(options.absolute()?);
        let names = Names::new(&options.path)?;
        let (dir, parents) = open_dir(storage.as_ref(), &names.dir, &options)?;
        let stat = storage
            .stat_file(&dir)
            .map_err(|cause| FileError::io(FileOperation::Inspect, &names.dir, cause))?;
        let zone = Zone::new(options.local_time).unwrap_or_else(|| {
            notices.push("this program was built without local time: times are UTC");
            Zone::Utc
        });
        let shared = stat.mode & 0o002 != 0 && !options.trust_directory;
        Ok(LogDirectory {
            storage,
            options,
            names,
            zone,
            dir: Arc::new(dir),
            notices,
            compact_files: CompactFiles::default(),
            cold_files: CompactFiles::default(),
            run_dirs: Arc::default(),
            shared,
            unsynced_names: UnsyncedNames { own: true, parents },
        })
    }

    /// The same, where the log may be one of processes whose sessions are in some run directories.
    pub(crate) fn among(self, run_dirs: Arc<[PathBuf]>) -> LogDirectory {
        LogDirectory { run_dirs, ..self }
    }

    /// The full path of a file.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.names.dir.join(name)
    }

    /// Returns all that the pass behind a rotation needs.
    pub(crate) fn tidy(&self, unsynced: &UnsyncedFiles, has_segments: bool) -> Tidy {
        Tidy {
            storage: self.storage.clone(),
            dir: self.dir.clone(),
            names: self.names.clone(),
            options: self.options.clone(),
            notices: self.notices.clone(),
            unsynced: unsynced.clone(),
            has_segments,
            compact_files: self.compact_files.clone(),
            cold_files: self.cold_files.clone(),
            cold: OnceLock::new(),
        }
    }

    /// The number of the period that a time falls into; always the same without rotation by time.
    pub(crate) fn period(&self, unix_s: i64) -> i64 {
        self.options
            .rotate_every
            .map_or(0, |every| self.zone.period(every, unix_s))
    }

    /// Returns the metadata of an open file.
    pub(crate) fn stat_file(&self, file: &File, name: &str) -> Result<Stat, FileError> {
        self.storage
            .stat_file(file)
            .map_err(|cause| FileError::io(FileOperation::Inspect, self.path_of(name), cause))
    }

    /// Returns true if a name still belongs to a file.
    pub(crate) fn still_named(&self, name: &str, stat: &Stat) -> Result<bool, FileError> {
        let named = existing(self.storage.stat(&self.dir, Path::new(name)))
            .map_err(|cause| FileError::io(FileOperation::Inspect, self.path_of(name), cause))?;
        Ok(named.is_some_and(|named| named.same_file(stat)))
    }

    /// Takes the lock of a file; `false` when another process has it.
    pub(crate) fn lock(&self, file: &File, path: &Path) -> Result<bool, FileError> {
        use rustix::io::Errno;
        match self.storage.lock(file) {
            Ok(taken) => Ok(taken),
            Err(cause) => match Errno::from_io_error(&cause) {
                Some(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => {
                    self.notices.push(format_args!(
                        "the file system of {} has no locks: let no second process write there",
                        path.display()
                    ));
                    Ok(true)
                }
                _ => Err(FileError::io(FileOperation::Lock, path, cause)),
            },
        }
    }

    /// Files were made or renamed.
    pub(crate) fn mark_names_changed(&mut self) {
        self.unsynced_names.own = true;
    }

    /// Brings changed names to the disk. What fails is in doubt, and tried again by the next sync.
    pub(crate) fn sync_names(&mut self, unsynced: &UnsyncedFiles) {
        let storage = self.storage.as_ref();
        if self.unsynced_names.own {
            match storage.sync_dir(&self.dir) {
                Ok(()) => self.unsynced_names.own = false,
                Err(cause) => unsynced.note(FileError::io(FileOperation::Sync, &self.names.dir, cause)),
            }
        }
        self.unsynced_names.parents.retain(|parent| {
            let dir = match storage.open_dir(parent, true) {
                // It may be written and not read, or is gone: nothing can be done.
                Err(cause) if is_closed_to_us(&cause) => return false,
                opened => opened,
            };
            let synced = dir.and_then(|dir| storage.sync_dir(&dir));
            synced
                .map_err(|cause| unsynced.note(FileError::io(FileOperation::Sync, parent, cause)))
                .is_err()
        });
    }

    /// In a directory that all may write to, a file must be our own and have no second name.
    pub(crate) fn check_owner(&self, path: &Path, stat: &Stat) -> Result<(), FileError> {
        let own = stat.uid == logdrive_ring::user_id() && stat.links <= 1;
        match self.shared && !own {
            true => Err(FileError::FileOfOther {
                path: path.to_path_buf(),
                owner: stat.uid,
            }),
            false => Ok(()),
        }
    }
}

fn is_closed_to_us(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound
    )
}
