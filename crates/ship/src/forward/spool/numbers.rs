//! Numbers of the records that a spool should have, so that what is missing is counted wherever it was: the first one and the
//! end in the file `numbers`, and ranges whose loss was told as names of empty files, `lost-FIRST-END`.

use super::super::files::private;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The file of the first number and the end.
pub(super) const NAME: &str = "numbers";
/// Beginning of the names of files that stand for losses that were told.
pub(super) const LOST: &str = "lost-";
/// Two numbers and a checksum.
const BYTES: usize = 8 + 8 + 4;

/// Numbers of some records: the first one, and the number behind the last one.
pub(super) type NumberRange = (u64, u64);

/// Records that a spool should have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Every record before this is acknowledged.
    pub(super) first: u64,
    /// Number behind the last record.
    pub(super) end: u64,
}

impl Numbers {
    /// Reads those of a spool's directory; `None` where there are none, as in one of an earlier version.
    pub(super) fn load(directory: &Path) -> Option<Self> {
        let file = private().read(true).open(directory.join(NAME)).ok()?;
        let mut bytes = [0; BYTES];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let (numbers, crc) = bytes.split_first_chunk::<16>()?;
        let crc = u32::from_le_bytes(*crc.first_chunk()?);
        let (first, end) = numbers.split_first_chunk()?;
        let found = Self {
            first: u64::from_le_bytes(*first),
            end: u64::from_le_bytes(*end.first_chunk()?),
        };
        (crc32c::crc32c(numbers) == crc && found.first <= found.end).then_some(found)
    }

    /// Replaces those of a directory. Where they cannot be written, a loss at the end may not be counted: the batches
    /// themselves do not need them.
    pub(super) fn save(self, directory: &Path) {
        let numbers = [self.first.to_le_bytes(), self.end.to_le_bytes()].concat();
        let crc = crc32c::crc32c(&numbers).to_le_bytes();
        let opened = private()
            .write(true)
            .create(true)
            .truncate(false)
            .open(directory.join(NAME));
        let _ = opened.and_then(|file| file.write_all_at(&[&numbers[..], &crc].concat(), 0));
    }

    /// Numbers from the first to the end that none of these ranges covers, as ranges.
    pub(super) fn missing(self, mut covered: Vec<NumberRange>) -> Vec<NumberRange> {
        covered.push((self.end, self.end));
        covered.sort_unstable();
        let (mut next, mut missing) = (self.first, Vec::new());
        for (first, end) in covered {
            let until = first.min(self.end);
            if until > next {
                missing.push((next, until));
            }
            next = next.max(end);
        }
        missing
    }
}

/// The range that the name of a file stands for.
pub(super) fn told_loss(name: &str) -> Option<NumberRange> {
    let (first, end) = name.strip_prefix(LOST)?.split_once('-')?;
    Some((first.parse().ok()?, end.parse().ok()?))
}

/// Notes that the loss of a range is told. Where that fails, it is told again by the next process.
pub(super) fn note_told_loss(directory: &Path, (first, end): NumberRange) {
    let path = directory.join(format!("{LOST}{first:020}-{end:020}"));
    let _ = private().write(true).create(true).truncate(false).open(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_range_covers_is_missing() {
        let numbers = Numbers { first: 10, end: 50 };
        let missing = |covered: &[(u64, u64)]| numbers.missing(covered.to_vec());
        assert_eq!(missing(&[]), [(10, 50)]);
        assert_eq!(missing(&[(30, 50), (0, 20), (15, 25)]), [(25, 30)]);
        assert_eq!(missing(&[(12, 40), (60, 70)]), [(10, 12), (40, 50)]);
        assert!(missing(&[(0, 90)]).is_empty());
    }

    #[test]
    fn numbers_read_back_and_damaged_ones_do_not() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(Numbers::load(dir.path()), None);
        let numbers = Numbers {
            first: 3,
            end: u64::MAX,
        };
        numbers.save(dir.path());
        assert_eq!(Numbers::load(dir.path()), Some(numbers));
        let path = dir.path().join(NAME);
        let bytes = std::fs::read(&path).expect("there");
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 4;
            std::fs::write(&path, bytes).expect("written");
            assert_eq!(Numbers::load(dir.path()), None, "{at}");
        }
    }
}
