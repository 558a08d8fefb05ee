//! Sampling: a call whose control word is neither on nor off is counted, or is one of a sample.
//!
//! A call that is left out costs some nanoseconds, because its thread counts it for itself (`logdrive_ring::thread_counts`).
//! A call that passes is written like any other, but that the record says of how many calls it is one, where it is one
//! of every so many. Where each value of a field has a limit of its own, the call goes on until its values are known.

use crate::runtime;
use logdrive_ring::clock::monotonic_ns;
use logdrive_ring::control::{
    ControlEntry, EVERY, KeyField, KeyedLimit, OFF, OFF_COUNTED, PER_KEY, PER_SECOND,
};
use logdrive_ring::limits::CALLSITES_MAX;
use logdrive_ring::{local, thread_counts};
use logdrive_wire::Value;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// From here on, a callsite's number is one with a mark: the record needs more than to be written.
pub(crate) const MARKS: u32 = 1 << 30;
/// The record says of how many calls it is one.
const ONE_OF_MANY: u32 = 1 << 30;
/// The record's values decide whether it passes.
const KEYED: u32 = 1 << 31;

const _: () = assert!(CALLSITES_MAX <= MARKS as usize);

/// Returns a callsite's number without marks.
#[inline(always)]
pub(crate) fn number(marked: u32) -> u32 {
    marked & (MARKS - 1)
}

/// Returns true if the record says of how many calls it is one.
pub(crate) fn is_one_of_many(marked: u32) -> bool {
    marked & ONE_OF_MANY != 0
}

/// Returns true if the record's values decide whether it passes.
pub(crate) fn is_keyed(marked: u32) -> bool {
    marked & KEYED != 0
}

/// Returns the callsite's number in the session, with marks, if a call goes on. Counts calls that do not.
#[cfg(any(feature = "tracing", feature = "log"))]
#[inline]
pub(crate) fn admit(entry: &'static ControlEntry) -> Option<u32> {
    if is_left_out(entry) {
        return None;
    }
    admit_uncommon(entry)
}

/// Returns true if a call is one of those that a sample leaves out, where that is seen at once. Such calls are many, and this
/// is all that they cost. With nothing but the entry to keep, its frame is small.
#[cold]
#[inline(never)]
pub(crate) fn is_left_out(entry: &'static ControlEntry) -> bool {
    match entry.control() {
        EVERY => thread_counts::leave_out_of_many(entry),
        PER_SECOND => thread_counts::leave_out_of_second(entry),
        _ => false,
    }
}

#[cold]
#[inline(never)]
pub(crate) fn admit_uncommon(entry: &'static ControlEntry) -> Option<u32> {
    match entry.control() {
        EVERY => {
            thread_counts::pass_every(entry, runtime::counts_of).then(|| number(entry.id()) | ONE_OF_MANY)
        }
        PER_SECOND => thread_counts::pass_budget(entry, runtime::counts_of).then(|| number(entry.id())),
        PER_KEY => Some(number(entry.id()) | KEYED),
        OFF | OFF_COUNTED => {
            local::count_disabled();
            None
        }
        _ => Some(number(entry.id())),
    }
}

/// Of how many calls a record is one that has passed.
pub(crate) fn one_of(entry: &ControlEntry) -> u64 {
    entry.parameter().max(1)
}

/// Returns the field that is the key of a callsite now.
pub(crate) fn key_of(entry: &ControlEntry) -> KeyField {
    KeyedLimit::of(entry.parameter()).key
}

/// Returns true if a call passes whose key has this value. Counts it if not.
pub(crate) fn pass_key(entry: &'static ControlEntry, value: Option<&Value<'_>>) -> bool {
    let mut hasher = DefaultHasher::new();
    std::ptr::from_ref(entry).addr().hash(&mut hasher);
    hash_value(value, &mut hasher);
    let limit = KeyedLimit::of(entry.parameter()).per_second;
    let passes = KEYS.pass(hasher.finish(), limit, monotonic_ns() / 1_000_000_000);
    if passes {
        thread_counts::report_of(entry);
    } else {
        thread_counts::count_sampled_out(entry, runtime::counts_of);
    }
    passes
}

/// Equal values have equal hashes within one callsite, where a field keeps its kind. Records without the field have
/// one key together.
fn hash_value(value: Option<&Value<'_>>, hasher: &mut DefaultHasher) {
    match value {
        None | Some(Value::None | Value::Scope(_)) => {}
        Some(Value::Bool(value)) => value.hash(hasher),
        Some(Value::I64(value)) => value.hash(hasher),
        Some(Value::U64(value) | Value::Pointer(value)) => value.hash(hasher),
        Some(Value::I128(value)) => value.hash(hasher),
        Some(Value::U128(value)) => value.hash(hasher),
        Some(Value::F32(value)) => value.to_bits().hash(hasher),
        Some(Value::F64(value)) => value.to_bits().hash(hasher),
        Some(Value::Char(value)) => value.hash(hasher),
        Some(
            Value::Str(text)
            | Value::Bytes(text)
            | Value::Display(text)
            | Value::Debug(text)
            | Value::Message(text),
        ) => text.hash(hasher),
    }
}

