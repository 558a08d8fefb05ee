//! Columns of integers: constant, packed, deltas packed, or byte planes that are compressed; the smallest is taken.
//!
//! Packed values stand in chunks of 128, each with its own reference and width, so that one large value costs its chunk
//! alone.

use crate::bytes::{Compressor, Input, decompress, put_varint};
use crate::error::StoreError;
use crate::limits::{CHUNK_VALUES, SAMPLE_VALUES, WELL_BYTES_MIN};

/// One value for all.
const CONSTANT: u8 = 0;
/// Differences to the chunk's least value, in as many bits as the largest needs.
const PACKED: u8 = 1;
/// The first value, and the same of the differences between neighbours.
const DELTA: u8 = 2;
/// All lowest bytes, then all next ones, and so on, compressed.
const PLANES: u8 = 3;

/// Maps signed values to unsigned ones in the same order.
pub(crate) fn ordered(value: i64) -> u64 {
    value.cast_unsigned() ^ 1 << 63
}

/// Maps them back.
pub(crate) fn unordered(value: u64) -> i64 {
    (value ^ 1 << 63).cast_signed()
}

fn bits(value: u64) -> u32 {
    64 - value.leading_zeros()
}

fn varint_bytes(value: u64) -> usize {
    bits(value | 1).div_ceil(7) as usize
}

fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Difference to the value before it, in the order of signed numbers.
fn delta(value: u64, before: u64) -> u64 {
    ordered(value.wrapping_sub(before).cast_signed())
}

/// Least and largest of a column, for the zone map.
pub(crate) fn range(values: &[u64]) -> (u64, u64) {
    let mut least = u64::MAX;
    let mut largest = 0;
    for value in values {
        least = least.min(*value);
        largest = largest.max(*value);
    }
    (least.min(largest), largest)
}

/// Least and largest value of each chunk.
fn chunk_ranges(values: &[u64]) -> Vec<(u64, u64)> {
    values.chunks(CHUNK_VALUES).map(range).collect()
}

/// Least and largest of all chunks.
fn range_of(chunks: &[(u64, u64)]) -> (u64, u64) {
    let join = |one: (u64, u64), other: &(u64, u64)| (one.0.min(other.0), one.1.max(other.1));
    let (least, largest) = chunks.iter().fold((u64::MAX, 0), join);
    (least.min(largest), largest)
}

/// Bytes of so many values that are packed.
fn size_packed(chunks: &[(u64, u64)], count: usize, base: u64) -> usize {
    let mut left = count;
    let mut bytes = 0;
    for (least, largest) in chunks {
        let length = left.min(CHUNK_VALUES);
        left -= length;
        bytes += 1 + varint_bytes(least - base) + packed_bytes(length, bits(largest - least));
    }
    bytes
}

/// Writes a column. Its count of values is not in it.
pub(crate) fn encode(values: &[u64], compressor: &mut Compressor, scratch: &mut Vec<u64>, out: &mut Vec<u8>) {
    let Some(first) = values.first().copied() else {
        return;
    };
    if values.iter().all(|value| *value == first) {
        out.push(CONSTANT);
        put_varint(out, first);
        return;
    }
    let chunks = chunk_ranges(values);
    let (least, largest) = range_of(&chunks);
    scratch.clear();
    scratch.extend(values.windows(2).map(|pair| delta(pair[1], pair[0])));
    let delta_chunks = chunk_ranges(scratch);
    let delta_base = range_of(&delta_chunks).0;
    let size = size_packed(&chunks, values.len(), least);
    let delta_size = size_packed(&delta_chunks, scratch.len(), delta_base);
    let planes = usize::try_from(bits(largest - least).div_ceil(8)).unwrap_or(8);
    if size.min(delta_size) > values.len() && values.len() >= SAMPLE_VALUES / 4 {
        let sample = &values[..values.len().min(SAMPLE_VALUES)];
        let sampled = compressor
            .compress(&split_planes(sample, least, planes))
            .map(<[u8]>::len);
        let estimate = sampled.map(|bytes| bytes * values.len() / sample.len());
        if estimate.is_some_and(|bytes| bytes < size.min(delta_size) / 4 * 3) {
            out.extend([PLANES, planes as u8]);
            put_varint(out, least);
            compressor.put(out, &split_planes(values, least, planes));
            return;
        }
    }
    out.reserve(size.min(delta_size) + 16);
    if delta_size < size {
        out.push(DELTA);
        put_varint(out, first);
        pack_all(scratch, delta_base, &delta_chunks, out);
    } else {
        out.push(PACKED);
        pack_all(values, least, &chunks, out);
    }
}

