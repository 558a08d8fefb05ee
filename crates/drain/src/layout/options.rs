//! Options of a layout, and their one-line form.

use core::fmt;

use super::error::shorten;
use super::escape::{Escape, escaped, unescape};
use super::limits::{OPTIONS_BYTES_MAX, PATTERN_BYTES_MAX};
use super::plan::FieldStyle;
use super::{LayoutError, pattern};
use crate::schema::{Setting, Value, Wrong};

/// Style of a line. See [the module](super) for a line of each.
///
/// ```
/// use logdrive_drain::layout::{LayoutOptions, Style};
/// let style = Style::Pattern("{time:%H:%M:%S.%3f} {level:1} {message}{fields}".into());
/// assert!(LayoutOptions::from(style).to_text().starts_with("pattern {time"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Style {
    /// Time, level, thread, module, place, message and fields, for people.
    #[default]
    Text,
    /// As Google's glog writes since 0.6.
    Glog,
    /// The same to the byte: a message with line breaks has several lines, and nothing in it is escaped. Whoever can put
    /// text into a message can forge lines and move the cursor of a terminal. A callsite of line `u32::MAX`, which is glog's
    /// `kNoLogPrefix`, has nothing in front of its message.
    GlogRaw,
    /// One JSON object for each line.
    Json,
    /// The same with the keys and values of Go's `slog.JSONHandler`: `time`, `level`, `msg`, and fields whose names nest at
    /// their points (`\\.` is a point, a single `\\` an empty name). A value of kind `debug` that is JSON stands as it is; where
    /// it is the only field, has no name and the message is empty, it is the whole line.
    Slog,
    /// Pairs `key=value` in logfmt.
    Logfmt,
    /// No lines: records as they are, for a file of compressed blocks with typed columns (`spec/segment.md`), which `logdrive
    /// cat` shows as text. With the feature `segments`. A block is written when its buffer is full, and once a second.
    Segments,
    /// A pattern of one's own: literal text and items in braces.
    ///
    /// | item | shows |
    /// |---|---|
    /// | `{time}` | `2026-11-21T12:34:56.123456789Z`; also `{time:iso}`, `{time:unix}`, `{time:unix_ms}`, `{time:unix_ns}` |
    /// | `{time:%H:%M:%S.%3f}` | a date of one's own: `%Y %m %d %j %H %M %S %a %b %z %:z %s %F %T %f %3f %6f %9f %%` |
    /// | `{level}`, `{level:1}` | `INFO`, `I` |
    /// | `{thread}`, `{thread_id}` | the thread's name, or its id if it has none; its id |
    /// | `{target}`, `{module}` | the target, or the module where none was given; the module |
    /// | `{file}`, `{path}`, `{line}` | `main.rs`, `src/main.rs`, `42` |
    /// | `{message}`, `{raw_message}` | the message; the same with nothing escaped, as with [`GlogRaw`](Self::GlogRaw) |
    /// | `{fields}` | ` key=value` for each field that the message does not show; takes the place of one space before it |
    /// | `{spans}` | `outer{key=value}:inner: `, or nothing |
    /// | `{pid}`, `{app}`, `{host}` | the process |
    ///
    /// All but the time take `[[fill]align][width][.most]` as in `std::fmt`, such as `{thread:>12.12}`. `{{` and `}}` are
    /// braces.
    Pattern(String),
}

/// Styles that are one word.
const NAMED: [(&str, Style); 7] = [
    ("text", Style::Text),
    ("json", Style::Json),
    ("slog", Style::Slog),
    ("logfmt", Style::Logfmt),
    ("glog", Style::Glog),
    ("glog-raw", Style::GlogRaw),
    ("segments", Style::Segments),
];

impl Style {
    /// Style in which fields are written.
    pub(super) fn field_style(&self) -> FieldStyle {
        match self {
            Self::Text | Self::Glog | Self::GlogRaw | Self::Segments | Self::Pattern(_) => FieldStyle::Text,
            Self::Json | Self::Slog => FieldStyle::Json,
            Self::Logfmt => FieldStyle::Logfmt,
        }
    }
}

/// Options of a layout.
///
/// ```
/// use logdrive_drain::layout::{LayoutOptions, Style};
/// let options = LayoutOptions { style: Style::Text, local_time: false, color: true };
/// assert_eq!(options.to_text(), "text color");
/// assert_eq!(LayoutOptions::from_text("text color"), Ok(options));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LayoutOptions {
    /// Style of the lines. Default: text.
    pub style: Style,
    /// Local time instead of UTC; needs the feature `local-time`.
    pub local_time: bool,
    /// True if the level is coloured for a terminal; JSON and logfmt ignore it.
    pub color: bool,
}

impl From<Style> for LayoutOptions {
    /// Options with this style, in UTC and without colours.
    fn from(style: Style) -> Self {
        Self {
            style,
            local_time: false,
            color: false,
        }
    }
}

impl LayoutOptions {
    /// As glog does it: with local time, where the feature `local-time` is there.
    pub fn glog() -> Self {
        Self {
            style: Style::Glog,
            local_time: cfg!(feature = "local-time"),
            color: false,
        }
    }