/// The keys that have passed in this second, of all callsites.
static KEYS: Keys<KEY_PLACES> = Keys {
    places: [const { AtomicU64::new(0) }; KEY_PLACES],
};

/// Places for keys: so many are distinguished in one second. Further ones share the counts of others.
const KEY_PLACES: usize = 4096;

/// Places that a key may have.
const KEY_PROBES: usize = 4;

/// Counts of keys, each a word: 24 bits of the key's hash, 20 bits of the second, 20 bits of calls in it.
struct Keys<const PLACES: usize> {
    places: [AtomicU64; PLACES],
}

const PART_BITS: u32 = 20;
const PART: u64 = (1 << PART_BITS) - 1;

/// Content of a slot of the key table.
#[derive(Clone, Copy)]
struct Count {
    key: u64,
    second: u64,
    calls: u64,
}

impl Count {
    fn of(word: u64) -> Self {
        Self {
            key: word >> (2 * PART_BITS),
            second: (word >> PART_BITS) & PART,
            calls: word & PART,
        }
    }

    fn to_word(self) -> u64 {
        self.key << (2 * PART_BITS) | self.second << PART_BITS | self.calls
    }
}

impl<const PLACES: usize> Keys<PLACES> {
    /// Returns true if another call of a key passes in this second.
    fn pass(&self, hash: u64, limit: u32, second: u64) -> bool {
        let (key, second) = (hash >> (2 * PART_BITS), second & PART);
        let limit = u64::from(limit).min(PART);
        let first = hash as usize % PLACES;
        for probe in 0..KEY_PROBES {
            let place = &self.places[(first + probe) % PLACES];
            if let Some(passes) = pass_at(place, key, limit, second, false) {
                return passes;
            }
        }
        pass_at(&self.places[first], key, limit, second, true).unwrap_or(false)
    }
}

/// `None` where another key has the place in this second, unless it is shared with it.
fn pass_at(place: &AtomicU64, key: u64, limit: u64, second: u64, shared: bool) -> Option<bool> {
    // Relaxed: a count by itself.
    let mut seen = place.load(Ordering::Relaxed);
    loop {
        let count = Count::of(seen);
        let is_free = count.calls == 0 || count.second != second;
        if !is_free && count.key != key && !shared {
            return None;
        }
        let calls = if is_free { 0 } else { count.calls };
        if calls >= limit {
            return Some(false);
        }
        let key = if is_free { key } else { count.key };
        let calls = calls + 1;
        let next = Count { key, second, calls };
        match place.compare_exchange_weak(seen, next.to_word(), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(true),
            Err(other) => seen = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<const PLACES: usize>() -> Keys<PLACES> {
        Keys {
            places: [const { AtomicU64::new(0) }; PLACES],
        }
    }

    /// A hash like those of a hasher.
    fn hash(number: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        number.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn each_key_has_its_own_limit_in_each_second() {
        let keys = keys::<4096>();
        for second in [0, 1, 2, 1 << 20] {
            for key in 0..50 {
                let passed = (0..10).filter(|_| keys.pass(hash(key), 3, second)).count();
                assert_eq!(passed, 3, "key {key} in second {second}");
            }
        }
        assert!(!keys.pass(hash(7), 0, 9), "a limit of none");
    }

    #[test]
    fn keys_that_find_no_place_share_one() {
        let keys = keys::<8>();
        let passed = (0..1000).filter(|key| keys.pass(hash(*key), 2, 5)).count();
        assert!((16..=8 * 2 * 2).contains(&passed), "{passed}");
    }

    #[test]
    fn threads_together_keep_to_the_limit() {
        let keys = keys::<64>();
        let passed: usize = std::thread::scope(|scope| {
            let count = || (0..1000).filter(|_| keys.pass(hash(1), 100, 5)).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(passed, 100);
    }

    #[test]
    fn values_of_different_text_are_different_keys() {
        let of = |value: Option<&Value<'_>>| {
            let mut hasher = DefaultHasher::new();
            hash_value(value, &mut hasher);
            hasher.finish()
        };
        assert_ne!(of(Some(&Value::Str(b"a"))), of(Some(&Value::Str(b"b"))));
        assert_ne!(of(Some(&Value::U64(1))), of(Some(&Value::U64(2))));
        assert_eq!(of(None), of(Some(&Value::None)));
    }
}
