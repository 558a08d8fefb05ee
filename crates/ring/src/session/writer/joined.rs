//! A session whose memory came from an agent: rings arrive through the connection, ahead of their need, and all
//! descriptors are kept, to be shown to the next agent.

use super::callsite_table::{CallsiteTable, Growing};
use super::ring_pool::{RingPool, Rings, SpareRings, is_unclaimed};
use super::{Home, Parts, SessionWriter};
use crate::buffers::{BUFFER_BYTES_MIN, Buffers};
use crate::clock::{ClockSource, monotonic_ns};
use crate::limits::{
    AGENT_LARGER_WAIT_MS, AGENT_LARGEST_RINGS, AGENT_LARGEST_SPARE, AGENT_RING_STALL_MS, AGENT_RING_WAIT_MS,
    AGENT_RINGS_ASKED, AGENT_RINGS_SPARE,
};
use crate::memory_file::{self, MemoryId};
use crate::own_file::OwnFile;
use crate::ring::{Ring, number};
use crate::rules::RulesFile;
use crate::session::memory_files::{MemoryFiles, twice};
use crate::session_header::SessionHeader;
use crate::waker::{AgentConnection, DrainWaker};
use crate::{FullPolicy, RingError, sys};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The agent's side of a session, as its process sees it.
#[derive(Debug)]
pub(super) struct AgentHome {
    socket: PathBuf,
    memory: Mutex<MemoryFiles>,
    line: Arc<dyn AgentConnection>,
    /// The files of the rings, in the order of the rings.
    files: Mutex<Vec<(MemoryId, OwnFile)>>,
    /// A ring has come; beside the lock of the session's rings.
    arrived: Condvar,
    /// Until then no thread waits for a ring: the last one waited in vain.
    stalled_until_ns: AtomicU64,
}

impl AgentHome {
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn waker(&self, header: &'static SessionHeader) -> DrainWaker {
        DrainWaker::of_agent(header, Arc::clone(&self.line))
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, MemoryFiles> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files of the rings, in the order of the rings.
    pub(super) fn files(&self) -> MutexGuard<'_, Vec<(MemoryId, OwnFile)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    /// Parts of a session in memory files, without output buffers.
    pub(super) fn of_memory(memory: &MemoryFiles) -> Result<Self, RingError> {
        let growing = |name: &str| {
            let (file, bytes) = memory.part(name)?;
            let path = PathBuf::from(name);
            match file.try_clone() {
                Ok(file) => Growing::map(file, path, bytes),
                Err(cause) => Err(RingError::io("open", path, cause)),
            }
        };
        let mapping: &'static sys::Mapping = crate::static_cell::keep(memory.map("session")?);
        // SAFETY: the page is mapped, aligned and large enough, all fields are atomics, and the mapping is leaked.
        let header = unsafe { &*mapping.base().cast::<SessionHeader>() };
        header.check()?;
        let ours = ClockSource::detect();
        if header.clock_source() != ours {
            return Err(RingError::Damaged {
                what: "session header",
                field: "clock source",
                found: header.clock_source() as u64,
                expected: "the clock that this process would take",
            });
        }
        let (rules, path) = memory.open("rules")?;
        let no_buffers = Buffers::file_bytes(0, BUFFER_BYTES_MIN);
        let file = memory_file::make("logdrive-drain", no_buffers, no_buffers)?;
        Ok(Self {
            header,
            callsites: CallsiteTable::new(growing("callsites")?, growing("control")?, growing("counts")?),
            rules: RulesFile::from_file(rules, path)?,
            buffers: Buffers::create(&file, Path::new("drain"), &[], 0, 0, BUFFER_BYTES_MIN)?,
            keep: None,
        })
    }
}

impl SessionWriter {
    /// Takes a session that an agent made: its memory and first rings, and the line to ask for more.
    ///
    /// # Errors
    /// When something is not what the format says, or cannot be mapped.
    pub fn join(
        socket: &Path,
        memory: MemoryFiles,
        rings: Vec<File>,
        ring_bytes: usize,
        line: Arc<dyn AgentConnection>,
    ) -> Result<Self, RingError> {
        let parts = Parts::of_memory(&memory)?;
        let home = Home::Agent(Box::new(AgentHome {
            socket: socket.to_owned(),
            memory: Mutex::new(memory),
            line,
            files: Mutex::default(),
            arrived: Condvar::new(),
            stalled_until_ns: AtomicU64::new(0),
        }));
        let session = Self::from_parts(home, parts, ring_bytes);
        session.take_rings(rings)?;
        Ok(session)
    }

