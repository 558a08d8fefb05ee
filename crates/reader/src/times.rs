//! Points in time, as nanoseconds since 1970, as lines of logs have them.

use crate::foreign::container::ContainerStreams;
use crate::line_head::Head;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use logdrive_wire::Level;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Reads the times of lines. Lines of the same minute, which is nearly all of them, cost a compare.
#[derive(Debug)]
pub struct Times {
    /// The text up to the minute, and what it was found to be.
    minute: [u8; 16],
    minute_ns: u64,
    glog_minute: [u8; 14],
    glog_minute_ns: u64,
    pub(crate) local: TimeZone,
    /// This year, for times without one.
    pub(crate) year: [u8; 4],
    /// The present, for times without a date.
    pub(crate) now_ns: u64,
    /// A minute in another form, and what it was found to be.
    pub(crate) kept: (Minute, u64),
    /// State of the lines that came before.
    pub(crate) state: LineState,
    /// Number of lines around the line that is read: that of a program stands in that of syslog.
    pub(crate) depth: u8,
}

/// A minute as its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Minute {
    pub(crate) year: u64,
    pub(crate) month: u64,
    pub(crate) day: u64,
    pub(crate) hour: u64,
    pub(crate) minute: u64,
    pub(crate) is_utc: bool,
}

/// State of the lines of a stream that came before a line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LineState {
    /// Time of the last line that had one, for lines that have none.
    pub(crate) last_ns: u64,
    /// Level of the last head.
    pub(crate) last_level: Option<Level>,
    /// Whether the last line was the first half of a head of `java.util.logging`.
    pub(crate) is_java_util: bool,
    /// Whether the last line was one of a container.
    pub(crate) is_container: bool,
    /// The streams of a container.
    pub(crate) streams: ContainerStreams,
}

impl LineState {
    /// Notes the head of a line.
    #[inline]
    pub(crate) fn take_head(&mut self, head: &Head) {
        (self.last_ns, self.last_level) = (head.unix_ns, head.level);
        self.is_java_util = head.is_level_behind();
    }
}

impl Times {
    /// With this zone for times that are local by convention.
    pub fn new(local: TimeZone) -> Self {
        let mut times = Self {
            now_ns: 0,
            kept: (Minute::default(), 0),
            state: LineState::default(),
            depth: 0,
            year: *b"1970",
            minute: [0; 16],
            minute_ns: 0,
            glog_minute: [0; 14],
            glog_minute_ns: 0,
            local,
        };
        times.set_now(u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(0));
        times
    }

    /// Sets the present, from which the years of times without one follow.
    pub(crate) fn set_now(&mut self, unix_ns: u64) {
        let now = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
        self.now_ns = unix_ns;
        // Four digits until the year 9999.
        self.year = now
            .to_string()
            .as_bytes()
            .first_chunk()
            .copied()
            .unwrap_or(*b"1970");
    }

    /// Reads `2026-11-21T12:34:56.123456789Z` at the front of a text, and returns its length. The `T` may be a space, the
    /// point a comma, the zone an offset or missing, which means UTC; with slashes in the date, as nginx and Go write it,
    /// local time.
    #[inline]
    pub(crate) fn read_iso(&mut self, text: &[u8]) -> Option<(u64, usize)> {
        let minute = text.first_chunk::<16>()?;
        if *minute != self.minute {
            self.minute_ns = self.minute_of_iso(minute)?;
            self.minute = *minute;
        }
        let (in_minute_ns, length) = read_seconds(text.get(16..)?)?;
        let local_ns = self.minute_ns.saturating_add(in_minute_ns);
        match text.get(16 + length) {
            Some(b'Z' | b'z') => Some((local_ns, 17 + length)),
            Some(sign @ (b'+' | b'-')) => {
                let (offset_ns, offset_length) = read_offset(text.get(17 + length..)?)?;
                let ns = match sign {
                    b'+' => local_ns.saturating_sub(offset_ns),
                    _ => local_ns.saturating_add(offset_ns),
                };
                Some((ns, 17 + length + offset_length))
            }
            _ => Some((local_ns, 16 + length)),
        }
    }

