//! Values of the configuration: from TOML to what a key means, and what is wrong where that cannot be.

use super::context::Context;
use super::keys::{Kind, one_of};
use super::units::{duration_text, read_duration, read_mode, read_size, size_text};
use crate::limits::FOUND_CHARACTERS_MAX;
use crate::members;
use crate::suggestion::most_similar;
use logdrive_agent::config::limits::{
    LEVEL_RULES_MAX, MODULE_BYTES_MAX, NAME_BYTES_MAX, RULES_BYTES_MAX, SINKS_MAX, TRIGGERS_MAX,
};
use logdrive_agent::config::{Account, AppPattern, LevelRule, Metrics, PLACEHOLDERS, Who};
use logdrive_drain::control::{Action, Selector, read_selector};
use logdrive_drain::limits::SHIP_ADDRESSES_MAX;
use logdrive_ship::upstream::MemberOptions;
use logdrive_wire::Level;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeInteger, DeValue};

/// Longest path: `PATH_MAX` of Linux, less what rotation adds.
const PATH_BYTES_MAX: usize = 4000;

/// Longest name of a file, as the file sink has it.
const FILE_NAME_BYTES_MAX: usize = 200;

/// What a key says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Off,
    /// Names and other text.
    Text(String),
    Path(PathBuf),
    App(AppPattern),
    Account(Account),
    /// Every user.
    Everyone,
    Number(u64),
    Time(Duration),
    Level(Level),
    Word(&'static str),
    Flag(bool),
    Mode(u32),
    Metrics(Metrics),
    Members(Vec<MemberOptions>),
    /// Names, each with its place.
    Names(Vec<(String, Range<usize>)>),
    Selectors(Vec<Selector>),
    Rules(Vec<(Action, Selector)>),
}

/// Why a value is none of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// What was found, and what is the matter with it.
    pub(crate) found: String,
    /// What was probably meant, or what to do.
    pub(crate) help: Option<String>,
    /// A part of the value that is the wrong one.
    pub(crate) span: Option<Range<usize>>,
}

