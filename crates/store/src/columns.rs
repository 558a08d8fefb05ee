//! Columns: the values of one field of one group, by their kind, and their way from payloads and back.

use crate::bytes::{Compressor, Input};
use crate::derivation::Derivation;
use crate::error::StoreError;
use crate::filter::FilterBuilder;
use crate::floats;
use crate::integers::{self, ordered, unordered};
use crate::limits::{FILTERED_INTEGER_BYTES, SPARE_BYTES_MAX};
use crate::line_template::{digit_count, put_number};
use crate::summary::ColumnSummary;
use crate::texts::{self, Distinct, StoredTexts, Texts, Wanted};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Cursor, Kind, Value, WireError};

/// Meaning of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// Values of a field.
    Field(FieldKind),
    /// Digits of a line.
    Digits,
    /// Words of a line, whole lines, or payloads that are not taken apart.
    Text,
}

/// Form in which values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Nothing,
    Integers,
    Wide,
    Doubles,
    Digits,
    Texts,
}

impl ColumnKind {
    fn form(self) -> Form {
        match self {
            Self::Text => Form::Texts,
            Self::Digits => Form::Digits,
            Self::Field(field) => match field.kind {
                Kind::None => Form::Nothing,
                Kind::I128 | Kind::U128 => Form::Wide,
                Kind::F64 => Form::Doubles,
                Kind::Str | Kind::Bytes | Kind::Display | Kind::Debug | Kind::Scope | Kind::Message => {
                    Form::Texts
                }
                _ => Form::Integers,
            },
        }
    }

    fn is_optional(self) -> bool {
        matches!(self, Self::Field(field) if field.optional)
    }
}

/// Values of a column, in the order of their rows.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) kind: ColumnKind,
    /// For each row, whether there is a value; empty where there always is.
    pub(crate) present: Vec<u64>,
    pub(crate) low: Vec<u64>,
    /// High halves of wide integers; counts of digits.
    high: Vec<u64>,
    pub(crate) texts: Texts,
    /// Source of digits that were read and do not stand in the column.
    pub(crate) derivation: Option<Derivation>,
}

impl Column {
    pub(crate) fn new(kind: ColumnKind) -> Self {
        Self {
            kind,
            present: Vec::new(),
            low: Vec::new(),
            high: Vec::new(),
            texts: Texts::default(),
            derivation: None,
        }
    }

    fn memory_bytes(&self) -> usize {
        let words = self.present.capacity() + self.low.capacity() + self.high.capacity();
        words * 8 + self.texts.memory_bytes()
    }

    /// Adds the next value of a payload; after an error the column is as before.
    #[inline]
    pub(crate) fn take(&mut self, cursor: &mut Cursor<'_>) -> Result<(), WireError> {
        let ColumnKind::Field(field) = self.kind else {
            return Ok(());
        };
        if field.optional {
            let (value, is_optional) = Value::read(field, cursor)?;
            self.push(&value, is_optional);
            return Ok(());
        }
        match field.kind {
            Kind::U64 | Kind::F64 | Kind::Pointer => self.low.push(cursor.u64()?),
            Kind::U32 | Kind::F32 => self.low.push(u64::from(cursor.u32()?)),
            Kind::U16 => self.low.push(u64::from(cursor.u16()?)),
            Kind::U8 => self.low.push(u64::from(cursor.u8()?)),
            Kind::I64 => self.low.push(ordered(cursor.u64()?.cast_signed())),
            Kind::I32 => self.low.push(ordered(cursor.u32()?.cast_signed().into())),
            Kind::I16 => self.low.push(ordered(cursor.u16()?.cast_signed().into())),
            Kind::I8 => self.low.push(ordered(cursor.u8()?.cast_signed().into())),
            Kind::Str | Kind::Bytes | Kind::Display | Kind::Debug | Kind::Scope | Kind::Message => {
                let length = cursor.u32()? as usize;
                self.texts.push(cursor.take(length)?);
            }
            Kind::Bool | Kind::Char | Kind::I128 | Kind::U128 | Kind::None => {
                self.push(&Value::read(field, cursor)?.0, false);
            }
        }
        Ok(())
    }

