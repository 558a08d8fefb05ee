//! Writing into a fixed buffer in wide steps.
//!
//! Each writer takes the buffer and the offset at which it writes, and returns the offset behind what it wrote. Where
//! the buffer is too small it returns [`OVERFLOW`], which every later writer passes on, so that a line is checked
//! once, at its end. Passing the offset by value keeps it in a register across all writers.
//!
//! Short text is copied as whole blocks of fixed size, because that is one or two moves instead of a call. The bytes
//! behind the returned offset are therefore scratch, and a block needs its full size of room.

/// The offset that stands for "did not fit". Larger than any buffer, and far enough from the end not to wrap.
pub(super) const OVERFLOW: usize = usize::MAX / 2;

/// Bytes that are copied at once.
pub(super) const WIDE: usize = 32;

/// The next `N` bytes of the buffer, if there are as many.
#[inline(always)]
pub(super) fn room<const N: usize>(bytes: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    bytes.get_mut(at..)?.first_chunk_mut()
}

/// Writes a block of which the first `length` bytes count.
#[inline(always)]
pub(super) fn put_block<const N: usize>(
    bytes: &mut [u8],
    at: usize,
    block: &[u8; N],
    length: usize,
) -> usize {
    match room::<N>(bytes, at) {
        Some(place) => {
            *place = *block;
            at + length
        }
        None => OVERFLOW,
    }
}

/// Writes a single byte.
#[inline(always)]
pub(super) fn put_byte(bytes: &mut [u8], at: usize, byte: u8) -> usize {
    match bytes.get_mut(at) {
        Some(place) => {
            *place = byte;
            at + 1
        }
        None => OVERFLOW,
    }
}

/// Writes text as it is, whatever its length.
#[inline]
pub(super) fn put(bytes: &mut [u8], at: usize, text: &[u8]) -> usize {
    match bytes.get_mut(at..).and_then(|rest| rest.get_mut(..text.len())) {
        Some(place) => {
            place.copy_from_slice(text);
            at + text.len()
        }
        None => OVERFLOW,
    }
}

/// Runs a writer on a buffer that grows until the text fits, and returns the text.
pub(super) fn grow(least: usize, write: impl Fn(&mut [u8]) -> usize) -> Vec<u8> {
    let mut bytes = vec![0; least + WIDE];
    loop {
        let length = write(&mut bytes);
        if length <= bytes.len() {
            bytes.truncate(length);
            return bytes;
        }
        let doubled = bytes.len() * 2;
        bytes.resize(doubled, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_passed_on() {
        let mut bytes = [0; 8];
        let at = put(&mut bytes, 0, b"12345678");
        assert_eq!(at, 8);
        let at = put_byte(&mut bytes, at, b'9');
        assert_eq!(at, OVERFLOW);
        assert_eq!(put(&mut bytes, at, b""), OVERFLOW);
        assert_eq!(put_block(&mut bytes, at, b"ab", 2), OVERFLOW);
    }

    #[test]
    fn a_growing_buffer_holds_the_whole_text() {
        let text = vec![b'x'; 1000];
        assert_eq!(grow(1, |bytes| put(bytes, 0, &text)), text);
    }
}
