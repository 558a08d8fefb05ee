//! Prefixes of lines, up to the first value, and the cache that keeps them for the next line with the same one.
//!
//! Lines of one callsite and one thread within a second have one prefix (time, level, thread, module, file) but for a few
//! digits. So the prefix is copied in wide blocks and the digits are written over it, which is a fifth of the work.

use super::Thread;
use super::thread::{ThreadWords, thread_words};
use super::time::{DIGITS_BYTES, Digits, put_fraction};
use super::write::room;

/// Bytes of the longest prefix that is kept, and of the part that is always copied: most of text are no longer. JSON has
/// keys besides, and up to 250 bytes.
pub(super) const PREFIX_BYTES: usize = 256;
const USUAL_BYTES: usize = 96;

/// Prefixes that are kept: some threads and callsites take turns.
const PREFIXES: usize = 32;

/// Prefixes of lines that were written lately.
#[derive(Debug)]
pub(super) struct PrefixCache {
    entries: Box<[Prefix]>,
}

/// Key of a prefix: the number of the steps, which is never 0, the begin of the second, and the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PrefixKey {
    steps: u64,
    second_ns: u64,
    thread: ThreadWords,
    thread_id: u64,
}

/// The rendered prefix of a line, and where its digits stand.
#[derive(Debug, Clone)]
pub(super) struct Prefix {
    key: PrefixKey,
    length: usize,
    /// The digits of the time in it.
    digits: Digits,
    text: [u8; PREFIX_BYTES],
}

const NONE: Prefix = Prefix {
    key: PrefixKey {
        steps: 0,
        second_ns: 0,
        thread: ThreadWords::NONE,
        thread_id: 0,
    },
    length: 0,
    digits: Digits { at: 0, count: 0 },
    text: [0; PREFIX_BYTES],
};

impl Default for PrefixCache {
    fn default() -> Self {
        Self {
            entries: vec![NONE; PREFIXES].into_boxed_slice(),
        }
    }
}

impl PrefixKey {
    /// `None` where the thread's name is too long to be compared at once.
    #[inline(always)]
    pub(super) fn of(steps: u64, second_ns: u64, thread: &Thread<'_>) -> Option<Self> {
        Some(Self {
            steps,
            second_ns,
            thread: thread_words(thread)?,
            thread_id: thread.id,
        })
    }

    /// For a thread whose name is too long; to be compared with nothing.
    pub(super) fn unnamed(steps: u64, second_ns: u64) -> Self {
        Self {
            steps,
            second_ns,
            ..NONE.key
        }
    }

    #[inline(always)]
    fn place(&self) -> usize {
        (self.steps.wrapping_add(self.thread_id)) as usize % PREFIXES
    }
}

impl Prefix {
    /// A prefix that was just written; `None` where it is too long to be kept.
    pub(super) fn new(key: PrefixKey, text: &[u8], digits: Digits) -> Option<Self> {
        if digits.at + DIGITS_BYTES > PREFIX_BYTES {
            return None;
        }
        let mut prefix = Self {
            key,
            length: text.len(),
            digits,
            ..NONE
        };
        prefix.text.get_mut(..text.len())?.copy_from_slice(text);
        Some(prefix)
    }

    /// Writes it as it is, if there is room for whole blocks. Returns its place, and the offset behind it.
    #[inline(always)]
    pub(super) fn copy<'a>(
        &self,
        bytes: &'a mut [u8],
        at: usize,
    ) -> Option<(&'a mut [u8; PREFIX_BYTES], usize)> {
        let place = room::<PREFIX_BYTES>(bytes, at)?;
        if self.length > USUAL_BYTES {
            *place = self.text;
        } else {
            place[..USUAL_BYTES].copy_from_slice(&self.text[..USUAL_BYTES]);
        }
        Some((place, at + self.length))
    }

    /// Writes it with these nanoseconds, if there is room for whole blocks. Returns the offset behind it.
    #[inline(always)]
    pub(super) fn put(&self, bytes: &mut [u8], at: usize, nanos: u32) -> Option<usize> {
        let (place, end) = self.copy(bytes, at)?;
        put_fraction(
            room::<DIGITS_BYTES>(place, self.digits.at)?,
            nanos,
            self.digits.count,
        );
        Some(end)
    }

    /// Puts the digits of these nanoseconds into the kept text.
    pub(super) fn show(&mut self, nanos: u32) {
        if let Some(place) = room::<DIGITS_BYTES>(&mut self.text, self.digits.at) {
            put_fraction(place, nanos, self.digits.count);
        }
    }

    /// Nanoseconds since 1970 at which the second of this prefix began.
    pub(super) fn second_ns(&self) -> u64 {
        self.key.second_ns
    }
}

impl PrefixCache {
    /// Returns the prefix of this key, if it is kept.
    #[inline(always)]
    pub(super) fn find(&self, key: &PrefixKey) -> Option<&Prefix> {
        self.entries.get(key.place()).filter(|prefix| prefix.key == *key)
    }

    /// Keeps a prefix that was written just now.
    #[inline(never)]
    pub(super) fn keep(&mut self, key: PrefixKey, text: &[u8], digits: Digits) {
        if let Some(prefix) = Prefix::new(key, text, digits)
            && let Some(place) = self.entries.get_mut(key.place())
        {
            *place = prefix;
        }
    }
}
