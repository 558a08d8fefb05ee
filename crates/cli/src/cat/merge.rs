//! Logs merged by time.

use super::filter::Filter;
use super::source::{Entry, Source};
use crate::error::CliError;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Where merged records go.
pub(super) trait Sink {
    /// Takes the next record.
    fn take(&mut self, source: &Source, entry: Entry) -> Result<(), CliError>;

    /// The reader is about to wait: what was taken should be seen.
    fn before_wait(&mut self) -> Result<(), CliError>;

    /// Something could not be read. The rest goes on.
    fn failed(&mut self, error: CliError) -> Result<(), CliError>;
}

/// Gives all records to the sink in order of time. At equal times the order of the sources counts.
pub(super) fn merge(sources: &mut [Source], filter: &Filter, sink: &mut impl Sink) -> Result<(), CliError> {
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
        // Records of one log often follow each other: they are taken in a row, without looking at the others.
        let next = loop {
            let Some(entry) = next_of(source, filter, sink)? else {
                break None;
            };
            if limit.is_some_and(|limit| (entry.unix_ns, index) > limit) {
                break Some(entry);
            }
            sink.take(source, entry)?;
            source.advance();
        };
        if let Some(entry) = next {
            heads.push(Reverse((entry.unix_ns, index)));
        }
    }
    Ok(())
}

/// Gives the records of one source after the other to the sink.
pub(super) fn chain(sources: &mut [Source], filter: &Filter, sink: &mut impl Sink) -> Result<(), CliError> {
    for source in sources {
        while let Some(entry) = next_of(source, filter, sink)? {
            sink.take(source, entry)?;
            source.advance();
        }
    }
    Ok(())
}

#[inline]
fn next_of(source: &mut Source, filter: &Filter, sink: &mut impl Sink) -> Result<Option<Entry>, CliError> {
    if let Some(entry) = source.peek() {
        return Ok(Some(entry));
    }
    source.fill(filter, || sink.before_wait())?;
    for error in source.take_failures() {
        sink.failed(error)?;
    }
    Ok(source.peek())
}
