//! Tests of one value.

use crate::ast::{Bound, Operator, Test};
use crate::number::Number;
use memchr::memmem::Finder;
use regex::bytes::Regex;

/// A test that is ready for values.
#[derive(Debug, Clone)]
pub(crate) enum Matcher {
    Phrase {
        finder: Finder<'static>,
        prefix: bool,
    },
    PhraseAnyCase {
        regex: Regex,
        prefix: bool,
    },
    /// Nothing can be like this.
    Never,
    Substring(Finder<'static>),
    Exact {
        text: Vec<u8>,
        prefix: bool,
    },
    Empty,
    Exists,
    In(Vec<Vec<u8>>),
    Compare(Operator, Number),
    Range(Bound, Bound),
    Regex(Regex),
}

/// Whether a byte belongs to a word: letters and digits of ASCII, `_`, and all that is beyond ASCII, as in the token
/// filters of segments.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Words of a text: runs of such bytes.
pub(crate) fn words_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !is_word(*byte)).filter(|word| !word.is_empty())
}

/// Whether what stands from `start` to `end` begins and ends with words, where it begins or ends with letters.
fn is_whole(value: &[u8], start: usize, end: usize, prefix: bool) -> bool {
    let is_word_at = |at: usize| value.get(at).is_some_and(|byte| is_word(*byte));
    let starts = start == 0 || !is_word_at(start) || !is_word_at(start - 1);
    let ends = prefix || !is_word_at(end) || end == 0 || !is_word_at(end - 1);
    starts && ends
}

impl Matcher {
    pub(crate) fn new(test: &Test) -> Self {
        let finder = |text: &str| Finder::new(text.as_bytes()).into_owned();
        match test {
            Test::Phrase {
                text,
                prefix,
                ignore_case: false,
            } => Self::Phrase {
                finder: finder(text),
                prefix: *prefix,
            },
            Test::Phrase { text, prefix, .. } => {
                let mut builder = regex::bytes::RegexBuilder::new(&regex::escape(text));
                // A text of a query is far below the limit of a pattern.
                match builder.case_insensitive(true).build() {
                    Ok(regex) => Self::PhraseAnyCase {
                        regex,
                        prefix: *prefix,
                    },
                    Err(_) => Self::Never,
                }
            }
            Test::Substring(text) => Self::Substring(finder(text)),
            Test::Exact { text, prefix } => Self::Exact {
                text: text.clone().into_bytes(),
                prefix: *prefix,
            },
            Test::Empty => Self::Empty,
            Test::Exists => Self::Exists,
            Test::In(values) => Self::In(values.iter().map(|value| value.clone().into_bytes()).collect()),
            Test::Compare { operator, number } => Self::Compare(*operator, number.number),
            Test::Range { low, high } => Self::Range(low.clone(), high.clone()),
            Test::Regex(pattern) => Self::Regex(pattern.0.clone()),
        }
    }

    /// Whether a value is as wanted.
    pub(crate) fn is_met_by(&self, value: &[u8]) -> bool {
        match self {
            Self::Phrase { finder, prefix } => {
                // Matches that overlap count: the first one may not be whole.
                let length = finder.needle().len();
                let mut from = 0;
                while let Some(at) = value.get(from..).and_then(|rest| finder.find(rest)) {
                    if is_whole(value, from + at, from + at + length, *prefix) {
                        return true;
                    }
                    from += at + 1;
                }
                false
            }
            Self::PhraseAnyCase { regex, prefix } => {
                let mut from = 0;
                while let Some(found) = (from <= value.len())
                    .then(|| regex.find_at(value, from))
                    .flatten()
                {
                    if is_whole(value, found.start(), found.end(), *prefix) {
                        return true;
                    }
                    from = found.start() + 1;
                }
                false
            }
            Self::Never => false,
            Self::Substring(finder) => finder.find(value).is_some(),
            Self::Exact { text, prefix: false } => value == text,
            Self::Exact { text, .. } => value.starts_with(text),
            Self::Empty => value.is_empty(),
            Self::Exists => !value.is_empty(),
            Self::In(values) => values.iter().any(|wanted| wanted == value),
            Self::Compare(..) | Self::Range(..) => {
                Number::read(value).is_some_and(|value| self.passes_number(value))
            }
            Self::Regex(regex) => regex.is_match(value),
        }
    }

    /// Whether a number passes a comparison; none passes another test.
    pub(crate) fn passes_number(&self, value: Number) -> bool {
        match self {
            Self::Compare(operator, number) => operator.holds(value.compare(*number)),
            Self::Range(low, high) => is_between(value, low, high),
            _ => false,
        }
    }

    /// Text that stands in each value that passes, as it is.
    pub(crate) fn literal(&self) -> Option<&[u8]> {
        let text = match self {
            Self::Phrase { finder, .. } | Self::Substring(finder) => finder.needle(),
            Self::Exact { text, .. } => text,
            _ => return None,
        };
        (!text.is_empty()).then_some(text)
    }
}

fn is_between(value: Number, low: &Bound, high: &Bound) -> bool {
    let passes = |bound: &Bound, inside: std::cmp::Ordering| {
        bound.number.as_ref().is_none_or(|end| {
            let order = value.compare(end.number);
            order == inside || (bound.included && order.is_eq())
        })
    };
    passes(low, std::cmp::Ordering::Greater) && passes(high, std::cmp::Ordering::Less)
}
