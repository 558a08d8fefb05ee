//! One option as a constant: its name, type, bounds, words and help, and its two text forms.

use super::limits::{FILE_NAME_BYTES_MAX, NAME_BYTES_MAX};
use super::units::{duration_text, read_duration, read_mode, read_size, size_text};
use super::value::{Given, Value, Word, quoted};
use super::{Wrong, escape, unescape};
use logdrive_wire::Level;
use std::ffi::OsString;
use std::ops::{Range, RangeInclusive};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// Finds the number of a user (`false`) or a group (`true`) by its name.
pub type Accounts<'a> = &'a dyn Fn(&str, bool) -> Option<u32>;

/// Placeholders that a path of a log may have in it, and their meaning.
pub const PLACEHOLDERS: [Word; 3] = [
    (
        "{app}",
        "the application's name, with `_` for all but letters, digits, dot, dash and underscore",
    ),
    ("{pid}", "the process number"),
    ("{uid}", "the number of the process's user"),
];

/// The option can be given in configuration files.
pub const FILE: u8 = 1;
/// The option is kept in sessions, because recovery needs it.
pub const SESSION: u8 = 2;
/// Programs can give the option as text: the C interface.
pub const PROGRAM: u8 = 4;

/// One option.
#[derive(Debug, Clone)]
pub struct Row {
    /// Name of the option, the same everywhere.
    pub name: &'static str,
    /// Help text: the doc comment of the field, with a blank at its front.
    pub doc: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Words that the value may be instead.
    pub words: &'static [Word],
    /// The value may be `off`.
    pub off: bool,
    /// Consequence of leaving the option out, where there is no default value.
    pub without: &'static str,
    /// Example of a value, as TOML, for options without a default.
    pub example: &'static str,
    /// The option has to be given.
    pub is_required: bool,
    /// A reload of the configuration changes the option of an open sink.
    pub is_live: bool,
    /// Places where the option can be given: [`FILE`], [`SESSION`] and [`PROGRAM`].
    pub scope: u8,
}

