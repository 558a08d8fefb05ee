//! Watch over a row: the machine's own longest stall, as a bare thread sees it that does nothing but read the clock; the
//! memory of the programs; and an end of programs that hang.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The bare thread spins for so long, then leaves the processor to others.
const SPIN: Duration = Duration::from_millis(2);
/// Time in which a row has to end once its programs were killed.
const LAST: Duration = Duration::from_secs(40);
/// Between two measurements of memory.
const MEMORY_EVERY: Duration = Duration::from_millis(25);

/// Seen by the watch.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    /// The longest time between two readings of the clock.
    pub(crate) stall_ns: u64,
    /// The most memory of all programs together (PSS), with that of their own children.
    pub(crate) peak_kib: u64,
    /// Set if programs had to be killed because the row did not end.
    pub(crate) hung: bool,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    pids: Mutex<Vec<u32>>,
}

/// A running watch.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: JoinHandle<Seen>,
}

impl Watch {
    /// Starts to watch; programs of a row that takes longer than `limit` are killed.
    pub(crate) fn start(limit: Duration) -> Watch {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        Watch {
            shared,
            thread: std::thread::spawn(move || watch(&own, limit)),
        }
    }

    /// Watches a program from now on.
    pub(crate) fn add(&self, pid: u32) {
        self.pids().push(pid);
    }

    /// Watches a program no more: it is waited for, so that its number may be that of another one.
    pub(crate) fn forget_all(&self) {
        self.pids().clear();
    }

    /// Ends the watch.
    pub(crate) fn stop(self) -> Seen {
        // Relaxed: nothing else is published by it.
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }

    fn pids(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.shared.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch(shared: &Shared, limit: Duration) -> Seen {
    let mut seen = Seen::default();
    let started = Instant::now();
    let mut memory_at = started;
    // Relaxed: see where it is stored.
    while !shared.stop.load(Ordering::Relaxed) {
        seen.stall_ns = seen.stall_ns.max(spin());
        if memory_at.elapsed() >= MEMORY_EVERY {
            let pids = shared.pids.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let kib = pids.iter().map(|pid| memory_kib(*pid, 0)).sum();
            seen.peak_kib = seen.peak_kib.max(kib);
            memory_at = Instant::now();
            if started.elapsed() > limit {
                seen.hung = true;
                if started.elapsed() > limit + LAST {
                    eprintln!("error: the row hangs although its programs were killed");
                    std::process::exit(1);
                }
                pids.iter().for_each(|pid| kill_tree(*pid, 0));
            }
        }
        std::thread::sleep(SPIN);
    }
    seen
}

/// The longest time between two readings of the clock, in nanoseconds.
fn spin() -> u64 {
    let begin = Instant::now();
    let (mut last, mut longest) = (begin, Duration::ZERO);
    while last - begin < SPIN {
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX)
}

/// Levels of children of a program.
const DEPTH_MAX: u32 = 4;

/// Threads of a program that may have started children: looking at all of a thousand would disturb it.
const THREADS_MAX: usize = 32;

/// Processes that a process has started and that still run.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let mut found = Vec::new();
    for task in tasks.flatten().take(THREADS_MAX) {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(
            text.split_whitespace()
                .filter_map(|word| word.parse::<u32>().ok()),
        );
    }
    found
}

/// The memory of a process and its children; nothing for one that has ended.
fn memory_kib(pid: u32, depth: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let own = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let below: u64 = match depth < DEPTH_MAX {
        true => children(pid)
            .into_iter()
            .map(|child| memory_kib(child, depth + 1))
            .sum(),
        false => 0,
    };
    own.unwrap_or(0) + below
}

fn kill_tree(pid: u32, depth: u32) {
    if depth < DEPTH_MAX {
        children(pid)
            .into_iter()
            .for_each(|child| kill_tree(child, depth + 1));
    }
    // It may have ended by itself meanwhile.
    let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
}
