//! A pattern of one's own: literal text and items in braces.
//!
//! [`Style::Pattern`](super::Style::Pattern) lists the items.

use logdrive_wire::limits::PAD_MAX;
use logdrive_wire::template::Align;

use super::error::{LayoutError, shorten};
use super::escape::{Escape, escaped};
use super::limits::PATTERN_REPEATS_MAX;
use super::time::TimeForm;

/// Literal text, time or item of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Literal(String),
    Time(TimeForm),
    Item(Item, Option<Pad>),
}

/// Item of a pattern, by what it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Level,
    LevelLetter,
    Thread,
    ThreadId,
    Target,
    Module,
    File,
    Path,
    Line,
    Message,
    RawMessage,
    Fields,
    Spans,
    Pid,
    App,
    Host,
}

/// Least and most characters of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pad {
    pub(super) fill: char,
    pub(super) align: Align,
    pub(super) width: usize,
    pub(super) most: usize,
}

const ITEMS: [(&str, Item); 15] = [
    ("level", Item::Level),
    ("thread", Item::Thread),
    ("thread_id", Item::ThreadId),
    ("target", Item::Target),
    ("module", Item::Module),
    ("file", Item::File),
    ("path", Item::Path),
    ("line", Item::Line),
    ("message", Item::Message),
    ("raw_message", Item::RawMessage),
    ("fields", Item::Fields),
    ("spans", Item::Spans),
    ("pid", Item::Pid),
    ("app", Item::App),
    ("host", Item::Host),
];

/// Parses a pattern into its parts.
pub(super) fn parse(pattern: &str) -> Result<Vec<Part>, LayoutError> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut chars = pattern.char_indices().peekable();
    while let Some((offset, found)) = chars.next() {
        match found {
            '{' | '}' if chars.peek().is_some_and(|&(_, next)| next == found) => {
                chars.next();
                literal.push(found);
            }
            '}' => return Err(error(offset, "a single } stands here, write }} for a brace")),
            '{' => {
                let inner = pattern.get(offset + 1..).unwrap_or("");
                let length = inner.find('}').ok_or_else(|| error(offset, "this { has no }"))?;
                if !literal.is_empty() {
                    parts.push(Part::Literal(core::mem::take(&mut literal)));
                }
                read_item(inner.get(..length).unwrap_or(""), offset, &mut parts)?;
                while chars.next().is_some_and(|(_, skipped)| skipped != '}') {}
            }
            _ => {
                check_literal(offset, found)?;
                literal.push(found);
            }
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    for repeated in [Item::Message, Item::RawMessage, Item::Fields] {
        let count = parts
            .iter()
            .filter(|part| matches!(part, Part::Item(item, _) if *item == repeated))
            .count();
        if count > PATTERN_REPEATS_MAX {
            let what = format!("use {{message}} and {{fields}} at most {PATTERN_REPEATS_MAX} times each");
            return Err(error(0, &what));
        }
    }
    Ok(parts)
}

/// Literal text comes from a configuration, but also from a session that another process wrote: what would be escaped
/// in a value is refused here. Tabs and backslashes are harmless.
fn check_literal(offset: usize, found: char) -> Result<(), LayoutError> {
    let text = found.encode_utf8(&mut [0; 4]).as_bytes().to_vec();
    if found != '\t' && found != '\\' && escaped(&text, Escape::Text) != text {
        return Err(error(
            offset,
            "control characters and direction marks are not allowed here",
        ));
    }
    Ok(())
}

fn error(offset: usize, what: &str) -> LayoutError {
    LayoutError::Pattern {
        offset,
        what: what.into(),
    }
}

fn read_item(text: &str, offset: usize, parts: &mut Vec<Part>) -> Result<(), LayoutError> {
    let (name, spec) = text.split_once(':').unwrap_or((text, ""));
    match (name, spec) {
        ("time", spec) => return read_time(spec, offset, parts),
        ("level", "1") => parts.push(Part::Item(Item::LevelLetter, None)),
        _ => {
            let item = ITEMS
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, item)| *item);
            let item = item.ok_or_else(|| {
                let known: Vec<String> = ITEMS.iter().map(|(known, _)| format!("{{{known}}}")).collect();
                let name = shorten(name);
                error(
                    offset,
                    &format!("unknown item \"{name}\": use {{time}}, {}", known.join(", ")),
                )
            })?;
            parts.push(Part::Item(item, read_pad(spec, offset)?));
        }
    }
    Ok(())
}