/// Type of a value.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A name for other options to use.
    Name,
    /// Any text of at most so many bytes.
    Text(usize),
    /// Text that the type of the field reads, with a description of what it may be.
    Parsed(&'static str),
    /// A list of values and tables that the reader of its type parses, with a description of what it may be.
    Tables(&'static str),
    /// An absolute path of at most so many bytes.
    Path(usize),
    /// An absolute path of at most so many bytes, perhaps with [`PLACEHOLDERS`].
    LogPath(usize),
    /// A user.
    User,
    /// A group.
    Group,
    /// Bytes.
    Size(RangeInclusive<u64>),
    /// A number.
    Count(RangeInclusive<u64>),
    /// A time.
    Time(RangeInclusive<Duration>),
    /// A level.
    Level,
    /// One of the words of the row and nothing else.
    Word,
    /// `true` or `false`.
    Flag,
    /// Permissions: bits that may be set, and bits that have to be.
    Mode {
        /// Bits that may be set.
        most: u32,
        /// Bits that have to be set.
        least: u32,
    },
    /// A list of at most `most` texts, or one text. With `is_names`, each is a name and stands there once.
    List {
        /// Most elements.
        most: usize,
        /// Most bytes of an element.
        bytes: usize,
        /// Each is a name and stands there once.
        is_names: bool,
        /// Description of what is allowed.
        allowed: &'static str,
    },
}

impl Row {
    /// An option of a kind, that can be given everywhere.
    pub const fn of(kind: Kind) -> Self {
        Self {
            name: "",
            doc: "",
            kind,
            words: &[],
            off: false,
            without: "",
            example: "",
            is_required: false,
            is_live: false,
            scope: FILE | SESSION | PROGRAM,
        }
    }

    /// The same with words that the value may be.
    pub const fn words(self, words: &'static [Word]) -> Self {
        Self { words, ..self }
    }

    /// The same where the value may be `off`.
    pub const fn off(self) -> Self {
        Self { off: true, ..self }
    }

    /// The same with what holds without it, and an example.
    pub const fn unset(self, without: &'static str, example: &'static str) -> Self {
        Self {
            without,
            example,
            ..self
        }
    }

    /// The same where it has to be given, with an example.
    pub const fn required(self, example: &'static str) -> Self {
        Self {
            is_required: true,
            example,
            ..self
        }
    }

    /// The same where a reload changes the option of an open sink.
    pub const fn live(self) -> Self {
        Self {
            is_live: true,
            ..self
        }
    }

    /// The same where it can be given in these places.
    pub const fn scope(self, scope: u8) -> Self {
        Self { scope, ..self }
    }

    /// The same under a name that is a word of Rust, too.
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The row with the name and doc comment of its field.
    #[doc(hidden)]
    pub const fn at(self, field: &'static str, doc: &'static str) -> Self {
        let name = if self.name.is_empty() { field } else { self.name };
        Self { name, doc, ..self }
    }

    /// Help text without blanks around it.
    pub fn help(&self) -> &'static str {
        self.doc.trim()
    }

    /// Words for suggestions.
    pub fn suggestions(&self) -> Vec<&'static str> {
        const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "fatal"];
        let levels = matches!(self.kind, Kind::Level).then_some(LEVELS);
        let words = self.words.iter().map(|word| word.0);
        let words = words.chain(levels.into_iter().flatten());
        words.chain(self.off.then_some("off")).collect()
    }

    /// Description of the values that are allowed, in words that come behind "allowed:".
    pub fn allowed(&self) -> String {
        let plain = self.kind.allowed();
        let words: Vec<String> = self.suggestions().into_iter().map(quoted).collect();
        match (plain.is_empty(), words.is_empty()) {
            (_, true) => plain,
            (true, false) => one_of(&words),
            (false, false) => format!("{plain}, or {}", one_of(&words)),
        }
    }

    /// Reads a value and checks its bounds.
    ///
    /// # Errors
    /// With what was found, and what is the matter with it.
    pub fn read(&self, given: &Given<'_>, accounts: Accounts<'_>) -> Result<Value, Wrong> {
        if let Some(text) = given.text() {
            if self.off && text == "off" {
                return Ok(Value::Off);
            }
            if let Some(word) = self.words.iter().find(|word| word.0 == text) {
                return Ok(Value::Word(word.0));
            }
        }
        self.kind.read(given, accounts)
    }

    /// A value as TOML has it.
    pub fn show(&self, value: &Value) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        match (value, &self.kind) {
            (Value::Off, _) => quoted("off"),
            (Value::Number(mode), Kind::Mode { .. }) => format!("\"{mode:04o}\""),
            (Value::Number(bytes), Kind::Size(_)) => quoted(&size_text(*bytes)),
            (Value::Number(number), _) => number.to_string(),
            (Value::Time(time), _) => quoted(&duration_text(*time)),
            (Value::Text(text), _) => quoted(text),
            (Value::Path(path), _) => quoted(&path.to_string_lossy()),
            (Value::Flag(flag), _) => flag.to_string(),
            (Value::Word(word), _) => quoted(word),
            (Value::Level(level), _) => quoted(&level.name().to_ascii_lowercase()),
            (Value::Account(name, _), _) => quoted(name),
            (Value::Names(names), _) => {
                let names: Vec<String> = names.iter().map(|(name, _)| quoted(name)).collect();
                format!("[{}]", names.join(", "))
            }
        }
    }

    /// A value as a session keeps it: exact, on one line of printable ASCII.
    pub(super) fn exact(&self, value: &Value) -> String {
        match value {
            Value::Off => "off".to_owned(),
            Value::Number(mode) if matches!(self.kind, Kind::Mode { .. }) => format!("{mode:o}"),
            Value::Number(number) => number.to_string(),
            Value::Time(time) if !self.words.is_empty() && time.subsec_nanos() == 0 => {
                time.as_secs().to_string()
            }
            Value::Time(time) => format!("{}.{:09}", time.as_secs(), time.subsec_nanos()),
            // A layout is one line by itself.
            Value::Text(text) if matches!(self.kind, Kind::Parsed(_)) => text.clone(),
            Value::Text(text) | Value::Account(text, _) => escape(text.as_bytes()),
            Value::Path(path) => escape(path.as_os_str().as_bytes()),
            Value::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
            Value::Word(word) => (*word).to_owned(),
            Value::Level(level) => level.to_string(),
            Value::Names(names) => {
                let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
                escape(names.join(",").as_bytes())
            }
        }
    }

    /// Reads what [`Row::exact`] wrote. Bounds are not checked: the writer has checked them.
    pub(super) fn read_exact(&self, text: &str) -> Result<Value, &'static str> {
        if let Some(word) = self.words.iter().find(|word| word.0 == text) {
            return Ok(Value::Word(word.0));
        }
        match self.kind {
            Kind::Size(_) | Kind::Count(_) => digits(text).map(Value::Number),
            Kind::Mode { .. } => octal(text).map(Value::Number),
            Kind::Time(_) => seconds(text, !self.words.is_empty()).map(Value::Time),
            Kind::Level => text.parse().map(Value::Level).map_err(|_| "expected a level"),
            Kind::Flag => match text {
                "yes" | "true" => Ok(Value::Flag(true)),
                "no" | "false" => Ok(Value::Flag(false)),
                _ => Err("expected `yes` or `no`"),
            },
            Kind::Path(_) | Kind::LogPath(_) => {
                let bytes = unescape(text)?;
                match bytes.is_empty() || bytes.contains(&0) {
                    true => Err("the path is empty or holds a zero byte"),
                    false => Ok(Value::Path(PathBuf::from(OsString::from_vec(bytes)))),
                }
            }
            Kind::Name | Kind::Text(_) => String::from_utf8(unescape(text)?)
                .map(Value::Text)
                .map_err(|_| "the text is not UTF-8"),
            Kind::Parsed(_) => Ok(Value::Text(text.to_owned())),
            Kind::Word => Err("there is no such word"),
            Kind::User | Kind::Group | Kind::Tables(_) | Kind::List { .. } => {
                Err("no session keeps this option")
            }
        }
    }
}

