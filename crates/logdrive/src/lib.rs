//! **Logdrive**: a log call that costs about a clock read and survives SIGKILL.
//!
//! A call writes typed values into a ring of its thread in shared memory. Formatting, ordering, compression and I/O
//! happen in other threads, in bulk. What a call has committed is not lost when the program is killed: the next start of
//! the program, or `logdrive recover`, brings it into the log. What cannot be kept is counted, with the reason.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # std::env::set_current_dir(dir.path())?;
//! let _guard = logdrive::init("shop")?;
//! let (order_id, price) = (7, 9.5);
//! logdrive::info!(order_id, price, "order filled");
//! logdrive::debug!("order {} at {:.2}", order_id, price);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - The calls: [`trace!`], [`debug!`], [`info!`], [`warn!`], [`error!`], [`fatal!`], [`every_n!`], [`every_ms!`],
//!   [`once!`]. What may stand in them: [`event!`].
//! - The set-up: [`init`], [`builder`], [`File`], [`Console`], [`Layout`], [`Filter`].
//! - Other facades: [`mod@tracing`] and [`mod@log`], behind features of the same names.
//! - Tests: [`testing::capture`], [`MemorySink`].
//!
//! On Linux the rings are files or memory that outlives the program's death. On other Unixes the crate works the same,
//! but a parked call looks again every 100 µs instead of being woken, and shared memory is reserved by size only.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

#[cfg(any(target_os = "linux", target_os = "android"))]
mod agent;
mod builder;
pub mod capture;
mod config;
#[cfg(any(feature = "tracing", feature = "log"))]
mod dynamic;
mod engine;
#[doc(hidden)]
pub mod foreign;
mod keep;
#[cfg(feature = "log")]
pub mod log;
mod macros;
mod panics;
mod runtime;
mod sampling;
mod sinks;
mod site;
mod statement;
pub mod testing;
#[cfg(feature = "tracing")]
pub mod tracing;

pub use builder::{Builder, Clock, Guard, builder, init};
pub use keep::Keep;
pub use logdrive_drain::file::{Compress, Every, FileOptions, Storage};
#[cfg(all(feature = "ship", target_os = "linux"))]
pub use logdrive_drain::ship::{
    BreakerOptions, ForwardState, GroupOptions, HealthOptions, MemberOptions, Policy, ShipOptions,
};
pub use logdrive_drain::{
    BackendError, Filter, FilterError, MemorySink, Overflow, Recovered, SinkDrop, SinkOptions, SinkStats,
    Stats, Stopped, Sync, Target, recover,
};
pub use logdrive_ring::{DropReason, FullPolicy as Full};
#[cfg(all(feature = "ship", target_os = "linux"))]
pub use logdrive_ship::TransportError as ShipError;
pub use logdrive_wire::Level;
pub use runtime::InitError;
#[cfg(all(feature = "ship", target_os = "linux"))]
pub use sinks::Ship;
pub use sinks::{Console, File, IntoSink, Layout};

/// Waits until everything that was committed before the call is with the kernel, in all sinks. Blocks as long as
/// anything moves; `false` when nothing did for five seconds. `true` when no logger runs.
///
/// Where an agent has the session, these are the sinks that it sends this program's records to, and the answer is also
/// `false` when one of them has lost something since the last time that this was asked.
pub fn flush() -> bool {
    runtime::engine().is_none_or(|engine| engine.flush(false))
}

/// Writes what the flight recorder keeps, with everything that was committed before the call, and waits as [`flush`]
/// does. See [`Keep`].
pub fn dump() -> bool {
    runtime::engine().is_none_or(|engine| engine.dump(None))
}

/// As [`dump`], but only what is not older than this; the rest is forgotten.
pub fn dump_last(time: std::time::Duration) -> bool {
    runtime::engine().is_none_or(|engine| engine.dump(Some(time)))
}

/// As [`flush`], then makes all files durable with `fdatasync`.
pub fn sync() -> bool {
    runtime::engine().is_none_or(|engine| engine.flush(true))
}

/// As [`flush`], then waits until collectors keep all of it (C3), at most so long in all. `false`: something is still on its
/// way, in memory or in a spool. Without a [`Ship`] sink it is [`flush`].
#[cfg(all(feature = "ship", target_os = "linux"))]
pub fn deliver(timeout: std::time::Duration) -> bool {
    runtime::engine().is_none_or(|engine| engine.deliver(timeout))
}

/// Returns the state of each [`Ship`] sink, by its place among the sinks. Where an agent has the session there are none: the sinks are
/// the agent's.
#[cfg(all(feature = "ship", target_os = "linux"))]
pub fn shipping() -> Vec<(usize, ForwardState)> {
    runtime::engine().map_or_else(Vec::new, |engine| engine.shipping())
}

/// Opens all log files anew, after somebody else moved them away.
pub fn reopen() {
    if let Some(engine) = runtime::engine() {
        engine.reopen();
    }
}

/// The statistics of the running logger; `None` when none runs.
pub fn stats() -> Option<Stats> {
    runtime::engine().map(|engine| runtime::stats_of(&*engine))
}

/// Replaces the filter of the running logger; `false` when none runs. Effective at once, for all callsites.
pub fn set_filter(filter: Filter) -> bool {
    runtime::set_filter(filter)
}

/// The directory of this process's session, for `logdrive stats` and for tests; `None` when none runs, or an agent has it.
pub fn session_path() -> Option<std::path::PathBuf> {
    runtime::engine()?.session_path()
}

/// Items that the macros' expansions use. Not for use by hand; they change without notice.
#[doc(hidden)]
pub mod __private {
    pub use crate::macros::support::*;
    pub use crate::site::{FieldMeta, Meta, Site, Ticket};
    use logdrive_wire::Level;

    /// Calls below this level are left out of the program. Set for a whole build, by its owner, with
    /// `RUSTFLAGS='--cfg logdrive_min_level="info"'`: a feature would be switched on for everybody by anybody.
    pub const STATIC_MIN_LEVEL: Level = if cfg!(logdrive_min_level = "error") {
        Level::Error
    } else if cfg!(logdrive_min_level = "warn") {
        Level::Warn
    } else if cfg!(logdrive_min_level = "info") {
        Level::Info
    } else if cfg!(logdrive_min_level = "debug") {
        Level::Debug
    } else {
        Level::Trace
    };

    /// Milliseconds of a clock that never runs backwards.
    pub fn coarse_ms() -> u64 {
        logdrive_ring::clock::monotonic_ns() / 1_000_000
    }

    /// Brings the log to the kernel after a `fatal!`. Blocks at most five seconds without progress.
    pub fn after_fatal() {
        crate::flush();
    }
}
