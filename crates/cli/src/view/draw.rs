//! The screen: draws what the model says into whatever space there is, and only what is seen.

use super::command::Mode;
use super::histogram::Bin;
use super::model::Model;
use super::prompt;
use super::row::{RowFacts, row};
use super::shown::is_shown;
use crate::output::safe;
use crate::paint::{Paint, Style};
use crate::top::columns::cut;
use logdrive_reader::pages::{RecordParts, RecordPlace};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

/// Below this nothing can be shown.
const SMALLEST: (u16, u16) = (20, 4);

/// Lines of the histogram: its times, its bars, and the worst level of each column.
const HISTOGRAM_LINES: u16 = 5;

/// Heights of a bar in eighths.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Parts of the screen that the mouse can mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Areas {
    pub(super) histogram: Rect,
    pub(super) rows: Rect,
    pub(super) detail: Rect,
}

impl Areas {
    /// Divides a screen.
    pub(super) fn of(area: Rect, model: &Model) -> (Self, [Rect; 3]) {
        let has_histogram = model.histogram.is_open && area.height >= 12;
        let detail = match model.detail.is_open {
            true => (model.detail.lines.len() as u16 + 1).clamp(2, (area.height / 2).max(2)),
            false => 0,
        };
        let [top, histogram, rows, detail, message, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(if has_histogram { HISTOGRAM_LINES } else { 0 }),
            Constraint::Min(1),
            Constraint::Length(detail),
            Constraint::Length(1),
            Constraint::Length(u16::from(area.height >= 10)),
        ])
        .areas(area);
        let areas = Self {
            histogram,
            rows,
            detail,
        };
        (areas, [top, message, keys])
    }
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model, palette: Paint) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!("at least {}x{}", SMALLEST.0, SMALLEST.1);
        return frame.render_widget(Paragraph::new(text), area);
    }
    let (areas, [top, message, keys]) = Areas::of(area, model);
    draw_top(frame, model, top, palette);
    if areas.histogram.height > 0 {
        draw_histogram(frame, model, areas.histogram, palette);
    }
    draw_rows(frame, model, areas.rows, palette);
    if areas.detail.height > 0 {
        draw_detail(frame, model, areas.detail, palette);
    }
    frame.render_widget(prompt::line(model, usize::from(message.width), palette), message);
    frame.render_widget(prompt::keys(model, usize::from(keys.width), palette), keys);
    match model.mode {
        Mode::Help => draw_help(
            frame,
            areas.rows.union(areas.histogram).union(areas.detail),
            palette,
        ),
        Mode::Fields => draw_fields(frame, model, areas.rows, palette),
        _ => {}
    }
}

/// Names, filter, place and progress.
fn draw_top(frame: &mut Frame<'_>, model: &mut Model, area: Rect, palette: Paint) {
    let logs = model.line.logs();
    let name = match logs {
        [log] => safe(log.name()),
        logs => format!("{} logs", logs.len()),
    };
    let bytes: u64 = logs.iter().map(|log| log.length()).sum();
    let mut left = format!(" {name}  {}", crate::table::bytes_text(bytes));
    if !model.asked.filter.is_empty() {
        left.push_str(&format!("  & {}", safe(&model.asked.filter)));
    }
    if model.line.is_filtered() && model.asked.context > 0 {
        left.push_str(&format!(" ±{}", model.asked.context));
    }
    if !model.histogram.zoomed.is_empty() {
        left.push_str("  zoomed");
    }
    let mut right = String::new();
    if model.is_following {
        right.push_str("FOLLOWS  ");
    }
    let (done, all) = model.line.index().progress(model.line.is_filtered());
    if model.is_searching() {
        match model.searched_percent() {
            Some(percent) => right.push_str(&format!("searching {percent} %  ")),
            None => right.push_str("searching  "),
        }
    }
    if done < all {
        right.push_str(&format!("index {} %  ", done * 100 / all.max(1)));
    }
    right.push_str(&prompt::zone_text(model));
    right.push(' ');
    let width = usize::from(area.width);
    let right = match Span::raw(right.as_str()).width() + 10 < width {
        true => right,
        false => String::new(),
    };
    let left = cut(&left, width.saturating_sub(Span::raw(right.as_str()).width()));
    let gap = " "
        .repeat(width.saturating_sub(Span::raw(left.as_str()).width() + Span::raw(right.as_str()).width()));
    let bar = Paragraph::new(format!("{left}{gap}{right}")).style(palette.bar(true));
    frame.render_widget(bar, area);
}

