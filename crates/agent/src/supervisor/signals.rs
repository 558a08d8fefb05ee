//! Signals: kept for one loop to read, passed on to the command, and what to do with the one that ended it.

use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Signals that are read instead of acted upon.
const HELD: [Signal; 11] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Signals that request an end.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Signals that a process in the background gets when it touches its terminal: an error of the call is enough.
const BACKGROUND: [Signal; 2] = [Signal::SIGTTIN, Signal::SIGTTOU];

/// `si_code` of a signal that the kernel sent, as it does for keys of a terminal.
const FROM_KERNEL: i32 = 0x80;

/// A signal that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedSignal {
    pub(crate) signal: Signal,
    /// True if a key or the end of a terminal sent it, to the whole group of processes in the foreground.
    pub(crate) by_terminal: bool,
}

impl ReceivedSignal {
    /// Returns whether a signal has requested an end.
    pub(crate) fn is_ending(self) -> bool {
        ENDING.contains(&self.signal)
    }
}

/// The signals of this process.
#[derive(Debug)]
pub(crate) struct Signals {
    incoming: SignalFd,
    /// Signals that were blocked before, which is what the command shall find.
    before: SigSet,
}

impl Signals {
    /// Holds signals from now on, in the calling thread and in those that it starts. They are never let go again: what
    /// comes after the last check has no receiver.
    pub(crate) fn hold() -> io::Result<Self> {
        let held: SigSet = HELD.into_iter().collect();
        let background: SigSet = BACKGROUND.into_iter().collect();
        let before = SigSet::thread_get_mask()?;
        held.thread_block()?;
        background.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self {
            incoming: SignalFd::with_flags(&held, flags)?,
            before,
        })
    }

    /// Does what starts a process, in a thread that holds no more signals than we did at first: the process inherits
    /// that. A signal that comes in this very moment may find that thread: SIGCHLD is then lost, so whoever waits for
    /// the process checks for its end once before; and a signal that ends processes ends this one.
    pub(crate) fn start<T: Send>(&self, start: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let in_thread = || {
            self.before.thread_set_mask()?;
            start()
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("logdrive-start".to_owned())
                .spawn_scoped(scope, in_thread)?;
            let started = thread.join();
            started.unwrap_or_else(|_| Err(io::Error::other("the thread that starts the command panicked")))
        })
    }

    /// The next signal that has come; `None` when there is none.
    pub(crate) fn next(&self) -> Option<ReceivedSignal> {
        loop {
            let found = self.incoming.read_signal().ok()??;
            let number = i32::try_from(found.ssi_signo).unwrap_or(0);
            if let Ok(signal) = Signal::try_from(number) {
                return Some(ReceivedSignal {
                    signal,
                    by_terminal: found.ssi_code == FROM_KERNEL,
                });
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.incoming.as_fd()
    }
}

/// `SIGTERM`, or a number where the signal has no name.
pub(crate) fn name_of(signal: i32) -> String {
    match Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}

/// Stops this process as the signal of the terminal would have done. Comes back when it is continued.
pub(crate) fn stop_here() {
    // A process can always stop itself; if not, it goes on, which is all that can be done.
    let _ = raise(Signal::SIGSTOP);
}

/// Ends this process by the signal that ended the command, so that a shell sees the same. Comes back when the signal
/// is ignored here.
pub(crate) fn end_by(signal: i32) {
    let Ok(signal) = Signal::try_from(signal) else {
        return;
    };
    // One core file is enough, and it is the command's.
    let _ = setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    );
    let set: SigSet = [signal].into_iter().collect();
    // Where this fails, the caller ends with a status that says the same.
    let _ = set.thread_unblock();
    let _ = raise(signal);
    // The runtime's own handlers of faults step aside at the first and leave the second to the system.
    let _ = raise(signal);
}
