//! Frames: the checksummed units on a wire, as `spec/frame.md` draws them. Bytes in, bytes out; no I/O and no clock.

use crate::limits::FRAME_BYTES_MAX;
use std::cell::Cell;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 24;

/// The payload is covered by the checksum, as the header always is.
pub const FLAG_CHECKED: u8 = 1;
/// The sender wants an acknowledgement.
pub const FLAG_ACK: u8 = 2;
/// Of a response: the request could not be answered, and the payload says why.
pub const FLAG_FAILED: u8 = 4;
/// The payload of a batch is compressed with zstd; its first four bytes are the length without compression.
pub const FLAG_ZSTD: u8 = 8;
const FLAGS_ALL: u8 = FLAG_CHECKED | FLAG_ACK | FLAG_FAILED | FLAG_ZSTD;

/// Kind of a frame.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Introduction of an end, with what it accepts: the first frame in each direction.
    Hello = 1,
    /// Messages or records that are sent together.
    Batch = 2,
    /// All before this sequence has arrived, and is kept as the hello promised.
    Ack = 3,
    /// Number of bytes that may be in flight without an ack.
    Credit = 4,
    /// Number of messages or records that the sender has lost.
    Gap = 5,
    /// Wants a response with the same sequence.
    Request = 6,
    /// Answers the request of the same sequence.
    Response = 7,
    /// Nothing more will come, and why.
    Goodbye = 8,
    /// Nobody waits for the response to the request of the same sequence any more; from version 2 on.
    Cancel = 9,
}

impl Kind {
    fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Hello,
            2 => Self::Batch,
            3 => Self::Ack,
            4 => Self::Credit,
            5 => Self::Gap,
            6 => Self::Request,
            7 => Self::Response,
            8 => Self::Goodbye,
            9 => Self::Cancel,
            _ => return None,
        })
    }
}

/// Rule that bytes break which are no frame, or no payload of their kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Fewer bytes than the part needs.
    #[error("{needed} bytes are needed at offset {offset}, and {left} are left")]
    Truncated {
        /// Offset from the start of the header or payload.
        offset: usize,
        /// Bytes that are needed.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A number is outside of its bounds.
    #[error("{field} is {found}; {allowed} is allowed")]
    Limit {
        /// Which number.
        field: &'static str,
        /// Value that was found.
        found: u64,
        /// Largest value that is allowed, or the only one.
        allowed: u64,
    },
    /// A code that this version does not know.
    #[error("{field} has the unknown code {found}")]
    Unknown {
        /// Which code.
        field: &'static str,
        /// Value that was found.
        found: u64,
    },
    /// The bytes are not those that were sent.
    #[error("the checksum is {found:#010x}, and the bytes make {expected:#010x}")]
    Checksum {
        /// Checksum in the header.
        found: u32,
        /// Checksum of the bytes.
        expected: u32,
    },
    /// Frames that the service of a server does not take.
    #[error("{what} are not taken here")]
    Refused {
        /// Kind of frames, in the plural.
        what: &'static str,
    },
    /// A name is not UTF-8.
    #[error("{field} is not UTF-8")]
    NotUtf8 {
        /// Which name.
        field: &'static str,
    },
}

/// A frame's header.
///
/// ```
/// use logdrive_ship::frame::{Header, Kind, next_frame};
/// let mut bytes = Vec::new();
/// Header::new(Kind::Request, 7).put(&[b"ping"], true, &mut bytes);
/// let frame = next_frame(&bytes, 1024).unwrap().unwrap();
/// assert_eq!((frame.header.sequence, frame.payload), (7, &b"ping"[..]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole frame, header included.
    pub length_bytes: u32,
    /// Kind of the frame.
    pub kind: Kind,
    /// `FLAG_...`.
    pub flags: u8,
    /// Which stream of the connection it belongs to.
    pub stream: u16,
    /// The number of the batch's first message or record; of the request; of what comes next, in an ack.
    pub sequence: u64,
    /// Messages or records of a batch, else 0.
    pub count: u32,
}

impl Header {
    /// A header without a payload, of stream 0.
    pub fn new(kind: Kind, sequence: u64) -> Self {
        Self {
            length_bytes: HEADER_BYTES as u32,
            kind,
            flags: 0,
            stream: 0,
            sequence,
            count: 0,
        }
    }

