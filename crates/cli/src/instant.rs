//! Points in time and lengths of time, as people type and read them.

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp, Zoned};
use logdrive_reader::read_iso;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Which end of a day a date means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Its first moment.
    First,
    /// Its last moment.
    Last,
}

/// Reads a time as people type it, in a zone where it names none.
///
/// # Errors
/// With what may be typed.
pub(crate) fn read_instant_in(
    text: &str,
    edge: Edge,
    now_unix_ns: u64,
    zone: &TimeZone,
) -> Result<u64, String> {
    let text = text.trim();
    let now = Timestamp::from_nanosecond(i128::from(now_unix_ns))
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_zoned(zone.clone());
    let found = read_moment(text, zone)
        .or_else(|| edge.of_day(read_date(text)?, zone))
        .or_else(|| read_moment(&format!("{}T{text}", now.date()), zone))
        .or_else(|| read_ago(text, &now))
        .or_else(|| read_english(text, edge, &now));
    found.ok_or_else(|| {
        "write a time such as 2026-11-21T12:34:56Z, a date, a time of today such as 12:34, how long ago: 90s, 10m, 2h, 3d, \
         or 'yesterday 14:00', 'last friday', '10 minutes ago'"
            .to_owned()
    })
}

impl Edge {
    /// The first or the last moment of a day.
    fn of_day(self, day: Date, zone: &TimeZone) -> Option<u64> {
        let midnight = |day: Date| nanoseconds(zone.to_timestamp(day.at(0, 0, 0, 0)).ok()?);
        match self {
            Self::First => midnight(day),
            Self::Last => midnight(day.tomorrow().ok()?)?.checked_sub(1),
        }
    }
}

/// Reads a date with a time; seconds may be missing.
fn read_moment(text: &str, zone: &TimeZone) -> Option<u64> {
    let unix_ns = read_iso(text).or_else(|| read_iso(&format!("{text}:00")))?;
    // Behind the date a sign can only be that of an offset.
    let clock = text.get(10..).unwrap_or_default();
    if clock.contains(['Z', 'z', '+', '-']) {
        return Some(unix_ns);
    }
    let time = Timestamp::from_nanosecond(i128::from(unix_ns)).ok()?;
    nanoseconds(zone.to_timestamp(Offset::UTC.to_datetime(time)).ok()?)
}

fn read_date(text: &str) -> Option<Date> {
    // Nothing else that begins with a date is one.
    (text.len() == 10).then(|| text.parse().ok()).flatten()
}

fn read_ago(text: &str, now: &Zoned) -> Option<u64> {
    let text = text.strip_suffix("ago").unwrap_or(text).trim();
    let text = match text.strip_prefix("an ").or_else(|| text.strip_prefix("a ")) {
        Some(unit) => format!("1 {unit}"),
        None => text.to_owned(),
    };
    let span: Span = text.parse().ok()?;
    if span.is_negative() {
        return None;
    }
    nanoseconds(now.checked_sub(span).ok()?.timestamp())
}

/// Reads a day in English with a time behind it or none: `today`, `yesterday 14:00`, `last friday 8am`, and `now`,
/// `last week`. A weekday is the last one that has begun; with `last`, before today.
fn read_english(text: &str, edge: Edge, now: &Zoned) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let (day, clock) = match text.strip_prefix("last ") {
        Some("week" | "month" | "year") => return read_ago(&format!("1 {}", text.get(5..)?), now),
        Some(rest) => (last_weekday(rest, now.date().yesterday().ok()?), rest),
        None => (None, text.as_str()),
    };
    let (word, clock) = clock.split_once(' ').unwrap_or((clock, ""));
    let today = now.date();
    let day = match word {
        "now" if clock.is_empty() => return nanoseconds(now.timestamp()),
        "today" => today,
        "yesterday" => today.yesterday().ok()?,
        _ => day.or_else(|| last_weekday(word, today))?,
    };
    if clock.is_empty() {
        return edge.of_day(day, now.time_zone());
    }
    let clock = clock.trim_start_matches("at ").trim();
    read_moment(&format!("{day}T{}", clock_of(clock)?), now.time_zone())
}

