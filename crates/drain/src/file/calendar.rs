//! Days, hours and the time in a file's name: the little of a calendar that rotation needs.
//!
//! No clock is read: every time is an argument.

use super::options::Every;
use crate::calendar::{DAY_S, DateTime, Zone, days_from_date};

/// Last second of the year 9999, the last one with a four-digit year.
const LAST_S: i64 = 253_402_300_799;

impl Zone {
    /// Seconds east of UTC at an instant, in whole minutes, which is all that a stamp says.
    fn minutes_offset_s(&self, unix_s: i64) -> i64 {
        self.offset_s(unix_s) / 60 * 60
    }

    /// The number of the period that an instant falls into; a greater number is a later period.
    pub(crate) fn period(&self, every: Every, unix_s: i64) -> i64 {
        match every {
            Every::Daily => (unix_s + self.minutes_offset_s(unix_s)).div_euclid(DAY_S),
            // Only the part below an hour shifts the begin of hours; with the whole offset the hour
            // that summer time repeats would be one period and the skipped one none.
            Every::Hourly => (unix_s + self.minutes_offset_s(unix_s).rem_euclid(3_600)).div_euclid(3_600),
            Every::Seconds(length_s) => unix_s.div_euclid(i64::try_from(length_s.max(1)).unwrap_or(i64::MAX)),
        }
    }

    /// The instant as it stands in a file's name: `2026-11-21T12-34-56Z`, and with an offset in
    /// place of the `Z` in local time.
    pub(crate) fn stamp(&self, unix_s: i64) -> String {
        let unix_s = unix_s.clamp(0, LAST_S - DAY_S);
        let offset_s = self.minutes_offset_s(unix_s);
        let local_s = unix_s + offset_s;
        let date = DateTime::from_unix(local_s);
        let (year, month, day) = (date.year, date.month, date.day);
        let (hour, minute, second) = (date.hour, date.minute, date.second);
        let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}");
        match self {
            Zone::Utc => text.push('Z'),
            #[cfg(feature = "local-time")]
            Zone::Local(_) => {
                let sign = if offset_s < 0 { '-' } else { '+' };
                let minutes = offset_s.abs() / 60;
                text.push_str(&format!("{sign}{:02}{:02}", minutes / 60, minutes % 60));
            }
        }
        text
    }
}

