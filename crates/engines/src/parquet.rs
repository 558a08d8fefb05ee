//! Records as a table of Parquet: columns for what every record has, one for each field with the type that all its values have,
//! and one for fields beyond those, as an object of JSON.

use crate::batch::EngineRecord;
use crate::json::{put_string, put_value, value_text};
use crate::limits::PARQUET_COLUMNS_MAX;
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, TimestampNanosecondBuilder,
    UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use logdrive_wire::Value;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Columns that every table has, before those of fields.
const OWN_COLUMNS: [&str; 9] = [
    "time", "level", "message", "target", "thread", "app", "host", "pid", "id",
];
/// Column of the fields that have none, as an object of JSON.
const MORE_COLUMN: &str = "more_fields";
/// Records that are turned into a part of the table together.
const ROWS_AT_ONCE: usize = 10_000;

/// Type of the values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnType {
    Bool,
    Int,
    /// Whole numbers of which some do not fit into 64 bits with a sign.
    Large,
    Float,
    Text,
}

impl ColumnType {
    /// Type of a value; `None` where it is absent.
    fn of(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::None => return None,
            Value::Bool(_) => Self::Bool,
            Value::I64(_) => Self::Int,
            Value::U64(number) if i64::try_from(*number).is_ok() => Self::Int,
            Value::U64(_) => Self::Large,
            Value::F32(_) | Value::F64(_) => Self::Float,
            _ => Self::Text,
        })
    }

    /// Type that has the values of both.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Int, Self::Large) | (Self::Large, Self::Int) => Self::Large,
            _ => Self::Text,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int64,
            Self::Large => DataType::UInt64,
            Self::Float => DataType::Float64,
            Self::Text => DataType::Utf8,
        }
    }
}

/// Columns of fields, found by a first look at all records.
#[derive(Debug, Default)]
pub(crate) struct FieldColumns {
    types: BTreeMap<String, ColumnType>,
    has_more: bool,
}

impl FieldColumns {
    /// Looks at a record.
    pub(crate) fn add(&mut self, record: &EngineRecord<'_>) {
        record.each_field(&mut |key, value| {
            let Some(own) = ColumnType::of(&value) else {
                return;
            };
            if let Some(known) = self.types.get_mut(key) {
                *known = known.with(own);
            } else if self.types.len() < PARQUET_COLUMNS_MAX {
                self.types.insert(key.to_owned(), own);
            } else {
                self.has_more = true;
            }
        });
    }

    fn schema(&self) -> Schema {
        let own = OWN_COLUMNS.iter().map(|name| {
            let data_type = match *name {
                "time" => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
                "pid" => DataType::UInt64,
                _ => DataType::Utf8,
            };
            Field::new(*name, data_type, true)
        });
        let fields = self.types.iter().map(|(key, own)| {
            let mut name = key.clone();
            // A field that has the name of another column gets a number, as in JSON.
            while OWN_COLUMNS.contains(&&*name)
                || name == MORE_COLUMN
                || name != *key && self.types.contains_key(&name)
            {
                name.push_str("_1");
            }
            Field::new(name, own.data_type(), true)
        });
        let more = self
            .has_more
            .then(|| Field::new(MORE_COLUMN, DataType::Utf8, true));
        Schema::new(own.chain(fields).chain(more).collect::<Vec<_>>())
    }
}

/// Values of a field's column.
#[derive(Debug)]
enum Values {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    Large(UInt64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
}

impl Values {
    fn new(of: ColumnType) -> Self {
        match of {
            ColumnType::Bool => Self::Bool(BooleanBuilder::new()),
            ColumnType::Int => Self::Int(Int64Builder::new()),
            ColumnType::Large => Self::Large(UInt64Builder::new()),
            ColumnType::Float => Self::Float(Float64Builder::new()),
            ColumnType::Text => Self::Text(StringBuilder::new()),
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Text(texts), value) => texts.append_value(value_text(value)),
            (Self::Bool(values), Value::Bool(value)) => values.append_value(value),
            (Self::Int(values), Value::I64(value)) => values.append_value(value),
            (Self::Int(values), Value::U64(value)) => values.append_option(i64::try_from(value).ok()),
            (Self::Large(values), Value::U64(value)) => values.append_value(value),
            (Self::Large(values), Value::I64(value)) => values.append_option(u64::try_from(value).ok()),
            (Self::Float(values), Value::F32(value)) => values.append_value(value.into()),
            (Self::Float(values), Value::F64(value)) => values.append_value(value),
            // The first look has seen no such value.
            (other, _) => other.push_none(),
        }
    }

