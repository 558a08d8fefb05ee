//! The thread's name, escaped once as long as it stays the same.

use super::Thread;
use super::escape::{Escape, put_escaped};
use super::number::put_u64;
use super::write::{WIDE, put_block};

/// A thread's name, or its id if it has none, in three words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadWords(usize, u64, u64);

impl ThreadWords {
    /// Never equal to those of a thread that has a name.
    pub(super) const NONE: Self = Self(0, 0, 0);
}

/// All that a line shows of the thread, unless its name is longer than names are.
#[inline(always)]
pub(super) fn thread_words(thread: &Thread<'_>) -> Option<ThreadWords> {
    match name_words(thread.name.as_bytes()) {
        Some((length, first, last)) => Some(ThreadWords(length, first, last)),
        None if thread.name.is_empty() => Some(ThreadWords(0, thread.id, 0)),
        None => None,
    }
}

/// The last thread's name. A merged log takes many records from one thread before it takes some from another.
#[derive(Debug, Clone)]
pub(super) struct ThreadNameCache {
    /// The name as [`name_words`] has it; never equal to a name before the first one.
    words: (usize, u64, u64),
    escape: Escape,
    text: [u8; WIDE],
    length: usize,
}

impl Default for ThreadNameCache {
    fn default() -> Self {
        Self {
            words: (0, 0, 0),
            escape: Escape::Text,
            text: [0; WIDE],
            length: 0,
        }
    }
}

/// All of a name of 1 to 16 bytes in its length and two words; Linux has names of at most 15.
#[inline(always)]
fn name_words(name: &[u8]) -> Option<(usize, u64, u64)> {
    if name.len() > 16 {
        return None;
    }
    if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        return Some((name.len(), u64::from_le_bytes(*first), u64::from_le_bytes(*last)));
    }
    if let (Some(first), Some(last)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        return Some((
            name.len(),
            u64::from(u32::from_le_bytes(*first)),
            u64::from(u32::from_le_bytes(*last)),
        ));
    }
    // One to three bytes: the first, the middle and the last are all of them.
    let (first, last) = (*name.first()?, *name.last()?);
    let middle = *name.get(name.len() / 2)?;
    Some((
        name.len(),
        u64::from(first),
        u64::from(middle) << 8 | u64::from(last),
    ))
}

impl ThreadNameCache {
    /// Writes the thread's name, or its id if it has none.
    #[inline(always)]
    pub(super) fn put(&mut self, bytes: &mut [u8], at: usize, thread: &Thread<'_>, escape: Escape) -> usize {
        match name_words(thread.name.as_bytes()) {
            Some(words) if words == self.words && escape == self.escape => {
                put_block(bytes, at, &self.text, self.length)
            }
            _ => self.put_other(bytes, at, thread, escape),
        }
    }

    #[inline(never)]
    fn put_other(&mut self, bytes: &mut [u8], at: usize, thread: &Thread<'_>, escape: Escape) -> usize {
        let name = thread.name.as_bytes();
        if name.is_empty() {
            return put_u64(bytes, at, thread.id);
        }
        if let Some(words) = name_words(name) {
            let length = put_escaped(&mut self.text, 0, name, escape);
            if length <= WIDE {
                (self.words, self.escape, self.length) = (words, escape, length);
            } else {
                self.words = (0, 0, 0);
            }
        }
        put_escaped(bytes, at, name, escape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_taken_for_another() {
        let mut kept = ThreadNameCache::default();
        let long = "x".repeat(40);
        let names = [
            "main",
            "mai",
            "mbi",
            "ma",
            "a",
            "worker-1",
            "worker-2",
            "worker-12",
            "a\nb\tc\u{1b}de",
            "",
            &long,
            "\0\0\0\0\0\0\0\0\0",
        ];
        for round in 0..200 {
            let thread = Thread {
                name: names[round * 7 % names.len()],
                id: 5,
            };
            let escape = if round % 3 == 0 {
                Escape::Json
            } else {
                Escape::Text
            };
            for _ in 0..2 {
                let mut bytes = [0; 200];
                let length = kept.put(&mut bytes, 0, &thread, escape);
                let expected = match thread.name {
                    "" => b"5".to_vec(),
                    name => super::super::escape::escaped(name.as_bytes(), escape),
                };
                assert_eq!(&bytes[..length], expected, "{:?}", thread.name);
            }
        }
    }
}
