//! Bytes that are read where another process has written them.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::sync::atomic::{Ordering, compiler_fence};

/// Bytes that lie in shared memory, or anywhere else.
///
/// Their writer can still change them, against the rules: two reads of the same byte may differ. So there is no
/// way to a slice, only to copies: copy what decides something, check the copy, and use the copy.
///
/// ```
/// use logdrive_ring::InPlace;
/// let bytes = InPlace::from(&b"\x04\0\0\0four"[..]);
/// let length = u32::from_le_bytes(bytes.array(0).unwrap());
/// let body = bytes.slice(4, length as usize).unwrap();
/// assert_eq!(body.to_vec(), b"four");
/// assert_eq!(body.byte(0), Some(b'f'));
/// assert!(body.slice(1, 4).is_none());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct InPlace<'a> {
    start: *const u8,
    length: usize,
    lent: PhantomData<&'a [u8]>,
}

// SAFETY: a view of bytes that are read only, by copying; as for a shared slice.
unsafe impl Send for InPlace<'_> {}
// SAFETY: as above.
unsafe impl Sync for InPlace<'_> {}

impl<'a> From<&'a [u8]> for InPlace<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self {
            start: bytes.as_ptr(),
            length: bytes.len(),
            lent: PhantomData,
        }
    }
}

impl<'a> InPlace<'a> {
    /// # Safety
    /// `[start, start + length)` must be mapped for as long as the value lives.
    #[cfg(not(loom))]
    pub(crate) unsafe fn raw(start: *const u8, length: usize) -> Self {
        Self {
            start,
            length,
            lent: PhantomData,
        }
    }

    #[cfg(not(loom))]
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A part, where it is there whole.
    #[inline]
    pub fn slice(&self, at: usize, length: usize) -> Option<InPlace<'a>> {
        if at > self.length || length > self.length - at {
            return None;
        }
        Some(Self {
            // SAFETY: `at` is at most `length`, and the bytes are mapped.
            start: unsafe { self.start.add(at) },
            length,
            lent: PhantomData,
        })
    }

    /// A copy of `N` bytes, where they are there.
    #[inline]
    pub fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let part = self.slice(at, N)?;
        // SAFETY: `N` bytes are mapped there, and alignment 1 is asked for.
        let copy = unsafe { part.start.cast::<[u8; N]>().read_unaligned() };
        // The compiler must not make the copy anew from the place when it is used.
        compiler_fence(Ordering::SeqCst);
        Some(copy)
    }

    /// One byte, where it is there.
    #[inline]
    pub fn byte(&self, at: usize) -> Option<u8> {
        self.array::<1>(at).map(|[byte]| byte)
    }

    /// Copies so many bytes as `out` has from a place on; `false`, and nothing is copied, where they are not all there.
    #[inline]
    pub(crate) fn copy_to(&self, at: usize, out: &mut [u8]) -> bool {
        let Some(part) = self.slice(at, out.len()) else {
            return false;
        };
        // SAFETY: as many bytes are mapped on either side; what may lie in shared memory is never reached through a
        // reference, so `out` is other memory. A writer that breaks the rules gives wrong bytes, which the caller checks.
        unsafe { core::ptr::copy_nonoverlapping(part.start, out.as_mut_ptr(), out.len()) };
        // As above.
        compiler_fence(Ordering::SeqCst);
        true
    }

    /// Asks for the cache line of a byte that will be read soon, if it is there: it may have to come from another core.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(part) = self.slice(at, 1) {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch is a hint that never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(part.start.cast()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = at;
    }

    /// Appends a copy of all of them.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.length, 0);
        if let Some(space) = out.get_mut(start..) {
            self.copy_to(0, space);
        }
    }

    /// A copy of all of them.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_to(&mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_reaches_beyond_the_bytes() {
        let bytes: Vec<u8> = (0..20).collect();
        let all = InPlace::from(&bytes[..]);
        for at in 0..25 {
            for length in 0..25 {
                let part = all.slice(at, length);
                assert_eq!(
                    part.map(|part| part.to_vec()),
                    bytes.get(at..at + length).map(<[u8]>::to_vec),
                    "{at} {length}"
                );
                let mut copy = vec![0xee; length];
                assert_eq!(all.copy_to(at, &mut copy), part.is_some());
            }
            assert_eq!(all.byte(at), bytes.get(at).copied());
            assert_eq!(all.array::<4>(at).is_some(), at <= 16);
        }
        assert!(all.slice(usize::MAX, 2).is_none());
        assert!(all.slice(2, usize::MAX).is_none());
    }
}
