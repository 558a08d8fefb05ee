//! The run that is killed by SIGKILL half-way, and the recovery of its log.

use std::path::{Path, PathBuf};
use std::time::Instant;

use logdrive_bench::lines::count_file;
use logdrive_bench::quic::transfer;
use logdrive_bench::subjects::logdrive as ours;
use logdrive_bench::subjects::{Full, Target};
use logdrive_bench::workloads::quic::EVENT_MARKER;
use logdrive_bench::{BenchError, Result};

use crate::child::{self, Message, Request};
use crate::summary::Row;

/// Name of the logger in the request to the child that will be killed.
pub(crate) const LOGGER: &str = "logdrive-to-be-killed";
const TITLE: &str = "logdrive, killed";

/// Runs a transfer in the child, which logs until it is killed. First the path of the session is printed.
pub(crate) fn serve(request: &Request) -> Result<()> {
    let builder = ours::to_file(&Target::new(&request.log, Full::Block))?;
    let guard = ours::start(builder.filter("trace"))?;
    ours::install_subscriber()?;
    if let Some(session) = logdrive::session_path() {
        child::say(&format!("session {}", session.display()));
    }
    transfer(request.bytes, child::progress())?;
    ours::stop(guard).map(drop)
}

/// Starts a run, kills it when half has arrived, recovers its log, and counts.
pub(crate) fn run(log: &Path, bytes: u64) -> Result<Row> {
    remove_old(log)?;
    let request = Request {
        logger: LOGGER.to_string(),
        log: log.to_path_buf(),
        bytes,
    };
    let session = kill_half_way(&request)?;
    let committed = committed_events(&session)?;
    let start = Instant::now();
    let recovered = recover(&session)?;
    let recovery_ms = start.elapsed().as_millis();
    let count = count_file(log, EVENT_MARKER)?;
    println!(
        "killed by SIGKILL at {committed} events; {} of them were not in the file yet: recovered in {recovery_ms} ms\n",
        recovered.records
    );
    Ok(Row::of_killed(
        TITLE,
        count.bytes,
        committed.saturating_sub(count.marked),
    ))
}

fn remove_old(log: &Path) -> Result<()> {
    match std::fs::remove_file(log) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(BenchError::io("remove", log)(error))
        }
        _ => Ok(()),
    }
}

fn kill_half_way(request: &Request) -> Result<PathBuf> {
    let mut running = child::start(TITLE, request)?;
    let mut session = None;
    while let Some(message) = running.next_message() {
        match message {
            Message::Session(path) => session = Some(path),
            Message::Progress(bytes) if bytes >= request.bytes / 2 => break,
            _ => {}
        }
    }
    running.clear_bar();
    // On Unix this is SIGKILL.
    running
        .process
        .kill()
        .and_then(|()| running.process.wait())
        .map_err(BenchError::io("kill", Path::new("the transfer")))?;
    session.ok_or_else(|| BenchError::subject("logdrive", "the run did not print its session"))
}

/// The events that the dead process had committed, by its own counters, which
/// outlive it.
fn committed_events(session: &Path) -> Result<u64> {
    let view = logdrive_ring::SessionReader::open(session)
        .map_err(|error| BenchError::subject("logdrive", error))?;
    Ok(logdrive::Stats::of_view(&view).committed)
}

/// Recovers the log as `logdrive recover` and the next start of the program do.
fn recover(session: &Path) -> Result<logdrive::Recovered> {
    logdrive::recover(session, None).map_err(|error| BenchError::subject("logdrive", error))
}
