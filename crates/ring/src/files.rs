//! The files of sessions: directories that no other user may write to, names, locks, and the list of sessions.

use crate::{RingError, StaticCell, limits::CALLSITES_MAX, sys};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The default run directory: shared memory that goes away with the machine's power.
pub fn default_run_dir() -> PathBuf {
    PathBuf::from(format!("/dev/shm/logdrive-{}", sys::user_id()))
}

/// The name of a ring's file.
pub(crate) fn ring_name(index: u32) -> String {
    format!("ring-{index:05}")
}

/// Which file it is, under whatever path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    dev: u64,
    ino: u64,
}

impl FileId {
    fn of(found: &Metadata) -> Self {
        Self {
            dev: found.dev(),
            ino: found.ino(),
        }
    }
}

/// A session file whose record lock this process holds: it says that the process lives.
#[derive(Debug)]
struct Held {
    id: FileId,
    file: File,
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
    let files = held_files();
    match held_at(&files, &path) {
        Some(file) => work(file, true),
        None => work(&open_existing(&path)?, false),
    }
}

/// The file at a path, if this process holds it. Found out without opening it, which would be a descriptor to close.
fn held_at<'a>(files: &'a [Held], path: &Path) -> Option<&'a File> {
    let id = FileId::of(&fs::symlink_metadata(path).ok()?);
    files.iter().find(|held| held.id == id).map(|held| &held.file)
}

/// The directory of one session, with its lock.
#[derive(Debug)]
pub(crate) struct SessionDir {
    path: PathBuf,
    id: FileId,
}

impl Drop for SessionDir {
    fn drop(&mut self) {
        held_files().retain(|held| held.id != self.id);
    }
}

