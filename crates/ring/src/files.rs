//! The files of sessions: directories that no other user may write to, names, locks, and the list of sessions.

use crate::limits::{PATH_BYTES, RING_MARGIN_BYTES, SET_ASIDE_BYTES_MAX, SET_ASIDE_MAX};
pub(crate) use crate::own_file::open_existing;
use crate::own_file::{FileId, OwnFile};
use crate::session_header::living_process;
use crate::{RingError, StaticCell, User, sys, user_id};
use core::ffi::CStr;
use core::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The default run directory: shared memory that goes away with the machine's power.
pub fn default_run_dir() -> PathBuf {
    PathBuf::from(format!("/dev/shm/logdrive-{}", user_id()))
}

/// Front of the names of files of rings.
pub(crate) const RING_PREFIX: &str = "ring-";

/// The name of a ring's file.
pub(crate) fn ring_name(index: u32) -> String {
    format!("{RING_PREFIX}{index:05}")
}

/// The name of the file of a ring that is being made. No reader of the session looks at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingFileName(u32);

impl fmt::Display for RingFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "new-{RING_PREFIX}{}", self.0)
    }
}

/// Room for a path that is made without the heap. The stack of a signal handler may be small.
struct PathBytes([u8; PATH_BYTES]);

impl PathBytes {
    fn new() -> Self {
        Self([0; PATH_BYTES])
    }

    fn of_file(&mut self, dir: &Path, name: fmt::Arguments<'_>) -> io::Result<&CStr> {
        let mut rest = self.0.as_mut_slice();
        rest.write_all(dir.as_os_str().as_bytes())?;
        write!(rest, "/{name}\0")?;
        Ok(CStr::from_bytes_until_nul(&self.0).map_err(|_| io::ErrorKind::InvalidInput)?)
    }
}

/// A session file whose record lock this process holds: it says that the process lives.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    file: OwnFile,
}

impl Held {
    fn id(&self) -> FileId {
        self.file.id()
    }

    /// The file. Where the program has closed its descriptor, and with it given up the lock, both are taken again.
    fn file(&mut self) -> Result<&File, RingError> {
        if self.file.checked().is_err() {
            let file = open_existing(&self.path)?;
            let io = |action, cause| RingError::io(action, &self.path, cause);
            let file = OwnFile::new(file).map_err(|cause| io("look at", cause))?;
            if file.id() != self.id() {
                return Err(io("find", io::ErrorKind::NotFound.into()));
            }
            // Another process may look at it just now; the next use tries again.
            let _locked = sys::lock_for_process(file.checked().map_err(|cause| io("lock", cause))?);
            self.file = file;
        }
        (self.file.checked()).map_err(|cause| RingError::io("use", &self.path, cause))
    }
}

/// The session files that this process holds. Closing any descriptor of such a file would give up its lock, so it is
/// opened once, and every open or close of a session file happens with this list locked: then no thread has a
/// second descriptor of a file that another thread is about to hold. Behind a pointer because the child of a `fork`,
/// which holds none of them, may find the list locked for ever.
static HELD: StaticCell<Mutex<Vec<Held>>> = StaticCell::empty();

fn held_files() -> MutexGuard<'static, Vec<Held>> {
    static FORK_IS_NOTED: AtomicBool = AtomicBool::new(false);
    // Relaxed: only the thread that sees the `false` notes it.
    if !FORK_IS_NOTED.swap(true, Ordering::Relaxed) {
        sys::at_fork_child(forget_held);
    }
    HELD.value_or(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// In the child of a `fork`: a process's locks are not inherited.
extern "C" fn forget_held() {
    HELD.clear();
}

/// Runs `work` on the `session` file of a directory, and says whether this process holds it.
pub(crate) fn with_session_file<T>(
    dir: &Path,
    work: impl FnOnce(&File, bool) -> Result<T, RingError>,
) -> Result<T, RingError> {
    let path = dir.join("session");
    let mut files = held_files();
    match held_at(&mut files, &path) {
        Some(held) => work(held.file()?, true),
        None => work(&open_existing(&path)?, false),
    }
}

/// The file at a path, if this process holds it. Found out without opening it, which would be a descriptor to close.
fn held_at<'a>(files: &'a mut [Held], path: &Path) -> Option<&'a mut Held> {
    let id = FileId::of(&fs::symlink_metadata(path).ok()?);
    files.iter_mut().find(|held| held.id() == id)
}

