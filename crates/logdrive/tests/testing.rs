//! Captures of tests that run at once.
#![forbid(unsafe_code)]

use logdrive::testing::{Capture, capture};
use logdrive::{Level, info, warn};
use std::sync::Barrier;

#[test]
fn captures_of_other_threads_do_not_mix() {
    const THREADS: usize = 8;
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let barrier = &barrier;
            scope.spawn(move || {
                let log = capture();
                barrier.wait();
                for number in 0..500 {
                    info!(thread, number, "busy");
                }
                barrier.wait();
                let expected: Vec<String> = (0..500)
                    .map(|number| format!("thread={thread} number={number}"))
                    .collect();
                let fields: Vec<String> = log.records().into_iter().map(|record| record.fields).collect();
                assert_eq!(fields, expected);
            });
        }
    });
}

#[test]
fn a_capture_sees_only_what_comes_after_its_start() {
    info!("before any");
    let outer = capture();
    info!("one");
    let inner = capture();
    info!("two");
    assert_eq!(inner.lines(), ["INFO testing: two"]);
    assert_eq!(outer.lines(), ["INFO testing: one", "INFO testing: two"]);
    drop(inner);
    info!("three");
    assert_eq!(outer.lines().len(), 3);
    outer.clear();
    assert!(outer.records().is_empty());
    info!("four");
    assert_eq!(outer.lines(), ["INFO testing: four"]);
}

#[test]
fn threads_are_captured_while_they_are_adopted() {
    let log = capture();
    let in_thread = |log: Capture| {
        std::thread::spawn(move || {
            info!("not yet");
            let adopted = log.adopt();
            info!("now");
            let again = log.adopt();
            info!("once, though adopted twice");
            drop(again);
            info!("still");
            drop(adopted);
            info!("not any more");
        })
    };
    in_thread(log.clone()).join().expect("no panic");
    let messages: Vec<String> = log.records().into_iter().map(|record| record.message).collect();
    assert_eq!(messages, ["now", "once, though adopted twice", "still"]);
    let _own = log.adopt();
    drop(log.adopt());
    warn!("the capture's own thread");
    assert_eq!(log.records().last().map(|record| record.level), Some(Level::Warn));
}

#[test]
fn values_with_tabs_and_line_breaks_stay_in_their_place() {
    let log = capture();
    info!(target: "a\tb", text = "c\td\ne", "f\tg");
    let records = log.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].target, "a\\tb");
    assert_eq!(records[0].message, "f\\tg");
    assert!(records[0].fields.contains("c\\td\\ne"), "{}", records[0].fields);
}

#[test]
fn captures_may_follow_each_other() {
    for round in 0..20 {
        let log = capture();
        info!(round);
        assert_eq!(log.records().len(), 1);
        assert!(log.contains(&format!("round={round}")));
    }
}
