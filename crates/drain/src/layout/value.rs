//! One value as text in its plain form: as `{}` in a message, after `key=`, or as JSON.

use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Kind, Value};

use super::escape::{Bare, Escape, escaped, put_bare, put_escaped};
use super::json_text::{is_json, put_json};
use super::number::{Shortest, non_finite, put_f32, put_f64, put_i64, put_u64, put_wide_int};
use super::payload::{Malformed, Progress, cursor_at, take, take_blob, take_i32, take_unsigned};
use super::write::{put, put_byte};

/// Form of a value by the place where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// In the message, as `{}` shows it; an absent one is `None`.
    Argument(Escape),
    /// After `key=`: floats as `{:?}`, so that they look like floats; text between quotes where it needs them.
    Bare(Bare),
    /// In JSON: numbers up to 64 bits are numbers, absent is null, all else is a string.
    Json,
    /// The same for text that may be JSON itself, which then stands as it is.
    JsonText,
}

/// Reads a value that is there, and writes it. Returns the offset in the payload behind it as well.
///
/// The frequent kinds go from bytes to text without a [`Value`] in between, which costs more than most numbers.
#[inline]
pub(super) fn put_payload(
    bytes: &mut [u8],
    progress: Progress,
    kind: Kind,
    payload: &[u8],
    form: Form,
) -> Result<Progress, Malformed> {
    let Progress { at, mut offset } = progress;
    let at = match kind {
        Kind::U64 => put_u64(bytes, at, take_unsigned::<8>(payload, &mut offset)?),
        Kind::U32 => put_u64(bytes, at, take_unsigned::<4>(payload, &mut offset)?),
        Kind::U16 => put_u64(bytes, at, take_unsigned::<2>(payload, &mut offset)?),
        Kind::U8 => put_u64(bytes, at, take_unsigned::<1>(payload, &mut offset)?),
        Kind::I64 => put_i64(bytes, at, i64::from_le_bytes(take(payload, &mut offset)?)),
        Kind::I32 => put_i64(bytes, at, take_i32(payload, &mut offset)?),
        Kind::Str | Kind::Display | Kind::Debug | Kind::Message => {
            put_text(bytes, at, take_blob(payload, &mut offset)?, form)
        }
        Kind::F64 => put_plain_f64(bytes, at, f64::from_le_bytes(take(payload, &mut offset)?), form),
        _ => {
            let mut cursor = cursor_at(payload, offset)?;
            let (value, _) = Value::read(FieldKind::plain(kind), &mut cursor)?;
            offset += cursor.offset();
            put_value(bytes, at, &value, form)
        }
    };
    Ok(Progress { at, offset })
}

/// Writes a double in this form.
#[inline(never)]
pub(super) fn put_plain_f64(bytes: &mut [u8], at: usize, value: f64, form: Form) -> usize {
    match value.is_finite() {
        true => put_f64(bytes, at, value, shortest(form)),
        false => put_value(bytes, at, &Value::F64(value), form),
    }
}

/// Writes a value in this form.
pub(super) fn put_value(bytes: &mut [u8], at: usize, value: &Value<'_>, form: Form) -> usize {
    let json = matches!(form, Form::Json | Form::JsonText);
    match *value {
        Value::U64(value) => put_u64(bytes, at, value),
        Value::I64(value) => put_i64(bytes, at, value),
        Value::Str(text) | Value::Display(text) | Value::Debug(text) | Value::Message(text) => {
            put_text(bytes, at, text, form)
        }
        Value::Bool(value) => put(bytes, at, if value { b"true" } else { b"false" }),
        Value::F64(value) if !value.is_finite() => put_ascii(bytes, at, non_finite(value), json),
        Value::F64(value) => put_f64(bytes, at, value, shortest(form)),
        Value::F32(value) if !value.is_finite() => put_ascii(bytes, at, non_finite(f64::from(value)), json),
        Value::F32(value) => put_f32(bytes, at, value, shortest(form)),
        Value::Char(value) => put_text(bytes, at, value.encode_utf8(&mut [0; 4]).as_bytes(), form),
        Value::I128(value) => put_between_quotes(bytes, at, json, |bytes, at| put_wide_int(bytes, at, value)),
        Value::U128(value) => put_between_quotes(bytes, at, json, |bytes, at| put_wide_int(bytes, at, value)),
        Value::Pointer(address) => put_ascii(bytes, at, &format!("{address:#x}"), json),
        Value::Bytes(text) => put_bytes(bytes, at, text, form),
        // Only hostile static records have one.
        Value::Scope(scope) => put_bytes(bytes, at, scope.bytes(), form),
        Value::None if json => put(bytes, at, b"null"),
        Value::None => put(bytes, at, b"None"),
    }
}

