//! A record's message and key-values as the bytes of a dynamic record.

use super::site::Site;
use crate::dynamic::{Encoder, Key};
use log::Record;
use log::kv::{self, Value, VisitSource, VisitValue};
use logdrive_wire::Kind;

/// Encodes message and key-values of a record.
#[inline]
pub(super) fn encode(record: &Record<'_>, site: &Site, out: &mut Encoder<'_>) {
    let arguments = record.args();
    match (arguments.as_str(), site.message()) {
        (Some(text), Some(constant)) if std::ptr::eq(text, constant) => {}
        (_, constant) => out.message(constant, |out| out.write_fmt(*arguments)),
    }
    if site.is_shared() {
        encode_place(record, out);
    }
    // Errors are those of our own visitor, which has none.
    let _ = record.key_values().visit(&mut Pairs { out });
}

#[cold]
fn encode_place(record: &Record<'_>, out: &mut Encoder<'_>) {
    out.text(Kind::Str, Key::Inline("log.target"), record.target());
    if let Some(file) = record.file() {
        out.text(Kind::Str, Key::Inline("log.file"), file);
    }
    if let Some(line) = record.line() {
        out.number(Kind::U32, Key::Inline("log.line"), line.to_le_bytes());
    }
}

/// Visitor of all key-values.
struct Pairs<'e, 'a> {
    out: &'e mut Encoder<'a>,
}

impl<'kvs> VisitSource<'kvs> for Pairs<'_, '_> {
    fn visit_pair(&mut self, key: kv::Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
        value.visit(&mut One {
            key: &key,
            out: self.out,
        })
    }
}

/// Takes one value. The key stays behind its reference: moved about, it would have to wait for the stores of `log`.
struct One<'e, 'a, 'k> {
    key: &'k kv::Key<'k>,
    out: &'e mut Encoder<'a>,
}

impl One<'_, '_, '_> {
    #[inline]
    fn number<const N: usize>(&mut self, kind: Kind, value: [u8; N]) {
        self.out.number(kind, Key::Inline(self.key.as_str()), value);
    }

    #[inline]
    fn text(&mut self, text: &str) {
        self.out.text(Kind::Str, Key::Inline(self.key.as_str()), text);
    }
}

macro_rules! typed {
    ($($method:ident($type:ty) $kind:ident;)+) => {$(
        fn $method(&mut self, value: $type) -> Result<(), kv::Error> {
            self.number(Kind::$kind, value.to_le_bytes());
            Ok(())
        }
    )+};
}

impl<'v> VisitValue<'v> for One<'_, '_, '_> {
    typed! {
        visit_u64(u64) U64;
        visit_i64(i64) I64;
        visit_u128(u128) U128;
        visit_i128(i128) I128;
        visit_f64(f64) F64;
    }

    fn visit_any(&mut self, value: Value<'_>) -> Result<(), kv::Error> {
        self.out.rendered(
            Kind::Display,
            Key::Inline(self.key.as_str()),
            format_args!("{value}"),
        );
        Ok(())
    }

    fn visit_null(&mut self) -> Result<(), kv::Error> {
        self.number(Kind::None, []);
        Ok(())
    }

    fn visit_bool(&mut self, value: bool) -> Result<(), kv::Error> {
        self.number(Kind::Bool, [u8::from(value)]);
        Ok(())
    }

    fn visit_str(&mut self, value: &str) -> Result<(), kv::Error> {
        self.text(value);
        Ok(())
    }

    fn visit_char(&mut self, value: char) -> Result<(), kv::Error> {
        self.number(Kind::Char, u32::from(value).to_le_bytes());
        Ok(())
    }
}
