//! The fields of a record, and members made of them.

use crate::part::Part;
use crate::record::Record;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A time in nanoseconds as qlog has it.
pub(super) fn milliseconds(ns: i128) -> Value {
    // Exact for spans of some months, as it is in quic-go.
    let milliseconds = ns as f64 / 1e6;
    match ns % 1_000_000 {
        0 => Value::from((ns / 1_000_000) as i64),
        _ => Value::from(milliseconds),
    }
}

/// The fields of a record.
pub(super) struct Values<'a> {
    pub(super) record: &'a Record,
    pub(super) bytes: &'a [u8],
}

impl<'a> Values<'a> {
    pub(super) fn plain(&self, key: &str) -> Option<Cow<'a, [u8]>> {
        let is_wanted = |part: Part| part.of(self.bytes) == key.as_bytes();
        let mut fields = self.record.fields_of(None);
        Some(
            fields
                .find(|field| is_wanted(field.key.part))?
                .value
                .plain(self.bytes),
        )
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.plain(key).is_some()
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.plain(key)?).into_owned())
    }

    /// A text that is not empty.
    pub(super) fn some_text(&self, key: &str) -> Option<String> {
        self.text(key).filter(|text| !text.is_empty())
    }

    pub(super) fn number(&self, key: &str) -> Option<i64> {
        std::str::from_utf8(&self.plain(key)?).ok()?.parse().ok()
    }

    /// A number that is not below zero, which stands for none.
    pub(super) fn natural(&self, key: &str) -> Option<i64> {
        self.number(key).filter(|number| *number >= 0)
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.plain(key).is_some_and(|text| *text == *b"true")
    }
}

pub(super) type Object = Map<String, Value>;

/// Adds a member that there is a value for.
pub(super) fn put(to: &mut Object, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        to.insert(key.to_owned(), value.into());
    }
}

pub(super) fn non_zero(values: &Values<'_>, key: &str) -> Option<i64> {
    values.number(key).filter(|number| *number != 0)
}
