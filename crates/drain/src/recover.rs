//! Recovery: drains a session whose process is dead, so that every committed record reaches the log once.

use crate::adopted_session::AdoptedSession;
use crate::error::BackendError;
use crate::file::{Disk, FileOptions, Storage};
use crate::flight_recorder::memory::RecorderMemory;
use crate::flight_recorder::{FlightRecorder, RecorderOptions};
use crate::limits::ANSWER_MS;
use crate::process_exit::describe_exit;
use crate::ship::ShipOptions;
use crate::sink::options::{Overflow, RecoverableSink, sinks_from_text};
use crate::stats::Stats;
use crate::status::BackendStatus;
use logdrive_ring::{Journal, RingError, SessionReader, file_part, find_sessions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Result of a recovery.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The application that had died.
    pub app: String,
    /// Its process.
    pub pid: u32,
    /// Records that were still in rings and buffers.
    pub records: u64,
    /// Records of the flight recorder that were written, because the process had crashed.
    pub kept: u64,
    /// The files that they were written to.
    pub files: Vec<PathBuf>,
    /// End of the process, in the words of the log.
    pub end: String,
    /// Descriptions of what could not be read.
    pub damage: Vec<String>,
}

/// Recovers one session into the files that it logged to, then removes it. With `into`, all goes to that file, which
/// a session without files needs.
///
/// # Errors
/// When the session is alive or damaged beyond reading, or a file cannot be opened. The session is left as it is.
pub fn recover(session: &Path, into: Option<&FileOptions>) -> Result<Recovered, BackendError> {
    recover_with(session, into, &(Arc::new(Disk) as Arc<dyn Storage>))
}

/// Recovers what dead processes of one application left, before it starts again. What goes wrong is noted; it must
/// not keep the application from starting, and a collector that does not answer is waited for once, however many
/// sessions have something for it.
pub(crate) fn recover_app(run_dirs: &[PathBuf], app: &str, status: &BackendStatus) {
    let mut collectors = Collectors::default();
    for session in dead_sessions(run_dirs, app) {
        let needed = collectors_of(&session);
        if needed.iter().any(|ship| !collectors.answers(ship)) {
            collectors.left += 1;
            continue;
        }
        match recover(&session, None) {
            // A sidecar of its own finishes a session whose process has just ended.
            Ok(_) | Err(BackendError::NoFile | BackendError::Ring(RingError::Alive { .. })) => {}
            // It died while it started; nothing was in it, and now it is gone.
            Err(BackendError::Ring(error)) if error.is_incomplete() => {}
            Err(error) => {
                if let BackendError::NoProgress { .. } = error {
                    needed.iter().for_each(|ship| collectors.give_up(ship));
                }
                status.notice(format!(
                    "cannot recover the session {}: {error}; try `logdrive recover`",
                    session.display()
                ));
            }
        }
    }
    if collectors.left > 0 {
        status.notice(format!(
            "{} sessions of earlier processes wait for a collector that does not answer: try `logdrive recover` when it does",
            collectors.left
        ));
    }
}

/// The collectors without which a session cannot be recovered: those of its sinks that have no spool.
fn collectors_of(session: &Path) -> Vec<ShipOptions> {
    let buffers = SessionReader::open(session).and_then(|view| view.buffers());
    let config = buffers.map(|buffers| buffers.config()).unwrap_or_default();
    let sinks = sinks_from_text(&String::from_utf8_lossy(&config)).into_iter();
    let ships = sinks.filter_map(|sink| sink.ship.map(|ship| *ship));
    ships.filter(|ship| !ship.has_spool()).collect()
}

/// Collectors that have answered or not, so that each is waited for once.
#[derive(Debug, Default)]
struct Collectors {
    /// By destination.
    known: Vec<(String, bool)>,
    /// Sessions that were left as they are.
    left: u64,
}

impl Collectors {
    fn answers(&mut self, ship: &ShipOptions) -> bool {
        let to = ship.destination();
        if let Some((_, answers)) = self.known.iter().find(|(known, _)| *known == to) {
            return *answers;
        }
        let answers = ship.answers(Duration::from_millis(ANSWER_MS));
        self.known.push((to, answers));
        answers
    }

    /// It has answered, and taken nothing.
    fn give_up(&mut self, ship: &ShipOptions) {
        let to = ship.destination();
        for (known, answers) in &mut self.known {
            *answers &= *known != to;
        }
    }
}