/// The directory of one session, with its lock.
#[derive(Debug)]
pub(crate) struct SessionDir {
    path: PathBuf,
    id: FileId,
    /// Owner of the session's files: not the process, before that becomes this user.
    owner: User,
}

impl Drop for SessionDir {
    fn drop(&mut self) {
        held_files().retain(|held| held.id() != self.id);
    }
}

impl SessionDir {
    /// Makes a new, locked session directory `APP-PID-N` in the run directory, which is made if it is missing.
    pub(crate) fn create(run_dir: &Path, app: &str) -> Result<Self, RingError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        make_private_dir(run_dir)?;
        let mut left_tries = 3;
        loop {
            // Relaxed: only uniqueness counts.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = run_dir.join(format!("{}-{}-{number}", file_part(app), std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => match Self::lock_new(path) {
                    // Made so long ago that another process took it for a left-over: this one has stood still meanwhile.
                    Err(RingError::Io { cause, .. })
                        if cause.kind() == io::ErrorKind::NotFound && left_tries > 0 =>
                    {
                        left_tries -= 1;
                    }
                    made => return made,
                },
                // Left by an earlier process of the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(RingError::io("make the directory", path, cause)),
            }
        }
    }

    fn lock_new(path: PathBuf) -> Result<Self, RingError> {
        let file_path = path.join("session");
        let mut files = held_files();
        // It gets its name once it is locked: a start of another process would take one without a lock for a dead one's.
        let unnamed = path.join("session.new");
        let file = create_private(&unnamed)?;
        let dir = Self::hold(&path, file, &mut files)?;
        fs::rename(&unnamed, &file_path).map_err(|cause| RingError::io("name", &file_path, cause))?;
        drop(files);
        let reserved =
            dir.with_file(|file| reserve(file, &file_path, 0, crate::session_header::SESSION_BYTES as u64));
        if let Err(error) = reserved {
            // An empty session is useless; the first error is the one to report.
            let _ = dir.remove();
            return Err(error);
        }
        Ok(dir)
    }

    /// Opens a session that a dead process left, and locks it.
    pub(crate) fn adopt(path: &Path) -> Result<Self, RingError> {
        let mut files = held_files();
        let file_path = path.join("session");
        // To ask the kernel would not help: it grants a process the locks that it has.
        if held_at(&mut files, &file_path).is_some() {
            return Err(RingError::Alive {
                path: path.to_owned(),
                pid: std::process::id(),
            });
        }
        let file = open_existing(&file_path)?;
        let process = living_process(&file, &file_path);
        let dir = Self::hold(path, file, &mut files);
        match process {
            Some(pid) => {
                // The list is locked, and the directory locks it when it is dropped.
                drop(files);
                let path = path.to_owned();
                dir.and(Err(RingError::Alive { path, pid }))
            }
            None => dir,
        }
    }

    /// Locks a session file for this process.
    fn hold(path: &Path, file: File, files: &mut Vec<Held>) -> Result<Self, RingError> {
        let io = |action, cause| RingError::io(action, path.join("session"), cause);
        if !sys::lock_for_process(&file).map_err(|cause| io("lock", cause))? {
            return Err(RingError::Alive {
                path: path.to_owned(),
                pid: sys::lock_holder(&file).ok().flatten().unwrap_or(0),
            });
        }
        let file = OwnFile::new(file).map_err(|cause| io("look at", cause))?;
        let found = file.checked().and_then(File::metadata);
        let found = found.map_err(|cause| io("look at", cause))?;
        let id = file.id();
        files.push(Held {
            path: path.join("session"),
            file,
        });
        Ok(Self {
            path: path.to_owned(),
            id,
            owner: User {
                uid: found.uid(),
                gid: found.gid(),
            },
        })
    }

    /// Takes the lock again where the program has closed its descriptor. One system call where it has not.
    pub(crate) fn keep_lock(&self) -> Result<(), RingError> {
        self.with_file(|_| Ok(()))
    }

    /// Returns true while this process holds the session: not in the child of a `fork`.
    pub(crate) fn is_held(&self) -> bool {
        held_files().iter().any(|held| held.id() == self.id)
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a file of the session with its blocks reserved.
    pub(crate) fn create_file(&self, name: &str, bytes: u64) -> Result<(File, PathBuf), RingError> {
        let (file, path) = self.create_empty(name)?;
        if let Err(error) = reserve(&file, &path, 0, bytes) {
            // A file without its blocks would be a SIGBUS in waiting. The error above is the one to report.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok((file, path))
    }

    /// Makes the file of a ring with its blocks reserved, where that leaves some room for the rest. It gets its number
    /// [later](Self::number_ring_file), so that threads make theirs at the same time. Allocates nothing on the heap, for a
    /// caller that may have interrupted the allocator.
    pub(crate) fn create_ring_file(&self, bytes: u64) -> io::Result<(File, RingFileName)> {
        // Relaxed: only uniqueness counts.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = RingFileName(NEXT.fetch_add(1, Ordering::Relaxed));
        let mut path = PathBytes::new();
        let path = path.of_file(&self.path, format_args!("{name}"))?;
        let file = sys::open_new(path)?;
        let owned = match self.owner.is_other() {
            true => std::os::unix::fs::fchown(&file, Some(self.owner.uid), Some(self.owner.gid)),
            false => Ok(()),
        };
        let reserved = owned.and_then(|()| match bytes {
            0 => Ok(()),
            _ => {
                sys::leaves_room(&file, bytes, RING_MARGIN_BYTES)?;
                sys::reserve(&file, 0, bytes)
            }
        });
        if reserved.is_err() {
            // As in `create_file`.
            let _ = sys::unlink(path);
        }
        reserved.map(|()| (file, name))
    }

    /// Gives the file of a ring the name of its number. Allocates nothing on the heap.
    pub(crate) fn number_ring_file(&self, name: RingFileName, index: u32) -> io::Result<()> {
        let (mut from, mut to) = (PathBytes::new(), PathBytes::new());
        let from = from.of_file(&self.path, format_args!("{name}"))?;
        let to = to.of_file(&self.path, format_args!("{RING_PREFIX}{index:05}"))?;
        sys::rename(from, to)
    }

    /// Removes the file of a ring that gets no number. Allocates nothing on the heap.
    pub(crate) fn remove_ring_file(&self, name: RingFileName) {
        let mut path = PathBytes::new();
        // It goes with the session otherwise.
        let _ = path
            .of_file(&self.path, format_args!("{name}"))
            .and_then(sys::unlink);
    }

    /// Makes a file of the session of which only the first bytes have their blocks: the others are
    /// [reserved](reserve_within) before they are touched.
    pub(crate) fn create_growing(
        &self,
        name: &str,
        bytes: u64,
        reserved: u64,
    ) -> Result<(File, PathBuf), RingError> {
        let (file, path) = self.create_file(name, reserved)?;
        sys::set_size(&file, bytes).map_err(|cause| RingError::io("make", &path, cause))?;
        Ok((file, path))
    }

    /// Makes a file of the session without blocks: for bytes that are written and never touched before.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn create_sparse(&self, name: &str, bytes: u64) -> Result<(File, PathBuf), RingError> {
        let (file, path) = self.create_empty(name)?;
        sys::set_size(&file, bytes).map_err(|cause| RingError::io("make", &path, cause))?;
        Ok((file, path))
    }

    /// Makes a file of the session for its owner, whichever thread makes it.
    fn create_empty(&self, name: &str) -> Result<(File, PathBuf), RingError> {
        let path = self.path.join(name);
        let file = create_private(&path)?;
        if self.owner.is_other() {
            std::os::unix::fs::fchown(&file, Some(self.owner.uid), Some(self.owner.gid))
                .map_err(|cause| RingError::io("hand over", &path, cause))?;
        }
        Ok((file, path))
    }

    /// Maps the session file.
    pub(crate) fn map_session_file(&self, bytes: usize) -> Result<sys::Mapping, RingError> {
        self.with_file(|file| {
            sys::Mapping::plain(file, 0, bytes)
                .map_err(|cause| RingError::io("map", self.path.join("session"), cause))
        })
    }

    /// Runs `work` on the session file.
    pub(crate) fn with_file<T>(
        &self,
        work: impl FnOnce(&File) -> Result<T, RingError>,
    ) -> Result<T, RingError> {
        match held_files().iter_mut().find(|held| held.id() == self.id) {
            Some(held) => work(held.file()?),
            None => Err(RingError::io(
                "use",
                self.path.join("session"),
                io::Error::other("it belongs to the process that this one was forked from"),
            )),
        }
    }

    /// Renames the directory, unless that was done: something in it cannot be read. Returns its new path.
    pub(crate) fn set_aside(&self) -> Result<PathBuf, RingError> {
        let aside = set_aside_path(&self.path);
        if aside != self.path {
            fs::rename(&self.path, &aside).map_err(|cause| RingError::io("rename", &self.path, cause))?;
        }
        Ok(aside)
    }

    /// Removes a session that could not be made to its end, and gives the blocks of its files back: mappings of them that
    /// stay, and that nobody reaches, would hold them.
    pub(crate) fn discard(&self) -> Result<(), RingError> {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            // Closing another descriptor of the session file would give up its lock.
            if entry.file_name() != "session"
                && let Ok(file) = open_existing(&entry.path())
            {
                // What stays costs room, and nothing else.
                let _ = sys::set_size(&file, 0);
            }
        }
        self.remove()
    }

    /// Removes the directory and its files. The session file goes last: until then the session can be found.
    pub(crate) fn remove(&self) -> Result<(), RingError> {
        let list = fs::read_dir(&self.path).map_err(|cause| RingError::io("list", &self.path, cause))?;
        let mut paths: Vec<PathBuf> = list
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .collect();
        paths.sort_by_key(|path| path.ends_with("session"));
        for path in paths {
            fs::remove_file(&path).map_err(|cause| RingError::io("remove", path, cause))?;
        }
        fs::remove_dir(&self.path).map_err(|cause| RingError::io("remove", &self.path, cause))
    }
}

