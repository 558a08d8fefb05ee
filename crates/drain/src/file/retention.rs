//! Selection of rotated files to remove: by count, by age and by total bytes. Pure: files and time in, names out.

use super::names::Rotated;
use super::options::FileOptions;

/// A rotated file and what it takes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RotatedFile {
    pub(crate) rotated: Rotated,
    pub(crate) bytes: u64,
}

/// The files that the rules of `options` remove, oldest first.
///
/// The order is that of the rotations. Names of the earlier form have the time alone: there a file from the future
/// was written before the clock was set back, so it counts as older than all others; else the files written after
/// that would be the first to go. The age of a file from the future is unknown, so the rule by age leaves it alone.
pub(crate) fn to_remove(files: &[RotatedFile], options: &FileOptions, now_unix_s: i64) -> Vec<Rotated> {
    let mut files = files.to_vec();
    files.sort_by_key(|file| {
        let Rotated { sequence, unix_s, .. } = file.rotated;
        (sequence, sequence > 0 || unix_s <= now_unix_s, file.rotated)
    });
    let mut bytes = 0u128;
    let mut kept = 0u64;
    let mut full = false;
    let mut to_remove = Vec::new();
    for file in files.iter().rev() {
        let old = options.keep_age.is_some_and(|keep_age| {
            let age_s = now_unix_s - file.rotated.unix_s;
            u64::try_from(age_s).is_ok_and(|age_s| age_s > keep_age.as_secs())
        });
        if old {
            to_remove.push(file.rotated);
            continue;
        }
        bytes += u128::from(file.bytes);
        // Once the bytes are exceeded all older files go too: what remains has no hole in time.
        full |= options
            .keep_bytes
            .is_some_and(|keep_bytes| bytes > u128::from(keep_bytes));
        full |= options
            .keep_files
            .is_some_and(|keep_files| kept >= u64::from(keep_files));
        if full {
            to_remove.push(file.rotated);
        } else {
            kept += 1;
        }
    }
    to_remove.reverse();
    to_remove
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn files(list: &[(i64, u32, u64)]) -> Vec<RotatedFile> {
        let sized = |&(unix_s, number, bytes): &(i64, u32, u64)| RotatedFile {
            rotated: Rotated {
                sequence: 0,
                unix_s,
                number,
            },
            bytes,
        };
        list.iter().map(sized).collect()
    }

    fn gone(list: &[(i64, u32, u64)], now: i64, set: impl Fn(&mut FileOptions)) -> Vec<(i64, u32)> {
        let mut options = FileOptions::new("a.log");
        set(&mut options);
        let to_remove = to_remove(&files(list), &options, now);
        to_remove
            .into_iter()
            .map(|rotated| (rotated.unix_s, rotated.number))
            .collect()
    }

    const FOUR: &[(i64, u32, u64)] = &[(20, 2, 5), (10, 1, 5), (20, 1, 5), (30, 1, 5)];

    #[test]
    fn without_rules_nothing_goes() {
        assert_eq!(gone(FOUR, 1_000_000, |_| ()), []);
    }

    #[test]
    fn the_count_is_of_rotated_files_and_exact() {
        assert_eq!(gone(FOUR, 30, |options| options.keep_files = Some(4)), []);
        assert_eq!(
            gone(FOUR, 30, |options| options.keep_files = Some(2)),
            [(10, 1), (20, 1)]
        );
        assert_eq!(gone(FOUR, 30, |options| options.keep_files = Some(0)).len(), 4);
    }

    #[test]
    fn a_file_goes_when_it_is_older_than_the_age_and_not_when_as_old() {
        let age = |options: &mut FileOptions| options.keep_age = Some(Duration::from_secs(10));
        assert_eq!(gone(FOUR, 30, age), [(10, 1)]);
        assert_eq!(gone(FOUR, 31, age), [(10, 1), (20, 1), (20, 2)]);
    }

    #[test]
    fn bytes_are_counted_from_the_newest_and_leave_no_hole() {
        let bytes = |keep| move |options: &mut FileOptions| options.keep_bytes = Some(keep);
        assert_eq!(gone(FOUR, 30, bytes(20)), []);
        assert_eq!(gone(FOUR, 30, bytes(19)), [(10, 1)]);
        let uneven = &[(1, 1, 1), (2, 1, 100), (3, 1, 1)];
        assert_eq!(gone(uneven, 3, bytes(50)), [(1, 1), (2, 1)]);
        assert_eq!(
            gone(&[(1, 1, u64::MAX), (2, 1, u64::MAX)], 3, bytes(u64::MAX)),
            [(1, 1)]
        );
    }

    #[test]
    fn files_from_the_future_are_the_oldest() {
        let list = &[(100, 1, 5), (110, 1, 5), (50, 1, 5)];
        assert_eq!(
            gone(list, 50, |options| options.keep_files = Some(1)),
            [(100, 1), (110, 1)]
        );
        assert_eq!(
            gone(list, 50, |options| options.keep_age = Some(Duration::ZERO)),
            []
        );
    }

    #[test]
    fn the_number_of_a_rotation_goes_before_its_time() {
        let rotated = |sequence, unix_s| RotatedFile {
            rotated: Rotated {
                sequence,
                unix_s,
                number: 0,
            },
            bytes: 5,
        };
        // The clock was set back between the second and the third.
        let files = [rotated(1, 100), rotated(2, 110), rotated(3, 50), rotated(4, 120)];
        let mut options = FileOptions::new("a.log");
        options.keep_files = Some(2);
        for now in [40, 60, 200] {
            let gone = to_remove(&files, &options, now);
            let gone: Vec<u32> = gone.iter().map(|rotated| rotated.sequence).collect();
            assert_eq!(gone, [1, 2]);
        }
    }
}
