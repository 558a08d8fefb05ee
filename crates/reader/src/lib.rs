//! The reader of logs: log files in any of the known forms, compressed or not, and sessions of live processes, as one
//! filtered stream of records in the order of their times.
//!
//! ```text
//! Input ─► Source ─► merge ─► Sink            files: bytes, records of one log, records of all
//!            └ Filter
//! session ─► Follow ─► FollowedRecord         rings of live processes, observed without being their drain
//! ```
//!
//! Until something asks for its parts, a record of a file is a range of bytes in a chunk that was read ([`Source`]); then
//! a `Record` holds the offsets of its parts. Nothing here writes to a terminal: a [`Pen`] decides about colours.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod colors;
mod compose;
mod error;
mod escape;
mod filter;
pub mod follow;
pub mod foreign;
mod formatter;
mod head;
mod input;
mod json;
mod last;
mod limits;
mod line_head;
mod log_files;
mod merge;
pub mod pages;
mod pairs;
mod parse;
mod part;
mod past;
mod pen;
mod qlog;
mod record;
mod record_values;
mod scan;
mod segment;
mod source;
mod text;
mod text_lines;
mod times;
mod typed;
mod typed_values;

pub use error::{ReadError, io_text};
pub use escape::{Writing, put_json, put_safe, unescape};
pub use filter::{Filter, LineFilter, Needle};
pub use formatter::{Formatter, Shape};
pub use input::{Input, decoder, is_paged, is_plain_text};
pub use last::Last;
pub use limits::{CHUNK_BYTES, DIRECTORY_ENTRIES_MAX, FILES_MAX};
pub use log_files::{LogFile, log_files};
pub use merge::{Sink, chain, merge};
pub use past::{Past, PastRecord, last_records};
pub use pen::{Pen, Piece};
pub use qlog::QlogWriter;
pub use scan::{QueriedPart, QueryScan, SegmentForm, ShapeRecord, Shapes, Task};
pub use source::{Source, SourceOptions, SourceRecord, chunk_bytes};
pub use text_lines::{LineHeads, TextLine, each_text_line};
pub use times::{Times, iso_text, read_iso};
