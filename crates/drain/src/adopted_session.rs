//! Adoption of a session that another process made, by recovery when that process is dead, and by a sidecar while it
//! lives: what an earlier drain had begun is finished, then its rings are drained through the same sinks.

use crate::drain::Drain;
use crate::drain::counts::DrainCounts;
use crate::drain::pipeline::DrainParts;
use crate::error::BackendError;
use crate::file::Storage;
use crate::flight_recorder::FlightRecorder;
use crate::layout::ProcessInfo;
use crate::recover::mend_rings;
use crate::recovery_state::RecoveryState;
use crate::sink::drop_reason::SinkDrop;
use crate::sink::options::{Overflow, RecoverableSink, sinks_from_text};
use crate::sink::start::{SinkStarter, process_info};
use crate::sink::writer::IoRequest;
use crate::status::BackendStatus;
use logdrive_ring::{
    Buffers, DamageNotes, REPLACED_BUFFERS_NAME, RingError, SessionReader, excess_set_aside, mend_buffers,
    remove_set_aside, set_aside, set_aside_path,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

/// A session of another process, and the sinks that it describes.
#[derive(Debug)]
pub(crate) struct AdoptedSession {
    pub(crate) session: Arc<SessionReader>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) sinks: Vec<RecoverableSink>,
    pub(crate) status: Arc<BackendStatus>,
    pub(crate) stop: Arc<AtomicBool>,
    /// Recovery that goes before this session's own lines.
    pub(crate) recovery: Arc<RecoveryState>,
    /// Requests to the I/O threads, in the order of the sinks.
    pub(crate) writers: Vec<Sender<IoRequest>>,
    /// Counts of its drain.
    pub(crate) counts: Arc<DrainCounts>,
    /// Descriptions of damage, also those of earlier recoverers.
    pub(crate) notes: DamageNotes,
    /// Set if nobody knows the destinations of its sinks.
    pub(crate) has_lost_config: bool,
    /// Set if something that may hold records cannot be read.
    pub(crate) has_unread: bool,
    /// Sessions that were set aside earlier and make room for this one.
    excess: Vec<PathBuf>,
}

impl AdoptedSession {
    /// Reads the sinks of a session that is locked for this process.
    pub(crate) fn new(session: SessionReader) -> Result<Self, RingError> {
        let buffers = session.buffers()?;
        let mut notes = DamageNotes::open(session.path());
        let damage = mend_buffers(&buffers, &mut notes);
        save_texts(session.path(), &damage.texts)?;
        if !session.is_live() {
            mend_rings(&session, buffers.epoch(), &mut notes);
        }
        let mut sinks = sinks_from_text(&String::from_utf8_lossy(&buffers.config()));
        sinks.resize_with(buffers.sink_count(), RecoverableSink::default);
        Ok(Self {
            status: Arc::new(BackendStatus::new(sinks.len())),
            sinks,
            stop: Arc::default(),
            recovery: Arc::new(RecoveryState::none()),
            writers: Vec::new(),
            counts: Arc::default(),
            has_unread: has_set_parts_aside(session.path()) || has_unknown(&buffers),
            notes,
            has_lost_config: damage.has_lost_config,
            excess: Vec::new(),
            session: Arc::new(session),
            buffers,
        })
    }

    /// Returns whether the session is to be kept, because something in it cannot be read, as far as is known by now.
    pub(crate) fn has_unread(&self) -> bool {
        // Relaxed: the drain has ended.
        let is_some = |count: &AtomicU64| count.load(Ordering::Relaxed) > 0;
        self.has_unread || is_some(&self.counts.quarantined) || is_some(&self.counts.malformed)
    }

    /// Describes what its drain could not read.
    pub(crate) fn describe_unread(&self) -> impl Iterator<Item = String> + use<> {
        // Relaxed: as above.
        let rings = self.counts.quarantined.load(Ordering::Relaxed);
        let records = self.counts.malformed.load(Ordering::Relaxed);
        let rings = (rings > 0).then(|| format!("{rings} rings could not be read to their end"));
        let records = (records > 0).then(|| format!("{records} records have no callsite that is known"));
        rings.into_iter().chain(records)
    }

