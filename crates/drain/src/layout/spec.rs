//! Values with a format spec, exactly as `std::fmt` shows them.
//!
//! The rules are those of `std`: numbers are padded with their sign and prefix in mind, text by `Formatter::pad`, the
//! `Debug` of text is not padded, and `Debug` passes the spec through `Some(...)` and lists. A spec that `std` would
//! not compile for the type (hexadecimal text, from C++ or a hostile session) falls back to the plain form.

use core::fmt::Write;

use logdrive_wire::kind::FieldKind;
use logdrive_wire::template::{Align, Form};
use logdrive_wire::{Kind, Spec, Value};

use super::limits::VALUE_TEXT_BYTES_MAX;
use super::number::non_finite;

/// A spec whose width and precision are numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resolved<'a> {
    pub(super) spec: &'a Spec,
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
}

impl Resolved<'_> {
    fn is_debug(&self) -> bool {
        matches!(
            self.spec.form,
            Form::Debug | Form::DebugLowerHex | Form::DebugUpperHex
        )
    }
}

/// Bytes as the target of `write!`, which cannot fail there.
struct Text<'a>(&'a mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

macro_rules! append {
    ($text:expr, $($args:tt)*) => {{
        // Writing to a vector does not fail, and numbers' own formatting does not either.
        let _ = write!(Text($text), $($args)*);
    }};
}

/// Appends the value as the spec shows it; nothing is escaped.
pub(super) fn render(text: &mut Vec<u8>, field: FieldKind, value: &Value<'_>, spec: Resolved<'_>) {
    if !spec.is_debug() || !field.optional {
        if *value == Value::None && !spec.is_debug() {
            return pad_text(text, b"None", spec);
        }
        return render_plain(text, field.kind, value, spec);
    }
    if *value == Value::None {
        return text.extend_from_slice(b"None");
    }
    let start = text.len();
    text.extend_from_slice(if spec.spec.alternate { b"Some(\n" } else { b"Some(" });
    let inner = text.len();
    render_plain(text, field.kind, value, spec);
    if spec.spec.alternate {
        text.extend_from_slice(b",\n");
        indent(text, inner);
    }
    debug_assert!(start < inner);
    text.push(b')');
}

/// Indents every line from `start` on by four spaces, as `{:#?}` does.
fn indent(text: &mut Vec<u8>, start: usize) {
    let lines = text.split_off(start);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        text.extend_from_slice(b"    ");
        text.extend_from_slice(line);
    }
}

fn render_plain(text: &mut Vec<u8>, kind: Kind, value: &Value<'_>, spec: Resolved<'_>) {
    match *value {
        Value::U64(value) => render_int(text, false, u128::from(value), bits_of(kind), spec),
        Value::I64(value) => render_int(
            text,
            value < 0,
            u128::from(value.unsigned_abs()),
            bits_of(kind),
            spec,
        ),
        Value::U128(value) => render_int(text, false, value, 128, spec),
        Value::I128(value) => render_int(text, value < 0, value.unsigned_abs(), 128, spec),
        Value::F32(value) => render_f32(text, value, spec),
        Value::F64(value) => render_f64(text, value, spec),
        Value::Bool(value) => pad_text(text, if value { b"true" } else { b"false" }, spec),
        Value::Char(value) if spec.is_debug() => append!(text, "{value:?}"),
        Value::Char(value) => pad_text(text, value.encode_utf8(&mut [0; 4]).as_bytes(), spec),
        Value::Str(value) if spec.is_debug() => debug_str(text, value),
        Value::Str(value) => pad_text(text, value, spec),
        // The value's own code has applied the spec already, at the call.
        Value::Display(value) | Value::Debug(value) | Value::Message(value) => text.extend_from_slice(value),
        Value::Bytes(value) => render_bytes(text, value, spec),
        Value::Scope(scope) => render_bytes(text, scope.bytes(), spec),
        Value::Pointer(address) => render_pointer(text, address, spec),
        Value::None => text.extend_from_slice(b"None"),
    }
}

/// Width of the type, for the two's complement of `{:x}`.
fn bits_of(kind: Kind) -> u32 {
    match kind {
        Kind::I8 | Kind::U8 => 8,
        Kind::I16 | Kind::U16 => 16,
        Kind::I32 | Kind::U32 => 32,
        Kind::I128 | Kind::U128 => 128,
        _ => 64,
    }
}

