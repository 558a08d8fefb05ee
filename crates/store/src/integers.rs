//! Columns of integers: constant, packed, deltas packed, or byte planes that are compressed; the smallest is taken.
//!
//! Packed values stand in chunks of 128, each with its own reference and width, so that one large value costs its chunk
//! alone.

use crate::bytes::{Compressor, Input, decompress, put_varint};
use crate::error::{StoreError, limit};
use crate::limits::{
    CHUNK_VALUES, COMMON_VALUES, ENTROPY_GAIN, ENTROPY_VALUES, PLANE_BYTES, SAMPLE_VALUES, SAMPLED_CHUNKS,
    WELL_BYTES_MIN,
};

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

/// One value for most, with the others behind a mask.
const COMMON: u8 = 9;
/// As [`PLANES`], each plane compressed on its own.
const OWN_PLANES: u8 = 10;

/// Least and largest difference to the value before, in the order of signed numbers.
fn range_of_differences(values: &[u64]) -> (u64, u64) {
    let differences = values.windows(2).map(|pair| delta(pair[1], pair[0]));
    let (least, largest) = differences.fold((u64::MAX, 0), |range: (u64, u64), difference| {
        (range.0.min(difference), range.1.max(difference))
    });
    (least.min(largest), largest)
}

/// Writes a column. Its count of values is not in it.
pub(crate) fn encode(values: &[u64], compressor: &mut Compressor, out: &mut Vec<u8>) {
    let Some(first) = values.first().copied() else {
        return;
    };
    if values.iter().all(|value| *value == first) {
        out.push(CONSTANT);
        put_varint(out, first);
        return;
    }
    let sizes = Sizes::of(values);
    if sizes.best() * 4 > values.len()
        && let Some(common) = common_value(values)
        && sizes.put_common(values, common, compressor, out)
    {
        return;
    }
    sizes.put(values, compressor, out);
}

/// The same without [`COMMON`].
fn encode_flat(values: &[u64], compressor: &mut Compressor, out: &mut Vec<u8>) {
    match values.first() {
        Some(first) if values.iter().all(|value| value == first) => {
            out.push(CONSTANT);
            put_varint(out, *first);
        }
        Some(_) => Sizes::of(values).put(values, compressor, out),
        None => {}
    }
}

/// Bytes that a column takes packed, and that its differences take, by a sample of its chunks.
struct Sizes {
    /// Least of the sample.
    least: u64,
    packed: usize,
    delta_base: u64,
    deltas: usize,
}

impl Sizes {
    fn of(values: &[u64]) -> Self {
        let stride = (values.len() / CHUNK_VALUES / SAMPLED_CHUNKS).max(1);
        let chunk = |number: usize| {
            // With the first value of the next chunk, for the last difference of this one.
            let rest = values.get(number * CHUNK_VALUES..).unwrap_or(&[]);
            rest.get(..CHUNK_VALUES + 1).unwrap_or(rest)
        };
        let numbers = || (0..values.len().div_ceil(CHUNK_VALUES)).step_by(stride);
        let mut ranges = [[((0, 0), 0); 2 * SAMPLED_CHUNKS]; 2];
        let (mut count, mut sampled) = (0, 0);
        for (number, of_chunk) in numbers().zip(0..2 * SAMPLED_CHUNKS) {
            let chunk = chunk(number);
            let own = chunk.get(..CHUNK_VALUES).unwrap_or(chunk);
            ranges[0][of_chunk] = (range(own), own.len());
            ranges[1][of_chunk] = (range_of_differences(chunk), chunk.len() - 1);
            sampled += own.len();
            count += 1;
        }
        let least = |of: &[((u64, u64), usize)]| of.iter().map(|of| of.0.0).min().unwrap_or(0);
        let size = |of: &[((u64, u64), usize)], base: u64| {
            let bytes = of.iter().map(|((least, largest), length)| {
                1 + varint_bytes(least - base) + packed_bytes(*length, bits(largest - least))
            });
            (bytes.sum::<usize>() * values.len()).div_ceil(sampled.max(1))
        };
        let [own, of_deltas] = ranges.each_ref().map(|of| of.get(..count).unwrap_or(of));
        let (own_least, delta_base) = (least(own), least(of_deltas));
        Self {
            least: own_least,
            packed: size(own, own_least),
            delta_base,
            deltas: size(of_deltas, delta_base),
        }
    }

    fn best(&self) -> usize {
        self.packed.min(self.deltas)
    }

