//! Records of a block one by one, without a buffer of rows in between.

use crate::block::{Block, NO_THREAD, row_kind};
use crate::error::{StoreError, limit};
use crate::group::Rebuild;
use crate::limits::ROW_BYTES_MAX;
use crate::rows::{LINE, RECORD, RECORD_HEAD_BYTES, Row};
use logdrive_wire::Level;

/// Records of a block in the order of the log: the rows of [`Block::rows`], each as it is asked for.
///
/// ```
/// use logdrive_store::{Block, BlockHead, BlockRecords, Encoder, RowCallsite, RowThread, RowWriter};
/// let site = RowCallsite::new(&logdrive_wire::Callsite::default(), None)?;
/// let mut rows = vec![0; 256];
/// let thread = RowThread { id: 1, name: "main" };
/// let end = RowWriter::default().record(&mut rows, 0, &site, thread, 99, b"").expect("room");
/// let mut bytes = Vec::new();
/// Encoder::default().encode(&rows[..end], &mut bytes)?;
/// let head = BlockHead::decode(&bytes)?;
/// let body = bytes[head.head_bytes..].to_vec();
/// let block = Block::new(head, body)?;
/// let mut records = BlockRecords::new(&block)?;
/// assert_eq!(records.next_row()?.expect("one").unix_ns, 99);
/// assert!(records.next_row()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BlockRecords<'a> {
    block: &'a Block,
    groups: Vec<(Rebuild<'a>, (u8, u32))>,
    order: Vec<u64>,
    times: Vec<u64>,
    threads: Vec<u64>,
    /// Number of records that were read.
    done: usize,
    /// Bytes of their rows.
    bytes: usize,
    payload: Vec<u8>,
}

impl<'a> BlockRecords<'a> {
    /// Reads the columns of a block.
    ///
    /// # Errors
    /// When the block contradicts itself.
    pub fn new(block: &'a Block) -> Result<Self, StoreError> {
        let mut budget = block.head().rows_bytes;
        let mut groups = Vec::with_capacity(block.head().groups.len());
        for (number, group) in block.head().groups.iter().enumerate() {
            let columns = block.columns(number, &mut budget)?;
            let rebuild = Rebuild::new(&group.kind, columns, group.rows)?;
            groups.push((rebuild, row_kind(&group.kind)));
        }
        Ok(Self {
            block,
            groups,
            order: block.order()?,
            times: block.times()?,
            threads: block.threads()?,
            done: 0,
            bytes: 0,
            payload: Vec::new(),
        })
    }

    /// The next record.
    ///
    /// # Errors
    /// When the block contradicts itself.
    #[inline]
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>, StoreError> {
        let contradiction = |what| StoreError::Contradiction { what };
        let at = self.done;
        let Some(number) = self.order.get(at) else {
            return Ok(None);
        };
        let group = usize::try_from(*number)
            .ok()
            .and_then(|number| self.groups.get_mut(number));
        let (group, (kind, name)) = group.ok_or(contradiction("order of records"))?;
        self.payload.clear();
        group.put_row(&mut self.payload)?;
        let bytes = RECORD_HEAD_BYTES + self.payload.len();
        limit("length of a row", bytes, ROW_BYTES_MAX)?;
        self.bytes += bytes;
        limit("bytes of rows", self.bytes, self.block.head().rows_bytes)?;
        let thread = self.threads.get(at).copied().unwrap_or(NO_THREAD);
        if thread != NO_THREAD && thread >= self.block.head().threads.len() as u64 {
            return Err(contradiction("thread of a row"));
        }
        self.done += 1;
        Ok(Some(Row {
            callsite: (*kind == RECORD).then_some(*name),
            line_level: (*kind == LINE).then(|| Level::from_code(*name as u8)).flatten(),
            thread: (thread != NO_THREAD).then_some(thread as u32),
            unix_ns: self.times.get(at).copied().unwrap_or(0),
            payload: &self.payload,
        }))
    }
}
