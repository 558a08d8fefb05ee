//! Faults of disks and clocks under a program that logs: hangs, full disks, missing room, many threads, a fork.
//!
//! A process has one logger, so the tests take turns.

use logdrive::{File, Full, Level, MemorySink, Overflow, Stats, Stopped, Sync};
use logdrive_drain::file::{Fault, Faulty, Operation};
use logdrive_testkit::wait_until;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static LOGGER: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    LOGGER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn builder(dir: &Path) -> logdrive::Builder {
    logdrive::builder("faults")
        .use_env(false)
        .filter("trace")
        .run_dir(dir.join("run"))
}

/// Both sums of the statistics, for `calls` calls.
fn assert_sums(stats: &Stats, calls: u64) {
    assert_eq!(
        calls,
        stats.committed + stats.dropped_calls() + stats.disabled,
        "{stats:#?}"
    );
    for sink in &stats.sinks {
        let counts = &sink.counts;
        assert_eq!(
            stats.committed,
            counts.written_records + sink.dropped() + sink.pending,
            "{stats:#?}"
        );
    }
}

#[test]
fn a_hanging_disk_stalls_nobody_and_every_drop_is_counted() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(Faulty::new());
    let memory = MemorySink::new(1 << 30);
    let guard = builder(dir.path())
        .file(File::new(dir.path().join("a.log")))
        .memory(&memory)
        .full(Full::Drop)
        .ring_bytes(1 << 16)
        .storage(storage.clone())
        .init()
        .unwrap();
    storage.fail(Operation::WriteAt, 0, 1, Fault::Hang);
    logdrive::error!("the write of this one hangs");
    storage.wait_until_hanging(1);
    let mut calls = 1;
    for number in 0..200_000u64 {
        logdrive::info!("number {} {}", number, "x".repeat(80));
        calls += 1;
    }
    // The other sink goes on while the file hangs.
    wait_until("the memory sink has news", || memory.lines().len() > 100);
    logdrive::error!("still here");
    calls += 1;
    wait_until("the memory sink has the error", || {
        memory.lines().iter().any(|line| line.contains("still here"))
    });
    let hanging = logdrive::stats().unwrap();
    assert_eq!(hanging.sinks[0].counts.written_records, 0);
    storage.clear();
    assert!(logdrive::flush());
    logdrive::info!("after the hang");
    calls += 1;
    let (stopped, stats) = guard.stop().unwrap();
    assert_eq!(stopped, Stopped::Complete);
    assert_sums(&stats, calls);
    let text = std::fs::read_to_string(dir.path().join("a.log")).unwrap();
    assert!(text.contains("after the hang"));
    assert!(
        text.contains("records dropped: "),
        "the loss is told where it happened"
    );
    let lines = text.lines().filter(|line| !line.contains(" logdrive ")).count() as u64;
    assert_eq!(lines, stats.sinks[0].counts.written_records);
}

#[test]
fn lines_that_come_one_by_one_do_not_use_up_the_buffers_of_a_disk_that_hangs() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(Faulty::new());
    let memory = MemorySink::new(1 << 20);
    // Whatever is in a buffer is due at every pass of the drain.
    let guard = builder(dir.path())
        .flush_every(Duration::ZERO)
        .file(File::new(dir.path().join("a.log")))
        .memory(&memory)
        .storage(storage.clone())
        .init()
        .unwrap();
    storage.fail(Operation::WriteAt, 0, 1, Fault::Hang);
    logdrive::info!("the write of this one hangs");
    storage.wait_until_hanging(1);
    // Far more than there are buffers, each in a pass of its own: it is with the memory before the next one comes.
    let mut calls = 1;
    for number in 0..60 {
        match number % 3 {
            0 => logdrive::error!("number {}", number),
            _ => logdrive::info!("number {}", number),
        }
        calls += 1;
        wait_until("the memory has the line", || {
            let lines = memory.lines();
            lines.iter().filter(|line| !line.contains(" logdrive ")).count() == calls
        });
    }
    let hanging = logdrive::stats().unwrap();
    assert_eq!(hanging.sinks[0].counts.written_records, 0);
    assert_eq!(hanging.sinks[0].dropped(), 0, "{hanging:#?}");
    storage.clear();
    let (stopped, stats) = guard.stop().unwrap();
    assert_eq!(stopped, Stopped::Complete);
    assert_sums(&stats, calls as u64);
    assert_eq!(stats.sinks[0].counts.written_records, calls as u64);
    let text = std::fs::read_to_string(dir.path().join("a.log")).unwrap();
    let of_program = text.lines().filter(|line| !line.contains(" logdrive "));
    assert_eq!(of_program.count(), calls);
    let numbers = text.lines().filter_map(|line| line.split("number ").nth(1));
    assert!(numbers.eq((0..60).map(|number| number.to_string())), "{text}");
}

