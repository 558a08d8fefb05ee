//! The buffer that lines are written to.

use crate::segment::RowRun;

/// A fixed buffer with a length, to which a [`Layout`](super::Layout) appends whole lines. It never grows.
///
/// Bytes behind the length are scratch: layouts copy in wide blocks and overwrite them.
///
/// ```
/// use logdrive_drain::layout::LineBuffer;
/// let mut bytes = *b"a line\n....";
/// let out = LineBuffer::resume(&mut bytes, 7);
/// assert_eq!((out.as_bytes(), out.capacity()), (&b"a line\n"[..], 11));
/// ```
#[derive(Debug)]
pub struct LineBuffer<'a> {
    pub(super) bytes: &'a mut [u8],
    /// Bytes that are written; never more than there are.
    pub(super) length: usize,
    /// Bytes before this buffer that belong to it: rows of segments name what stands there.
    pub(super) before: usize,
}

impl<'a> LineBuffer<'a> {
    /// Makes a buffer that is empty.
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
            before: 0,
        }
    }

    /// Says that so many bytes were written before, which a [segment](super::Style::Segments) has to know.
    #[inline]
    #[must_use]
    pub fn behind(mut self, before: usize) -> Self {
        self.before = before;
        self
    }

    /// Appends a row; returns `false` where it does not fit.
    #[inline(always)]
    pub(crate) fn put_row(&mut self, rows: RowRun, unix_ns: u64, payload: &[u8]) -> bool {
        match rows.put((unix_ns, payload), self.bytes, self.length) {
            Some(end) => {
                self.length = end;
                true
            }
            None => false,
        }
    }

    /// Number of bytes written.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns true if no byte is written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Number of bytes of the whole buffer.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes that are written.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
