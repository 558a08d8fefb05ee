//! The screen: draws what the model says into whatever space there is.

use super::cells::{PROCESS_COLUMNS, SITE_COLUMNS, process_cells, site_cells};
use super::columns::{Column, cut, fit_columns, head_of, line_of};
use super::model::{Mode, Model, Pane};
use super::prompt;
use crate::instant::age_text;
use crate::paint::{Paint, Style};
use crate::table::{Cell, bytes_text, count_of, rate_text};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Sparkline, Wrap};

/// Below this nothing can be shown.
const SMALLEST: (u16, u16) = (24, 4);

/// From this height on both lists are shown.
const HEIGHT_OF_BOTH: u16 = 12;

/// From this width on the past is drawn as a curve.
const WIDTH_OF_CURVE: u16 = 100;

/// State of the screen from one drawing to the next: the first rows of its lists.
#[derive(Debug, Default)]
pub(super) struct Scroll {
    process: usize,
    site: usize,
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, scroll: &mut Scroll, palette: Paint) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!("at least {}x{}", SMALLEST.0, SMALLEST.1);
        return frame.render_widget(Paragraph::new(text), area);
    }
    let [top, middle, message, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(u16::from(area.height >= 8 || prompt::has_words(model))),
        Constraint::Length(u16::from(area.height >= 6)),
    ])
    .areas(area);
    draw_top(frame, model, top, palette);
    draw_lists(frame, model, middle, scroll, palette);
    frame.render_widget(prompt::line(model, usize::from(message.width), palette), message);
    frame.render_widget(prompt::keys(model, usize::from(keys.width), palette), keys);
    if model.mode == Mode::Help {
        draw_help(frame, middle, palette);
    }
}

/// The sums, at the top.
fn draw_top(frame: &mut Frame<'_>, model: &Model, area: Rect, palette: Paint) {
    let mut sums = (0.0, 0.0, 0.0);
    for row in model.processes.shown() {
        sums.0 += row.rates.records_per_s;
        sums.1 += row.rates.bytes_per_s;
        sums.2 += row.rates.drops_per_s;
    }
    let (shown, all) = (model.processes.shown().count(), model.processes.rows.len());
    let processes = match count_of(all as u64, "process") {
        processes if shown == all => processes,
        processes => format!("{shown} of {processes}"),
    };
    let filter = filter_text(&model.processes.filter);
    let left = format!(
        " {processes}{filter}  {} records/s  {}/s  {} drops/s",
        rate_text(sums.0),
        bytes_text(sums.1 as u64),
        rate_text(sums.2)
    );
    let paused = if model.paused { "PAUSED  " } else { "" };
    let sort = model.processes.sort_name();
    let interval = interval_text(model.interval_ns);
    let rights = [
        format!("{paused}by {sort}  every {interval} "),
        format!("{paused}by {sort} "),
        paused.to_owned(),
    ];
    draw_bar(
        frame,
        area,
        &left,
        &rights,
        palette.bar(model.pane == Pane::Processes),
    );
}

fn filter_text(filter: &str) -> String {
    match filter {
        "" => String::new(),
        filter => format!(" with \"{filter}\""),
    }
}

/// A bar with text on both sides; the right side is the first that fits.
fn draw_bar(frame: &mut Frame<'_>, area: Rect, left: &str, rights: &[String], style: ratatui::style::Style) {
    let width = usize::from(area.width);
    let wide = |text: &str| Span::raw(text).width();
    let right = rights.iter().find(|right| wide(left) + wide(right) < width);
    let right = right.map_or("", String::as_str);
    let left = cut(left, width - wide(right));
    let gap = " ".repeat(width.saturating_sub(wide(&left) + wide(right)));
    frame.render_widget(Paragraph::new(format!("{left}{gap}{right}")).style(style), area);
}

fn interval_text(interval_ns: u64) -> String {
    match interval_ns {
        ns if ns.is_multiple_of(1_000_000_000) => age_text(ns / 1_000_000_000),
        ns => format!("{} ms", ns / 1_000_000),
    }
}

fn draw_lists(frame: &mut Frame<'_>, model: &Model, area: Rect, scroll: &mut Scroll, palette: Paint) {
    if model.processes.rows.is_empty() {
        return draw_nothing(frame, model, area, palette);
    }
    if area.height + 3 < HEIGHT_OF_BOTH {
        return match model.pane {
            Pane::Processes => draw_processes(frame, model, area, scroll, palette),
            Pane::Sites => draw_sites(frame, model, area, scroll, palette),
        };
    }
    let wanted = model.processes.shown().count() + 1;
    let most = usize::from(area.height) * 2 / 5;
    let rows = wanted.clamp(4.min(most), most.max(4));
    let [processes, sites] = Layout::vertical([
        Constraint::Length(u16::try_from(rows).unwrap_or(4)),
        Constraint::Min(3),
    ])
    .areas(area);
    draw_processes(frame, model, processes, scroll, palette);
    draw_sites(frame, model, sites, scroll, palette);
}

fn draw_nothing(frame: &mut Frame<'_>, model: &Model, area: Rect, palette: Paint) {
    let mut lines = vec![Line::default()];
    if model.has_looked() {
        lines.push(Line::styled(
            "No program logs with Logdrive here.",
            palette.style(Style::Title),
        ));
        lines.push(Line::default());
        for place in &model.places {
            lines.push(Line::styled(
                format!("looked at {place}"),
                palette.style(Style::Dim),
            ));
        }
        lines.push(Line::default());
        lines.push(Line::raw(
            "One that starts now is seen at the next look. --run-dir and --socket name other places.",
        ));
        for trouble in &model.troubles {
            lines.push(Line::styled(trouble.clone(), palette.style(Style::Warning)));
        }
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), area);
}

