//! Log files that a pattern names, followed through rotation, those of containers with the names of their pods: a sender for
//! each, as `logdrive send` has it.

use super::intake::{Shared, forward_options};
use crate::error::CollectorError;
use crate::limits::{GONE_TIME, INTAKE_ACK_TIMEOUT, LOGS_MAX};
use crate::send::{
    FollowOptions, LogInput, LogSender, NamedLog, SendControl, SendProgress, SendState, StateFile, find_logs,
    log_of, program_of, state_in,
};
use logdrive_ship::forward::new_session;
use logdrive_ship::{Address, Options, host_name};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the pattern is read again, for logs that have come.
const FIND_INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which a thread that waits sees that it is to end.
const TURN: Duration = Duration::from_millis(100);
/// Time that a rotated file has to be quiet before it is taken for complete.
const ROTATE_WAIT: Duration = Duration::from_secs(5);

/// A log that is sent.
#[derive(Debug)]
struct Sent {
    log: NamedLog,
    state: PathBuf,
    /// Asks its sender to end.
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<bool, CollectorError>>>,
    /// Time since which no file has its name.
    gone_since: Option<Instant>,
}

/// Files of an input.
struct Files {
    pattern: PathBuf,
    /// Directory of the states.
    directory: PathBuf,
    to: Address,
    stops: Arc<AtomicBool>,
    shared: Arc<Shared>,
    sent: Vec<Sent>,
    /// Rotated files without their log, and since when: most often it is made in a moment, and they are parts of it.
    alone: BTreeMap<PathBuf, Instant>,
}

/// Starts the thread that finds files and starts senders. It ends soon after `stops` is set.
///
/// # Errors
/// When the pattern is none, or the system starts no thread.
pub(crate) fn start(
    pattern: &Path,
    (to, directory): (&Address, &Path),
    stops: &Arc<AtomicBool>,
    shared: &Arc<Shared>,
) -> Result<JoinHandle<()>, CollectorError> {
    let pattern = pattern.to_owned();
    match find_logs(std::slice::from_ref(&pattern)) {
        // They may come later.
        Ok(_) | Err(CollectorError::NoMatch { .. }) => {}
        Err(error) => return Err(error),
    }
    let files = Files {
        pattern,
        directory: directory.join("input-files"),
        to: to.clone(),
        stops: Arc::clone(stops),
        shared: Arc::clone(shared),
        sent: Vec::new(),
        alone: BTreeMap::new(),
    };
    let thread = std::thread::Builder::new().name("logdrive-intake".to_owned());
    thread
        .spawn(move || files.run())
        .map_err(|cause| CollectorError::Thread { cause })
}

impl Files {
    fn run(mut self) {
        // Relaxed: the flag stands for itself.
        while !self.stops.load(Ordering::Relaxed) {
            let why = self.find().err();
            self.shared.set_error(&why.unwrap_or_default());
            let until = Instant::now() + FIND_INTERVAL;
            while !self.stops.load(Ordering::Relaxed) && Instant::now() < until {
                std::thread::sleep(TURN);
            }
        }
        for sent in &mut self.sent {
            sent.ends.store(true, Ordering::Relaxed);
        }
        for sent in &mut self.sent {
            if let Some(thread) = sent.thread.take() {
                // One that panicked has said so itself.
                let _ = thread.join();
            }
        }
    }

    /// Starts senders of new logs, and ends those of logs that are gone. The error is of the last one that failed, in words.
    fn find(&mut self) -> Result<(), String> {
        let found = match find_logs(std::slice::from_ref(&self.pattern)) {
            Err(CollectorError::NoMatch { .. }) => Vec::new(),
            found => found.map_err(|error| error.to_string())?,
        };
        let mut failure: Result<(), String> = Ok(());
        let mut at = 0;
        while let Some(sent) = self.sent.get_mut(at) {
            sent.note(found.contains(&sent.log));
            match sent.end() {
                None => at += 1,
                Some(ended) => {
                    failure = ended.map_err(|error| error.to_string()).and(failure);
                    self.sent.remove(at);
                }
            }
        }
        self.alone
            .retain(|path, _| found.iter().any(|log| log.path == *path));
        for log in found {
            if log_of(&log.path) != log.path {
                let since = self.alone.entry(log.path.clone()).or_insert_with(Instant::now);
                if since.elapsed() < GONE_TIME {
                    continue;
                }
            }
            let is_known = |sent: &Sent| sent.log.path == log.path || sent.log.has_part(&log);
            if self.sent.iter().any(is_known) {
                continue;
            }
            if self.sent.len() >= LOGS_MAX {
                failure = Err(format!("more than {LOGS_MAX} logs match: those beyond wait"));
                break;
            }
            match self.send(log) {
                Ok(sent) => self.sent.push(sent),
                Err(error) => failure = Err(error.to_string()),
            }
        }
        failure
    }

