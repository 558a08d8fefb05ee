//! The files that a process is the first to need, those that no process needs any more, and the file that processes
//! share when there are no more places.

use super::StartError;
use crate::config::{AgentConfig, Process, SinkConfig};
use crate::flush_waiters::FlushWaiters;
use crate::limits::{PROBLEMS_MAX, SINK_CLOSING_MS, SINK_IDLE_MS, SINK_LOOK_MS};
use crate::log_directories::LogDirectories;
use crate::routing::{NO_PROCESS, SHARED_FILE, SharedRouting, SinkKey, key_of};
use crate::server::Server;
use logdrive_drain::{Backend, SinkOptions, Target};
use logdrive_ring::HostedSession;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Which files are written to, and since when others are not.
#[derive(Debug, Default)]
struct SinkUse {
    /// Open files that no process writes to any more.
    idle_since: BTreeMap<SinkKey, Instant>,
    /// Files that are being closed, with their numbers.
    closing: BTreeMap<SinkKey, usize>,
    /// Files that could not be opened at all, which has been reported.
    unopened: BTreeSet<SinkKey>,
    /// Reasons why files that are opened late could not be opened at first, by their numbers.
    late: BTreeMap<usize, String>,
    checked_at: Option<Instant>,
    /// Sessions have come or gone since.
    has_changed: bool,
}

impl SinkUse {
    /// Returns whether it is time to look.
    fn is_due(&mut self, now: Instant) -> bool {
        let pause = Duration::from_millis(SINK_LOOK_MS);
        let is_early = |at: Instant| now.saturating_duration_since(at) < pause;
        if self.checked_at.is_some_and(is_early) {
            return false;
        }
        self.checked_at = Some(now);
        let has_work = !(self.idle_since.is_empty() && self.closing.is_empty() && self.unopened.is_empty());
        std::mem::take(&mut self.has_changed) || has_work
    }

    /// Notes which of the open files are not used at this moment.
    fn note<'a>(&mut self, open: impl Iterator<Item = &'a SinkKey>, used: &BTreeSet<SinkKey>, now: Instant) {
        let mut idle = BTreeMap::new();
        for key in open.filter(|key| !used.contains(*key)) {
            let since = self.idle_since.get(key).copied().unwrap_or(now);
            idle.insert(key.clone(), since);
        }
        self.idle_since = idle;
    }

    /// The files that have been idle for so long at least, the longest first.
    fn idle_for(&self, time: Duration, now: Instant) -> Vec<SinkKey> {
        let is_long = |(_, since): &(&SinkKey, &Instant)| now.saturating_duration_since(**since) >= time;
        let mut idle: Vec<_> = self.idle_since.iter().filter(is_long).collect();
        idle.sort_by_key(|(_, since)| **since);
        idle.into_iter().map(|(key, _)| key.clone()).collect()
    }
}

/// Users of sinks: sessions that write to them, and those who wait for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct SinkUsers<'a> {
    pub(super) server: &'a Server,
    pub(super) waiters: &'a FlushWaiters,
}

/// The open files of an agent, and the routes that lead to them.
#[derive(Debug)]
pub(super) struct SinkFiles {
    backend: Arc<Backend>,
    routing: SharedRouting,
    log_directories: LogDirectories,
    uses: SinkUse,
    /// Problems that the owner of the agent is to report.
    problems: VecDeque<String>,
}

impl SinkFiles {
    /// Files of a backend that has the sinks of the configuration which are the same for all processes.
    pub(super) fn new(
        backend: Arc<Backend>,
        routing: SharedRouting,
        log_directories: LogDirectories,
    ) -> Self {
        Self {
            backend,
            routing,
            log_directories,
            uses: SinkUse::default(),
            problems: VecDeque::new(),
        }
    }

    /// Sessions or routes have changed.
    pub(super) fn mark_changed(&mut self) {
        self.uses.has_changed = true;
    }

