//! Ends of a program that has not stopped its logger: every line is in the log, and the process ends as it would have.
//!
//! The program that ends is this one, started anew with a role to play.
#![cfg(target_os = "linux")]

use logdrive::{Console, File, Full, Guard};
use logdrive_ring::find_sessions;
use logdrive_testkit::{Process, directory, report, role, this_test, wait_for_input, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Variable with the directory in which the program plays its role.
const DIR: &str = "LOGDRIVE_TEST_ENDS_DIR";
const ROLE: &str = "LOGDRIVE_TEST_ROLE";

/// Lines that a program logs before its end.
const LINES: usize = 50;

fn dir() -> PathBuf {
    std::env::var_os(DIR).expect("a directory").into()
}

/// A logger that writes by itself at its end only.
fn builder() -> logdrive::Builder {
    logdrive::builder("ends")
        .use_env(false)
        .filter("trace")
        .run_dir(dir().join("run"))
        .flush_every(Duration::from_secs(3600))
}

fn start() -> Guard {
    let guard = builder().file(File::new(dir().join("app.log"))).init();
    guard.expect("it starts")
}

fn lines() {
    (0..LINES).for_each(|number| logdrive::info!("| line {}", number));
}

/// Waits to be ended.
fn wait_for_end() -> ! {
    report("ready");
    loop {
        std::thread::park();
    }
}

static OWN: AtomicUsize = AtomicUsize::new(0);
static EARLIER: AtomicUsize = AtomicUsize::new(0);

/// A program's own handler, which calls the one that was there before, as signal-hook does.
extern "C" fn own_handler(signal: libc::c_int) {
    OWN.fetch_add(1, Ordering::SeqCst);
    let earlier = EARLIER.load(Ordering::SeqCst);
    if earlier > 1 {
        // SAFETY: the address of the handler that `sigaction` gave.
        let earlier: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(earlier) };
        earlier(signal);
    }
}

/// Sets a handler; returns the one before.
fn set_handler(signal: libc::c_int, handler: usize) -> usize {
    // SAFETY: the structures are plain numbers, and the handler makes plain atomic steps.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        assert_eq!(libc::sigaction(signal, &action, &mut before), 0);
        before.sa_sigaction
    }
}

static THREADS_READY: AtomicU32 = AtomicU32::new(0);

fn play(role: &str) {
    // The parent of the test may ignore them, as `nohup` and the background of a shell do.
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        set_handler(signal, libc::SIG_DFL);
    }
    match role {
        "return" => {
            std::mem::forget(start());
            lines();
        }
        "exit" => {
            let _guard = start();
            lines();
            std::process::exit(3);
        }
        "quick_exit" => {
            unsafe extern "C" {
                fn quick_exit(status: libc::c_int) -> !;
            }
            let _guard = start();
            lines();
            // SAFETY: ends the process.
            unsafe { quick_exit(4) }
        }
        "wait" => {
            let _guard = start();
            lines();
            wait_for_end();
        }
        "service" => service(),
        "chained" => chained(),
        "stopped" => {
            assert!(start().stop().is_some());
            assert_eq!(set_handler(libc::SIGTERM, libc::SIG_DFL), libc::SIG_DFL);
        }
        "off" => {
            let logger = builder().shutdown_timeout(Duration::ZERO);
            let _guard = logger
                .file(File::new(dir().join("app.log")))
                .init()
                .expect("starts");
            assert_eq!(set_handler(libc::SIGTERM, libc::SIG_DFL), libc::SIG_DFL);
            lines();
            std::process::exit(0);
        }
        "hung" => hung(),
        "busy" => busy(),
        "forked" => forked(),
        "exec" => {
            let _guard = start();
            lines();
            use std::os::unix::process::CommandExt;
            let error = Command::new("true").exec();
            panic!("{error}");
        }
        _ => panic!("no such role: {role}"),
    }
}

/// As programs do: the session is where it is by default, here in the container's own memory.
fn service() {
    let log = File::new(dir().join("app.log"));
    let logger = logdrive::builder("ends").use_env(false).file(log);
    let _guard = logger
        .flush_every(Duration::from_secs(3600))
        .init()
        .expect("starts");
    let path = logdrive::session_path().expect("a session");
    assert!(path.starts_with("/dev/shm"), "{path:?}");
    lines();
    wait_for_end();
}

/// Signals that the program has dealt with before, and a handler that it installs later.
fn chained() {
    set_handler(libc::SIGHUP, libc::SIG_IGN);
    set_handler(libc::SIGINT, own_handler as *const () as usize);
    let guard = start();
    EARLIER.store(
        set_handler(libc::SIGTERM, own_handler as *const () as usize),
        Ordering::SeqCst,
    );
    report("ready");
    wait_for_input();
    // All three have been sent, and the logger is as it was. Another thread may run the handlers, later than this one reads.
    wait_until("the handlers ran", || OWN.load(Ordering::SeqCst) == 2);
    lines();
    assert!(guard.stop().is_some());
    // The action of a signal that nobody handles is the kernel's again.
    assert_eq!(set_handler(libc::SIGHUP, libc::SIG_DFL), libc::SIG_IGN);
    assert_ne!(set_handler(libc::SIGTERM, libc::SIG_DFL), libc::SIG_DFL);
}

