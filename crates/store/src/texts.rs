//! Columns of text and bytes: constant, dictionary, or one behind the other; compressed where that pays.

use crate::bytes::{Compressor, Input, are_equal, decompress, put_blob};
use crate::error::StoreError;
use crate::integers;
use crate::limits::{ROW_BYTES_MAX, ROWS_BYTES_MAX};

const CONSTANT: u8 = 0;
/// Distinct values, and for each value which one it is.
const DICTIONARY: u8 = 1;
const PLAIN: u8 = 2;

/// Values that are looked at before a dictionary is given up.
const TRIED_VALUES: usize = 512;
/// Places that are looked at for one value before a dictionary is given up: hostile text could make them collide.
const PROBES_MAX: usize = 32;

/// Values of a column, one behind the other.
///
/// ```
/// assert!(logdrive_store::Texts::default().is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    pub(crate) bytes: Vec<u8>,
    /// End of each value.
    pub(crate) ends: Vec<u32>,
}

impl Texts {
    pub(crate) fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len() as u32);
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + 4 * self.ends.capacity()
    }

    pub(crate) fn pop(&mut self) {
        self.ends.pop();
        self.bytes
            .truncate(self.ends.last().map_or(0, |end| *end as usize));
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all values, without anything between them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of the value of which the byte at this offset is.
    pub fn number_at(&self, offset: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= offset)
    }

    /// End of a value in the bytes of all.
    pub fn end(&self, number: usize) -> usize {
        self.ends
            .get(number)
            .map_or(self.bytes.len(), |end| *end as usize)
    }

    /// A value; empty where there is none of this number.
    pub fn value(&self, number: usize) -> &[u8] {
        let start = match number {
            0 => 0,
            _ => self.ends.get(number - 1).map_or(0, |end| *end as usize),
        };
        let end = self.ends.get(number).map_or(start, |end| *end as usize);
        self.bytes.get(start..end).unwrap_or(&[])
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let start = std::mem::replace(&mut start, *end as usize);
            self.bytes.get(start..*end as usize).unwrap_or(&[])
        })
    }
}

/// The distinct values of a column, and for each value which one it is.
#[derive(Debug, Default)]
struct Dictionary {
    distinct: Texts,
    places: Vec<u64>,
}

fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = bytes.len() as u64;
    let mut take = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    match bytes.last_chunk::<8>() {
        Some(last) => {
            let (words, _) = bytes.as_chunks::<8>();
            words.iter().for_each(|word| take(u64::from_le_bytes(*word)));
            // Some bytes of the word before again, so that none are taken by themselves.
            take(u64::from_le_bytes(*last));
        }
        None => bytes.iter().for_each(|byte| take(u64::from(*byte))),
    }
    hash ^ hash >> 29
}

/// Returns the dictionary; none where too few values repeat.
fn dictionary(texts: &Texts) -> Option<Dictionary> {
    let slots = (texts.len() / 2).next_power_of_two().max(64);
    let mut table = vec![u32::MAX; slots];
    let mut found = Dictionary::default();
    for (number, value) in texts.values().enumerate() {
        if number >= TRIED_VALUES && found.distinct.len() * 2 > number {
            return None;
        }
        let mut slot = hash(value) as usize & (slots - 1);
        let mut probes = 0;
        let place = loop {
            let entry = table.get_mut(slot)?;
            if *entry == u32::MAX {
                if found.distinct.len() * 4 > slots * 3 {
                    return None;
                }
                *entry = found.distinct.len() as u32;
                found.distinct.push(value);
                break *entry;
            }
            if are_equal(found.distinct.value(*entry as usize), value) {
                break *entry;
            }
            probes += 1;
            if probes > PROBES_MAX {
                return None;
            }
            slot = (slot + 1) & (slots - 1);
        };
        found.places.push(u64::from(place));
    }
    (found.distinct.len() * 2 <= texts.len()).then_some(found)
}

/// Values of a column that was written, each at least once.
pub(crate) enum Distinct<'a> {
    /// All are this.
    Constant(&'a [u8]),
    /// Entries of the dictionary.
    Entries(Texts),
    /// They stand one behind the other.
    All,
}

/// Writes a column.
pub(crate) fn encode<'a>(texts: &'a Texts, compressor: &mut Compressor, out: &mut Vec<u8>) -> Distinct<'a> {
    if texts.is_empty() {
        return Distinct::All;
    }
    let first = texts.value(0);
    if texts.values().all(|value| are_equal(value, first)) {
        put_constant(first, out);
        return Distinct::Constant(first);
    }
    match dictionary(texts) {
        Some(found) => {
            out.push(DICTIONARY);
            crate::bytes::put_varint(out, found.distinct.len() as u64);
            put_plain(&found.distinct, compressor, out);
            integers::encode(&found.places, compressor, out);
            Distinct::Entries(found.distinct)
        }
        None => {
            out.push(PLAIN);
            put_plain(texts, compressor, out);
            Distinct::All
        }
    }
}

/// Writes a column whose values are all this one.
pub(crate) fn put_constant(value: &[u8], out: &mut Vec<u8>) {
    out.push(CONSTANT);
    put_blob(out, value);
}

fn put_plain(texts: &Texts, compressor: &mut Compressor, out: &mut Vec<u8>) {
    let mut start = 0;
    let lengths: Vec<u64> = texts
        .ends
        .iter()
        .map(|end| u64::from(*end - std::mem::replace(&mut start, *end)))
        .collect();
    integers::encode(&lengths, compressor, out);
    compressor.put(out, &texts.bytes);
}

