//! The writer into reserved ring space: little-endian values at ever greater addresses, never past the reservation.
#![allow(unsafe_code)]

use core::marker::PhantomData;

/// Writes a record's bytes into the space that was reserved for it.
///
/// A write that does not fit into the rest of the reservation is left out together with all that follow; the
/// caller reserves what its values need, so that this never happens in a correct program.
#[derive(Debug)]
pub struct RecordWriter<'a> {
    at: *mut u8,
    end: *mut u8,
    space: PhantomData<&'a mut [u8]>,
}

macro_rules! put_number {
    ($($(#[$doc:meta])* $name:ident: $type:ty),* $(,)?) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(&mut self, value: $type) {
            self.array(value.to_le_bytes());
        }
    )*};
}

impl<'a> RecordWriter<'a> {
    /// Writes into a slice.
    #[inline(always)]
    pub fn new(space: &'a mut [u8]) -> Self {
        let range = space.as_mut_ptr_range();
        Self {
            at: range.start,
            end: range.end,
            space: PhantomData,
        }
    }

    /// # Safety
    /// `[at, at + length)` must be writable and not be accessed by anybody else while the value lives.
    #[inline(always)]
    pub(crate) unsafe fn raw(at: *mut u8, length: usize) -> Self {
        // SAFETY: the caller vouches for the range, so its end is in bounds or one past.
        let end = unsafe { at.add(length) };
        Self {
            at,
            end,
            space: PhantomData,
        }
    }

    /// Bytes that still fit.
    #[inline(always)]
    fn left(&self) -> usize {
        self.end.addr() - self.at.addr()
    }

    put_number! {
        /// One byte.
        u8: u8,
        /// Two bytes.
        u16: u16,
        /// Four bytes.
        u32: u32,
        /// Eight bytes.
        u64: u64,
        /// Sixteen bytes.
        u128: u128,
    }

    /// The bytes as they are, without a length.
    #[inline(always)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        if bytes.len() > self.left() {
            return self.refuse();
        }
        // SAFETY: `[at, at + len)` lies inside of the reservation by the check above; `bytes` is borrowed, and the
        // reservation is exclusively ours, so the two do not overlap.
        unsafe {
            copy_short(bytes.as_ptr(), self.at, bytes.len());
            self.at = self.at.add(bytes.len());
        }
    }

    /// Zeros in the last eight bytes, before anything is written: what the values leave there is an end mark and
    /// never the rest of an older record.
    #[inline(always)]
    pub(crate) fn zero_tail(&mut self) {
        if self.left() >= 8 {
            // SAFETY: `[end - 8, end)` lies inside of the reservation by the check above.
            unsafe { self.end.sub(8).cast::<[u8; 8]>().write_unaligned([0; 8]) };
        }
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self, bytes: [u8; N]) {
        if N > self.left() {
            return self.refuse();
        }
        // SAFETY: `[at, at + N)` lies inside of the reservation by the check above; alignment 1 is asked for.
        unsafe {
            self.at.cast::<[u8; N]>().write_unaligned(bytes);
            self.at = self.at.add(N);
        }
    }

    #[cold]
    fn refuse(&mut self) {
        debug_assert!(false, "a record is larger than its reservation");
        self.at = self.end;
    }
}

/// Copies; lengths of 8 to 32 bytes, which most strings have, take two overlapping wide moves instead of a call.
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[inline(always)]
unsafe fn copy_short(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: in each arm both moves stay inside of `[0, length)` of either side.
    unsafe {
        match length {
            8..=16 => {
                let head = from.cast::<[u8; 8]>().read_unaligned();
                let tail = from.add(length - 8).cast::<[u8; 8]>().read_unaligned();
                to.cast::<[u8; 8]>().write_unaligned(head);
                to.add(length - 8).cast::<[u8; 8]>().write_unaligned(tail);
            }
            17..=32 => {
                let head = from.cast::<[u8; 16]>().read_unaligned();
                let tail = from.add(length - 16).cast::<[u8; 16]>().read_unaligned();
                to.cast::<[u8; 16]>().write_unaligned(head);
                to.add(length - 16).cast::<[u8; 16]>().write_unaligned(tail);
            }
            _ => core::ptr::copy_nonoverlapping(from, to, length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_each_other_in_little_endian() {
        let mut space = [0xeeu8; 64];
        let mut put = RecordWriter::new(&mut space);
        put.u8(1);
        put.u16(2);
        put.u32(3);
        put.u64(4);
        put.bytes(b"0123456789");
        assert_eq!(put.left(), 64 - 25);
        let expected = [1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(space[..15], expected);
        assert_eq!(&space[15..26], b"0123456789\xee");
    }

    #[test]
    fn every_length_is_copied_whole_and_no_further() {
        let source: Vec<u8> = (0..100).collect();
        for length in 0..100 {
            let mut space = [0xeeu8; 101];
            RecordWriter::new(&mut space[..length]).bytes(&source[..length]);
            assert_eq!(space[..length], source[..length]);
            assert!(space[length..].iter().all(|byte| *byte == 0xee));
        }
    }
}
