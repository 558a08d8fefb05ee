//! The sender: lines of logs, or of standard input, to a collector, each once.

mod container;
mod content;
mod destination;
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
pub use destination::{Destination, Payload};
pub use followed_log::{FollowOptions, FollowedLog, Skips};
pub use input::LogInput;
pub use paths::{NamedLog, find_logs};
pub use position::FilePosition;
#[cfg(feature = "inputs")]
pub(crate) use rotation_names::log_of;
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
use records::PIECE_BYTES;
pub(crate) use records::{NO_THREAD, RecordEncoder, each_piece};
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

/// Starts of records, and of the pieces of those that are too long for one: nothing of them is lost. Batches have far fewer bytes
/// than 32 bits count.
fn in_pieces(starts: &[usize], end: usize) -> Vec<u32> {
    let ends = starts.iter().skip(1).copied().chain([end]);
    let pieces = |(start, end): (&usize, usize)| (*start..end).step_by(PIECE_BYTES);
    let all = starts.iter().zip(ends).flat_map(pieces);
    all.map(|start| start as u32).collect()
}

/// Sends lines until their input ends, or until it is asked to stop.
#[derive(Debug)]
pub struct LogSender {
    destination: Box<dyn Destination>,
    /// Options of the forwarder; `None` where an engine takes the records.
    forward: Option<(Options, ForwardOptions)>,
    input: LogInput,
    /// True once the log goes on under a session of its own, because another sender uses the one of the state.
    has_other_session: bool,
    /// `None` for standard input.
    progress: Option<Progress>,
    form: LineForm,
}

/// Form in which lines go to the destination.
#[derive(Debug)]
enum LineForm {
    /// Batches of typed records.
    Records(Box<RecordEncoder>),
    /// As they are.
    Lines,
    /// As they are, with the places at which records begin: each line, or with `joins` the first of each record's.
    Starts { joins: bool },
}

impl LineForm {
    /// Returns what goes to the destination for whole lines.
    fn payloads(&mut self, count: u32, lines: Vec<u8>) -> Vec<Payload> {
        let starts = match self {
            Self::Records(records) => return records.encode(&lines),
            Self::Lines => Vec::new(),
            Self::Starts { joins: true } => record_starts(&lines),
            Self::Starts { joins: false } => {
                let ends = memchr::memchr_iter(b'\n', &lines).map(|end| end + 1);
                let starts = std::iter::once(0).chain(ends);
                starts.filter(|start| *start < lines.len()).collect()
            }
        };
        let starts = in_pieces(&starts, lines.len());
        vec![Payload {
            count: match self {
                Self::Starts { .. } => starts.len() as u32,
                _ => count,
            },
            bytes: lines,
            starts,
        }]
    }
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
            destination: Box::new(forwarder),
            form: match forward.format {
                Format::Records => LineForm::Records(Box::new(input.records())),
                _ => LineForm::Lines,
            },
            forward: Some((options.clone(), forward)),
            input,
            has_other_session: false,
            progress,
        })
    }

    /// Sends to an engine, which the name of the destination stands for in the state. `joins`: lines that belong together are
    /// one record. The destination counts from the number of the state on.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn to_engine(
        input: LogInput,
        state: Option<(SendState, StateFile)>,
        (name, joins): (String, bool),
        destination: Box<dyn Destination>,
    ) -> Result<Self, CollectorError> {
        let mut progress = None;
        if let (LogInput::Log(log), Some((mut state, file))) = (&input, state) {
            state.add_collectors(&[name]);
            let mut own = Progress::new(state, file);
            own.save(log)?;
            progress = Some(own);
        }
        Ok(Self {
            destination,
            forward: None,
            input,
            has_other_session: false,
            progress,
            form: LineForm::Starts { joins },
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
                if self.destination.state().is_superseded && self.take_other_session()? {
                    continue;
                }
                return Ok(());
            }
            if reported.elapsed() >= PROGRESS_INTERVAL || batch.is_none() {
                reported = Instant::now();
                let state = self.destination.state();
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
            first: self.destination.first_number(),
            skips: self.input.skips(),
        }
    }

    /// Goes on under a session of its own from where the log was acknowledged, because the state was copied to another
    /// machine, whose sender uses the session. `false` where that has been tried, or there is no log.
    fn take_other_session(&mut self) -> Result<bool, CollectorError> {
        let Some((options, forward)) = self.forward.clone() else {
            return Ok(false);
        };
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
            &options,
            &forward,
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
        let state = self.destination.stop(timeout);
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
        let payloads = self.form.payloads(batch.count, lines);
        let count = payloads
            .iter()
            .map(|payload| u64::from(payload.count))
            .sum::<u64>();
        if let (Some(progress), LogInput::Log(log)) = (&mut self.progress, &self.input) {
            progress.note(log, batch)?;
            let next = self.destination.next_number();
            progress.reserve(log, next.saturating_add(count))?;
        }
        for payload in payloads {
            if !self.push_one(payload, control)? {
                return Ok(false);
            }
        }
        let next = self.destination.next_number();
        if let Some(progress) = &mut self.progress {
            progress.pushed(batch, next);
        }
        Ok(true)
    }

    /// Hands a payload to the forwarder as soon as that has room. `false` when it is over first.
    fn push_one(
        &mut self,
        mut payload: Payload,
        control: &mut impl SendControl,
    ) -> Result<bool, CollectorError> {
        loop {
            match self.destination.push(payload, PROGRESS_INTERVAL) {
                Ok(()) => return Ok(true),
                Err(refused) => payload = refused,
            }
            let state = self.destination.state();
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
        self.destination.set_members(members);
        Ok(())
    }
}

/// Addresses of collectors, as states have them.
pub fn addresses(members: &[MemberOptions]) -> Vec<String> {
    members.iter().map(|member| member.address.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_begin_at_their_first_lines_and_long_ones_go_in_pieces() {
        let lines = format!(
            "ERROR failed\n\tat a.B.c(B.java:7)\nINFO {}\nINFO next\n",
            "y".repeat(70_000)
        );
        let of = |joins| {
            let payloads = LineForm::Starts { joins }.payloads(4, lines.clone().into_bytes());
            let [payload] = &payloads[..] else {
                panic!("one payload");
            };
            assert_eq!(payload.count as usize, payload.starts.len());
            assert_eq!(payload.bytes, lines.as_bytes());
            payload.starts.clone()
        };
        let (trace, long) = (13, 33);
        let pieces = [long, long + 32_768, long + 65_536, long + 70_006];
        assert_eq!(of(true)[..2], [0, long]);
        assert_eq!(of(true)[1..], pieces);
        assert_eq!(of(false)[..2], [0, trace]);
        assert_eq!(of(false)[2..], pieces);
    }
}
