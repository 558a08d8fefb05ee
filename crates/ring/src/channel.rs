//! A connection between a process and its agent: packets with descriptors over a Unix socket. Nothing here waits unless
//! its name says so.
#![allow(unsafe_code)]

use crate::RingError;
use crate::peer::Peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, shutdown, socket_with,
    sockopt::{Timeout, set_socket_timeout},
};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

/// Descriptors of one packet, at most; the kernel's own limit.
const DESCRIPTORS_MAX: usize = 253;

const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));

/// A connection between a process and its agent. The program may have closed the descriptor and use its number for a file
/// of its own: each use checks that it is still this socket, and a number that is not is neither used nor closed.
#[derive(Debug)]
pub struct Channel {
    /// Relaxed, as is the inode: whatever values a thread sees, the kernel says whether they belong together.
    socket: AtomicI32,
    inode: AtomicU64,
}

/// Result of a receive.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A packet of so many bytes.
    Packet(usize),
    /// A packet that was longer than the buffer, or that lost descriptors because this process has too many.
    Cut,
    /// The other end has closed the connection.
    Closed,
}

impl Channel {
    /// Connects to an agent's socket; waits at most this long for it to accept.
    ///
    /// # Errors
    /// When no process listens there, or none accepted in time (`WouldBlock`).
    pub fn connect(path: &Path, timeout: Duration) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        // A queue that is full keeps the call waiting, and this is the only way to bound that.
        set_socket_timeout(
            &socket,
            Timeout::Send,
            Some(timeout.max(Duration::from_millis(1))),
        )?;
        connect(&socket, &address)?;
        set_socket_timeout(&socket, Timeout::Send, None)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self::new(socket))
    }

    /// As [`Channel::connect`], but only to an agent that may be believed: it runs as root, as this user, or as the
    /// owner of the socket's directory where no other user may write.
    ///
    /// # Errors
    /// When no agent answers in time, or it belongs to another user.
    pub fn connect_to_agent(path: &Path, timeout: Duration) -> Result<Self, RingError> {
        let io = |cause| RingError::io("connect to", path, cause);
        let channel = Self::connect(path, timeout).map_err(io)?;
        let uid = channel.peer().map_err(io)?.uid;
        if uid == 0 || uid == crate::user_id() {
            return Ok(channel);
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let found = std::fs::metadata(directory).map_err(io)?;
        if found.uid() == uid && found.mode() & 0o022 == 0 {
            return Ok(channel);
        }
        Err(RingError::UntrustedAgent {
            path: path.to_owned(),
            uid,
        })
    }

    /// A connection that was accepted, and that does not block.
    pub fn new(socket: OwnedFd) -> Self {
        let inode = inode_of(socket.as_fd()).unwrap_or(0);
        Self {
            socket: AtomicI32::new(socket.into_raw_fd()),
            inode: AtomicU64::new(inode),
        }
    }

    /// The socket, if the descriptor is still the one.
    fn own(&self) -> io::Result<BorrowedFd<'_>> {
        let socket = self.as_fd();
        match inode_of(socket) {
            // Relaxed: see the field.
            Some(inode) if inode == self.inode.load(Ordering::Relaxed) => Ok(socket),
            _ => Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "the program has closed the descriptor of the connection",
            )),
        }
    }

    /// The process at the other end, as the kernel knows it.
    ///
    /// # Errors
    /// When the system does not say it.
    pub fn peer(&self) -> io::Result<Peer> {
        Peer::of(self.own()?)
    }

    /// Sends a packet, whole or not at all.
    ///
    /// # Errors
    /// `WouldBlock` when the other end does not read, or has too many descriptors on their way; any other error ends the
    /// connection.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(self.own()?, &[IoSlice::new(bytes)], &mut control, flags) {
            Ok(_) => Ok(()),
            Err(Errno::TOOMANYREFS | Errno::NOBUFS) => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a packet, with its descriptors. Without `room` for descriptors the kernel drops them.
    ///
    /// # Errors
    /// `WouldBlock` when there is none; any other error ends the connection.
    pub fn receive(
        &self,
        buffer: &mut [u8],
        descriptors: &mut Vec<OwnedFd>,
        room: bool,
    ) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
        let usable = if room { &mut space[..] } else { &mut [][..] };
        let mut control = RecvAncillaryBuffer::new(usable);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut iov = [IoSliceMut::new(buffer)];
        let socket = self.own()?;
        let got = match recvmsg(socket, &mut iov, &mut control, flags) {
            // The other end has closed without reading all that we sent; what it sent before comes now.
            Err(Errno::CONNRESET) => recvmsg(socket, &mut iov, &mut control, flags),
            other => other,
        };
        let got = match got {
            Err(Errno::CONNRESET | Errno::PIPE) => return Ok(Received::Closed),
            other => other?,
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            Ok(Received::Cut)
        } else if got.bytes == 0 {
            Ok(Received::Closed)
        } else {
            Ok(Received::Packet(got.bytes))
        }
    }

    /// Waits until there is something to receive, or the other end has closed; `false` when the time is over.
    ///
    /// # Errors
    /// When the system cannot wait; an interruption counts as time over.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        self.wait_for(PollFlags::IN, timeout)
    }

    /// Waits until there is room to send, or the other end has closed; `false` when the time is over.
    ///
    /// # Errors
    /// As [`Channel::wait`].
    pub fn wait_for_room(&self, timeout: Duration) -> io::Result<bool> {
        self.wait_for(PollFlags::OUT, timeout)
    }

    fn wait_for(&self, flags: PollFlags, timeout: Duration) -> io::Result<bool> {
        let time = Timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as _,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::from_borrowed_fd(self.own()?, flags)], Some(&time)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts a fresh connection into the place of this one: threads that send at this moment reach one or the other, or
    /// nothing. The descriptor keeps its number, unless the program has closed it.
    ///
    /// # Errors
    /// When the system has no descriptor to spare.
    pub fn replace(&self, fresh: Self) -> io::Result<()> {
        let from = fresh.own()?.as_raw_fd();
        // Relaxed: see the field.
        let inode = fresh.inode.load(Ordering::Relaxed);
        let Ok(socket) = self.own() else {
            self.inode.store(inode, Ordering::Relaxed);
            self.socket.store(from, Ordering::Relaxed);
            // Its number belongs to `self` now.
            std::mem::forget(fresh);
            return Ok(());
        };
        // SAFETY: both descriptors are open and owned, here and in `fresh`; the old file behind ours is closed by the
        // call, and the number goes on to belong to `self`.
        let code = unsafe { libc::dup3(from, socket.as_raw_fd(), libc::O_CLOEXEC) };
        if code < 0 {
            return Err(io::Error::last_os_error());
        }
        self.inode.store(inode, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the connection in both directions; threads that wait for it wake.
    pub fn shut(&self) {
        if let Ok(socket) = self.own() {
            // It may have ended already.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // Relaxed: see the field.
        let number = self.socket.load(Ordering::Relaxed);
        // SAFETY: the number came from a descriptor that `self` took, and is closed with `self`; where the program has
        // closed it, the kernel refuses it or `own` finds another file.
        unsafe { BorrowedFd::borrow_raw(number) }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if let Ok(socket) = self.own() {
            // SAFETY: the descriptor is that of `self`, which is not used again.
            drop(unsafe { OwnedFd::from_raw_fd(socket.as_raw_fd()) });
        }
    }
}

/// Inode of a socket; `None` where the descriptor is none.
fn inode_of(socket: BorrowedFd<'_>) -> Option<u64> {
    let found = fstat(socket).ok()?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    // Some systems have numbers of another width.
    #[allow(clippy::unnecessary_cast, reason = "see above")]
    is_socket.then_some(found.st_ino as u64)
}

/// Descriptors as files.
pub fn into_files(descriptors: Vec<OwnedFd>) -> Vec<File> {
    descriptors.into_iter().map(File::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::socketpair;
    use std::io::{Read, Write};

    fn pair() -> (Channel, Channel) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a pair of sockets");
        (Channel::new(one), Channel::new(other))
    }

    #[test]
    fn packets_keep_their_borders_and_their_descriptors() {
        let (one, other) = pair();
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        one.send(b"first", &[]).expect("sent");
        one.send(b"second", &[writer.as_fd()]).expect("sent");
        drop(writer);
        let mut buffer = [0; 64];
        let mut descriptors = Vec::new();
        let mut receive = |descriptors: &mut Vec<OwnedFd>| {
            let got = other.receive(&mut buffer, descriptors, true).expect("a packet");
            (got, buffer)
        };
        assert_eq!(receive(&mut descriptors).0, Received::Packet(5));
        assert!(descriptors.is_empty());
        let (got, bytes) = receive(&mut descriptors);
        assert_eq!(got, Received::Packet(6));
        assert_eq!(&bytes[..6], b"second");
        let mut file = into_files(descriptors).remove(0);
        file.write_all(b"through").expect("written");
        drop(file);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "through");
        drop(one);
        assert_eq!(
            other
                .receive(&mut buffer, &mut Vec::new(), true)
                .expect("the end"),
            Received::Closed
        );
    }

    #[test]
    fn nothing_waits_and_what_does_not_fit_is_told() {
        let (one, other) = pair();
        let mut buffer = [0; 4];
        let mut descriptors = Vec::new();
        let error = other
            .receive(&mut buffer, &mut descriptors, true)
            .expect_err("nothing");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(!other.wait(Duration::ZERO).expect("no wait"));
        one.send(b"longer", &[]).expect("sent");
        assert!(other.wait(Duration::from_secs(5)).expect("it is there"));
        assert_eq!(
            other
                .receive(&mut buffer, &mut descriptors, true)
                .expect("a packet"),
            Received::Cut
        );
        one.send(b"x", &[other.as_fd()]).expect("sent");
        assert_eq!(
            other
                .receive(&mut buffer, &mut descriptors, false)
                .expect("a packet"),
            Received::Cut
        );
        assert!(descriptors.is_empty(), "the kernel has dropped it");
        let sent = (0..100_000)
            .take_while(|_| one.send(&[0; 1000], &[]).is_ok())
            .count();
        assert!(sent < 100_000, "a full queue does not block");
    }

    #[test]
    fn a_replaced_connection_keeps_its_number() {
        let (one, other) = pair();
        let number = one.as_fd().as_raw_fd();
        let (fresh, far) = pair();
        one.replace(fresh).expect("replaced");
        assert_eq!(one.as_fd().as_raw_fd(), number);
        let mut buffer = [0; 8];
        assert_eq!(
            other
                .receive(&mut buffer, &mut Vec::new(), true)
                .expect("the end"),
            Received::Closed
        );
        one.send(b"far", &[]).expect("sent");
        assert_eq!(
            far.receive(&mut buffer, &mut Vec::new(), true).expect("a packet"),
            Received::Packet(3)
        );
    }

    #[test]
    fn nobody_who_listens_is_an_error_at_once() {
        let path = std::env::temp_dir().join(format!("logdrive-nobody-{}.sock", std::process::id()));
        let error = Channel::connect(&path, Duration::from_millis(100)).expect_err("nobody");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
