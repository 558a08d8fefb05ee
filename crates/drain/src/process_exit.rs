//! Descriptions of how a process ended: by what the kernel reports, else by what the process has noted itself.

use crate::stats::Stats;
use logdrive_ring::{OutOfMemory, SessionHeader, SessionReader};
use logdrive_wire::Level;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use known::Exit;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use known::Process;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use unknown::Exit;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use unknown::Process;

/// Level of the lines that report how a process ended.
pub(crate) const END_LEVEL: Level = Level::Warn;

/// In words, with what it leaves. `exit` is the kernel's word, which goes before what the process has noted itself.
pub(crate) fn describe_exit(view: &SessionReader, stats: &Stats, exit: Option<Exit>) -> String {
    let is_stopped = view.header().totals().is_stopped;
    if exit.is_none() && is_stopped && view.header().totals().signal.is_none() {
        let process = view.header().identity();
        let (pid, app) = (process.pid, process.app);
        return format!(
            "process {pid} of {app} stopped in order; {} records were left",
            stats.pending()
        );
    }
    format!(
        "{}; {} records were {}",
        describe_end(view.header(), exit),
        stats.pending(),
        if is_stopped { "left" } else { "recovered" }
    )
}

/// End of a process in words, with its number and its name: `process 7 of shop was ended by signal 15 (SIGTERM)`. `exit`
/// is the kernel's word, where it is known.
pub fn describe_end(header: &SessionHeader, exit: Option<Exit>) -> String {
    let process = header.identity();
    format!(
        "process {} of {} {}",
        process.pid,
        process.app,
        describe_cause(header, exit)
    )
}

/// Cause of the end of a process in words, as far as anybody can know it: `was ended by signal 11 (SIGSEGV) in thread 9 at
/// shop+0x1f2a3`. `exit` is the kernel's word, which goes before what the process has noted in its header.
pub fn describe_cause(header: &SessionHeader, exit: Option<Exit>) -> String {
    let totals = header.totals();
    let how = match (exit, totals.signal) {
        (Some(Exit::Status(status)), _) if header.end().exit().is_some() => {
            format!("exited with status {status}")
        }
        (Some(Exit::Status(status)), _) => format!("exited with status {status}, without goodbye"),
        (Some(Exit::Signal(signal)), Some((noted, thread, _))) if noted == signal => {
            describe_signal(header, signal, thread)
        }
        (Some(Exit::Signal(SIGKILL)), _) => match header.end().memory_kills() {
            Some(kills) => format!("was ended by signal 9 (SIGKILL), {}", describe_kills(kills)),
            None => "was ended by signal 9 (SIGKILL)".to_owned(),
        },
        (Some(Exit::Signal(signal)), _) => format!("was ended by {}", signal_name(signal)),
        (None, Some((signal, thread, _))) => describe_signal(header, signal, thread),
        (None, None) => match (header.end().exit(), header.end().memory_kills()) {
            (Some(Some(status)), _) => format!("exited with status {status}"),
            (Some(None), _) => "exited".to_owned(),
            (None, _) if header.has_executed() => "executed another program".to_owned(),
            (None, Some(kills)) => format!("ended without a word, {}", describe_kills(kills)),
            (None, None) => "ended without a word (SIGKILL, `_exit`, `exec` or a power cut)".to_owned(),
        },
    };
    match totals.panics {
        0 => how,
        1 => format!("{how}, after a panic"),
        count => format!("{how}, after {count} panics"),
    }
}

/// End of a process in the kernel's words alone.
pub fn describe_exit_alone(exit: Exit) -> String {
    match exit {
        Exit::Status(status) => format!("exited with status {status}"),
        Exit::Signal(signal) => format!("was ended by {}", signal_name(signal)),
    }
}

/// End of a process as it has noted it, in the kernel's form, with its words; `None` where it has noted nothing.
pub fn noted_exit(header: &SessionHeader) -> Option<(Exit, String)> {
    let exit = match (header.totals().signal, header.end().exit()) {
        (Some((signal, _, _)), _) => Exit::Signal(signal),
        (None, Some(Some(status))) => Exit::Status(u32::from(status)),
        (None, _) => return None,
    };
    Some((exit, describe_cause(header, Some(exit))))
}

/// A signal that the process has noted itself. Those that ask it to end say nothing of a thread.
fn describe_signal(header: &SessionHeader, signal: u32, thread: u64) -> String {
    let name = signal_name(signal);
    if ASKING.contains(&signal) {
        return format!("was ended by {name}");
    }
    match header.end().backtrace() {
        calls if calls.is_empty() => format!("was ended by {name} in thread {thread}"),
        calls => format!(
            "was ended by {name} in thread {thread}, at {}",
            calls.replace(' ', " < ")
        ),
    }
}

fn describe_kills(kills: OutOfMemory) -> String {
    match kills {
        OutOfMemory::InGroup(count) => {
            format!(
                "out of memory: the kernel has killed {count} in its control group for that since its start"
            )
        }
        OutOfMemory::OnMachine(count) => {
            format!(
                "perhaps out of memory: the kernel has killed {count} on this machine for that since its start"
            )
        }
    }
}

const SIGKILL: u32 = 9;
/// SIGHUP, SIGINT and SIGTERM.
const ASKING: [u32; 3] = [1, 2, 15];

/// `signal 11 (SIGSEGV)`.
fn signal_name(signal: u32) -> String {
    const NAMES: [(u32, &str); 14] = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (5, "SIGTRAP"),
        (6, "SIGABRT"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
        // These two have other numbers elsewhere.
        (if cfg!(target_os = "linux") { 7 } else { 10 }, "SIGBUS"),
        (if cfg!(target_os = "linux") { 31 } else { 12 }, "SIGSYS"),
    ];
    match NAMES.iter().find(|(number, _)| *number == signal) {
        Some((_, name)) => format!("signal {signal} ({name})"),
        None => format!("signal {signal}"),
    }
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
    /// End of a process.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Exit {
        /// It called `exit` with this status.
        Status(u32),
        /// It was killed by this signal.
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
