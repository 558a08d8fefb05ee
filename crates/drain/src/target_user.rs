//! A start as root of a program that becomes another user afterwards: all that the logger makes is that user's from the
//! start. Its threads make and open files as that user, so that the kernel checks each path for them; only directories and
//! log files that the user could not make are made by root and handed over before, where nobody but root decides what a path
//! leads to.

use crate::error::BackendError;
use crate::file::FileOptions;
use crate::ship::ShipOptions;
use crate::sink::options::{SinkOptions, Target, sinks_from_text};
use logdrive_ring::{SessionReader, User};
use rustix::fs::{FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

const NAME: &str = "logdrive-start";

/// Permissions of directories that nobody else may look into.
const PRIVATE: u32 = 0o700;

/// Makes what the user could not make, and hands it over. What cannot be made here is tried again as the user, and the error
/// of that is the one to report.
pub(crate) fn prepare(user: User, run_dir: Option<&Path>, sinks: &[SinkOptions]) {
    if let Some(dir) = run_dir {
        let _ = make_dir(user, dir, PRIVATE);
    }
    for sink in sinks {
        match &sink.target {
            Target::File(file) => prepare_file(user, file),
            Target::Ship(ship) => prepare_spool(user, ship),
            _ => {}
        }
    }
}

/// The same for the sinks of a session that this process is to drain as that user.
pub fn prepare_for_user(session: &Path, user: User) {
    // The drain reports what cannot be read.
    let Ok(buffers) = SessionReader::open(session).and_then(|session| session.buffers()) else {
        return;
    };
    for sink in sinks_from_text(&String::from_utf8_lossy(&buffers.config())) {
        if let Some(file) = &sink.file {
            prepare_file(user, file);
        }
        if let Some(ship) = &sink.ship {
            prepare_spool(user, ship);
        }
    }
}

/// Does some work in a thread that makes files as a user, and so do the threads that the work starts. The outer error is that
/// of the thread; the inner one says why the process may not change users, and then nothing is done.
pub(crate) fn work_as<T: Send>(
    user: User,
    work: impl FnOnce() -> T + Send,
) -> Result<io::Result<T>, BackendError> {
    let work = || {
        logdrive_ring::local::deny_thread();
        logdrive_ring::signals::block_in_thread();
        user.assume_for_files().map(|()| work())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(NAME.to_owned());
        let thread = thread.spawn_scoped(scope, work)?;
        thread.join().map_err(|_| io::Error::other("it has panicked"))
    })
    .map_err(|cause| BackendError::Thread { name: NAME, cause })
}

fn prepare_file(user: User, file: &FileOptions) {
    let Ok(path) = std::path::absolute(&file.path) else {
        return;
    };
    if let (Some(dir), Some(name)) = (path.parent(), path.file_name())
        && let Ok(Some(dir)) = make_dir(user, dir, file.dir_mode)
    {
        let _ = hand_over_file(user, &dir, name, file.mode);
    }
}

fn prepare_spool(user: User, ship: &ShipOptions) {
    if let Some(spool) = ship.spool_path() {
        let _ = make_dir(user, &spool, PRIVATE);
    }
}

/// Makes a directory and those above it that are missing, and hands over those that were made. Those that are there stay as
/// they are: others may use them. Returns one that was there and is root's alone.
fn make_dir(user: User, path: &Path, mode: u32) -> Result<Option<OwnedFd>, Errno> {
    let path = std::path::absolute(path).map_err(|_| Errno::INVAL)?;
    let (mut dir, missing) = open_of_root(&path)?;
    if !is_of_root(&dir)? {
        return Ok(None);
    }
    if missing.is_empty() {
        return Ok(Some(dir));
    }
    let mut made = Vec::new();
    for name in missing {
        rustix::fs::mkdirat(&dir, &name, Mode::from_raw_mode(mode as _))?;
        dir = open_dir(&dir, &name)?;
        made.push(dir.try_clone().map_err(|_| Errno::MFILE)?);
    }
    // The deepest first: as long as those above are root's, nobody can put another one in their place.
    for dir in made.iter().rev() {
        hand_over(user, dir)?;
    }
    Ok(None)
}

/// Opens the deepest directory of a path that is there, through directories that are root's, and no links: nobody else can
/// have chosen it. Returns the names that are missing, too.
fn open_of_root(path: &Path) -> Result<(OwnedFd, Vec<PathBuf>), Errno> {
    let mut dir = open_dir(rustix::fs::CWD, Path::new("/"))?;
    let names: Vec<PathBuf> = path
        .components()
        .filter(|component| *component != Component::RootDir)
        .map(|component| PathBuf::from(component.as_os_str()))
        .collect();
    for (number, name) in names.iter().enumerate() {
        let found = rustix::fs::fstat(&dir)?;
        // In a directory with the sticky bit nobody can replace what is root's.
        let others_may_write = found.st_mode & 0o022 != 0 && found.st_mode & 0o1000 == 0;
        if found.st_uid != 0 || others_may_write {
            return Err(Errno::PERM);
        }
        match open_dir(&dir, name) {
            Ok(next) => dir = next,
            Err(Errno::NOENT) => return Ok((dir, names[number..].to_vec())),
            Err(error) => return Err(error),
        }
    }
    Ok((dir, Vec::new()))
}

fn open_dir(at: impl std::os::fd::AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// Returns whether a directory is root's, and nobody else may make files in it.
fn is_of_root(dir: &OwnedFd) -> Result<bool, Errno> {
    let found = rustix::fs::fstat(dir)?;
    Ok(found.st_uid == 0 && found.st_mode & 0o022 == 0)
}

/// Makes a log file in a directory that is root's, or takes the one that is there, and hands it over.
fn hand_over_file(user: User, dir: &OwnedFd, name: &OsStr, mode: u32) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(mode as _))?;
    let found = rustix::fs::fstat(&file)?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    // One with a second name may be something else, too.
    match is_file && found.st_nlink == 1 && found.st_uid == 0 {
        true => hand_over(user, &file),
        false => Ok(()),
    }
}

fn hand_over(user: User, file: &OwnedFd) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::fs::fchown(file, Some(uid), Some(gid))
}
