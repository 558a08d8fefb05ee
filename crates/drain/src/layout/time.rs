//! Nanoseconds since 1970 as a date, with everything down to the second made once per second.

use super::LayoutError;
use super::number::{put_digits, put_u64, three_digits};
use super::write::{OVERFLOW, put, put_block, put_byte, room};
use crate::calendar::{DateTime, Zone};

/// Number of nanoseconds in a second.
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// A part of a date, or a whole one, that a layout may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeForm {
    /// `2026-11-21T12:34:56.123456789Z`, or with `+02:00` for local time.
    Iso,
    /// `20261121 12:34:56.123456`
    Glog,
    /// `2026`
    Year,
    /// `11`
    Month,
    /// `21`
    Day,
    /// `12`
    Hour,
    /// `34`
    Minute,
    /// `56`
    Second,
    /// `123`, `123456` or `123456789`
    Fraction(u8),
    /// `Z` or `+02:00`
    Zone,
    /// `+0000` or `+0200`
    ZoneDigits,
    /// `Nov`
    MonthName,
    /// `Sat`
    DayName,
    /// `325`, from 001
    DayOfYear,
    /// Seconds since 1970.
    Unix,
    /// Milliseconds since 1970.
    UnixMs,
    /// Nanoseconds since 1970.
    UnixNs,
}

/// Turns nanoseconds into text and keeps what the current second has in common.
#[derive(Debug, Clone)]
pub(super) struct TimeFormatter {
    zone: Zone,
    /// Begin of the second in nanoseconds since 1970; `u64::MAX` before the first one.
    start_ns: u64,
    date: DateTime,
    offset_seconds: i64,
    /// `2026-11-21T12:34:56.`
    iso: [u8; 20],
    /// `20261121 12:34:56.`
    glog: [u8; 18],
    zone_text: [u8; 8],
    zone_length: usize,
}

impl TimeFormatter {
    /// A formatter for UTC or, where the crate was built with the feature `local-time`, for local time.
    pub(super) fn new(local_time: bool) -> Result<Self, LayoutError> {
        let mut formatter = Self {
            zone: Zone::new(local_time).ok_or(LayoutError::NoLocalTime)?,
            start_ns: 0,
            date: DateTime::default(),
            offset_seconds: 0,
            iso: [0; 20],
            glog: [0; 18],
            zone_text: [0; 8],
            zone_length: 0,
        };
        // No number of nanoseconds is free to mean that nothing has been entered.
        formatter.enter_second(0);
        Ok(formatter)
    }

    /// Moves to the second of this time and returns the nanoseconds in it.
    #[inline(always)]
    pub(super) fn enter(&mut self, unix_ns: u64) -> u32 {
        let mut since = unix_ns.wrapping_sub(self.start_ns);
        if since >= SECOND_NS {
            since = self.enter_second(unix_ns);
        }
        since as u32
    }

    #[inline(never)]
    fn enter_second(&mut self, unix_ns: u64) -> u64 {
        let seconds = unix_ns / SECOND_NS;
        self.start_ns = seconds * SECOND_NS;
        self.offset_seconds = self.zone.offset_s(seconds.cast_signed());
        let date = DateTime::from_unix(seconds.cast_signed() + self.offset_seconds);
        self.date = date;
        let parts = [date.month, date.day, date.hour, date.minute, date.second];
        let mut text = [0; 40];
        let mut at = put_digits(&mut text, 0, date.year, 4);
        for (separator, part) in [b'-', b'-', b'T', b':', b':'].into_iter().zip(parts) {
            at = put_byte(&mut text, at, separator);
            at = put_digits(&mut text, at, part, 2);
        }
        put_byte(&mut text, at, b'.');
        let [y1, y2, y3, y4, _, m1, m2, _, d1, d2, _, time @ ..] = text;
        self.iso.copy_from_slice(&text[..20]);
        self.glog[..9].copy_from_slice(&[y1, y2, y3, y4, m1, m2, d1, d2, b' ']);
        self.glog[9..].copy_from_slice(&time[..9]);
        self.zone_length = match self.zone {
            Zone::Utc => put_block(&mut self.zone_text, 0, b"Z", 1),
            #[cfg(feature = "local-time")]
            Zone::Local(_) => put_offset(&mut self.zone_text, 0, self.offset_seconds, true),
        };
        unix_ns - self.start_ns
    }

