//! Decoded field values, and the spans around a record, which are values with fields of their own. All of them borrow
//! from the bytes of the record.

use crate::kind::FieldKind;
use crate::limits::SCOPE_DEPTH_MAX;
use crate::{Cursor, Kind, WireError};

/// One field value. Text borrows from the record; nothing is copied or allocated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// `true` or `false`.
    Bool(bool),
    /// Signed integers up to 64 bits.
    I64(i64),
    /// Unsigned integers up to 64 bits.
    U64(u64),
    /// A signed 128-bit integer.
    I128(i128),
    /// An unsigned 128-bit integer.
    U128(u128),
    /// A single, kept apart from `F64` because its shortest decimal form differs.
    F32(f32),
    /// A double.
    F64(f64),
    /// A Unicode scalar value.
    Char(char),
    /// Text; invalid UTF-8 stays as it came and is replaced when it is laid out.
    Str(&'a [u8]),
    /// Opaque bytes.
    Bytes(&'a [u8]),
    /// Text that the value's `Display` made.
    Display(&'a [u8]),
    /// Text that the value's `Debug` made.
    Debug(&'a [u8]),
    /// An address.
    Pointer(u64),
    /// Nothing: an absent optional, or a unit.
    None,
    /// The spans around the record.
    Scope(Scope<'a>),
    /// A message made at the call.
    Message(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Reads one value of the given kind.
    ///
    /// # Errors
    /// When the bytes end early, or hold a bool or char outside of its range.
    #[inline]
    pub fn read(field: FieldKind, cursor: &mut Cursor<'a>) -> Result<(Value<'a>, bool), WireError> {
        if field.optional {
            match cursor.u8()? {
                0 => return Ok((Value::None, true)),
                1 => return Ok((Self::read_plain(field.kind, cursor)?, true)),
                found => {
                    return Err(WireError::Limit {
                        what: "presence byte",
                        found: u64::from(found),
                        limit: 1,
                    });
                }
            }
        }
        Ok((Self::read_plain(field.kind, cursor)?, false))
    }

    #[inline]
    fn read_plain(kind: Kind, cursor: &mut Cursor<'a>) -> Result<Value<'a>, WireError> {
        Ok(match kind {
            Kind::Bool => match cursor.u8()? {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                found => {
                    return Err(WireError::Limit {
                        what: "bool",
                        found: u64::from(found),
                        limit: 1,
                    });
                }
            },
            Kind::I8 => Value::I64(i64::from(cursor.u8()?.cast_signed())),
            Kind::I16 => Value::I64(i64::from(cursor.u16()?.cast_signed())),
            Kind::I32 => Value::I64(i64::from(cursor.u32()?.cast_signed())),
            Kind::I64 => Value::I64(cursor.u64()?.cast_signed()),
            Kind::I128 => Value::I128(cursor.u128()?.cast_signed()),
            Kind::U8 => Value::U64(u64::from(cursor.u8()?)),
            Kind::U16 => Value::U64(u64::from(cursor.u16()?)),
            Kind::U32 => Value::U64(u64::from(cursor.u32()?)),
            Kind::U64 => Value::U64(cursor.u64()?),
            Kind::U128 => Value::U128(cursor.u128()?),
            Kind::F32 => Value::F32(f32::from_bits(cursor.u32()?)),
            Kind::F64 => Value::F64(f64::from_bits(cursor.u64()?)),
            Kind::Char => {
                let code = cursor.u32()?;
                match char::from_u32(code) {
                    Some(found) => Value::Char(found),
                    None => {
                        return Err(WireError::Limit {
                            what: "char",
                            found: u64::from(code),
                            limit: 0x10_ffff,
                        });
                    }
                }
            }
            Kind::Str => Value::Str(Self::read_blob(cursor)?),
            Kind::Bytes => Value::Bytes(Self::read_blob(cursor)?),
            Kind::Display => Value::Display(Self::read_blob(cursor)?),
            Kind::Debug => Value::Debug(Self::read_blob(cursor)?),
            Kind::Pointer => Value::Pointer(cursor.u64()?),
            Kind::None => Value::None,
            Kind::Scope => Value::Scope(Scope::new(Self::read_blob(cursor)?)),
            Kind::Message => Value::Message(Self::read_blob(cursor)?),
        })
    }

    #[inline]
    fn read_blob(cursor: &mut Cursor<'a>) -> Result<&'a [u8], WireError> {
        let length = cursor.u32()? as usize;
        cursor.take(length)
    }
}

/// A value of a dynamic record with its key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Named<'a> {
    /// Index into the callsite's fields, or `None` when the key is in the record.
    pub index: Option<u8>,
    /// The key in the record; empty when `index` is given.
    pub key: &'a str,
    /// The value.
    pub value: Value<'a>,
    /// Set if the value was written as an optional.
    pub optional: bool,
}

/// Reads the values of a dynamic record one by one.
#[derive(Debug, Clone, Copy)]
pub struct DynamicFields<'a> {
    cursor: Cursor<'a>,
}

/// The index byte that says that the key follows in the record.
pub const INLINE_KEY: u8 = 0xff;

impl<'a> DynamicFields<'a> {
    /// Starts at the first value.
    #[inline]
    pub fn new(payload: &'a [u8]) -> Self {
        Self {
            cursor: Cursor::new(payload),
        }
    }

    /// The next value; `Ok(None)` at the end, which is a zero byte or the end of the payload.
    ///
    /// # Errors
    /// When a tag is unknown or a value does not fit.
    #[inline]
    pub fn next_value(&mut self) -> Result<Option<Named<'a>>, WireError> {
        if self.cursor.left() == 0 {
            return Ok(None);
        }
        let tag = self.cursor.u8()?;
        if tag == 0 {
            return Ok(None);
        }
        let field = FieldKind::from_code(tag)?;
        let index = self.cursor.u8()?;
        let key = if index == INLINE_KEY {
            self.cursor.short_str("inline key")?
        } else {
            ""
        };
        let (value, optional) = Value::read(field, &mut self.cursor)?;
        Ok(Some(Named {
            index: (index != INLINE_KEY).then_some(index),
            key,
            value,
            optional,
        }))
    }
}

/// The spans around a record, outermost first: each `u16 name length, name, u16 fields length, dynamic fields`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scope<'a> {
    bytes: &'a [u8],
}

/// One span of a [`Scope`].
#[derive(Debug, Clone, Copy)]
pub struct ScopeField<'a> {
    /// The span's name.
    pub name: &'a str,
    /// The span's fields, all with inline keys.
    pub fields: DynamicFields<'a>,
}

impl<'a> Scope<'a> {
    /// Wraps the encoded spans.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The encoded bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The spans, outermost first; stops with an error at the first one that cannot be read.
    pub fn spans(&self) -> impl Iterator<Item = Result<ScopeField<'a>, WireError>> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        let mut depth = 0;
        let mut failed = false;
        core::iter::from_fn(move || {
            if failed || cursor.left() == 0 {
                return None;
            }
            depth += 1;
            let span = if depth > SCOPE_DEPTH_MAX {
                Err(WireError::Limit {
                    what: "span depth",
                    found: depth as u64,
                    limit: SCOPE_DEPTH_MAX as u64,
                })
            } else {
                read_span(&mut cursor)
            };
            failed = span.is_err();
            Some(span)
        })
    }
}

fn read_span<'a>(cursor: &mut Cursor<'a>) -> Result<ScopeField<'a>, WireError> {
    let name = cursor.short_str("span name")?;
    let length = usize::from(cursor.u16()?);
    Ok(ScopeField {
        name,
        fields: DynamicFields::new(cursor.take(length)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_that_is_cut_ends_with_an_error() {
        let mut bytes = vec![3, 0];
        bytes.extend_from_slice(b"abc");
        bytes.extend_from_slice(&[9, 0]);
        let spans: Vec<_> = Scope::new(&bytes).spans().collect();
        assert_eq!(spans.len(), 1);
        assert!(spans[0].is_err());
    }
}