/// The journals that dead processes of one application left, the latest first, each with its last epoch.
pub(crate) fn journals_of(run_dirs: &[PathBuf], app: &str) -> Vec<Journal> {
    let mut journals: Vec<Journal> = Vec::new();
    for session in dead_sessions(run_dirs, app) {
        let Ok(buffers) = SessionReader::open(&session).and_then(|view| view.buffers()) else {
            continue;
        };
        let own = Journal {
            id: buffers.journal(),
            epoch: buffers.epoch(),
        };
        journals.extend(std::iter::once(own).chain(buffers.ancestors()));
    }
    journals.retain(|journal| journal.id != 0);
    // A recovery raises the epoch of the buffers that it works on; what was noted before it began is lower.
    journals.sort_unstable_by_key(|journal| (std::cmp::Reverse(journal.id), journal.epoch));
    journals.dedup_by_key(|journal| journal.id);
    journals
}

fn dead_sessions(run_dirs: &[PathBuf], app: &str) -> Vec<PathBuf> {
    let prefix = format!("{}-", file_part(app));
    let is_ours = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let rest = name.strip_prefix(&prefix).unwrap_or("x");
        rest.chars().all(|c| c.is_ascii_digit() || c == '-')
    };
    run_dirs
        .iter()
        .flat_map(|run_dir| find_sessions(run_dir).unwrap_or_default())
        .filter(|found| found.holder.is_none() && is_ours(&found.path))
        .map(|found| found.path)
        .collect()
}

fn recover_with(
    session: &Path,
    into: Option<&FileOptions>,
    storage: &Arc<dyn Storage>,
) -> Result<Recovered, BackendError> {
    let session = SessionReader::adopt(session)?;
    let mut recovered = Recovered {
        app: session.header().identity().app,
        pid: session.header().identity().pid,
        records: 0,
        kept: 0,
        files: Vec::new(),
        end: "the process had ended in order".to_owned(),
        damage: Vec::new(),
    };
    if session.header().totals().is_done {
        // The process died while it removed a session that had nothing left.
        session.remove()?;
        return Ok(recovered);
    }
    let mut adopted = AdoptedSession::new(session)?;
    let session = Arc::clone(&adopted.session);
    let stats = Stats::of_view(&session);
    if let (Some(into), Some(first)) = (into, adopted.sinks.first_mut()) {
        first.file = Some(into.clone());
    }
    recovered.files = adopted.sinks.iter().filter_map(destination).collect();
    if recovered.files.is_empty() && stats.pending() > 0 {
        return Err(BackendError::NoFile);
    }
    recovered.records = stats.pending();
    recovered.end = describe_exit(&session, &stats, None);
    let (_, broken) = session.rings();
    recovered.damage.extend(broken.iter().map(ToString::to_string));
    // A table that cannot be read would leave records of unknown callsites.
    session.callsites()?;
    drain_dead(&mut adopted, storage, &mut recovered)?;
    session.remove()?;
    Ok(recovered)
}

/// Destination of a sink's lines, as messages name it.
fn destination(sink: &RecoverableSink) -> Option<PathBuf> {
    let shipped = || Some(PathBuf::from(sink.ship.as_ref()?.destination()));
    sink.file.as_ref().map(|file| file.path.clone()).or_else(shipped)
}

/// Writes what the buffers hold, then drains the rings through the same sinks.
fn drain_dead(
    adopted: &mut AdoptedSession,
    storage: &Arc<dyn Storage>,
    recovered: &mut Recovered,
) -> Result<(), BackendError> {
    let recorder = adopt_recorder(adopted, recovered);
    let mut drain = adopted.drain(storage, Overflow::Hold, false, recorder)?;
    let is_drained = drain.run_to_end();
    if is_drained {
        recovered.kept = drain.dump_dead("the process has crashed");
    }
    if !is_drained || drain.has_failed() || !drain.close(Some(&recovered.end)) {
        adopted.status.abandon();
        return Err(BackendError::NoProgress {
            path: recovered.files.first().cloned().unwrap_or_default(),
        });
    }
    recovered.damage.extend(adopted.status.take_notices());
    Ok(())
}

/// Returns the flight recorder of the process. Where its memory is damaged, nothing of it can be reported, and the
/// rest is recovered.
fn adopt_recorder(adopted: &AdoptedSession, recovered: &mut Recovered) -> Option<FlightRecorder> {
    let file = match adopted.session.keep() {
        Ok(file) => file?,
        Err(error) => {
            recovered.damage.push(error.to_string());
            return None;
        }
    };
    let (memory, damage) = RecorderMemory::adopt(file, adopted.buffers.epoch());
    let damage = damage.map(|what| format!("the flight recorder's memory is damaged: {what}"));
    recovered.damage.extend(damage);
    let config = adopted.buffers.config();
    let options = RecorderOptions::from_text(&String::from_utf8_lossy(&config));
    Some(FlightRecorder::new(memory, options))
}

#[cfg(test)]
mod tests;
