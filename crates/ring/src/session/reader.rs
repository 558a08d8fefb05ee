//! Reading handle of a session: what the drain, a sidecar, an agent, a recoverer and tools have of it.
//!
//! The process that logs may write all of the memory at any time, and it may be hostile. So every shared word is read
//! once, checked, and bounded by what was mapped. Only where the session is this process's own do the counts of its
//! writing handle take the place of those in shared memory.
#![allow(unsafe_code)]

use super::SessionMemory;
use super::writer::SessionWriter;
use crate::buffers::Buffers;
use crate::control::ControlEntry;
use crate::counts::CallsiteCounts;
use crate::files::{self, DrainLock, SessionDir, open_existing};
use crate::header::RingState;
use crate::keep_file::KeepFile;
use crate::ring::Ring;
use crate::rules::RulesFile;
use crate::session_header::{SESSION_BYTES, SessionHeader};
use crate::{RingError, sys};
use callsite_files::{CallsiteFiles, table_bytes};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

mod callsite_files;
mod damage_notes;
mod session_damage;

pub use damage_notes::DamageNotes;
use session_damage::SessionDamage;
pub use session_damage::set_aside;

/// Reading handle of a session, dead or alive.
///
/// Levels and sampling may be changed through it, and a drain gives rings back through it; records, callsites and rings
/// are only read. Mappings of counts, rules and control entries are made when they are first needed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use logdrive_ring::{SessionOptions, SessionReader, SessionWriter, control};
/// # let run_dir = std::env::temp_dir().join(format!("logdrive-reader-doc-{}", std::process::id()));
/// let options = SessionOptions {
///     app: "shop".to_owned(),
///     run_dirs: vec![run_dir.clone()],
///     ring_bytes: 1 << 16,
///     config: Vec::new(),
///     sink_count: 0,
///     buffers_per_sink: 0,
///     buffer_bytes: 512 * 1024,
///     sinks_at_start: 0,
///     keep_bytes: 0,
/// };
/// let (writer, _) = SessionWriter::create(&options)?;
/// let entry = writer.register(b"callsite", control::ON)?;
/// let reader = SessionReader::open(writer.path())?;
/// assert_eq!(reader.callsites()?, [(0, b"callsite".to_vec())]);
/// let off = control::Switch::plain(control::OFF);
/// control::settle(reader.control(0).ok_or("no entry")?, || 0, |_| off);
/// assert_eq!(entry.control(), control::OFF);
/// writer.remove()?;
/// # std::fs::remove_dir(run_dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SessionReader {
    pub(super) memory: SessionMemory,
    /// Writing handle, where the session is this process's own.
    own: Option<Arc<SessionWriter>>,
    header: sys::Mapping,
    callsite_files: CallsiteFiles,
    rules: OnceLock<RulesFile>,
    /// Rings that were opened for the drain.
    pub(super) rings: OpenedRings,
    /// Lock of the process, which is dead.
    process_lock: Option<SessionDir>,
    /// The right to drain the session.
    drain_lock: Option<DrainLock>,
    /// Damage of a session that was adopted.
    damage: SessionDamage,
}

/// Rings of another process that were opened for the drain, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct OpenedRings {
    list: Mutex<Vec<Arc<Ring>>>,
    /// Length of `list`.
    count: AtomicU32,
    /// Number of ring files that were tried; those that could not be opened are not in the list.
    files_seen: AtomicU32,
}

impl OpenedRings {
    /// Adds a ring for the drain.
    pub(super) fn enter(&self, ring: Arc<Ring>) {
        let mut list = self.lock();
        list.push(ring);
        // Relaxed: a hint for the drain; the list itself is behind its lock.
        self.count.store(list.len() as u32, Ordering::Relaxed);
    }

    /// Number of rings in the list. One load.
    pub(super) fn count(&self) -> usize {
        // Relaxed: as above.
        self.count.load(Ordering::Relaxed) as usize
    }

