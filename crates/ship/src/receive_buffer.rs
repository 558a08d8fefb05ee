//! Bytes of a connection that came and were not used, in a buffer that grows to the longest frame.

use crate::limits::READ_BYTES;

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

    /// The bytes from the start of what was consumed last, until space for more is asked for.
    pub(crate) fn consumed_last(&self) -> &[u8] {
        let start = self.last.unwrap_or(self.end);
        self.bytes.get(start..self.end).unwrap_or(&[])
    }
}
