//! Times as other programs write them: with names of months, with the day first, as a time of day, as seconds.
//!
//! What names no zone is local time, as these programs have it.

use crate::times::{Minute, Times, digits, from_number, read_offset, read_seconds};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Nanoseconds of a day, and of half of one.
const DAY_NS: u64 = 86_400_000_000_000;

/// A time that was read at the front of a text: nanoseconds since 1970, and its length.
pub(crate) type ReadTime = Option<(u64, usize)>;

/// The number of a month by its English name in three letters.
fn month_of(name: &[u8]) -> Option<u64> {
    const MONTHS: [&[u8; 3]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
    ];
    let found = MONTHS.iter().position(|month| month.as_slice() == name)?;
    Some(found as u64 + 1)
}

/// Whether a text begins with the English name of a day in three letters.
pub(crate) fn begins_with_weekday(text: &[u8]) -> bool {
    const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
    text.first_chunk::<3>().is_some_and(|name| DAYS.contains(&name))
}

/// Reads `12:34` and what follows up to the end of the second; returns hour, minute, nanoseconds and length.
fn read_clock(text: &[u8]) -> Option<(u64, u64, u64, usize)> {
    let hour_length = if text.get(1) == Some(&b':') { 1 } else { 2 };
    let hour = digits(text.get(..hour_length)?).filter(|hour| *hour < 24)?;
    if text.get(hour_length) != Some(&b':') {
        return None;
    }
    let minute = digits(text.get(hour_length + 1..hour_length + 3)?).filter(|minute| *minute < 60)?;
    let (second_ns, length) = read_seconds(text.get(hour_length + 3..)?)?;
    Some((hour, minute, second_ns, hour_length + 3 + length))
}

/// Reads a day of one or two digits, which may be padded with a space; returns its length, too.
fn read_day(text: &[u8]) -> Option<(u64, usize)> {
    let blank = usize::from(text.first() == Some(&b' '));
    let count = text
        .get(blank..)?
        .iter()
        .take(2)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let day = digits(text.get(blank..blank + count).filter(|text| !text.is_empty())?)?;
    Some((day, blank + count))
}

impl Times {
    /// Nanoseconds of a minute; the last one is kept.
    fn minute_ns(&mut self, minute: Minute) -> Option<u64> {
        if self.kept.0 != minute {
            let part = |number: u64| i8::try_from(number).ok();
            let civil = DateTime::new(
                i16::try_from(minute.year).ok()?,
                part(minute.month)?,
                part(minute.day)?,
                part(minute.hour)?,
                part(minute.minute)?,
                0,
                0,
            )
            .ok()?;
            let zone = if minute.is_utc {
                TimeZone::UTC
            } else {
                self.local.clone()
            };
            let ns = civil.to_zoned(zone).ok()?.timestamp().as_nanosecond();
            self.kept = (minute, u64::try_from(ns).ok()?);
        }
        Some(self.kept.1)
    }

    /// A local time that may name a zone behind itself: ` +0100`, `+01:00`, `Z`. Returns the length of that, too.
    fn in_written_zone(&mut self, minute: Minute, second_ns: u64, rest: &[u8]) -> ReadTime {
        let blank = usize::from(rest.first() == Some(&b' '));
        let sign = rest.get(blank).copied();
        let offset = match sign {
            Some(b'+' | b'-') => rest.get(blank + 1..).and_then(read_offset),
            Some(b'Z') if blank == 0 => Some((0, 0)),
            _ => None,
        };
        let Some((offset_ns, length)) = offset else {
            return Some((self.minute_ns(minute)?.saturating_add(second_ns), 0));
        };
        let ns = self
            .minute_ns(Minute {
                is_utc: true,
                ..minute
            })?
            .saturating_add(second_ns);
        let ns = match sign {
            Some(b'-') => ns.saturating_add(offset_ns),
            _ => ns.saturating_sub(offset_ns),
        };
        Some((ns, blank + 1 + length))
    }

    /// Reads `21/Nov/2026:12:34:56 +0000`, `21 Nov 2026 12:34:56.789`, `21-Nov-2026 12:34:56.789`.
    pub(crate) fn read_day_first(&mut self, text: &[u8]) -> ReadTime {
        let (day, length) = read_day(text)?;
        let separator = *text
            .get(length)
            .filter(|byte| matches!(byte, b'/' | b' ' | b'-'))?;
        let month = month_of(text.get(length + 1..length + 4)?)?;
        let year = digits(text.get(length + 5..length + 9)?)?;
        let is_dated =
            text.get(length + 4) == Some(&separator) && matches!(text.get(length + 9), Some(b':' | b' '));
        let (hour, minute, second_ns, clock) = read_clock(text.get(length + 10..).filter(|_| is_dated)?)?;
        let minute = Minute {
            year,
            month,
            day,
            hour,
            minute,
            is_utc: false,
        };
        let end = length + 10 + clock;
        let (ns, zone) = self.in_written_zone(minute, second_ns, text.get(end..)?)?;
        Some((ns, end + zone))
    }