/// Digits only: `parse` alone would take a sign.
fn digits(text: &str) -> Result<u64, &'static str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten();
    number.ok_or("expected a number")
}

fn octal(text: &str) -> Result<u64, &'static str> {
    let is_octal = !text.is_empty() && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let number = is_octal.then(|| u64::from_str_radix(text, 8).ok()).flatten();
    number.ok_or("expected an octal number")
}

fn seconds(text: &str, whole: bool) -> Result<Duration, &'static str> {
    let Some((seconds, nanos)) = text.split_once('.') else {
        return match whole {
            true => digits(text).map(Duration::from_secs),
            false => Err("expected SECONDS.NANOSECONDS"),
        };
    };
    if nanos.len() != 9 {
        return Err("expected nine digits after the point");
    }
    let nanos = u32::try_from(digits(nanos)?).map_err(|_| "the number is too large")?;
    Ok(Duration::new(digits(seconds)?, nanos))
}

/// Joins words: `a`, `a or b`, `a, b or c`.
pub fn one_of(words: &[String]) -> String {
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
    }
}

impl Kind {
    fn allowed(&self) -> String {
        match self {
            Self::Name => "1 to 64 letters, digits, dots, dashes and underscores".to_owned(),
            Self::Text(bytes) => format!("text of at most {bytes} bytes"),
            Self::Parsed(allowed) | Self::Tables(allowed) | Self::List { allowed, .. } => {
                (*allowed).to_owned()
            }
            Self::Path(bytes) => format!("an absolute path of at most {bytes} bytes"),
            Self::LogPath(_) => {
                let names = PLACEHOLDERS.map(|(name, _)| name.to_owned());
                format!("an absolute path, which may have {} in it", one_of(&names))
            }
            Self::User => "the name or the number of a user".to_owned(),
            Self::Group => "the name or the number of a group".to_owned(),
            Self::Size(range) => {
                let (least, most) = (size_text(*range.start()), size_text(*range.end()));
                format!("a size from \"{least}\" to \"{most}\", or a number of bytes")
            }
            Self::Count(range) => format!("a number from {} to {}", range.start(), range.end()),
            Self::Time(range) => {
                let (least, most) = (duration_text(*range.start()), duration_text(*range.end()));
                format!("a time from \"{least}\" to \"{most}\"")
            }
            Self::Level | Self::Word => String::new(),
            Self::Flag => "true or false".to_owned(),
            Self::Mode { most, least } => {
                format!("octal permissions with all of \"{least:04o}\" and nothing beyond \"{most:04o}\"")
            }
        }
    }