    /// Adds a value of a field.
    #[inline]
    pub(crate) fn push(&mut self, value: &Value<'_>, is_optional: bool) {
        if is_optional {
            let is_present = !matches!(value, Value::None);
            self.present.push(u64::from(is_present));
            if !is_present {
                return;
            }
        }
        match *value {
            Value::Bool(value) => self.low.push(u64::from(value)),
            Value::I64(value) => self.low.push(ordered(value)),
            Value::U64(value) | Value::Pointer(value) => self.low.push(value),
            Value::F32(value) => self.low.push(u64::from(value.to_bits())),
            Value::F64(value) => self.low.push(value.to_bits()),
            Value::Char(value) => self.low.push(u64::from(u32::from(value))),
            Value::I128(value) => self.push_wide(value.cast_unsigned()),
            Value::U128(value) => self.push_wide(value),
            Value::Str(text)
            | Value::Bytes(text)
            | Value::Display(text)
            | Value::Debug(text)
            | Value::Message(text) => self.texts.push(text),
            Value::Scope(scope) => self.texts.push(scope.bytes()),
            Value::None => {}
        }
    }

    fn push_wide(&mut self, value: u128) {
        self.low.push(value as u64);
        self.high.push((value >> 64) as u64);
    }

    pub(crate) fn push_digits(&mut self, number: u64, digits: usize) {
        self.low.push(number);
        self.high.push(digits as u64);
    }

    /// Takes the last row back.
    pub(crate) fn pop(&mut self) {
        if self.kind.is_optional() && self.present.pop() != Some(1) {
            return;
        }
        match self.kind.form() {
            Form::Nothing => {}
            Form::Texts => self.texts.pop(),
            Form::Integers | Form::Doubles => drop(self.low.pop()),
            Form::Wide | Form::Digits => {
                self.low.pop();
                self.high.pop();
            }
        }
    }

    /// Writes the column; digits may come from elsewhere. Returns its summary, if summaries are wanted.
    pub(crate) fn encode(
        &self,
        tools: &mut Tools,
        derivation: Option<&Derivation>,
        out: &mut Vec<u8>,
    ) -> ColumnSummary {
        let Tools {
            compressor, filter, ..
        } = tools;
        if self.kind.is_optional() {
            integers::encode(&self.present, compressor, out);
        }
        let start = out.len();
        match self.kind.form() {
            Form::Nothing => {}
            Form::Integers => {
                integers::encode(&self.low, compressor, out);
                return filter.as_mut().map_or(ColumnSummary::Unknown, |filter| {
                    sum_up_integers(self.kind, &self.low, out.len() - start, filter)
                });
            }
            Form::Doubles => {
                let digits = floats::encode(&self.low, compressor, out);
                if filter.is_some() {
                    return ColumnSummary::of_doubles(&self.low, digits);
                }
            }
            Form::Wide => {
                integers::encode(&self.low, compressor, out);
                integers::encode(&self.high, compressor, out);
            }
            Form::Digits => self.encode_digits(tools, derivation, out),
            Form::Texts => {
                let distinct = texts::encode(&self.texts, compressor, out);
                let Some(filter) = filter else {
                    return ColumnSummary::Unknown;
                };
                match distinct {
                    Distinct::Constant(value) => filter.add_texts(std::iter::once(value)),
                    Distinct::Entries(entries) => filter.add_texts(entries.values()),
                    Distinct::All => filter.add_texts(self.texts.values()),
                }
                return ColumnSummary::Tokens;
            }
        }
        ColumnSummary::Unknown
    }

    fn encode_digits(&self, tools: &mut Tools, derivation: Option<&Derivation>, out: &mut Vec<u8>) {
        let Tools {
            compressor, scratch, ..
        } = tools;
        match derivation {
            Some(derivation) => derivation.encode(compressor, scratch, out),
            None => integers::encode(&self.low, compressor, out),
        }
        let digits = self.low.iter().zip(&self.high);
        let is_plain = digits
            .clone()
            .all(|(number, digits)| digit_count(*number) == *digits);
        out.push(u8::from(!is_plain));
        if !is_plain {
            integers::encode(&self.high, compressor, out);
        }
    }

