//! The spool: batches on disk while nobody takes them, in order, each with its checksum. What is in it survives a
//! SIGKILL; a torn end is cut off when it is opened.
//!
//! A directory with segments `spool-NUMBER`, named after the first record in them, and `session`, which says whose
//! records they are. A segment is removed when all of it is acknowledged.

use crate::TransportError;
use crate::limits::{DECOMPRESSED_BYTES_MAX, FRAME_BYTES_MAX, SPOOL_BYTES_MAX, SPOOL_SEGMENT_BYTES};
use rustix::fs::{FlockOperation, flock};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes before the payload of a batch: length, checksum, first number, count, flags.
const HEAD_BYTES: usize = 4 + 4 + 8 + 4 + 4;

/// Where a spool is and how large it may grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolOptions {
    /// Its directory, made with mode 0700 where it is missing.
    pub directory: PathBuf,
    /// Bytes on disk at most. Default: 1 GiB.
    pub bytes_max: u64,
}

impl SpoolOptions {
    /// A spool of the default size.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            bytes_max: SPOOL_BYTES_MAX,
        }
    }
}

/// A batch that was read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpooledBatch {
    /// The number of its first record.
    pub first: u64,
    /// Its records.
    pub count: u32,
    /// Whether the payload is compressed.
    pub compressed: bool,
    /// Its bytes.
    pub payload: Vec<u8>,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    file: File,
    first: u64,
    /// The number behind its last record.
    end: u64,
    bytes: u64,
}

/// Batches on disk.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use logdrive_transport::forward::{Spool, SpoolOptions};
/// let directory = tempfile::tempdir()?;
/// let options = SpoolOptions::new(directory.path().join("spool"));
/// let mut spool = Spool::open(&options, 7, 1)?;
/// assert!(spool.append(0, 2, false, b"one\ntwo\n")?);
/// drop(spool);
/// let mut again = Spool::open(&options, 8, 2)?;
/// assert_eq!((again.session(), again.next_number()), (7, 2));
/// assert_eq!(again.read()?.unwrap().payload, b"one\ntwo\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Spool {
    options: SpoolOptions,
    _lock: File,
    session: u128,
    epoch: u64,
    segments: VecDeque<Segment>,
    bytes: u64,
    next: u64,
    /// Which segment is read, and where in it.
    reading: (usize, u64),
    scratch: Vec<u8>,
}

