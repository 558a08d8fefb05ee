//! Starts of a program where an earlier one has left something behind, and its disk takes nothing: each is quick, and
//! nothing is lost. Programs are this one, started anew with a role to play.
#![cfg(target_os = "linux")]

use logdrive::{File, Full, Overflow};
use logdrive_testkit::{
    Process, directory, in_namespaces, report, role, this_test_as, wait_for_input, wait_until,
};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// Variable with the directory in which the program plays its role.
const DIR: &str = "LOGDRIVE_TEST_STARTS_DIR";
/// Records of each program.
const RECORDS: u32 = 1_000;
/// Programs that are killed one after the other.
const STARTS: u32 = 5;
/// Half of the time for which a recovery waits for a disk, in milliseconds: a start that takes longer has waited, too. Its
/// usual time is a hundredth of this.
const START_MS_MAX: u64 = 2_500;
/// Length of a step of [`process_ms`].
const STEP_MS: u64 = 10;

fn dir() -> PathBuf {
    PathBuf::from(std::env::var_os(DIR).expect("a directory"))
}

/// Does something, and measures it in time that the machine gives to this process: another thread counts its own short
/// sleeps meanwhile, so that a stall of the machine takes one of them and not the seconds that it lasts.
fn process_ms<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let steps = scope.spawn(|| {
            let is_going_on = || !is_done.load(Ordering::Relaxed);
            // tidy: allow(sleep): it waits for nothing, and is what is counted
            std::iter::from_fn(|| is_going_on().then(|| sleep(Duration::from_millis(STEP_MS)))).count()
        });
        let done = work();
        is_done.store(true, Ordering::Relaxed);
        (done, steps.join().expect("it counts") as u64 * STEP_MS)
    })
}

/// Starts a logger whose log is on the small file system, logs, and waits until it is killed or told to end.
fn run(dir: &Path, number: &str) {
    let (guard, started_ms) = process_ms(|| {
        logdrive::builder("starts")
            .use_env(false)
            .run_dir(dir.join("run"))
            .file(File::new(dir.join("logs/starts.log")))
            .ring_bytes(1 << 16)
            .full(Full::Block)
            .init()
            .expect("it starts")
    });
    for record in 0..RECORDS {
        logdrive::info!("| {} {}", number, record);
    }
    report(&format!("started {started_ms}"));
    wait_for_input();
    drop(guard);
    report("ended");
}

fn start(test: &str, number: u32) -> (Process, u64) {
    let mut command = this_test_as(test, &format!("run {number}"));
    let mut program = Process::spawn(command.env(DIR, dir()));
    let started_ms = program.expect("started").parse().expect("milliseconds");
    (program, started_ms)
}

/// Numbers of programs and records in a log, in its order.
fn records(log: &Path) -> Vec<(u32, u32)> {
    let text = std::fs::read_to_string(log).expect("the log");
    let records = text
        .lines()
        .filter_map(|line| line.split_once("| ")?.1.split_once(' '));
    records
        .map(|(number, record)| {
            (
                number.parse().expect("a number"),
                record.parse().expect("a number"),
            )
        })
        .collect()
}

fn expected(programs: u32) -> Vec<(u32, u32)> {
    (0..programs)
        .flat_map(|number| (0..RECORDS).map(move |record| (number, record)))
        .collect()
}

/// Writes until the file system is full.
fn fill(path: &Path) {
    let mut filler = std::fs::File::create(path).expect("a file");
    while filler.write_all(&[0; 4096]).is_ok() {}
}

/// Fills the disk, kills programs on it one after the other, and lets the last one have room again.
fn supervise(test: &str) {
    let dir = dir();
    let (log, filler) = (dir.join("logs/starts.log"), dir.join("logs/filler"));
    fill(&filler);
    for number in 0..STARTS {
        let (mut program, started_ms) = start(test, number);
        report(&format!("start {number} on a full disk took {started_ms} ms"));
        assert!(started_ms < START_MS_MAX, "start {number} took {started_ms} ms");
        program.kill();
    }
    std::fs::remove_file(filler).expect("room");
    let (mut program, _) = start(test, STARTS);
    program.send("end");
    program.expect("ended");
    let text = std::fs::read_to_string(&log).expect("the log");
    assert!(
        text.contains("records: ") && text.contains("; it stays there, with "),
        "what is left is told:\n{text}"
    );
    let mut found = records(&log);
    let of_the_last = found.split_off(found.len() - RECORDS as usize);
    assert!(
        of_the_last.iter().all(|(number, _)| *number == STARTS),
        "its records are the last"
    );
    // Sessions have the numbers of processes in their names, and are recovered in the order of those.
    found.sort_unstable();
    assert_eq!(
        found,
        expected(STARTS),
        "each record of the others is in the log once"
    );
}