    /// Writes the smallest of the encodings without others in them.
    fn put(&self, values: &[u64], compressor: &mut Compressor, out: &mut Vec<u8>) {
        if self.may_have_planes(values) && self.put_planes(values, compressor, out) {
            return;
        }
        out.reserve(self.best() + 16);
        if self.deltas < self.packed {
            out.push(DELTA);
            put_varint(out, values.first().copied().unwrap_or(0));
            pack_differences(values, self.delta_base, out);
        } else {
            out.push(PACKED);
            pack_all(values, self.least, out);
        }
    }

    /// Returns true where planes may be smaller, which takes a look at the values.
    fn may_have_planes(&self, values: &[u64]) -> bool {
        values.len() >= SAMPLE_VALUES / 4 && self.best() * 2 >= values.len()
    }

    /// Writes planes, where that is smaller.
    fn put_planes(&self, values: &[u64], compressor: &mut Compressor, out: &mut Vec<u8>) -> bool {
        let (least, largest) = range(values);
        let planes = bits(largest - least).div_ceil(8) as usize;
        if !self.has_small_planes(values, least, planes, compressor) {
            return false;
        }
        let start = out.len();
        let bytes = split_planes(values, least, planes);
        let is_own = planes > 1 && values.len() >= SAMPLE_VALUES;
        out.extend([if is_own { OWN_PLANES } else { PLANES }, planes as u8]);
        put_varint(out, least);
        match is_own {
            true => bytes
                .chunks(values.len())
                .for_each(|plane| compressor.put(out, plane)),
            false => compressor.put(out, &bytes),
        }
        let is_smaller = out.len() - start < self.best();
        if !is_smaller {
            out.truncate(start);
        }
        is_smaller
    }

    /// Returns true where planes that are compressed are likely smaller.
    fn has_small_planes(
        &self,
        values: &[u64],
        least: u64,
        planes: usize,
        compressor: &mut Compressor,
    ) -> bool {
        let best = self.best();
        if best > values.len() {
            let sample = &values[..values.len().min(SAMPLE_VALUES)];
            let sampled = compressor
                .compress(&split_planes(sample, least, planes))
                .map(<[u8]>::len);
            let estimate = sampled.map(|bytes| bytes * values.len() / sample.len());
            if estimate.is_some_and(|bytes| bytes < best / 4 * 3) {
                return true;
            }
        }
        let stride = (values.len() / ENTROPY_VALUES).max(1);
        let sample: Vec<u64> = values.iter().step_by(stride).map(|value| value - least).collect();
        let bits: f64 = (0..planes).map(|plane| plane_bits(&sample, plane)).sum();
        let estimate = bits / 8.0 * values.len() as f64 + PLANE_BYTES * planes as f64;
        estimate < best as f64 * ENTROPY_GAIN
    }

    /// Writes one value for most, a mask, and the others, where that is smaller.
    fn put_common(
        &self,
        values: &[u64],
        common: u64,
        compressor: &mut Compressor,
        out: &mut Vec<u8>,
    ) -> bool {
        let start = out.len();
        let mask: Vec<u64> = values.iter().map(|value| u64::from(*value != common)).collect();
        let others: Vec<u64> = values.iter().copied().filter(|value| *value != common).collect();
        out.push(COMMON);
        put_varint(out, common);
        encode_flat(&mask, compressor, out);
        encode_flat(&others, compressor, out);
        let is_smaller = out.len() - start < self.best() / 8 * 7;
        if !is_smaller {
            out.truncate(start);
        }
        is_smaller
    }
}

/// The value that half of a sample has, if there is one.
fn common_value(values: &[u64]) -> Option<u64> {
    let stride = (values.len() / COMMON_VALUES).max(1);
    let sample = || values.iter().step_by(stride);
    let (mut candidate, mut votes) = (0, 0u32);
    for value in sample() {
        match votes {
            0 => (candidate, votes) = (*value, 1),
            _ if *value == candidate => votes += 1,
            _ => votes -= 1,
        }
    }
    let count = sample().filter(|value| **value == candidate).count();
    (count * 2 >= sample().count()).then_some(candidate)
}

