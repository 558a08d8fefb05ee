//! Ends of programs that have said goodbye to their agent: the log says the true end, once, and nothing of a success.

mod processes;

use logdrive_testkit::{report, wait_until};
use processes::{config, init, part, play_agent, start};
use std::path::Path;

const NAME: &str = "the_log_names_the_true_end_of_a_program_that_said_goodbye_once";

/// Logs, and ends in this way.
fn play_program(dir: &Path, end: &str) {
    let guard = init("program", dir);
    logdrive::info!("it ends by {}", end);
    match end {
        "exit" => std::process::exit(3),
        "late exit" => {
            drop(guard);
            std::process::exit(4);
        }
        "signal" => {
            report("waits");
            wait_for_signal();
        }
        "late kill" => {
            // Two sessions of one process, which ends once.
            drop(guard);
            drop(init("program", dir));
            report("waits");
            wait_for_signal();
        }
        _ => drop(guard),
    }
}

fn wait_for_signal() -> ! {
    loop {
        std::thread::park();
    }
}

#[test]
fn the_log_names_the_true_end_of_a_program_that_said_goodbye_once() {
    if let Some((part, dir)) = part() {
        return match part.as_str() {
            "agent" => play_agent(config(&dir)),
            end => play_program(&dir, end),
        };
    }
    let keep = tempfile::tempdir().expect("a directory");
    let dir = keep.path();
    let mut agent = start(NAME, "agent", dir);
    agent.expect("ready");
    let mut all = Vec::new();
    for (end, signal, words) in [
        ("success", None, None),
        ("exit", None, Some("exited with status 3")),
        ("late exit", None, Some("exited with status 4")),
        ("signal", Some("TERM"), Some("was ended by signal 15 (SIGTERM)")),
        ("late kill", Some("KILL"), Some("was ended by signal 9 (SIGKILL)")),
    ] {
        let mut program = start(NAME, end, dir);
        let pid = program.pid();
        if let Some(signal) = signal {
            program.expect("waits");
            let sent = std::process::Command::new("kill")
                .args([&format!("-{signal}"), &pid.to_string()])
                .status();
            assert!(sent.expect("a command").success());
        }
        program.wait();
        all.push((format!("process {pid} of program"), words));
    }
    let text = || std::fs::read_to_string(dir.join("logs/program.log")).unwrap_or_default();
    wait_until("all ends are told", || {
        let text = text();
        let told = |(process, words): &(String, Option<&str>)| {
            words.is_none_or(|words| text.contains(&format!("{process} {words}")))
        };
        all.iter().all(told)
    });
    agent.end();
    let text = text();
    for (process, words) in all {
        let told = text.lines().filter(|line| line.contains(&process)).count();
        assert_eq!(told, usize::from(words.is_some()), "{process} in:\n{text}");
    }
    assert!(!dir.join("own.log").exists(), "the agent had all sessions");
}
