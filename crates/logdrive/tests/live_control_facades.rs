//! Live control of callsites of `tracing` and `log`.
//!
//! One test, because subscriber and facade are the process's.
#![cfg(all(feature = "tracing", feature = "log"))]
#![forbid(unsafe_code)]

use logdrive::{Layout, MemorySink, SinkOptions, Target};
use logdrive_drain::control::{Action, change, put_rule, read_action_directive, read_selector};
use logdrive_ring::SessionReader;
use tracing_subscriber::layer::SubscriberExt;

fn set(action: Action, selector: &str) {
    let session = SessionReader::open(&logdrive::session_path().expect("it runs")).expect("a session");
    let selector = read_selector(selector).expect("a selector");
    change(&session, |rules, now| put_rule(rules, action, selector, 0, now)).expect("a change");
}

fn level(directive: &str) {
    let (action, _) = read_action_directive(directive).expect("a directive");
    set(action, directive.split('=').next().unwrap_or(""));
}

fn reset() {
    let session = SessionReader::open(&logdrive::session_path().expect("it runs")).expect("a session");
    change(&session, |rules, _| rules.clear()).expect("a change");
}

fn lines(memory: &MemorySink) -> Vec<String> {
    logdrive::flush();
    let mut lines = memory.take();
    lines.retain(|line| !line.contains("live control") && !line.contains("sampled out"));
    lines
}

fn by_key(field: &str) -> Action {
    Action::PerKey {
        field: field.to_owned(),
        per_second: 2,
    }
}

#[test]
fn facades_obey_as_macros_do() {
    let memory = MemorySink::new(4 << 20);
    let mut sink = SinkOptions::new(Target::Memory(memory.clone()));
    sink.layout = Layout::pattern("{level} {spans}{message}{fields}").into();
    let guard = logdrive::builder("facades-test")
        .use_env(false)
        .filter("info")
        .full(logdrive::Full::Block)
        .count_disabled(true)
        .sink(sink)
        .init()
        .expect("starts");
    tracing::subscriber::set_global_default(logdrive::tracing::subscriber()).expect("the first");
    logdrive::log::install().expect("the first");
    levels(&memory);
    samples(&memory);
    keys(&memory);
    layers(&memory);
    let (_, stats) = guard.stop().expect("it runs");
    assert!(stats.sampled_out > 0 && stats.disabled > 0);
}

fn levels(memory: &MemorySink) {
    let calls = || {
        tracing::debug_span!(target: "net", "span", id = 3)
            .in_scope(|| tracing::debug!(target: "net", "event"));
        log::debug!(target: "net", "record");
        log::debug!(target: "other", "other");
    };
    calls();
    assert_eq!(lines(memory), Vec::<String>::new());
    level("net=debug");
    calls();
    assert_eq!(lines(memory), ["DEBUG span{id=3}: event", "DEBUG record"]);
    assert!(log::log_enabled!(target: "net::later", log::Level::Debug));
    assert!(!log::log_enabled!(target: "other", log::Level::Debug));
    tracing::debug!(target: "net::later", "a callsite that comes later");
    log::debug!(target: "net::later", "and another");
    assert_eq!(lines(memory).len(), 2);
    set(Action::Mute, "net");
    calls();
    tracing::error!(target: "net", "muted");
    log::error!(target: "net", "muted");
    assert_eq!(lines(memory), Vec::<String>::new());
    reset();
    tracing::error!(target: "net", "not muted");
    calls();
    assert_eq!(lines(memory), ["ERROR not muted"]);
}

fn samples(memory: &MemorySink) {
    set(Action::Every(10), "all");
    for number in 0..20 {
        tracing::info!(number, "event");
        tracing::info!("constant");
        log::info!(number; "record");
        log::info!("record {number}");
    }
    let kept = lines(memory);
    assert_eq!(
        kept[..4],
        [
            "INFO event number=0 sample_every=10",
            "INFO constant sample_every=10",
            "INFO record number=0 sample_every=10",
            "INFO record 0 sample_every=10",
        ]
    );
    assert_eq!(kept.len(), 8);
    reset();
}

fn keys(memory: &MemorySink) {
    for field in ["peer", "absent"] {
        set(by_key(field), "all");
        for number in 0..30 {
            let peer = ["a", "b", "c"][number % 3];
            tracing::info!(number, peer, "event of {field}");
            log::info!(number, peer; "record of {field}");
        }
        let kept = lines(memory);
        for what in ["event", "record"] {
            for peer in ["a", "b", "c"] {
                let is_kept =
                    |line: &&String| line.contains(what) && line.ends_with(&format!(" peer={peer}"));
                let count = kept.iter().filter(is_kept).count();
                // More where a second ends meanwhile. `tracing` knows its fields: what is none of them is no key.
                match (field, what) {
                    ("peer", _) => assert!((2..10).contains(&count), "{count} {kept:#?}"),
                    (_, "event") => assert!(count <= 10, "{count}"),
                    _ => assert!(count < 10, "{count}"),
                }
            }
        }
        reset();
    }
}

fn layers(memory: &MemorySink) {
    let layered = tracing_subscriber::registry().with(logdrive::tracing::layer());
    tracing::subscriber::with_default(layered, || {
        set(Action::Every(5), "all");
        for number in 0..10 {
            tracing::info!(number, "through the layer");
        }
        assert_eq!(
            lines(memory),
            [
                "INFO through the layer number=0 sample_every=5",
                "INFO through the layer number=5 sample_every=5"
            ]
        );
        set(Action::Mute, "all");
        tracing::info!("muted");
        assert_eq!(lines(memory), Vec::<String>::new());
        reset();
    });
}
