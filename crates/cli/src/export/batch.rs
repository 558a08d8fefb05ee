//! Rows that become the columns of a batch.

use super::schema::{Columns, float};
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, TimestampNanosecondBuilder,
    UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Schema};
use logdrive_query::Row;
use logdrive_reader::read_iso;
use std::sync::Arc;

/// Values of a column that is being filled.
enum Builder {
    Time(TimestampNanosecondBuilder),
    Whole(Int64Builder),
    Large(UInt64Builder),
    Float(Float64Builder),
    Truth(BooleanBuilder),
    Text(StringBuilder),
}

impl Builder {
    fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Timestamp(..) => {
                Self::Time(TimestampNanosecondBuilder::new().with_data_type(data_type.clone()))
            }
            DataType::Int64 => Self::Whole(Int64Builder::new()),
            DataType::UInt64 => Self::Large(UInt64Builder::new()),
            DataType::Float64 => Self::Float(Float64Builder::new()),
            DataType::Boolean => Self::Truth(BooleanBuilder::new()),
            _ => Self::Text(StringBuilder::new()),
        }
    }

    /// Adds a value; an empty one that is no text, or none, is absent. `false`: it does not fit the column, and is left out.
    fn push(&mut self, value: Option<&[u8]>) -> bool {
        let text = value.map(String::from_utf8_lossy);
        let plain = text.as_deref().filter(|text| !text.is_empty());
        let parsed = match self {
            Self::Text(texts) => {
                texts.append_option(text.as_deref());
                return true;
            }
            Self::Time(times) => {
                let time = plain.and_then(read_iso).and_then(|time| i64::try_from(time).ok());
                times.append_option(time);
                time.is_some()
            }
            Self::Whole(numbers) => {
                let number = plain.and_then(|text| text.parse().ok());
                numbers.append_option(number);
                number.is_some()
            }
            Self::Large(numbers) => {
                let number = plain.and_then(|text| text.parse().ok());
                numbers.append_option(number);
                number.is_some()
            }
            Self::Float(numbers) => {
                let number = plain.and_then(float);
                numbers.append_option(number);
                number.is_some()
            }
            Self::Truth(truths) => {
                let truth = plain.and_then(|text| text.parse().ok());
                truths.append_option(truth);
                truth.is_some()
            }
        };
        parsed || plain.is_none()
    }

    fn array(&mut self) -> ArrayRef {
        match self {
            Self::Time(values) => ArrayBuilder::finish(values),
            Self::Whole(values) => ArrayBuilder::finish(values),
            Self::Large(values) => ArrayBuilder::finish(values),
            Self::Float(values) => ArrayBuilder::finish(values),
            Self::Truth(values) => ArrayBuilder::finish(values),
            Self::Text(values) => ArrayBuilder::finish(values),
        }
    }
}

/// A batch that is being filled.
pub(super) struct Batch {
    schema: Arc<Schema>,
    builders: Vec<Builder>,
    rows: usize,
    bytes: usize,
    /// Values that have no column, or do not fit it: they were logged between the two readings.
    pub(super) left_out: u64,
}

impl Batch {
    pub(super) fn new(schema: Arc<Schema>) -> Self {
        let fields = schema.fields().iter();
        Self {
            builders: fields.map(|field| Builder::new(field.data_type())).collect(),
            schema,
            rows: 0,
            bytes: 0,
            left_out: 0,
        }
    }

    /// Adds a row.
    pub(super) fn push(&mut self, columns: &Columns, row: &Row) {
        let mut values: Vec<Option<&[u8]>> = vec![None; self.builders.len()];
        for (name, value) in &row.cells {
            match columns.number_of(name).and_then(|number| values.get_mut(number)) {
                Some(place) => *place = Some(value),
                None => self.left_out += 1,
            }
            self.bytes += value.len();
        }
        for (builder, value) in self.builders.iter_mut().zip(values) {
            self.left_out += u64::from(!builder.push(value));
        }
        self.rows += 1;
    }

    /// Number of rows, and bytes of their values.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.rows, self.bytes)
    }

    /// Takes the rows.
    pub(super) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        (self.rows, self.bytes) = (0, 0);
        let arrays = self.builders.iter_mut().map(Builder::array).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
    }
}
