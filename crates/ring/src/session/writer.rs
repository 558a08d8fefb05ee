//! The session of a process that logs: its callsite table, control words and rings, in a directory of its own or in the
//! memory of an agent.
#![allow(unsafe_code)]

use crate::buffers::{
    BUFFER_BYTES_LEAST, BUFFER_BYTES_MIN, BUFFERS_AT_FIRST, BUFFERS_MAX, Buffers, CONFIG_TEXT_MAX, SINKS_MAX,
};
use crate::clock::{ClockSource, unix_ns};
use crate::control::ControlEntry;
use crate::counts::CallsiteCounters;
use crate::files::SessionDir;
use crate::keep_file::KeepFile;
use crate::limits::{SMALL_FILE_SYSTEM_BYTES, TOUCHED_BYTES, TOUCHED_PIECE_BYTES};
use crate::process_identity::ProcessIdentity;
use crate::ring::Ring;
use crate::rules::RulesFile;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::session::memory_files::MemoryFiles;
use crate::session_header::{SESSION_BYTES, SessionHeader};
use crate::waker::DrainWaker;
use crate::{FullPolicy, Producer, RingError, sys};
use callsite_table::CallsiteTable;
use ring_pool::RingPool;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

mod callsite_table;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) mod joined;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) mod private;
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
    /// Bytes of a thread's largest ring, rounded up to a power of two. It gets smaller ones first.
    pub ring_bytes: usize,
    /// Text that describes the sinks to a recoverer; at most 32 KiB.
    pub config: Vec<u8>,
    /// Sinks, at most 16.
    pub sink_count: usize,
    /// Output buffers of each sink; at most 256 in all.
    pub buffers_per_sink: usize,
    /// Bytes of each output buffer, at least 512 KiB. They are smaller, and fewer, where there is little room, or where
    /// the process may not have larger files.
    pub buffer_bytes: usize,
    /// Sinks that are opened at once: a run directory has to have room for two buffers of each of them.
    pub sinks_at_start: usize,
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
        Self::of(&file, &path, bytes).map(Some)
    }

    fn of(file: &File, path: &Path, bytes: usize) -> Result<Self, RingError> {
        Ok(Self {
            drains: Mutex::new(Some(KeepFile::create(file, path, bytes)?)),
            seen: KeepFile::open(file, path)?,
        })
    }
}

/// Origin of a session's memory.
#[derive(Debug)]
enum Home {
    /// Files in a directory; this process drains them itself.
    Directory(SessionDir),
    /// Memory files of an agent, which drains them.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Agent(Box<joined::AgentHome>),
    /// Memory of this process alone, which drains it itself.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Private(Box<MemoryFiles>),
}

impl Home {
    /// A ring that no thread has.
    fn take_free(&self, rings: &RingPool) -> Option<Arc<Ring>> {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(_) => rings.take_unclaimed(),
            _ => rings.take_free(),
        }
    }

    #[cfg_attr(
        not(any(target_os = "linux", target_os = "android")),
        allow(unused_variables, reason = "there are no agents")
    )]
    fn new_ring(
        &self,
        rings: &RingPool,
        header: &SessionHeader,
        policy: FullPolicy,
    ) -> Result<Arc<Ring>, RingError> {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(agent) => agent.wait_for_ring(rings, header, policy == FullPolicy::Block),
            _ => rings.make(self.dir(), header, rings.first_bytes(), true),
        }
    }

    /// Asks for rings before the next thread needs one, or makes places for larger ones.
    fn look_ahead(&self, rings: &RingPool) {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Agent(agent) => agent.ask_ahead(rings),
            // The drain stocks rings when it has nothing else to do.
            _ => rings.prepare(),
        }
    }

    /// The directory, if it is one.
    fn dir(&self) -> Option<&SessionDir> {
        match self {
            Self::Directory(dir) => Some(dir),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            _ => None,
        }
    }

    /// Returns true where an agent drains the session.
    fn is_of_agent(&self) -> bool {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        return matches!(self, Self::Agent(_));
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        false
    }
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
        buffers.reserve_later(&path);
        (0..options.sinks_at_start.min(options.sink_count))
            .try_for_each(|sink| buffers.reserve_first(sink))?;
        let callsites = CallsiteTable::create(dir)?;
        let rules = RulesFile::create(dir)?;
        let keep = Keep::make(dir, options.keep_bytes)?;
        let mapping: &'static sys::Mapping = crate::static_cell::keep(dir.map_session_file(SESSION_BYTES)?);
        // SAFETY: the page is mapped, aligned and large enough, all fields are atomics, and the mapping is leaked.
        let header = unsafe { &*mapping.base().cast::<SessionHeader>() };
        header.format(
            &ProcessIdentity::own(),
            &options.app,
            ClockSource::detect(),
            unix_ns(),
        );
        Ok(Self {
            header,
            callsites,
            rules,
            buffers,
            keep,
        })
    }
}

