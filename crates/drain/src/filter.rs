//! Which callsites are on: `LOGDRIVE=info,net::quic=trace`.

use logdrive_wire::Level;
use std::fmt;

/// A default level and levels for targets. The longest target that matches decides.
///
/// A directive is a level (`info`, `off`), a target (`net`, all of it), or `target=level`, which a target that is nearly a
/// level or a number needs: `trade=trace`. A target matches itself and
/// everything below it: `net` matches `net::quic` and `net.udp`, but not `network`.
///
/// ```
/// use logdrive_drain::Filter;
/// use logdrive_wire::Level;
/// let filter: Filter = "info,net::quic=trace,net=off".parse()?;
/// assert!(filter.allows("app", Level::Info));
/// assert!(!filter.allows("app", Level::Debug));
/// assert!(filter.allows("net::quic::frame", Level::Trace));
/// assert!(!filter.allows("net::udp", Level::Error));
/// # Ok::<(), logdrive_drain::FilterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    default: Option<Level>,
    /// Longest target first.
    targets: Vec<(String, Option<Level>)>,
}

/// A directive that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot read the filter directive {directive:?}{}: write a level (trace, debug, info, warn, error, fatal, off) or \
     target=level, separated by commas", hint(*nearest)
)]
pub struct FilterError {
    directive: String,
    /// The word that is most like the one that cannot be read.
    nearest: Option<&'static str>,
}

fn hint(nearest: Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |word| format!(", which may mean {word}"))
}

/// The words that stand for levels.
const LEVELS: [&str; 7] = ["trace", "debug", "info", "warn", "error", "fatal", "off"];

/// Words of other loggers, with the level that they mean.
const OF_OTHERS: [(&str, &str); 12] = [
    ("all", "trace"),
    ("verbose", "trace"),
    ("dbg", "debug"),
    ("notice", "info"),
    ("err", "error"),
    ("critical", "fatal"),
    ("crit", "fatal"),
    ("panic", "fatal"),
    ("none", "off"),
    ("false", "off"),
    ("true", "debug"),
    ("on", "debug"),
];

impl Default for Filter {
    /// Everything from debug on.
    fn default() -> Self {
        Self::level(Level::Debug)
    }
}

impl Filter {
    /// Everything from this level on.
    pub fn level(level: Level) -> Self {
        Self {
            default: Some(level),
            targets: Vec::new(),
        }
    }

    /// Reads directives as [`FromStr`](std::str::FromStr) does, without those that cannot be read, which it returns: for a
    /// variable of the environment, with which a program must start. Where no level for all is left, that of `otherwise`
    /// holds; where nothing is left, all of it.
    pub fn read_leniently(text: &str, otherwise: &Self) -> (Self, Vec<FilterError>) {
        let mut read = Self {
            default: otherwise.default,
            targets: Vec::new(),
        };
        let (mut wrong, mut count) = (Vec::new(), 0);
        for directive in directives(text) {
            match read.add(directive) {
                Ok(()) => count += 1,
                Err(error) => wrong.push(error),
            }
        }
        read.sort();
        match count > 0 || wrong.is_empty() {
            true => (read, wrong),
            false => (otherwise.clone(), wrong),
        }
    }

    fn add(&mut self, directive: &str) -> Result<(), FilterError> {
        let wrong = |word: &str| FilterError {
            directive: directive.to_owned(),
            nearest: nearest(word),
        };
        let (target, level) = match directive.split_once('=') {
            Some((target, level)) if !target.trim().is_empty() => {
                let level = level.trim();
                (target.trim(), read_level(level).ok_or_else(|| wrong(level))?)
            }
            Some(_) => return Err(wrong("")),
            None => match read_level(directive) {
                Some(level) => {
                    self.default = level;
                    return Ok(());
                }
                // A mistyped level would be a target that nothing has.
                None if is_target(directive) && nearest(directive).is_none() => {
                    (directive, Some(Level::Trace))
                }
                None => return Err(wrong(directive)),
            },
        };
        self.targets.push((target.to_owned(), level));
        Ok(())
    }

    fn sort(&mut self) {
        self.targets
            .sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
    }

    /// Returns whether a callsite with this target and level is on.
    pub fn allows(&self, target: &str, level: Level) -> bool {
        let found = self.targets.iter().find(|(prefix, _)| is_below(target, prefix));
        found
            .map_or(self.default, |(_, lowest)| *lowest)
            .is_some_and(|lowest| level >= lowest)
    }
}

