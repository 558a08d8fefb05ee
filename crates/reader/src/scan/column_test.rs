//! Tests of the values of a column: once for what is constant, once for each entry of a dictionary, by comparing integers as they
//! are stored; values become text only where nothing else decides.

use logdrive_query::{Selection, ValueTest};
use logdrive_store::{StoredColumn, StoredTexts, StoredValues, Texts};
use logdrive_wire::Kind;

/// Question to a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ask<'a> {
    Test(ValueTest<'a>),
    /// Whether there is a value other than an empty one.
    NotEmpty,
}

impl Ask<'_> {
    pub(crate) fn passes(&self, value: &[u8]) -> bool {
        match self {
            Self::Test(test) => test.passes(value),
            Self::NotEmpty => !value.is_empty(),
        }
    }

    pub(crate) fn is_of_one_word(&self) -> bool {
        matches!(self, Self::Test(test) if test.is_of_one_word())
    }
}

/// Whether values are text in columns of text.
pub(super) fn is_text(kind: Kind) -> bool {
    matches!(kind, Kind::Str | Kind::Bytes | Kind::Display | Kind::Debug)
}

/// Rows of which the value is as asked; for rows out of `within` the answer means nothing.
pub(crate) fn column_rows(column: &StoredColumn, kind: Kind, ask: &Ask<'_>, within: &Selection) -> Selection {
    let Some(present) = &column.present else {
        return values_that_pass(&column.values, kind, ask, Some(within), within.batch_length());
    };
    let count = present.iter().filter(|is_present| **is_present == 1).count();
    let values = values_that_pass(&column.values, kind, ask, None, count);
    let mut rows = Selection::none(present.len());
    let places = present
        .iter()
        .enumerate()
        .filter(|(_, is_present)| **is_present == 1);
    for (value, (row, _)) in places.enumerate() {
        if values.contains(value) {
            rows.insert(row);
        }
    }
    rows
}

fn values_that_pass(
    values: &StoredValues,
    kind: Kind,
    ask: &Ask<'_>,
    within: Option<&Selection>,
    count: usize,
) -> Selection {
    let of_constant = |passes: bool| match passes {
        true => Selection::all(count),
        false => Selection::none(count),
    };
    match values {
        StoredValues::Nothing => Selection::none(count),
        StoredValues::Integers(values) => integers(values, kind, ask),
        StoredValues::Wide(low, high) => {
            let text = |low: u64, high: u64| {
                let wide = u128::from(high) << 64 | u128::from(low);
                match kind {
                    Kind::I128 => wide.cast_signed().to_string(),
                    _ => wide.to_string(),
                }
            };
            let pairs: Vec<(u64, u64)> = low.iter().copied().zip(high.iter().copied()).collect();
            Selection::of_values(&pairs, |(low, high)| ask.passes(text(low, high).as_bytes()))
        }
        StoredValues::Texts(StoredTexts::Constant(value)) => of_constant(ask.passes(value)),
        StoredValues::Texts(StoredTexts::Dictionary(entries, places)) => {
            let passing: Vec<bool> = entries.values().map(|entry| ask.passes(entry)).collect();
            if !passing.contains(&true) {
                return Selection::none(count);
            }
            Selection::of_values(places, |place| passing.get(place as usize) == Some(&true))
        }
        StoredValues::Texts(StoredTexts::Plain(texts)) => plain(texts, ask, within),
    }
}

/// Values that stand one behind the other: a literal is searched in all of them at once.
fn plain(texts: &Texts, ask: &Ask<'_>, within: Option<&Selection>) -> Selection {
    let mut found = Selection::none(texts.len());
    let literal = match ask {
        Ask::Test(test) => test.literal(),
        Ask::NotEmpty => None,
    };
    if let Some(literal) = literal {
        let finder = memchr::memmem::Finder::new(literal);
        let mut from = 0;
        while let Some(at) = texts.bytes().get(from..).and_then(|rest| finder.find(rest)) {
            let at = from + at;
            let number = texts.number_at(at);
            let end = texts.end(number);
            // A literal may be found over the border of two values; then one within the next may begin at any byte.
            from = if at + literal.len() > end { at + 1 } else { end };
            if ask.passes(texts.value(number)) {
                found.insert(number);
            }
        }
        return found;
    }
    let mut test = |number: usize| {
        if ask.passes(texts.value(number)) {
            found.insert(number);
        }
    };
    match within {
        Some(within) => within.iter().for_each(&mut test),
        None => (0..texts.len()).for_each(&mut test),
    }
    found
}

fn integers(values: &[u64], kind: Kind, ask: &Ask<'_>) -> Selection {
    let (is_signed, is_unsigned) = match kind {
        Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => (true, false),
        Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 => (false, true),
        _ => (false, false),
    };
    let test = match ask {
        // A number is never empty text.
        Ask::NotEmpty if kind != Kind::Char => return Selection::all(values.len()),
        Ask::NotEmpty => return texts_of(values, kind, ask),
        Ask::Test(test) => test,
    };
    if is_signed || is_unsigned {
        // An integer is written with digits alone.
        let is_foreign = |byte: &u8| !byte.is_ascii_digit() && *byte != b'-';
        let literal = test.literal().unwrap_or_default();
        if literal.iter().any(is_foreign) {
            return Selection::none(values.len());
        }
        let bounds = match is_signed {
            true => (i128::from(i64::MIN), i128::from(i64::MAX)),
            false => (0, i128::from(u64::MAX)),
        };
        if let Some((low, high)) = test.whole_range() {
            let (low, high) = (low.max(bounds.0), high.min(bounds.1));
            if low > high {
                return Selection::none(values.len());
            }
            // Stored values have the order of unsigned numbers.
            let stored = |number: i128| (number - bounds.0) as u64;
            let (low, span) = (stored(low), stored(high) - stored(low));
            return Selection::of_values(values, |value| value.wrapping_sub(low) <= span);
        }
    }
    if kind == Kind::F64 && test.is_of_numbers() {
        return Selection::of_values(values, |bits| test.passes_float(f64::from_bits(bits)));
    }
    texts_of(values, kind, ask)
}

/// Tests integers as text, equal neighbours once.
fn texts_of(values: &[u64], kind: Kind, ask: &Ask<'_>) -> Selection {
    let mut found = Selection::none(values.len());
    let mut last: Option<(u64, bool)> = None;
    for (number, value) in values.iter().enumerate() {
        let passes = match last {
            Some((before, passes)) if before == *value => passes,
            _ => ask.passes(text_of(*value, kind).as_bytes()),
        };
        last = Some((*value, passes));
        if passes {
            found.insert(number);
        }
    }
    found
}

/// A stored integer as the layouts write it behind a key.
fn text_of(value: u64, kind: Kind) -> String {
    match kind {
        Kind::Bool => (value != 0).to_string(),
        Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => (value ^ 1 << 63).cast_signed().to_string(),
        Kind::F32 => format!("{:?}", f32::from_bits(value as u32)),
        Kind::F64 => format!("{:?}", f64::from_bits(value)),
        Kind::Char => char::from_u32(value as u32).map(String::from).unwrap_or_default(),
        Kind::Pointer => format!("{value:#x}"),
        _ => value.to_string(),
    }
}
