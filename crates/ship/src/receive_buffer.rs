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
    /// Start of the bytes that were consumed last, as long as they lie there.
    last: Option<usize>,
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
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.last = Some(self.start);
        self.start = self.end.min(self.start + bytes);
    }

    /// Returns whether a frame is there, with what fills it up to the alignment.
    ///
    /// # Errors
    /// Fails when the bytes are no frame.
    pub(crate) fn has_frame(&self, alignment: usize) -> Result<bool, FrameError> {
        let found = next_frame(self.unread(), FRAME_BYTES_MAX)?;
        let whole = found.map(|frame| (frame.header.length_bytes as usize).next_multiple_of(alignment));
        Ok(whole.is_some_and(|bytes| bytes <= self.end - self.start))
    }

    /// Uses the frame that [`ReceiveBuffer::has_frame`] has found and checked.
    pub(crate) fn take_frame(&mut self, alignment: usize) -> Option<Frame<'_>> {
        let length = checked_frame(self.unread())?.header.length_bytes as usize;
        self.consume(length.next_multiple_of(alignment));
        self.last_frame()
    }

    /// The frame that was taken last, until space for more is asked for.
    pub(crate) fn last_frame(&self) -> Option<Frame<'_>> {
        checked_frame(self.bytes.get(self.last?..self.end)?)
    }
}

/// The frame at this front, which has been checked before.
fn checked_frame(front: &[u8]) -> Option<Frame<'_>> {
    let (head, rest) = front.split_first_chunk::<HEADER_BYTES>()?;
    let header = Header::decode(head, FRAME_BYTES_MAX).ok()?;
    let payload = rest.get(..header.payload_bytes())?;
    Some(Frame { header, payload })
}
