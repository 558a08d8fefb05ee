//! Values of a record of a live session, as text for comparing.

use logdrive_wire::value::DynamicFields;
use logdrive_wire::{Callsite, Cursor, Value};

/// Gives the values of a record's fields that have a key, those of its spans included. A field without a name has the key
/// `argN`, N its index, as in the layouts. What is absent has no value; reading ends where the payload is malformed.
pub(crate) fn each_value(callsite: &Callsite, payload: &[u8], key: &str, each: &mut dyn FnMut(&[u8])) {
    let has_key = |index: usize| match callsite.fields.get(index).map(|field| field.name.as_str()) {
        Some("") => key
            .strip_prefix("arg")
            .is_some_and(|number| number == index.to_string()),
        name => name == Some(key),
    };
    if callsite.dynamic {
        let mut fields = DynamicFields::new(payload);
        while let Ok(Some(named)) = fields.next_value() {
            let is_named = named
                .index
                .map_or(named.key == key, |index| has_key(usize::from(index)));
            give(named.value, key, is_named, each);
        }
        return;
    }
    let mut cursor = Cursor::new(payload);
    for (index, field) in callsite.fields.iter().enumerate() {
        let Ok((value, _)) = Value::read(field.kind, &mut cursor) else {
            break;
        };
        give(value, key, has_key(index), each);
    }
}

fn give(value: Value<'_>, key: &str, is_named: bool, each: &mut dyn FnMut(&[u8])) {
    match value {
        Value::Scope(scope) => {
            for mut span in scope.spans().map_while(Result::ok) {
                while let Ok(Some(named)) = span.fields.next_value() {
                    give_text(named.value, named.key == key, each);
                }
            }
        }
        value => give_text(value, is_named, each),
    }
}

/// Gives the text of a value, as a condition has it; none for what is absent or no single value.
fn give_text(value: Value<'_>, is_named: bool, each: &mut dyn FnMut(&[u8])) {
    let mut shown = |text: &dyn std::fmt::Display| each(text.to_string().as_bytes());
    match value {
        _ if !is_named => {}
        Value::Bool(value) => shown(&value),
        Value::I64(value) => shown(&value),
        Value::U64(value) => shown(&value),
        Value::I128(value) => shown(&value),
        Value::U128(value) => shown(&value),
        Value::F32(value) => shown(&value),
        Value::F64(value) => shown(&value),
        Value::Char(value) => shown(&value),
        Value::Pointer(value) => shown(&format_args!("{value:#x}")),
        Value::Str(text) | Value::Bytes(text) | Value::Display(text) | Value::Debug(text) => each(text),
        // As JSON lines show it.
        Value::None => each(b"null"),
        Value::Scope(_) | Value::Message(_) => {}
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
            each_value(&callsite, payload, key, &mut |text| {
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
