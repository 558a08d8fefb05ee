//! The flight recorder: records below the level of the log are in memory until something happens.
//!
//! A process has one logger, so the tests take turns.

use logdrive::{File, Keep, Level, MemorySink, Stats};
use logdrive_ring::{SessionReader, find_sessions};
use logdrive_testkit::{Random, wait_until};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static LOGGER: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    LOGGER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn log_of(dir: &Path) -> PathBuf {
    dir.join("shop.log")
}

fn builder(dir: &Path, keep: Keep) -> logdrive::Builder {
    logdrive::builder("shop")
        .use_env(false)
        .filter("trace")
        .run_dir(dir.join("run"))
        .file(File::new(log_of(dir)).min_level(Level::Info))
        .keep(keep)
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("the log");
    // Where the directory is on a disk, the log says so.
    let is_of_place = |line: &&str| line.contains("the session is in");
    text.lines()
        .filter(|line| !is_of_place(line))
        .map(str::to_owned)
        .collect()
}

fn count(lines: &[String], part: &str) -> usize {
    lines.iter().filter(|line| line.contains(part)).count()
}

fn position(lines: &[String], part: &str) -> usize {
    lines
        .iter()
        .position(|line| line.contains(part))
        .unwrap_or_else(|| panic!("no line with {part} in {lines:#?}"))
}

fn assert_sums(stats: &Stats) {
    for sink in &stats.sinks {
        assert_eq!(
            stats.committed,
            sink.counts.written_records + sink.dropped() + sink.pending,
            "{stats:#?}"
        );
    }
    let keep = stats.keep;
    assert_eq!(
        keep.kept,
        keep.written + keep.forgotten + keep.held(),
        "{stats:#?}"
    );
}

#[test]
fn an_error_brings_what_led_to_it() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let guard = builder(dir.path(), Keep::bytes(1 << 20)).init().unwrap();
    for number in 0..500 {
        logdrive::debug!("step {}", number);
    }
    logdrive::info!("all is well");
    logdrive::flush();
    assert_eq!(count(&lines(&log_of(dir.path())), "step"), 0);
    let thread = std::thread::Builder::new().name("other".into());
    let other = thread
        .spawn(|| logdrive::trace!(answer = 42, "from another thread"))
        .unwrap();
    other.join().unwrap();
    logdrive::error!("it broke");
    logdrive::debug!("after the error");
    logdrive::flush();
    let (_, stats) = guard.stop().unwrap();
    let found = lines(&log_of(dir.path()));
    assert_eq!(count(&found, "step "), 500, "{found:#?}");
    let begin = position(&found, "flight recorder: 501 records of the last ");
    assert!(
        found[begin].contains("follow, because of ERROR at "),
        "{}",
        found[begin]
    );
    assert!(found[begin].contains("recorder.rs:"), "{}", found[begin]);
    assert!(position(&found, "it broke") < begin);
    let steps: Vec<usize> = (0..500)
        .map(|number| position(&found, &format!("step {number}")))
        .collect();
    assert!(steps.is_sorted() && steps[0] > begin);
    let other = &found[position(&found, "from another thread")];
    assert!(other.contains("other") && other.contains("answer=42"), "{other}");
    assert_eq!(position(&found, "flight recorder: end"), begin + 502);
    assert_eq!(count(&found, "after the error"), 0);
    assert_sums(&stats);
    assert_eq!(
        (stats.keep.kept, stats.keep.written, stats.keep.forgotten),
        (502, 501, 1)
    );
    assert_eq!(stats.sinks[0].dropped(), 502);
    assert_eq!(stats.sinks[0].counts.written_records, 2);
}

#[test]
fn a_named_statement_has_it_written_and_a_storm_is_written_once() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let memory = MemorySink::new(1 << 20);
    let keep = Keep::bytes(1 << 20).no_trigger().trigger_at("special");
    let guard = builder(dir.path(), keep).memory(&memory).init().unwrap();
    // The other sink takes this one, so that it is nothing to keep.
    logdrive::debug!("a sink takes it");
    logdrive::error!("not a trigger");
    assert!(logdrive::flush());
    assert_eq!(count(&memory.lines(), "flight recorder"), 0);
    drop(guard);
    let keep = Keep::bytes(1 << 20).no_trigger().trigger_at("special");
    let guard = builder(dir.path(), keep).init().unwrap();
    for number in 0..10 {
        logdrive::debug!("before {}", number);
        logdrive::debug!(target: "special::case", "the trigger {}", number);
    }
    logdrive::flush();
    let (_, stats) = guard.stop().unwrap();
    let found = lines(&log_of(dir.path()));
    assert_eq!(count(&found, "flight recorder: "), 2, "{found:#?}");
    // What triggers is kept, too, and stands among the others.
    assert_eq!(count(&found, "before "), 1);
    assert_eq!(count(&found, "the trigger "), 1);
    assert_sums(&stats);
}

