//! Processes and callsites as cells of a list, the same for the screen and for a snapshot.

use super::columns::Column;
use crate::instant::age_text;
use crate::output::safe;
use crate::paint::Style;
use crate::rates::{ProcessRow, SiteRow};
use crate::sessions::state_cell;
use crate::table::{Cell, Side, bytes_text, count_text, rate_text};
use crate::watched_session::State;

/// The columns of processes.
pub(super) const PROCESS_COLUMNS: [Column; 13] = [
    Column::new("APP", Side::Left, 14, 0).up_to(32),
    Column::new("PID", Side::Right, 7, 2),
    Column::new("STATE", Side::Left, 7, 6),
    Column::new("VIA", Side::Left, 5, 7),
    Column::new("AGE", Side::Right, 11, 9),
    Column::new("THREADS", Side::Right, 7, 8),
    Column::new("RECORDS/S", Side::Right, 10, 1),
    Column::new("BYTES/S", Side::Right, 8, 3),
    Column::new("DROPS/S", Side::Right, 9, 2),
    Column::new("FILL", Side::Right, 9, 4),
    Column::new("LAG", Side::Right, 6, 5),
    Column::new("DROPPED", Side::Right, 10, 10),
    Column::growing("LOG", 16, 11),
];

/// The columns of callsites.
pub(crate) const SITE_COLUMNS: [Column; 10] = [
    Column::new("ID", Side::Right, 4, 6),
    Column::new("LEVEL", Side::Left, 5, 2),
    Column::new("STATE", Side::Left, 11, 2),
    Column::new("RECORDS/S", Side::Right, 10, 0),
    Column::new("BYTES/S", Side::Right, 8, 4),
    Column::new("DROPS/S", Side::Right, 8, 5),
    Column::new("SAMPLED/S", Side::Right, 9, 7),
    Column::new("RECORDS", Side::Right, 13, 8),
    Column::new("WHERE", Side::Left, 18, 1).up_to(40),
    Column::growing("MESSAGE", 12, 3),
];

/// Text of a cell whose value is not known.
const UNKNOWN: &str = "-";

/// The cells of a process, in the order of the columns.
pub(super) fn process_cells(row: &ProcessRow) -> Vec<Cell> {
    let (session, rates) = (&row.session, &row.rates);
    let is_known = session.state != State::Damaged;
    let known = |text: String| if is_known { text } else { UNKNOWN.to_owned() };
    let state = session.state_at_agent();
    // Records of a dead process wait for a recovery, not for a slow drain.
    let lag = match state {
        State::Dead => (Style::Plain, UNKNOWN.to_owned()),
        _ => (lag_style(row.lag_s), known(lag_text(row.lag_s))),
    };
    let age = session.age_seconds().map_or_else(|| UNKNOWN.to_owned(), age_text);
    let dropped = session.dropped();
    vec![
        (Style::Title, session.app.clone()),
        (Style::Plain, session.pid.to_string()),
        state_cell(state),
        (Style::Plain, session.via().to_owned()),
        (Style::Plain, age),
        (Style::Plain, known(session.stats.rings.1.to_string())),
        (Style::Plain, known(rate_text(rates.records_per_s))),
        (Style::Plain, known(bytes_text(rates.bytes_per_s as u64))),
        (
            Style::warning_if(rates.drops_per_s > 0.0),
            known(rate_text(rates.drops_per_s)),
        ),
        (fill_style(session.fill), known(fill_text(session.fill))),
        lag,
        (Style::warning_if(dropped > 0), known(count_text(dropped))),
        match &session.damage {
            Some(damage) => (Style::Bad, damage.clone()),
            None => (Style::Dim, session.place()),
        },
    ]
}

/// The cells of a callsite, in the order of the columns.
pub(crate) fn site_cells(row: &SiteRow) -> Vec<Cell> {
    let (site, rates) = (&row.site, &row.rates);
    let level = site.callsite.level;
    vec![
        (Style::Plain, site.id.to_string()),
        (Style::Level(level), level.name().to_owned()),
        control_cell(&site.state, site.by_rule),
        (Style::Plain, rate_text(rates.records_per_s)),
        (Style::Plain, bytes_text(rates.bytes_per_s as u64)),
        (
            Style::warning_if(rates.drops_per_s > 0.0),
            rate_text(rates.drops_per_s),
        ),
        (Style::Plain, rate_text(rates.sampled_out_per_s)),
        (Style::Plain, count_text(site.totals.records)),
        (Style::Dim, place_of(row)),
        (Style::Plain, safe(&site.callsite.message)),
    ]
}

