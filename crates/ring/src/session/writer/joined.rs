//! A session whose memory came from an agent: rings arrive through the connection, ahead of their need, and all
//! descriptors are kept, to be shown to the next agent.

use super::{Growing, Home, Parts, SessionWriter};
use crate::buffers::{BUFFER_BYTES_MIN, Buffers};
use crate::clock::{ClockSource, monotonic_ns};
use crate::limits::{
    AGENT_RING_STALL_MS, AGENT_RING_WAIT_MS, AGENT_RINGS_ASKED, AGENT_RINGS_SPARE, RINGS_MAX,
};
use crate::memory_file::{self, MemoryId};
use crate::ring::{Ring, RingState};
use crate::rules::RulesFile;
use crate::session::memory_files::{MemoryFiles, twice};
use crate::session_header::SessionHeader;
use crate::waker::{AgentConnection, DrainWaker};
use crate::{RingError, sys};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The agent's side of a session, as its process sees it.
#[derive(Debug)]
pub(super) struct AgentHome {
    socket: PathBuf,
    memory: MemoryFiles,
    line: Arc<dyn AgentConnection>,
    /// The files of the rings, in the order of the rings.
    files: Mutex<Vec<(MemoryId, File)>>,
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

    pub(super) fn memory(&self) -> &MemoryFiles {
        &self.memory
    }

    /// The files of the rings, in the order of the rings.
    pub(super) fn files(&self) -> std::sync::MutexGuard<'_, Vec<(MemoryId, File)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    fn of_agent(memory: &MemoryFiles) -> Result<Self, RingError> {
        let growing = |name: &str| {
            let (file, bytes) = memory.part(name)?;
            let path = PathBuf::from(name);
            match file.try_clone() {
                Ok(file) => Growing::map(file, path, bytes),
                Err(cause) => Err(RingError::io("open", path, cause)),
            }
        };
        let mapping: &'static sys::Mapping = Box::leak(Box::new(memory.map("session")?));
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
            control: growing("control")?,
            counts: growing("counts")?,
            rules: RulesFile::from_file(rules, path)?,
            table: growing("callsites")?,
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
        let parts = Parts::of_agent(&memory)?;
        let home = Home::Agent(AgentHome {
            socket: socket.to_owned(),
            memory,
            line,
            files: Mutex::default(),
            arrived: Condvar::new(),
            stalled_until_ns: AtomicU64::new(0),
        });
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
            let ring_bytes = Ring::file_bytes(self.ring_bytes);
            let id = memory_file::check(&file, "ring", ring_bytes)?;
            let known = agent.files().iter().any(|(other, _)| *other == id);
            if known || agent.memory.ids().contains(&id) {
                return Err(twice("ring"));
            }
            // Outside of the lock: this takes some milliseconds. Rings come through one thread, and the number is only a
            // name.
            let index = self.lock_rings().all.len();
            let ring = Arc::new(Ring::open_for_producer(&file, index as u32, self.waker)?);
            self.enter(agent, ring, id, file)?;
        }
        Ok(())
    }

    fn enter(&self, agent: &AgentHome, ring: Arc<Ring>, id: MemoryId, file: File) -> Result<(), RingError> {
        let mut rings = self.lock_rings();
        if rings.all.len() >= RINGS_MAX {
            return Err(RingError::Limit {
                what: "rings of a session",
                limit: RINGS_MAX as u64,
            });
        }
        agent.files().push((id, file));
        rings.all.push(ring);
        self.header.publish_ring_count(rings.all.len() as u32);
        agent.arrived.notify_all();
        Ok(())
    }

    /// All descriptors of the session, for an agent that is to adopt it. Not for a session in a directory, which has none
    /// to show.
    pub fn with_descriptors<T>(
        &self,
        work: impl FnOnce(&[BorrowedFd<'_>], &[BorrowedFd<'_>]) -> T,
    ) -> Option<T> {
        let Home::Agent(agent) = &self.home else {
            return None;
        };
        let files = agent.files();
        let rings: Vec<BorrowedFd<'_>> = files.iter().map(|(_, file)| file.as_fd()).collect();
        Some(work(&agent.memory.descriptors(), &rings))
    }

    /// A ring that is free by the agent's word, and that no producer of this process has by ours.
    pub(super) fn take_freed_by_agent(&self) -> Option<Arc<Ring>> {
        let rings = self.lock_rings();
        let ring = rings.all.iter().find(|ring| is_free(ring) && ring.hold())?;
        ring.set_overloaded(false);
        Some(Arc::clone(ring))
    }

    /// Asks for rings, so that the next threads find some.
    pub(super) fn ask_ahead(&self, agent: &AgentHome) {
        let free = self.lock_rings().all.iter().filter(|ring| is_free(ring)).count();
        if free < AGENT_RINGS_SPARE && agent.line.is_connected() {
            agent.line.request_rings(AGENT_RINGS_ASKED);
        }
    }

    /// Waits a moment for a ring, or with `blocks` until there is one or will be none; while the agent is away, makes one
    /// itself.
    pub(super) fn ring_of_agent(&self, agent: &AgentHome, blocks: bool) -> Result<Arc<Ring>, RingError> {
        let blocks = || blocks && !agent.line.are_rings_refused();
        let none = RingError::Limit {
            what: "rings that the agent has sent",
            limit: self.lock_rings().all.len() as u64,
        };
        // Relaxed: a hint, for how long nobody waits.
        let is_stalled = || monotonic_ns() < agent.stalled_until_ns.load(Ordering::Relaxed);
        if agent.line.is_connected() && !blocks() && is_stalled() {
            return Err(none);
        }
        let until = Instant::now() + Duration::from_millis(AGENT_RING_WAIT_MS);
        loop {
            if !agent.line.is_connected() {
                return self.make_own_ring(agent);
            }
            agent.line.request_rings(AGENT_RINGS_ASKED);
            if let Some(ring) = self.take_freed_by_agent() {
                return Ok(ring);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() && !blocks() {
                let until_ns = monotonic_ns() + AGENT_RING_STALL_MS * 1_000_000;
                agent.stalled_until_ns.store(until_ns, Ordering::Relaxed);
                return Err(none);
            }
            let rings = self.lock_rings();
            if !rings.all.iter().any(|ring| is_free(ring)) {
                // A connection that breaks meanwhile wakes nobody, so the look at it comes often.
                let pause = Duration::from_millis(2);
                drop(
                    agent
                        .arrived
                        .wait_timeout(rings, pause)
                        .unwrap_or_else(PoisonError::into_inner),
                );
            }
        }
    }

    fn make_own_ring(&self, agent: &AgentHome) -> Result<Arc<Ring>, RingError> {
        let bytes = Ring::file_bytes(self.ring_bytes);
        let file = memory_file::make("logdrive-ring", bytes, bytes)?;
        let id = memory_file::check(&file, "ring", bytes)?;
        let index = self.lock_rings().all.len() as u32;
        let ring = Arc::new(Ring::create(
            &file,
            Path::new("ring"),
            self.ring_bytes,
            index,
            Some(self.waker),
        )?);
        ring.hold();
        self.enter(agent, Arc::clone(&ring), id, file)?;
        Ok(ring)
    }
}

fn is_free(ring: &Ring) -> bool {
    ring.header().state() == RingState::Free && !ring.is_held()
}
