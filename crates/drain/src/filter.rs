//! Which callsites are on: `LOGDRIVE=info,net::quic=trace`.

use logdrive_wire::Level;
use std::fmt;

/// A default level and levels for targets. The longest target that matches decides.
///
/// A directive is a level (`info`, `off`), a target (`net`, all of it), or `target=level`. A target matches itself and
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
    "cannot read the filter directive {directive:?}: write a level (trace, debug, info, warn, error, fatal, off) or \
     target=level, separated by commas"
)]
pub struct FilterError {
    directive: String,
}

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

    /// Whether a callsite with this target and level is on.
    pub fn allows(&self, target: &str, level: Level) -> bool {
        let found = self.targets.iter().find(|(prefix, _)| is_below(target, prefix));
        found
            .map_or(self.default, |(_, lowest)| *lowest)
            .is_some_and(|lowest| level >= lowest)
    }
}

/// Whether a target is `prefix` or lies below it: `net::quic` lies below `net`, `network` does not.
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
        for directive in text
            .split(',')
            .map(str::trim)
            .filter(|directive| !directive.is_empty())
        {
            let wrong = || FilterError {
                directive: directive.to_owned(),
            };
            match directive.split_once('=') {
                Some((target, level)) => {
                    let target = target.trim();
                    if target.is_empty() {
                        return Err(wrong());
                    }
                    filter
                        .targets
                        .push((target.to_owned(), read_level(level.trim()).ok_or_else(wrong)?));
                }
                None => match read_level(directive) {
                    Some(level) => filter.default = level,
                    None if is_target(directive) => {
                        filter.targets.push((directive.to_owned(), Some(Level::Trace)));
                    }
                    None => return Err(wrong()),
                },
            }
        }
        filter
            .targets
            .sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
        Ok(filter)
    }
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
    fn what_cannot_be_read_is_named() {
        let error = "info,net=loud".parse::<Filter>().unwrap_err();
        assert!(error.to_string().contains("net=loud"), "{error}");
        assert!("=info".parse::<Filter>().is_err());
        assert!("a b".parse::<Filter>().is_err());
    }
}
