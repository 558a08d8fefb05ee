//! Whole agents and programs, all of them real processes: killed in turn, while records come. Every record is in the log
//! once.

mod processes;

use logdrive_agent::config::AgentConfig;
use logdrive_drain::Overflow;
use logdrive_testkit::{end_of_input, report, wait_until};
use processes::{config, init, part, play_agent, start};
use std::path::{Path, PathBuf};
use std::sync::Barrier;

/// Configures an agent that holds records back: the disk of a busy machine is slower than the program, and each record is
/// expected.
fn holding(dir: &Path) -> AgentConfig {
    let mut config = config(dir);
    for sink in &mut config.sinks {
        sink.options.overflow = Overflow::Hold;
    }
    config
}

fn log_file(dir: &Path) -> PathBuf {
    dir.join("logs/program.log")
}

/// Plays the part of an agent or of a program, if this process is one.
fn plays() -> bool {
    let Some((part, dir)) = part() else {
        return false;
    };
    let dir = dir.as_path();
    match part.as_str() {
        "agent" => play_agent(holding(dir)),
        "kill-me" => play_program(dir, "killed"),
        "threads" => play_threads(dir),
        _ => play_program(dir, "lives"),
    }
    true
}

/// Bytes of the rings that this process has.
fn rings_bytes() -> u64 {
    let links = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    let is_ring = |path: &PathBuf| {
        std::fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains("logdrive-ring"))
    };
    let rings = links.map(|link| link.path()).filter(is_ring);
    rings
        .map(|path| std::fs::metadata(path).expect("a ring").len())
        .sum()
}

/// Threads that all live at once.
const THREADS: usize = 40;
/// Records that each of them logs in a burst: several small rings full.
const BURST: u64 = 5_000;

/// Logs a record in each of many threads, says how many bytes their rings have, and logs more than these hold.
fn play_threads(dir: &Path) {
    let guard = init("program", dir);
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let barrier = &barrier;
            scope.spawn(move || {
                let who = format!("t{thread}");
                logdrive::info!(who, number = 0u64, "counted");
                barrier.wait();
                if thread == 0 {
                    report(&format!("rings {}", rings_bytes()));
                }
                barrier.wait();
                for number in 1..BURST {
                    logdrive::info!(who, number, "counted");
                }
            });
        }
    });
    assert_eq!(guard.stop().expect("it ran").0, logdrive::Stopped::Complete);
}

/// Logs numbers until its input ends, and says now and then how far it is.
fn play_program(dir: &Path, name: &'static str) {
    let guard = init("program", dir);
    assert!(logdrive::session_path().is_none(), "an agent has the session");
    let over = end_of_input();
    let mut number = 0u64;
    while over.try_recv().is_err() {
        logdrive::info!(who = name, number, "counted");
        number += 1;
        if number.is_multiple_of(2000) {
            report(&format!("at {number}"));
        }
    }
    if name == "lives" {
        let stopped = guard.stop().expect("it ran").0;
        assert_eq!(stopped, logdrive::Stopped::Complete);
        std::fs::write(dir.join("count"), number.to_string()).expect("written");
    }
}

/// The numbers of one program in the log, in the order of the lines.
fn numbers(text: &str, who: &str) -> Vec<u64> {
    let mark = format!("who={who} number=");
    text.lines()
        .filter_map(|line| line.split_once(&mark)?.1.split_whitespace().next()?.parse().ok())
        .collect()
}

#[track_caller]
fn are_all_once(found: &[u64], at_least: u64) {
    assert!(found.len() as u64 >= at_least, "{} of {at_least}", found.len());
    for (expected, number) in found.iter().enumerate() {
        assert_eq!(*number, expected as u64, "line {expected} of {}", found.len());
    }
}

#[test]
fn an_agent_that_is_killed_again_and_again_loses_nothing_and_writes_nothing_twice() {
    const NAME: &str = "an_agent_that_is_killed_again_and_again_loses_nothing_and_writes_nothing_twice";
    if plays() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let dir = keep.path();
    let mut agent = start(NAME, "agent", dir);
    agent.expect("ready");
    let mut program = start(NAME, "program", dir);
    program.expect("at ");
    for _ in 0..6 {
        agent.kill();
        // The program goes on meanwhile, until its ring is full.
        agent = start(NAME, "agent", dir);
        agent.expect("ready");
        // Some thousand records: with a full ring they come only when the agent has adopted the session.
        for _ in 0..20 {
            program.expect("at ");
        }
    }
    program.end();
    let count: u64 = std::fs::read_to_string(dir.join("count"))
        .expect("it was written")
        .parse()
        .expect("a number");
    agent.end();
    let text = std::fs::read_to_string(log_file(dir)).expect("a log");
    let found = numbers(&text, "lives");
    are_all_once(&found, count);
    assert_eq!(found.len() as u64, count);
    assert!(!dir.join("own.log").exists());
}

#[test]
fn what_killed_programs_have_logged_is_in_the_log_with_a_line_that_says_how_they_ended() {
    const NAME: &str = "what_killed_programs_have_logged_is_in_the_log_with_a_line_that_says_how_they_ended";
    if plays() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let dir = keep.path();
    let mut agent = start(NAME, "agent", dir);
    agent.expect("ready");
    let mut told = 0;
    for _ in 0..4 {
        let mut program = start(NAME, "kill-me", dir);
        for _ in 0..3 {
            program.expect("at ");
        }
        let pid = program.pid();
        program.kill();
        let word = format!("process {pid} of program was ended by signal 9 (SIGKILL); thread ");
        wait_until("the log names the end", || {
            std::fs::read_to_string(log_file(dir))
                .unwrap_or_default()
                .contains(&word)
        });
        told += 1;
    }
    agent.end();
    let text = std::fs::read_to_string(log_file(dir)).expect("a log");
    let found = numbers(&text, "killed");
    let starts: Vec<usize> = (0..found.len()).filter(|place| found[*place] == 0).collect();
    assert_eq!(starts.len(), told, "one sequence of each program");
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(found.len());
        are_all_once(&found[*start..end], 6000);
    }
}

/// Each thread had a ring of the largest size from its first record on.
#[test]
fn threads_begin_with_small_rings_and_go_on_in_larger_ones_in_order() {
    const NAME: &str = "threads_begin_with_small_rings_and_go_on_in_larger_ones_in_order";
    if plays() {
        return;
    }
    let dir = logdrive_testkit::directory();
    let mut agent = start(NAME, "agent", dir.path());
    agent.expect("ready");
    let mut program = start(NAME, "threads", dir.path());
    let bytes = program.expect("rings ");
    let bytes: u64 = bytes.parse().expect("a number");
    program.end();
    agent.end();
    assert!(bytes < THREADS as u64 * (1 << 20) / 2, "{bytes} bytes of rings");
    let text = std::fs::read_to_string(log_file(dir.path())).expect("the log");
    for thread in 0..THREADS {
        assert!(
            numbers(&text, &format!("t{thread}")).into_iter().eq(0..BURST),
            "thread {thread}"
        );
    }
}