/// Sizes of output buffers, at most, in the order in which they are tried.
const BUFFER_SIZES: [usize; 4] = [
    usize::MAX,
    BUFFER_BYTES_MIN,
    BUFFER_BYTES_MIN / 4,
    BUFFER_BYTES_LEAST,
];

/// Options with output buffers of such a size at most, and as many as a file may hold. `None` where that is no choice: it
/// is no smaller size than asked for, too large for the file system, or the file may not have two for each sink.
fn with_buffers(options: &SessionOptions, run_dir: &Path, bytes_max: usize) -> Option<SessionOptions> {
    let is_as_asked = bytes_max == usize::MAX;
    if !is_as_asked && bytes_max >= options.buffer_bytes {
        return None;
    }
    let mut options = options.clone();
    options.buffer_bytes = options.buffer_bytes.min(bytes_max);
    // The directory may not be there yet.
    let places = [Some(run_dir), run_dir.parent()];
    let bytes = places.into_iter().flatten().find_map(sys::file_system_bytes);
    let is_small = bytes.is_some_and(|bytes| bytes <= SMALL_FILE_SYSTEM_BYTES);
    if is_as_asked && is_small && options.buffer_bytes > BUFFER_BYTES_MIN {
        return None;
    }
    if options.sink_count == 0 || options.buffers_per_sink == 0 {
        return Some(options);
    }
    let allowed = sys::size_limit().saturating_sub(Buffers::file_bytes(0, 0));
    let of_sink = usize::try_from(allowed).unwrap_or(usize::MAX) / options.sink_count;
    let least = options.buffers_per_sink.min(BUFFERS_AT_FIRST);
    options.buffers_per_sink = options.buffers_per_sink.min(of_sink / options.buffer_bytes);
    (options.buffers_per_sink >= least).then_some(options)
}

impl Drop for SessionWriter {
    /// The lock goes now, and the process may live on.
    fn drop(&mut self) {
        if let Home::Directory(dir) = &self.home
            && dir.is_held()
        {
            self.header.mark_released();
        }
    }
}

