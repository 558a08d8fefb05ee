//! Programs with little shared memory, as a container has it: each starts, and loses nothing; and programs that take no
//! more of it than they need. Programs are this one, started anew with a role to play.
#![cfg(target_os = "linux")]

use logdrive::{File, Full, Overflow};
use logdrive_testkit::{directory, in_namespaces, role, this_test_as};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

/// Variable with the directory in which the program plays its role.
const DIR: &str = "LOGDRIVE_TEST_MEMORY_DIR";
/// Records of each thread.
const RECORDS: usize = 50;

/// A process has one logger at a time; the tests that start one here take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn dir() -> PathBuf {
    PathBuf::from(std::env::var_os(DIR).expect("a directory"))
}

fn log_path(dir: &Path) -> PathBuf {
    dir.join("memory.log")
}

fn init() -> logdrive::Guard {
    logdrive::builder("memory")
        .use_env(false)
        .file(File::new(log_path(&dir())).overflow(Overflow::Hold))
        .init()
        .expect("it starts")
}

/// Logs in so many threads that all live at the same time.
fn log_in_threads(threads: usize) {
    log_in_threads_and(threads, &|| {});
}

/// As [`log_in_threads`], and does something while all threads live.
fn log_in_threads_and(threads: usize, work: &(dyn Fn() + Sync)) {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let barrier = &barrier;
            scope.spawn(move || {
                // All at once, so that the drain finds records in all rings.
                barrier.wait();
                for number in 0..RECORDS {
                    logdrive::info!("| {} {}", thread, number);
                    std::thread::yield_now();
                }
                barrier.wait();
                if thread == 0 {
                    work();
                }
                barrier.wait();
            });
        }
    });
}

/// Runs this test in a role, with a `/dev/shm` of so many bytes; returns its log. `None` where that is not possible here.
fn run_with_shm(test: &str, role: &str, shm_bytes: u64) -> Option<String> {
    let dir = directory();
    let mut command: Command = this_test_as(test, role);
    command.env(DIR, dir.path());
    let script = format!("mount -t tmpfs -o size={shm_bytes} tmpfs /dev/shm");
    let output = in_namespaces(&script, false, &command)?
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let log = std::fs::read_to_string(log_path(dir.path())).unwrap_or_default();
    assert!(output.status.success(), "{} {said} {log}", output.status);
    Some(log)
}

/// Records in a log, each of which is there once.
fn records(log: &str) -> usize {
    let lines: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once("| "))
        .map(|(_, record)| record)
        .collect();
    let distinct: HashSet<&&str> = lines.iter().collect();
    assert_eq!(distinct.len(), lines.len(), "each once");
    lines.len()
}

/// Number of records of each thread in a burst: more than two rings take, and less than the largest one does.
const BURST: usize = 8_000;

fn log_burst(threads: usize) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for number in 0..BURST {
                    logdrive::info!("| {} {}", thread, number);
                }
            });
        }
    });
}

fn init_in(dir: &Path) -> logdrive::Guard {
    logdrive::builder("memory")
        .use_env(false)
        .run_dir(dir.join("run"))
        .file(File::new(log_path(dir)).overflow(Overflow::Hold))
        .full(Full::Drop)
        .init()
        .expect("it starts")
}

/// Numbers of one thread's records in a log, in its order.
fn numbers(log: &str, thread: usize) -> Vec<usize> {
    let begin = format!("| {thread} ");
    let found = log.lines().filter_map(|line| line.split_once(&begin));
    found
        .map(|(_, number)| number.parse().expect("a number"))
        .collect()
}

/// Bytes that all files of a directory's sessions have.
fn held_bytes(run_dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let sessions = std::fs::read_dir(run_dir).expect("sessions").flatten();
    let files = sessions.flat_map(|session| std::fs::read_dir(session.path()).expect("files").flatten());
    files
        // The drain makes a ring ahead of its need, whose file gets another name meanwhile.
        .filter_map(|file| Some(file.metadata().ok()?.blocks() * 512))
        .sum()
}

