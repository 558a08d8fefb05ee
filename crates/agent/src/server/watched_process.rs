//! Processes that are watched for their end: those that have a session, and for a while those that had one, because the
//! end of a process is told also where its session ended in order before.

use super::ready::Watcher;
use crate::limits::{EXIT_WAIT_MS, FINISHED_PROCESSES_MAX};
use logdrive_drain::{ClientProcess, describe_exit_alone, noted_exit};
use logdrive_ring::{Exit, HostedSession, exit_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// A process that the kernel tells the end of.
#[derive(Debug)]
pub(super) struct WatchedProcess {
    pub(super) descriptor: OwnedFd,
    pid: u32,
    /// Time at which its end was seen; its status may still come.
    died_at: Option<Instant>,
}

impl WatchedProcess {
    pub(super) fn new(descriptor: OwnedFd, pid: u32) -> Self {
        Self {
            descriptor,
            pid,
            died_at: None,
        }
    }

    /// Its exit, if it has ended and no more is to be learned of it; `None` in it where that is not known.
    pub(super) fn exit(&mut self, now: Instant) -> Option<Option<Exit>> {
        // The event may be that of an earlier session of the same number.
        let mut polled = [PollFd::new(&self.descriptor, PollFlags::IN)];
        if poll(&mut polled, Some(&Timespec::default())).unwrap_or(0) == 0 {
            return None;
        }
        let is_fetched = polled[0].revents().contains(PollFlags::HUP);
        let exit = exit_of(self.descriptor.as_fd(), self.pid);
        self.died_at.get_or_insert(now);
        // Until its parent has fetched the status, another event may bring it.
        (exit.is_some() || is_fetched || self.has_waited(now)).then_some(exit)
    }

    /// Returns whether it has ended, and its status has not come for too long.
    pub(super) fn has_waited(&self, now: Instant) -> bool {
        let wait = Duration::from_millis(EXIT_WAIT_MS);
        self.died_at
            .is_some_and(|died_at| now.saturating_duration_since(died_at) >= wait)
    }
}

/// A process whose session has ended in order.
#[derive(Debug)]
struct FinishedProcess {
    process: WatchedProcess,
    client: ClientProcess,
    /// End that it had noted by then, with its words.
    noted: Option<(Exit, String)>,
}

impl FinishedProcess {
    /// The end in words, where it is worth a line: any but a success.
    fn describe(&self, exit: Option<Exit>) -> Option<String> {
        let text = match (exit, &self.noted) {
            (None, None) => return None,
            (None, Some((_, text))) => text.clone(),
            (Some(exit), Some((noted, text))) if exit == *noted => text.clone(),
            (Some(exit), _) => describe_exit_alone(exit),
        };
        let exit = exit.or(self.noted.as_ref().map(|(exit, _)| *exit));
        (exit != Some(Exit::Status(0))).then(|| format!("{} {text}", self.client))
    }
}

/// Processes whose sessions have ended in order, by the numbers of those.
#[derive(Debug, Default)]
pub(super) struct FinishedProcesses {
    by_session: BTreeMap<u64, FinishedProcess>,
}

impl FinishedProcesses {
    /// Takes the process of a session that is over.
    pub(super) fn add(&mut self, session: &HostedSession, process: WatchedProcess, watcher: &Watcher) {
        let pid = session.peer().pid;
        // Its end is told once, however many sessions it had.
        let earlier = self.by_session.iter();
        let earlier = earlier.filter(|(_, other)| other.client.pid == pid);
        let earlier: Vec<u64> = earlier.map(|(id, _)| *id).collect();
        for id in earlier {
            self.remove(id, watcher);
        }
        if self.by_session.len() >= FINISHED_PROCESSES_MAX
            && let Some(id) = self.by_session.keys().next().copied()
        {
            self.remove(id, watcher);
        }
        let finished = FinishedProcess {
            process,
            client: ClientProcess::of(session),
            noted: noted_exit(session.header()),
        };
        self.by_session.insert(session.id(), finished);
    }

    /// Forgets the process of a session.
    pub(super) fn remove(&mut self, session: u64, watcher: &Watcher) {
        if let Some(finished) = self.by_session.remove(&session) {
            watcher.remove(&finished.process.descriptor);
        }
    }

    /// The descriptor of a process has something to say. Returns the process and its end in words, if it has ended and that
    /// is worth a line.
    pub(super) fn check(
        &mut self,
        session: u64,
        watcher: &Watcher,
        now: Instant,
    ) -> Option<(ClientProcess, String)> {
        let finished = self.by_session.get_mut(&session)?;
        let exit = finished.process.exit(now)?;
        let text = finished.describe(exit);
        let client = finished.client.clone();
        self.remove(session, watcher);
        Some((client, text?))
    }

    /// Sessions whose processes have ended, and whose status has not come for too long.
    pub(super) fn overdue(&self, now: Instant) -> Vec<u64> {
        let all = self.by_session.iter();
        let waited = all.filter(|(_, finished)| finished.process.has_waited(now));
        waited.map(|(id, _)| *id).collect()
    }
}
