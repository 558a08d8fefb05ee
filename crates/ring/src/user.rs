//! The user that a process logs as: the calling one, or the one that a daemon becomes once it has started as root.
//!
//! On Linux a thread may make and open files as another user than its process. The logger's threads of such a daemon are
//! that user from the start, so that all they make is the user's and the kernel checks each path for them; when the process
//! becomes the user, nothing changes for them.
#![allow(unsafe_code)]

use std::io;

/// A user and a group, by their numbers.
///
/// ```
/// let user = logdrive_ring::User { uid: logdrive_ring::user_id(), gid: 0 };
/// assert!(!user.is_other());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
}

impl User {
    /// Returns whether the calling thread makes files as another user.
    pub fn is_other(self) -> bool {
        self.uid != user_id()
    }

    /// Has the calling thread make and open files as this user and group, and with no other group; threads that it starts do
    /// so, too. Rights to anything else stay. For a thread that ends or stays so: an error may leave it with the group alone.
    ///
    /// # Errors
    /// When the process may not change users, and on other systems than Linux.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn assume_for_files(self) -> io::Result<()> {
        // SAFETY: the calls take numbers, and change the calling thread alone. They do not say whether they did.
        unsafe {
            libc::setfsgid(self.gid);
            libc::setfsuid(self.uid);
        }
        if self.is_other() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // On 32 bits the call of this name takes numbers of 16 bits.
        #[cfg(target_pointer_width = "64")]
        // SAFETY: one number, which the call reads. The function of the C library would change all threads. Where a
        // namespace has no such right, the groups of the process stay.
        unsafe {
            libc::syscall(libc::SYS_setgroups, 1, &raw const self.gid)
        };
        Ok(())
    }

    /// Fails.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub fn assume_for_files(self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The user as whom the calling thread makes files: that of the process, but for a thread that
/// [makes them as another one](User::assume_for_files).
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn user_id() -> u32 {
    // SAFETY: takes a number. No user has this one, so that nothing is changed, and the call returns the present one.
    unsafe { libc::setfsuid(u32::MAX) }.cast_unsigned()
}

/// The user as whom the calling thread makes files.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn user_id() -> u32 {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}
