//! Children of a process that logs: they get nothing by `exec`, and by `fork` a logger of their own.
//!
//! What forks does so in a program of its own: this one, started anew with a role to play.
#![cfg(target_os = "linux")]

use logdrive::{File, Full, Guard, Stopped};
use logdrive_ring::find_sessions;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Variable with the directory in which the program plays its role.
const DIR: &str = "LOGDRIVE_TEST_PROCESS_DIR";

/// Lines of each process before a fork, behind it, and in its child.
const LINES: u32 = 500;
/// Children, one after the other.
const CHILDREN: u32 = 4;

fn start(dir: &Path) -> Guard {
    logdrive::builder("process")
        .use_env(false)
        .filter("trace")
        .run_dir(dir.join("run"))
        .file(File::new(dir.join("app.log")))
        .full(Full::Block)
        .init()
        .unwrap()
}

/// The descriptors of this process that belong to a logger below `dir`, and whether each is closed by `exec`. Standard
/// streams are those of whoever runs the test, and may go to a file of any name.
fn descriptors(dir: &Path) -> BTreeMap<PathBuf, bool> {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let fd = entry.unwrap().path();
        let name = fd.file_name().unwrap();
        if ["0", "1", "2"].iter().any(|standard| name == *standard) {
            continue;
        }
        // The descriptor of this very list is gone when it is looked at.
        let Ok(target) = std::fs::read_link(&fd) else {
            continue;
        };
        if !target.starts_with(dir) && !target.to_string_lossy().contains("logdrive") {
            continue;
        }
        let info = std::fs::read_to_string(Path::new("/proc/self/fdinfo").join(name)).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        let flags = u32::from_str_radix(flags.trim(), 8).unwrap();
        found.insert(target, flags & CLOSE_ON_EXEC != 0);
    }
    found
}

#[test]
fn a_program_that_is_executed_gets_no_descriptor_of_the_logger() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let guard = start(&dir);
    logdrive::info!("of one thread");
    std::thread::scope(|scope| {
        scope.spawn(|| logdrive::info!("and of another"));
    });
    assert!(logdrive::flush());
    let own = descriptors(&dir);
    assert!(own.contains_key(&dir.join("app.log")), "{own:?}");
    assert!(own.len() > 2, "the log, and what the session keeps open: {own:?}");
    assert!(own.values().all(|closed| *closed), "{own:?}");
    let list = Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains("/dev/null") || list.contains("pipe:"), "{list}");
    assert!(
        !list.contains("logdrive") && !list.contains(dir.to_str().unwrap()),
        "{list}"
    );
    drop(guard);
}

/// Writes a process's report at its end to a file: its calls, and its statistics.
fn report(path: &Path, guard: Guard, calls: u32) {
    let (stopped, stats) = guard.stop().unwrap();
    assert_eq!(stopped, Stopped::Complete);
    let text = format!("{calls} {} {}", stats.committed, stats.dropped_calls());
    std::fs::write(path, text).unwrap();
}

fn lines(who: &str) {
    (0..LINES).for_each(|number| logdrive::info!("| {} {}", who, number));
}

/// The child of a fork: logs, stops its logger, and ends without the exit handlers of its parent.
fn child(dir: &Path, guard: Guard, parent: u32, number: u32) -> ! {
    let work = std::panic::AssertUnwindSafe(|| {
        lines(&format!("child {number}"));
        // The parent's session is still the parent's, and the child has one of its own.
        let mut holders: Vec<_> = find_sessions(&dir.join("run"))
            .unwrap()
            .iter()
            .map(|found| found.holder)
            .collect();
        let mut expected = vec![Some(parent), Some(std::process::id())];
        holders.sort_unstable();
        expected.sort_unstable();
        assert_eq!(holders, expected);
        report(&dir.join(format!("child-{}", std::process::id())), guard, LINES);
    });
    let failed = std::panic::catch_unwind(work).is_err();
    // SAFETY: ends the process at once; neither the test harness nor anything else of the parent runs on here.
    unsafe { libc::_exit(i32::from(failed)) }
}