fn draw_processes(frame: &mut Frame<'_>, model: &Model, area: Rect, scroll: &mut Scroll, palette: Paint) {
    let rows: Vec<Vec<Cell>> = model.processes.shown().map(process_cells).collect();
    let list = ListView {
        columns: &PROCESS_COLUMNS,
        rows: &rows,
        selected: model.processes.place(),
        has_focus: model.pane == Pane::Processes,
        nothing: "no process matches; Esc takes the filter away",
    };
    list.draw(frame, area, &mut scroll.process, palette);
}

fn draw_sites(frame: &mut Frame<'_>, model: &Model, area: Rect, scroll: &mut Scroll, palette: Paint) {
    let [bar, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    draw_site_bar(frame, model, bar, palette);
    let rows: Vec<Vec<Cell>> = model.sites.shown().map(site_cells).collect();
    let nothing = match (model.wanted(), model.sites.filter.is_empty()) {
        (None, _) => "it does not log any more",
        (_, false) => "no callsite matches; Esc takes the filter away",
        (_, true) => "it has called no log statement so far",
    };
    let list = ListView {
        columns: &SITE_COLUMNS,
        rows: &rows,
        selected: model.sites.place(),
        has_focus: model.pane == Pane::Sites,
        nothing,
    };
    list.draw(frame, rest, &mut scroll.site, palette);
}

/// Draws the process whose callsites are shown, the rules that hold there, and its past.
fn draw_site_bar(frame: &mut Frame<'_>, model: &Model, area: Rect, palette: Paint) {
    let style = palette.bar(model.pane == Pane::Sites);
    let Some(row) = model.processes.selected() else {
        return draw_bar(frame, area, " no process", &[], style);
    };
    let (shown, all) = (model.sites.shown().count(), row.session.callsite_count());
    let filter = filter_text(&model.sites.filter);
    let count = if filter.is_empty() { all as usize } else { shown };
    let callsites = count_of(count as u64, "callsite");
    let rules = match model.rules.len() {
        0 => String::new(),
        count => format!("  {}", count_of(count as u64, "rule")),
    };
    let left = format!(
        " {} {}: {callsites}{filter}{rules}",
        row.session.app, row.session.pid
    );
    let rights = [format!("by {} ", model.sites.sort_name())];
    let past: Vec<u64> = row.past.iter().copied().collect();
    if area.width < WIDTH_OF_CURVE || past.is_empty() {
        return draw_bar(frame, area, &left, &rights, style);
    }
    let [front, curve] =
        Layout::horizontal([Constraint::Min(40), Constraint::Length(area.width / 4)]).areas(area);
    draw_bar(frame, front, &left, &rights, style);
    let newest = past.len().saturating_sub(usize::from(curve.width));
    let past = past.get(newest..).unwrap_or_default();
    frame.render_widget(Sparkline::default().data(past).style(style), curve);
}

/// One of the two lists.
struct ListView<'a> {
    columns: &'a [Column],
    rows: &'a [Vec<Cell>],
    selected: Option<usize>,
    has_focus: bool,
    /// Text that stands there when there are no rows.
    nothing: &'a str,
}

impl ListView<'_> {
    fn draw(&self, frame: &mut Frame<'_>, area: Rect, first: &mut usize, palette: Paint) {
        // The first place is for the mark.
        let widths = fit_columns(self.columns, usize::from(area.width).saturating_sub(1));
        let mut head = head_of(self.columns, &widths, palette);
        head.spans.insert(0, Span::raw(" "));
        let mut lines = vec![head];
        let height = usize::from(area.height).saturating_sub(1);
        *first = scrolled(*first, self.selected, self.rows.len(), height);
        if self.rows.is_empty() {
            lines.push(Line::styled(
                format!(" {}", self.nothing),
                palette.style(Style::Dim),
            ));
        }
        for (place, cells) in self.rows.iter().enumerate().skip(*first).take(height) {
            let is_selected = self.selected == Some(place);
            let mut line = line_of(self.columns, &widths, cells, palette);
            line.spans
                .insert(0, Span::raw(if is_selected { "›" } else { " " }));
            if is_selected {
                // To the end of the line, so that it can be followed.
                let missing = usize::from(area.width).saturating_sub(line.width());
                line.spans.push(Span::raw(" ".repeat(missing)));
                line = line.style(palette.selected(self.has_focus));
            }
            lines.push(line);
        }
        frame.render_widget(Paragraph::new(lines), area);
    }
}

/// Returns the first row of a list, so that the selected row is seen, and no more moves than has to.
fn scrolled(first: usize, selected: Option<usize>, count: usize, height: usize) -> usize {
    let first = first.min(count.saturating_sub(height));
    match selected {
        Some(selected) if selected < first => selected,
        Some(selected) if selected >= first + height => selected + 1 - height.min(selected + 1),
        _ => first,
    }
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, palette: Paint) {
    let lines = prompt::help(palette);
    let wide = lines.iter().map(Line::width).max().unwrap_or(0) + 4;
    let width = u16::try_from(wide).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(lines.len() + 2)
        .unwrap_or(u16::MAX)
        .min(area.height);
    let inside = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let block = Block::bordered()
        .title(" keys ")
        .padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Clear, inside);
    frame.render_widget(Paragraph::new(lines).block(block), inside);
}

#[cfg(test)]
mod tests;
