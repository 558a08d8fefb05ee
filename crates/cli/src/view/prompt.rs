//! The lines of words: what is asked or was said, which keys there are, the title of the histogram; and the page of keys.

use super::command::{Mode, Question, Tone};
use super::histogram::Bin;
use super::model::Model;
use super::row::time_text;
use crate::paint::{Paint, Style};
use crate::table::count_text;
use crate::top::columns::cut;
use jiff::tz::TimeZone;
use ratatui::text::{Line, Span};

/// Text that typed letters go to.
const CURSOR: &str = "▏";

/// Returns the line of the question that is open, of the last message, or of the selected record.
pub(super) fn line(model: &Model, width: usize, palette: Paint) -> Line<'static> {
    if let Mode::Ask(question) = model.mode {
        let title = match question {
            Question::Search => "/",
            Question::Filter => "& ",
            Question::Time => "time: ",
        };
        // The end of a long text is where letters come.
        let room = width.saturating_sub(title.len() + 2);
        let text = &model.typed.text;
        let skipped = text.chars().count().saturating_sub(room);
        let shown: String = text.chars().skip(skipped).collect();
        let mut spans = vec![
            Span::raw(title),
            Span::styled(format!("{shown}{CURSOR}"), palette.style(Style::Key)),
        ];
        if let Some((_, message)) = &model.message {
            let taken: usize = spans.iter().map(Span::width).sum();
            let message = cut(&format!("  {message}"), width.saturating_sub(taken));
            spans.push(Span::styled(message, palette.style(Style::Bad)));
        }
        return Line::from(spans);
    }
    if let Some((tone, text)) = &model.message {
        let style = match tone {
            Tone::Done => Style::Good,
            Tone::Wrong => Style::Bad,
        };
        return Line::styled(cut(&format!(" {text}"), width), palette.style(style));
    }
    let text = match model.mode {
        Mode::Mark => " mark: a letter".to_owned(),
        Mode::Jump => " go to the mark: a letter, or ' for the place before".to_owned(),
        _ => match model.window.cursor().filter(|cursor| cursor.unix_ns > 0) {
            Some(cursor) => format!(" {}", time_text(cursor.unix_ns, &model.zone(), true)),
            None => String::new(),
        },
    };
    Line::styled(cut(&text, width), palette.style(Style::Dim))
}

/// The name of the zone in which times are shown.
pub(super) fn zone_text(model: &Model) -> String {
    let zone = model.zone();
    match zone.iana_name() {
        Some(name) => name.to_owned(),
        None if zone == TimeZone::UTC => "UTC".to_owned(),
        None => {
            let at = model.window.cursor().map_or(0, |cursor| cursor.unix_ns);
            let text = time_text(at, &zone, true);
            text.get(29..).unwrap_or_default().to_owned()
        }
    }
}

/// The keys that there are now, as many as fit.
pub(super) fn keys(model: &Model, width: usize, palette: Paint) -> Line<'static> {
    let keys = match model.mode {
        Mode::View => {
            "q: quit, ?: keys, /: search, n: next, &: filter, e: error, F: follow, Enter: unfold, i: histogram, \
             b: brush, o: fields, z: zone, m: mark, y: copy"
        }
        Mode::Brush => "←→: move, shift ←→: extend, Enter: zoom in, Backspace: zoom out, Esc: back",
        Mode::Fields => "space: show or hide, ←→: order, Esc: back",
        Mode::Help => "any key: goes back",
        Mode::Ask(_) => "Enter: do it, Esc: back, ^U: clear, ↑↓: earlier",
        Mode::Mark | Mode::Jump => "Esc: back",
    };
    let mut spans = Vec::new();
    let mut taken = 0;
    for (key, meaning) in keys.split(", ").filter_map(|key| key.split_once(": ")) {
        let key = Span::styled(format!(" {key}"), palette.style(Style::Key));
        let meaning = Span::styled(format!(" {meaning} "), palette.style(Style::Dim));
        taken += key.width() + meaning.width();
        if taken > width {
            break;
        }
        spans.extend([key, meaning]);
    }
    Line::from(spans)
}

/// The worst level of a column, as a style and a letter.
pub(super) fn worst(bin: &Bin) -> (Style, String) {
    let (style, text) = match bin {
        bin if bin.errors > 0.0 => (Style::Level(logdrive_wire::Level::Error), "E"),
        bin if bin.warnings > 0.0 => (Style::Level(logdrive_wire::Level::Warn), "W"),
        bin if bin.all > 0.0 => (Style::Dim, "·"),
        _ => (Style::Dim, " "),
    };
    (style, text.to_owned())
}

/// The times of the histogram, or of what is brushed, with the number of records there.
pub(super) fn histogram_title(model: &Model, zone: &TimeZone, width: usize, palette: Paint) -> Line<'static> {
    let histogram = &model.histogram;
    let range = histogram.brushed().or(histogram.range);
    let (from, to) = match histogram.brush {
        Some((from, to)) => (from.min(to), from.max(to)),
        None => (0, histogram.bins.len().saturating_sub(1)),
    };
    let mut sum = Bin::default();
    for bin in histogram.bins.iter().take(to + 1).skip(from) {
        sum.all += bin.all;
        sum.warnings += bin.warnings;
        sum.errors += bin.errors;
    }
    let count = |value: f64| count_text(value.round() as u64);
    let Some((first, last)) = range else {
        return Line::styled(" no record has a time", palette.style(Style::Dim));
    };
    let text = format!(
        " {} to {}  {} records, {} warnings, {} errors",
        time_text(first, zone, false),
        time_text(last, zone, false),
        count(sum.all),
        count(sum.warnings),
        count(sum.errors)
    );
    let style = match histogram.brush {
        Some(_) => Style::Title,
        None => Style::Dim,
    };
    Line::styled(cut(&text, width), palette.style(style))
}

/// All keys.
const HELP: [(&str, &str); 21] = [
    ("↑ ↓  j k", "move by a record; ← → to the sides"),
    ("PgUp PgDn space", "move by a page; u d by half of one"),
    ("g G  Home End", "to the start, to the end"),
    ("t", "to a time: 12:34, 10m, yesterday 14:00"),
    ("F", "follow: stay at the end"),
    ("e E  w W", "to the next error or warning, to the one before"),
    ("/", "search a regular expression; n N again, and upwards"),
    ("& f", "filter: timeout level:>=warn took_ms:>250"),
    ("+ -", "more and fewer records around those that pass"),
    ("Esc", "back; takes zoom and filter away"),
    ("Enter", "unfold the record; J K choose a value of it"),
    ("y Y", "copy the record, copy the value"),
    ("m '", "set a mark, go to one; '' to the place before"),
    ("z", "the next time zone"),
    ("o", "choose, hide and order fields"),
    ("", ""),
    ("i", "histogram: E a column with errors, W with warnings"),
    ("b Tab", "its brush: ← → move, shift extends, Enter zooms in"),
    ("Backspace", "zoom out; the mouse brushes and zooms, too"),
    ("^L ^Z", "draw anew; stop, until `fg`"),
    ("q ^C", "quit"),
];

/// The page of keys.
pub(super) fn help(palette: Paint) -> Vec<Line<'static>> {
    HELP.iter()
        .map(|(key, meaning)| {
            Line::from(vec![
                Span::styled(format!("{key:<16}"), palette.style(Style::Key)),
                Span::raw(*meaning),
            ])
        })
        .collect()
}