#[test]
fn starts_on_a_full_disk_are_quick_and_lose_nothing() {
    const TEST: &str = "starts_on_a_full_disk_are_quick_and_lose_nothing";
    match role().as_deref().and_then(|role| role.split_once(' ')) {
        Some(("run", number)) => return run(&dir(), number),
        Some(_) => return supervise(TEST),
        None => {}
    }
    let dir = directory();
    let logs = dir.path().join("logs");
    std::fs::create_dir(&logs).expect("a directory");
    let mut command = this_test_as(TEST, "supervise all");
    command.env(DIR, dir.path());
    let mount = format!("mount -t tmpfs -o size=2m,mode=0755 tmpfs {}", logs.display());
    let Some(mut command) = in_namespaces(&mount, false, &command) else {
        return;
    };
    let output = command.output().expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

/// Longest log of the test of file sizes, in bytes: more than the files of the session have.
const FILE_BYTES_MAX: u64 = 12 << 20;

/// Logs more than a file may have, and waits until it may have it.
fn log_beyond_the_limit(dir: &Path) {
    let guard = logdrive::builder("starts")
        .use_env(false)
        .run_dir(dir.join("run"))
        .file(File::new(dir.join("large.log")).overflow(Overflow::Hold))
        .ring_bytes(1 << 16)
        .full(Full::Block)
        .init()
        .expect("it starts");
    let text = "x".repeat(1_000);
    let logged = std::thread::spawn(move || {
        (0..FILE_BYTES_MAX / 500).for_each(|number| logdrive::info!("| 0 {} {}", number, text));
    });
    wait_until("the limit is met", || {
        logdrive::stats().is_some_and(|stats| stats.sinks[0].counts.errors > 0)
    });
    report("limited");
    wait_for_input();
    logged.join().expect("the thread");
    drop(guard);
    report("ended");
}

/// Runs this test in a role under a soft limit of file sizes.
fn limited(test: &str, role: &str, dir: &Path, bytes_max: u64) -> Process {
    let test = this_test_as(test, role);
    let mut shell = std::process::Command::new("sh");
    // In blocks of 512 bytes.
    let script = format!("ulimit -S -f {}; exec \"$@\"", bytes_max / 512);
    shell
        .args(["-c", &script, "sh"])
        .arg(test.get_program())
        .args(test.get_args());
    shell.envs(test.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Process::spawn(shell.env(DIR, dir))
}

#[test]
fn a_session_fits_into_a_limit_of_file_sizes_or_the_start_says_why_it_does_not() {
    const TEST: &str = "a_session_fits_into_a_limit_of_file_sizes_or_the_start_says_why_it_does_not";
    if role().is_some() {
        let log = dir().join("starts.log");
        let builder = logdrive::builder("starts")
            .use_env(false)
            .run_dir(dir().join("run"));
        match builder.file(File::new(log)).full(Full::Block).init() {
            Ok(guard) => {
                (0..RECORDS).for_each(|number| logdrive::info!("| 0 {}", number));
                drop(guard);
                report("started");
            }
            Err(error) => report(&format!("not started: {error}")),
        }
        return;
    }
    for (bytes_max, starts) in [(3 << 20, true), (64 << 10, false)] {
        let dir = directory();
        let mut program = limited(TEST, "start", dir.path(), bytes_max);
        let said = program.expect("started");
        assert!(program.wait().success(), "no signal");
        assert_eq!(said.is_empty(), starts, "{said}");
        if starts {
            assert_eq!(records(&dir.path().join("starts.log")), expected(1));
        }
    }
}

/// The kernel ends a process with SIGXFSZ that writes beyond its limit, unless the thread keeps that away.
#[test]
fn a_limit_of_file_sizes_is_a_full_disk_and_no_end_of_the_process() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    const TEST: &str = "a_limit_of_file_sizes_is_a_full_disk_and_no_end_of_the_process";
    if role().is_some() {
        return log_beyond_the_limit(&dir());
    }
    let dir = directory();
    let mut program = limited(TEST, "limit", dir.path(), FILE_BYTES_MAX);
    program.expect("limited");
    let log = dir.path().join("large.log");
    assert!(std::fs::metadata(&log).expect("the log").len() <= FILE_BYTES_MAX);
    let pid = Pid::from_raw(program.pid() as i32);
    let (current, maximum) = (None, None);
    prlimit(pid, Resource::Fsize, Rlimit { current, maximum }).expect("the limit is raised");
    program.send("go on");
    program.expect("ended");
    let text = std::fs::read_to_string(&log).expect("the log");
    let lines = text.lines().filter(|line| line.contains("| 0 ")).count() as u64;
    assert_eq!(lines, FILE_BYTES_MAX / 500, "nothing is lost");
    assert_eq!(text.matches("raise `ulimit -f`").count(), 1, "told once");
}

/// Logs with all that the environment says, then ends.
fn log_as_the_environment_says() {
    std::env::set_current_dir(dir()).expect("a directory");
    let guard = logdrive::builder("starts")
        .run_dir("run")
        .init()
        .expect("it starts");
    logdrive::info!("shown");
    logdrive::debug!("not shown");
    logdrive::trace!(target: "net", "of net");
    drop(guard);
    report("ended");
}

/// Runs this test in its role with a terminal as standard error; returns what stands there.
fn on_a_terminal(test: &str, dir: &Path, no_color: &str) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("it is ours");
    let name = ptsname(&ours, Vec::new())
        .expect("its name")
        .into_string()
        .expect("text");
    let theirs = std::fs::File::options()
        .read(true)
        .write(true)
        .open(name)
        .expect("its other end");
    let mut command = this_test_as(test, "environment");
    command
        .env(DIR, dir)
        .env("NO_COLOR", no_color)
        .env("TERM", "xterm")
        .env_remove("CLICOLOR");
    let mut program = Process::spawn(command.stderr(theirs));
    drop(command);
    program.expect("ended");
    program.end();
    let (mut ours, mut shown, mut part) = (std::fs::File::from(ours), Vec::new(), [0; 4096]);
    // The end of the program is an error of the terminal.
    while let Ok(count @ 1..) = ours.read(&mut part) {
        shown.extend_from_slice(&part[..count]);
    }
    String::from_utf8(shown).expect("text")
}

