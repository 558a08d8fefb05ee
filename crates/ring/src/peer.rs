//! The process at the other end of a Unix socket, by the kernel's word, and the end of a process that is no child of
//! ours.
#![allow(unsafe_code)]

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A process that is connected, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Process number; 0 where it is not visible from here.
    pub pid: u32,
    /// Its effective user when it connected.
    pub uid: u32,
    /// Its effective group when it connected.
    pub gid: u32,
}

/// The number of `SO_PEERPIDFD`, which kernels have since 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

impl Peer {
    /// Process that connected a socket.
    ///
    /// # Errors
    /// When the descriptor is no connected Unix socket.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut found = libc::ucred {
            pid: 0,
            uid: u32::MAX,
            gid: u32::MAX,
        };
        // SAFETY: `ucred` is three numbers, for which any bytes are valid.
        unsafe { socket_option(socket, libc::SO_PEERCRED, &mut found) }?;
        Ok(Self {
            pid: found.pid.max(0).cast_unsigned(),
            uid: found.uid,
            gid: found.gid,
        })
    }

    /// A descriptor of the process, which becomes readable when it ends. From the socket itself where the kernel can do
    /// that; otherwise by its number, which may have gone to another process in the meantime.
    ///
    /// # Errors
    /// When the process has ended, cannot be seen, or the system has no such descriptors.
    pub fn process(&self, socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let mut fd: libc::c_int = -1;
        // SAFETY: a number, for which any bytes are valid.
        if unsafe { socket_option(socket, SO_PEERPIDFD, &mut fd) }.is_ok() && fd >= 0 {
            // SAFETY: a fresh descriptor that the kernel made for us.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(pidfd_open(pid, PidfdFlags::empty())?)
    }
}

/// # Safety
/// Any bytes must be valid for `T`.
unsafe fn socket_option<T>(socket: BorrowedFd<'_>, option: libc::c_int, out: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `out` is `length` bytes that the kernel may write, and the descriptor is open.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            core::ptr::from_mut(out).cast(),
            &mut length,
        )
    };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns whether this process has rights that its parent has not (set-user-id and the like): then its environment is
/// not to be believed.
pub fn is_privileged() -> bool {
    // SAFETY: looks a number up that the kernel gave at the start of the program.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// End of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It called `exit` with this status.
    Status(u32),
    /// It was killed by this signal.
    Signal(u32),
}

impl Exit {
    /// Reads what `wait` would have given.
    pub(crate) fn from_wait(status: u32) -> Self {
        match status & 0x7f {
            0 => Self::Status((status >> 8) & 0xff),
            signal => Self::Signal(signal),
        }
    }
}

/// `struct pidfd_info` of the kernel, in its first version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup_id: u64,
    pid: u32,
    thread_group: u32,
    parent: u32,
    users_and_groups: [u32; 8],
    exit_code: i32,
}

const _: () = assert!(size_of::<PidfdInfo>() == 64);

/// `PIDFD_GET_INFO`: `_IOWR(0xff, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: libc::c_ulong = 0xc040_ff0b;
/// `PIDFD_INFO_EXIT`: asks for the exit code.
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// Finds the end of a process that is no child of ours: from its descriptor where the kernel (6.15) keeps that for us,
/// else from `/proc` as long as its parent has not fetched it. `None` where neither says it.
pub fn exit_of(process: BorrowedFd<'_>, pid: u32) -> Option<Exit> {
    // Again where its parent fetched it between the two looks.
    exit_from_descriptor(process)
        .or_else(|| exit_of_zombie(process, pid))
        .or_else(|| exit_from_descriptor(process))
}

fn exit_from_descriptor(process: BorrowedFd<'_>) -> Option<Exit> {
    let mut info = PidfdInfo {
        mask: PIDFD_INFO_EXIT,
        ..PidfdInfo::default()
    };
    // SAFETY: the structure is 64 bytes, as the number of the request says, and any bytes are valid for it.
    let code = unsafe { libc::ioctl(process.as_raw_fd(), PIDFD_GET_INFO as _, &mut info) };
    (code == 0 && info.mask & PIDFD_INFO_EXIT != 0).then(|| Exit::from_wait(info.exit_code.cast_unsigned()))
}

/// `/proc/PID/stat` of a process that has ended and was not waited for ends with its exit code.
fn exit_of_zombie(process: BorrowedFd<'_>, pid: u32) -> Option<Exit> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses and may hold anything.
    let rest = stat.get(stat.rfind(')')? + 1..)?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let code: u32 = fields.last()?.parse().ok()?;
    // The number cannot have gone to another process while we read if the process is still there.
    (state == "Z" && is_there(process)).then(|| Exit::from_wait(code))
}

/// Returns whether the process has not been waited for.
fn is_there(process: BorrowedFd<'_>) -> bool {
    let no_info = core::ptr::null::<libc::siginfo_t>();
    // SAFETY: signal 0 is not sent; the call only says whether it could be.
    let code = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), 0, no_info, 0) };
    code == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    /// Starts a shell, ends it with `script`, and asks before and after its parent, which we are, has waited for it.
    fn exits(script: &str) -> (Option<Exit>, Option<Exit>) {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .spawn()
            .expect("a shell");
        let pid = Pid::from_child(&child);
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("a descriptor");
        poll(&mut [PollFd::new(&process, PollFlags::IN)], None).expect("its end");
        let before = exit_of(process.as_fd(), child.id());
        child.wait().expect("its status");
        (before, exit_of(process.as_fd(), child.id()))
    }

    #[test]
    fn a_process_tells_how_it_ended() {
        for (script, exit) in [
            ("exit 0", Exit::Status(0)),
            ("exit 7", Exit::Status(7)),
            ("kill -9 $$", Exit::Signal(9)),
            ("kill -11 $$", Exit::Signal(11)),
        ] {
            let (before, after) = exits(script);
            assert_eq!(before, Some(exit), "{script}");
            // Kernels before 6.15 have forgotten it by now.
            assert!(after.is_none_or(|after| after == exit), "{script}: {after:?}");
        }
    }

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let peer = Peer::of(one.as_fd()).expect("credentials");
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.uid, crate::user_id());
        assert!(peer.process(one.as_fd()).is_ok());
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        assert!(Peer::of(reader.as_fd()).is_err());
    }
}