    /// The bytes of a header whose payload has these parts. Sets the length, and the flag for the checksum.
    ///
    /// The payload must leave the frame within the format's bounds; senders check that before.
    #[inline]
    pub fn seal(mut self, payload: &[&[u8]], checked: bool) -> [u8; HEADER_BYTES] {
        let length: usize = payload.iter().map(|part| part.len()).sum();
        debug_assert!(
            length <= FRAME_BYTES_MAX - HEADER_BYTES,
            "the caller bounds its payload"
        );
        self.length_bytes = (HEADER_BYTES + length) as u32;
        self.flags = if checked && length > 0 {
            self.flags | FLAG_CHECKED
        } else {
            self.flags & !FLAG_CHECKED
        };
        let covered = if self.flags & FLAG_CHECKED != 0 {
            payload
        } else {
            &[]
        };
        self.encode(covered)
    }

    /// As [`Header::seal`], for so many bytes of payload that are not covered.
    pub fn seal_unchecked(mut self, payload_bytes: usize) -> [u8; HEADER_BYTES] {
        debug_assert!(
            payload_bytes <= FRAME_BYTES_MAX - HEADER_BYTES,
            "the caller bounds its payload"
        );
        self.length_bytes = (HEADER_BYTES + payload_bytes) as u32;
        self.flags &= !FLAG_CHECKED;
        self.encode(&[])
    }

    /// The bytes of the header, with a checksum that covers it and these parts.
    #[inline]
    fn encode(&self, covered: &[&[u8]]) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.length_bytes.to_le_bytes());
        bytes[4] = self.kind as u8;
        bytes[5] = self.flags;
        bytes[6..8].copy_from_slice(&self.stream.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        let head = crc32c::crc32c(&bytes[..20]);
        let append = |crc, part: &&[u8]| crc32c::crc32c_append(crc, part);
        let crc = covered.iter().fold(head, append);
        bytes[20..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Appends a whole frame.
    #[inline]
    pub fn put(self, payload: &[&[u8]], checked: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.seal(payload, checked));
        for part in payload {
            out.extend_from_slice(part);
        }
    }

    /// Reads a header and judges its length, before the payload is there.
    ///
    /// # Errors
    /// Fails when it is no header, or the frame is longer than `bytes_max`.
    #[inline]
    pub fn decode(bytes: &[u8; HEADER_BYTES], bytes_max: usize) -> Result<Self, FrameError> {
        let length_bytes = u32::from_le_bytes(array_at(bytes, 0));
        if (length_bytes as usize) < HEADER_BYTES || length_bytes as usize > bytes_max {
            return Err(FrameError::Limit {
                field: "length",
                found: length_bytes.into(),
                allowed: bytes_max as u64,
            });
        }
        let [kind, flags] = array_at(bytes, 4);
        let unknown = |field, found: u8| FrameError::Unknown {
            field,
            found: found.into(),
        };
        let kind = Kind::from_code(kind).ok_or_else(|| unknown("kind", kind))?;
        if flags & !FLAGS_ALL != 0 {
            return Err(unknown("flags", flags));
        }
        Ok(Self {
            length_bytes,
            kind,
            flags,
            stream: u16::from_le_bytes(array_at(bytes, 6)),
            sequence: u64::from_le_bytes(array_at(bytes, 8)),
            count: u32::from_le_bytes(array_at(bytes, 16)),
        })
    }

    /// Compares the checksum with the header's bytes and, where the flag says so, the payload.
    ///
    /// # Errors
    /// Fails when they differ.
    #[inline]
    pub fn verify(&self, bytes: &[u8; HEADER_BYTES], payload: &[u8]) -> Result<(), FrameError> {
        let (covered, rest) = bytes.split_at(20);
        let mut crc = crc32c::crc32c(covered);
        if self.flags & FLAG_CHECKED != 0 {
            crc = crc32c::crc32c_append(crc, payload);
        }
        let found = u32::from_le_bytes(rest.try_into().unwrap_or_default());
        if found == crc {
            Ok(())
        } else {
            Err(FrameError::Checksum { found, expected: crc })
        }
    }

    /// Bytes behind the header.
    pub fn payload_bytes(&self) -> usize {
        (self.length_bytes as usize).saturating_sub(HEADER_BYTES)
    }
}

/// Bytes of a header from a constant offset on, within it.
#[inline(always)]
fn array_at<const N: usize>(header: &[u8; HEADER_BYTES], offset: usize) -> [u8; N] {
    std::array::from_fn(|index| header[offset + index])
}

/// CRC32C of bytes, as frames use it.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// A frame in bytes that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Header of the frame.
    pub header: Header,
    /// Payload behind the header.
    pub payload: &'a [u8],
}

/// The frame at the front of the bytes; `None` when it has not come whole. It is checked.
///
/// # Errors
/// Fails when there is no frame: the bytes behind it cannot be separated into frames.
#[inline]
pub fn next_frame(bytes: &[u8], bytes_max: usize) -> Result<Option<Frame<'_>>, FrameError> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let header = Header::decode(head, bytes_max)?;
    let Some(payload) = rest.get(..header.payload_bytes()) else {
        return Ok(None);
    };
    header.verify(head, payload)?;
    Ok(Some(Frame { header, payload }))
}

