//! A program that closes all descriptors after the start of its logger, as `daemon` and `closefrom` do, and opens files of
//! its own under the same numbers.
//!
//! It is this program, started anew with a role to play.
#![cfg(target_os = "linux")]

use logdrive::{File, Full, Layout, Stopped};
use logdrive_ring::{close_inherited, find_sessions};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::Command;

/// Variable with the directory in which the program plays its role.
const DIR: &str = "LOGDRIVE_TEST_CLOSED_DIR";

/// Files of the program, more than the logger had descriptors.
const FILES: usize = 64;
/// Lines before the descriptors are closed, and behind it.
const LINES: usize = 500;

fn own_file(dir: &Path, number: usize) -> std::fs::File {
    let mut file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(dir.join(format!("own-{number}")))
        .unwrap();
    writeln!(file, "file {number} of the program").unwrap();
    file
}

fn play(dir: &Path) {
    let guard = logdrive::builder("closed")
        .use_env(false)
        .filter("trace")
        .run_dir(dir.join("run"))
        .file(File::new(dir.join("app.log")).layout(Layout::pattern("{message}")))
        .full(Full::Block)
        .init()
        .unwrap();
    (0..LINES).for_each(|number| logdrive::info!("line {}", number));
    assert!(logdrive::flush());
    close_inherited();
    let mut files: Vec<_> = (0..FILES).map(|number| own_file(dir, number)).collect();
    (LINES..2 * LINES).for_each(|number| logdrive::info!("line {}", number));
    // New threads, new callsites and a change of the filter use files of the session.
    std::thread::spawn(|| logdrive::info!("of a new thread"))
        .join()
        .unwrap();
    assert!(logdrive::set_filter("trace".parse().unwrap()));
    assert!(logdrive::sync());
    let sessions = find_sessions(&dir.join("run")).unwrap();
    assert!(
        sessions
            .iter()
            .all(|found| found.holder == Some(std::process::id()))
    );
    let (stopped, stats) = guard.stop().unwrap();
    assert_eq!(stopped, Stopped::Complete);
    assert_eq!(
        (stats.committed, stats.dropped_calls()),
        (2 * LINES as u64 + 1, 0),
        "{stats:?}"
    );
    for (number, file) in files.iter_mut().enumerate() {
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(
            text,
            format!("file {number} of the program\n"),
            "it is open, and holds its own"
        );
    }
}

#[test]
fn no_line_goes_to_files_of_the_program_or_is_lost() {
    if let Some(dir) = std::env::var_os(DIR) {
        return play(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let played = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "no_line_goes_to_files_of_the_program_or_is_lost",
            "--nocapture",
        ])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&played.stderr);
    assert!(played.status.success(), "{}: {text}", played.status);
    let log = std::fs::read_to_string(dir.path().join("app.log")).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.starts_with("line ")).collect();
    let expected: Vec<String> = (0..2 * LINES).map(|number| format!("line {number}")).collect();
    assert_eq!(lines, expected);
}