/// Makes a directory of mode 0700, or checks that an existing one is ours alone.
pub(crate) fn make_private_dir(path: &Path) -> Result<(), RingError> {
    // Where the system has no `/dev/shm`, as in a bare `chroot`, a directory of that name would be on a disk.
    let is_of_system = path.starts_with("/dev");
    let made = DirBuilder::new()
        .recursive(!is_of_system)
        .mode(0o700)
        .create(path);
    let made = match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    made.map_err(|cause| RingError::io("make the directory", path, cause))?;
    let found = fs::symlink_metadata(path).map_err(|cause| RingError::io("look at", path, cause))?;
    let unsafe_because = |what| RingError::UnsafeDirectory {
        path: path.to_owned(),
        what,
    };
    if !found.is_dir() {
        return Err(unsafe_because("it is a link or not a directory"));
    }
    if found.uid() != user_id() {
        return Err(unsafe_because("it belongs to another user"));
    }
    if found.mode() & 0o022 != 0 {
        return Err(unsafe_because("others may write to it"));
    }
    Ok(())
}

/// Reserves blocks; a full file system is an error of its own.
pub(crate) fn reserve(file: &File, path: &Path, from: u64, bytes: u64) -> Result<(), RingError> {
    sys::reserve(file, from, bytes).map_err(|cause| match cause.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::ENOMEM | libc::EFBIG) => RingError::NoRoom {
            path: path.to_owned(),
            bytes: bytes - from,
        },
        _ => RingError::io("reserve", path, cause),
    })
}