/// Ends the other thread when the forks are done, or have failed.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Plays the role: forks again and again, while another thread logs.
fn fork_and_log(dir: &Path) {
    let mut guard = Some(start(dir));
    let parent = std::process::id();
    let done = AtomicBool::new(false);
    let calls = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut number = 0;
            while !done.load(Ordering::Relaxed) {
                logdrive::info!("| other {}", number);
                number += 1;
            }
            number
        });
        let ending = Done(&done);
        for number in 0..CHILDREN {
            lines(&format!("before {number}"));
            // SAFETY: the child uses what is safe behind a fork of a process with threads, which is what this test is
            // about, and ends with `_exit`.
            match unsafe { libc::fork() } {
                0 => child(dir, guard.take().unwrap(), parent, number),
                pid => {
                    assert!(pid > 0, "{}", std::io::Error::last_os_error());
                    lines(&format!("after {number}"));
                    let mut status = 0;
                    // SAFETY: `status` lives as long as the call.
                    let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
                    assert_eq!((waited, status), (pid, 0), "the child {number} failed");
                }
            }
        }
        drop(ending);
        2 * CHILDREN * LINES + other.join().unwrap()
    });
    report(&dir.join("parent"), guard.take().unwrap(), calls);
}

/// The messages of a log, and how often each is there; its lines are all whole.
fn messages(path: &Path) -> BTreeMap<String, u32> {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "the last line of {path:?} is whole");
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| !line.contains(" logdrive ")) {
        let (front, message) = line.split_once(" | ").unwrap_or_else(|| panic!("torn: {line}"));
        assert!(front.starts_with("20") && !message.contains('|'), "torn: {line}");
        *found.entry(message.to_owned()).or_default() += 1;
    }
    found
}

/// The calls of a process, which are all committed in rings of its own.
fn calls(report: &Path) -> u32 {
    let text = std::fs::read_to_string(report).unwrap();
    let numbers: Vec<u32> = text.split(' ').map(|number| number.parse().unwrap()).collect();
    assert_eq!((numbers[1], numbers[2]), (numbers[0], 0), "{report:?}");
    numbers[0]
}

#[test]
fn a_forked_process_logs_for_itself_and_no_line_is_lost_torn_or_there_twice() {
    if let Some(dir) = std::env::var_os(DIR) {
        return fork_and_log(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let test = "a_forked_process_logs_for_itself_and_no_line_is_lost_torn_or_there_twice";
    let played = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(DIR, dir)
        .output()
        .unwrap();
    assert!(
        played.status.success(),
        "{}",
        String::from_utf8_lossy(&played.stderr)
    );
    let parent = messages(&dir.join("app.log"));
    assert_eq!(parent.len() as u32, calls(&dir.join("parent")));
    let others = parent.len() as u32 - 2 * CHILDREN * LINES;
    let numbered = |who: &str, count| {
        (0..count)
            .map(|number| (format!("{who} {number}"), 1))
            .collect::<Vec<_>>()
    };
    let mut expected: BTreeMap<String, u32> = numbered("other", others).into_iter().collect();
    for child in 0..CHILDREN {
        expected.extend(numbered(&format!("before {child}"), LINES));
        expected.extend(numbered(&format!("after {child}"), LINES));
    }
    assert!(parent == expected, "the parent's lines, each once");
    let mut children = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let Some(pid) = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_prefix("child-"))
        else {
            continue;
        };
        assert_eq!(calls(&path), LINES);
        children.extend(messages(&dir.join(format!("app.{pid}.log"))));
    }
    let expected = (0..CHILDREN).flat_map(|child| numbered(&format!("child {child}"), LINES));
    assert!(children == expected.collect(), "the children's lines, each once");
    assert_eq!(
        std::fs::read_dir(dir.join("run")).unwrap().count(),
        0,
        "no session is left"
    );
}