impl Spool {
    /// Opens a spool, which keeps its session and epoch: those given are for a new one.
    ///
    /// # Errors
    /// When it cannot be read or written, or another process has it.
    pub fn open(options: &SpoolOptions, session: u128, epoch: u64) -> Result<Self, TransportError> {
        let directory = &options.directory;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(at("make", directory))?;
        let lock_path = directory.join("lock");
        let lock = private()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(at("open", &lock_path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| at("lock", &lock_path)(error.into()))?;
        let (session, epoch) = owner(directory, session, epoch)?;
        let mut spool = Self {
            options: options.clone(),
            _lock: lock,
            session,
            epoch,
            segments: VecDeque::new(),
            bytes: 0,
            next: 0,
            reading: (0, 0),
            scratch: Vec::new(),
        };
        spool.load()?;
        Ok(spool)
    }

    /// Whose records these are.
    pub fn session(&self) -> u128 {
        self.session
    }

    /// The epoch of their numbers.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number behind the last record; 0 in a new spool.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// The number of the first record that is still there.
    pub fn first_number(&self) -> u64 {
        self.segments.front().map_or(self.next, |segment| segment.first)
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all of it has been read.
    pub fn is_read(&self) -> bool {
        let (index, offset) = self.reading;
        match self.segments.get(index) {
            None => true,
            Some(segment) => offset >= segment.bytes && index + 1 >= self.segments.len(),
        }
    }

    fn load(&mut self) -> Result<(), TransportError> {
        let directory = self.options.directory.clone();
        let mut found: Vec<(u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&directory).map_err(at("read", &directory))? {
            let path = entry.map_err(at("read", &directory))?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if let Some(first) = name.strip_prefix("spool-").and_then(|number| number.parse().ok()) {
                found.push((first, path));
            }
        }
        found.sort();
        let counted = directory.join("next");
        if let Ok(text) = std::fs::read_to_string(&counted) {
            self.next = text.trim().parse().unwrap_or(0);
        }
        for (first, path) in found {
            let file = private()
                .read(true)
                .write(true)
                .open(&path)
                .map_err(at("open", &path))?;
            let mut segment = Segment {
                path,
                file,
                first,
                end: first,
                bytes: 0,
            };
            self.measure(&mut segment)?;
            if segment.bytes == 0 || (first < self.next && !self.segments.is_empty()) {
                std::fs::remove_file(&segment.path).map_err(at("remove", &segment.path))?;
                continue;
            }
            self.next = self.next.max(segment.end);
            self.bytes += segment.bytes;
            self.segments.push_back(segment);
        }
        Ok(())
    }

    /// Finds the end of what is sound, and cuts off what is behind it.
    fn measure(&mut self, segment: &mut Segment) -> Result<(), TransportError> {
        let length = segment
            .file
            .metadata()
            .map_err(at("look at", &segment.path))?
            .len();
        while segment.bytes < length {
            match read_at(segment, segment.bytes, &mut self.scratch) {
                Some(batch) if batch.first == segment.end => {
                    segment.end = batch.first.saturating_add(batch.count.into());
                    segment.bytes += (HEAD_BYTES + batch.payload.len()) as u64;
                }
                _ => {
                    segment
                        .file
                        .set_len(segment.bytes)
                        .map_err(at("cut", &segment.path))?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds a batch. `false`: it is full.
    ///
    /// # Errors
    /// When it cannot be written; what was written of it is cut off.
    pub fn append(
        &mut self,
        first: u64,
        count: u32,
        compressed: bool,
        payload: &[u8],
    ) -> Result<bool, TransportError> {
        let length = (HEAD_BYTES + payload.len()) as u64;
        if self.bytes + length > self.options.bytes_max {
            return Ok(false);
        }
        let is_new = self
            .segments
            .back()
            .is_none_or(|last| last.end != first || last.bytes + length > SPOOL_SEGMENT_BYTES);
        if is_new {
            self.begin(first)?;
        }
        self.scratch.clear();
        self.scratch
            .extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.scratch.extend_from_slice(&[0; 4]);
        self.scratch.extend_from_slice(&first.to_le_bytes());
        self.scratch.extend_from_slice(&count.to_le_bytes());
        self.scratch
            .extend_from_slice(&u32::from(compressed).to_le_bytes());
        self.scratch.extend_from_slice(payload);
        let crc = crc32c::crc32c(self.scratch.get(8..).unwrap_or(&[])).to_le_bytes();
        if let Some(place) = self.scratch.get_mut(4..8) {
            place.copy_from_slice(&crc);
        }
        let Some(segment) = self.segments.back_mut() else {
            return Ok(false);
        };
        if let Err(cause) = segment.file.write_all_at(&self.scratch, segment.bytes) {
            // Where even that fails, the checksum tells it at the next start.
            let _ = segment.file.set_len(segment.bytes);
            return match cause.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Ok(false),
                _ => Err(at("write", &segment.path)(cause)),
            };
        }
        segment.bytes += length;
        segment.end = first.saturating_add(count.into());
        self.next = segment.end;
        self.bytes += length;
        Ok(true)
    }

    fn begin(&mut self, first: u64) -> Result<(), TransportError> {
        let path = self.options.directory.join(format!("spool-{first:020}"));
        let file = private()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(at("make", &path))?;
        self.segments.push_back(Segment {
            path,
            file,
            first,
            end: first,
            bytes: 0,
        });
        Ok(())
    }

    /// The next batch that has not been read; `None` when all has been.
    ///
    /// # Errors
    /// When it cannot be read, or its checksum does not fit.
    pub fn read(&mut self) -> Result<Option<SpooledBatch>, TransportError> {
        loop {
            let (index, offset) = self.reading;
            let Some(segment) = self.segments.get(index) else {
                return Ok(None);
            };
            if offset >= segment.bytes {
                if index + 1 >= self.segments.len() {
                    return Ok(None);
                }
                self.reading = (index + 1, 0);
                continue;
            }
            let Some(batch) = read_at(segment, offset, &mut self.scratch) else {
                let broken = io::Error::new(io::ErrorKind::InvalidData, "a batch is not what was written");
                return Err(at("read", &segment.path)(broken));
            };
            self.reading.1 += (HEAD_BYTES + batch.payload.len()) as u64;
            return Ok(Some(batch));
        }
    }

    /// Reads from the first batch again.
    pub fn rewind(&mut self) {
        self.reading = (0, 0);
    }

    /// Everything before this number is kept elsewhere: its segments are removed.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn release(&mut self, next: u64) -> Result<(), TransportError> {
        while let Some(segment) = self.segments.front().filter(|segment| segment.end <= next) {
            if self.segments.len() == 1 {
                // The numbers go on where they stopped, after a restart too.
                let path = self.options.directory.join("next");
                write_private(&path, &segment.end.to_string())?;
            }
            std::fs::remove_file(&segment.path).map_err(at("remove", &segment.path))?;
            self.bytes -= segment.bytes;
            self.segments.pop_front();
            self.reading = match self.reading {
                (0, _) => (0, 0),
                (index, offset) => (index - 1, offset),
            };
        }
        Ok(())
    }
}

fn read_at(segment: &Segment, offset: u64, scratch: &mut Vec<u8>) -> Option<SpooledBatch> {
    let mut head = [0; HEAD_BYTES];
    segment.file.read_exact_at(&mut head, offset).ok()?;
    let [l0, l1, l2, l3, k0, k1, k2, k3, rest @ ..] = head;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > FRAME_BYTES_MAX.max(DECOMPRESSED_BYTES_MAX) {
        return None;
    }
    scratch.resize(length, 0);
    segment
        .file
        .read_exact_at(scratch, offset + HEAD_BYTES as u64)
        .ok()?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&rest), scratch);
    if crc != u32::from_le_bytes([k0, k1, k2, k3]) {
        return None;
    }
    let [f0, f1, f2, f3, f4, f5, f6, f7, c0, c1, c2, c3, flags, ..] = rest;
    Some(SpooledBatch {
        first: u64::from_le_bytes([f0, f1, f2, f3, f4, f5, f6, f7]),
        count: u32::from_le_bytes([c0, c1, c2, c3]),
        compressed: flags & 1 != 0,
        payload: scratch.clone(),
    })
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options
}

fn write_private(path: &Path, text: &str) -> Result<(), TransportError> {
    let fresh = path.with_extension("new");
    let mut file = private()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&fresh)
        .map_err(at("make", &fresh))?;
    file.write_all(text.as_bytes()).map_err(at("write", &fresh))?;
    std::fs::rename(&fresh, path).map_err(at("rename", &fresh))
}

/// Whose the spool is: what its file says, or what is written into a new one.
fn owner(directory: &Path, session: u128, epoch: u64) -> Result<(u128, u64), TransportError> {
    let path = directory.join("session");
    match private().read(true).open(&path) {
        Ok(file) => {
            let mut text = String::new();
            file.take(128)
                .read_to_string(&mut text)
                .map_err(at("read", &path))?;
            let mut parts = text.split_whitespace();
            let session = parts.next().and_then(|text| u128::from_str_radix(text, 16).ok());
            let epoch = parts.next().and_then(|text| text.parse().ok());
            match (session, epoch) {
                (Some(session), Some(epoch)) => Ok((session, epoch)),
                _ => {
                    let broken = io::Error::new(io::ErrorKind::InvalidData, "it names no session");
                    Err(at("use", &path)(broken))
                }
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            write_private(&path, &format!("{session:032x} {epoch}\n"))?;
            Ok((session, epoch))
        }
        Err(error) => Err(at("open", &path)(error)),
    }
}

fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TransportError {
    let path = path.to_owned();
    move |cause| TransportError::File { doing, path, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> (tempfile::TempDir, SpoolOptions) {
        let directory = tempfile::tempdir().expect("a directory");
        let options = SpoolOptions::new(directory.path().join("spool"));
        (directory, options)
    }

    #[test]
    fn a_torn_end_is_cut_off_at_every_byte() {
        let (_directory, options) = options();
        let mut spool = Spool::open(&options, 1, 1).expect("a spool");
        assert!(spool.append(0, 1, false, b"first\n").expect("written"));
        assert!(spool.append(1, 2, true, b"second\nthird\n").expect("written"));
        let path = spool.segments[0].path.clone();
        drop(spool);
        let whole = std::fs::read(&path).expect("there");
        let first_bytes = HEAD_BYTES + 6;
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).expect("written");
            let mut spool = Spool::open(&options, 1, 1).expect("a spool");
            let expected = if length < first_bytes { 0 } else { 1 };
            assert_eq!(spool.next_number(), expected, "{length} bytes");
            assert_eq!(spool.read().expect("sound").is_some(), expected == 1);
            assert!(spool.append(expected, 1, false, b"again\n").expect("written"));
            drop(spool);
            let again = Spool::open(&options, 1, 1).expect("a spool");
            assert_eq!(again.next_number(), expected + 1);
            std::fs::remove_file(&path).expect("there");
            let _ = std::fs::remove_file(options.directory.join("next"));
        }
    }

    #[test]
    fn segments_go_when_they_are_acknowledged_and_numbers_stay() {
        let (_directory, mut options) = options();
        options.bytes_max = 3 * SPOOL_SEGMENT_BYTES;
        let mut spool = Spool::open(&options, 1, 1).expect("a spool");
        let payload = vec![b'x'; 1 << 20];
        let mut number = 0;
        while spool.append(number, 1, false, &payload).expect("written") {
            number += 1;
        }
        assert!((20..24).contains(&number), "{number} fit");
        assert!(Spool::open(&options, 1, 1).is_err(), "it has an owner");
        spool.release(10).expect("removed");
        assert!(spool.first_number() <= 10 && spool.bytes() < options.bytes_max);
        let mut read = spool.first_number();
        while let Some(batch) = spool.read().expect("sound") {
            assert_eq!(batch.first, read);
            read += 1;
        }
        assert_eq!(read, number);
        spool.release(number).expect("removed");
        assert_eq!(spool.bytes(), 0);
        drop(spool);
        assert_eq!(
            Spool::open(&options, 1, 1).expect("a spool").next_number(),
            number
        );
    }
}