#[test]
fn a_terminal_shows_the_log_behind_the_place_of_the_file_and_nothing_else_does() {
    const TEST: &str = "a_terminal_shows_the_log_behind_the_place_of_the_file_and_nothing_else_does";
    if role().is_some() {
        return log_as_the_environment_says();
    }
    let dir = directory();
    let dir = dir.path().canonicalize().expect("a path");
    let shown = on_a_terminal(TEST, &dir, "");
    let place = format!("logdrive: the log is in {}", dir.join("starts.log").display());
    assert!(shown.starts_with(&place), "{shown}");
    assert!(shown.contains("shown") && shown.contains('\u{1b}'), "{shown}");
    assert!(!shown.contains("not shown"), "{shown}");
    let plain = on_a_terminal(TEST, &dir, "1");
    assert!(plain.contains("shown") && !plain.contains('\u{1b}'), "{plain}");
    let mut command = this_test_as(TEST, "environment");
    let silent = command.env(DIR, &dir).output().expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&silent.stderr),
        "",
        "no terminal, no word"
    );
    let log = std::fs::read_to_string(dir.join("starts.log")).expect("the log");
    assert_eq!(log.matches("not shown").count(), 3, "{log}");
}

#[test]
fn a_part_of_the_variable_that_cannot_be_read_is_told_and_the_rest_holds() {
    const TEST: &str = "a_part_of_the_variable_that_cannot_be_read_is_told_and_the_rest_holds";
    if role().is_some() {
        return log_as_the_environment_says();
    }
    for (text, word) in [("infoo,net=trace", "infoo"), ("5,net=trace", "5")] {
        let dir = directory();
        let mut command = this_test_as(TEST, "environment");
        let output = command.env(DIR, dir.path()).env("LOGDRIVE", text).output();
        assert!(output.expect("it runs").status.success());
        let log = std::fs::read_to_string(dir.path().join("starts.log")).expect("the log");
        let notice = format!("LOGDRIVE: cannot read the filter directive \"{word}\", which may mean info");
        let first = log.lines().find(|line| line.contains(&notice));
        assert!(first.is_some_and(|line| line.contains("WARN")), "{log}");
        assert!(log.contains("of net"), "{log}");
    }
}

#[test]
fn an_error_of_the_start_is_a_sentence_with_advice_in_any_form() {
    let dir = directory();
    let open = dir.path().join("open");
    std::fs::create_dir(&open).expect("a directory");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).expect("its mode");
    let started = logdrive::builder("starts")
        .use_env(false)
        .run_dir(dir.path().join("run"))
        .file(File::new(open.join("starts.log")))
        .init();
    let error = started.expect_err("all may write there");
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(error.to_string().contains("chmod o-w"), "{error}");
}

/// A directory for sessions below a `/dev` that is not the system's would lie on a disk, and stay there.
#[test]
fn nothing_is_made_in_a_system_without_shared_memory() {
    const TEST: &str = "nothing_is_made_in_a_system_without_shared_memory";
    if role().is_some() {
        let guard = logdrive::builder("starts")
            .use_env(false)
            .file(File::new(dir().join("starts.log")))
            .init()
            .expect("it starts");
        logdrive::info!("logged");
        drop(guard);
        assert!(!Path::new("/dev/shm").exists());
        return;
    }
    let dir = directory();
    let mut command = this_test_as(TEST, "start");
    command.env(DIR, dir.path());
    let Some(mut command) = in_namespaces("mount -t tmpfs tmpfs /dev", false, &command) else {
        return;
    };
    let output = command.output().expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let log = std::fs::read_to_string(dir.path().join("starts.log")).expect("the log");
    assert!(log.contains("logged") && log.contains("/dev/shm"), "{log}");
}
