//! Unix and TCP stream sockets. They stay in blocking mode, so that waiting for an answer is one system call; where
//! nothing may block, each call says so.

use super::{Link, timespec};
use crate::address::{Address, HostPort};
use crate::limits::HELD_BYTES_MAX;
use crate::options::Options;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Congestion control of TCP within this machine.
const LOCAL_CONGESTION: &str = "cubic";

/// A connected stream socket.
#[derive(Debug)]
pub(crate) struct SocketLink {
    socket: OwnedFd,
    is_local: bool,
    uid: Option<u32>,
    receive_timeout: Option<Duration>,
    send_timeout: Option<Duration>,
    /// Whether the kernel can put several sends into one packet.
    is_tcp: bool,
    /// The next send may wait for others.
    cork_next: bool,
    /// The last one did.
    is_corked: bool,
}

impl SocketLink {
    pub(crate) fn connect_unix(path: &Path, options: &Options) -> io::Result<Self> {
        // A full queue of the listener keeps the call waiting; the kernel's time limit for sending bounds that.
        let address = rustix::net::SocketAddrUnix::new(path)?;
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )?;
        sockopt::set_socket_timeout(
            &socket,
            Timeout::Send,
            Some(options.connect_timeout.max(Duration::from_millis(1))),
        )?;
        rustix::net::connect(&socket, &address)?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, None)?;
        Ok(Self::unix(socket, options))
    }

    fn unix(socket: OwnedFd, options: &Options) -> Self {
        set_buffer_sizes(socket.as_fd(), options);
        let uid = sockopt::socket_peercred(&socket)
            .ok()
            .map(|peer| peer.uid.as_raw());
        Self {
            socket,
            is_local: true,
            uid,
            receive_timeout: None,
            send_timeout: None,
            is_tcp: false,
            cork_next: false,
            is_corked: false,
        }
    }

    pub(crate) fn connect_tcp(host_port: &HostPort, options: &Options) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in host_port.resolve()? {
            match TcpStream::connect_timeout(&address, options.connect_timeout.max(Duration::from_millis(1)))
            {
                Ok(stream) => return Self::tcp(stream, options),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(crate) fn tcp(stream: TcpStream, options: &Options) -> io::Result<Self> {
        let is_local = stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
        // Batches are made here, so that the kernel has nothing to wait for.
        stream.set_nodelay(true)?;
        let socket = OwnedFd::from(stream);
        match &options.congestion {
            Some(name) => sockopt::set_tcp_congestion(&socket, name)?,
            // Within a machine there is nothing to measure, and one that paces, such as bbr, halves the rate. Where the
            // kernel has none of this name, its own does.
            None if is_local => drop(sockopt::set_tcp_congestion(&socket, LOCAL_CONGESTION)),
            None => {}
        }
        set_buffer_sizes(socket.as_fd(), options);
        Ok(Self {
            socket,
            is_local,
            uid: None,
            receive_timeout: None,
            send_timeout: None,
            is_tcp: true,
            cork_next: false,
            is_corked: false,
        })
    }

    /// The flag for the next send, which is for a batch that others follow soon: packets are filled before they go, so that
    /// a small batch costs a copy and not a packet.
    fn more(&mut self) -> SendFlags {
        self.is_corked = std::mem::take(&mut self.cork_next);
        match self.is_corked {
            true => SendFlags::MORE,
            false => SendFlags::empty(),
        }
    }

    /// Sets the kernel's time limit, unless the one that is set is at most an eighth longer: a call of its own for each
    /// receive would cost more than that is worth.
    fn set_receive_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        let serves = self
            .receive_timeout
            .is_some_and(|set| set >= timeout && set <= timeout + timeout / 8);
        if !serves {
            sockopt::set_socket_timeout(
                &self.socket,
                Timeout::Recv,
                Some(timeout.max(Duration::from_micros(1))),
            )?;
            self.receive_timeout = Some(timeout);
        }
        Ok(())
    }
}

/// Asks for buffers of this size; what the system gives is enough to go on with.
fn set_buffer_sizes(socket: BorrowedFd<'_>, options: &Options) {
    let _ = sockopt::set_socket_send_buffer_size(socket, options.socket_buffer_bytes);
    let _ = sockopt::set_socket_recv_buffer_size(socket, options.socket_buffer_bytes);
}

