//! The spool: batches on disk while no collector takes them, in order, each with its checksum. What is in it survives a
//! SIGKILL; a torn end is cut off when it is opened.
//!
//! A directory for each session that has something in it, with a file `owner`, which says whose records they are, and
//! segments `spool-NUMBER`, named after the first record in them. A segment is removed when all of it is acknowledged.
//! The file `numbers` says which records there should be, so that what is missing is counted.
//! A process that finds the directory taken has one of its own in it, `beside-PID-N`, which the next owner of the whole
//! takes over. What cannot be read is set aside as `damaged-NAME` and kept.
//!
//! A session is never continued by another process: what it left is sent under its own numbers, before anything new.

mod numbers;
mod salvage;

use self::numbers::{NumberRange, Numbers, note_told_loss, told_loss};
use self::salvage::DamagedRest;
use super::files::{at, make_directory, private};
use super::owner::Owner;
use crate::TransportError;
use crate::limits::{
    DECOMPRESSED_BYTES_MAX, FRAME_BYTES_MAX, SPOOL_BYTES_MAX, SPOOL_SEGMENT_BYTES, SPOOL_SESSIONS_MAX,
    SPOOLS_BESIDE_MAX,
};
use crate::session::RecordBatch;
use logdrive_ring::{Opened, OwnFile};
use rustix::fs::{FlockOperation, flock};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{DirEntry, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes before the payload of a batch: length, checksum, first number, count, flags.
const HEAD_BYTES: usize = 4 + 4 + 8 + 4 + 4;
/// Bytes of a batch that are read back.
const BATCH_BYTES_MAX: usize = DECOMPRESSED_BYTES_MAX;
const _: () = assert!(
    FRAME_BYTES_MAX <= BATCH_BYTES_MAX,
    "compressed and plain ones are read back"
);
/// The file that says whose a spool is.
const OWNER: &str = "owner";
/// Beginning of the names of segments.
const SEGMENT: &str = "spool-";
/// The file whose lock says that a directory of spools is in use.
const LOCK: &str = "lock";
/// Beginning of the names of directories that processes have which find the whole taken.
const BESIDE: &str = "beside-";
/// Beginning of the names of spools that could not be read.
const DAMAGED: &str = "damaged-";

/// Directory and size limit of a spool.
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

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    /// Opened anew for each use where the program has closed its descriptor.
    file: OwnFile,
    first: u64,
    /// The number behind its last record.
    end: u64,
    bytes: u64,
}

impl Segment {
    /// A segment of nothing so far.
    fn new(path: PathBuf, file: File, first: u64) -> Result<Self, TransportError> {
        let file = OwnFile::new(file).map_err(at("look at", &path))?;
        Ok(Self {
            path,
            file,
            first,
            end: first,
            bytes: 0,
        })
    }

    fn file(&self) -> io::Result<Opened<'_>> {
        self.file.opened(&self.path).map_err(io::Error::other)
    }
}

/// Damage that was found in a segment.
#[derive(Debug, Default)]
struct SegmentDamage {
    /// Records of a damaged batch at its end.
    lost: u64,
    /// Segment that has the sound batches behind the damage, by its first record.
    rest: Option<(u64, PathBuf)>,
}

/// A directory of spools, which belongs to the process that has it open.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use logdrive_ship::forward::{Owner, SpoolDirectory, SpoolOptions};
/// use logdrive_ship::session::RecordBatch;
/// let directory = tempfile::tempdir()?;
/// let options = SpoolOptions::new(directory.path().join("spool"));
/// let spools = SpoolDirectory::open(&options)?;
/// let mut spool = spools.begin(Owner::new(7, 1))?;
/// let (compressed, payload) = (false, b"one\ntwo\n".to_vec());
/// assert!(spool.append(&RecordBatch { first: 0, count: 2, compressed, payload })?);
/// drop((spool, spools));
/// let mut left = SpoolDirectory::open(&options)?.left()?;
/// assert_eq!((left[0].owner().session, left[0].next_number()), (7, 2));
/// assert_eq!(left[0].read()?.unwrap().payload, b"one\ntwo\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SpoolDirectory {
    options: SpoolOptions,
    /// Held as long as the value lives.
    _lock: OwnFile,
    /// Reports of directories that are in use, and of spools that were set aside.
    notices: RefCell<Vec<String>>,
}

impl SpoolDirectory {
    /// Opens a directory, which is made with mode 0700 where it is missing.
    ///
    /// # Errors
    /// Fails when it cannot be made or locked: another process has it.
    pub fn open(options: &SpoolOptions) -> Result<Self, TransportError> {
        let taken = Self::take(options)?;
        taken.take_over();
        Ok(taken)
    }