fn render_int(text: &mut Vec<u8>, negative: bool, magnitude: u128, bits: u32, spec: Resolved<'_>) {
    let start = text.len();
    // Radixes other than ten show the bits, and so never a minus sign.
    let pattern = || match negative {
        true => magnitude.wrapping_neg() & (u128::MAX >> (128 - bits)),
        false => magnitude & (u128::MAX >> (128 - bits)),
    };
    let prefix: &[u8] = match spec.spec.form {
        Form::LowerHex | Form::DebugLowerHex | Form::UpperHex | Form::DebugUpperHex => b"0x",
        Form::Octal => b"0o",
        Form::Binary => b"0b",
        _ => b"",
    };
    let is_decimal = prefix.is_empty();
    sign(text, is_decimal && negative, spec);
    if spec.spec.alternate {
        text.extend_from_slice(prefix);
    }
    let digits = text.len();
    match (spec.spec.form, spec.precision) {
        (Form::LowerHex | Form::DebugLowerHex, _) => append!(text, "{:x}", pattern()),
        (Form::UpperHex | Form::DebugUpperHex, _) => append!(text, "{:X}", pattern()),
        (Form::Octal, _) => append!(text, "{:o}", pattern()),
        (Form::Binary, _) => append!(text, "{:b}", pattern()),
        (Form::LowerExp, None) => append!(text, "{magnitude:e}"),
        (Form::LowerExp, Some(precision)) => append!(text, "{magnitude:.precision$e}"),
        (Form::UpperExp, None) => append!(text, "{magnitude:E}"),
        (Form::UpperExp, Some(precision)) => append!(text, "{magnitude:.precision$E}"),
        _ => text.extend_from_slice(itoa::Buffer::new().format(magnitude).as_bytes()),
    }
    pad_number(text, start, digits, spec);
}

fn sign(text: &mut Vec<u8>, negative: bool, spec: Resolved<'_>) {
    if negative {
        text.push(b'-');
    } else if spec.spec.plus {
        text.push(b'+');
    }
}