    fn read(&self, given: &Given<'_>, accounts: Accounts<'_>) -> Result<Value, Wrong> {
        match self {
            Self::Name => read_name(given).map(Value::Text),
            Self::Text(bytes) => read_text(given, *bytes).map(|text| Value::Text(text.to_owned())),
            Self::Parsed(_) => read_text(given, usize::MAX).map(|text| Value::Text(text.to_owned())),
            Self::Path(bytes) => read_path(given, *bytes).map(Value::Path),
            Self::LogPath(bytes) => read_log_path(given, *bytes).map(Value::Path),
            Self::User => read_account(given, "user", &|name| accounts(name, false)),
            Self::Group => read_account(given, "group", &|name| accounts(name, true)),
            Self::Size(range) => read_bytes(given, range).map(Value::Number),
            Self::Count(range) => read_count(given, range).map(Value::Number),
            Self::Time(range) => read_time(given, range).map(Value::Time),
            Self::Level => {
                let level: Option<Level> = given.text().and_then(|text| text.parse().ok());
                level.map(Value::Level).ok_or_else(|| is_no(given, "level"))
            }
            Self::Word => Err(is_no(given, "such word")),
            Self::Tables(_) => Err(Wrong::new("this cannot be given here")),
            Self::Flag => read_flag(given).map(Value::Flag),
            Self::Mode { most, least } => {
                read_permissions(given, *most, *least).map(|mode| Value::Number(mode.into()))
            }
            Self::List {
                most,
                bytes,
                is_names,
                ..
            } => read_list(given, *most, *bytes, *is_names).map(Value::Names),
        }
    }
}

fn is_no(given: &Given<'_>, what: &str) -> Wrong {
    Wrong::new(format!("{} is no {what}", given.describe()))
}

fn read_text<'a>(given: &Given<'a>, bytes_max: usize) -> Result<&'a str, Wrong> {
    let text = given.text().ok_or_else(|| match given {
        Given::Integer { .. } | Given::Flag(_) => is_no(given, "text").help("put it between quotes"),
        Given::Other(shown) if !shown.starts_with('a') => is_no(given, "text").help("put it between quotes"),
        _ => is_no(given, "text"),
    })?;
    // A program may have reasons to set an option to nothing.
    if text.is_empty() && !matches!(given, Given::Bare(_)) {
        return Err(Wrong::new("this is empty"));
    }
    match text.len() > bytes_max {
        true => Err(Wrong::new(format!(
            "{} has {} bytes, which are more than {bytes_max}",
            given.describe(),
            text.len()
        ))),
        false => Ok(text),
    }
}

fn read_name(given: &Given<'_>) -> Result<String, Wrong> {
    let name = read_text(given, NAME_BYTES_MAX)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match name.chars().find(|c| !allowed(*c)) {
        Some(other) => Err(Wrong::new(format!("{} has {other:?} in it", given.describe()))),
        None => Ok(name.to_owned()),
    }
}

