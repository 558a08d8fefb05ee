//! A session of a client process, as its agent hosts it: the reading handle, the descriptors that are passed to the
//! process and to the next agent, and what the agent knows of the process.

use super::SessionMemory;
use super::memory_files::{MemoryFiles, twice};
use super::reader::SessionReader;
use crate::clock::{ClockSource, unix_ns};
use crate::limits::RINGS_MAX;
use crate::memory_file::{self, MemoryId};
use crate::peer::Peer;
use crate::process_identity::ProcessIdentity;
use crate::ring::{Ring, capacity_for};
use crate::rules::RulesFile;
use crate::session_header::SessionIdentity;
use crate::{FullPolicy, RingError};
use std::fs::File;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Facts of a client process besides its session's memory.
#[derive(Debug, Clone)]
pub struct HostedOptions {
    /// Number of the session with this agent.
    pub id: u64,
    /// The process, as the kernel knows it.
    pub peer: Peer,
    /// Bytes of the largest ring. [`HostedSession`] rounds them up to a capacity.
    pub ring_bytes: usize,
    /// The most rings that the process may have.
    pub rings_max: usize,
    /// Policy of its calls when a ring is full.
    pub policy: FullPolicy,
    /// Set if it reads the coarse clock, which the drain has to renew.
    pub coarse: bool,
}

/// A session of another process, drained here while the process lives and when it is dead. Dereferences to its reading
/// handle.
#[derive(Debug)]
pub struct HostedSession {
    reader: Arc<SessionReader>,
    options: HostedOptions,
    app: String,
    start_unix_ns: u64,
    /// Ring files, in the order of the rings.
    ring_files: Mutex<Vec<(MemoryId, File)>>,
    rings_bytes: AtomicU64,
}

impl Deref for HostedSession {
    type Target = SessionReader;

    fn deref(&self) -> &SessionReader {
        &self.reader
    }
}

impl HostedSession {
    /// Makes the memory of a new session, without rings.
    ///
    /// # Errors
    /// When there is no memory, or there are no descriptors, for it.
    pub fn create(app: &str, options: HostedOptions) -> Result<Self, RingError> {
        let files = MemoryFiles::make()?;
        let (rules, path) = files.open("rules")?;
        RulesFile::format(rules, path)?;
        let pid = options.peer.pid;
        let format = |reader: &SessionReader| {
            let process = ProcessIdentity::of_number(pid);
            (reader.header()).format(&process, app, ClockSource::detect(), unix_ns());
        };
        Self::new(files, options, format)
    }

    /// Takes the memory of a session that an earlier agent made, without rings.
    ///
    /// # Errors
    /// When a descriptor or the header is not what it claims to be.
    pub fn adopt(files: Vec<File>, options: HostedOptions) -> Result<Self, RingError> {
        Self::new(MemoryFiles::check(files)?, options, |_| {})
    }

    fn new(
        files: MemoryFiles,
        mut options: HostedOptions,
        format: impl FnOnce(&SessionReader),
    ) -> Result<Self, RingError> {
        options.ring_bytes = capacity_for(options.ring_bytes);
        options.rings_max = options.rings_max.min(RINGS_MAX);
        let header = files.map("session")?;
        let memory = SessionMemory::Files {
            path: PathBuf::from("session of an agent"),
            files: Box::new(files),
            rings: Vec::new(),
        };
        let reader = SessionReader::new(memory, header, |reader| {
            format(reader);
            Ok(())
        })?;
        reader.check_for_drain()?;
        let SessionIdentity {
            app, start_unix_ns, ..
        } = reader.header().identity();
        Ok(Self {
            app,
            start_unix_ns,
            reader: Arc::new(reader),
            options,
            ring_files: Mutex::default(),
            rings_bytes: AtomicU64::new(0),
        })
    }

    /// The same session under another number, and with another limit of rings.
    #[must_use]
    pub fn renumbered(mut self, id: u64, rings_max: usize) -> Self {
        self.options.id = id;
        self.options.rings_max = rings_max.min(RINGS_MAX);
        self
    }

    /// Reading handle, for the drain.
    pub fn reader(&self) -> &Arc<SessionReader> {
        &self.reader
    }

    /// Facts of the process.
    pub fn options(&self) -> &HostedOptions {
        &self.options
    }

    /// Number of the session with this agent.
    pub fn id(&self) -> u64 {
        self.options.id
    }

