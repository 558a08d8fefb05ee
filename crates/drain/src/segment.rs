//! Segments: records as rows in the output buffers of a sink, and the block of a buffer that goes to its file.
//!
//! A buffer of rows always makes the same block, so that a recovery writes the same bytes to the same place again.

use crate::internal_notices::is_own;
use logdrive_store::{
    Encoder, RowCallsite, RowNumbers, RowProcess, RowThread, RowWriter, Rows, SegmentWriter, compact,
};
use logdrive_wire::Callsite;
use std::io::{self, Read, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use logdrive_store::{digest, is_compact, is_segment};

/// Set if segments can be written in this build.
pub(crate) const IS_BUILT_IN: bool = true;

/// A callsite as rows name it.
#[derive(Debug, Clone)]
pub(crate) struct RowPlan(Arc<RowCallsite>);

impl RowPlan {
    /// Prepares a callsite, of another process where application, number and host are given. `None` for one that is longer than any may be.
    pub(crate) fn new(callsite: &Callsite, process: Option<(&str, u32, &str)>) -> Option<Self> {
        let process = process.map(|(app, pid, host)| RowProcess {
            app: app.to_owned(),
            pid,
            host: host.to_owned(),
        });
        let callsite = RowCallsite::new(callsite, process.as_ref()).ok()?;
        Some(Self(Arc::new(callsite)))
    }
}

/// Writes records as rows.
#[derive(Debug, Default)]
pub(crate) struct RowLayout(RowWriter);

impl RowLayout {
    /// Writes a record at a place of the rest of a buffer, behind so many bytes of it; returns its end, or `None` where it
    /// does not fit.
    #[inline]
    pub(crate) fn put(
        &mut self,
        plan: &RowPlan,
        (id, name): (u64, &str),
        (unix_ns, payload): (u64, &[u8]),
        out: &mut [u8],
        (before, at): (usize, usize),
    ) -> Option<usize> {
        self.0.go_on_behind(before);
        let thread = RowThread { id, name };
        self.0.record(out, at, &plan.0, thread, unix_ns, payload)
    }

    /// Returns what rows of a callsite and thread begin with, where the buffer has had one of them before this place.
    pub(crate) fn run(
        &mut self,
        plan: &RowPlan,
        (id, name): (u64, &str),
        (before, at): (usize, usize),
    ) -> Option<RowRun> {
        self.0.go_on_behind(before);
        self.0.numbers(at, &plan.0, RowThread { id, name }).map(RowRun)
    }
}

/// Rows of one callsite and thread behind each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowRun(RowNumbers);

impl RowRun {
    /// Writes a record at a place of the rest of a buffer; returns its end, or `None` where it does not fit.
    #[inline(always)]
    pub(crate) fn put(self, (unix_ns, payload): (u64, &[u8]), out: &mut [u8], at: usize) -> Option<usize> {
        self.0.record(out, at, unix_ns, payload)
    }
}

/// Part of a buffer of rows that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowPrefix {
    /// Its bytes, up to the first row that cannot be read.
    pub(crate) bytes: usize,
    /// Number of its rows.
    pub(crate) rows: u64,
    /// Number of records that cannot be read.
    pub(crate) lost: u64,
}

/// Looks at the rows of a buffer that has so many records beside the logger's lines about itself.
pub(crate) fn readable_rows(bytes: &[u8], records: u64) -> RowPrefix {
    let mut rows = Rows::new(bytes);
    let (mut length, mut count, mut counted, mut own) = (0, 0, 0, Vec::new());
    'rows: while let Ok(Some(row)) = rows.next_row() {
        while own.len() < rows.callsite_count() {
            let Some(callsite) = rows.callsite(own.len()) else {
                break 'rows;
            };
            own.push(is_own(&callsite));
        }
        let number = row.callsite.map(|number| number as usize);
        let is_own = number.and_then(|number| own.get(number)).is_some_and(|own| *own);
        length = bytes.len() - rows.rest().len();
        count += 1;
        counted += u64::from(!is_own);
    }
    let rest = (bytes.len() - length) as u64;
    let lost = match rest {
        0 => 0,
        // The count may be damaged, too: there is one at least, and each has bytes.
        _ => records.saturating_sub(counted).clamp(1, rest),
    };
    RowPrefix {
        bytes: length,
        rows: count,
        lost,
    }
}