    /// Reads `20261121 12:34:56.123456`, as glog writes it, in local time. Before version 0.6 it wrote no year; then
    /// this year is meant.
    #[inline]
    pub(crate) fn read_glog(&mut self, text: &[u8]) -> Option<(u64, usize)> {
        if text.get(4) == Some(&b' ') {
            let mut dated = [0; 14];
            dated[..4].copy_from_slice(&self.year);
            dated[4..].copy_from_slice(text.get(..10)?);
            let (ns, length) = self.read_glog_dated(&dated, text.get(10..)?)?;
            return Some((ns, 10 + length));
        }
        let (minute, rest) = text.split_first_chunk::<14>()?;
        let (ns, length) = self.read_glog_dated(minute, rest)?;
        Some((ns, 14 + length))
    }

    #[inline]
    fn read_glog_dated(&mut self, minute: &[u8; 14], rest: &[u8]) -> Option<(u64, usize)> {
        if *minute != self.glog_minute {
            self.glog_minute_ns = self.minute_of_glog(minute)?;
            self.glog_minute = *minute;
        }
        let (in_minute_ns, length) = read_seconds(rest)?;
        Some((self.glog_minute_ns.saturating_add(in_minute_ns), length))
    }

    /// Forgets what came before, but for the time: a record begins.
    #[inline]
    pub(crate) fn begin_record(&mut self) {
        let LineState {
            last_level,
            is_java_util,
            is_container,
            streams,
            last_ns: _,
        } = &mut self.state;
        (*last_level, *is_java_util) = (None, false);
        // The streams change with a line of a container only.
        if std::mem::take(is_container) {
            *streams = ContainerStreams::default();
        }
    }

    /// A time that was read as UTC and is a local one.
    #[cold]
    pub(crate) fn as_local(&self, unix_ns: u64) -> u64 {
        let read = Timestamp::from_nanosecond(i128::from(unix_ns)).ok();
        let civil = read.map(|time| time.to_zoned(TimeZone::UTC).datetime());
        let local = civil.and_then(|civil| civil.to_zoned(self.local.clone()).ok());
        local
            .and_then(|zoned| u64::try_from(zoned.timestamp().as_nanosecond()).ok())
            .unwrap_or(unix_ns)
    }

    #[cold]
    fn minute_of_iso(&self, text: &[u8; 16]) -> Option<u64> {
        if !matches!(text[10], b'T' | b't' | b' ') {
            return None;
        }
        match [text[4], text[7], text[13]] {
            [b'-', b'-', b':'] => minute_in(text, TimeZone::UTC),
            [b'/', b'/', b':'] => {
                let mut iso = *text;
                (iso[4], iso[7]) = (b'-', b'-');
                minute_in(&iso, self.local.clone())
            }
            _ => None,
        }
    }

    fn minute_of_glog(&self, text: &[u8; 14]) -> Option<u64> {
        if text[8] != b' ' || text[11] != b':' {
            return None;
        }
        let (date, time) = text.split_at(8);
        let iso = [&date[..4], b"-", &date[4..6], b"-", &date[6..], b"T", &time[1..]].concat();
        minute_in(&iso, self.local.clone())
    }
}

/// Reads `2026-11-21T12:34`, whose separators are in their places, as a time of a zone.
fn minute_in(text: &[u8], zone: TimeZone) -> Option<u64> {
    let is_digits = |part: std::ops::Range<usize>| {
        text.get(part)
            .is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    if ![0..4, 5..7, 8..10, 11..13, 14..16].into_iter().all(is_digits) {
        return None;
    }
    let civil: DateTime = std::str::from_utf8(text).ok()?.parse().ok()?;
    u64::try_from(civil.to_zoned(zone).ok()?.timestamp().as_nanosecond()).ok()
}

/// The number that a text of nothing but digits says; for short texts.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    text.iter()
        .try_fold(0u64, |sum, byte| match byte.wrapping_sub(b'0') {
            digit @ 0..=9 => Some(sum * 10 + u64::from(digit)),
            _ => None,
        })
}

