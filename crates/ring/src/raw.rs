//! Shared memory as plain bytes: what a process is able to do to what it shares with an agent, for tests that do it.
#![allow(unsafe_code)]

use crate::sys;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::fs::File;
use std::io;

/// A whole file of shared memory, to be read and written at any place by anybody.
#[derive(Debug)]
pub struct RawMemory {
    mapping: sys::Mapping,
    bytes: usize,
}

impl RawMemory {
    /// Maps a file that can never shrink, such as a sealed memory file.
    ///
    /// # Errors
    /// When the system does not map it.
    pub fn map(file: &File) -> io::Result<Self> {
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        Ok(Self {
            mapping: sys::Mapping::plain(file, 0, bytes)?,
            bytes,
        })
    }

    /// Bytes of the file.
    pub fn length(&self) -> usize {
        self.bytes
    }

    /// Stores bytes one by one; what lies beyond the end is left out.
    pub fn store(&self, offset: usize, bytes: &[u8]) {
        for (at, byte) in (offset..self.bytes).zip(bytes) {
            // SAFETY: the place lies inside of the mapping, which lives as long as `self`; an atomic may be shared.
            let place = unsafe { &*self.mapping.base().add(at).cast::<AtomicU8>() };
            // Relaxed: nobody relies on what is stored here.
            place.store(*byte, Ordering::Relaxed);
        }
    }

    /// The aligned word that begins at or before the offset; 0 beyond the end.
    pub fn word(&self, offset: usize) -> u64 {
        let at = offset & !7;
        if at + 8 > self.bytes {
            return 0;
        }
        // SAFETY: as above, and mappings are aligned to pages.
        let place = unsafe { &*self.mapping.base().add(at).cast::<AtomicU64>() };
        // Relaxed: a look.
        place.load(Ordering::Relaxed)
    }
}
