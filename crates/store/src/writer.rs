//! Writer of segments: gathers records, and writes a block when there are enough of them.

use crate::block::Encoder;
use crate::error::StoreError;
use crate::limits::{BLOCK_SPAN_NS, ROWS_BYTES_MAX, ROWS_MAX};
use crate::rows::{RowCallsite, RowThread, RowWriter};
use logdrive_wire::Level;
use std::io::{self, Write};

/// Bytes of rows that are gathered.
const GATHERED_BYTES: usize = ROWS_BYTES_MAX;

/// Writes records to a file in blocks. A block ends with 65536 records, 8 MiB of rows, or a second of records; memory is
/// some 60 MiB at most. What was not flushed when it is dropped is lost.
///
/// ```
/// use logdrive_store::{SegmentReader, SegmentWriter};
/// let mut file = std::io::Cursor::new(Vec::new());
/// let mut writer = SegmentWriter::new(&mut file);
/// writer.line(None, 99, b"a line of text")?;
/// writer.flush()?;
/// let block = SegmentReader::new(file).next_block(|_| true)?.expect("one");
/// assert_eq!(block.head().records, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SegmentWriter<W> {
    file: W,
    encoder: Encoder,
    rows: RowWriter,
    buffer: Vec<u8>,
    filled: usize,
    count: usize,
    first_ns: u64,
    is_by_time: bool,
    block: Vec<u8>,
}

impl<W: Write> SegmentWriter<W> {
    /// Writes to this file, behind what it has.
    pub fn new(file: W) -> Self {
        Self {
            file,
            encoder: Encoder::default(),
            rows: RowWriter::default(),
            buffer: vec![0; GATHERED_BYTES],
            filled: 0,
            count: 0,
            first_ns: 0,
            is_by_time: true,
            block: Vec::new(),
        }
    }

    /// Lets blocks span any time: for records that are all there, such as those of a file.
    pub fn fill_blocks(mut self) -> Self {
        self.is_by_time = false;
        self
    }

    /// The file that is written to.
    pub fn file_mut(&mut self) -> &mut W {
        &mut self.file
    }

    /// Compresses columns with this level of zstd, from 1 to 22: for segments that are read seldom.
    pub fn level(mut self, level: i32) -> Self {
        self.encoder = Encoder::with_level(level);
        self
    }

    /// Adds a record of a callsite.
    ///
    /// # Errors
    /// When a block cannot be written, or the record is larger than a block.
    pub fn record(
        &mut self,
        callsite: &RowCallsite,
        thread: RowThread<'_>,
        unix_ns: u64,
        payload: &[u8],
    ) -> io::Result<()> {
        self.add(unix_ns, |rows, out, at| {
            rows.record(out, at, callsite, thread, unix_ns, payload)
        })
    }

    /// Adds a line of text, without its line break.
    ///
    /// # Errors
    /// When a block cannot be written, or the line is larger than a block.
    pub fn line(&mut self, level: Option<Level>, unix_ns: u64, line: &[u8]) -> io::Result<()> {
        self.add(unix_ns, |rows, out, at| rows.line(out, at, level, unix_ns, line))
    }

    fn add(
        &mut self,
        unix_ns: u64,
        mut put: impl FnMut(&mut RowWriter, &mut [u8], usize) -> Option<usize>,
    ) -> io::Result<()> {
        let is_over = self.is_by_time && unix_ns.saturating_sub(self.first_ns) >= BLOCK_SPAN_NS;
        if self.count >= ROWS_MAX || (self.count > 0 && is_over) {
            self.put_block()?;
        }
        let mut end = put(&mut self.rows, &mut self.buffer, self.filled);
        if end.is_none() && self.count > 0 {
            self.put_block()?;
            end = put(&mut self.rows, &mut self.buffer, 0);
        }
        let end = end.ok_or_else(|| io::Error::other("a record is larger than a block of a segment"))?;
        if self.count == 0 {
            self.first_ns = unix_ns;
        }
        self.filled = end;
        self.count += 1;
        Ok(())
    }

    fn put_block(&mut self) -> io::Result<()> {
        self.block.clear();
        let rows = self.buffer.get(..self.filled).unwrap_or(&[]);
        let encoded = self.encoder.encode(rows, &mut self.block);
        (self.filled, self.count) = (0, 0);
        encoded.map_err(|error: StoreError| io::Error::other(error))?;
        self.file.write_all(&self.block)
    }

    /// Writes what was gathered as a block.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.put_block()?;
        self.file.flush()
    }
}
