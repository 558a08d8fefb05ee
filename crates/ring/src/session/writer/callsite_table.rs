//! The callsite table of a session as its process writes it, with the control words and counts of the callsites. All
//! three grow in step.
#![allow(unsafe_code)]

use crate::callsite_entries::{HEAD_BYTES, head_of, split_table};
use crate::control::{ControlEntry, ENTRY_BYTES};
use crate::counts::{COUNTS_BYTES, CallsiteCounters};
use crate::files::{self, SessionDir};
use crate::limits::{CALLSITES_MAX, RESERVE_STEP_BYTES, TABLE_BYTES_MAX};
use crate::own_file::OwnFile;
use crate::session_header::SessionHeader;
use crate::{RingError, sys};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Callsites of this process. Their memory is never unmapped, because the program's callsites point into it.
#[derive(Debug)]
pub(super) struct CallsiteTable {
    table: Growing,
    control: Growing,
    counts: Growing,
    counters: &'static CallsiteCounters,
    registered: Mutex<Registered>,
}

/// Size of what is registered; the words in shared memory may be damaged.
#[derive(Debug, Default)]
struct Registered {
    count: u32,
    table_bytes: usize,
}

impl CallsiteTable {
    /// Makes the files of a session in a directory.
    pub(super) fn create(dir: &SessionDir) -> Result<Self, RingError> {
        let create = |name, bytes| Growing::create(dir, name, bytes);
        Ok(Self::new(
            create("callsites", TABLE_BYTES_MAX)?,
            create("control", CALLSITES_MAX * ENTRY_BYTES)?,
            create("counts", CALLSITES_MAX * COUNTS_BYTES)?,
        ))
    }

    /// Takes the three files, whose first step is reserved.
    pub(super) fn new(table: Growing, control: Growing, counts: Growing) -> Self {
        let counters = CallsiteCounters::new(control.mapping, counts.mapping);
        Self {
            table,
            control,
            counts,
            counters: crate::static_cell::keep(counters),
            registered: Mutex::default(),
        }
    }

    pub(super) fn counters(&self) -> &'static CallsiteCounters {
        self.counters
    }

    /// Appends a callsite, see [`super::SessionWriter::register`].
    pub(super) fn register(
        &self,
        header: &SessionHeader,
        callsite: &[u8],
        control: u32,
    ) -> Result<&'static ControlEntry, RingError> {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let id = registered.count;
        let start = registered.table_bytes;
        let end = start + (HEAD_BYTES + callsite.len()).next_multiple_of(8);
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
        // SAFETY: `[start, end)` is mapped and reserved, and no thread reads it before the count is published.
        unsafe {
            let at = self.table.mapping.base().add(start);
            at.cast::<[u8; HEAD_BYTES]>()
                .write_unaligned(head_of(id, callsite));
            core::ptr::copy_nonoverlapping(callsite.as_ptr(), at.add(HEAD_BYTES), callsite.len());
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
        header.publish_callsite(registered.count, end as u64);
        // SYNC(settle): a thread that reads the rules after this sees those of a tool that has not seen the callsite.
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        Ok(entry)
    }

    /// Copies the callsites from an offset on.
    pub(super) fn read_from(&self, table_offset: usize) -> (Vec<(u32, Vec<u8>)>, usize) {
        // Our own count: the one in shared memory may be damaged.
        let valid = self.lock().table_bytes;
        let mut bytes = vec![0; valid.saturating_sub(table_offset)];
        // SAFETY: the first `valid` bytes are mapped and reserved, and never change again.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.table.mapping.base().add(table_offset.min(valid)),
                bytes.as_mut_ptr(),
                bytes.len(),
            );
        }
        let entries = split_table(&bytes);
        // Everything below the end was whole when it was raised: what is not will never be.
        (entries.callsites, table_offset + bytes.len())
    }

    /// Control entry of a callsite that is registered.
    pub(super) fn control(&self, id: u32) -> Option<&'static ControlEntry> {
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

    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file whose mapping covers its largest size from the start, and whose blocks are reserved step by step.
#[derive(Debug)]
pub(super) struct Growing {
    file: OwnFile,
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
    pub(super) fn map(file: File, path: PathBuf, bytes_max: usize) -> Result<Self, RingError> {
        let mapping =
            sys::Mapping::plain(&file, 0, bytes_max).map_err(|cause| RingError::io("map", &path, cause))?;
        let reserved = std::sync::atomic::AtomicUsize::new(RESERVE_STEP_BYTES);
        let file = OwnFile::new(file).map_err(|cause| RingError::io("look at", &path, cause))?;
        Ok(Self {
            file,
            path,
            mapping: crate::static_cell::keep(mapping),
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
        let file = self.file.opened(&self.path)?;
        files::reserve(&file, &self.path, reserved as u64, wanted as u64)?;
        self.reserved.store(wanted, Ordering::Relaxed);
        Ok(())
    }
}
