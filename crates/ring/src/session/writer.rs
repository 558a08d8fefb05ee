//! The session of a process that logs: its callsite table, control words and rings, in a directory of its own or in the
//! memory of an agent.
#![allow(unsafe_code)]

use crate::buffers::{BUFFERS_MAX, Buffers, CONFIG_BYTES_MAX, SINKS_MAX};
use crate::clock::{ClockSource, unix_ns};
use crate::control::ControlEntry;
use crate::counts::CallsiteCounters;
use crate::files::SessionDir;
use crate::keep_file::KeepFile;
use crate::ring::Ring;
use crate::rules::RulesFile;
use crate::session_header::{FLAG_DONE, SESSION_BYTES, SessionHeader};
use crate::waker::DrainWaker;
use crate::{FullPolicy, Producer, RingError, sys};
use callsite_table::CallsiteTable;
use ring_pool::RingPool;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

mod callsite_table;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod joined;
mod ring_pool;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod spill;

/// Options of a new session.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The application's name.
    pub app: String,
    /// Directories of sessions, tried in order, the first that is safe and has room is taken.
    pub run_dirs: Vec<PathBuf>,
    /// Bytes of each ring, rounded up to a power of two.
    pub ring_bytes: usize,
    /// Text that describes the sinks to a recoverer; at most 32 KiB.
    pub config: Vec<u8>,
    /// Sinks, at most 16.
    pub sink_count: usize,
    /// Output buffers of each sink; at most 256 in all.
    pub buffers_per_sink: usize,
    /// Bytes of each output buffer, at least 512 KiB.
    pub buffer_bytes: usize,
    /// Bytes that a flight recorder may keep; 0 for none.
    pub keep_bytes: u64,
}

/// The session of this process. Its memory for headers and control words is never unmapped, because the program's
/// callsites point into it.
#[derive(Debug)]
pub struct SessionWriter {
    home: Home,
    header: &'static SessionHeader,
    callsites: CallsiteTable,
    rules: RulesFile,
    rings: RingPool,
    buffers: Arc<Buffers>,
    keep: Option<Keep>,
}

/// The memory of a flight recorder: one view for the drain, which alone writes records, and one for all other threads.
#[derive(Debug)]
struct Keep {
    drains: Mutex<Option<KeepFile>>,
    seen: KeepFile,
}

impl Keep {
    fn make(dir: &SessionDir, bytes: u64) -> Result<Option<Self>, RingError> {
        if bytes == 0 {
            return Ok(None);
        }
        let bytes = KeepFile::bytes_for(bytes);
        let (file, path) = dir.create_file("keep", KeepFile::file_bytes(bytes))?;
        Ok(Some(Self {
            drains: Mutex::new(Some(KeepFile::create(&file, &path, bytes)?)),
            seen: KeepFile::open(&file, &path)?,
        }))
    }
}

/// Origin of a session's memory.
#[derive(Debug)]
enum Home {
    /// Files in a directory; this process drains them itself.
    Directory(SessionDir),
    /// Memory files of an agent, which drains them.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Agent(joined::AgentHome),
}

/// The files of a session, made in this order.
struct Parts {
    header: &'static SessionHeader,
    callsites: CallsiteTable,
    rules: RulesFile,
    buffers: Buffers,
    keep: Option<Keep>,
}

impl Parts {
    fn make(dir: &SessionDir, options: &SessionOptions) -> Result<Self, RingError> {
        let buffer_count = options.sink_count * options.buffers_per_sink;
        // Buffers get their memory when their sink is opened: an agent has places for many.
        let bytes = Buffers::file_bytes(buffer_count, options.buffer_bytes);
        let (file, path) = dir.create_growing("drain", bytes, Buffers::file_bytes(0, 0))?;
        let mut buffers = Buffers::create(
            &file,
            &path,
            &options.config,
            options.sink_count,
            options.buffers_per_sink,
            options.buffer_bytes,
        )?;
        buffers.reserve_later(path);
        let callsites = CallsiteTable::create(dir)?;
        let rules = RulesFile::create(dir)?;
        let keep = Keep::make(dir, options.keep_bytes)?;
        let mapping: &'static sys::Mapping = Box::leak(Box::new(dir.map_session_file(SESSION_BYTES)?));
        // SAFETY: the page is mapped, aligned and large enough, all fields are atomics, and the mapping is leaked.
        let header = unsafe { &*mapping.base().cast::<SessionHeader>() };
        header.format(std::process::id(), &options.app, ClockSource::detect(), unix_ns());
        Ok(Self {
            header,
            callsites,
            rules,
            buffers,
            keep,
        })
    }
}

