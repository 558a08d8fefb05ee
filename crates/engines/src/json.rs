//! Values and texts in JSON.

use logdrive_wire::Value;
use std::io::Write;

/// Appends a text as a string of JSON.
pub(crate) fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    logdrive_reader::put_json(out, text);
    out.push(b'"');
}

/// Appends a value. What JSON has no form for is text.
pub(crate) fn put_value(out: &mut Vec<u8>, value: Value<'_>) {
    // Writing to memory does not fail.
    let _ = match value {
        Value::Bool(value) => write!(out, "{value}"),
        Value::I64(value) => write!(out, "{value}"),
        Value::U64(value) => write!(out, "{value}"),
        Value::F32(value) if value.is_finite() => write!(out, "{value:?}"),
        Value::F64(value) if value.is_finite() => write!(out, "{value:?}"),
        Value::None | Value::Scope(_) | Value::Message(_) => write!(out, "null"),
        Value::Str(text) | Value::Bytes(text) | Value::Display(text) | Value::Debug(text) => {
            put_string(out, text);
            Ok(())
        }
        Value::I128(value) => write!(out, "\"{value}\""),
        Value::U128(value) => write!(out, "\"{value}\""),
        Value::F32(value) => write!(out, "\"{value:?}\""),
        Value::F64(value) => write!(out, "\"{value:?}\""),
        Value::Pointer(value) => write!(out, "\"{value:#x}\""),
        Value::Char(value) => {
            put_string(out, value.encode_utf8(&mut [0; 4]).as_bytes());
            Ok(())
        }
    };
}

/// Appends a value as text.
pub(crate) fn value_text(value: Value<'_>) -> String {
    match value {
        Value::Str(text) | Value::Bytes(text) | Value::Display(text) | Value::Debug(text) => {
            String::from_utf8_lossy(text).into_owned()
        }
        Value::Char(value) => value.into(),
        value => {
            let mut out = Vec::new();
            put_value(&mut out, value);
            String::from_utf8_lossy(&out).trim_matches('"').to_owned()
        }
    }
}