    fn from(&self, first: usize) -> Vec<Arc<Ring>> {
        if self.count() <= first {
            return Vec::new();
        }
        self.lock().get(first..).unwrap_or(&[]).to_vec()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Ring>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionReader {
    /// Opens a session in a directory for reading it and switching its callsites, alive or dead. The session may be
    /// this process's own; its lock stays.
    ///
    /// # Errors
    /// When a file is missing or its header is not what it claims to be.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        files::with_session_file(path, |file, _| Self::with_file(path, file, |_| Ok(())))
    }

    /// Opens this process's own session, which no agent has, for its drain.
    ///
    /// # Errors
    /// As [`SessionReader::open`].
    pub fn open_own(writer: &Arc<SessionWriter>) -> Result<Self, RingError> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let private = super::writer::private::memory_of(writer);
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let private: Option<&std::convert::Infallible> = None;
        let mut reader = match private {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Some(memory) => Self::of_memory(writer.path(), memory.copy()?, Vec::new())?,
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            Some(never) => match *never {},
            None => Self::open(writer.path())?,
        };
        reader.own = Some(Arc::clone(writer));
        Ok(reader)
    }

    /// Opens the session of a live process and becomes the one that drains it.
    ///
    /// # Errors
    /// When another process drains it; or as [`SessionReader::open`].
    pub fn open_for_drain(path: &Path) -> Result<Self, RingError> {
        let mut reader = Self::open(path)?;
        reader.drain_lock =
            Some(DrainLock::take(reader.path())?.ok_or_else(|| in_use(reader.path(), reader.header()))?);
        reader.check_for_drain()?;
        Ok(reader)
    }

    /// Opens a session that a dead process left, and locks it for this process.
    ///
    /// # Errors
    /// When it is alive, which this process is, too; or as [`SessionReader::open`].
    pub fn adopt(path: &Path) -> Result<Self, RingError> {
        let dir = SessionDir::adopt(path)?;
        let mut damage = SessionDamage::look(path)?;
        let reader = dir.with_file(|file| {
            damage.mend_length(path, file)?;
            Self::with_file(path, file, |reader| damage.mend_header(reader))
        });
        if reader.as_ref().is_err_and(RingError::is_incomplete) {
            // Its process died while it made the session: there is nothing in it.
            dir.remove()?;
        }
        let mut reader = reader?;
        // A sidecar that still drains what its process left will finish it.
        match DrainLock::take(reader.path()) {
            Ok(None) => return Err(in_use(reader.path(), reader.header())),
            Ok(lock) => reader.drain_lock = lock,
            // What is missing or cannot be opened is reported by its first user.
            Err(_) => {}
        }
        damage.leave_unmade_rings(path, reader.header().ring_count());
        damage.mend_ring_headers(path);
        reader.damage = damage;
        reader.process_lock = Some(dir);
        Ok(reader)
    }