    /// Notes that the session is kept and where, and the kept ones that go to make room for it; returns the latter lines.
    pub(crate) fn note_aside(&mut self) -> Vec<String> {
        let session = self.session.path();
        let aside = set_aside_path(session);
        self.notes.note(&format!(
            "what cannot be read of the session stays in {}: look into it, or remove it with `rm -r`",
            aside.display()
        ));
        self.excess = excess_set_aside(session, &self.session.header().identity().app);
        let removed = self.excess.iter().map(|path| {
            format!(
                "the damaged session {} was removed, to make room for newer ones",
                path.display()
            )
        });
        let removed: Vec<String> = removed.collect();
        for line in &removed {
            self.notes.note(line);
        }
        removed
    }

    /// Removes the session, of which all that is whole is written; sets it aside where something cannot be read. Returns
    /// its path then. What was told to make room for it is removed.
    pub(crate) fn end(&self) -> Result<Option<PathBuf>, RingError> {
        for path in &self.excess {
            // One that stays is told and tried again with the next session that is set aside.
            let _ = remove_set_aside(path);
        }
        match self.has_unread() {
            true => set_aside(&self.session).map(Some),
            false => self.session.remove().map(|()| None),
        }
    }

    /// Opens the sinks, finishes what an earlier drain had begun to write, and returns a drain for the rest. Notes buffers
    /// whose records cannot be read.
    pub(crate) fn drain(
        &mut self,
        storage: &Arc<dyn Storage>,
        overflow: Overflow,
        coarse_clock: bool,
        recorder: Option<FlightRecorder>,
    ) -> Result<Drain, BackendError> {
        let header = self.session.header();
        let starter = SinkStarter {
            buffers: Arc::clone(&self.buffers),
            storage: Arc::clone(storage),
            status: Arc::clone(&self.status),
            process: ProcessInfo {
                pid: header.identity().pid,
                ..process_info(&header.identity().app)
            },
            recovery: Arc::clone(&self.recovery),
            run_dirs: self
                .session
                .path()
                .parent()
                .map(Path::to_owned)
                .into_iter()
                .collect(),
        };
        let sinks = self.sinks.iter().enumerate();
        let sinks = sinks.map(|(index, sink)| starter.adopt(index, sink, overflow, &mut self.notes));
        let sinks = sinks.collect::<Result<Vec<_>, _>>()?;
        self.writers = sinks.iter().map(|sink| sink.sender()).collect();
        let parts = DrainParts {
            session: Arc::clone(&self.session),
            buffers: Arc::clone(&self.buffers),
            sinks,
            router: None,
            recorder,
            status: Arc::clone(&self.status),
            counts: Arc::clone(&self.counts),
            stop: Arc::clone(&self.stop),
            coarse: coarse_clock,
        };
        Ok(Drain::new(parts, None))
    }
}

/// Front of the names of files with text of which nobody knows whether the log has it.
const TEXT_PREFIX: &str = "text-";

/// Writes text of which nobody knows whether the log has it to files in the directory of a session, beside those of an
/// earlier recoverer, which may have been killed before it had written another text to the same buffer.
fn save_texts(session: &Path, texts: &[Vec<u8>]) -> Result<(), RingError> {
    let mut numbers = 0..;
    for text in texts {
        for number in numbers.by_ref() {
            let path = session.join(format!("{TEXT_PREFIX}{number}"));
            match std::fs::read(&path) {
                Ok(saved) if saved == *text => break,
                Ok(_) => {}
                Err(_) => {
                    save_text(&path, text)?;
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Writes a file that has its name once it is whole.
fn save_text(path: &Path, text: &[u8]) -> Result<(), RingError> {
    let unnamed = path.with_extension("new");
    let written = std::fs::write(&unnamed, text).and_then(|()| std::fs::rename(&unnamed, path));
    written.map_err(|cause| RingError::Io {
        action: "write",
        path: path.to_owned(),
        cause,
    })
}

/// Returns whether this recoverer or an earlier one has put parts of the session aside that cannot be read.
fn has_set_parts_aside(session: &Path) -> bool {
    let files = std::fs::read_dir(session).into_iter().flatten().flatten();
    files.into_iter().any(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with(TEXT_PREFIX) || name == REPLACED_BUFFERS_NAME
    })
}

/// Returns whether any sink counts records of unknown callsites: an earlier recoverer may have taken them.
fn has_unknown(buffers: &Buffers) -> bool {
    let of_sink = |sink| buffers.counts(sink).dropped[SinkDrop::Unknown as usize];
    (0..buffers.sink_count()).any(|sink| of_sink(sink) > 0)
}
