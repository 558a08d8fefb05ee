//! Programs in containers, and what of their log survives which end: each claim of `docs/containers.md`. A container is a
//! process namespace and a mount namespace with a `/dev/shm` of its own, which ends with its first process. The directory
//! of a test is the volume.
#![cfg(target_os = "linux")]

mod support;

use logdrive_testkit::{
    Process, directory, in_namespaces, report, role, this_test_as, wait_for_input, wait_until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use support::agent::{Agent, ONE_FILE, log_of, place, socket};

/// The volume.
const DIR: &str = "LOGDRIVE_TEST_CONTAINER_DIR";
/// Directory of sessions, if it is not the default.
const RUN_DIR: &str = "LOGDRIVE_TEST_CONTAINER_RUN";
/// The agent's socket, if there is one.
const AGENT: &str = "LOGDRIVE_TEST_CONTAINER_AGENT";
const RECORDS: u64 = 1_000;

/// A `/dev/shm` as Docker and Kubernetes make it, with the name that they give it.
const OWN_SHM: &str = "mount -t tmpfs -o size=64m,mode=1777 shm /dev/shm";
/// Memory of another name, as that of a host or of a volume.
const OTHER_SHM: &str = "mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm";

/// The program in the container: logs, and has nothing of it written for an hour.
fn program(name: &str) {
    let dir = PathBuf::from(std::env::var_os(DIR).expect("a directory"));
    let mut builder = logdrive::builder("shop")
        .use_env(false)
        .full(logdrive::Full::Block)
        .flush_every(Duration::from_secs(3600))
        .file(logdrive::File::new(dir.join("shop.log")));
    if let Some(run_dir) = std::env::var_os(RUN_DIR) {
        builder = builder.run_dir(run_dir);
    }
    if let Some(agent) = std::env::var_os(AGENT) {
        builder = builder.agent(agent);
    }
    let guard = builder.init().expect("it starts");
    for number in 0..RECORDS {
        logdrive::info!("| {} {}", name, number);
    }
    report("logged");
    wait_for_input();
    drop(guard);
    report("ended");
}

/// Runs the program in a container; `None` where this process may not make any.
fn container(
    test: &str,
    name: &str,
    shm: &str,
    dir: &Path,
    variable: Option<(&str, &Path)>,
) -> Option<Process> {
    let mut command: Command = this_test_as(test, name);
    command.env(DIR, dir).envs(variable);
    let mut program = Process::spawn(&mut in_namespaces(shm, true, &command)?);
    program.expect("logged");
    Some(program)
}

/// The first process of a container, under the number that it has outside.
fn first_process(container: &Process) -> Pid {
    let pid = container.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its children");
    Pid::from_raw(children.trim().parse().expect("one")).expect("a number")
}

/// Records of a program in a log.
fn records(log: &str, name: &str) -> u64 {
    log.matches(&format!("| {name} ")).count() as u64
}

/// Kills the program of one container, then runs another one that ends in order; returns the records of both.
fn kill_and_start_again(test: &str, shm: &str, run_dir: Option<&str>) -> Option<(u64, u64)> {
    let dir = directory();
    let run_dir = run_dir.map(|name| dir.path().join(name));
    let variable = run_dir.as_deref().map(|run_dir| (RUN_DIR, run_dir));
    let shm = shm.replace("VOLUME", &dir.path().display().to_string());
    let mut killed = container(test, "first", &shm, dir.path(), variable)?;
    kill_process(first_process(&killed), Signal::KILL).expect("it runs");
    killed.wait();
    let mut next = container(test, "second", &shm, dir.path(), variable)?;
    next.send("end");
    next.expect("ended");
    next.end();
    let log = std::fs::read_to_string(dir.path().join("shop.log")).expect("the log");
    Some((records(&log, "first"), records(&log, "second")))
}

#[test]
fn sigkill_with_a_private_shm_loses_what_was_not_written() {
    const TEST: &str = "sigkill_with_a_private_shm_loses_what_was_not_written";
    if let Some(name) = role() {
        return program(&name);
    }
    if let Some(counts) = kill_and_start_again(TEST, OWN_SHM, None) {
        assert_eq!(counts, (0, RECORDS), "which is why the page names the cures");
    }
}

/// A session on the volume, which may be on a disk, and one in memory that is not the container's own are other cases.
#[test]
fn the_log_says_once_that_a_container_takes_its_session_with_it() {
    const TEST: &str = "the_log_says_once_that_a_container_takes_its_session_with_it";
    if let Some(name) = role() {
        return program(&name);
    }
    for (shm, run_dir, expected) in [
        (OWN_SHM, None, 1),
        (OWN_SHM, Some("run"), 0),
        (OTHER_SHM, None, 0),
    ] {
        let dir = directory();
        let run_dir = run_dir.map(|name| dir.path().join(name));
        let variable = run_dir.as_deref().map(|run_dir| (RUN_DIR, run_dir));
        let Some(mut program) = container(TEST, "only", shm, dir.path(), variable) else {
            return;
        };
        program.send("end");
        program.expect("ended");
        program.end();
        let log = std::fs::read_to_string(dir.path().join("shop.log")).expect("the log");
        let told = log.matches("in the /dev/shm of a container").count();
        assert_eq!(told, expected, "{shm}: {log}");
    }
}

#[test]
fn sigkill_with_a_run_directory_on_a_volume_loses_nothing() {
    const TEST: &str = "sigkill_with_a_run_directory_on_a_volume_loses_nothing";
    if let Some(name) = role() {
        return program(&name);
    }
    if let Some(counts) = kill_and_start_again(TEST, OWN_SHM, Some("run")) {
        assert_eq!(counts, (RECORDS, RECORDS));
    }
}

#[test]
fn sigkill_with_memory_of_the_host_as_shm_loses_nothing() {
    const TEST: &str = "sigkill_with_memory_of_the_host_as_shm_loses_nothing";
    if let Some(name) = role() {
        return program(&name);
    }
    let shm = "mkdir -p VOLUME/shm; mount --bind VOLUME/shm /dev/shm";
    if let Some(counts) = kill_and_start_again(TEST, shm, None) {
        assert_eq!(counts, (RECORDS, RECORDS));
    }
}

#[test]
fn sigterm_has_the_log_of_a_container_written() {
    const TEST: &str = "sigterm_has_the_log_of_a_container_written";
    if let Some(name) = role() {
        return program(&name);
    }
    let dir = directory();
    let Some(mut program) = container(TEST, "only", OWN_SHM, dir.path(), None) else {
        return;
    };
    kill_process(first_process(&program), Signal::TERM).expect("it runs");
    wait_until("the log is written", || {
        let log = std::fs::read_to_string(dir.path().join("shop.log")).unwrap_or_default();
        records(&log, "only") == RECORDS
    });
    // The kernel keeps a first process from signals without a handler of its own, so that it goes on.
    kill_process(first_process(&program), Signal::KILL).expect("it runs");
    program.wait();
}

#[test]
fn sigkill_with_an_agent_on_the_host_loses_nothing() {
    const TEST: &str = "sigkill_with_an_agent_on_the_host_loses_nothing";
    if let Some(name) = role() {
        return program(&name);
    }
    let dir = place(ONE_FILE);
    let agent = Agent::start(dir.path());
    let socket = socket(dir.path());
    let Some(mut killed) = container(TEST, "first", OWN_SHM, dir.path(), Some((AGENT, &socket))) else {
        return;
    };
    kill_process(first_process(&killed), Signal::KILL).expect("it runs");
    killed.wait();
    wait_until("the agent has written all", || {
        records(&log_of(dir.path(), "shop"), "first") == RECORDS
    });
    drop(agent);
    assert!(
        !dir.path().join("shop.log").exists(),
        "the container had no file of its own"
    );
}

/// Both are number 1 of their own process namespaces.
#[test]
fn containers_share_a_run_directory_and_leave_each_others_sessions_alone() {
    const TEST: &str = "containers_share_a_run_directory_and_leave_each_others_sessions_alone";
    if let Some(name) = role() {
        return program(&name);
    }
    let dir = directory();
    let run_dir = dir.path().join("run");
    let start = |name| container(TEST, name, OWN_SHM, dir.path(), Some((RUN_DIR, &run_dir)));
    let Some(mut first) = start("first") else { return };
    let end = |mut program: Process| {
        program.send("end");
        program.expect("ended");
        program.end();
    };
    end(start("second").expect("as before"));
    // It lives: a start beside it has taken nothing of it.
    first.send("end");
    first.expect("ended");
    first.end();
    end(start("third").expect("as before"));
    let files = std::fs::read_dir(dir.path()).expect("the volume").flatten();
    let logs = files.filter(|file| file.path().extension().is_some_and(|kind| kind == "log"));
    let text: String = logs
        .map(|log| std::fs::read_to_string(log.path()).expect("a log"))
        .collect();
    for name in ["first", "second", "third"] {
        assert_eq!(records(&text, name), RECORDS, "{name}");
    }
    assert!(
        !text.contains("without a word"),
        "nobody was taken for dead: {text}"
    );
}