macro_rules! render_float {
    ($(#[$doc:meta])* $name:ident, $type:ty) => {
        $(#[$doc])*
        fn $name(text: &mut Vec<u8>, value: $type, spec: Resolved<'_>) {
            let start = text.len();
            if value.is_nan() && spec.spec.form == Form::General {
                text.extend_from_slice(if value.is_sign_negative() { b"-nan" } else { b"nan" });
                return pad_number(text, start, start, spec);
            }
            if value.is_nan() {
                // NaN has no sign.
                text.extend_from_slice(non_finite(f64::NAN).as_bytes());
                return pad_number(text, start, start, spec);
            }
            sign(text, value.is_sign_negative(), spec);
            let digits = text.len();
            let value = value.abs();
            match (spec.spec.form, spec.precision) {
                (Form::LowerExp, None) => append!(text, "{value:e}"),
                (Form::LowerExp, Some(precision)) => append!(text, "{value:.precision$e}"),
                (Form::UpperExp, None) => append!(text, "{value:E}"),
                (Form::UpperExp, Some(precision)) => append!(text, "{value:.precision$E}"),
                (Form::Fixed, None) => append!(text, "{value:.6}"),
                (Form::General, precision) => general(text, f64::from(value), precision.unwrap_or(6)),
                (_, Some(precision)) => append!(text, "{value:.precision$}"),
                (_, None) if spec.is_debug() => append!(text, "{value:?}"),
                (_, None) => append!(text, "{value}"),
            }
            pad_number(text, start, digits, spec);
        }
    };
}

render_float!(
    /// Also without a precision a single is not a double: its shortest digits are fewer.
    render_f32, f32
);
render_float!(render_f64, f64);

/// Returns the text of a float with the spec `{:g}`.
pub(super) fn general_text(value: f64) -> Vec<u8> {
    let spec = Spec {
        form: Form::General,
        ..Spec::default()
    };
    let resolved = Resolved {
        spec: &spec,
        width: None,
        precision: None,
    };
    let mut text = Vec::new();
    render_f64(&mut text, value, resolved);
    text
}

/// `%g` of C: at most `digits` digits that count, with an exponent where that is below -4 or has no room among them.
fn general(text: &mut Vec<u8>, value: f64, digits: usize) {
    if value.is_infinite() {
        append!(text, "{}", non_finite(value));
        return;
    }
    let digits = digits.clamp(1, VALUE_TEXT_BYTES_MAX);
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        append!(
            text,
            "{}e{sign}{:02}",
            without_zeros(mantissa),
            exponent.unsigned_abs()
        );
        return;
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    let fixed = format!("{value:.decimals$}");
    append!(text, "{}", without_zeros(&fixed));
}

/// A decimal number without zeros behind its last digit that counts.
fn without_zeros(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

/// `{:p}`: hexadecimal with prefix; `#` asks for all digits.
fn render_pointer(text: &mut Vec<u8>, address: u64, spec: Resolved<'_>) {
    let hex = match spec.spec.form {
        Form::LowerHex | Form::UpperHex | Form::Octal | Form::Binary => {
            return render_int(text, false, u128::from(address), 64, spec);
        }
        _ => Spec {
            form: Form::LowerHex,
            zero: spec.spec.zero || spec.spec.alternate,
            alternate: true,
            ..*spec.spec
        },
    };
    let width = if spec.spec.alternate {
        spec.width.or(Some(18))
    } else {
        spec.width
    };
    let hex = Resolved {
        spec: &hex,
        width,
        precision: spec.precision,
    };
    render_int(text, false, u128::from(address), 64, hex);
}

/// The `Debug` of text; bytes that are not UTF-8 as `\xNN`.
fn debug_str(text: &mut Vec<u8>, value: &[u8]) {
    match core::str::from_utf8(value) {
        Ok(value) => append!(text, "{value:?}"),
        Err(_) => {
            text.push(b'"');
            for chunk in value.utf8_chunks() {
                append!(text, "{}", chunk.valid().escape_debug());
                for byte in chunk.invalid() {
                    append!(text, "\\x{byte:02x}");
                }
            }
            text.push(b'"');
        }
    }
}

/// Bytes: `{}` as text, `{:?}` as a list, `{:x}` as digits without anything between.
fn render_bytes(text: &mut Vec<u8>, value: &[u8], spec: Resolved<'_>) {
    let upper = spec.spec.form == Form::UpperHex;
    if upper || spec.spec.form == Form::LowerHex {
        for byte in value {
            match upper {
                true => append!(text, "{byte:02X}"),
                false => append!(text, "{byte:02x}"),
            }
        }
        return;
    }
    if !spec.is_debug() {
        return pad_text(text, value, spec);
    }
    let pretty = spec.spec.alternate;
    let start = text.len();
    text.push(b'[');
    if pretty && !value.is_empty() {
        text.push(b'\n');
    }
    for (index, byte) in value.iter().enumerate() {
        if text.len() - start > VALUE_TEXT_BYTES_MAX {
            text.extend_from_slice(b"...");
            break;
        }
        if pretty {
            text.extend_from_slice(b"    ");
        } else if index > 0 {
            text.extend_from_slice(b", ");
        }
        render_int(text, false, u128::from(*byte), 8, spec);
        if pretty {
            text.extend_from_slice(b",\n");
        }
    }
    text.push(b']');
}

/// Pads the number from `start` on; its digits begin at `digits`, behind sign and prefix.
fn pad_number(text: &mut Vec<u8>, start: usize, digits: usize, spec: Resolved<'_>) {
    let missing = spec.width.unwrap_or(0).saturating_sub(text.len() - start);
    if missing == 0 {
        return;
    }
    if spec.spec.zero {
        text.splice(digits..digits, core::iter::repeat_n(b'0', missing));
        return;
    }
    surround(text, start, missing, Align::Right, spec);
}

/// Appends text as `Formatter::pad` does: at most `precision` characters, at least `width`.
fn pad_text(text: &mut Vec<u8>, value: &[u8], spec: Resolved<'_>) {
    let start = text.len();
    let value = match spec.precision {
        Some(most) => front(value, most),
        None => value,
    };
    text.extend_from_slice(value);
    if let Some(width) = spec.width {
        let missing = width.saturating_sub(count_chars(value));
        surround(text, start, missing, Align::Left, spec);
    }
}

fn surround(text: &mut Vec<u8>, start: usize, missing: usize, default: Align, spec: Resolved<'_>) {
    let before = padding_before(spec.spec.align.unwrap_or(default), missing);
    let fill = |count: usize| spec.spec.fill.unwrap_or(' ').to_string().repeat(count);
    text.splice(start..start, fill(before).into_bytes());
    text.extend_from_slice(fill(missing - before).as_bytes());
}

/// Returns how many of the missing characters stand in front.
pub(super) fn padding_before(align: Align, missing: usize) -> usize {
    match align {
        Align::Left => 0,
        Align::Center => missing / 2,
        Align::Right => missing,
    }
}

/// Characters, where a byte that is not UTF-8 counts as one if it could begin a character.
pub(super) fn count_chars(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Returns the first `most` characters.
pub(super) fn front(text: &[u8], most: usize) -> &[u8] {
    let starts = text.iter().enumerate().filter(|(_, byte)| **byte & 0xc0 != 0x80);
    match starts.map(|(offset, _)| offset).nth(most) {
        Some(end) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: Kind, optional: bool, value: Value<'_>, spec: &str) -> String {
        let template = logdrive_wire::Template::parse(&format!("{{0:{spec}}}"), |_| None).unwrap();
        let logdrive_wire::Piece::Field { spec, .. } = &template.pieces[0] else {
            panic!("{template:?}")
        };
        let count = |count| match count {
            Some(logdrive_wire::template::Count::Fixed(number)) => Some(number),
            _ => None,
        };
        let resolved = Resolved {
            spec,
            width: count(spec.width),
            precision: count(spec.precision),
        };
        let mut text = Vec::new();
        render(&mut text, FieldKind { kind, optional }, &value, resolved);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn pretty_debug_and_pointers_equal_std() {
        let bytes: &[u8] = &[1, 200];
        assert_eq!(
            text(Kind::Bytes, true, Value::Bytes(bytes), "#?"),
            format!("{:#?}", Some(bytes))
        );
        assert_eq!(
            text(Kind::Bytes, false, Value::Bytes(&[]), "#?"),
            format!("{:#?}", [0u8; 0])
        );
        assert_eq!(
            text(Kind::Bytes, false, Value::Bytes(bytes), "#04x?"),
            format!("{bytes:#04x?}")
        );
        assert_eq!(
            text(Kind::Str, true, Value::Str(b"a\nb"), "#?"),
            format!("{:#?}", Some("a\nb"))
        );
        let pointer = core::ptr::without_provenance::<u8>(0xbeef);
        assert_eq!(
            text(Kind::Pointer, false, Value::Pointer(0xbeef), "p"),
            format!("{pointer:p}")
        );
        assert_eq!(
            text(Kind::Pointer, false, Value::Pointer(0xbeef), "#p"),
            format!("{pointer:#p}")
        );
        assert_eq!(
            text(Kind::Pointer, false, Value::Pointer(0xbeef), "*^12?"),
            format!("{pointer:*^12?}")
        );
        assert_eq!(
            text(Kind::Pointer, false, Value::Pointer(0xbeef), "024p"),
            format!("{pointer:024p}")
        );
    }

    #[test]
    fn the_general_form_is_that_of_c() {
        let general = |value: f64, spec: &str| text(Kind::F64, false, Value::F64(value), spec);
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.234_567_89, "1.23457"),
            (100_000.0, "100000"),
            (999_999.5, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.0001, "0.0001"),
            (0.000_012_34, "1.234e-05"),
            (-2.5e-300, "-2.5e-300"),
            (1e100, "1e+100"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
        ] {
            assert_eq!(general(value, "g"), expected);
        }
        assert_eq!(general(2.0 / 3.0, ".3g"), "0.667");
        assert_eq!(general(123.0, ".0g"), "1e+02");
        assert_eq!(text(Kind::F32, false, Value::F32(0.1), "g"), "0.1");
        assert_eq!(text(Kind::I32, false, Value::I64(-7), "g"), "-7");
    }

    #[test]
    fn specs_that_std_refuses_have_a_plain_form() {
        assert_eq!(text(Kind::Str, false, Value::Str(b"ab"), ">4x"), "  ab");
        assert_eq!(text(Kind::Bytes, false, Value::Bytes(b"ab"), "X"), "6162");
        assert_eq!(text(Kind::Str, false, Value::Str(b"a\xffb"), "?"), r#""a\xffb""#);
        assert_eq!(text(Kind::F64, false, Value::F64(1.5), "f"), "1.500000");
        assert_eq!(text(Kind::U8, true, Value::None, ">6"), "  None");
    }
}