/// Reads a column of so many values, of at most so many bytes together.
pub(crate) fn decode(input: &mut Input<'_>, count: usize, bytes_max: usize) -> Result<Texts, StoreError> {
    let mut texts = Texts::default();
    let mut push = |value: &[u8]| {
        crate::error::limit("bytes of a column", texts.bytes.len() + value.len(), bytes_max)?;
        texts.push(value);
        Ok(())
    };
    let wanted = Wanted {
        may_be_plain: true,
        passes: &|_| true,
    };
    let Some(stored) = decode_stored(input, count, bytes_max, &wanted)? else {
        return Ok(texts);
    };
    match stored {
        StoredTexts::Constant(value) => {
            for _ in 0..count {
                push(&value)?;
            }
        }
        StoredTexts::Dictionary(entries, places) => {
            for place in places {
                push(entries.value(place as usize))?;
            }
        }
        StoredTexts::Plain(plain) => return Ok(plain),
    }
    Ok(texts)
}

/// Values of a column of text as they are stored.
///
/// ```
/// use logdrive_store::StoredTexts;
/// assert!(matches!(StoredTexts::Constant(vec![]), StoredTexts::Constant(value) if value.is_empty()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredTexts {
    /// All values are this.
    Constant(Vec<u8>),
    /// Distinct values, and for each value which one it is; all are there.
    Dictionary(Texts, Vec<u64>),
    /// One behind the other.
    Plain(Texts),
}

/// Columns that are wanted: those with a value that passes.
pub(crate) struct Wanted<'a> {
    /// Whether values one behind the other may pass.
    pub(crate) may_be_plain: bool,
    pub(crate) passes: &'a dyn Fn(&[u8]) -> bool,
}

/// Reads a column as it is stored; otherwise as [`decode`]. `None`: it is not wanted.
pub(crate) fn decode_stored(
    input: &mut Input<'_>,
    count: usize,
    bytes_max: usize,
    wanted: &Wanted<'_>,
) -> Result<Option<StoredTexts>, StoreError> {
    if count == 0 {
        return Ok(Some(StoredTexts::Plain(Texts::default())));
    }
    let bytes_max = bytes_max.min(ROWS_BYTES_MAX);
    match input.u8()? {
        CONSTANT => Ok(Some(StoredTexts::Constant(input.blob(ROW_BYTES_MAX)?.to_vec()))),
        DICTIONARY => {
            let distinct = input.length("entries of a dictionary", count)?;
            let entries = plain(input, distinct, bytes_max)?;
            if !entries.values().any(wanted.passes) {
                return Ok(None);
            }
            let places = integers::decode(input, count)?;
            match places.iter().all(|place| *place < entries.len() as u64) {
                true => Ok(Some(StoredTexts::Dictionary(entries, places))),
                false => Err(StoreError::Contradiction { what: "dictionary" }),
            }
        }
        PLAIN if !wanted.may_be_plain => Ok(None),
        PLAIN => plain(input, count, bytes_max).map(|texts| Some(StoredTexts::Plain(texts))),
        found => Err(StoreError::Unknown {
            what: "encoding of text",
            found: u64::from(found),
        }),
    }
}

fn plain(input: &mut Input<'_>, count: usize, bytes_max: usize) -> Result<Texts, StoreError> {
    let lengths = integers::decode(input, count)?;
    let bytes = decompress(input, bytes_max)?;
    let mut ends = Vec::with_capacity(count);
    let mut end = 0u64;
    for length in lengths {
        end = end.saturating_add(length);
        if end > bytes.len() as u64 {
            return Err(StoreError::Contradiction {
                what: "lengths of text",
            });
        }
        ends.push(end as u32);
    }
    if end != bytes.len() as u64 {
        return Err(StoreError::Contradiction {
            what: "lengths of text",
        });
    }
    Ok(Texts { bytes, ends })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(values: &[&str]) -> usize {
        let mut texts = Texts::default();
        values.iter().for_each(|value| texts.push(value.as_bytes()));
        let mut out = Vec::new();
        encode(&texts, &mut Compressor::default(), &mut out);
        let read = decode(&mut Input::new(&out, "column"), values.len(), 1 << 20).expect("a column");
        assert_eq!(read, texts);
        out.len()
    }

    #[test]
    fn columns_of_every_encoding_read_back() {
        round(&[]);
        assert!(round(&["BTCUSD"; 500]) < 12);
        let symbols = ["BTCUSD", "ETHUSD", "", "XRPUSD"].repeat(256);
        assert!(round(&symbols) < 330, "2 bits each");
        let own: Vec<String> = (0..900).map(|n| format!("order {n} of {}", n * 7919)).collect();
        round(&own.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn random_texts_read_back() {
        let mut random = logdrive_testkit::Random::new(0x7e);
        for _ in 0..300 {
            let (distinct, longest) = (1 + random.below(900), 1 + random.below(40));
            let texts: Vec<String> = (0..1 + random.below(2_000))
                .map(|_| {
                    let number = random.below(distinct);
                    let text = format!("{number:x} of größe {}", number * 7_919);
                    text.chars().take((number % longest) as usize).collect()
                })
                .collect();
            round(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_constant_may_not_grow_beyond_what_the_block_says() {
        let mut texts = Texts::default();
        (0..100).for_each(|_| texts.push(b"0123456789"));
        let mut out = Vec::new();
        encode(&texts, &mut Compressor::default(), &mut out);
        let read = decode(&mut Input::new(&out, "column"), 100, 999);
        assert!(matches!(read, Err(StoreError::Limit { .. })), "{read:?}");
    }
}
