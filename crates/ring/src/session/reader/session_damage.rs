//! Damage of a dead process's session: it is mended where it can be, and costs itself alone where it
//! cannot. `spec/session.md` says under "Damage" what is done with each part.

use super::{DamageNotes, SessionReader};
use crate::drop_reason::DropReason;
use crate::files::{RING_PREFIX, SessionDir, open_existing, ring_name};
use crate::header::{CAPACITY_OFFSET, RING_HEADER_BYTES, RING_MAGIC, capacity_of};
use crate::limits::RINGS_MAX;
use crate::ring::Ring;
use crate::session_header::{SESSION_BYTES, SessionName, mend};
use crate::{RingError, files};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Damage that a recoverer found in a session, and what there is in its directory.
#[derive(Debug, Default)]
pub(super) struct SessionDamage {
    /// Numbers of the rings, whatever the header says of them.
    pub(super) rings: Vec<u32>,
}

impl SessionDamage {
    /// Looks at the files of a session that is locked for this process.
    pub(super) fn look(dir: &Path) -> Result<Self, RingError> {
        let list = std::fs::read_dir(dir).map_err(|cause| RingError::io("list", dir, cause))?;
        let names = list
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let numbers = names.filter_map(|name| name.strip_prefix(RING_PREFIX)?.parse::<u32>().ok());
        let mut rings: Vec<u32> = numbers.filter(|number| (*number as usize) < RINGS_MAX).collect();
        rings.sort_unstable();
        Ok(Self { rings })
    }

    /// Gives a session file that was truncated its length again, unless the session was only being made.
    pub(super) fn mend_length(&self, dir: &Path, file: &File) -> Result<(), RingError> {
        let path = dir.join("session");
        let found = file
            .metadata()
            .map_err(|cause| RingError::io("look at", &path, cause))?;
        if found.len() < SESSION_BYTES as u64 && !self.rings.is_empty() {
            DamageNotes::open(dir).note(&format!(
                "session header is damaged: the file has {} bytes, expected {SESSION_BYTES}",
                found.len()
            ));
            files::reserve(file, &path, found.len(), SESSION_BYTES as u64)?;
        }
        Ok(())
    }

    /// Mends the header of a session, unless the session was only being made.
    pub(super) fn mend_header(&self, reader: &SessionReader) -> Result<(), RingError> {
        // No ring is made before the header is whole.
        if self.rings.is_empty() {
            return Ok(());
        }
        let name = SessionName::of(reader.path());
        let mut notes = DamageNotes::open(reader.path());
        mend(reader.header(), &name, &mut notes, || {
            self.told_of_rings(reader.path())
        })
    }

    /// Mends headers of rings in which one of magic and capacity is wrong: the file's length tells the capacity, and who has
    /// that is a ring.
    pub(super) fn mend_ring_headers(&self, dir: &Path) {
        let mut notes = DamageNotes::open(dir);
        for number in &self.rings {
            // One that cannot be read is reported by the drain.
            let _ = mend_ring_header(&dir.join(ring_name(*number)), *number, &mut notes);
        }
    }

    /// Sums up the drops of rings that gap records have reported, or are about to.
    fn told_of_rings(&self, dir: &Path) -> [u64; DropReason::COUNT] {
        let mut sums = [0u64; DropReason::COUNT];
        for number in &self.rings {
            let path = dir.join(ring_name(*number));
            let opened = open_existing(&path).and_then(|file| Ring::open(&file, &path, *number));
            // What is wrong with it is reported by the drain.
            let Ok(ring) = opened else { continue };
            let header = ring.header();
            let counts = header.dropped.iter().zip(&header.unreported);
            for (sum, (dropped, waiting)) in sums.iter_mut().zip(counts) {
                // Relaxed: statistics.
                let told = dropped
                    .load(Ordering::Relaxed)
                    .saturating_sub(waiting.load(Ordering::Relaxed));
                *sum = sum.saturating_add(told);
            }
        }
        sums
    }