    /// Reads `Nov 21 12:34:56`, which is of this year, or of the last one where this would lie ahead; also
    /// `Nov 21, 2026 1:34:56 PM`, `Nov 21 2026 12:34:56`, and with the year behind: `Nov 21 12:34:56.123456 2026`.
    pub(crate) fn read_month_first(&mut self, text: &[u8]) -> ReadTime {
        let month = month_of(text.get(..3)?)?;
        if text.get(3) != Some(&b' ') {
            return None;
        }
        let (day, length) = read_day(text.get(4..)?)?;
        let mut at = 4 + length;
        at += usize::from(text.get(at) == Some(&b','));
        if text.get(at) != Some(&b' ') {
            return None;
        }
        at += 1;
        let mut year = None;
        if let Some([number @ .., b' ' | b',']) = text.get(at..at + 5)
            && let Some(number) = digits(number)
        {
            year = Some(number);
            at += 4;
            at += usize::from(text.get(at) == Some(&b','));
            at += 1;
        }
        let (mut hour, minute, second_ns, clock) = read_clock(text.get(at..)?)?;
        at += clock;
        if year.is_none()
            && let Some([b' ', number @ ..]) = text.get(at..at + 5)
            && let Some(number) = digits(number)
            && !text.get(at + 5).is_some_and(u8::is_ascii_digit)
            && (1970..2600).contains(&number)
        {
            year = Some(number);
            at += 5;
        }
        // A narrow space stands there in newer versions of Java.
        let rest = text.get(at..).unwrap_or(b"");
        let blank = if rest.starts_with("\u{202f}".as_bytes()) {
            3
        } else {
            1
        };
        match rest.get(blank..blank + 2) {
            Some(b"PM") => (hour, at) = (hour % 12 + 12, at + blank + 2),
            Some(b"AM") => (hour, at) = (hour % 12, at + blank + 2),
            _ => {}
        }
        let dated = |year| Minute {
            year,
            month,
            day,
            hour,
            minute,
            is_utc: false,
        };
        let ns = match year {
            Some(year) => self.minute_ns(dated(year))?,
            None => self.of_some_year(dated(0))?,
        };
        Some((ns.saturating_add(second_ns), at))
    }

    /// Nanoseconds of a minute of this year, or of the last one where that would lie ahead.
    fn of_some_year(&mut self, minute: Minute) -> Option<u64> {
        let this_year = digits(&self.year)?;
        let dated = |year| Minute { year, ..minute };
        match self.minute_ns(dated(this_year)) {
            Some(ns) if ns <= self.now_ns.saturating_add(DAY_NS) => Some(ns),
            _ => self.minute_ns(dated(this_year - 1)),
        }
    }

    /// Reads dates without names and without a century, each of which is a time only in its own place: `17/06/09 20:10:40` as
    /// log4j has it, `081109 203615` as old Hadoop, `03-17 16:13:38.811` as Android.
    pub(crate) fn read_short_date(&mut self, text: &[u8]) -> ReadTime {
        let two = |at: usize| digits(text.get(at..at + 2)?);
        // Year, month, day, place of the clock.
        let (year, month, day, at) = match [*text.get(2)?, *text.get(5)?, *text.get(6)?] {
            [b'/', b'/', _] => (Some(2000 + two(0)?), two(3)?, two(6)?, 9),
            [b'-', b' ', _] => (None, two(0)?, two(3)?, 6),
            [_, _, b' '] => (Some(2000 + two(0)?), two(2)?, two(4)?, 7),
            _ => return None,
        };
        let (hour, minute, second_ns, length) = match at {
            7 => {
                let number = |at: usize, end| two(at).filter(|number| *number < end);
                (number(7, 24)?, number(9, 60)?, number(11, 61)? * 1_000_000_000, 6)
            }
            _ => read_clock(text.get(at..)?)?,
        };
        let minute = Minute {
            year: year.unwrap_or(0),
            month,
            day,
            hour,
            minute,
            is_utc: false,
        };
        let ns = match year {
            Some(_) => self.minute_ns(minute)?,
            None => self.of_some_year(minute)?,
        };
        Some((ns.saturating_add(second_ns), at + length))
    }

