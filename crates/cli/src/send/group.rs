//! The senders of a command: one for each log, with a thread of its own.

use super::Look;
use super::SendArgs;
use super::config::SendConfig;
use super::engine::EngineDestination;
use crate::error::CliError;
use logdrive_collector::CollectorError;
use logdrive_collector::limits::LOGS_MAX;
use logdrive_collector::send::{
    FollowOptions, LogInput, LogSender, NamedLog, SendControl, SendProgress, SendState, Skips, StateFile,
    addresses, default_state_path, find_logs, program_of, state_in,
};
use logdrive_engines::{EngineAddress, LineDelivery, LineDeliveryOptions};
use logdrive_ring::clock::unix_ns;
use logdrive_ship::Options;
use logdrive_ship::forward::{ForwardOptions, new_session};
use logdrive_ship::upstream::MemberOptions;
use logdrive_store::RowProcess;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time that a sender waits at its end for acknowledgements, where nothing else is said.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Time that a rotated file has to be quiet before it is taken for complete, where nothing else is said.
const ROTATE_WAIT: Duration = Duration::from_secs(5);

/// File of records that an engine never takes; that of a log stands beside its state, with its name before it.
const DEAD_LETTERS: &str = "dead-letters.jsonl";

/// Names and numbers of the records that go to an engine.
struct EngineRecords {
    /// Id of the delivery.
    delivery: String,
    /// Number of the first record.
    first: u64,
    dead_letters: PathBuf,
}

/// Id of the records of a session, which is random, and of an epoch of its numbers.
fn delivery_id(session: u128, epoch: u64) -> String {
    let halves = (session >> 64) as u64 ^ session as u64;
    format!("{:016x}", halves ^ epoch)
}

/// All senders of a command.
pub(super) struct SenderGroup<'a> {
    args: &'a SendArgs,
    config: SendConfig,
    shared: Arc<SharedGroup>,
    logs: Vec<NamedLog>,
    threads: Vec<JoinHandle<Result<(), CollectorError>>>,
    /// Logs that could not be opened, and those beyond the largest number.
    skipped_logs: u64,
}

/// State that the threads share with the one of the command.
#[derive(Default)]
struct SharedGroup {
    inner: Mutex<GroupState>,
    stopped: Condvar,
}

#[derive(Default)]
struct GroupState {
    stops: bool,
    /// Collectors since a reload, and the number of reloads.
    members: (u64, Vec<MemberOptions>),
    senders: Vec<SendProgress>,
}

/// Sums of all senders.
#[derive(Debug, Clone, Default)]
pub(super) struct GroupProgress {
    pub(super) logs: usize,
    pub(super) pushed: u64,
    pub(super) acknowledged: u64,
    pub(super) resent_batches: u64,
    pub(super) connections: u64,
    pub(super) spool_bytes: u64,
    /// Failure of one of them; empty for none.
    pub(super) failure: String,
    pub(super) skips: Skips,
    pub(super) skipped_logs: u64,
}

impl GroupProgress {
    pub(super) fn missing(&self) -> u64 {
        self.pushed.saturating_sub(self.acknowledged)
    }

    pub(super) fn skipped(&self) -> u64 {
        self.skips.total() + self.skipped_logs
    }
}

impl SharedGroup {
    fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> SenderGroup<'a> {
    pub(super) fn new(args: &'a SendArgs, config: SendConfig) -> Self {
        Self {
            args,
            config,
            shared: Arc::default(),
            logs: Vec::new(),
            threads: Vec::new(),
            skipped_logs: 0,
        }
    }

    /// Starts the sender of standard input.
    pub(super) fn start_stdin(&mut self) -> Result<(), CliError> {
        if let Some(to) = self.args.engine() {
            let session = new_session().map_err(|cause| CliError::Random { cause })?;
            let place = std::path::absolute(DEAD_LETTERS)?;
            let records = EngineRecords {
                delivery: delivery_id(session, 0),
                first: 0,
                dead_letters: place,
            };
            let sender = self.engine_sender(to, LogInput::stdin(), None, ("stdin", records))?;
            return self.spawn(sender);
        }
        let mut forward = self.forward_options(new_session().map_err(|cause| CliError::Random { cause })?);
        forward.spool.clone_from(&self.config.ship.spool);
        let options = self.options("stdin");
        let sender = LogSender::start(LogInput::stdin(), None, &options, &forward)?;
        self.spawn(sender)
    }

