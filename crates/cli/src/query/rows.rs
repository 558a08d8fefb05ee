//! Printing of what a query gives: records as they were made, and rows in the form that was asked for.

use super::args::{QueryArgs, QueryFormat};
use super::columns::{FIELDS, column_names, fields_of, put_pairs, put_string};
use super::table::RowTable;
use super::work::{Made, Shaping};
use super::{format_of, histogram, output};
use crate::cat::Shaper;
use crate::error::CliError;
use crate::output::Output;
use crate::paint::{ColorChoice, Paint};
use logdrive_query::Row;
use logdrive_reader::ShapeRecord;
use std::ops::ControlFlow;

/// Prints records and rows.
pub(crate) struct RowPrinter {
    format: QueryFormat,
    output: Output,
    /// For rows that are records.
    shaper: Option<Shaper>,
    table: RowTable,
    paint: Paint,
    count: bool,
    /// Field whose rows are drawn.
    histogram: Option<String>,
    drawn: Vec<Row>,
    /// Names of the columns of comma-separated values, from the first row.
    columns: Vec<Box<[u8]>>,
}

impl RowPrinter {
    pub(crate) fn new(args: &QueryArgs, has_pipes: bool, color: ColorChoice) -> Result<Self, CliError> {
        Ok(Self {
            format: format_of(args, has_pipes),
            output: output()?,
            shaper: Shaping::of(args, has_pipes, color).shaper(),
            table: RowTable::default(),
            paint: color.for_stdout(),
            count: args.count,
            histogram: args.histogram.clone(),
            drawn: Vec::new(),
            columns: Vec::new(),
        })
    }

    /// Prints what was made; where it is nothing, what was printed is shown. [`ControlFlow::Break`] never comes: who does not read any more ends the output with an error.
    pub(crate) fn take(&mut self, made: Made) -> Result<ControlFlow<()>, CliError> {
        if made.is_empty() {
            std::io::Write::flush(&mut self.output)?;
            return Ok(ControlFlow::Continue(()));
        }
        self.output.bytes.extend_from_slice(&made.bytes);
        for row in made.rows {
            self.put(row)?;
        }
        self.output.flush_if_full()?;
        Ok(ControlFlow::Continue(()))
    }

    fn put(&mut self, row: Row) -> Result<(), CliError> {
        if self.histogram.is_some() {
            self.drawn.push(row);
            return Ok(());
        }
        if self.count {
            for (_, value) in &row.cells {
                self.output.bytes.extend_from_slice(value);
                self.output.bytes.push(b'\n');
            }
            return Ok(());
        }
        let out = &mut self.output.bytes;
        match (&mut self.shaper, &row.line) {
            (Some(shaper), Some(line)) => shaper.shape(line, false, out),
            _ => match self.format {
                QueryFormat::Json => put_object(out, &row),
                QueryFormat::Csv => put_values(out, &mut self.columns, &row),
                QueryFormat::Table => {
                    if let Some(text) = self.table.push(row, self.paint) {
                        out.extend_from_slice(text.as_bytes());
                    }
                }
                QueryFormat::Text | QueryFormat::Logfmt => put_pairs(out, &row),
            },
        }
        Ok(self.output.flush_if_full()?)
    }

    /// Prints what is drawn of all rows.
    pub(crate) fn finish(&mut self) -> Result<(), CliError> {
        if let Some(field) = &self.histogram {
            let text = histogram::draw(field, &self.drawn, self.paint);
            self.output.bytes.extend_from_slice(text.as_bytes());
        }
        let text = self.table.finish(self.paint);
        self.output.bytes.extend_from_slice(text.as_bytes());
        Ok(std::io::Write::flush(&mut self.output)?)
    }
}

/// Whether text is a number as JSON writes it. Long ones would be rounded by most readers, and are strings.
fn is_number(text: &[u8]) -> bool {
    let is_plain = matches!(text, [b'-' | b'0'..=b'9', ..]) && text.len() <= 17;
    is_plain && serde_json::from_slice::<serde_json::Number>(text).is_ok()
}

fn put_object(out: &mut Vec<u8>, row: &Row) {
    out.push(b'{');
    for (number, (name, value)) in row.cells.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        put_string(out, name);
        out.push(b':');
        match is_number(value) {
            true => out.extend_from_slice(value),
            false => put_string(out, value),
        }
    }
    out.extend_from_slice(b"}\n");
}

/// Comma-separated values: rows of further columns lack them, so that each line has as many as the headings.
fn put_values(out: &mut Vec<u8>, columns: &mut Vec<Box<[u8]>>, row: &Row) {
    let mut put = |values: &mut dyn Iterator<Item = &[u8]>| {
        for (number, value) in values.enumerate() {
            if number > 0 {
                out.push(b',');
            }
            let is_plain = !value
                .iter()
                .any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'));
            if is_plain {
                out.extend_from_slice(value);
                continue;
            }
            out.push(b'"');
            for byte in value {
                out.extend_from_slice(if *byte == b'"' {
                    b"\"\""
                } else {
                    std::slice::from_ref(byte)
                });
            }
            out.push(b'"');
        }
        out.extend_from_slice(b"\r\n");
    };
    if columns.is_empty() {
        *columns = column_names(row);
        put(&mut columns.iter().map(|name| &**name));
    }
    let fields = fields_of(row, columns);
    put(&mut columns.iter().map(|column| match &**column {
        FIELDS => fields.as_slice(),
        name => row
            .cells
            .iter()
            .find(|(known, _)| **known == *name)
            .map_or(&[][..], |(_, value)| value),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_commas_and_quotes_stand_between_quotes() {
        let mut row = Row::default();
        row.push("a", "x,\"y\"");
        row.push("n", "7");
        let mut out = Vec::new();
        put_values(&mut out, &mut Vec::new(), &row);
        assert_eq!(out, b"a,n\r\n\"x,\"\"y\"\"\",7\r\n");
        out.clear();
        put_object(&mut out, &row);
        assert_eq!(out, b"{\"a\":\"x,\\\"y\\\"\",\"n\":7}\n");
        out.clear();
        put_pairs(&mut out, &row);
        assert_eq!(out, b"a=\"x,\\\"y\\\"\" n=7\n");
    }
}
