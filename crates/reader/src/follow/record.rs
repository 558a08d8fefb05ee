//! A record of a live session that is given to the caller: typed, and laid out where that is asked for.

use super::values::each_value;
use crate::filter::{Filter, OwnPart, RecordValues};
use logdrive_drain::layout::{Layout, LineBuffer, Outcome, Plan, ProcessInfo, Record};
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
        lay_out(&mut self.layouts.lines, &self.site.plain, &self.line, self.space)
    }

    /// Its line with the name of the process: `app[pid]/thread`, or keys of their own.
    pub fn line_with_process(&mut self) -> &[u8] {
        lay_out(&mut self.layouts.lines, &self.site.named, &self.line, self.space)
    }

    /// Whether the record passes: its values are compared as they are, and it is laid out only for texts that are looked
    /// for in its line.
    pub fn passes(&mut self, filter: &Filter) -> bool {
        filter.passes_level_and_time(Some(self.level), self.unix_ns)
            && (!filter.asks_for_parts() || filter.passes_values(self))
            && (!filter.asks_for_texts() || filter.passes_texts(self.line()))
    }
}

impl RecordValues for FollowedRecord<'_> {
    fn fields(&mut self, key: &str, each: &mut dyn FnMut(&[u8])) {
        each_value(&self.site.callsite, self.line.payload, key, each);
    }

    fn own_part(&mut self, part: OwnPart, each: &mut dyn FnMut(&[u8])) {
        let callsite = &self.site.callsite;
        let mut some = |text: &str| {
            if !text.is_empty() {
                each(text.as_bytes());
            }
        };
        match part {
            OwnPart::Level => some(self.level.name()),
            OwnPart::App => some(&self.process.app),
            OwnPart::Pid => some(&self.process.pid.to_string()),
            OwnPart::Thread if self.thread.is_empty() => some(&self.line.thread.id.to_string()),
            OwnPart::Thread => some(self.thread),
            OwnPart::Module => some(callsite.target_or_module()),
            OwnPart::File => some(callsite.file.rsplit(['/', '\\']).next().unwrap_or_default()),
            OwnPart::Path => some(&callsite.file),
            OwnPart::Line if callsite.line > 0 => some(&callsite.line.to_string()),
            OwnPart::Line => {}
            OwnPart::Message => {
                let layout = &mut self.layouts.messages;
                let message = lay_out(layout, &self.site.message, &self.line, self.space);
                each(message.strip_suffix(b"\n").unwrap_or(message));
            }
        }
    }
}

/// Lays a record out in a space that is larger than any line.
fn lay_out<'a>(layout: &mut Layout, plan: &Plan, record: &Record<'_>, space: &'a mut [u8]) -> &'a [u8] {
    let mut out = LineBuffer::new(space);
    if layout.line(plan, record, &mut out) == Outcome::Overflow {
        out = LineBuffer::new(space);
        // A line that not even its mark fits into would be empty; the space is larger.
        let _ = layout.line_cut(plan, record, &mut out);
    }
    let length = out.len();
    space.get(..length).unwrap_or(b"")
}