    /// The process, as the kernel knows it.
    pub fn peer(&self) -> Peer {
        self.options.peer
    }

    /// Name of the application, as it was when the session came here.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// Time at which the session was made, in nanoseconds since 1970, as it was when the session came here.
    pub fn start_unix_ns(&self) -> u64 {
        self.start_unix_ns
    }

    /// Files of the session without its rings.
    pub fn files(&self) -> &MemoryFiles {
        match &self.reader.memory {
            SessionMemory::Files { files, .. } => files,
            SessionMemory::Directory(_) => unreachable!("`new` takes memory files"),
        }
    }

    /// Makes another ring of the largest size.
    ///
    /// # Errors
    /// When the process has its most, or there is no memory, or no descriptor.
    pub fn add_ring(&self) -> Result<(), RingError> {
        self.add_ring_of(self.options.ring_bytes)
    }

    /// Makes another ring of so many bytes, which are a capacity and not more than those of the largest size.
    ///
    /// # Errors
    /// As [`HostedSession::add_ring`].
    pub fn add_ring_of(&self, ring_bytes: usize) -> Result<(), RingError> {
        let mut files = self.lock();
        let index = self.next_index(&files)?;
        let bytes = Ring::file_bytes(ring_bytes);
        let file = memory_file::make("logdrive-ring", bytes, bytes)?;
        let ring = Ring::create_for_peer(&file, Path::new("ring"), ring_bytes, index)?;
        self.put(&mut files, ring, file)
    }

    /// Takes a ring that the process shows.
    ///
    /// # Errors
    /// When it is not what it claims to be, is here already, or is one too many.
    pub fn take_ring(&self, file: File) -> Result<(), RingError> {
        let mut files = self.lock();
        let index = self.next_index(&files)?;
        memory_file::check_ring(&file, self.options.ring_bytes)?;
        let ring = Ring::open_sealed(&file, index)?;
        self.put(&mut files, ring, file)
    }

    fn next_index(&self, files: &[(MemoryId, File)]) -> Result<u32, RingError> {
        if files.len() >= self.options.rings_max {
            return Err(RingError::Limit {
                what: "rings of a process",
                limit: self.options.rings_max as u64,
            });
        }
        Ok(files.len() as u32)
    }

    fn put(&self, files: &mut Vec<(MemoryId, File)>, ring: Ring, file: File) -> Result<(), RingError> {
        let (id, bytes) = memory_file::check_any_size(&file, "ring")?;
        if self.files().ids().contains(&id) || files.iter().any(|(other, _)| *other == id) {
            return Err(twice("ring"));
        }
        files.push((id, file));
        // Relaxed: written with the lock of the files; a number for limits.
        self.rings_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.reader.rings.enter(Arc::new(ring));
        Ok(())
    }

    /// Bytes of the files of all rings.
    pub fn rings_bytes(&self) -> u64 {
        // Relaxed: as above.
        self.rings_bytes.load(Ordering::Relaxed)
    }

    /// Number of rings that were made or taken. One load.
    pub fn ring_count(&self) -> usize {
        self.reader.rings.count()
    }

    /// Hands descriptors of at most `count` rings from `first` on to `work`.
    pub fn with_ring_descriptors<T>(
        &self,
        first: usize,
        count: usize,
        work: impl FnOnce(&[BorrowedFd<'_>]) -> T,
    ) -> T {
        let files = self.lock();
        let found = files.get(first..).unwrap_or(&[]);
        let descriptors: Vec<BorrowedFd<'_>> =
            found.iter().take(count).map(|(_, file)| file.as_fd()).collect();
        work(&descriptors)
    }

    /// Identities of all memory files of the session.
    pub fn memory_ids(&self) -> Vec<MemoryId> {
        let files = self.lock();
        let rings = files.iter().map(|(id, _)| *id);
        self.files().ids().iter().copied().chain(rings).collect()
    }

    /// Further descriptors of the rings that are not among these files.
    ///
    /// # Errors
    /// When there are no descriptors to spare.
    pub fn rings_besides(&self, known: &[MemoryId]) -> Result<Vec<File>, RingError> {
        let files = self.lock();
        let others = files.iter().filter(|(id, _)| !known.contains(id));
        let io = |cause| RingError::io("open", Path::new("ring"), cause);
        others.map(|(_, file)| file.try_clone().map_err(io)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(MemoryId, File)>> {
        self.ring_files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
