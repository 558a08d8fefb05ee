//! A transfer over QUIC under a logger, and what becomes of its events: a run of the `quic` workload and of the demo.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::lines::count_file;
use crate::quic::{Transfer, transfer};
use crate::subjects::count_only::CountOnly;
use crate::subjects::tracing_fmt::TracingFmt;
use crate::subjects::{Full, Subject, Target, logdrive as ours};
use crate::{BenchError, Result};

/// A transfer under a logger, and what became of the events.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LoggedTransfer {
    /// The transfer itself.
    pub transfer: Transfer,
    /// The events that were emitted; `None` where there was no subscriber.
    pub events: Option<u64>,
    /// The events that are not in the log.
    pub lost_events: u64,
    /// The size of the log.
    pub log_bytes: u64,
}

impl LoggedTransfer {
    fn without_log(transfer: Transfer, events: Option<u64>) -> LoggedTransfer {
        LoggedTransfer {
            transfer,
            events,
            lost_events: 0,
            log_bytes: 0,
        }
    }
}

/// Callback with the bytes that have arrived, see [`transfer`].
pub type Progress = Box<dyn FnMut(u64) + Send>;

/// Runs the transfer with the logger called `name` writing to `path`.
pub fn run_subject(name: &str, path: &Path, total_bytes: u64, progress: Progress) -> Result<LoggedTransfer> {
    let target = Target::in_place(path, Full::Block);
    match name {
        "none" => Ok(LoggedTransfer::without_log(
            transfer(total_bytes, progress)?,
            None,
        )),
        "count" => {
            let counter = CountOnly::install()?;
            let transfer = transfer(total_bytes, progress)?;
            Ok(LoggedTransfer::without_log(transfer, Some(counter.events())))
        }
        "tracing-subscriber" => run_fmt(
            TracingFmt::buffered_counted(&target)?,
            path,
            total_bytes,
            progress,
        ),
        "tracing-appender" => run_fmt(
            TracingFmt::appender_counted(&target)?,
            path,
            total_bytes,
            progress,
        ),
        name if name.starts_with("logdrive") => run_logdrive(name, &target, total_bytes, progress),
        other => Err(BenchError::subject(
            other,
            "is no logger for this transfer in this build",
        )),
    }
}

fn run_fmt(logger: TracingFmt, path: &Path, total_bytes: u64, progress: Progress) -> Result<LoggedTransfer> {
    let transfer = transfer(total_bytes, progress)?;
    let events = logger.events();
    logger.finish()?;
    let count = count_file(path, b"\n")?;
    Ok(LoggedTransfer {
        transfer,
        events: Some(events),
        lost_events: events.saturating_sub(count.lines),
        log_bytes: count.bytes,
    })
}

/// Stands in every line that quinn's events make, by the name of its modules,
/// and in no line of Logdrive about itself.
pub const EVENT_MARKER: &[u8] = b"quinn";

fn run_logdrive(name: &str, target: &Target, total_bytes: u64, progress: Progress) -> Result<LoggedTransfer> {
    let to_file = name != "logdrive-discard";
    let builder = match to_file {
        true => ours::to_file(target)?,
        false => ours::to_nowhere(Full::Block),
    };
    let level = if name == "logdrive-debug" {
        "debug"
    } else {
        "trace"
    };
    let guard = ours::start(builder.filter(level))?;
    ours::install_subscriber()?;
    let transfer = transfer(total_bytes, progress)?;
    let stats = ours::stop(guard)?;
    let events = stats.committed + stats.dropped_calls();
    let (kept, log_bytes) = if to_file {
        let count = count_file(&target.path, EVENT_MARKER)?;
        (count.marked, count.bytes)
    } else {
        let dropped: u64 = stats.sinks.iter().map(::logdrive::SinkStats::dropped).sum();
        (stats.committed - dropped, 0)
    };
    Ok(LoggedTransfer {
        transfer,
        events: Some(events),
        lost_events: events.saturating_sub(kept),
        log_bytes,
    })
}
