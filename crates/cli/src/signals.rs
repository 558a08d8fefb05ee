//! Signals that are read between two turns instead of acted upon.

use crate::error::CliError;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::time::Duration;

/// HUP, INT, TERM and USR1, held from before the first thread.
pub(crate) struct Signals {
    incoming: SignalFd,
}

impl Signals {
    pub(crate) fn hold() -> Result<Self, CliError> {
        let held: SigSet = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1]
            .into_iter()
            .collect();
        let system = |cause: nix::Error| CliError::Signals {
            cause: io::Error::from(cause),
        };
        // Threads that are started later inherit it.
        held.thread_block().map_err(system)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let incoming = SignalFd::with_flags(&held, flags).map_err(system)?;
        Ok(Self { incoming })
    }

    /// The next signal, if one comes in time.
    pub(crate) fn wait(&self, patience: Duration) -> Option<Signal> {
        let time = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        // An interruption only makes the caller turn earlier.
        let _ = poll(&mut [PollFd::new(&self.incoming, PollFlags::IN)], Some(&time));
        let found = self.incoming.read_signal().ok()??;
        Signal::try_from(i32::try_from(found.ssi_signo).ok()?).ok()
    }
}
