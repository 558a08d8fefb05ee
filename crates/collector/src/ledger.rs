//! The ledger: the records of each session that are in the log. Written before the log, so that a collector that is
//! killed between the two knows what to take back.
//!
//! Each entry has 88 bytes: a checksum, then session, epoch, the number behind the last record, where in which file its bytes
//! lie, the boot of the machine, and the identity that the session belongs to. Batches that are written together have one
//! place, and each the length up to its own end. A torn end is cut off. When it has grown it is written anew, with one entry
//! for each session, and one of session 0 for each file whose end is void.

use crate::error::CollectorError;
use crate::limits::VOID_FILES_MAX;
use logdrive_drain::file::{Placement, Storage};
use logdrive_ship::session::DedupCursor;
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of an entry.
const ENTRY_BYTES: usize = 88;
/// Length at which it is written anew: 200,000 entries, which are read in some milliseconds.
const LEDGER_BYTES_MAX: u64 = 16 << 20;

/// An entry: one batch of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Entry {
    pub(crate) session: u128,
    pub(crate) cursor: DedupCursor,
    /// Location in the log of the batches that it was written with.
    pub(crate) place: Placement,
    /// Bytes from there to the end of its own; 0 in a ledger that was written anew.
    pub(crate) length: u64,
    /// Boot in which it was written; 0 where that is not known.
    pub(crate) boot: u64,
    /// Key of the identity that the session belongs to; 0 for none.
    pub(crate) owner: u64,
}

/// A session as the ledger has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownSession {
    pub(crate) session: u128,
    pub(crate) cursor: DedupCursor,
    pub(crate) owner: u64,
}

impl Entry {
    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let numbers = [
            self.cursor.epoch,
            self.cursor.next,
            self.place.dev,
            self.place.ino,
            self.place.offset,
            self.length,
            self.boot,
            self.owner,
        ];
        bytes[8..24].copy_from_slice(&self.session.to_le_bytes());
        for (place, number) in bytes[24..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let crc = checksum(&bytes[8..]);
        bytes[..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (crc, rest) = bytes.split_first_chunk::<8>()?;
        if u64::from_le_bytes(*crc) != checksum(rest) {
            return None;
        }
        let (session, rest) = rest.split_first_chunk::<16>()?;
        let mut numbers = rest
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        Some(Self {
            session: u128::from_le_bytes(*session),
            cursor: DedupCursor {
                epoch: numbers.next()?,
                next: numbers.next()?,
            },
            place: Placement {
                dev: numbers.next()?,
                ino: numbers.next()?,
                offset: numbers.next()?,
            },
            length: numbers.next()?,
            boot: numbers.next()?,
            owner: numbers.next()?,
        })
    }
}

/// Never 0, so that zeros are no entry.
fn checksum(bytes: &[u8]) -> u64 {
    u64::from(logdrive_ship::frame::checksum(bytes)) | 1 << 63
}

/// The open ledger.
#[derive(Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    storage: Arc<dyn Storage>,
    file: File,
    end: u64,
    /// This boot of the machine; 0 where that is not known.
    boot: u64,
    /// Places from which on files are void, because a sync has failed. The files stay open, so that no other gets the
    /// number of one.
    voids: Vec<(Placement, File)>,
}

impl Ledger {
    /// Opens the ledger of a directory and takes back what it says of bytes that are not in the log: their senders
    /// send them again. Returns the cursor of each session.
    pub(crate) fn open(
        directory: &Path,
        storage: Arc<dyn Storage>,
    ) -> Result<(Self, Vec<KnownSession>), CollectorError> {
        let path = directory.join("collected.ledger");
        let failed = CollectorError::file("write", &path);
        let file = options().create(true).open(&path).map_err(&failed)?;
        let mut ledger = Self {
            path: path.clone(),
            storage,
            file,
            end: 0,
            boot: logdrive_ring::boot().unwrap_or(0),
            voids: Vec::new(),
        };
        let mut entries = ledger.read().map_err(&failed)?;
        let voids = entries.extract_if(.., |entry| entry.session == 0);
        for void in voids.collect::<Vec<_>>() {
            cut(directory, void.place, 0).map_err(&failed)?;
        }
        take_back(directory, &mut entries, ledger.boot).map_err(&failed)?;
        // The last entry of each, in the order of those.
        let mut seen = HashSet::new();
        let mut sessions: Vec<KnownSession> = Vec::new();
        for entry in entries.iter().rev() {
            if seen.insert(entry.session) {
                sessions.push(KnownSession {
                    session: entry.session,
                    cursor: entry.cursor,
                    owner: entry.owner,
                });
            }
        }
        sessions.reverse();
        ledger.renew(&sessions)?;
        Ok((ledger, sessions))
    }

    fn read(&mut self) -> io::Result<Vec<Entry>> {
        let length = self.file.metadata()?.len();
        let mut entries = Vec::new();
        let mut bytes = [0; ENTRY_BYTES];
        let mut offset = 0;
        while offset + ENTRY_BYTES as u64 <= length {
            self.file.read_exact_at(&mut bytes, offset)?;
            let Some(entry) = Entry::decode(&bytes) else { break };
            entries.push(entry);
            offset += ENTRY_BYTES as u64;
        }
        Ok(entries)
    }

