//! Compressed batches: the length in four bytes, then a zstd frame.

use crate::hello::Reason;
use crate::limits::DECOMPRESSED_BYTES_MAX;
use std::cell::RefCell;

thread_local! {
    /// Buffer for decompressed batches: of a thread, not of a connection, of which there are many.
    static DECOMPRESSED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Decompresses a payload of at most `bytes_max` into a buffer of this thread, and hands that to `take`.
pub(super) fn with_decompressed<T>(
    payload: &[u8],
    bytes_max: usize,
    take: impl FnOnce(&[u8]) -> Result<T, Reason>,
) -> Result<T, Reason> {
    DECOMPRESSED.with_borrow_mut(|lines| {
        decompress_within(payload, bytes_max, lines)?;
        take(lines)
    })
}

/// The payload of a compressed batch: the length in four bytes, then a zstd frame.
pub(crate) fn decompress(payload: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
    decompress_within(payload, DECOMPRESSED_BYTES_MAX, out)
}

fn decompress_within(payload: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Reason> {
    let (length, frame) = payload.split_first_chunk::<4>().ok_or(Reason::Malformed)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > bytes_max {
        return Err(Reason::TooLarge);
    }
    out.resize(length, 0);
    // Into a slice of the length that was said: a bomb fails when the slice is full.
    match zstd::bulk::decompress_to_buffer(frame, out.as_mut_slice()) {
        Ok(found) if found == length => Ok(()),
        _ => Err(Reason::Malformed),
    }
}

/// Makes the payload of a compressed batch; `None` when it would not be shorter.
pub fn compress(lines: &[u8], level: i32) -> Option<Vec<u8>> {
    let bound = zstd::zstd_safe::compress_bound(lines.len());
    let mut out = vec![0; 4 + bound];
    let (head, body) = out.split_at_mut(4);
    head.copy_from_slice(&u32::try_from(lines.len()).ok()?.to_le_bytes());
    let length = zstd::bulk::compress_to_buffer(lines, body, level).ok()?;
    out.truncate(4 + length);
    (out.len() < lines.len()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_is_refused_before_it_takes_memory() {
        let bomb = compress(&vec![0; 4 << 20], 1).expect("it is shorter");
        let mut out = Vec::new();
        let mut lying = bomb.clone();
        lying[..4].copy_from_slice(&1_000_u32.to_le_bytes());
        assert_eq!(decompress(&lying, &mut out), Err(Reason::Malformed));
        assert!(out.capacity() <= 1_024);
        let mut huge = bomb;
        huge[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decompress(&huge, &mut out), Err(Reason::TooLarge));
    }
}
