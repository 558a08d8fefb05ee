//! Rules as people write and read them: `net::quic=trace`, `net.rs:42=off`, `id:17`.

use logdrive_ring::limits::RULE_NAME_BYTES_MAX;
use logdrive_ring::rules::{Action, Rule, Selector};
use logdrive_wire::Level;

/// Ends of file names by which a file is reported from a module.
const FILE_ENDS: [&str; 9] = ["rs", "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "go"];

/// A directive or selector that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {text:?}: {expected}")]
pub struct DirectiveError {
    text: String,
    expected: &'static str,
}

/// Reads one directive about levels: a level, which is meant for all callsites; `SELECTOR=LEVEL`; or a selector, of
/// which all is meant.
///
/// ```
/// use logdrive_drain::control::{Action, Selector, read_action_directive};
/// let (action, selector) = read_action_directive("net::quic=trace")?;
/// assert_eq!(action, Action::Level(Some(0)));
/// assert_eq!(selector, Selector::Module("net::quic".into()));
/// assert_eq!(read_action_directive("off")?, (Action::Level(None), Selector::All));
/// assert_eq!(read_action_directive("net.rs:42=off")?.1, Selector::Line("net.rs".into(), 42));
/// # Ok::<(), logdrive_drain::control::DirectiveError>(())
/// ```
///
/// # Errors
/// When it is none of these.
pub fn read_action_directive(text: &str) -> Result<(Action, Selector), DirectiveError> {
    let text = text.trim();
    match text.rsplit_once('=') {
        Some((selector, level)) => {
            let level = read_level(level.trim()).ok_or_else(|| DirectiveError {
                text: text.to_owned(),
                expected: "behind the = stands trace, debug, info, warn, error, fatal or off",
            })?;
            Ok((Action::Level(level), read_selector(selector)?))
        }
        None => match read_level(text) {
            Some(level) => Ok((Action::Level(level), Selector::All)),
            None => Ok((Action::Level(Some(Level::Trace.code())), read_selector(text)?)),
        },
    }
}

/// Reads which callsites are meant: `all`, `id:17`, `net.rs:42`, `src/net.rs`, `net::quic`. A name that could be read
/// as something else stands behind `module:` or `file:`.
///
/// # Errors
/// When it is none of these.
pub fn read_selector(text: &str) -> Result<Selector, DirectiveError> {
    let text = text.trim();
    let error = |expected| DirectiveError {
        text: text.to_owned(),
        expected,
    };
    if text == "all" {
        return Ok(Selector::All);
    }
    if let Some(number) = text.strip_prefix("id:") {
        let number = number.parse().map_err(|_| {
            error("behind id: stands the number of a callsite, as `logdrive callsites` lists it")
        })?;
        return Ok(Selector::Callsite(number));
    }
    let (prefix, name) = match text.split_once(':') {
        Some((prefix @ ("module" | "file"), name)) if !name.starts_with(':') => (prefix, name),
        _ => ("", text),
    };
    let is_name = |name: &str| {
        !name.is_empty()
            && name.len() <= RULE_NAME_BYTES_MAX
            && !name
                .chars()
                .any(|c| c.is_control() || c.is_whitespace() || c == '=' || c == ',')
    };
    if !is_name(name) {
        return Err(error(
            "write a module (net::quic), a file (net.rs), a line (net.rs:42), a callsite (id:17) or all",
        ));
    }
    if prefix == "module" {
        return Ok(Selector::Module(name.to_owned()));
    }
    if let Some((file, line)) = name.rsplit_once(':')
        && !file.is_empty()
        && !file.ends_with(':')
        && let Ok(line) = line.parse()
    {
        return Ok(Selector::Line(file.to_owned(), line));
    }
    if prefix == "file" || is_file_name(name) {
        return Ok(Selector::File(name.to_owned()));
    }
    Ok(Selector::Module(name.to_owned()))
}

fn is_file_name(name: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(_, end)| FILE_ENDS.contains(&end))
}

fn read_level(text: &str) -> Option<Option<u8>> {
    Some(crate::filter::read_level(text)?.map(Level::code))
}