/// Bits a value that a plane takes when bytes get codes by how often they are there.
fn plane_bits(values: &[u64], plane: usize) -> f64 {
    let mut counts = [0u32; 256];
    for value in values {
        counts[(*value >> (8 * plane)) as usize & 0xff] += 1;
    }
    let total = values.len() as f64;
    let of_byte = |count: &u32| match count {
        0 => (0.0, 0.0),
        count => (f64::from(*count) * (total / f64::from(*count)).log2(), 1.0),
    };
    let (bits, kinds) = counts
        .iter()
        .map(of_byte)
        .fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    // A sample has fewer kinds of bytes than the column.
    let bits = bits / total + kinds / (2.0 * total * std::f64::consts::LN_2);
    if kinds > 1.0 { bits.max(1.0) } else { 0.0 }
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
    encode(values, compressor, out);
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

/// Packs values; a base that is above some of them costs bytes and nothing else.
fn pack_all(values: &[u64], base: u64, out: &mut Vec<u8>) {
    put_varint(out, base);
    for chunk in values.chunks(CHUNK_VALUES) {
        pack(chunk, base, range(chunk), out);
    }
}

/// Packs the differences between neighbours.
fn pack_differences(values: &[u64], base: u64, out: &mut Vec<u8>) {
    put_varint(out, base);
    let mut rest = values;
    let mut differences = [0; CHUNK_VALUES];
    while rest.len() > 1 {
        let chunk = rest.get(..CHUNK_VALUES + 1).unwrap_or(rest);
        let mut range = (u64::MAX, 0);
        for (difference, pair) in differences.iter_mut().zip(chunk.windows(2)) {
            *difference = delta(pair[1], pair[0]);
            range = (range.0.min(*difference), range.1.max(*difference));
        }
        pack(&differences[..chunk.len() - 1], base, range, out);
        rest = rest.get(CHUNK_VALUES..).unwrap_or(&[]);
    }
}

/// Appends a chunk: its least value, a width, and so many low bits of each difference, the first value in the lowest bits.
fn pack(values: &[u64], base: u64, (least, largest): (u64, u64), out: &mut Vec<u8>) {
    let width = bits(largest - least);
    put_varint(out, least.wrapping_sub(base));
    out.push(width as u8);
    if width == 0 {
        return;
    }
    let mut words = [0u64; CHUNK_VALUES + 1];
    let (mut word, mut filled, mut place) = (0, 0, 0);
    for value in values {
        let value = value - least;
        word |= value << filled;
        words[place] = word;
        let end = filled + width;
        if end >= 64 {
            place += 1;
            word = value.checked_shr(64 - filled).unwrap_or(0);
            words[place] = word;
        }
        filled = end % 64;
    }
    let bytes = packed_bytes(values.len(), width);
    for word in words.iter().take(bytes / 8) {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&words[bytes / 8].to_le_bytes()[..bytes % 8]);
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
    if input.peek() != Some(COMMON) || count == 0 {
        return decode_flat(input, count);
    }
    input.u8()?;
    let common = input.varint()?;
    let mut values = decode_flat(input, count)?;
    let contradiction = StoreError::Contradiction {
        what: "mask of a column",
    };
    if values.iter().any(|is_other| *is_other > 1) {
        return Err(contradiction);
    }
    let others = values.iter().sum::<u64>() as usize;
    let mut others = decode_flat(input, others)?.into_iter();
    for value in &mut values {
        *value = match *value {
            0 => common,
            _ => others.next().ok_or(contradiction.clone())?,
        };
    }
    Ok(values)
}

fn decode_flat(input: &mut Input<'_>, count: usize) -> Result<Vec<u64>, StoreError> {
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
        OWN_PLANES => {
            let planes = usize::from(input.u8()?);
            let least = input.varint()?;
            limit("byte planes", planes, 8)?;
            let mut values = vec![least; count];
            for plane in 0..planes {
                let bytes = decompress(input, count)?;
                if bytes.len() != count {
                    return Err(StoreError::Contradiction { what: "column" });
                }
                for (value, byte) in values.iter_mut().zip(bytes) {
                    *value = value.wrapping_add(u64::from(byte) << (8 * plane));
                }
            }
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
    use logdrive_testkit::Random;

    fn round_trip(values: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(values, &mut Compressor::default(), &mut out);
        let mut input = Input::new(&out, "column");
        assert_eq!(decode(&mut input, values.len()).expect("a column"), values);
        assert!(input.is_empty());
        out
    }

    #[test]
    fn columns_of_every_encoding_read_back() {
        assert_eq!(round_trip(&[7; 1000]).len(), 2);
        assert!(round_trip(&(0..1000).map(|n| n * 1000).collect::<Vec<_>>()).len() < 40);
        assert!(round_trip(&(0..1000).map(|n| n * 37 % 16).collect::<Vec<_>>()).len() < 530);
        let repeated: Vec<u64> = (0..4096u64)
            .map(|n| (n % 64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .collect();
        assert!(round_trip(&repeated).len() < 4096);
        round_trip(&[]);
        round_trip(&[u64::MAX, 0, u64::MAX, 1, 1 << 63, (1 << 63) - 1]);
        for width in 1..=64u32 {
            let most = u64::MAX >> (64 - width);
            round_trip(
                &(0..300u64)
                    .map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) & most)
                    .collect::<Vec<_>>(),
            );
        }
    }

    /// A column as a random one of the shapes that logs have.
    fn random_column(random: &mut Random) -> Vec<u64> {
        let count = [1, 2, 127, 128, 129, 700, 5_000][random.below(7) as usize];
        let most = u64::MAX >> random.below(64);
        let (base, step) = (
            random.bits() >> random.below(64),
            random.bits() >> random.below(64),
        );
        let few: Vec<u64> = (0..=random.below(40)).map(|_| random.bits() & most).collect();
        let kind = random.below(7);
        let value = |number: u64| match kind {
            0 => random.bits() & most,
            1 => base.wrapping_add(number.wrapping_mul(step)),
            2 => few[random.below(few.len() as u64) as usize],
            // One value for most, and others.
            3 => {
                if random.one_in(4) {
                    random.bits() & most
                } else {
                    base
                }
            }
            4 => base.wrapping_sub(random.below(1 + (most >> 1))),
            // Bytes of which some are common.
            5 => (random.below(200) * random.below(3)) << (random.below(3) * 8),
            _ => base.wrapping_add(number * 1_000 + random.below(700)),
        };
        (0..count).map(value).collect()
    }

    #[test]
    fn random_columns_read_back_in_whatever_encoding_they_get() {
        let mut random = Random::new(0x17);
        let mut seen = std::collections::BTreeSet::new();
        for round in 0..600 {
            let values = random_column(&mut random);
            let bytes = round_trip(&values);
            seen.insert(bytes[0]);
            // Packed is never much larger than values as they are.
            assert!(bytes.len() <= values.len() * 9 + 32, "round {round}");
            let mut out = Vec::new();
            encode_well(&values, &mut Compressor::default(), &mut Vec::new(), &mut out);
            seen.insert(out[0]);
            assert_eq!(
                decode(&mut Input::new(&out, "column"), values.len()).expect("a column"),
                values
            );
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 5, 9, 10]);
    }

    #[test]
    fn a_value_that_most_are_costs_a_bit_and_skewed_bytes_less_than_their_width() {
        let mut random = Random::new(4);
        let sizes: Vec<u64> = (0..9_000)
            .map(|_| match random.below(3) {
                0 => random.below(1 << 26),
                _ => 1 << 26,
            })
            .collect();
        // A third of 26 bits, and a bit.
        assert!(round_trip(&sizes).len() < 9_000 * 11 / 8);
        let hosts: Vec<u64> = (0..9_000).map(|_| random.below(12) * random.below(20)).collect();
        assert!(round_trip(&hosts).len() < 9_000 * 7 / 8);
    }

    #[test]
    fn bytes_of_encodings_of_version_3_are_read() {
        // 7 for most, a mask of one byte, and the others: 300 and 301.
        let common = [
            9, 7, 1, 0, 0, 1, 0b1001, 2, 0xac, 2, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 0,
            0,
        ];
        assert_eq!(
            decode(&mut Input::new(&common, "column"), 4),
            Ok(vec![300, 7, 7, 301])
        );
        let planes = [10, 2, 5, 0, 2, 1, 2, 0, 2, 3, 4];
        assert_eq!(
            decode(&mut Input::new(&planes, "column"), 2),
            Ok(vec![5 + 0x301, 5 + 0x402])
        );
        // The mask of a mask, a mask of twos, and nine planes.
        for hostile in [
            &[9, 7, 9, 7, 0, 0][..],
            &[9, 7, 0, 2, 0, 0],
            &[10, 9, 5, 0, 2, 1, 2],
        ] {
            assert!(
                decode(&mut Input::new(hostile, "column"), 2).is_err(),
                "{hostile:?}"
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
        let bytes = round_trip(&values);
        for length in 0..bytes.len() {
            assert!(
                decode(&mut Input::new(&bytes[..length], "column"), 300).is_err(),
                "{length}"
            );
        }
    }
}
