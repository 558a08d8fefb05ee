//! The subscriber: Logdrive alone, without the registry of `tracing-subscriber`.

use super::context;
use super::site::Site;
use super::spans::{self, SpanKey};
use super::visit::{EventValues, SpanValues};
use crate::dynamic::limits::SPAN_BYTES_MAX;
use crate::dynamic::{commit, with_scratch};
use crate::sampling;
use logdrive_wire::{Cursor, Value, WireError, kind::FieldKind, value::INLINE_KEY};
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Event, Interest, Metadata};

/// A subscriber for `tracing` that writes to the running logger; it may be made before the logger is started.
///
/// All subscribers of a process share its logger, and the spans that a thread is inside of. For what becomes of events
/// and spans see [the module](crate::tracing).
///
/// ```
/// let log = logdrive::testing::capture();
/// tracing::subscriber::with_default(logdrive::tracing::subscriber(), || {
///     tracing::warn!(attempt = 2, "connection lost");
/// });
/// assert!(log.contains("connection lost attempt=2"));
/// ```
pub fn subscriber() -> Subscriber {
    Subscriber { _private: () }
}

/// Subscriber that [`subscriber`] returns.
#[derive(Debug, Clone, Default)]
pub struct Subscriber {
    _private: (),
}

impl tracing_core::Subscriber for Subscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        Site::of(metadata).interest()
    }

    #[inline]
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        super::site::is_enabled(metadata)
    }

    #[inline]
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let metadata = attributes.metadata();
        let parent = match attributes.parent() {
            Some(parent) => Some(SpanKey::of(parent)),
            None if attributes.is_contextual() => None,
            None => Some(SpanKey::NONE),
        };
        let site = Site::of(metadata);
        if !site.is_shown() {
            return context::open(metadata, parent, &[], false).to_id();
        }
        encode_span(attributes, |bytes, is_whole| {
            let may_change = !is_whole || site.may_change();
            context::open(metadata, parent, bytes, may_change).to_id()
        })
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let changed = encode_recorded(values, |recorded| {
            spans::change(SpanKey::of(id), |own| merge(own, recorded))
        });
        if changed {
            spans::raise_epoch();
            if let Some(metadata) = spans::metadata_of(SpanKey::of(id)) {
                Site::of(metadata).note_change();
            }
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    #[inline]
    fn event(&self, event: &Event<'_>) {
        EventRecord::of(event, |record| match event.parent() {
            None if event.is_contextual() => context::with_current_scope(|scope| record.write(scope)),
            None => record.write(&[]),
            Some(parent) => context::with_scope_of(SpanKey::of(parent), |scope| record.write(scope)),
        });
    }

    #[inline]
    fn enter(&self, id: &Id) {
        context::enter(SpanKey::of(id));
    }

    #[inline]
    fn exit(&self, id: &Id) {
        context::exit(SpanKey::of(id));
    }

    #[inline]
    fn clone_span(&self, id: &Id) -> Id {
        spans::share(SpanKey::of(id));
        id.clone()
    }

    #[inline]
    fn try_close(&self, id: Id) -> bool {
        spans::release(SpanKey::of(&id))
    }

    fn current_span(&self) -> Current {
        match context::current() {
            Some((key, metadata)) => Current::new(key.to_id(), metadata),
            None => Current::none(),
        }
    }
}

/// Record of an event that goes on, encoded but for the spans around it.
pub(super) struct EventRecord<'a> {
    site: &'static Site,
    id: u32,
    values: &'a [u8],
    cut: bool,
}

impl EventRecord<'_> {
    /// Gives the record of an event to `take`, if it goes on.
    #[inline(always)]
    pub(super) fn of(event: &Event<'_>, take: impl FnOnce(EventRecord<'_>)) {
        let site = Site::of(event.metadata());
        let Some(id) = site.admit(event) else { return };
        with_scratch(|bytes| {
            let mut values = EventValues::new(bytes, site);
            event.record(&mut values);
            if id >= sampling::MARKS && !values.pass_sample(site, id) {
                return;
            }
            let (values, cut) = values.finish();
            take(EventRecord {
                site,
                id,
                values,
                cut,
            });
        });
    }

    /// Writes the record, with the spans around it, into the thread's ring.
    #[inline(always)]
    pub(super) fn write(&self, scope: &[u8]) {
        commit(self.site, self.id, scope, self.values, self.cut);
    }
}

/// A new span as a scope has it: `u16 name length, name, u16 fields length, fields`. `take` also gets whether all
/// fields have values.
#[inline]
pub(super) fn encode_span<R>(attributes: &Attributes<'_>, take: impl FnOnce(&[u8], bool) -> R) -> R {
    with_scratch(|bytes| {
        let mut values = SpanValues::new(limited(bytes, SPAN_BYTES_MAX));
        let metadata = attributes.metadata();
        let at = values.out.span_name(metadata.name());
        attributes.record(&mut values);
        values.out.end_span(at);
        let is_whole = values.count >= metadata.fields().len();
        take(values.out.written().0, is_whole)
    })
}