/// Reserves the blocks of a part of a file of a session.
pub(crate) fn reserve_within(path: &Path, from: u64, to: u64) -> Result<(), RingError> {
    let file = open_existing(path)?;
    reserve(&file, path, from, to)
}

/// Gives the blocks of a part of a file of a session back to the file system; the part reads as zeros then.
pub(crate) fn release_within(path: &Path, from: u64, to: u64) -> Result<(), RingError> {
    let file = open_existing(path)?;
    sys::release(&file, from, to).map_err(|cause| RingError::io("give back", path, cause))
}

fn create_private(path: &Path) -> Result<File, RingError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(|cause| RingError::io("make", path, cause))
}

/// An application's name as part of a file name: letters, digits, `.`, `_` and `-` stay, the rest becomes `_`.
pub fn file_part(app: &str) -> String {
    let part: String = app
        .chars()
        .take(48)
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
                c
            } else {
                '_'
            }
        })
        .collect();
    let part = part.trim_start_matches('.');
    if part.is_empty() {
        "app".to_owned()
    } else {
        part.to_owned()
    }
}

/// A session in a run directory.
#[derive(Debug, Clone)]
pub struct FoundSession {
    /// Directory of the session.
    pub path: PathBuf,
    /// The process that holds it; `None` when that process is dead.
    pub holder: Option<u32>,
}

