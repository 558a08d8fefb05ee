//! Rows of a part in one piece of memory, a third of what they take as cells: several parts wait for their turn.

use logdrive_query::Row;

/// Rows, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    bytes: Vec<u8>,
    count: usize,
}

impl RowBuffer {
    /// Adds a row.
    pub(super) fn push(&mut self, row: &Row) {
        self.put_length(row.cells.len());
        for (name, value) in &row.cells {
            self.put(name);
            self.put(value);
        }
        self.bytes.push(u8::from(row.line.is_some()));
        if let Some(line) = &row.line {
            self.put(line);
        }
        self.count += 1;
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes the rows out.
    pub(super) fn take(&mut self) -> Self {
        let mut taken = std::mem::take(self);
        taken.bytes.shrink_to_fit();
        taken
    }

    /// The rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || row_of(&mut rest))
    }

    fn put_length(&mut self, length: usize) {
        // A row comes from a record, which is far below 4 GiB.
        self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
    }

    fn put(&mut self, text: &[u8]) {
        self.put_length(text.len());
        self.bytes.extend_from_slice(text);
    }
}

fn row_of(rest: &mut &[u8]) -> Option<Row> {
    let count = length_of(rest)?;
    let mut row = Row::default();
    for _ in 0..count {
        let name = text_of(rest)?;
        row.push(name, text_of(rest)?);
    }
    let (has_line, behind) = rest.split_first()?;
    *rest = behind;
    row.line = match has_line {
        0 => None,
        _ => Some(text_of(rest)?.into()),
    };
    Some(row)
}

fn length_of(rest: &mut &[u8]) -> Option<usize> {
    let (length, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_le_bytes(*length) as usize)
}

fn text_of<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = length_of(rest)?;
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut packed = RowBuffer::default();
        let mut rows = Vec::new();
        for number in 0..3 {
            let mut row = Row::default();
            row.push("id", number.to_string());
            row.push("", "");
            row.line = (number > 0).then(|| b"a line\n".as_slice().into());
            packed.push(&row);
            rows.push(row);
        }
        assert_eq!(packed.len(), 3);
        let taken = packed.take();
        assert!(packed.is_empty());
        assert_eq!(taken.rows().collect::<Vec<_>>(), rows);
    }
}
