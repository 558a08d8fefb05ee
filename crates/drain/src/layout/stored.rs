//! Records of segments and batches: laid out as those of rings.

use super::{Layout, LineBuffer, Outcome, Plan, ProcessInfo, Record, Thread};
use logdrive_store::{DictionaryThread, Row, RowProcess};
use logdrive_wire::Callsite;

impl<'a> Record<'a> {
    /// The record of a row, whose thread is one of these.
    ///
    /// ```
    /// use logdrive_drain::layout::Record;
    /// use logdrive_store::{DictionaryThread, Row};
    /// let threads = [DictionaryThread { id: 417, name: "main".to_owned() }];
    /// let row = Row { callsite: Some(0), line_level: None, thread: Some(0), unix_ns: 7, payload: &[] };
    /// assert_eq!(Record::of_row(&row, &threads).thread.name, "main");
    /// ```
    #[inline]
    pub fn of_row(row: &Row<'a>, threads: &'a [DictionaryThread]) -> Self {
        let thread = row.thread.and_then(|number| threads.get(number as usize));
        Self {
            unix_ns: row.unix_ns,
            thread: Thread {
                name: thread.map_or("", |thread| &thread.name),
                id: thread.map_or(0, |thread| thread.id),
            },
            payload: row.payload,
        }
    }
}

impl Plan {
    /// Plan of a layout for a callsite of a segment or a batch, whose lines name its process where that is known.
    pub fn of_stored(layout: &Layout, callsite: &Callsite, process: Option<&RowProcess>) -> Self {
        let Some(process) = process else {
            return layout.compile(callsite);
        };
        let process = ProcessInfo {
            app: process.app.clone(),
            pid: process.pid,
            host: process.host.clone(),
        };
        layout.compile_for(callsite, &process)
    }

    /// Lays a record out in a space that is larger than any line, or cut where it is not.
    pub fn line_in<'a>(&self, layout: &mut Layout, record: &Record<'_>, space: &'a mut [u8]) -> &'a [u8] {
        let mut out = LineBuffer::new(space);
        if layout.line(self, record, &mut out) == Outcome::Overflow {
            out = LineBuffer::new(space);
            // A line that not even its mark fits into is empty.
            let _ = layout.line_cut(self, record, &mut out);
        }
        let length = out.len();
        space.get(..length).unwrap_or(b"")
    }
}
