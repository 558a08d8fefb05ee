//! The session of a process that logs: its callsite table, control words and rings, in a directory of its own or in the
//! memory of an agent.
#![allow(unsafe_code)]

use crate::buffers::{BUFFERS_MAX, Buffers, CONFIG_BYTES_MAX, SINKS_MAX};
use crate::clock::{ClockSource, unix_ns};
use crate::control::{ControlEntry, ENTRY_BYTES};
use crate::counts::{COUNTS_BYTES, CallsiteCounters};
use crate::files::{self, SessionDir};
use crate::keep_file::KeepFile;
use crate::limits::{
    CALLSITES_MAX, ENDED_RINGS_MAX, FREE_RING_LOOK_US, FREE_RING_LOOKS, RESERVE_STEP_BYTES, RINGS_MAX,
    TABLE_BYTES_MAX,
};
use crate::ring::{DrainWaker, Ring, RingState};
use crate::rules::RulesFile;
use crate::session_header::{SESSION_BYTES, SessionHeader};
use crate::{FullPolicy, Producer, RingError, sys};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod joined;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod spill;

/// How a session is made.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The application's name.
    pub app: String,
    /// Where sessions live; tried in order, the first that is safe and has room is taken.
    pub run_dirs: Vec<PathBuf>,
    /// Bytes of each ring, rounded up to a power of two.
    pub ring_bytes: usize,
    /// Text that describes the sinks, for whoever recovers the session; at most 32 KiB.
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
    control: Growing,
    counts: Growing,
    counters: &'static CallsiteCounters,
    rules: RulesFile,
    table: Growing,
    registering: Mutex<Registered>,
    rings: Mutex<Rings>,
    making: Mutex<()>,
    buffers: Arc<Buffers>,
    keep: Option<Keep>,
    ring_bytes: usize,
    waker: &'static DrainWaker,
}

/// The memory of a flight recorder: one view for the drain, which alone writes records, and one for everybody else.
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

/// Where a session's memory comes from.
#[derive(Debug)]
enum Home {
    /// Files in a directory; this process drains them itself.
    Directory(SessionDir),
    /// Memory files of an agent, which drains them.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Agent(joined::AgentHome),
}

#[derive(Debug)]
struct Registered {
    count: u32,
    table_bytes: usize,
}

#[derive(Debug, Default)]
struct Rings {
    all: Vec<Arc<Ring>>,
    free: Vec<Arc<Ring>>,
}

/// A file whose mapping covers its largest size from the start, and whose blocks are reserved step by step.
#[derive(Debug)]
struct Growing {
    file: File,
    path: PathBuf,
    mapping: &'static sys::Mapping,
    reserved: std::sync::atomic::AtomicUsize,
}

impl Growing {
    fn create(dir: &SessionDir, name: &str, bytes_max: usize) -> Result<Self, RingError> {
        let (file, path) = dir.create_file(name, RESERVE_STEP_BYTES as u64)?;
        Self::map(file, path, bytes_max)
    }

    /// Maps a file whose first step is reserved.
    fn map(file: File, path: PathBuf, bytes_max: usize) -> Result<Self, RingError> {
        let mapping =
            sys::Mapping::plain(&file, 0, bytes_max).map_err(|cause| RingError::io("map", &path, cause))?;
        let reserved = std::sync::atomic::AtomicUsize::new(RESERVE_STEP_BYTES);
        Ok(Self {
            file,
            path,
            mapping: Box::leak(Box::new(mapping)),
            reserved,
        })
    }

    /// Makes sure that the first `bytes` may be touched. Callers hold the registration lock.
    fn reserve(&self, bytes: usize) -> Result<(), RingError> {
        use std::sync::atomic::Ordering;
        // Relaxed: changed under the registration lock only.
        let reserved = self.reserved.load(Ordering::Relaxed);
        if bytes <= reserved {
            return Ok(());
        }
        let wanted = bytes.next_multiple_of(RESERVE_STEP_BYTES);
        files::reserve(&self.file, &self.path, reserved as u64, wanted as u64)?;
        self.reserved.store(wanted, Ordering::Relaxed);
        Ok(())
    }
}

