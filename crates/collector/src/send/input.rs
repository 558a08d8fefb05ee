//! Input of a sender: a log, or standard input.

use super::followed_log::{FollowOptions, FollowedLog, LogBatch, Skips};
use super::position::FilePosition;
use super::records::RecordEncoder;
use super::state::SendState;
use super::stdin::Stdin;
use crate::error::CollectorError;
use crate::limits::PAUSE;
use std::path::Path;
use std::time::Duration;

/// Input of a sender.
#[derive(Debug)]
pub enum LogInput {
    /// Standard input.
    Stdin(Stdin),
    /// A log, with its rotated files.
    Log(Box<FollowedLog>),
}

impl LogInput {
    /// Returns standard input.
    pub fn stdin() -> Self {
        Self::Stdin(Stdin::default())
    }

    /// Opens a log, at the positions of a state where there is one. Where lines that are not acknowledged cannot be read
    /// again as they were, the state gets another epoch, so that the collector takes none of them for another.
    ///
    /// # Errors
    /// When there is no such log, or it cannot be read.
    pub fn log(
        path: &Path,
        state: Option<&mut SendState>,
        options: FollowOptions,
    ) -> Result<Self, CollectorError> {
        Ok(Self::Log(Box::new(FollowedLog::open(path, state, options)?)))
    }

    /// Appends whole lines; `None` when there are none now. `last`: no more will be asked for, so that standard input's
    /// line without its end is taken too.
    pub(crate) fn read(
        &mut self,
        lines: &mut Vec<u8>,
        bytes_max: usize,
        last: bool,
    ) -> Result<Option<LogBatch>, CollectorError> {
        match self {
            Self::Log(log) => log.read(lines, bytes_max),
            Self::Stdin(stdin) => {
                let count = stdin.read(lines, bytes_max, last)?;
                Ok((count > 0).then(|| LogBatch {
                    count,
                    key: 0,
                    position: FilePosition::default(),
                    ends_run: false,
                }))
            }
        }
    }

    /// The maker of records of its lines.
    pub(crate) fn records(&self) -> RecordEncoder {
        match self {
            Self::Stdin(_) => RecordEncoder::default(),
            Self::Log(log) => RecordEncoder::of_log(&log.path),
        }
    }

    /// Returns whether more may come although nothing came.
    pub(crate) fn goes_on(&self) -> bool {
        match self {
            Self::Stdin(stdin) => !stdin.has_ended,
            Self::Log(log) => log.follows(),
        }
    }

    /// Pause before the next read when nothing came.
    pub(crate) fn pause(&self) -> Duration {
        match self {
            Self::Stdin(_) => Duration::ZERO,
            Self::Log(_) => PAUSE,
        }
    }

    /// Returns what was skipped so far.
    pub fn skips(&self) -> Skips {
        match self {
            Self::Stdin(_) => Skips::default(),
            Self::Log(log) => log.skips(),
        }
    }
}