    /// A problem that was not reported yet.
    pub(super) fn take_problem(&mut self) -> Option<String> {
        self.problems.pop_front()
    }

    /// Returns the reason why a sink was not opened when it was asked for.
    pub(super) fn why_late(&self, number: usize) -> Option<&str> {
        self.uses.late.get(&number).map(String::as_str)
    }

    /// The sinks that records of a process may go to, as bits.
    pub(super) fn sinks_of(&self, session: &HostedSession) -> u32 {
        self.routing.lock().flush_sinks(&Process::from(session))
    }

    /// The options of these sinks.
    pub(super) fn options_of(&self, session: &HostedSession) -> Vec<SinkOptions> {
        let process = Process::from(session);
        let routing = self.routing.lock();
        let sinks = routing.sinks_for(&process);
        sinks.map(|sink| routing.options_for(sink, &process)).collect()
    }

    /// Opens the sinks that another configuration adds, as far as they are the same for all processes.
    pub(super) fn open_new(&self, config: &AgentConfig) -> Result<(), StartError> {
        let known = self.routing.lock().config.sinks.clone();
        let is_new = |sink: &&SinkConfig| known.iter().all(|other| other.name != sink.name);
        for sink in config.sinks.iter().filter(is_new) {
            self.log_directories.claim_known(sink)?;
            let key = key_of(sink, &NO_PROCESS);
            if sink.has_placeholders() || self.routing.lock().numbers.contains_key(&key) {
                continue;
            }
            let number = self.backend.sinks().add(&sink.options_for(&NO_PROCESS))?;
            self.routing.lock().numbers.insert(key, number);
        }
        Ok(())
    }

    /// Applies changes of the configuration to open sinks.
    pub(super) fn tune(&self, before: &[SinkConfig]) {
        let sinks = self.routing.lock().config.sinks.clone();
        for sink in &sinks {
            let is_same = |old: &SinkConfig| old.name == sink.name && old.changed_keys(sink).is_empty();
            if before.iter().any(is_same) {
                continue;
            }
            let numbers: Vec<usize> = {
                let routing = self.routing.lock();
                let own = routing.numbers.iter().filter(|((name, _), _)| *name == sink.name);
                own.map(|(_, number)| *number).collect()
            };
            for number in numbers {
                if let Err(error) = self.backend.sinks().update(number, &sink.options) {
                    self.backend
                        .notice(format!("sink {} stays as it is: {error}", sink.name));
                }
            }
        }
    }

    /// Opens the files that a process is the first to need.
    pub(super) fn open_for(&mut self, process: &Process<'_>, users: SinkUsers<'_>) {
        let sinks: Vec<SinkConfig> = {
            let routing = self.routing.lock();
            let sinks = routing.sinks_for(process);
            sinks.filter(|sink| sink.has_placeholders()).cloned().collect()
        };
        for sink in sinks {
            let key = key_of(&sink, process);
            if self.routing.lock().numbers.contains_key(&key) {
                self.uses.idle_since.remove(&key);
                continue;
            }
            match self.open_own_or_shared(&sink, process, users) {
                Ok((number, is_shared)) => {
                    self.uses.unopened.remove(&key);
                    let mut routing = self.routing.lock();
                    if is_shared {
                        routing.shared.insert(key.clone());
                    }
                    routing.numbers.insert(key, number);
                }
                Err(error) => {
                    if self.uses.unopened.insert(key) {
                        self.report_problem(format!(
                            "no sink {} for process {} of {}: {error}; it is told that its records are not written",
                            sink.name, process.pid, process.app
                        ));
                    }
                }
            }
        }
    }

