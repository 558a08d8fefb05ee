//! Numbers of queries and of fields: whole ones exactly, others as floats, with units of bytes and of time.

use std::cmp::Ordering;

/// A number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Whole(i128),
    Float(f64),
}

/// Units behind a number, and their factors. Times are nanoseconds, as in LogsQL.
const UNITS: [(&str, i128); 21] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("B", 1),
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
];

/// Units of longer times, which may follow each other: `1h30m`.
const TIMES: [(&str, i128); 5] = [
    ("w", 7 * 86_400_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
];

impl Number {
    /// Reads the whole text as a number, perhaps with a unit: `5`, `-1.5`, `10KiB`, `250ms`, `1h30m`.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let last = *text.last()?;
        if !text
            .first()
            .is_some_and(|byte| byte.is_ascii_digit() || b"-+.".contains(byte))
            || text.len() > 64
        {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        if last.is_ascii_digit() {
            return Self::plain(text);
        }
        Self::with_unit(text).or_else(|| duration_ns(text).map(Self::Whole))
    }

    fn plain(text: &str) -> Option<Self> {
        if let Ok(whole) = text.parse() {
            return Some(Self::Whole(whole));
        }
        let float: f64 = text.parse().ok()?;
        float.is_finite().then_some(Self::Float(float))
    }

    fn with_unit(text: &str) -> Option<Self> {
        let (unit, factor) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
        Some(match Self::plain(&text[..text.len() - unit.len()])? {
            Self::Whole(whole) => Self::Whole(whole.checked_mul(*factor)?),
            Self::Float(float) => Self::Float(float * *factor as f64),
        })
    }

    /// The number as a float.
    pub(crate) fn float(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Float(float) => float,
        }
    }

    /// Order of two numbers; whole ones are more exact than floats can be.
    pub(crate) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(own), Self::Whole(other)) => own.cmp(&other),
            _ => self.float().total_cmp(&other.float()),
        }
    }
}

/// Reads a length of time such as `90s`, `1.5h` or `1h30m`, in nanoseconds.
pub(crate) fn duration_ns(text: &str) -> Option<i128> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0i128;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(digits);
        let short = UNITS
            .iter()
            .filter(|(unit, _)| unit.ends_with('s') && !unit.starts_with('K'));
        let (unit, factor) = short.chain(&TIMES).find(|(unit, _)| {
            behind
                .strip_prefix(unit)
                .is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
        })?;
        let part = match Number::plain(number)? {
            Number::Whole(whole) => whole.checked_mul(*factor)?,
            Number::Float(float) => (float * *factor as f64) as i128,
        };
        sum = sum.checked_add(part)?;
        rest = &behind[unit.len()..];
    }
    (sum < i128::from(i64::MAX)).then_some(if negative { -sum } else { sum })
}

/// Order of two values: numbers by what they are, before texts, which are ordered by their bytes.
pub(crate) fn compare_values(own: &[u8], other: &[u8]) -> Ordering {
    match (Number::read(own), Number::read(other)) {
        (Some(own), Some(other)) => own.compare(other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => own.cmp(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (text, expected) in [
            ("7", 7.0),
            ("-1.5", -1.5),
            ("1e3", 1000.0),
            ("10KiB", 10_240.0),
            ("1.5K", 1500.0),
            ("250ms", 250_000_000.0),
            ("1h30m", 5_400_000_000_000.0),
            ("2s", 2_000_000_000.0),
            ("3µs", 3_000.0),
        ] {
            let found = Number::read(text.as_bytes()).expect(text);
            assert_eq!(found.float(), expected, "{text}");
        }
        for text in [
            "", "x", "7x", "NaN", "inf", "-", "1 2", "m", "1h30", "--1", "1msx", "7é",
        ] {
            assert!(Number::read(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn large_whole_numbers_are_told_apart() {
        let [one, two] = ["9007199254740993", "9007199254740992"].map(str::as_bytes);
        assert_eq!(compare_values(one, two), Ordering::Greater);
        assert_eq!(compare_values(b"10", b"9"), Ordering::Greater);
        assert_eq!(compare_values(b"9", b"a"), Ordering::Less);
    }
}
