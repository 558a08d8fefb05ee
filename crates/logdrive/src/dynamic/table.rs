//! A table of callsites that only grows: a look-up is a few loads, without a lock; an entry is never moved or freed.

use super::limits::PROBES_MAX;
use std::sync::OnceLock;

/// Entries by hash, with a fixed number of places; a power of two.
#[derive(Debug)]
pub(crate) struct Table<T: 'static, const PLACES: usize> {
    places: [OnceLock<&'static T>; PLACES],
}

impl<T, const PLACES: usize> Table<T, PLACES> {
    /// Makes a table without entries.
    pub(crate) const fn new() -> Self {
        assert!(PLACES.is_power_of_two());
        Self {
            places: [const { OnceLock::new() }; PLACES],
        }
    }

    /// The entry that `is` recognises. `hash` has its best bits on top.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<&'static T> {
        for place in self.places_of(hash) {
            let entry = *place.get()?;
            if is(entry) {
                return Some(entry);
            }
        }
        None
    }

    /// As [`Table::find`], and makes the entry where there is none. `None` when there is no place for it.
    #[cold]
    pub(crate) fn find_or_make(
        &self,
        hash: u64,
        is: impl Fn(&T) -> bool,
        make: impl Fn() -> T,
    ) -> Option<&'static T> {
        for place in self.places_of(hash) {
            // Of two threads that come at once, one makes the entry; the other finds it, or goes on.
            let entry = *place.get_or_init(|| Box::leak(Box::new(make())));
            if is(entry) {
                return Some(entry);
            }
        }
        None
    }

    #[inline]
    fn places_of(&self, hash: u64) -> impl Iterator<Item = &OnceLock<&'static T>> {
        let first = (hash >> (64 - PLACES.trailing_zeros())) as usize;
        let probes = PROBES_MAX.min(PLACES);
        (first..first + probes).map(|place| &self.places[place & (PLACES - 1)])
    }
}

/// Returns the hash of an address.
#[inline]
#[cfg(feature = "tracing")]
pub(crate) fn hash_address<T>(value: &T) -> u64 {
    hash_words(std::ptr::from_ref(value).addr() as u64, 0)
}

/// Returns the hash of two words.
#[inline]
pub(crate) fn hash_words(one: u64, two: u64) -> u64 {
    // Multiplication by the golden ratio spreads neighbours; the second word is spread before it joins.
    (one ^ two.wrapping_mul(0xd6e8_feb8_6659_fd93)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_made_once_and_found_again() {
        static TABLE: Table<u64, 256> = Table::new();
        for number in 0..128 {
            let hash = hash_words(number, 1);
            assert!(TABLE.find(hash, |entry| *entry == number).is_none());
            let made = TABLE
                .find_or_make(hash, |entry| *entry == number, || number)
                .unwrap();
            assert!(std::ptr::eq(
                TABLE.find(hash, |entry| *entry == number).unwrap(),
                made
            ));
        }
    }

    #[test]
    fn threads_that_make_the_same_entry_get_the_same_one() {
        static TABLE: Table<u64, 64> = Table::new();
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let make =
                || std::ptr::from_ref(TABLE.find_or_make(9, |entry| *entry == 5, || 5).unwrap()).addr();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|address| *address == addresses[0]));
    }

    #[test]
    fn a_full_table_says_so() {
        static TABLE: Table<u64, 4> = Table::new();
        for number in 0..4 {
            assert!(
                TABLE
                    .find_or_make(0, |entry| *entry == number, || number)
                    .is_some()
            );
        }
        assert!(TABLE.find_or_make(0, |entry| *entry == 4, || 4).is_none());
        assert_eq!(TABLE.find(0, |entry| *entry == 3), Some(&3));
    }
}
