//! Tests against the summary of a column: whether any of its values may pass, before the column is read.

use super::column_test::is_text;
use crate::record_values::own_part;
use logdrive_query::{Plan, ValueTest};
use logdrive_store::{BlockHead, ColumnSummary, GroupColumn, GroupKind, TokenFilter};
use logdrive_wire::Kind;

/// Digits behind the point of doubles that are not known.
const UNKNOWN_DIGITS: u8 = 255;

/// Summary of a column with what it takes to ask it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Summary<'a> {
    kind: Kind,
    summary: ColumnSummary,
    filter: TokenFilter<'a>,
}

impl<'a> Summary<'a> {
    pub(super) fn new(head: &'a BlockHead, group: usize, column: usize, kind: Kind) -> Self {
        Self {
            kind,
            summary: head.summary(group, column),
            filter: head.filter(),
        }
    }

    /// Whether a value may pass. `false` is certain.
    pub(super) fn may_pass(&self, test: ValueTest<'_>) -> bool {
        match self.summary {
            ColumnSummary::Integers { least, largest, .. } if self.is_whole() => {
                if let Some((low, high)) = test.whole_range() {
                    let (low, high) = (low.max(self.number(least)), high.min(self.number(largest)));
                    return low <= high && (low < high || self.may_have_number(low.unsigned_abs()));
                }
            }
            ColumnSummary::Doubles { least, largest, .. } if test.is_of_numbers() => {
                return test.may_pass_between(f64::from_bits(least), f64::from_bits(largest));
            }
            _ => {}
        }
        test.may_pass_with(&mut |word| self.may_have_word(word))
    }

    /// Whether a value may have a word as a whole.
    pub(super) fn may_have_word(&self, word: &[u8]) -> bool {
        if !may_write(self.kind, word) {
            return false;
        }
        match self.summary {
            ColumnSummary::Tokens => !is_text(self.kind) || self.filter.may_have(word),
            ColumnSummary::Integers { least, largest, .. } if self.is_whole() => {
                let Some(number) = number_of(word) else {
                    return false;
                };
                let range = self.number(least)..=self.number(largest);
                let wide = i128::from(number);
                (range.contains(&wide) || range.contains(&-wide)) && self.may_have_number(wide.unsigned_abs())
            }
            ColumnSummary::Doubles {
                digits,
                least,
                largest,
            } => {
                let most = f64::from_bits(least).abs().max(f64::from_bits(largest).abs());
                may_have_digits(word, digits, most)
            }
            _ => true,
        }
    }

    fn is_whole(&self) -> bool {
        is_signed(self.kind) || matches!(self.kind, Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64)
    }

    /// The number that is stored so.
    fn number(&self, stored: u64) -> i128 {
        match is_signed(self.kind) {
            true => i128::from((stored ^ 1 << 63).cast_signed()),
            false => i128::from(stored),
        }
    }

    fn may_have_number(&self, number: u128) -> bool {
        match self.summary {
            ColumnSummary::Integers { in_filter: true, .. } => {
                u64::try_from(number).is_ok_and(|number| self.filter.may_have_number(number))
            }
            _ => true,
        }
    }
}

/// Whether a record of a group may pass. `false` is certain.
pub(super) fn may_pass_group(query: &Plan, head: &BlockHead, group: usize) -> bool {
    let kind = head.groups().nth(group).map(|(kind, _)| kind);
    if !matches!(kind, Some(GroupKind::Fixed { .. } | GroupKind::Dynamic { .. })) {
        return true;
    }
    let fields = head.fields(group).unwrap_or_default();
    // They have fields of their own, or text that is in no column.
    let is_other = |column: &GroupColumn| matches!(column.kind.kind, Kind::Scope | Kind::Message);
    if fields.iter().any(is_other) {
        return true;
    }
    query.may_hold(&mut |field, test| {
        let Some(field) = field.filter(|field| own_part(field).is_none()) else {
            return true;
        };
        let mut columns = fields.iter().enumerate();
        test.is_for_empty()
            || columns.any(|(number, column)| {
                column.name == field && Summary::new(head, group, number, column.kind.kind).may_pass(test)
            })
    })
}

fn is_signed(kind: Kind) -> bool {
    matches!(kind, Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64)
}

/// The number that is written so, without zeros in front.
fn number_of(word: &[u8]) -> Option<u64> {
    let number: u64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == word).then_some(number)
}

/// Whether values of a kind may be written with a word.
fn may_write(kind: Kind, word: &[u8]) -> bool {
    match kind {
        Kind::Bool => matches!(word, b"true" | b"false"),
        Kind::Char => word.len() <= char::MAX.len_utf8(),
        Kind::Pointer => word.starts_with(b"0x"),
        // With an exponent, or no number.
        Kind::F32 | Kind::F64 => word.iter().all(|byte| b"0123456789aefinN".contains(byte)),
        Kind::I128 | Kind::U128 => word.iter().all(u8::is_ascii_digit),
        _ => true,
    }
}

/// Whether doubles with so many digits behind the point, of at most this size, may be written with a word.
fn may_have_digits(word: &[u8], digits: u8, most: f64) -> bool {
    let is_before_point = number_of(word).is_none_or(|number| number as f64 <= most);
    digits == UNKNOWN_DIGITS || word.len() <= usize::from(digits) || is_before_point
}