/// The messages of a batch: each a u32 length and its bytes.
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    rest: &'a [u8],
    left: u32,
    /// Where to note the remainder, if the payload has not come whole.
    remainder: Option<&'a Cell<PartialEnd>>,
}

/// Bytes and messages of a payload behind the last message that has come whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartialEnd {
    pub(crate) bytes: usize,
    pub(crate) messages: u32,
}

impl<'a> Messages<'a> {
    /// The messages of a payload, of which the header says how many.
    pub fn new(payload: &'a [u8], count: u32) -> Self {
        Self {
            rest: payload,
            left: count,
            remainder: None,
        }
    }

    /// Those that have come whole of a payload whose end has not; notes the remainder behind the last. One walk finds
    /// the end and hands the messages over: a second one would cost bulk transfers a tenth of their throughput.
    pub(crate) fn partial(front: &'a [u8], count: u32, remainder: &'a Cell<PartialEnd>) -> Self {
        Self {
            rest: front,
            left: count,
            remainder: Some(remainder),
        }
    }

    /// The next one; `None` behind the last that has come.
    ///
    /// # Errors
    /// Fails when the bytes of the batch end before, or go on behind the last.
    #[inline]
    pub fn next_message(&mut self) -> Result<Option<&'a [u8]>, FrameError> {
        if self.left == 0 {
            return match self.rest.len() {
                0 => Ok(None),
                left => Err(FrameError::Limit {
                    field: "bytes behind the last message",
                    found: left as u64,
                    allowed: 0,
                }),
            };
        }
        let Some((length, rest)) = self.rest.split_first_chunk::<4>() else {
            return self.truncated(4);
        };
        let length = u32::from_le_bytes(*length) as usize;
        let Some((message, rest)) = rest.split_at_checked(length) else {
            return self.truncated(length);
        };
        self.rest = rest;
        self.left -= 1;
        Ok(Some(message))
    }

    #[cold]
    fn truncated(&self, needed: usize) -> Result<Option<&'a [u8]>, FrameError> {
        if let Some(remainder) = self.remainder {
            remainder.set(PartialEnd {
                bytes: self.rest.len(),
                messages: self.left,
            });
            return Ok(None);
        }
        Err(FrameError::Truncated {
            offset: 0,
            needed,
            left: self.rest.len(),
        })
    }

    /// Messages of the batch that are left, those among them that have not come yet.
    pub fn left(&self) -> u32 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found_again_and_no_changed_byte_passes() {
        let mut bytes = Vec::new();
        let mut header = Header::new(Kind::Batch, u64::MAX);
        header.stream = 3;
        header.count = 2;
        header.put(&[b"one", b"two"], true, &mut bytes);
        let frame = next_frame(&bytes, FRAME_BYTES_MAX)
            .expect("sound")
            .expect("whole");
        assert_eq!((frame.header.stream, frame.header.count), (3, 2));
        assert_eq!(frame.payload, b"onetwo");
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                let found = next_frame(&bad, FRAME_BYTES_MAX);
                assert!(!matches!(found, Ok(Some(_))), "bit {bit} of byte {at}");
            }
            assert_eq!(next_frame(&bytes[..at], FRAME_BYTES_MAX), Ok(None));
        }
    }

    #[test]
    fn messages_end_where_the_header_says() {
        let payload = [1, 0, 0, 0, b'a', 0, 0, 0, 0];
        let mut messages = Messages::new(&payload, 2);
        assert_eq!(messages.next_message(), Ok(Some(&b"a"[..])));
        assert_eq!(messages.next_message(), Ok(Some(&b""[..])));
        assert_eq!(messages.next_message(), Ok(None));
        assert!(Messages::new(&payload, 0).next_message().is_err());
        let remainder = Cell::new(PartialEnd {
            bytes: 0,
            messages: 0,
        });
        let mut partial = Messages::partial(&payload[..7], 2, &remainder);
        assert_eq!(partial.next_message(), Ok(Some(&b"a"[..])));
        assert_eq!(partial.next_message(), Ok(None));
        assert_eq!(
            remainder.get(),
            PartialEnd {
                bytes: 2,
                messages: 1
            }
        );
        let mut short = Messages::new(&payload[..4], 1);
        assert_eq!(
            short.next_message(),
            Err(FrameError::Truncated {
                offset: 0,
                needed: 1,
                left: 4
            })
        );
    }
}
