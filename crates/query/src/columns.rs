//! Filters over batches of records that are stored in columns: a test is made once for a constant, once for each entry of a
//! dictionary, and column by column, the cheap ones first, over the rows that are still in question.

use crate::ast::{Bound, Operator};
use crate::matcher::{Matcher, words_of};
use crate::number::Number;
use logdrive_wire::Level;

/// Whole numbers from which on floats are not exact any more.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Rows of a batch that were selected.
///
/// ```
/// use logdrive_query::Selection;
/// let mut rows = Selection::none(70);
/// rows.insert(69);
/// assert_eq!(rows.iter().collect::<Vec<_>>(), [69]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    words: Vec<u64>,
    length: usize,
}

impl Selection {
    /// None of so many rows.
    pub fn none(length: usize) -> Self {
        Self {
            words: vec![0; length.div_ceil(64)],
            length,
        }
    }

    /// All of so many rows.
    pub fn all(length: usize) -> Self {
        let mut words = vec![u64::MAX; length.div_ceil(64)];
        if let Some(last) = words.last_mut().filter(|_| !length.is_multiple_of(64)) {
            *last = (1 << (length % 64)) - 1;
        }
        Self { words, length }
    }

    /// Number of rows of the batch.
    pub fn batch_length(&self) -> usize {
        self.length
    }

    /// Adds a row.
    pub fn insert(&mut self, row: usize) {
        if let Some(word) = self.words.get_mut(row / 64).filter(|_| row < self.length) {
            *word |= 1 << (row % 64);
        }
    }

    /// Whether a row is selected.
    pub fn contains(&self, row: usize) -> bool {
        self.words
            .get(row / 64)
            .is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Number of rows that are selected.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether no row is selected.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether all rows are selected.
    pub fn is_all(&self) -> bool {
        self.count() == self.length as u64
    }

    /// The rows that are selected, from the first on.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(number, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.checked_sub(1)?;
                Some(64 * number + bit)
            })
        })
    }

    /// Selects rows by their values: those that pass, of all rows. It makes no branches, so that it runs over many values at
    /// once.
    pub fn of_values<T: Copy>(values: &[T], passes: impl Fn(T) -> bool) -> Self {
        let word = |values: &[T]| {
            let bits = values.iter().enumerate();
            bits.fold(0, |word, (bit, value)| word | u64::from(passes(*value)) << bit)
        };
        Self {
            words: values.chunks(64).map(word).collect(),
            length: values.len(),
        }
    }

    /// Leaves those that are selected there, too.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.merge(other, |own, other| own & other);
        self
    }

    /// Adds those that are selected there.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        self.merge(other, |own, other| own | other);
        self
    }

    /// Leaves those that are not selected there.
    #[must_use]
    pub fn without(mut self, other: &Self) -> Self {
        self.merge(other, |own, other| own & !other);
        self
    }

    fn merge(&mut self, other: &Self, merged: impl Fn(u64, u64) -> u64) {
        let words = self.words.iter_mut().zip(&other.words);
        words.for_each(|(own, other)| *own = merged(*own, *other));
    }
}

/// Records of one kind, in columns: what a filter asks of them.
pub trait Batch {
    /// Level of all of them.
    fn level(&self) -> Option<Level>;

    /// Rows of `within` of a time from `first` to `last`, both included.
    fn between(&mut self, first: u64, last: u64, within: &Selection) -> Selection;

    /// Rows of `within` of which a field, or without a name the message or any field, passes.
    fn test(&mut self, field: Option<&str>, test: ValueTest<'_>, within: &Selection) -> Selection;

    /// Cost of a test, in any unit: the cheapest is made first.
    fn cost(&self, field: Option<&str>) -> u32;
}

/// Test of a value, as a [`Batch`] makes it.
#[derive(Debug, Clone, Copy)]
pub struct ValueTest<'a> {
    matcher: &'a Matcher,
}

impl<'a> ValueTest<'a> {
    pub(crate) fn new(matcher: &'a Matcher) -> Self {
        Self { matcher }
    }

    /// Whether a value passes.
    pub fn passes(&self, value: &[u8]) -> bool {
        self.matcher.is_met_by(value)
    }

    /// Whether it asks for a field that is empty or missing: it holds where no value is other than empty.
    pub fn is_for_empty(&self) -> bool {
        matches!(self.matcher, Matcher::Empty)
    }

