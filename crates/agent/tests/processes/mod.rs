//! Whole agents and programs as processes: the test program, started anew with a part to play in a directory.
#![allow(dead_code, reason = "each test program uses a part of it")]

use logdrive_agent::Agent;
use logdrive_agent::config::{AgentConfig, Places};
use logdrive_testkit::{Process, end_of_input, report, role};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Starts this test anew with a part to play.
pub(crate) fn start(test: &str, part: &str, dir: &Path) -> Process {
    Process::in_role(test, &format!("{part}|{}", dir.display()))
}

/// Returns the part that this process plays and its directory, if it was started with one.
pub(crate) fn part() -> Option<(String, PathBuf)> {
    let text = role()?;
    let (part, dir) = text.split_once('|').expect("a part and a directory");
    Some((part.to_owned(), PathBuf::from(dir)))
}

/// Configures an agent that has its socket, sessions and logs in this directory.
pub(crate) fn config(dir: &Path) -> AgentConfig {
    AgentConfig::at(&Places {
        socket: dir.join("sock/agent.sock"),
        run_dir: dir.join("run"),
        log_dir: dir.join("logs"),
    })
}

/// Runs an agent until the input of this process ends.
pub(crate) fn play_agent(config: AgentConfig) {
    let mut agent = Agent::start(config).expect("an agent");
    report("ready");
    let over = end_of_input();
    while over.try_recv().is_err() {
        agent.turn();
    }
    assert_eq!(agent.stop(), logdrive::Stopped::Complete);
}

/// Starts the logger of an application with the agent of this directory; a log of its own would show that it has none.
pub(crate) fn init(app: &str, dir: &Path) -> logdrive::Guard {
    logdrive::builder(app)
        .use_env(false)
        .agent(dir.join("sock/agent.sock"))
        .agent_timeout(Duration::from_secs(60))
        .full(logdrive::Full::Block)
        .run_dir(dir.join("own"))
        .file(logdrive::File::new(dir.join("own.log")))
        .init()
        .expect("it starts")
}
