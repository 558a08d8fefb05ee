//! The side of an engine: takes batches, each once as far as the engine can tell.

use crate::batch::EngineBatch;
use crate::error::Refusal;
use crate::limits::{BATCH_RECORDS, BATCH_ROWS_BYTES, LINGER};
use std::time::Duration;

/// Size of the batches that an engine is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchLimits {
    /// Records at most, but for those of one block.
    pub(crate) records: usize,
    /// Bytes of rows at most, but for those of one block.
    pub(crate) rows_bytes: usize,
    /// Time that a batch waits for more records when it is not full.
    pub(crate) linger: Duration,
    /// Whether it works on the next batch while one is under way.
    pub(crate) works_ahead: bool,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            records: BATCH_RECORDS,
            rows_bytes: BATCH_ROWS_BYTES,
            linger: LINGER,
            works_ahead: false,
        }
    }
}

/// An engine that takes batches of records.
///
/// A batch comes again after a refusal, and after a restart, with the same records under the same numbers: what the engine has
/// of it already is to be found by these.
pub(crate) trait Engine: Send {
    /// Size of its batches.
    fn limits(&self) -> BatchLimits {
        BatchLimits::default()
    }

    /// Begins with a batch that is delivered later, behind those that were begun before it, and does not wait for answers. What
    /// fails is found again when it is delivered.
    fn begin(&mut self, _: &mut EngineBatch<'_>) {}

    /// Hands a batch over. Blocks until the engine has it, or has said that it does not take it, within a bounded time.
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal>;
}