    /// Looks at a session that an agent has, through the descriptors that it gave. The path is for messages.
    ///
    /// # Errors
    /// When the header is not what it claims to be.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn of_memory(path: &Path, files: super::MemoryFiles, rings: Vec<File>) -> Result<Self, RingError> {
        let header = files.map("session")?;
        let memory = SessionMemory::Files {
            path: path.to_owned(),
            files: Box::new(files),
            rings,
        };
        Self::new(memory, header, |_| Ok(()))
    }

    fn with_file(
        path: &Path,
        file: &File,
        prepare: impl FnOnce(&Self) -> Result<(), RingError>,
    ) -> Result<Self, RingError> {
        let file_path = path.join("session");
        let bytes = file
            .metadata()
            .map_err(|cause| RingError::io("look at", &file_path, cause))?
            .len();
        if bytes < SESSION_BYTES as u64 {
            return Err(RingError::Damaged {
                what: "session header",
                field: "file size",
                found: bytes,
                expected: "4096 bytes",
            });
        }
        let header = sys::Mapping::plain(file, 0, SESSION_BYTES)
            .map_err(|cause| RingError::io("map", &file_path, cause))?;
        Self::new(SessionMemory::Directory(path.to_owned()), header, prepare)
    }

    /// Takes a mapped header, which is checked once `prepare` is through with it.
    pub(super) fn new(
        memory: SessionMemory,
        header: sys::Mapping,
        prepare: impl FnOnce(&Self) -> Result<(), RingError>,
    ) -> Result<Self, RingError> {
        let reader = Self {
            memory,
            own: None,
            header,
            callsite_files: CallsiteFiles::default(),
            rules: OnceLock::new(),
            rings: OpenedRings::default(),
            process_lock: None,
            drain_lock: None,
            damage: SessionDamage::default(),
        };
        prepare(&reader)?;
        reader.header().check()?;
        Ok(reader)
    }

    /// Opens now what the drain of a live process needs, so that damage is found before anything is drained.
    pub(super) fn check_for_drain(&self) -> Result<(), RingError> {
        self.callsite_files.open_all(&self.memory)?;
        self.rules().map(drop)
    }

    /// Directory of the session; for one that an agent has, what [`SessionReader::of_memory`] was given.
    pub fn path(&self) -> &Path {
        self.memory.path()
    }

    /// Writing handle of the session, where it is this process's own.
    pub fn own(&self) -> Option<&Arc<SessionWriter>> {
        self.own.as_ref()
    }

    /// Returns whether producers may still write: `false` for a session that was adopted.
    pub fn is_live(&self) -> bool {
        self.process_lock.is_none()
    }

    /// Returns whether the process of a session in a directory lives: by the lock of the session, and where that is free,
    /// because the process has closed all descriptors, by its number and start.
    pub fn is_alive(&self) -> bool {
        let holder = files::with_session_file(self.path(), |file, _| files::process_of(self.path(), file));
        matches!(holder, Ok(Some(_)))
    }

    /// Shared header. Its words may change at any time.
    pub fn header(&self) -> &SessionHeader {
        // SAFETY: the mapping is one page, aligned, and lives as long as `self`; all fields are atomics.
        unsafe { &*self.header.base().cast::<SessionHeader>() }
    }

    /// Reads the callsites, each with its id and its encoded bytes; up to the first broken entry.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn callsites(&self) -> Result<Vec<(u32, Vec<u8>)>, RingError> {
        match &self.own {
            Some(own) => Ok(own.callsites_from(0).0),
            None => {
                let valid_bytes = table_bytes(self.header(), self.is_live());
                self.callsite_files.read_all(&self.memory, valid_bytes)
            }
        }
    }

    /// Reads callsites from an offset of the table on; returns them and the offset behind them. A table with an entry
    /// that cannot be read ends there for good.
    pub fn callsites_from(&self, offset: usize) -> (Vec<(u32, Vec<u8>)>, usize) {
        if let Some(own) = &self.own {
            return own.callsites_from(offset);
        }
        let valid_bytes = table_bytes(self.header(), self.is_live());
        self.callsite_files.read_from(offset, &self.memory, valid_bytes)
    }

    /// Control entry of a callsite, if the session has it.
    pub fn control(&self, id: u32) -> Option<&ControlEntry> {
        if let Some(own) = &self.own {
            return own.control(id);
        }
        self.callsite_files.control(id, &self.memory, self.header())
    }

    /// Counts of a callsite. `None` where the session does not have it, or is of an older version, which had no counts.
    pub fn counts(&self, id: u32) -> Option<&CallsiteCounts> {
        if let Some(own) = &self.own {
            return own.counters().of(id);
        }
        self.callsite_files.counts(id, &self.memory, self.header())
    }

    /// Number of calls that sampling left out, over all callsites.
    pub fn sampled_out(&self) -> u64 {
        (0..)
            .map_while(|id| self.counts(id))
            .fold(0, |sum, counts| sum.wrapping_add(counts.totals().sampled_out))
    }

    /// Rules of live control.
    ///
    /// # Errors
    /// When the file is missing, as in a session of an older version, or damaged.
    pub fn rules(&self) -> Result<&RulesFile, RingError> {
        if let Some(own) = &self.own {
            return Ok(own.rules());
        }
        match self.rules.get() {
            Some(rules) => Ok(rules),
            None => {
                let (file, path) = self.memory.open("rules")?;
                let rules = RulesFile::from_file(file, path)?;
                Ok(self.rules.get_or_init(|| rules))
            }
        }
    }

    /// Number of rings that [`SessionReader::rings`] tries to open: those that the process has made, or those that an
    /// agent has shown; of a session that was adopted, those that are there.
    pub fn ring_total(&self) -> u32 {
        match &self.memory {
            SessionMemory::Directory(_) if !self.is_live() => self.damage.rings.len() as u32,
            SessionMemory::Directory(_) => self.header().ring_count().min(crate::limits::RINGS_MAX as u32),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            SessionMemory::Files { rings, .. } => rings.len() as u32,
        }
    }

    /// Opens the rings; those that cannot be opened are left out, with the reason in the second list. A ring in memory of
    /// its process alone is in neither.
    pub fn rings(&self) -> (Vec<Arc<Ring>>, Vec<RingError>) {
        self.rings_in(0..self.ring_total())
    }

    /// Opens the rings with these numbers, as [`SessionReader::rings`]. A process that lives makes rings all the time:
    /// a repeated reader passes that end, at which it continues.
    pub fn rings_in(&self, numbers: Range<u32>) -> (Vec<Arc<Ring>>, Vec<RingError>) {
        let mut rings = Vec::new();
        let mut broken = Vec::new();
        for index in numbers.start..numbers.end.min(self.ring_total()) {
            match self.open_ring(index) {
                Ok(ring) => rings.push(Arc::new(ring)),
                Err(error) if error.is_private_ring() => {}
                Err(error) => broken.push(error),
            }
        }
        (rings, broken)
    }

    /// Number of rings that were in memory of the process alone: its directory had no room for them.
    pub fn private_rings(&self) -> usize {
        let rings = 0..self.ring_total();
        let is_private = |index: &u32| self.open_ring(*index).is_err_and(|error| error.is_private_ring());
        rings.filter(is_private).count()
    }

    fn open_ring(&self, index: u32) -> Result<Ring, RingError> {
        match &self.memory {
            SessionMemory::Directory(path) => {
                let index = match self.is_live() {
                    true => index,
                    false => self.damage.rings.get(index as usize).copied().unwrap_or(index),
                };
                let path = path.join(files::ring_name(index));
                Ring::open(&open_existing(&path)?, &path, index)
            }
            #[cfg(any(target_os = "linux", target_os = "android"))]
            SessionMemory::Files { rings, path, .. } => match rings.get(index as usize) {
                Some(file) => Ring::open_sealed(file, index),
                None => Err(RingError::io("open", path, std::io::ErrorKind::NotFound.into())),
            },
        }
    }

    /// Rings for a drain, from a place in the order of their numbers on, each opened once. One load where there are
    /// none.
    pub fn rings_from(&self, first: usize) -> Vec<Arc<Ring>> {
        if let Some(own) = &self.own {
            // The count is one load; the lock behind the list is taken only when there is something new.
            return match self.header().ring_count() as usize > first {
                true => own.rings_from(first),
                false => Vec::new(),
            };
        }
        if matches!(self.memory, SessionMemory::Directory(_)) {
            self.open_new_rings();
        }
        self.rings.from(first)
    }

    fn open_new_rings(&self) {
        let count = self.ring_total();
        // Relaxed: only the drain opens rings.
        let seen = self.rings.files_seen.load(Ordering::Relaxed);
        if count > seen {
            let (found, _) = self.rings_in(seen..count);
            self.rings.files_seen.store(count, Ordering::Relaxed);
            found.into_iter().for_each(|ring| self.rings.enter(ring));
        }
    }

    /// Gives a finished ring back: the process hands it to its next thread.
    pub fn recycle(&self, ring: &Arc<Ring>) {
        match &self.own {
            Some(own) => own.recycle(ring),
            None if self.is_live() => ring.header().store_state(RingState::Free),
            None => {}
        }
    }

    /// Opens the output buffers.
    ///
    /// # Errors
    /// When their file is missing or damaged.
    pub fn buffers(&self) -> Result<Arc<Buffers>, RingError> {
        let (file, path) = self.memory.open("drain")?;
        Ok(Arc::new(Buffers::open(&file, &path)?))
    }

    /// Opens the memory of the flight recorder; `None` where nothing is kept.
    ///
    /// # Errors
    /// When its file is damaged.
    pub fn keep(&self) -> Result<Option<KeepFile>, RingError> {
        let (file, path) = match self.memory.open("keep") {
            Err(RingError::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            opened => opened?,
        };
        KeepFile::open(&file, &path).map(Some)
    }

    /// Removes the session of a dead process that this one drained: everything has reached the log.
    ///
    /// # Errors
    /// When the process lives, the session was only opened, or a file cannot be removed.
    pub fn remove(&self) -> Result<(), RingError> {
        if let Some(dir) = &self.process_lock {
            self.header().mark_done();
            return dir.remove();
        }
        if self.drain_lock.is_none() {
            return Err(in_use(self.path(), self.header()));
        }
        let dir = SessionDir::adopt(self.path())?;
        self.header().mark_done();
        dir.remove()
    }
}

/// Error that says who has a session.
fn in_use(path: &Path, header: &SessionHeader) -> RingError {
    RingError::Alive {
        path: path.to_owned(),
        pid: header.identity().pid,
    }
}