    /// Reads a column of so many rows.
    pub(crate) fn decode(
        kind: ColumnKind,
        input: &mut Input<'_>,
        rows: usize,
        budget: &mut usize,
    ) -> Result<Self, StoreError> {
        let mut column = Self::new(kind);
        let (present, count) = decode_presence(kind, input, rows)?;
        column.present = present.unwrap_or_default();
        match kind.form() {
            Form::Nothing => {}
            Form::Integers => column.low = integers::decode(input, count)?,
            Form::Doubles => column.low = floats::decode(input, count)?,
            Form::Wide => {
                column.low = integers::decode(input, count)?;
                column.high = integers::decode(input, count)?;
            }
            Form::Digits => {
                column.derivation = Derivation::decode(input, count, budget)?;
                if column.derivation.is_none() {
                    column.low = integers::decode(input, count)?;
                }
                if input.u8()? != 0 {
                    column.high = integers::decode(input, count)?;
                }
            }
            Form::Texts => {
                column.texts = texts::decode(input, count, *budget)?;
                *budget -= column.texts.bytes.len().min(*budget);
            }
        }
        Ok(column)
    }

    /// Appends the bytes of the next value to a payload.
    #[inline]
    pub(crate) fn put_value(&self, at: &mut ColumnPlace, out: &mut Vec<u8>) {
        if self.kind.is_optional() {
            let is_present = self.present.get(at.row).copied().unwrap_or(0);
            at.row += 1;
            out.push(is_present as u8);
            if is_present == 0 {
                return;
            }
        }
        let number = at.value;
        at.value += 1;
        if let ColumnKind::Field(field) = self.kind
            && matches!(field.kind, Kind::U64 | Kind::F64 | Kind::Pointer)
        {
            return out.extend_from_slice(&self.low.get(number).copied().unwrap_or(0).to_le_bytes());
        }
        let low = self.low.get(number).copied().unwrap_or(0);
        match self.kind {
            ColumnKind::Text => out.extend_from_slice(self.texts.value(number)),
            // Without counts there are no zeros in front.
            ColumnKind::Digits => put_number(out, low, self.high.get(number).copied().unwrap_or(1)),
            ColumnKind::Field(field) => self.put_field(field.kind, number, low, out),
        }
    }

    fn put_field(&self, kind: Kind, number: usize, low: u64, out: &mut Vec<u8>) {
        match kind {
            Kind::I128 | Kind::U128 => {
                out.extend_from_slice(&low.to_le_bytes());
                let high = self.high.get(number).copied().unwrap_or(0);
                return out.extend_from_slice(&high.to_le_bytes());
            }
            Kind::Str | Kind::Bytes | Kind::Display | Kind::Debug | Kind::Scope | Kind::Message => {
                let text = self.texts.value(number);
                out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                return out.extend_from_slice(text);
            }
            _ => {}
        }
        let low = match kind {
            Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => unordered(low).cast_unsigned(),
            _ => low,
        };
        out.extend_from_slice(&low.to_le_bytes()[..width_of(kind)]);
    }
}

/// Values of a column of one group as they are stored.
///
/// ```
/// use logdrive_store::{StoredColumn, StoredValues};
/// let column = StoredColumn { present: None, values: StoredValues::Integers(vec![7]) };
/// assert_eq!(column.values, StoredValues::Integers(vec![7]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredColumn {
    /// For each row, 1 where there is a value; `None` where there always is. Values are of those rows alone.
    pub present: Option<Vec<u64>>,
    /// The values.
    pub values: StoredValues,
}

/// Values of a column by their form.
///
/// ```
/// assert_ne!(logdrive_store::StoredValues::Nothing, logdrive_store::StoredValues::Integers(vec![]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredValues {
    /// None has a value.
    Nothing,
    /// Integers in the order of unsigned numbers: signed ones have their highest bit turned; bits of floats; codes.
    Integers(Vec<u64>),
    /// Low and high halves.
    Wide(Vec<u64>, Vec<u64>),
    /// Text or bytes.
    Texts(StoredTexts),
}

impl StoredColumn {
    pub(crate) fn decode(
        kind: ColumnKind,
        input: &mut Input<'_>,
        rows: usize,
        bytes_max: usize,
        wanted: &Wanted<'_>,
    ) -> Result<Option<Self>, StoreError> {
        let (present, count) = decode_presence(kind, input, rows)?;
        let values = Self::decode_values(kind, input, count, bytes_max, wanted)?;
        Ok(values.map(|values| Self { present, values }))
    }