/// A sink that takes nothing in the end.
fn hung() {
    // Nobody reads the pipe.
    let logger = builder().shutdown_timeout(Duration::from_millis(400));
    let _guard = logger.console(Console::stdout()).init().expect("starts");
    report("ready");
    (0..4000).for_each(|number| logdrive::info!("| a line that fills a pipe in the end {}", number));
    // Takes its time, because the report goes the same way.
    std::fs::write(dir().join("ready"), "").expect("a file");
    loop {
        std::thread::park();
    }
}

/// Threads that log without a pause.
fn busy() {
    let _guard = builder()
        .full(Full::Block)
        .file(File::new(dir().join("app.log")))
        .init()
        .expect("starts");
    for _ in 0..3 {
        std::thread::spawn(|| {
            for number in 0_u64.. {
                logdrive::info!("| busy {}", number);
                THREADS_READY.fetch_add(u32::from(number == 100), Ordering::SeqCst);
            }
        });
    }
    wait_until("all log", || THREADS_READY.load(Ordering::SeqCst) == 3);
    wait_for_end();
}

/// Children of a fork that end in their ways, one of which has logged.
fn forked() {
    let guard = start();
    lines();
    for way in 0..4 {
        // SAFETY: the child only logs, and ends.
        match unsafe { libc::fork() } {
            0 => match way {
                0 => std::process::exit(0),
                1 => {
                    logdrive::info!("| of a child");
                    std::process::exit(0)
                }
                // SAFETY: sends a signal to this process, which it ends.
                2 => unsafe {
                    libc::raise(libc::SIGTERM);
                    libc::_exit(1)
                },
                _ => {
                    logdrive::info!("| of a child");
                    // SAFETY: as above.
                    unsafe {
                        libc::kill(libc::getpid(), libc::SIGTERM);
                    }
                    loop {
                        std::thread::park();
                    }
                }
            },
            child => {
                let mut status = 0;
                // SAFETY: `status` lives as long as the call.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert_eq!(status, if way < 2 { 0 } else { libc::SIGTERM }, "the child {way}");
            }
        }
    }
    drop(guard);
}

/// The test in which the roles are played.
const STAGE: &str = "every_ordinary_end_drains_and_goes_on_as_it_would_have";

fn command(role: &str, dir: &Path) -> Command {
    let mut command = this_test(STAGE);
    command.env(ROLE, role).env(DIR, dir);
    command
}

fn spawn(role: &str, dir: &Path) -> Process {
    Process::spawn(&mut command(role, dir))
}

/// Number of the program's own lines in its log, each of which is there once and in order.
fn count(dir: &Path) -> usize {
    let text = std::fs::read_to_string(dir.join("app.log")).unwrap_or_default();
    let own = text.lines().filter_map(|line| line.split_once(" | line "));
    own.enumerate()
        .map(|(number, (_, found))| assert_eq!(found, number.to_string()))
        .count()
}

fn sessions(dir: &Path) -> Vec<PathBuf> {
    let found = find_sessions(&dir.join("run")).unwrap_or_default();
    found.into_iter().map(|found| found.path).collect()
}

fn assert_drained(role: &str, dir: &Path, status: ExitStatus, expected: ExitStatus) {
    assert_eq!(status, expected, "{role}");
    assert_eq!(count(dir), LINES, "{role}");
    assert!(sessions(dir).is_empty(), "{role}: a session is left");
}

#[test]
fn every_ordinary_end_drains_and_goes_on_as_it_would_have() {
    if let Some(role) = role() {
        return play(&role);
    }
    for (role, status) in [("return", 0), ("exit", 3), ("quick_exit", 4)] {
        let dir = directory();
        let ended = spawn(role, dir.path()).wait();
        assert_drained(role, dir.path(), ended, ExitStatus::from_raw(status << 8));
    }
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let dir = directory();
        let mut process = spawn("wait", dir.path());
        process.expect("ready");
        process.signal(signal);
        let status = ExitStatus::from_raw(signal.as_raw());
        assert_drained("wait", dir.path(), process.wait(), status);
        let text = std::fs::read_to_string(dir.path().join("app.log")).expect("a log");
        let end = format!(
            "process {} of ends was ended by signal {} (SIG",
            process.pid(),
            signal.as_raw()
        );
        assert!(
            text.lines().last().is_some_and(|line| line.contains(&end)),
            "{text}"
        );
    }
}

#[test]
fn signals_that_a_program_handles_or_ignores_are_its_own() {
    let dir = directory();
    let mut process = spawn("chained", dir.path());
    process.expect("ready");
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        process.signal(signal);
    }
    process.send("go on");
    assert!(process.wait().success());
    assert_eq!(count(dir.path()), LINES);
    assert!(spawn("stopped", directory().path()).wait().success());
}

