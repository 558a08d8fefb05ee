//! Bytes: a checked cursor, numbers of variable length, and bytes that are compressed where that pays.

use crate::error::{StoreError, limit};
use crate::limits::{COMPRESS_BYTES_MIN, ROWS_BYTES_MAX, ZSTD_LEVEL};
use std::cell::RefCell;
use zstd::bulk;

/// Reads from the front of bytes; every read is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], StoreError> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or(StoreError::Truncated { what: self.what })?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, StoreError> {
        Ok(self.array::<1>()?[0])
    }

    /// The next byte, which stays.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    pub(crate) fn u32(&mut self) -> Result<u32, StoreError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let taken = self.take(N)?;
        taken
            .first_chunk()
            .copied()
            .ok_or(StoreError::Truncated { what: self.what })
    }

    /// Reads a number of seven bits a byte, the lowest first.
    pub(crate) fn varint(&mut self) -> Result<u64, StoreError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(StoreError::Unknown {
            what: "number",
            found: value,
        })
    }

    /// Reads a length or count that may be at most so large.
    pub(crate) fn length(&mut self, what: &'static str, most: usize) -> Result<usize, StoreError> {
        let found = self.varint()?;
        let found = usize::try_from(found).unwrap_or(usize::MAX);
        limit(what, found, most)?;
        Ok(found)
    }

    /// Reads a length and as many bytes.
    pub(crate) fn blob(&mut self, most: usize) -> Result<&'a [u8], StoreError> {
        let length = self.length("length of bytes", most)?;
        self.take(length)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that were not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Compares short bytes without a call of a function.
#[inline]
pub(crate) fn are_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    // Ends that overlap cover up to 16 bytes.
    let ends = |bytes: &[u8]| match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(front), Some(back)) => Some((u64::from_le_bytes(*front), u64::from_le_bytes(*back))),
        _ => None,
    };
    match (ends(one), ends(other)) {
        (Some(one_ends), Some(other_ends)) => one_ends == other_ends && (one.len() <= 16 || one == other),
        // No more than 7, and of none there may be no memory to compare.
        _ => one.iter().zip(other).all(|(one, other)| one == other),
    }
}

/// Copies short bytes without a call of a function, word by word.
#[inline]
pub(crate) fn copy_words(to: &mut [u8], from: &[u8]) {
    if to.len() != from.len() || from.len() > COPIED_WORDS_BYTES || !from.len().is_multiple_of(8) {
        return to.copy_from_slice(from);
    }
    let (words, _) = from.as_chunks::<8>();
    let (places, _) = to.as_chunks_mut::<8>();
    for (place, word) in places.iter_mut().zip(words) {
        *place = *word;
    }
}

/// Bytes up to which a copy by words is faster than a call.
const COPIED_WORDS_BYTES: usize = 64;

/// Writes a number of seven bits a byte, the lowest first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a length and the bytes.
pub(crate) fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes as they are.
const RAW: u8 = 0;
/// A zstd frame.
const ZSTD: u8 = 1;

/// Compresses bytes where that makes them smaller.
pub(crate) struct Compressor {
    zstd: Option<bulk::Compressor<'static>>,
    packed: Vec<u8>,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compressor")
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new(ZSTD_LEVEL)
    }
}

impl Compressor {
    /// A compressor with a level of zstd.
    pub(crate) fn new(level: i32) -> Self {
        Self {
            // Without memory for its tables, bytes are stored as they are.
            zstd: bulk::Compressor::new(level).ok(),
            packed: Vec::new(),
        }
    }

    /// Returns the compressed bytes; none where they are not smaller.
    pub(crate) fn compress(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        if bytes.len() < COMPRESS_BYTES_MIN {
            return None;
        }
        // What does not fit into fewer bytes than it has is not worth it: zstd stops with an error.
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        let length = self
            .zstd
            .as_mut()?
            .compress_to_buffer(bytes, &mut self.packed)
            .ok()?;
        (length < bytes.len() - bytes.len() / 32).then_some(self.packed.get(..length)?)
    }

    /// Writes bytes with their lengths, compressed where that pays.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        match self.compress(bytes) {
            Some(packed) => {
                out.push(ZSTD);
                put_varint(out, bytes.len() as u64);
                put_blob(out, packed);
            }
            None => {
                out.push(RAW);
                put_blob(out, bytes);
            }
        }
    }
}

thread_local! {
    /// A decompressor has tables that take longer to make than a small column to read. Without memory for them there is none.
    static DECOMPRESSOR: RefCell<Option<bulk::Decompressor<'static>>> =
        RefCell::new(bulk::Decompressor::new().ok());
}

/// Reads what [`Compressor::put`] wrote, of at most so many bytes.
pub(crate) fn decompress(input: &mut Input<'_>, most: usize) -> Result<Vec<u8>, StoreError> {
    let most = most.min(ROWS_BYTES_MAX);
    match input.u8()? {
        RAW => Ok(input.blob(most)?.to_vec()),
        ZSTD => {
            let length = input.length("length of uncompressed bytes", most)?;
            let packed = input.blob(most)?;
            let bytes = DECOMPRESSOR
                .with_borrow_mut(|kept| match kept {
                    Some(decompressor) => decompressor.decompress(packed, length),
                    None => bulk::decompress(packed, length),
                })
                .map_err(|error| StoreError::Compression(error.to_string()))?;
            if bytes.len() != length {
                return Err(StoreError::Contradiction {
                    what: "length of compressed bytes",
                });
            }
            Ok(bytes)
        }
        found => Err(StoreError::Unknown {
            what: "compression",
            found: u64::from(found),
        }),
    }
}
