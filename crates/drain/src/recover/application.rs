//! Recovery of all that dead processes of one application left, when it starts again: beside the program, which does not
//! wait for it.
//!
//! Lines of a dead process come before those of the new one in a file that both log to: the I/O thread of the new sink
//! opens the file when its recovery is finished or given up, and lines wait in the output buffers until then.

use super::held_sessions::{HeldLimits, bound_held, held_bytes};
use super::recover_with;
use crate::backend::BackendOptions;
use crate::error::BackendError;
use crate::file::{Disk, FileOptions, Storage};
use crate::limits::{ANSWER_MS, RECOVERY_HANGS, RECOVERY_LOOK_MS, RECOVERY_WAIT_MS};
use crate::recovery_state::RecoveryState;
use crate::ship::ShipOptions;
use crate::sink::options::{RecoverableSink, Target, sinks_from_text};
use crate::stats::Stats;
use crate::status::BackendStatus;
use logdrive_ring::{
    Journal, RingError, SessionReader, file_part, find_sessions, is_gone, open_buffers, remove_left_overs,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Recovery of all that dead processes of one application left.
#[derive(Debug)]
pub(crate) struct ApplicationRecovery {
    pub(crate) run_dirs: Vec<PathBuf>,
    pub(crate) app: String,
    /// The application's own log, which takes what sessions hold that are damaged so that nobody knows where they logged to.
    pub(crate) own: Option<FileOptions>,
    /// Bounds of what cannot be recovered.
    pub(crate) limits: HeldLimits,
    /// Time without any progress after which a session is left behind.
    pub(crate) hangs: Duration,
    pub(crate) storage: Arc<dyn Storage>,
}

impl ApplicationRecovery {
    /// Recovery in some run directories, with the limits that hold unless they are set.
    pub(crate) fn new(run_dirs: Vec<PathBuf>, app: String, own: Option<FileOptions>) -> Self {
        Self {
            run_dirs,
            app,
            own,
            limits: HeldLimits::default(),
            hangs: RECOVERY_HANGS,
            storage: Arc::new(Disk),
        }
    }

    /// Starts, and waits a moment: mostly it is done then. What goes wrong is noted; it must not keep the application from
    /// starting.
    pub(crate) fn start(self, status: &Arc<BackendStatus>) -> Arc<RecoveryState> {
        let state = Arc::new(RecoveryState::new());
        let theirs = (Arc::clone(status), Arc::clone(&state));
        let started = spawn(move || recover_app(&Arc::new(self), &theirs.0, &theirs.1));
        match started {
            Ok(()) => state.wait(Duration::from_millis(RECOVERY_WAIT_MS)),
            Err(cause) => {
                status.notice(format!(
                    "cannot start the thread logdrive-recover: {cause}; sessions of earlier processes stay as they are: try `logdrive recover`"
                ));
                state.end();
            }
        }
        state
    }
}

/// Starts to recover what dead processes of the same application left, unless the program does not want it.
pub(crate) fn start_recovery(options: &BackendOptions, status: &Arc<BackendStatus>) -> Arc<RecoveryState> {
    if !options.recover {
        return Arc::new(RecoveryState::none());
    }
    let own = options.sinks.iter().find_map(|sink| match &sink.target {
        Target::File(file) => Some(file.clone()),
        _ => None,
    });
    let limits = HeldLimits {
        sessions: options.held_sessions,
        bytes: options.held_bytes,
    };
    let recovery = ApplicationRecovery {
        limits,
        ..ApplicationRecovery::new(options.run_dirs(), options.app.clone(), own)
    };
    recovery.start(status)
}

fn spawn(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("logdrive-recover".to_owned());
    let started = thread.spawn(move || {
        logdrive_ring::local::deny_thread();
        logdrive_ring::signals::block_in_thread();
        work();
    });
    started.map(drop)
}

/// Ends a recovery, however its thread ends.
struct Ending<'a>(&'a RecoveryState);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Recovers what dead processes of one application left. A destination that takes nothing is tried once, however many
/// sessions have something for it. What cannot be recovered is kept within the limits.
fn recover_app(recovery: &Arc<ApplicationRecovery>, status: &Arc<BackendStatus>, state: &Arc<RecoveryState>) {
    let _ending = Ending(state);
    let (run_dirs, app) = (&recovery.run_dirs, &recovery.app);
    run_dirs
        .iter()
        .for_each(|run_dir| remove_left_overs(run_dir, app));
    let sessions: Vec<Arc<DeadSession>> = dead_sessions(run_dirs, app)
        .into_iter()
        .map(|path| Arc::new(DeadSession::look(path, recovery.own.as_ref())))
        .collect();
    let files = sessions.iter().flat_map(|session| session.files.clone());
    state.list(files.collect());
    let mut destinations = Destinations::default();
    let mut tried = Vec::new();
    for session in sessions {
        if state.is_stopping() {
            break;
        }
        let outcome = match destinations.failed_of(&session) {
            Some(failed) => {
                destinations.leave(failed, &session);
                Outcome::Ended
            }
            None => recover_beside(&session, recovery, status, state),
        };
        state.finish(&session.files);
        if outcome != Outcome::Ended {
            destinations.give_up(&session);
        }
        // A thread still has one that hangs.
        if outcome != Outcome::Hangs {
            tried.push(session.path.clone());
        }
    }
    tried.retain(|path| path.exists());
    bound_held(&tried, recovery.limits, status);
    for left in destinations.left {
        status.notice(left.to_string());
    }
}