/// Fields that a span gets later.
pub(super) fn encode_recorded<R>(recorded: &Record<'_>, take: impl FnOnce(&[u8]) -> R) -> R {
    with_scratch(|bytes| {
        let mut values = SpanValues::new(limited(bytes, SPAN_BYTES_MAX));
        recorded.record(&mut values);
        take(values.out.written().0)
    })
}

fn limited(bytes: &mut [u8], length: usize) -> &mut [u8] {
    let length = length.min(bytes.len());
    bytes.split_at_mut(length).0
}

fn set_fields_length(bytes: &mut [u8], at: usize) {
    let length = (bytes.len() - at - 2) as u16;
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

/// Puts fields that were recorded later into a span's bytes, in place of earlier ones of the same names. `false` if
/// there is nothing to change: the span is not shown, or nothing was recorded.
pub(super) fn merge(span: &mut Vec<u8>, recorded: &[u8]) -> bool {
    let Some(name_bytes) = span
        .first_chunk::<2>()
        .map(|length| usize::from(u16::from_le_bytes(*length)))
    else {
        return false;
    };
    if recorded.is_empty() {
        return false;
    }
    let (at, mut from) = (2 + name_bytes, 2 + name_bytes + 2);
    while let Some((key, length)) = span.get(from..).and_then(first_value) {
        if keys(recorded).any(|recorded| recorded == key) {
            span.drain(from..from + length);
        } else {
            from += length;
        }
    }
    // What does not fit beside the others is left out whole.
    let mut rest = recorded;
    while let Some((_, length)) = first_value(rest) {
        let (value, behind) = rest.split_at(length);
        if span.len() + length <= SPAN_BYTES_MAX {
            span.extend_from_slice(value);
        }
        rest = behind;
    }
    set_fields_length(span, at);
    true
}

fn keys(mut fields: &[u8]) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (key, length) = first_value(fields)?;
        fields = fields.get(length..)?;
        Some(key)
    })
}

/// Key and length of the first of a span's values.
fn first_value(fields: &[u8]) -> Option<(&str, usize)> {
    let read = || -> Result<(&str, usize), WireError> {
        let mut cursor = Cursor::new(fields);
        let kind = FieldKind::from_code(cursor.u8()?)?;
        let key = if cursor.u8()? == INLINE_KEY {
            cursor.short_str("field name")?
        } else {
            ""
        };
        Value::read(kind, &mut cursor)?;
        Ok((key, cursor.offset()))
    };
    read().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamic::{Encoder, Key};
    use logdrive_wire::{Kind, Scope};

    fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        let mut bytes = vec![0xee; SPAN_BYTES_MAX];
        let mut out = Encoder::new(&mut bytes);
        write(&mut out);
        out.written().0.to_vec()
    }

    fn span(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        encoded(|out| {
            let at = out.span_name("order");
            write(out);
            out.end_span(at);
        })
    }

    fn shown(span: &[u8]) -> Vec<(String, String)> {
        let mut fields = Scope::new(span).spans().next().unwrap().unwrap().fields;
        std::iter::from_fn(|| fields.next_value().unwrap())
            .map(|named| (named.key.to_owned(), format!("{:?}", named.value)))
            .collect()
    }

    #[test]
    fn fields_that_are_recorded_later_replace_earlier_ones() {
        let mut span = span(|out| {
            out.number(Kind::U64, Key::Inline("id"), 7u64.to_le_bytes());
            out.text(Kind::Str, Key::Inline("state"), "open");
        });
        let recorded = encoded(|out| {
            out.text(Kind::Str, Key::Inline("state"), "closed");
            out.number(Kind::Bool, Key::Inline("paid"), [1]);
        });
        assert!(merge(&mut span, &recorded));
        let fields = shown(&span);
        let keys: Vec<&str> = fields.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["id", "state", "paid"]);
        assert!(fields[1].1.starts_with("Str([99, 108"), "{fields:?}");
    }

    #[test]
    fn a_span_keeps_to_its_limit() {
        let mut span = span(|out| out.text(Kind::Str, Key::Inline("a"), &"x".repeat(10_000)));
        assert!(span.len() <= SPAN_BYTES_MAX);
        let recorded = encoded(|out| out.text(Kind::Str, Key::Inline("b"), "y"));
        merge(&mut span, &recorded);
        assert_eq!(shown(&span).len(), 1);
        let recorded = encoded(|out| out.text(Kind::Str, Key::Inline("a"), "z"));
        merge(&mut span, &recorded);
        assert_eq!(shown(&span).len(), 1);
        assert!(span.len() < 24);
    }

    #[test]
    fn a_span_that_is_not_shown_takes_no_fields() {
        assert!(!merge(&mut Vec::new(), &[1, 2, 3]));
    }
}
