//! The directory of a log: made where it is missing, and checked for who else may write there.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{FileError, FileOperation};
use super::limits::OPEN_RACES_MAX;
use super::names::Names;
use super::notices::Notices;
use super::options::FileOptions;
use super::storage::{Stat, Storage, existing};
use super::tidy::Tidy;
use crate::calendar::Zone;

/// An open directory with all that is needed to open and move files in it.
#[derive(Clone, Debug)]
pub(crate) struct LogDirectory {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) options: Arc<FileOptions>,
    pub(crate) names: Names,
    pub(crate) zone: Zone,
    pub(crate) dir: Arc<File>,
    pub(crate) notices: Notices,
    /// All users may make files here (with the sticky bit): files of others are refused.
    shared: bool,
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
        let dir = open_dir(storage.as_ref(), &names.dir, &options)?;
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
            shared,
        })
    }

    /// The full path of a file.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.names.dir.join(name)
    }

    /// Returns all that the pass behind a rotation needs.
    pub(crate) fn tidy(&self) -> Tidy {
        Tidy {
            storage: self.storage.clone(),
            dir: self.dir.clone(),
            names: self.names.clone(),
            options: self.options.clone(),
            notices: self.notices.clone(),
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

    /// Makes new names durable. A failure leaves the log usable, so it is only reported.
    pub(crate) fn sync_dir(&self) {
        if let Err(cause) = self.storage.sync_dir(&self.dir) {
            self.notices
                .push(FileError::io(FileOperation::Sync, &self.names.dir, cause));
        }
    }

    /// In a directory that all may write to, a file must be our own and have no second name.
    pub(crate) fn check_owner(&self, path: &Path, stat: &Stat) -> Result<(), FileError> {
        let own = stat.uid == rustix::process::geteuid().as_raw() && stat.links <= 1;
        match self.shared && !own {
            true => Err(FileError::FileOfOther {
                path: path.to_path_buf(),
                owner: stat.uid,
            }),
            false => Ok(()),
        }
    }
}

/// Opens a directory for logs, makes it where it is missing and refuses it where others may play
/// tricks with it.
pub(crate) fn open_dir(storage: &dyn Storage, path: &Path, options: &FileOptions) -> Result<File, FileError> {
    let trusted = options.trust_directory;
    let mut dir = storage.open_dir(path, trusted);
    if dir
        .as_ref()
        .is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound)
    {
        make_dirs(storage, path, options.dir_mode)?;
        dir = storage.open_dir(path, trusted);
    }
    let dir = dir.map_err(|cause| {
        // The system says "no directory" for a link that it may not follow. This look is for the
        // message alone.
        let link = path
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_symlink());
        match link && !trusted {
            true => FileError::DirectoryIsLink {
                path: path.to_path_buf(),
            },
            false => FileError::io(FileOperation::OpenDirectory, path, cause),
        }
    })?;
    let stat = storage
        .stat_file(&dir)
        .map_err(|cause| FileError::io(FileOperation::Inspect, path, cause))?;
    let (user, path) = (rustix::process::geteuid().as_raw(), path.to_path_buf());
    if trusted {
        return Ok(dir);
    }
    if stat.mode & 0o1002 == 0o002 {
        return Err(FileError::DirectoryOpenToAll {
            path,
            mode: stat.mode,
        });
    }
    if stat.uid != user && stat.uid != 0 {
        return Err(FileError::DirectoryOfOther {
            path,
            owner: stat.uid,
            user,
        });
    }
    Ok(dir)
}

/// Makes a directory and those above it that are missing.
fn make_dirs(storage: &dyn Storage, path: &Path, mode: u32) -> Result<(), FileError> {
    let mut missing = vec![path];
    let mut tries_left = OPEN_RACES_MAX as usize + 2 * path.components().count();
    while let Some(&deepest) = missing.last() {
        let made = storage.create_dir(deepest, mode);
        tries_left = tries_left.saturating_sub(1);
        match made.map_err(|cause| (cause.kind(), cause)) {
            Ok(()) | Err((io::ErrorKind::AlreadyExists, _)) => {
                missing.pop();
            }
            // Another program that removes these directories must not cause an endless loop.
            Err((io::ErrorKind::NotFound, cause)) => match deepest.parent() {
                Some(parent) if tries_left > 0 => missing.push(parent),
                _ => return Err(FileError::io(FileOperation::CreateDirectory, deepest, cause)),
            },
            Err((_, cause)) => return Err(FileError::io(FileOperation::CreateDirectory, deepest, cause)),
        }
    }
    Ok(())
}
