//! The sender: lines of logs, or of standard input, to a collector, each once.

mod container;
mod content;
mod followed_log;
mod found_files;
mod input;
mod lines;
mod paths;
mod position;
mod progress;
mod records;
mod rotation_names;
mod state;
mod stdin;
mod tracked_file;

pub use container::program_of;
pub use followed_log::{FollowOptions, FollowedLog, Skips};
pub use input::LogInput;
pub use paths::{NamedLog, find_logs};
pub use position::FilePosition;
pub use state::{SendState, StateFile, default_state_path, state_in};
pub use stdin::Stdin;

use crate::error::CollectorError;
use crate::limits::{BATCH_BYTES, PROGRESS_INTERVAL};
use followed_log::LogBatch;
pub(crate) use lines::record_starts;
use logdrive_ship::Options;
use logdrive_ship::forward::{ForwardOptions, ForwardState, Forwarder, new_session};
use logdrive_ship::hello::Format;
use logdrive_ship::upstream::MemberOptions;
use progress::Progress;
pub(crate) use records::{NO_THREAD, Payload, RecordEncoder, each_piece};
use std::time::{Duration, Instant};

/// The one who runs a sender: asks it to stop, and sees its progress.
pub trait SendControl {
    /// Returns whether the sender is to stop; waits at most `timeout` for that.
    fn stops(&mut self, timeout: Duration) -> bool;

    /// Sees the progress, some ten times a second.
    fn progress(&mut self, progress: &SendProgress);

    /// Returns the collectors that records go to from now on, once after each change.
    fn new_members(&mut self) -> Option<Vec<MemberOptions>> {
        None
    }
}

/// Progress of a sender.
#[derive(Debug, Clone, Default)]
pub struct SendProgress {
    /// State of its forwarder.
    pub state: ForwardState,
    /// Number of the first record that it sent.
    pub first: u64,
    /// Files that were skipped.
    pub skips: Skips,
}

/// Sends lines until their input ends, or until it is asked to stop.
#[derive(Debug)]
pub struct LogSender {
    forwarder: Forwarder,
    options: Options,
    forward: ForwardOptions,
    input: LogInput,
    /// True once the log goes on under a session of its own, because another sender uses the one of the state.
    has_other_session: bool,
    /// `None` for standard input.
    progress: Option<Progress>,
    /// `None` where lines are sent as they are.
    records: Option<Box<RecordEncoder>>,
}

impl LogSender {
    /// Starts the forwarder. A log goes on under the session and the numbers of its state, which is written before the
    /// first line is sent, so that a later sender sends the log under the same numbers.
    ///
    /// # Errors
    /// When the options cannot be used, or the state cannot be written.
    pub fn start(
        input: LogInput,
        state: Option<(SendState, StateFile)>,
        options: &Options,
        forward: &ForwardOptions,
    ) -> Result<Self, CollectorError> {
        let mut forward = forward.clone();
        let mut progress = None;
        if let (LogInput::Log(log), Some((mut state, file))) = (&input, state) {
            (forward.session, forward.epoch, forward.next) = (state.session, state.epoch, state.number);
            forward.sent_until = state.sent_until;
            state.add_collectors(&addresses(&forward.members));
            let mut own = Progress::new(state, file);
            own.save(log)?;
            progress = Some(own);
        }
        let forwarder = Forwarder::start(&[], options, &forward)?;
        Ok(Self {
            forwarder,
            options: options.clone(),
            records: (forward.format == Format::Records).then(|| Box::new(input.records())),
            forward,
            input,
            has_other_session: false,
            progress,
        })
    }

    /// Sends until the end of the input, until it is asked to stop, or until no collector will ever take a record.
    ///
    /// # Errors
    /// When the input cannot be read, or the state cannot be written.
    pub fn run(&mut self, control: &mut impl SendControl) -> Result<(), CollectorError> {
        let mut lines = Vec::new();
        let mut reported = Instant::now();
        loop {
            let stops = control.stops(Duration::ZERO);
            if let Some(members) = control.new_members() {
                self.change_members(members)?;
            }
            lines.clear();
            let batch = self.input.read(&mut lines, BATCH_BYTES, stops)?;
            if let Some(batch) = &batch
                && !self.push(batch, std::mem::take(&mut lines), control)?
            {
                if self.forwarder.state().is_superseded && self.take_other_session()? {
                    continue;
                }
                return Ok(());
            }
            if reported.elapsed() >= PROGRESS_INTERVAL || batch.is_none() {
                reported = Instant::now();
                let state = self.forwarder.state();
                self.acknowledge(state.acknowledged)?;
                control.progress(&self.progress_now(&state));
                if state.is_over && !(state.is_superseded && self.take_other_session()?) {
                    return Ok(());
                }
            }
            if stops || (batch.is_none() && !self.input.goes_on()) {
                return Ok(());
            }
            if batch.is_none() && control.stops(self.input.pause()) {
                return Ok(());
            }
        }
    }

