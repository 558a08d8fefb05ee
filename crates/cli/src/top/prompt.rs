//! The two lines at the bottom: what is asked or was said, and which keys there are; and the page of keys.

use super::cells::place_of;
use super::columns::cut;
use super::model::{Mode, Model, Pane, Scope, Tone};
use crate::instant::age_text;
use crate::output::safe;
use crate::paint::{Paint, Style};
use logdrive_drain::control::describe_selector;
use ratatui::text::{Line, Span};

/// Returns the text that typed letters go to.
const CURSOR: &str = "▏";

/// Whether the line for messages has something to say.
pub(super) fn has_words(model: &Model) -> bool {
    model.message.is_some() || !matches!(model.mode, Mode::Watch | Mode::Help)
}

/// Returns the line of the question that is open, or of the last message.
pub(super) fn line(model: &Model, width: usize, palette: Paint) -> Line<'static> {
    let key = palette.style(Style::Key);
    let asked = match &model.mode {
        Mode::Filter { .. } => {
            let (what, typed) = match model.pane {
                Pane::Processes => ("processes", &model.processes.filter),
                Pane::Sites => ("callsites", &model.sites.filter),
            };
            (
                format!(" {what} with: "),
                format!("{typed}{CURSOR}"),
                "   Enter keeps it, Esc takes it back",
            )
        }
        Mode::Sample(typed) => {
            let help = "   1000: one of 1000, 100/s, 10/s FIELD; nothing: all again";
            (
                format!(" sample {}: ", scope_text(model, model.scope())),
                format!("{typed}{CURSOR}"),
                help,
            )
        }
        Mode::Level(scope) => {
            let what = scope_text(model, *scope);
            let other = if model.sites.selected().is_some() {
                "   Tab: of something else"
            } else {
                ""
            };
            (
                format!(" level of {what}: "),
                "t d i w e f, o for off".to_owned(),
                other,
            )
        }
        Mode::Watch | Mode::Help => return said(model, width, palette),
    };
    let (question, answer, help) = asked;
    let mut spans = vec![Span::raw(question), Span::styled(answer, key)];
    let taken: usize = spans.iter().map(Span::width).sum();
    spans.push(Span::styled(
        cut(help, width.saturating_sub(taken)),
        palette.style(Style::Dim),
    ));
    Line::from(spans)
}

/// Returns details of the chosen callsite that the list has no room for: its full place, its module, its message.
fn chosen(model: &Model) -> String {
    let Some(row) = model.sites.selected().filter(|_| model.pane == Pane::Sites) else {
        return String::new();
    };
    let callsite = &row.site.callsite;
    let place = match callsite.file.as_str() {
        "" => String::new(),
        file => format!("  {file}:{}", callsite.line),
    };
    let module = callsite.target_or_module();
    safe(&format!(
        " {}  {module}{place}  {}",
        row.site.id, callsite.message
    ))
}

/// The message; without one what could not be read, what holds for all changes, or what is chosen.
fn said(model: &Model, width: usize, palette: Paint) -> Line<'static> {
    if let Some((tone, text)) = &model.message {
        return Line::styled(cut(&format!(" {text}"), width), palette.style(tone_style(*tone)));
    }
    if let Some(trouble) = model.troubles.first() {
        return Line::styled(cut(&format!(" {trouble}"), width), palette.style(Style::Warning));
    }
    match model.span_s() {
        0 => Line::styled(cut(&chosen(model), width), palette.style(Style::Dim)),
        span_s => Line::styled(
            cut(&format!(" changes hold for {}", age_text(span_s)), width),
            palette.style(Style::Warning),
        ),
    }
}

/// The keys that there are now, as many as fit.
pub(super) fn keys(model: &Model, width: usize, palette: Paint) -> Line<'static> {
    let keys = match (&model.mode, model.pane) {
        (Mode::Watch, Pane::Processes) => {
            "q: quit, ?: keys, Tab: callsites, /: filter, s: sort, p: pause, l: level, m: mute, x: reset, \
             f: for how long, +-: interval"
        }
        (Mode::Watch, Pane::Sites) => {
            "q: quit, ?: keys, Tab: processes, l: level, m: mute, e: sample, x: take back, /: filter, s: sort, \
             p: pause, f: for how long"
        }
        (Mode::Help, _) => "any key: goes back",
        (Mode::Level(_), _) => "t: trace, d: debug, i: info, w: warn, e: error, f: fatal, o: off, Esc: back",
        _ => "Enter: do it, Esc: back, ^U: clear",
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

/// All keys.
const HELP: [(&str, &str); 16] = [
    ("↑ ↓  j k", "move; PgUp PgDn by ten; g G to the ends"),
    ("Tab Enter", "to the callsites of the process, and back"),
    ("Esc", "back; takes a filter away"),
    ("/", "show only what contains a text"),
    ("s", "sort by something else"),
    ("p Space", "pause, and go on"),
    ("+ -", "look less often, more often; r looks now"),
    ("", ""),
    ("l", "set a level: of the process, or of a callsite or its module"),
    ("m", "mute, and unmute"),
    ("e", "sample: one of 1000, 100/s, 10/s for each value of a field"),
    ("x", "take back: rules of the callsite, or all of the process"),
    ("f", "for how long changes hold: ever, 1 min, 10 min, 1 h, 1 d"),
    ("", ""),
    ("^L ^Z", "draw anew; stop, until `fg`"),
    ("q ^C", "quit: what was changed stays"),
];

/// The page of keys.
pub(super) fn help(palette: Paint) -> Vec<Line<'static>> {
    HELP.iter()
        .map(|(key, meaning)| {
            Line::from(vec![
                Span::styled(format!("{key:<11}"), palette.style(Style::Key)),
                Span::raw(*meaning),
            ])
        })
        .collect()
}

/// Returns what a scope selects, for the line that asks for a level.
fn scope_text(model: &Model, scope: Scope) -> String {
    match (scope, model.sites.selected(), model.processes.selected()) {
        (Scope::Site, Some(row), _) => format!("callsite {} ({})", row.site.id, place_of(row)),
        (Scope::Module, _, _) => match model.selector(scope) {
            Some(selector) => format!("module {}", describe_selector(&selector)),
            None => "no module".to_owned(),
        },
        (_, _, Some(row)) => format!("all of {} ({})", row.session.app, row.session.pid),
        _ => "nothing".to_owned(),
    }
}

/// Returns the style of a message.
pub(super) fn tone_style(tone: Tone) -> Style {
    match tone {
        Tone::Done => Style::Good,
        Tone::Warning => Style::Warning,
        Tone::Wrong => Style::Bad,
    }
}
