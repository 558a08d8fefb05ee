//! A record of a live session that is given to the caller: typed, and laid out where that is asked for.

use crate::filter::Filter;
use crate::record_values::QueriedRecord;
use crate::typed::TypedRecord;
use logdrive_drain::layout::{Layout, Plan, ProcessInfo, Record};
use logdrive_query::Record as AskedRecord;
use logdrive_wire::{Callsite, Level};

/// A callsite with the plans of its lines.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) callsite: Callsite,
    pub(crate) plain: Plan,
    pub(crate) named: Plan,
    /// Plan of the message alone.
    pub(crate) message: Plan,
}

/// Layouts of a session.
#[derive(Debug)]
pub(crate) struct Layouts {
    /// That of its lines.
    pub(crate) lines: Layout,
    /// That of messages alone, for conditions on them.
    pub(crate) messages: Layout,
}

/// A record that is taken.
#[derive(Debug)]
pub struct FollowedRecord<'a> {
    /// Process that logged it.
    pub process: &'a ProcessInfo,
    /// The number of the session.
    pub id: u64,
    /// Its level.
    pub level: Level,
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    /// Name of the thread; empty if it has none.
    pub thread: &'a str,
    pub(crate) line: Record<'a>,
    pub(crate) site: &'a Site,
    pub(crate) layouts: &'a mut Layouts,
    pub(crate) space: &'a mut [u8],
}

impl FollowedRecord<'_> {
    /// Its line as the process itself would write it, with the line's end.
    pub fn line(&mut self) -> &[u8] {
        self.site
            .plain
            .line_in(&mut self.layouts.lines, &self.line, self.space)
    }

    /// Its line with the name of the process: `app[pid]/thread`, or keys of their own.
    pub fn line_with_process(&mut self) -> &[u8] {
        self.site
            .named
            .line_in(&mut self.layouts.lines, &self.line, self.space)
    }

    /// Gives the record to who asks it as a query does.
    pub fn ask<T>(&mut self, filter: &Filter, each: impl FnOnce(&mut dyn AskedRecord) -> T) -> T {
        let mut typed = TypedRecord {
            callsite: &self.site.callsite,
            process: Some((&self.process.app, self.process.pid)),
            record: &self.line,
            messages: &mut self.layouts.messages,
            message: &self.site.message,
            space: self.space,
            lines: Some((&mut self.layouts.lines, &self.site.plain)),
        };
        each(&mut QueriedRecord {
            values: &mut typed,
            unix_ns: Some(self.unix_ns),
            level: Some(self.level),
            process: filter.process.as_ref(),
        })
    }

    /// Whether the record passes: its values are compared as they are, and it is laid out only for texts that are looked
    /// for in its line.
    pub fn passes(&mut self, filter: &Filter) -> bool {
        let mut typed = TypedRecord {
            callsite: &self.site.callsite,
            process: Some((&self.process.app, self.process.pid)),
            record: &self.line,
            messages: &mut self.layouts.messages,
            message: &self.site.message,
            space: self.space,
            lines: None,
        };
        typed.passes(filter) && (!filter.asks_for_texts() || filter.passes_texts(self.line()))
    }
}
