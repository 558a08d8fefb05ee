//! The header of a record, 16 bytes, and the lengths that a record may have.

use crate::WireError;
use crate::limits::{RECORD_ALIGN, RECORD_BYTES_MAX};

/// Bytes of a record header.
pub const HEADER_BYTES: usize = 16;

/// The header of a record: `u32 length | u32 callsite id | u64 time`.
///
/// ```
/// use logdrive_wire::RecordHeader;
/// let header = RecordHeader { length_bytes: 24, callsite_id: 7, time_ticks: 99 };
/// let bytes = header.encode();
/// assert_eq!(RecordHeader::decode(&bytes).unwrap(), header);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// Whole record in bytes, header included: a multiple of 8.
    pub length_bytes: u32,
    /// Which callsite of the session.
    pub callsite_id: u32,
    /// Ticks of the session's clock.
    pub time_ticks: u64,
}

impl RecordHeader {
    /// The bytes of the header.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.length_bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.callsite_id.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.time_ticks.to_le_bytes());
        bytes
    }

    /// Reads a header and checks its length against the format's limits.
    ///
    /// # Errors
    /// When the bytes are fewer than 16, or the length is too small, too large or not a multiple of 8.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(WireError::Truncated {
                offset: 0,
                needed: HEADER_BYTES,
                left: bytes.len(),
            });
        };
        let header = Self::decode_unchecked(bytes);
        check_length(header.length_bytes)?;
        Ok(header)
    }

    /// Reads a header as it is: its length may be anything, and [`check_length`] is still to be asked.
    #[inline(always)]
    pub fn decode_unchecked(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, time @ ..] = *bytes;
        Self {
            length_bytes: u32::from_le_bytes([a, b, c, d]),
            callsite_id: u32::from_le_bytes([e, f, g, h]),
            time_ticks: u64::from_le_bytes(time),
        }
    }
}

/// Checks the length field of a record.
///
/// # Errors
/// When it is below 16, above [`RECORD_BYTES_MAX`] or not a multiple of 8.
#[inline]
pub fn check_length(length_bytes: u32) -> Result<(), WireError> {
    if !is_length(length_bytes) {
        return Err(WireError::Limit {
            what: "record length",
            found: u64::from(length_bytes),
            limit: RECORD_BYTES_MAX as u64,
        });
    }
    Ok(())
}

/// Returns whether a record can have this length; as [`check_length`], where nothing is to be said about it.
#[inline(always)]
pub const fn is_length(length_bytes: u32) -> bool {
    // What is below the least is beyond the greatest by then, and so is what is no multiple, whose low bits are now high.
    let parts = length_bytes
        .wrapping_sub(HEADER_BYTES as u32)
        .rotate_right(RECORD_ALIGN.trailing_zeros());
    parts <= ((RECORD_BYTES_MAX - HEADER_BYTES) / RECORD_ALIGN) as u32
}

/// Rounds a record's length up to the alignment.
#[inline]
pub const fn align_up(length: usize) -> usize {
    (length + (RECORD_ALIGN - 1)) & !(RECORD_ALIGN - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_outside_the_format_are_refused() {
        for length in [0, 8, 15, 17, 20, RECORD_BYTES_MAX as u32 + 8, u32::MAX] {
            let header = RecordHeader {
                length_bytes: length,
                callsite_id: 0,
                time_ticks: 0,
            };
            assert!(RecordHeader::decode(&header.encode()).is_err(), "{length}");
        }
    }

    #[test]
    fn one_comparison_judges_lengths_as_three_do() {
        let most = 2 * RECORD_BYTES_MAX as u32;
        for length in (0..most).chain(u32::MAX - most..=u32::MAX) {
            let bytes = length as usize;
            let expected =
                (HEADER_BYTES..=RECORD_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(RECORD_ALIGN);
            assert_eq!(is_length(length), expected, "{length}");
        }
    }
}