#[test]
fn a_full_disk_is_counted_told_once_and_got_over() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(Faulty::new());
    let guard = builder(dir.path())
        .file(File::new(dir.path().join("a.log")).overflow(Overflow::Hold))
        .full(Full::Block)
        .storage(storage.clone())
        .init()
        .unwrap();
    storage.fail(Operation::WriteAt, 0, 3, Fault::Error(28));
    for number in 0..1000 {
        logdrive::info!("number {}", number);
    }
    assert!(logdrive::flush());
    let (stopped, stats) = guard.stop().unwrap();
    assert_eq!(stopped, Stopped::Complete);
    assert_sums(&stats, 1000);
    assert_eq!(stats.sinks[0].counts.written_records, 1000);
    assert_eq!(stats.sinks[0].counts.errors, 3);
    let text = std::fs::read_to_string(dir.path().join("a.log")).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("number ")).count(), 1000);
    assert_eq!(
        text.matches("No space left on device").count(),
        1,
        "told once:\n{text}"
    );
}

#[test]
fn what_a_dead_disk_did_not_take_is_recovered_later() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(Faulty::new());
    let path = dir.path().join("a.log");
    let guard = builder(dir.path())
        .file(File::new(&path))
        .full(Full::Drop)
        .storage(storage.clone())
        .init()
        .unwrap();
    storage.fail_all(0, Fault::Error(5));
    for number in 0..1000 {
        logdrive::info!("number {}", number);
    }
    let session = logdrive::session_path().unwrap();
    let (stopped, stats) = guard.stop().unwrap();
    assert_eq!(stopped, Stopped::LeftForRecovery);
    assert_sums(&stats, 1000);
    storage.clear();
    // Our own process is alive, so its session is recovered by another one; here it is enough that nothing is gone.
    let view = logdrive_ring::SessionReader::open(&session).unwrap();
    assert_eq!(Stats::of_view(&view).pending(), 1000);
}

#[test]
fn ten_thousand_short_threads_use_few_rings() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let memory = MemorySink::new(1 << 30);
    let guard = builder(dir.path())
        .memory(&memory)
        .full(Full::Block)
        .ring_bytes(1 << 16)
        .init()
        .unwrap();
    for batch in 0..1000 {
        std::thread::scope(|scope| {
            for thread in 0..10 {
                scope.spawn(move || logdrive::info!("batch {} thread {}", batch, thread));
            }
        });
    }
    let (_, stats) = guard.stop().unwrap();
    assert_sums(&stats, 10_000);
    assert_eq!(stats.committed, 10_000);
    assert_eq!(memory.lines().len(), 10_000);
    assert!(stats.rings.0 < 1_000, "{} rings", stats.rings.0);
}

#[test]
fn records_of_many_threads_come_in_the_order_of_their_times() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.log");
    let guard = builder(dir.path())
        .file(File::new(&path))
        .full(Full::Block)
        .init()
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || (0..50_000).for_each(|number| logdrive::debug!("{} {}", thread, number)));
        }
    });
    let (_, stats) = guard.stop().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let of_program = text.lines().filter(|line| !line.contains(" logdrive "));
    let times: Vec<&str> = of_program.map(|line| &line[..30]).collect();
    assert_eq!(times.len(), 200_000);
    let backwards = times.windows(2).filter(|pair| pair[0] > pair[1]).count() as u64;
    assert!(
        backwards <= stats.late,
        "{backwards} steps back, {} records late",
        stats.late
    );
}

#[test]
fn disabled_calls_are_in_the_sum_when_they_are_counted() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let guard = builder(dir.path())
        .discard()
        .filter("info")
        .count_disabled(true)
        .full(Full::Block)
        .init()
        .unwrap();
    for number in 0..1000 {
        logdrive::info!("{}", number);
        logdrive::debug!("{}", number);
        logdrive::trace!("{}", number);
    }
    let (_, stats) = guard.stop().unwrap();
    assert_sums(&stats, 3000);
    assert_eq!(stats.disabled, 2000);
}

#[test]
fn an_error_is_in_the_file_at_once_and_any_record_soon() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.log");
    let guard = builder(dir.path()).file(File::new(&path)).init().unwrap();
    logdrive::info!("waits for the timer");
    wait_until("the line is in the file", || {
        std::fs::read_to_string(&path).unwrap().contains("timer")
    });
    logdrive::error!("does not wait");
    wait_until("the error is in the file", || {
        std::fs::read_to_string(&path).unwrap().contains("does not")
    });
    drop(guard);
}

