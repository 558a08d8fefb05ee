//! Logdrive beside other layers of `tracing-subscriber`.
#![cfg(feature = "tracing")]
#![forbid(unsafe_code)]

use logdrive::testing::{Capture, capture};
use std::sync::{Arc, Mutex};
use tracing::field::Empty;
use tracing::{Event, Span, Subscriber, debug, info, info_span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// A layer that notes the targets of all events.
#[derive(Clone, Default)]
struct Targets(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Targets {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0
            .lock()
            .expect("no panic")
            .push(event.metadata().target().to_owned());
    }
}

fn stack() -> impl Subscriber + for<'span> LookupSpan<'span> + Send + Sync {
    tracing_subscriber::registry().with(logdrive::tracing::layer())
}

fn last_spans(log: &Capture) -> String {
    log.records().pop().expect("a record").spans
}

#[test]
fn events_carry_the_spans_of_the_registry() {
    let log = capture();
    tracing::subscriber::with_default(stack(), || {
        info!(n = 1, "outside");
        let outer = info_span!("outer", id = 7, state = Empty);
        let entered = outer.enter();
        let inner = info_span!("inner");
        inner.in_scope(|| info!("inside"));
        assert_eq!(last_spans(&log), "outer{id=7}:inner");
        outer.record("state", "open");
        outer.record("id", 8);
        inner.in_scope(|| info!("inside again"));
        assert_eq!(last_spans(&log), "outer{state=open id=8}:inner");
        drop(entered);
        info!(parent: &inner, "from outside");
        assert_eq!(last_spans(&log), "outer{state=open id=8}:inner");
        info!(parent: None, "none");
        assert_eq!(last_spans(&log), "");
        assert!(Span::current().is_none());
    });
    assert!(log.contains("INFO tracing_layer: outside n=1"));
    assert_eq!(log.records().len(), 5);
}

#[test]
fn the_filter_is_the_layers_own() {
    let log = capture();
    let targets = Targets::default();
    let only_a = tracing_subscriber::filter::filter_fn(|metadata| metadata.target() == "a");
    let subscriber = tracing_subscriber::registry()
        .with(logdrive::tracing::layer().with_filter(only_a))
        .with(targets.clone());
    tracing::subscriber::with_default(subscriber, || {
        debug!(target: "a", "one");
        debug!(target: "b", "two");
    });
    assert_eq!(log.lines(), ["DEBUG a: one"]);
    assert_eq!(*targets.0.lock().expect("no panic"), ["a", "b"]);
}

#[test]
fn deep_spans_are_bounded() {
    let log = capture();
    tracing::subscriber::with_default(stack(), || {
        let mut entered: Vec<_> = (0..100)
            .map(|depth| info_span!("deep", depth).entered())
            .collect();
        info!("deep down");
        while let Some(span) = entered.pop() {
            drop(span);
        }
    });
    let spans = last_spans(&log);
    assert_eq!(spans.matches("deep{").count(), 64);
    assert!(spans.ends_with("deep{depth=99}"));
}

#[test]
fn threads_share_spans() {
    let log = capture();
    let dispatch = tracing::Dispatch::new(stack());
    let span = tracing::dispatcher::with_default(&dispatch, || info_span!("shared", id = 1));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (log, span, dispatch) = (&log, &span, &dispatch);
            scope.spawn(move || {
                let _adopted = log.adopt();
                tracing::dispatcher::with_default(dispatch, || {
                    let _entered = span.enter();
                    (0..100).for_each(|_| info!(thread));
                });
            });
        }
    });
    let records = log.records();
    assert_eq!(records.len(), 300);
    assert!(records.iter().all(|record| record.spans == "shared{id=1}"));
}