    /// As [`SpoolDirectory::open`]; where another process has the directory, opens one of its own in it, which
    /// [`SpoolDirectory::take_notices`] tells.
    ///
    /// # Errors
    /// Fails when none can be made or locked.
    pub fn open_or_beside(options: &SpoolOptions) -> Result<Self, TransportError> {
        let opened = Self::open(options);
        let pid = std::process::id();
        let Err(TransportError::SpoolTaken { directory }) = opened else {
            return opened;
        };
        for number in 1..=SPOOLS_BESIDE_MAX {
            let beside = SpoolOptions {
                directory: directory.join(format!("{BESIDE}{pid}-{number}")),
                bytes_max: options.bytes_max,
            };
            match Self::take(&beside) {
                Err(TransportError::SpoolTaken { .. }) => {}
                opened => {
                    let opened = opened?;
                    opened.notices.borrow_mut().push(format!(
                        "the spool {} belongs to another process: this one has {}, and the next process with the first sends what is left in it",
                        directory.display(),
                        beside.directory.display()
                    ));
                    return Ok(opened);
                }
            }
        }
        Err(TransportError::SpoolTaken { directory })
    }

    /// Returns what a person should know of the directory, once.
    pub fn take_notices(&self) -> Vec<String> {
        self.notices.take()
    }

    fn take(options: &SpoolOptions) -> Result<Self, TransportError> {
        make_directory(&options.directory).map_err(at("make", &options.directory))?;
        let lock_path = options.directory.join(LOCK);
        let lock = private()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(at("open", &lock_path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => TransportError::SpoolTaken {
                directory: options.directory.clone(),
            },
            error => at("lock", &lock_path)(error.into()),
        })?;
        Ok(Self {
            options: options.clone(),
            _lock: OwnFile::new(lock).map_err(at("look at", &lock_path))?,
            notices: RefCell::default(),
        })
    }

    /// Takes over the spools of processes that found this directory taken and have ended since. What cannot be moved
    /// stays for the next start.
    fn take_over(&self) {
        let Ok(all) = std::fs::read_dir(&self.options.directory) else {
            return;
        };
        let is_beside = |entry: &DirEntry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(BESIDE.as_bytes())
        };
        for entry in all.flatten().filter(is_beside).take(SPOOL_SESSIONS_MAX) {
            let options = SpoolOptions::new(entry.path());
            // Its process runs.
            let Ok(beside) = Self::take(&options) else {
                continue;
            };
            let Ok(spools) = std::fs::read_dir(&options.directory) else {
                continue;
            };
            for spool in spools.flatten().filter(|spool| spool.file_name() != LOCK) {
                // Names of sessions are unique.
                let _ = std::fs::rename(spool.path(), self.options.directory.join(spool.file_name()));
            }
            if std::fs::read_dir(&options.directory).is_ok_and(|left| left.count() == 1) {
                let _ = std::fs::remove_file(options.directory.join(LOCK));
                let _ = std::fs::remove_dir(&options.directory);
            }
            drop(beside);
        }
    }

    /// Sets a spool aside that cannot be read, and keeps it.
    fn set_aside(&self, path: &Path, error: &TransportError) {
        let mut name = std::ffi::OsString::from(DAMAGED);
        name.push(path.file_name().unwrap_or_default());
        let aside = self.options.directory.join(name);
        let moved = std::fs::rename(path, &aside);
        let place = moved.map_or(path, |()| aside.as_path()).display();
        self.notices.borrow_mut().push(format!(
            "{error}; this part of the spool is set aside and kept: {place}"
        ));
    }

    /// Opens the spools that earlier sessions left, the oldest first. Empty ones are removed, and those that cannot be
    /// read are set aside and kept, which [`SpoolDirectory::take_notices`] tells.
    ///
    /// # Errors
    /// Fails when the directory cannot be read.
    pub fn left(&self) -> Result<Vec<Spool>, TransportError> {
        self.load_all(true)
    }

    /// The same; where it tells no losses, they are left for the next one that does.
    fn load_all(&self, tells: bool) -> Result<Vec<Spool>, TransportError> {
        let directory = &self.options.directory;
        let mut found = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(at("read", directory))? {
            let path = entry.map_err(at("read", directory))?.path();
            let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let is_other = [DAMAGED, BESIDE]
                .iter()
                .any(|begin| name.starts_with(begin.as_bytes()));
            if is_directory && !is_other && found.len() < SPOOL_SESSIONS_MAX {
                found.push(path);
            }
        }
        // Their names begin with the time of their first batch.
        found.sort();
        let mut spools = Vec::new();
        for path in found {
            let owner = match Owner::load(&path.join(OWNER)) {
                Ok(Some(owner)) => owner,
                Ok(None) => {
                    if has_batches(&path) {
                        let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
                        self.set_aside(&path, &at("read", &path.join(OWNER))(gone));
                    } else {
                        // Killed before it had written any; what stays is tried again at the next start.
                        let _ = std::fs::remove_dir_all(&path);
                    }
                    continue;
                }
                Err(error) => {
                    self.set_aside(&path, &error);
                    continue;
                }
            };
            let loaded = Spool::new(path.clone(), owner, self.options.bytes_max).load();
            let (parts, missing) = loaded.unwrap_or_else(|error| {
                self.set_aside(&path, &error);
                Default::default()
            });
            if tells && !missing.is_empty() {
                let lost: u64 = missing.iter().map(|(first, end)| end - first).sum();
                self.notices.borrow_mut().push(format!(
                    "{lost} records in the spool {} are lost: their bytes are damaged or missing on disk",
                    path.display()
                ));
                missing.iter().for_each(|range| note_told_loss(&path, *range));
            }
            for part in parts {
                match part.bytes {
                    0 if tells => part.remove(),
                    _ => spools.push(part),
                }
            }
        }
        Ok(spools)
    }

    /// A spool for a session, which has none here; nothing is made before the first batch.
    ///
    /// # Errors
    /// Fails when the clock or the directory cannot be read.
    pub fn begin(&self, owner: Owner) -> Result<Spool, TransportError> {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let name = format!("{:020}-{:032x}", since.as_nanos(), owner.session);
        let path = self.options.directory.join(name);
        Ok(Spool::new(path, owner, self.options.bytes_max))
    }

    /// Puts batches of a session that has ended behind what it left: numbers, counts and lines, in order. Those that are
    /// there already are left out.
    ///
    /// # Errors
    /// Fails when they cannot be written, or do not fit.
    pub fn put_back(&self, owner: &Owner, batches: &[(u64, u32, &[u8])]) -> Result<(), TransportError> {
        let all = self.load_all(false)?;
        let bytes: u64 = all.iter().map(Spool::bytes).sum();
        let own = all
            .into_iter()
            .rfind(|spool| (spool.owner.session, spool.owner.epoch) == (owner.session, owner.epoch));
        let mut spool = match own {
            Some(spool) => spool,
            None => self.begin(owner.clone())?,
        };
        spool.bytes_max = self.options.bytes_max.saturating_sub(bytes - spool.bytes);
        for (first, count, lines) in batches {
            let batch = RecordBatch {
                first: *first,
                count: *count,
                compressed: false,
                payload: lines.to_vec(),
            };
            if batch.end() <= spool.next {
                continue;
            }
            let noted = Numbers::load(&spool.path).unwrap_or_default();
            if batch.first > spool.next.max(noted.end) {
                // What lies between was acknowledged, and so was all before it.
                spool.release(u64::MAX)?;
                if spool.is_made {
                    let (first, end) = (noted.end, noted.end);
                    Numbers { first, end }.save(&spool.path);
                }
            }
            if !spool.append(&batch)? {
                return Err(TransportError::SpoolFull {
                    directory: self.options.directory.clone(),
                    bytes_max: self.options.bytes_max,
                });
            }
        }
        Ok(())
    }
}

