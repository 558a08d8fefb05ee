//! The places that belong to one agent: a socket, a directory of its own. Each has a lock file beside or in it, and is
//! used only where no other user can change it.

use crate::error::AgentError;
use crate::limits::BACKLOG;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A lock that says that a path belongs to this agent. The kernel gives it up with the process.
#[derive(Debug)]
pub struct PathLock {
    _file: File,
}

impl PathLock {
    /// Takes a path, a directory or a socket; its lock file bears its name and `.lock`.
    ///
    /// # Errors
    /// Fails when another agent has it, or the lock file cannot be made.
    pub fn acquire(locked: &Path) -> Result<Self, AgentError> {
        let mut path = locked.as_os_str().to_owned();
        path.push(".lock");
        Self::acquire_file(Path::new(&path), locked)
    }

    /// The same with any lock file.
    ///
    /// # Errors
    /// As [`PathLock::acquire`].
    pub fn acquire_file(path: &Path, locked: &Path) -> Result<Self, AgentError> {
        let io = |action, cause: std::io::Error| AgentError::io(action, path, cause);
        let (mut file, is_writable) = open_lock(path).map_err(|cause| io("open", cause.into()))?;
        if !file.metadata().map_err(|cause| io("look at", cause))?.is_file() {
            return Err(AgentError::Unsafe {
                path: path.to_owned(),
                what: "it is not a regular file",
            });
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(AgentError::InUse {
                    path: locked.to_owned(),
                    pid: holder(&mut file),
                });
            }
            Err(cause) => return Err(io("lock", cause.into())),
        }
        if !is_writable {
            return Ok(Self { _file: file });
        }
        // For the error of a process that finds the path taken.
        let note = format!("{}\n", std::process::id());
        let noted = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(note.as_bytes()));
        noted.map_err(|cause| io("write", cause))?;
        Ok(Self { _file: file })
    }
}

/// Opens a lock file, or makes it; one that another user has made can be read and locked, but not written.
fn open_lock(path: &Path) -> Result<(File, bool), rustix::io::Errno> {
    let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    match rustix::fs::open(path, flags | OFlags::RDWR | OFlags::CREATE, mode) {
        Err(rustix::io::Errno::ACCESS) => {
            let file = rustix::fs::open(path, flags | OFlags::RDONLY, Mode::empty())?;
            Ok((file.into(), false))
        }
        other => other.map(|file| (file.into(), true)),
    }
}

/// The number that the holder of a lock has written into it.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = [0; 16];
    let length = file.read(&mut text).ok()?;
    std::str::from_utf8(text.get(..length)?).ok()?.trim().parse().ok()
}

/// Checks that only root and this user can change a directory. What is missing is made, readable by all.
///
/// # Errors
/// Fails when it is a link, belongs to another user, or others may write to it.
pub fn safe_directory(path: &Path) -> Result<(), AgentError> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
    made.map_err(|cause| AgentError::io("make the directory", path, cause))?;
    let found = fs::symlink_metadata(path).map_err(|cause| AgentError::io("look at", path, cause))?;
    let what = if !found.is_dir() {
        "it is a link or not a directory"
    } else if found.uid() != 0 && found.uid() != logdrive_ring::user_id() {
        "it belongs to another user"
    } else if found.mode() & 0o022 != 0 {
        "its group or others may write to it"
    } else {
        return Ok(());
    };
    Err(AgentError::Unsafe {
        path: path.to_owned(),
        what,
    })
}

/// An agent's socket, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the socket, so that no other one is removed.
    id: (u64, u64),
    _lock: PathLock,
}

impl Listener {
    /// Takes the path and listens there, for whole messages or for bytes.
    pub(crate) fn open(path: &Path, mode: u32, group: Option<u32>) -> Result<Self, AgentError> {
        Self::open_for(SocketType::SEQPACKET, path, mode, group)
    }

    /// The same for another kind of socket.
    pub(crate) fn open_for(
        kind: SocketType,
        path: &Path,
        mode: u32,
        group: Option<u32>,
    ) -> Result<Self, AgentError> {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        safe_directory(directory)?;
        let lock = PathLock::acquire(path)?;
        remove_stale(path)?;
        let io = |action, cause: std::io::Error| AgentError::io(action, path, cause);
        let rustix = |action| move |cause: rustix::io::Errno| AgentError::io(action, path, cause);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            socket_with(AddressFamily::UNIX, kind, flags, None).map_err(rustix("make the socket"))?;
        let address = SocketAddrUnix::new(path).map_err(rustix("use as a socket"))?;
        bind(&socket, &address).map_err(rustix("make the socket"))?;
        // No peer can connect before `listen`, so that none gets in by wider permissions.
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(|cause| io("set the permissions of", cause))?;
        if group.is_some() {
            std::os::unix::fs::lchown(path, None, group).map_err(|cause| io("give a group to", cause))?;
        }
        let found = fs::symlink_metadata(path).map_err(|cause| io("look at", cause))?;
        listen(&socket, BACKLOG).map_err(rustix("listen at"))?;
        Ok(Self {
            socket,
            path: path.to_owned(),
            id: (found.dev(), found.ino()),
            _lock: lock,
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.id) {
            // The next agent removes what is left.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the socket that an earlier agent left. Called with the lock held, so that no live agent has it.
fn remove_stale(path: &Path) -> Result<(), AgentError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(AgentError::io("look at", path, cause)),
    };
    let what = if !found.file_type().is_socket() {
        "something else than a socket is in its place"
    } else if found.uid() != logdrive_ring::user_id() {
        "the socket there belongs to another user"
    } else {
        return fs::remove_file(path).map_err(|cause| AgentError::io("remove", path, cause));
    };
    Err(AgentError::Unsafe {
        path: path.to_owned(),
        what,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_dir(name: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(name);
        (dir, path)
    }

    #[test]
    fn a_place_has_one_agent_and_the_second_one_is_told_which() {
        let (_dir, path) = in_dir("agent.sock");
        let first = Listener::open(&path, 0o660, None).expect("a socket");
        let mode = fs::symlink_metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o7777, 0o660);
        let error = Listener::open(&path, 0o660, None).expect_err("taken").to_string();
        assert!(
            error.contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        drop(first);
        assert!(!path.exists());
        assert!(Listener::open(&path, 0o600, None).is_ok());
    }

    #[test]
    fn what_a_killed_agent_left_is_taken_over_and_nothing_else_is() {
        let (dir, path) = in_dir("agent.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket that nobody has"));
        drop(Listener::open(&path, 0o660, None).expect("it is removed"));
        fs::write(&path, "a file").expect("written");
        let error = Listener::open(&path, 0o660, None)
            .expect_err("refused")
            .to_string();
        assert!(error.contains("something else than a socket"), "{error}");
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).expect("a link");
        assert!(Listener::open(&path, 0o660, None).is_err());
    }

    #[test]
    fn directories_that_others_can_change_are_refused() {
        let (dir, path) = in_dir("shared");
        fs::create_dir(&path).expect("a directory");
        for mode in [0o777, 0o770, 0o1777, 0o702] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            let error = Listener::open(&path.join("a.sock"), 0o660, None).expect_err("refused");
            assert!(error.to_string().contains("may write"), "{error}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("a mode");
        safe_directory(&path).expect("it is ours");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert!(safe_directory(&link).is_err());
        if logdrive_ring::user_id() == 0 {
            std::os::unix::fs::chown(&path, Some(12345), None).expect("another owner");
            assert!(safe_directory(&path).is_err());
        }
        assert!(safe_directory(&dir.path().join("new/deep")).is_ok());
    }
}
