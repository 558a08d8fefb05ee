//! Values of a record of a live session, as text for comparing.

use logdrive_wire::{Callsite, Value, each_field};

/// Gives the values of a record's fields that have a key: its own, then those of its spans.
pub(crate) fn values_of(callsite: &Callsite, payload: &[u8], key: &str, each: &mut dyn FnMut(&[u8])) {
    each_field(callsite, payload, &mut |name, value| {
        if name == key {
            give_text(value, each);
        }
    });
}

/// Gives keys and values of a record's fields: its own, then those of its spans.
pub(crate) fn each_value(callsite: &Callsite, payload: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) {
    each_field(callsite, payload, &mut |name, value| {
        give_text(value, &mut |text| each(name.as_bytes(), text));
    });
}

/// Gives the text of a value as the layouts write it behind a key; none for what is absent or no single value.
fn give_text(value: Value<'_>, each: &mut dyn FnMut(&[u8])) {
    let mut shown = |text: &dyn std::fmt::Display| each(text.to_string().as_bytes());
    match value {
        Value::Bool(value) => shown(&value),
        Value::I64(value) => shown(&value),
        Value::U64(value) => shown(&value),
        Value::I128(value) => shown(&value),
        Value::U128(value) => shown(&value),
        Value::F32(value) => shown(&format_args!("{value:?}")),
        Value::F64(value) => shown(&format_args!("{value:?}")),
        Value::Char(value) => shown(&value),
        Value::Pointer(value) => shown(&format_args!("{value:#x}")),
        Value::Str(text) | Value::Bytes(text) | Value::Display(text) | Value::Debug(text) => each(text),
        Value::None | Value::Scope(_) | Value::Message(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_wire::kind::FieldKind;
    use logdrive_wire::{Field, Kind};

    #[test]
    fn values_are_found_by_name_or_number_and_read_as_text() {
        let field = |name: &str, kind| Field {
            name: name.to_owned(),
            kind: FieldKind::plain(kind),
            argument: false,
        };
        let callsite = Callsite {
            fields: vec![
                field("id", Kind::U32),
                field("", Kind::Str),
                field("ms", Kind::F64),
                field("last", Kind::Bool),
            ],
            ..Callsite::default()
        };
        let mut payload = 7u32.to_le_bytes().to_vec();
        payload.extend_from_slice(&3u32.to_le_bytes());
        payload.extend_from_slice(b"a b");
        payload.extend_from_slice(&1.5f64.to_le_bytes());
        payload.push(1);
        let texts = |payload: &[u8], key: &str| -> Vec<String> {
            let mut values = Vec::new();
            values_of(&callsite, payload, key, &mut |text| {
                values.push(String::from_utf8_lossy(text).into_owned());
            });
            values
        };
        for (key, expected) in [("id", "7"), ("arg1", "a b"), ("ms", "1.5"), ("last", "true")] {
            assert_eq!(texts(&payload, key), [expected], "{key}");
        }
        assert_eq!(texts(&payload, "arg0").len() + texts(&payload, "none").len(), 0);
        // A payload that ends early has the values before its end.
        payload.truncate(9);
        assert_eq!((texts(&payload, "id").len(), texts(&payload, "ms").len()), (1, 0));
    }
}