    /// Reads `12:34:56.789` as a time of today, or of yesterday where that would lie ahead.
    pub(crate) fn read_time_of_day(&mut self, text: &[u8]) -> ReadTime {
        let (hour, minute, second_ns, length) = read_clock(text)?;
        let day = self.today()?;
        let ns = self
            .minute_ns(Minute { hour, minute, ..day })?
            .saturating_add(second_ns);
        let is_ahead = ns > self.now_ns.saturating_add(DAY_NS / 24);
        Some((if is_ahead { ns.saturating_sub(DAY_NS) } else { ns }, length))
    }

    /// Reads seconds since 1970 with or without a fraction, `1795264496.123`; for ten digits before the point alone, which
    /// are the years from 2001 on.
    pub(crate) fn read_epoch(text: &[u8]) -> ReadTime {
        let length = text
            .iter()
            .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
            .count();
        let number = std::str::from_utf8(text.get(..length)?).ok()?;
        let whole = number.split('.').next().unwrap_or(number);
        (whole.len() == 10 && number.len() <= 20).then_some((from_number(number)?, length))
    }

    fn today(&self) -> Option<Minute> {
        let now = jiff::Timestamp::from_nanosecond(i128::from(self.now_ns)).ok()?;
        let date = now.to_zoned(self.local.clone()).date();
        Some(Minute {
            year: u64::try_from(date.year()).ok()?,
            month: u64::try_from(date.month()).ok()?,
            day: u64::try_from(date.day()).ok()?,
            ..Minute::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: u64 = 1_795_264_496_000_000_000;

    fn times() -> Times {
        let mut times = Times::new(TimeZone::UTC);
        (times.year, times.now_ns) = (*b"2026", TIME + 60_000_000_000);
        times
    }

    #[test]
    fn times_with_names_of_months_are_read() {
        for (text, length) in [
            ("21/Nov/2026:12:34:56 +0000] x", 26),
            ("21/Nov/2026:14:34:56 +0200] x", 26),
            ("21 Nov 2026 12:34:56 * x", 20),
            ("21-Nov-2026 12:34:56 INFO", 20),
        ] {
            assert_eq!(
                times().read_day_first(text.as_bytes()),
                Some((TIME, length)),
                "{text}"
            );
        }
        for (text, length) in [
            ("Nov 21 12:34:56 host", 15),
            ("Nov 21, 2026 12:34:56 PM x", 24),
            ("Nov 21, 2026, 12:34:56 PM x", 25),
            ("Nov 21 2026 12:34:56 x", 20),
            ("Nov 21 12:34:56 2026] x", 20),
            ("Nov 21, 2026 12:34:56\u{202f}PM x", 26),
        ] {
            assert_eq!(
                times().read_month_first(text.as_bytes()),
                Some((TIME, length)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_time_without_a_year_is_none_that_lies_ahead() {
        let found = times()
            .read_month_first(b"Dec 31 12:34:56 x")
            .map(|found| found.0);
        assert_eq!(found, Some(1_767_184_496_000_000_000));
        let late = times().read_time_of_day(b"23:59:59.5 x");
        assert_eq!(late, Some((1_795_219_199_500_000_000, 10)));
        assert_eq!(times().read_time_of_day(b"12:34:56,000 x"), Some((TIME, 12)));
    }

    #[test]
    fn short_dates_are_read() {
        let at = |text: &str| {
            let (ns, length) = times().read_short_date(text.as_bytes()).expect(text);
            (crate::times::iso_text(ns), length)
        };
        for (text, time, length) in [
            ("17/06/09 20:10:40 INFO x", "2017-06-09T20:10:40.000000000Z", 17),
            ("081109 203615 148 INFO x", "2008-11-09T20:36:15.000000000Z", 13),
        ] {
            assert_eq!(at(text), (time.to_owned(), length), "{text}");
        }
        assert!(
            at("03-17 16:13:38.811  1702 D x")
                .0
                .ends_with("-03-17T16:13:38.811000000Z")
        );
        for text in [
            "",
            "12",
            "17/06/09",
            "081109 253615 x",
            "03-17 16:1",
            "12345678",
            "99/99/99 20:10:40 x",
        ] {
            assert_eq!(times().read_short_date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "21",
            "21/Nov",
            "99/Nov/2026:12:34:56",
            "Nov",
            "Nov 21",
            "Nov 99 12:34:56",
            "Nov 21 12:34",
        ] {
            let text = text.as_bytes();
            assert_eq!(
                (times().read_day_first(text), times().read_month_first(text)),
                (None, None)
            );
        }
        assert_eq!(
            Times::read_epoch(b"1795264496.5 x"),
            Some((TIME + 500_000_000, 12))
        );
        assert_eq!(Times::read_epoch(b"12 monkeys"), None);
    }
}
