//! What a key of the configuration is: its type with its bounds, its default, and what it is good for.
//!
//! The tables in [`super::sections`] are made of these. Reading, the commented default, the manual page and the texts
//! of errors all use the same tables.

use super::units::{duration_text, size_text};
use logdrive_agent::config::PLACEHOLDERS;
use logdrive_drain::limits::SHIP_ADDRESSES_MAX;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A table of the file, `[name]` or `[[name]]`.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its name, with dots: `limits.user`.
    pub(crate) name: &'static str,
    /// Whether there may be several, and then how many at most.
    pub(crate) many: Option<usize>,
    /// What it is for: paragraphs.
    pub(crate) help: &'static [&'static str],
    /// Its keys.
    pub(crate) keys: &'static [Key],
    /// Values that the commented default shows where they are not the defaults.
    pub(crate) shown: &'static [(&'static str, &'static str)],
    /// Whether the commented default only has it as a comment.
    pub(crate) is_example: bool,
}

/// One key.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// Its name.
    pub(crate) name: &'static str,
    /// What its value may be.
    pub(crate) kind: Kind,
    /// What holds without it.
    pub(crate) without: Without,
    /// What it is for, why it is as it is, and what else to know.
    pub(crate) help: &'static str,
    /// Whether it means something for sinks that are files only.
    pub(crate) files_only: bool,
}

/// What holds when a key is not given.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Without {
    /// It has to be given. With an example, as TOML.
    Required(&'static str),
    /// This value, as TOML.
    Default(&'static str),
    /// What these words say. With an example, as TOML.
    Unset(&'static str, &'static str),
}

/// What a value may be.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A name for other keys to use.
    Name,
    /// Any text of at most so many bytes.
    Text(usize),
    /// An absolute path of at most so many bytes.
    Path(usize),
    /// An absolute path, perhaps with placeholders.
    LogPath,
    /// A pattern for names of applications.
    App,
    /// A module or target.
    Module,
    /// A user.
    User,
    /// A user, or all of them.
    UserOrAll,
    /// A group.
    Group,
    /// Bytes.
    Size(RangeInclusive<u64>),
    /// Bytes, or `off`.
    SizeOrOff(RangeInclusive<u64>),
    /// A number.
    Count(RangeInclusive<u64>),
    /// A number, or `off`.
    CountOrOff(RangeInclusive<u64>),
    /// A time span.
    Time(RangeInclusive<Duration>),
    /// A time span, or `off`.
    TimeOrOff(RangeInclusive<Duration>),
    /// A time span, or one of these words.
    TimeOrWord(RangeInclusive<Duration>, &'static [Word]),
    /// A level.
    Level,
    /// A level, or `off`.
    LevelOrOff,
    /// One of these words.
    Word(&'static [Word]),
    /// `true` or `false`.
    Flag,
    /// Permissions: which bits may be set, and which have to be.
    Mode {
        /// Bits that may be set.
        most: u32,
        /// Bits that have to be set.
        least: u32,
    },
    /// Where metrics are served.
    Metrics,
    /// Collectors: addresses, some with weights and roles.
    Members,
    /// Names of sinks.
    Sinks,
    /// Places of callsites.
    Callsites,
    /// Directives about levels.
    Rules,
}

/// A word, and what it means.
pub(crate) type Word = (&'static str, &'static str);

impl Section {
    /// The key of a name.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// As it stands in a file: `[agent]`, `[[sink]]`.
    pub(crate) fn header(&self) -> String {
        match self.many {
            Some(_) => format!("[[{}]]", self.name),
            None => format!("[{}]", self.name),
        }
    }
}

impl Kind {
    /// The words that are allowed, for suggestions.
    pub(crate) fn words(&self) -> Vec<&'static str> {
        const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "fatal"];
        let mut words: Vec<&str> = match self {
            Self::Word(words) | Self::TimeOrWord(_, words) => words.iter().map(|word| word.0).collect(),
            Self::Level | Self::LevelOrOff => LEVELS.to_vec(),
            _ => Vec::new(),
        };
        if self.may_be_off() {
            words.push("off");
        }
        words
    }

    /// Whether `off` is allowed.
    pub(crate) fn may_be_off(&self) -> bool {
        matches!(
            self,
            Self::SizeOrOff(_) | Self::CountOrOff(_) | Self::TimeOrOff(_) | Self::LevelOrOff | Self::Metrics
        )
    }

    /// What is allowed, in words that come behind "allowed:".
    pub(crate) fn allowed(&self) -> String {
        let plain = match self {
            Self::Name => "1 to 64 letters, digits, dots, dashes and underscores".to_owned(),
            Self::Text(bytes) => format!("text of at most {bytes} bytes"),
            Self::Path(bytes) => format!("an absolute path of at most {bytes} bytes"),
            Self::LogPath => format!("an absolute path, which may have {} in it", placeholders()),
            Self::App => "a name of an application, with * for any text and ? for any character".to_owned(),
            Self::Module => "a module or target such as \"net::quic\"".to_owned(),
            Self::User => "the name or the number of a user".to_owned(),
            Self::UserOrAll => "the name or the number of a user, or \"*\" for every other user".to_owned(),
            Self::Group => "the name or the number of a group".to_owned(),
            Self::Size(range) | Self::SizeOrOff(range) => {
                let (least, most) = (size_text(*range.start()), size_text(*range.end()));
                format!("a size from \"{least}\" to \"{most}\", or a number of bytes")
            }
            Self::Count(range) | Self::CountOrOff(range) => {
                format!("a number from {} to {}", range.start(), range.end())
            }
            Self::Time(range) | Self::TimeOrOff(range) | Self::TimeOrWord(range, _) => {
                let (least, most) = (duration_text(*range.start()), duration_text(*range.end()));
                format!("a time from \"{least}\" to \"{most}\"")
            }
            Self::Level | Self::LevelOrOff | Self::Word(_) => String::new(),
            Self::Flag => "true or false".to_owned(),
            Self::Mode { most, least } => {
                format!("octal permissions with all of \"{least:04o}\" and nothing beyond \"{most:04o}\"")
            }
            Self::Metrics => {
                "an address and port such as \"127.0.0.1:9187\", or \"unix:\" and an absolute path".to_owned()
            }
            Self::Members => format!(
                "{}; at most {SHIP_ADDRESSES_MAX} of them",
                crate::members::ALLOWED
            ),
            Self::Sinks => "names of sinks, such as [\"main\"]".to_owned(),
            Self::Callsites => {
                "places in the source, such as [\"net.rs:42\"]; also files and modules".to_owned()
            }
            Self::Rules => {
                "levels and SELECTOR=LEVEL between commas, such as \"info,net::quic=trace\"".to_owned()
            }
        };
        let words: Vec<String> = self.words().iter().map(|word| format!("\"{word}\"")).collect();
        match (plain.is_empty(), words.is_empty()) {
            (_, true) => plain,
            (true, false) => one_of(&words),
            (false, false) => format!("{plain}, or {}", one_of(&words)),
        }
    }
}

/// `a`, `a or b`, `a, b or c`.
pub(crate) fn one_of(words: &[String]) -> String {
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
    }
}

fn placeholders() -> String {
    one_of(&PLACEHOLDERS.map(|(name, _)| name.to_owned()))
}