    /// Notes the locations at which bytes are about to be written; all of them or none.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), CollectorError> {
        let mut bytes = Vec::with_capacity(entries.len() * ENTRY_BYTES);
        for entry in entries {
            let entry = Entry {
                boot: self.boot,
                ..*entry
            };
            bytes.extend_from_slice(&entry.encode());
        }
        if let Err(cause) = self.file.write_all_at(&bytes, self.end) {
            // Entries that this leaves are overwritten by the next ones, and have no bytes in the log.
            let _ = self.file.set_len(self.end);
            return Err(CollectorError::write(&self.path, cause));
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes all entries durable. Blocks until the disk has them.
    pub(crate) fn sync(&self) -> Result<(), CollectorError> {
        let synced = self.storage.sync(&self.file);
        synced.map_err(CollectorError::file("sync", &self.path))
    }

    /// Strikes out the entries that were appended last: their bytes could not be written.
    pub(crate) fn take_back(&mut self, count: usize) -> Result<(), CollectorError> {
        self.end = self.end.saturating_sub((count * ENTRY_BYTES) as u64);
        let cut = self.file.set_len(self.end);
        cut.map_err(|cause| CollectorError::write(&self.path, cause))
    }

    /// Notes that nothing from this place on is in the log, whatever a later start finds there. Holds from the next
    /// [`Ledger::renew`] on.
    pub(crate) fn note_void(&mut self, place: Placement) {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        // A file without a name is nothing that a later start finds.
        let file = find(directory, place).ok().flatten().map(File::open);
        if let Some(Ok(file)) = file {
            self.voids.push((place, file));
            if self.voids.len() > VOID_FILES_MAX {
                self.voids.remove(0);
            }
        }
    }

    /// Returns whether it should be written anew.
    pub(crate) fn is_long(&self) -> bool {
        self.end >= LEDGER_BYTES_MAX
    }

    /// Writes it anew, with one entry a session, and makes it durable.
    pub(crate) fn renew(&mut self, sessions: &[KnownSession]) -> Result<(), CollectorError> {
        let renewed = self.replace(sessions);
        renewed.map_err(CollectorError::file("write", &self.path))
    }

    fn replace(&mut self, sessions: &[KnownSession]) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let file = options().create(true).truncate(true).open(&fresh)?;
        let mut bytes = Vec::with_capacity((sessions.len() + self.voids.len()) * ENTRY_BYTES);
        for (place, _) in &self.voids {
            let entry = Entry {
                place: *place,
                boot: self.boot,
                ..Entry::default()
            };
            bytes.extend_from_slice(&entry.encode());
        }
        for known in sessions {
            let entry = Entry {
                session: known.session,
                cursor: known.cursor,
                owner: known.owner,
                ..Entry::default()
            };
            bytes.extend_from_slice(&entry.encode());
        }
        file.write_all_at(&bytes, 0)?;
        self.storage.sync(&file)?;
        std::fs::rename(&fresh, &self.path)?;
        let directory = self.path.parent().unwrap_or(Path::new("."));
        self.storage.sync_dir(&File::open(directory)?)?;
        self.file = file;
        self.end = bytes.len() as u64;
        Ok(())
    }
}

/// Drops entries at the end whose bytes are not whole in the log, and cuts those bytes off. The kernel keeps what it has
/// taken until the machine ends: in the same boot at most batches that were written together with the last one can be
/// missing, and a log that ends before them was truncated by another program, as `copytruncate` does.
fn take_back(directory: &Path, entries: &mut Vec<Entry>, boot: u64) -> io::Result<()> {
    let mut dropped: Option<Placement> = None;
    while let Some(last) = entries.last().copied().filter(|entry| entry.length > 0) {
        let is_same_boot = boot != 0 && last.boot == boot;
        if is_same_boot && dropped.is_some_and(|place| place != last.place) {
            return Ok(());
        }
        let Some(path) = find(directory, last.place)? else {
            // Rotated, compressed and gone: it was whole, or the next one would not have been written.
            return Ok(());
        };
        let length = path.metadata()?.len();
        if length >= last.place.offset + last.length || is_same_boot && length < last.place.offset {
            return Ok(());
        }
        entries.pop();
        dropped = Some(last.place);
        let before = entries.last().filter(|entry| entry.place == last.place);
        cut(directory, last.place, before.map_or(0, |entry| entry.length))?;
    }
    Ok(())
}

/// Cuts a file off so many bytes behind a place, where it is there and goes on.
fn cut(directory: &Path, place: Placement, keep_bytes: u64) -> io::Result<()> {
    let Some(path) = find(directory, place)? else {
        return Ok(());
    };
    let file = OpenOptions::new().write(true).open(&path)?;
    let end = place.offset + keep_bytes;
    match file.metadata()?.len() > end {
        true => file.set_len(end),
        false => Ok(()),
    }
}

