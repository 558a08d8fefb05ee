//! Notes that each thread of a program makes after each call, in a file that outlives the program: calls made, and the
//! longest ones.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a thread's notes: four words.
const SLOT_BYTES: usize = 32;

/// Open file of notes.
pub(crate) struct Notes(File);

/// Notes of one thread, or the sums over those of all.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Noted {
    pub(crate) calls: u64,
    /// The longest call, but for the first one of each thread.
    pub(crate) worst_ns: u64,
    /// The longest first call of a thread, which makes its ring.
    pub(crate) first_ns: u64,
    /// The longest of the other calls in which the kernel did not take the processor from the thread; 0 where the language
    /// has no threads of its own.
    pub(crate) own_ns: u64,
}

impl Notes {
    pub(crate) fn open(path: &Path) -> io::Result<Notes> {
        let mut options = OpenOptions::new();
        Ok(Notes(
            options.write(true).create(true).truncate(false).open(path)?,
        ))
    }

    /// Number of the file's descriptor.
    pub(crate) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Replaces the notes of a thread.
    pub(crate) fn note(&self, thread: u64, noted: Noted) -> io::Result<()> {
        let words = [noted.calls, noted.worst_ns, noted.first_ns, noted.own_ns];
        let slot = words.map(u64::to_le_bytes).concat();
        self.0.write_all_at(&slot, thread * SLOT_BYTES as u64)
    }

    /// Sums up a file of notes; nothing where there is none.
    pub(crate) fn read(path: &Path) -> Noted {
        let bytes = std::fs::read(path).unwrap_or_default();
        let slots = bytes.as_chunks::<SLOT_BYTES>().0.iter();
        slots.fold(Noted::default(), |sum, slot| {
            let word = |at: usize| {
                let word = slot.get(at * 8..at * 8 + 8).and_then(|word| word.try_into().ok());
                u64::from_le_bytes(word.unwrap_or_default())
            };
            sum.and(Noted {
                calls: word(0),
                worst_ns: word(1),
                first_ns: word(2),
                own_ns: word(3),
            })
        })
    }
}

impl Noted {
    /// Calls of both, and the longest ones of either.
    pub(crate) fn and(self, other: Noted) -> Noted {
        Noted {
            calls: self.calls + other.calls,
            worst_ns: self.worst_ns.max(other.worst_ns),
            first_ns: self.first_ns.max(other.first_ns),
            own_ns: self.own_ns.max(other.own_ns),
        }
    }
}
