//! A capture in a process that runs a logger of its own. One test, because a process has one logger.
#![forbid(unsafe_code)]

use logdrive::MemorySink;
use logdrive::testing::capture;

#[test]
fn a_capture_says_that_another_logger_runs_and_works_when_it_has_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let memory = MemorySink::new(1 << 16);
    let logger = logdrive::builder("own")
        .use_env(false)
        .panic_hook(false)
        .run_dir(dir.path())
        .memory(&memory);
    let guard = logger.init().expect("starts");
    let refused = std::panic::catch_unwind(|| drop(capture())).expect_err("one logger runs");
    let text = refused.downcast_ref::<String>().expect("a message");
    assert!(text.contains("logging runs already in this process"), "{text}");
    logdrive::info!("own");
    drop(guard);
    assert_eq!(memory.lines().len(), 1);

    let log = capture();
    logdrive::info!("captured");
    assert_eq!(log.lines(), ["INFO testing_alone: captured"]);
    let session = logdrive::session_path().expect("a logger runs");
    drop(log);
    assert!(!session.exists(), "the last capture ends the logger");
}
