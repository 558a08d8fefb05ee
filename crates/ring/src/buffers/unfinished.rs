//! Writes that a process had begun when it died, for a program that takes over its log before its session is recovered.

use super::{Buffers, FileLocation, WRITING};
use crate::{RingError, SessionReader, files, find_sessions};
use core::sync::atomic::Ordering;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that were on their way to a place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedWrite {
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// All bytes, of which the file may have a part.
    pub bytes: Vec<u8>,
}

/// Returns the writes to a file that dead processes of a run directory had begun. The recovery of such a session, which
/// may run meanwhile, writes what the file lacks. What cannot be read is left out.
pub fn unfinished_writes(run_dir: &Path, dev: u64, ino: u64) -> Vec<UnfinishedWrite> {
    let mut found = Vec::new();
    for session in find_sessions(run_dir).unwrap_or_default() {
        let is_own = |holder| {
            let view = SessionReader::open(&session.path);
            view.map_or(true, |view| view.header().identity().pid == holder)
        };
        if !session.holder.is_some_and(is_own) {
            found.extend(writes_of(&session.path, dev, ino).unwrap_or_default());
        }
    }
    found
}

fn writes_of(session: &Path, dev: u64, ino: u64) -> Result<Vec<UnfinishedWrite>, RingError> {
    let path = session.join("drain");
    let file = files::open_existing(&path)?;
    let buffers = Buffers::open(&file, &path)?;
    let mut found = Vec::new();
    for index in 0..buffers.buffer_count {
        let begun = buffers.begun_write(index);
        let Some(Begun { place, from, until }) = begun.filter(|begun| begun.is_to(dev, ino)) else {
            continue;
        };
        let mut bytes = vec![0; until - from];
        let at = Buffers::file_bytes(index, buffers.buffer_bytes) + from as u64;
        // Not from the mapping: a recoverer may have finished the write, and fill the buffer anew.
        file.read_exact_at(&mut bytes, at)
            .map_err(|cause| RingError::io("read", &path, cause))?;
        if buffers.begun_write(index) == begun {
            let offset = place.offset;
            found.push(UnfinishedWrite { offset, bytes });
        }
    }
    Ok(found)
}

/// A buffer whose write was begun: the place of its byte `from`, and the end of its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Begun {
    place: FileLocation,
    from: usize,
    until: usize,
}

impl Begun {
    fn is_to(&self, dev: u64, ino: u64) -> bool {
        (self.place.dev, self.place.ino) == (dev, ino)
    }
}

impl Buffers {
    fn begun_write(&self, index: usize) -> Option<Begun> {
        let (descriptor, sink) = (self.words.descriptor(index), self.words.sink(self.sink_of(index)));
        // Relaxed: the checksum was loaded before.
        let sequence = descriptor.sequence.load(Ordering::Relaxed);
        if descriptor.true_state() != Some(WRITING) || sink.settled().sequence == sequence {
            return None;
        }
        let until = descriptor.length.load(Ordering::Relaxed) as usize;
        let from = sink.done(sequence) as usize;
        let mut place = descriptor.place();
        place.offset = place.offset.wrapping_add(from as u64);
        let is_possible = place.ino != 0 && from < until && until <= self.buffer_bytes;
        is_possible.then_some(Begun { place, from, until })
    }
}
