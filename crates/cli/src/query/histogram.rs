//! Histograms in the terminal: how many records there are over time, or of each value of a field.

use crate::limits::HISTOGRAM_BARS;
use crate::output::safe;
use crate::paint::{Paint, Style};
use crate::table::count_text;
use logdrive_query::{Row, TIME};
use logdrive_reader::{iso_text, read_iso};

/// Cells of the longest bar.
const BAR_CELLS: usize = 60;

/// Parts of a cell, from an eighth on.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Pipes that count the records of a histogram. Of times seconds are counted, and joined when their range is known.
pub(super) fn pipes(field: &str) -> String {
    match field {
        TIME => "stats by (_time:1s) count() as hits".to_owned(),
        field => format!("stats by ({field:?}) count() as hits"),
    }
}

/// A bar.
struct Bar {
    label: String,
    hits: u64,
}

/// Draws rows of a value and a count.
pub(super) fn draw(field: &str, rows: &[Row], paint: Paint) -> String {
    let counted = rows.iter().filter_map(|row| {
        let [(_, value), (_, hits)] = row.cells.as_slice() else {
            return None;
        };
        let hits = std::str::from_utf8(hits).ok()?.parse().ok()?;
        Some((String::from_utf8_lossy(value).into_owned(), hits))
    });
    let counted: Vec<(String, u64)> = counted.collect();
    let numbers: Option<Vec<(f64, u64)>> = counted
        .iter()
        .map(|(value, hits)| {
            Some((
                value.parse().ok().filter(|number: &f64| number.is_finite())?,
                *hits,
            ))
        })
        .collect();
    let bars = match (field, numbers) {
        (TIME, _) => time_bars(&counted),
        (_, Some(numbers)) if numbers.len() > HISTOGRAM_BARS => number_bars(&numbers),
        (_, Some(_)) => counted
            .into_iter()
            .map(|(label, hits)| Bar { label, hits })
            .collect(),
        _ => text_bars(counted),
    };
    text_of(&bars, paint)
}

/// Widths of time steps, in seconds.
const STEPS_S: [u64; 18] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400, 604_800,
];

fn time_bars(counted: &[(String, u64)]) -> Vec<Bar> {
    let times = counted
        .iter()
        .filter_map(|(time, hits)| Some((read_iso(time)? / 1_000_000_000, *hits)));
    let times: Vec<(u64, u64)> = times.collect();
    let (Some(first), Some(last)) = (
        times.iter().map(|(time, _)| *time).min(),
        times.iter().map(|(time, _)| *time).max(),
    ) else {
        return Vec::new();
    };
    let fits = |step: &&u64| (last - first) / **step < HISTOGRAM_BARS as u64;
    let longest = (last - first).div_ceil(HISTOGRAM_BARS as u64).max(1);
    let step = STEPS_S.iter().find(fits).copied().unwrap_or(longest);
    let start = first - first % step;
    let count = ((last - start) / step + 1) as usize;
    let mut bars: Vec<Bar> = (0..count as u64)
        .map(|number| Bar {
            label: iso_text((start + number * step) * 1_000_000_000)
                .chars()
                .take("2026-11-21T12:34:56".len())
                .collect(),
            hits: 0,
        })
        .collect();
    for (time, hits) in times {
        if let Some(bar) = bars.get_mut(((time - start) / step) as usize) {
            bar.hits += hits;
        }
    }
    bars
}

/// Numbers in steps of equal width.
fn number_bars(numbers: &[(f64, u64)]) -> Vec<Bar> {
    let least = numbers.iter().map(|(number, _)| *number).fold(f64::MAX, f64::min);
    let largest = numbers.iter().map(|(number, _)| *number).fold(f64::MIN, f64::max);
    // A width of one digit that is round: 1, 2 or 5 of a power of ten.
    let wanted = (largest - least) / HISTOGRAM_BARS as f64;
    let power = 10f64.powf(wanted.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= wanted).unwrap_or(wanted);
    let start = (least / step).floor() * step;
    let count = ((largest - start) / step) as usize + 1;
    let mut bars: Vec<Bar> = (0..count)
        .map(|number| Bar {
            label: format!("{:.6}", start + number as f64 * step)
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned(),
            hits: 0,
        })
        .collect();
    for (number, hits) in numbers {
        if let Some(bar) = bars.get_mut(((number - start) / step) as usize) {
            bar.hits += hits;
        }
    }
    bars
}