impl SessionWriter {
    /// Makes a session. Returns what did not work in the earlier run directories, if anything.
    ///
    /// # Errors
    /// When no run directory can be used; the error is that of the last one.
    pub fn create(options: &SessionOptions) -> Result<(Self, Vec<RingError>), RingError> {
        let mut failed = Vec::new();
        for run_dir in &options.run_dirs {
            match Self::create_in(run_dir, options) {
                Ok(session) => return Ok((session, failed)),
                Err(error) => failed.push(error),
            }
        }
        Err(failed.pop().unwrap_or(RingError::Limit {
            what: "run directories",
            limit: 0,
        }))
    }

    fn create_in(run_dir: &Path, options: &SessionOptions) -> Result<Self, RingError> {
        for (what, found, limit) in [
            ("sinks", options.sink_count, SINKS_MAX),
            (
                "output buffers",
                options.sink_count * options.buffers_per_sink,
                BUFFERS_MAX,
            ),
            (
                "bytes that describe the sinks",
                options.config.len(),
                CONFIG_BYTES_MAX,
            ),
        ] {
            if found > limit {
                return Err(RingError::Limit {
                    what,
                    limit: limit as u64,
                });
            }
        }
        let dir = SessionDir::create(run_dir, &options.app)?;
        match Parts::make(&dir, options) {
            Ok(parts) => Ok(Self::from_parts(Home::Directory(dir), parts, options.ring_bytes)),
            Err(error) => {
                // The files made so far are useless; the first error is the one to report.
                let _ = dir.remove();
                Err(error)
            }
        }
    }

    fn from_parts(home: Home, parts: Parts, ring_bytes: usize) -> Self {
        let waker = match &home {
            Home::Directory(_) => DrainWaker::new(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(agent) => agent.waker(parts.header),
        };
        Self {
            home,
            header: parts.header,
            callsites: parts.callsites,
            rules: parts.rules,
            rings: RingPool::new(ring_bytes, waker),
            buffers: Arc::new(parts.buffers),
            keep: parts.keep,
        }
    }

    /// Bytes of the longest record that its rings take.
    pub fn record_bytes_max(&self) -> usize {
        crate::ring::record_bytes_max(self.rings.ring_bytes)
    }

    /// Place of the session: its directory, or the socket of its agent.
    pub fn path(&self) -> &Path {
        match &self.home {
            Home::Directory(dir) => dir.path(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(agent) => agent.socket(),
        }
    }

    /// The shared header.
    pub fn header(&self) -> &'static SessionHeader {
        self.header
    }

    /// The output buffers; there are none where an agent drains the session.
    pub fn buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }

    /// The memory of the flight recorder, for reading and requests; `None` where nothing is kept.
    pub fn keep(&self) -> Option<&KeepFile> {
        self.keep.as_ref().map(|keep| &keep.seen)
    }

    /// The memory of the flight recorder, to keep records in. For the drain; the second call gets none.
    pub fn take_keep(&self) -> Option<KeepFile> {
        let keep = self.keep.as_ref()?;
        keep.drains.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The word on which the drain sleeps.
    pub fn waker(&self) -> &'static DrainWaker {
        self.rings.waker
    }

