//! Bytes of a connection that came and were not used, in a buffer that grows to the longest frame.

use crate::frame::{Frame, FrameError, HEADER_BYTES, Header, next_frame};
use crate::limits::{FRAME_BYTES_MAX, READ_BYTES};

/// Buffer of one connection; nothing is allocated before the first receive.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    /// Unused bytes lie between these two.
    start: usize,
    end: usize,
    /// Header of the frame at the start, once it has come whole and was checked.
    front: Option<Header>,
    /// Frame that was taken last, as long as its bytes lie there: its start and its header.
    last: Option<(usize, Header)>,
}

impl ReceiveBuffer {
    /// Bytes that were not used yet.
    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or(&[])
    }

    /// Returns whether all bytes were used.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Space for further bytes, half a read at least. Callers bound what is unread: a frame has 1 MiB at most.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes.resize(READ_BYTES, 0);
        }
        if self.start > 0 && (self.is_empty() || self.bytes.len() - self.end < READ_BYTES / 2) {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.last = None;
        }
        if self.bytes.len() - self.end < READ_BYTES / 2 {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        self.bytes.get_mut(self.end..).unwrap_or(&mut [])
    }

    /// Takes over so many bytes that were put at the front of [`ReceiveBuffer::space`].
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.end = self.bytes.len().min(self.end + bytes);
    }

    /// Marks so many unread bytes as used.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        (self.front, self.last) = (None, None);
        self.start = self.end.min(self.start + bytes);
    }

    /// Returns whether a frame is there, with what fills it up to the alignment. Each frame is checked once.
    ///
    /// # Errors
    /// Fails when the bytes are no frame.
    #[inline]
    pub(crate) fn has_frame(&mut self, alignment: usize) -> Result<bool, FrameError> {
        if self.front.is_none() {
            let found = next_frame(self.unread(), FRAME_BYTES_MAX)?.map(|frame| frame.header);
            let unread_bytes = self.end - self.start;
            self.front = found.filter(|header| whole_bytes(header, alignment) <= unread_bytes);
        }
        Ok(self.front.is_some())
    }

    /// Uses the frame that [`ReceiveBuffer::has_frame`] has found and checked.
    #[inline]
    pub(crate) fn take_frame(&mut self, alignment: usize) -> Option<Frame<'_>> {
        let (start, header) = (self.start, self.front?);
        self.consume(whole_bytes(&header, alignment));
        self.last = Some((start, header));
        self.last_frame()
    }

    /// The frame that was taken last, until space for more is asked for.
    #[inline]
    pub(crate) fn last_frame(&self) -> Option<Frame<'_>> {
        let (start, header) = self.last?;
        let payload = start + HEADER_BYTES..start + header.length_bytes as usize;
        let payload = self.bytes.get(payload)?;
        Some(Frame { header, payload })
    }
}

/// Bytes of a frame with what fills it up.
#[inline]
fn whole_bytes(header: &Header, alignment: usize) -> usize {
    (header.length_bytes as usize).next_multiple_of(alignment)
}
