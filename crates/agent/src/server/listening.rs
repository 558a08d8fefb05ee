//! Listening socket of a server, with a descriptor to spare for the time when the system has no other.

use crate::error::AgentError;
use crate::limits::ACCEPT_PAUSE_MS;
use crate::path_lock::Listener;
use logdrive_ring::channel::Channel;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Result of an accept.
pub(super) enum Accepted {
    Connection(Channel),
    /// The system has no descriptor: nothing is accepted for a moment. The spare one serves to refuse a peer.
    Exhausted(Option<Channel>),
    /// No connection waits, or none is accepted now.
    Nothing,
}

/// Listening socket.
#[derive(Debug)]
pub(super) struct Listening {
    listener: Listener,
    /// Given up for a moment when there is no other descriptor, so that a peer can be refused with a message.
    spare: Option<OwnedFd>,
    /// End of the pause after the system had no descriptor.
    paused_until: Option<Instant>,
}

impl Listening {
    pub(super) fn open(path: &Path, mode: u32, group: Option<u32>) -> Result<Self, AgentError> {
        Ok(Self {
            listener: Listener::open(path, mode, group)?,
            spare: spare(),
            paused_until: None,
        })
    }

    /// Accepts the next connection.
    pub(super) fn accept(&mut self, now: Instant) -> Accepted {
        if self.paused_until.is_some() {
            return Accepted::Nothing;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accept = |listener: &Listener| accept_with(&listener.socket, flags).map(Channel::new);
        loop {
            return match accept(&self.listener) {
                Ok(channel) => Accepted::Connection(channel),
                // Gone again, or interrupted.
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => Accepted::Nothing,
                Err(error) => {
                    self.paused_until = Some(now + Duration::from_millis(ACCEPT_PAUSE_MS));
                    if !matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) {
                        return Accepted::Nothing;
                    }
                    drop(self.spare.take());
                    Accepted::Exhausted(accept(&self.listener).ok())
                }
            };
        }
    }

    /// Takes back a descriptor to spare.
    pub(super) fn restore_spare(&mut self) {
        self.spare = spare();
    }

    /// Ends a pause that is over; `true` where connections may wait since.
    pub(super) fn resume(&mut self, now: Instant) -> bool {
        self.paused_until.take_if(|until| now >= *until).is_some()
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.socket.as_fd()
    }
}

fn spare() -> Option<OwnedFd> {
    open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}
