//! The layer: Logdrive beside other layers of `tracing-subscriber`, whose registry keeps the spans.

use super::site::{self, Site};
use super::spans;
use super::subscriber::{EventRecord, encode_recorded, encode_span, merge};
use crate::dynamic::limits::SCOPE_BYTES_MAX;
use logdrive_wire::limits::SCOPE_DEPTH_MAX;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Interest, Metadata};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// A layer for `tracing-subscriber` that writes to the running logger; it may be made before the logger is started.
///
/// Logdrive's filter is the layer's own: events that it switches off still reach the other layers. That is why the
/// values of such an event are evaluated all the same. The registry costs some ten nanoseconds an event, and some
/// hundred a span. Where no other layer is needed, [`super::subscriber`] has neither cost. For what becomes of events
/// and spans see [the module](crate::tracing).
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
/// let log = logdrive::testing::capture();
/// let subscriber = tracing_subscriber::registry().with(logdrive::tracing::layer());
/// tracing::subscriber::with_default(subscriber, || {
///     tracing::warn!(attempt = 2, "connection lost");
/// });
/// assert!(log.contains("connection lost attempt=2"));
/// ```
pub fn layer<S>() -> impl Layer<S> + Send + Sync + 'static
where
    S: tracing_core::Subscriber + for<'span> LookupSpan<'span> + 'static,
{
    Filtered::new(Records { _private: () }, ControlWords { _private: () })
}

/// Filter of a layer, which asks the control words.
#[derive(Debug)]
struct ControlWords {
    _private: (),
}

impl<S> Filter<S> for ControlWords {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        site::is_enabled(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        Site::of(metadata).interest()
    }
}

/// Layer that writes the records.
#[derive(Debug)]
pub(super) struct Records {
    _private: (),
}

/// Extension of a span in the registry: its key.
#[derive(Debug)]
struct SpanBytes {
    /// Name and fields; empty for a span that is not shown.
    own: Vec<u8>,
    /// Those of the spans around it, and its own.
    scope: Vec<u8>,
    /// The state of all spans' fields that `scope` shows.
    epoch: u64,
}

impl<S> Layer<S> for Records
where
    S: tracing_core::Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut own = Vec::new();
        if Site::of(attributes.metadata()).is_shown() {
            encode_span(attributes, |bytes, _| own.extend_from_slice(bytes));
        }
        span.extensions_mut().replace(SpanBytes {
            own,
            scope: Vec::new(),
            epoch: 0,
        });
        renew(&span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let change = |recorded: &[u8]| {
            let mut extensions = span.extensions_mut();
            extensions
                .get_mut::<SpanBytes>()
                .is_some_and(|kept| merge(&mut kept.own, recorded))
        };
        if encode_recorded(values, change) {
            spans::raise_epoch();
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        EventRecord::of(event, |record| {
            let Some(span) = context.event_span(event) else {
                return record.write(&[]);
            };
            let is_stale = |kept: &SpanBytes| kept.epoch != spans::epoch();
            if span.extensions().get().is_none_or(is_stale) {
                renew(&span);
            }
            let extensions = span.extensions();
            record.write(extensions.get().map_or(&[], |kept: &SpanBytes| &kept.scope));
        });
    }
}

/// Makes the span's scope anew from all spans around it.
fn renew<S: for<'span> LookupSpan<'span>>(span: &SpanRef<'_, S>) {
    // Before the fields are read, so that no change after it is missed.
    let epoch = spans::epoch();
    let mut scope = Vec::new();
    append_scope(span, SCOPE_DEPTH_MAX, &mut scope);
    if let Some(kept) = span.extensions_mut().get_mut::<SpanBytes>() {
        kept.scope = scope;
        kept.epoch = epoch;
    }
}

fn append_scope<S: for<'span> LookupSpan<'span>>(
    span: &SpanRef<'_, S>,
    depth_max: usize,
    scope: &mut Vec<u8>,
) {
    // The innermost spans say most where there are too many.
    if depth_max > 1
        && let Some(parent) = span.parent()
    {
        append_scope(&parent, depth_max - 1, scope);
    }
    if let Some(kept) = span.extensions().get::<SpanBytes>()
        && scope.len() + kept.own.len() <= SCOPE_BYTES_MAX
    {
        scope.extend_from_slice(&kept.own);
    }
}