#[test]
fn the_program_and_a_tool_can_ask_for_it_with_a_span() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let guard = builder(dir.path(), Keep::bytes(1 << 20)).init().unwrap();
    logdrive::debug!("first");
    assert!(logdrive::dump());
    let found = lines(&log_of(dir.path()));
    assert_eq!(count(&found, "because the program asked for it"), 1, "{found:#?}");
    assert_eq!(count(&found, "first"), 1);
    // Nothing is there twice, and nothing more to say.
    assert!(logdrive::dump());
    assert_eq!(count(&lines(&log_of(dir.path())), "flight recorder"), 2);
    logdrive::debug!("second");
    let view = SessionReader::open(&logdrive::session_path().unwrap()).unwrap();
    let file = view.keep().unwrap().expect("a memory");
    let request = file.request(3_600_000_000_000);
    wait_until("the tool gets its answer", || file.answered().0 == request);
    assert_eq!(file.answered().1, 1);
    let found = lines(&log_of(dir.path()));
    assert_eq!(count(&found, "second"), 1);
    assert_eq!(count(&found, "because of a command"), 1);
    logdrive::debug!("third");
    // The drain takes it before the request is looked at, but it is older than a nanosecond by then.
    assert!(logdrive::dump_last(Duration::from_nanos(1)));
    assert_eq!(count(&lines(&log_of(dir.path())), "third"), 0);
    let (_, stats) = guard.stop().unwrap();
    assert_sums(&stats);
    assert_eq!(
        (stats.keep.kept, stats.keep.written, stats.keep.forgotten),
        (3, 2, 1)
    );
}

#[test]
fn memory_is_bounded_and_the_newest_is_there() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let keep = Keep::bytes(1 << 20);
    let guard = builder(dir.path(), keep)
        .full(logdrive::Full::Block)
        .init()
        .unwrap();
    let session = logdrive::session_path().unwrap();
    let bytes = || std::fs::metadata(session.join("keep")).unwrap().len();
    let bytes_before = bytes();
    for number in 0..200_000u64 {
        logdrive::debug!("number {} of many", number);
    }
    logdrive::error!("enough");
    logdrive::flush();
    let held = logdrive::stats().unwrap();
    assert_eq!(bytes(), bytes_before);
    assert!(bytes_before <= (1 << 20) + 4096);
    let (_, stats) = guard.stop().unwrap();
    let found = lines(&log_of(dir.path()));
    let written = count(&found, "of many") as u64;
    assert_eq!(written, held.keep.written);
    assert!(written > 20_000 && written < 60_000, "{written}");
    for number in 200_000 - written..200_000 {
        let line = &found[(number + written + 2 - 200_000) as usize];
        assert!(line.contains(&format!("number {number} of many")), "{line}");
    }
    assert_sums(&stats);
    assert_eq!(stats.committed, 200_001);
}

