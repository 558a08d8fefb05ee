//! Descriptions of how a process ended: by what the kernel reports, else by what the process has noted itself.

use crate::stats::Stats;
use logdrive_ring::SessionReader;
use logdrive_wire::Level;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use known::{Exit, Process};
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use unknown::{Exit, Process};

/// Level of the lines that report how a process ended.
pub(crate) const END_LEVEL: Level = Level::Warn;

/// In words, with what it leaves. `exit` is the kernel's word, which goes before what the process has noted itself.
pub(crate) fn describe_exit(view: &SessionReader, stats: &Stats, exit: Option<Exit>) -> String {
    let (process, totals) = (view.header().identity(), view.header().totals());
    let how = match (exit, totals.signal) {
        (Some(Exit::Status(status)), _) => format!("exited with status {status}, without goodbye"),
        (Some(Exit::Signal(signal)), Some((noted, thread, _))) if noted == signal => {
            format!("was ended by signal {signal} in thread {thread}")
        }
        (Some(Exit::Signal(signal)), _) => format!("was ended by signal {signal}"),
        (None, Some((signal, thread, _))) => format!("was ended by signal {signal} in thread {thread}"),
        (None, None) => "ended without a word (SIGKILL, power or out of memory)".to_owned(),
    };
    let panics = match totals.panics {
        0 => String::new(),
        count => format!(", after {count} panics"),
    };
    format!(
        "process {} of {} {how}{panics}; {} records were recovered, {} calls had been dropped",
        process.pid,
        process.app,
        stats.pending(),
        stats.dropped_calls()
    )
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod known {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::os::fd::{AsFd, OwnedFd};
    use std::time::Duration;

    pub(crate) use logdrive_ring::Exit;

    /// Timeout of the exit of a process after its files were closed.
    const EXIT_WAIT: Duration = Duration::from_secs(1);

    /// A process that is no child of ours.
    #[derive(Debug)]
    pub(crate) struct Process {
        descriptor: OwnedFd,
        pid: u32,
    }

    impl Process {
        /// The process that has this number now. `None`: there is none, or it may not be seen.
        pub(crate) fn of(pid: u32) -> Option<Self> {
            let number = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
            let descriptor = pidfd_open(number, PidfdFlags::empty()).ok()?;
            Some(Self { descriptor, pid })
        }

        /// The exit status, where the kernel reports it: it does so a moment after it has closed the process's files,
        /// which is when the session's lock was free. Waits for that moment, at most a second.
        pub(crate) fn exit(&self) -> Option<Exit> {
            let process = self.descriptor.as_fd();
            let wait = Timespec::try_from(EXIT_WAIT).ok();
            // Where that fails, there is nothing to be learned below.
            let _ = poll(
                &mut [PollFd::from_borrowed_fd(process, PollFlags::IN)],
                wait.as_ref(),
            );
            logdrive_ring::exit_of(process, self.pid)
        }
    }
}

/// Other systems do not say how a process ended that is no child.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod unknown {
    #[allow(dead_code)]
    pub(crate) enum Exit {
        Status(u32),
        Signal(u32),
    }

    #[derive(Debug)]
    pub(crate) struct Process;

    impl Process {
        pub(crate) fn of(_pid: u32) -> Option<Self> {
            None
        }

        pub(crate) fn exit(&self) -> Option<Exit> {
            None
        }
    }
}
