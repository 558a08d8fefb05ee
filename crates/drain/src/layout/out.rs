//! The buffer that lines are written to.

use super::pen::{OVERFLOW, put};

/// A fixed buffer with a length. It never grows: what does not fit sets a mark that stays until a rollback.
///
/// Bytes behind the length are scratch: layouts copy in wide blocks and overwrite them.
///
/// ```
/// use logdrive_drain::layout::Out;
/// let mut bytes = [0; 8];
/// let mut out = Out::new(&mut bytes);
/// out.push(b"12345");
/// let mark = out.mark();
/// out.push(b"6789");
/// assert!(out.overflowed());
/// out.rollback(mark);
/// assert_eq!((out.as_bytes(), out.overflowed()), (&b"12345"[..], false));
/// ```
#[derive(Debug)]
pub struct Out<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) length: usize,
    pub(super) overflow: bool,
}

/// A place in an [`Out`] to go back to; see there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(usize);

impl<'a> Out<'a> {
    /// An empty buffer.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self::resume(bytes, 0)
    }

    /// A buffer whose first `length` bytes are written already; a length past the end means full.
    #[inline]
    pub fn resume(bytes: &'a mut [u8], length: usize) -> Self {
        let length = length.min(bytes.len());
        Self {
            bytes,
            length,
            overflow: false,
        }
    }

    /// Bytes written.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing was written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes of the whole buffer.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// What was written.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Whether something did not fit since the last rollback.
    #[inline]
    pub fn overflowed(&self) -> bool {
        self.overflow
    }

    /// All of the buffer, and how much of it is written, for loops that write many lines; nothing fits after an overflow.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut [u8], usize) {
        let at = if self.overflow { OVERFLOW } else { self.length };
        (self.bytes, at)
    }

    /// Says how much is written, after [`parts`](Self::parts).
    #[inline]
    pub(crate) fn set_length(&mut self, length: usize) {
        if length <= self.bytes.len() {
            self.length = length;
        }
    }

    /// The place that [`rollback`](Self::rollback) goes back to.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark(self.length)
    }

    /// Takes back what was written since the mark, and the overflow.
    #[inline]
    pub fn rollback(&mut self, mark: Mark) {
        self.length = self.length.min(mark.0);
        self.overflow = false;
    }

    /// Appends bytes, all or none; after an overflow nothing is written any more.
    #[inline]
    pub fn push(&mut self, text: &[u8]) {
        let end = put(self.bytes, self.length, text);
        if self.overflow || end > self.bytes.len() {
            self.overflow = true;
        } else {
            self.length = end;
        }
    }
}
