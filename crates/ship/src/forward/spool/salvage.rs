//! Sound batches behind a damaged one: a flipped bit costs the batch that has it, and no other.

use super::{BATCH_BYTES_MAX, HEAD_BYTES, Segment};
use crate::limits::{BATCH_RECORDS_MAX, SPOOL_SALVAGE_BYTES, SPOOL_SEGMENT_BYTES};
use std::io;
use std::os::unix::fs::FileExt;

/// Rest of a segment, from the first byte that is not sound to its end.
#[derive(Debug)]
pub(super) struct DamagedRest {
    bytes: Vec<u8>,
    /// Number of the record that should come next.
    expected: u64,
}

/// Head of a batch, as it is on disk.
#[derive(Debug, Clone, Copy)]
struct Head {
    length: usize,
    crc: u32,
    first: u64,
    count: u32,
    flags: u32,
}

impl DamagedRest {
    /// Reads a segment of this length from a place on, behind which the record of the number `expected` should come next.
    pub(super) fn read(segment: &Segment, from: u64, length: u64, expected: u64) -> io::Result<Self> {
        let left = length.saturating_sub(from);
        // One batch may be longer than a segment.
        let left = left.min(SPOOL_SEGMENT_BYTES + BATCH_BYTES_MAX as u64);
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(0)];
        segment.file()?.read_exact_at(&mut bytes, from)?;
        Ok(Self { bytes, expected })
    }

    /// Finds the next sound batch: the number of its first record, its place, and the bytes from it on.
    pub(super) fn next_sound(&self) -> Option<(u64, usize, &[u8])> {
        let mut budget = SPOOL_SALVAGE_BYTES;
        for at in 1..self.bytes.len() {
            let Some((head, batch)) = self.plausible(at) else {
                continue;
            };
            budget = budget.checked_sub(batch.len())?;
            if crc32c::crc32c(batch) == head.crc {
                return Some((head.first, at, self.bytes.get(at..)?));
            }
        }
        None
    }

    /// Number of records that the damaged batch has, where its own head still says so.
    pub(super) fn damaged_count(&self) -> u64 {
        self.plausible(0).map_or(0, |(head, _)| u64::from(head.count))
    }

    /// The head of a batch at this place with the bytes that its checksum covers, if there may be one.
    fn plausible(&self, at: usize) -> Option<(Head, &[u8])> {
        let rest = self.bytes.get(at..)?;
        let number = |from: usize| Some(u32::from_le_bytes(*rest.get(from..)?.first_chunk()?));
        let head = Head {
            length: number(0)? as usize,
            crc: number(4)?,
            first: u64::from(number(8)?) | u64::from(number(12)?) << 32,
            count: number(16)?,
            flags: number(20)?,
        };
        let is_one = head.flags <= 1
            && (1..=BATCH_RECORDS_MAX).contains(&head.count)
            && head.length <= BATCH_BYTES_MAX
            && head.first >= self.expected;
        let batch = rest.get(8..(HEAD_BYTES + head.length))?;
        is_one.then_some((head, batch))
    }
}