/// A path: an absolute one in a file, which is read in another directory than it was written in.
fn read_path(given: &Given<'_>, bytes_max: usize) -> Result<PathBuf, Wrong> {
    let text = read_text(given, bytes_max)?;
    let wrong = |what: &str| Wrong::new(format!("{} {what}", given.describe()));
    if text.contains('\0') {
        return Err(wrong("has a zero byte in it"));
    }
    if let Given::Bare(_) = given {
        return Ok(text.into());
    }
    if !text.starts_with('/') {
        return Err(wrong("is not absolute").help("begin it with /"));
    }
    if text.contains(char::is_control) {
        return Err(wrong("has control characters in it"));
    }
    if text.split('/').any(|part| part == "." || part == "..") {
        return Err(wrong("has a part . or .. in it").help("write the path without it"));
    }
    if text.ends_with('/') {
        return Err(wrong("ends with /").help("leave the / out"));
    }
    if text.split('/').any(|part| part.len() > FILE_NAME_BYTES_MAX) {
        return Err(wrong(&format!(
            "has a name of more than {FILE_NAME_BYTES_MAX} bytes in it"
        )));
    }
    Ok(text.into())
}

fn read_log_path(given: &Given<'_>, bytes_max: usize) -> Result<PathBuf, Wrong> {
    let path = read_path(given, bytes_max)?;
    let &Given::Text(mut rest) = given else {
        return Ok(path);
    };
    let names = PLACEHOLDERS.map(|(name, _)| name);
    while let Some(at) = rest.find(['{', '}']) {
        let from = rest.get(at..).unwrap_or_default();
        let Some(name) = names.into_iter().find(|name| from.starts_with(name)) else {
            let end = from.find('}').map_or(from.len(), |end| end + 1);
            let found = from.get(..end).unwrap_or(from);
            return Err(Wrong {
                candidates: names.to_vec(),
                meant: Some(if found == "{user}" { "{uid}" } else { found }.to_owned()),
                ..Wrong::new(format!("{} is no placeholder", quoted(found)))
            });
        };
        rest = from.get(name.len()..).unwrap_or_default();
    }
    Ok(path)
}

fn read_account(given: &Given<'_>, what: &str, find: &dyn Fn(&str) -> Option<u32>) -> Result<Value, Wrong> {
    if let Given::Integer { .. } = given {
        let id = given.number().and_then(|number| u32::try_from(number).ok());
        return match id {
            Some(id) if id != u32::MAX => Ok(Value::Account(id.to_string(), id)),
            _ => Err(is_no(given, what)),
        };
    }
    let name = read_text(given, NAME_BYTES_MAX)?;
    if name.contains(|c: char| c.is_control() || c == ':' || c == '/') {
        return Err(is_no(given, what));
    }
    match find(name) {
        Some(id) => Ok(Value::Account(name.to_owned(), id)),
        None => Err(
            Wrong::new(format!("there is no {what} {} on this machine", given.describe()))
                .help(format!("make the {what} first, or give its number")),
        ),
    }
}

fn read_bytes(given: &Given<'_>, range: &RangeInclusive<u64>) -> Result<u64, Wrong> {
    let bytes = match given {
        Given::Integer { .. } => given.number().ok_or_else(|| is_no(given, "size"))?,
        Given::Bare(text) | Given::Text(text) => match given.number() {
            Some(bytes) => bytes,
            None => read_size(text).map_err(|why| Wrong::new(format!("{} {why}", given.describe())))?,
        },
        _ => return Err(is_no(given, "size")),
    };
    within(bytes, range, given, |bytes| size_text(*bytes))
}

fn read_count(given: &Given<'_>, range: &RangeInclusive<u64>) -> Result<u64, Wrong> {
    let number = match given {
        Given::Integer { shown, .. } => given
            .number()
            .ok_or_else(|| Wrong::new(format!("{shown} is out of range")))?,
        Given::Text(text) if text.parse::<u64>().is_ok() => {
            return Err(is_no(given, "number").help("write it without quotes"));
        }
        _ => given.number().ok_or_else(|| is_no(given, "number"))?,
    };
    within(number, range, given, u64::to_string)
}

