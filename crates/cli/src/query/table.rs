//! Rows as a table on a terminal.

use super::columns::{FIELDS, column_names, fields_of};
use crate::limits::TABLE_ROWS_MAX;
use crate::output::safe;
use crate::paint::{Paint, Style};
use logdrive_query::Row;
use unicode_width::UnicodeWidthStr;

/// Rows that are collected until the widths of the columns are known.
#[derive(Debug, Default)]
pub(crate) struct RowTable {
    columns: Vec<Box<[u8]>>,
    rows: Vec<Vec<String>>,
    widths: Vec<usize>,
}

impl RowTable {
    /// Adds a row. Of many rows the first ones decide about the widths: then there is text to print.
    pub(crate) fn push(&mut self, row: Row, paint: Paint) -> Option<String> {
        if self.columns.is_empty() {
            self.columns = column_names(&row);
        }
        let fields = fields_of(&row, &self.columns);
        let cell = |name: &[u8]| {
            let found = row.cells.iter().find(|(known, _)| **known == *name);
            let value = found.map_or(fields.as_slice(), |(_, value)| value);
            let is_there = found.is_some() || name == FIELDS;
            let value = if is_there { value } else { &[] };
            safe(&String::from_utf8_lossy(value))
        };
        let cells = self.columns.iter().map(|name| cell(name)).collect();
        self.rows.push(cells);
        (self.rows.len() >= TABLE_ROWS_MAX).then(|| self.finish(paint))
    }

    /// The rows that were collected, as text.
    pub(crate) fn finish(&mut self, paint: Paint) -> String {
        let mut text = String::new();
        if self.rows.is_empty() {
            return text;
        }
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|name| safe(&String::from_utf8_lossy(name)))
            .collect();
        let is_first = self.widths.is_empty();
        let rows = std::mem::take(&mut self.rows);
        let is_number: Vec<bool> = (0..names.len())
            .map(|column| {
                let mut cells = rows.iter().filter_map(|row| row.get(column));
                cells.all(|cell| cell.is_empty() || cell.parse::<f64>().is_ok())
            })
            .collect();
        if is_first {
            let width = |column: usize| {
                let cells = rows.iter().chain([&names]).filter_map(|row| row.get(column));
                cells.map(|cell| cell.width()).max().unwrap_or(0)
            };
            self.widths = (0..names.len()).map(width).collect();
            put_row(&mut text, &names, &self.widths, &is_number, |cell| {
                paint.the(Style::Title, cell).to_string()
            });
        }
        for row in &rows {
            put_row(&mut text, row, &self.widths, &is_number, str::to_owned);
        }
        text
    }
}

fn put_row(
    text: &mut String,
    cells: &[String],
    widths: &[usize],
    is_number: &[bool],
    painted: impl Fn(&str) -> String,
) {
    for (column, cell) in cells.iter().enumerate() {
        let width = widths.get(column).copied().unwrap_or(0);
        let missing = " ".repeat(width.saturating_sub(cell.width()));
        let is_right = is_number.get(column) == Some(&true);
        let is_last = column + 1 == cells.len();
        if is_right {
            text.push_str(&missing);
        }
        text.push_str(&painted(cell));
        if !is_right && !is_last {
            text.push_str(&missing);
        }
        text.push_str(if is_last { "\n" } else { "  " });
    }
}