    /// Reads a column that these bytes are, no more and no less; returns with it those of its values, behind which rows have one.
    pub(crate) fn decode_whole(
        kind: ColumnKind,
        bytes: &[u8],
        rows: usize,
        bytes_max: usize,
    ) -> Result<(Self, &[u8]), StoreError> {
        let mut input = Input::new(bytes, "columns");
        let all = Wanted {
            may_be_plain: true,
            passes: &|_| true,
        };
        let (present, count) = decode_presence(kind, &mut input, rows)?;
        let of_values = input.rest();
        let values = Self::decode_values(kind, &mut input, count, bytes_max, &all)?;
        match values {
            Some(values) if input.is_empty() => Ok((Self { present, values }, of_values)),
            _ => Err(StoreError::Contradiction {
                what: "length of a column",
            }),
        }
    }

    fn decode_values(
        kind: ColumnKind,
        input: &mut Input<'_>,
        count: usize,
        bytes_max: usize,
        wanted: &Wanted<'_>,
    ) -> Result<Option<StoredValues>, StoreError> {
        Ok(Some(match kind.form() {
            Form::Nothing => StoredValues::Nothing,
            Form::Integers => StoredValues::Integers(integers::decode(input, count)?),
            Form::Doubles => StoredValues::Integers(floats::decode(input, count)?),
            Form::Wide => {
                StoredValues::Wide(integers::decode(input, count)?, integers::decode(input, count)?)
            }
            // They may come from other columns: lines are read as rows.
            Form::Digits => {
                return Err(StoreError::Contradiction {
                    what: "kind of a column",
                });
            }
            Form::Texts => match texts::decode_stored(input, count, bytes_max, wanted)? {
                Some(texts) => StoredValues::Texts(texts),
                None => return Ok(None),
            },
        }))
    }
}

impl StoredColumn {
    /// Sums the values up that were read of these bytes, as [`Column::encode`] does when it writes them.
    pub(crate) fn sum_up(&self, kind: ColumnKind, bytes: &[u8], filter: &mut FilterBuilder) -> ColumnSummary {
        match &self.values {
            StoredValues::Integers(values) if kind.form() == Form::Doubles => {
                ColumnSummary::of_doubles(values, floats::digits(bytes))
            }
            StoredValues::Integers(values) => sum_up_integers(kind, values, bytes.len(), filter),
            StoredValues::Texts(texts) => {
                match texts {
                    StoredTexts::Constant(value) => filter.add_texts(std::iter::once(value.as_slice())),
                    StoredTexts::Dictionary(entries, _) => filter.add_texts(entries.values()),
                    StoredTexts::Plain(texts) => filter.add_texts(texts.values()),
                }
                ColumnSummary::Tokens
            }
            StoredValues::Nothing | StoredValues::Wide(..) => ColumnSummary::Unknown,
        }
    }

    /// Bytes that the values of so many rows take in payloads, and those of one of them at most; `None` where one is none of
    /// its kind.
    pub(crate) fn payload_bytes(&self, kind: ColumnKind, rows: usize) -> Option<(usize, usize)> {
        let ColumnKind::Field(field) = kind else {
            return None;
        };
        let presence = if field.optional { rows } else { 0 };
        let count = |width: usize, values: &[u64]| Some((presence + width * values.len(), 1 + width));
        match &self.values {
            StoredValues::Nothing => Some((presence, 1)),
            StoredValues::Wide(low, _) => count(16, low),
            StoredValues::Integers(values) => {
                let width = width_of(field.kind);
                let signed = |bits: u32| (ordered(-1 << (bits - 1)), ordered((1 << (bits - 1)) - 1));
                let (least, largest) = match field.kind {
                    Kind::Bool => (0, 1),
                    Kind::I8 => signed(8),
                    Kind::I16 => signed(16),
                    Kind::I32 => signed(32),
                    Kind::Char => {
                        let is_char = |value: &u64| {
                            u32::try_from(*value).is_ok_and(|value| char::from_u32(value).is_some())
                        };
                        if !values.iter().all(is_char) {
                            return None;
                        }
                        (0, u64::MAX)
                    }
                    _ if width < 8 => (0, (1 << (8 * width)) - 1),
                    _ => (0, u64::MAX),
                };
                let found = integers::range(values);
                (found.0 >= least && found.1 <= largest || values.is_empty()).then_some(())?;
                count(width, values)
            }
            StoredValues::Texts(texts) => {
                let (values, bytes, longest) = match texts {
                    StoredTexts::Constant(value) => {
                        let values = self.present.as_ref().map_or(rows, |present| {
                            present.iter().filter(|is_present| **is_present == 1).count()
                        });
                        (values, values.checked_mul(value.len())?, value.len())
                    }
                    StoredTexts::Dictionary(entries, places) => {
                        let length = |place: &u64| entries.value(*place as usize).len();
                        (places.len(), places.iter().map(length).sum(), longest(entries))
                    }
                    StoredTexts::Plain(texts) => (texts.len(), texts.bytes().len(), longest(texts)),
                };
                Some((presence + 4 * values + bytes, 5 + longest))
            }
        }
    }
}