    /// The options as one line, for a session's header or a configuration: `json`, `text local color`,
    /// `local pattern {time} {message}`. A pattern comes last and is escaped, so that it stays one line.
    pub fn to_text(&self) -> String {
        let mut flags = Vec::new();
        if self.local_time {
            flags.push("local");
        }
        if self.color {
            flags.push("color");
        }
        if let Style::Pattern(pattern) = &self.style {
            let pattern = escaped(pattern.as_bytes(), Escape::Text);
            flags.extend(["pattern", core::str::from_utf8(&pattern).unwrap_or("")]);
            return flags.join(" ");
        }
        let named = NAMED.iter().find(|(_, style)| *style == self.style);
        flags.insert(0, named.map_or("text", |(name, _)| *name));
        flags.join(" ")
    }

    /// Reads what [`to_text`](Self::to_text) writes. The words may stand in any order, but behind `pattern` all is
    /// pattern. A pattern is checked here as well.
    ///
    /// # Errors
    /// When a word is unknown, no style or two are named, the text is too long, or the pattern cannot be read.
    pub fn from_text(text: &str) -> Result<Self, LayoutError> {
        if text.len() > OPTIONS_BYTES_MAX {
            return Err(LayoutError::TooLong {
                what: "layout",
                limit: OPTIONS_BYTES_MAX,
            });
        }
        let (mut style, mut local_time, mut color) = (None, false, false);
        let mut rest = text;
        while !rest.is_empty() {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after;
            let named = match word {
                "" => continue,
                "local" => {
                    local_time = true;
                    continue;
                }
                "color" => {
                    color = true;
                    continue;
                }
                "pattern" => Style::Pattern(read_pattern(core::mem::take(&mut rest))?),
                _ => match NAMED.iter().find(|(name, _)| *name == word) {
                    Some((_, style)) => style.clone(),
                    None => return Err(LayoutError::UnknownWord { word: shorten(word) }),
                },
            };
            if style.replace(named).is_some() {
                return Err(LayoutError::StyleCount);
            }
        }
        Ok(Self {
            style: style.ok_or(LayoutError::StyleCount)?,
            local_time,
            color,
        })
    }
}

impl Setting for LayoutOptions {
    fn to_value(&self) -> Option<Value> {
        Some(Value::Text(self.to_text()))
    }

    fn from_value(value: Value) -> Result<Self, Wrong> {
        let layout = Self::from_text(&String::from_value(value)?);
        let layout = layout.map_err(|error| Wrong::new(error.to_string()))?;
        match &layout.style {
            Style::Pattern(pattern) if pattern.is_empty() => {
                let help = "write it behind the word, such as \"pattern {time} {level:5} {message}{fields}\"";
                Err(Wrong::new("the pattern is missing").help(help))
            }
            _ => Ok(layout),
        }
    }
}

fn read_pattern(text: &str) -> Result<String, LayoutError> {
    let plain = unescape(text.as_bytes());
    let pattern = String::from_utf8(plain).map_err(|_| LayoutError::Pattern {
        offset: 0,
        what: "it is not valid utf-8".into(),
    })?;
    check_pattern_length(&pattern)?;
    pattern::parse(&pattern)?;
    Ok(pattern)
}

pub(super) fn check_pattern_length(pattern: &str) -> Result<(), LayoutError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(LayoutError::TooLong {
            what: "pattern",
            limit: PATTERN_BYTES_MAX,
        });
    }
    Ok(())
}

impl fmt::Display for LayoutOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_text())
    }
}

impl core::str::FromStr for LayoutOptions {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        Self::from_text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_back_from_their_line() {
        let patterns = [
            "{time} {level} {message}",
            "local text\\ {{}} {message:>10}",
            "",
            "é\t{app}",
        ];
        let mut styles = vec![
            Style::Text,
            Style::Glog,
            Style::GlogRaw,
            Style::Json,
            Style::Slog,
            Style::Logfmt,
        ];
        styles.extend(patterns.map(|pattern| Style::Pattern(pattern.into())));
        for style in styles {
            for flags in 0..4 {
                let options = LayoutOptions {
                    style: style.clone(),
                    local_time: flags & 1 != 0,
                    color: flags & 2 != 0,
                };
                let text = options.to_text();
                assert!(!text.contains(char::is_control), "{text:?}");
                assert_eq!(LayoutOptions::from_text(&text), Ok(options), "{text}");
            }
        }
        assert_eq!(
            LayoutOptions::from_text("color text local").unwrap().to_text(),
            "text local color"
        );
    }

    #[test]
    fn wrong_options_say_what_is_allowed() {
        let error = |text: &str| LayoutOptions::from_text(text).unwrap_err().to_string();
        assert_eq!(
            error("xml"),
            "unknown word \"xml\" in a layout: use text, glog, json, logfmt, segments or pattern, and local or color"
        );
        assert_eq!(
            error(""),
            "a layout names one style: text, glog, json, logfmt, segments or pattern"
        );
        assert_eq!(error("text json"), error("local"));
        assert!(error("pattern {nope}").contains("{time}"));
        assert!(error(&"x".repeat(9_999)).contains("at most"));
        assert!(error(&format!("pattern {}", "x".repeat(PATTERN_BYTES_MAX + 1))).contains("at most"));
        assert!(error("pattern \\xff").contains("utf-8"));
        assert!(error("a\u{1b}\n").contains(r"a\x1b\n"));
    }
}
