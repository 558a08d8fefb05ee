//! A program that forks while an agent has its session: the child gets a session of its own, and both logs are whole.

mod processes;

use logdrive_agent::Agent;
use logdrive_testkit::wait_until;
use processes::{config, init, part, start};
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lines of each process before a fork, behind it, and in its child.
const LINES: u64 = 500;
/// Children, one after the other.
const CHILDREN: u64 = 5;
/// Child that ends by `_exit`, without a word to its logger, and its status.
const EXITING: u64 = 2;
const EXIT_STATUS: i32 = 7;
/// Child that executes another program.
const EXECUTING: u64 = 3;

fn log(who: &str) {
    (0..LINES).for_each(|number| logdrive::info!("| {} {}", who, number));
}

/// Plays the program, if this process is it.
fn plays() -> bool {
    let Some((_, dir)) = part() else {
        return false;
    };
    let guard = init("forks", &dir);
    let mut guard = Some(guard);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Another thread logs all the time, so that it may be anywhere at a fork.
        scope.spawn(|| {
            // Relaxed: a word to stop.
            while !over.load(Ordering::Relaxed) {
                logdrive::info!("of the other thread");
            }
        });
        log("parent-before");
        for number in 0..CHILDREN {
            // SAFETY: the child goes on in this thread only, uses what the logger promises to a child of `fork`, and ends
            // without a return.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                child(guard.take(), number);
            }
            let mut status = 0;
            // SAFETY: waits for our own child, and writes to a variable of ours.
            let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
            let expected = if number == EXITING { EXIT_STATUS << 8 } else { 0 };
            assert_eq!((waited, status), (pid, expected), "child {number}");
            log(&format!("parent-behind-{number}"));
        }
        over.store(true, Ordering::Relaxed);
    });
    let stopped = guard.and_then(logdrive::Guard::stop).expect("it ran").0;
    assert_eq!(stopped, logdrive::Stopped::Complete);
    true
}

fn child(guard: Option<logdrive::Guard>, number: u64) -> ! {
    if number == EXITING || number == EXECUTING {
        log(&format!("child-{number}"));
        if number == EXECUTING {
            let _failed = std::process::Command::new("true").exec();
        }
        // SAFETY: as below.
        unsafe { libc::_exit(EXIT_STATUS) }
    }
    let work = std::panic::AssertUnwindSafe(|| {
        log(&format!("child-{number}"));
        assert!(
            logdrive::session_path().is_none(),
            "the agent has this session, too"
        );
        let stopped = guard.and_then(logdrive::Guard::stop).expect("it ran").0;
        assert_eq!(stopped, logdrive::Stopped::Complete);
    });
    let failed = std::panic::catch_unwind(work).is_err();
    // SAFETY: ends the process at once; neither the test harness nor anything else of the parent runs on here.
    unsafe { libc::_exit(i32::from(failed)) }
}

#[test]
fn a_forked_process_joins_the_agent_for_itself() {
    const NAME: &str = "a_forked_process_joins_the_agent_for_itself";
    if plays() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let dir = keep.path();
    let mut agent = Agent::start(config(dir)).expect("an agent");
    let mut program = start(NAME, "program", dir);
    let status = loop {
        agent.turn();
        if let Some(status) = program.try_wait() {
            break status;
        }
    };
    assert!(status.success(), "{status}");
    wait_until("the ends of all are seen", || {
        agent.turn();
        agent.sessions().is_empty()
    });
    assert_eq!(agent.stop(), logdrive::Stopped::Complete);
    let text = std::fs::read_to_string(dir.join("logs/forks.log")).expect("a log");
    let mut parts: Vec<String> = (0..CHILDREN)
        .flat_map(|number| [format!("child-{number}"), format!("parent-behind-{number}")])
        .collect();
    parts.push("parent-before".to_owned());
    for part in parts {
        let mark = format!("| {part} ");
        let numbers: Vec<u64> = text
            .lines()
            .filter_map(|line| line.split_once(&mark)?.1.parse().ok())
            .collect();
        assert!(
            numbers.iter().copied().eq(0..LINES),
            "{part}: {} lines",
            numbers.len()
        );
    }
    let ends = text.matches(" of forks exited with status 7").count();
    assert_eq!(ends, 1, "a child's end is told");
    assert!(!dir.join("own.log").exists(), "nobody writes a log itself");
}
