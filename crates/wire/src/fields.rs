//! The values of a record with their keys.

use crate::value::{DynamicFields, Scope};
use crate::{Callsite, Cursor, Value};

/// Visits the values of a record with their keys: its own, then those of its spans. A field without a name has the key `argN`,
/// N its index, as in the layouts. Reading ends where the payload is malformed. It allocates for fields without a name alone.
///
/// ```
/// use logdrive_wire::kind::FieldKind;
/// use logdrive_wire::{Callsite, Field, Kind, Value, each_field};
/// let field = Field { name: "id".into(), kind: FieldKind::plain(Kind::U32), argument: false };
/// let callsite = Callsite { fields: vec![field], ..Callsite::default() };
/// let mut found = Vec::new();
/// each_field(&callsite, &7u32.to_le_bytes(), &mut |key, value| found.push((key.to_owned(), value == Value::U64(7))));
/// assert_eq!(found, [("id".to_owned(), true)]);
/// ```
pub fn each_field(callsite: &Callsite, payload: &[u8], each: &mut dyn FnMut(&str, Value<'_>)) {
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
