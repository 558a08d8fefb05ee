//! The six levels, their codes on the wire and their names.

use core::fmt;
use core::str::FromStr;

/// Severity of a record. Greater is more severe.
///
/// ```
/// use logdrive_wire::Level;
/// assert!(Level::Error > Level::Warn);
/// assert_eq!("warn".parse::<Level>(), Ok(Level::Warn));
/// ```
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Very fine detail.
    Trace = 0,
    /// Detail for developers; meant to be left on.
    Debug = 1,
    /// Normal operation.
    Info = 2,
    /// Something unexpected that was handled. From here on the ring's reserved eighth may be used.
    Warn = 3,
    /// An operation failed.
    Error = 4,
    /// The program cannot go on.
    Fatal = 5,
}

impl Level {
    /// All levels, least severe first.
    pub const ALL: [Level; 6] = [
        Level::Trace,
        Level::Debug,
        Level::Info,
        Level::Warn,
        Level::Error,
        Level::Fatal,
    ];

    /// The level with this code; `None` for codes that are not in the format.
    pub const fn from_code(code: u8) -> Option<Level> {
        match code {
            0 => Some(Level::Trace),
            1 => Some(Level::Debug),
            2 => Some(Level::Info),
            3 => Some(Level::Warn),
            4 => Some(Level::Error),
            5 => Some(Level::Fatal),
            _ => None,
        }
    }

    /// The code on the wire.
    #[inline]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Upper-case name, such as `INFO`.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Trace => "TRACE",
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
            Level::Fatal => "FATAL",
        }
    }

    /// Lower-case name, such as `info`.
    pub const fn lower_name(self) -> &'static str {
        match self {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
            Level::Fatal => "fatal",
        }
    }

    /// Returns whether records of this level may use the last eighth of a ring.
    #[inline]
    pub const fn is_urgent(self) -> bool {
        self as u8 >= Level::Warn as u8
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that is not the name of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownLevel;

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a level: use trace, debug, info, warn, error or fatal")
    }
}

impl std::error::Error for UnknownLevel {}

impl FromStr for Level {
    type Err = UnknownLevel;

    /// Reads a name in any case; `warning` is accepted for `warn`.
    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        Level::ALL
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(text))
            .or_else(|| text.eq_ignore_ascii_case("warning").then_some(Level::Warn))
            .ok_or(UnknownLevel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_go_both_ways() {
        for level in Level::ALL {
            assert_eq!(Level::from_code(level.code()), Some(level));
            assert_eq!(level.name().to_lowercase().parse(), Ok(level));
        }
        assert_eq!(Level::from_code(6), None);
        assert_eq!("loud".parse::<Level>(), Err(UnknownLevel));
    }
}
