//! Callsites of `tracing` that the filter and control words switch on and off while the program runs.
//!
//! One test, because the filter is the process's.
#![cfg(feature = "tracing")]
#![forbid(unsafe_code)]

use logdrive::{Layout, MemorySink, SinkOptions, Target};
use std::cell::Cell;
use tracing::{Level, enabled, event, info, info_span, trace, trace_span};
use tracing_subscriber::layer::SubscriberExt;

thread_local! {
    static EVALUATED: Cell<u32> = const { Cell::new(0) };
}

/// A value that records that it was read.
fn value() -> u32 {
    EVALUATED.set(EVALUATED.get() + 1);
    7
}

fn evaluated() -> u32 {
    EVALUATED.replace(0)
}

fn detail() {
    trace_span!("detail", value = value()).in_scope(|| trace!(target: "net", value = value(), "detail"));
}

fn start(memory: &MemorySink, filter: &str) -> logdrive::Guard {
    let mut sink = SinkOptions::new(Target::Memory(memory.clone()));
    sink.layout = Layout::pattern("{level} {spans}{message}{fields}").into();
    logdrive::builder("filter-test")
        .use_env(false)
        .filter(filter)
        .sink(sink)
        .init()
        .expect("starts")
}

fn set_filter(directives: &str) {
    assert!(logdrive::set_filter(directives.parse().expect("a filter")));
}

fn lines(memory: &MemorySink) -> Vec<String> {
    logdrive::flush();
    memory.take()
}

#[test]
fn the_filter_decides_at_every_moment() {
    let memory = MemorySink::new(1 << 20);
    tracing::subscriber::set_global_default(logdrive::tracing::subscriber()).expect("the first");
    // Made before the logger: shown when it runs.
    let early = info_span!("early", id = 1);
    info!("lost: nothing runs");
    let guard = start(&memory, "info");

    early.in_scope(|| info!("one"));
    detail();
    assert_eq!(lines(&memory), ["INFO early{id=1}: one"]);
    assert_eq!(evaluated(), 0, "what is off is not evaluated");
    assert!(!enabled!(Level::TRACE) && enabled!(Level::INFO));

    set_filter("info,tracing_filter=trace,net=trace");
    detail();
    assert_eq!(lines(&memory), ["TRACE detail{value=7}: detail value=7"]);
    assert_eq!(evaluated(), 2);
    assert!(enabled!(Level::TRACE));

    set_filter("net=trace,off");
    detail();
    assert_eq!(
        lines(&memory),
        ["TRACE detail value=7"],
        "the span is off, and the event is not"
    );
    evaluated();

    set_filter("off");
    detail();
    info!("two");
    early.in_scope(|| info!(value = value(), "three"));
    assert_eq!(lines(&memory), Vec::<String>::new());
    assert_eq!(evaluated(), 0);

    set_filter("trace");
    sums_hold();
    early.in_scope(|| info!("four"));
    drop(guard);
    assert_eq!(
        memory.take().last().map(String::as_str),
        Some("INFO early{id=1}: four")
    );

    started_again(&memory);
    layers_follow(&memory);
}

/// Every call is committed, dropped or disabled.
fn sums_hold() {
    let sum = || {
        let stats = logdrive::stats().expect("a logger runs");
        stats.committed + stats.dropped_calls() + stats.disabled
    };
    let before = sum();
    for round in 0..10 {
        set_filter(if round % 2 == 0 { "off" } else { "trace" });
        info!("counted");
        trace!(target: "net", "counted");
        event!(target: "other", Level::WARN, "counted");
        info_span!("not counted").in_scope(|| ());
    }
    assert_eq!(sum() - before, 30);
    set_filter("trace");
}

/// A second logger knows all callsites, with their messages, by its own filter.
fn started_again(memory: &MemorySink) {
    memory.take();
    let guard = start(memory, "net=trace,off");
    detail();
    info!("off now");
    drop(guard);
    assert_eq!(memory.take(), ["TRACE detail value=7"]);
}

/// The layer asks the same words. What is off there is evaluated all the same, for the sake of other layers.
fn layers_follow(memory: &MemorySink) {
    let guard = start(memory, "info");
    let layered = tracing_subscriber::registry().with(logdrive::tracing::layer());
    tracing::subscriber::with_default(layered, || {
        detail();
        assert_eq!(lines(memory), Vec::<String>::new());
        set_filter("trace");
        detail();
        assert_eq!(lines(memory), ["TRACE detail{value=7}: detail value=7"]);
        set_filter("off");
        detail();
        set_filter("net=trace,off");
        detail();
    });
    drop(guard);
    assert_eq!(memory.take(), ["TRACE detail value=7"]);
}