    /// Starts a sender for each log that the arguments name and that has none.
    ///
    /// # Errors
    /// When a path cannot be used, and at the start when the only log cannot be sent.
    pub(super) fn start_logs(&mut self) -> Result<Vec<CliError>, CliError> {
        let found = find_logs(&self.args.files)?;
        let is_only = found.len() == 1 && self.logs.is_empty();
        let mut failures = Vec::new();
        for log in found {
            if self
                .logs
                .iter()
                .any(|known| known.path == log.path || known.has_part(&log))
            {
                continue;
            }
            self.logs.push(log.clone());
            if self.threads.len() >= LOGS_MAX {
                self.skipped_logs += 1;
                continue;
            }
            match self.start_log(&log) {
                Err(error) if is_only => return Err(error),
                Err(error) => {
                    self.skipped_logs += 1;
                    failures.push(error);
                }
                Ok(()) => {}
            }
        }
        Ok(failures)
    }

    fn start_log(&mut self, log: &NamedLog) -> Result<(), CliError> {
        let collectors = match self.args.engine() {
            Some(engine) => vec![engine.to_string()],
            None => addresses(&self.config.ship.to),
        };
        let (file, state) = match &self.args.state {
            // With several logs it is the directory of their states.
            Some(path) if path.is_dir() || self.names_several() => {
                StateFile::find(&state_in(path, &log.path)?, &collectors)?
            }
            Some(path) => StateFile::at(path, &collectors)?,
            None => StateFile::find(&default_state_path(&log.path)?, &collectors)?,
        };
        let mut state = match state {
            Some(state) => state,
            None => SendState::new(new_session().map_err(|cause| CliError::Random { cause })?),
        };
        let follow = FollowOptions {
            follows: self.args.follow,
            rotate_wait: self.config.rotate_wait.unwrap_or(ROTATE_WAIT),
            takes_rotated: log.takes_rotated,
            as_records: self.config.format.unwrap_or_default() == Look::Records,
        };
        let input = LogInput::log(&log.path, Some(&mut state), follow)?;
        let name = &program_of(&log.path);
        if let Some(to) = self.args.engine() {
            let records = EngineRecords {
                delivery: delivery_id(state.session, state.epoch),
                first: state.number,
                dead_letters: file.beside(DEAD_LETTERS),
            };
            let sender = self.engine_sender(to, input, Some((state, file)), (name, records))?;
            return self.spawn(sender);
        }
        let forward = self.forward_options(state.session);
        let options = self.options(name);
        let sender = LogSender::start(input, Some((state, file)), &options, &forward)?;
        self.spawn(sender)
    }

    /// A sender to an engine.
    fn engine_sender(
        &self,
        to: &EngineAddress,
        input: LogInput,
        state: Option<(SendState, StateFile)>,
        (name, records): (&str, EngineRecords),
    ) -> Result<LogSender, CliError> {
        let look = self.config.format.unwrap_or_default();
        let options = self.options(name);
        let delivery = LineDelivery::start(LineDeliveryOptions {
            to: to.clone(),
            delivery: records.delivery,
            first: records.first,
            process: Some(RowProcess {
                app: options.app,
                pid: std::process::id(),
                host: options.host,
            }),
            keeps_lines: look != Look::Records,
            dead_letters: records.dead_letters,
        });
        let engine = EngineDestination::new(delivery.map_err(|cause| CliError::Engine { cause })?);
        let joins = look == Look::Records;
        let sender = LogSender::to_engine(input, state, (to.to_string(), joins), Box::new(engine))?;
        Ok(sender)
    }

    /// Whether the arguments name more than one file, now or later.
    pub(super) fn names_several(&self) -> bool {
        let is_one = |path: &PathBuf| !path.is_dir() && (path.exists() || !is_pattern(path));
        !matches!(self.args.files.as_slice(), [path] if is_one(path))
    }

