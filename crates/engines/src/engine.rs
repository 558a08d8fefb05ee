//! The side of an engine: takes batches, each once as far as the engine can tell.

use crate::batch::EngineBatch;
use crate::error::Refusal;

/// An engine that takes batches of records.
///
/// A batch comes again after a refusal, and after a restart, with the same records under the same numbers: what the engine has
/// of it already is to be found by these.
pub(crate) trait Engine: Send {
    /// Hands a batch over. Blocks until the engine has it, or has said that it does not take it, within a bounded time.
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal>;
}
