//! Logdrive, called through its own macros, through `tracing` and through
//! `log`.
//!
//! Everything is the default (text layout, UTC, rings of 1 MiB, the TSC)
//! except for what a subject's name or a workload's policy says.

use std::sync::Arc;
use std::time::Instant;

use logdrive::{Clock, Full as Policy, Guard, Overflow, Stats};
use logdrive_drain::control::{Action, Selector, change, put_rule};
use logdrive_drain::file::{Fault, Faulty, Operation};
use logdrive_ring::SessionReader;

#[cfg(feature = "workloads")]
use super::agent::AgentProcess;
use super::in_place::InPlace;
use super::{Ended, Full, Subject, Target, Visitor, formatted_calls, tracing_calls};
use crate::{BenchError, Result, warm};

/// The application's name in the session; without the names of other crates,
/// that distinguishes their lines from ours.
const APP: &str = "bench";

/// Sets up the Logdrive subject called `name` and runs `visitor` with it.
pub fn visit<V: Visitor>(name: &str, target: &Target, visitor: V) -> Result<V::Output> {
    let builder = to_file(target)?;
    match name {
        // The file drops nothing that was committed, so that a hang fills the rings.
        "logdrive-hold" => {
            let file = text_file(target).overflow(Overflow::Hold);
            visitor.visit(Macros(start(with_file(target, file)?)?))
        }
        "logdrive" | "logdrive-args" => visitor.visit(Macros(start(builder)?)),
        #[cfg(feature = "workloads")]
        "logdrive-agent" => {
            let agent = AgentProcess::start(&target.path, target.in_place)?;
            let guard = start(base(target.full).agent(agent.socket()))?;
            if logdrive::session_path().is_some() {
                return Err(BenchError::subject(name, "no agent has its session"));
            }
            let output = visitor.visit(Macros(guard))?;
            // Outside of every clock: what was logged is with the kernel.
            agent.end();
            Ok(output)
        }
        "logdrive-coarse" => visitor.visit(Macros(start(builder.clock(Clock::Coarse))?)),
        "logdrive-disabled" => visitor.visit(Disabled(start(builder.filter("info"))?)),
        "logdrive-sampled" => {
            let guard = start(builder)?;
            sample_all(name)?;
            visitor.visit(Macros(guard))
        }
        "logdrive-tracing" => {
            let guard = start(builder)?;
            install_subscriber()?;
            visitor.visit(Tracing(guard))
        }
        "logdrive-log" => {
            let guard = start(builder)?;
            logdrive::log::install().map_err(|error| BenchError::subject(name, error))?;
            visitor.visit(Log(guard))
        }
        other => Err(BenchError::subject(other, "is no subject of Logdrive")),
    }
}

/// From now on, next to all calls are left out.
fn sample_all(name: &str) -> Result<()> {
    put(&own_session(name)?, Action::Every(1_000_000))
}

/// The session of this process; `name` stands in errors.
pub fn own_session(name: &str) -> Result<SessionReader> {
    let session = logdrive::session_path().ok_or_else(|| BenchError::subject(name, "no session"))?;
    SessionReader::open(&session).map_err(|error| BenchError::subject(name, error))
}

/// Puts a rule for all callsites in force.
pub fn put(session: &SessionReader, action: Action) -> Result<()> {
    let put = |rules: &mut Vec<_>, now| put_rule(rules, action, Selector::All, 0, now);
    change(session, put).map_err(|error| BenchError::subject(APP, error))?;
    Ok(())
}

/// A logger that writes text to the target.
pub fn to_file(target: &Target) -> Result<logdrive::Builder> {
    with_file(target, text_file(target))
}

fn text_file(target: &Target) -> logdrive::File {
    logdrive::File::new(&target.path).layout(logdrive::Layout::text())
}

fn with_file(target: &Target, file: logdrive::File) -> Result<logdrive::Builder> {
    let builder = base(target.full).file(file);
    if let Some(hang) = target.hang {
        return Ok(builder.storage(hanging_storage(hang)));
    }
    if !target.in_place {
        return Ok(builder);
    }
    let open = warm::open_in_place(&target.path)?;
    let storage = InPlace::new(&open).map_err(BenchError::io("examine", &target.path))?;
    Ok(builder.storage(Arc::new(storage)))
}

/// A logger that formats and throws away.
pub fn to_nowhere(full: Full) -> logdrive::Builder {
    base(full).discard()
}

fn base(full: Full) -> logdrive::Builder {
    let policy = match full {
        Full::Drop => Policy::Drop,
        Full::Wait => Policy::Wait,
        Full::Block => Policy::Block,
    };
    // The environment of the caller must not change what is measured.
    logdrive::builder(APP).use_env(false).full(policy)
}

/// Starts a logger.
pub fn start(builder: logdrive::Builder) -> Result<Guard> {
    builder
        .init()
        .map_err(|error| BenchError::subject("logdrive", error))
}

/// Makes Logdrive the subscriber of `tracing` in this process.
pub fn install_subscriber() -> Result<()> {
    tracing::subscriber::set_global_default(logdrive::tracing::subscriber())
        .map_err(|error| BenchError::subject("logdrive", error))
}

/// Ends a logger and returns its final numbers.
pub fn stop(guard: Guard) -> Result<Stats> {
    match guard.stop() {
        Some((logdrive::Stopped::Complete, stats)) => Ok(stats),
        Some((logdrive::Stopped::LeftForRecovery, _)) => Err(BenchError::subject(
            "logdrive",
            "could not write all, and left the rest in its session",
        )),
        None => Err(BenchError::subject("logdrive", "had ended before")),
    }
}

fn ended(guard: Guard) -> Result<Ended> {
    let stats = stop(guard)?;
    let by_sinks: u64 = stats.sinks.iter().map(logdrive::SinkStats::dropped).sum();
    Ok(Ended {
        dropped_counted: stats.dropped_calls() + by_sinks,
    })
}

/// A disk whose every write that begins between two moments hangs until the
/// second.
fn hanging_storage((begin, end): (Instant, Instant)) -> Arc<Faulty> {
    let storage = Arc::new(Faulty::new());
    let switch = storage.clone();
    std::thread::spawn(move || {
        std::thread::sleep(begin.saturating_duration_since(Instant::now()));
        switch.fail(Operation::WriteAt, 0, u64::MAX, Fault::Hang);
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        switch.clear();
    });
    storage
}

/// Logdrive's own macros.
struct Macros(Guard);

impl Subject for Macros {
    formatted_calls!(logdrive::info);

    fn finish(self) -> Result<Ended> {
        ended(self.0)
    }
}

/// A call whose level is switched off.
struct Disabled(Guard);

impl Subject for Disabled {
    formatted_calls!(logdrive::debug);

    fn finish(self) -> Result<Ended> {
        ended(self.0)
    }
}

/// The macros of `tracing`, with fields.
struct Tracing(Guard);

impl Subject for Tracing {
    tracing_calls!();

    fn finish(self) -> Result<Ended> {
        ended(self.0)
    }
}

/// The macros of `log`.
struct Log(Guard);

impl Subject for Log {
    formatted_calls!(log::info);

    fn finish(self) -> Result<Ended> {
        ended(self.0)
    }
}