    fn push_none(&mut self) {
        match self {
            Self::Bool(values) => values.append_null(),
            Self::Int(values) => values.append_null(),
            Self::Large(values) => values.append_null(),
            Self::Float(values) => values.append_null(),
            Self::Text(values) => values.append_null(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::Int(values) => values.len(),
            Self::Large(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    fn take(&mut self) -> ArrayRef {
        match self {
            Self::Bool(values) => ArrayBuilder::finish(values),
            Self::Int(values) => ArrayBuilder::finish(values),
            Self::Large(values) => ArrayBuilder::finish(values),
            Self::Float(values) => ArrayBuilder::finish(values),
            Self::Text(values) => ArrayBuilder::finish(values),
        }
    }
}

/// A table that is written.
pub(crate) struct ParquetTable {
    schema: Arc<Schema>,
    writer: ArrowWriter<Vec<u8>>,
    times: TimestampNanosecondBuilder,
    /// The further columns that every table has: texts but for the process id.
    texts: [StringBuilder; 7],
    pids: UInt64Builder,
    /// Places of fields among the columns.
    places: BTreeMap<String, usize>,
    fields: Vec<Values>,
    more: Option<StringBuilder>,
    rows: usize,
}

impl ParquetTable {
    /// A table for the columns of fields that were found.
    pub(crate) fn new(columns: &FieldColumns) -> io::Result<Self> {
        let schema = Arc::new(columns.schema());
        let level = ZstdLevel::try_new(3).map_err(io::Error::other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties));
        let time = schema.field(0).data_type().clone();
        Ok(Self {
            writer: writer.map_err(io::Error::other)?,
            times: TimestampNanosecondBuilder::new().with_data_type(time),
            texts: std::array::from_fn(|_| StringBuilder::new()),
            pids: UInt64Builder::new(),
            places: columns.types.keys().cloned().zip(0..).collect(),
            fields: columns.types.values().map(|of| Values::new(*of)).collect(),
            more: columns.has_more.then(StringBuilder::new),
            rows: 0,
            schema,
        })
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, record: &mut EngineRecord<'_>, delivery: &str) -> io::Result<()> {
        self.times.append_option(i64::try_from(record.unix_ns()).ok());
        let message = record.message();
        let process = record.process();
        self.pids
            .append_option(process.map(|process| u64::from(process.pid)));
        let (app, host) = process.map_or(("", ""), |process| (&process.app, &process.host));
        let id = format!("{delivery}-{}", record.number);
        let texts = [
            record.level().lower_name(),
            &message,
            record.target(),
            record.thread().name,
            app,
            host,
            &id,
        ];
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.append_option((!text.is_empty()).then_some(text));
        }
        let row = self.rows;
        let Self { places, fields, .. } = self;
        let mut more = Vec::new();
        record.each_field(&mut |key, value| {
            let column = places.get(key).and_then(|place| fields.get_mut(*place));
            match column {
                // Of fields of one name the first counts.
                Some(column) if column.len() == row && !matches!(value, Value::None) => column.push(value),
                Some(_) => {}
                None => {
                    more.push(if more.is_empty() { b'{' } else { b',' });
                    put_string(&mut more, key.as_bytes());
                    more.push(b':');
                    put_value(&mut more, value);
                }
            }
        });
        let absent = fields.iter_mut().filter(|column| column.len() == row);
        absent.for_each(Values::push_none);
        if let Some(column) = &mut self.more {
            if !more.is_empty() {
                more.push(b'}');
            }
            let text = String::from_utf8_lossy(&more);
            column.append_option((!text.is_empty()).then_some(text));
        }
        self.rows += 1;
        match self.rows >= ROWS_AT_ONCE {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        self.rows = 0;
        let mut columns: Vec<ArrayRef> = vec![ArrayBuilder::finish(&mut self.times)];
        columns.extend(
            self.texts
                .iter_mut()
                .map(|texts| ArrayBuilder::finish(texts) as ArrayRef),
        );
        // Before the id, as the schema has it.
        columns.insert(OWN_COLUMNS.len() - 2, ArrayBuilder::finish(&mut self.pids));
        columns.extend(self.fields.iter_mut().map(Values::take));
        columns.extend(
            self.more
                .as_mut()
                .map(|more| ArrayBuilder::finish(more) as ArrayRef),
        );
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(io::Error::other)?;
        self.writer.write(&rows).map_err(io::Error::other)
    }

    /// Returns the bytes of the table.
    pub(crate) fn finish(mut self) -> io::Result<Vec<u8>> {
        if self.rows > 0 {
            self.write()?;
        }
        self.writer.into_inner().map_err(io::Error::other)
    }
}