/// Values with the most records, and what all others have.
fn text_bars(mut counted: Vec<(String, u64)>) -> Vec<Bar> {
    counted.sort_by_key(|(_, hits)| std::cmp::Reverse(*hits));
    let others: u64 = counted.iter().skip(HISTOGRAM_BARS).map(|(_, hits)| hits).sum();
    let left = counted.len().saturating_sub(HISTOGRAM_BARS);
    let shown = counted.into_iter().take(HISTOGRAM_BARS);
    let mut bars: Vec<Bar> = shown
        .map(|(label, hits)| Bar {
            label: match label.as_str() {
                "" => "(none)".to_owned(),
                label => safe(label),
            },
            hits,
        })
        .collect();
    if left > 0 {
        bars.push(Bar {
            label: format!("({left} others)"),
            hits: others,
        });
    }
    bars
}

fn text_of(bars: &[Bar], paint: Paint) -> String {
    let most = bars.iter().map(|bar| bar.hits).max().unwrap_or(0).max(1);
    let label_width = bars
        .iter()
        .map(|bar| bar.label.chars().count())
        .max()
        .unwrap_or(0);
    let counts: Vec<String> = bars.iter().map(|bar| count_text(bar.hits)).collect();
    let count_width = counts.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (bar, count) in bars.iter().zip(counts) {
        let eighths = (bar.hits as f64 / most as f64 * (8 * BAR_CELLS) as f64).round() as usize;
        // A bar that has any records is drawn.
        let eighths = eighths.max(usize::from(bar.hits > 0));
        let mut cells = "█".repeat(eighths / 8);
        if let Some(part) = (eighths % 8).checked_sub(1).and_then(|part| EIGHTHS.get(part)) {
            cells.push(*part);
        }
        let label = format!("{:label_width$}", bar.label);
        let line = format!(
            "{} {count:>count_width$} {}",
            paint.the(Style::Dim, label),
            paint.the(Style::Key, cells)
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cells: &[(&str, u64)]) -> Vec<Row> {
        let row = |(value, hits): &(&str, u64)| {
            let mut row = Row::default();
            row.push("value", value);
            row.push("hits", hits.to_string());
            row
        };
        cells.iter().map(row).collect()
    }

    #[test]
    fn seconds_without_records_have_a_line_without_a_bar() {
        let rows = rows(&[
            ("2026-11-21T12:00:00.000000000Z", 2),
            ("2026-11-21T12:00:02.000000000Z", 4),
        ]);
        let expected = format!(
            "2026-11-21T12:00:00 2 {}\n2026-11-21T12:00:01 0\n2026-11-21T12:00:02 4 {}\n",
            "█".repeat(30),
            "█".repeat(60)
        );
        assert_eq!(draw(TIME, &rows, Paint { on: false }), expected);
    }

    #[test]
    fn many_numbers_are_counted_in_steps() {
        let cells: Vec<(String, u64)> = (0..1_000).map(|number| (number.to_string(), 1)).collect();
        let cells: Vec<(&str, u64)> = cells
            .iter()
            .map(|(value, hits)| (value.as_str(), *hits))
            .collect();
        let drawn = draw("took_ms", &rows(&cells), Paint { on: false });
        let first = drawn.lines().next().expect("a bar");
        assert!(drawn.lines().count() <= HISTOGRAM_BARS + 1, "{drawn}");
        assert!(first.starts_with("0 "), "{first}");
    }

    #[test]
    fn rare_texts_are_joined() {
        let cells: Vec<(String, u64)> = (0..100)
            .map(|number| (format!("user {number}"), number + 1))
            .collect();
        let cells: Vec<(&str, u64)> = cells
            .iter()
            .map(|(value, hits)| (value.as_str(), *hits))
            .collect();
        let drawn = draw("user", &rows(&cells), Paint { on: false });
        assert!(drawn.starts_with("user 99"), "{drawn}");
        assert!(drawn.contains(" others)"), "{drawn}");
    }
}