/// Reads `:56.123456789` as nanoseconds, and returns its length.
#[inline]
pub(crate) fn read_seconds(text: &[u8]) -> Option<(u64, usize)> {
    let [b':', tens, ones, ..] = text else { return None };
    // A leap second is the 60th.
    let seconds = digits(&[*tens, *ones]).filter(|seconds| *seconds <= 60)?;
    let (Some(b'.' | b','), Some(fraction)) = (text.get(3), text.get(4..)) else {
        return Some((seconds * SECOND_NS, 3));
    };
    let mut nanos = 0;
    let mut weight = SECOND_NS;
    let mut length = 0;
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        // Behind the ninth digit the weight is zero, and so is the rest.
        weight /= 10;
        nanos += u64::from(digit) * weight;
        length += 1;
    }
    let length = if length == 0 { 3 } else { 4 + length };
    Some((seconds * SECOND_NS + nanos, length))
}

/// Reads `02:00` or `0200` as nanoseconds, and returns its length.
pub(crate) fn read_offset(text: &[u8]) -> Option<(u64, usize)> {
    let hours = digits(text.get(..2)?)?;
    let (minutes, length) = match text.get(2)? {
        b':' => (digits(text.get(3..5)?)?, 5),
        _ => (digits(text.get(2..4)?)?, 4),
    };
    (hours < 24 && minutes < 60).then_some(((hours * 60 + minutes) * 60 * SECOND_NS, length))
}

/// Nanoseconds since 1970 as `2026-11-21T12:34:56.123456789Z`.
pub fn iso_text(unix_ns: u64) -> String {
    // Every u64 of nanoseconds lies before the year 2600.
    Timestamp::from_nanosecond(i128::from(unix_ns))
        .map_or_else(|_| unix_ns.to_string(), |time| format!("{time:.9}"))
}

