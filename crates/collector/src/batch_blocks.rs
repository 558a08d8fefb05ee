//! Batches of lines as blocks of a segment: each batch is in blocks of its own, so that an acknowledged one is whole.

use logdrive_reader::LineHeads;
use logdrive_store::{BatchWriter, SegmentWriter};
use std::io;

/// Bytes of a line that is stored as one; a longer one is stored in pieces, as a row has a limit.
const LINE_BYTES_MAX: usize = 512 << 10;

/// Makes blocks of batches. It keeps its memory for the next one.
#[derive(Debug)]
pub(crate) struct BatchBlocks {
    records: SegmentWriter<Vec<u8>>,
    /// Blocks of batches whose columns stay as they came.
    pub(crate) whole: BatchWriter,
}

impl Default for BatchBlocks {
    fn default() -> Self {
        Self {
            records: SegmentWriter::new(Vec::new()).fill_blocks(),
            whole: BatchWriter::default(),
        }
    }
}

impl BatchBlocks {
    /// The writer of the next blocks.
    pub(crate) fn begin(&mut self) -> &mut SegmentWriter<Vec<u8>> {
        self.records.file_mut().clear();
        &mut self.records
    }

    /// Writes what is left, and gives the blocks.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.records.flush()?;
        std::mem::swap(out, self.records.file_mut());
        Ok(())
    }

    /// Puts the blocks of some lines in the place of the lines. A line takes its time and level from its head, else from
    /// the line before of the same sender, else it has the time now.
    pub(crate) fn replace(
        &mut self,
        lines: &mut Vec<u8>,
        heads: &mut LineHeads,
        now_unix_ns: u64,
    ) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.records.file_mut().clear();
        let text = lines.strip_suffix(b"\n").unwrap_or(lines);
        for whole in text.split(|byte| *byte == b'\n') {
            let head = heads.of(whole);
            let unix_ns = if head.unix_ns == 0 {
                now_unix_ns
            } else {
                head.unix_ns
            };
            let first = whole.get(..LINE_BYTES_MAX).unwrap_or(whole);
            self.records.line(head.level, unix_ns, first)?;
            let rest = whole.get(first.len()..).unwrap_or(&[]);
            for piece in rest.chunks(LINE_BYTES_MAX) {
                self.records.line(head.level, unix_ns, piece)?;
            }
        }
        self.records.flush()?;
        std::mem::swap(lines, self.records.file_mut());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_store::{Rows, SegmentReader};

    #[test]
    fn lines_of_a_batch_read_back_in_their_order_with_their_times() {
        let mut blocks = BatchBlocks::default();
        let mut heads = LineHeads::default();
        let text = b"no head\n1970-01-01T00:00:02Z WARN a\n  at b\n\n".to_vec();
        for _ in 0..2 {
            let mut lines = text.clone();
            blocks.replace(&mut lines, &mut heads, 7).expect("memory");
            let mut reader = SegmentReader::new(io::Cursor::new(lines));
            let block = reader.next_block(|_| true).expect("memory").expect("a block");
            let bytes = block.rows().expect("rows");
            let (mut rows, mut found) = (Rows::new(&bytes), Vec::new());
            while let Some(row) = rows.next_row().expect("rows") {
                found.extend_from_slice(row.payload);
                found.push(b'\n');
            }
            assert_eq!(found, text);
            assert_eq!(block.head().times.1, 2_000_000_000);
            assert!(reader.next_block(|_| true).expect("memory").is_none());
        }
    }
}