/// The batches of one session on disk.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    owner: Owner,
    is_made: bool,
    bytes_max: u64,
    segments: VecDeque<Segment>,
    bytes: u64,
    next: u64,
    /// Which segment is read, and where in it.
    reading: (usize, u64),
    /// Number behind the last record that was read.
    read_until: u64,
    scratch: Vec<u8>,
    failure: Option<String>,
}

impl Spool {
    fn new(path: PathBuf, owner: Owner, bytes_max: u64) -> Self {
        Self {
            is_made: false,
            path,
            owner,
            bytes_max,
            segments: VecDeque::new(),
            bytes: 0,
            next: 0,
            reading: (0, 0),
            read_until: 0,
            scratch: Vec::new(),
            failure: None,
        }
    }

    /// Owner of these records.
    pub fn owner(&self) -> &Owner {
        &self.owner
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

    /// Changes how many bytes it may have.
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Error of the last write; `None` after a success, and where only the size limit was in the way.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns whether all of it has been read.
    pub fn is_read(&self) -> bool {
        let (index, offset) = self.reading;
        match self.segments.get(index) {
            None => true,
            Some(segment) => offset >= segment.bytes && index + 1 >= self.segments.len(),
        }
    }

    /// Removes its directory, which is empty.
    pub fn remove(self) {
        if !self.is_made || !self.segments.is_empty() {
            return;
        }
        // There may be another part behind a gap. What stays is found, and removed, at the next start.
        let Ok(all) = std::fs::read_dir(&self.path) else {
            return;
        };
        let (own, others): (Vec<DirEntry>, Vec<DirEntry>) = all.flatten().partition(|one| {
            let name = one.file_name();
            let is_told = name.to_str().is_some_and(|name| told_loss(name).is_some());
            is_told || name == numbers::NAME || name == OWNER
        });
        if others.is_empty() {
            for one in own {
                let _ = std::fs::remove_file(one.path());
            }
            let _ = std::fs::remove_dir(&self.path);
        }
    }

    /// Finds the segments. Where batches are missing or damaged in between, what comes behind is a part of its own. Returns
    /// the ranges of records that are missing and were not told, too.
    fn load(mut self) -> Result<(Vec<Self>, Vec<NumberRange>), TransportError> {
        self.is_made = true;
        let (mut found, mut covered): (BTreeMap<u64, PathBuf>, Vec<NumberRange>) = Default::default();
        for entry in std::fs::read_dir(&self.path).map_err(at("read", &self.path))? {
            let path = entry.map_err(at("read", &self.path))?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            covered.extend(told_loss(name));
            if let Some(first) = name.strip_prefix(SEGMENT).and_then(|number| number.parse().ok()) {
                found.insert(first, path);
            }
        }
        let mut parts = Vec::new();
        let mut expected = found.first_key_value().map_or(0, |(first, _)| *first);
        let mut numbers = Numbers::load(&self.path).unwrap_or(Numbers {
            first: expected,
            end: expected,
        });
        while let Some((first, path)) = found.pop_first() {
            let file = private()
                .read(true)
                .write(true)
                .open(&path)
                .map_err(at("open", &path))?;
            let mut segment = Segment::new(path, file, first)?;
            let damage = self.measure(&mut segment)?;
            covered.push((segment.first, segment.end));
            expected = expected.max(segment.end).saturating_add(damage.lost);
            found.extend(damage.rest);
            // Nothing whole is in it, or an earlier segment has its batches already.
            if segment.bytes == 0 || first < self.next {
                std::fs::remove_file(&segment.path).map_err(at("remove", &segment.path))?;
                continue;
            }
            // Numbers are missing: the batches behind the gap are sent as another part.
            if first > self.next && !self.segments.is_empty() {
                let mut rest = Self::new(self.path.clone(), self.owner.clone(), self.bytes_max);
                rest.is_made = true;
                parts.push(std::mem::replace(&mut self, rest));
            }
            self.next = segment.end;
            self.bytes += segment.bytes;
            self.segments.push_back(segment);
        }
        parts.push(self);
        numbers.end = numbers.end.max(expected);
        Ok((parts, numbers.missing(covered)))
    }

    /// Finds the end of what is sound, and cuts off what is behind it. Sound batches behind damage go to a segment of their
    /// own.
    fn measure(&mut self, segment: &mut Segment) -> Result<SegmentDamage, TransportError> {
        let mut damage = SegmentDamage::default();
        let metadata = segment.file().and_then(|file| file.metadata());
        let length = metadata.map_err(at("look at", &segment.path))?.len();
        while segment.bytes < length {
            match read_at(segment, segment.bytes, &mut self.scratch) {
                Some(batch) if batch.first == segment.end => {
                    segment.end = batch.end();
                    segment.bytes += stored_bytes(&batch);
                }
                _ => {
                    let rest = DamagedRest::read(segment, segment.bytes, length, segment.end)
                        .map_err(at("read", &segment.path))?;
                    match rest.next_sound() {
                        Some((first, _, bytes)) => {
                            // Written before the damaged one is cut: a kill in between does it again.
                            let path = self.path.join(format!("spool-{first:020}"));
                            let mut options = private();
                            options.write(true).create(true).truncate(true);
                            let made = options.open(&path).and_then(|file| file.write_all_at(bytes, 0));
                            made.map_err(at("write", &path))?;
                            damage.rest = Some((first, path));
                        }
                        // The end of a killed process is torn; a batch that is whole was damaged.
                        None => damage.lost = rest.damaged_count(),
                    }
                    let cut = segment.file().and_then(|file| file.set_len(segment.bytes));
                    cut.map_err(at("cut", &segment.path))?;
                    break;
                }
            }
        }
        Ok(damage)
    }

    /// Adds a batch. `false`: it is full, or it cannot be written, which [`Spool::failure`] reports; what was written
    /// of it is cut off.
    ///
    /// # Errors
    /// Fails when a batch is longer than what is read back.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<bool, TransportError> {
        let bytes = batch.payload.len();
        if bytes > BATCH_BYTES_MAX {
            return Err(TransportError::TooLong {
                bytes,
                bytes_max: BATCH_BYTES_MAX,
            });
        }
        if self.bytes + stored_bytes(batch) > self.bytes_max {
            return Ok(false);
        }
        self.failure = self.write(batch).err().map(|error| error.to_string());
        Ok(self.failure.is_none())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), TransportError> {
        let length = stored_bytes(batch);
        let goes_on = |last: &Segment| last.end == batch.first && last.bytes + length <= SPOOL_SEGMENT_BYTES;
        if !self.segments.back().is_some_and(goes_on) {
            self.begin(batch.first)?;
        }
        let bytes = &mut self.scratch;
        bytes.clear();
        bytes.extend_from_slice(&(batch.payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&batch.first.to_le_bytes());
        bytes.extend_from_slice(&batch.count.to_le_bytes());
        bytes.extend_from_slice(&u32::from(batch.compressed).to_le_bytes());
        bytes.extend_from_slice(&batch.payload);
        let crc = crc32c::crc32c(&bytes[8..]).to_le_bytes();
        bytes[4..8].copy_from_slice(&crc);
        let Some(segment) = self.segments.back_mut() else {
            return Ok(());
        };
        let file = segment.file().map_err(at("open", &segment.path))?;
        if let Err(cause) = file.write_all_at(&self.scratch, segment.bytes) {
            // Where even that fails, the checksum shows it at the next start.
            let _ = file.set_len(segment.bytes);
            drop(file);
            return Err(at("write", &segment.path)(cause));
        }
        drop(file);
        segment.bytes += length;
        segment.end = batch.end();
        self.next = segment.end;
        self.bytes += length;
        let numbers = Numbers::load(&self.path).unwrap_or_default();
        let is_empty = numbers.first >= numbers.end;
        let first = if is_empty { batch.first } else { numbers.first };
        let end = self.next.max(numbers.end);
        Numbers { first, end }.save(&self.path);
        Ok(())
    }

    fn begin(&mut self, first: u64) -> Result<(), TransportError> {
        if !self.is_made {
            make_directory(&self.path).map_err(at("make", &self.path))?;
            self.owner.save(&self.path.join(OWNER))?;
            self.is_made = true;
        }
        if let Some(last) = self.segments.pop_back_if(|last| last.bytes == 0) {
            // Made, and never written.
            let _ = std::fs::remove_file(&last.path);
        }
        let path = self.path.join(format!("spool-{first:020}"));
        let file = private()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(at("make", &path))?;
        self.segments.push_back(Segment::new(path, file, first)?);
        Ok(())
    }

    /// The next batch that has not been read; `None` when all has been. Damaged ones are left out: their numbers are missing.
    ///
    /// # Errors
    /// None now: what cannot be read counts as damaged.
    pub fn read(&mut self) -> Result<Option<RecordBatch>, TransportError> {
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
                let expected = self.read_until.max(segment.first);
                let rest = DamagedRest::read(segment, offset, segment.bytes, expected).ok();
                let next = rest.as_ref().and_then(DamagedRest::next_sound);
                self.reading.1 = next.map_or(segment.bytes, |(_, at, _)| offset + at as u64);
                continue;
            };
            self.reading.1 += stored_bytes(&batch);
            self.read_until = batch.end();
            return Ok(Some(batch));
        }
    }

    /// Notes that the loss of the records between these numbers is told.
    pub(super) fn note_told(&self, first: u64, end: u64) {
        note_told_loss(&self.path, (first, end));
    }

    /// Gives the batch that was read last back: it is read again.
    pub(super) fn unread(&mut self, batch: &RecordBatch) {
        self.reading.1 = self.reading.1.saturating_sub(stored_bytes(batch));
    }

    /// Everything before this number is kept elsewhere: its segments are removed.
    ///
    /// # Errors
    /// Fails when a file cannot be removed.
    pub fn release(&mut self, next: u64) -> Result<(), TransportError> {
        let before = self.segments.len();
        while let Some(segment) = self.segments.front().filter(|segment| segment.end <= next) {
            std::fs::remove_file(&segment.path).map_err(at("remove", &segment.path))?;
            self.bytes -= segment.bytes;
            self.segments.pop_front();
            self.reading = match self.reading {
                (0, _) => (0, 0),
                (index, offset) => (index - 1, offset),
            };
        }
        if self.segments.len() < before
            && let Some(numbers) = Numbers::load(&self.path)
        {
            let first = numbers.first.max(self.first_number()).min(numbers.end);
            Numbers { first, ..numbers }.save(&self.path);
        }
        Ok(())
    }
}

