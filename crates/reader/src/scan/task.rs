//! Tasks: what is made of the records that a query finds.

use logdrive_query::Record;
use std::ops::ControlFlow;

/// Takes the records that a query finds, on the thread that finds them.
pub trait Task: Send + 'static {
    /// Result of the records of a part.
    type Made: Send + 'static;

    /// Takes the next record. [`ControlFlow::Break`]: no further one of this part is wanted.
    fn take(&mut self, record: &mut dyn Record) -> ControlFlow<()>;

    /// Fields on which the result depends, where records are only counted by them.
    fn counted_fields(&self) -> Option<&[String]> {
        None
    }

    /// Counts so many records that do not differ in these fields.
    fn count(&mut self, record: &mut dyn Record, count: u64) {
        for _ in 0..count {
            if self.take(record).is_break() {
                return;
            }
        }
    }

    /// Gives what was made since the last call.
    fn made(&mut self) -> Self::Made;
}
