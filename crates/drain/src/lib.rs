//! The working side of Logdrive: drain, merge, layouts, sinks and recovery.
//!
//! [`Backend`] starts a session with a drain thread and an I/O thread for each sink. The drain takes records out of
//! the rings, merges them by time and lays them out as text in output buffers; the I/O threads write full buffers.
//! [`recover`] does the same for a session whose process is dead. `spec/session.md` says why nothing is lost, torn or
//! written twice when a process is killed at any moment.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod backend;
mod callsite_counts;
pub mod console;
pub mod control;
mod drain;
mod ended;
mod error;
mod feed;
pub mod file;
mod filter;
mod hub;
mod inside;
mod keep;
pub mod layout;
pub mod limits;
mod marks;
mod memory;
mod metrics;
mod options;
mod outlet;
mod ration;
mod reader;
mod recover;
mod run;
pub mod schema;
#[cfg(all(feature = "ship", target_os = "linux"))]
pub mod ship;
#[cfg(not(all(feature = "ship", target_os = "linux")))]
#[path = "ship_off.rs"]
pub mod ship;
mod sidecar;
mod stats;
mod writer;

pub use backend::{Backend, BackendOptions, Stopped};
pub use error::BackendError;
pub use feed::Member;
pub use filter::{Filter, FilterError, is_below};
pub use inside::{TARGET, gap_callsite, gap_payload};
pub use keep::{KeepOptions, Kept, Recorder};
pub use marks::{DumpAnswer, Reach};
pub use memory::Memory;
pub use metrics::{SessionNumbers, metrics};
pub use options::{Overflow, RecoverableSink, SinkOptions, Sync, Target, sinks_from_text, sinks_to_text};
pub use outlet::SinkDrop;
pub use ration::{Ration, Rationing};
pub use recover::{Recovered, recover};
pub use sidecar::{Sidecar, SidecarOptions};
pub use stats::{SinkStats, Stats, StatsSource};
