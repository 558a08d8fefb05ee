//! What an agent holds of one live process: the session's memory and rings, with their descriptors. The process may
//! write all of it at any time, so that everything is read once, checked, and bounded by what was mapped.
#![allow(unsafe_code)]

use crate::clock::{ClockSource, unix_ns};
use crate::control::{ControlEntry, ENTRY_BYTES};
use crate::counts::{COUNTS_BYTES, CallsiteCounts};
use crate::files::split_table;
use crate::limits::{CALLSITES_MAX, RINGS_MAX, TABLE_BYTES_MAX};
use crate::memory_file::{self, MemoryId};
use crate::peer::Peer;
use crate::ring::{Ring, RingState, capacity_for};
use crate::rules::RulesFile;
use crate::session_header::SessionHeader;
use crate::session_memory::{SessionMemory, twice};
use crate::{FullPolicy, RingError, sys};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is known of a session's process besides its memory.
#[derive(Debug, Clone)]
pub struct SharedOptions {
    /// The session's number with this agent.
    pub id: u64,
    /// The process, as the kernel knows it.
    pub peer: Peer,
    /// Bytes of each ring, as wanted; rounded up to a capacity.
    pub ring_bytes: usize,
    /// The most rings that the process may have.
    pub rings_max: usize,
    /// What its calls do when a ring is full.
    pub policy: FullPolicy,
    /// Whether it reads the coarse clock, which the drain has to renew.
    pub coarse: bool,
}

/// A session of another process, drained here while the process lives and when it is dead.
#[derive(Debug)]
pub struct SharedSession {
    options: SharedOptions,
    app: String,
    start_unix_ns: u64,
    clock_source: ClockSource,
    memory: SessionMemory,
    header: sys::Mapping,
    control: sys::Mapping,
    counts: sys::Mapping,
    rules: RulesFile,
    rings: Mutex<Vec<SharedRing>>,
    ring_count: AtomicU32,
    /// Whether the table has an entry that cannot be read: what lies behind it is never looked at again.
    table_damaged: AtomicBool,
}

#[derive(Debug)]
struct SharedRing {
    ring: Arc<Ring>,
    file: File,
    id: MemoryId,
}

impl SharedSession {
    /// Makes the memory of a new session, without rings.
    ///
    /// # Errors
    /// When there is no memory, or there are no descriptors, for it.
    pub fn create(app: &str, mut options: SharedOptions) -> Result<Self, RingError> {
        options.ring_bytes = capacity_for(options.ring_bytes);
        let memory = SessionMemory::make()?;
        let header = memory.map("session")?;
        // SAFETY: the mapping is a page, aligned, and outlives the reference; all fields are atomics.
        let words = unsafe { &*header.base().cast::<SessionHeader>() };
        words.format_for(options.peer.pid, app, ClockSource::detect(), unix_ns());
        let (rules, path) = memory.open("rules")?;
        let rules = RulesFile::format(rules, path)?;
        Self::map(memory, header, rules, options)
    }

    /// Takes the memory of a session that an earlier agent made, without rings.
    ///
    /// # Errors
    /// When a descriptor or the header is not what it claims to be.
    pub fn adopt(files: Vec<File>, mut options: SharedOptions) -> Result<Self, RingError> {
        options.ring_bytes = capacity_for(options.ring_bytes);
        let memory = SessionMemory::check(files)?;
        let header = memory.map("session")?;
        let (rules, path) = memory.open("rules")?;
        let rules = RulesFile::from_file(rules, path)?;
        Self::map(memory, header, rules, options)
    }

    fn map(
        memory: SessionMemory,
        header: sys::Mapping,
        rules: RulesFile,
        options: SharedOptions,
    ) -> Result<Self, RingError> {
        // SAFETY: as in `create`.
        let words = unsafe { &*header.base().cast::<SessionHeader>() };
        words.check()?;
        Ok(Self {
            app: words.app(),
            start_unix_ns: words.start_unix_ns(),
            clock_source: words.clock_source(),
            control: memory.map("control")?,
            counts: memory.map("counts")?,
            rules,
            memory,
            header,
            options,
            rings: Mutex::default(),
            ring_count: AtomicU32::new(0),
            table_damaged: AtomicBool::new(false),
        })
    }