/// A time that counts seconds, milliseconds, microseconds or nanoseconds since 1970, as its size shows: all but the
/// first years of each unit are unmistakable.
pub(crate) fn from_number(number: &str) -> Option<u64> {
    if number.contains(['e', 'E']) {
        let seconds: f64 = number.parse().ok()?;
        return (0.0..1e11).contains(&seconds).then_some((seconds * 1e9) as u64);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.parse::<u64>().ok()?;
    let unit_ns = match whole {
        0..100_000_000_000 => SECOND_NS,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    let mut ns = whole.checked_mul(unit_ns)?;
    let mut weight_ns = unit_ns;
    for byte in fraction.bytes() {
        weight_ns /= 10;
        ns = ns.checked_add(digits(&[byte])? * weight_ns)?;
    }
    Some(ns)
}

/// Reads a text that is one time as ISO 8601 has it, in UTC where it names no zone; `None` for any other.
pub fn read_iso(text: &str) -> Option<u64> {
    let (ns, length) = Times::new(TimeZone::UTC).read_iso(text.as_bytes())?;
    (length == text.len()).then_some(ns)
}

/// The instant of a rotated file's name: `2026-11-21T12-34-56Z`, or with `+0200` in the place of `Z`; and its length.
pub(crate) fn read_stamp(text: &str) -> Option<(u64, usize)> {
    let length = match text.as_bytes().get(19)? {
        b'Z' => 20,
        b'+' | b'-' => 24,
        _ => return None,
    };
    let mut iso = text.as_bytes().get(..length)?.to_vec();
    for at in [13, 16] {
        if iso[at] != b'-' {
            return None;
        }
        iso[at] = b':';
    }
    let (ns, read) = Times::new(TimeZone::UTC).read_iso(&iso)?;
    (read == length).then_some((ns, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: u64 = 1_795_264_496_123_456_789;

    fn iso(text: &str) -> Option<(u64, usize)> {
        Times::new(TimeZone::UTC).read_iso(text.as_bytes())
    }

    #[test]
    fn times_of_lines_are_read_in_all_their_forms() {
        for (text, expected) in [
            ("2026-11-21T12:34:56.123456789Z INFO", Some((TIME, 30))),
            ("2026-11-21T13:34:56.123456789+01:00", Some((TIME, 35))),
            ("2026-11-21T09:34:56.123456789-0300 x", Some((TIME, 34))),
            ("2026-11-21 12:34:56,123456", Some((TIME - 789, 26))),
            ("2026-11-21T12:34:56.1234567891234Z", Some((TIME, 34))),
            ("2026-11-21T12:34:56", Some((TIME - 123_456_789, 19))),
            ("1970-01-01T00:00:00Z", Some((0, 20))),
            ("2026-11-21T12:34", None),
            ("2026-13-21T12:34:56Z", None),
            ("2026-02-29T12:34:56Z", None),
            ("2026-11-21T12:34:61Z", None),
            ("2026-11-21T12:34:56+99:00", None),
            ("1969-12-31T23:59:59Z", None),
            ("2554-07-21T23:34:59Z", Some((u64::MAX, 20))),
            ("9999-07-21T23:34:59Z", None),
            ("hello, this is not a time", None),
            ("", None),
        ] {
            assert_eq!(iso(text), expected, "{text}");
        }
    }

    #[test]
    fn the_kept_minute_does_not_leak_into_other_times() {
        let mut times = Times::new(TimeZone::UTC);
        let first = times.read_iso(b"2026-11-21T12:34:00Z").map(|found| found.0);
        assert_eq!(times.read_iso(b"2026-11-21T12:99:00Z"), None);
        assert_eq!(
            times.read_iso(b"2026-11-21T12:35:00Z").map(|found| found.0),
            first.map(|ns| ns + 60 * SECOND_NS)
        );
        assert_eq!(
            times.read_iso(b"2026-11-21T12:34:00Z").map(|found| found.0),
            first
        );
    }

    #[test]
    fn glog_times_are_local_ones() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a good zone");
        let mut times = Times::new(zone);
        assert_eq!(
            times.read_glog(b"20261121 13:34:56.123456   417"),
            Some((TIME - 789, 24))
        );
        assert_eq!(
            times.read_glog(b"20260721 14:34:56 "),
            Some((1_784_637_296 * SECOND_NS, 17))
        );
        assert_eq!(times.read_glog(b"20261321 13:34:56.123456"), None);
        assert_eq!(times.read_glog(b"2026"), None);
        times.year = *b"2026";
        assert_eq!(
            times.read_glog(b"1121 13:34:56.123456   417"),
            Some((TIME - 789, 20))
        );
    }

    #[test]
    fn numbers_tell_their_unit_by_their_size() {
        for number in [
            "1795264496",
            "1795264496000",
            "1795264496000000",
            "1795264496000000000",
            "1.795264496e9",
        ] {
            assert_eq!(from_number(number), Some(1_795_264_496 * SECOND_NS), "{number}");
        }
        assert_eq!(from_number("1795264496.123456789"), Some(TIME));
        assert_eq!(from_number("1795264496123.456789"), Some(TIME));
        for number in [
            "",
            "-1",
            "NaN",
            "1e300",
            "1795264496.x",
            "99999999999999999999999999",
        ] {
            assert_eq!(from_number(number), None, "{number}");
        }
    }

    #[test]
    fn stamps_of_rotated_files_are_read() {
        assert_eq!(
            read_stamp("2026-11-21T12-34-56Z.1.log"),
            Some((TIME - 123_456_789, 20))
        );
        assert_eq!(
            read_stamp("2026-11-21T14-34-56+0200.1.log"),
            Some((TIME - 123_456_789, 24))
        );
        for text in [
            "2026-11-21T12:34:56Z",
            "2026-11-21T12-34-56",
            "1234",
            "2026-11-21T12-34-56X",
        ] {
            assert_eq!(read_stamp(text), None, "{text}");
        }
    }
}
