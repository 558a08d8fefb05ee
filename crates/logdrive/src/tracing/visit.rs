//! Visitors that take the values of events and spans.

use super::site::Site;
use crate::dynamic::{Encoder, Key, pass_sample};
use crate::statement::Statement;
use logdrive_wire::Kind;
use logdrive_wire::limits::FIELDS_MAX;
use std::error::Error;
use std::fmt::{self, Write};
use tracing_core::field::{Field, Visit};

/// Causes of an error that are shown.
const CAUSES_MAX: usize = 16;

/// Visitor of the values of an event, or of a span.
#[derive(Debug)]
pub(super) struct FieldValues<'a, const IS_SPAN: bool> {
    pub(super) out: Encoder<'a>,
    /// Number of a span's values so far.
    pub(super) count: usize,
    message_index: usize,
    constant: Option<&'a str>,
    has_message: bool,
}

/// Visitor of an event's values.
pub(super) type EventValues<'a> = FieldValues<'a, false>;

/// Visitor of a span's values, whose keys go along.
pub(super) type SpanValues<'a> = FieldValues<'a, true>;

impl<'a> SpanValues<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            out: Encoder::new(bytes),
            count: 0,
            message_index: usize::MAX,
            constant: None,
            has_message: false,
        }
    }
}

impl<'a> EventValues<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a mut [u8], site: &'a Site) -> Self {
        Self {
            out: Encoder::new(bytes),
            count: 0,
            message_index: site.message_index(),
            constant: site.constant(),
            has_message: false,
        }
    }

    /// Returns true if the record passes, whose number bears marks.
    pub(super) fn pass_sample(&mut self, site: &'static Site, marked: u32) -> bool {
        pass_sample(site.control(), marked, &mut self.out)
    }

    /// The bytes, and whether something was cut. Says that there was no message where the table has one.
    #[inline]
    pub(super) fn finish(&mut self) -> (&[u8], bool) {
        if self.constant.is_some() && !self.has_message {
            self.out.message(None, |_| Ok(()));
        }
        self.out.written()
    }
}

impl<const IS_SPAN: bool> FieldValues<'_, IS_SPAN> {
    /// Takes the message, which a field of an event may be. Returns true if it was.
    #[inline]
    fn message(&mut self, field: &Field, write: impl FnOnce(&mut dyn Write) -> fmt::Result) -> bool {
        if IS_SPAN || field.index() != self.message_index {
            return false;
        }
        self.has_message = true;
        self.out.message(self.constant, write);
        true
    }

    #[inline]
    fn key(&mut self, field: &Field) -> Key<'static> {
        self.count += usize::from(IS_SPAN);
        match u8::try_from(field.index()) {
            Ok(index) if !IS_SPAN && usize::from(index) < FIELDS_MAX => Key::Index(index),
            _ => Key::Inline(field.name()),
        }
    }
}

macro_rules! typed {
    ($($method:ident($type:ty) $kind:ident;)+) => {$(
        #[inline]
        fn $method(&mut self, field: &Field, value: $type) {
            let key = self.key(field);
            self.out.number(Kind::$kind, key, value.to_le_bytes());
        }
    )+};
}

impl<const IS_SPAN: bool> Visit for FieldValues<'_, IS_SPAN> {
    typed! {
        record_f64(f64) F64;
        record_i64(i64) I64;
        record_u64(u64) U64;
        record_i128(i128) I128;
        record_u128(u128) U128;
    }

    #[inline]
    fn record_bool(&mut self, field: &Field, value: bool) {
        let key = self.key(field);
        self.out.number(Kind::Bool, key, [u8::from(value)]);
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        let key = self.key(field);
        self.out.bytes(key, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let key = self.key(field);
        let error = WithCauses(value);
        self.out.rendered(Kind::Display, key, format_args!("{error}"));
    }

    #[inline]
    fn record_str(&mut self, field: &Field, value: &str) {
        if !self.message(field, |out| out.write_str(value)) {
            let key = self.key(field);
            self.out.text(Kind::Str, key, value);
        }
    }

    #[inline]
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if !self.message(field, |out| fmt::write(out, format_args!("{value:?}"))) {
            // `%` and `?` come alike: `tracing` wraps the former in a `Debug`.
            let key = self.key(field);
            self.out.rendered(Kind::Debug, key, format_args!("{value:?}"));
        }
    }
}

/// An error, and what caused it.
struct WithCauses<'a>(&'a (dyn Error + 'static));

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let causes = std::iter::successors(self.0.source(), |cause| (*cause).source());
        causes
            .take(CAUSES_MAX)
            .try_for_each(|cause| write!(f, ": {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracing::Subscriber;
    use logdrive_wire::Value;
    use logdrive_wire::value::DynamicFields;
    use std::sync::{Arc, Mutex};
    use tracing_core::Event;
    use tracing_core::Metadata;
    use tracing_core::span::{Attributes, Id, Record};

    /// Logs, then shows the values that the record had.
    #[derive(Clone, Default)]
    struct Peek {
        inner: Subscriber,
        encoded: Arc<Mutex<Vec<Vec<u8>>>>,
    }

    impl tracing_core::Subscriber for Peek {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            self.inner.enabled(metadata)
        }
        fn new_span(&self, attributes: &Attributes<'_>) -> Id {
            self.inner.new_span(attributes)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            self.inner.event(event);
            let mut bytes = [0; 1000];
            let mut values = EventValues::new(&mut bytes, Site::of(event.metadata()));
            event.record(&mut values);
            self.encoded.lock().unwrap().push(values.finish().0.to_vec());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    fn encoded(log: impl FnOnce()) -> Vec<Vec<u8>> {
        let _capture = crate::testing::capture();
        let peek = Peek::default();
        tracing::subscriber::with_default(peek.clone(), log);
        std::mem::take(&mut *peek.encoded.lock().unwrap())
    }

    #[test]
    fn a_constant_message_is_not_in_the_record() {
        let records = encoded(|| {
            for order in 0..2u64 {
                tracing::info!(order, "a constant message that is not copied");
            }
        });
        for (order, record) in records.iter().enumerate() {
            assert_eq!(record.len(), 2 + 8, "kind, index and number");
            let named = DynamicFields::new(record).next_value().unwrap().unwrap();
            assert_eq!((named.index, named.value), (Some(1), Value::U64(order as u64)));
        }
    }

    #[test]
    fn a_message_with_arguments_leads_the_record() {
        let records = encoded(|| {
            for order in 0..2u64 {
                tracing::info!(order, "order {order}");
            }
        });
        for (order, record) in records.iter().enumerate() {
            let named = DynamicFields::new(record).next_value().unwrap().unwrap();
            assert_eq!(named.value, Value::Message(format!("order {order}").as_bytes()));
        }
    }

    #[test]
    fn causes_of_an_error_follow_it() {
        let error = crate::InitError::Filter("a b".parse::<crate::Filter>().unwrap_err());
        assert!(
            WithCauses(&error)
                .to_string()
                .starts_with("cannot read the filter directive")
        );
        let error = std::io::Error::other(std::io::Error::other("cause"));
        assert_eq!(WithCauses(&error).to_string(), "cause");
    }
}
