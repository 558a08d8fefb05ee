//! Configurations with a flat list of keys: a file in TOML, of which all that is wrong is told at once, each with its line,
//! its key and what is allowed.

use super::record_address;
use crate::config::problem::{Problem, report};
use crate::config::units::{duration_text, read_duration, read_size, size_text};
use crate::error::CliError;
use crate::limits::CONFIG_BYTES_MAX;
use crate::members;
use crate::paint::ColorChoice;
use crate::suggestion::most_similar;
use logdrive_ship::Address;
use logdrive_ship::upstream::MemberOptions;
use std::io::{self, Read, Write};
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a file says. `None` when it is wrong, which has been told.
pub(crate) fn parsed<T>(
    path: &Path,
    color: ColorChoice,
    parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
) -> Result<Option<T>, CliError> {
    let text = read(path)?;
    match parse(&text) {
        Ok(found) => Ok(Some(found)),
        Err(problems) => {
            let shown = report(&problems, &path.display().to_string(), &text, color.for_stderr());
            // Where it cannot be said, the exit status says it.
            let _ = write!(io::stderr(), "{shown}");
            Ok(None)
        }
    }
}

fn read(path: &Path) -> Result<String, CliError> {
    let failed = |cause| CliError::Read {
        path: path.to_owned(),
        cause,
    };
    let file = std::fs::File::open(path).map_err(|cause| CliError::Open {
        path: path.to_owned(),
        cause,
    })?;
    let mut text = String::new();
    file.take(CONFIG_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}

/// Hands each key to whoever knows what it means.
///
/// # Errors
/// With everything that is wrong, in the order of the text.
pub(crate) fn read_keys(
    text: &str,
    keys: &[&'static str],
    mut set: impl FnMut(&str, &Spanned<DeValue<'_>>) -> Result<(), Wrong>,
) -> Result<(), Vec<Problem>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut problems: Vec<Problem> = errors
        .iter()
        .map(|error| Problem::at(error.span().unwrap_or(0..0), "", error.message()))
        .collect();
    if problems.is_empty() {
        for (key, value) in document.get_ref() {
            let name: &str = key.get_ref();
            if !keys.contains(&name) {
                let mut problem = Problem::at(key.span(), name, "there is no such key");
                if let Some(similar) = most_similar(name, keys.iter().copied()) {
                    problem = problem.help(format!("{similar} was probably meant"));
                }
                problems.push(problem.allowed(keys.join(", ")));
            } else if let Err((span, found, allowed)) = set(name, value) {
                problems.push(Problem::at(span, name, found).allowed(allowed));
            }
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    problems.sort_by_key(|problem| problem.span.as_ref().map(|span| span.start));
    Err(problems)
}

/// Where, what was found, and what is allowed.
pub(crate) type Wrong = (Range<usize>, String, &'static str);

fn wrong<T>(
    value: &Spanned<DeValue<'_>>,
    found: impl Into<String>,
    allowed: &'static str,
) -> Result<T, Wrong> {
    Err((value.span(), found.into(), allowed))
}

pub(crate) fn text(value: &Spanned<DeValue<'_>>) -> Result<String, Wrong> {
    match value.get_ref() {
        DeValue::String(text) if !text.is_empty() => Ok(text.to_string()),
        _ => wrong(value, "this is no text", "a text between quotes, not empty"),
    }
}

pub(crate) fn flag(value: &Spanned<DeValue<'_>>) -> Result<bool, Wrong> {
    match value.get_ref() {
        DeValue::Boolean(flag) => Ok(*flag),
        _ => wrong(value, "this is neither true nor false", "true, false"),
    }
}

pub(crate) fn size(value: &Spanned<DeValue<'_>>) -> Result<u64, Wrong> {
    const ALLOWED: &str = "a size with its unit between quotes, such as \"64 MiB\"";
    match value.get_ref() {
        DeValue::String(text) => read_size(text).or_else(|why| wrong(value, why, ALLOWED)),
        _ => wrong(value, "this is no size", ALLOWED),
    }
}

pub(crate) fn bytes(value: &Spanned<DeValue<'_>>) -> Result<usize, Wrong> {
    let found = size(value)?;
    usize::try_from(found).or_else(|_| wrong(value, "this is too much", "what fits into memory"))
}

pub(crate) fn bytes_within(
    value: &Spanned<DeValue<'_>>,
    range: &RangeInclusive<usize>,
    allowed: &'static str,
) -> Result<usize, Wrong> {
    match bytes(value) {
        Ok(found) if range.contains(&found) => Ok(found),
        Ok(found) => wrong(
            value,
            format!("{} is out of bounds", size_text(found as u64)),
            allowed,
        ),
        Err((span, found, _)) => Err((span, found, allowed)),
    }
}

pub(crate) fn time(value: &Spanned<DeValue<'_>>) -> Result<Duration, Wrong> {
    const ALLOWED: &str = "a time with its unit between quotes, such as \"30s\"";
    match value.get_ref() {
        DeValue::String(text) => read_duration(text).or_else(|why| wrong(value, why, ALLOWED)),
        _ => wrong(value, "this is no time", ALLOWED),
    }
}

pub(crate) fn number(
    value: &Spanned<DeValue<'_>>,
    range: RangeInclusive<usize>,
    allowed: &'static str,
) -> Result<usize, Wrong> {
    let DeValue::Integer(found) = value.get_ref() else {
        return wrong(value, "this is no whole number", allowed);
    };
    match usize::from_str_radix(found.as_str(), found.radix()) {
        Ok(found) if range.contains(&found) => Ok(found),
        _ => wrong(value, format!("{} is out of bounds", found.as_str()), allowed),
    }
}

pub(crate) fn addresses(value: &Spanned<DeValue<'_>>) -> Result<Vec<Address>, Wrong> {
    const ALLOWED: &str = "a list of addresses, such as [\"unix:///run/logdrive/collect.sock\"]";
    let DeValue::Array(all) = value.get_ref() else {
        return wrong(value, "this is no list", ALLOWED);
    };
    let one = |value: &Spanned<DeValue<'_>>| match record_address(&text(value)?) {
        Ok(address) => Ok(address),
        Err(why) => wrong(value, why, ALLOWED),
    };
    all.iter().map(one).collect()
}

/// Members of an upstream.
pub(crate) fn members(value: &Spanned<DeValue<'_>>, is_backup: bool) -> Result<Vec<MemberOptions>, Wrong> {
    let read = members::read(value, is_backup);
    read.map_err(|(span, found)| (span, found, members::ALLOWED))
}

pub(crate) fn is_off(value: &Spanned<DeValue<'_>>) -> bool {
    value.get_ref().as_str() == Some("off")
}

/// A time within bounds.
pub(crate) fn time_within(
    value: &Spanned<DeValue<'_>>,
    range: &RangeInclusive<Duration>,
    allowed: &'static str,
) -> Result<Duration, Wrong> {
    match time(value) {
        Ok(found) if range.contains(&found) => Ok(found),
        Ok(found) => wrong(
            value,
            format!("{} is out of bounds", duration_text(found)),
            allowed,
        ),
        Err((span, found, _)) => Err((span, found, allowed)),
    }
}

/// One of these words.
pub(crate) fn word<T: Copy>(
    value: &Spanned<DeValue<'_>>,
    words: &[(&str, T)],
    allowed: &'static str,
) -> Result<T, Wrong> {
    let found = text(value)?;
    match words.iter().find(|(word, _)| *word == found) {
        Some((_, meaning)) => Ok(*meaning),
        None => wrong(value, "there is no such word", allowed),
    }
}
