//! Tests of the time: how long ago, and from when to when.

use super::text::{Input, Parsed, blank, expect, fail, fail_at, has, has_keyword, rest};
use crate::ast::TimeTest;
use crate::number::duration_ns;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;
use jiff::{Span, Timestamp};
use winnow::Parser;
use winnow::stream::Location;
use winnow::token::take_while;

const HINT: &str = "write _time:10m, _time:2026-11-21, or _time:[2026-11-21T08:00, 2026-11-21T09:00)";

/// Reads what follows `_time:`.
pub(super) fn time_test(input: &mut Input<'_>) -> Parsed<TimeTest> {
    blank(input)?;
    let start = rest(input);
    let between = match start.chars().next() {
        Some('[' | '(') => range(input)?,
        Some('>' | '<') => compare(input)?,
        _ => {
            let offset = input.current_token_start();
            let word = word(input)?;
            if let Some(ns) = duration(word) {
                return last(input, word, ns);
            }
            instant(word, offset)?
        }
    };
    let length = start.len() - rest(input).len();
    Ok(TimeTest::Between {
        text: start.get(..length).unwrap_or_default().trim().to_owned(),
        first_ns: between.0,
        last_ns: between.1,
    })
}

fn duration(word: &str) -> Option<u64> {
    u64::try_from(duration_ns(word)?).ok().filter(|ns| *ns > 0)
}

fn word<'a>(input: &mut Input<'a>) -> Parsed<&'a str> {
    take_while(0.., |c: char| c.is_alphanumeric() || "-+:.".contains(c)).parse_next(input)
}

fn last(input: &mut Input<'_>, text: &str, ns: u64) -> Parsed<TimeTest> {
    let mut offset = None;
    if has_keyword(input, "offset")? {
        blank(input)?;
        let at = input.current_token_start();
        let word = word(input)?;
        match duration(word) {
            Some(ns) => offset = Some((word.to_owned(), ns)),
            None => return fail_at(at, "a length of time is missing", "write _time:5m offset 1h"),
        }
    }
    Ok(TimeTest::Last {
        text: text.to_owned(),
        ns,
        offset,
    })
}

fn compare(input: &mut Input<'_>) -> Parsed<(u64, u64)> {
    let signs = [">=", "<=", ">", "<"];
    for sign in signs {
        if has(input, sign)? {
            let (first, last) = read_instant(input)?;
            return Ok(match sign {
                ">=" => (first, u64::MAX),
                "<=" => (0, last),
                ">" => (last.saturating_add(1), u64::MAX),
                _ => (0, first.saturating_sub(1)),
            });
        }
    }
    fail(input, "a comparison is missing", HINT)
}

fn range(input: &mut Input<'_>) -> Parsed<(u64, u64)> {
    let is_included = has(input, "[")?;
    if !is_included {
        expect(input, "(", HINT)?;
    }
    let low = read_instant(input)?;
    expect(input, ",", HINT)?;
    let high = read_instant(input)?;
    let first = if is_included {
        low.0
    } else {
        low.1.saturating_add(1)
    };
    if has(input, "]")? {
        return Ok((first, high.1));
    }
    expect(input, ")", "[ ] include the end, ( ) do not")?;
    Ok((first, high.0.saturating_sub(1)))
}

fn read_instant(input: &mut Input<'_>) -> Parsed<(u64, u64)> {
    blank(input)?;
    let offset = input.current_token_start();
    let word = word(input)?;
    instant(word, offset)
}

fn instant(word: &str, offset: usize) -> Parsed<(u64, u64)> {
    match moments(word) {
        Some(found) => Ok(found),
        None if word.is_empty() => fail_at(offset, "a time is missing", HINT),
        None => fail_at(offset, format!("`{word}` is no time"), HINT),
    }
}

/// First and last nanosecond of what a time names: of a day, an hour, a minute, a second. Without a zone it is UTC.
fn moments(text: &str) -> Option<(u64, u64)> {
    let (local, zone) = split_zone(text)?;
    let (date, time) = local.split_once('T').unwrap_or((local, ""));
    let day = |text: String| text.parse::<Date>().ok();
    let (date, mut unit) = match date.len() {
        4 => (day(format!("{date}-01-01"))?, Span::new().years(1)),
        7 => (day(format!("{date}-01"))?, Span::new().months(1)),
        10 => (day(date.to_owned())?, Span::new().days(1)),
        _ => return None,
    };
    let mut clock = Time::midnight();
    if local.contains('T') {
        let (text, length) = match time.len() {
            2 => (format!("{time}:00:00"), Span::new().hours(1)),
            5 => (format!("{time}:00"), Span::new().minutes(1)),
            8 => (time.to_owned(), Span::new().seconds(1)),
            10..=18 => (
                time.to_owned(),
                Span::new().nanoseconds(10i64.pow(18 - time.len() as u32)),
            ),
            _ => return None,
        };
        (clock, unit) = (text.parse().ok()?, length);
    }
    let first = DateTime::from_parts(date, clock);
    let next = first.checked_add(unit).ok()?;
    let ns = |moment: DateTime| {
        let timestamp: Timestamp = zone.to_timestamp(moment).ok()?;
        u64::try_from(timestamp.as_nanosecond()).ok()
    };
    Some((ns(first)?, ns(next)?.checked_sub(1)?))
}

/// Splits `Z` or an offset such as `+02:00` from a time.
fn split_zone(text: &str) -> Option<(&str, Offset)> {
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return Some((local, Offset::UTC));
    }
    let clock_at = text.find('T').unwrap_or(text.len());
    let Some(at) = text.get(clock_at..)?.rfind(['+', '-']).map(|at| clock_at + at) else {
        return Some((text, Offset::UTC));
    };
    let (local, zone) = text.split_at(at);
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let number = |digits: &str| digits.parse::<u8>().ok().map(i32::from);
    let seconds = number(hours)? * 3600 + number(minutes)? * 60;
    let seconds = if zone.starts_with('-') { -seconds } else { seconds };
    Some((local, Offset::from_seconds(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_means_all_of_its_unit() {
        let day = 1_795_219_200_000_000_000;
        for (text, first, length) in [
            ("2026-11-21", day, 86_400_000_000_000),
            ("2026-11-21Z", day, 86_400_000_000_000),
            ("2026-11-21T12", day + 43_200_000_000_000, 3_600_000_000_000),
            ("2026-11-21T12:30", day + 45_000_000_000_000, 60_000_000_000),
            ("2026-11-21T12:30:05Z", day + 45_005_000_000_000, 1_000_000_000),
            ("2026-11-21T12:30:05.25Z", day + 45_005_250_000_000, 10_000_000),
            ("2026-11-21T02:00:00+02:00", day, 1_000_000_000),
            ("2026-11", day - 20 * 86_400_000_000_000, 30 * 86_400_000_000_000),
        ] {
            assert_eq!(moments(text), Some((first, first + length - 1)), "{text}");
        }
        for text in [
            "",
            "26-11-21",
            "2026-13-01",
            "2026-11-21T",
            "2026-11-21T25",
            "x",
            "2026-11-21T12:30:05+2",
            "2026-11-21T12:30:05+12:666666600",
            "2026-11-21T12:30:05+99999999:00",
        ] {
            assert_eq!(moments(text), None, "{text}");
        }
    }
}