impl Link for SocketLink {
    #[inline]
    fn try_send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | self.more();
        loop {
            let sent = match parts {
                [one] => rustix::net::send(&self.socket, one, flags),
                parts => {
                    rustix::net::sendmsg(&self.socket, parts, &mut SendAncillaryBuffer::default(), flags)
                }
            };
            match sent {
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn send(&mut self, parts: &[IoSlice<'_>], timeout: Duration) -> io::Result<usize> {
        if self.send_timeout != Some(timeout) {
            sockopt::set_socket_timeout(
                &self.socket,
                Timeout::Send,
                Some(timeout.max(Duration::from_micros(1))),
            )?;
            self.send_timeout = Some(timeout);
        }
        let flags = SendFlags::NOSIGNAL | self.more();
        loop {
            let sent = match parts {
                [one] => rustix::net::send(&self.socket, one, flags),
                parts => {
                    let mut control = SendAncillaryBuffer::default();
                    rustix::net::sendmsg(&self.socket, parts, &mut control, flags)
                }
            };
            match sent {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                other => return Ok(other?),
            }
        }
    }

    #[inline]
    fn try_receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::net::recv(&self.socket, &mut *space, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                other => return Ok(other?.0),
            }
        }
    }

    fn receive(&mut self, space: &mut [u8], timeout: Duration) -> io::Result<usize> {
        self.set_receive_timeout(timeout)?;
        loop {
            match rustix::net::recv(&self.socket, &mut *space, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                other => return Ok(other?.0),
            }
        }
    }

    fn blocks_in_receive(&self) -> bool {
        true
    }

    fn wait(&mut self, for_room: bool, timeout: Duration) -> io::Result<bool> {
        wait_for_socket(self.socket.as_fd(), for_room, timeout)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn cork(&mut self, bytes: usize) {
        self.cork_next = self.is_tcp && bytes < HELD_BYTES_MAX;
    }

    fn is_corked(&self) -> bool {
        self.is_corked
    }

    fn uncork(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_corked) {
            // Set already; setting it sends what waits.
            sockopt::set_tcp_nodelay(&self.socket, true)?;
        }
        Ok(())
    }

    fn is_integrity_protected(&self) -> bool {
        self.is_local
    }

    fn uid(&self) -> Option<u32> {
        self.uid
    }
}

/// Sleeps until a socket can be read or, where that is asked for, written.
pub fn wait_for_socket(socket: BorrowedFd<'_>, for_room: bool, timeout: Duration) -> io::Result<bool> {
    let flags = if for_room {
        PollFlags::IN | PollFlags::OUT
    } else {
        PollFlags::IN
    };
    match poll(&mut [PollFd::new(&socket, flags)], Some(&timespec(timeout))) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Accepts connections of stream sockets. Its socket does not block.
#[derive(Debug)]
pub(crate) enum StreamListener {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

impl StreamListener {
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        let file = SocketFile::make_room(path)?;
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
        listener.set_nonblocking(true)?;
        Ok(Self::Unix(listener, file.made()?))
    }

    pub(crate) fn tcp(host_port: &HostPort) -> io::Result<Self> {
        let addresses: Vec<SocketAddr> = host_port.resolve()?;
        let listener = TcpListener::bind(addresses.as_slice())?;
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(listener))
    }

    /// Host and port that it listens on, with the port that the system chose.
    pub(crate) fn host_port(&self) -> Option<HostPort> {
        match self {
            Self::Unix(..) => None,
            Self::Tcp(listener) => listener.local_addr().ok().map(HostPort::from),
        }
    }

    /// The next connection, and its address for people.
    pub(crate) fn accept(&self, options: &Options) -> io::Result<(SocketLink, String)> {
        match self {
            Self::Unix(listener, file) => {
                let (stream, _): (UnixStream, _) = listener.accept()?;
                let link = SocketLink::unix(stream.into(), options);
                Ok((link, Address::Unix(file.path.clone()).to_string()))
            }
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nonblocking(false)?;
                Ok((SocketLink::tcp(stream, options)?, format!("tcp://{peer}")))
            }
        }
    }
}

impl AsFd for StreamListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// The file of a Unix socket: removed with its listener, as long as it is still the same file.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl SocketFile {
    /// Removes the socket of a listener that has ended. One that somebody listens on stays, and is an error.
    pub(crate) fn make_room(path: &Path) -> io::Result<Self> {
        let room = Self {
            path: path.to_owned(),
            inode: 0,
        };
        let Ok(found) = path.symlink_metadata() else {
            return Ok(room);
        };
        if !found.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is a file that is no socket",
            ));
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map(|()| room)
            }
            // A listener of packets refuses a stream with another error.
            _ => Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "somebody listens there already",
            )),
        }
    }

    /// The socket has been made.
    pub(crate) fn made(mut self) -> io::Result<Self> {
        self.inode = self.path.symlink_metadata()?.ino();
        Ok(self)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = self.inode != 0
            && self
                .path
                .symlink_metadata()
                .is_ok_and(|found| found.ino() == self.inode);
        if is_ours {
            // A socket that stays is replaced by the next listener.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
