//! Events and spans of `tracing` in Logdrive's own subscriber, as they reach the log.
#![cfg(feature = "tracing")]
#![forbid(unsafe_code)]

use logdrive::Level;
use logdrive::testing::{Capture, Record, capture};
use std::fmt;
use std::sync::mpsc;
use tracing::field::{Empty, debug, display};
use tracing::{Span, debug, error, info, info_span, trace, warn};

/// The only record of the capture.
fn only(log: &Capture) -> Record {
    let records = log.records();
    assert_eq!(records.len(), 1, "{records:#?}");
    records[0].clone()
}

/// The spans of the last record.
fn last_spans(log: &Capture) -> String {
    log.records().pop().expect("a record").spans
}

#[test]
fn values_keep_their_types() {
    let log = capture();
    let cause = std::io::Error::other("disk on fire");
    let error: &(dyn std::error::Error + 'static) = &cause;
    info!(
        u = 7u64,
        i = -7i32,
        f = 0.5f32,
        d = 1e300,
        yes = true,
        big = u128::MAX,
        small = i128::MIN,
        text = "a b",
        owned = String::from("own"),
        some = Some(3u8),
        none = None::<u8>,
        empty = Empty,
        shown = %"x",
        told = ?Some("y"),
        bytes = &b"\x00a"[..],
        error,
        "all of them"
    );
    let record = only(&log);
    assert_eq!(record.level, Level::Info);
    assert_eq!(record.message, "all of them");
    assert_eq!(
        record.fields,
        "u=7 i=-7 f=0.5 d=1e300 yes=true big=340282366920938463463374607431768211455 \
         small=-170141183460469231731687303715884105728 text=\"a b\" owned=own some=3 shown=x told=\"Some(\\\"y\\\")\" \
         bytes=\\x00a error=\"disk on fire\""
    );
}

#[test]
fn levels_and_targets_are_those_of_the_event() {
    let log = capture();
    trace!(target: "a::b", "one");
    debug!("two");
    warn!("three");
    error!("four");
    let lines = log.lines();
    assert_eq!(
        lines,
        [
            "TRACE a::b: one",
            "DEBUG tracing: two",
            "WARN tracing: three",
            "ERROR tracing: four"
        ]
    );
}

#[test]
fn messages_with_arguments_and_literal_ones_keep_apart() {
    let log = capture();
    for number in 0..3 {
        info!("number {number}");
        info!("{}", ["a", "b", "a"][number]);
        info!("literal {{}}");
    }
    let messages: Vec<String> = log.records().into_iter().map(|record| record.message).collect();
    assert_eq!(
        messages,
        [
            "number 0",
            "a",
            "literal {}",
            "number 1",
            "b",
            "literal {}",
            "number 2",
            "a",
            "literal {}"
        ]
    );
}

#[test]
fn a_message_may_come_late_or_not_at_all() {
    let log = capture();
    for message in [Some("said"), None, Some("said again"), Some("")] {
        info!(before = 1, message, after = 2);
    }
    info!(only = "fields");
    let lines = log.lines();
    assert_eq!(
        lines,
        [
            "INFO tracing: said before=1 after=2",
            "INFO tracing: before=1 after=2",
            "INFO tracing: said again before=1 after=2",
            "INFO tracing: before=1 after=2",
            "INFO tracing: only=fields",
        ]
    );
}

#[test]
fn a_record_shows_the_spans_around_it() {
    let log = capture();
    info!("outside");
    let outer = info_span!("outer", id = 7, name = "a b");
    outer.in_scope(|| {
        info!("in one");
        let _inner = info_span!("inner").entered();
        info!("in two");
    });
    info!("outside again");
    let spans: Vec<String> = log.records().into_iter().map(|record| record.spans).collect();
    assert_eq!(
        spans,
        [
            "",
            "outer{id=7 name=\"a b\"}",
            "outer{id=7 name=\"a b\"}:inner",
            ""
        ]
    );
}

#[test]
fn fields_that_are_recorded_later_are_in_what_follows() {
    let log = capture();
    let outer = info_span!("outer", state = Empty, step = 1);
    let entered = outer.enter();
    let inner = info_span!("inner", state = Empty);
    inner.in_scope(|| {
        info!("before");
        outer.record("state", "open");
        info!("between");
        inner.record("state", display("x y"));
        outer.record("step", 2);
        info!("after");
        Span::current().record("state", debug(Some(1)));
    });
    info!("outside of the inner one");
    drop(entered);
    let spans: Vec<String> = log.records().into_iter().map(|record| record.spans).collect();
    assert_eq!(
        spans,
        [
            "outer{step=1}:inner",
            "outer{step=1 state=open}:inner",
            "outer{state=open step=2}:inner{state=\"x y\"}",
            "outer{state=open step=2}",
        ]
    );
    inner.in_scope(|| info!("again"));
    assert_eq!(last_spans(&log), "outer{state=open step=2}:inner{state=Some(1)}");
}

#[test]
fn what_is_recorded_in_another_thread_is_seen_in_this_one() {
    let log = capture();
    let span = info_span!("work", done = 0);
    let _entered = span.enter();
    for done in 1..20 {
        let other = span.clone();
        let recording = std::thread::spawn(move || {
            other.record("done", done);
        });
        recording.join().expect("no panic");
        info!("step");
        assert_eq!(last_spans(&log), format!("work{{done={done}}}"));
    }
}

#[test]
fn parents_may_be_given() {
    let log = capture();
    let one = info_span!("one", n = 1);
    let two = info_span!("two", n = 2);
    let _entered = one.enter();
    info!(parent: &two, "elsewhere");
    assert_eq!(last_spans(&log), "two{n=2}");
    info!(parent: None, "nowhere");
    assert_eq!(last_spans(&log), "");
    info_span!(parent: &two, "child").in_scope(|| info!("child of two"));
    assert_eq!(last_spans(&log), "two{n=2}:child");
    info_span!(parent: None, "root").in_scope(|| {
        info!("root");
        info_span!("leaf").in_scope(|| info!("leaf"));
    });
    let spans: Vec<String> = log.records().into_iter().map(|record| record.spans).collect();
    assert_eq!(spans[3..], ["root", "root:leaf"]);
    info!("back");
    assert_eq!(last_spans(&log), "one{n=1}");
    Span::none().in_scope(|| info!("no span"));
    assert_eq!(last_spans(&log), "one{n=1}");
}

#[test]
fn spans_may_be_left_out_of_order() {
    let log = capture();
    let (a, b, c) = (info_span!("a"), info_span!("b"), info_span!("c"));
    let (in_a, in_b, in_c) = (a.enter(), b.enter(), c.enter());
    drop(in_b);
    info!("c is the innermost");
    assert_eq!(last_spans(&log), "c");
    drop(in_c);
    info!("a is");
    assert_eq!(last_spans(&log), "a");
    let again = a.enter();
    drop(in_a);
    info!("a was entered twice");
    assert_eq!(last_spans(&log), "a");
    drop(again);
    info!("none is");
    assert_eq!(last_spans(&log), "");
}

#[test]
fn a_parent_is_shown_after_it_has_gone() {
    let log = capture();
    let parent = info_span!("parent", id = 1);
    let child = info_span!(parent: &parent, "child");
    drop(parent);
    for other in 0..100 {
        // Would take the parent's place, were it free.
        drop(info_span!("other", other));
    }
    child.in_scope(|| info!("still there"));
    assert_eq!(last_spans(&log), "parent{id=1}:child");
    let changing = info_span!("changing", late = Empty);
    changing.record("late", 1);
    child.in_scope(|| info!("still there, though spans have changed"));
    assert_eq!(last_spans(&log), "parent{id=1}:child");
    let copy = child.clone();
    drop(child);
    copy.in_scope(|| info!("one copy left"));
    assert_eq!(last_spans(&log), "parent{id=1}:child");
}

#[test]
fn spans_that_may_change_live_as_long_as_what_is_in_them() {
    let log = capture();
    let a = info_span!("a", n = 1, late = Empty);
    let b = info_span!(parent: &a, "b", n = 1);
    let c = info_span!(parent: &b, "c");
    drop(b);
    a.record("late", 2);
    drop(a);
    for other in 0..100 {
        // Would take their places, were they free.
        drop(info_span!("other", other));
    }
    c.in_scope(|| info!("entered after the change"));
    assert_eq!(last_spans(&log), "a{n=1 late=2}:b{n=1}:c");
    let entered = c.enter();
    info_span!("d", late = Empty).in_scope(|| {
        Span::current().record("late", 3);
        info!("in d");
    });
    assert_eq!(last_spans(&log), "a{n=1 late=2}:b{n=1}:c:d{late=3}");
    drop(entered);
}

#[test]
fn a_span_that_waits_is_entered_by_one_thread_after_the_other() {
    let log = capture();
    // As an executor does: the task's span is entered for each step, now in this thread, now in that one.
    let (to_worker, tasks) = mpsc::channel::<(Span, u32)>();
    let (to_main, done) = mpsc::channel();
    let adopted = log.clone();
    let worker = std::thread::spawn(move || {
        let _adopted = adopted.adopt();
        let _own = info_span!("worker").entered();
        for (task, step) in tasks {
            task.in_scope(|| info!(step, "polled"));
            to_main.send(task).expect("the test waits");
        }
    });
    let mut tasks: Vec<Span> = (0..3).map(|id| info_span!("task", id)).collect();
    for step in 0..3 {
        for task in tasks.drain(..) {
            task.in_scope(|| debug!(step, "before"));
            to_worker.send((task, step)).expect("the worker waits");
        }
        tasks.extend(done.iter().take(3));
    }
    drop(to_worker);
    worker.join().expect("no panic");
    let records = log.records();
    assert_eq!(records.len(), 18);
    for id in 0..3 {
        let own = records
            .iter()
            .filter(|record| record.spans == format!("task{{id={id}}}"));
        let lines: Vec<String> = own
            .map(|record| format!("{} {}", record.message, record.fields))
            .collect();
        let expected: Vec<String> = (0..3)
            .flat_map(|step| [format!("before step={step}"), format!("polled step={step}")])
            .collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn the_current_span_is_the_innermost_one() {
    let log = capture();
    assert!(Span::current().is_none());
    let span = info_span!("outer", found = Empty);
    let entered = span.clone().entered();
    assert_eq!(Span::current().id(), span.id());
    let inner = info_span!("inner").entered();
    assert_eq!(
        Span::current().metadata().map(|metadata| metadata.name()),
        Some("inner")
    );
    drop(inner);
    Span::current().record("found", true);
    info!("here");
    assert_eq!(last_spans(&log), "outer{found=true}");
    drop(entered);
    assert!(Span::current().is_none());
}

#[test]
fn deep_and_large_spans_are_bounded() {
    let log = capture();
    let mut entered = Vec::new();
    for depth in 0..100 {
        entered.push(info_span!("deep", depth).entered());
    }
    info!("deep down");
    let spans = last_spans(&log);
    assert_eq!(spans.matches("deep{").count(), 64);
    assert!(spans.ends_with("deep{depth=99}"), "{spans}");
    while let Some(span) = entered.pop() {
        drop(span);
    }
    let text = "x".repeat(100_000);
    for _ in 0..10 {
        entered.push(info_span!("large", text).entered());
    }
    info!("large");
    let spans = last_spans(&log);
    assert!((1..=4).contains(&spans.matches("large{").count()));
    assert!(spans.contains('…'));
}

#[test]
fn a_record_that_is_too_long_is_cut_and_counted() {
    let log = capture();
    let cut = || logdrive::stats().expect("a logger runs").cut;
    let before = cut();
    let long = "é".repeat(50_000);
    info!(first = 1, long, last = 2, "too long");
    info!("{long}");
    let records = log.records();
    assert_eq!(records.len(), 2);
    assert!(records[0].fields.starts_with("first=1 long=éé"));
    assert!(records[0].fields.ends_with("é…"));
    assert!(records[1].message.ends_with("é…"));
    // Other tests of this program may cut records as well.
    assert!(cut() >= before + 2);
}

#[test]
fn a_value_that_logs_while_it_is_shown_does_no_harm() {
    struct Chatty;
    impl fmt::Display for Chatty {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let _span = info_span!("showing").entered();
            info!(inner = 1, "asked to show");
            f.write_str("shown")
        }
    }
    let log = capture();
    let _span = info_span!("around").entered();
    info!(before = 0, value = %Chatty, after = 2, "outer");
    let lines = log.lines();
    assert_eq!(
        lines,
        [
            "INFO tracing: around:showing: asked to show inner=1",
            "INFO tracing: around: outer before=0 value=shown after=2",
        ]
    );
}

#[test]
fn many_spans_come_and_go_in_many_threads() {
    let log = capture();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                let _adopted = log.adopt();
                let kept: Vec<Span> = (0..500).map(|id| info_span!("kept", thread, id)).collect();
                for (id, span) in kept.iter().enumerate() {
                    let _inner = info_span!(parent: span, "inner").entered();
                    info!(id);
                }
            });
        }
    });
    let records = log.records();
    assert_eq!(records.len(), 2000);
    for record in records {
        let id = record.fields.strip_prefix("id=").expect("the field");
        assert!(record.spans.ends_with(&format!(" id={id}}}:inner")), "{record}");
    }
}

#[test]
fn control_characters_cannot_forge_a_line() {
    let log = capture();
    info!(text = "a\nERROR forged", "line\nbreak");
    let line = only(&log).to_string();
    assert_eq!(line, "INFO tracing: line\\nbreak text=\"a\\nERROR forged\"");
}