/// A selector as [`read_selector`] reads it.
pub fn describe_selector(selector: &Selector) -> String {
    let plain = match selector {
        Selector::All => "all".to_owned(),
        Selector::Module(name) | Selector::File(name) => name.clone(),
        Selector::Line(name, line) => format!("{name}:{line}"),
        Selector::Callsite(id) => format!("id:{id}"),
    };
    if read_selector(&plain).as_ref() == Ok(selector) {
        return plain;
    }
    let prefix = match selector {
        Selector::Module(_) => "module",
        _ => "file",
    };
    format!("{prefix}:{plain}")
}

/// Text of a rule's action, without the callsites: `trace`, `off`, `mute`, `1 of 1000`, `100 per second`.
pub fn describe_action(action: &Action) -> String {
    match action {
        Action::Level(None) => "off".to_owned(),
        Action::Level(Some(code)) => match Level::from_code(*code) {
            Some(level) => level.name().to_ascii_lowercase(),
            None => format!("level {code}"),
        },
        Action::Mute => "mute".to_owned(),
        Action::Every(calls) => format!("1 of {calls}"),
        Action::PerSecond(calls) => format!("{calls} per second"),
        Action::PerKey { field, per_second } => format!("{per_second} per second and {field}"),
    }
}

/// A rule: `net::quic=trace`, `net.rs:42: 1 of 1000`.
pub fn describe_rule(rule: &Rule) -> String {
    let (selector, action) = (describe_selector(&rule.selector), describe_action(&rule.action));
    match rule.action {
        Action::Level(_) => format!("{selector}={action}"),
        Action::Mute => format!("mute {selector}"),
        _ => format!("{selector}: {action}"),
    }
}

/// A time span in the largest units that say it: `90s`, `10m`, `1h30m`.
pub(crate) fn describe_span(seconds: u64) -> String {
    let mut text = String::new();
    let mut rest = seconds;
    for (unit, length) in [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)] {
        if rest / length > 0 {
            text.push_str(&format!("{}{unit}", rest / length));
        }
        rest %= length;
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_told_apart_and_read_back() {
        for (text, expected) in [
            ("all", Selector::All),
            ("id:17", Selector::Callsite(17)),
            ("net::quic", Selector::Module("net::quic".into())),
            ("net", Selector::Module("net".into())),
            ("net.udp", Selector::Module("net.udp".into())),
            ("net.rs", Selector::File("net.rs".into())),
            ("src/net.rs", Selector::File("src/net.rs".into())),
            ("src/net.rs:42", Selector::Line("src/net.rs".into(), 42)),
            ("module:net.rs", Selector::Module("net.rs".into())),
            ("module:all", Selector::Module("all".into())),
            ("file:Makefile", Selector::File("Makefile".into())),
            ("module::path", Selector::Module("module::path".into())),
        ] {
            let selector = read_selector(text).unwrap();
            assert_eq!(selector, expected, "{text}");
            assert_eq!(describe_selector(&selector), text);
        }
        for text in [
            "",
            "a b",
            "id:",
            "id:x",
            "id:-1",
            "module:",
            "a\nb",
            &"x".repeat(1025),
        ] {
            assert!(read_selector(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn directives_are_read_as_the_filter_reads_them() {
        let read = |text| {
            read_action_directive(text).map(|(action, selector)| (action, describe_selector(&selector)))
        };
        assert_eq!(read("info"), Ok((Action::Level(Some(2)), "all".into())));
        assert_eq!(read(" net = WARN "), Ok((Action::Level(Some(3)), "net".into())));
        assert_eq!(read("net"), Ok((Action::Level(Some(0)), "net".into())));
        assert_eq!(read("id:17=debug"), Ok((Action::Level(Some(1)), "id:17".into())));
        let error = read("net=loud").unwrap_err().to_string();
        assert!(error.contains("net=loud") && error.contains("trace"), "{error}");
        assert!(read("=info").is_err());
    }

    #[test]
    fn spans_of_time_are_short() {
        let texts = [0, 1, 90, 600, 5_400, 90_000].map(describe_span);
        assert_eq!(texts, ["0s", "1s", "1m30s", "10m", "1h30m", "1d1h"]);
    }
}
