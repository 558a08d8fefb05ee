//! Groups: the records of a block that share their columns.

use crate::columns::{Column, ColumnKind, ColumnPlace, SpareColumns};
use crate::error::StoreError;
use crate::head::GroupKind;
use crate::limits::COLUMNS_MAX;
use crate::line_template::{self, DIGITS, Variable, WORD};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::value::INLINE_KEY;
use logdrive_wire::{Cursor, Kind, Value, WireError};

/// Records of one callsite, or lines of one template, while a block is made.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) kind: GroupKind,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: usize,
}

impl Group {
    /// A group without records, whose columns have the memory of those that are spare.
    pub(crate) fn new(kind: GroupKind, columns: Vec<ColumnKind>, spare: &mut SpareColumns) -> Self {
        Self {
            kind,
            columns: columns.into_iter().map(|kind| spare.column(kind)).collect(),
            rows: 0,
        }
    }

    /// Values of its columns that are digits.
    pub(crate) fn digits(&self) -> Vec<Option<&[u64]>> {
        let is_digits = |column: &Column| column.kind == ColumnKind::Digits;
        let columns = self.columns.iter();
        columns
            .map(|column| is_digits(column).then_some(column.low.as_slice()))
            .collect()
    }

    /// Adds a record of fixed kinds. `false`: its payload does not fit them, and nothing was added.
    #[inline]
    pub(crate) fn push_record(&mut self, payload: &[u8]) -> bool {
        let mut cursor = Cursor::new(payload);
        for (taken, column) in self.columns.iter_mut().enumerate() {
            if column.take(&mut cursor).is_err() {
                self.columns.iter_mut().take(taken).for_each(Column::pop);
                return false;
            }
        }
        self.rows += 1;
        true
    }

    /// Adds a record of the group's shape.
    pub(crate) fn push_dynamic(&mut self, payload: &[u8]) {
        let mut columns = self.columns.iter_mut();
        // It has this shape, so that it was read once.
        let _ = each_dynamic(payload, |_, _, _, value| {
            if let Some(column) = columns.next() {
                let ColumnKind::Field(field) = column.kind else {
                    return;
                };
                column.push(&value, field.optional);
            }
        });
        self.rows += 1;
    }

    /// Adds a payload or a line as it is.
    pub(crate) fn push_whole(&mut self, bytes: &[u8]) {
        if let Some(column) = self.columns.first_mut() {
            column.texts.push(bytes);
        }
        self.rows += 1;
    }

    /// Adds a line of the group's template.
    pub(crate) fn push_line(&mut self, line: &[u8], variables: &[Variable]) {
        for (column, variable) in self.columns.iter_mut().zip(variables) {
            let text = line
                .get(variable.start as usize..variable.end as usize)
                .unwrap_or(&[]);
            match variable.is_digits {
                true => column.push_digits(line_template::number(text), text.len()),
                false => column.texts.push(text),
            }
        }
        self.rows += 1;
    }
}

/// Calls with tag, index, key and value of each value of a dynamic record.
pub(crate) fn each_dynamic<'a>(
    payload: &'a [u8],
    mut each: impl FnMut(u8, u8, &'a str, Value<'a>),
) -> Result<(), WireError> {
    let mut cursor = Cursor::new(payload);
    let mut count = 0;
    while cursor.left() > 0 {
        let tag = cursor.u8()?;
        if tag == 0 {
            break;
        }
        count += 1;
        if count > COLUMNS_MAX {
            return Err(WireError::Limit {
                what: "values",
                found: count as u64,
                limit: COLUMNS_MAX as u64,
            });
        }
        let field = FieldKind::from_code(tag)?;
        let index = cursor.u8()?;
        let key = match index {
            INLINE_KEY => cursor.short_str("inline key")?,
            _ => "",
        };
        let (value, _) = Value::read(field, &mut cursor)?;
        each(tag, index, key, value);
    }
    Ok(())
}

/// Writes the shape of a dynamic record: of each value the tag, the index and the key. `None`: it cannot be read.
pub(crate) fn put_shape(payload: &[u8], shape: &mut Vec<u8>) -> Option<()> {
    shape.clear();
    each_dynamic(payload, |tag, index, key, _| {
        shape.extend([tag, index]);
        if index == INLINE_KEY {
            shape.extend_from_slice(&(key.len() as u16).to_le_bytes());
            shape.extend_from_slice(key.as_bytes());
        }
    })
    .ok()
}