/// Returns whether a target is `prefix` or lies below it: `net::quic` lies below `net`, `network` does not.
///
/// ```
/// use logdrive_drain::is_below;
/// assert!(is_below("net::quic", "net") && is_below("net", "net"));
/// assert!(!is_below("network", "net"));
/// ```
pub fn is_below(target: &str, prefix: &str) -> bool {
    target
        .strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '.', '/']))
}

impl fmt::Display for Filter {
    /// The directives, as [`FromStr`](std::str::FromStr) reads them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&level_name(self.default))?;
        for (target, level) in &self.targets {
            write!(f, ",{target}={}", level_name(*level))?;
        }
        Ok(())
    }
}

fn level_name(level: Option<Level>) -> String {
    level.map_or_else(|| "off".to_owned(), |level| level.name().to_ascii_lowercase())
}

impl std::str::FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        for directive in directives(text) {
            filter.add(directive)?;
        }
        filter.sort();
        Ok(filter)
    }
}

fn directives(text: &str) -> impl Iterator<Item = &str> {
    let all = text.split(',').map(str::trim);
    all.filter(|directive| !directive.is_empty())
}

/// Returns the level that a word may mean which is none; a number means no target either.
fn nearest(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some("info");
    }
    let of_others = OF_OTHERS.iter().find(|(other, _)| *other == word);
    let rated = LEVELS.iter().map(|level| (distance(&word, level), *level));
    let is_near =
        |(distance, level): &(usize, &str)| *distance <= level.len() / 3 || letters(level) == letters(&word);
    let near = rated.min().filter(is_near);
    of_others
        .map(|(_, level)| *level)
        .or(near.map(|(_, level)| level))
}

/// Letters of a word in the order of the alphabet: words of the same ones are taken for each other.
fn letters(word: &str) -> Vec<u8> {
    let mut letters = word.as_bytes().to_vec();
    letters.sort_unstable();
    letters
}

/// Letters to add, remove or change to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, wanted) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != wanted);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

fn is_target(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || "_:.-/".contains(c))
}

/// Reads a level, or `off`, which is `None` in it.
pub(crate) fn read_level(text: &str) -> Option<Option<Level>> {
    match text.eq_ignore_ascii_case("off") {
        true => Some(None),
        false => text.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_matches_whole_parts_only() {
        let filter: Filter = "off, net=debug , net::quic=error".parse().unwrap();
        assert!(filter.allows("net", Level::Debug));
        assert!(filter.allows("net::tcp", Level::Debug));
        assert!(!filter.allows("network", Level::Fatal));
        assert!(!filter.allows("net::quic::frame", Level::Warn));
    }

    #[test]
    fn a_bare_target_is_all_of_it() {
        let filter: Filter = "warn,my_app::db".parse().unwrap();
        assert!(filter.allows("my_app::db", Level::Trace));
        assert!(!filter.allows("my_app", Level::Info));
    }

    #[test]
    fn directives_read_back_from_their_text() {
        for text in ["info", "off", "warn,net::quic=trace,net=off"] {
            let filter: Filter = text.parse().unwrap();
            assert_eq!(filter.to_string(), text);
        }
    }

    #[test]
    fn a_mistyped_level_is_an_error_with_the_nearest_word_and_no_target() {
        for (text, word) in [
            ("infoo", "info"),
            ("1", "info"),
            ("5", "info"),
            ("wran", "warn"),
            ("none", "off"),
            ("net=debgu", "debug"),
        ] {
            let error = text.parse::<Filter>().unwrap_err().to_string();
            assert!(
                error.contains(text) && error.contains(&format!("may mean {word}")),
                "{error}"
            );
        }
        for text in ["net", "shop", "trade=trace", "my_app::db", "ring", "in2"] {
            assert!(text.parse::<Filter>().is_ok(), "{text}");
        }
    }

    #[test]
    fn the_rest_of_a_variable_holds_without_what_cannot_be_read() {
        let otherwise: Filter = "warn,db=trace".parse().unwrap();
        for (text, read, wrong) in [
            ("infoo", "warn,db=trace", 1),
            ("infoo,net=trace", "warn,net=trace", 1),
            ("info,net=loud,db=off", "info,db=off", 1),
            ("debug", "debug", 0),
            ("", "warn", 0),
        ] {
            let (filter, errors) = Filter::read_leniently(text, &otherwise);
            assert_eq!(
                (filter.to_string(), errors.len()),
                (read.to_owned(), wrong),
                "{text}"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = "info,net=loud".parse::<Filter>().unwrap_err();
        assert!(error.to_string().contains("net=loud"), "{error}");
        assert!("=info".parse::<Filter>().is_err());
        assert!("a b".parse::<Filter>().is_err());
    }
}
