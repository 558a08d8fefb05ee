//! Columns of an export: which there are, and the kind that all values of one have.

use crate::limits::EXPORT_COLUMNS_MAX;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use logdrive_query::{Row, TIME};
use std::collections::HashMap;

/// Whole numbers up to which a float is exact.
const EXACT_MAX: u64 = 1 << 53;

/// Kinds of values that a column has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kinds {
    has_text: bool,
    has_truth: bool,
    has_float: bool,
    has_whole: bool,
    has_negative: bool,
    /// Whether a whole number is beyond those of 63 bits, and beyond those that are floats.
    has_large: bool,
    has_inexact: bool,
}

impl Kinds {
    fn add(&mut self, value: &[u8]) {
        match std::str::from_utf8(value).ok() {
            Some("true" | "false") => self.has_truth = true,
            Some(text) => match (text.parse::<u64>(), text.parse::<i64>(), float(text)) {
                // Numbers with zeros in front are texts, such as numbers of telephones.
                (Ok(number), ..) if number.to_string() == text => {
                    self.has_whole = true;
                    self.has_large |= i64::try_from(number).is_err();
                    self.has_inexact |= number > EXACT_MAX;
                }
                (_, Ok(number), _) if number.to_string() == text => {
                    self.has_whole = true;
                    self.has_negative = true;
                    self.has_inexact |= number.unsigned_abs() > EXACT_MAX;
                }
                (_, _, Some(_)) => self.has_float = true,
                _ => self.has_text = true,
            },
            None => self.has_text = true,
        }
    }

    fn data_type(self) -> DataType {
        let is_number = self.has_whole || self.has_float;
        match self {
            _ if self.has_text || self.has_truth && is_number => DataType::Utf8,
            _ if self.has_truth => DataType::Boolean,
            _ if self.has_float && self.has_inexact => DataType::Utf8,
            _ if self.has_float => DataType::Float64,
            _ if self.has_large && self.has_negative => DataType::Utf8,
            _ if self.has_large => DataType::UInt64,
            _ if self.has_whole => DataType::Int64,
            _ => DataType::Utf8,
        }
    }
}

/// A float that is written with digits alone.
pub(super) fn float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = !(digits.starts_with('0') && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit))
        && digits.starts_with(|c: char| c.is_ascii_digit());
    let number: f64 = text.parse().ok().filter(|_| is_plain)?;
    number.is_finite().then_some(number)
}

/// Columns that were found, in the order of their first values.
#[derive(Debug, Default)]
pub(super) struct Columns {
    names: HashMap<Box<[u8]>, usize>,
    kinds: Vec<(Box<[u8]>, Kinds)>,
}

impl Columns {
    /// Looks at the values of a row. Empty ones say nothing of the kind.
    pub(super) fn add(&mut self, row: &Row) {
        for (name, value) in &row.cells {
            let next = self.kinds.len();
            let number = match self.names.get(name) {
                Some(number) => *number,
                None if next >= EXPORT_COLUMNS_MAX => continue,
                None => {
                    self.names.insert(name.clone(), next);
                    self.kinds.push((name.clone(), Kinds::default()));
                    next
                }
            };
            if let Some((_, kinds)) = self.kinds.get_mut(number).filter(|_| !value.is_empty()) {
                kinds.add(value);
            }
        }
    }

    /// Number of the column of a name.
    pub(super) fn number_of(&self, name: &[u8]) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The schema.
    pub(super) fn schema(&self) -> Schema {
        let field = |(name, kinds): &(Box<[u8]>, Kinds)| {
            let data_type = match &**name == TIME.as_bytes() {
                true => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
                false => kinds.data_type(),
            };
            Field::new(String::from_utf8_lossy(name), data_type, true)
        };
        Schema::new(self.kinds.iter().map(field).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_the_kind_that_all_of_its_values_have() {
        for (values, expected) in [
            (vec!["1", "-7", ""], DataType::Int64),
            (vec!["1", "18446744073709551615"], DataType::UInt64),
            (vec!["-1", "18446744073709551615"], DataType::Utf8),
            (vec!["1", "2.5"], DataType::Float64),
            (vec!["9007199254740993", "2.5"], DataType::Utf8),
            (vec!["1.5", "-0.25", "1e300"], DataType::Float64),
            (vec!["007"], DataType::Utf8),
            (vec!["+1"], DataType::Utf8),
            (vec!["inf", "NaN"], DataType::Utf8),
            (vec!["true", "false"], DataType::Boolean),
            (vec!["true", "1"], DataType::Utf8),
            (vec!["ann", "1"], DataType::Utf8),
            (vec![""], DataType::Utf8),
        ] {
            let mut columns = Columns::default();
            for value in &values {
                let mut row = Row::default();
                row.push("x", value);
                columns.add(&row);
            }
            assert_eq!(*columns.schema().field(0).data_type(), expected, "{values:?}");
        }
    }
}
