//! A client process: one whose session a drain of another process reads.

use logdrive_ring::HostedSession;
use std::fmt;

/// A process whose session is drained here, as a route sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientProcess {
    /// The application's name, as the process gave it.
    pub app: String,
    /// Process number, by the kernel.
    pub pid: u32,
    /// User, by the kernel.
    pub uid: u32,
}

impl ClientProcess {
    /// Process of a session.
    pub fn of(session: &HostedSession) -> Self {
        let peer = session.peer();
        Self {
            app: session.app().to_owned(),
            pid: peer.pid,
            uid: peer.uid,
        }
    }
}

impl fmt::Display for ClientProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of {}", self.pid, self.app)
    }
}