/// The larger ring is there before a record is dropped, and no thread's records change places.
#[test]
fn a_burst_that_fills_small_rings_gets_larger_ones_and_keeps_its_order() {
    let _turn = turn();
    let dir = directory();
    let guard = init_in(dir.path());
    log_burst(8);
    drop(guard);
    let log = std::fs::read_to_string(log_path(dir.path())).expect("the log");
    assert!(
        !log.contains("dropped"),
        "{}",
        log.lines().last().unwrap_or_default()
    );
    for thread in 0..8 {
        assert!(numbers(&log, thread).into_iter().eq(0..BURST), "thread {thread}");
    }
}

#[test]
fn records_in_small_rings_and_in_larger_ones_are_recovered_in_their_order() {
    const TEST: &str = "records_in_small_rings_and_in_larger_ones_are_recovered_in_their_order";
    if role().is_some() {
        let _guard = init_in(&dir());
        log_burst(4);
        let pid = rustix::process::getpid();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is killed");
    }
    let dir = directory();
    let mut command = this_test_as(TEST, "die");
    let status = command.env(DIR, dir.path()).status().expect("it runs");
    assert!(!status.success());
    let _turn = turn();
    drop(init_in(dir.path()));
    let log = std::fs::read_to_string(log_path(dir.path())).expect("the log");
    for thread in 0..4 {
        assert!(numbers(&log, thread).into_iter().eq(0..BURST), "thread {thread}");
    }
}

#[test]
fn threads_that_log_little_take_little_memory() {
    let _turn = turn();
    let dir = directory();
    let guard = init_in(dir.path());
    logdrive::info!("first");
    let first = held_bytes(&dir.path().join("run"));
    assert!(first < 4 << 20, "{first} bytes of one thread");
    log_in_threads(300);
    let all = held_bytes(&dir.path().join("run"));
    assert!(all < 48 << 20, "{all} bytes of 300 threads");
    drop(guard);
    let log = std::fs::read_to_string(log_path(dir.path())).expect("the log");
    assert_eq!(records(&log), 300 * RECORDS);
}

#[test]
fn a_program_starts_with_a_mebibyte_of_shared_memory() {
    const TEST: &str = "a_program_starts_with_a_mebibyte_of_shared_memory";
    if role().is_some() {
        let guard = init();
        assert_eq!(
            std::fs::read_dir("/dev/shm").expect("shared memory").count(),
            1,
            "it is used"
        );
        log_in_threads(1);
        drop(guard);
        return;
    }
    for mebibytes in [1, 4, 14] {
        let Some(log) = run_with_shm(TEST, "start", mebibytes << 20) else {
            return;
        };
        assert_eq!(records(&log), RECORDS, "{mebibytes} MiB: {log}");
    }
}

/// Calls of threads without a ring were dropped, and each of them tried to make one.
#[test]
fn threads_for_which_there_is_no_room_log_in_private_memory() {
    const TEST: &str = "threads_for_which_there_is_no_room_log_in_private_memory";
    const THREADS: usize = 200;
    if role().is_some() {
        let guard = init();
        log_in_threads(THREADS);
        // The notice comes once a second.
        logdrive_testkit::wait_until("it is told", || {
            let log = std::fs::read_to_string(log_path(&dir())).unwrap_or_default();
            log.contains("no room for the ring")
        });
        drop(guard);
        return;
    }
    let Some(log) = run_with_shm(TEST, "threads", 4 << 20) else {
        return;
    };
    assert_eq!(records(&log), THREADS * RECORDS);
    assert_eq!(
        log.matches("no room for the ring of a thread").count(),
        1,
        "told once"
    );
    assert!(!log.contains("dropped"), "{log}");
}