fn read_pad(spec: &str, offset: usize) -> Result<Option<Pad>, LayoutError> {
    if spec.is_empty() {
        return Ok(None);
    }
    let wrong = || {
        let spec = shorten(spec);
        error(
            offset,
            &format!(
                "\"{spec}\" is not a width: use [[fill]align][width][.most], such as >12.12, up to {PAD_MAX}"
            ),
        )
    };
    let align_of = |found: Option<char>| match found {
        Some('<') => Some(Align::Left),
        Some('^') => Some(Align::Center),
        Some('>') => Some(Align::Right),
        _ => None,
    };
    let mut chars = spec.chars();
    let (first, second) = (chars.next(), chars.next());
    let (fill, align, rest) = match (first, align_of(second), align_of(first)) {
        (Some(fill), Some(align), _) => (fill, align, spec.get(fill.len_utf8() + 1..)),
        (_, None, Some(align)) => (' ', align, spec.get(1..)),
        _ => (' ', Align::Left, Some(spec)),
    };
    check_literal(offset, fill)?;
    let (width, most) = match rest.unwrap_or("").split_once('.') {
        Some((width, most)) => (width, Some(most)),
        None => (rest.unwrap_or(""), None),
    };
    let number = |text: &str| match text.parse::<usize>() {
        Ok(number) if number <= PAD_MAX && !text.starts_with('+') => Ok(number),
        _ => Err(wrong()),
    };
    Ok(Some(Pad {
        fill,
        align,
        width: if width.is_empty() { 0 } else { number(width)? },
        most: most.map_or(Ok(usize::MAX), number)?,
    }))
}

fn read_time(spec: &str, offset: usize, parts: &mut Vec<Part>) -> Result<(), LayoutError> {
    let form = match spec {
        "" | "iso" => TimeForm::Iso,
        "unix" => TimeForm::Unix,
        "unix_ms" => TimeForm::UnixMs,
        "unix_ns" => TimeForm::UnixNs,
        _ if spec.contains('%') => return read_date(spec, offset, parts),
        _ => {
            let spec = shorten(spec);
            let what = format!(
                "unknown time \"{spec}\": use iso, unix, unix_ms, unix_ns or a date such as %H:%M:%S.%3f"
            );
            return Err(error(offset, &what));
        }
    };
    parts.push(Part::Time(form));
    Ok(())
}