    /// The same session under another number, and with another limit of rings.
    #[must_use]
    pub fn renumbered(mut self, id: u64, rings_max: usize) -> Self {
        self.options.id = id;
        self.options.rings_max = rings_max;
        self
    }

    /// The session's number with this agent.
    pub fn id(&self) -> u64 {
        self.options.id
    }

    /// The process, as the kernel knows it.
    pub fn peer(&self) -> Peer {
        self.options.peer
    }

    /// The application's name, as it was when the session came here.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// When the session was made, in nanoseconds since 1970.
    pub fn start_unix_ns(&self) -> u64 {
        self.start_unix_ns
    }

    /// Where the session's ticks come from.
    pub fn clock_source(&self) -> ClockSource {
        self.clock_source
    }

    /// Whether the process reads the coarse clock.
    pub fn is_coarse(&self) -> bool {
        self.options.coarse
    }

    /// What the process's calls do when a ring is full.
    pub fn policy(&self) -> FullPolicy {
        self.options.policy
    }

    /// The shared header. Its words may change at any time.
    pub fn header(&self) -> &SessionHeader {
        // SAFETY: the mapping is a page, aligned, and lives as long as `self`; all fields are atomics.
        unsafe { &*self.header.base().cast::<SessionHeader>() }
    }

    /// The files of the session without its rings, in the order in which they travel.
    pub fn memory(&self) -> &SessionMemory {
        &self.memory
    }

    /// Bytes of each ring.
    pub fn ring_bytes(&self) -> usize {
        self.options.ring_bytes
    }

    /// The most rings of the process.
    pub fn rings_max(&self) -> usize {
        self.options.rings_max.min(RINGS_MAX)
    }

    /// Makes another ring.
    ///
    /// # Errors
    /// When the process has its most, or there is no memory, or no descriptor.
    pub fn add_ring(&self) -> Result<(), RingError> {
        let mut rings = self.lock();
        let index = self.next_index(&rings)?;
        let bytes = Ring::file_bytes(self.options.ring_bytes);
        let file = memory_file::make("logdrive-ring", bytes, bytes)?;
        let path = Path::new("ring");
        let ring = Ring::create_for_peer(&file, path, self.options.ring_bytes, index)?;
        self.put(&mut rings, ring, file)
    }

    /// Takes a ring that the process shows.
    ///
    /// # Errors
    /// When it is not what it claims to be, is here already, or is one too many.
    pub fn take_ring(&self, file: File) -> Result<(), RingError> {
        let mut rings = self.lock();
        let index = self.next_index(&rings)?;
        memory_file::check(&file, "ring", Ring::file_bytes(self.options.ring_bytes))?;
        let ring = Ring::open_sealed(&file, index)?;
        self.put(&mut rings, ring, file)
    }

    fn next_index(&self, rings: &[SharedRing]) -> Result<u32, RingError> {
        if rings.len() >= self.rings_max() {
            return Err(RingError::Limit {
                what: "rings of a process",
                limit: self.rings_max() as u64,
            });
        }
        Ok(rings.len() as u32)
    }

    fn put(&self, rings: &mut Vec<SharedRing>, ring: Ring, file: File) -> Result<(), RingError> {
        let (id, _) = memory_file::check_any_size(&file, "ring")?;
        if self.memory.ids().contains(&id) || rings.iter().any(|other| other.id == id) {
            return Err(twice("ring"));
        }
        rings.push(SharedRing {
            ring: Arc::new(ring),
            file,
            id,
        });
        // Relaxed: a hint for the drain; the list itself is behind its lock.
        self.ring_count.store(rings.len() as u32, Ordering::Relaxed);
        Ok(())
    }

    /// Rings that are here; what the header says of them is not relied on.
    pub fn ring_count(&self) -> usize {
        // Relaxed: see `put`.
        self.ring_count.load(Ordering::Relaxed) as usize
    }

    /// Rings with numbers from `first` on. One load where there are none.
    pub fn rings_from(&self, first: usize) -> Vec<Arc<Ring>> {
        if self.ring_count() <= first {
            return Vec::new();
        }
        let rings = self.lock();
        let found = rings.get(first..).unwrap_or(&[]);
        found.iter().map(|shared| Arc::clone(&shared.ring)).collect()
    }

