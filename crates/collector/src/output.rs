//! One output: a log with the drain's rotation and retention, and its ledger. What came together is written together: first
//! the ledger says where each batch will lie, then the log gets the bytes; with a sync behind each of the two where records
//! are acknowledged on disk. `spec/frame.md` says why in this order.

use crate::error::CollectorError;
use crate::ledger::{Entry, KnownSession, Ledger};
use crate::limits::COMMIT_TRIES_MAX;
use logdrive_drain::file::{FileError, FileOptions, LogFile, Placement, Storage};
use logdrive_ship::session::DedupCursor;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// One batch of a group, or a piece of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) session: u128,
    /// Position of the session when it is written.
    pub(crate) cursor: DedupCursor,
    /// Key of the identity that the session belongs to; 0 for none.
    pub(crate) owner: u64,
    /// Records in it.
    pub(crate) records: u32,
    /// End of its bytes in the group.
    pub(crate) end_bytes: u64,
}

/// Batches that are written together.
#[derive(Debug, Default)]
pub(crate) struct BatchGroup {
    pub(crate) bytes: Vec<u8>,
    pub(crate) parts: Vec<Part>,
}

impl BatchGroup {
    /// Adds a part and its bytes.
    pub(crate) fn push(&mut self, part: Part, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.end_part(part);
    }

    /// Makes a part of the bytes that were laid out last.
    pub(crate) fn end_part(&mut self, part: Part) {
        self.parts.push(Part {
            end_bytes: self.bytes.len() as u64,
            ..part
        });
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.parts.clear();
    }
}

/// Cause for which a group is not in the log.
enum NotKept {
    /// A sync has failed: the files hold what may not be on disk.
    InDoubt(CollectorError),
    /// The log was deleted under it, which has so many entries.
    Deleted(usize),
    /// Nothing of it is kept.
    Failed(CollectorError),
}

impl From<CollectorError> for NotKept {
    fn from(error: CollectorError) -> Self {
        Self::Failed(error)
    }
}

impl From<FileError> for NotKept {
    fn from(error: FileError) -> Self {
        Self::Failed(error.into())
    }
}

/// The file that is being written, and up to where it is: what is behind may be taken back.
#[derive(Debug, Default)]
pub(crate) struct CommittedEnd(Mutex<Option<Placement>>);

impl CommittedEnd {
    fn set(&self, place: Placement) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }

    /// The end of what is written of a file; `None` where another one is written, or none yet.
    pub(crate) fn of(&self, dev: u64, ino: u64) -> Option<u64> {
        let place = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place
            .filter(|place| (place.dev, place.ino) == (dev, ino))
            .map(|place| place.offset)
    }
}

/// The files of an output. Each call may block as long as the disk does.
#[derive(Debug)]
pub(crate) struct Output {
    file: LogFile,
    ledger: Ledger,
    syncs: bool,
    /// A sync has failed: the ledger is written anew before anything else is.
    is_in_doubt: bool,
    notices: Vec<String>,
    written: Arc<CommittedEnd>,
}

