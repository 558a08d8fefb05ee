//! The working side of Logdrive: drain, merge, layouts, sinks and recovery.
//!
//! [`Backend`] starts a session with a drain thread and an I/O thread for each sink. The drain takes records out of
//! the rings, merges them by time and lays them out as text in output buffers; the I/O threads write full buffers.
//! [`recover`] does the same for a session whose process is dead. `spec/session.md` says why nothing is lost, torn or
//! written twice when a process is killed at any moment.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod adopted_session;
mod backend;
mod calendar;
mod client;
pub mod console;
pub mod control;
mod drain;
mod drain_thread;
mod error;
pub mod file;
mod filter;
mod final_sums;
mod flight_recorder;
mod internal_notices;
pub mod layout;
pub mod limits;
mod metrics;
mod multi_session;
mod process_exit;
mod quota;
mod recover;
mod recovery_state;
pub mod schema;
#[cfg(feature = "segments")]
mod segment;
#[cfg(not(feature = "segments"))]
#[path = "segment_off.rs"]
mod segment;
mod session_place;
#[cfg(all(feature = "ship", target_os = "linux"))]
pub mod ship;
#[cfg(not(all(feature = "ship", target_os = "linux")))]
#[path = "ship_off.rs"]
pub mod ship;
mod sidecar;
mod sink;
mod sinks;
mod stats;
mod status;
mod target_user;

pub use backend::{Backend, BackendOptions, Stopped};
pub use client::ClientProcess;
pub use error::BackendError;
pub use filter::{Filter, FilterError, is_below};
pub use flight_recorder::{RecorderOptions, RecorderPolicy, RecorderRule};
pub use internal_notices::{TARGET, gap_callsite, gap_payload};
pub use metrics::{SessionNumbers, metrics};
pub use process_exit::{describe_cause, describe_end, describe_exit_alone, noted_exit};
pub use quota::{Quota, QuotaPolicy};
pub use recover::{Recovered, recover};
pub use sidecar::{Sidecar, SidecarOptions};
pub use sink::callback::CallbackSink;
pub use sink::drop_reason::SinkDrop;
pub use sink::memory::MemorySink;
pub use sink::options::{
    Overflow, RecoverableSink, SinkOptions, Sync, Target, sinks_from_text, sinks_to_text,
};
pub use sink::targets::Targets;
pub use sinks::Sinks;
pub use stats::{SinkStats, Stats, StatsSource};
pub use status::FlushStatus;
pub use target_user::prepare_for_user;
