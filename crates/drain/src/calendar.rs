//! Dates: seconds since 1970 as year, month, day and time of day, and back, and the offset of a time zone.
//!
//! UTC is computed here; local time asks the system's time zone (feature `local-time`). No clock is read: every time is an
//! argument.

/// Seconds of a day.
pub(crate) const DAY_S: i64 = 86_400;

/// Time zone: UTC or the system's.
#[derive(Debug, Clone)]
pub(crate) enum Zone {
    /// Coordinated universal time.
    Utc,
    /// The time zone of the machine or of the variable `TZ`.
    #[cfg(feature = "local-time")]
    Local(jiff::tz::TimeZone),
}

impl Zone {
    /// UTC, or local time; `None` where this build has no local time.
    pub(crate) fn new(is_local: bool) -> Option<Self> {
        match is_local {
            false => Some(Self::Utc),
            #[cfg(feature = "local-time")]
            true => Some(Self::Local(jiff::tz::TimeZone::system())),
            #[cfg(not(feature = "local-time"))]
            true => None,
        }
    }

    /// Seconds east of UTC at an instant.
    pub(crate) fn offset_s(&self, _unix_s: i64) -> i64 {
        match self {
            Self::Utc => 0,
            #[cfg(feature = "local-time")]
            Self::Local(zone) => jiff::Timestamp::from_second(_unix_s)
                .map_or(0, |instant| i64::from(zone.to_offset(instant).seconds())),
        }
    }
}

/// A date and a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DateTime {
    pub(crate) year: u64,
    pub(crate) month: u64,
    pub(crate) day: u64,
    pub(crate) hour: u64,
    pub(crate) minute: u64,
    pub(crate) second: u64,
    /// Day of the week, from 0 for Sunday.
    pub(crate) weekday: usize,
    /// Day of the year, from 1.
    pub(crate) day_of_year: u64,
}

impl DateTime {
    /// From seconds since 1970, already moved by the zone's offset; what lies before 1970 is 1970.
    pub(crate) fn from_unix(seconds: i64) -> Self {
        let seconds = seconds.max(0).cast_unsigned();
        let (days, of_day) = (seconds / 86_400, seconds % 86_400);
        // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days: years begin in March.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        // 1 March is day 61 of a leap year and 60 of others.
        let day_of_year = if month > 2 {
            of_year + 60 + u64::from(leap)
        } else {
            of_year - 305
        };
        Self {
            year,
            month,
            day: of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: of_day / 3_600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            // 1970 began on a Thursday.
            weekday: ((days + 4) % 7) as usize,
            day_of_year,
        }
    }
}

/// Days from 1970-01-01 to a date, which [`DateTime::from_unix`] inverts for a date that exists and is not before 1970.
pub(crate) fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the day of a leap year is the last one.
    let (year, month) = match month {
        ..=2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_each_other_for_six_hundred_years() {
        let mut last = DateTime::from_unix(0);
        for day in 1..219_000 {
            let date = DateTime::from_unix(day * DAY_S);
            let parts = [date.year, date.month, date.day].map(u64::cast_signed);
            assert_eq!(days_from_date(parts[0], parts[1], parts[2]), day);
            assert_eq!(date.weekday, (last.weekday + 1) % 7);
            if date.day != 1 {
                assert_eq!(
                    (date.year, date.month, date.day),
                    (last.year, last.month, last.day + 1)
                );
                assert_eq!(date.day_of_year, last.day_of_year + 1);
            } else if date.month != 1 {
                assert_eq!((date.year, date.month), (last.year, last.month + 1));
                assert!((28..=31).contains(&last.day));
            } else {
                assert_eq!((date.year, last.month, last.day), (last.year + 1, 12, 31));
                assert_eq!(date.day_of_year, 1);
                assert!(last.day_of_year == 365 || last.year.is_multiple_of(4) && last.day_of_year == 366);
            }
            last = date;
        }
    }
}