fn control_cell(state: &str, by_rule: bool) -> Cell {
    let style = match state {
        "on" => Style::Good,
        "off" => Style::Dim,
        _ => Style::Warning,
    };
    match state {
        "on" | "off" if by_rule => (style, format!("{state} by rule")),
        _ => (style, state.to_owned()),
    }
}

/// Returns the place of a callsite in the source, or its owner.
pub(crate) fn place_of(row: &SiteRow) -> String {
    let callsite = &row.site.callsite;
    match callsite.file.rsplit('/').next().unwrap_or("") {
        "" => safe(callsite.target_or_module()),
        file => safe(&format!("{file}:{}", callsite.line)),
    }
}

/// Half full and more is worth a look: from then on a burst may be too much.
fn fill_style(fill: f64) -> Style {
    match fill {
        fill if fill >= 0.85 => Style::Bad,
        fill if fill >= 0.5 => Style::Warning,
        _ => Style::Plain,
    }
}

/// A small bar, and the number beside it: `██▌  52%`.
fn fill_text(fill: f64) -> String {
    const EIGHTHS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    const CELLS: usize = 4;
    let fill = fill.clamp(0.0, 1.0);
    let eighths = (fill * (CELLS * 8) as f64).round() as usize;
    let bar: String = (0..CELLS)
        .filter_map(|cell| EIGHTHS.get(eighths.saturating_sub(cell * 8).min(8)))
        .collect();
    format!("{bar}{:>4}%", (fill * 100.0).round() as u64)
}

/// A second is what a log is behind at most where all is well.
fn lag_style(lag_s: Option<f64>) -> Style {
    match lag_s {
        None => Style::Bad,
        Some(lag_s) if lag_s >= 1.0 => Style::Warning,
        Some(_) => Style::Plain,
    }
}

/// `0`, `12 ms`, `3.4 s`, `2 min`; `stuck` where records wait and none goes.
fn lag_text(lag_s: Option<f64>) -> String {
    match lag_s {
        None => "stuck".to_owned(),
        Some(lag_s) if lag_s <= 0.0 => "0".to_owned(),
        Some(lag_s) if lag_s < 0.000_95 => "<1 ms".to_owned(),
        Some(lag_s) if lag_s < 0.9995 => format!("{:.0} ms", lag_s * 1e3),
        Some(lag_s) if lag_s < 9.95 => format!("{lag_s:.1} s"),
        Some(lag_s) if lag_s < 99.5 => format!("{lag_s:.0} s"),
        Some(lag_s) => format!("{:.0} min", (lag_s / 60.0).min(9_999.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::{process_rows, site_rows};
    use crate::top::testing::{process, site};

    #[test]
    fn there_is_a_cell_for_each_column() {
        let rows = process_rows(Vec::new(), vec![process("shop", 7)], 0.0);
        assert_eq!(process_cells(&rows[0]).len(), PROCESS_COLUMNS.len());
        let rows = site_rows(&[], vec![site(1, 5)], 0.0);
        assert_eq!(site_cells(&rows[0]).len(), SITE_COLUMNS.len());
    }

    #[test]
    fn a_fill_is_a_bar_and_a_number() {
        let texts = [0.0, 0.03, 0.5, 0.999, 7.0].map(fill_text);
        assert_eq!(
            texts,
            ["       0%", "▏      3%", "██    50%", "████ 100%", "████ 100%"]
        );
    }

    #[test]
    fn a_lag_is_told_in_the_unit_that_people_would_choose() {
        let texts = [
            Some(0.0),
            Some(0.0004),
            Some(0.0123),
            Some(3.44),
            Some(42.0),
            Some(180.0),
            None,
        ];
        assert_eq!(
            texts.map(lag_text),
            ["0", "<1 ms", "12 ms", "3.4 s", "42 s", "3 min", "stuck"]
        );
    }

    #[test]
    fn a_session_that_cannot_be_read_has_no_numbers() {
        let mut damaged = process("shop", 7);
        damaged.state = State::Damaged;
        damaged.damage = Some("the magic is wrong".to_owned());
        let cells = process_cells(&process_rows(Vec::new(), vec![damaged], 0.0)[0]);
        assert_eq!(cells[6].1, "-");
        assert_eq!(cells[12], (Style::Bad, "the magic is wrong".to_owned()));
    }
}