    /// Takes rings that the agent has sent. Touches all of their pages, so it is not for a thread that logs.
    ///
    /// # Errors
    /// When one of them is not what it claims to be, is here already, or is one too many; those before it are taken.
    pub fn take_rings(&self, files: Vec<File>) -> Result<(), RingError> {
        let Home::Agent(agent) = &self.home else {
            return Ok(());
        };
        for file in files {
            let id = memory_file::check_ring(&file, self.rings.ring_bytes)?;
            let known = agent.files().iter().any(|(other, _)| *other == id);
            if known || agent.memory().ids().contains(&id) {
                return Err(twice("ring"));
            }
            // Outside of the lock: this takes some milliseconds. Rings come through one thread, and the number is only a
            // name.
            let index = self.rings.lock().all.len();
            let ring = Arc::new(Ring::open_for_producer(&file, index as u32, self.rings.waker)?);
            self.rings.set_growth(&ring);
            agent.enter(&self.rings, self.header, ring, (id, own(file)?))?;
        }
        Ok(())
    }

    /// The descriptors of a session that an agent made; `None` for a session in a directory, which has none to show.
    pub fn descriptors(&self) -> Option<SessionDescriptors<'_>> {
        match &self.home {
            Home::Agent(agent) => Some(SessionDescriptors {
                agent,
                ring_bytes: self.rings.ring_bytes,
            }),
            Home::Directory(_) | Home::Private(_) => None,
        }
    }
}

/// The descriptors of a session that an agent made: of its memory and its rings.
#[derive(Debug)]
pub struct SessionDescriptors<'a> {
    agent: &'a AgentHome,
    ring_bytes: usize,
}

impl SessionDescriptors<'_> {
    /// Returns whether the program has closed some of them.
    pub fn are_lost(&self) -> bool {
        let is_lost = |(_, file): &(MemoryId, OwnFile)| file.checked().is_err();
        self.agent.memory().are_lost() || self.agent.files().iter().any(is_lost)
    }

    /// Takes others of the same files, in the place of those that the program has closed.
    ///
    /// # Errors
    /// When they are not those of this session.
    pub fn restore(&self, memory: MemoryFiles, rings: Vec<File>) -> Result<(), RingError> {
        let mut known = self.agent.memory();
        if known.ids() != memory.ids() {
            return Err(RingError::damaged(
                "session",
                "descriptors",
                0,
                "those of this session",
            ));
        }
        *known = memory;
        drop(known);
        let mut files = self.agent.files();
        for file in rings {
            let id = memory_file::check_ring(&file, self.ring_bytes)?;
            if let Some((_, place)) = files.iter_mut().find(|(other, _)| *other == id) {
                *place = own(file)?;
            }
        }
        Ok(())
    }

    /// Hands them on to `work`, for an agent that is to adopt the session; without those of rings that the program has closed.
    /// `None` where it has closed others.
    pub fn with<T>(&self, work: impl FnOnce(&[BorrowedFd<'_>], &[BorrowedFd<'_>]) -> T) -> Option<T> {
        let memory = self.agent.memory();
        if memory.are_lost() {
            return None;
        }
        let files = self.agent.files();
        let rings = files.iter().filter_map(|(_, file)| file.checked().ok());
        let rings: Vec<BorrowedFd<'_>> = rings.map(AsFd::as_fd).collect();
        Some(work(&memory.descriptors(), &rings))
    }
}

impl AgentHome {
    fn enter(
        &self,
        rings: &RingPool,
        header: &SessionHeader,
        ring: Arc<Ring>,
        file: (MemoryId, OwnFile),
    ) -> Result<(), RingError> {
        // The file is listed under the same lock, so that both lists have one order.
        let entered = rings.enter(ring, header)?;
        self.files().push(file);
        drop(entered);
        self.arrived.notify_all();
        Ok(())
    }

