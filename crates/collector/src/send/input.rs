//! Input of a sender: a log file, or standard input.

use super::file::FollowedFile;
use super::position::FilePosition;
use super::stdin::Stdin;
use crate::error::CollectorError;
use std::path::Path;
use std::time::Duration;

/// Pause at the end of a file before the next look.
const PAUSE: Duration = Duration::from_millis(100);

/// Input of a sender.
#[derive(Debug)]
pub enum LogInput {
    /// Standard input.
    Stdin(Stdin),
    /// A file.
    File(Box<FollowedFile>),
}

impl LogInput {
    /// Returns standard input.
    pub fn stdin() -> Self {
        Self::Stdin(Stdin::default())
    }

    /// Opens a log file at a position, or at its start; with `follows`, what is written to it later is read too, and the
    /// files that take its place.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn file(path: &Path, from: Option<FilePosition>, follows: bool) -> Result<Self, CollectorError> {
        Ok(Self::File(Box::new(FollowedFile::open(path, from, follows)?)))
    }

    /// Appends whole lines, and returns their number; 0 when there are none now. `last`: no more will be asked for, so
    /// that a line without its end is taken too.
    pub(crate) fn read(
        &mut self,
        lines: &mut Vec<u8>,
        bytes_max: usize,
        last: bool,
    ) -> Result<u32, CollectorError> {
        match self {
            Self::File(file) => file.read(lines, bytes_max),
            Self::Stdin(stdin) => stdin.read(lines, bytes_max, last),
        }
    }

    /// Whether more may come although nothing came.
    pub(crate) fn goes_on(&self) -> bool {
        match self {
            Self::Stdin(stdin) => !stdin.has_ended,
            Self::File(file) => file.follows,
        }
    }

    /// Pause before the next look when nothing came.
    pub(crate) fn pause(&self) -> Duration {
        match self {
            Self::Stdin(_) => Duration::ZERO,
            Self::File(_) => PAUSE,
        }
    }

    /// Position behind the last line that was read.
    pub(crate) fn position(&self) -> FilePosition {
        match self {
            Self::Stdin(_) => FilePosition::default(),
            Self::File(file) => file.position,
        }
    }
}
