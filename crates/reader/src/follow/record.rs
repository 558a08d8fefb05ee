//! A record of a live session that is given to the caller: typed, and laid out where that is asked for.

use logdrive_drain::layout::{Layout, LineBuffer, Outcome, Plan, ProcessInfo, Record};
use logdrive_wire::Level;

/// A callsite with the plans of its lines.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) level: Level,
    pub(crate) plain: Plan,
    pub(crate) named: Plan,
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
    pub(crate) layout: &'a mut Layout,
    pub(crate) space: &'a mut [u8],
}

impl FollowedRecord<'_> {
    /// Its line as the process itself would write it, with the line's end.
    pub fn line(&mut self) -> &[u8] {
        self.lay_out(false)
    }

    /// Its line with the name of the process: `app[pid]/thread`, or keys of their own.
    pub fn line_with_process(&mut self) -> &[u8] {
        self.lay_out(true)
    }

    fn lay_out(&mut self, named: bool) -> &[u8] {
        let plan = if named { &self.site.named } else { &self.site.plain };
        let mut out = LineBuffer::new(self.space);
        if self.layout.line(plan, &self.line, &mut out) == Outcome::Overflow {
            out = LineBuffer::new(self.space);
            // A line that not even its mark fits into would be empty; the space is larger.
            let _ = self.layout.line_cut(plan, &self.line, &mut out);
        }
        let length = out.len();
        self.space.get(..length).unwrap_or(b"")
    }
}