/// Parts of a shape: the bytes before each value, and its kind.
pub(crate) fn shape_parts(shape: &[u8]) -> Result<Vec<(&[u8], ColumnKind)>, StoreError> {
    let mut cursor = Cursor::new(shape);
    let mut parts = Vec::new();
    let mut read = || -> Result<Option<FieldKind>, WireError> {
        if cursor.left() == 0 {
            return Ok(None);
        }
        let field = FieldKind::from_code(cursor.u8()?)?;
        if cursor.u8()? == INLINE_KEY {
            cursor.short_str("inline key")?;
        }
        let end = cursor.offset();
        parts.push((end, field));
        Ok(Some(field))
    };
    while read().map_err(StoreError::Callsite)?.is_some() {}
    crate::error::limit("values of a record", parts.len(), COLUMNS_MAX)?;
    let mut start = 0;
    Ok(parts
        .into_iter()
        .map(|(end, field)| {
            let head = shape.get(std::mem::replace(&mut start, end)..end).unwrap_or(&[]);
            (head, ColumnKind::Field(field))
        })
        .collect())
}

/// Key of a value of a shape.
pub(crate) enum ShapeKey<'a> {
    /// Number of the callsite's field.
    Index(usize),
    /// Name that stands in the record.
    Inline(&'a str),
}

/// Reads the key of a part of a shape, which was read once.
pub(crate) fn shape_key(head: &[u8]) -> ShapeKey<'_> {
    match head {
        [_, INLINE_KEY, _, _, key @ ..] => ShapeKey::Inline(std::str::from_utf8(key).unwrap_or("")),
        [_, index, ..] => ShapeKey::Index(usize::from(*index)),
        _ => ShapeKey::Inline(""),
    }
}

/// Kinds of the columns of a template.
pub(crate) fn template_columns(template: &[u8]) -> Result<Vec<ColumnKind>, StoreError> {
    let marks = template.iter().filter_map(|byte| match *byte {
        DIGITS => Some(ColumnKind::Digits),
        WORD => Some(ColumnKind::Text),
        _ => None,
    });
    let columns: Vec<ColumnKind> = marks.collect();
    crate::error::limit("variables of a template", columns.len(), COLUMNS_MAX)?;
    Ok(columns)
}

/// Kinds of a callsite's columns.
pub(crate) fn field_columns(fields: &[logdrive_wire::Field]) -> Vec<ColumnKind> {
    fields.iter().map(|field| ColumnKind::Field(field.kind)).collect()
}

/// Rebuilds the rows of a group that was read, one after the other.
#[derive(Debug)]
pub(crate) struct Rebuild<'a> {
    /// Bytes before each value, and those behind the last one.
    literals: Vec<&'a [u8]>,
    columns: Vec<(Column, ColumnPlace)>,
    pub(crate) rows_left: usize,
}

impl<'a> Rebuild<'a> {
    pub(crate) fn new(kind: &'a GroupKind, columns: Vec<Column>, rows: usize) -> Result<Self, StoreError> {
        let literals = match kind {
            GroupKind::Dynamic { shape, .. } => shape_parts(shape)?.into_iter().map(|part| part.0).collect(),
            GroupKind::Template { template, .. } => {
                template.split(|byte| matches!(*byte, DIGITS | WORD)).collect()
            }
            _ => Vec::new(),
        };
        let columns = columns
            .into_iter()
            .map(|column| (column, ColumnPlace::default()))
            .collect();
        Ok(Self {
            literals,
            columns,
            rows_left: rows,
        })
    }

    /// Appends the next row's payload.
    pub(crate) fn put_row(&mut self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let Some(left) = self.rows_left.checked_sub(1) else {
            return Err(StoreError::Contradiction {
                what: "order of records",
            });
        };
        self.rows_left = left;
        let mut literals = self.literals.iter();
        for (column, place) in &mut self.columns {
            out.extend_from_slice(literals.next().unwrap_or(&[].as_slice()));
            column.put_value(place, out);
        }
        if let Some(last) = literals.next() {
            out.extend_from_slice(last);
        }
        Ok(())
    }
}

/// The column of payloads or lines that are stored whole.
pub(crate) const WHOLE: [ColumnKind; 1] = [ColumnKind::Text];

/// Whether a kind may stand in a callsite of fixed kinds.
pub(crate) fn is_static(fields: &[logdrive_wire::Field]) -> bool {
    !fields
        .iter()
        .any(|field| matches!(field.kind.kind, Kind::Scope | Kind::Message))
}