/// The last day up to `latest` of the weekday that a text begins with.
fn last_weekday(text: &str, latest: Date) -> Option<Date> {
    let word = text.split(' ').next()?;
    let weekdays = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    let is_meant = |name: &&str| *name == word || name.get(..3) == Some(word);
    let wanted = weekdays.iter().position(is_meant)? as i64;
    let behind = (i64::from(latest.weekday().to_monday_zero_offset()) - wanted).rem_euclid(7);
    latest.checked_sub(Span::new().days(behind)).ok()
}

/// A time of day with hours of one or two digits, or of the twelve-hour clock: `14:00`, `8am`, `8:30 pm`.
fn clock_of(text: &str) -> Option<String> {
    let (digits, half) = match text.strip_suffix("am").or_else(|| text.strip_suffix("pm")) {
        Some(digits) => (digits.trim(), Some(text.ends_with("pm"))),
        None => (text, None),
    };
    let (hour, rest) = digits.split_once(':').unwrap_or((digits, "00"));
    let mut hour: u32 = hour.parse().ok()?;
    if let Some(is_afternoon) = half {
        (1..=12).contains(&hour).then_some(())?;
        hour = hour % 12 + if is_afternoon { 12 } else { 0 };
    } else if !digits.contains(':') {
        return None;
    }
    Some(format!("{hour:02}:{rest}"))
}

/// Reads a duration such as `30s`, `10m` or `1h30m`, in nanoseconds; `None` for what is no duration, or none at all.
fn read_span(text: &str) -> Option<u64> {
    let span: Span = text.trim().parse().ok()?;
    // Days are 24 hours long here: a change ends after a time, not at one.
    let length = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?;
    u64::try_from(length.as_nanos()).ok().filter(|ns| *ns > 0)
}

/// Reads how long something holds, as an argument.
///
/// # Errors
/// With what may be typed.
pub(crate) fn span_argument(text: &str) -> Result<u64, String> {
    read_span(text).ok_or_else(|| "write a time such as 30s, 10m, 2h or 1d".to_owned())
}

/// Reads how often something is looked at, from `least_ms` to an hour, as an argument; in nanoseconds.
///
/// # Errors
/// With what may be typed.
pub(crate) fn interval_argument(text: &str, least_ms: u64) -> Result<u64, String> {
    let interval_ns = read_span(text);
    interval_ns
        .filter(|ns| (least_ms * 1_000_000..=3_600 * SECOND_NS).contains(ns))
        .ok_or_else(|| format!("write a time from {least_ms}ms to 1h, such as 500ms or 2s"))
}

/// Returns an age in its two largest units: `3 min 12 s`.
pub(crate) fn age_text(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    let largest = units
        .iter()
        .position(|(_, length)| seconds >= *length)
        .unwrap_or(3);
    let mut rest = seconds;
    let mut text = String::new();
    for (name, length) in units.iter().skip(largest).take(2) {
        let count = rest / length;
        rest %= length;
        if count > 0 || text.is_empty() {
            text.push_str(&format!(
                "{}{count} {name}",
                if text.is_empty() { "" } else { " " }
            ));
        }
    }
    text
}

/// Now.
pub(crate) fn now_unix_ns() -> u64 {
    nanoseconds(Timestamp::now()).unwrap_or(0)
}