#[test]
fn a_small_file_system_gives_an_error_and_never_a_fault() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    // A ring larger than any file system here has room for.
    let error = builder(dir.path()).discard().ring_bytes(1 << 30).init();
    if let Ok(guard) = error {
        // There was room for it: then it works.
        logdrive::info!("room enough");
        drop(guard);
    }
    let fallback = logdrive::builder("faults")
        .use_env(false)
        .discard()
        .run_dir("/proc/none")
        .init();
    let text = fallback.map(drop).unwrap_err().to_string();
    assert!(text.contains("/proc/none"), "{text}");
}

#[test]
fn logging_starts_again_after_its_end() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let memory = MemorySink::new(1 << 20);
        let guard = builder(dir.path()).memory(&memory).init().unwrap();
        assert!(
            builder(dir.path()).memory(&memory).init().is_err(),
            "only one at a time"
        );
        std::thread::scope(|scope| {
            scope.spawn(|| logdrive::info!("round {}", round));
        });
        logdrive::event!(Level::Info, "round {}", round);
        drop(guard);
        assert_eq!(memory.lines().len(), 2);
        logdrive::info!("nobody listens");
    }
}

const EIO: Fault = Fault::Error(libc::EIO);

/// The answer was about the disk flushes of the call itself; one that had failed before was forgotten.
#[test]
fn a_disk_flush_in_time_that_failed_is_told_by_the_next_sync() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(Faulty::new());
    let file = File::new(dir.path().join("a.log")).sync(Sync::Every(Duration::from_millis(10)));
    let guard = builder(dir.path())
        .file(file)
        .storage(storage.clone())
        .init()
        .unwrap();
    assert!(logdrive::sync());
    storage.fail(Operation::Sync, 0, 1, EIO);
    logdrive::info!("in doubt");
    wait_until("the disk flush in time has failed", || {
        logdrive::stats().is_some_and(|stats| stats.sinks[0].counts.errors > 0)
    });
    assert!(!logdrive::sync());
    logdrive::info!("sound");
    assert!(logdrive::sync(), "what was logged since the answer is on disk");
    guard.stop().unwrap();
    let text = std::fs::read_to_string(dir.path().join("a.log")).unwrap();
    assert!(text.contains("sealed") && !text.contains("in doubt"), "{text}");
}

#[test]
fn a_record_whose_disk_flush_failed_is_written_again_to_a_new_file() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(Faulty::new());
    let guard = builder(dir.path())
        .file(File::new(dir.path().join("a.log")).sync(Sync::AtLevel))
        .storage(storage.clone())
        .init()
        .unwrap();
    storage.fail(Operation::Sync, 0, 1, EIO);
    logdrive::error!("a record that must not be lost");
    assert!(!logdrive::sync(), "the first try has failed");
    assert!(logdrive::sync());
    guard.stop().unwrap();
    let text = std::fs::read_to_string(dir.path().join("a.log")).unwrap();
    assert!(text.contains("a record that must not be lost"), "{text}");
    assert!(text.contains("are in the new file, too"), "{text}");
}

/// Lines went to the deleted file for up to a second: 33,642 at once.
#[test]
fn no_line_goes_to_a_log_file_after_it_was_deleted() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("a.log");
    let guard = builder(dir.path())
        .file(File::new(&log).flush_every(Duration::from_millis(1)))
        .full(Full::Block)
        .init()
        .unwrap();
    let is_done = AtomicBool::new(false);
    let calls = 60_000u64;
    let mut deleted = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..calls {
                logdrive::info!("number {} {}", number, "x".repeat(60));
            }
            is_done.store(true, Ordering::Relaxed);
        });
        while !is_done.load(Ordering::Relaxed) && deleted.len() < 200 {
            let Ok(file) = std::fs::File::open(&log) else {
                continue;
            };
            let _ = std::fs::remove_file(&log);
            let bytes = file.metadata().unwrap().len();
            deleted.push((file, bytes));
        }
    });
    guard.stop().unwrap();
    let numbers = |text: &str| -> Vec<u64> {
        let numbers = text
            .lines()
            .filter_map(|line| line.split_once("number ")?.1.split(' ').next()?.parse().ok());
        numbers.collect()
    };
    // Those that were in the files when they were deleted, and those that are there now.
    let mut found: Vec<u64> = numbers(&std::fs::read_to_string(&log).unwrap());
    for (mut file, bytes) in deleted {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut file, &mut text).unwrap();
        found.extend(numbers(&text[..bytes as usize]));
    }
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, (0..calls).collect::<Vec<_>>());
}