/// Differences that are multiples of a number, packed or compressed.
const STEPS: u8 = 5;

/// Writes a column that every block has: every encoding is tried.
pub(crate) fn encode_well(
    values: &[u64],
    compressor: &mut Compressor,
    scratch: &mut Vec<u64>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    encode(values, compressor, scratch, out);
    let (least, largest) = range(values);
    if out.len() - start < WELL_BYTES_MIN || values.len() < 2 {
        return;
    }
    let mut other = Vec::new();
    // A number of few values whose order repeats, such as that of the group.
    if bits(largest - least) <= 16 {
        let planes = usize::try_from(bits(largest - least).div_ceil(8)).unwrap_or(8);
        other.extend([PLANES, planes as u8]);
        put_varint(&mut other, least);
        compressor.put(&mut other, &split_planes(values, least, planes));
        take_smaller(out, start, &mut other);
    }
    scratch.clear();
    scratch.extend(values.windows(2).map(|pair| delta(pair[1], pair[0])));
    let (base, largest) = range(scratch);
    let step = scratch.iter().try_fold(0, |step, value| match value - base {
        difference if step > 0 && difference % step == 0 => Some(step),
        difference => Some(gcd(step, difference)).filter(|step| *step != 1),
    });
    let step = step.unwrap_or(1).max(1);
    scratch.iter_mut().for_each(|value| *value -= base);
    if step > 1 {
        scratch.iter_mut().for_each(|value| *value /= step);
    }
    let width = bits((largest - base) / step);
    if width > 16 {
        return;
    }
    let planes = usize::try_from(width.div_ceil(8)).unwrap_or(8);
    other.extend([STEPS, planes as u8]);
    for number in [values.first().copied().unwrap_or(0), base, step] {
        put_varint(&mut other, number);
    }
    compressor.put(&mut other, &split_planes(scratch, 0, planes));
    take_smaller(out, start, &mut other);
}

fn take_smaller(out: &mut Vec<u8>, start: usize, other: &mut Vec<u8>) {
    if other.len() < out.len() - start {
        out.truncate(start);
        out.extend_from_slice(other);
    }
    other.clear();
}

fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

fn pack_all(values: &[u64], base: u64, chunks: &[(u64, u64)], out: &mut Vec<u8>) {
    put_varint(out, base);
    for (chunk, (least, largest)) in values.chunks(CHUNK_VALUES).zip(chunks) {
        let width = bits(largest - least);
        put_varint(out, least - base);
        out.push(width as u8);
        pack(chunk, *least, width, out);
    }
}

/// Appends the low `width` bits of each difference, the first value in the lowest bits.
fn pack(values: &[u64], least: u64, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut waiting, mut filled) = (0u128, 0);
    for value in values {
        waiting |= u128::from(value - least) << filled;
        filled += width;
        if filled >= 64 {
            out.extend_from_slice(&(waiting as u64).to_le_bytes());
            waiting >>= 64;
            filled -= 64;
        }
    }
    let rest = filled.div_ceil(8) as usize;
    out.extend_from_slice(&waiting.to_le_bytes()[..rest]);
}

fn unpack(bytes: &[u8], width: u32, count: usize, least: u64, out: &mut Vec<u64>) {
    let mut padded = [0u8; CHUNK_VALUES * 8 + 16];
    padded[..bytes.len()].copy_from_slice(bytes);
    let mask = u64::MAX.checked_shr(64 - width).unwrap_or(0);
    for number in 0..count {
        let bit = number * width as usize;
        let mut word = [0u8; 16];
        word.copy_from_slice(&padded[bit / 8..bit / 8 + 16]);
        let value = (u128::from_le_bytes(word) >> (bit % 8)) as u64 & mask;
        out.push(value.wrapping_add(least));
    }
}

fn split_planes(values: &[u64], least: u64, planes: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * planes);
    for plane in 0..planes {
        bytes.extend(values.iter().map(|value| ((value - least) >> (8 * plane)) as u8));
    }
    bytes
}

fn join_planes(input: &mut Input<'_>, count: usize, planes: usize) -> Result<Vec<u64>, StoreError> {
    let bytes = decompress(input, count * planes.min(8))?;
    if planes > 8 || bytes.len() != count * planes {
        return Err(StoreError::Contradiction { what: "column" });
    }
    let mut values = vec![0u64; count];
    for (plane, bytes) in bytes.chunks_exact(count.max(1)).enumerate() {
        for (value, byte) in values.iter_mut().zip(bytes) {
            *value |= u64::from(*byte) << (8 * plane);
        }
    }
    Ok(values)
}

