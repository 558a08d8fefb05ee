//! `logdrive agent` with real programs: they log through it, are killed, and so is it; every record is in the log once.

mod support;

use logdrive_testkit::{DEADLINE, Process, report, this_test, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use support::agent::{Agent, place};

/// Set for the program that logs: the directory of the test.
const DIR: &str = "LOGDRIVE_AGENT_TEST_DIR";
/// Number of records that it logs in each of two threads.
const RECORDS: &str = "LOGDRIVE_AGENT_TEST_RECORDS";
/// Whether it waits to be killed.
const STAYS: &str = "LOGDRIVE_AGENT_TEST_STAYS";

/// Whether it waits for a line before it logs.
const WAITS: &str = "LOGDRIVE_AGENT_TEST_WAITS";

/// Does nothing, unless a test started it: then this is a program that logs through the agent.
#[test]
fn program() {
    let Some(dir) = std::env::var_os(DIR) else {
        return assert!(DEADLINE.as_secs() > 1);
    };
    let dir = Path::new(&dir);
    let records: u64 = std::env::var(RECORDS).unwrap().parse().unwrap();
    let guard = logdrive::builder("shop")
        .agent(dir.join("agent/agent.sock"))
        .agent_timeout(std::time::Duration::from_secs(60))
        .run_dir(dir.join("run"))
        .file(logdrive::File::new(dir.join("alone.log")))
        .full(logdrive::Full::Block)
        .init()
        .expect("logging starts");
    if std::env::var_os(WAITS).is_some() {
        report("JOINED");
        std::io::stdin().read_line(&mut String::new()).expect("a line");
    }
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            scope.spawn(move || {
                for number in 0..records {
                    logdrive::info!("order {thread}/{number} filled");
                    if number % 2_000 == 0 {
                        // Time for the other side to be killed in.
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    report("LOGGED");
    if std::env::var_os(STAYS).is_some() {
        loop {
            std::thread::park();
        }
    }
    drop(guard);
    // Before the test harness says something to a parent that listens no more.
    std::process::exit(0);
}

struct Program(Process);

impl Program {
    /// Starts it and waits until it has a session; it logs on command.
    fn start_waiting(dir: &Path, records: u64, stays: bool) -> Self {
        let mut program = Self::start_with(dir, records, stays, true);
        program.0.expect("JOINED");
        program
    }

    fn start(dir: &Path, records: u64, stays: bool) -> Self {
        Self::start_with(dir, records, stays, false)
    }

    fn start_with(dir: &Path, records: u64, stays: bool, waits: bool) -> Self {
        let mut command = this_test("program");
        command.env(DIR, dir).env(RECORDS, records.to_string());
        if stays {
            command.env(STAYS, "1");
        }
        if waits {
            command.env(WAITS, "1");
        }
        Self(Process::spawn(&mut command))
    }

    /// Waits until it has logged everything.
    fn logged(&mut self) {
        self.0.expect("LOGGED");
    }

    /// Lets it log, and waits until it has.
    fn goes(&mut self) {
        self.0.ask("go", "LOGGED");
        self.0.close_input();
    }

    fn kill(mut self) {
        self.0.kill();
    }
}

/// One log, with a sink that holds back: the disk of a busy machine is slower than the programs, and each record is expected.
const TABLES: &str = "[[sink]]\nname = \"main\"\ntype = \"file\"\npath = \"DIR/{app}.log\"\nrotate_bytes = \"1 GiB\"\noverflow = \"hold\"\n";

/// Returns how often each `thread/number` stands in the log.
fn orders(dir: &Path) -> BTreeMap<(u64, u64), u32> {
    orders_in(&dir.join("agent/shop.log"))
}

fn orders_in(log: &Path) -> BTreeMap<(u64, u64), u32> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let Some((_, rest)) = line.split_once("order ") else {
            continue;
        };
        let (order, end) = rest.split_once(' ').unwrap();
        assert_eq!(end, "filled", "a torn line: {line}");
        let (thread, number) = order.split_once('/').unwrap();
        *found
            .entry((thread.parse().unwrap(), number.parse().unwrap()))
            .or_default() += 1;
    }
    found
}

/// All orders of some runs of the program are there, each once for each run.
fn assert_whole(dir: &Path, records: u64, runs: u32) {
    let found = orders(dir);
    let missing = (0..2).flat_map(|thread| (0..records).map(move |number| (thread, number)));
    let missing: Vec<_> = missing
        .filter(|order| !found.contains_key(order))
        .take(5)
        .collect();
    let twice: Vec<_> = found
        .iter()
        .filter(|(_, count)| **count != runs)
        .take(5)
        .collect();
    assert!(
        missing.is_empty() && twice.is_empty(),
        "missing {missing:?}, not {runs} times {twice:?}"
    );
    assert!(!dir.join("alone.log").exists(), "it did not use the agent");
}

#[test]
fn programs_log_through_the_agent_and_end() {
    let dir = place(TABLES);
    let agent = Agent::start(dir.path());
    let mut programs: Vec<_> = (0..3).map(|_| Program::start(dir.path(), 5_000, false)).collect();
    for program in &mut programs {
        program.logged();
        assert!(program.0.wait().success());
    }
    agent.end();
    assert_whole(dir.path(), 5_000, 3);
}

#[test]
fn what_a_killed_program_had_logged_is_written_with_how_it_ended() {
    let dir = place(TABLES);
    let agent = Agent::start(dir.path());
    let mut program = Program::start(dir.path(), 3_000, true);
    program.logged();
    let pid = program.0.pid();
    program.kill();
    let log = dir.path().join("agent/shop.log");
    wait_until("the end", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains(&format!("process {pid} of shop was")))
    });
    assert_whole(dir.path(), 3_000, 1);
    agent.end();
}

#[test]
fn an_agent_that_is_killed_again_and_again_loses_nothing_and_writes_nothing_twice() {
    let dir = place(TABLES);
    let records = 60_000;
    let mut agent = Agent::start(dir.path());
    let mut program = Program::start(dir.path(), records, false);
    for round in 1..=6 {
        let before = orders(dir.path()).len();
        wait_until("more lines", || {
            let found = orders(dir.path()).len();
            found > before || found as u64 == 2 * records
        });
        agent.kill();
        agent = Agent::start(dir.path());
        assert!(round < 7);
    }
    program.logged();
    assert!(program.0.wait().success());
    agent.end();
    assert_whole(dir.path(), records, 1);
}

#[test]
fn two_agents_do_not_share_a_place() {
    let dir = place(TABLES);
    let agent = Agent::start(dir.path());
    let second = Command::new(env!("CARGO_BIN_EXE_logdrive"))
        .args(["agent", "--config"])
        .arg(dir.path().join("agent.toml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success());
    assert!(said.contains("belongs to another agent"), "{said}");
    agent.end();
}

/// The keeper holds nothing any more, and has ended.
fn keeper_has_ended(dir: &Path) {
    wait_until("the keeper to end", || {
        !dir.join("agent/state/keeper.sock").exists()
    });
}

#[test]
fn what_a_program_had_logged_is_written_when_it_is_killed_together_with_the_agent() {
    let dir = place(TABLES);
    let mut agent = Agent::start(dir.path());
    let rounds = 3;
    for _ in 0..rounds {
        // The agent takes nothing of what comes now, and neither of them gets to do anything more.
        let mut program = Program::start_waiting(dir.path(), 3_000, true);
        let pid = program.0.pid();
        agent.signal(Signal::STOP);
        program.goes();
        agent.kill();
        program.kill();
        agent = Agent::start(dir.path());
        let log = dir.path().join("agent/shop.log");
        wait_until("the end", || {
            fs::read_to_string(&log).is_ok_and(|text| text.contains(&format!("process {pid} of shop was")))
        });
    }
    agent.end();
    assert_whole(dir.path(), 3_000, rounds);
    keeper_has_ended(dir.path());
}

#[test]
fn a_keeper_that_is_killed_is_replaced_and_shown_everything() {
    let dir = place(TABLES);
    let agent = Agent::start(dir.path());
    let mut program = Program::start_waiting(dir.path(), 3_000, true);
    let lock = dir.path().join("agent/state/keeper.sock.lock");
    let keeper = || -> Option<i32> { fs::read_to_string(&lock).ok()?.trim().parse().ok() };
    wait_until("a keeper", || keeper().is_some());
    let first = keeper().unwrap();
    kill_process(Pid::from_raw(first).unwrap(), Signal::KILL).unwrap();
    wait_until("another keeper", || keeper().is_some_and(|pid| pid != first));
    // What it holds can only be seen by what the next agent gets from it.
    let second = keeper().unwrap();
    wait_until("the session is shown", || descriptors_of(second) >= 7);
    let pid = program.0.pid();
    agent.signal(Signal::STOP);
    program.goes();
    agent.kill();
    program.kill();
    let agent = Agent::start(dir.path());
    let log = dir.path().join("agent/shop.log");
    wait_until("the end", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains(&format!("process {pid} of shop was")))
    });
    agent.end();
    assert_whole(dir.path(), 3_000, 1);
    keeper_has_ended(dir.path());
}

/// Open memory files of a process.
fn descriptors_of(pid: i32) -> usize {
    let Ok(list) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return 0;
    };
    let is_memory = |entry: fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|path| path.to_string_lossy().contains("memfd:logdrive"))
    };
    list.filter_map(Result::ok)
        .map(is_memory)
        .filter(|is| *is)
        .count()
}

