//! Queries as people and programs write them: reading ends with a query or with an error at a place inside of the text; what
//! was read is written back as a query that means the same; and it can be run.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_query::{Query, QueryError, Record, Row};
use std::ops::ControlFlow;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for read in [Query::parse, Query::parse_condition] {
        match read(text) {
            Ok(query) => run(&query, text),
            Err(error) => check(&error),
        }
    }
});

fn check(error: &QueryError) {
    assert!(error.offset <= error.query.len());
    let shown = error.to_string();
    assert!(shown.len() < 4096 && shown.lines().count() >= 3, "{shown}");
}

fn run(query: &Query, text: &str) {
    let again = query.to_string();
    if again.len() <= logdrive_query::limits::QUERY_BYTES_MAX {
        match Query::parse(&again) {
            Ok(same) => assert_eq!(same.to_string(), again),
            // Parentheses around lists make it deeper.
            Err(error) => assert!(error.message.contains("deep"), "{text} became {again}: {error}"),
        }
    }
    let mut record = Row::default();
    for (name, value) in [("_time", "2026-11-21T00:00:00Z"), ("level", "INFO"), ("message", text), ("n", "7")] {
        record.push(name, value);
    }
    let plan = query.plan(1_795_219_200_000_000_000);
    let mut pipeline = query.pipeline(1_795_219_200_000_000_000);
    let mut output = |_: &mut dyn Record| ControlFlow::Continue(());
    if plan.matches(&mut record) {
        let _ = pipeline.push(&mut record, &mut output);
    }
    pipeline.finish(&mut output);
}