    /// Hands descriptors of at most `count` rings from `first` on to `work`.
    pub fn with_ring_descriptors<T>(
        &self,
        first: usize,
        count: usize,
        work: impl FnOnce(&[BorrowedFd<'_>]) -> T,
    ) -> T {
        let rings = self.lock();
        let found = rings.get(first..).unwrap_or(&[]);
        let descriptors: Vec<BorrowedFd<'_>> = found
            .iter()
            .take(count)
            .map(|shared| shared.file.as_fd())
            .collect();
        work(&descriptors)
    }

    /// All memory files of the session.
    pub fn memory_ids(&self) -> Vec<MemoryId> {
        let rings = self.lock();
        let rings = rings.iter().map(|shared| shared.id);
        self.memory.ids().iter().copied().chain(rings).collect()
    }

    /// Further descriptors of the rings that are not among these files.
    ///
    /// # Errors
    /// When there are no descriptors to spare.
    pub fn rings_besides(&self, known: &[MemoryId]) -> Result<Vec<File>, RingError> {
        let rings = self.lock();
        let others = rings.iter().filter(|shared| !known.contains(&shared.id));
        let io = |cause| RingError::io("open", Path::new("ring"), cause);
        others.map(|shared| shared.file.try_clone().map_err(io)).collect()
    }

    /// Copies callsites from a place of the table on, at most up to the format's end; returns them and the place behind
    /// them. A table with an entry that cannot be read ends there for good.
    pub fn callsites_from(&self, place: usize) -> (Vec<(u32, Vec<u8>)>, usize) {
        let valid = (self.header().table_bytes().min(TABLE_BYTES_MAX as u64)) as usize;
        // Relaxed: only the drain reads the table.
        if valid <= place || self.table_damaged.load(Ordering::Relaxed) {
            return (Vec::new(), place);
        }
        let mut bytes = vec![0; valid - place];
        // Read and not mapped: reading makes no pages that the process has not made.
        let read = self
            .memory
            .part("callsites")
            .and_then(|(file, _)| {
                let io = |cause| RingError::io("read", Path::new("callsites"), cause);
                file.read_exact_at(&mut bytes, place as u64).map_err(io)
            })
            .is_ok();
        let (found, used) = if read {
            split_table(&bytes)
        } else {
            Default::default()
        };
        // A process raises the end of the table when an entry is whole: one that is not will never be.
        self.table_damaged.store(used < bytes.len(), Ordering::Relaxed);
        (found, place + used)
    }

    /// Whether the callsite table has an entry that cannot be read.
    pub fn is_table_damaged(&self) -> bool {
        // Relaxed: only the drain reads the table.
        self.table_damaged.load(Ordering::Relaxed)
    }

    /// The control entry of a callsite.
    pub fn control(&self, id: u32) -> Option<&ControlEntry> {
        // SAFETY: the entry lies inside of the mapping, which covers the most callsites and cannot shrink, is aligned, and
        // lives as long as `self`; all fields are atomics.
        ((id as usize) < CALLSITES_MAX).then(|| unsafe {
            &*self
                .control
                .base()
                .add(id as usize * ENTRY_BYTES)
                .cast::<ControlEntry>()
        })
    }

    /// The rules of live control.
    pub fn rules(&self) -> &RulesFile {
        &self.rules
    }

    /// The counts of a callsite.
    pub fn counts(&self, id: u32) -> Option<&CallsiteCounts> {
        // SAFETY: as for `control`.
        ((id as usize) < CALLSITES_MAX).then(|| unsafe {
            &*self
                .counts
                .base()
                .add(id as usize * COUNTS_BYTES)
                .cast::<CallsiteCounts>()
        })
    }

    /// Gives a finished ring back: the process hands it to its next thread.
    pub fn recycle(&self, ring: &Ring) {
        ring.header().store_state(RingState::Free);
    }

    /// Says whether the drain sleeps, so that a producer that needs it wakes it.
    pub fn set_asleep(&self, asleep: bool) {
        self.header().set_drain_asleep(asleep);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SharedRing>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