    /// Writes `2026-11-21T12:34:56.123456789Z`. The formatter must stand in the second.
    #[inline(always)]
    pub(super) fn put_iso(&self, bytes: &mut [u8], at: usize, nanos: u32) -> usize {
        let Some(place) = room::<37>(bytes, at) else {
            return OVERFLOW;
        };
        place[..20].copy_from_slice(&self.iso);
        if let Some(digits) = place[20..].first_chunk_mut() {
            put_nanos(digits, nanos);
        }
        place[29..].copy_from_slice(&self.zone_text);
        at + ISO_DIGITS_AT + 9 + self.zone_length
    }

    /// Begin of the second that the formatter stands in, in nanoseconds since 1970.
    #[inline(always)]
    pub(super) fn second_ns(&self) -> u64 {
        self.start_ns
    }

    /// Writes one form of the time. The formatter must stand in its second.
    #[inline(never)]
    pub(super) fn put(&self, bytes: &mut [u8], at: usize, nanos: u32, form: TimeForm) -> usize {
        let date = &self.date;
        match form {
            TimeForm::Iso => self.put_iso(bytes, at, nanos),
            TimeForm::Glog => {
                let at = put_block(bytes, at, &self.glog, GLOG_DIGITS_AT);
                put_digits(bytes, at, u64::from(nanos / 1_000), 6)
            }
            TimeForm::Year => put_digits(bytes, at, date.year, 4),
            TimeForm::Month => put_digits(bytes, at, date.month, 2),
            TimeForm::Day => put_digits(bytes, at, date.day, 2),
            TimeForm::Hour => put_digits(bytes, at, date.hour, 2),
            TimeForm::Minute => put_digits(bytes, at, date.minute, 2),
            TimeForm::Second => put_digits(bytes, at, date.second, 2),
            TimeForm::Fraction(3) => put_digits(bytes, at, u64::from(nanos / 1_000_000), 3),
            TimeForm::Fraction(6) => put_digits(bytes, at, u64::from(nanos / 1_000), 6),
            TimeForm::Fraction(_) => put_digits(bytes, at, u64::from(nanos), 9),
            TimeForm::Zone => put_block(bytes, at, &self.zone_text, self.zone_length),
            TimeForm::ZoneDigits => put_offset(bytes, at, self.offset_seconds, false),
            TimeForm::MonthName => put(bytes, at, name(&MONTHS, date.month as usize - 1)),
            TimeForm::DayName => put(bytes, at, name(&DAYS, date.weekday)),
            TimeForm::DayOfYear => put_digits(bytes, at, date.day_of_year, 3),
            TimeForm::Unix => put_u64(bytes, at, self.start_ns / SECOND_NS),
            TimeForm::UnixMs => put_u64(
                bytes,
                at,
                self.start_ns / 1_000_000 + u64::from(nanos / 1_000_000),
            ),
            TimeForm::UnixNs => put_u64(bytes, at, self.start_ns + u64::from(nanos)),
        }
    }
}

/// Offset of the nine digits of the nanoseconds in what [`TimeFormatter::put_iso`] writes.
const ISO_DIGITS_AT: usize = 20;

/// Offset of the six digits of the microseconds in glog's form.
const GLOG_DIGITS_AT: usize = 18;

/// The digits of a time that change within a second: where they begin in it, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digits {
    pub(super) at: usize,
    pub(super) count: usize,
}

impl TimeForm {
    /// The digits that change within a second, where nothing else does.
    pub(super) fn digits(self) -> Option<Digits> {
        let (at, count) = match self {
            Self::Iso => (ISO_DIGITS_AT, 9),
            Self::Glog => (GLOG_DIGITS_AT, 6),
            Self::Fraction(count @ (3 | 6)) => (0, usize::from(count)),
            Self::Fraction(_) => (0, 9),
            _ => return None,
        };
        Some(Digits { at, count })
    }

    /// Returns true if it stays the same for a second.
    pub(super) fn is_steady(self) -> bool {
        self.digits().is_none() && !matches!(self, Self::UnixMs | Self::UnixNs)
    }
}

/// Bytes of the most digits and the byte behind them.
pub(super) const DIGITS_BYTES: usize = 10;