fn nanoseconds(time: Timestamp) -> Option<u64> {
    u64::try_from(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_reader::iso_text;

    const TIME: u64 = 1_795_264_496_123_456_789;

    #[test]
    fn what_people_type_is_understood() {
        let read = |text: &str, edge| read_instant_in(text, edge, TIME, &TimeZone::UTC).map(iso_text);
        // It is a Saturday.
        for (text, edge, expected) in [
            (
                "2026-11-21T12:34:56Z",
                Edge::First,
                "2026-11-21T12:34:56.000000000Z",
            ),
            ("2026-11-21 12:34", Edge::First, "2026-11-21T12:34:00.000000000Z"),
            ("2026-11-20", Edge::First, "2026-11-20T00:00:00.000000000Z"),
            ("2026-11-20", Edge::Last, "2026-11-20T23:59:59.999999999Z"),
            ("08:15", Edge::First, "2026-11-21T08:15:00.000000000Z"),
            ("08:15:30.5", Edge::Last, "2026-11-21T08:15:30.500000000Z"),
            ("10m", Edge::First, "2026-11-21T12:24:56.123456789Z"),
            ("2h ago", Edge::First, "2026-11-21T10:34:56.123456789Z"),
            ("1d 30s", Edge::First, "2026-11-20T12:34:26.123456789Z"),
            ("10 minutes ago", Edge::First, "2026-11-21T12:24:56.123456789Z"),
            ("an hour ago", Edge::First, "2026-11-21T11:34:56.123456789Z"),
            (
                "1 hour 5 minutes ago",
                Edge::First,
                "2026-11-21T11:29:56.123456789Z",
            ),
            ("last week", Edge::First, "2026-11-14T12:34:56.123456789Z"),
            ("now", Edge::First, "2026-11-21T12:34:56.123456789Z"),
            ("today", Edge::First, "2026-11-21T00:00:00.000000000Z"),
            ("Yesterday 14:00", Edge::First, "2026-11-20T14:00:00.000000000Z"),
            ("yesterday", Edge::Last, "2026-11-20T23:59:59.999999999Z"),
            ("last friday", Edge::First, "2026-11-20T00:00:00.000000000Z"),
            ("last saturday", Edge::First, "2026-11-14T00:00:00.000000000Z"),
            ("saturday 8am", Edge::First, "2026-11-21T08:00:00.000000000Z"),
            ("mon at 9:05 pm", Edge::First, "2026-11-16T21:05:00.000000000Z"),
        ] {
            assert_eq!(read(text, edge).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "10",
            "-5m",
            "soon",
            "2026-11-31",
            "25:00",
            "yesterday 25:00",
            "friday 13pm",
            "next friday",
            "2026-11-21T12:34:56Zx",
        ] {
            assert!(
                read(text, Edge::First).is_err_and(|error| error.contains("12:34")),
                "{text}"
            );
        }
    }

    #[test]
    fn times_without_a_zone_are_of_the_zone_that_is_asked_for() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a good zone");
        let read = |text: &str, edge| read_instant_in(text, edge, TIME, &zone).map(iso_text);
        for (text, edge, expected) in [
            (
                "2026-11-21T12:34:56",
                Edge::First,
                "2026-11-21T11:34:56.000000000Z",
            ),
            (
                "2026-11-21T12:34:56Z",
                Edge::First,
                "2026-11-21T12:34:56.000000000Z",
            ),
            (
                "2026-11-21T12:34:56+03:00",
                Edge::First,
                "2026-11-21T09:34:56.000000000Z",
            ),
            ("2026-07-20", Edge::First, "2026-07-19T22:00:00.000000000Z"),
            ("2026-10-25", Edge::Last, "2026-10-25T22:59:59.999999999Z"),
            ("13:00", Edge::First, "2026-11-21T12:00:00.000000000Z"),
            ("yesterday 14:00", Edge::First, "2026-11-20T13:00:00.000000000Z"),
            ("10m", Edge::First, "2026-11-21T12:24:56.123456789Z"),
        ] {
            assert_eq!(read(text, edge).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn ages_have_two_units_at_most() {
        let texts = [0, 59, 60, 3_599, 3_600, 90_000, 400 * 86_400].map(age_text);
        assert_eq!(
            texts,
            ["0 s", "59 s", "1 min", "59 min 59 s", "1 h", "1 d 1 h", "400 d"]
        );
    }
}
