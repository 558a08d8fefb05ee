//! Ends of programs that have said goodbye to their agent: the log says the true end, once, and nothing of a success.

use logdrive_agent::Agent;
use logdrive_agent::config::{AgentConfig, Places};
use logdrive_testkit::{Process, end_of_input, report, role, wait_until};
use std::path::Path;

const NAME: &str = "the_log_names_the_true_end_of_a_program_that_said_goodbye_once";

fn play_agent(dir: &Path) {
    let config = AgentConfig::at(&Places {
        socket: dir.join("sock/agent.sock"),
        run_dir: dir.join("run"),
        log_dir: dir.join("logs"),
    });
    let mut agent = Agent::start(config).expect("an agent");
    report("ready");
    let over = end_of_input();
    while over.try_recv().is_err() {
        agent.turn();
    }
    assert_eq!(agent.stop(), logdrive::Stopped::Complete);
}

/// Logs, and ends in this way.
fn play_program(dir: &Path, end: &str) {
    let start = || {
        logdrive::builder("program")
            .use_env(false)
            .agent(dir.join("sock/agent.sock"))
            .agent_timeout(std::time::Duration::from_secs(60))
            .run_dir(dir.join("own"))
            .file(logdrive::File::new(dir.join("own.log")))
            .init()
            .expect("it starts")
    };
    let guard = start();
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
            drop(start());
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

fn plays() -> bool {
    let Some(text) = role() else {
        return false;
    };
    let (part, dir) = text.split_once('|').expect("a part and a directory");
    match part {
        "agent" => play_agent(Path::new(dir)),
        end => play_program(Path::new(dir), end),
    }
    true
}

#[test]
fn the_log_names_the_true_end_of_a_program_that_said_goodbye_once() {
    if plays() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let dir = keep.path();
    let start = |part: &str| Process::in_role(NAME, &format!("{part}|{}", dir.display()));
    let mut agent = start("agent");
    agent.expect("ready");
    let mut all = Vec::new();
    for (end, signal, words) in [
        ("success", None, None),
        ("exit", None, Some("exited with status 3")),
        ("late exit", None, Some("exited with status 4")),
        ("signal", Some("TERM"), Some("was ended by signal 15 (SIGTERM)")),
        ("late kill", Some("KILL"), Some("was ended by signal 9 (SIGKILL)")),
    ] {
        let mut program = start(end);
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
