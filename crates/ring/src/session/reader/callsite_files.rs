//! The files of a session that grow with its callsites, as another process reads them: the table, the control words and
//! the counts. Each is opened when it is first needed.
#![allow(unsafe_code)]

use crate::callsite_entries::split_table;
use crate::control::ControlEntry;
use crate::counts::CallsiteCounts;
use crate::files::open_existing;
use crate::limits::{CALLSITES_MAX, TABLE_BYTES_MAX};
use crate::session::SessionMemory;
use crate::session_header::SessionHeader;
use crate::{RingError, sys};
use std::fs::File;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

/// Callsites of another process.
#[derive(Debug, Default)]
pub(super) struct CallsiteFiles {
    control: OnceLock<Entries<ControlEntry>>,
    counts: OnceLock<Entries<CallsiteCounts>>,
    table: OnceLock<File>,
}

impl CallsiteFiles {
    /// Opens all of them now.
    pub(super) fn open_all(&self, memory: &SessionMemory) -> Result<(), RingError> {
        Entries::map_once(&self.control, memory, "control")?;
        Entries::map_once(&self.counts, memory, "counts")?;
        self.table(memory).map(drop)
    }

    /// Control entry of a callsite.
    pub(super) fn control(
        &self,
        id: u32,
        memory: &SessionMemory,
        header: &SessionHeader,
    ) -> Option<&ControlEntry> {
        let entries = Entries::map_once(&self.control, memory, "control").ok()?;
        // The process may have no more entries than it says.
        (id < header.callsite_count())
            .then(|| entries.entry(id))
            .flatten()
    }

    /// Counts of a callsite.
    pub(super) fn counts(
        &self,
        id: u32,
        memory: &SessionMemory,
        header: &SessionHeader,
    ) -> Option<&CallsiteCounts> {
        let entries = Entries::map_once(&self.counts, memory, "counts").ok()?;
        (id < header.callsite_count())
            .then(|| entries.entry(id))
            .flatten()
    }

    /// Reads the whole entries of the table.
    pub(super) fn read_all(
        &self,
        memory: &SessionMemory,
        valid_bytes: usize,
    ) -> Result<Vec<(u32, Vec<u8>)>, RingError> {
        Ok(split_table(&self.read_table(0, valid_bytes, memory)?).callsites)
    }

    /// Reads the table from an offset on, for the drain; returns the callsites and the offset behind them.
    pub(super) fn read_from(
        &self,
        offset: usize,
        memory: &SessionMemory,
        valid_bytes: usize,
    ) -> (Vec<(u32, Vec<u8>)>, usize) {
        if valid_bytes <= offset {
            return (Vec::new(), offset);
        }
        match self.read_table(offset, valid_bytes, memory) {
            // A process raises the end of the table when an entry is whole: one that is not will never be.
            Ok(bytes) => (split_table(&bytes).callsites, offset + bytes.len()),
            Err(_) => (Vec::new(), offset),
        }
    }

    /// Reads the part of the table that the file has. Read and not mapped: reading makes no pages that the process has
    /// not made.
    fn read_table(&self, from: usize, to: usize, memory: &SessionMemory) -> Result<Vec<u8>, RingError> {
        let file = self.table(memory)?;
        let io = |action| move |cause| RingError::io(action, memory.path().join("callsites"), cause);
        let length = file.metadata().map_err(io("look at"))?.len();
        let to = to.min(usize::try_from(length).unwrap_or(usize::MAX));
        let mut bytes = vec![0; to.saturating_sub(from)];
        file.read_exact_at(&mut bytes, from as u64).map_err(io("read"))?;
        Ok(bytes)
    }

    fn table<'a>(&'a self, memory: &'a SessionMemory) -> Result<&'a File, RingError> {
        match (memory, self.table.get()) {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            (SessionMemory::Files { files, .. }, _) => Ok(files.part("callsites")?.0),
            (_, Some(file)) => Ok(file),
            (SessionMemory::Directory(path), None) => {
                let file = open_existing(&path.join("callsites"))?;
                Ok(self.table.get_or_init(|| file))
            }
        }
    }
}

/// Bytes of the table that are valid, by the header's word; of the session of a dead process all that there are, because
/// each entry has a check.
pub(super) fn table_bytes(header: &SessionHeader, is_live: bool) -> usize {
    match is_live {
        true => header.table_bytes().min(TABLE_BYTES_MAX as u64) as usize,
        false => TABLE_BYTES_MAX,
    }
}

/// Entries of one kind in shared memory, one for each callsite.
#[derive(Debug)]
struct Entries<T> {
    mapping: sys::Mapping,
    count: usize,
    kind: PhantomData<T>,
}

impl<T> Entries<T> {
    /// Maps a file of the session unless that was done.
    fn map_once<'a>(
        cell: &'a OnceLock<Self>,
        memory: &SessionMemory,
        name: &str,
    ) -> Result<&'a Self, RingError> {
        if let Some(entries) = cell.get() {
            return Ok(entries);
        }
        let mapped = match memory {
            SessionMemory::Directory(path) => {
                let path = path.join(name);
                Self::map(&open_existing(&path)?, &path)
            }
            #[cfg(any(target_os = "linux", target_os = "android"))]
            SessionMemory::Files { files, .. } => Self::map(files.part(name)?.0, Path::new(name)),
        }?;
        Ok(cell.get_or_init(|| mapped))
    }

    /// Maps as many entries as the file has, at most those of the format.
    fn map(file: &File, path: &Path) -> Result<Self, RingError> {
        let bytes = file
            .metadata()
            .map_err(|cause| RingError::io("look at", path, cause))?
            .len();
        let count = (bytes as usize / size_of::<T>()).min(CALLSITES_MAX);
        let mapping = sys::Mapping::plain(file, 0, count.max(1) * size_of::<T>())
            .map_err(|cause| RingError::io("map", path, cause))?;
        Ok(Self {
            mapping,
            count,
            kind: PhantomData,
        })
    }

    fn entry(&self, id: u32) -> Option<&T> {
        // SAFETY: the entry lies inside of the mapping, which is as long as the file was, is aligned, and lives as
        // long as `self`. The entries of both kinds are atomics in all of their fields.
        ((id as usize) < self.count).then(|| unsafe { &*self.mapping.base().cast::<T>().add(id as usize) })
    }
}