/// Now, in nanoseconds since 1970.
pub(crate) fn now_unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Output {
    /// Opens log and ledger, and cuts off what a killed collector wrote in part. Returns the sessions of the ledger, those
    /// that were silent longest first.
    pub(crate) fn open(
        options: &FileOptions,
        has_segments: bool,
        syncs: bool,
        storage: Arc<dyn Storage>,
    ) -> Result<(Self, Vec<KnownSession>), CollectorError> {
        let directory = options
            .path
            .parent()
            .map_or_else(|| PathBuf::from("."), PathBuf::from);
        std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), options.dir_mode)
            .create(&directory)
            .map_err(|cause| CollectorError::write(&directory, cause))?;
        // Before the log is opened: what is taken back must not be written behind.
        let (ledger, sessions) = Ledger::open(&directory, Arc::clone(&storage))?;
        let mut file = LogFile::open(options, storage, now_unix_ns())?;
        file.expect_segments(has_segments, now_unix_ns());
        let output = Self {
            file,
            ledger,
            syncs,
            is_in_doubt: false,
            notices: Vec::new(),
            written: Arc::default(),
        };
        Ok((output, sessions))
    }

    /// Path of the log file that is written now.
    pub(crate) fn path(&self) -> PathBuf {
        self.file.path()
    }

    /// The end of what is written, for those who read it meanwhile.
    pub(crate) fn written(&self) -> Arc<CommittedEnd> {
        Arc::clone(&self.written)
    }

    /// Opens the log anew before the next group.
    pub(crate) fn reopen(&mut self) {
        self.file.reopen();
    }

    /// Takes messages for the operator.
    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        let mut all = std::mem::take(&mut self.notices);
        while let Some(notice) = self.file.notice() {
            all.push(notice);
        }
        all
    }

    /// Makes all durable that was written.
    pub(crate) fn sync(&mut self) -> Result<(), CollectorError> {
        let log = self.file.sync().map_err(|failed| failed.cause.into());
        let ledger = self.ledger.sync();
        log.and(ledger)
    }

    /// Writes a group, so that all of it is kept, or an error says that nothing is. A sync that fails seals log and ledger:
    /// the group is cut off the log and written again, into new files. `sessions` gives all sessions as they are without
    /// the group.
    pub(crate) fn commit(
        &mut self,
        group: &BatchGroup,
        sessions: &dyn Fn() -> Vec<KnownSession>,
    ) -> Result<(), CollectorError> {
        if self.is_in_doubt {
            self.renew_ledger(sessions)?;
        } else if self.ledger.is_long() {
            // The old one still holds; the next group tries again.
            let _ = self.ledger.renew(&sessions());
        }
        let mut last = FileError::Deleted { path: self.path() }.into();
        for _ in 0..COMMIT_TRIES_MAX {
            match self.write(group) {
                Ok(()) => return Ok(()),
                Err(NotKept::Deleted(entries)) => self.ledger.take_back(entries)?,
                Err(NotKept::InDoubt(error)) => {
                    self.notices.push(format!(
                        "{error}: what this sync did not bring to the disk is cut off, and goes into a new log file and ledger"
                    ));
                    self.renew_ledger(sessions)?;
                    last = error;
                }
                Err(NotKept::Failed(error)) => return Err(error),
            }
        }
        Err(last)
    }

    fn renew_ledger(&mut self, sessions: &dyn Fn() -> Vec<KnownSession>) -> Result<(), CollectorError> {
        self.ledger.renew(&sessions())?;
        self.is_in_doubt = false;
        Ok(())
    }

    fn write(&mut self, group: &BatchGroup) -> Result<(), NotKept> {
        if group.bytes.is_empty() {
            // Nothing of it goes to this output.
            return Ok(());
        }
        let place = self.file.place(group.bytes.len() as u64, now_unix_ns())?;
        // Before the first byte is there.
        self.written.set(place);
        let entry = |part: &Part| Entry {
            session: part.session,
            cursor: part.cursor,
            place,
            length: part.end_bytes,
            owner: part.owner,
            ..Entry::default()
        };
        // Those that have no bytes here are noted with the next one that has.
        let mut end_bytes = 0;
        let has_bytes = |part: &&Part| std::mem::replace(&mut end_bytes, part.end_bytes) < part.end_bytes;
        let entries: Vec<Entry> = group.parts.iter().filter(has_bytes).map(entry).collect();
        if let Err(error) = self.ledger.append(&entries) {
            self.file.abandon(place, 0)?;
            return Err(error.into());
        }
        if self.syncs
            && let Err(error) = self.ledger.sync()
        {
            self.file.abandon(place, 0)?;
            return Err(self.seal(place, error));
        }
        if let Err(failed) = self.file.write_at(place, 0, &group.bytes) {
            // First the bytes, then the entries: the other way round a kill between would leave bytes that count twice.
            self.file.abandon(place, 0)?;
            self.ledger.take_back(entries.len())?;
            return Err(failed.cause.into());
        }
        if self.file.was_deleted() {
            return Err(NotKept::Deleted(entries.len()));
        }
        if self.syncs
            && let Err(failed) = self.file.sync()
        {
            return Err(self.seal(place, failed.cause.into()));
        }
        self.written.set(Placement {
            offset: place.offset + group.bytes.len() as u64,
            ..place
        });
        Ok(())
    }

    /// Lets nothing more be written to log and ledger, whose last bytes may not be on disk although a later sync would say
    /// so, and takes the group back.
    fn seal(&mut self, place: Placement, error: CollectorError) -> NotKept {
        self.is_in_doubt = true;
        if self.file.seal(place) {
            self.ledger.note_void(place);
        }
        NotKept::InDoubt(error)
    }
}