#[test]
fn without_a_time_for_it_an_end_leaves_the_session() {
    let dir = directory();
    assert!(spawn("off", dir.path()).wait().success());
    assert_eq!(count(dir.path()), 0);
    let left = sessions(dir.path());
    assert_eq!(left.len(), 1);
    logdrive::recover(&left[0], None).expect("it is recovered");
    assert_eq!(count(dir.path()), LINES);
}

#[test]
fn a_log_that_takes_nothing_does_not_keep_a_process_from_its_end() {
    let dir = directory();
    let mut process = spawn("hung", dir.path());
    wait_until("it has logged", || dir.path().join("ready").exists());
    process.signal(Signal::TERM);
    // Another one does neither harm nor good, if the process is still there.
    let _ = kill_process(
        Pid::from_raw(process.pid().cast_signed()).expect("a number"),
        Signal::TERM,
    );
    assert_eq!(process.wait().signal(), Some(libc::SIGTERM));
    let left = sessions(dir.path());
    assert_eq!(left.len(), 1, "the rest is left for recovery");
    let into = dir.path().join("rest.log");
    let recovered = logdrive::recover(&left[0], Some(&logdrive::FileOptions::new(&into))).expect("recovered");
    assert!(
        recovered.end.contains("was ended by signal 15"),
        "{}",
        recovered.end
    );
    let text = std::fs::read_to_string(into).expect("the rest");
    assert!(
        text.lines()
            .any(|line| line.ends_with("| a line that fills a pipe in the end 3999"))
    );
}

#[test]
fn threads_that_go_on_logging_do_not_keep_a_process_from_its_end() {
    let dir = directory();
    let mut process = spawn("busy", dir.path());
    process.expect("ready");
    process.signal(Signal::TERM);
    assert_eq!(process.wait().signal(), Some(libc::SIGTERM));
}

#[test]
fn children_of_a_fork_end_in_their_own_ways() {
    let dir = directory();
    assert!(spawn("forked", dir.path()).wait().success());
    assert_eq!(count(dir.path()), LINES);
    assert!(sessions(dir.path()).is_empty());
    let logs = std::fs::read_dir(dir.path()).expect("a directory");
    let logs = logs.map(|entry| entry.expect("an entry").path());
    let texts = logs
        .filter(|path| path.is_file())
        .map(|path| std::fs::read_to_string(path).expect("a log"));
    assert_eq!(
        texts
            .map(|text| text.matches("| of a child").count())
            .sum::<usize>(),
        2
    );
}

#[test]
fn what_a_program_logged_before_an_exec_is_in_the_log_after_the_next_start() {
    let dir = directory();
    assert!(spawn("exec", dir.path()).wait().success());
    assert_eq!(sessions(dir.path()).len(), 1);
    assert!(spawn("stopped", dir.path()).wait().success());
    assert_eq!(count(dir.path()), LINES);
}

/// Starts a role in a container's mounts, with a `/dev/shm` of its own. `None` without the rights for it.
fn in_container(role: &str, dir: &Path, options: &[&str]) -> Option<Process> {
    if rustix::process::geteuid().as_raw() != 0 {
        eprintln!("skipped: mounts need root");
        return None;
    }
    let played = command(role, dir);
    let script = "mount -t tmpfs tmpfs /dev/shm && exec \"$@\"";
    let mut inside = Command::new("unshare");
    inside
        .arg("--mount")
        .args(options)
        .args(["sh", "-c", script, "sh"]);
    inside.arg(played.get_program()).args(played.get_args());
    inside.envs(played.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut process = Process::spawn(&mut inside);
    process.expect("ready");
    Some(process)
}

#[test]
fn a_service_with_a_dev_shm_of_its_own_has_all_lines_after_sigterm() {
    let dir = directory();
    let Some(mut process) = in_container("service", dir.path(), &[]) else {
        return;
    };
    process.signal(Signal::TERM);
    let status = ExitStatus::from_raw(libc::SIGTERM);
    assert_drained("service", dir.path(), process.wait(), status);
}

#[test]
fn the_first_process_of_a_container_has_its_log_written_and_goes_on() {
    let dir = directory();
    let Some(mut process) = in_container("service", dir.path(), &["--pid", "--fork", "--kill-child"]) else {
        return;
    };
    let children = format!("/proc/{0}/task/{0}/children", process.pid());
    let child = std::fs::read_to_string(children).expect("its child");
    let child = Pid::from_raw(child.trim().parse().expect("one number")).expect("a number");
    for round in 1..=2 {
        kill_process(child, Signal::TERM).expect("it runs");
        wait_until("it has written", || {
            let text = std::fs::read_to_string(dir.path().join("app.log")).unwrap_or_default();
            text.matches("is the first of its container").count() == round
        });
        assert_eq!(count(dir.path()), LINES);
    }
    assert!(process.try_wait().is_none());
    process.kill();
}