    /// Counts of the callsites.
    pub fn counters(&self) -> &'static CallsiteCounters {
        self.callsites.counters()
    }

    /// The rules of live control.
    pub fn rules(&self) -> &RulesFile {
        &self.rules
    }

    /// Appends a callsite to the table; returns its entry, whose address stays valid for ever. The control word is
    /// that of the process's own filter: what rules make of it is the caller's next step.
    ///
    /// Takes a lock and may grow the table's file: for the first call of a callsite only.
    ///
    /// # Errors
    /// When the table is full, or there is no room for it to grow.
    pub fn register(&self, callsite: &[u8], control: u32) -> Result<&'static ControlEntry, RingError> {
        self.callsites.register(self.header, callsite, control)
    }

    /// Copies the callsites from `first` on, starting at `table_offset`; returns them and where the next one starts.
    pub fn callsites_from(&self, table_offset: usize) -> (Vec<(u32, Vec<u8>)>, usize) {
        self.callsites.read_from(table_offset)
    }

    /// The control entry of a callsite.
    pub fn control(&self, id: u32) -> Option<&'static ControlEntry> {
        self.callsites.control(id)
    }

    /// A ring for the calling thread: a free one, or a new one. Not for the hot path: a new ring takes up to some
    /// milliseconds, because all of its pages are touched now rather than later.
    ///
    /// # Errors
    /// When the session has its most rings, or there is no room for another.
    pub fn acquire(&self, thread_name: &str) -> Result<Producer, RingError> {
        self.acquire_as(thread_name, FullPolicy::Wait)
    }

    /// The same for a thread whose calls do this when there is no room: with [`FullPolicy::Block`] it waits for its ring
    /// as long as an agent is there that may send one.
    ///
    /// # Errors
    /// As [`SessionWriter::acquire`].
    pub fn acquire_as(&self, thread_name: &str, policy: FullPolicy) -> Result<Producer, RingError> {
        let ring = match self
            .take_free()
            .or_else(|| self.rings.wait_for_ended(|| self.take_free()))
        {
            Some(ring) => ring,
            None => self.new_ring(policy)?,
        };
        self.look_ahead();
        Ok(Producer::attach(ring, thread_name))
    }

    /// A ring that no thread has.
    fn take_free(&self) -> Option<Arc<Ring>> {
        match &self.home {
            Home::Directory(_) => self.rings.take_free(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(_) => self.rings.take_unclaimed(),
        }
    }

    #[cfg_attr(
        not(any(target_os = "linux", target_os = "android")),
        allow(unused_variables, reason = "there are no agents")
    )]
    fn new_ring(&self, policy: FullPolicy) -> Result<Arc<Ring>, RingError> {
        match &self.home {
            Home::Directory(dir) => self.rings.make(dir, self.header),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(agent) => agent.wait_for_ring(&self.rings, self.header, policy == FullPolicy::Block),
        }
    }

    /// Asks for rings before the next thread needs one.
    fn look_ahead(&self) {
        match &self.home {
            // The drain stocks rings when it has nothing else to do.
            Home::Directory(_) => {}
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(agent) => agent.ask_ahead(&self.rings),
        }
    }

    /// Makes a ring ahead of its need, so that the next thread finds one. An agent is asked for rings elsewhere.
    ///
    /// # Errors
    /// As [`SessionWriter::acquire`].
    pub fn make_spare_ring(&self, spare: usize) -> Result<(), RingError> {
        match &self.home {
            Home::Directory(dir) => {
                if self.rings.lock().free.len() < spare {
                    let ring = self.rings.make(dir, self.header)?;
                    self.rings.lock().free.push(ring);
                }
                Ok(())
            }
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(_) => Ok(()),
        }
    }

    /// Rings with numbers from `first` on.
    pub fn rings_from(&self, first: usize) -> Vec<Arc<Ring>> {
        self.rings.from(first)
    }

    /// Takes a finished ring back, for the next thread. For the drain.
    pub(crate) fn recycle(&self, ring: &Arc<Ring>) {
        self.rings.recycle(ring);
    }

    /// Removes the session's files: everything has reached the log.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove(&self) -> Result<(), RingError> {
        self.header.mark(FLAG_DONE);
        match &self.home {
            Home::Directory(dir) => dir.remove(),
            // The memory goes with the last descriptor.
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(_) => Ok(()),
        }
    }
}
