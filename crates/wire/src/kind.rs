//! The kinds of field values and their codes.

use crate::WireError;

/// Meaning of a field's bytes. The code is one byte; [`Kind::OPTIONAL`] may be added to any kind before `None`.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One byte, 0 or 1.
    Bool = 1,
    /// One byte.
    I8 = 2,
    /// Two bytes.
    I16 = 3,
    /// Four bytes.
    I32 = 4,
    /// Eight bytes.
    I64 = 5,
    /// Sixteen bytes.
    I128 = 6,
    /// One byte.
    U8 = 7,
    /// Two bytes.
    U16 = 8,
    /// Four bytes.
    U32 = 9,
    /// Eight bytes.
    U64 = 10,
    /// Sixteen bytes.
    U128 = 11,
    /// IEEE 754 single.
    F32 = 12,
    /// IEEE 754 double.
    F64 = 13,
    /// A Unicode scalar value in four bytes.
    Char = 14,
    /// `u32` length and UTF-8.
    Str = 15,
    /// `u32` length and bytes.
    Bytes = 16,
    /// `u32` length and UTF-8, rendered by the value's own `Display` at the call.
    Display = 17,
    /// `u32` length and UTF-8, rendered by the value's own `Debug` at the call.
    Debug = 18,
    /// An address in eight bytes.
    Pointer = 19,
    /// No bytes at all.
    None = 20,
    /// The spans around a record; only in dynamic records. See `spec/record.md`.
    Scope = 21,
    /// The key and value live in the text: `u32` length and UTF-8 that takes the template's place.
    Message = 22,
}

impl Kind {
    /// Added to a kind's code: one presence byte comes before the value, and the value only if it is 1.
    pub const OPTIONAL: u8 = 0x80;

    /// The kind with this code, without [`Kind::OPTIONAL`].
    pub const fn from_code(code: u8) -> Result<Kind, WireError> {
        Ok(match code {
            1 => Kind::Bool,
            2 => Kind::I8,
            3 => Kind::I16,
            4 => Kind::I32,
            5 => Kind::I64,
            6 => Kind::I128,
            7 => Kind::U8,
            8 => Kind::U16,
            9 => Kind::U32,
            10 => Kind::U64,
            11 => Kind::U128,
            12 => Kind::F32,
            13 => Kind::F64,
            14 => Kind::Char,
            15 => Kind::Str,
            16 => Kind::Bytes,
            17 => Kind::Display,
            18 => Kind::Debug,
            19 => Kind::Pointer,
            20 => Kind::None,
            21 => Kind::Scope,
            22 => Kind::Message,
            _ => {
                return Err(WireError::Unknown {
                    what: "field kind",
                    found: code as u64,
                });
            }
        })
    }

    /// The code on the wire.
    #[inline]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// A field's kind together with whether it may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldKind {
    /// The kind of the value.
    pub kind: Kind,
    /// Set if a presence byte comes first.
    pub optional: bool,
}

impl FieldKind {
    /// A kind that is always present.
    pub const fn plain(kind: Kind) -> Self {
        Self {
            kind,
            optional: false,
        }
    }

    /// The code on the wire.
    #[inline]
    pub const fn code(self) -> u8 {
        self.kind as u8 | if self.optional { Kind::OPTIONAL } else { 0 }
    }

    /// Reads a code.
    ///
    /// # Errors
    /// When there is no such kind, or it has no optional: nothing, a scope and a message are never absent.
    pub const fn from_code(code: u8) -> Result<Self, WireError> {
        let optional = code & Kind::OPTIONAL != 0;
        match Kind::from_code(code & !Kind::OPTIONAL) {
            Ok(Kind::None | Kind::Scope | Kind::Message) if optional => Err(WireError::Unknown {
                what: "field kind",
                found: code as u64,
            }),
            Ok(kind) => Ok(Self { kind, optional }),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_others_are_refused() {
        for code in 0..=255u8 {
            match FieldKind::from_code(code) {
                Ok(kind) => assert_eq!(kind.code(), code),
                Err(error) => {
                    assert!(!matches!(code, 1..=22 | 0x81..=0x93), "{error}");
                }
            }
        }
    }
}