/// Reads a column of so many values.
pub(crate) fn decode(input: &mut Input<'_>, count: usize) -> Result<Vec<u64>, StoreError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    match input.u8()? {
        CONSTANT => Ok(vec![input.varint()?; count]),
        PACKED => unpack_all(input, count),
        DELTA => {
            let mut value = input.varint()?;
            let mut values = Vec::with_capacity(count);
            values.push(value);
            for delta in unpack_all(input, count - 1)? {
                value = value.wrapping_add(unordered(delta).cast_unsigned());
                values.push(value);
            }
            Ok(values)
        }
        PLANES => {
            let planes = usize::from(input.u8()?);
            let least = input.varint()?;
            let mut values = join_planes(input, count, planes)?;
            values
                .iter_mut()
                .for_each(|value| *value = value.wrapping_add(least));
            Ok(values)
        }
        STEPS => {
            let planes = usize::from(input.u8()?);
            let (mut value, base, step) = (input.varint()?, input.varint()?, input.varint()?);
            let mut values = Vec::with_capacity(count);
            values.push(value);
            for number in join_planes(input, count - 1, planes)? {
                let delta = base.wrapping_add(number.wrapping_mul(step));
                value = value.wrapping_add(unordered(delta).cast_unsigned());
                values.push(value);
            }
            Ok(values)
        }
        found => Err(StoreError::Unknown {
            what: "encoding of integers",
            found: u64::from(found),
        }),
    }
}

fn unpack_all(input: &mut Input<'_>, count: usize) -> Result<Vec<u64>, StoreError> {
    let base = input.varint()?;
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let length = (count - values.len()).min(CHUNK_VALUES);
        let least = base.wrapping_add(input.varint()?);
        let width = u32::from(input.u8()?);
        if width > 64 {
            return Err(StoreError::Limit {
                what: "width",
                found: u64::from(width),
                limit: 64,
            });
        }
        let bytes = input.take(packed_bytes(length, width))?;
        unpack(bytes, width, length, least, &mut values);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(values: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(values, &mut Compressor::default(), &mut Vec::new(), &mut out);
        let mut input = Input::new(&out, "column");
        assert_eq!(decode(&mut input, values.len()).expect("a column"), values);
        assert!(input.is_empty());
        out
    }

    #[test]
    fn columns_of_every_encoding_read_back() {
        assert_eq!(round(&[7; 1000]).len(), 2);
        assert!(round(&(0..1000).map(|n| n * 1000).collect::<Vec<_>>()).len() < 40);
        assert!(round(&(0..1000).map(|n| n * 37 % 16).collect::<Vec<_>>()).len() < 530);
        let repeated: Vec<u64> = (0..4096u64)
            .map(|n| (n % 64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .collect();
        assert!(round(&repeated).len() < 4096);
        round(&[]);
        round(&[u64::MAX, 0, u64::MAX, 1, 1 << 63, (1 << 63) - 1]);
        for width in 1..=64u32 {
            let most = u64::MAX >> (64 - width);
            round(
                &(0..300u64)
                    .map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) & most)
                    .collect::<Vec<_>>(),
            );
        }
    }

    #[test]
    fn columns_that_every_block_has_are_written_in_the_smallest_way() {
        let order: Vec<u64> = (0..60_000u64)
            .map(|n| [3, 17, 4, 9, 40, 2, 3][n as usize % 7])
            .collect();
        let ms: Vec<u64> = (0..60_000u64)
            .map(|n| 1_700_000_000_000_000_000 + n / 7 * 1_000_000)
            .collect();
        let jitter: Vec<u64> = (0..60_000u64)
            .map(|n| n * 1_000 + n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 977)
            .collect();
        for (values, most) in [
            (order, 200),
            (ms, 300),
            (jitter, 100_000),
            (vec![5, 1], 20),
            (vec![], 0),
        ] {
            let mut out = Vec::new();
            encode_well(&values, &mut Compressor::default(), &mut Vec::new(), &mut out);
            assert!(out.len() <= most, "{} bytes", out.len());
            let mut input = Input::new(&out, "column");
            assert_eq!(decode(&mut input, values.len()).expect("a column"), values);
            for length in 0..out.len().min(100) {
                assert!(decode(&mut Input::new(&out[..length], "column"), values.len()).is_err());
            }
        }
    }

    #[test]
    fn every_cut_of_a_column_is_an_error() {
        let values: Vec<u64> = (0..300u64).map(|n| n * n).collect();
        let bytes = round(&values);
        for length in 0..bytes.len() {
            assert!(
                decode(&mut Input::new(&bytes[..length], "column"), 300).is_err(),
                "{length}"
            );
        }
    }
}