/// Sums integers up that took so many bytes. Large numbers that differ go into the filter: others would fill it for little, since
/// their range says as much, or most blocks have them.
fn sum_up_integers(
    column: ColumnKind,
    values: &[u64],
    bytes: usize,
    filter: &mut FilterBuilder,
) -> ColumnSummary {
    let kind = match column {
        ColumnKind::Field(field) => field.kind,
        _ => Kind::None,
    };
    let in_filter = bytes >= FILTERED_INTEGER_BYTES * values.len()
        && matches!(kind, Kind::I32 | Kind::I64 | Kind::U32 | Kind::U64);
    match kind {
        Kind::I32 | Kind::I64 if in_filter => {
            filter.add_numbers(values.iter().map(|value| unordered(*value).unsigned_abs()));
        }
        _ if in_filter => filter.add_numbers(values.iter().copied()),
        _ => {}
    }
    let (least, largest) = integers::range(values);
    ColumnSummary::Integers {
        least,
        largest,
        in_filter,
    }
}

fn longest(texts: &Texts) -> usize {
    texts.values().map(<[u8]>::len).max().unwrap_or(0)
}

/// Bytes of a value of a kind of numbers in a payload.
fn width_of(kind: Kind) -> usize {
    match kind {
        Kind::Bool | Kind::I8 | Kind::U8 => 1,
        Kind::I16 | Kind::U16 => 2,
        Kind::I32 | Kind::U32 | Kind::F32 | Kind::Char => 4,
        Kind::I64 | Kind::U64 | Kind::F64 | Kind::Pointer => 8,
        _ => 0,
    }
}

/// Reads which rows have a value, where a column says so, and how many have.
fn decode_presence(
    kind: ColumnKind,
    input: &mut Input<'_>,
    rows: usize,
) -> Result<(Option<Vec<u64>>, usize), StoreError> {
    if !kind.is_optional() {
        return Ok((None, rows));
    }
    let present = integers::decode(input, rows)?;
    if present.iter().any(|is_present| *is_present > 1) {
        return Err(StoreError::Contradiction {
            what: "presence column",
        });
    }
    let count = present.iter().sum::<u64>() as usize;
    Ok((Some(present), count))
}

/// Row and value of a column that come next.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ColumnPlace {
    row: usize,
    value: usize,
}

/// Columns of earlier blocks, whose memory is used again.
#[derive(Debug, Default)]
pub(crate) struct SpareColumns {
    columns: Vec<Column>,
    bytes: usize,
}

impl SpareColumns {
    pub(crate) fn column(&mut self, kind: ColumnKind) -> Column {
        let Some(mut column) = self.columns.pop() else {
            return Column::new(kind);
        };
        self.bytes -= column.memory_bytes().min(self.bytes);
        column.kind = kind;
        column
    }

    /// Takes a column that is not needed any more, unless there is enough of its kind.
    pub(crate) fn put(&mut self, mut column: Column) {
        let bytes = column.memory_bytes();
        if self.bytes + bytes > SPARE_BYTES_MAX {
            return;
        }
        self.bytes += bytes;
        for numbers in [&mut column.present, &mut column.low, &mut column.high] {
            numbers.clear();
        }
        column.texts.clear();
        column.derivation = None;
        self.columns.push(column);
    }
}

/// Memory that encoding uses again, and the filter of the block.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    pub(crate) compressor: Compressor,
    pub(crate) scratch: Vec<u64>,
    /// None where neither filter nor summaries are wanted.
    pub(crate) filter: Option<FilterBuilder>,
}