/// The files of a session, made in this order.
struct Parts {
    header: &'static SessionHeader,
    control: Growing,
    counts: Growing,
    rules: RulesFile,
    table: Growing,
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
        let control = Growing::create(dir, "control", CALLSITES_MAX * ENTRY_BYTES)?;
        let counts = Growing::create(dir, "counts", CALLSITES_MAX * COUNTS_BYTES)?;
        let rules = RulesFile::create(dir)?;
        let table = Growing::create(dir, "callsites", TABLE_BYTES_MAX)?;
        let keep = Keep::make(dir, options.keep_bytes)?;
        let mapping: &'static sys::Mapping = Box::leak(Box::new(dir.map_session_file(SESSION_BYTES)?));
        // SAFETY: the page is mapped, aligned and large enough, all fields are atomics, and the mapping is leaked.
        let header = unsafe { &*mapping.base().cast::<SessionHeader>() };
        header.format(&options.app, ClockSource::detect(), unix_ns());
        Ok(Self {
            header,
            control,
            counts,
            rules,
            table,
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
                // What was made so far is of no use to anybody; the first error is the one to tell.
                let _ = dir.remove();
                Err(error)
            }
        }
    }

    fn from_parts(home: Home, parts: Parts, ring_bytes: usize) -> Self {
        let counters = CallsiteCounters::new(parts.control.mapping, parts.counts.mapping);
        let waker = match &home {
            Home::Directory(_) => DrainWaker::new(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(agent) => agent.waker(parts.header),
        };
        Self {
            home,
            header: parts.header,
            control: parts.control,
            counts: parts.counts,
            counters: Box::leak(Box::new(counters)),
            rules: parts.rules,
            table: parts.table,
            registering: Mutex::new(Registered {
                count: 0,
                table_bytes: 0,
            }),
            rings: Mutex::default(),
            making: Mutex::new(()),
            buffers: Arc::new(parts.buffers),
            keep: parts.keep,
            ring_bytes: crate::ring::capacity_for(ring_bytes),
            waker: Box::leak(Box::new(waker)),
        }
    }

    /// Bytes of the longest record that its rings take.
    pub fn record_bytes_max(&self) -> usize {
        crate::ring::record_bytes_max(self.ring_bytes)
    }

    /// Where the session is: its directory, or the socket of its agent.
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

    /// The memory of the flight recorder, to look at and to ask things of; `None` where nothing is kept.
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
        self.waker
    }

    /// What is counted for each callsite.
    pub fn counters(&self) -> &'static CallsiteCounters {
        self.counters
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
        let mut registered = self.registering.lock().unwrap_or_else(PoisonError::into_inner);
        let id = registered.count;
        let start = registered.table_bytes;
        let end = start + (8 + callsite.len()).next_multiple_of(8);
        if id as usize >= CALLSITES_MAX {
            return Err(RingError::Limit {
                what: "callsites of a session",
                limit: CALLSITES_MAX as u64,
            });
        }
        if end > TABLE_BYTES_MAX {
            return Err(RingError::Limit {
                what: "bytes of a callsite table",
                limit: TABLE_BYTES_MAX as u64,
            });
        }
        self.table.reserve(end)?;
        self.control.reserve((id as usize + 1) * ENTRY_BYTES)?;
        self.counts.reserve((id as usize + 1) * COUNTS_BYTES)?;
        self.counters.publish(id + 1);
        // SAFETY: `[start, end)` is mapped and reserved, and nobody reads it before the count is published.
        unsafe {
            let at = self.table.mapping.base().add(start);
            at.cast::<[u8; 4]>()
                .write_unaligned((callsite.len() as u32).to_le_bytes());
            at.add(4).cast::<[u8; 4]>().write_unaligned(id.to_le_bytes());
            core::ptr::copy_nonoverlapping(callsite.as_ptr(), at.add(8), callsite.len());
        }
        // SAFETY: the entry is mapped, reserved and aligned; zeroes are valid; the mapping is leaked.
        let entry = unsafe {
            &*self
                .control
                .mapping
                .base()
                .add(id as usize * ENTRY_BYTES)
                .cast::<ControlEntry>()
        };
        entry.set_id(id);
        entry.set_base(control);
        entry.set_control(control);
        registered.count += 1;
        registered.table_bytes = end;
        self.header.publish_callsite(registered.count, end as u64);
        // SYNC(settle): whoever looks at the rules after this sees those of a tool that has not seen the callsite.
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        Ok(entry)
    }

    /// Copies the callsites from `first` on, starting at `table_offset`; returns them and where the next one starts.
    pub fn callsites_from(&self, table_offset: usize) -> (Vec<(u32, Vec<u8>)>, usize) {
        // Our own count: the one in shared memory may be damaged.
        let valid = self.lock_registered().table_bytes;
        let mut bytes = vec![0; valid.saturating_sub(table_offset)];
        // SAFETY: the first `valid` bytes are mapped and reserved, and never change again.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.table.mapping.base().add(table_offset.min(valid)),
                bytes.as_mut_ptr(),
                bytes.len(),
            );
        }
        let (found, used) = files::split_table(&bytes);
        (found, table_offset + used)
    }

    /// The control entry of a callsite.
    pub fn control(&self, id: u32) -> Option<&'static ControlEntry> {
        // SAFETY: below the number of callsites that have counts, entries are mapped and reserved, and zeroes are
        // valid; the mapping is leaked.
        self.counters.of(id).map(|_| unsafe {
            &*self
                .control
                .mapping
                .base()
                .add(id as usize * ENTRY_BYTES)
                .cast::<ControlEntry>()
        })
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
        let ring = match self.take_free().or_else(|| self.wait_for_free_ring()) {
            Some(ring) => ring,
            None => self.new_ring(policy)?,
        };
        self.look_ahead();
        Ok(Producer::attach(ring, thread_name))
    }

    /// A ring that no thread has.
    fn take_free(&self) -> Option<Arc<Ring>> {
        match &self.home {
            Home::Directory(_) => self.lock_rings().free.pop(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(_) => self.take_freed_by_agent(),
        }
    }

    #[cfg_attr(
        not(any(target_os = "linux", target_os = "android")),
        allow(unused_variables, reason = "there are no agents")
    )]
    fn new_ring(&self, policy: FullPolicy) -> Result<Arc<Ring>, RingError> {
        match &self.home {
            Home::Directory(dir) => self.make_ring(dir),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(agent) => self.ring_of_agent(agent, policy == FullPolicy::Block),
        }
    }

    /// Asks for rings before the next thread needs one.
    fn look_ahead(&self) {
        match &self.home {
            // The drain stocks rings when it has nothing else to do.
            Home::Directory(_) => {}
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(agent) => self.ask_ahead(agent),
        }
    }

    /// Where many threads have just ended, their rings will be free as soon as the drain has looked at them: that is
    /// worth a short wait, because memory for a ring of every short thread is not.
    fn wait_for_free_ring(&self) -> Option<Arc<Ring>> {
        for _ in 0..FREE_RING_LOOKS {
            let ended = |rings: &Rings| {
                let ended = |ring: &&Arc<Ring>| ring.header().state() == RingState::Ended;
                rings.all.iter().filter(ended).nth(ENDED_RINGS_MAX).is_some()
            };
            if !ended(&self.lock_rings()) {
                return None;
            }
            self.waker.wake();
            std::thread::sleep(std::time::Duration::from_micros(FREE_RING_LOOK_US));
            if let Some(ring) = self.take_free() {
                return Some(ring);
            }
        }
        None
    }

    /// Makes a ring ahead of its need, so that the next thread finds one. An agent is asked for rings elsewhere.
    ///
    /// # Errors
    /// As [`SessionWriter::acquire`].
    pub fn make_spare_ring(&self, spare: usize) -> Result<(), RingError> {
        match &self.home {
            Home::Directory(dir) => {
                if self.lock_rings().free.len() < spare {
                    let ring = self.make_ring(dir)?;
                    self.lock_rings().free.push(ring);
                }
                Ok(())
            }
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(_) => Ok(()),
        }
    }

    fn make_ring(&self, dir: &SessionDir) -> Result<Arc<Ring>, RingError> {
        // One at a time, but without the list's lock: who finds a ring in stock does not wait for others' files.
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let index = self.lock_rings().all.len();
        if index >= RINGS_MAX {
            return Err(RingError::Limit {
                what: "rings of a session",
                limit: RINGS_MAX as u64,
            });
        }
        let (file, path) =
            dir.create_file(&files::ring_name(index as u32), Ring::file_bytes(self.ring_bytes))?;
        let ring = Arc::new(Ring::create(
            &file,
            &path,
            self.ring_bytes,
            index as u32,
            Some(self.waker),
        )?);
        let mut rings = self.lock_rings();
        rings.all.push(Arc::clone(&ring));
        self.header.publish_ring_count(rings.all.len() as u32);
        Ok(ring)
    }

    /// Rings with numbers from `first` on.
    pub fn rings_from(&self, first: usize) -> Vec<Arc<Ring>> {
        self.lock_rings().all.get(first..).unwrap_or(&[]).to_vec()
    }

    /// Takes a finished ring back, for the next thread. For the drain.
    pub fn recycle(&self, ring: &Arc<Ring>) {
        ring.set_overloaded(false);
        ring.header().store_state(RingState::Free);
        self.lock_rings().free.push(Arc::clone(ring));
    }

    /// Removes the session's files: everything has reached the log.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove(&self) -> Result<(), RingError> {
        self.header.mark_done();
        match &self.home {
            Home::Directory(dir) => dir.remove(),
            // The memory goes with the last descriptor.
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Home::Agent(_) => Ok(()),
        }
    }

    fn lock_registered(&self) -> std::sync::MutexGuard<'_, Registered> {
        self.registering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_rings(&self) -> std::sync::MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
