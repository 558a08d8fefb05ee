//! Memory that all modules of a process share by name: what a header-only library keeps once for the program and all
//! libraries that it loads, however often its code is compiled into them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// By name: words, and the address.
type Areas = HashMap<Vec<u8>, (usize, AtomicPtr<u64>)>;

static AREAS: Mutex<Option<Areas>> = Mutex::new(None);

/// Bytes of an area at most: it is for some words and pointers.
pub(crate) const AREA_BYTES_MAX: usize = 1 << 20;

/// The area of this name: zeros when it is first asked for, aligned for any number, and never freed. `None` when it is
/// too large, or another size was asked for before.
pub(crate) fn area(name: &[u8], bytes: usize) -> Option<*mut u8> {
    if bytes > AREA_BYTES_MAX {
        return None;
    }
    let words = bytes.div_ceil(8);
    // No handler that logs finds the lock taken by its own thread.
    let _held = logdrive_ring::signals::Held::new();
    let mut areas = AREAS.lock().unwrap_or_else(PoisonError::into_inner);
    let (found, area) = areas
        .get_or_insert_default()
        .entry(name.to_vec())
        .or_insert_with(|| {
            let area: *mut [u64] = Box::into_raw(vec![0u64; words].into_boxed_slice());
            (words, AtomicPtr::new(area.cast()))
        });
    // Relaxed: the lock orders it.
    (*found == words).then(|| area.load(Ordering::Relaxed).cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_area_of_one_size() {
        let first = area(b"test", 100).unwrap();
        assert_eq!(area(b"test", 100), Some(first));
        assert_eq!(area(b"test", 200), None);
        assert_ne!(area(b"test two", 100), Some(first));
        assert_eq!(area(b"test three", AREA_BYTES_MAX + 1), None);
    }
}
