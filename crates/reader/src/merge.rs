//! Merging of logs by time.

use crate::error::ReadError;
use crate::filter::Filter;
use crate::source::{Entry, Source, SourceRecord};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Receiver of merged records.
pub trait Sink {
    /// Error with which it stops the merge.
    type Error;

    /// Takes the next record.
    ///
    /// # Errors
    /// When the merge has to end, as where output cannot be written.
    fn take(&mut self, record: &SourceRecord<'_>) -> Result<(), Self::Error>;

    /// Shows what was taken, because the reader is about to wait for a pipe.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    fn before_wait(&mut self) -> Result<(), Self::Error>;

    /// Learns that something could not be read. The rest goes on.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    fn failed(&mut self, error: ReadError) -> Result<(), Self::Error>;
}

/// Gives all records to the sink in order of time. At equal times the order of the sources counts. Waits for sources
/// that are pipes.
///
/// # Errors
/// Those of the sink.
pub fn merge<S: Sink>(sources: &mut [Source], filter: &Filter, sink: &mut S) -> Result<(), S::Error> {
    let mut heads = BinaryHeap::with_capacity(sources.len());
    for (index, source) in sources.iter_mut().enumerate() {
        if let Some(entry) = next_of(source, filter, sink)? {
            heads.push(Reverse((entry.unix_ns, index)));
        }
    }
    while let Some(Reverse((_, index))) = heads.pop() {
        let Some(source) = sources.get_mut(index) else {
            continue;
        };
        let limit = heads.peek().map(|Reverse(head)| *head);
        // Records of one log often follow each other: they are taken in a row, without a check of the others.
        let next = loop {
            let Some(entry) = next_of(source, filter, sink)? else {
                break None;
            };
            if limit.is_some_and(|limit| (entry.unix_ns, index) > limit) {
                break Some(entry);
            }
            sink.take(&source.record(entry))?;
            source.advance();
        };
        if let Some(entry) = next {
            heads.push(Reverse((entry.unix_ns, index)));
        }
    }
    Ok(())
}

/// Gives the records of one source after the other to the sink. Waits for sources that are pipes.
///
/// # Errors
/// Those of the sink.
pub fn chain<S: Sink>(sources: &mut [Source], filter: &Filter, sink: &mut S) -> Result<(), S::Error> {
    for source in sources {
        while let Some(entry) = next_of(source, filter, sink)? {
            sink.take(&source.record(entry))?;
            source.advance();
        }
    }
    Ok(())
}

#[inline]
fn next_of<S: Sink>(source: &mut Source, filter: &Filter, sink: &mut S) -> Result<Option<Entry>, S::Error> {
    if let Some(entry) = source.peek() {
        return Ok(Some(entry));
    }
    source.fill(filter, || sink.before_wait())?;
    for error in source.take_failures() {
        sink.failed(error)?;
    }
    Ok(source.peek())
}
