//! Dead letters: records that an engine never takes, in a file of JSON lines with the engine's answer.

use crate::batch::EngineRecord;
use crate::error::EngineError;
use crate::limits::DEAD_LETTER_BYTES_MAX;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// File of dead letters.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    path: PathBuf,
}

impl DeadLetters {
    /// Dead letters go to the file of this path, which is made with the first.
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Returns whether the file takes more.
    pub(crate) fn has_room(&self) -> bool {
        std::fs::metadata(&self.path).map_or(true, |stat| stat.len() < DEAD_LETTER_BYTES_MAX)
    }

    /// Appends lines.
    pub(crate) fn append(&self, lines: &[u8]) -> Result<(), EngineError> {
        let opened = File::options().append(true).create(true).open(&self.path);
        let mut file = opened.map_err(EngineError::file("open", &self.path))?;
        file.write_all(lines)
            .map_err(EngineError::file("write", &self.path))
    }
}

/// Appends the line of a record.
pub(crate) fn put_letter(record: &mut EngineRecord<'_>, delivery: &str, why: &str, out: &mut Vec<u8>) {
    let why = serde_json::to_string(why).unwrap_or_default();
    let number = record.number;
    // Writing to memory does not fail.
    let _ = write!(out, "{{\"id\":\"{delivery}-{number}\",\"why\":{why},\"record\":");
    out.extend_from_slice(record.json());
    out.extend_from_slice(b"}\n");
}
