//! The line that a log has where its session is on a disk.
#![cfg(target_os = "linux")]

use logdrive::File;
use std::path::Path;

/// Logs with a session in a directory; returns the lines about its place.
fn told(run_dir: &Path, log: &Path) -> usize {
    let guard = logdrive::builder("place")
        .use_env(false)
        .run_dir(run_dir)
        .file(File::new(log))
        .init()
        .expect("it starts");
    logdrive::info!("a line");
    drop(guard);
    let text = std::fs::read_to_string(log).expect("the log");
    assert!(text.contains(" a line"), "{text}");
    text.lines()
        .filter(|line| line.contains(" INFO ") && line.contains("on a disk"))
        .count()
}

#[test]
#[allow(clippy::print_stdout, reason = "a test talks to whoever runs it")]
fn a_log_says_at_each_start_that_its_session_is_on_a_disk() {
    const TMPFS: i64 = 0x0102_1994;
    let logs = tempfile::tempdir().expect("a directory");
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let kind = rustix::fs::statfs(disk.path()).expect("its file system").f_type;
    if kind == TMPFS {
        return println!("this test is left out: the directory of the build is no disk");
    }
    assert_eq!(told(disk.path(), &logs.path().join("a.log")), 1);
    assert_eq!(told(disk.path(), &logs.path().join("b.log")), 1, "the next start");
    let memory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    assert_eq!(told(memory.path(), &logs.path().join("c.log")), 0);
}
