//! Segments: compressed files of records in self-contained blocks with typed columns.
//!
//! A [`RowWriter`] puts records as *rows* into a buffer, an [`Encoder`] turns a buffer of rows into a block, and a
//! [`SegmentReader`] turns the blocks of a file into rows again, in the same order and with the same values. The bytes
//! are drawn in `spec/segment.md`. Apart from the shells [`SegmentReader`] and [`SegmentWriter`], the crate has no I/O,
//! and it has no clock. What it reads is treated as hostile: each length is checked before it is used, and what cannot
//! be read is an error that costs one block.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod batch;
mod batch_writer;
mod block;
mod block_records;
mod bytes;
mod columns;
mod compaction;
mod derivation;
mod dictionary;
mod error;
mod filter;
mod floats;
mod group;
mod head;
mod integers;
pub mod limits;
mod line_template;
mod places;
mod reader;
mod rows;
mod summary;
mod texts;
mod writer;

pub use batch::{Batch, BatchEncoder, Definition, EncodedBatch};
pub use batch_writer::{BatchWriter, StoredCallsite};
pub use block::{Block, Encoder, GroupColumn};
pub use block_records::BlockRecords;
pub use columns::{StoredColumn, StoredValues};
pub use compaction::{Compaction, compact, digest, is_compact};
pub use dictionary::{BatchDictionary, DictionaryCallsite, DictionaryThread};
pub use error::StoreError;
pub use filter::{TokenFilter, tokens};
pub use head::{BlockHead, GroupKind};
pub use places::{BlockPlace, BlockPlaces};
pub use reader::{Damage, SegmentReader, is_segment};
pub use rows::{Row, RowCallsite, RowError, RowNumbers, RowProcess, RowThread, RowWriter, Rows};
pub use summary::ColumnSummary;
pub use texts::{StoredTexts, Texts};
pub use writer::SegmentWriter;
