//! Sizes, times and permissions as people write them.

use std::time::Duration;

/// Units of bytes, the larger ones first.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Digits behind the point of a size that count.
const FRACTION_DIGITS_MAX: usize = 9;

/// Reads a size: `64 MiB`, `1.5GB`, `1000 B`.
///
/// # Errors
/// With what is wrong with it.
pub fn read_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    let Some((_, unit_bytes)) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) else {
        return Err(match unit {
            "" => "has no unit: write B, kB, MB, GB, TB, or KiB, MiB, GiB, TiB for powers of 1024".to_owned(),
            "k" | "K" | "m" | "M" | "g" | "G" | "t" | "T" => {
                let unit = unit.to_ascii_uppercase();
                let unit_1000 = unit.replace('K', "k");
                format!("has a unit of two meanings: write {unit_1000}B or {unit}iB")
            }
            _ => "is no size".to_owned(),
        });
    };
    let wrong = || "is no size".to_owned();
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || fraction.len() > FRACTION_DIGITS_MAX || number.ends_with('.') {
        return Err(wrong());
    }
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let bytes = digits
        .checked_mul(u128::from(*unit_bytes))
        .map(|bytes| bytes / divisor);
    bytes
        .and_then(|bytes| u64::try_from(bytes).ok())
        .ok_or_else(|| "is larger than any size".to_owned())
}

/// A size in the largest unit that says it without a rest.
pub fn size_text(bytes: u64) -> String {
    let fits = |(_, unit): &&(&str, u64)| bytes >= *unit && bytes.is_multiple_of(*unit);
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&("B", 1));
    format!("{} {name}", bytes / unit)
}

/// Units of time in nanoseconds, with the names that people write.
const TIMES: [(u64, &[&str]); 8] = [
    (1, &["ns"]),
    (1_000, &["us", "\u{b5}s"]),
    (1_000_000, &["ms", "millis", "milliseconds"]),
    (1_000_000_000, &["s", "sec", "secs", "second", "seconds"]),
    (60_000_000_000, &["m", "min", "mins", "minute", "minutes"]),
    (3_600_000_000_000, &["h", "hr", "hrs", "hour", "hours"]),
    (86_400_000_000_000, &["d", "day", "days"]),
    (604_800_000_000_000, &["w", "week", "weeks"]),
];

/// Reads a time span: `200ms`, `10m`, `1h 30m`, `7d`.
///
/// # Errors
/// With what is wrong with it.
pub fn read_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "is no time".to_owned();
    let mut rest = text.trim();
    if !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("has no unit: write ms, s, m, h or d".to_owned());
    }
    if rest.starts_with('-') {
        return Err("is negative".to_owned());
    }
    let mut all = Duration::ZERO;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        if matches!(unit, "mo" | "month" | "months" | "y" | "yr" | "year" | "years") {
            return Err("has a unit that is not always equally long: write days".to_owned());
        }
        let (unit_ns, _) = TIMES
            .iter()
            .find(|(_, names)| names.contains(&unit))
            .ok_or_else(wrong)?;
        let ns = u128::from(number) * u128::from(*unit_ns);
        let seconds = u64::try_from(ns / 1_000_000_000).map_err(|_| wrong())?;
        let part = Duration::new(seconds, (ns % 1_000_000_000) as u32);
        all = all.checked_add(part).ok_or_else(wrong)?;
        rest = after.trim_start_matches([' ', ',']);
        if rest.is_empty() {
            return Ok(all);
        }
    }
}

/// A time span in the largest unit that says it without a rest.
pub fn duration_text(time: Duration) -> String {
    const DAY_NS: u128 = 86_400_000_000_000;
    let units = [
        ("d", DAY_NS),
        ("h", DAY_NS / 24),
        ("m", DAY_NS / 1440),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let ns = time.as_nanos();
    let fits = |(_, unit): &&(&str, u128)| ns >= *unit && ns.is_multiple_of(*unit);
    let (name, unit) = units.iter().find(fits).unwrap_or(&("s", 1_000_000_000));
    format!("{}{name}", ns / unit)
}

/// Reads octal permissions: `0640`, `640`.
pub fn read_mode(text: &str) -> Option<u32> {
    let is_octal = text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let digits = is_octal && (3..=5).contains(&text.len());
    digits.then(|| u32::from_str_radix(text, 8).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("64 MiB", 64 << 20),
            ("64mib", 64 << 20),
            ("1GB", 1_000_000_000),
            ("1.5 GiB", 3 << 29),
            ("0.001 kB", 1),
            ("1_000 B", 1_000),
            ("0 B", 0),
            ("16777215 TiB", 16_777_215 << 40),
        ] {
            assert_eq!(read_size(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "64",
            "MiB",
            "64 M",
            "64 XB",
            "-1 B",
            "1.2.3 B",
            "1. B",
            ".5 B",
            "16777217 TiB",
        ] {
            assert!(read_size(text).is_err(), "{text}");
        }
        assert!(read_size(&format!("{} B", "9".repeat(100))).is_err());
        assert!(read_size("64 k").is_err_and(|why| why.contains("kB or KiB")));
        let texts = [64 << 20, 1_000_000, 1 << 10, 1_023, 0].map(size_text);
        assert_eq!(texts, ["64 MiB", "1 MB", "1 KiB", "1023 B", "0 B"]);
    }

    #[test]
    fn times_have_units() {
        for (text, expected) in [
            ("200ms", Duration::from_millis(200)),
            ("10m", Duration::from_secs(600)),
            ("1h 30m", Duration::from_secs(5_400)),
            ("7d", Duration::from_secs(7 * 86_400)),
            ("0s", Duration::ZERO),
        ] {
            assert_eq!(read_duration(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "10",
            "soon",
            "-5m",
            "1mo",
            "1y",
            "5m ago",
            "99999999999999999999s",
        ] {
            assert!(read_duration(text).is_err(), "{text}");
        }
        assert!(read_duration("7 months").is_err_and(|why| why.contains("write days")));
        let texts = [7 * 86_400_000, 5_400_000, 600_000, 1_500, 0].map(Duration::from_millis);
        assert_eq!(texts.map(duration_text), ["7d", "90m", "10m", "1500ms", "0s"]);
    }

    #[test]
    fn permissions_are_octal() {
        assert_eq!(read_mode("0640"), Some(0o640));
        assert_eq!(read_mode("640"), Some(0o640));
        assert_eq!(read_mode("00660"), Some(0o660));
        for text in ["", "64", "0680", "rw-r-----", "-640", "0o640", "1234567"] {
            assert_eq!(read_mode(text), None, "{text}");
        }
    }
}
