//! The callsite: the static description of one log statement, and its bytes in the session's table.

use crate::kind::FieldKind;
use crate::limits::{CALLSITE_BYTES_MAX, FIELDS_MAX, NAME_BYTES_MAX, TEMPLATE_BYTES_MAX};
use crate::{Cursor, Level, WireError};

/// One field of a callsite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The key; empty for a positional argument.
    pub name: String,
    /// Kind of its values. Ignored where the callsite is dynamic.
    pub kind: FieldKind,
    /// Set if the template shows it, so that text does not repeat it as `key=value`.
    pub argument: bool,
}

/// The static description of one log statement.
///
/// ```
/// use logdrive_wire::{Callsite, Level};
/// let site = Callsite { level: Level::Info, line: 42, file: "src/main.rs".into(), message: "started".into(),
///     ..Callsite::default() };
/// let bytes = site.encode().unwrap();
/// assert_eq!(Callsite::decode(&bytes).unwrap(), site);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callsite {
    /// Its level.
    pub level: Level,
    /// Set if each value carries its own tag, see `spec/record.md`.
    pub dynamic: bool,
    /// Line in the source file, from 1; 0 when unknown.
    pub line: u32,
    /// Source file.
    pub file: String,
    /// Module path.
    pub module: String,
    /// Name that filters match; empty means the module.
    pub target: String,
    /// The message, with placeholders.
    pub message: String,
    /// The fields, in the order of the record's values.
    pub fields: Vec<Field>,
}

impl Default for Callsite {
    fn default() -> Self {
        Self {
            level: Level::Info,
            dynamic: false,
            line: 0,
            file: String::new(),
            module: String::new(),
            target: String::new(),
            message: String::new(),
            fields: Vec::new(),
        }
    }
}

const FLAG_DYNAMIC: u8 = 1;
const FIELD_ARGUMENT: u8 = 1;

impl Callsite {
    /// The target, or the module where no target was given.
    pub fn target_or_module(&self) -> &str {
        if self.target.is_empty() {
            &self.module
        } else {
            &self.target
        }
    }

    /// The bytes for the session's table, without the table's own length word.
    ///
    /// # Errors
    /// When a name, the message, or the whole is longer than its limit.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        limit("field count", self.fields.len(), FIELDS_MAX)?;
        let mut bytes = Vec::with_capacity(64 + self.message.len());
        bytes.push(self.level.code());
        bytes.push(if self.dynamic { FLAG_DYNAMIC } else { 0 });
        bytes.extend_from_slice(&(self.fields.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.line.to_le_bytes());
        push_str(&mut bytes, "file", &self.file, NAME_BYTES_MAX)?;
        push_str(&mut bytes, "module", &self.module, NAME_BYTES_MAX)?;
        push_str(&mut bytes, "target", &self.target, NAME_BYTES_MAX)?;
        push_str(&mut bytes, "message", &self.message, TEMPLATE_BYTES_MAX)?;
        for field in &self.fields {
            bytes.push(field.kind.code());
            bytes.push(if field.argument { FIELD_ARGUMENT } else { 0 });
            push_str(&mut bytes, "field name", &field.name, NAME_BYTES_MAX)?;
        }
        limit("callsite length", bytes.len(), CALLSITE_BYTES_MAX)?;
        Ok(bytes)
    }

    /// Reads a callsite. Bytes behind its end are an error: the table stores exact lengths.
    ///
    /// # Errors
    /// When the bytes end early, are too many, or hold a code or length outside of the format.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        limit("callsite length", bytes.len(), CALLSITE_BYTES_MAX)?;
        let mut cursor = Cursor::new(bytes);
        let level_code = cursor.u8()?;
        let level = Level::from_code(level_code).ok_or(WireError::Unknown {
            what: "level",
            found: u64::from(level_code),
        })?;
        let flags = cursor.u8()?;
        if flags & !FLAG_DYNAMIC != 0 {
            return Err(WireError::Unknown {
                what: "callsite flags",
                found: u64::from(flags),
            });
        }
        let count = usize::from(cursor.u16()?);
        limit("field count", count, FIELDS_MAX)?;
        let line = cursor.u32()?;
        let file = read_str(&mut cursor, "file", NAME_BYTES_MAX)?;
        let module = read_str(&mut cursor, "module", NAME_BYTES_MAX)?;
        let target = read_str(&mut cursor, "target", NAME_BYTES_MAX)?;
        let message = read_str(&mut cursor, "message", TEMPLATE_BYTES_MAX)?;
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            fields.push(read_field(&mut cursor)?);
        }
        if cursor.left() != 0 {
            return Err(WireError::Limit {
                what: "bytes behind the callsite",
                found: cursor.left() as u64,
                limit: 0,
            });
        }
        Ok(Self {
            level,
            dynamic: flags & FLAG_DYNAMIC != 0,
            line,
            file,
            module,
            target,
            message,
            fields,
        })
    }
}

fn read_field(cursor: &mut Cursor<'_>) -> Result<Field, WireError> {
    let kind = FieldKind::from_code(cursor.u8()?)?;
    let flags = cursor.u8()?;
    if flags & !FIELD_ARGUMENT != 0 {
        return Err(WireError::Unknown {
            what: "field flags",
            found: u64::from(flags),
        });
    }
    let name = read_str(cursor, "field name", NAME_BYTES_MAX)?;
    Ok(Field {
        name,
        kind,
        argument: flags & FIELD_ARGUMENT != 0,
    })
}

fn push_str(bytes: &mut Vec<u8>, what: &'static str, text: &str, max: usize) -> Result<(), WireError> {
    limit(what, text.len(), max)?;
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    Ok(())
}

fn read_str(cursor: &mut Cursor<'_>, what: &'static str, max: usize) -> Result<String, WireError> {
    let text = cursor.short_str(what)?;
    limit(what, text.len(), max)?;
    Ok(text.to_owned())
}

fn limit(what: &'static str, found: usize, max: usize) -> Result<(), WireError> {
    if found > max {
        return Err(WireError::Limit {
            what,
            found: found as u64,
            limit: max as u64,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn example() -> Callsite {
        Callsite {
            level: Level::Warn,
            dynamic: false,
            line: 7,
            file: "src/a.rs".into(),
            module: "a::b".into(),
            target: "net".into(),
            message: "order {0} at {1:.2}".into(),
            fields: vec![
                Field {
                    name: "id".into(),
                    kind: FieldKind::plain(Kind::U64),
                    argument: true,
                },
                Field {
                    name: String::new(),
                    kind: FieldKind {
                        kind: Kind::F64,
                        optional: true,
                    },
                    argument: false,
                },
            ],
        }
    }

    #[test]
    fn a_callsite_reads_back_as_it_was_written() {
        let site = example();
        assert_eq!(Callsite::decode(&site.encode().unwrap()).unwrap(), site);
    }

    #[test]
    fn every_cut_of_a_callsite_is_an_error() {
        let bytes = example().encode().unwrap();
        for length in 0..bytes.len() {
            assert!(Callsite::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Callsite::decode(&longer).is_err());
    }

    #[test]
    fn names_over_the_limit_are_refused_when_written() {
        let site = Callsite {
            file: "x".repeat(NAME_BYTES_MAX + 1),
            ..Callsite::default()
        };
        assert!(matches!(
            site.encode(),
            Err(WireError::Limit { what: "file", .. })
        ));
    }
}