#[test]
fn a_program_that_ends_while_the_agent_is_gone_leaves_its_records_in_files() {
    let dir = place(TABLES);
    let agent = Agent::start(dir.path());
    let mut program = Program::start_waiting(dir.path(), 3_000, false);
    agent.kill();
    program.goes();
    assert!(program.0.wait().success());
    let recovered = Command::new(env!("CARGO_BIN_EXE_logdrive"))
        .args(["recover", "--all", "--run-dir"])
        .arg(dir.path().join("run"))
        .output()
        .unwrap();
    assert!(recovered.status.success(), "{recovered:?}");
    let found = orders_in(&dir.path().join("alone.log"));
    assert_eq!(found.len(), 6_000);
    assert!(found.values().all(|count| *count == 1), "each of them once");
    // The next agent gets the same memory from the keeper, and knows that it is done with.
    let agent = Agent::start(dir.path());
    keeper_holds_nothing(dir.path());
    agent.end();
    assert!(orders(dir.path()).is_empty());
    keeper_has_ended(dir.path());
}

fn keeper_holds_nothing(dir: &Path) {
    let lock = dir.join("agent/state/keeper.sock.lock");
    wait_until("the keeper to hold nothing", || {
        let pid = fs::read_to_string(&lock)
            .ok()
            .and_then(|text| text.trim().parse().ok());
        pid.is_some_and(|pid| descriptors_of(pid) == 0)
    });
}

