//! Logs in pages: bounded pieces of a log that are read in any order, so that a screen shows any part of a large log at once.
//!
//! ```text
//! PagedLog ─► Page ─► TimeLine        records of one piece; records of all logs, forwards and backwards
//!     └► PageIndex ◄─ indexer         counts of each page, made by a thread behind the screen
//! ```
//!
//! A search for bytes goes before the walk on all cores, and leaves out what has nothing ([`PageSearch`]).
//!
//! A page has the records that begin in a fixed range of bytes of its log, so any page is read without those before it; of a
//! segment, those of a block. What cannot be read at any place (standard input, compressed files, rings) is first copied as lines
//! into a file without a name: a [`Spool`]. The index has one entry for each page and not for each record: 10 GB of text take 2 MB.

mod blocks;
mod index;
mod indexer;
mod page;
mod page_search;
mod paged_log;
mod parts;
mod spool;
mod time_line;
mod walk;

pub use index::{PageFacts, PageIndex};
pub use indexer::Indexer;
pub use page::{Page, PageRecord};
pub use page_search::{PageSearch, Pattern};
pub use paged_log::{Change, PagedLog};
pub use parts::{RecordField, RecordParts, RecordReader};
pub use spool::Spool;
pub use time_line::{Budget, TimeLine, Want};
pub use walk::{Direction, RecordPlace, Step, Walk, WalkFrom};
