//! One record as a row of the screen, and unfolded: all its parts and fields, values of several lines and JSON as trees.

use super::fields::{Fields, REST};
use super::limits::{DETAIL_LINES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX};
use crate::output::safe_bytes;
use crate::paint::Style;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use logdrive_reader::pages::RecordParts;

/// A piece of a row, with its meaning.
pub(super) type Piece = (Style, String);

/// Facts besides the record that a row shows.
#[derive(Debug)]
pub(super) struct RowFacts<'a> {
    pub(super) fields: &'a Fields,
    pub(super) zone: &'a TimeZone,
    /// Name of the log, where there are several.
    pub(super) log: Option<&'a str>,
}

/// Returns a time in a zone, to the millisecond or to the nanosecond.
pub(super) fn time_text(unix_ns: u64, zone: &TimeZone, is_exact: bool) -> String {
    let Ok(time) = Timestamp::from_nanosecond(i128::from(unix_ns)) else {
        return unix_ns.to_string();
    };
    let zoned = time.to_zoned(zone.clone());
    match is_exact {
        true => zoned.strftime("%Y-%m-%dT%H:%M:%S.%9f%:z").to_string(),
        false => zoned.strftime("%Y-%m-%d %H:%M:%S.%3f").to_string(),
    }
}

/// Returns the pieces of a row.
pub(super) fn row(parts: &RecordParts, facts: &RowFacts<'_>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for choice in facts.fields.choices.iter().filter(|choice| choice.is_shown) {
        if choice.is_placed || choice.name == REST {
            put_choice(&mut pieces, &choice.name, parts, facts);
        }
    }
    pieces
}

fn put_choice(pieces: &mut Vec<Piece>, name: &str, parts: &RecordParts, facts: &RowFacts<'_>) {
    let own = |name: &str| {
        let mut own = parts.own.iter().filter(|(own, _)| *own == name);
        own.next().map(|(_, value)| text(value))
    };
    let found: Option<Piece> = match name {
        "time" => parts
            .unix_ns
            .map(|unix_ns| (Style::Dim, time_text(unix_ns, facts.zone, false))),
        "level" => Some(match parts.level {
            Some(level) => (Style::Level(level), format!("{:<5}", level.name())),
            None => (Style::Dim, "-    ".to_owned()),
        })
        .filter(|_| parts.unix_ns.is_some()),
        "log" => facts.log.map(|log| (Style::File, log.to_owned())),
        "message" => {
            let message = match parts.spans.is_empty() {
                true => text(&parts.message),
                false => format!(
                    "{}: {}",
                    safe_bytes(parts.spans.join(":").as_bytes()),
                    text(&parts.message)
                ),
            };
            Some((Style::Plain, message)).filter(|(_, message)| !message.is_empty())
        }
        REST => return put_rest(pieces, parts, facts),
        "app" | "pid" | "thread" | "module" | "file" => own(name).map(|value| (Style::Dim, value)),
        name => {
            for field in parts.fields.iter().filter(|field| field.key == name) {
                put_field(pieces, name, &field.value);
            }
            None
        }
    };
    if let Some(piece) = found {
        put_space(pieces);
        pieces.push(piece);
    }
}

fn put_space(pieces: &mut Vec<Piece>) {
    if !pieces.is_empty() {
        pieces.push((Style::Plain, " ".to_owned()));
    }
}

fn put_field(pieces: &mut Vec<Piece>, key: &str, value: &[u8]) {
    put_space(pieces);
    pieces.push((Style::Key, safe_bytes(key.as_bytes())));
    pieces.push((Style::Dim, "=".to_owned()));
    pieces.push((Style::Plain, text(value)));
}

/// All fields without a place of their own, and how many lines follow.
fn put_rest(pieces: &mut Vec<Piece>, parts: &RecordParts, facts: &RowFacts<'_>) {
    for field in &parts.fields {
        if facts.fields.is_among_rest(&field.key) {
            put_field(pieces, &field.key, &field.value);
        }
    }
    if !parts.further.is_empty() {
        let lines = memchr::memchr_iter(b'\n', &parts.further).count() + 1;
        pieces.push((Style::Dim, format!(" [+{lines}]")));
    }
}

/// Text without what a terminal would obey; tabs are spaces.
fn printable(value: &[u8]) -> String {
    safe_bytes(value).replace('\t', "    ")
}

fn text(value: &[u8]) -> String {
    printable(value.get(..ROW_BYTES_MAX).unwrap_or(value))
}

/// A line of a record that is unfolded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DetailLine {
    pub(super) pieces: Vec<(Style, String)>,
    /// Number of the value that it belongs to.
    pub(super) value: usize,
}