#[test]
fn a_reload_changes_levels_and_nothing_when_the_file_is_wrong() {
    let dir = place(TABLES);
    let file = dir.path().join("agent.toml");
    let good = fs::read_to_string(&file).unwrap();
    let agent = Agent::start(dir.path());
    let mut program = Program::start_waiting(dir.path(), 1_000, false);
    let log = || fs::read_to_string(dir.path().join("agent/shop.log")).unwrap_or_default();
    fs::write(
        &file,
        format!("{good}\n[[level]]\nrules = \"off\"\n\n[[sink]]\nname = \"main\"\n"),
    )
    .unwrap();
    agent.signal(Signal::HUP);
    wait_until("the refusal", || {
        log().contains("the configuration stays as it was: the file is wrong")
    });
    // Nothing would be logged if the levels of the wrong file held.
    program.goes();
    assert!(program.0.wait().success());
    assert_whole(dir.path(), 1_000, 1);
    fs::write(&file, format!("{good}\n[[level]]\nrules = \"off\"\n")).unwrap();
    agent.signal(Signal::HUP);
    wait_until("the new configuration", || {
        log().contains("the configuration was read again")
    });
    let mut program = Program::start_waiting(dir.path(), 1_000, false);
    program.goes();
    assert!(program.0.wait().success());
    agent.end();
    assert_whole(dir.path(), 1_000, 1);
}

#[test]
fn two_agents_do_not_share_a_directory_of_log_files() {
    let dir = place(TABLES);
    let agent = Agent::start(dir.path());
    let other = dir.path().join("other.toml");
    let text = fs::read_to_string(dir.path().join("agent.toml")).unwrap();
    fs::create_dir(dir.path().join("second")).unwrap();
    let text = text
        .replace("/agent/agent.sock", "/second/agent.sock")
        .replace("/agent/state", "/second/state");
    fs::write(&other, text).unwrap();
    let second = Command::new(env!("CARGO_BIN_EXE_logdrive"))
        .args(["agent", "--config"])
        .arg(&other)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success());
    let expected = format!("belongs to another agent, process {}", agent.pid());
    assert!(said.contains(&expected), "{said}");
    agent.end();
}
