//! A session in a directory that a sidecar drains: its process, which has no drain of its own, lives in another process
//! and may end at any moment. Every shared word is read once, checked, and bounded by what was mapped.
#![allow(unsafe_code)]

use crate::control::ControlEntry;
use crate::counts::{CallsiteCounts, CountsView};
use crate::files::{self, SessionDir, open_existing, split_table};
use crate::limits::TABLE_BYTES_MAX;
use crate::ring::{Ring, RingState};
use crate::rules::RulesFile;
use crate::session_header::SessionHeader;
use crate::{Buffers, KeepFile, RingError, SessionView, sys};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The session of a live process, as its sidecar has it.
#[derive(Debug)]
pub struct HelpedSession {
    view: SessionView,
    counts: CountsView,
    rules: RulesFile,
    table: File,
    /// Locked as long as this process drains: a recoverer leaves the session alone.
    drain: File,
    rings: Mutex<Vec<Arc<Ring>>>,
    /// Rings that were looked at; those that could not be opened are not among `rings`.
    seen: AtomicU32,
    /// Whether the table has an entry that cannot be read: what lies behind it is never looked at again.
    table_damaged: AtomicBool,
}

impl HelpedSession {
    /// Opens a session and becomes the one that drains it.
    ///
    /// # Errors
    /// When somebody else drains it, or a file is missing or is not what it claims to be.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        let view = SessionView::open(path)?;
        let drain = drain_lock(path)?.ok_or_else(|| RingError::Alive {
            path: path.to_owned(),
            pid: view.header().pid(),
        })?;
        Ok(Self {
            counts: view.counts()?,
            rules: view.rules()?,
            table: open_existing(&path.join("callsites"))?,
            view,
            drain,
            rings: Mutex::default(),
            seen: AtomicU32::new(0),
            table_damaged: AtomicBool::new(false),
        })
    }

    /// The session's directory.
    pub fn path(&self) -> &Path {
        self.view.path()
    }

    /// The shared header. Its words may change at any time.
    pub fn header(&self) -> &SessionHeader {
        self.view.header()
    }

    /// The session as anybody sees it.
    pub fn view(&self) -> &SessionView {
        &self.view
    }

    /// The output buffers.
    ///
    /// # Errors
    /// When their file is damaged.
    pub fn buffers(&self) -> Result<Arc<Buffers>, RingError> {
        self.view.buffers()
    }

    /// The memory of the flight recorder, where there is one.
    ///
    /// # Errors
    /// When its file is damaged.
    pub fn keep(&self) -> Result<Option<KeepFile>, RingError> {
        self.view.keep()
    }

    /// Whether the process lives, by the lock of its session.
    pub fn is_alive(&self) -> bool {
        let holder = files::with_session_file(self.path(), |file, _| {
            sys::lock_holder(file).map_err(|cause| RingError::io("look at", self.path(), cause))
        });
        matches!(holder, Ok(Some(_)))
    }

    /// Rings with numbers from `first` on. One load where there are none.
    pub fn rings_from(&self, first: usize) -> Vec<Arc<Ring>> {
        let count = self.header().ring_count();
        // Relaxed: only the drain looks for rings.
        let seen = self.seen.load(Ordering::Relaxed);
        if count > seen {
            let (found, _) = self.view.rings_in(seen..count);
            self.seen.store(count, Ordering::Relaxed);
            self.lock().extend(found);
        }
        self.lock().get(first..).unwrap_or(&[]).to_vec()
    }

    /// Whether there are more rings than so many.
    pub fn has_rings_from(&self, first: usize) -> bool {
        // Relaxed: as above.
        self.header().ring_count() > self.seen.load(Ordering::Relaxed) || self.lock().len() > first
    }

    /// Copies callsites from a place of the table on; returns them and the place behind them.
    pub fn callsites_from(&self, place: usize) -> (Vec<(u32, Vec<u8>)>, usize) {
        let valid = (self.header().table_bytes().min(TABLE_BYTES_MAX as u64)) as usize;
        // Relaxed: only the drain reads the table.
        if valid <= place || self.table_damaged.load(Ordering::Relaxed) {
            return (Vec::new(), place);
        }
        let mut bytes = vec![0; valid - place];
        let (found, used) = match self.table.read_exact_at(&mut bytes, place as u64) {
            Ok(()) => split_table(&bytes),
            Err(_) => Default::default(),
        };
        // A process raises the end of the table when an entry is whole: one that is not will never be.
        self.table_damaged.store(used < bytes.len(), Ordering::Relaxed);
        (found, place + used)
    }

    /// The control entry of a callsite.
    pub fn control(&self, id: u32) -> Option<&ControlEntry> {
        self.view.control(id)
    }

    /// The counts of a callsite.
    pub fn counts(&self, id: u32) -> Option<&CallsiteCounts> {
        (id < self.header().callsite_count())
            .then(|| self.counts.entry(id))
            .flatten()
    }

    /// The rules of live control.
    pub fn rules(&self) -> &RulesFile {
        &self.rules
    }

    /// Gives a finished ring back: the process hands it to its next thread.
    pub fn recycle(&self, ring: &Ring) {
        ring.header().store_state(RingState::Free);
    }

    /// Sleeps until a producer, or somebody of this process, wakes the drain; at most this long.
    pub fn sleep(&self, timeout_ns: u64) {
        self.header().sleep(timeout_ns);
    }

    /// Wakes the drain.
    pub fn wake(&self) {
        self.header().wake();
    }

    /// Takes the session of a dead process away: everything has reached the log.
    ///
    /// # Errors
    /// When the process lives, or a file cannot be removed.
    pub fn remove(&self) -> Result<(), RingError> {
        let dir = SessionDir::adopt(self.path())?;
        self.header().mark_done();
        dir.remove()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Ring>>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HelpedSession {
    fn drop(&mut self) {
        sys::unlock_for_opener(&self.drain);
    }
}

/// The right to drain a session, which its sidecar holds; `None` when somebody else has it.
pub(crate) fn drain_lock(path: &Path) -> Result<Option<File>, RingError> {
    let path = path.join("drain");
    let file = open_existing(&path)?;
    let locked = sys::lock_for_opener(&file).map_err(|cause| RingError::io("lock", &path, cause))?;
    Ok(locked.then_some(file))
}
