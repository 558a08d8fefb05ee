//! Values of a record of a live session, as text for comparing.

use logdrive_wire::value::{DynamicFields, Scope};
use logdrive_wire::{Callsite, Cursor, Value};

/// Gives the values of a record's fields that have a key: its own, then those of its spans.
pub(crate) fn values_of(callsite: &Callsite, payload: &[u8], key: &str, each: &mut dyn FnMut(&[u8])) {
    visit(callsite, payload, &mut |name, value| {
        if name == key {
            give_text(value, each);
        }
    });
}

/// Gives keys and values of a record's fields: its own, then those of its spans.
pub(crate) fn each_value(callsite: &Callsite, payload: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) {
    visit(callsite, payload, &mut |name, value| {
        give_text(value, &mut |text| each(name.as_bytes(), text));
    });
}

/// Visits the values of a record with their keys. A field without a name has the key `argN`, N its index, as in the layouts.
/// Reading ends where the payload is malformed.
fn visit(callsite: &Callsite, payload: &[u8], each: &mut dyn FnMut(&str, Value<'_>)) {
    let mut scopes = Vec::new();
    let mut own = |index: usize, key: &str, value: Value<'_>| match key {
        "" => each(&format!("arg{index}"), value),
        key => each(key, value),
    };
    let name_of = |index: usize| callsite.fields.get(index).map_or("", |field| field.name.as_str());
    if callsite.dynamic {
        let mut fields = DynamicFields::new(payload);
        while let Ok(Some(named)) = fields.next_value() {
            match (named.value, named.index) {
                (Value::Scope(scope), _) => scopes.push(scope),
                (value, Some(index)) => own(index.into(), name_of(index.into()), value),
                (value, None) => own(0, named.key, value),
            }
        }
    } else {
        let mut cursor = Cursor::new(payload);
        for (index, field) in callsite.fields.iter().enumerate() {
            match Value::read(field.kind, &mut cursor) {
                Ok((Value::Scope(scope), _)) => scopes.push(scope),
                Ok((value, _)) => own(index, &field.name, value),
                Err(_) => break,
            }
        }
    }
    for mut span in scopes.iter().flat_map(Scope::spans).map_while(Result::ok) {
        while let Ok(Some(named)) = span.fields.next_value() {
            each(named.key, named.value);
        }
    }
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
