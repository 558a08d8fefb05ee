//! The receiving role: a [`Store`] that writes the records of many senders to one log, each once, and [`send`], which
//! brings the lines of a log file, or of standard input, to a collector.
//!
//! ```text
//! peer ─► logdrive_ship::serve ─► Store ─► ledger (which records are in the log) ─► log file
//! ```
//!
//! Nothing here prints or reads a command line.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod batch_blocks;
mod commit;
mod error;
mod fields;
#[cfg(feature = "inputs")]
pub mod input;
mod ledger;
pub mod limits;
mod output;
mod outputs;
mod records;
mod routes;
pub mod send;
mod store;
mod text_records;

pub use error::CollectorError;
pub use outputs::Outputs;
pub use routes::CollectRoute;
pub use store::{Store, StoreCounts, StoreFormat};
