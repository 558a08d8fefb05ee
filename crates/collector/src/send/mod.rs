//! The sender: lines of a log file, or of standard input, to a collector, each once.

mod file;
mod input;
mod lines;
mod position;
mod state;
mod stdin;

pub use file::FollowedFile;
pub use input::LogInput;
pub use position::FilePosition;
pub use state::{SendState, default_state_path};
pub use stdin::Stdin;

use crate::error::CollectorError;
use logdrive_ship::Options;
use logdrive_ship::forward::{ForwardOptions, ForwardState, ForwardWatch, Forwarder};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Lines of one batch, in bytes: two batches fit into a ring, and a frame.
const BATCH_BYTES: usize = 256 * 1024;

/// Interval at which the state is written and progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The one who runs a sender: asks it to stop, and sees its progress.
pub trait SendControl {
    /// Whether the sender is to stop; waits at most `timeout` for that.
    fn stops(&mut self, timeout: Duration) -> bool;

    /// Sees the progress, some ten times a second.
    fn progress(&mut self, state: &ForwardState);
}

/// Sends lines until their input ends, or until it is asked to stop.
#[derive(Debug)]
pub struct LogSender {
    forwarder: Forwarder,
    input: LogInput,
    progress: Progress,
}

/// Progress of the acknowledgements through the input.
#[derive(Debug)]
struct Progress {
    state: SendState,
    path: Option<PathBuf>,
    /// Ends of batches that are not acknowledged: the number behind the batch, and its position in the file.
    batch_ends: VecDeque<(u64, FilePosition)>,
}

impl Progress {
    /// Notes that all records before a number are acknowledged.
    fn acknowledge(&mut self, next: u64) -> Result<(), CollectorError> {
        let mut changed = false;
        while let Some((number, position)) = self.batch_ends.pop_front_if(|(number, _)| *number <= next) {
            self.state.number = number;
            self.state.position = position;
            changed = true;
        }
        match (&self.path, changed) {
            (Some(path), true) => self.state.save(path),
            _ => Ok(()),
        }
    }
}

impl LogSender {
    /// Starts the forwarder. With a path, the state is kept there, and written before the first line is sent, so that a
    /// later sender sends the file under the same numbers. `state` is the one that was loaded from there.
    ///
    /// # Errors
    /// When the options cannot be used, or the state cannot be written.
    pub fn start(
        input: LogInput,
        state: Option<SendState>,
        state_path: Option<PathBuf>,
        options: &Options,
        forward: &ForwardOptions,
    ) -> Result<Self, CollectorError> {
        let forwarder = Forwarder::start(&[], options, forward)?;
        let mut state = state.unwrap_or(SendState {
            session: forward.session,
            epoch: forward.epoch,
            number: forward.next,
            ..SendState::default()
        });
        if let (Some(path), 0) = (&state_path, state.position.ino) {
            state.position = input.position();
            state.save(path)?;
        }
        Ok(Self {
            forwarder,
            input,
            progress: Progress {
                state,
                path: state_path,
                batch_ends: VecDeque::new(),
            },
        })
    }

    /// Handle with which the collectors can be changed while the sender runs.
    pub fn watch(&self) -> ForwardWatch {
        self.forwarder.watch()
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
            lines.clear();
            let count = self.input.read(&mut lines, BATCH_BYTES, stops)?;
            if count > 0 && !self.push(count, std::mem::take(&mut lines), control)? {
                return Ok(());
            }
            if reported.elapsed() >= PROGRESS_INTERVAL || count == 0 {
                reported = Instant::now();
                let state = self.forwarder.state();
                self.progress.acknowledge(state.acknowledged)?;
                control.progress(&state);
                if state.is_over {
                    return Ok(());
                }
            }
            if stops || (count == 0 && !self.input.goes_on()) {
                return Ok(());
            }
            if count == 0 && control.stops(self.input.pause()) {
                return Ok(());
            }
        }
    }

    /// Waits until all is acknowledged, at most for the timeout, and returns the end of it.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn finish(mut self, timeout: Duration) -> Result<ForwardState, CollectorError> {
        let end = self.forwarder.stop(timeout);
        self.progress.acknowledge(end.acknowledged)?;
        Ok(end)
    }

    /// Hands a batch to the forwarder as soon as that has room. `false` when it is over first.
    fn push(
        &mut self,
        count: u32,
        mut batch: Vec<u8>,
        control: &mut impl SendControl,
    ) -> Result<bool, CollectorError> {
        let first = loop {
            match self.forwarder.push(count, batch, PROGRESS_INTERVAL) {
                Ok(first) => break first,
                Err(refusal) => batch = refusal.0,
            }
            let state = self.forwarder.state();
            self.progress.acknowledge(state.acknowledged)?;
            if state.is_over || control.stops(Duration::ZERO) {
                return Ok(false);
            }
        };
        self.progress
            .batch_ends
            .push_back((first + u64::from(count), self.input.position()));
        Ok(true)
    }
}