    fn forward_options(&self, session: u128) -> ForwardOptions {
        let ship = &self.config.ship;
        let mut forward = ForwardOptions::new(session, unix_ns());
        forward.format = self.config.format.unwrap_or_default().format();
        forward.zstd_level = ship.zstd_level;
        forward.members.clone_from(&ship.to);
        forward.group.clone_from(&ship.group);
        forward
    }

    fn options(&self, name: &str) -> Options {
        Options {
            app: self.config.app.clone().unwrap_or_else(|| name.to_owned()),
            ..self.config.ship.transport.clone()
        }
    }

    fn spawn(&mut self, mut sender: LogSender) -> Result<(), CliError> {
        let index = {
            let mut inner = self.shared.lock();
            inner.senders.push(SendProgress::default());
            inner.senders.len() - 1
        };
        let mut control = SenderControl {
            shared: Arc::clone(&self.shared),
            index,
            reloads: self.shared.lock().members.0,
        };
        let timeout = self.config.end_timeout.unwrap_or(END_TIMEOUT);
        let thread = std::thread::Builder::new().name(format!("logdrive-send-{index}"));
        let spawned = thread.spawn(move || {
            let ran = sender.run(&mut control);
            let end = sender.finish(timeout, &mut control)?;
            control.progress(&end);
            ran
        });
        self.threads
            .push(spawned.map_err(|cause| CliError::Thread { cause })?);
        Ok(())
    }

    pub(super) fn stop(&self) {
        self.shared.lock().stops = true;
        self.shared.stopped.notify_all();
    }

    /// Sends to other collectors from now on.
    pub(super) fn set_members(&mut self, members: Vec<MemberOptions>) {
        self.config.ship.to.clone_from(&members);
        let mut inner = self.shared.lock();
        inner.members = (inner.members.0 + 1, members);
    }

    /// Whether all senders have ended.
    pub(super) fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn progress(&self) -> GroupProgress {
        let mut sums = GroupProgress {
            skipped_logs: self.skipped_logs,
            ..GroupProgress::default()
        };
        for one in &self.shared.lock().senders {
            let state = &one.state;
            sums.logs += 1;
            sums.pushed += state.pushed;
            sums.acknowledged += state.acknowledged.saturating_sub(one.first);
            sums.resent_batches += state.resent_batches;
            sums.connections += state.connections;
            sums.spool_bytes += state.spool_bytes;
            if sums.failure.is_empty() {
                sums.failure.clone_from(&state.failure);
            }
            sums.skips.unreadable += one.skips.unreadable;
            sums.skips.removed += one.skips.removed;
            sums.skips.truncated += one.skips.truncated;
            sums.skips.too_many += one.skips.too_many;
        }
        sums
    }

    /// Waits until all have ended, and returns the errors of those that could not go on.
    pub(super) fn join(&mut self) -> Vec<CollectorError> {
        let ends = self.threads.drain(..).filter_map(|thread| thread.join().ok());
        ends.filter_map(Result::err).collect()
    }
}

/// The part of the command that a sender's thread has.
struct SenderControl {
    shared: Arc<SharedGroup>,
    index: usize,
    /// Reloads that this sender has taken.
    reloads: u64,
}

impl SendControl for SenderControl {
    fn stops(&mut self, timeout: Duration) -> bool {
        let inner = self.shared.lock();
        if inner.stops || timeout.is_zero() {
            return inner.stops;
        }
        let waited = self
            .shared
            .stopped
            .wait_timeout_while(inner, timeout, |inner| !inner.stops);
        waited.unwrap_or_else(PoisonError::into_inner).0.stops
    }

    fn progress(&mut self, progress: &SendProgress) {
        if let Some(own) = self.shared.lock().senders.get_mut(self.index) {
            own.clone_from(progress);
        }
    }

    fn new_members(&mut self) -> Option<Vec<MemberOptions>> {
        let inner = self.shared.lock();
        (inner.members.0 > self.reloads).then(|| {
            self.reloads = inner.members.0;
            inner.members.1.clone()
        })
    }
}

fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains(['*', '?', '[']))
}