/// Splits a stamp off the front of `text`: the instant and what follows. Accepts exactly what
/// [`Zone::stamp`] writes.
pub(crate) fn parse_stamp(text: &str) -> Option<(i64, &str)> {
    let bytes = text.as_bytes();
    let number = |from: usize, digits: usize| -> Option<i64> {
        bytes
            .get(from..from + digits)?
            .iter()
            .try_fold(0i64, |sum, byte| {
                byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'))
            })
    };
    let sign = |at: usize, wanted: u8| (bytes.get(at) == Some(&wanted)).then_some(());
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    sign(4, b'-')?;
    sign(7, b'-')?;
    sign(10, b'T')?;
    sign(13, b'-')?;
    sign(16, b'-')?;
    let in_range = (1..=12).contains(&month) && hour < 24 && minute < 60 && second < 60;
    let local_s = days_from_date(year, month, day) * DAY_S + hour * 3_600 + minute * 60 + second;
    let date = DateTime::from_unix(local_s);
    if !in_range || [date.year, date.month, date.day].map(u64::cast_signed) != [year, month, day] {
        return None;
    }
    match bytes.get(19)? {
        b'Z' => Some((local_s, text.get(20..)?)),
        east @ (b'+' | b'-') => {
            let (hours, minutes) = (number(20, 2)?, number(22, 2)?);
            if hours > 26 || minutes > 59 {
                return None;
            }
            let offset_s = hours * 3_600 + minutes * 60;
            let unix_s = if *east == b'+' {
                local_s - offset_s
            } else {
                local_s + offset_s
            };
            Some((unix_s, text.get(24..)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_utc_reads_as_in_the_documents() {
        assert_eq!(Zone::Utc.stamp(1_795_264_496), "2026-11-21T12-34-56Z");
        assert_eq!(Zone::Utc.stamp(0), "1970-01-01T00-00-00Z");
        assert_eq!(Zone::Utc.stamp(951_782_400), "2000-02-29T00-00-00Z");
        assert_eq!(Zone::Utc.stamp(i64::MIN), "1970-01-01T00-00-00Z");
        assert_eq!(Zone::Utc.stamp(i64::MAX), "9999-12-30T23-59-59Z");
    }

    #[test]
    fn every_stamp_parses_back_to_its_instant() {
        let mut unix_s = 0;
        while unix_s < LAST_S - DAY_S {
            let text = Zone::Utc.stamp(unix_s) + ".1.log";
            assert_eq!(parse_stamp(&text), Some((unix_s, ".1.log")), "{text}");
            unix_s += 7_654_321;
        }
    }

    #[test]
    fn a_stamp_that_is_not_ours_is_refused() {
        for text in [
            "",
            "2026",
            "2026-11-21",
            "2026-11-21T12:34:56Z",
            "2026-02-30T12-34-56Z",
            "2026-13-01T12-34-56Z",
            "2026-11-21T24-34-56Z",
            "2026-11-21T12-60-56Z",
            "2026-11-21T12-34-61Z",
            "+026-11-21T12-34-56Z",
            "2026-11-21T12-34-56",
            "2026-11-21T12-34-56z",
            "2026-11-21T12-34-56+01",
            "2026-11-21T12-34-56+0160",
            "2026-11-21T12-34-56\u{e9}",
            "2026-11-21T12-34-5\u{e9}Z",
        ] {
            assert_eq!(parse_stamp(text), None, "{text}");
        }
    }

    #[test]
    fn periods_of_utc_begin_at_midnight_and_on_the_hour() {
        let midnight = 1_795_219_200; // 2026-11-21T00:00:00Z
        let zone = Zone::Utc;
        assert_eq!(
            zone.period(Every::Daily, midnight - 1) + 1,
            zone.period(Every::Daily, midnight)
        );
        assert_eq!(
            zone.period(Every::Daily, midnight),
            zone.period(Every::Daily, midnight + 86_399)
        );
        assert_eq!(
            zone.period(Every::Hourly, midnight - 1) + 1,
            zone.period(Every::Hourly, midnight)
        );
        assert_eq!(zone.period(Every::Seconds(0), 5), 5);
    }

    #[cfg(feature = "local-time")]
    mod local {
        use super::*;

        /// Central European time, independent of the machine's time zone database.
        fn berlin() -> Zone {
            Zone::Local(jiff::tz::TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("valid"))
        }

        #[test]
        fn local_stamps_carry_their_offset_and_parse_back() {
            let winter = 1_795_264_496;
            assert_eq!(berlin().stamp(winter), "2026-11-21T13-34-56+0100");
            let west = Zone::Local(jiff::tz::TimeZone::posix("NST3:30").expect("valid"));
            assert_eq!(west.stamp(winter), "2026-11-21T09-04-56-0330");
            for zone in [berlin(), west] {
                for unix_s in (winter..winter + 40_000_000).step_by(98_765) {
                    assert_eq!(parse_stamp(&zone.stamp(unix_s)), Some((unix_s, "")));
                }
            }
        }

        #[test]
        fn the_hour_that_summer_time_repeats_is_two_periods() {
            let change = 1_792_890_000; // 2026-10-25T01:00:00Z: 03:00 becomes 02:00
            let hour = |unix_s| berlin().period(Every::Hourly, unix_s);
            assert_eq!(hour(change - 1) + 1, hour(change));
            let day = |unix_s| berlin().period(Every::Daily, unix_s);
            assert_eq!(day(change), day(change - 3 * 3_600 + 1));
            assert_eq!(
                day(change - 3 * 3_600 - 1) + 1,
                day(change),
                "midnight is 22:00 UTC"
            );
        }
    }
}