/// Result of a session's recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is recovered, or something of its own keeps it from that, which was said.
    Ended,
    /// Its destinations take nothing.
    TakesNothing,
    /// Nothing moves, such as in a log that does not open. Its thread goes on when that does.
    Hangs,
}

/// Recovers a session on a thread of its own, which is left behind when it hangs: the sessions behind it are recovered, and
/// those that are too many go.
fn recover_beside(
    session: &Arc<DeadSession>,
    recovery: &Arc<ApplicationRecovery>,
    status: &Arc<BackendStatus>,
    state: &Arc<RecoveryState>,
) -> Outcome {
    let (sender, ended) = channel();
    let theirs = (
        Arc::clone(session),
        Arc::clone(recovery),
        Arc::clone(status),
        Arc::clone(state),
    );
    let work = move || {
        let (session, recovery, status, state) = theirs;
        // Nobody waits for one that was left behind.
        let _ = sender.send(session.recover(&recovery, &status, &state));
    };
    if spawn(work).is_err() {
        return session.recover(recovery, status, state);
    }
    loop {
        match ended.recv_timeout(Duration::from_millis(RECOVERY_LOOK_MS)) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Disconnected) => return Outcome::Ended,
            Err(RecvTimeoutError::Timeout) if state.stands_for() < recovery.hangs => {}
            Err(RecvTimeoutError::Timeout) => {
                status.notice(session.describe("its log does not answer"));
                return Outcome::Hangs;
            }
        }
    }
}

/// A session of a dead process, with its destinations.
#[derive(Debug)]
struct DeadSession {
    path: PathBuf,
    /// Files of its sinks, and spools.
    files: Vec<PathBuf>,
    /// Collectors without which it cannot be recovered: those of its sinks that have no spool.
    collectors: Vec<ShipOptions>,
    /// Records that are not in every destination.
    pending: u64,
}

impl DeadSession {
    fn look(path: PathBuf, own: Option<&FileOptions>) -> Self {
        let config = open_buffers(&path).map(|buffers| buffers.config());
        let config = config.unwrap_or_default();
        let pending = SessionReader::open(&path).map_or(0, |view| Stats::of_view(&view).pending());
        let sinks: Vec<RecoverableSink> = sinks_from_text(&String::from_utf8_lossy(&config));
        let of_sink = |sink: &RecoverableSink| {
            let spool = sink.ship.as_ref().and_then(|ship| ship.spool_path());
            sink.file
                .as_ref()
                .map(|file| file.path.clone())
                .into_iter()
                .chain(spool)
        };
        let mut files: Vec<PathBuf> = sinks.iter().flat_map(of_sink).collect();
        if config.is_empty() {
            // Its description may be damaged.
            files.extend(own.map(|own| own.path.clone()));
        }
        let ships = sinks.into_iter().filter_map(|sink| sink.ship.map(|ship| *ship));
        Self {
            path,
            files,
            collectors: ships.filter(|ship| !ship.has_spool()).collect(),
            pending,
        }
    }

    fn recover(
        &self,
        recovery: &ApplicationRecovery,
        status: &BackendStatus,
        state: &RecoveryState,
    ) -> Outcome {
        let own = recovery.own.as_ref();
        let error = match recover_with(&self.path, None, own, &recovery.storage, Some(state)) {
            // A sidecar of its own finishes a session whose process has just ended.
            Ok(_) | Err(BackendError::NoFile | BackendError::Ring(RingError::Alive { .. })) => {
                return Outcome::Ended;
            }
            // It died while it started; nothing was in it, and now it is gone.
            Err(BackendError::Ring(error)) if error.is_incomplete() => return Outcome::Ended,
            Err(_) if is_gone(&self.path) => return Outcome::Ended,
            Err(error) => error,
        };
        status.notice(self.describe(&error));
        match error {
            BackendError::NoProgress { .. } => Outcome::TakesNothing,
            BackendError::File(error) if !error.is_permanent() => Outcome::TakesNothing,
            _ => Outcome::Ended,
        }
    }

    /// Describes that it stays where it is.
    fn describe(&self, cause: impl std::fmt::Display) -> String {
        format!(
            "cannot recover the session {} with {} records: {cause}; it stays there, with {} KiB: try `logdrive recover`",
            self.path.display(),
            self.pending,
            held_bytes(&self.path) >> 10
        )
    }
}

/// Destinations that have answered or not, so that each is waited for once.
#[derive(Debug, Default)]
struct Destinations {
    /// Collectors, by their addresses.
    collectors: Vec<(String, bool)>,
    /// Files that have taken nothing.
    failed_files: Vec<PathBuf>,
    left: Vec<Left>,
}

