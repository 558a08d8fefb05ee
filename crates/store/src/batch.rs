//! Batches: blocks as they are sent. Their callsites and threads have numbers, whose definitions go over a connection once.

use crate::block::{Block, Encoder};
use crate::dictionary::BatchDictionary;
use crate::error::StoreError;
use crate::head::BlockHead;
use crate::limits::{DEFINITIONS_BYTES_MAX, DEFINITIONS_MAX};
use crate::rows::Rows;
use std::collections::HashMap;
use std::sync::Arc;

/// Definition of a callsite or thread that batches name by a number: `u8 kind | ...`, as in `spec/segment.md`.
///
/// ```
/// let definition = logdrive_store::Definition { number: 0, bytes: [2, 7, 0, 0, 0, 0, 0, 0, 0].into() };
/// assert_eq!(definition.bytes.len(), 9);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Number of the callsite or thread.
    pub number: u32,
    /// Its kind and what it is.
    pub bytes: Arc<[u8]>,
}

/// Records as they are sent.
///
/// ```
/// let batch = logdrive_store::EncodedBatch { records: 1, definitions: vec![], block: vec![] };
/// assert!(batch.block.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedBatch {
    /// Number of records.
    pub records: u32,
    /// Definitions of all callsites and threads that it names.
    pub definitions: Vec<Definition>,
    /// The block.
    pub block: Vec<u8>,
}

/// Makes batches of buffers of rows, and numbers their callsites and threads. Allocates for each batch.
///
/// ```
/// use logdrive_store::{Batch, BatchDictionary, BatchEncoder, RowCallsite, RowThread, RowWriter};
/// let site = RowCallsite::new(&logdrive_wire::Callsite::default(), None)?;
/// let mut rows = [0; 256];
/// let thread = RowThread { id: 1, name: "main" };
/// let end = RowWriter::default().record(&mut rows, 0, &site, thread, 99, b"").expect("room");
/// let mut dictionary = BatchDictionary::default();
/// for batch in BatchEncoder::default().encode(&rows[..end], 1 << 18)? {
///     for definition in &batch.definitions {
///         dictionary.define(definition.number, &definition.bytes)?;
///     }
///     assert_eq!(Batch::read(&batch.block, &dictionary)?.block.times()?, [99]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct BatchEncoder {
    encoder: Encoder,
    numbers: HashMap<Arc<[u8]>, u32>,
    bytes: usize,
    scratch: Vec<u8>,
}

impl BatchEncoder {
    /// Returns the batches of a buffer of rows, each of about so many bytes of them.
    ///
    /// # Errors
    /// When the rows cannot be read.
    pub fn encode(&mut self, rows: &[u8], bytes_max: usize) -> Result<Vec<EncodedBatch>, StoreError> {
        let mut rows = Rows::new(rows);
        let mut batches = Vec::new();
        loop {
            if self.numbers.len() > DEFINITIONS_MAX / 2 || self.bytes > DEFINITIONS_BYTES_MAX / 2 {
                // Numbers begin again; a definition that goes over a connection replaces that of its number.
                self.numbers.clear();
                self.bytes = 0;
            }
            let (mut definitions, mut block) = (Vec::new(), Vec::new());
            let Self {
                encoder,
                numbers,
                bytes,
                scratch,
            } = self;
            let mut number = |kind: u8, parts: &[&[u8]]| {
                scratch.clear();
                scratch.push(kind);
                parts.iter().for_each(|part| scratch.extend_from_slice(part));
                let (known, number) = match numbers.get_key_value(scratch.as_slice()) {
                    Some((known, number)) => (Arc::clone(known), *number),
                    None => {
                        let fresh: Arc<[u8]> = scratch.as_slice().into();
                        let number = numbers.len() as u32;
                        numbers.insert(Arc::clone(&fresh), number);
                        *bytes += fresh.len();
                        (fresh, number)
                    }
                };
                definitions.push(Definition { number, bytes: known });
                number
            };
            let records = encoder.encode_batch(&mut rows, bytes_max, &mut number, &mut block)?;
            if records == 0 {
                return Ok(batches);
            }
            batches.push(EncodedBatch {
                records: records as u32,
                definitions,
                block,
            });
        }
    }
}

/// A batch that was read.
///
/// ```
/// let dictionary = logdrive_store::BatchDictionary::default();
/// assert!(logdrive_store::Batch::read(b"no batch", &dictionary).is_err());
/// ```
#[derive(Debug)]
pub struct Batch {
    /// The records.
    pub block: Block,
    /// Number of each callsite of the block in the dictionary.
    pub callsites: Vec<u32>,
}

impl Batch {
    /// Reads the block of a batch.
    ///
    /// # Errors
    /// When it cannot be read, or names something that is not defined.
    pub fn read(bytes: &[u8], dictionary: &BatchDictionary) -> Result<Self, StoreError> {
        let (head, numbers) = BlockHead::decode_batch(bytes, dictionary)?;
        let body = bytes.get(head.head_bytes..).unwrap_or(&[]).to_vec();
        Ok(Self {
            block: Block::new(head, body)?,
            callsites: numbers.callsites,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{CALLSITE, put_definition};
    use crate::{RowCallsite, RowThread, RowWriter};

    /// A receiver refuses a definition that it cannot read, and with it all that the sender has.
    #[test]
    fn a_definition_that_no_record_needs_is_not_sent_unread() {
        let site = RowCallsite::new(&logdrive_wire::Callsite::default(), None).expect("a callsite");
        let (mut rows, thread) = (vec![0; 256], RowThread { id: 1, name: "main" });
        let end = RowWriter::default().record(&mut rows, 0, &site, thread, 99, b"");
        rows.truncate(end.expect("room"));
        put_definition(&mut rows, CALLSITE, 1, [&[0xff; 16], &[]]);
        let batches = BatchEncoder::default().encode(&rows, 1 << 18).expect("batches");
        let mut dictionary = BatchDictionary::default();
        for definition in &batches[0].definitions {
            let defined = dictionary.define(definition.number, &definition.bytes);
            assert_eq!(defined, Ok(()), "{definition:?}");
        }
        let read = Batch::read(&batches[0].block, &dictionary).expect("a batch");
        assert_eq!(read.block.head().records, 1);
    }
}
