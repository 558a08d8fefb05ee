//! Programs that start as root and become another user, as daemons do. The program is this test, started anew with a role.
#![cfg(target_os = "linux")]

use logdrive::{Builder, File, Full, Layout, Stopped};
use logdrive_ring::find_sessions;
use logdrive_testkit::{Process, report, role, this_test_as, wait_for_input};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Variable with the directory in which a program plays its role.
const DIR: &str = "LOGDRIVE_TEST_RUN_AS_DIR";
/// The user that programs become.
const USER: u32 = 65534;
/// Lines before and behind the change of the user, more than fit into one log file.
const LINES: usize = 2_000;

/// Returns whether this process may change users; says so where it may not.
#[allow(clippy::print_stdout, reason = "a test talks to whoever runs it")]
fn may_change_users() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("this test is left out: it changes users, which root may");
    }
    is_root
}

fn become_user(uid: u32) {
    nix::unistd::setuid(nix::unistd::Uid::from_raw(uid)).expect("root may");
}

fn dir() -> PathBuf {
    PathBuf::from(std::env::var_os(DIR).expect("a directory"))
}

fn builder() -> Builder {
    let file = File::new(dir().join("logs/app.log")).layout(Layout::pattern("{message}"));
    logdrive::builder("daemon")
        .use_env(false)
        .filter("info")
        .full(Full::Block)
        .run_dir(dir().join("run"))
        .file(file.rotate_bytes(64 << 10))
}

fn log_lines(part: &str) {
    (0..LINES).for_each(|number| logdrive::info!("| {} {} {}", part, number, "x".repeat(80)));
    // Lines that are handed over together stay in one file.
    assert!(logdrive::flush());
}

/// Logs as root, becomes the user, and logs from threads that are new.
fn daemon(end: impl FnOnce(logdrive::Guard)) {
    let guard = builder().run_as(USER, USER).init().expect("it starts");
    log_lines("root");
    become_user(USER);
    // More threads than there are rings in stock.
    for thread in 0..8 {
        std::thread::spawn(move || log_lines(&format!("user{thread}")))
            .join()
            .expect("it logs");
    }
    end(guard);
}

/// Ends a logger that has dropped nothing.
fn stop_complete(guard: logdrive::Guard) {
    let (stopped, stats) = guard.stop().expect("a logger");
    assert_eq!((stopped, stats.dropped_calls()), (Stopped::Complete, 0));
    report("stopped");
}

fn log_files(dir: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_dir(dir.join("logs")).expect("a directory of logs");
    let mut files: Vec<_> = list.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

fn check_lines(dir: &Path, parts: &[&str]) {
    let files = log_files(dir);
    let text: String = files
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("text"))
        .collect();
    for part in parts {
        let found = text.matches(&format!("| {part} ")).count();
        assert_eq!(found, LINES, "lines of {part} in {files:?}");
    }
}

const PARTS: [&str; 9] = [
    "root", "user0", "user1", "user2", "user3", "user4", "user5", "user6", "user7",
];

/// A directory that all may look into, and in which root alone makes files.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("its permissions");
    dir
}

fn start(test: &str, role: &str, dir: &Path) -> Process {
    Process::spawn(this_test_as(test, role).env(DIR, dir))
}

#[test]
fn a_daemon_logs_and_rotates_as_the_user_that_it_becomes() {
    if role().is_some() {
        return daemon(stop_complete);
    }
    if !may_change_users() {
        return;
    }
    // Directories that are missing, and a log directory that is the user's already.
    for is_there in [false, true] {
        let dir = directory();
        if is_there {
            std::fs::create_dir(dir.path().join("logs")).expect("a directory");
            chown(dir.path().join("logs"), Some(USER), Some(USER)).expect("its owner");
        }
        start(
            "a_daemon_logs_and_rotates_as_the_user_that_it_becomes",
            "daemon",
            dir.path(),
        )
        .expect("stopped");
        check_lines(dir.path(), &PARTS);
        let files = log_files(dir.path());
        assert!(
            files.len() > 2,
            "it rotates before and behind the change: {files:?}"
        );
        for path in files
            .iter()
            .chain(&[dir.path().join("logs"), dir.path().join("run")])
        {
            let found = path.metadata().expect("its owner");
            assert_eq!((found.uid(), found.gid()), (USER, USER), "{}", path.display());
        }
        assert_eq!(
            dir.path().metadata().expect("its owner").uid(),
            0,
            "it was there before"
        );
        assert_eq!(
            find_sessions(&dir.path().join("run"))
                .map(|found| found.len())
                .unwrap_or(0),
            0
        );
    }
}

