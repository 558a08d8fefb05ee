//! Roles of this program: a process that a workload starts is this program again, with the name of its role and the
//! role's words on the command line. It reports to its parent in lines, see [`logdrive_testkit::report`].

use std::process::Command;

use logdrive_testkit::Process;

use crate::{Result, ends, harness, subjects, workloads};

/// Plays a role, to its end, with the words behind its name.
type Role = fn(&[String]) -> Result<()>;

/// Every role, by its first word on the command line.
const ROLES: [(&str, Role); 8] = [
    (harness::child::MEASURE, harness::child::serve),
    (ends::RECEIVE, ends::serve),
    (subjects::agent::AGENT, subjects::agent::serve),
    (workloads::agent::LOAD, workloads::agent::play_load),
    (workloads::agent::QUIET, workloads::agent::play_quiet),
    (workloads::agent_run::PRINT, workloads::agent_run::print),
    (workloads::agent_run::RUN, workloads::agent_run::run_around),
    (workloads::hang::slow_fs::SERVE, workloads::hang::slow_fs::serve),
];

/// Plays the role that the command line names, to its end; `None` where it names none.
#[must_use]
pub fn play() -> Option<Result<()>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (name, words) = words.split_first()?;
    let (_, role) = ROLES.iter().find(|(role, _)| role == name)?;
    Some(role(words))
}

/// Returns a command that starts this program in a role.
pub fn command(role: &str, words: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(role).args(words);
    Ok(command)
}

/// Starts this program in a role, and blocks until it reports that it is ready. Panics where it ends before.
pub fn start(role: &str, words: &[&str]) -> Result<Process> {
    let mut process = Process::spawn(&mut command(role, words)?);
    process.expect("ready");
    Ok(process)
}