/// Values of a record by name, as they are copied.
pub(super) fn values(parts: &RecordParts, log: &str, zone: &TimeZone) -> Vec<(String, Vec<u8>)> {
    let mut values: Vec<(String, Vec<u8>)> = Vec::new();
    if let Some(unix_ns) = parts.unix_ns {
        values.push(("time".to_owned(), time_text(unix_ns, zone, true).into_bytes()));
    }
    if let Some(level) = parts.level {
        values.push(("level".to_owned(), level.name().as_bytes().to_vec()));
    }
    values.push(("log".to_owned(), log.as_bytes().to_vec()));
    let own = parts.own.iter();
    values.extend(own.map(|(name, value)| ((*name).to_owned(), value.clone())));
    if !parts.spans.is_empty() {
        values.push(("spans".to_owned(), parts.spans.join(":").into_bytes()));
    }
    let mut message = parts.message.clone();
    if !parts.further.is_empty() {
        message.push(b'\n');
        message.extend_from_slice(&parts.further);
    }
    values.push(("message".to_owned(), message));
    let fields = parts.fields.iter();
    values.extend(fields.map(|field| (field.key.clone(), field.value.clone())));
    values
}

/// Returns the lines of a record that is unfolded.
pub(super) fn details(values: &[(String, Vec<u8>)]) -> Vec<DetailLine> {
    let widest = values
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    let width = widest.min(24);
    let mut lines = Vec::new();
    for (number, (name, value)) in values.iter().enumerate() {
        let cut = value.get(..VALUE_BYTES_MAX).unwrap_or(value);
        let unfolded = unfold(cut);
        for (place, line) in unfolded.into_iter().enumerate() {
            if lines.len() >= DETAIL_LINES_MAX {
                return lines;
            }
            let title = if place == 0 {
                safe_bytes(name.as_bytes())
            } else {
                String::new()
            };
            lines.push(DetailLine {
                pieces: vec![
                    (Style::Key, format!("{title:<width$}")),
                    (Style::Plain, format!("  {line}")),
                ],
                value: number,
            });
        }
        if cut.len() < value.len() {
            let more = value.len() - cut.len();
            lines.push(DetailLine {
                pieces: vec![(Style::Dim, format!("{:width$}  ... {more} bytes more", ""))],
                value: number,
            });
        }
    }
    lines
}

/// A value in lines: JSON as a tree, other texts at their line ends.
fn unfold(value: &[u8]) -> Vec<String> {
    let is_json = matches!(value.first(), Some(b'{' | b'['));
    if is_json && let Ok(tree) = serde_json::from_slice::<serde_json::Value>(value) {
        let pretty = serde_json::to_string_pretty(&tree).unwrap_or_default();
        return pretty.lines().map(|line| printable(line.as_bytes())).collect();
    }
    value.split(|byte| *byte == b'\n').map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_reader::pages::RecordReader;

    fn shown(line: &[u8], fields: &Fields) -> String {
        let parts = RecordReader::new().read(line);
        let facts = RowFacts {
            fields,
            zone: &TimeZone::UTC,
            log: None,
        };
        row(&parts, &facts).into_iter().map(|(_, text)| text).collect()
    }

    const LINE: &[u8] = b"2026-11-21T08:00:03.25Z ERROR w-1 shop::net net.rs:24 failed\\x1b[2J id=4 user=ann\n  at x\n  at y\n";

    #[test]
    fn a_row_has_the_chosen_parts_in_their_order() {
        let mut fields = Fields::default();
        assert_eq!(
            shown(LINE, &fields),
            "2026-11-21 08:00:03.250 ERROR w-1 shop::net failed\\x1b[2J id=4 user=ann [+2]"
        );
        fields.choose(&["user".to_owned(), "message".to_owned()], &[]);
        assert_eq!(shown(LINE, &fields), "user=ann failed\\x1b[2J");
        assert_eq!(shown(b"just a line\n", &Fields::default()), "just a line");
    }

    #[test]
    fn times_are_shown_in_a_zone() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a good zone");
        let ns = 1_795_264_496_123_456_789;
        assert_eq!(time_text(ns, &zone, false), "2026-11-21 13:34:56.123");
        assert_eq!(time_text(ns, &zone, true), "2026-11-21T13:34:56.123456789+01:00");
    }

    #[test]
    fn values_are_unfolded() {
        let json = br#"{"ts":"2026-11-21T08:00:03Z","level":"INFO","message":"a\nb","tree":{"x":[1,2]}}"#;
        let parts = RecordReader::new().read(json);
        let values = values(&parts, "app.log", &TimeZone::UTC);
        let lines = details(&values);
        let text: Vec<String> = lines
            .iter()
            .map(|line| line.pieces.iter().map(|(_, text)| text.as_str()).collect())
            .collect();
        let expected = [
            "time     2026-11-21T08:00:03.000000000+00:00",
            "level    INFO",
            "log      app.log",
            "message  a",
            "         b",
            "tree     {",
            "           \"x\": [",
            "             1,",
            "             2",
            "           ]",
            "         }",
        ];
        assert_eq!(text, expected);
    }
}