/// Writes nine digits and leaves the byte behind them as it is.
#[inline(always)]
fn put_nanos(place: &mut [u8; DIGITS_BYTES], nanos: u32) {
    let (millis, micros) = (nanos / 1_000_000, nanos / 1_000);
    let [a, b, c, _] = *three_digits(nanos - micros * 1_000);
    let last = [a, b, c, place[9]];
    place[..4].copy_from_slice(three_digits(millis));
    place[3..7].copy_from_slice(three_digits(micros - millis * 1_000));
    place[6..].copy_from_slice(&last);
}

/// Writes three, six or nine digits and leaves what is behind them as it is.
#[inline(always)]
pub(super) fn put_fraction(place: &mut [u8; DIGITS_BYTES], nanos: u32, count: usize) {
    if count == 9 {
        return put_nanos(place, nanos);
    }
    let (millis, micros) = (nanos / 1_000_000, nanos / 1_000);
    let [a, b, c, _] = *three_digits(millis);
    place[..3].copy_from_slice(&[a, b, c]);
    if count == 6 {
        let [a, b, c, _] = *three_digits(micros - millis * 1_000);
        place[3..6].copy_from_slice(&[a, b, c]);
    }
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

fn name(names: &[&'static str], index: usize) -> &'static [u8] {
    names.get(index).map_or(b"", |name| name.as_bytes())
}

/// `+02:00` or `+0200`.
fn put_offset(bytes: &mut [u8], at: usize, offset_seconds: i64, colon: bool) -> usize {
    let minutes = offset_seconds.unsigned_abs() / 60;
    let two = |value: u64| [b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8];
    let at = put_byte(bytes, at, if offset_seconds < 0 { b'-' } else { b'+' });
    let at = put_block(bytes, at, &two(minutes / 60), 2);
    let at = if colon { put_byte(bytes, at, b':') } else { at };
    put_block(bytes, at, &two(minutes % 60), 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(formatter: &mut TimeFormatter, unix_ns: u64, form: TimeForm) -> String {
        let mut bytes = [0; 64];
        let nanos = formatter.enter(unix_ns);
        let length = formatter.put(&mut bytes, 0, nanos, form);
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_time_has_all_its_forms() {
        let mut formatter = TimeFormatter::new(false).unwrap();
        let time = 1_795_264_496_123_456_789;
        for (form, expected) in [
            (TimeForm::Iso, "2026-11-21T12:34:56.123456789Z"),
            (TimeForm::Glog, "20261121 12:34:56.123456"),
            (TimeForm::Fraction(3), "123"),
            (TimeForm::Zone, "Z"),
            (TimeForm::ZoneDigits, "+0000"),
            (TimeForm::MonthName, "Nov"),
            (TimeForm::DayName, "Sat"),
            (TimeForm::DayOfYear, "325"),
            (TimeForm::Unix, "1795264496"),
            (TimeForm::UnixMs, "1795264496123"),
            (TimeForm::UnixNs, "1795264496123456789"),
        ] {
            assert_eq!(text(&mut formatter, time, form), expected, "{form:?}");
        }
        assert_eq!(
            text(&mut formatter, 0, TimeForm::Iso),
            "1970-01-01T00:00:00.000000000Z"
        );
        assert_eq!(
            text(&mut formatter, u64::MAX, TimeForm::Iso),
            "2554-07-21T23:34:33.709551615Z"
        );
        assert_eq!(
            text(&mut formatter, 1_709_164_800_000_000_001, TimeForm::Iso),
            "2024-02-29T00:00:00.000000001Z"
        );
    }

    #[cfg(feature = "local-time")]
    #[test]
    fn local_time_shows_its_offset_and_changes_with_the_season() {
        let mut formatter = TimeFormatter::new(true).unwrap();
        formatter.zone = Zone::Local(jiff::tz::TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        assert_eq!(
            text(&mut formatter, 1_795_264_496_000_000_000, TimeForm::Iso),
            "2026-11-21T13:34:56.000000000+01:00"
        );
        assert_eq!(
            text(&mut formatter, 1_782_864_000_000_000_000, TimeForm::Iso),
            "2026-07-01T02:00:00.000000000+02:00"
        );
        assert_eq!(
            text(&mut formatter, 1_782_864_000_000_000_000, TimeForm::ZoneDigits),
            "+0200"
        );
        formatter.zone = Zone::Local(jiff::tz::TimeZone::fixed(jiff::tz::offset(-3)));
        formatter.start_ns = u64::MAX;
        assert_eq!(
            text(&mut formatter, 1_782_864_000_000_000_000, TimeForm::Iso),
            "2026-06-30T21:00:00.000000000-03:00"
        );
    }
}
