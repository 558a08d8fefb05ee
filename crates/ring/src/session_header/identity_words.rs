//! The front of a session header: whose session it is, in words that never change, and their checksum.

use super::{MAGIC, damaged};
use crate::RingError;
use crate::checksum::Checksum;
use crate::clock::ClockSource;
use crate::header::{load_text, store_text};
use crate::limits::APP_NAME_BYTES;
use crate::process_identity::ProcessIdentity;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words that the checksum covers beside the magic.
const COVERED: usize = 5 + APP_NAME_BYTES / 8;

/// Words of an identity of which one byte was damaged.
#[derive(Debug)]
pub(super) struct IdentityValues {
    words: [u64; COVERED],
    checksum: u64,
}

/// Words of the identity, 128 bytes.
#[repr(C)]
#[derive(Debug)]
pub(super) struct IdentityWords {
    pub(super) magic: AtomicU64,
    pub(super) pid: AtomicU32,
    pub(super) clock_source: AtomicU32,
    pub(super) start_unix_ns: AtomicU64,
    /// Everything has reached the log: the complement of the checksum.
    pub(super) done: AtomicU64,
    pub(super) app: [AtomicU64; APP_NAME_BYTES / 8],
    /// Start, namespace and boot of the process, by which it is told from others of its number; 0 where unknown.
    pub(super) process_start: AtomicU64,
    pub(super) process_namespace: AtomicU64,
    pub(super) process_boot: AtomicU64,
    /// Of everything before it but `done`.
    pub(super) checksum: AtomicU64,
}

impl IdentityWords {
    /// Makes zeroed words those of a process.
    pub(super) fn format(
        &self,
        process: &ProcessIdentity,
        app: &str,
        clock: ClockSource,
        start_unix_ns: u64,
    ) {
        // Relaxed: the magic is stored last.
        self.pid.store(process.pid, Ordering::Relaxed);
        self.process_start.store(process.start_ticks, Ordering::Relaxed);
        self.process_namespace.store(process.namespace, Ordering::Relaxed);
        self.process_boot.store(process.boot, Ordering::Relaxed);
        self.clock_source.store(clock as u32, Ordering::Relaxed);
        self.start_unix_ns.store(start_unix_ns, Ordering::Relaxed);
        store_text(&self.app, app);
        self.seal();
    }

    /// Stores checksum and magic behind everything that the checksum covers.
    pub(super) fn seal(&self) {
        // Relaxed: the magic is stored last.
        self.checksum.store(self.computed_checksum(), Ordering::Relaxed);
        // SYNC(session): the rest of the header is visible to a thread that sees the magic.
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Checksum of the words as they are now; the magic counts as it should be.
    fn computed_checksum(&self) -> u64 {
        let words = self.covered();
        let sum = words.iter().fold(Checksum::of_words(&[MAGIC]), |sum, word| {
            sum.bytes(&word.to_le_bytes())
        });
        sum.value()
    }

    /// The words that the checksum covers, but for the magic.
    fn covered(&self) -> [u64; COVERED] {
        let halves = |low: &AtomicU32, high: &AtomicU32| {
            // Relaxed: as in `is_whole`.
            u64::from(low.load(Ordering::Relaxed)) | u64::from(high.load(Ordering::Relaxed)) << 32
        };
        let mut words = [0; COVERED];
        let rest = [&self.process_start, &self.process_namespace, &self.process_boot];
        let loaded = core::iter::once(&self.start_unix_ns).chain(&self.app).chain(rest);
        let loaded = loaded.map(|word| word.load(Ordering::Relaxed));
        let first = core::iter::once(halves(&self.pid, &self.clock_source));
        for (word, value) in words.iter_mut().zip(first.chain(loaded)) {
            *word = value;
        }
        words
    }

    /// The words with one damaged byte mended, also where that is one of magic or checksum; `None` where more is damaged.
    pub(super) fn mended(&self) -> Option<IdentityValues> {
        let mut bytes = [0; 8 * COVERED];
        for (part, word) in bytes.chunks_exact_mut(8).zip(self.covered()) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        // Relaxed: the process is dead.
        let stored = self.checksum.load(Ordering::Relaxed);
        let checksum = Checksum::of_words(&[MAGIC]).mend(&mut bytes, stored)?;
        let mut words = [0; COVERED];
        for (word, part) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = part.first_chunk().map_or(0, |part| u64::from_le_bytes(*part));
        }
        Some(IdentityValues { words, checksum })
    }

    /// Stores words that were mended.
    pub(super) fn store(&self, mended: &IdentityValues) {
        let [first, rest @ ..] = &mended.words;
        // Relaxed: the process is dead.
        self.pid.store(*first as u32, Ordering::Relaxed);
        self.clock_source.store((first >> 32) as u32, Ordering::Relaxed);
        let last = [&self.process_start, &self.process_namespace, &self.process_boot];
        let places = core::iter::once(&self.start_unix_ns).chain(&self.app).chain(last);
        for (place, word) in places.zip(rest) {
            place.store(*word, Ordering::Relaxed);
        }
        self.checksum.store(mended.checksum, Ordering::Relaxed);
        // SYNC(session)
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Returns whether the words are those that were stored.
    pub(super) fn is_whole(&self) -> bool {
        // Relaxed: compared, whatever it is.
        self.checksum.load(Ordering::Relaxed) == self.computed_checksum()
    }

    /// Checks that it is the front of one of our headers.
    pub(super) fn check(&self) -> Result<(), RingError> {
        // SYNC(session)
        let magic = self.magic.load(Ordering::Acquire);
        if magic != MAGIC {
            return Err(damaged("magic", magic, "LDSESS and version 2"));
        }
        let source = self.clock_source.load(Ordering::Relaxed);
        if ClockSource::from_code(source).is_none() {
            return Err(damaged("clock source", u64::from(source), "1, 2 or 3"));
        }
        Ok(())
    }

    /// The process that made the session.
    pub(super) fn process(&self) -> ProcessIdentity {
        // Relaxed: valid with the magic, and never changed.
        ProcessIdentity {
            pid: self.pid.load(Ordering::Relaxed),
            start_ticks: self.process_start.load(Ordering::Relaxed),
            namespace: self.process_namespace.load(Ordering::Relaxed),
            boot: self.process_boot.load(Ordering::Relaxed),
        }
    }

    /// Checks the checksum.
    pub(super) fn check_whole(&self) -> Result<(), RingError> {
        if self.is_whole() {
            return Ok(());
        }
        let found = self.checksum.load(Ordering::Relaxed);
        Err(damaged("checksum", found, "that of the words before it"))
    }

    /// The word that says that everything has reached the log: no other session has it, and no flipped bit makes it.
    pub(super) fn done_word(&self) -> u64 {
        // Relaxed: never changed.
        !self.checksum.load(Ordering::Relaxed)
    }

    /// Name of the application, as far as it is text.
    pub(super) fn app(&self) -> String {
        load_text(&self.app)
    }
}
