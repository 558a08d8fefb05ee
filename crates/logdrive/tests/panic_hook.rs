//! A panic is in the log. One test, because hooks and loggers are the process's.
#![forbid(unsafe_code)]

use logdrive::MemorySink;

#[test]
fn a_panic_is_logged_and_flushed_before_the_program_can_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let memory = MemorySink::new(1 << 16);
    // The hook that was there before runs behind ours: here it sees that the line has been written.
    let seen = memory.clone();
    std::panic::set_hook(Box::new(move |_| {
        assert!(
            seen.lines()
                .iter()
                .any(|line| line.contains("panicked: out of stock"))
        );
    }));
    let logger = logdrive::builder("panic-test")
        .use_env(false)
        .run_dir(dir.path())
        .memory(&memory);
    let guard = logger.init().expect("starts");
    let worker = std::thread::Builder::new().name("worker".to_owned());
    let ended = worker
        .spawn(|| panic!("out of {}", "stock"))
        .expect("a thread")
        .join();
    assert!(ended.is_err());
    let line = memory.lines().pop().expect("a line");
    assert!(line.contains(" ERROR worker panic "), "{line}");
    assert!(
        line.contains("panicked: out of stock panic.file=crates/logdrive/tests/panic_hook.rs"),
        "{line}"
    );
    drop(guard);
}
