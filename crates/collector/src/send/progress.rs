//! Progress of the acknowledgements through a log, and the state that keeps it.

use super::followed_log::{FollowedLog, LogBatch};
use super::input::LogInput;
use super::position::FilePosition;
use super::state::{Run, SendState, StateFile};
use crate::error::CollectorError;
use std::collections::VecDeque;

/// Progress through a log.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) state: SendState,
    file: StateFile,
    /// Batches that are not acknowledged: the number behind each, its file, and the position behind it.
    batch_ends: VecDeque<(u64, u64, FilePosition)>,
    /// Offset behind the last line that was read of the last run.
    read_end: u64,
}

impl Progress {
    pub(crate) fn new(state: SendState, file: StateFile) -> Self {
        let last = state.runs.back();
        let start = |run: &Run| {
            let earlier = state.runs.iter().filter(|one| one.key == run.key);
            let known = state.files.iter().find(|file| file.key == run.key);
            let acknowledged = known.map_or(0, |file| file.acknowledged.offset);
            earlier.filter_map(|one| one.end).fold(acknowledged, u64::max)
        };
        let read_end = last.map_or(0, start);
        Self {
            state,
            file,
            batch_ends: VecDeque::new(),
            read_end,
        }
    }

    /// Notes the order in which lines are sent, before those of this batch are. The state is written where another
    /// file's lines come next, and where a line without its end does.
    pub(crate) fn note(&mut self, log: &FollowedLog, batch: &LogBatch) -> Result<(), CollectorError> {
        let runs = &mut self.state.runs;
        let is_replay = runs
            .iter()
            .any(|run| run.key == batch.key && run.end.is_some_and(|end| batch.position.offset <= end));
        if is_replay {
            return Ok(());
        }
        let mut has_changed = false;
        match runs.back_mut() {
            Some(last) if last.key == batch.key && last.end.is_none() => {}
            last => {
                if let Some(last) = last {
                    last.end.get_or_insert(self.read_end);
                }
                runs.push_back(Run {
                    key: batch.key,
                    end: None,
                });
                has_changed = true;
            }
        }
        self.read_end = batch.position.offset;
        if batch.ends_run {
            if let Some(last) = runs.back_mut() {
                last.end = Some(batch.position.offset);
            }
            has_changed = true;
        }
        match has_changed {
            true => self.save(log),
            false => Ok(()),
        }
    }

    /// Notes that records before a number are about to be sent: after a kill it is known which ones a collector may have. One
    /// that has more has them of another sender, with a copy of the state.
    pub(crate) fn reserve(&mut self, log: &FollowedLog, end: u64) -> Result<(), CollectorError> {
        if self.state.sent_until.is_none_or(|sent| sent >= end) {
            return Ok(());
        }
        self.state.sent_until = Some(end);
        self.save(log)
    }

    /// Notes that no records from a number on were sent.
    pub(crate) fn settle(&mut self, log: &FollowedLog, end: u64) -> Result<(), CollectorError> {
        if self.state.sent_until.is_none_or(|sent| sent <= end) {
            return Ok(());
        }
        self.state.sent_until = Some(end);
        self.save(log)
    }

    /// Returns the state as it is to go on under another session, and its file.
    pub(crate) fn into_other_session(self, log: &FollowedLog, session: u128) -> (SendState, StateFile) {
        let mut state = self.state;
        state.files = log.states();
        state.renumber();
        state.session = session;
        (state, self.file)
    }

    /// Notes that a batch was handed to the forwarder; `next` is the number behind it.
    pub(crate) fn pushed(&mut self, batch: &LogBatch, next: u64) {
        self.batch_ends.push_back((next, batch.key, batch.position));
    }

    /// Notes that all records before a number are acknowledged.
    pub(crate) fn acknowledge(&mut self, input: &mut LogInput, next: u64) -> Result<(), CollectorError> {
        let LogInput::Log(log) = input else {
            return Ok(());
        };
        let mut has_changed = false;
        while let Some((number, key, position)) = self.batch_ends.pop_front_if(|(number, ..)| *number <= next)
        {
            self.state.number = number;
            log.acknowledge(key, position);
            self.pop_runs(key, position.offset);
            has_changed = true;
        }
        match has_changed {
            true => self.save(log),
            false => Ok(()),
        }
    }

    /// Forgets the runs that are acknowledged with the lines of a file before this offset.
    fn pop_runs(&mut self, key: u64, offset: u64) {
        while let Some(front) = self.state.runs.front() {
            let is_own = front.key == key;
            if is_own && front.end.is_none_or(|end| end > offset) {
                return;
            }
            // One of another file was acknowledged before its end was noted.
            self.state.runs.pop_front();
            if is_own {
                return;
            }
        }
    }

    pub(crate) fn save(&mut self, log: &FollowedLog) -> Result<(), CollectorError> {
        self.state.files = log.states();
        self.file.save(&self.state)
    }
}
