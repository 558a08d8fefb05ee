//! The directory of a log: made where it is missing, checked for who else may write there, and the
//! place where a process chooses the file that it owns.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::active::Active;
use super::calendar::Zone;
use super::error::{Doing, FileError};
use super::limits::{BESIDE_MAX, OPEN_RACES_MAX};
use super::names::Names;
use super::notices::Notices;
use super::options::FileOptions;
use super::storage::{Kind, Open, Stat, Storage};
use super::tidy::Tidy;

/// An open directory with all that is needed to open and move files in it.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) options: Arc<FileOptions>,
    pub(crate) names: Names,
    pub(crate) zone: Zone,
    pub(crate) dir: Arc<File>,
    pub(crate) notices: Notices,
    /// All users may make files here (with the sticky bit): files of others are refused.
    shared: bool,
}

impl Home {
    /// Opens the directory of the log, and makes it if need be.
    pub(crate) fn open(
        options: &FileOptions,
        storage: Arc<dyn Storage>,
        notices: Notices,
    ) -> Result<Home, FileError> {
        options.check()?;
        let options = Arc::new(options.absolute()?);
        let names = Names::new(&options.path)?;
        let dir = open_dir(storage.as_ref(), &names.dir, &options)?;
        let stat = storage
            .stat_file(&dir)
            .map_err(|cause| FileError::io(Doing::Inspect, &names.dir, cause))?;
        let (zone, found) = Zone::new(options.local_time);
        if !found {
            notices.push("this program was built without local time: times are UTC");
        }
        let shared = stat.mode & 0o002 != 0 && !options.trust_directory;
        Ok(Home {
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

    /// What the pass behind a rotation needs.
    pub(crate) fn tidy(&self) -> Tidy {
        Tidy {
            storage: self.storage.clone(),
            dir: self.dir.clone(),
            names: self.names.clone(),
            options: self.options.clone(),
            notices: self.notices.clone(),
        }
    }

    /// Opens the file that this process is to own: the configured one, or one beside it when another
    /// process has that.
    pub(crate) fn choose(&self, now_unix_s: i64) -> Result<Active, FileError> {
        let configured = self.names.active();
        if let Some(active) = self.open_file(&configured, now_unix_s)? {
            return Ok(active);
        }
        for attempt in 1..=BESIDE_MAX {
            let name = self.names.beside(std::process::id(), attempt);
            if let Some(active) = self.open_file(&name, now_unix_s)? {
                self.notices.push(format_args!(
                    "the log file {} is in use by another process: this one writes to {}",
                    self.path_of(&configured).display(),
                    self.path_of(&name).display(),
                ));
                return Ok(active);
            }
        }
        Err(FileError::Locked {
            path: self.path_of(&configured),
        })
    }

    /// Opens or makes a file and takes its lock; nothing when another process holds it.
    fn open_file(&self, name: &str, now_unix_s: i64) -> Result<Option<Active>, FileError> {
        let path = self.path_of(name);
        for _ in 0..OPEN_RACES_MAX {
            let named = match self.storage.stat(&self.dir, Path::new(name)) {
                Ok(stat) => Some(stat),
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
                Err(cause) => return Err(FileError::io(Doing::Inspect, path, cause)),
            };
            let how = match named.map(|stat| stat.kind) {
                None => Open::New(self.options.mode),
                Some(Kind::Regular) => Open::Existing,
                Some(Kind::Fifo | Kind::CharDevice) => Open::Stream,
                Some(Kind::Link) => return Err(FileError::FileIsLink { path }),
                Some(Kind::Directory) => {
                    return Err(FileError::NotAFile {
                        path,
                        what: "directory",
                    });
                }
                Some(Kind::Other) => {
                    return Err(FileError::NotAFile {
                        path,
                        what: "socket or block device",
                    });
                }
            };
            let file = match self.storage.open(&self.dir, name, how) {
                Ok(file) => file,
                // Somebody made or removed it since it was looked at.
                Err(cause) if is_race(&cause) => continue,
                Err(cause) => return Err(FileError::io(Doing::Open, path, cause)),
            };
            let stat = self.stat_file(&file, name)?;
            let expected = match how {
                Open::Stream => matches!(stat.kind, Kind::Fifo | Kind::CharDevice),
                _ => stat.kind == Kind::Regular,
            };
            if !expected {
                continue;
            }
            if how == Open::Stream {
                return Ok(Some(Active::stream(file, name, &stat)));
            }
            self.check_owner(&path, &stat)?;
            if !self.lock(&file, &path)? {
                return Ok(None);
            }
            if !self.still_named(name, &stat)? {
                // Its owner rotated it between our open and our lock.
                continue;
            }
            return self.adopt(file, name, how, now_unix_s).map(Some);
        }
        let cause = io::Error::from(rustix::io::Errno::AGAIN);
        Err(FileError::io(Doing::Open, path, cause))
    }

    /// Takes over a file whose lock is ours.
    fn adopt(&self, file: File, name: &str, how: Open, now_unix_s: i64) -> Result<Active, FileError> {
        if how != Open::Existing {
            self.sync_dir();
        }
        // Under the lock: the owner before us may have written since we looked.
        let stat = self.stat_file(&file, name)?;
        // What an earlier process wrote in an earlier period is rotated as if it were our own.
        let written_unix_s = match stat.bytes {
            0 => now_unix_s,
            _ => stat.modified_unix_s.min(now_unix_s),
        };
        let mut active = Active::regular(file, name, &stat, self.period(written_unix_s));
        active.look_at_last_line(self)?;
        active.look_at_header(self)?;
        Ok(active)
    }

    /// The number of the period that a time falls into; always the same without rotation by time.
    pub(crate) fn period(&self, unix_s: i64) -> i64 {
        self.options
            .rotate_every
            .map_or(0, |every| self.zone.period(every, unix_s))
    }

    /// Asks about an open file.
    pub(crate) fn stat_file(&self, file: &File, name: &str) -> Result<Stat, FileError> {
        self.storage
            .stat_file(file)
            .map_err(|cause| FileError::io(Doing::Inspect, self.path_of(name), cause))
    }

    /// Whether a name still belongs to a file.
    pub(crate) fn still_named(&self, name: &str, stat: &Stat) -> Result<bool, FileError> {
        match self.storage.stat(&self.dir, Path::new(name)) {
            Ok(named) => Ok(named.same_file(stat)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(FileError::io(Doing::Inspect, self.path_of(name), cause)),
        }
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
                _ => Err(FileError::io(Doing::Lock, path, cause)),
            },
        }
    }

    /// Makes new names durable. A failure leaves the log usable, so it is only told.
    pub(crate) fn sync_dir(&self) {
        if let Err(cause) = self.storage.sync_dir(&self.dir) {
            self.notices
                .push(FileError::io(Doing::Sync, &self.names.dir, cause));
        }
    }

    /// In a directory that all may write to, a file must be our own and have no second name.
    fn check_owner(&self, path: &Path, stat: &Stat) -> Result<(), FileError> {
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

fn is_race(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
    )
}

/// Opens a directory for logs, makes it where it is missing and refuses it where others may play
/// tricks with it.
pub(crate) fn open_dir(storage: &dyn Storage, path: &Path, options: &FileOptions) -> Result<File, FileError> {
    let trusted = options.trust_directory;
    let dir = match storage.open_dir(path, trusted) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            make_dirs(storage, path, options.dir_mode)?;
            storage.open_dir(path, trusted)
        }
        other => other,
    };
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
            false => FileError::io(Doing::OpenDirectory, path, cause),
        }
    })?;
    let stat = storage
        .stat_file(&dir)
        .map_err(|cause| FileError::io(Doing::Inspect, path, cause))?;
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
            // Somebody who removes what we make must not keep us busy for ever.
            Err((io::ErrorKind::NotFound, cause)) => match deepest.parent() {
                Some(parent) if tries_left > 0 => missing.push(parent),
                _ => return Err(FileError::io(Doing::CreateDirectory, deepest, cause)),
            },
            Err((_, cause)) => return Err(FileError::io(Doing::CreateDirectory, deepest, cause)),
        }
    }
    Ok(())
}
