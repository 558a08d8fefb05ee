//! Token filter: a split-block Bloom filter over the tokens of text columns, sized by how many tokens there are.
//!
//! The bytes are those of Parquet's filters: blocks of eight 32-bit words, of which a token sets one bit each. It is of
//! tokens that stand in no dictionary and in no callsite, since those can be read as they are.

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
pub(crate) fn hash(token: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in token {
        hash = (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3);
    }
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
        let hash = hash(token.get(..TOKEN_BYTES_MAX).unwrap_or(token));
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

/// Makes the filter of these hashes, which it sorts.
pub(crate) fn build(hashes: &mut Vec<u64>, out: &mut Vec<u8>) {
    hashes.sort_unstable();
    hashes.dedup();
    let start = out.len();
    let blocks = (hashes.len() * TOKEN_BITS).div_ceil(8 * BLOCK_BYTES);
    out.resize(start + blocks * BLOCK_BYTES, 0);
    for hash in hashes {
        let at = start + place(*hash, blocks) * BLOCK_BYTES;
        for (number, salt) in SALTS.into_iter().enumerate() {
            let bit = bit(*hash, salt);
            out[at + 4 * number + bit as usize / 8] |= 1 << (bit % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_every_token_and_few_others() {
        let mut hashes: Vec<u64> = (0..5_000).map(|n| hash(format!("Order{n}").as_bytes())).collect();
        let mut bytes = Vec::new();
        build(&mut hashes, &mut bytes);
        let filter = TokenFilter::new(&bytes);
        assert!((0..5_000).all(|n| filter.may_have(format!("oRDER{n}").as_bytes())));
        let wrong = (5_000..15_000)
            .filter(|n| filter.may_have(format!("order{n}").as_bytes()))
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
