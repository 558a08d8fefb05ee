//! Programs that make targets at the call: the number of callsites stays bounded, and nothing is lost.
//!
//! One test, because callsites are the process's.
#![cfg(feature = "log")]
#![forbid(unsafe_code)]

use logdrive::{Full, MemorySink};

const TARGETS: usize = 6000;

#[test]
fn made_targets_become_fields_when_there_are_too_many() {
    let dir = tempfile::tempdir().expect("a directory");
    let memory = MemorySink::new(64 << 20);
    let start = |filter: &str| {
        logdrive::builder("targets-test")
            .use_env(false)
            .filter(filter)
            .run_dir(dir.path())
            .full(Full::Block)
            .memory(&memory)
            .init()
            .expect("starts")
    };
    logdrive::log::install().expect("the first");
    let guard = start("info");
    let log_all = || {
        for number in 0..TARGETS {
            let target = format!("made::{number}");
            log::info!(target: &target, number; "from a made target");
            log::debug!(target: &target, "off");
        }
    };
    log_all();
    let (_, stats) = guard.stop().expect("the first");
    assert_eq!(
        (stats.committed, stats.disabled),
        (TARGETS as u64, TARGETS as u64)
    );
    assert!(stats.callsites < 4200, "{}", stats.callsites);
    let lines = memory.take();
    assert_eq!(lines.len(), TARGETS);
    assert!(lines[0].contains(" made::0 "), "{}", lines[0]);
    let last = &lines[TARGETS - 1];
    let fields = format!("from a made target log.target=made::{} log.file=", TARGETS - 1);
    assert!(
        last.contains(&fields) && last.ends_with(&format!(" number={}", TARGETS - 1)),
        "{last}"
    );

    // The filter still decides for each of them.
    let guard = start(&format!("off,made::{}=info,made::0=debug", TARGETS - 1));
    log_all();
    drop(guard);
    let lines = memory.take();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[2].contains(&fields));
}