    /// Least and largest whole number that pass, where they alone decide.
    pub fn whole_range(&self) -> Option<(i128, i128)> {
        let all = (i128::MIN, i128::MAX);
        match self.matcher {
            Matcher::Compare(operator, number) => bounded(all, *operator, *number),
            Matcher::Range(low, high) => {
                let part = |bound: &Bound, open: Operator, closed: Operator| match &bound.number {
                    None => Some(all),
                    Some(end) => bounded(all, if bound.included { closed } else { open }, end.number),
                };
                let from = part(low, Operator::Greater, Operator::GreaterOrEqual)?;
                let to = part(high, Operator::Less, Operator::LessOrEqual)?;
                Some((from.0, to.1))
            }
            // A whole number is written in one way.
            Matcher::Exact { text, prefix: false } => {
                let number: Option<i128> = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                match number.filter(|number| number.to_string().as_bytes() == text) {
                    Some(number) => Some((number, number)),
                    None => Some((1, 0)),
                }
            }
            Matcher::Never => Some((1, 0)),
            _ => None,
        }
    }

    /// Whether it compares numbers, so that [`ValueTest::passes_float`] decides about floats.
    pub fn is_of_numbers(&self) -> bool {
        matches!(self.matcher, Matcher::Compare(..) | Matcher::Range(..))
    }

    /// Whether a finite float passes that is written so that it is read as one.
    pub fn passes_float(&self, value: f64) -> bool {
        value.is_finite() && self.matcher.passes_number(Number::Float(value))
    }

    /// Whether a finite float from `least` to `largest` may pass a comparison of numbers. `false` is certain.
    pub fn may_pass_between(&self, least: f64, largest: f64) -> bool {
        let passes = |operator: Operator, number: Number, value: f64| {
            operator.holds(Number::Float(value).compare(number))
        };
        let is_met = |operator: Operator, number: Number| match operator {
            Operator::Greater | Operator::GreaterOrEqual => passes(operator, number, largest),
            Operator::Less | Operator::LessOrEqual => passes(operator, number, least),
        };
        match self.matcher {
            Matcher::Compare(operator, number) => is_met(*operator, *number),
            Matcher::Range(low, high) => {
                let part = |bound: &Bound, operator: Operator| {
                    bound
                        .number
                        .as_ref()
                        .is_none_or(|end| is_met(operator, end.number))
                };
                part(low, Operator::GreaterOrEqual) && part(high, Operator::LessOrEqual)
            }
            _ => true,
        }
    }

    /// Text that stands in each value that passes, as it is.
    pub fn literal(&self) -> Option<&'a [u8]> {
        self.matcher.literal()
    }

    /// Whether it looks for a run of letters, digits and `_`, so that it cannot pass where it would have to reach over any other
    /// character.
    pub fn is_of_one_word(&self) -> bool {
        match self.matcher {
            Matcher::Phrase { finder, .. } => {
                let text = finder.needle();
                !text.is_empty() && words_of(text).next().is_some_and(|word| word.len() == text.len())
            }
            _ => false,
        }
    }

    /// Whether a value may pass that has none of the words which `has` does not know. `false` is certain. Words are given as they
    /// are written; `has` may be asked in any case of letters.
    pub fn may_pass_with(&self, has: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        match self.matcher {
            Matcher::Phrase { finder, prefix } => whole_words(finder.needle(), false, *prefix).all(has),
            Matcher::Exact { text, prefix } => whole_words(text, false, *prefix).all(has),
            Matcher::Substring(finder) => whole_words(finder.needle(), true, true).all(has),
            Matcher::In(values) => values
                .iter()
                .any(|value| whole_words(value, false, false).all(&mut *has)),
            Matcher::Never => false,
            _ => true,
        }
    }
}

/// Whole numbers that pass a comparison, of those in a range.
fn bounded(all: (i128, i128), operator: Operator, number: Number) -> Option<(i128, i128)> {
    let (floor, is_whole) = match number {
        Number::Whole(whole) => (whole, true),
        Number::Float(float) if float.abs() < EXACT_MAX => (float.floor() as i128, float.fract() == 0.0),
        Number::Float(_) => return None,
    };
    // A negative zero is less than zero as a float.
    if matches!(number, Number::Float(float) if float == 0.0) {
        return None;
    }
    Some(match (operator, is_whole) {
        (Operator::Greater, _) | (Operator::GreaterOrEqual, false) => (floor.checked_add(1)?, all.1),
        (Operator::GreaterOrEqual, true) => (floor, all.1),
        (Operator::Less, true) => (all.0, floor.checked_sub(1)?),
        (Operator::Less, false) | (Operator::LessOrEqual, _) => (all.0, floor),
    })
}

/// Words of a text that are whole in every value with it: without the first and the last where those may go on.
fn whole_words(text: &[u8], starts_open: bool, ends_open: bool) -> impl Iterator<Item = &[u8]> {
    let range = text.as_ptr_range();
    words_of(text).filter(move |word| {
        let word = word.as_ptr_range();
        let is_open = starts_open && word.start == range.start || ends_open && word.end == range.end;
        !is_open
    })
}
