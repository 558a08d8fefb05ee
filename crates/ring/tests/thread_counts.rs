//! The counts of threads add up, whichever thread reports them.
#![cfg(not(loom))]

use logdrive_ring::control::{ControlEntry, ControlRef, EVERY, PER_SECOND, Switch};
use logdrive_ring::{
    BUFFER_BYTES_MIN, CallsiteCounters, CallsiteCounts, CallsiteTotals, SessionOptions, SessionWriter,
    control, thread_counts,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, OnceLock};

/// All tests share one session, whose counters are found by a plain function.
struct Shared {
    session: SessionWriter,
    dir: PathBuf,
}

static COUNTERS: OnceLock<&'static CallsiteCounters> = OnceLock::new();

fn shared() -> MutexGuard<'static, Shared> {
    static SHARED: OnceLock<Mutex<Shared>> = OnceLock::new();
    let make = || {
        let dir = std::env::temp_dir().join(format!("logdrive-thread_counts-test-{}", std::process::id()));
        let options = SessionOptions {
            app: "thread_counts".to_owned(),
            run_dirs: vec![dir.clone()],
            ring_bytes: 1 << 16,
            config: Vec::new(),
            sink_count: 1,
            buffers_per_sink: 1,
            buffer_bytes: BUFFER_BYTES_MIN,
            sinks_at_start: 0,
            keep_bytes: 0,
        };
        let session = SessionWriter::create(&options).unwrap().0;
        COUNTERS.get_or_init(|| session.counters());
        Mutex::new(Shared { session, dir })
    };
    SHARED
        .get_or_init(make)
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn counts_of(entry: &'static ControlEntry) -> Option<&'static CallsiteCounts> {
    COUNTERS.get()?.of_entry(entry)
}

fn totals(entry: &'static ControlEntry) -> CallsiteTotals {
    counts_of(entry).unwrap().totals()
}

impl Shared {
    fn callsite(&self, control: u32, parameter: u64) -> &'static ControlEntry {
        let entry = self.session.register(b"callsite", control::ON).unwrap();
        control::settle(entry, || 0, |_| Switch { control, parameter });
        entry
    }
}

/// Calls in a thread of their own, which then ends.
fn in_thread(calls: usize, entry: &'static ControlEntry, pass: fn(&'static ControlEntry) -> bool) -> usize {
    let thread = std::thread::spawn(move || (0..calls).filter(|_| pass(entry)).count());
    thread.join().unwrap()
}

fn every(entry: &'static ControlEntry) -> bool {
    thread_counts::pass_every(entry, counts_of)
}

fn budget(entry: &'static ControlEntry) -> bool {
    thread_counts::pass_budget(entry, counts_of)
}

#[test]
fn the_first_call_passes_and_then_one_of_so_many() {
    let shared = shared();
    for calls in [1, 2, 10, 256, 257, 1000] {
        let entry = shared.callsite(EVERY, calls);
        let passed = std::thread::spawn(move || (0..5_000).filter(|_| every(entry)).count());
        let passed = passed.join().unwrap() as u64;
        assert_eq!(passed, 5_000u64.div_ceil(calls), "one of {calls}");
        assert_eq!(totals(entry).sampled_out, 5_000 - passed, "one of {calls}");
    }
}

#[test]
fn a_rule_that_changes_holds_from_the_next_call_on() {
    let shared = shared();
    let entry = shared.callsite(EVERY, 1_000_000);
    let thread = std::thread::spawn(move || {
        assert_eq!((0..600).filter(|_| every(entry)).count(), 1);
        let switch = Switch {
            control: EVERY,
            parameter: 5,
        };
        control::settle(entry, || 0, |_| switch);
        (0..10).filter(|_| every(entry)).count()
    });
    assert_eq!(thread.join().unwrap(), 2);
    assert_eq!(totals(entry).sampled_out, 599 + 8);
}

