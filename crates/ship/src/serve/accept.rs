//! Accepting at the listening sockets that a poller watches.

use crate::link::{Incoming, Listen};
use crate::options::Options;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A listening socket, and whether its last accept was refused.
pub(crate) struct Listener {
    socket: Box<dyn Listen>,
    /// The system refused an accept, for instance because no descriptor was left: the next sweep tries again.
    pub(crate) has_failed: bool,
}

/// Reason for which an accept gave no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoConnection {
    /// None waits.
    Empty,
    /// One has gone already, or the network fails for it: others may wait behind it.
    Gone,
    /// The system refuses, and would refuse the next one at once, too.
    Refused,
}

impl Listener {
    pub(crate) fn new(socket: Box<dyn Listen>) -> Self {
        Self {
            socket,
            has_failed: false,
        }
    }

    /// Takes the next connection. Does not wait.
    pub(crate) fn accept(&mut self, options: &Options) -> Result<Incoming, NoConnection> {
        let accepted = self.socket.accept(options).map_err(|error| judge(&error));
        self.has_failed = matches!(accepted, Err(NoConnection::Refused));
        accepted
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Distinguishes errors of one connection, which accept(2) lists, from those that would come again at once: whatever is
/// not known to pass waits, so that no error keeps a thread busy.
fn judge(error: &io::Error) -> NoConnection {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN) => NoConnection::Empty,
        Some(
            Errno::CONNABORTED
            | Errno::INTR
            | Errno::PERM
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::OPNOTSUPP
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::NONET
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH,
        ) => NoConnection::Gone,
        _ => NoConnection::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_one_connection_is_tried_again_at_once() {
        let found = |errno: Errno| judge(&errno.into());
        assert_eq!(found(Errno::AGAIN), NoConnection::Empty);
        assert_eq!(found(Errno::CONNABORTED), NoConnection::Gone);
        assert_eq!(found(Errno::HOSTUNREACH), NoConnection::Gone);
        for lasting in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOBUFS,
            Errno::NOMEM,
            Errno::BADF,
            Errno::INVAL,
            Errno::NOSYS,
            Errno::IO,
        ] {
            assert_eq!(found(lasting), NoConnection::Refused, "{lasting}");
        }
        assert_eq!(judge(&io::Error::other("of no number")), NoConnection::Refused);
    }

    /// Fails with the same error for ever, as a broken system would.
    struct Broken(std::net::UdpSocket, Errno);

    impl AsFd for Broken {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl Listen for Broken {
        fn accept(&self, _: &Options) -> io::Result<Incoming> {
            Err(self.1.into())
        }
    }

    #[test]
    fn a_listener_that_is_refused_waits_for_the_next_sweep() {
        let socket = || std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let options = Options::default();
        for (errno, waits) in [
            (Errno::IO, true),
            (Errno::CONNABORTED, false),
            (Errno::AGAIN, false),
        ] {
            let mut listener = Listener::new(Box::new(Broken(socket(), errno)));
            assert!(listener.accept(&options).is_err());
            assert_eq!(listener.has_failed, waits, "{errno}");
        }
    }
}