    /// Leaves files out that were to become rings when the process died.
    pub(super) fn leave_unmade_rings(&mut self, dir: &Path, ring_count: u32) {
        self.rings
            .retain(|number| *number < ring_count || !is_unmade(&dir.join(ring_name(*number))));
    }
}

/// Keeps a session that was adopted, under a name that says so: something in it could not be read, and all that is whole
/// has reached the log. Returns its path.
///
/// # Errors
/// When the process lives, or the directory cannot be renamed.
pub fn set_aside(session: &SessionReader) -> Result<PathBuf, RingError> {
    match &session.process_lock {
        Some(dir) => dir.set_aside(),
        None => SessionDir::adopt(session.path())?.set_aside(),
    }
}

fn mend_ring_header(path: &Path, number: u32, notes: &mut DamageNotes) -> Result<(), RingError> {
    let io = |action| move |cause| RingError::io(action, path, cause);
    let file = open_existing(path)?;
    let length = file.metadata().map_err(io("look at"))?.len();
    let capacity_bytes = capacity_of(length)? as u64;
    let mut bytes = [0; CAPACITY_OFFSET as usize + 8];
    file.read_exact_at(&mut bytes, capacity_bytes)
        .map_err(io("read"))?;
    let magic = u64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]));
    let capacity = u64::from_le_bytes(*bytes.last_chunk().unwrap_or(&[0; 8]));
    let is_other_version = (magic ^ RING_MAGIC) << 16 == 0;
    let (at, word, what) = match (magic == RING_MAGIC, capacity == capacity_bytes) {
        (true, false) => (CAPACITY_OFFSET, capacity_bytes, "capacity"),
        (false, true) if !is_other_version => (0, RING_MAGIC, "magic"),
        _ => return Ok(()),
    };
    notes.note(&format!(
        "ring {number}: the {what} of its header is damaged, and was mended"
    ));
    file.write_all_at(&word.to_le_bytes(), capacity_bytes + at)
        .map_err(io("write"))
}

/// Returns true if nothing was ever stored in the file of a ring but its capacity, which goes before the magic. Its front
/// alone says nothing: records that the drain has taken are zeros again.
fn is_unmade(path: &Path) -> bool {
    let Ok(mut file) = open_existing(path) else {
        return false;
    };
    let length = file.metadata().map_or(0, |found| found.len());
    let capacity_at = length.saturating_sub(RING_HEADER_BYTES as u64) + CAPACITY_OFFSET;
    let is_capacity = |offset| (capacity_at..capacity_at + 8).contains(&offset);
    let mut block = vec![0; 64 * 1024];
    let mut offset = 0u64;
    loop {
        let Some(read) = file.read(&mut block).ok().and_then(|length| block.get(..length)) else {
            return false;
        };
        let mut bytes = read.iter().zip(offset..);
        if bytes.any(|(byte, at)| *byte != 0 && !is_capacity(at)) {
            return false;
        }
        if read.is_empty() {
            return true;
        }
        offset += read.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_whose_front_the_drain_has_taken_is_made() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(ring_name(0));
        let mut bytes = vec![0; 200_000];
        std::fs::write(&path, &bytes).expect("written");
        assert!(is_unmade(&path));
        bytes[150_000] = 1;
        std::fs::write(&path, &bytes).expect("written");
        assert!(!is_unmade(&path));
        assert!(!is_unmade(&dir.path().join("none")));
    }

    /// The session of a process that was killed between the two stores was kept as damaged.
    #[test]
    fn a_ring_that_has_a_capacity_and_no_magic_is_unmade() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(ring_name(0));
        let mut bytes = vec![0; (64 << 10) + RING_HEADER_BYTES];
        let header = 64 << 10;
        bytes[header + 16..header + 24].copy_from_slice(&(64u64 << 10).to_le_bytes());
        std::fs::write(&path, &bytes).expect("written");
        assert!(is_unmade(&path));
        bytes[header] = b'L';
        std::fs::write(&path, &bytes).expect("written");
        assert!(!is_unmade(&path));
    }
}