    fn send(&self, log: NamedLog) -> Result<Sent, CollectorError> {
        let path = state_in(&self.directory, &log.path)?;
        let (file, state) = StateFile::find(&path, &[self.to.to_string()])?;
        let mut state = match state {
            Some(state) => state,
            None => SendState::new(new_session().map_err(|cause| CollectorError::Random { cause })?),
        };
        let follow = FollowOptions {
            follows: true,
            rotate_wait: ROTATE_WAIT,
            takes_rotated: log.takes_rotated,
            as_records: true,
        };
        let input = LogInput::log(&log.path, Some(&mut state), follow)?;
        let options = Options {
            app: program_of(&log.path),
            host: host_name(),
            ..Options::default()
        };
        let mut forward = forward_options(state.session);
        forward.members = vec![logdrive_ship::upstream::MemberOptions::new(self.to.clone())];
        let mut sender = LogSender::start(input, Some((state, file)), &options, &forward)?;
        let ends = Arc::new(AtomicBool::new(false));
        let mut control = Control {
            ends: Arc::clone(&ends),
            shared: Arc::clone(&self.shared),
            acknowledged: 0,
            lost: 0,
        };
        let thread = std::thread::Builder::new().name("logdrive-send".to_owned());
        let thread = thread.spawn(move || {
            sender.run(&mut control)?;
            let end = sender.finish(INTAKE_ACK_TIMEOUT, &mut control)?;
            control.progress(&end);
            Ok(end.state.acknowledged == end.first + end.state.pushed)
        });
        Ok(Sent {
            log,
            state: path,
            ends,
            thread: Some(thread.map_err(|cause| CollectorError::Thread { cause })?),
            gone_since: None,
        })
    }
}

impl Sent {
    /// Takes note of whether the file is there; asks the sender to end when it has been gone for a while.
    fn note(&mut self, is_there: bool) {
        if is_there {
            self.gone_since = None;
        } else if self.gone_since.get_or_insert_with(Instant::now).elapsed() >= GONE_TIME {
            self.ends.store(true, Ordering::Relaxed);
        }
    }

    /// The end of the sender, if it has ended. The state of a log that is gone, and sent whole, goes with it.
    fn end(&mut self) -> Option<Result<(), CollectorError>> {
        let thread = self.thread.take_if(|thread| thread.is_finished())?;
        match thread.join() {
            Ok(Ok(true)) if self.gone_since.is_some() => {
                let mut lock = self.state.clone().into_os_string();
                lock.push(".lock");
                // What cannot be removed is a small file that nobody reads.
                let _ = std::fs::remove_file(&self.state);
                let _ = std::fs::remove_file(lock);
                Some(Ok(()))
            }
            Ok(Err(error)) => Some(Err(error)),
            _ => Some(Ok(())),
        }
    }
}

/// The part of the input that a sender's thread has.
struct Control {
    ends: Arc<AtomicBool>,
    shared: Arc<Shared>,
    /// Records, and files that were removed or cut before they were read, that are counted.
    acknowledged: u64,
    lost: u64,
}

impl SendControl for Control {
    fn stops(&mut self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.ends.load(Ordering::Relaxed) || left.is_zero() {
                return self.ends.load(Ordering::Relaxed);
            }
            std::thread::sleep(left.min(TURN));
        }
    }

    fn progress(&mut self, progress: &SendProgress) {
        let acknowledged = progress.state.acknowledged.saturating_sub(progress.first);
        self.shared
            .add_records(acknowledged.saturating_sub(self.acknowledged));
        self.acknowledged = self.acknowledged.max(acknowledged);
        let lost = progress.skips.total();
        self.shared.add_lost(lost.saturating_sub(self.lost));
        self.lost = self.lost.max(lost);
    }
}