/// A dump that is written while programs log on is complete and in order.
#[test]
fn records_go_on_while_what_was_kept_is_written() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let keep = Keep::bytes(4 << 20).pause(Duration::ZERO);
    let guard = builder(dir.path(), keep)
        .full(logdrive::Full::Block)
        .init()
        .unwrap();
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            std::thread::spawn(move || {
                for number in 0..150_000u64 {
                    logdrive::debug!("kept {} {}", thread, number);
                    if number % 10_000 == 9_999 {
                        logdrive::error!("error {} {}", thread, number);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    logdrive::dump();
    let (_, stats) = guard.stop().unwrap();
    let found = lines(&log_of(dir.path()));
    assert_eq!(count(&found, "error "), 30);
    for thread in 0..2 {
        let part = format!("kept {thread} ");
        let numbers: Vec<u64> = found
            .iter()
            .filter_map(|line| line.split_once(&part)?.1.split_whitespace().next()?.parse().ok())
            .collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "in order, and once");
    }
    assert_eq!(count(&found, "kept "), stats.keep.written as usize);
    assert_sums(&stats);
    assert_eq!(stats.keep.held(), 0);
}

const CHILD_DIR: &str = "LOGDRIVE_TEST_RECORDER_DIR";
/// A file of that directory: the child's rings are to be empty when it is killed.
const EMPTY_RINGS: &str = "empty-rings";

/// The process that is killed; does nothing when it runs as a test.
#[test]
fn child_that_keeps_and_waits_to_be_killed() {
    let dir = std::env::var_os(CHILD_DIR).map(PathBuf::from);
    assert!(dir.as_ref().is_none_or(|dir| dir.is_dir()));
    let Some(dir) = dir else { return };
    let _guard = builder(&dir, Keep::bytes(1 << 20)).init().unwrap();
    logdrive::info!("it runs");
    for number in 0..1_000 {
        logdrive::debug!("kept before the kill {}", number);
    }
    logdrive::flush();
    for number in 1_000..1_200 {
        logdrive::debug!("kept before the kill {}", number);
    }
    if dir.join(EMPTY_RINGS).exists() {
        logdrive::flush();
    }
    std::fs::write(dir.join("ready"), "").unwrap();
    loop {
        std::thread::park();
    }
}

fn start_child(dir: &Path) -> Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_keeps_and_waits_to_be_killed"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the child is ready", || dir.join("ready").exists());
    child
}

/// The session of a child that was killed.
fn killed_session(dir: &Path) -> PathBuf {
    let mut child = start_child(dir);
    child.kill().unwrap();
    child.wait().unwrap();
    let found = find_sessions(&dir.join("run")).unwrap();
    assert_eq!(found.len(), 1);
    found[0].path.clone()
}

#[test]
fn after_sigkill_recovery_writes_what_was_kept_once() {
    let dir = tempfile::tempdir().unwrap();
    what_was_kept_is_recovered_once(dir.path());
}

#[test]
fn after_sigkill_recovery_writes_what_was_kept_once_also_where_no_ring_holds_more() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(EMPTY_RINGS), "").unwrap();
    what_was_kept_is_recovered_once(dir.path());
}

fn what_was_kept_is_recovered_once(dir: &Path) {
    let session = killed_session(dir);
    assert_eq!(count(&lines(&log_of(dir)), "kept before"), 0);
    let recovered = logdrive::recover(&session, None).unwrap();
    assert_eq!(recovered.kept, 1_200, "{recovered:?}");
    assert!(recovered.damage.is_empty(), "{recovered:?}");
    let found = lines(&log_of(dir));
    for number in 0..1_200 {
        let end = format!("kept before the kill {number}");
        assert_eq!(
            found.iter().filter(|line| line.ends_with(&end)).count(),
            1,
            "{end}"
        );
    }
    let begin = position(&found, "flight recorder: 1,200 records of the last ");
    assert!(found[begin].ends_with("because the process has crashed"));
    assert_eq!(position(&found, "flight recorder: end"), begin + 1_201);
    assert!(
        found.last().unwrap().contains("ended without a word"),
        "{found:#?}"
    );
    assert!(!session.exists());
}

#[test]
fn a_damaged_memory_keeps_nothing_else_from_being_recovered() {
    use std::os::unix::fs::FileExt;
    let mut random = Random::seeded(logdrive_ring::clock::unix_ns());
    for round in 0..8 {
        let dir = tempfile::tempdir().unwrap();
        let session = killed_session(dir.path());
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(session.join("keep"))
            .unwrap();
        match round {
            0 => file.set_len(100).unwrap(),
            1 => file.set_len(1 << 40).unwrap(),
            _ => {
                for _ in 0..1 + random.below(300) {
                    let at = [random.below(160), 4096 + random.below(30_000)][random.below(2) as usize];
                    let value =
                        [random.below(u64::MAX), random.below(1 << 20), u64::MAX][random.below(3) as usize];
                    file.write_all_at(&value.to_le_bytes(), at).unwrap();
                }
            }
        }
        let recovered = logdrive::recover(&session, None).unwrap();
        let found = lines(&log_of(dir.path()));
        assert_eq!(count(&found, "it runs"), 1, "{recovered:?}");
        assert!(found.last().unwrap().contains("ended without a word"));
        assert!(recovered.kept <= 1 << 17, "{recovered:?}");
    }
}
