//! The run that is killed by SIGKILL half-way, and the recovery of its log.

use std::path::{Path, PathBuf};
use std::time::Instant;

use logdrive_bench::lines::count_file;
use logdrive_bench::logged::EVENT_MARKER;
use logdrive_bench::quic::transfer;
use logdrive_bench::subjects::logdrive as ours;
use logdrive_bench::subjects::{Full, Target};
use logdrive_bench::{BenchError, Result};

use logdrive_ring::SessionReader;
use logdrive_testkit::report;

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
        report(&format!("session {}", session.display()));
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
    let failed = |error: &dyn std::fmt::Display| BenchError::subject("logdrive", error);
    // By the counters of the dead process, which outlive it.
    let view = SessionReader::open(&session).map_err(|error| failed(&error))?;
    let committed = logdrive::Stats::of_view(&view).committed;
    let start = Instant::now();
    // As `logdrive recover` and the next start of the program do.
    let recovered = logdrive::recover(&session, None).map_err(|error| failed(&error))?;
    let recovery_ms = start.elapsed().as_millis();
    let count = count_file(log, EVENT_MARKER)?;
    println!(
        "killed by SIGKILL at {committed} events; {} of them were not in the file yet: recovered in {recovery_ms} ms\n",
        recovered.records
    );
    let lost = committed.saturating_sub(count.marked);
    Ok(Row::of_killed(TITLE, count.bytes, lost))
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
    running.process.kill();
    session.ok_or_else(|| BenchError::subject("logdrive", "the run did not print its session"))
}