impl SessionDir {
    /// Makes a new, locked session directory `APP-PID-N` in the run directory, which is made if it is missing.
    pub(crate) fn create(run_dir: &Path, app: &str) -> Result<Self, RingError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        make_private_dir(run_dir)?;
        loop {
            // Relaxed: only uniqueness counts.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = run_dir.join(format!("{}-{}-{number}", file_part(app), std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Self::lock_new(path),
                // Left by an earlier process of the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(RingError::io("make the directory", path, cause)),
            }
        }
    }

    fn lock_new(path: PathBuf) -> Result<Self, RingError> {
        let file_path = path.join("session");
        let mut files = held_files();
        let file = create_private(&file_path)?;
        let dir = Self::hold(&path, file, &mut files)?;
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
        if held_at(&files, &file_path).is_some() {
            return Err(RingError::Alive {
                path: path.to_owned(),
                pid: std::process::id(),
            });
        }
        let file = open_existing(&file_path)?;
        Self::hold(path, file, &mut files)
    }

    /// Locks a session file for this process.
    fn hold(path: &Path, file: File, files: &mut Vec<Held>) -> Result<Self, RingError> {
        let io = |action, cause| RingError::io(action, path.join("session"), cause);
        let id = FileId::of(&file.metadata().map_err(|cause| io("look at", cause))?);
        if !sys::lock_for_process(&file).map_err(|cause| io("lock", cause))? {
            return Err(RingError::Alive {
                path: path.to_owned(),
                pid: sys::lock_holder(&file).ok().flatten().unwrap_or(0),
            });
        }
        files.push(Held { id, file });
        Ok(Self {
            path: path.to_owned(),
            id,
        })
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a file of the session with its blocks reserved.
    pub(crate) fn create_file(&self, name: &str, bytes: u64) -> Result<(File, PathBuf), RingError> {
        let path = self.path.join(name);
        let file = create_private(&path)?;
        if let Err(error) = reserve(&file, &path, 0, bytes) {
            // A file without its blocks would be a SIGBUS in waiting. The error above is the one to report.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok((file, path))
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
        file.set_len(bytes)
            .map_err(|cause| RingError::io("make", &path, cause))?;
        Ok((file, path))
    }

    /// Makes a file of the session without blocks: for bytes that are written and never touched before.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn create_sparse(&self, name: &str, bytes: u64) -> Result<(File, PathBuf), RingError> {
        let path = self.path.join(name);
        let file = create_private(&path)?;
        file.set_len(bytes)
            .map_err(|cause| RingError::io("make", &path, cause))?;
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
        match held_files().iter().find(|held| held.id == self.id) {
            Some(held) => work(&held.file),
            None => Err(RingError::io(
                "use",
                self.path.join("session"),
                io::Error::other("it belongs to the process that this one was forked from"),
            )),
        }
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
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|cause| RingError::io("make the directory", path, cause))?;
    let found = fs::symlink_metadata(path).map_err(|cause| RingError::io("look at", path, cause))?;
    let unsafe_because = |what| RingError::UnsafeDirectory {
        path: path.to_owned(),
        what,
    };
    if !found.is_dir() {
        return Err(unsafe_because("it is a link or not a directory"));
    }
    if found.uid() != sys::user_id() {
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
        Some(libc::ENOSPC | libc::EDQUOT | libc::ENOMEM) => RingError::NoRoom {
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

/// Opens a file of a session for reading and writing: never through a link, and nothing but a file, because a pipe or
/// a device would keep its reader waiting.
pub(crate) fn open_existing(path: &Path) -> Result<File, RingError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|cause| RingError::io("open", path, cause))?;
    let found = file
        .metadata()
        .map_err(|cause| RingError::io("look at", path, cause))?;
    if found.is_file() {
        Ok(file)
    } else {
        Err(RingError::NotAFile {
            path: path.to_owned(),
        })
    }
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

/// Takes a callsite table apart: id and bytes of each whole entry, and the bytes used. Stops at the first entry
/// that breaks the format.
pub(crate) fn split_table(bytes: &[u8]) -> (Vec<(u32, Vec<u8>)>, usize) {
    let mut found = Vec::new();
    let mut used = 0;
    while let Some((head, rest)) = bytes.get(used..).and_then(|rest| rest.split_first_chunk::<8>()) {
        let [l0, l1, l2, l3, i0, i1, i2, i3] = *head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let id = u32::from_le_bytes([i0, i1, i2, i3]);
        let Some(callsite) = rest.get(..length) else { break };
        if length == 0 || id as usize >= CALLSITES_MAX {
            break;
        }
        found.push((id, callsite.to_vec()));
        used += (8 + length).next_multiple_of(8);
    }
    (found, used.min(bytes.len()))
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

/// Finds the process that holds a session: `None` when there is no session, `Some(None)` when its process is dead.
fn holder_of(path: &Path) -> Option<Option<u32>> {
    with_session_file(path, |file, own| {
        if own {
            return Ok(Some(std::process::id()));
        }
        sys::lock_holder(file).map_err(|cause| RingError::io("look at", path, cause))
    })
    .ok()
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
    fn names_become_safe_parts_of_file_names() {
        assert_eq!(file_part("my app/1"), "my_app_1");
        assert_eq!(file_part("../../etc"), "_.._etc");
        assert_eq!(file_part(""), "app");
        assert_eq!(file_part(&"x".repeat(300)).len(), 48);
    }

    #[test]
    fn a_table_is_read_up_to_its_first_broken_entry() {
        let mut table = Vec::new();
        table.extend_from_slice(&3u32.to_le_bytes());
        table.extend_from_slice(&0u32.to_le_bytes());
        table.extend_from_slice(b"abc\0\0\0\0\0");
        let (found, used) = split_table(&table);
        assert_eq!(found, [(0, b"abc".to_vec())]);
        assert_eq!(used, 16);
        table.extend_from_slice(&u32::MAX.to_le_bytes());
        table.extend_from_slice(&1u32.to_le_bytes());
        assert_eq!(split_table(&table).0.len(), 1);
    }
}
