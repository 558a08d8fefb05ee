//! The lines of a segment as a sink of text would have them, for programs that judge a log, with what its damage has cost.

use crate::{BenchError, Result};
use logdrive_drain::layout::{Layout, LineBuffer, Outcome, Plan, ProcessInfo, Record, Style};
use logdrive_store::{Block, BlockHead, Rows, SegmentReader};
use std::io::Cursor;

/// Room for a line.
const LINE_BYTES_MAX: usize = 1 << 17;

/// Contents of a segment.
#[derive(Debug, Default)]
pub struct SegmentLines {
    /// Lines of all records that can be read.
    pub lines: Vec<u8>,
    /// Damage as the reader tells it.
    pub damages: Vec<String>,
    /// Records of damaged blocks whose heads are sound.
    pub damaged_records: u64,
    /// Bytes behind the last whole block.
    pub rest_bytes: u64,
}

impl SegmentLines {
    /// Reads a segment as lines of a style.
    pub fn read(bytes: &[u8], style: Style) -> Result<Self> {
        let mut reader = SegmentReader::new(Cursor::new(bytes));
        let mut layout = Layout::new(style.into(), ProcessInfo::default()).map_err(error)?;
        let mut found = Self::default();
        while let Some(block) = reader.next_block(|_| true)? {
            found.put_block(&mut layout, &block)?;
        }
        for damage in reader.take_damages() {
            let at = usize::try_from(damage.offset).unwrap_or(usize::MAX);
            let head = BlockHead::decode(bytes.get(at..).unwrap_or(&[]));
            found.damaged_records += head.map_or(0, |head| head.records as u64);
            found.damages.push(damage.to_string());
        }
        found.rest_bytes = bytes.len() as u64 - reader.offset();
        Ok(found)
    }

    fn put_block(&mut self, layout: &mut Layout, block: &Block) -> Result<()> {
        let head = block.head();
        let callsites = head.callsites.iter();
        let plans: Vec<Plan> = callsites.map(|known| layout.compile(&known.callsite)).collect();
        let bytes = block.rows().map_err(error)?;
        let mut rows = Rows::new(&bytes);
        let mut space = vec![0; LINE_BYTES_MAX];
        while let Some(row) = rows.next_row().map_err(error)? {
            let Some(plan) = row.callsite.and_then(|number| plans.get(number as usize)) else {
                self.lines.extend_from_slice(row.payload);
                self.lines.push(b'\n');
                continue;
            };
            let record = Record::of_row(&row, &head.threads);
            let mut out = LineBuffer::new(&mut space);
            if layout.line(plan, &record, &mut out) == Outcome::Overflow {
                return Err(BenchError::new("a line that is too long"));
            }
            let length = out.len();
            self.lines.extend_from_slice(space.get(..length).unwrap_or(&[]));
        }
        Ok(())
    }
}

fn error(cause: impl std::fmt::Display) -> BenchError {
    BenchError::new(cause.to_string())
}
