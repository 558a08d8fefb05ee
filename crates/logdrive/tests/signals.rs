//! Signal handlers that log, and that fork, while the thread that they interrupt is inside of the logger.
//!
//! Each test plays a role in a program of its own: this one, started anew.
#![cfg(target_os = "linux")]

use logdrive::foreign::ForeignSite;
use logdrive::{File, Full, Guard, Stopped};
use logdrive_wire::{Callsite, Field, Kind, Level, kind::FieldKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Variable with the directory in which the program plays its role.
const DIR: &str = "LOGDRIVE_TEST_SIGNALS_DIR";

/// Time after which a thread that makes no progress is taken for one that waits for itself.
const STALLED: Duration = Duration::from_secs(30);

fn start(dir: &Path) -> Guard {
    logdrive::builder("signals")
        .use_env(false)
        .filter("trace")
        .run_dir(dir.join("run"))
        .file(File::new(dir.join("app.log")))
        .full(Full::Block)
        .init()
        .unwrap()
}

/// Plays the role in a program of its own, and returns its directory when it has ended well.
fn play(test: &str, role: fn(&Path)) -> Option<tempfile::TempDir> {
    if let Some(dir) = std::env::var_os(DIR) {
        role(Path::new(&dir));
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let played = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&played.stderr);
    assert!(played.status.success(), "{}: {text}", played.status);
    Some(dir)
}

/// Has a function called in the calling thread by signals that another thread sends, without a pause, until `done`.
fn interrupt(handler: extern "C" fn(i32), done: &'static AtomicBool) -> std::thread::JoinHandle<()> {
    // SAFETY: the action is plain numbers, for which zero is valid, and the handler lives as long as the program.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    // SAFETY: takes nothing and cannot fail.
    let thread = unsafe { libc::pthread_self() };
    std::thread::spawn(move || {
        let (mut seen, mut since) = (0, Instant::now());
        while !done.load(Ordering::Relaxed) {
            // SAFETY: the thread waits for this one before it ends.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            std::thread::yield_now();
            let handled = HANDLED.load(Ordering::Relaxed);
            if handled != seen {
                (seen, since) = (handled, Instant::now());
            }
            if since.elapsed() > STALLED {
                eprintln!("no signal is handled any more after {handled}: the thread waits for itself");
                std::process::abort();
            }
        }
    })
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicBool = AtomicBool::new(false);

/// Calls of the handler, each with a callsite of its own.
const FRESH: usize = 4000;
/// Descriptions of callsites, which are made before the first signal: a handler must not allocate.
static DESCRIPTIONS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();

fn describe(line: usize) -> Vec<u8> {
    let field = Field {
        name: "number".to_owned(),
        kind: FieldKind::plain(Kind::U64),
        argument: true,
    };
    Callsite {
        level: Level::Info,
        line: line as u32,
        file: "signals.rs".to_owned(),
        message: "from line {}".to_owned(),
        fields: vec![field],
        ..Callsite::default()
    }
    .encode()
    .unwrap()
}

/// One call of a callsite that the logger may not know yet.
fn call(line: usize) {
    let description = DESCRIPTIONS.get().and_then(|all| all.get(line));
    if let Some(description) = description {
        CALLS.fetch_add(1, Ordering::Relaxed);
        if let Some(site) = ForeignSite::intern(description)
            && site.admit()
        {
            site.write(&(line as u64).to_le_bytes());
        }
    }
}

/// The first half of the lines are the handler's.
extern "C" fn call_a_fresh_callsite(_: i32) {
    let handled = HANDLED.fetch_add(1, Ordering::Relaxed);
    if handled < FRESH {
        call(handled);
    }
}

fn register_under_fire(dir: &Path) {
    let guard = start(dir);
    DESCRIPTIONS.set((0..2 * FRESH).map(describe).collect()).unwrap();
    let sender = interrupt(call_a_fresh_callsite, &DONE);
    let mut made = 0;
    while HANDLED.load(Ordering::Relaxed) < FRESH || made < FRESH {
        call(FRESH + made % FRESH);
        made += 1;
        // Another call of the logger that takes its locks. Nothing here allocates: a handler with a new callsite may
        // not interrupt the program's own calls of the allocator.
        if made.is_multiple_of(1024) {
            assert!(logdrive::flush());
        }
    }
    DONE.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    let (stopped, stats) = guard.stop().unwrap();
    assert_eq!(stopped, Stopped::Complete);
    let calls = CALLS.load(Ordering::Relaxed) as u64;
    assert_eq!(stats.committed + stats.dropped_calls(), calls, "{stats:?}");
    let reentrant = stats.dropped[logdrive_ring::DropReason::Reentrant as usize];
    assert_eq!(
        stats.dropped_calls(),
        reentrant,
        "nothing else is dropped: {stats:?}"
    );
    assert!(
        stats.committed > calls / 2,
        "most calls interrupt no other: {stats:?}"
    );
}

#[test]
fn a_handler_with_fresh_callsites_never_waits_for_the_call_that_it_interrupts() {
    play(
        "a_handler_with_fresh_callsites_never_waits_for_the_call_that_it_interrupts",
        register_under_fire,
    );
}

/// Forks, each in a handler that interrupts a thread which does nothing but log.
const FORKS: usize = 100;
/// Calls of the parent between two forks.
const CALLS_BETWEEN: usize = 200;
/// Lines of each child.
const CHILD_LINES: usize = 10;
static IS_CHILD: AtomicBool = AtomicBool::new(false);
static CHILDREN: [AtomicI32; FORKS] = [const { AtomicI32::new(0) }; FORKS];
static FORKED: AtomicUsize = AtomicUsize::new(0);
/// Calls of the interrupted thread, as it has made them.
static MADE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn fork_now(_: i32) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    let forked = FORKED.load(Ordering::Relaxed);
    if IS_CHILD.load(Ordering::Relaxed) || MADE.load(Ordering::Relaxed) < forked * CALLS_BETWEEN {
        return;
    }
    let Some(child) = CHILDREN.get(forked) else { return };
    // SAFETY: the child goes on in the code that was interrupted, which is what this test is about.
    match unsafe { libc::fork() } {
        0 => IS_CHILD.store(true, Ordering::Relaxed),
        pid => {
            child.store(pid, Ordering::Relaxed);
            FORKED.store(forked + 1, Ordering::Relaxed);
        }
    }
}

fn fork_under_fire(dir: &Path) {
    let mut guard = Some(start(dir));
    logdrive::info!("| first {}", 0);
    let sender = interrupt(fork_now, &DONE);
    let mut made = 0;
    while FORKED.load(Ordering::Relaxed) < FORKS {
        logdrive::info!(
            "| parent {} {}",
            made,
            "with a text that makes the record longer than a few words"
        );
        made += 1;
        MADE.store(made, Ordering::Relaxed);
        if IS_CHILD.load(Ordering::Relaxed) {
            (0..CHILD_LINES).for_each(|number| logdrive::info!("| child {}", number));
            let stopped = guard.take().unwrap().stop();
            let is_whole = stopped.is_some_and(|(stopped, stats)| {
                // The call that was interrupted may be made anew, as one of the child's own.
                stopped == Stopped::Complete && stats.committed >= CHILD_LINES as u64
            });
            // SAFETY: ends the process at once; nothing of the parent runs on here.
            unsafe { libc::_exit(i32::from(!is_whole)) }
        }
    }
    DONE.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    for child in &CHILDREN {
        let mut status = 0;
        let pid = child.load(Ordering::Relaxed);
        // SAFETY: `status` lives as long as the call.
        let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
        assert_eq!((waited, status), (pid, 0), "a child has failed");
    }
    let (stopped, stats) = guard.take().unwrap().stop().unwrap();
    assert_eq!(stopped, Stopped::Complete);
    assert_eq!(
        (stats.committed, stats.dropped_calls()),
        (made as u64 + 1, 0),
        "{stats:?}"
    );
    std::fs::write(dir.join("made"), made.to_string()).unwrap();
}

#[test]
fn a_fork_in_a_handler_takes_nothing_from_the_ring_of_the_parent() {
    let test = "a_fork_in_a_handler_takes_nothing_from_the_ring_of_the_parent";
    let Some(dir) = play(test, fork_under_fire) else {
        return;
    };
    let made: usize = std::fs::read_to_string(dir.path().join("made"))
        .unwrap()
        .parse()
        .unwrap();
    let mut found = BTreeMap::<String, u32>::new();
    let text = std::fs::read_to_string(dir.path().join("app.log")).unwrap();
    for line in text.lines().filter(|line| !line.contains(" logdrive ")) {
        let (_, message) = line
            .split_once(" | parent ")
            .or(line.split_once(" | first "))
            .unwrap();
        *found.entry(message.to_owned()).or_default() += 1;
    }
    assert_eq!(found.len(), made + 1);
    assert!(found.values().all(|times| *times == 1), "each line once");
}