/// Sessions that were left as they are for one destination.
#[derive(Debug)]
struct Left {
    destination: Failed,
    sessions: u64,
    records: u64,
    bytes: u64,
}

/// A destination that takes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Failed {
    Collector,
    File(PathBuf),
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sessions, records, kib) = (self.sessions, self.records, self.bytes >> 10);
        match &self.destination {
            Failed::Collector => write!(
                f,
                "{sessions} sessions of earlier processes wait for a collector that does not answer, with {records} records and {kib} KiB: try `logdrive recover` when it does"
            ),
            Failed::File(file) => write!(
                f,
                "{sessions} more sessions of earlier processes, with {records} records and {kib} KiB, wait for {}, which takes nothing: try `logdrive recover` when it does",
                file.display()
            ),
        }
    }
}

impl Destinations {
    /// Returns a destination of a session that takes nothing.
    fn failed_of(&mut self, session: &DeadSession) -> Option<Failed> {
        let mut files = session.files.iter();
        if let Some(file) = files.find(|file| self.failed_files.contains(file)) {
            return Some(Failed::File(file.clone()));
        }
        let mut collectors = session.collectors.iter();
        collectors
            .any(|ship| !self.answers(ship))
            .then_some(Failed::Collector)
    }

    fn answers(&mut self, ship: &ShipOptions) -> bool {
        let to = ship.destination();
        if let Some((_, answers)) = self.collectors.iter().find(|(known, _)| *known == to) {
            return *answers;
        }
        let answers = ship.answers(Duration::from_millis(ANSWER_MS));
        self.collectors.push((to, answers));
        answers
    }

    /// Its destinations have taken nothing; which of them, nobody knows.
    fn give_up(&mut self, session: &DeadSession) {
        self.failed_files.extend(session.files.iter().cloned());
        for ship in &session.collectors {
            let to = ship.destination();
            for (known, answers) in &mut self.collectors {
                *answers &= *known != to;
            }
        }
    }

    fn leave(&mut self, destination: Failed, session: &DeadSession) {
        let known = self.left.iter().position(|left| left.destination == destination);
        let at = known.unwrap_or_else(|| {
            self.left.push(Left {
                destination,
                sessions: 0,
                records: 0,
                bytes: 0,
            });
            self.left.len() - 1
        });
        if let Some(left) = self.left.get_mut(at) {
            left.sessions += 1;
            left.records += session.pending;
            left.bytes += held_bytes(&session.path);
        }
    }
}

/// The journals that dead processes of one application left, the latest first, each with its last epoch.
pub(crate) fn journals_of(run_dirs: &[PathBuf], app: &str) -> Vec<Journal> {
    let mut journals: Vec<Journal> = Vec::new();
    for session in dead_sessions(run_dirs, app) {
        let Ok(buffers) = open_buffers(&session) else {
            continue;
        };
        let own = Journal {
            id: buffers.journal(),
            epoch: buffers.epoch(),
        };
        journals.extend(std::iter::once(own).chain(buffers.ancestors()));
    }
    journals.retain(|journal| journal.id != 0);
    // A recovery raises the epoch of the buffers that it works on; what was noted before it began is lower.
    journals.sort_unstable_by_key(|journal| (std::cmp::Reverse(journal.id), journal.epoch));
    journals.dedup_by_key(|journal| journal.id);
    journals
}

fn dead_sessions(run_dirs: &[PathBuf], app: &str) -> Vec<PathBuf> {
    let prefix = format!("{}-", file_part(app));
    let is_ours = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let rest = name.strip_prefix(&prefix).unwrap_or("x");
        rest.chars().all(|c| c.is_ascii_digit() || c == '-')
    };
    run_dirs
        .iter()
        .flat_map(|run_dir| find_sessions(run_dir).unwrap_or_default())
        .filter(|found| found.holder.is_none() && is_ours(&found.path))
        .map(|found| found.path)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log of a program told of a session that stays where it is, though another start had recovered it.
    #[test]
    fn a_session_that_another_recovery_has_finished_is_no_failure() {
        let dir = tempfile::tempdir().expect("a directory");
        let (status, state) = (BackendStatus::new(1), RecoveryState::none());
        let recovery = ApplicationRecovery::new(Vec::new(), "shop".to_owned(), None);
        let look = |name: &str| DeadSession::look(dir.path().join(name), None);
        let recover = |session: DeadSession| {
            session.recover(&recovery, &status, &state);
            status.take_notices().into_iter().map(|(_, text)| text)
        };
        assert_eq!(recover(look("shop-1-0")).next(), None);
        std::fs::create_dir(dir.path().join("shop-2-0")).expect("a directory");
        std::fs::create_dir(dir.path().join("shop-2-0/session")).expect("no session");
        let told = recover(look("shop-2-0")).next().expect("a notice");
        assert!(told.starts_with("cannot recover the session"), "{told}");
    }
}