#[test]
fn a_daemon_that_is_killed_is_recovered_by_root_and_by_its_user() {
    match role().as_deref() {
        Some("daemon") => {
            return daemon(|_guard| {
                report("logged");
                wait_for_input();
            });
        }
        Some("next of root") => {
            drop(builder().run_as(USER, USER).init().expect("it starts"));
            return report("recovered");
        }
        Some(_) => {
            become_user(USER);
            drop(builder().run_as(USER, USER).init().expect("it starts"));
            return report("recovered");
        }
        None => {}
    }
    if !may_change_users() {
        return;
    }
    let test = "a_daemon_that_is_killed_is_recovered_by_root_and_by_its_user";
    for next in ["next of root", "next of the user"] {
        let dir = directory();
        let mut daemon = start(test, "daemon", dir.path());
        daemon.expect("logged");
        let sessions = std::fs::read_dir(dir.path().join("run")).expect("sessions");
        for session in sessions.map(|entry| entry.expect("a session").path()) {
            for file in std::fs::read_dir(session).expect("its files") {
                let path = file.expect("a file").path();
                let owner = path.metadata().expect("its owner").uid();
                assert_eq!(owner, USER, "{}: tools of the user open it", path.display());
            }
        }
        daemon.kill();
        drop(daemon);
        start(test, next, dir.path()).expect("recovered");
        check_lines(dir.path(), &PARTS);
    }
}

#[test]
fn a_log_file_of_root_is_handed_over_and_its_directory_stays() {
    if role().is_some() {
        return daemon(stop_complete);
    }
    if !may_change_users() {
        return;
    }
    let dir = directory();
    let (logs, log) = (dir.path().join("logs"), dir.path().join("logs/app.log"));
    std::fs::create_dir(&logs).expect("a directory");
    std::fs::write(&log, "of an earlier run as root\n").expect("a file");
    start(
        "a_log_file_of_root_is_handed_over_and_its_directory_stays",
        "daemon",
        dir.path(),
    )
    .expect("stopped");
    check_lines(dir.path(), &PARTS);
    assert_eq!(logs.metadata().expect("its owner").uid(), 0);
    assert_eq!(log.metadata().expect("its owner").uid(), USER);
}

#[test]
fn nothing_is_handed_over_where_others_choose_the_path() {
    if role().is_some() {
        let result = builder().run_as(USER, USER).init();
        assert!(result.is_err(), "the user may not write there");
        return report("refused");
    }
    if !may_change_users() {
        return;
    }
    // A file with a second name, a link, and a link in the path.
    for case in ["second name", "link", "link in the path"] {
        let dir = directory();
        let (logs, secret) = (dir.path().join("logs"), dir.path().join("secret"));
        std::fs::create_dir(&secret).expect("a directory");
        let target = secret.join("app.log");
        std::fs::write(&target, "of root\n").expect("a file");
        std::fs::set_permissions(&target, PermissionsExt::from_mode(0o600)).expect("its permissions");
        match case {
            "link in the path" => std::os::unix::fs::symlink(&secret, &logs).expect("a link"),
            _ => {
                std::fs::create_dir(&logs).expect("a directory");
                let made = match case {
                    "link" => std::os::unix::fs::symlink(&target, logs.join("app.log")),
                    _ => std::fs::hard_link(&target, logs.join("app.log")),
                };
                made.expect("a second name");
            }
        }
        start(
            "nothing_is_handed_over_where_others_choose_the_path",
            "daemon",
            dir.path(),
        )
        .expect("refused");
        let found = target.metadata().expect("its owner");
        assert_eq!((found.uid(), found.len()), (0, 8), "{case}");
    }
}
