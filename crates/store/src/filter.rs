//! Token filter: a split-block Bloom filter over the tokens of text columns and over large integers, sized by how many there are.
//!
//! The bytes are those of Parquet's filters: blocks of eight 32-bit words, of which a token sets one bit each. Texts of callsites
//! are not in it, since they can be read as they are.

use crate::limits::TOKEN_BYTES_MAX;

const BLOCK_BYTES: usize = 32;
/// Bits for each distinct token: about one in 150 absent tokens seems present.
const TOKEN_BITS: usize = 12;
const SALTS: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// Returns the tokens of a text: runs of ASCII letters, digits, `_` and bytes above 127, the first 64 bytes of each.
pub fn tokens(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    let runs = text
        .split(move |byte| !is_part(byte))
        .filter(|token| !token.is_empty());
    runs.map(|token| token.get(..TOKEN_BYTES_MAX).unwrap_or(token))
}

/// FNV-1a of the token in lower case, mixed at the end as in MurmurHash3.
fn hash(token: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in token {
        hash = (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3);
    }
    mix(hash)
}

/// Last step of MurmurHash3.
fn mix(number: u64) -> u64 {
    let mut hash = number;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

fn place(hash: u64, blocks: usize) -> usize {
    ((u128::from(hash >> 32) * blocks as u128) >> 32) as usize
}

fn bit(hash: u64, salt: u32) -> u32 {
    (hash as u32).wrapping_mul(salt) >> 27
}

/// Filter of a block.
///
/// ```
/// let all = logdrive_store::TokenFilter::new(&[]);
/// assert!(!all.may_have(b"word"));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TokenFilter<'a> {
    bytes: &'a [u8],
}

impl<'a> TokenFilter<'a> {
    /// The filter that these bytes are. No bytes are that of no tokens.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether a text column may have this token, in any case of ASCII letters. `false` is certain. A token of more than
    /// 64 bytes is looked for by its first 64.
    pub fn may_have(&self, token: &[u8]) -> bool {
        self.has(hash(token.get(..TOKEN_BYTES_MAX).unwrap_or(token)))
    }

    /// Whether an integer column whose values are in the filter may have this number or its negative. `false` is certain.
    pub fn may_have_number(&self, number: u64) -> bool {
        self.has(mix(number))
    }

    fn has(&self, hash: u64) -> bool {
        let (blocks, _) = self.bytes.as_chunks::<BLOCK_BYTES>();
        let Some(block) = blocks.get(place(hash, blocks.len())) else {
            return false;
        };
        let (words, _) = block.as_chunks::<4>();
        words
            .iter()
            .zip(SALTS)
            .all(|(word, salt)| u32::from_le_bytes(*word) >> bit(hash, salt) & 1 == 1)
    }
}

/// Hashes for the filter of a block.
#[derive(Debug, Default)]
pub(crate) struct FilterBuilder {
    hashes: Vec<u64>,
    /// Bits that tell how many hashes differ.
    seen: Vec<u64>,
}

impl FilterBuilder {
    pub(crate) fn clear(&mut self) {
        self.hashes.clear();
    }

    /// Adds the tokens of texts.
    pub(crate) fn add_texts<'a>(&mut self, texts: impl Iterator<Item = &'a [u8]>) {
        self.hashes.extend(texts.flat_map(tokens).map(hash));
    }

    /// Adds numbers.
    pub(crate) fn add_numbers(&mut self, numbers: impl Iterator<Item = u64>) {
        self.hashes.extend(numbers.map(mix));
    }

    /// Number of different hashes, nearly: of eight bits for each hash few are set twice.
    fn count(&mut self) -> usize {
        let bits = (8 * self.hashes.len()).next_power_of_two().max(64);
        self.seen.clear();
        self.seen.resize(bits / 64, 0);
        for hash in &self.hashes {
            // Not the bits that choose a block.
            let bit = *hash as usize & (bits - 1);
            self.seen[bit / 64] |= 1 << (bit % 64);
        }
        self.seen.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Appends the filter.
    pub(crate) fn build(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        let blocks = (self.count() * TOKEN_BITS).div_ceil(8 * BLOCK_BYTES);
        out.resize(start + blocks * BLOCK_BYTES, 0);
        for hash in &self.hashes {
            let at = start + place(*hash, blocks) * BLOCK_BYTES;
            for (number, salt) in SALTS.into_iter().enumerate() {
                let bit = bit(*hash, salt);
                out[at + 4 * number + bit as usize / 8] |= 1 << (bit % 8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_every_token_and_few_others() {
        let texts: Vec<String> = (0..5_000).map(|n| format!("Order{n}")).collect();
        let mut builder = FilterBuilder::default();
        builder.add_texts(texts.iter().chain(&texts).map(String::as_bytes));
        let mut bytes = Vec::new();
        builder.build(&mut bytes);
        assert!(
            bytes.len() < 5_000 * TOKEN_BITS / 8 + BLOCK_BYTES,
            "{}",
            bytes.len()
        );
        let filter = TokenFilter::new(&bytes);
        assert!((0..5_000).all(|n| filter.may_have(format!("oRDER{n}").as_bytes())));
        let wrong = (5_000..15_000)
            .filter(|n| filter.may_have(format!("order{n}").as_bytes()))
            .count();
        assert!(wrong < 150, "{wrong} of 10000");
    }

    #[test]
    fn a_filter_has_numbers_beside_tokens() {
        let mut builder = FilterBuilder::default();
        builder.add_texts([b"7".as_slice()].into_iter());
        builder.add_numbers((0..5_000).map(|n| n * 7_919));
        let mut bytes = Vec::new();
        builder.build(&mut bytes);
        let filter = TokenFilter::new(&bytes);
        assert!(filter.may_have(b"7"));
        assert!((0..5_000).all(|n| filter.may_have_number(n * 7_919)));
        let wrong = (0..10_000)
            .filter(|n| filter.may_have_number(n * 7_919 + 1))
            .count();
        assert!(wrong < 150, "{wrong} of 10000");
    }

    #[test]
    fn tokens_are_words_of_any_script() {
        let found: Vec<_> = tokens("peer=10.0.0.1:80 größe_2 \"a b\"".as_bytes()).collect();
        let expected = ["peer", "10", "0", "0", "1", "80", "größe_2", "a", "b"];
        assert_eq!(found, expected.map(str::as_bytes));
    }
}
