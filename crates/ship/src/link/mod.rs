//! Links: what carries a connection's bytes, behind one trait. Nothing here knows what a frame means.

mod listen;
mod shm;
mod socket;
#[cfg(feature = "tls")]
pub(crate) mod tls;

pub(crate) use listen::{Incoming, IncomingLink, Listen, UnixSocket, listen_tcp};
pub(crate) use shm::ShmLink;
pub(crate) use socket::SocketLink;
#[cfg(any(feature = "udp", feature = "quic"))]
pub(crate) use socket::set_receive_buffer;
pub use socket::wait_for_socket;
#[cfg(feature = "tls")]
pub use tls::foreign_server_config;

use crate::identity::Identity;
use logdrive_ring::{Consumer, PipeWriter};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// A connection's bytes, in both directions.
pub(crate) trait Link: Send {
    /// Sends as many bytes as go without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when none do; any other error ends the connection.
    fn try_send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// As [`Link::try_send`], and waits for room; in one system call where there is one for it.
    ///
    /// # Errors
    /// `TimedOut` when there was none.
    fn send(&mut self, parts: &[IoSlice<'_>], timeout: Duration) -> io::Result<usize> {
        let end = Instant::now() + timeout;
        loop {
            match self.try_send(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.wait(true, left)?;
        }
    }

    /// Takes bytes that are there; 0 when the other end has closed.
    ///
    /// # Errors
    /// As [`Link::try_send`].
    fn try_receive(&mut self, space: &mut [u8]) -> io::Result<usize>;

    /// Sleeps until there is something to receive, or room to send where that is asked for. `false`: the time is over.
    ///
    /// # Errors
    /// Fails when the system cannot wait.
    fn wait(&mut self, for_room: bool, timeout: Duration) -> io::Result<bool>;

    /// As [`Link::try_receive`], and waits for it; in one system call where there is one for it.
    ///
    /// # Errors
    /// `TimedOut` when nothing came.
    fn receive(&mut self, space: &mut [u8], timeout: Duration) -> io::Result<usize> {
        let end = Instant::now() + timeout;
        loop {
            match self.try_receive(space) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.wait(false, left)?;
        }
    }

    /// Returns whether [`Link::receive`] is one system call.
    fn blocks_in_receive(&self) -> bool {
        false
    }

    /// Sends all of a buffer, which comes back empty: one that takes it as it is gives another.
    ///
    /// # Errors
    /// As [`Link::send`].
    fn send_buffer(&mut self, buffer: &mut Vec<u8>, timeout: Duration) -> io::Result<()> {
        let mut sent = 0;
        while let Some(rest) = buffer.get(sent..).filter(|rest| !rest.is_empty()) {
            sent += self.send(&[IoSlice::new(rest)], timeout)?;
        }
        buffer.clear();
        Ok(())
    }

    /// Descriptor that an event loop watches; `None` where the link needs a thread of its own.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Notified when something has come, or there is room again, in the place of a descriptor.
    #[cfg(feature = "quic")]
    fn notify(&self) -> Option<std::sync::Arc<tokio::sync::Notify>> {
        None
    }

    /// Ends a wait for bytes, or the next one, from another thread; `None` where an event loop waits.
    fn waker(&self) -> Option<Box<dyn Fn() + Send>> {
        None
    }

    /// Returns whether bytes may lie in the link although its descriptor has none: read until it would block.
    fn buffers_received(&self) -> bool {
        false
    }

    /// Returns whether bytes wait in the link for room in the socket.
    fn has_unsent(&self) -> bool {
        false
    }

    /// Sends what waits in the link.
    ///
    /// # Errors
    /// As [`Link::try_send`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The connection has failed: nothing of it is waited for any more.
    fn abandon(&mut self) {}

    /// Nothing more will be sent. What has been is waited for when the link is dropped; of several links, of all at
    /// once.
    fn finish(&mut self) {}

    /// Returns whether the link has streams of its own, which [`Link::open_stream`] opens.
    fn has_streams(&self) -> bool {
        false
    }

    /// Returns whether what is sent now waits here for what was sent before, so that it is no later for having been
    /// collected first.
    fn is_congested(&self) -> bool {
        false
    }

    /// Another stream of the same connection.
    ///
    /// # Errors
    /// Fails when it cannot be opened.
    fn open_stream(&mut self) -> io::Result<Box<dyn Link>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A message of so many bytes is better sent by itself than copied into a batch.
    fn direct_bytes(&self) -> usize {
        usize::MAX
    }

    /// Looks, from time to time, whether the other end still reads what is written into [`Link::rings`].
    ///
    /// # Errors
    /// Fails when it has closed the connection.
    fn check_peer(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Frames begin at multiples of this.
    fn alignment(&self) -> usize {
        1
    }

    /// The rings of a link that lies in shared memory: the one that is read, and the one that is written.
    fn rings(&mut self) -> Option<(&mut Consumer, &mut PipeWriter)> {
        None
    }

    /// Returns whether [`Link::receive`] itself spins for a while before it sleeps, without a system call for each
    /// check.
    fn spins(&self) -> bool {
        false
    }

    /// More is sent soon after the next so many bytes: the other end need not be notified of them at once, but at the
    /// latest by [`Link::uncork`].
    fn cork(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Returns whether bytes were sent without a notification of the other end.
    fn is_corked(&self) -> bool {
        false
    }

    /// Notifies the other end of bytes that were sent without a notification.
    ///
    /// # Errors
    /// Fails when the system cannot.
    fn uncork(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether [`Link::uncork`] is no system call, so that nothing need be held for long.
    fn uncorks_cheaply(&self) -> bool {
        false
    }

    /// Returns whether the bytes need no checksum of ours: they stay in this machine's memory, or the link checks them.
    fn is_integrity_protected(&self) -> bool;

    /// From now on each use checks that the descriptor is still that of this link: in a program that may close descriptors
    /// that are not its own.
    fn guard(&mut self) {}

    /// The user at the other end, where the kernel vouches for it.
    fn uid(&self) -> Option<u32> {
        None
    }

    /// Identity of the other end, where the kernel or a certificate that was checked vouches for it.
    fn identity(&self) -> Option<Identity> {
        self.uid().map(Identity::of_user)
    }
}

/// Time for the kernel, which takes 0 for ever.
pub(crate) fn timespec(time: Duration) -> rustix::event::Timespec {
    rustix::event::Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
