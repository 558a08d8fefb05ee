//! Records of the `log` facade, as they reach the log.
#![cfg(feature = "log")]
#![forbid(unsafe_code)]

use log::{Level, debug, error, info, kv, log, log_enabled, trace, warn};
use logdrive::testing::capture;
use std::fmt;

#[derive(Debug)]
struct Point(i32, i32);

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

#[test]
fn messages_levels_and_targets_arrive() {
    let log = capture();
    trace!("one");
    debug!("two {}", 2);
    info!(target: "a::b", "three");
    warn!("four {{}}");
    error!("five");
    let lines = log.lines();
    assert_eq!(
        lines,
        [
            "TRACE log: one",
            "DEBUG log: two 2",
            "INFO a::b: three",
            "WARN log: four {}",
            "ERROR log: five"
        ]
    );
}

#[test]
fn key_values_keep_their_types() {
    let log = capture();
    let (name, nothing) = ("a b", None::<u8>);
    info!(
        u = 7u64, i = -7i8, f = 0.5f32, yes = true, c = 'x', big = u128::MAX, name, nothing,
        shown:% = Point(1, 2), told:? = Point(3, 4);
        "all of them"
    );
    let record = log.records().pop().expect("a record");
    assert_eq!(record.message, "all of them");
    assert_eq!(
        record.fields,
        "u=7 i=-7 f=0.5 yes=true c=x big=340282366920938463463374607431768211455 name=\"a b\" shown=1/2 \
         told=\"Point(3, 4)\""
    );
}

#[test]
fn one_statement_may_have_many_targets_levels_and_messages() {
    let log = capture();
    for round in 0..3 {
        for (level, target) in [(Level::Info, "a"), (Level::Warn, "b")] {
            let made = format!("{target}{round}");
            log!(target: &made, level, "at {made}");
        }
    }
    let lines = log.lines();
    assert_eq!(
        lines,
        [
            "INFO a0: at a0",
            "WARN b0: at b0",
            "INFO a1: at a1",
            "WARN b1: at b1",
            "INFO a2: at a2",
            "WARN b2: at b2",
        ]
    );
}

#[test]
fn records_that_are_made_by_hand_arrive() {
    let log = capture();
    for text in ["one", "two", "one"] {
        // As bridges from other loggers do: all records come from one statement, or from none.
        let pairs: &[(&str, kv::Value<'_>)] = &[("n", kv::Value::from(1))];
        let builder = &mut log::Record::builder();
        let record = builder.level(Level::Info).target("bridge").key_values(&pairs);
        log::logger().log(&record.args(format_args!("{text}")).build());
    }
    log::logger().log(&log::Record::builder().args(format_args!("literal")).build());
    let lines = log.lines();
    assert_eq!(
        lines,
        [
            "INFO bridge: one n=1",
            "INFO bridge: two n=1",
            "INFO bridge: one n=1",
            "INFO : literal"
        ]
    );
}

#[test]
fn text_that_is_too_long_is_cut() {
    let log = capture();
    let long = "x".repeat(70_000);
    info!(long = long.as_str(), last = 1; "message");
    info!("{long}");
    let records = log.records();
    assert!(records[0].fields.ends_with("x…"));
    assert!(records[1].message.ends_with("x…"));
}

#[test]
fn the_facade_is_asked_what_is_on() {
    let _log = capture();
    assert!(log_enabled!(Level::Trace));
    assert!(logdrive::log::install().is_err(), "a process has one logger");
    log::logger().flush();
}
