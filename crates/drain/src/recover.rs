//! Recovery: drains a session whose process is dead, so that every committed record reaches the log once.

use crate::adopted_session::AdoptedSession;
use crate::drain::Closed;
use crate::error::BackendError;
use crate::file::{Disk, FileOptions, Storage, is_locked};
use crate::flight_recorder::memory::RecorderMemory;
use crate::flight_recorder::{FlightRecorder, RecorderOptions};
use crate::limits::{LOCK_PAUSE, LOCK_WAIT};
use crate::process_exit::{END_LEVEL, Exit, describe_exit};
use crate::recovery_state::RecoveryState;
use crate::sink::options::{Overflow, RecoverableSink, SinkOptions, Target, sinks_to_text};
use crate::stats::Stats;
use logdrive_ring::{DamageNotes, SessionReader, is_set_aside, replace_buffers};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

mod application;
mod held_sessions;
mod ring_damage;

pub(crate) use application::{ApplicationRecovery, journals_of, start_recovery};
pub(crate) use ring_damage::mend_rings;

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
    /// Descriptions of what is damaged.
    pub damage: Vec<String>,
    /// The session, where something that may hold records cannot be read, so that it was kept.
    pub set_aside: Option<PathBuf>,
}

/// Recovers one session into the files that it logged to, then removes it; where something in it cannot be read, it is
/// kept under another name, and the log says so. With `into`, all goes to that file, which
/// a session without files needs.
///
/// # Errors
/// When the session is alive or damaged beyond reading, or a file cannot be opened. The session is left as it is.
pub fn recover(session: &Path, into: Option<&FileOptions>) -> Result<Recovered, BackendError> {
    recover_with(session, into, None, &(Arc::new(Disk) as Arc<dyn Storage>), None)
}

/// Recovers the session of a process that has just ended into its own files. `exit` is the kernel's word for that.
pub(crate) fn recover_ended(session: &Path, exit: Option<Exit>) -> Result<Recovered, BackendError> {
    let end = EndContext { exit, state: None };
    recover_as(session, None, None, &(Arc::new(Disk) as Arc<dyn Storage>), end)
}

/// Knowledge of a recovery about the process, and state that it shares with a start.
#[derive(Debug, Clone, Copy, Default)]
struct EndContext<'a> {
    exit: Option<Exit>,
    state: Option<&'a RecoveryState>,
}

/// `fallback` is the file for a session that is damaged so that nobody knows its own.
fn recover_with(
    session: &Path,
    into: Option<&FileOptions>,
    fallback: Option<&FileOptions>,
    storage: &Arc<dyn Storage>,
    state: Option<&RecoveryState>,
) -> Result<Recovered, BackendError> {
    recover_as(session, into, fallback, storage, EndContext { exit: None, state })
}

fn recover_as(
    session: &Path,
    into: Option<&FileOptions>,
    fallback: Option<&FileOptions>,
    storage: &Arc<dyn Storage>,
    ending: EndContext<'_>,
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
        set_aside: None,
    };
    if session.header().totals().is_done {
        // The process died while it removed a session that had nothing left.
        session.remove()?;
        return Ok(recovered);
    }
    replace_lost_buffers(&session, into.or(fallback))?;
    let mut adopted = AdoptedSession::new(session)?;
    if let Some(state) = ending.state {
        state.begin(&adopted.status);
    }
    let session = Arc::clone(&adopted.session);
    let stats = Stats::of_view(&session);
    let into = into.or(fallback.filter(|_| adopted.has_lost_config));
    if let (Some(into), Some(first)) = (into, adopted.sinks.first_mut()) {
        first.file = Some(into.clone());
    }
    let others = adopted.buffers.sink_count() > 1;
    adopted.has_unread |= adopted.has_lost_config && others && stats.pending() > 0;
    recovered.files = adopted
        .sinks
        .iter()
        .filter_map(RecoverableSink::destination)
        .collect();
    if recovered.files.is_empty() && stats.pending() > 0 {
        return Err(BackendError::NoFile);
    }
    recovered.records = stats.pending();
    recovered.end = describe_exit(&session, &stats, ending.exit);
    recovered.end.extend(describe_private_rings(&session));
    find_damage(&mut adopted, &mut recovered);
    if is_set_aside(session.path()) && stats.pending() == 0 {
        // All that is whole of it is in the log, with its end.
        recovered.set_aside = Some(session.path().to_owned());
        return Ok(recovered);
    }
    drain_dead(&mut adopted, storage, &mut recovered)?;
    recovered.set_aside = adopted.end()?;
    Ok(recovered)
}