/// Returns whether a directory has a file of batches.
fn has_batches(directory: &Path) -> bool {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    files.into_iter().any(|file| {
        file.file_name()
            .as_encoded_bytes()
            .starts_with(SEGMENT.as_bytes())
    })
}

/// Bytes of a batch on disk.
fn stored_bytes(batch: &RecordBatch) -> u64 {
    (HEAD_BYTES + batch.payload.len()) as u64
}

fn read_at(segment: &Segment, offset: u64, scratch: &mut Vec<u8>) -> Option<RecordBatch> {
    let mut head = [0; HEAD_BYTES];
    let file = segment.file().ok()?;
    file.read_exact_at(&mut head, offset).ok()?;
    let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| head[at + index]));
    let length = number(0) as usize;
    if length > BATCH_BYTES_MAX {
        return None;
    }
    scratch.resize(length, 0);
    let payload_at = offset + HEAD_BYTES as u64;
    file.read_exact_at(scratch, payload_at).ok()?;
    if crc32c::crc32c_append(crc32c::crc32c(&head[8..]), scratch) != number(4) {
        return None;
    }
    Some(RecordBatch {
        first: u64::from(number(8)) | u64::from(number(12)) << 32,
        count: number(16),
        compressed: number(20) & 1 != 0,
        payload: scratch.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    fn options() -> (tempfile::TempDir, SpoolOptions) {
        let directory = tempfile::tempdir().expect("a directory");
        let options = SpoolOptions::new(directory.path().join("spool"));
        (directory, options)
    }

    fn fresh(options: &SpoolOptions) -> (SpoolDirectory, Spool) {
        let directory = SpoolDirectory::open(options).expect("a directory");
        let spool = directory.begin(Owner::new(1, 1)).expect("a spool");
        (directory, spool)
    }

    fn batch(first: u64, count: u32, payload: &[u8]) -> RecordBatch {
        RecordBatch {
            first,
            count,
            compressed: first % 2 == 1,
            payload: payload.to_vec(),
        }
    }

    fn left(options: &SpoolOptions) -> Vec<Spool> {
        SpoolDirectory::open(options)
            .expect("a directory")
            .left()
            .expect("read")
    }

    #[test]
    fn a_process_that_finds_the_spool_taken_has_one_in_it_that_the_next_owner_takes_over() {
        let (_directory, options) = options();
        let (owner, spool) = fresh(&options);
        let beside = SpoolDirectory::open_or_beside(&options).expect("one beside");
        assert_eq!(beside.take_notices().len(), 1);
        let mut second = beside.begin(Owner::new(2, 1)).expect("a spool");
        assert!(second.append(&batch(0, 1, b"of the second\n")).expect("written"));
        // While its process runs, what it has is its own.
        drop((owner, spool));
        assert!(left(&options).is_empty());
        drop((second, beside));
        let sessions: Vec<u128> = left(&options).iter().map(|spool| spool.owner().session).collect();
        assert_eq!(sessions, [2]);
    }

    #[test]
    fn a_spool_that_cannot_be_read_is_set_aside_and_kept() {
        let (_directory, options) = options();
        let (directory, mut spool) = fresh(&options);
        assert!(spool.append(&batch(0, 1, b"first\n")).expect("written"));
        let path = spool.path.clone();
        drop((directory, spool));
        std::fs::write(path.join(OWNER), b"nobody").expect("damaged");
        let directory = SpoolDirectory::open(&options).expect("a directory");
        assert!(left_in(&directory).is_empty());
        assert_eq!(directory.take_notices().len(), 1);
        let name = format!("{DAMAGED}{}", path.file_name().expect("a name").display());
        assert!(
            options
                .directory
                .join(name)
                .join("spool-00000000000000000000")
                .exists()
        );
        assert!(
            left_in(&directory).is_empty() && directory.take_notices().is_empty(),
            "told once"
        );
    }

    /// Records that the notices of a directory tell as lost.
    fn told(directory: &SpoolDirectory) -> u64 {
        let notices = directory.take_notices().into_iter();
        let counts =
            notices.filter_map(|text| text.split_once(" records in the spool")?.0.parse::<u64>().ok());
        counts.sum()
    }

    /// A spool of 40 batches of two records, in segments of 10 batches; gives their paths.
    fn four_segments(options: &SpoolOptions) -> Vec<PathBuf> {
        let (_directory, mut spool) = fresh(options);
        for number in 0..40 {
            if number % 10 == 0 {
                spool.begin(number * 2).expect("a segment");
            }
            assert!(
                spool
                    .append(&batch(number * 2, 2, b"one\ntwo\n"))
                    .expect("written")
            );
        }
        spool
            .segments
            .iter()
            .map(|segment| segment.path.clone())
            .collect()
    }

    /// A segment that was cut short, or the first or last one that was gone, was not missed.
    #[test]
    fn records_that_are_missing_anywhere_are_counted_once() {
        type Harm = fn(&[PathBuf]);
        let harms: [(&str, Harm, u64); 5] = [
            (
                "the first is gone",
                |all| std::fs::remove_file(&all[0]).expect("removed"),
                20,
            ),
            (
                "the third is gone",
                |all| std::fs::remove_file(&all[2]).expect("removed"),
                20,
            ),
            (
                "the last is gone",
                |all| std::fs::remove_file(&all[3]).expect("removed"),
                20,
            ),
            (
                "the last is cut short",
                |all| {
                    let file = OpenOptions::new().write(true).open(&all[3]).expect("there");
                    let length = file.metadata().expect("there").len();
                    file.set_len(length / 2 - 1).expect("cut");
                },
                12,
            ),
            (
                "all are gone",
                |all| {
                    all.iter()
                        .for_each(|path| std::fs::remove_file(path).expect("removed"))
                },
                80,
            ),
        ];
        for (what, harm, lost) in harms {
            let (_dir, options) = options();
            harm(&four_segments(&options));
            // A recovery that puts batches back tells nothing, and leaves it to be told.
            let directory = SpoolDirectory::open(&options).expect("a directory");
            let put_back =
                directory.put_back(&Owner::new(1, 1), &[(78, 2, b"one\ntwo\n"), (80, 1, b"one\n")]);
            put_back.expect("written");
            assert_eq!(told(&directory), 0, "{what}");
            // The last batch is there again where it was lost.
            let lost = lost
                - if what.contains("last") || what.contains("all") {
                    2
                } else {
                    0
                };
            for told_then in [lost, 0] {
                let left = left_in(&directory);
                assert_eq!(told(&directory), told_then, "{what}");
                let mut found = Vec::new();
                for mut part in left {
                    while let Some(batch) = part.read().expect("read") {
                        found.extend(batch.first..batch.end());
                    }
                }
                assert_eq!(found.len() as u64, 81 - lost, "{what}");
                assert!(found.is_sorted(), "{what}: {found:?}");
            }
            for mut part in left_in(&directory) {
                part.release(u64::MAX).expect("released");
                part.remove();
            }
            let left = std::fs::read_dir(&options.directory).expect("there").count();
            assert_eq!(left, 1, "{what}: the lock alone");
        }
    }

    /// What was sent over a connection between two times of spooling is not missing.
    #[test]
    fn records_that_were_acknowledged_without_the_spool_are_not_counted() {
        let (_dir, options) = options();
        let (directory, mut spool) = fresh(&options);
        assert!(spool.append(&batch(10, 2, b"one\ntwo\n")).expect("written"));
        spool.release(12).expect("released");
        assert!(spool.append(&batch(50, 2, b"one\ntwo\n")).expect("written"));
        drop((directory, spool));
        let directory = SpoolDirectory::open(&options).expect("a directory");
        directory
            .put_back(&Owner::new(1, 1), &[(90, 1, b"one\n")])
            .expect("written");
        let firsts: Vec<u64> = left_in(&directory).iter().map(Spool::first_number).collect();
        assert_eq!((firsts, told(&directory)), (vec![90], 0));
    }

    /// A process that was killed in the middle of that left its directory for ever.
    #[test]
    fn a_spool_that_was_being_made_goes() {
        let (_dir, options) = options();
        let directory = SpoolDirectory::open(&options).expect("a directory");
        let path = options.directory.join("1-2");
        std::fs::create_dir(&path).expect("made");
        std::fs::write(path.join("owner.new"), "0").expect("written");
        assert!(left_in(&directory).is_empty() && directory.take_notices().is_empty());
        assert!(!path.exists());
    }

    #[test]
    fn a_spool_whose_owner_is_gone_is_set_aside_and_kept() {
        let (_dir, options) = options();
        let path = four_segments(&options)[0].clone();
        let spool = path.parent().expect("a directory");
        std::fs::remove_file(spool.join(OWNER)).expect("removed");
        let directory = SpoolDirectory::open(&options).expect("a directory");
        assert!(left_in(&directory).is_empty());
        assert_eq!(directory.take_notices().len(), 1);
        let name = format!("{DAMAGED}{}", spool.file_name().expect("a name").display());
        let aside = options
            .directory
            .join(name)
            .join(path.file_name().expect("a name"));
        assert!(aside.exists());
    }

    /// A flipped bit cost all batches behind it, up to 32,600 records, and not all of them were counted.
    #[test]
    fn a_flipped_bit_costs_one_batch_which_is_told() {
        let (_directory, options) = options();
        let (directory, mut spool) = fresh(&options);
        for number in 0..5 {
            let line = format!("batch {number} with two lines\nof text\n");
            assert!(
                spool
                    .append(&batch(number * 2, 2, line.as_bytes()))
                    .expect("written")
            );
        }
        let path = spool.segments[0].path.clone();
        let owner = spool.path.join(OWNER);
        drop((directory, spool));
        let (whole, owned) = (
            std::fs::read(&path).expect("there"),
            std::fs::read(&owner).expect("there"),
        );
        let length = whole.len() / 5;
        for flipped in (0..whole.len() * 8).step_by(3) {
            let (damaged, mut bytes) = (flipped / 8 / length, whole.clone());
            bytes[flipped / 8] ^= 1 << (flipped % 8);
            let _ = std::fs::remove_dir_all(path.parent().expect("a directory"));
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            std::fs::write(&owner, &owned).expect("written");
            std::fs::write(&path, &bytes).expect("written");
            let directory = SpoolDirectory::open(&options).expect("a directory");
            let mut numbers = Vec::new();
            for mut part in left_in(&directory) {
                while let Some(batch) = part.read().expect("sound") {
                    numbers.push(batch.first / 2);
                }
            }
            let expected: Vec<u64> = (0..5).filter(|number| *number != damaged as u64).collect();
            assert_eq!(numbers, expected, "bit {flipped}");
            let notices = directory.take_notices();
            // What is torn at the end looks the same where the length or the count is damaged.
            let is_told = notices.iter().any(|notice| notice.starts_with("2 records"));
            assert!(is_told || damaged == 4, "bit {flipped}: {notices:?}");
        }
    }

    /// A bad batch was read again for ever, or ended the forwarder.
    #[test]
    fn a_bit_that_flips_while_the_spool_is_used_costs_one_batch() {
        let (_directory, options) = options();
        let (_spools, mut spool) = fresh(&options);
        for number in 0..5 {
            let line = format!("batch {number} with two lines\nof text\n");
            let is_kept = spool.append(&batch(number * 2, 2, line.as_bytes()));
            assert!(is_kept.expect("written"));
        }
        let path = spool.segments[0].path.clone();
        let whole = std::fs::read(&path).expect("there");
        let length = whole.len() / 5;
        for flipped in (0..whole.len() * 8).step_by(3) {
            let mut bytes = whole.clone();
            bytes[flipped / 8] ^= 1 << (flipped % 8);
            std::fs::write(&path, &bytes).expect("written");
            (spool.reading, spool.read_until) = ((0, 0), 0);
            let mut numbers = Vec::new();
            while let Some(batch) = spool.read().expect("no error") {
                numbers.push(batch.first / 2);
            }
            let damaged = (flipped / 8 / length) as u64;
            let expected: Vec<u64> = (0..5).filter(|number| *number != damaged).collect();
            assert_eq!(numbers, expected, "bit {flipped}");
            assert!(spool.is_read());
        }
    }

    fn left_in(directory: &SpoolDirectory) -> Vec<Spool> {
        directory.left().expect("read")
    }

    #[test]
    fn a_torn_end_is_cut_off_at_every_byte() {
        let (_directory, options) = options();
        let (directory, mut spool) = fresh(&options);
        assert!(spool.append(&batch(0, 1, b"first\n")).expect("written"));
        assert!(spool.append(&batch(1, 2, b"second\nthird\n")).expect("written"));
        let path = spool.segments[0].path.clone();
        let owner = spool.path.join(OWNER);
        drop((directory, spool));
        let (whole, owned) = (
            std::fs::read(&path).expect("there"),
            std::fs::read(&owner).expect("there"),
        );
        let first_bytes = HEAD_BYTES + 6;
        for length in 0..whole.len() {
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            std::fs::write(&owner, &owned).expect("written");
            std::fs::write(&path, &whole[..length]).expect("written");
            let mut found = left(&options);
            let expected = u64::from(length >= first_bytes);
            assert_eq!(found.len() as u64, expected, "{length} bytes");
            if let Some(spool) = found.first_mut() {
                assert_eq!(spool.next_number(), 1);
                let batch = spool.read().expect("sound").expect("one");
                assert_eq!(batch.payload, b"first\n");
                assert_eq!(spool.read().expect("sound"), None);
            } else {
                assert!(!owner.exists(), "an empty spool is removed");
            }
        }
    }

    #[test]
    fn segments_go_when_they_are_acknowledged() {
        let (_directory, mut options) = options();
        options.bytes_max = 3 * SPOOL_SEGMENT_BYTES;
        let (directory, mut spool) = fresh(&options);
        let payload = vec![b'x'; 1 << 20];
        let mut number = 0;
        while spool.append(&batch(number, 1, &payload)).expect("written") {
            number += 1;
        }
        assert!((20..24).contains(&number), "{number} fit");
        assert!(SpoolDirectory::open(&options).is_err(), "it has an owner");
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
        spool.remove();
        drop(directory);
        assert!(left(&options).is_empty());
    }

    #[test]
    fn a_damaged_middle_costs_what_is_damaged_and_nothing_behind_it() {
        let (_directory, options) = options();
        let (directory, mut spool) = fresh(&options);
        let payload = vec![b'x'; 3 << 20];
        for number in 0..6 {
            assert!(spool.append(&batch(number, 1, &payload)).expect("written"));
        }
        let path = spool.segments[1].path.clone();
        let first = spool.segments[1].first;
        drop((directory, spool));
        let file = OpenOptions::new().write(true).open(&path).expect("there");
        file.write_all_at(b"!", 100).expect("written");
        let found = left(&options);
        let numbers: Vec<(u64, u64)> = found
            .iter()
            .map(|part| (part.first_number(), part.next_number()))
            .collect();
        assert_eq!(numbers, [(0, first), (first + 1, 6)]);
    }

    #[test]
    fn what_is_put_back_stands_behind_what_was_left() {
        let (_directory, options) = options();
        let (directory, mut spool) = fresh(&options);
        assert!(spool.append(&batch(4, 2, b"4\n5\n")).expect("written"));
        drop(spool);
        let owner = Owner::new(1, 1);
        let batches: [(u64, u32, &[u8]); 2] = [(4, 2, b"4\n5\n"), (6, 1, b"6\n")];
        directory.put_back(&owner, &batches).expect("put back");
        let found = directory.left().expect("read");
        assert_eq!((found[0].first_number(), found[0].next_number()), (4, 7));
        directory.put_back(&owner, &[(9, 1, b"9\n")]).expect("put back");
        let found = directory.left().expect("read");
        assert_eq!((found[0].first_number(), found[0].next_number()), (9, 10));
    }
}
