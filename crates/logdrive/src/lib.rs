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
mod shutdown;
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
    BackendError, CallbackSink, Filter, FilterError, MemorySink, Overflow, Recovered, SinkDrop, SinkOptions,
    SinkStats, Stats, Stopped, Sync, Target, Targets, recover,
};
pub use logdrive_ring::{DropReason, FullPolicy as Full};
#[cfg(all(feature = "ship", target_os = "linux"))]
pub use logdrive_ship::TransportError as ShipError;
pub use logdrive_wire::Level;
pub use runtime::InitError;
#[cfg(all(feature = "ship", target_os = "linux"))]
pub use sinks::Ship;
pub use sinks::{Console, File, IntoSink, Layout};

/// Waits until the kernel has everything that was committed before the call, in all sinks. Nothing is lost when it fails:
/// the records stay in the session and are still written.
///
/// Blocks while any sink makes progress. Returns `false` after five seconds without progress, and `true` at once when no
/// logger runs. Any thread may call it; a signal handler may not, because it takes locks and allocates. In one that has
/// interrupted the logger it returns `false` at once.
///
/// Where an agent has the session, it waits for the sinks to which the agent sends this program's records, and also returns
/// `false` when one of them has lost a record since the last call.
pub fn flush() -> bool {
    runtime::ask(|engine| engine.flush(false)).unwrap_or(!is_interrupted())
}

/// Writes the records of the flight recorder to the log, with everything that was committed before the call, and forgets
/// them. Blocks and fails as [`flush`] does; without a flight recorder it is [`flush`]. See [`Keep`].
pub fn dump() -> bool {
    runtime::ask(|engine| engine.dump(None)).unwrap_or(!is_interrupted())
}

/// Writes only the kept records that are not older than `time`, as [`dump`] does. Older ones are forgotten without being
/// written.
pub fn dump_last(time: std::time::Duration) -> bool {
    runtime::ask(|engine| engine.dump(Some(time))).unwrap_or(!is_interrupted())
}

/// Waits as [`flush`] does, then makes all files durable with `fdatasync`, so that their lines survive a power failure:
/// those that are written, those that were rotated since the last call, and their names.
///
/// Blocks for as long as the disks take. Returns `false` in the cases of [`flush`], and where something that was logged
/// since the last answer may not be on disk: a disk flush has failed, also one that [`Sync`] has asked for, or a file was
/// deleted before it was durable. The log names the file. What is still in memory then goes to a new file; a later `true` is
/// about what was logged after the `false`.
pub fn sync() -> bool {
    runtime::ask(|engine| engine.flush(true)).unwrap_or(!is_interrupted())
}

/// Waits as [`flush`] does, then until collectors have acknowledged all of it, at most `timeout` in all. Returns `false`
/// when a part is still in memory or in a spool; it is sent later all the same. Without a [`Ship`] sink it is [`flush`].
#[cfg(all(feature = "ship", target_os = "linux"))]
pub fn deliver(timeout: std::time::Duration) -> bool {
    runtime::ask(|engine| engine.deliver(timeout)).unwrap_or(!is_interrupted())
}

/// Returns the state of each [`Ship`] sink, with its index among the sinks. Empty when no logger runs, and where an agent has
/// the session, because the sinks are the agent's. Allocates; does not block.
#[cfg(all(feature = "ship", target_os = "linux"))]
pub fn shipping() -> Vec<(usize, ForwardState)> {
    runtime::ask(|engine| engine.shipping()).unwrap_or_default()
}

/// Opens all log files again, after another program has moved them away. Returns at once; the drain opens them before it
/// writes more lines, and no line is lost. Does nothing when no logger runs, or where an agent has the session.
pub fn reopen() {
    let _none_runs = runtime::ask(|engine| engine.reopen());
}

/// Returns the statistics of the running logger since its start; `None` when none runs. Allocates, and does not wait for the
/// drain, so that records of this moment may not be counted as written yet.
pub fn stats() -> Option<Stats> {
    runtime::ask(runtime::stats_of)
}

/// Replaces the filter of the running logger, for all callsites at once, those of later calls included. Returns `false` when
/// no logger runs. Allocates and takes a lock for which first calls of callsites wait; not for signal handlers. Rules of live
/// control stay in force.
pub fn set_filter(filter: Filter) -> bool {
    runtime::set_filter(filter)
}

/// Returns true in a signal handler that has interrupted the logger in its thread, which then waits for nothing.
fn is_interrupted() -> bool {
    logdrive_ring::local::is_busy()
}

/// Returns the directory of this process's session, for `logdrive stats` and for tests. `None` when no logger runs, or where
/// an agent has the session in its memory.
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

    /// Writes the log after a `fatal!`, as [`flush`](crate::flush) does.
    pub fn after_fatal() {
        crate::flush();
    }
}
