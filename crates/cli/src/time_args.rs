//! Arguments that say since and until when, and in which zone times are given and shown.

use crate::instant::{Edge, now_unix_ns, read_instant_in};
use clap::Args;
use jiff::tz::TimeZone;

/// Zone of times.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ZoneArgs {
    /// Show times, and read given ones, in this zone: Europe/Berlin, +02:00, local; without it they are UTC
    #[arg(long, value_name = "ZONE", value_parser = read_zone, help_heading = "Times")]
    pub(crate) tz: Option<TimeZone>,
    /// The same in the zone of this machine, or of the variable TZ
    #[arg(long, conflicts_with = "tz", help_heading = "Times")]
    pub(crate) local: bool,
}

impl ZoneArgs {
    /// The zone that was asked for.
    pub(crate) fn asked(&self) -> Option<TimeZone> {
        match self.local {
            true => Some(TimeZone::system()),
            false => self.tz.clone(),
        }
    }

    /// The zone of times that name none.
    pub(crate) fn zone(&self) -> TimeZone {
        self.asked().unwrap_or(TimeZone::UTC)
    }
}

/// A time as it was typed, and which end of a day a date means.
#[derive(Debug, Clone)]
pub(crate) struct GivenTime {
    text: String,
    edge: Edge,
}

impl GivenTime {
    /// Reads `--since`.
    ///
    /// # Errors
    /// With what may be typed.
    pub(crate) fn since(text: &str) -> Result<Self, String> {
        Self::read(text, Edge::First)
    }

    /// Reads `--until`.
    ///
    /// # Errors
    /// With what may be typed.
    pub(crate) fn until(text: &str) -> Result<Self, String> {
        Self::read(text, Edge::Last)
    }

    fn read(text: &str, edge: Edge) -> Result<Self, String> {
        // Whether it is understood does not depend on the zone.
        read_instant_in(text, edge, now_unix_ns(), &TimeZone::UTC)?;
        let text = text.to_owned();
        Ok(Self { text, edge })
    }

    /// Returns the time in nanoseconds since 1970.
    pub(crate) fn unix_ns(&self, zone: &ZoneArgs) -> Option<u64> {
        read_instant_in(&self.text, self.edge, now_unix_ns(), &zone.zone()).ok()
    }
}

/// From when to when, in which zone.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TimeArgs {
    /// Only records from this time on
    ///
    /// A time such as 2026-11-21T12:34:56Z, a date, a time of today such as 12:34, how long ago: 90s, 10m, 2h, 3d, or in
    /// English: 'yesterday 14:00', 'last friday', '10 minutes ago'. Without a zone a time is UTC, as in the logs, or of the
    /// zone of --tz and --local.
    #[arg(long, value_name = "TIME", help_heading = "Times", value_parser = GivenTime::since)]
    pub(crate) since: Option<GivenTime>,
    /// Only records up to this time; a date means all of that day
    #[arg(long, value_name = "TIME", help_heading = "Times", value_parser = GivenTime::until)]
    pub(crate) until: Option<GivenTime>,
    #[command(flatten)]
    pub(crate) zone: ZoneArgs,
}

impl TimeArgs {
    /// Earliest time of records.
    pub(crate) fn since_ns(&self) -> Option<u64> {
        self.since.as_ref()?.unix_ns(&self.zone)
    }

    /// Latest time of records.
    pub(crate) fn until_ns(&self) -> Option<u64> {
        self.until.as_ref()?.unix_ns(&self.zone)
    }
}

/// Reads a zone.
fn read_zone(text: &str) -> Result<TimeZone, String> {
    let offset = || {
        let (sign, rest) = match text.split_at_checked(1)? {
            ("+", rest) => (1, rest),
            ("-", rest) => (-1, rest),
            _ => return None,
        };
        let (hours, minutes) = match rest.split_once(':') {
            Some(parts) => parts,
            None if rest.len() == 4 => rest.split_at(2),
            None => (rest, "0"),
        };
        let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
        let is_sound = (0..24).contains(&hours) && (0..60).contains(&minutes);
        let offset = jiff::tz::Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?;
        is_sound.then(|| offset.to_time_zone())
    };
    match text.to_ascii_lowercase().as_str() {
        "local" => Ok(TimeZone::system()),
        "utc" | "z" => Ok(TimeZone::UTC),
        _ => offset().or_else(|| TimeZone::get(text).ok()).ok_or_else(|| {
            "write the name of a zone such as Europe/Berlin, an offset such as +02:00, utc, or local"
                .to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_names_and_offsets() {
        let time: jiff::Timestamp = "2026-11-21T12:00:00Z".parse().expect("a time");
        for (text, hour) in [("utc", 12), ("+02:00", 14), ("-0330", 8), ("+5", 17)] {
            let zone = read_zone(text).expect(text);
            assert_eq!(time.to_zoned(zone).hour(), hour, "{text}");
        }
        for text in ["", "+", "+25:00", "Atlantis/North", "+1:99"] {
            assert!(read_zone(text).is_err(), "{text}");
        }
    }
}