impl Wrong {
    fn new(found: impl Into<String>) -> Self {
        Self {
            found: found.into(),
            help: None,
            span: None,
        }
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

type Read<T> = Result<T, Wrong>;

/// A TOML value.
pub(crate) type Given<'a> = Spanned<DeValue<'a>>;

/// Reads a value as its kind asks for. Some kinds are shared: whatever else follows from the whole is looked at later.
pub(crate) fn read(kind: &Kind, given: &Given<'_>, context: &dyn Context) -> Read<Value> {
    let value = given.get_ref();
    if kind.may_be_off() && value.as_str() == Some("off") {
        return Ok(Value::Off);
    }
    match kind {
        Kind::Name => read_name(value).map(Value::Text),
        Kind::Text(bytes) => read_text(value, *bytes).map(Value::Text),
        Kind::Path(bytes) => read_path(value, *bytes).map(Value::Path),
        Kind::LogPath => read_log_path(value).map(Value::Path),
        Kind::App => read_text(value, NAME_BYTES_MAX).map(|text| Value::App(AppPattern::new(text))),
        Kind::Module => read_module(value).map(Value::Text),
        Kind::UserOrAll if value.as_str() == Some("*") => Ok(Value::Everyone),
        Kind::User | Kind::UserOrAll => {
            read_account(value, "user", |name| context.user(name)).map(Value::Account)
        }
        Kind::Group => read_account(value, "group", |name| context.group(name)).map(Value::Account),
        Kind::Size(range) | Kind::SizeOrOff(range) => read_bytes(value, range).map(Value::Number),
        Kind::Count(range) | Kind::CountOrOff(range) => read_count(value, range).map(Value::Number),
        Kind::Time(range) | Kind::TimeOrOff(range) => read_time(value, range).map(Value::Time),
        Kind::TimeOrWord(range, words) => match words.iter().find(|word| value.as_str() == Some(word.0)) {
            Some(word) => Ok(Value::Word(word.0)),
            None => read_time(value, range)
                .map(Value::Time)
                .map_err(|wrong| suggest(wrong, value, kind)),
        },
        Kind::Level | Kind::LevelOrOff => read_level(value, kind).map(Value::Level),
        Kind::Word(words) => match words.iter().find(|word| value.as_str() == Some(word.0)) {
            Some(word) => Ok(Value::Word(word.0)),
            None => Err(suggest(is_no(value, "such word"), value, kind)),
        },
        Kind::Flag => value
            .as_bool()
            .map(Value::Flag)
            .ok_or_else(|| is_no(value, "truth value")),
        Kind::Mode { most, least } => read_permissions(value, *most, *least).map(Value::Mode),
        Kind::Metrics => read_metrics(value).map(Value::Metrics),
        Kind::Members => read_members(given).map(Value::Members),
        Kind::Sinks => read_names(given, SINKS_MAX).map(Value::Names),
        Kind::Callsites => read_selectors(given).map(Value::Selectors),
        Kind::Rules => read_rules(value).map(Value::Rules),
    }
}

/// A value as an error repeats it.
pub(crate) fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Text between quotes, cut to what somebody reads.
pub(crate) fn quoted(text: &str) -> String {
    let front: String = text.chars().take(FOUND_CHARACTERS_MAX).collect();
    let dots = if front.len() < text.len() { "..." } else { "" };
    format!("\"{front}{dots}\"")
}

fn is_no(value: &DeValue<'_>, what: &str) -> Wrong {
    Wrong::new(format!("{} is no {what}", describe(value)))
}

/// With the word that is most like the one that was found.
fn suggest(wrong: Wrong, value: &DeValue<'_>, kind: &Kind) -> Wrong {
    let word = value.as_str().and_then(|text| most_similar(text, kind.words()));
    match word {
        Some(word) => wrong.help(format!("did you mean \"{word}\"?")),
        None => wrong,
    }
}

fn string<'a>(value: &'a DeValue<'_>) -> Read<&'a str> {
    value.as_str().ok_or_else(|| match value {
        DeValue::Array(_) | DeValue::Table(_) => is_no(value, "text"),
        _ => is_no(value, "text").help("put it between quotes"),
    })
}

fn read_text(value: &DeValue<'_>, bytes_max: usize) -> Read<String> {
    let text = string(value)?;
    if text.is_empty() {
        return Err(Wrong::new("this is empty"));
    }
    if text.len() > bytes_max {
        let found = format!(
            "{} has {} bytes, which are more than {bytes_max}",
            describe(value),
            text.len()
        );
        return Err(Wrong::new(found));
    }
    Ok(text.to_owned())
}

fn read_members(given: &Given<'_>) -> Read<Vec<MemberOptions>> {
    let members = members::read(given, false).map_err(|(span, found)| Wrong {
        span: Some(span),
        ..Wrong::new(found)
    })?;
    match (1..=SHIP_ADDRESSES_MAX).contains(&members.len()) {
        true => Ok(members),
        false => Err(Wrong::new(format!("these are {} addresses", members.len()))),
    }
}

fn read_name(value: &DeValue<'_>) -> Read<String> {
    let name = read_text(value, NAME_BYTES_MAX)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match name.chars().find(|c| !allowed(*c)) {
        Some(other) => Err(Wrong::new(format!("{} has {other:?} in it", describe(value)))),
        None => Ok(name),
    }
}

fn read_module(value: &DeValue<'_>) -> Read<String> {
    let module = read_text(value, MODULE_BYTES_MAX)?;
    match module.contains('*') {
        true => Err(Wrong::new(format!("{} has a * in it", describe(value)))
            .help("a module means all that is below it as well: leave the * out")),
        false => Ok(module),
    }
}

fn read_path(value: &DeValue<'_>, bytes_max: usize) -> Read<PathBuf> {
    let text = read_text(value, bytes_max)?;
    let wrong = |what: &str| Err(Wrong::new(format!("{} {what}", describe(value))));
    if !text.starts_with('/') {
        return wrong("is not absolute").map_err(|wrong| wrong.help("begin it with /"));
    }
    if text.contains(char::is_control) {
        return wrong("has control characters in it");
    }
    if text.split('/').any(|part| part == "." || part == "..") {
        return wrong("has a part . or .. in it").map_err(|wrong| wrong.help("write the path without it"));
    }
    if text.ends_with('/') {
        return wrong("ends with /").map_err(|wrong| wrong.help("leave the / out"));
    }
    if text.split('/').any(|part| part.len() > FILE_NAME_BYTES_MAX) {
        return wrong(&format!(
            "has a name of more than {FILE_NAME_BYTES_MAX} bytes in it"
        ));
    }
    Ok(text.into())
}

fn read_log_path(value: &DeValue<'_>) -> Read<PathBuf> {
    let path = read_path(value, PATH_BYTES_MAX)?;
    let names = PLACEHOLDERS.map(|(name, _)| name);
    let mut rest = string(value)?;
    while let Some(at) = rest.find(['{', '}']) {
        let from = rest.get(at..).unwrap_or_default();
        let Some(name) = names.into_iter().find(|name| from.starts_with(name)) else {
            let end = from.find('}').map_or(from.len(), |end| end + 1);
            let found = from.get(..end).unwrap_or(from);
            let meant = match found {
                "{user}" => Some("{uid}"),
                _ => most_similar(found, names),
            };
            let wrong = Wrong::new(format!("{} is no placeholder", quoted(found)));
            return Err(match meant {
                Some(name) => wrong.help(format!("did you mean \"{name}\"?")),
                None => wrong,
            });
        };
        rest = from.get(name.len()..).unwrap_or_default();
    }
    Ok(path)
}

fn read_account(value: &DeValue<'_>, what: &str, look_up: impl Fn(&str) -> Option<u32>) -> Read<Account> {
    if let DeValue::Integer(number) = value {
        let id = plain_number(number).and_then(|number| u32::try_from(number).ok());
        return match id {
            Some(id) if id != u32::MAX => Ok(Account {
                name: id.to_string(),
                id,
            }),
            _ => Err(is_no(value, what)),
        };
    }
    let name = read_text(value, NAME_BYTES_MAX)?;
    if name.contains(|c: char| c.is_control() || c == ':' || c == '/') {
        return Err(is_no(value, what));
    }
    match look_up(&name) {
        Some(id) => Ok(Account { name, id }),
        None => Err(
            Wrong::new(format!("there is no {what} {} on this machine", describe(value)))
                .help(format!("make the {what} first, or give its number")),
        ),
    }
}

/// A number that was written with digits alone, in any base.
fn plain_number(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn read_bytes(value: &DeValue<'_>, range: &RangeInclusive<u64>) -> Read<u64> {
    let bytes = match value {
        DeValue::Integer(number) => plain_number(number).ok_or_else(|| is_no(value, "size"))?,
        DeValue::String(text) => {
            read_size(text).map_err(|why| Wrong::new(format!("{} {why}", describe(value))))?
        }
        _ => return Err(is_no(value, "size")),
    };
    within(bytes, range, value, |bytes| size_text(*bytes))
}

fn read_count(value: &DeValue<'_>, range: &RangeInclusive<u64>) -> Read<u64> {
    let DeValue::Integer(number) = value else {
        let wrong = is_no(value, "number");
        return Err(
            match value.as_str().is_some_and(|text| text.parse::<u64>().is_ok()) {
                true => wrong.help("write it without quotes"),
                false => wrong,
            },
        );
    };
    let count = plain_number(number).ok_or_else(|| Wrong::new(format!("{number} is out of range")))?;
    within(count, range, value, u64::to_string)
}

fn read_time(value: &DeValue<'_>, range: &RangeInclusive<Duration>) -> Read<Duration> {
    let time = match value {
        DeValue::Integer(number) => {
            return Err(Wrong::new(format!("{number} has no unit"))
                .help(format!("write \"{number}s\" if you mean seconds")));
        }
        DeValue::String(text) => {
            read_duration(text).map_err(|why| Wrong::new(format!("{} {why}", describe(value))))?
        }
        _ => return Err(is_no(value, "time")),
    };
    within(time, range, value, |time| duration_text(*time))
}

fn within<T: PartialOrd>(
    number: T,
    range: &RangeInclusive<T>,
    value: &DeValue<'_>,
    show: impl Fn(&T) -> String,
) -> Read<T> {
    let least = range.start();
    if number < *least {
        return Err(Wrong::new(format!(
            "{} is less than {}",
            describe(value),
            show(least)
        )));
    }
    match number > *range.end() {
        true => Err(Wrong::new(format!(
            "{} is more than {}",
            describe(value),
            show(range.end())
        ))),
        false => Ok(number),
    }
}

fn read_level(value: &DeValue<'_>, kind: &Kind) -> Read<Level> {
    let level = value.as_str().and_then(|text| text.parse().ok());
    level.ok_or_else(|| suggest(is_no(value, "level"), value, kind))
}

fn read_permissions(value: &DeValue<'_>, most: u32, least: u32) -> Read<u32> {
    let mode = match value {
        DeValue::String(text) => read_mode(text),
        DeValue::Integer(number) if number.radix() == 8 => {
            plain_number(number).and_then(|mode| u32::try_from(mode).ok())
        }
        DeValue::Integer(number) => {
            let wrong = Wrong::new(format!("{number} is not octal"));
            return Err(
                match number.radix() == 10 && read_mode(number.as_str()).is_some() {
                    true => wrong.help(format!("write \"{number}\" between quotes, or 0o{number}")),
                    false => wrong,
                },
            );
        }
        _ => None,
    };
    let mode = mode.ok_or_else(|| is_no(value, "octal number"))?;
    let why = if mode & !most & 0o002 != 0 {
        "lets everybody write"
    } else if mode & !most & 0o007 != 0 {
        "lets everybody in"
    } else if mode & !most != 0 {
        "has bits that mean nothing here"
    } else if mode & least != least {
        "shuts out the agent itself"
    } else {
        return Ok(mode);
    };
    Err(Wrong::new(format!("{} {why}", describe(value))))
}

fn read_metrics(value: &DeValue<'_>) -> Read<Metrics> {
    let text = string(value)?;
    if let Some(path) = text.strip_prefix("unix:") {
        let path = DeValue::String(path.into());
        let bytes_max = logdrive_agent::config::limits::SOCKET_PATH_BYTES_MAX;
        return read_path(&path, bytes_max).map(Metrics::Unix);
    }
    match text.parse::<std::net::SocketAddr>() {
        Ok(address) if address.port() == 0 => {
            Err(Wrong::new(format!("{} has port 0", describe(value))).help("choose a port, such as 9187"))
        }
        Ok(address) => Ok(Metrics::Tcp(address)),
        Err(_) => Err(is_no(value, "address")),
    }
}

/// The elements of a list; one alone needs no brackets.
fn elements<'a, 'b>(given: &'a Given<'b>) -> Vec<&'a Given<'b>> {
    match given.get_ref().as_array() {
        Some(list) => list.iter().collect(),
        None => vec![given],
    }
}

fn read_names(given: &Given<'_>, most: usize) -> Read<Vec<(String, Range<usize>)>> {
    let mut names: Vec<(String, Range<usize>)> = Vec::new();
    for element in elements(given) {
        let at = |wrong: Wrong| Wrong {
            span: Some(element.span()),
            ..wrong
        };
        let name = read_name(element.get_ref()).map_err(at)?;
        if names.iter().any(|(other, _)| *other == name) {
            return Err(at(Wrong::new(format!("\"{name}\" stands here twice"))));
        }
        names.push((name, element.span()));
    }
    match names.len() {
        0 => Err(Wrong::new("the list is empty")),
        count if count > most => Err(Wrong::new(format!("{count} names are more than {most}"))),
        _ => Ok(names),
    }
}

fn read_selectors(given: &Given<'_>) -> Read<Vec<Selector>> {
    let mut selectors = Vec::new();
    for element in elements(given).into_iter().take(TRIGGERS_MAX + 1) {
        let wrong = |found: String| Wrong {
            span: Some(element.span()),
            ..Wrong::new(found)
        };
        let text = read_text(element.get_ref(), MODULE_BYTES_MAX).map_err(|other| wrong(other.found))?;
        let selector = read_selector(&text).map_err(|error| wrong(error.to_string()))?;
        if matches!(selector, Selector::Callsite(_) | Selector::All) {
            let found = format!("{} is no place", quoted(&text));
            return Err(wrong(found).help("numbers of callsites are others in each run: write file and line"));
        }
        selectors.push(selector);
    }
    match selectors.len() {
        0 => Err(Wrong::new("the list is empty")),
        count if count > TRIGGERS_MAX => Err(Wrong::new(format!("there are more than {TRIGGERS_MAX}"))),
        _ => Ok(selectors),
    }
}

fn read_rules(value: &DeValue<'_>) -> Read<Vec<(Action, Selector)>> {
    let text = read_text(value, RULES_BYTES_MAX)?;
    let rule = LevelRule::new(Who::anyone(), &text).map_err(|error| Wrong::new(error.to_string()))?;
    let numbered = rule
        .rules
        .iter()
        .any(|(_, selector)| matches!(selector, Selector::Callsite(_)));
    if rule.rules.is_empty() {
        return Err(Wrong::new(format!("{} says nothing", describe(value))));
    }
    if rule.rules.len() > LEVEL_RULES_MAX {
        return Err(Wrong::new(format!(
            "there are more than {LEVEL_RULES_MAX} levels"
        )));
    }
    match numbered {
        true => Err(
            Wrong::new(format!("{} names a callsite by its number", describe(value)))
                .help("numbers of callsites are others in each run: write file and line"),
        ),
        false => Ok(rule.rules),
    }
}

/// The names of sinks that there are, for an error.
pub(crate) fn listed(names: &[&str]) -> String {
    one_of(&names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>())
}
