//! The cold path of records that would be too long: which texts and byte strings are cut, and to what length.

use logdrive_ring::RecordWriter;

use super::limits::CUT_MARK;
use super::{Piece, Values};
use logdrive_wire::limits::FIELDS_MAX;

/// Values with the longest texts and byte strings cut so that the record keeps to a limit.
///
/// Short ones stay whole; the long ones share what is left in equal parts. A text that was cut ends with `…`.
pub struct Shortened<'a> {
    values: &'a dyn Values,
    limit_bytes: usize,
}

impl std::fmt::Debug for Shortened<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "values with texts cut to {} bytes", self.limit_bytes)
    }
}

impl<'a> Shortened<'a> {
    /// Cuts the values to `payload_bytes_max` together. Numbers are never cut: should they alone be more than
    /// that, so is the result. Does not allocate.
    #[cold]
    pub fn new(values: &'a dyn Values, payload_bytes_max: usize) -> Self {
        let mut lengths = [0; FIELDS_MAX];
        let mut count = 0;
        let mut fixed_bytes = 0;
        // Not by the size of the values: what they say of a text that is longer than any record may be less than it has.
        values.give(&mut |piece| match piece {
            Piece::Fixed(bytes) => fixed_bytes += bytes.len(),
            Piece::Text(bytes) | Piece::Bytes(bytes) => {
                fixed_bytes += size_of::<u32>();
                if let Some(length) = lengths.get_mut(count) {
                    *length = bytes.len();
                    count += 1;
                }
            }
        });
        let lengths = lengths.get_mut(..count).unwrap_or_default();
        Self {
            values,
            limit_bytes: equal_part(lengths, payload_bytes_max.saturating_sub(fixed_bytes)),
        }
    }
}

impl Values for Shortened<'_> {
    fn size_bytes(&self) -> usize {
        let mut size = 0;
        self.give(&mut |piece| size += piece.bytes().len());
        size
    }

    fn write(&self, out: &mut RecordWriter<'_>) {
        self.give(&mut |piece| out.bytes(piece.bytes()));
    }

    fn give(&self, each: &mut dyn FnMut(Piece<'_>)) {
        self.values.give(&mut |piece| {
            let (length, has_mark) = match piece {
                Piece::Fixed(_) => return each(piece),
                Piece::Text(text) => kept(text, true, self.limit_bytes),
                Piece::Bytes(bytes) => kept(bytes, false, self.limit_bytes),
            };
            let mark = if has_mark { CUT_MARK } else { "" };
            each(Piece::Fixed(&((length + mark.len()) as u32).to_le_bytes()));
            each(Piece::Fixed(piece.bytes().get(..length).unwrap_or(&[])));
            each(Piece::Fixed(mark.as_bytes()));
        });
    }
}

/// The greatest length so that all, cut to it, fit into the budget.
#[inline(never)]
fn equal_part(lengths: &mut [usize], budget_bytes: usize) -> usize {
    lengths.sort_unstable();
    let mut left_bytes = budget_bytes;
    let mut count = lengths.len();
    for &length in lengths.iter() {
        let part = left_bytes / count;
        if length > part {
            return part;
        }
        left_bytes -= length;
        count -= 1;
    }
    usize::MAX
}

/// Returns how many bytes of a text or byte string are kept, and whether [`CUT_MARK`] follows them.
fn kept(bytes: &[u8], is_text: bool, limit_bytes: usize) -> (usize, bool) {
    if bytes.len() <= limit_bytes {
        return (bytes.len(), false);
    }
    if !is_text {
        return (limit_bytes, false);
    }
    let has_mark = limit_bytes >= CUT_MARK.len();
    let mut length = if has_mark {
        limit_bytes - CUT_MARK.len()
    } else {
        limit_bytes
    };
    // A byte 10xxxxxx goes on with a character that began before it.
    while length > 0 && bytes.get(length).is_some_and(|byte| byte & 0xc0 == 0x80) {
        length -= 1;
    }
    (length, has_mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_ones_share_what_the_short_ones_leave() {
        assert_eq!(equal_part(&mut [10, 20, 1000], 100), 70);
        assert_eq!(equal_part(&mut [500, 10, 600], 110), 50);
        assert_eq!(equal_part(&mut [10, 20], 30), usize::MAX);
        assert_eq!(equal_part(&mut [10, 20], 0), 0);
        assert_eq!(equal_part(&mut [], 0), usize::MAX);
    }

    #[test]
    fn text_is_cut_between_characters_and_marked() {
        let text = "aé€😀".as_bytes();
        for limit in 0..=text.len() {
            let (length, has_mark) = kept(text, true, limit);
            assert!(core::str::from_utf8(&text[..length]).is_ok(), "{limit}");
            assert!(length + if has_mark { CUT_MARK.len() } else { 0 } <= limit);
            assert_eq!(has_mark, (3..text.len()).contains(&limit));
        }
        assert_eq!(kept(&[0x80; 9], false, 4), (4, false));
    }
}