    /// Asks for rings, so that the next threads find some, and those that fill small ones.
    pub(super) fn ask_ahead(&self, rings: &RingPool) {
        if !self.line.is_connected() {
            return;
        }
        let stock = rings.stock();
        if stock.small + stock.largest < AGENT_RINGS_SPARE {
            self.ask(rings, &stock);
        }
        let is_for_larger = Self::has_small(rings, &stock)
            && stock.for_newest < AGENT_RINGS_SPARE
            && stock.largest < AGENT_LARGEST_SPARE;
        if is_for_larger {
            self.line.request_rings(AGENT_RINGS_SPARE as u32);
        }
    }

    /// Returns whether further threads begin with small rings.
    fn has_small(rings: &RingPool, stock: &SpareRings) -> bool {
        stock.all >= AGENT_LARGEST_RINGS && rings.first_bytes() < rings.ring_bytes
    }

    fn ask(&self, rings: &RingPool, stock: &SpareRings) {
        match Self::has_small(rings, stock) {
            true => self.line.request_small_rings(AGENT_RINGS_ASKED),
            false => self.line.request_rings(AGENT_RINGS_SPARE as u32),
        }
    }

    /// A larger ring for a thread whose small one is full. Where the agent has sent none yet, a thread that may wait does so
    /// for a moment.
    pub(super) fn replace(&self, rings: &RingPool, before: &Ring, policy: FullPolicy) -> Option<Arc<Ring>> {
        let until = Instant::now() + Duration::from_millis(AGENT_LARGER_WAIT_MS);
        loop {
            let larger = rings.take_better(before);
            if larger.is_some() || !self.line.is_connected() || self.line.are_rings_refused() {
                return larger;
            }
            self.line.request_rings(AGENT_RINGS_SPARE as u32);
            if policy == FullPolicy::Drop || Instant::now() >= until {
                return None;
            }
            self.wait_for_arrival(rings.lock());
        }
    }

    /// Waits until a ring comes. A connection that breaks meanwhile wakes no thread, so it is checked often.
    fn wait_for_arrival(&self, list: MutexGuard<'_, Rings>) {
        let waited = self.arrived.wait_timeout(list, Duration::from_millis(2));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits a moment for a ring, or with `blocks` until there is one or will be none; while the agent is away, makes
    /// one itself.
    pub(super) fn wait_for_ring(
        &self,
        rings: &RingPool,
        header: &SessionHeader,
        blocks: bool,
    ) -> Result<Arc<Ring>, RingError> {
        let blocks = || blocks && !self.line.are_rings_refused();
        let none = RingError::Limit {
            what: "rings that the agent has sent",
            limit: rings.lock().all.len() as u64,
        };
        // Relaxed: a hint about the time in which no thread waits.
        let is_stalled = || monotonic_ns() < self.stalled_until_ns.load(Ordering::Relaxed);
        if self.line.is_connected() && !blocks() && is_stalled() {
            return Err(none);
        }
        let until = Instant::now() + Duration::from_millis(AGENT_RING_WAIT_MS);
        loop {
            if !self.line.is_connected() {
                return self.make_own_ring(rings, header);
            }
            self.ask(rings, &rings.stock());
            if let Some(ring) = rings.take_unclaimed() {
                return Ok(ring);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() && !blocks() {
                let until_ns = monotonic_ns() + AGENT_RING_STALL_MS * 1_000_000;
                self.stalled_until_ns.store(until_ns, Ordering::Relaxed);
                return Err(none);
            }
            let list = rings.lock();
            if !list.all.iter().any(|ring| is_unclaimed(ring)) {
                self.wait_for_arrival(list);
            }
        }
    }

    fn make_own_ring(&self, rings: &RingPool, header: &SessionHeader) -> Result<Arc<Ring>, RingError> {
        let bytes = Ring::file_bytes(rings.ring_bytes);
        let file = memory_file::make("logdrive-ring", bytes, bytes)?;
        let id = memory_file::check(&file, "ring", bytes)?;
        let mut ring = Ring::create(
            &file,
            Path::new("ring"),
            rings.ring_bytes,
            true,
            Some(rings.waker),
        )?;
        number(&mut ring, rings.lock().all.len() as u32);
        let ring = Arc::new(ring);
        ring.hold();
        self.enter(rings, header, Arc::clone(&ring), (id, own(file)?))?;
        Ok(ring)
    }
}

fn own(file: File) -> Result<OwnFile, RingError> {
    OwnFile::new(file).map_err(|cause| RingError::io("look at", Path::new("ring"), cause))
}
