//! Reading by several threads: files in parts, segments by blocks, for the merge and for queries.

mod block_batch;
mod block_scan;
mod column_test;
mod in_order;
mod message_parts;
mod plain_files;
mod query_parts;
mod query_scan;
mod scanned_text;
mod summary_test;
mod task;
mod text_parts;
mod text_scan;

pub use query_scan::{QueriedPart, QueryScan, SegmentForm};
pub(crate) use scanned_text::{ScannedPart, ScannedText};
pub use scanned_text::{ShapeRecord, Shapes};
pub use task::Task;
