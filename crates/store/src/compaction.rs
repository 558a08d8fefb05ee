//! Compaction: the records of a segment anew in full blocks, in the same order and with the same values.
//!
//! A writer that is asked for a block each second, or by each flush, leaves many small ones, each with callsites, threads
//! and templates of its own. A file is compact when no two neighbours would fit into one block, so that this is seen from
//! the heads alone, and a compact file is left as it is.

use crate::block::Block;
use crate::error::StoreError;
use crate::head::BlockHead;
use crate::limits::{CALLSITES_MAX, ROWS_BYTES_MAX, ROWS_MAX};
use crate::reader::SegmentReader;
use crate::rows::{RowCallsite, RowThread, Rows};
use crate::writer::SegmentWriter;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Result of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compaction {
    /// All records were written, so many.
    Written(u64),
    /// It was stopped before the end.
    Stopped,
    /// The file has bytes that are no sound block, which would be lost: what was written is to be thrown away.
    Damaged,
}

/// Returns true if no two neighbouring blocks of a segment would fit into one, and all were written with a level of zstd at least as
/// high as the one that is given. Reads the heads alone, at most up to the first that shows the contrary.
///
/// # Errors
/// When the file cannot be read.
pub fn is_compact<R: Read + Seek>(file: R, level: Option<i32>) -> io::Result<bool> {
    let mut reader = SegmentReader::new(file);
    let (mut before, mut is_found) = (None, false);
    let block = reader.next_block(|head| {
        let size = (head.records, head.rows_bytes);
        let is_weak = level.is_some_and(|level| i32::from(head.zstd_level.unwrap_or(0)) < level);
        is_found = is_weak || before.is_some_and(|before| fit_together(before, size));
        before = Some(size);
        is_found
    })?;
    // A block that shows it and is damaged counts, too: whoever writes them anew finds the damage.
    Ok(block.is_none() && !is_found)
}

fn fit_together(one: (usize, usize), other: (usize, usize)) -> bool {
    one.0 + other.0 <= ROWS_MAX && one.1 + other.1 <= ROWS_BYTES_MAX
}

/// Writes the records of a segment as full blocks. `is_stopped` is asked before each block.
///
/// ```
/// use logdrive_store::{Compaction, SegmentWriter, compact, is_compact};
/// use std::io::Cursor;
/// let mut writer = SegmentWriter::new(Vec::new());
/// for time in 0..3 {
///     writer.line(None, time, b"a line")?;
///     writer.flush()?;
/// }
/// let small = std::mem::take(writer.file_mut());
/// assert!(!is_compact(Cursor::new(&small), None)?);
/// let mut full = SegmentWriter::new(Vec::new()).fill_blocks();
/// assert_eq!(compact(Cursor::new(&small), &mut full, &|| false)?, Compaction::Written(3));
/// assert!(is_compact(Cursor::new(full.file_mut()), None)?);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// When a file cannot be read or written.
pub fn compact<R: Read + Seek, W: Write>(
    mut from: R,
    to: &mut SegmentWriter<W>,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<Compaction> {
    let length = from.seek(SeekFrom::End(0))?;
    let mut reader = SegmentReader::new(from);
    let mut callsites = Callsites::default();
    let mut records = 0;
    loop {
        if is_stopped() {
            return Ok(Compaction::Stopped);
        }
        let block = reader.next_block(|_| true)?;
        if !reader.take_damages().is_empty() {
            return Ok(Compaction::Damaged);
        }
        let Some(block) = block else { break };
        records += block.head().records as u64;
        match callsites.copy(&block, to)? {
            Ok(()) => {}
            Err(StoreError::Compression(cause)) => return Err(io::Error::other(cause)),
            Err(_) => return Ok(Compaction::Damaged),
        }
    }
    if reader.offset() != length {
        // A block that was cut.
        return Ok(Compaction::Damaged);
    }
    to.flush()?;
    Ok(Compaction::Written(records))
}

/// Count of the records of a segment, and a hash of them that does not depend on its blocks; `None` where it has bytes that
/// are no sound block. Hashes of one version of this crate may be compared.
///
/// # Errors
/// When the file cannot be read.
pub fn digest<R: Read + Seek>(mut file: R) -> io::Result<Option<(u64, u64)>> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut reader = SegmentReader::new(file);
    let (mut records, mut hasher) = (0, DefaultHasher::new());
    while let Some(block) = reader.next_block(|_| true)? {
        let Ok(bytes) = block.rows() else { return Ok(None) };
        let head = block.head();
        let mut rows = Rows::new(&bytes);
        while let Ok(Some(row)) = rows.next_row() {
            let callsite = row
                .callsite
                .and_then(|number| head.callsites.get(number as usize));
            let thread = row.thread.and_then(|number| head.threads.get(number as usize));
            let names = (
                callsite.map(|callsite| &callsite.definition),
                thread.map(|thread| (thread.id, &thread.name)),
            );
            let level = row.line_level.map(logdrive_wire::Level::code);
            (names, level, row.unix_ns, row.payload).hash(&mut hasher);
            records += 1;
        }
    }
    let is_sound = reader.take_damages().is_empty() && reader.offset() == length;
    Ok(is_sound.then(|| (records, hasher.finish())))
}

/// Callsites of the blocks so far, each once.
#[derive(Debug, Default)]
struct Callsites {
    known: HashMap<Vec<u8>, usize>,
    rows: Vec<RowCallsite>,
}

impl Callsites {
    /// Returns the number of each callsite of a block.
    fn numbers(&mut self, head: &BlockHead) -> Vec<usize> {
        if self.rows.len() > CALLSITES_MAX {
            // They get new rows in the block that is being gathered.
            self.known.clear();
            self.rows.clear();
        }
        let number_of = |definition: &Vec<u8>| {
            if let Some(number) = self.known.get(definition) {
                return *number;
            }
            self.rows.push(RowCallsite::of_definition(definition));
            self.known.insert(definition.clone(), self.rows.len() - 1);
            self.rows.len() - 1
        };
        let definitions = head.callsites.iter().map(|callsite| &callsite.definition);
        definitions.map(number_of).collect()
    }

    fn copy<W: Write>(
        &mut self,
        block: &Block,
        to: &mut SegmentWriter<W>,
    ) -> io::Result<Result<(), StoreError>> {
        let bytes = match block.rows() {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error)),
        };
        let head = block.head();
        let numbers = self.numbers(head);
        let mut rows = Rows::new(&bytes);
        // Rows of a block are sound: it made them.
        while let Ok(Some(row)) = rows.next_row() {
            let number = row
                .callsite
                .and_then(|callsite| numbers.get(callsite as usize).copied());
            let Some(callsite) = number.and_then(|number| self.rows.get(number)) else {
                to.line(row.line_level, row.unix_ns, row.payload)?;
                continue;
            };
            let thread = row.thread.and_then(|thread| head.threads.get(thread as usize));
            let thread = RowThread {
                id: thread.map_or(0, |thread| thread.id),
                name: thread.map_or("", |thread| &thread.name),
            };
            to.record(callsite, thread, row.unix_ns, row.payload)?;
        }
        Ok(Ok(()))
    }
}