#[test]
fn short_threads_together_keep_their_share() {
    let shared = shared();
    let entry = shared.callsite(EVERY, 100);
    let passed: usize = (0..200).map(|_| in_thread(10, entry, every)).sum();
    // 20 on an average; beyond these bounds once in more runs than there will be.
    assert!((2..80).contains(&passed), "{passed}");
    assert_eq!(totals(entry).sampled_out, 2_000 - passed as u64);
}

#[test]
fn no_more_calls_pass_than_the_budget_has() {
    let shared = shared();
    let entry = shared.callsite(PER_SECOND, 7);
    let passed: usize = (0..4).map(|_| in_thread(1_000, entry, budget)).sum();
    assert_eq!(passed, 7);
    assert_eq!(totals(entry).sampled_out, 4_000 - 7);
    entry.add_budget(3, 7);
    assert_eq!(in_thread(100, entry, budget), 3);
}

#[test]
fn more_callsites_than_a_thread_has_counters_for_lose_nothing() {
    let shared = shared();
    let entries: Vec<_> = (0..200).map(|_| shared.callsite(EVERY, 4)).collect();
    let calls = entries.clone();
    let passed = std::thread::spawn(move || {
        let round = |_| calls.iter().filter(|entry| every(entry)).count();
        (0..40).map(round).sum::<usize>()
    });
    let passed = passed.join().unwrap() as u64;
    let sampled_out: u64 = entries.iter().map(|entry| totals(entry).sampled_out).sum();
    assert_eq!(passed + sampled_out, 200 * 40);
    // 2,000 on an average, although callsites push each other out.
    assert!((1_200..3_000).contains(&passed), "{passed}");
}

#[test]
fn others_may_tell_for_a_thread_that_lives() {
    let shared = shared();
    let entry = shared.callsite(PER_SECOND, 0);
    let (counted, reported) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            (0..100).for_each(|_| assert!(!budget(entry)));
            thread_counts::count_dropped(entry, counts_of);
            counted.wait();
            reported.wait();
            (0..100).for_each(|_| assert!(!budget(entry)));
        });
        counted.wait();
        assert_eq!(totals(entry).sampled_out, 0);
        thread_counts::report_all();
        assert_eq!((totals(entry).sampled_out, totals(entry).dropped), (100, 1));
        thread_counts::report_all();
        assert_eq!((totals(entry).sampled_out, totals(entry).dropped), (100, 1));
        reported.wait();
        // A scope does not wait for what a thread does at its very end; a join does.
        thread.join().unwrap();
    });
    assert_eq!((totals(entry).sampled_out, totals(entry).dropped), (200, 1));
}

/// While threads count, others report for them all the time: nothing is lost, and nothing is reported twice.
#[test]
fn telling_at_the_same_time_adds_up() {
    const CALLS: usize = 200_000;
    let shared = shared();
    let entry = shared.callsite(PER_SECOND, 0);
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| (0..CALLS).for_each(|_| assert!(!budget(entry)))))
            .collect();
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                thread_counts::report_all();
            }
        });
        // Joined, and not only left: a thread reports its last calls after its closure has returned.
        let joined: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        has_ended.store(true, Ordering::Relaxed);
        assert!(joined.iter().all(Result::is_ok));
    });
    thread_counts::report_all();
    assert_eq!(totals(entry).sampled_out, 3 * CALLS as u64);
}

#[test]
fn counts_are_those_of_the_session_that_the_entry_belongs_to() {
    static ALONE: ControlRef = ControlRef::unregistered();
    let shared = shared();
    assert!(counts_of(ALONE.entry()).is_none());
    assert!(!budget(ALONE.entry()), "counted nowhere");
    let entry = shared.callsite(PER_SECOND, 0);
    // Another program has written to the number, which is not relied on.
    let before = totals(entry).sampled_out;
    assert_eq!(in_thread(3, entry, budget), 0);
    assert_eq!(totals(entry).sampled_out, before + 3);
    assert!(shared.session.path().starts_with(&shared.dir));
}