#[inline]
fn shortest(form: Form) -> Shortest {
    match form {
        Form::Argument(_) => Shortest::Display,
        Form::Bare(_) | Form::Json | Form::JsonText => Shortest::Debug,
    }
}

#[inline]
pub(super) fn put_text(bytes: &mut [u8], at: usize, text: &[u8], form: Form) -> usize {
    match form {
        Form::Argument(escape) => put_escaped(bytes, at, text, escape),
        Form::Bare(bare) => put_bare(bytes, at, text, bare),
        Form::JsonText if is_json(text) => put_json(bytes, at, text),
        Form::Json | Form::JsonText => put_between_quotes(bytes, at, true, |bytes, at| {
            put_escaped(bytes, at, text, Escape::Json)
        }),
    }
}

/// Opaque bytes are text with the escapes of text, in every form, so that they can be had back. In JSON and logfmt
/// the string that holds them is then written like any other.
fn put_bytes(bytes: &mut [u8], at: usize, text: &[u8], form: Form) -> usize {
    match form {
        Form::Argument(Escape::Text | Escape::Raw) | Form::Bare(Bare::Text) => {
            put_text(bytes, at, text, form)
        }
        _ => put_text(bytes, at, &escaped(text, Escape::Text), form),
    }
}

fn put_ascii(bytes: &mut [u8], at: usize, text: &str, quoted: bool) -> usize {
    put_between_quotes(bytes, at, quoted, |bytes, at| put(bytes, at, text.as_bytes()))
}

#[inline]
fn put_between_quotes(
    bytes: &mut [u8],
    at: usize,
    quoted: bool,
    write: impl FnOnce(&mut [u8], usize) -> usize,
) -> usize {
    if !quoted {
        return write(bytes, at);
    }
    let at = put_byte(bytes, at, b'"');
    let at = write(bytes, at);
    put_byte(bytes, at, b'"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value<'_>, form: Form) -> String {
        let mut bytes = [0; 256];
        let length = put_value(&mut bytes, 0, &value, form);
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn each_form_has_its_own_text() {
        let (message, bare, logfmt) = (
            Form::Argument(Escape::Text),
            Form::Bare(Bare::Text),
            Form::Bare(Bare::Logfmt),
        );
        for (value, expected) in [
            (Value::F64(1.0), ["1", "1.0", "1.0", "1.0"]),
            (Value::F32(f32::NAN), ["NaN", "NaN", "NaN", "\"NaN\""]),
            (Value::U128(7), ["7", "7", "7", "\"7\""]),
            (Value::None, ["None", "None", "None", "null"]),
            (Value::Pointer(255), ["0xff", "0xff", "0xff", "\"0xff\""]),
            (Value::Char('='), ["=", "\"=\"", "\"=\"", "\"=\""]),
            (
                Value::Str(b"a b\\"),
                ["a b\\\\", "\"a b\\\\\"", "\"a b\\\\\"", "\"a b\\\\\""],
            ),
            (
                Value::Str(b"\xff"),
                ["\\xff", "\\xff", "\"\u{fffd}\"", "\"\u{fffd}\""],
            ),
            (Value::Bytes(b"\xff"), ["\\xff", "\\xff", "\\xff", "\"\\\\xff\""]),
            (Value::Bool(true), ["true"; 4]),
        ] {
            let found = [message, bare, logfmt, Form::Json].map(|form| text(value, form));
            assert_eq!(found, expected, "{value:?}");
        }
    }
}
