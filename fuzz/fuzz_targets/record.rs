//! Record headers, and values of every kind: static, dynamic and in spans. What is accepted has one encoding only, so
//! writing it again gives the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::value::{DynamicFields, INLINE_KEY};
use logdrive_wire::{Cursor, Named, RecordHeader, Value};

fuzz_target!(|data: &[u8]| {
    if let Ok(header) = RecordHeader::decode(data) {
        assert_eq!(header.encode(), data[..16]);
        assert!(header.length_bytes % 8 == 0 && (16..=65_536).contains(&header.length_bytes));
    }
    let Some((count, rest)) = data.split_first() else {
        return;
    };
    let (codes, payload) = rest.split_at(usize::from(*count).min(rest.len()));
    read_static(codes, payload);
    read_dynamic(data, 0);
});

fn read_static(codes: &[u8], payload: &[u8]) {
    let mut cursor = Cursor::new(payload);
    for code in codes {
        let Ok(field) = FieldKind::from_code(*code) else {
            return;
        };
        let before = cursor.offset();
        let Ok((value, optional)) = Value::read(field, &mut cursor) else {
            return;
        };
        assert_eq!(optional, field.optional);
        let mut again = Vec::new();
        encode(field, &value, &mut again);
        assert_eq!(again, payload[before..cursor.offset()]);
    }
}

fn read_dynamic(payload: &[u8], depth: usize) {
    let mut fields = DynamicFields::new(payload);
    let mut again = Vec::new();
    // A value takes at least two bytes, so the reader ends by itself within this bound.
    for _ in 0..=payload.len() / 2 {
        let named = match fields.next_value() {
            Ok(Some(named)) => named,
            Ok(None) | Err(_) => return assert!(payload.starts_with(&again)),
        };
        let tag = payload[again.len()];
        encode_named(tag, &named, &mut again);
        if let Value::Scope(scope) = named.value {
            for span in scope.spans() {
                let Ok(span) = span else { break };
                assert!(span.name.len() <= scope.bytes().len());
                let mut values = span.fields;
                while let Ok(Some(named)) = values.next_value() {
                    if let (Value::Scope(inner), true) = (named.value, depth < 3) {
                        read_dynamic(inner.bytes(), depth + 1);
                    }
                }
            }
        }
    }
    panic!("more values than bytes allow");
}

fn encode_named(tag: u8, named: &Named<'_>, out: &mut Vec<u8>) {
    out.push(tag);
    match named.index {
        Some(index) => out.push(index),
        None => {
            out.push(INLINE_KEY);
            out.extend_from_slice(&(named.key.len() as u16).to_le_bytes());
            out.extend_from_slice(named.key.as_bytes());
        }
    }
    let field = FieldKind::from_code(tag).expect("it was accepted");
    encode(field, &named.value, out);
}

/// Writes a value as `spec/record.md` says.
fn encode(field: FieldKind, value: &Value<'_>, out: &mut Vec<u8>) {
    if field.optional {
        let present = *value != Value::None;
        out.push(u8::from(present));
        if !present {
            return;
        }
    }
    let width = width_of(field);
    match *value {
        Value::Bool(value) => out.push(u8::from(value)),
        Value::I64(value) => out.extend_from_slice(&value.to_le_bytes()[..width]),
        Value::U64(value) | Value::Pointer(value) => out.extend_from_slice(&value.to_le_bytes()[..width]),
        Value::I128(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::U128(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::F32(value) => out.extend_from_slice(&value.to_bits().to_le_bytes()),
        Value::F64(value) => out.extend_from_slice(&value.to_bits().to_le_bytes()),
        Value::Char(value) => out.extend_from_slice(&u32::from(value).to_le_bytes()),
        Value::Str(blob)
        | Value::Bytes(blob)
        | Value::Display(blob)
        | Value::Debug(blob)
        | Value::Message(blob) => {
            encode_blob(blob, out);
        }
        Value::Scope(scope) => encode_blob(scope.bytes(), out),
        Value::None => {}
    }
}

fn encode_blob(blob: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(blob.len() as u32).to_le_bytes());
    out.extend_from_slice(blob);
}

fn width_of(field: FieldKind) -> usize {
    use logdrive_wire::Kind::{I8, I16, I32, U8, U16, U32};
    match field.kind {
        I8 | U8 => 1,
        I16 | U16 => 2,
        I32 | U32 => 4,
        _ => 8,
    }
}
