//! Points in time and lengths of time, as people type and read them.

use jiff::tz::TimeZone;
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

/// Reads the value of `--since` or `--until`.
///
/// # Errors
/// With what may be typed.
pub(crate) fn read_instant(text: &str, edge: Edge) -> Result<u64, String> {
    read_instant_at(text, edge, Timestamp::now())
}

fn read_instant_at(text: &str, edge: Edge, now: Timestamp) -> Result<u64, String> {
    let text = text.trim();
    let found = read_iso(text)
        .or_else(|| read_day(text, edge))
        .or_else(|| read_iso(&format!("{}T{text}", today(now))))
        .or_else(|| read_iso(&format!("{}T{text}:00", today(now))))
        .or_else(|| read_iso(&format!("{text}:00")))
        .or_else(|| read_ago(text, now));
    found.ok_or_else(|| {
        "write a time such as 2026-11-21T12:34:56Z, a date, a time of today such as 12:34, or how long ago: 90s, 10m, \
         2h, 3d"
            .to_owned()
    })
}

fn today(now: Timestamp) -> String {
    now.to_zoned(TimeZone::UTC).date().to_string()
}

fn read_day(text: &str, edge: Edge) -> Option<u64> {
    let midnight = read_iso(&format!("{text}T00:00:00"))?;
    match edge {
        Edge::First => Some(midnight),
        Edge::Last => Some(midnight.saturating_add(86_400 * SECOND_NS - 1)),
    }
}

fn read_ago(text: &str, now: Timestamp) -> Option<u64> {
    let span: Span = text.strip_suffix("ago").unwrap_or(text).trim().parse().ok()?;
    if span.is_negative() {
        return None;
    }
    let then: Zoned = now.to_zoned(TimeZone::UTC).checked_sub(span).ok()?;
    nanoseconds(then.timestamp())
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
        let now = Timestamp::from_nanosecond(i128::from(TIME)).expect("in range");
        let read = |text: &str, edge| read_instant_at(text, edge, now).map(iso_text);
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
            "2026-11-21T12:34:56Zx",
        ] {
            assert!(
                read(text, Edge::First).is_err_and(|error| error.contains("12:34")),
                "{text}"
            );
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
