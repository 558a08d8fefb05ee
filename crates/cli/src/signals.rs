//! Signals that are read when the command is ready for them, instead of acted upon.

use crate::error::CliError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Signals of a command that is not ended by them.
#[derive(Debug)]
pub(crate) struct Signals {
    delivery: RefCell<SignalDelivery<UnixStream, SignalOnly>>,
    /// The end of the pipe that becomes readable when a signal comes.
    readable: UnixStream,
}

impl Signals {
    /// Signals by which a service is told to end, or to read and open things anew: HUP, INT, TERM and USR1.
    pub(crate) fn of_service() -> Result<Self, CliError> {
        Self::new(&[SIGHUP, SIGINT, SIGTERM, SIGUSR1])
    }

    /// Signals with these numbers.
    pub(crate) fn new(numbers: &[i32]) -> Result<Self, CliError> {
        let failed = |cause| CliError::Signals { cause };
        let (readable, written) = UnixStream::pair().map_err(failed)?;
        let own_end = readable.try_clone().map_err(failed)?;
        let delivery = SignalDelivery::with_pipe(own_end, written, SignalOnly, numbers);
        Ok(Self {
            delivery: RefCell::new(delivery.map_err(failed)?),
            readable,
        })
    }

    /// Returns the number of a signal that has come, if one has.
    pub(crate) fn take(&self) -> Option<i32> {
        self.delivery.borrow_mut().pending().next()
    }

    /// Returns the number of the next signal, if one comes in time.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<i32> {
        self.take().or_else(|| {
            // An interruption only makes the caller's turn come earlier.
            let _ = poll(
                &mut [PollFd::new(&self.readable, PollFlags::IN)],
                Some(&timespec(timeout)),
            );
            self.take()
        })
    }
}

impl AsFd for Signals {
    /// Descriptor that is readable when a signal has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

/// Returns a timeout as `poll` takes it.
pub(crate) fn timespec(timeout: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    }
}