/// Describes rings that have gone with the process.
fn describe_private_rings(session: &SessionReader) -> Option<String> {
    let count = session.private_rings();
    (count > 0).then(|| {
        format!(
            "; {count} of its rings were in memory of the process, for lack of room: what they held is lost"
        )
    })
}

/// Makes new output buffers where those of a session cannot be read.
fn replace_lost_buffers(session: &SessionReader, into: Option<&FileOptions>) -> Result<(), BackendError> {
    let Err(error) = session.buffers() else {
        return Ok(());
    };
    let Some(into) = into else {
        return Err(error.into());
    };
    let text = format!("{error}; lines that wait in them are not in the log");
    DamageNotes::open(session.path()).note(&text);
    // No epoch is known from here on.
    session.header().settle_account(u64::MAX);
    let sink = SinkOptions::new(Target::File(into.clone()));
    replace_buffers(session.path(), sinks_to_text(&[sink]).as_bytes())?;
    Ok(())
}

/// Collects what is damaged.
fn find_damage(adopted: &mut AdoptedSession, recovered: &mut Recovered) {
    let session = Arc::clone(&adopted.session);
    let (_, broken) = session.rings();
    adopted.has_unread |= !broken.is_empty();
    for error in broken {
        adopted.notes.note(&error.to_string());
    }
    if let Err(error) = session.callsites() {
        // Its records are lines about unknown callsites.
        adopted.has_unread = true;
        adopted.notes.note(&error.to_string());
    }
    recovered.damage = adopted.notes.lines().to_vec();
}

/// Writes what the buffers hold, then drains the rings through the same sinks.
fn drain_dead(
    adopted: &mut AdoptedSession,
    storage: &Arc<dyn Storage>,
    recovered: &mut Recovered,
) -> Result<(), BackendError> {
    wait_for_locks(adopted, storage);
    let recorder = adopt_recorder(adopted, recovered);
    let mut drain = adopted.drain(storage, Overflow::Hold, false, recorder)?;
    // With that of the output buffers.
    recovered.damage = adopted.notes.lines().to_vec();
    drain.tell_damage(&recovered.damage);
    let is_drained = drain.run_to_end();
    if is_drained {
        recovered.kept = drain.dump_dead("the process has crashed");
        if adopted.has_unread() {
            recovered.damage.extend(adopted.describe_unread());
            recovered.damage.extend(adopted.note_aside());
            drain.tell_damage(adopted.notes.lines());
        }
    }
    let closed = match is_drained && !drain.has_failed() {
        true => drain.close(Some((END_LEVEL, &recovered.end)), None),
        false => Closed::default(),
    };
    if !closed.is_complete {
        adopted.status.abandon();
        return Err(BackendError::NoProgress {
            path: recovered.files.first().cloned().unwrap_or_default(),
        });
    }
    recovered.end = closed.end.unwrap_or_default();
    let notices = adopted.status.take_notices();
    recovered.damage.extend(notices.into_iter().map(|(_, text)| text));
    Ok(())
}

/// Waits for the locks of the logs while the process is still there, with another program or at its very end: the kernel
/// frees its session first, and its logs a moment later. Those of other processes are not waited for.
fn wait_for_locks(adopted: &AdoptedSession, storage: &Arc<dyn Storage>) {
    let deadline = Instant::now() + LOCK_WAIT;
    let files = || adopted.sinks.iter().filter_map(|sink| sink.file.as_ref());
    while adopted.session.header().has_executed()
        && files().any(|file| is_locked(file, storage))
        && Instant::now() < deadline
    {
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Returns the flight recorder of the process. Where its memory is damaged, nothing of it can be reported, and the
/// rest is recovered.
fn adopt_recorder(adopted: &mut AdoptedSession, recovered: &mut Recovered) -> Option<FlightRecorder> {
    let file = match adopted.session.keep() {
        Ok(file) => file?,
        Err(error) => {
            note_lost_recorder(adopted, recovered, &error.to_string());
            return None;
        }
    };
    let (memory, damage) = RecorderMemory::adopt(file, adopted.buffers.epoch());
    if let Some(what) = damage {
        let text = format!("the flight recorder's memory is damaged: {what}");
        note_lost_recorder(adopted, recovered, &text);
    }
    let config = adopted.buffers.config();
    let options = RecorderOptions::from_text(&String::from_utf8_lossy(&config));
    Some(FlightRecorder::new(memory, options))
}

fn note_lost_recorder(adopted: &mut AdoptedSession, recovered: &mut Recovered, text: &str) {
    adopted.has_unread = true;
    adopted.notes.note(text);
    recovered.damage = adopted.notes.lines().to_vec();
}

#[cfg(test)]
mod tests;