fn find(directory: &Path, place: Placement) -> io::Result<Option<PathBuf>> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if found.is_file() && found.dev() == place.dev && found.ino() == place.ino {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

fn options() -> OpenOptions {
    let mut options = logdrive_ship::forward::files::private();
    options.read(true).write(true);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_drain::file::Disk;

    fn entry(session: u128, next: u64, ino: u64, offset: u64, length: u64, dev: u64) -> Entry {
        Entry {
            session,
            cursor: DedupCursor { epoch: 1, next },
            place: Placement { dev, ino, offset },
            length,
            boot: 0,
            owner: 5,
        }
    }

    #[test]
    fn records_stay_collected_where_the_log_was_truncated_before_the_collector_was_killed() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("collected.log");
        let boot = logdrive_ring::boot().expect("this system has boots");
        for (length, is_same_boot, expected) in [
            // Truncated.
            (0, true, 9),
            (3, true, 9),
            // Torn: the last batch alone is missing.
            (12, true, 5),
            (20, true, 9),
            // After a power cut the kernel has forgotten what the disk has not.
            (3, false, 0),
        ] {
            std::fs::write(&log, vec![b'x'; length]).expect("written");
            let found = log.metadata().expect("there");
            let (mut ledger, _) = Ledger::open(directory.path(), Arc::new(Disk)).expect("opened");
            ledger.renew(&[]).expect("written");
            ledger.boot = if is_same_boot { boot } else { 1 };
            for (next, offset) in [(5, 0), (9, 10)] {
                ledger
                    .append(&[entry(1, next, found.ino(), offset, 10, found.dev())])
                    .expect("written");
            }
            drop(ledger);
            let (_, sessions) = Ledger::open(directory.path(), Arc::new(Disk)).expect("opened");
            let next = sessions.first().map_or(0, |known| known.cursor.next);
            assert_eq!(next, expected, "a log of {length} bytes, {is_same_boot}");
        }
    }

    #[test]
    fn bytes_that_are_not_whole_are_taken_back_at_every_length() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("collected.log");
        for length in 0..=20 {
            std::fs::write(&log, vec![b'x'; length]).expect("written");
            let found = log.metadata().expect("there");
            let (mut ledger, _) = Ledger::open(directory.path(), Arc::new(Disk)).expect("opened");
            ledger.renew(&[]).expect("written");
            // As after a power cut.
            ledger.boot = 1;
            ledger
                .append(&[entry(1, 5, found.ino(), 0, 10, found.dev())])
                .expect("written");
            ledger
                .append(&[entry(1, 9, found.ino(), 10, 10, found.dev())])
                .expect("written");
            drop(ledger);
            let (_, sessions) = Ledger::open(directory.path(), Arc::new(Disk)).expect("opened");
            let next = sessions.first().map_or(0, |known| known.cursor.next);
            let left = log.metadata().expect("there").len();
            let expected = match length {
                20 => (9, 20),
                10..20 => (5, 10),
                _ => (0, 0),
            };
            assert_eq!((next, left), expected, "a log of {length} bytes");
        }
    }

    #[test]
    fn of_batches_that_were_written_together_those_stay_that_are_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("collected.log");
        for length in 0..=40 {
            std::fs::write(&log, vec![b'x'; length]).expect("written");
            let found = log.metadata().expect("there");
            let (mut ledger, _) = Ledger::open(directory.path(), Arc::new(Disk)).expect("opened");
            ledger.renew(&[]).expect("written");
            let of = |next: u64, offset, length| entry(1, next, found.ino(), offset, length, found.dev());
            ledger.append(&[of(1, 0, 10)]).expect("written");
            ledger
                .append(&[of(2, 10, 10), of(3, 10, 20), of(4, 10, 30)])
                .expect("written");
            drop(ledger);
            let (_, sessions) = Ledger::open(directory.path(), Arc::new(Disk)).expect("opened");
            let next = sessions.first().map_or(0, |known| known.cursor.next);
            let left = log.metadata().expect("there").len();
            let expected = match length as u64 {
                // Truncated by another program: all were there.
                short @ ..10 => (4, short),
                long => (long / 10, long / 10 * 10),
            };
            assert_eq!((next, left), expected, "a log of {length} bytes");
        }
    }

    #[test]
    fn a_torn_entry_counts_as_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("collected.ledger");
        for cut in 0..ENTRY_BYTES as u64 {
            let (mut ledger, _) = Ledger::open(directory.path(), Arc::new(Disk)).expect("opened");
            ledger.renew(&[]).expect("written");
            ledger.append(&[entry(7, 3, 0, 0, 0, 0)]).expect("written");
            ledger.append(&[entry(7, 4, 0, 0, 0, 0)]).expect("written");
            drop(ledger);
            let file = OpenOptions::new().write(true).open(&path).expect("there");
            file.set_len(ENTRY_BYTES as u64 + cut).expect("cut");
            let (_, sessions) = Ledger::open(directory.path(), Arc::new(Disk)).expect("opened");
            assert_eq!(
                sessions
                    .first()
                    .map(|known| (known.session, known.cursor.next, known.owner)),
                Some((7, 3, 5))
            );
        }
    }
}