    /// A file of its own, as long as one is left that all others can share; whether it is the shared one.
    fn open_own_or_shared(
        &mut self,
        sink: &SinkConfig,
        process: &Process<'_>,
        users: SinkUsers<'_>,
    ) -> Result<(usize, bool), StartError> {
        if !self.has_place() {
            self.free_place(users);
        }
        if self.has_place() {
            return Ok((self.open_file(sink, process)?, false));
        }
        let key = key_of(sink, &SHARED_FILE);
        let found = self.routing.lock().numbers.get(&key).copied();
        if let Some(number) = found {
            self.uses.idle_since.remove(&key);
            return Ok((number, true));
        }
        let number = self.open_file(sink, &SHARED_FILE)?;
        self.routing.lock().numbers.insert(key.clone(), number);
        self.backend.notice(format!(
            "there are places for {} sinks and no more: from {} on, what else comes for sink {} is in {}; routes by \
             application say who shares which file",
            self.backend.sinks().places(),
            process.app,
            sink.name,
            key.1.display()
        ));
        Ok((number, true))
    }

    /// Returns whether there is a place beside those that shared files may need.
    fn has_place(&self) -> bool {
        let routing = self.routing.lock();
        let config = &routing.config;
        let named = config.routes.iter().map(|route| &route.sinks);
        let named = named.chain(config.recorders.iter().map(|recorder| &recorder.sinks));
        let named: BTreeSet<usize> = named.flat_map(|names| config.places_of(names)).collect();
        let sinks = named.into_iter().filter_map(|place| config.sinks.get(place));
        let is_lacking = |sink: &&SinkConfig| {
            sink.has_placeholders() && !routing.numbers.contains_key(&key_of(sink, &SHARED_FILE))
        };
        let unopened = sinks.filter(is_lacking).count();
        self.backend.sinks().free_places() > unopened
    }

    /// Opens a file, now or, where that cannot be, when it can be: until then its lines wait in its buffers, and a
    /// peer that waits for a flush gets a negative answer.
    fn open_file(&mut self, sink: &SinkConfig, process: &Process<'_>) -> Result<usize, StartError> {
        let key = key_of(sink, process);
        if let Some(number) = self.uses.closing.remove(&key) {
            // It is ours: opened now, it would seem to belong to another process.
            self.backend
                .sinks()
                .wait_closed(number, Duration::from_millis(SINK_CLOSING_MS));
        }
        let options = sink.options_for(process);
        let taken = self
            .log_directories
            .claim_for(&options.target)
            .map_err(StartError::from);
        let opened = taken.and_then(|()| Ok(self.backend.sinks().add(&options)?));
        let failed = match opened {
            Err(failed) if matches!(options.target, Target::File(_)) => failed,
            opened => return opened,
        };
        let before = self.log_directories.claimer(options.target.clone());
        let number = self.backend.sinks().add_deferred(&options, before)?;
        self.uses.late.insert(number, failed.to_string());
        self.report_problem(format!(
            "sink {} for process {} of {} cannot be written so far: {failed}; that is tried again, and what does not fit \
             into its buffers until then is dropped and counted",
            sink.name, process.pid, process.app
        ));
        Ok(number)
    }

    /// Closes files that were not written to for a while, and tries again those that could not be opened.
    pub(super) fn check(&mut self, users: SinkUsers<'_>, now: Instant) {
        if !self.uses.is_due(now) {
            return;
        }
        self.backend.sinks().reclaim_closed();
        let backend = &self.backend;
        let is_closing = |number: &mut usize| !backend.sinks().wait_closed(*number, Duration::ZERO);
        self.uses.closing.retain(|_, number| is_closing(number));
        self.note_use(users, now);
        let idle = Duration::from_millis(SINK_IDLE_MS);
        for key in self.uses.idle_for(idle, now) {
            self.close_file(key);
        }
        self.retry_unopened(users);
    }

    /// Tries files again that could not be opened, and forgets those that no process needs any more.
    fn retry_unopened(&mut self, users: SinkUsers<'_>) {
        if self.uses.unopened.is_empty() {
            return;
        }
        let mut needed = BTreeSet::new();
        for session in users.server.sessions() {
            let process = Process::from(&**session);
            let files = self.routing.lock().files_of(&process);
            if files.iter().any(|key| self.uses.unopened.contains(key)) {
                needed.extend(files);
                self.open_for(&process, users);
            }
        }
        self.uses.unopened.retain(|key| needed.contains(key));
    }