/// Makes blocks of buffers, one at a time.
#[derive(Debug, Default)]
pub(crate) struct BlockEncoder {
    encoder: Encoder,
    block: Vec<u8>,
}

impl BlockEncoder {
    /// Returns the block of a buffer of rows.
    pub(crate) fn block(&mut self, rows: &[u8]) -> Result<&[u8], String> {
        self.block.clear();
        match self.encoder.encode(rows, &mut self.block) {
            Ok(()) => Ok(&self.block),
            Err(error) => Err(format!(
                "records of a buffer cannot be read and are lost: {error}"
            )),
        }
    }
}

/// Result of rewriting a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compaction {
    Done,
    Stopped,
    /// It has bytes that are no sound block.
    Damaged,
}

/// Writes the records of a segment in full blocks, at a level of zstd where one is given.
pub(crate) fn rewrite(
    from: impl Read + Seek,
    to: impl Write,
    level: Option<i32>,
    stop: &AtomicBool,
) -> io::Result<Compaction> {
    let mut to = SegmentWriter::new(to).fill_blocks();
    if let Some(level) = level {
        to = to.level(level);
    }
    // Relaxed: the flag carries no data, and one block more or less does not matter.
    Ok(match compact(from, &mut to, &|| stop.load(Ordering::Relaxed))? {
        logdrive_store::Compaction::Written(_) => Compaction::Done,
        logdrive_store::Compaction::Stopped => Compaction::Stopped,
        logdrive_store::Compaction::Damaged => Compaction::Damaged,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internal_notices::{gap_callsite, gap_payload};

    /// The count of a buffer leaves out the logger's own lines, so that one loss less was told for each of them.
    #[test]
    fn lost_records_are_counted_without_the_loggers_own_lines() {
        let own = RowCallsite::new(&gap_callsite(), None).expect("a callsite");
        let site = RowCallsite::new(&Callsite::default(), None).expect("a callsite");
        let (mut writer, mut bytes, mut ends) = (RowWriter::default(), vec![0; 1 << 12], vec![0]);
        let thread = RowThread { id: 1, name: "main" };
        let gap = gap_payload(3, "ring full");
        for number in 0..10 {
            let at = ends[number];
            let (site, payload) = match number {
                1 => (&own, gap.as_slice()),
                _ => (&site, b"".as_slice()),
            };
            let end = writer.record(&mut bytes, at, site, thread, 9, payload);
            ends.push(end.expect("room"));
        }
        bytes.truncate(ends[10]);
        let all = |bytes, rows, lost| RowPrefix { bytes, rows, lost };
        assert_eq!(readable_rows(&bytes, 9), all(ends[10], 10, 0));
        bytes[ends[6]] = 0xff;
        bytes[ends[6] + 1] = 0xff;
        assert_eq!(readable_rows(&bytes, 9), all(ends[6], 6, 4));
    }

    #[test]
    fn rows_behind_a_callsite_that_cannot_be_read_are_lost() {
        let site = RowCallsite::new(&Callsite::default(), None).expect("a callsite");
        let thread = RowThread { id: 1, name: "main" };
        let (mut writer, mut bytes) = (RowWriter::default(), vec![0; 1 << 12]);
        let end = writer.record(&mut bytes, 0, &site, thread, 9, b"").expect("room");
        bytes.truncate(end);
        assert_eq!(readable_rows(&bytes, 1).lost, 0);
        // Behind the thread's definition, and the head of its own.
        bytes[20 + 8] = 7;
        assert_eq!(
            (readable_rows(&bytes, 1).rows, readable_rows(&bytes, 1).lost),
            (0, 1)
        );
        assert!(BlockEncoder::default().block(&bytes).is_err());
    }
}
