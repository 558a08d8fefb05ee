//! The cold path of records that would be too long: which texts and byte strings are cut, and to what length.

use logdrive_ring::RecordWriter;

use super::limits::CUT_MARK;
use super::{BlobLengths, Fields, sealed};

/// A call's values with the longest texts and byte strings cut so that the record keeps to a limit.
///
/// Short ones stay whole; the long ones share what is left in equal parts. A text that was cut ends with `…`.
#[derive(Debug)]
pub struct Shortened<'a, V> {
    values: &'a V,
    limit_bytes: usize,
}

impl<'a, V: Fields> Shortened<'a, V> {
    /// Cuts the values to `payload_bytes_max` together. Numbers are never cut: should they alone be more than
    /// that, so is the result.
    #[cold]
    pub fn new(values: &'a V, payload_bytes_max: usize) -> Self {
        let mut lengths = BlobLengths::new();
        values.list_blobs(&mut lengths);
        let lengths = lengths.as_mut_slice();
        let fixed_bytes = values.size_bytes() - lengths.iter().sum::<usize>();
        Self {
            values,
            limit_bytes: equal_part(lengths, payload_bytes_max.saturating_sub(fixed_bytes)),
        }
    }
}

impl<V> Clone for Shortened<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Shortened<'_, V> {}

impl<V: Fields> sealed::Sealed for Shortened<'_, V> {}

impl<V: Fields> Fields for Shortened<'_, V> {
    const KINDS: &'static [u8] = V::KINDS;

    fn size_bytes(&self) -> usize {
        self.values.cut_size_bytes(self.limit_bytes)
    }

    fn write(&self, out: &mut RecordWriter<'_>) {
        self.values.write_cut(out, self.limit_bytes);
    }

    type View<'b>
        = Self
    where
        Self: 'b;

    fn view(&self) -> Self {
        *self
    }

    fn list_blobs(&self, lengths: &mut BlobLengths) {
        self.values.list_blobs(lengths);
    }

    fn cut_size_bytes(&self, limit_bytes: usize) -> usize {
        self.values.cut_size_bytes(limit_bytes.min(self.limit_bytes))
    }

    fn write_cut(&self, out: &mut RecordWriter<'_>, limit_bytes: usize) {
        self.values.write_cut(out, limit_bytes.min(self.limit_bytes));
    }
}

/// The greatest length so that all, cut to it, fit into the budget.
#[inline(never)]
pub(crate) fn equal_part(lengths: &mut [usize], budget_bytes: usize) -> usize {
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
pub(crate) fn kept(bytes: &[u8], is_text: bool, limit_bytes: usize) -> (usize, bool) {
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