/// Empty output buffers of a dead process may have no memory: where there is none left, touching one was a SIGBUS.
#[test]
fn a_dead_process_is_recovered_in_full_shared_memory() {
    const TEST: &str = "a_dead_process_is_recovered_in_full_shared_memory";
    match role().as_deref() {
        Some("die") => {
            let _guard = init();
            log_in_threads(4);
            std::process::abort();
        }
        Some(_) => {
            let mut command = this_test_as(TEST, "die");
            assert!(!command.env(DIR, dir()).status().expect("it runs").success());
            let mut fill = Command::new("sh");
            fill.args(["-c", "cat /dev/zero > /dev/shm/full"]);
            // It ends for lack of room.
            let _failed = fill.stderr(std::process::Stdio::null()).status();
            drop(init());
        }
        None => {
            let Some(log) = run_with_shm(TEST, "recover", 8 << 20) else {
                return;
            };
            assert_eq!(records(&log), 4 * RECORDS, "{log}");
            assert!(log.contains("SIGABRT"), "{log}");
        }
    }
}

/// Real memory of this process, with its part of what it shares, in KiB.
fn pss_kib() -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("its memory");
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB"));
    kib.expect("a size").trim().parse().expect("a number")
}

/// A thousand threads took a gigabyte.
#[test]
fn one_thread_takes_at_most_8_mb_and_a_thousand_take_150() {
    const TEST: &str = "one_thread_takes_at_most_8_mb_and_a_thousand_take_150";
    if let Some(threads) = role().and_then(|role| role.parse().ok()) {
        let guard = init_in(&dir());
        let seen_kib = AtomicUsize::new(usize::MAX);
        log_in_threads_and(threads, &|| seen_kib.store(pss_kib(), Ordering::Relaxed));
        let seen_kib = seen_kib.into_inner();
        println!("{seen_kib} KiB");
        let most_kib = if threads == 1 { 8_000 } else { 150_000 };
        assert!(seen_kib <= most_kib, "{seen_kib} KiB of {threads} threads");
        drop(guard);
        return;
    }
    for threads in ["1", "1000"] {
        let dir = directory();
        let mut command = this_test_as(TEST, threads);
        let output = command.env(DIR, dir.path()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        let log = std::fs::read_to_string(log_path(dir.path())).expect("the log");
        let threads: usize = threads.parse().expect("a number");
        assert_eq!(records(&log), threads * RECORDS, "{said}");
        println!("{threads} threads: {said}");
    }
}

/// `init` failed.
#[test]
fn a_program_without_room_for_a_session_logs_from_memory_of_its_own() {
    const TEST: &str = "a_program_without_room_for_a_session_logs_from_memory_of_its_own";
    if role().is_some() {
        let small = dir().join("small");
        let file = File::new(log_path(&small)).overflow(Overflow::Hold);
        let guard = logdrive::builder("memory").use_env(false).file(file).init();
        let guard = guard.expect("it starts");
        assert!(
            logdrive::session_path().is_none(),
            "no other process finds its session"
        );
        log_in_threads(8);
        assert!(logdrive::flush());
        // Larger rings have no file either.
        std::thread::scope(|scope| {
            scope.spawn(|| (0..2_000).for_each(|number| logdrive::info!("burst {}", number)));
        });
        drop(guard);
        std::fs::copy(log_path(&small), log_path(&dir())).expect("the log");
        return;
    }
    let dir = directory();
    let small = dir.path().join("small");
    std::fs::create_dir(&small).expect("a directory");
    let mut command = this_test_as(TEST, "start");
    command.env(DIR, dir.path());
    let script = format!(
        "mount -t tmpfs -o size=128k tmpfs /dev/shm && mount -t tmpfs -o size=320k,mode=0755 tmpfs {}",
        small.display()
    );
    let Some(mut command) = in_namespaces(&script, false, &command) else {
        return;
    };
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let log = std::fs::read_to_string(log_path(dir.path())).expect("the log");
    assert_eq!(records(&log), 8 * RECORDS, "{log}");
    assert_eq!(log.matches(" burst ").count(), 2_000, "{log}");
    assert!(
        log.contains("instead the session is in memory of the process alone, and lost when that is killed"),
        "{log}"
    );
    assert!(!log.contains("dropped"), "{log}");
}
