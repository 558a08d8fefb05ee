//! Unix and TCP stream sockets, and sockets of datagrams, of which each is a frame. They stay in blocking mode, so that waiting for an answer is one system call; where
//! nothing may block, each call says so.

use super::{Link, timespec};
use crate::limits::HELD_BYTES_MAX;
use crate::options::Options;
use logdrive_ring::OwnFile;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use std::fs::File;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Congestion control of TCP within this machine.
const LOCAL_CONGESTION: &str = "cubic";

/// A connected stream socket.
#[derive(Debug)]
pub(crate) struct SocketLink {
    socket: OwnFile,
    /// Set if the program may have closed the descriptor, and use its number for a file of its own.
    is_guarded: bool,
    is_local: bool,
    uid: Option<u32>,
    receive_timeout: Option<Duration>,
    send_timeout: Option<Duration>,
    /// Set if the kernel can put several sends into one packet.
    is_tcp: bool,
    /// The next send may wait for others.
    cork_next: bool,
    /// The last one did.
    is_corked: bool,
}

impl SocketLink {
    pub(crate) fn connect_unix(path: &Path, options: &Options, end: Instant) -> io::Result<Self> {
        // A full queue of the listener keeps the call waiting; the kernel's time limit for sending bounds that.
        let address = rustix::net::SocketAddrUnix::new(path)?;
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )?;
        let limit = time_left(end)?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
        rustix::net::connect(&socket, &address)?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, None)?;
        Self::unix(socket, options)
    }

    pub(super) fn unix(socket: OwnedFd, options: &Options) -> io::Result<Self> {
        set_buffer_sizes(socket.as_fd(), options);
        let uid = sockopt::socket_peercred(&socket)
            .ok()
            .map(|peer| peer.uid.as_raw());
        let mut link = Self::new(socket, true, false)?;
        link.uid = uid;
        Ok(link)
    }

    fn new(socket: OwnedFd, is_local: bool, is_tcp: bool) -> io::Result<Self> {
        Ok(Self {
            socket: OwnFile::new(File::from(socket))?,
            is_guarded: false,
            is_local,
            uid: None,
            receive_timeout: None,
            send_timeout: None,
            is_tcp,
            cork_next: false,
            is_corked: false,
        })
    }

    /// The socket, if the descriptor is still the one where that is to be checked.
    #[inline]
    fn own(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        if self.is_guarded {
            return self.socket.checked().map(AsFd::as_fd).map_err(|_| Errno::BADF);
        }
        Ok(self.socket.unchecked().as_fd())
    }

    /// Connects to the first of these that accepts. One that does not answer leaves their share of the time to the others.
    pub(crate) fn connect_tcp(peers: &[SocketAddr], options: &Options, end: Instant) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for (peer, left) in peers.iter().zip((1..=peers.len() as u32).rev()) {
            let limit = (time_left(end)? / left).max(Duration::from_millis(1));
            match TcpStream::connect_timeout(peer, limit) {
                Ok(stream) => return Self::tcp(stream, options),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// A socket whose datagrams go to this peer, and come from it alone.
    pub(crate) fn connect_udp(peer: SocketAddr, options: &Options) -> io::Result<Self> {
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(peer)?;
        let socket = OwnedFd::from(socket);
        set_buffer_sizes(socket.as_fd(), options);
        Self::new(socket, peer.ip().is_loopback(), false)
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
        Self::new(socket, is_local, true)
    }

    /// Sends, of several parts in one call. A batch that others follow soon goes with them: packets are filled before they
    /// go, so that a small batch costs a copy and not a packet.
    #[inline]
    fn send_parts(&mut self, parts: &[IoSlice<'_>], mut flags: SendFlags) -> rustix::io::Result<usize> {
        self.is_corked = std::mem::take(&mut self.cork_next);
        flags |= SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, self.is_corked);
        let socket = self.own()?;
        rustix::io::retry_on_intr(|| match parts {
            [one] => rustix::net::send(socket, one, flags),
            parts => rustix::net::sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), flags),
        })
    }

    #[inline]
    fn receive_once(&mut self, space: &mut [u8], flags: RecvFlags) -> rustix::io::Result<usize> {
        let socket = self.own()?;
        rustix::io::retry_on_intr(|| Ok(rustix::net::recv(socket, &mut *space, flags)?.0))
    }

    /// Sets the kernel's time limit, unless the one that is set is at most an eighth longer: a call of its own for each
    /// receive would cost more than that is worth.
    fn set_receive_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        let serves = self
            .receive_timeout
            .is_some_and(|set| set >= timeout && set <= timeout + timeout / 8);
        if !serves {
            let limit = timeout.max(Duration::from_micros(1));
            sockopt::set_socket_timeout(self.own()?, Timeout::Recv, Some(limit))?;
            self.receive_timeout = Some(timeout);
        }
        Ok(())
    }
}

/// Time that is left of a connection's.
pub(super) fn time_left(end: Instant) -> io::Result<Duration> {
    match end.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left.max(Duration::from_millis(1))),
    }
}

/// The error of a call whose time limit may have passed.
fn timed_out(error: Errno) -> io::Error {
    match error {
        Errno::AGAIN => io::ErrorKind::TimedOut.into(),
        other => other.into(),
    }
}

/// Asks for a receive buffer of this size, beyond the system's bound where this process may.
#[cfg(any(feature = "udp", feature = "quic"))]
pub(crate) fn set_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    if sockopt::set_socket_recv_buffer_size_force(&socket, bytes).is_err() {
        // Without the privilege the system's bound holds.
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    Ok(())
}

/// Asks for buffers of this size; what the system gives is enough to go on with.
fn set_buffer_sizes(socket: BorrowedFd<'_>, options: &Options) {
    let _ = sockopt::set_socket_send_buffer_size(socket, options.socket_buffer_bytes);
    let _ = sockopt::set_socket_recv_buffer_size(socket, options.socket_buffer_bytes);
}

impl Link for SocketLink {
    #[inline]
    fn try_send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(self.send_parts(parts, SendFlags::DONTWAIT)?)
    }

    fn send(&mut self, parts: &[IoSlice<'_>], timeout: Duration) -> io::Result<usize> {
        if self.send_timeout != Some(timeout) {
            let limit = timeout.max(Duration::from_micros(1));
            sockopt::set_socket_timeout(self.own()?, Timeout::Send, Some(limit))?;
            self.send_timeout = Some(timeout);
        }
        self.send_parts(parts, SendFlags::empty()).map_err(timed_out)
    }

    #[inline]
    fn try_receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        Ok(self.receive_once(space, RecvFlags::DONTWAIT)?)
    }

    fn receive(&mut self, space: &mut [u8], timeout: Duration) -> io::Result<usize> {
        self.set_receive_timeout(timeout)?;
        self.receive_once(space, RecvFlags::empty()).map_err(timed_out)
    }

    fn blocks_in_receive(&self) -> bool {
        true
    }

    fn wait(&mut self, for_room: bool, timeout: Duration) -> io::Result<bool> {
        wait_for_socket(self.own()?, for_room, timeout)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.unchecked().as_fd())
    }

    fn guard(&mut self) {
        self.is_guarded = true;
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
            sockopt::set_tcp_nodelay(self.own()?, true)?;
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
