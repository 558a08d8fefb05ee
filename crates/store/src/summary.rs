//! Summaries: what a head says of the values of each column, so that a reader leaves columns and blocks out unread.
//!
//! They stand between the dictionary and the filter, where a reader that does not know them looks at nothing.

use crate::bytes::{Compressor, Input, decompress, put_varint};
use crate::error::StoreError;
use crate::limits::HEAD_BYTES_MAX;

const UNKNOWN: u8 = 0;
const INTEGERS: u8 = 1;
const INTEGERS_IN_FILTER: u8 = 2;
const TOKENS: u8 = 3;
const DOUBLES: u8 = 4;

/// Values of a column as the head of its block sums them up.
///
/// ```
/// use logdrive_store::ColumnSummary;
/// assert_eq!(ColumnSummary::default(), ColumnSummary::Unknown);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ColumnSummary {
    /// Nothing is known: any value may be there.
    #[default]
    Unknown,
    /// Integers in the order of unsigned numbers, as they are stored.
    Integers {
        /// The least of them.
        least: u64,
        /// The largest of them.
        largest: u64,
        /// Whether the filter has all of them.
        in_filter: bool,
    },
    /// Text of which the filter has all tokens.
    Tokens,
    /// Doubles without one that is no number.
    Doubles {
        /// Digits behind the point at most, or 255 where they are not known.
        digits: u8,
        /// Bits of the least of them.
        least: u64,
        /// Bits of the largest of them.
        largest: u64,
    },
}

impl ColumnSummary {
    /// Sums the bits of doubles up.
    pub(crate) fn of_doubles(values: &[u64], digits: u8) -> Self {
        let (mut least, mut largest, mut has_others) = (f64::INFINITY, f64::NEG_INFINITY, false);
        for bits in values {
            let value = f64::from_bits(*bits);
            // Comparisons alone, which are one instruction each: none holds for one that is no number.
            least = if value < least { value } else { least };
            largest = if value > largest { value } else { largest };
            has_others |= value.is_nan();
        }
        match has_others || values.is_empty() {
            true => Self::Unknown,
            false => Self::Doubles {
                digits,
                least: least.to_bits(),
                largest: largest.to_bits(),
            },
        }
    }

    fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Unknown => out.push(UNKNOWN),
            Self::Integers {
                least,
                largest,
                in_filter,
            } => {
                out.push(if in_filter { INTEGERS_IN_FILTER } else { INTEGERS });
                put_varint(out, least);
                put_varint(out, largest - least.min(largest));
            }
            Self::Tokens => out.push(TOKENS),
            Self::Doubles {
                digits,
                least,
                largest,
            } => {
                out.extend([DOUBLES, digits]);
                out.extend_from_slice(&least.to_le_bytes());
                out.extend_from_slice(&largest.to_le_bytes());
            }
        }
    }

    /// Reads one; `None` for a kind that is not known.
    fn read(input: &mut Input<'_>) -> Result<Option<Self>, StoreError> {
        Ok(Some(match input.u8()? {
            UNKNOWN => Self::Unknown,
            kind @ (INTEGERS | INTEGERS_IN_FILTER) => {
                let least = input.varint()?;
                Self::Integers {
                    least,
                    largest: least.saturating_add(input.varint()?),
                    in_filter: kind == INTEGERS_IN_FILTER,
                }
            }
            TOKENS => Self::Tokens,
            DOUBLES => Self::Doubles {
                digits: input.u8()?,
                least: u64::from_le_bytes(input.array()?),
                largest: u64::from_le_bytes(input.array()?),
            },
            _ => return Ok(None),
        }))
    }
}

/// Writes the summaries of all columns, and behind them the level of zstd of the columns where it is not the usual one; nothing
/// where nothing is known.
pub(crate) fn put_all(
    summaries: impl Iterator<Item = ColumnSummary>,
    zstd_level: Option<u8>,
    compressor: &mut Compressor,
    out: &mut Vec<u8>,
) {
    let mut bytes = Vec::new();
    summaries.for_each(|summary| summary.put(&mut bytes));
    bytes.extend(zstd_level);
    if bytes.iter().any(|byte| *byte != UNKNOWN) {
        compressor.put(out, &bytes);
    }
}

/// Reads the summaries of so many columns, and the level of zstd. Where a kind is not known, nothing is known of what follows it:
/// then there are fewer, and there is no level.
pub(crate) fn read_all(
    input: &mut Input<'_>,
    columns: usize,
) -> Result<(Vec<ColumnSummary>, Option<u8>), StoreError> {
    let mut summaries = Vec::new();
    if input.is_empty() {
        return Ok((summaries, None));
    }
    let bytes = decompress(input, HEAD_BYTES_MAX)?;
    let mut rest = Input::new(&bytes, "summaries");
    while summaries.len() < columns {
        match ColumnSummary::read(&mut rest)? {
            Some(summary) => summaries.push(summary),
            None => return Ok((summaries, None)),
        }
    }
    Ok((summaries, rest.u8().ok()))
}
