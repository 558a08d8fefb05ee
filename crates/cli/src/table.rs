//! Tables: columns that are as wide as their widest cell on a terminal, where some characters take two places.

use crate::paint::{Paint, Style};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// On which side of its column a cell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A cell, and its style.
pub(crate) type Cell = (Style, String);

/// A table with a line of headings.
#[derive(Debug)]
pub(crate) struct Table {
    headings: Vec<(&'static str, Side)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(headings: impl Into<Vec<(&'static str, Side)>>) -> Self {
        Self {
            headings: headings.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row of as many cells as there are headings.
    pub(crate) fn push(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    /// The table as text.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let widths: Vec<usize> = self
            .headings
            .iter()
            .enumerate()
            .map(|(column, _)| self.width(column))
            .collect();
        let mut text = String::new();
        let headings = self.headings.iter().map(|(heading, _)| (Style::Title, *heading));
        self.put_row(&mut text, paint, &widths, headings);
        for row in &self.rows {
            self.put_row(
                &mut text,
                paint,
                &widths,
                row.iter().map(|(style, cell)| (*style, cell.as_str())),
            );
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let heading = self.headings.get(column).map_or(0, |(heading, _)| heading.len());
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|(_, cell)| cell.width()).fold(heading, usize::max)
    }

    fn put_row<'a>(
        &self,
        text: &mut String,
        paint: Paint,
        widths: &[usize],
        cells: impl Iterator<Item = (Style, &'a str)>,
    ) {
        for (column, (style, cell)) in cells.enumerate() {
            let width = widths.get(column).copied().unwrap_or(0);
            let missing = " ".repeat(width.saturating_sub(cell.width()));
            let side = self.headings.get(column).map_or(Side::Left, |(_, side)| *side);
            let is_last = column + 1 == self.headings.len();
            let cell = paint.the(style, cell);
            // Writing to a string cannot fail.
            let _ = match side {
                Side::Right => write!(text, "{missing}{cell}"),
                // No spaces at the end of a line.
                Side::Left if is_last => write!(text, "{cell}"),
                Side::Left => write!(text, "{cell}{missing}"),
            };
            text.push_str(if is_last { "\n" } else { "  " });
        }
    }
}

/// A number with its thousands set apart: `1,234,567`.
pub(crate) fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 process`, `2,000 callsites`
pub(crate) fn count_of(count: u64, what: &str) -> String {
    let plural = match (count, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {what}{plural}", count_text(count))
}

/// Bytes in the unit that people would choose: `1.5 MB`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in units {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    match unit {
        "B" => format!("{bytes} B"),
        _ if value < 9.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// Few are shown as they are: one in ten seconds is not none.
pub(crate) fn rate_text(rate: f64) -> String {
    if rate == 0.0 || rate >= 9.95 {
        count_text(rate.round() as u64)
    } else {
        format!("{rate:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_with_colours_and_without() {
        let mut table = Table::new([("NAME", Side::Left), ("COUNT", Side::Right), ("PATH", Side::Left)]);
        table.push([
            (Style::Plain, "shop".to_owned()),
            (Style::Plain, "7".to_owned()),
            (Style::Dim, "/a".to_owned()),
        ]);
        table.push([
            (Style::Good, "x".to_owned()),
            (Style::Plain, "1,234".to_owned()),
            (Style::Dim, "/bb".to_owned()),
        ]);
        let plain = table.text(Paint { on: false });
        assert_eq!(plain, "NAME  COUNT  PATH\nshop      7  /a\nx     1,234  /bb\n");
        let colored = table.text(Paint { on: true });
        assert!(
            colored.contains("\x1b[32mx\x1b[0m     1,234  \x1b[2m/bb\x1b[0m\n"),
            "{colored:?}"
        );
    }

    #[test]
    fn wide_characters_take_two_places() {
        let mut table = Table::new([("NAME", Side::Left), ("N", Side::Right)]);
        table.push([(Style::Plain, "商店".to_owned()), (Style::Plain, "7".to_owned())]);
        table.push([(Style::Plain, "bar".to_owned()), (Style::Plain, "8".to_owned())]);
        let text = table.text(Paint { on: false });
        assert_eq!(text, "NAME  N\n商店  7\nbar   8\n");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count_text),
            ["0", "999", "1,000", "1,234,567"]
        );
        let texts = [0, 999, 1_000, 9_940, 9_960, 999_600, 1_570_000_000].map(bytes_text);
        assert_eq!(
            texts,
            ["0 B", "999 B", "1.0 kB", "9.9 kB", "10 kB", "1.0 MB", "1.6 GB"]
        );
    }

    #[test]
    fn few_records_a_second_are_not_none() {
        assert_eq!(
            [0.0, 0.1, 9.94, 12.4, 12_345.0].map(rate_text),
            ["0", "0.1", "9.9", "12", "12,345"]
        );
    }
}