impl SessionWriter {
    /// Makes a session. Returns what did not work in the earlier run directories, if anything. Where there is no room in the
    /// last one, the session is in memory of the process alone, on systems that have memory files.
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
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if failed.last().is_some_and(RingError::is_no_room)
            && let Ok(session) = private::create(options)
        {
            return Ok((session, failed));
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
                CONFIG_TEXT_MAX,
            ),
        ] {
            if found > limit {
                return Err(RingError::Limit {
                    what,
                    limit: limit as u64,
                });
            }
        }
        let mut tight = None;
        for buffer_bytes in BUFFER_SIZES {
            let Some(options) = with_buffers(options, run_dir, buffer_bytes) else {
                continue;
            };
            let dir = SessionDir::create(run_dir, &options.app)?;
            let error = match Parts::make(&dir, &options) {
                Ok(parts) => return Ok(Self::from_parts(Home::Directory(dir), parts, options.ring_bytes)),
                Err(error) => error,
            };
            // The files made so far are useless; the first error is the one to report.
            let _ = dir.discard();
            match error {
                RingError::NoRoom { .. } => tight.get_or_insert(error),
                error => return Err(error),
            };
        }
        Err(tight.unwrap_or_else(|| RingError::NoRoom {
            path: run_dir.to_owned(),
            bytes: Buffers::file_bytes(options.sink_count * BUFFERS_AT_FIRST, BUFFER_BYTES_LEAST),
        }))
    }

    fn from_parts(home: Home, parts: Parts, ring_bytes: usize) -> Self {
        let waker = match &home {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(agent) => agent.waker(parts.header),
            _ => DrainWaker::new(),
        };
        let file_system_bytes = home.dir().and_then(|dir| sys::file_system_bytes(dir.path()));
        let file_system_bytes = file_system_bytes.unwrap_or(0);
        Self {
            home,
            header: parts.header,
            callsites: parts.callsites,
            rules: parts.rules,
            rings: RingPool::new(ring_bytes, waker, file_system_bytes),
            buffers: Arc::new(parts.buffers),
            keep: parts.keep,
        }
    }

    /// Bytes of the longest record that its rings take.
    pub fn record_bytes_max(&self) -> usize {
        crate::ring::record_bytes_max(self.rings.ring_bytes)
    }

    /// Place of the session: its directory, or the socket of its agent; words for a session in memory of the process alone.
    pub fn path(&self) -> &Path {
        match &self.home {
            Home::Directory(dir) => dir.path(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(agent) => agent.socket(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Private(_) => Path::new(private::PLACE),
        }
    }

    /// Returns whether other processes find the session, also when this one is dead.
    pub fn is_found(&self) -> bool {
        self.home.dir().is_some()
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

    /// A ring of the largest size for the calling thread: a free one, or a new one, whose pages are touched now rather than
    /// later. Not for the hot path.
    ///
    /// # Errors
    /// When the session has its most rings, or there is no room for another.
    pub fn acquire(&self, thread_name: &str) -> Result<Producer, RingError> {
        if self.home.is_of_agent() {
            return self.acquire_as(thread_name, FullPolicy::Wait);
        }
        let dir = self.home.dir();
        let take_free = || self.rings.take_largest();
        let ring = match take_free().or_else(|| self.rings.wait_for_ended(take_free)) {
            Some(ring) => ring,
            None => (self.rings).make(dir, self.header, self.rings.ring_bytes, true)?,
        };
        Ok(Producer::attach(ring, thread_name))
    }

    /// A small ring for a thread that asks for [larger ones](Self::enlarge_ring), and whose calls do this when there is no
    /// room: with [`FullPolicy::Block`] it waits for its ring as long as an agent is there that may send one.
    ///
    /// # Errors
    /// As [`SessionWriter::acquire`].
    pub fn acquire_as(&self, thread_name: &str, policy: FullPolicy) -> Result<Producer, RingError> {
        let take_free = || self.home.take_free(&self.rings);
        let ring = match take_free().or_else(|| self.rings.wait_for_ended(take_free)) {
            Some(ring) => ring,
            None => self.home.new_ring(&self.rings, self.header, policy)?,
        };
        self.home.look_ahead(&self.rings);
        Ok(Producer::attach(ring, thread_name))
    }

    /// Replaces the calling thread's ring, which is full, by a larger one. Returns false where there is none to be had; the
    /// thread's next full ring asks again after a while. Allocates nothing on the heap.
    ///
    /// Not where a call interrupts the logger, see [`crate::local::is_busy`].
    pub fn enlarge_ring(&self, generation: u32) -> bool {
        crate::local::replace_ring(generation, |before, policy| match &self.home {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(agent) => agent.replace(&self.rings, before, policy),
            home => {
                let _ = policy;
                self.rings.replace(home.dir(), self.header, before)
            }
        })
    }

    /// Touches some memory of a larger ring that a thread has begun to use, so that its calls find the pages there, and while
    /// the drain is idle makes a ring ahead of its need, so that the next thread finds one. An agent is asked for rings
    /// elsewhere.
    ///
    /// # Errors
    /// As [`SessionWriter::acquire`].
    pub fn make_spare_ring(&self, spare: usize, is_idle: bool) -> Result<(), RingError> {
        let Some(dir) = self.home.dir() else {
            return Ok(());
        };
        let bytes = if is_idle {
            TOUCHED_BYTES
        } else {
            TOUCHED_PIECE_BYTES
        };
        self.rings.touch(bytes);
        if !is_idle {
            return Ok(());
        }
        if self.rings.lock().free.len() < spare {
            let first_bytes = self.rings.first_bytes();
            let ring = self.rings.make(Some(dir), self.header, first_bytes, false)?;
            self.rings.lock().free.push(ring);
        }
        Ok(())
    }

    /// Returns once a line for the log, if a thread has a ring in memory that ends with the process.
    pub fn take_notice(&self) -> Option<String> {
        (self.rings.take_is_private() && self.is_found()).then(|| {
            format!(
                "no room for the ring of a thread in {}: threads that start while there is none log in memory of the process, and what they have not got to the log is lost when it is killed",
                self.path().display()
            )
        })
    }

    /// Takes the lock again that tells others that this process lives, where the program has closed its descriptor. One
    /// system call where it has not; for now and then.
    ///
    /// # Errors
    /// When the file of the session cannot be opened.
    pub fn keep_lock(&self) -> Result<(), RingError> {
        self.home.dir().map_or(Ok(()), SessionDir::keep_lock)
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
        self.header.mark_done();
        // Other memory goes with the last descriptor.
        self.home.dir().map_or(Ok(()), SessionDir::remove)
    }
}