/// The sessions of a run directory, in the order of their names. A directory that is missing has none.
///
/// # Errors
/// When the directory is not safe or cannot be listed.
pub fn find_sessions(run_dir: &Path) -> Result<Vec<FoundSession>, RingError> {
    if !run_dir.exists() {
        return Ok(Vec::new());
    }
    make_private_dir(run_dir)?;
    let list = fs::read_dir(run_dir).map_err(|cause| RingError::io("list", run_dir, cause))?;
    let mut found = Vec::new();
    for path in list.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        // A directory without a session file is being made or removed right now.
        let Some(holder) = holder_of(&path) else { continue };
        found.push(FoundSession { path, holder });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Time after which a directory without a session file is taken for a left-over of a process that was killed while it
/// made or removed it; both take milliseconds.
const LEFT_OVER_AFTER: Duration = Duration::from_secs(60);

/// Removes directories of an application, such as `APP-PID-N`, in which processes that were killed have left no session
/// file. Nothing is removed that holds records.
pub fn remove_left_overs(run_dir: &Path, app: &str) {
    let begin = format!("{}-", file_part(app));
    let Ok(list) = fs::read_dir(run_dir) else { return };
    for entry in list
        .flatten()
        .filter(|entry| is_numbered(&entry.file_name(), &begin))
    {
        let path = entry.path();
        let changed = fs::symlink_metadata(&path).and_then(|found| found.modified());
        let is_old = changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT_OVER_AFTER));
        if !is_old || path.join("session").exists() {
            continue;
        }
        // Its maker was killed before it had locked it, and it has no bytes yet.
        let unnamed = path.join("session.new");
        if fs::symlink_metadata(&unnamed).is_ok_and(|found| found.len() == 0) {
            let _ = fs::remove_file(unnamed);
        }
        // The system refuses that for a directory with anything in it.
        let _ = fs::remove_dir(path);
    }
}

/// Returns whether a name is this beginning and numbers.
fn is_numbered(name: &std::ffi::OsStr, begin: &str) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix(begin));
    rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

/// Returns whether nothing of a session is left for a recovery: another one has finished it, and removed its file last.
pub fn is_gone(session: &Path) -> bool {
    let found = fs::symlink_metadata(session.join("session"));
    found.is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound)
}

/// Finds the process that holds a session: `None` when there is no session, `Some(None)` when its process is dead.
fn holder_of(path: &Path) -> Option<Option<u32>> {
    with_session_file(path, |file, own| {
        if own {
            return Ok(Some(std::process::id()));
        }
        process_of(path, file)
    })
    .ok()
}

/// End of the name of a session that is set aside, because something in it cannot be read.
const SET_ASIDE: &str = ".damaged";

/// Returns whether the session in a directory is set aside: what is whole of it is in the log.
pub fn is_set_aside(session: &Path) -> bool {
    session
        .file_name()
        .is_some_and(|name| name.to_string_lossy().ends_with(SET_ASIDE))
}

/// The path that the session in a directory gets when it is set aside; its own where it is already. One that is not there:
/// an earlier process of the same number may have left one.
pub fn set_aside_path(session: &Path) -> PathBuf {
    if is_set_aside(session) {
        return session.to_owned();
    }
    let named = |number: u32| {
        let mut name = session.as_os_str().to_owned();
        if number > 0 {
            name.push(format!("-{number}"));
        }
        name.push(SET_ASIDE);
        PathBuf::from(name)
    };
    let mut numbers = 0..SET_ASIDE_MAX as u32 + 1;
    let free = numbers.find(|number| !named(*number).exists());
    named(free.unwrap_or(SET_ASIDE_MAX as u32 + 1))
}

