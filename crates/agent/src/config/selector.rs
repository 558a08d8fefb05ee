//! Selection of processes: by application and user.

use super::limits::NAME_BYTES_MAX;
use logdrive_drain::options;
use logdrive_drain::schema::{FILE, Kind, Row, Setting, Value, Wrong, quoted};
use std::fmt;

/// A process that logs: its name as it says, its number and its user as the kernel says.
///
/// ```
/// use logdrive_agent::config::Process;
/// let process = Process { app: "shop", pid: 417, uid: 1000 };
/// assert_eq!(process.app, "shop");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process<'a> {
    /// The application's name. Any process may claim any name: where that matters, ask for the user too.
    pub app: &'a str,
    /// Its process number.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// A user or a group. Only the number counts; the name is for people, and is the number where there is none.
///
/// ```
/// use logdrive_agent::config::Account;
/// let account = Account { name: "www-data".into(), id: 33 };
/// assert_eq!(account.to_string(), "www-data");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u32,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

/// A pattern for names of applications: `*` is any text, `?` any character, all else is itself.
///
/// ```
/// use logdrive_agent::config::AppPattern;
/// let pattern = AppPattern::new("shop-*");
/// assert!(pattern.matches("shop-worker") && !pattern.matches("shop"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppPattern(String);

impl AppPattern {
    /// The pattern with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The pattern that matches every name.
    pub fn any() -> Self {
        Self::new("*")
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a name matches.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut name_at) = (0, 0);
        // Where the last star stands, and how far into the name it reaches so far.
        let mut star = None;
        while let Some(&byte) = name.get(name_at) {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, name_at));
                    at += 1;
                }
                Some(b'?') => {
                    at += 1;
                    name_at += character_bytes(byte);
                }
                Some(&expected) if expected == byte => {
                    at += 1;
                    name_at += 1;
                }
                _ => {
                    let Some((star_at, reaches)) = star else {
                        return false;
                    };
                    star = Some((star_at, reaches + 1));
                    at = star_at + 1;
                    name_at = reaches + 1;
                }
            }
        }
        pattern
            .get(at..)
            .unwrap_or_default()
            .iter()
            .all(|byte| *byte == b'*')
    }
}

/// Bytes of the UTF-8 character that begins with this one.
fn character_bytes(first: u8) -> usize {
    match first {
        0..=0xbf => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0.. => 4,
    }
}

impl fmt::Display for AppPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

options! {
    /// Processes by application and user. Both have to match.
    ///
    /// ```
    /// use logdrive_agent::config::{Process, ProcessSelector};
    /// assert!(ProcessSelector::anyone().matches(&Process { app: "shop", pid: 417, uid: 1000 }));
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProcessSelector {
        /// Applications, by name. A process names itself, and nothing keeps it from taking another's name: where that
        /// matters, name the user too.
        pub app: AppPattern => Row::of(Kind::Parsed(APP_PATTERN)).scope(FILE),
        /// The user of the process, as the kernel knows it.
        pub user: Option<Account> => Row::of(Kind::User).unset("any user", "\"www-data\"").scope(FILE),
    }
}

/// Description of an [`AppPattern`].
pub(super) const APP_PATTERN: &str = "a name of an application, with * for any text and ? for any character";

impl Setting for AppPattern {
    fn to_value(&self) -> Option<Value> {
        Some(Value::Text(self.0.clone()))
    }

    fn from_value(value: Value) -> Result<Self, Wrong> {
        let text = String::from_value(value)?;
        match text.len() > NAME_BYTES_MAX {
            true => Err(Wrong::new(format!(
                "{} has {} bytes, which are more than {NAME_BYTES_MAX}",
                quoted(&text),
                text.len()
            ))),
            false => Ok(Self(text)),
        }
    }
}

impl Setting for Account {
    fn to_value(&self) -> Option<Value> {
        Some(Value::Account(self.name.clone(), self.id))
    }

    fn from_value(value: Value) -> Result<Self, Wrong> {
        match value {
            Value::Account(name, id) => Ok(Self { name, id }),
            _ => Err(Wrong::new("expected a user or a group")),
        }
    }
}

impl ProcessSelector {
    /// Every process.
    pub fn anyone() -> Self {
        Self {
            app: AppPattern::any(),
            user: None,
        }
    }

    /// Returns whether a process is meant.
    pub fn matches(&self, process: &Process<'_>) -> bool {
        let is_user = self.user.as_ref().is_none_or(|user| user.id == process.uid);
        is_user && self.app.matches(process.app)
    }

    /// Returns whether every process that `other` means is meant here too, as far as can be seen: `*` covers all
    /// patterns, any other pattern itself only.
    pub fn covers(&self, other: &ProcessSelector) -> bool {
        let user = match (&self.user, &other.user) {
            (None, _) => true,
            (Some(own), Some(other)) => own.id == other.id,
            (Some(_), None) => false,
        };
        user && (self.app == AppPattern::any() || self.app == other.app)
    }
}

impl fmt::Display for ProcessSelector {
    /// `shop`, `shop of user www-data`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(f, "{} of user {user}", self.app),
            None => write!(f, "{}", self.app),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("shop", "shop", true),
            ("shop", "shops", false),
            ("shop", "", false),
            ("*", "", true),
            ("*", "anything", true),
            ("s*p", "shop", true),
            ("s*p", "sp", true),
            ("s*p", "shops", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("sh?p", "shop", true),
            ("sh?p", "shp", false),
            ("caf?", "café", true),
            ("?af?", "café", true),
            ("caf??", "café", false),
            ("*é", "café", true),
            ("", "", true),
            ("", "a", false),
            ("a**b", "ab", true),
        ] {
            assert_eq!(
                AppPattern::new(pattern).matches(name),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_more_steps_than_pattern_times_name() {
        let pattern = AppPattern::new("*a".repeat(32));
        assert!(!pattern.matches(&"a".repeat(31)));
        assert!(pattern.matches(&"a".repeat(32)));
        assert!(!pattern.matches(&format!("{}b", "a".repeat(10_000))));
    }

    #[test]
    fn both_application_and_user_have_to_match() {
        let web = Account {
            name: "www-data".into(),
            id: 33,
        };
        let selector = ProcessSelector {
            app: AppPattern::new("shop*"),
            user: Some(web.clone()),
        };
        let process = |app, uid| Process { app, pid: 1, uid };
        assert!(selector.matches(&process("shop-1", 33)));
        assert!(!selector.matches(&process("shop-1", 0)));
        assert!(!selector.matches(&process("mail", 33)));
        assert_eq!(selector.to_string(), "shop* of user www-data");
        assert!(
            ProcessSelector::anyone().covers(&selector)
                && selector.covers(&selector)
                && !selector.covers(&ProcessSelector::anyone())
        );
    }
}
