//! Checksums of shared memory: FNV-1a with 64 bits, and its fold to 16 bits that fits into a word beside a number.
//!
//! They find damage, such as a flipped bit or a page of zeros, and not intent: who may write to a session may also write
//! its checksums.

/// FNV-1a of bytes and words, 64 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checksum(u64);

/// Factor of each step of a checksum.
const FACTOR: u64 = 0x0000_0100_0000_01b3;

/// Number by which a multiplication with the factor is taken back.
const INVERSE: u64 = {
    // Each step doubles the number of right bits.
    let mut inverse = FACTOR;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(FACTOR.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};

impl Checksum {
    /// Checksum of nothing.
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Checksum of words, each as its eight bytes.
    pub(crate) fn of_words(words: &[u64]) -> Self {
        words
            .iter()
            .fold(Self::new(), |sum, word| sum.bytes(&word.to_le_bytes()))
    }

    /// Adds bytes.
    #[must_use]
    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FACTOR);
        Self(bytes.iter().fold(self.0, step))
    }

    /// Mends bytes of which one, or one of their checksum, is damaged; `self` is the checksum of what comes before them.
    /// Returns the right checksum; `None` where more is damaged, and then the bytes stay. One pass over the bytes.
    pub(crate) fn mend(self, bytes: &mut [u8], stored: u64) -> Option<u64> {
        let computed = self.bytes(bytes).value();
        if (0..8).any(|at| (computed ^ stored) & !(0xff << (8 * at)) == 0) {
            return Some(computed);
        }
        // From the end: the checksum before each byte as the bytes are, and the one that leads to what is stored.
        let (mut before, mut wanted) = (computed, stored);
        for byte in bytes.iter_mut().rev() {
            before = before.wrapping_mul(INVERSE) ^ u64::from(*byte);
            wanted = wanted.wrapping_mul(INVERSE);
            if let Ok(right) = u8::try_from(before ^ wanted) {
                *byte = right;
                return Some(stored);
            }
            wanted ^= u64::from(*byte);
        }
        None
    }

    /// All of its bits.
    pub(crate) const fn value(self) -> u64 {
        self.0
    }

    /// Its four parts of 16 bits, combined by exclusive or.
    pub(crate) const fn folded(self) -> u16 {
        let half = self.0 ^ self.0 >> 32;
        (half ^ half >> 16) as u16
    }
}

/// Bits of a number that has its check above it.
const NUMBER_BITS: u32 = 48;

/// A number below 2^48, with a check of itself and of the words that belong to it in the upper 16 bits. 0 stays 0.
pub(crate) fn guarded(number: u64, words: &[u64]) -> u64 {
    let number = number & ((1 << NUMBER_BITS) - 1);
    match number {
        0 => 0,
        _ => number | u64::from(check_of(number, words)) << NUMBER_BITS,
    }
}

/// The number of a guarded word; `None` if it, or one of the words that belong to it, is damaged.
pub(crate) fn unguarded(word: u64, words: &[u64]) -> Option<u64> {
    let number = word & ((1 << NUMBER_BITS) - 1);
    (guarded(number, words) == word).then_some(number)
}

fn check_of(number: u64, words: &[u64]) -> u16 {
    words
        .iter()
        .fold(Checksum::of_words(&[number]), |sum, word| {
            sum.bytes(&word.to_le_bytes())
        })
        .folded()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_damaged_byte_is_mended_and_more_are_left() {
        let whole: Vec<u8> = (0..200u8).collect();
        let begin = Checksum::of_words(&[7]);
        let sum = begin.bytes(&whole).value();
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(begin.mend(&mut damaged, sum), Some(sum), "bit {bit}");
            assert_eq!(damaged, whole);
        }
        for bit in 0..64 {
            assert_eq!(begin.mend(&mut whole.clone(), sum ^ 1 << bit), Some(sum));
        }
        let mut zeros = vec![0; whole.len()];
        assert_eq!(begin.mend(&mut zeros, sum), None);
        assert_eq!(zeros, vec![0; whole.len()]);
        let mut two = whole.clone();
        (two[3], two[150]) = (1, 1);
        assert_eq!(begin.mend(&mut two, sum), None);
    }

    #[test]
    fn each_flipped_bit_of_a_guarded_word_and_of_what_belongs_to_it_is_found() {
        let words = [0x0102_0304, 77, u64::MAX];
        let word = guarded(0x1234_5678, &words);
        assert_eq!(unguarded(word, &words), Some(0x1234_5678));
        for bit in 0..64 {
            assert_eq!(unguarded(word ^ 1 << bit, &words), None, "bit {bit}");
            for index in 0..words.len() {
                let mut words = words;
                words[index] ^= 1 << bit;
                assert_eq!(unguarded(word, &words), None, "bit {bit} of word {index}");
            }
        }
        assert_eq!((guarded(0, &words), unguarded(0, &words)), (0, Some(0)));
    }
}