/// Sessions of the same application that are set aside and that are to go when the one in this directory is, too, the
/// newest first: where there are more than a few, or they take much room. Those that stay are the newest.
pub fn excess_set_aside(session: &Path, app: &str) -> Vec<PathBuf> {
    let begin = format!("{}-", file_part(app));
    let run_dir = session.parent().unwrap_or(Path::new("."));
    let Ok(list) = fs::read_dir(run_dir) else {
        return Vec::new();
    };
    let is_other = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = name
            .strip_prefix(&begin)
            .and_then(|name| name.strip_suffix(SET_ASIDE));
        path != session
            && rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
    };
    let paths = list.flatten().map(|entry| entry.path()).filter(is_other);
    let mut found: Vec<_> = paths
        .filter_map(|path| Some((fs::symlink_metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    found.sort();
    let mut bytes = held_bytes(session);
    let mut excess = Vec::new();
    for (at, (_, path)) in found.into_iter().rev().enumerate() {
        bytes += held_bytes(&path);
        if at + 1 >= SET_ASIDE_MAX || bytes > SET_ASIDE_BYTES_MAX {
            excess.push(path);
        }
    }
    excess
}

/// Removes a session that is set aside.
///
/// # Errors
/// When another process has it, or a file cannot be removed.
pub fn remove_set_aside(session: &Path) -> Result<(), RingError> {
    SessionDir::adopt(session)?.remove()
}

/// Bytes of memory, or of a disk, that the files of a session have.
fn held_bytes(session: &Path) -> u64 {
    let files = fs::read_dir(session).into_iter().flatten().flatten();
    let blocks = files.filter_map(|file| Some(file.metadata().ok()?.blocks()));
    blocks.sum::<u64>() * 512
}

/// The process that lives and has the session of this file, by its lock, or else by what the header says of it.
pub(crate) fn process_of(dir: &Path, file: &File) -> Result<Option<u32>, RingError> {
    let holder = sys::lock_holder(file).map_err(|cause| RingError::io("look at", dir, cause))?;
    Ok(holder.or_else(|| living_process(file, &dir.join("session"))))
}

/// The right to drain a session, given back when it is dropped. A recoverer leaves a session alone that another process
/// drains.
#[derive(Debug)]
pub(crate) struct DrainLock(File);

impl DrainLock {
    /// Takes the right to drain the session in a directory; `None` when another process has it.
    pub(crate) fn take(session: &Path) -> Result<Option<Self>, RingError> {
        let path = session.join("drain");
        let file = open_existing(&path)?;
        let locked = sys::lock_for_opener(&file).map_err(|cause| RingError::io("lock", &path, cause))?;
        Ok(locked.then_some(Self(file)))
    }
}

impl Drop for DrainLock {
    fn drop(&mut self) {
        // It cannot fail for a lock that is held.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_are_set_aside_are_bounded_and_the_newest_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let run_dir = dir.path().join("run");
        make_private_dir(&run_dir).expect("a run directory");
        for number in 0..SET_ASIDE_MAX + 3 {
            let path = run_dir.join(format!("shop-7-{number}"));
            fs::create_dir(&path).expect("a directory");
            fs::write(path.join("session"), b"x").expect("a file");
            let at = std::time::SystemTime::now() - Duration::from_secs(1000 - number as u64);
            let times = fs::FileTimes::new().set_modified(at);
            File::open(&path)
                .and_then(|dir| dir.set_times(times))
                .expect("its time");
            let dir = SessionDir::adopt(&path).expect("a session");
            let aside = dir.set_aside().expect("renamed");
            assert!(is_set_aside(&aside) && aside.exists() && !path.exists());
            assert_eq!(set_aside_path(&aside), aside);
        }
        let newest = run_dir.join(format!("shop-7-{}.damaged", SET_ASIDE_MAX + 2));
        let excess = excess_set_aside(&newest, "shop");
        let names = (0..3).rev().map(|number| format!("shop-7-{number}.damaged"));
        let expected: Vec<PathBuf> = names.map(|name| run_dir.join(name)).collect();
        assert_eq!(excess, expected);
        for path in excess {
            remove_set_aside(&path).expect("removed");
        }
        assert_eq!(fs::read_dir(&run_dir).expect("a list").count(), SET_ASIDE_MAX);
    }

    #[test]
    fn left_overs_go_when_they_are_old_and_empty_and_nothing_else_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let run_dir = dir.path().join("run");
        make_private_dir(&run_dir).expect("a run directory");
        let make = |name: &str, file: Option<&str>, old: bool| {
            let path = run_dir.join(name);
            fs::create_dir(&path).expect("a directory");
            if let Some(file) = file {
                fs::write(path.join(file), b"").expect("a file");
            }
            if old {
                let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
                let times = fs::FileTimes::new().set_modified(hour_ago);
                File::open(&path)
                    .and_then(|dir| dir.set_times(times))
                    .expect("its time");
            }
        };
        make("shop-1-0", None, true);
        make("shop-2-0", Some("session.new"), true);
        make("shop-3-0", None, false);
        make("shop-4-0", Some("session"), true);
        make("shop-5-0", Some("ring-00000"), true);
        make("shop-x-1-0", None, true);
        remove_left_overs(&run_dir, "shop");
        let list = fs::read_dir(&run_dir).expect("a list").flatten();
        let mut left: Vec<_> = list
            .map(|entry| entry.file_name().into_string().expect("text"))
            .collect();
        left.sort();
        assert_eq!(left, ["shop-3-0", "shop-4-0", "shop-5-0", "shop-x-1-0"]);
    }

    #[test]
    fn names_become_safe_parts_of_file_names() {
        assert_eq!(file_part("my app/1"), "my_app_1");
        assert_eq!(file_part("../../etc"), "_.._etc");
        assert_eq!(file_part(""), "app");
        assert_eq!(file_part(&"x".repeat(300)).len(), 48);
    }
}
