//! Sockets that connections are accepted from, none of which waits.

use super::{Link, SocketLink};
use crate::address::{Address, HostPort};
use crate::options::Options;
use logdrive_ring::channel::Channel;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Connections that may wait to be accepted; the system's own bound is lower on most machines.
const BACKLOG_MAX: i32 = 4096;

/// A listening socket.
pub(crate) trait Listen: AsFd + Send {
    /// Accepts the next connection.
    ///
    /// # Errors
    /// `WouldBlock` when none waits.
    fn accept(&self, options: &Options) -> io::Result<Incoming>;

    /// Host and port that it listens on, with the port that the system chose.
    fn host_port(&self) -> Option<HostPort> {
        None
    }
}

/// A connection that was accepted.
pub(crate) struct Incoming {
    /// Its address, for people.
    pub(crate) address: String,
    pub(crate) link: IncomingLink,
}

/// The bytes of an accepted connection.
pub(crate) enum IncomingLink {
    /// Come over a socket; or the system refuses what its link needs.
    Link(io::Result<Box<dyn Link>>),
    /// Come over rings, which the peer sends next.
    Rings(Channel),
}

impl IncomingLink {
    /// The user at the other end, where the kernel vouches for it.
    pub(crate) fn uid(&self) -> Option<u32> {
        match self {
            Self::Link(link) => link.as_ref().ok()?.uid(),
            Self::Rings(channel) => channel.peer().ok().map(|peer| peer.uid),
        }
    }
}

/// Listens for TCP.
pub(crate) fn listen_tcp(host_port: &HostPort) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = host_port.resolve()?;
    let listener = TcpListener::bind(addresses.as_slice())?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Listen for TcpListener {
    fn accept(&self, options: &Options) -> io::Result<Incoming> {
        let (stream, peer) = self.accept()?;
        let link = SocketLink::tcp(stream, options);
        Ok(Incoming {
            address: format!("tcp://{peer}"),
            link: IncomingLink::Link(link.map(|link| Box::new(link) as Box<dyn Link>)),
        })
    }

    fn host_port(&self) -> Option<HostPort> {
        self.local_addr().ok().map(HostPort::from)
    }
}

/// A listening Unix socket: of bytes for `unix://`, of packets for `shm://`. Its file is removed with it, as long as
/// it is still the same file.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    socket: OwnedFd,
    kind: SocketType,
    path: PathBuf,
    inode: u64,
}

impl UnixSocket {
    pub(crate) fn listen(path: &Path, kind: SocketType) -> io::Result<Self> {
        make_room(path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
        rustix::net::listen(&socket, BACKLOG_MAX)?;
        Ok(Self {
            socket,
            kind,
            path: path.to_owned(),
            inode: path.symlink_metadata()?.ino(),
        })
    }
}

impl Listen for UnixSocket {
    fn accept(&self, options: &Options) -> io::Result<Incoming> {
        if self.kind == SocketType::SEQPACKET {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = rustix::net::accept_with(&self.socket, flags)?;
            return Ok(Incoming {
                address: "shm".to_owned(),
                link: IncomingLink::Rings(Channel::new(socket)),
            });
        }
        let socket = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC)?;
        Ok(Incoming {
            address: Address::Unix(self.path.clone()).to_string(),
            link: IncomingLink::Link(
                SocketLink::unix(socket, options).map(|link| Box::new(link) as Box<dyn Link>),
            ),
        })
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let found = self.path.symlink_metadata();
        if found.is_ok_and(|found| found.ino() == self.inode) {
            // A socket that stays is replaced by the next listener.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes the socket of a listener that has ended. One with a live listener stays, and is an error.
fn make_room(path: &Path) -> io::Result<()> {
    let Ok(found) = path.symlink_metadata() else {
        return Ok(());
    };
    let refused = |kind, why: &str| Err(io::Error::new(kind, why));
    if !found.file_type().is_socket() {
        return refused(io::ErrorKind::AlreadyExists, "there is a file that is no socket");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        // A listener of packets refuses a stream with another error.
        _ => refused(io::ErrorKind::AddrInUse, "somebody listens there already"),
    }
}
