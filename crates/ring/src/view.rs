//! A session of another process, dead or alive, as a recoverer or a control tool sees it.
#![allow(unsafe_code)]

use crate::buffers::Buffers;
use crate::control::{ControlEntry, ENTRY_BYTES};
use crate::counts::CountsView;
use crate::files::{self, SessionDir, open_existing};
use crate::helped_session::drain_lock;
use crate::keep_file::KeepFile;
use crate::limits::{CALLSITES_MAX, TABLE_BYTES_MAX};
use crate::ring::Ring;
use crate::rules::RulesFile;
use crate::session_header::{SESSION_BYTES, SessionHeader};
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::session_memory::SessionMemory;
use crate::{RingError, sys};
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A session in a run directory.
#[derive(Debug, Clone)]
pub struct FoundSession {
    /// Its directory.
    pub path: PathBuf,
    /// The process that holds it; `None` when that process is dead.
    pub holder: Option<u32>,
}

/// The sessions of a run directory, in the order of their names. A directory that is missing has none.
///
/// # Errors
/// When the directory is not safe or cannot be listed.
pub fn find_sessions(run_dir: &Path) -> Result<Vec<FoundSession>, RingError> {
    if !run_dir.exists() {
        return Ok(Vec::new());
    }
    files::make_private_dir(run_dir)?;
    let list = fs::read_dir(run_dir).map_err(|cause| RingError::io("list", run_dir, cause))?;
    let mut found = Vec::new();
    for path in list.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        // A directory without a session file is being made or removed right now.
        let Some(holder) = holder_of(&path) else { continue };
        found.push(FoundSession { path, holder });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Who holds a session: `None` when there is no session, `Some(None)` when its process is dead.
fn holder_of(path: &Path) -> Option<Option<u32>> {
    files::with_session_file(path, |file, own| {
        if own {
            return Ok(Some(std::process::id()));
        }
        sys::lock_holder(file).map_err(|cause| RingError::io("look at", path, cause))
    })
    .ok()
}

/// An opened session, of another process as a rule.
#[derive(Debug)]
pub struct SessionView {
    path: PathBuf,
    mapping: sys::Mapping,
    control: Option<(sys::Mapping, usize)>,
    owned: Option<SessionDir>,
    /// Held as long as this process recovers the session: no second one drains it.
    drain_lock: Option<File>,
    /// The descriptors of a session that an agent has.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    shown: Option<Shown>,
}

/// What an agent has shown of a session.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug)]
struct Shown {
    memory: SessionMemory,
    rings: Vec<File>,
}

impl SessionView {
    /// Opens a session for looking at it and switching its callsites, alive or dead. The session may be this process's
    /// own; its lock stays.
    ///
    /// # Errors
    /// When a file is missing or its header is not what it claims to be.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        files::with_session_file(path, |file, _| Self::with_file(path, file))
    }

    /// Opens a session that a dead process left, and locks it for this process.
    ///
    /// # Errors
    /// When it is alive, which this process is, too; or as [`SessionView::open`].
    pub fn adopt(path: &Path) -> Result<Self, RingError> {
        let dir = SessionDir::adopt(path)?;
        let view = dir.with_file(|file| Self::with_file(path, file));
        if view.as_ref().is_err_and(RingError::is_incomplete) {
            // Its process died while it made the session: there is nothing in it.
            dir.remove()?;
        }
        let mut view = view?;
        // A sidecar that still drains what its process left will finish it.
        match drain_lock(path) {
            Ok(None) => {
                return Err(RingError::Alive {
                    path: path.to_owned(),
                    pid: view.header().pid(),
                });
            }
            Ok(lock) => view.drain_lock = lock,
            // What is missing or cannot be opened is told by whoever needs it.
            Err(_) => {}
        }
        view.owned = Some(dir);
        Ok(view)
    }

    fn with_file(path: &Path, file: &File) -> Result<Self, RingError> {
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
        let mapping = sys::Mapping::plain(file, 0, SESSION_BYTES)
            .map_err(|cause| RingError::io("map", &file_path, cause))?;
        let mut view = Self {
            path: path.to_owned(),
            mapping,
            control: None,
            owned: None,
            drain_lock: None,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            shown: None,
        };
        view.header().check()?;
        view.control = view.map_control().ok();
        Ok(view)
    }

    /// Looks at a session that an agent has, through the descriptors that it gave. The path is for messages.
    ///
    /// # Errors
    /// When the header is not what it claims to be.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn of_memory(path: &Path, memory: SessionMemory, rings: Vec<File>) -> Result<Self, RingError> {
        let mut view = Self {
            path: path.to_owned(),
            mapping: memory.map("session")?,
            control: None,
            owned: None,
            drain_lock: None,
            shown: Some(Shown { memory, rings }),
        };
        view.header().check()?;
        view.control = view.map_control().ok();
        Ok(view)
    }

    /// Opens a file of the session; the path is for messages.
    fn file(&self, name: &str) -> Result<(File, PathBuf), RingError> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(shown) = &self.shown {
            return shown.memory.open(name);
        }
        let path = self.path.join(name);
        Ok((open_existing(&path)?, path))
    }

    fn map_control(&self) -> Result<(sys::Mapping, usize), RingError> {
        let (file, path) = self.file("control")?;
        let bytes = file
            .metadata()
            .map_err(|cause| RingError::io("look at", &path, cause))?
            .len();
        let count = (bytes as usize / ENTRY_BYTES).min(CALLSITES_MAX);
        let mapping = sys::Mapping::plain(&file, 0, (count * ENTRY_BYTES).max(ENTRY_BYTES))
            .map_err(|cause| RingError::io("map", &path, cause))?;
        Ok((mapping, count))
    }

    /// The session's directory; for one that an agent has, what [`SessionView::of_memory`] was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The shared header.
    pub fn header(&self) -> &SessionHeader {
        // SAFETY: the mapping is one page, aligned, and lives as long as `self`; all fields are atomics.
        unsafe { &*self.mapping.base().cast::<SessionHeader>() }
    }

    /// The callsites, each with its id and its encoded bytes; up to the first broken entry.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn callsites(&self) -> Result<Vec<(u32, Vec<u8>)>, RingError> {
        use std::io::Read;
        let (file, path) = self.file("callsites")?;
        let valid = self.header().table_bytes().min(TABLE_BYTES_MAX as u64);
        let mut bytes = Vec::new();
        file.take(valid)
            .read_to_end(&mut bytes)
            .map_err(|cause| RingError::io("read", &path, cause))?;
        Ok(files::split_table(&bytes).0)
    }

    /// The control entry of a callsite, if the session has it.
    pub fn control(&self, id: u32) -> Option<&ControlEntry> {
        let (mapping, count) = self.control.as_ref()?;
        let known = (id as usize) < *count && id < self.header().callsite_count();
        // SAFETY: the entry lies inside of the mapping, which is as long as the file was, is aligned, and lives as
        // long as `self`; all fields are atomics.
        known.then(|| unsafe {
            &*mapping
                .base()
                .add(id as usize * ENTRY_BYTES)
                .cast::<ControlEntry>()
        })
    }

    /// What is counted for each callsite.
    ///
    /// # Errors
    /// When the file is missing, as in a session of an older version, or cannot be mapped.
    pub fn counts(&self) -> Result<CountsView, RingError> {
        let (file, path) = self.file("counts")?;
        CountsView::of_file(&file, &path)
    }

    /// The rules of live control.
    ///
    /// # Errors
    /// When the file is missing, as in a session of an older version, or damaged.
    pub fn rules(&self) -> Result<RulesFile, RingError> {
        let (file, path) = self.file("rules")?;
        RulesFile::from_file(file, path)
    }

    /// Rings that [`SessionView::rings`] tries to open: those that the process has made, or those that an agent has shown.
    pub fn ring_total(&self) -> u32 {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(shown) = &self.shown {
            return shown.rings.len() as u32;
        }
        self.header().ring_count().min(crate::limits::RINGS_MAX as u32)
    }

    /// The rings; those that cannot be opened are left out and counted.
    pub fn rings(&self) -> (Vec<Arc<Ring>>, Vec<RingError>) {
        self.rings_in(0..self.ring_total())
    }

    /// As [`SessionView::rings`], those with these numbers only. A process that lives makes rings all the time: whoever
    /// looks again and again gives the end itself, which is where it goes on.
    pub fn rings_in(&self, numbers: Range<u32>) -> (Vec<Arc<Ring>>, Vec<RingError>) {
        let mut rings = Vec::new();
        let mut broken = Vec::new();
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(shown) = &self.shown {
            for (index, file) in (0..)
                .zip(&shown.rings)
                .filter(|(index, _)| numbers.contains(index))
            {
                match Ring::open_sealed(file, index) {
                    Ok(ring) => rings.push(Arc::new(ring)),
                    Err(error) => broken.push(error),
                }
            }
            return (rings, broken);
        }
        for index in numbers.start..numbers.end.min(self.ring_total()) {
            let path = self.path.join(files::ring_name(index));
            match open_existing(&path).and_then(|file| Ring::open(&file, &path, index)) {
                Ok(ring) => rings.push(Arc::new(ring)),
                Err(error) => broken.push(error),
            }
        }
        (rings, broken)
    }

    /// The output buffers.
    ///
    /// # Errors
    /// When their file is missing or damaged.
    pub fn buffers(&self) -> Result<Arc<Buffers>, RingError> {
        let (file, path) = self.file("drain")?;
        Ok(Arc::new(Buffers::open(&file, &path)?))
    }

    /// The memory of the flight recorder; `None` where nothing is kept.
    ///
    /// # Errors
    /// When its file is damaged.
    pub fn keep(&self) -> Result<Option<KeepFile>, RingError> {
        let (file, path) = match self.file("keep") {
            Err(RingError::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            opened => opened?,
        };
        KeepFile::open(&file, &path).map(Some)
    }

    /// Removes an adopted session: everything has reached the log.
    ///
    /// # Errors
    /// When the session was only opened, or a file cannot be removed.
    pub fn remove(self) -> Result<(), RingError> {
        match &self.owned {
            Some(dir) => {
                self.header().mark_done();
                dir.remove()
            }
            None => Err(RingError::Alive {
                path: self.path.clone(),
                pid: self.header().pid(),
            }),
        }
    }
}