    fn progress_now(&self, state: &ForwardState) -> SendProgress {
        SendProgress {
            state: state.clone(),
            first: self.forwarder.first_number(),
            skips: self.input.skips(),
        }
    }

    /// Goes on under a session of its own from where the log was acknowledged, because the state was copied to another
    /// machine, whose sender uses the session. `false` where that has been tried, or there is no log.
    fn take_other_session(&mut self) -> Result<bool, CollectorError> {
        let (LogInput::Log(log), Some(progress)) = (&self.input, self.progress.take()) else {
            return Ok(false);
        };
        if std::mem::replace(&mut self.has_other_session, true) {
            self.progress = Some(progress);
            return Ok(false);
        }
        let session = new_session().map_err(|cause| CollectorError::Random { cause })?;
        let (mut state, file) = progress.into_other_session(log, session);
        self.input = LogInput::log(&log.path, Some(&mut state), log.options)?;
        let started = Self::start(
            std::mem::replace(&mut self.input, LogInput::stdin()),
            Some((state, file)),
            &self.options,
            &self.forward,
        )?;
        *self = Self {
            has_other_session: true,
            ..started
        };
        Ok(true)
    }

    /// Waits until all is acknowledged, at most for the timeout, and returns the end of it.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn finish(
        mut self,
        timeout: Duration,
        control: &mut impl SendControl,
    ) -> Result<SendProgress, CollectorError> {
        let mut end = self.stop(timeout)?;
        if end.state.is_superseded && self.take_other_session()? {
            self.run(control)?;
            end = self.stop(timeout)?;
        }
        Ok(end)
    }

    /// Ends the forwarder, and notes what it has reached.
    fn stop(&mut self, timeout: Duration) -> Result<SendProgress, CollectorError> {
        let state = self.forwarder.stop(timeout);
        self.acknowledge(state.acknowledged)?;
        let end = self.progress_now(&state);
        if let (Some(progress), LogInput::Log(log)) = (&mut self.progress, &self.input) {
            progress.settle(log, end.first.saturating_add(end.state.pushed))?;
        }
        Ok(end)
    }

    /// Hands a batch to the forwarder as soon as that has room. `false` when it is over first.
    fn push(
        &mut self,
        batch: &LogBatch,
        lines: Vec<u8>,
        control: &mut impl SendControl,
    ) -> Result<bool, CollectorError> {
        let payloads = match &mut self.records {
            Some(records) => records.encode(&lines),
            None => vec![Payload {
                count: batch.count,
                bytes: lines,
            }],
        };
        let count = payloads
            .iter()
            .map(|payload| u64::from(payload.count))
            .sum::<u64>();
        if let (Some(progress), LogInput::Log(log)) = (&mut self.progress, &self.input) {
            progress.note(log, batch)?;
            let next = self.forwarder.watch().next_number();
            progress.reserve(log, next.saturating_add(count))?;
        }
        for payload in payloads {
            if !self.push_one(payload, control)? {
                return Ok(false);
            }
        }
        let next = self.forwarder.watch().next_number();
        if let Some(progress) = &mut self.progress {
            progress.pushed(batch, next);
        }
        Ok(true)
    }

    /// Hands a payload to the forwarder as soon as that has room. `false` when it is over first.
    fn push_one(&mut self, payload: Payload, control: &mut impl SendControl) -> Result<bool, CollectorError> {
        let mut bytes = payload.bytes;
        loop {
            match self.forwarder.push(payload.count, bytes, PROGRESS_INTERVAL) {
                Ok(_) => return Ok(true),
                Err(refusal) => bytes = refusal.0,
            }
            let state = self.forwarder.state();
            self.acknowledge(state.acknowledged)?;
            if state.is_over || control.stops(Duration::ZERO) {
                return Ok(false);
            }
        }
    }

    fn acknowledge(&mut self, next: u64) -> Result<(), CollectorError> {
        match &mut self.progress {
            Some(progress) => progress.acknowledge(&mut self.input, next),
            None => Ok(()),
        }
    }

    /// Sends to other collectors from now on, and notes that the state is theirs, too.
    fn change_members(&mut self, members: Vec<MemberOptions>) -> Result<(), CollectorError> {
        if let (Some(progress), LogInput::Log(log)) = (&mut self.progress, &self.input) {
            progress.state.add_collectors(&addresses(&members));
            progress.save(log)?;
        }
        self.forwarder.watch().set_members(members);
        Ok(())
    }
}

/// Addresses of collectors, as states have them.
pub fn addresses(members: &[MemberOptions]) -> Vec<String> {
    members.iter().map(|member| member.address.to_string()).collect()
}
