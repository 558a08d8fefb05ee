//! A calibration in shared memory, with its checksum.

use crate::checksum::Checksum;
use crate::clock::Calibration;
use core::sync::atomic::{AtomicU64, Ordering};

/// The three words of a calibration, and their checksum.
#[repr(C)]
#[derive(Debug)]
pub(super) struct CalibrationWords {
    words: [AtomicU64; 3],
    checksum: AtomicU64,
}

impl CalibrationWords {
    /// Stores a calibration.
    pub(super) fn store(&self, calibration: &Calibration) {
        let values = calibration.words();
        // Relaxed: a reader trusts the checksum, or the sequence around it.
        for (word, value) in self.words.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
        self.checksum
            .store(Checksum::of_words(&values).value(), Ordering::Relaxed);
    }

    /// Returns the calibration; `None` where the checksum is wrong.
    pub(super) fn load(&self) -> Option<Calibration> {
        // Relaxed: as in `store`.
        let values = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        let checksum = self.checksum.load(Ordering::Relaxed);
        (checksum == Checksum::of_words(&values).value()).then(|| Calibration::from_words(values))
    }
}