fn draw_histogram(frame: &mut Frame<'_>, model: &mut Model, area: Rect, palette: Paint) {
    let width = usize::from(area.width);
    let histogram = &model.histogram;
    let zone = model.zone();
    let mut lines = vec![prompt::histogram_title(model, &zone, width, palette)];
    let most = histogram.bins.iter().map(|bin| bin.all).fold(0.0, f64::max);
    let bars = usize::from(HISTOGRAM_LINES - 2);
    let brush = histogram.brush.map(|(from, to)| (from.min(to), from.max(to)));
    let cursor = model
        .window
        .cursor()
        .and_then(|cursor| histogram.column_of(cursor.unix_ns));
    for line in (0..=bars).rev() {
        let cell = |(column, bin): (usize, &Bin)| {
            let (level, text) = match line {
                0 => prompt::worst(bin),
                line => (
                    prompt::worst(bin).0,
                    bar(bin.all, most, line - 1, bars).to_string(),
                ),
            };
            let mut style = palette.style(level);
            let is_brushed = brush.is_some_and(|(from, to)| (from..=to).contains(&column));
            if is_brushed || (line == 0 && cursor == Some(column)) {
                style = style.add_modifier(ratatui::style::Modifier::REVERSED);
            }
            Span::styled(text, style)
        };
        lines.push(Line::from_iter(histogram.bins.iter().enumerate().map(cell)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// One character of a bar.
fn bar(value: f64, most: f64, line: usize, lines: usize) -> char {
    if value <= 0.0 || most <= 0.0 {
        return ' ';
    }
    // What is there at all is seen.
    let eighths = ((value / most * (lines * 8) as f64).round() as usize).max(1);
    let here = eighths.saturating_sub(line * 8).min(8);
    BARS.get(here).copied().unwrap_or(' ')
}

fn draw_rows(frame: &mut Frame<'_>, model: &mut Model, area: Rect, palette: Paint) {
    let rows: Vec<RecordPlace> = model
        .window
        .rows
        .iter()
        .copied()
        .take(area.height.into())
        .collect();
    if rows.is_empty() {
        let text = match (model.window.is_building(), model.line.is_filtered()) {
            (true, _) => "searching ...",
            (false, true) => "no record passes the filter; Esc takes it away",
            (false, false) => "nothing is logged here",
        };
        return frame.render_widget(
            Paragraph::new(Line::styled(text, palette.style(Style::Dim))),
            area,
        );
    }
    let has_logs = model.line.logs().len() > 1;
    let zone = model.zone();
    let has_context = model.line.is_filtered() && model.asked.context > 0;
    for (number, place) in rows.into_iter().enumerate() {
        let reader = &mut model.reader;
        let parts = model.line.record(place, |_, bytes| {
            let cut = bytes.get(..super::limits::ROW_BYTES_MAX).unwrap_or(bytes);
            reader.read(cut)
        });
        let parts: RecordParts = parts.unwrap_or_default();
        model.fields.learn(&parts);
        let name = model.line.logs().get(place.log as usize);
        let name = name.map(|log| short_name(log.name())).filter(|_| has_logs);
        let facts = RowFacts {
            fields: &model.fields,
            zone: &zone,
            log: name.as_deref(),
        };
        let is_context = has_context && !model.line.record_passes(place);
        debug_assert!(!is_context || is_shown(&mut model.line, place, model.asked.context));
        let mark = model.marks_of(place);
        let mut spans = vec![match mark {
            Some(letter) => Span::styled(letter.to_string(), palette.style(Style::Title)),
            None => Span::raw(if is_context { "·" } else { " " }),
        }];
        let mut left = model.left;
        for (style, text) in row(&parts, &facts) {
            let style = if is_context { Style::Dim } else { style };
            let text = skip_columns(text, &mut left);
            put_marked(&mut spans, model, palette, style, text);
        }
        let mut line = Line::from(spans);
        if number == model.window.selected {
            line = line.style(palette.selected(true));
        }
        let row = Rect {
            y: area.y + number as u16,
            height: 1,
            ..area
        };
        if number == model.window.selected {
            frame.render_widget(Block::new().style(palette.selected(true)), row);
        }
        frame.render_widget(line, row);
    }
}

/// The end of a path: enough to distinguish logs.
fn short_name(name: &str) -> String {
    let short = name.rsplit('/').next().unwrap_or(name);
    safe(&cut(short, 20))
}

/// Leaves the first columns of a row out.
fn skip_columns(text: String, left: &mut usize) -> String {
    if *left == 0 {
        return text;
    }
    let mut skipped = 0;
    let mut letters = text.chars();
    while skipped < *left
        && let Some(letter) = letters.next()
    {
        skipped += Span::raw(letter.to_string()).width();
    }
    *left -= skipped.min(*left);
    letters.as_str().to_owned()
}

/// Puts a piece with what was searched marked.
fn put_marked(spans: &mut Vec<Span<'static>>, model: &Model, palette: Paint, style: Style, text: String) {
    let plain = palette.style(style);
    let Some(search) = &model.asked.search else {
        return spans.push(Span::styled(text, plain));
    };
    let mut at = 0;
    for found in search.pattern.find_iter(text.as_bytes()) {
        // A match within a letter of several bytes is none that can be shown.
        let (Some(before), Some(inside)) = (text.get(at..found.start()), text.get(found.range())) else {
            continue;
        };
        if inside.is_empty() {
            continue;
        }
        spans.push(Span::styled(before.to_owned(), plain));
        spans.push(Span::styled(inside.to_owned(), palette.style(Style::Found)));
        at = found.end();
    }
    spans.push(Span::styled(text.get(at..).unwrap_or_default().to_owned(), plain));
}

fn draw_detail(frame: &mut Frame<'_>, model: &mut Model, area: Rect, palette: Paint) {
    let [title, lines] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let detail = &mut model.detail;
    detail.height = lines.height.into();
    detail.scroll = detail
        .scroll
        .min(detail.lines.len().saturating_sub(detail.height));
    let end = (detail.scroll + detail.height).min(detail.lines.len());
    let text = format!(
        " record, lines {} to {end} of {}",
        detail.scroll + 1,
        detail.lines.len()
    );
    let bar = Paragraph::new(cut(&text, title.width.into())).style(palette.bar(false));
    frame.render_widget(bar, title);
    let shown = detail.lines.iter().skip(detail.scroll).take(detail.height);
    let shown: Vec<Line<'_>> = shown
        .map(|line| {
            let spans = line.pieces.iter().map(|(style, text)| {
                let text = cut(text, usize::from(area.width).max(1) * 4);
                Span::styled(text, palette.style(*style))
            });
            let is_selected = line.value == detail.selected;
            let begin = Span::raw(if is_selected { ">" } else { " " });
            Line::from_iter([begin].into_iter().chain(spans))
        })
        .collect();
    frame.render_widget(Paragraph::new(shown), lines);
}

/// A box in the middle of an area.
fn middle(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    )
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, palette: Paint) {
    let lines = prompt::help(palette);
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 4;
    let space = middle(area, width, lines.len() as u16 + 2);
    frame.render_widget(Clear, space);
    let block = Block::bordered().title(" keys ");
    frame.render_widget(Paragraph::new(lines).block(block), space);
}

fn draw_fields(frame: &mut Frame<'_>, model: &Model, area: Rect, palette: Paint) {
    let fields = &model.fields;
    let height = (fields.choices.len() as u16).saturating_add(2).min(area.height);
    let space = middle(area, 44, height);
    let shown = usize::from(height.saturating_sub(2));
    let first = (fields.selected + 1).saturating_sub(shown);
    let choices = fields.choices.iter().enumerate().skip(first).take(shown);
    let lines: Vec<Line<'_>> = choices
        .map(|(number, choice)| {
            let mark = match (choice.is_shown, choice.is_placed) {
                (false, _) => "[ ]",
                (true, true) => "[x]",
                (true, false) => "[.]",
            };
            let line = Line::raw(cut(&format!("{mark} {}", safe(&choice.name)), 40));
            match number == fields.selected {
                true => line.style(palette.selected(true)),
                false => line,
            }
        })
        .collect();
    frame.render_widget(Clear, space);
    let block = Block::bordered().title(" fields ");
    frame.render_widget(Paragraph::new(lines).block(block), space);
}