    /// Notes which files are written to, or waited for.
    fn note_use(&mut self, users: SinkUsers<'_>, now: Instant) {
        let routing = self.routing.lock();
        let sessions = users.server.sessions();
        let mut used: BTreeSet<SinkKey> = sessions
            .flat_map(|session| routing.files_of(&Process::from(&**session)))
            .collect();
        let waited = users.waiters.sinks();
        let fixed = |key: &SinkKey| {
            let mut sinks = routing.config.sinks.iter();
            sinks.any(|sink| sink.name == key.0 && !sink.has_placeholders())
        };
        for (key, number) in &routing.numbers {
            if waited >> number & 1 == 1 || fixed(key) {
                used.insert(key.clone());
            }
        }
        self.uses.note(routing.numbers.keys(), &used, now);
    }

    /// Closes the file that has been idle for the longest time, so that another one finds a place.
    fn free_place(&mut self, users: SinkUsers<'_>) {
        let now = Instant::now();
        self.note_use(users, now);
        for key in self.uses.idle_for(Duration::ZERO, now) {
            if let Some(number) = self.close_file(key) {
                let timeout = Duration::from_millis(SINK_CLOSING_MS);
                self.backend.sinks().wait_closed(number, timeout);
                return;
            }
        }
    }

    /// Lets a file close; its number, where it was a file and no share in one.
    fn close_file(&mut self, key: SinkKey) -> Option<usize> {
        self.uses.idle_since.remove(&key);
        let mut routing = self.routing.lock();
        let number = routing.numbers.remove(&key)?;
        if routing.shared.remove(&key) {
            return None;
        }
        drop(routing);
        self.uses.late.remove(&number);
        self.backend.sinks().close(number);
        self.uses.closing.insert(key, number);
        Some(number)
    }

    /// Reports a problem of the logs themselves to the other logs, and to the owner.
    fn report_problem(&mut self, text: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push_back(text.clone());
        }
        self.backend.notice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn key(name: &str) -> SinkKey {
        ("main".to_owned(), PathBuf::from(name))
    }

    #[test]
    fn files_are_idle_from_their_last_use_on() {
        let mut uses = SinkUse::default();
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let open = [key("a"), key("b"), key("c")];
        uses.note(open.iter(), &BTreeSet::from([key("a")]), start);
        uses.note(open.iter(), &BTreeSet::from([key("b")]), start + second);
        assert_eq!(uses.idle_for(second, start + second), [key("c")]);
        assert_eq!(uses.idle_for(second, start + 2 * second), [key("c"), key("a")]);
        // One that is closed is no longer idle, and one that is used again begins anew.
        uses.note(open[..2].iter(), &BTreeSet::from([key("a")]), start + 3 * second);
        assert_eq!(uses.idle_for(Duration::ZERO, start + 3 * second), [key("b")]);
    }

    #[test]
    fn a_look_is_taken_when_something_has_changed_and_not_too_often() {
        let mut uses = SinkUse::default();
        let start = Instant::now();
        let pause = Duration::from_millis(SINK_LOOK_MS);
        assert!(!uses.is_due(start), "nothing has changed");
        uses.has_changed = true;
        assert!(!uses.is_due(start), "it was looked just now");
        assert!(uses.is_due(start + pause));
        assert!(!uses.is_due(start + 2 * pause));
        uses.idle_since.insert(key("a"), start);
        assert!(uses.is_due(start + 3 * pause), "a file is to be closed");
        uses.idle_since.clear();
        uses.closing.insert(key("a"), 1);
        assert!(uses.is_due(start + 4 * pause), "what it had is to be given back");
        uses.closing.clear();
        assert!(!uses.is_due(start + 5 * pause));
    }
}
