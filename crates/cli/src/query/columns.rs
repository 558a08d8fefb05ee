//! Columns of rows: those of pipes, and those of whole records, whose fields differ.

use logdrive_query::{Row, TIME};
use logdrive_reader::put_json;

/// Column of fields that have none of their own, as pairs.
pub(super) const FIELDS: &[u8] = b"fields";

/// Columns of whole records, whose fields differ.
const RECORD_COLUMNS: [&str; 8] = [
    TIME, "level", "app", "pid", "thread", "module", "message", "fields",
];

/// Names of the columns of rows like this one.
pub(super) fn column_names(row: &Row) -> Vec<Box<[u8]>> {
    match row.line {
        Some(_) => RECORD_COLUMNS.map(|name| name.as_bytes().into()).to_vec(),
        None => row.cells.iter().map(|(name, _)| name.clone()).collect(),
    }
}

/// The cells of a record that have no column, as pairs.
pub(super) fn fields_of(row: &Row, columns: &[Box<[u8]>]) -> Vec<u8> {
    if row.line.is_none() {
        return Vec::new();
    }
    let is_other =
        |name: &[u8]| !columns.iter().any(|column| **column == *name) && !matches!(name, b"file" | b"line");
    let cells = row.cells.iter().filter(|(name, _)| is_other(name)).cloned();
    let others = Row {
        cells: cells.collect(),
        line: None,
    };
    let mut out = Vec::new();
    put_pairs(&mut out, &others);
    out.pop();
    out
}

/// Writes a JSON string.
pub(super) fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    put_json(out, text);
    out.push(b'"');
}

/// Writes a row as `key=value` pairs on a line.
pub(super) fn put_pairs(out: &mut Vec<u8>, row: &Row) {
    for (number, (name, value)) in row.cells.iter().enumerate() {
        if number > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(name);
        out.push(b'=');
        let is_bare = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'=' | b'"');
        match !value.is_empty() && value.iter().all(is_bare) {
            true => out.extend_from_slice(value),
            false => put_string(out, value),
        }
    }
    out.push(b'\n');
}