fn read_time(given: &Given<'_>, range: &RangeInclusive<Duration>) -> Result<Duration, Wrong> {
    let time = match given {
        Given::Integer { shown, .. } => {
            return Err(Wrong::new(format!("{shown} has no unit"))
                .help(format!("write \"{shown}s\" if you mean seconds")));
        }
        Given::Bare(text) | Given::Text(text) => {
            read_duration(text).map_err(|why| Wrong::new(format!("{} {why}", given.describe())))?
        }
        _ => return Err(is_no(given, "time")),
    };
    within(time, range, given, |time| duration_text(*time))
}

fn within<T: PartialOrd>(
    number: T,
    range: &RangeInclusive<T>,
    given: &Given<'_>,
    show: impl Fn(&T) -> String,
) -> Result<T, Wrong> {
    let wrong = |than: &str, bound: &T| Wrong::new(format!("{} is {than} {}", given.describe(), show(bound)));
    if number < *range.start() {
        return Err(wrong("less than", range.start()));
    }
    match number > *range.end() {
        true => Err(wrong("more than", range.end())),
        false => Ok(number),
    }
}

fn read_flag(given: &Given<'_>) -> Result<bool, Wrong> {
    match given {
        Given::Flag(flag) => Ok(*flag),
        Given::Bare("1" | "true" | "yes") => Ok(true),
        Given::Bare("0" | "false" | "no") => Ok(false),
        _ => Err(is_no(given, "truth value")),
    }
}

fn read_permissions(given: &Given<'_>, most: u32, least: u32) -> Result<u32, Wrong> {
    let mode = match given {
        Given::Bare(text) | Given::Text(text) => read_mode(text),
        Given::Integer { radix: 8, .. } => given.number().and_then(|mode| u32::try_from(mode).ok()),
        Given::Integer { digits, radix, shown } => {
            let wrong = Wrong::new(format!("{shown} is not octal"));
            return Err(match *radix == 10 && read_mode(digits).is_some() {
                true => wrong.help(format!("write \"{digits}\" between quotes, or 0o{digits}")),
                false => wrong,
            });
        }
        _ => None,
    };
    let mode = mode.ok_or_else(|| is_no(given, "octal number"))?;
    if let Given::Bare(_) = given {
        // A program decides itself whom it lets in.
        return Ok(mode);
    }
    let why = if mode & !most & 0o002 != 0 {
        "lets everybody write"
    } else if mode & !most & 0o007 != 0 {
        "lets everybody in"
    } else if mode & !most != 0 {
        "has bits that mean nothing here"
    } else if mode & least != least {
        "shuts out the owner itself"
    } else {
        return Ok(mode);
    };
    Err(Wrong::new(format!("{} {why}", given.describe())))
}

fn read_list(
    given: &Given<'_>,
    most: usize,
    bytes: usize,
    is_names: bool,
) -> Result<Vec<(String, Range<usize>)>, Wrong> {
    let one = [(given.clone(), 0..0)];
    // One alone needs no brackets.
    let elements = match given {
        Given::List(elements) => elements.as_slice(),
        _ => one.as_slice(),
    };
    if elements.is_empty() {
        return Err(Wrong::new("the list is empty"));
    }
    if elements.len() > most {
        return Err(Wrong::new(format!("{} are more than {most}", elements.len())));
    }
    let mut all: Vec<(String, Range<usize>)> = Vec::new();
    for (element, span) in elements {
        let text = match is_names {
            true => read_name(element),
            false => read_text(element, bytes).map(str::to_owned),
        };
        let text = text.map_err(|wrong| wrong.at(span))?;
        if is_names && all.iter().any(|(other, _)| *other == text) {
            return Err(Wrong::new(format!("\"{text}\" stands here twice")).at(span));
        }
        all.push((text, span.clone()));
    }
    Ok(all)
}