/// Part of a date: a time, or text between two of them.
#[derive(Clone, Copy)]
enum DatePart {
    Time(TimeForm),
    Text(&'static str),
}

use DatePart::{Text, Time};

/// Longer names first, so that `%3f` is not read as `%3`.
const DATES: [(&str, &[DatePart]); 18] = [
    ("3f", &[Time(TimeForm::Fraction(3))]),
    ("6f", &[Time(TimeForm::Fraction(6))]),
    ("9f", &[Time(TimeForm::Fraction(9))]),
    (":z", &[Time(TimeForm::Zone)]),
    ("f", &[Time(TimeForm::Fraction(9))]),
    ("F", &[YEAR, Text("-"), MONTH, Text("-"), DAY]),
    ("T", &[HOUR, Text(":"), MINUTE, Text(":"), SECOND]),
    ("Y", &[YEAR]),
    ("m", &[MONTH]),
    ("d", &[DAY]),
    ("j", &[Time(TimeForm::DayOfYear)]),
    ("H", &[HOUR]),
    ("M", &[MINUTE]),
    ("S", &[SECOND]),
    ("a", &[Time(TimeForm::DayName)]),
    ("b", &[Time(TimeForm::MonthName)]),
    ("z", &[Time(TimeForm::ZoneDigits)]),
    ("s", &[Time(TimeForm::Unix)]),
];

const YEAR: DatePart = Time(TimeForm::Year);
const MONTH: DatePart = Time(TimeForm::Month);
const DAY: DatePart = Time(TimeForm::Day);
const HOUR: DatePart = Time(TimeForm::Hour);
const MINUTE: DatePart = Time(TimeForm::Minute);
const SECOND: DatePart = Time(TimeForm::Second);

fn read_date(spec: &str, offset: usize, parts: &mut Vec<Part>) -> Result<(), LayoutError> {
    let mut rest = spec;
    while let Some(next) = rest.chars().next() {
        if next != '%' {
            check_literal(offset, next)?;
            parts.push(Part::Literal(next.into()));
            rest = rest.get(next.len_utf8()..).unwrap_or("");
            continue;
        }
        rest = rest.get(1..).unwrap_or("");
        if let Some(after) = rest.strip_prefix('%') {
            parts.push(Part::Literal("%".into()));
            rest = after;
            continue;
        }
        let known = DATES.iter().find(|(name, _)| rest.starts_with(name));
        let (name, date) = known.ok_or_else(|| {
            let allowed: Vec<String> = DATES.iter().map(|(name, _)| format!("%{name}")).collect();
            let rest = shorten(rest);
            error(
                offset,
                &format!("unknown date \"%{rest}\": use {} or %%", allowed.join(" ")),
            )
        })?;
        parts.extend(date.iter().map(|part| match part {
            Time(form) => Part::Time(*form),
            Text(text) => Part::Literal((*text).into()),
        }));
        rest = rest.get(name.len()..).unwrap_or("");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_taken_apart() {
        let parts = parse("{time:%F %T.%3f}{{x}} {level:1} {thread:*>12.8}|{message}").unwrap();
        let times: Vec<_> = parts
            .iter()
            .filter(|part| matches!(part, Part::Time(_)))
            .collect();
        assert_eq!(times.len(), 7);
        assert!(parts.contains(&Part::Literal("{x} ".into())));
        assert!(parts.contains(&Part::Item(Item::LevelLetter, None)));
        let pad = Pad {
            fill: '*',
            align: Align::Right,
            width: 12,
            most: 8,
        };
        assert!(parts.contains(&Part::Item(Item::Thread, Some(pad))));
        assert_eq!(parts.last(), Some(&Part::Item(Item::Message, None)));
    }

    #[test]
    fn mistakes_are_errors_that_name_what_is_allowed() {
        for (pattern, word) in [
            ("{nope}", "{thread_id}"),
            ("x}", "}}"),
            ("ab{message", "has no }"),
            ("{level:abc}", "[[fill]align]"),
            ("{level:9999}", "1024"),
            ("{level:.x}", "width"),
            ("{time:short}", "unix_ms"),
            ("{time:%Q}", "%3f"),
            ("{time:%}", "%3f"),
            ("a\nb", "control"),
            ("{level:\u{202e}>5}", "control"),
            ("{time:%H\u{1b}}", "control"),
            (&"{message}".repeat(5), "at most 4"),
        ] {
            let message = parse(pattern).unwrap_err().to_string();
            assert!(message.contains(word), "{pattern}: {message}");
        }
        assert_eq!(
            parse("ab{message").unwrap_err().to_string(),
            "pattern, byte 2: this { has no }"
        );
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        let mut state = 77u64;
        let alphabet: Vec<char> = "{}:%<^>.0129aé漢fzlevtim \u{1b}$\\".chars().collect();
        for _ in 0..20_000 {
            let text: String = (0..12)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    alphabet[(state >> 33) as usize % alphabet.len()]
                })
                .collect();
            assert!(parse(&text).is_ok() || parse(&text).is_err());
            let _ = parse(&format!("{{level:{text}}}"));
            let _ = parse(&format!("{{time:{text}}}"));
        }
    }
}
